"""Events of dp_accounting as runs, and runs as events, with the unit of the noise stated."""

from collections.abc import Iterator
from enum import Enum
from fractions import Fraction
from typing import Any, assert_never

from tightrope.errors import InvalidSetting, NoTheorem
from tightrope.extras import MissingExtra
from tightrope.numerics import check
from tightrope.numerics.floats import floor_root
from tightrope.setting.given import exactly
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation, as_relation, need_one_record
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.theorems.worst_pairs import sum_moves_by

try:
    from dp_accounting import NeighboringRelation, dp_event
except ImportError as missing:
    raise MissingExtra("tightrope.integrations.dp_accounting", "dp_accounting", "interop") from missing


class NoiseUnit(Enum):
    """What noise of scale s is divided by: C, which bounds a record, or how far a neighbour moves the sum."""

    PER_RECORD = "s / C"
    PER_SENSITIVITY = "s / sensitivity"

    def __repr__(self) -> str:
        return self.name


PER_RECORD, PER_SENSITIVITY = NoiseUnit.PER_RECORD, NoiseUnit.PER_SENSITIVITY

REVEALING = Finite(observed=[1.0, 0.0], alternative=[0.0, 1.0])
NOT_PRIVATE = Step(REVEALING, EveryRecord())

_ADDITIVE: dict[Any, type[Gaussian] | type[Laplace]] = {
    dp_event.GaussianDpEvent: Gaussian,
    dp_event.LaplaceDpEvent: Laplace,
}
_EVENT_OF = {mechanism: event for event, mechanism in _ADDITIVE.items()}
_RELATION_OF = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: ADD_OR_REMOVE,
    NeighboringRelation.REPLACE_ONE: SUBSTITUTE,
}
_PLD_ANSWERS = "dp_accounting's PLDAccountant answers it, from above only."
_RDP_ANSWERS = "dp_accounting's RdpAccountant answers it, from above only."
_INSTEAD = {
    dp_event.UnsupportedDpEvent: "Compose the event it stands in for.",
    dp_event.SampledWithReplacementDpEvent: (
        "It can draw a record twice, for which no theorem is known here: draw without replacement "
        "(SampledWithoutReplacementDpEvent). If each draw is a release of its own, leave the sampling out."
    ),
    dp_event.DiscreteLaplaceDpEvent: _PLD_ANSWERS,
    dp_event.MixtureOfGaussiansDpEvent: _PLD_ANSWERS,
    dp_event.SingleEpochTreeAggregationDpEvent: _RDP_ANSWERS,
    dp_event.RepeatAndSelectDpEvent: _RDP_ANSWERS,
    dp_event.ZCDpEvent: f"It bounds moments and names no mechanism: compose the mechanism. {_RDP_ANSWERS}",
}
_KNOWN = (
    "Known are NoOpDpEvent, NonPrivateDpEvent, GaussianDpEvent, LaplaceDpEvent, RandomizedResponseDpEvent, "
    "PoissonSampledDpEvent, SampledWithoutReplacementDpEvent, TruncatedSubsampledGaussianDpEvent, "
    "ComposedDpEvent and SelfComposedDpEvent."
)


def from_dp_event(
    event: dp_event.DpEvent, relation: Relation | str, *, noise: NoiseUnit | None = None
) -> Run:
    """The run that `event` describes; every event that is not exactly a run is refused by name.

    Under SUBSTITUTE `noise` must say how the event's noise multiplier is meant; elsewhere PER_RECORD is the
    default.

    >>> import dp_accounting, tightrope as tr
    >>> event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(0.8), 5)
    >>> from_dp_event(event, tr.SUBSTITUTE, noise=PER_SENSITIVITY)
    Step(Gaussian(noise_multiplier=1.6), EveryRecord()) * 5
    """
    relation = need_one_record(as_relation(relation), "events of dp_accounting")
    unit = check_noise_unit(relation, noise)
    return Run(tuple((read_release(release, relation, unit), times) for release, times in releases(event)))


