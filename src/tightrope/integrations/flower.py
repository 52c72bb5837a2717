"""A certified accountant where Flower expects one."""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.ledger import Ledger
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.extras import MissingExtra
from tightrope.numerics import check
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.parts import run_of
from tightrope.setting.plain import plain_run
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, WithoutReplacement
from tightrope.setting.tables import Table
from tightrope.theorems.lookup import analyse

try:
    with warnings.catch_warnings():
        # Flower's command line uses names that click is about to drop; that is not ours to mend
        warnings.filterwarnings("ignore", message=".*click.*", category=DeprecationWarning)
        from flwr.serverapp import (
            GaussianPrivacyEvent,
            NeighboringRelation,
            PrivacyConfig,
            PrivacySpent,
            SamplingMethod,
        )
except ImportError as missing:
    raise MissingExtra("tightrope.integrations.flower", "Flower 1.40 or newer", "flower") from missing

ACCOUNTING_METHOD = "tightrope"
_STATE_VERSION = 1
_RELATIONS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: ADD_OR_REMOVE,
    NeighboringRelation.REPLACE_ONE: SUBSTITUTE,
}


@dataclass(frozen=True)
class AnyPrivacyConfig(PrivacyConfig):
    """Flower's privacy configuration with every sampling method under both relations."""

    def __post_init__(self) -> None:
        remedy = "It is usually below 1 / population_size."
        check.open_probability(remedy=remedy, target_delta=self.target_delta)
        check.whole(least=1, population_size=self.population_size)
        if self.max_epsilon is not None:
            check.positive(max_epsilon=self.max_epsilon)
        kinds = {"neighboring_relation": NeighboringRelation, "sampling_method": SamplingMethod}
        for name, kind in kinds.items():
            value, names = getattr(self, name), ", ".join(one.name for one in kind)
            if not isinstance(value, kind):
                raise InvalidSetting(name, value, f"be a {kind.__name__}", f"Pass one of {names}.")


class FlowerAccountant:
    """Is a `PrivacyAccountant` of Flower; its answers are, to the last bit, the upper ends of `tr.epsilon`.

    A noise multiplier is the standard deviation of the noise on the *sum* of the updates, divided by the
    clipping norm of one client, under both relations; that is what Flower's strategies add. NO_AMPLIFICATION
    assumes nothing about who is drawn: of a fixed number of clients, one that joins pushes another out, so
    the sum moves by two clipping norms under both relations, unless all take part.
    """

    def __init__(self, config: PrivacyConfig, *, by: Certified = BY_DEFAULT) -> None:
        if not isinstance(config, PrivacyConfig):
            remedy = "Pass PrivacyConfig(target_delta=...)."
            raise InvalidSetting("config", config, "be a PrivacyConfig of Flower", remedy)
        self._config = config
        self._spent = Ledger(relation=_RELATIONS[config.neighboring_relation], by=by)

    @property
    def config(self) -> PrivacyConfig:
        """What is accounted, as stated at the start."""
        return self._config

    @property
    def num_releases(self) -> int:
        """The number of releases composed."""
        return self._spent.steps

    @property
    def run(self) -> Run:
        """Everything composed so far; at half the noise where a sum moves by 2C under ADD_OR_REMOVE."""
        return self._spent.run

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Record `count` releases; a refused one leaves everything as it was."""
        self._spent.record(self._read_event(event, count))

    def get_epsilon(self, delta: float) -> float:
        """The smallest epsilon that is certain to hold at `delta`."""
        return self.epsilon_bracket(delta).upper

    def get_delta(self, epsilon: float) -> float:
        """The smallest delta that is certain to hold at `epsilon`."""
        return self._spent.delta(epsilon).upper

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Both ends: the guarantee above, and what the worst neighbours of the accounted releases reach."""
        return self._spent.epsilon(delta)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """What is spent so far, at the configured delta unless another is given."""
        target = self._config.target_delta if delta is None else delta
        return PrivacySpent(
            epsilon=self.get_epsilon(target),
            delta=target,
            num_releases=self.num_releases,
            accounting_method=ACCOUNTING_METHOD,
        )

    def would_exceed(
        self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1
    ) -> bool:
        """Whether `count` more releases would take the certified epsilon above the limit. Changes nothing."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            must = "be given here or in the configuration"
            raise InvalidSetting("max_epsilon", limit, must, "Pass the budget, for example 8.")
        projected = Ledger(relation=self._spent.relation, by=self._spent.by)
        projected.record(self.run + self._read_event(event, count))
        return projected.epsilon(self._config.target_delta).upper > check.positive(max_epsilon=limit)

    def state_dict(self) -> dict[str, object]:
        """Everything composed so far, as JSON holds it."""
        return {**self._identity(), "parts": plain_run(self.run)}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take the place of the accountant that wrote `state`, whose configuration must be the same."""
        table, expected = Table.of(state, "state: "), self._identity()
        table.keep_to((*expected, "parts"))
        for key, value in expected.items():
            if table.need(key, "Pass what state_dict() returned.") != value:
                remedy = "It was written by another accountant: make one with that configuration."
                raise table.refusal(key, f"{value!r}", remedy)
        spent = Ledger(relation=self._spent.relation, by=self._spent.by)
        spent.record(run_of(table, "parts"))
        self._spent = spent

    def _identity(self) -> dict[str, object]:
        config = self._config
        plain: dict[str, Any] = {
            "target_delta": config.target_delta,
            "population_size": config.population_size,
            "neighboring_relation": config.neighboring_relation.value,
            "sampling_method": config.sampling_method.value,
            "max_epsilon": config.max_epsilon,
        }
        return {"schema_version": _STATE_VERSION, "backend": ACCOUNTING_METHOD, "config": plain}

    def _read_event(self, event: GaussianPrivacyEvent, count: int) -> Run:
        """The releases as a run that some theorem covers, or a refusal."""
        if not isinstance(event, GaussianPrivacyEvent):
            must = "be a GaussianPrivacyEvent of Flower"
            raise InvalidSetting("event", event, must, "Nothing else can be composed.")
        configured = self._config.population_size
        if event.population_size != configured:
            remedy = "Make an accountant for the population that is drawn from."
            must = f"be {configured}, as configured"
            raise InvalidSetting("population_size", event.population_size, must, remedy)
        times = check.whole(least=1, remedy="It is how many such releases are made.", count=count)
        run = self._step(event) * times
        analyse(run, self._spent.relation, QUICK)
        return run

    def _step(self, event: GaussianPrivacyEvent) -> Step:
        noise, drawn, population = event.noise_multiplier, event.sample_size, event.population_size
        if self._config.sampling_method is SamplingMethod.POISSON:
            return Step(Gaussian(noise_multiplier=noise), Poisson(rate=Fraction(drawn, population)))
        if self._config.sampling_method is SamplingMethod.WITHOUT_REPLACEMENT:
            sampling = WithoutReplacement(batch=drawn, population=population)
            return Step(Gaussian(noise_multiplier=noise), sampling)
        pushes_out = self._spent.relation is ADD_OR_REMOVE and drawn < population
        # EveryRecord moves the sum by one clipping norm under ADD_OR_REMOVE; moving it by two is exactly half
        # the noise.
        return Step(Gaussian(noise_multiplier=noise / 2 if pushes_out else noise), EveryRecord())
