"""A private training inside someone else's trainer: a sampler, an engine and what both have spent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.ledger import Ledger
from tightrope.audit.claims.judge import Audit
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.steps.summary import StepsSummary
from tightrope.curve.bracket import Bracket
from tightrope.errors import Described, InvalidSetting, NotPreciseEnough
from tightrope.integrations.metrics import MetricsLog, Spent
from tightrope.integrations.opacus import TightropeEngine, audit_training
from tightrope.integrations.opacus.steps import WATCH
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes, Share
from tightrope.setting.relation import Relation

INFINITE = float("inf")
# what a loader of the user's may go on deciding: none of it touches which records make a batch
KEPT_OPTIONS = (
    "num_workers",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
)


@dataclass(frozen=True, kw_only=True)
class PrivateParts:
    """What a trainer takes in the place of its own optimizer and loader."""

    optimizer: Any
    loader: Any


class PrivateSession:
    """Makes a model and its optimizer private, as often as a trainer starts, and adds up what that costs.

    The model stays the object it is: Opacus' hooks are put on it, and taken off by `close`.
    """

    def __init__(
        self,
        *,
        sampler: Passes,
        noise_multiplier: float,
        relation: Relation | str,
        delta: float,
        by: Certified = BY_DEFAULT,
        log: MetricsLog | None = None,
        log_every: int = 100,
    ) -> None:
        if not isinstance(sampler, Passes):
            must = "be one of tightrope.samplers, such as a PoissonSampler"
            raise InvalidSetting("sampler", sampler, must, "What other samplers draw is not known.")
        if isinstance(sampler, Share) and sampler.ranks > 1:
            remedy = (
                "Trainers share batches out in ways of their own. Several processes can train with "
                "TightropeEngine in a loop of yours."
            )
            raise InvalidSetting("sampler", sampler, "be a whole one, not one rank's share", remedy)
        self.sampler = sampler
        self.noise_multiplier = check.positive(noise_multiplier=noise_multiplier)
        self.delta = check.open_probability(delta=delta)
        self.engine = TightropeEngine(relation=relation, by=by)
        self._log, self._log_every = log, check.whole(least=1, log_every=log_every)
        self._logged = 0  # steps at the time of the last log
        self._handles: list[Any] = []
        self._hooks: Any = None

    # one training

    def make_private(
        self,
        *,
        module: Any,
        optimizer: Any,
        dataset: Any,
        max_grad_norm: float,
        loader_options: Mapping[str, Any],
    ) -> PrivateParts:
        """What to train with from now on; steps on anything else are refused."""
        self.close()
        hooks, private, loader = self.engine.make_private(
            module=module,
            optimizer=optimizer,
            dataset=dataset,
            sampler=self.sampler,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=max_grad_norm,
            loader_options=loader_options,
            wrap_model=False,
        )
        self._hooks = hooks
        watch = getattr(private, WATCH)
        self._handles = [_Closing(watch)]
        return PrivateParts(optimizer=private, loader=loader)

    def close(self) -> None:
        """Give the model back as it was. What was spent stays on record."""
        while self._handles:
            self._handles.pop().remove()
        if self._hooks is not None:
            self._hooks.cleanup()
            self._hooks = None

    # what is known

    @property
    def steps(self) -> StepsSummary:
        """What was seen of the steps."""
        return self.engine.steps

    @property
    def spent(self) -> Spent:
        """The cost so far, as far as it is proved."""
        steps, delta = self.engine.ledger.steps, self.delta
        if not steps:
            nothing = Bracket(0.0, 0.0)
            return Spent(epsilon=nothing, delta=delta, steps=0, verdict=Verdict.UNKNOWN)
        if self.steps.is_proof:
            epsilon = self.engine.epsilon(delta)
            return Spent(epsilon=epsilon, delta=delta, steps=steps, verdict=Verdict.MATCHES)
        return self._prove_nothing()

    def _prove_nothing(self) -> Spent:
        epsilon, steps = Bracket(0.0, INFINITE), self.engine.ledger.steps
        return Spent(epsilon=epsilon, delta=self.delta, steps=steps, verdict=Verdict.UNKNOWN)

    def metrics(self) -> dict[str, float]:
        """What is spent as numbers. A training of days does not end for one that cannot be certified."""
        try:
            return self.spent.metrics()
        except NotPreciseEnough:
            return self._prove_nothing().metrics()

    def audit(self) -> Audit:
        """The whole answer in words: what was accounted against what was run."""
        return audit_training(self.engine, delta=self.delta)

    # what is told

    def log_when_due(self, *logs: MetricsLog) -> bool:
        """Log after every `log_every` steps: an answer takes longer than a step of a small model."""
        if self.engine.ledger.steps < self._logged + self._log_every:
            return False
        return self.log_now(*logs)

    def log_now(self, *logs: MetricsLog) -> bool:
        """Log what is spent, once for each number of steps."""
        steps = self.engine.ledger.steps
        if steps == self._logged:
            return False
        self._logged, metrics = steps, self.metrics()
        for log in (*logs, *([] if self._log is None else [self._log])):
            log.log(metrics, steps)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The ledger and the state of the sampler, which with a seed is a secret."""
        return {"accountant": dict(self.engine.accountant.state_dict()), "sampler": self.sampler.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there. A refused state changes nothing."""
        for name in ("accountant", "sampler"):
            if not isinstance(state.get(name), Mapping):
                remedy = "The checkpoint is damaged, or was not written by a private training."
                must = f"hold the state of the {name}"
                raise InvalidSetting("state", Described("something else"), must, remedy)
        accountant = self.engine.accountant
        kept = self.engine.ledger
        fresh = type(accountant)(Ledger(relation=kept.relation, by=kept.by, schedule=kept.schedule))
        fresh.load_state_dict(state["accountant"])  # refuses what is damaged
        self.sampler.load_state_dict(state["sampler"])
        accountant.load_state_dict(state["accountant"])
        self._logged = self.engine.ledger.steps


class _Closing:
    """Something to be closed, where handles are removed."""

    def __init__(self, watch: Any) -> None:
        self._watch = watch

    def remove(self) -> None:
        self._watch.close()


def keep_options(loader: Any) -> dict[str, Any]:
    """The options of a loader that a private one may keep, its way to collate records among them."""
    given = {name: getattr(loader, name) for name in KEPT_OPTIONS if hasattr(loader, name)}
    return {"collate_fn": loader.collate_fn, **{name: value for name, value in given.items() if value}}