def to_dp_event(
    run: Run | Step, relation: Relation | str | None = None, *, noise: NoiseUnit | None = None
) -> dp_event.DpEvent:
    """The event that `from_dp_event`, asked in the same way, reads as `run`; refused where no event says it.

    Noise is PER_RECORD, as in the events' documentation, unless `noise` says otherwise; PER_SENSITIVITY needs
    `relation`.

    >>> import tightrope as tr
    >>> to_dp_event(tr.Step(tr.Laplace(noise_multiplier=2), tr.Poisson(rate=0.1)))
    PoissonSampledDpEvent(sampling_probability=0.1, event=LaplaceDpEvent(noise_multiplier=2.0))
    """
    if relation is not None:
        relation = need_one_record(as_relation(relation), "events of dp_accounting")
    unit = check_noise_unit(relation or ADD_OR_REMOVE, noise)
    if relation is None and unit is PER_SENSITIVITY:
        remedy = "It decides how far a neighbour moves the sum."
        raise InvalidSetting("relation", None, "be given for {noise=PER_SENSITIVITY}", remedy)
    events = [_repeat(_write_step(step, relation, unit), times) for step, times in as_run(run)]
    if not events:
        return dp_event.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)


def from_neighboring_relation(neighboring_relation: NeighboringRelation) -> Relation:
    """Tightrope's name for a relation of dp_accounting."""
    if neighboring_relation in _RELATION_OF:
        return _RELATION_OF[neighboring_relation]
    if neighboring_relation is NeighboringRelation.REPLACE_SPECIAL:
        raise NoTheorem(
            "REPLACE_SPECIAL: no theorem here is about records that are blanked out",
            "With Poisson sampling and with full batches a blank record is as good as none, so that "
            "ADD_OR_REMOVE_ONE gives the same bound. A batch of fixed size holds the blank where "
            "ADD_OR_REMOVE_ONE would let another record in, so there the two differ. "
            "Ask for one of the other relations.",
        )
    must, remedy = "be a NeighboringRelation of dp_accounting", "Pass ADD_OR_REMOVE_ONE or REPLACE_ONE."
    raise InvalidSetting("neighboring_relation", neighboring_relation, must, remedy)


def to_neighboring_relation(relation: Relation | str) -> NeighboringRelation:
    """dp_accounting's name for a relation; it has none for one direction alone."""
    neighbours = need_one_record(as_relation(relation), "relations of dp_accounting")
    for theirs, ours in _RELATION_OF.items():
        if ours is neighbours:
            return theirs
    remedy = "dp_accounting has no one-directional relations; {ADD_OR_REMOVE} covers both directions."
    raise InvalidSetting("relation", relation, "be {ADD_OR_REMOVE} or {SUBSTITUTE}", remedy)


def check_noise_unit(relation: Relation, noise: NoiseUnit | None) -> NoiseUnit:
    """The unit of an event's noise multiplier; no default under SUBSTITUTE, where it has two readings."""
    if noise is None and relation is SUBSTITUTE:
        must = "be PER_RECORD or PER_SENSITIVITY under {SUBSTITUTE}"
        remedy = (
            "An exchanged record moves the sum by 2C. PER_RECORD: a multiplier of 1 is noise of scale C, as "
            "the event's documentation and PLDAccountant say; one Gaussian release has epsilon 11.0 at delta "
            "1e-6. PER_SENSITIVITY: a multiplier of 1 is noise of scale 2C, as RdpAccountant reads it; the "
            "same release has epsilon 4.9."
        )
        raise InvalidSetting("noise", noise, must, remedy)
    if noise is not None and not isinstance(noise, NoiseUnit):
        must = "be PER_RECORD or PER_SENSITIVITY"
        raise InvalidSetting("noise", noise, must, "Pass for example {noise=PER_RECORD}.")
    return noise or PER_RECORD


def releases(event: dp_event.DpEvent, times: int = 1) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """The releases that an event is composed of, each with how often it happens; nested counts multiply."""
    if not isinstance(event, dp_event.DpEvent):
        must = "be a DpEvent of dp_accounting"
        raise InvalidSetting("event", event, must, "Pass for example GaussianDpEvent(0.8).")
    if type(event) is dp_event.SelfComposedDpEvent:
        count = check.whole(remedy="It is how often the event happens, 0 or more.", count=event.count)
        yield from releases(event.event, times * count)
    elif type(event) is dp_event.ComposedDpEvent:
        for part in event.events:
            yield from releases(part, times)
    elif type(event) is not dp_event.NoOpDpEvent:
        yield event, times


