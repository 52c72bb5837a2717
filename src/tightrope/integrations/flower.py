"""A certified accountant where Flower expects one."""

import warnings
from dataclasses import dataclass
from typing import Any

from tightrope.accountants.certified import Certified
from tightrope.answers.ledger import Ledger
from tightrope.answers.spend import BY_DEFAULT
from tightrope.answers.spend import epsilon as epsilon_of
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.effort import QUICK
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.plain import plain_run, run_of
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, WithoutReplacement
from tightrope.setting.tables import Table
from tightrope.theorems.lookup import analyse

try:
    with warnings.catch_warnings():
        # Flower's command line uses names that click is about to drop, which nobody who accounts can do anything about
        warnings.filterwarnings("ignore", message=".*click.*", category=DeprecationWarning)
        from flwr.serverapp import (
            GaussianPrivacyEvent,
            NeighboringRelation,
            PrivacyConfig,
            PrivacySpent,
            SamplingMethod,
        )
except ImportError as missing:
    raise ImportError(
        "tightrope.integrations.flower needs Flower 1.40 or newer: pip install 'tightrope[flower]'"
    ) from missing

ACCOUNTING_METHOD = "tightrope"
_STATE_VERSION = 1
_STATE_KEYS = ("schema_version", "backend", "config", "parts")


@dataclass(frozen=True)
class AnyPrivacyConfig(PrivacyConfig):
    """Flower's privacy configuration without its list of models: every sampling method under both relations."""

    def __post_init__(self) -> None:
        check.open_probability(
            remedy="It is usually below 1 / population_size.", target_delta=self.target_delta
        )
        check.whole(least=1, population_size=self.population_size)
        if self.max_epsilon is not None:
            check.positive(max_epsilon=self.max_epsilon)
        for name, kind in (
            ("neighboring_relation", NeighboringRelation),
            ("sampling_method", SamplingMethod),
        ):
            if not isinstance(getattr(self, name), kind):
                raise InvalidSetting(
                    f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}. Pass one of {list(kind)}."
                )


class TightropeAccountant:
    """Satisfies Flower's `PrivacyAccountant`: composes its events and answers with certified upper ends.

    A noise multiplier is the standard deviation of the noise on the *sum* of the updates, divided by the clipping norm of one
    client, under both relations; that is what Flower's strategies add. NO_AMPLIFICATION assumes nothing about who is drawn: of
    a fixed number of clients one that joins pushes another out, so the sum moves by two clipping norms under both relations,
    unless all take part.
    """

    def __init__(self, config: PrivacyConfig, *, by: Certified = BY_DEFAULT) -> None:
        if not isinstance(config, PrivacyConfig):
            raise InvalidSetting(
                f"config must be a PrivacyConfig of Flower, got {config!r}. Pass PrivacyConfig(target_delta=...)."
            )
        self._config = config
        self._relation = (
            ADD_OR_REMOVE
            if config.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE
            else SUBSTITUTE
        )
        self._spent = Ledger(relation=self._relation, by=by)

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
        """Everything composed so far. Where a sum moves by two clipping norms under ADD_OR_REMOVE, at half the noise."""
        return self._spent.run

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Record `count` releases; a refused one leaves everything as it was."""
        self._spent.record(self._released(event, count))

    def get_epsilon(self, delta: float) -> float:
        """The smallest epsilon that is certain to hold at `delta`."""
        return self.epsilon_bracket(delta).upper

    def get_delta(self, epsilon: float) -> float:
        """The smallest delta that is certain to hold at `epsilon`."""
        return self._spent.delta(epsilon).upper

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Both ends: the guarantee above, and below what the worst neighbours of the accounted releases reach."""
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
        """Whether `count` more releases could exceed the limit: whether the certified epsilon would. Changes nothing."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise InvalidSetting(
                "max_epsilon must be given here or in the configuration, got None. Pass the budget, for example 8."
            )
        limit = check.positive(max_epsilon=limit)
        projected = self.run + self._released(event, count)
        delta = self._config.target_delta
        spent = epsilon_of(projected, delta=delta, relation=self._relation, by=self._spent.by)
        return spent.upper > limit

    def state_dict(self) -> dict[str, object]:
        """Everything composed so far, as JSON holds it."""
        return {
            "schema_version": _STATE_VERSION,
            "backend": ACCOUNTING_METHOD,
            "config": _plain_config(self._config),
            "parts": plain_run(self.run),
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take the place of the accountant that wrote `state`, whose configuration must be the same."""
        table = Table.of(state, "state: ")
        table.keep_to(_STATE_KEYS)
        expected = {
            "schema_version": _STATE_VERSION,
            "backend": ACCOUNTING_METHOD,
            "config": _plain_config(self._config),
        }
        for key, value in expected.items():
            if table.wanted(key, "Pass what state_dict() returned.") != value:
                raise table.refusal(
                    key,
                    f"{value!r}",
                    "It was written by another accountant: make one with that configuration.",
                )
        spent = Ledger(relation=self._relation, by=self._spent.by)
        spent.record(run_of(table, "parts"))
        self._spent = spent

    def _released(self, event: GaussianPrivacyEvent, count: int) -> Run:
        """The releases as a run that some theorem covers, or a refusal."""
        if not isinstance(event, GaussianPrivacyEvent):
            raise InvalidSetting(
                f"event must be a GaussianPrivacyEvent of Flower, got {event!r}. Nothing else can be composed."
            )
        if event.population_size != self._config.population_size:
            raise InvalidSetting(
                f"population_size must be {self._config.population_size}, as configured, got {event.population_size}. "
                "Make an accountant for the population that is drawn from."
            )
        times = check.whole(least=1, remedy="It is how many such releases are made.", count=count)
        run = self._step(event) * times
        analyse(run, self._relation, QUICK)
        return run

    def _step(self, event: GaussianPrivacyEvent) -> Step:
        noise, drawn, population = event.noise_multiplier, event.sample_size, event.population_size
        if self._config.sampling_method is SamplingMethod.POISSON:
            return Step(Gaussian(noise_multiplier=noise), Poisson(rate=drawn / population))
        if self._config.sampling_method is SamplingMethod.WITHOUT_REPLACEMENT:
            return Step(
                Gaussian(noise_multiplier=noise), WithoutReplacement(batch=drawn, population=population)
            )
        pushes_out = self._relation is ADD_OR_REMOVE and drawn < population
        # EveryRecord moves the sum by one clipping norm under ADD_OR_REMOVE; moving it by two is half the noise, exactly
        return Step(Gaussian(noise_multiplier=noise / 2 if pushes_out else noise), EveryRecord())


def _plain_config(config: PrivacyConfig) -> dict[str, Any]:
    return {
        "target_delta": config.target_delta,
        "population_size": config.population_size,
        "neighboring_relation": config.neighboring_relation.value,
        "sampling_method": config.sampling_method.value,
        "max_epsilon": config.max_epsilon,
    }