def read_release(release: dp_event.DpEvent, relation: Relation, unit: NoiseUnit) -> Step:
    """The step that one release is, or a refusal with its name."""
    kind = type(release)
    if kind is dp_event.NonPrivateDpEvent:
        return NOT_PRIVATE
    if kind is dp_event.RandomizedResponseDpEvent:
        return _read_response(release, relation)
    if kind in _ADDITIVE:
        return _read_noise(release, EveryRecord(), relation, unit)
    if kind is dp_event.PoissonSampledDpEvent:
        rate = _unwrap(release.sampling_probability)
        return _read_noise(_merge_releases(release, relation), Poisson(rate=rate), relation, unit)
    sampling: Sampling
    if kind is dp_event.SampledWithoutReplacementDpEvent:
        # The dataset may lose a record or gain one; its own size makes the larger rate of the two, which is
        # the worse.
        batch, population = _unwrap(release.sample_size), _unwrap(release.source_dataset_size)
        sampling = WithoutReplacement(batch=batch, population=population)
        return _read_noise(_merge_releases(release, relation), sampling, relation, unit)
    if kind is dp_event.TruncatedSubsampledGaussianDpEvent:
        # dp_accounting lets dataset_size - 1 others compete with the record: it counts the larger dataset
        sampling = TruncatedPoisson(
            rate=_unwrap(release.sampling_probability),
            at_most=_unwrap(release.truncated_batch_size),
            population=_unwrap(release.dataset_size),
        )
        return _read_noise(dp_event.GaussianDpEvent(release.noise_multiplier), sampling, relation, unit)
    raise NoTheorem(f"{kind.__name__}: no step of a run is such a release", _INSTEAD.get(kind, _KNOWN))


def _read_noise(release: dp_event.DpEvent, sampling: Sampling, relation: Relation, unit: NoiseUnit) -> Step:
    noise = _unwrap(release.noise_multiplier)
    if noise == 0:
        return _reveal(sampling, relation)
    scale = sum_moves_by(sampling, relation) if unit is PER_SENSITIVITY else 1
    return Step(_ADDITIVE[type(release)](noise_multiplier=noise * scale), sampling)


def _reveal(sampling: Sampling, relation: Relation) -> Step:
    """Without noise a release tells whether the record was drawn and, if exchanged, which one it is."""
    if isinstance(sampling, TruncatedPoisson):
        why = "how often a record that is drawn is kept is not told"
        remedy = (
            "Epsilon is infinite below that {delta}; a PoissonSampledDpEvent at this rate is an upper end."
        )
        raise NoTheorem(f"noise 0 with batches of at most {sampling.at_most}: {why}", remedy)
    if relation is SUBSTITUTE and isinstance(sampling, Poisson):
        missed, drawn = 1 - sampling.exact_rate, sampling.exact_rate
        return Step(Finite(observed=[missed, drawn, 0], alternative=[missed, 0, drawn]), EveryRecord())
    return Step(REVEALING, sampling)


def _read_response(release: dp_event.DpEvent, relation: Relation) -> Step:
    asked = f"{release!r} under {{{relation.name}}}"
    if relation is not SUBSTITUTE:
        why = "every record sends a report, so a record more is a report more"
        raise NoTheorem(f"{asked}: {why}", "Known for {SUBSTITUTE}.")
    if check.whole(num_buckets=_unwrap(release.num_buckets)) != 2:
        observed, alternative = "[1 - p + p/k, p/k, (k-2)p/k]", "[p/k, 1 - p + p/k, (k-2)p/k]"
        step = f"Step(Finite(observed={observed}, alternative={alternative}), EveryRecord())"
        remedy = f"For k buckets and noise p take {step}, whose probabilities you round yourself."
        raise NoTheorem(f"{asked}: known for two buckets", remedy)
    noise = _unwrap(release.noise_parameter)
    check.probability(noise_parameter=noise)
    truth = 1 - exactly(noise) / 2  # noise hits the truth half the time
    return Step(RandomizedResponse(truth_probability=truth), EveryRecord())


def _merge_releases(sampled: dp_event.DpEvent, relation: Relation) -> dp_event.DpEvent:
    """What is released about the one batch that `sampled` draws, as one release of additive noise.

    Several Gaussian releases, adaptive or not, are dominated as one mechanism by a product of Gaussian pairs,
    which is the Gaussian pair at the distance root(sum of 1 / s_i^2). The theorems on sampling under ADD and
    REMOVE take any mechanism with its dominating pair, so the batch may be sampled (Zhu, Dong, Wang 2022, Thm
    11). Those under SUBSTITUTE are about one vector: the second query may depend on the first answer, and no
    theorem here covers that.
    """
    parts = [(release, times) for release, times in releases(sampled.event) if times]
    kinds = {type(release) for release, _ in parts}
    if len(parts) == 1 and parts[0][1] == 1 and kinds <= _ADDITIVE.keys():
        return parts[0][0]
    inside = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
    asked = f"{type(sampled).__name__} around {inside}"
    if kinds != {dp_event.GaussianDpEvent}:
        raise NoTheorem(
            f"{asked}: known around one GaussianDpEvent or LaplaceDpEvent, or several GaussianDpEvents",
            "Compose releases on freshly drawn batches outside: "
            "SelfComposedDpEvent(PoissonSampledDpEvent(...), count).",
        )
    if relation is SUBSTITUTE:
        known = "several releases about one batch are known under {ADD}, {REMOVE} and {ADD_OR_REMOVE}"
        remedy = (
            "Under {SUBSTITUTE} release one vector with one GaussianDpEvent, or draw a fresh batch for each."
        )
        raise NoTheorem(f"{asked}: {known}", remedy)
    noises = [
        (Gaussian(noise_multiplier=_unwrap(release.noise_multiplier)).exact_noise_multiplier, times)
        for release, times in parts
    ]
    inverse_variances: list[Fraction] = [times / noise**2 for noise, times in noises]
    return dp_event.GaussianDpEvent(floor_root(1 / sum(inverse_variances, Fraction(0))))


def _write_step(step: Step, relation: Relation | None, unit: NoiseUnit) -> dp_event.DpEvent:
    mechanism, sampling = step.mechanism, step.sampling
    if step == NOT_PRIVATE:
        return dp_event.NonPrivateDpEvent()
    if isinstance(mechanism, Gaussian | Laplace):
        scale = sum_moves_by(sampling, relation) if relation and unit is PER_SENSITIVITY else 1
        noise = mechanism.exact_noise_multiplier / scale
        return _sample(_EVENT_OF[type(mechanism)](_as_float(noise_multiplier=noise)), sampling)
    answers = isinstance(sampling, EveryRecord) and relation in (SUBSTITUTE, None)
    if isinstance(mechanism, RandomizedResponse) and answers:
        return _write_response(mechanism.exact_truth_probability)
    under = f" under {{{relation.name}}}" if relation else ""
    remedy = (
        "Events are known for Gaussian and Laplace with every sampling, and for RandomizedResponse with "
        "EveryRecord under {SUBSTITUTE}."
    )
    raise InvalidSetting("run", step, f"consist of steps that an event can say{under}", remedy)


def _write_response(truth: Fraction) -> dp_event.DpEvent:
    if truth < Fraction(1, 2):
        remedy = "Swap the two answers: that is the same release with 1 - truth_probability."
        raise InvalidSetting("truth_probability", float(truth), "be at least 1/2 to become an event", remedy)
    noise = _as_float(noise_parameter=2 * (1 - truth))
    return dp_event.RandomizedResponseDpEvent(noise_parameter=noise, num_buckets=2)


def _as_float(**named: Fraction) -> float:
    """A number that the field of an event holds as it is; others are refused, not rounded."""
    ((name, exact),) = named.items()
    if Fraction(float(exact)) != exact:
        remedy = "Events hold floats: take the float next to it that is less private."
        raise InvalidSetting(name, exact, "be a float to become an event", remedy)
    return float(exact)


def _sample(event: dp_event.DpEvent, sampling: Sampling) -> dp_event.DpEvent:
    match sampling:
        case EveryRecord():
            return event
        case Poisson():
            return dp_event.PoissonSampledDpEvent(_as_float(rate=sampling.exact_rate), event)
        case WithoutReplacement():
            return dp_event.SampledWithoutReplacementDpEvent(sampling.population, sampling.batch, event)
        case TruncatedPoisson(population=size, at_most=most) if type(event) is dp_event.GaussianDpEvent:
            rate, noise = _as_float(rate=sampling.exact_rate), event.noise_multiplier
            return dp_event.TruncatedSubsampledGaussianDpEvent(size, rate, most, noise)
        case TruncatedPoisson() | BallsInBins() | RandomAllocation() | Shuffled():
            remedy = "Account it here; events are for the samplings that both libraries know."
            raise InvalidSetting("sampling", sampling, "have an event of its own", remedy)
    assert_never(sampling)


def _repeat(event: dp_event.DpEvent, times: int) -> dp_event.DpEvent:
    return event if times == 1 else dp_event.SelfComposedDpEvent(event, times)


def _unwrap(value: Any) -> Any:
    """The number in a scalar of an array library; the settings check what is inside."""
    return value.item() if hasattr(value, "item") else value
