"""From a target (epsilon, delta) to the noise, steps, rate or batch that just meets it."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from tightrope.accountants.certified import BY_DEFAULT, FINEST_ACCURACY, Certified
from tightrope.answers.frontier import Frontier, V
from tightrope.answers.target import NOTHING, OutOfReach, Target
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, NoSuchValue, NoTheorem, NotPreciseEnough, StopWork
from tightrope.numerics import check
from tightrope.numerics.floats import ceil_fraction
from tightrope.setting.effort import QUICK, TIGHT
from tightrope.setting.mechanism import LEAST_NOISE, MOST_NOISE, Finite, Gaussian, Laplace, Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS, Run, Step
from tightrope.setting.sampling import LEAST_RATE, Poisson, Sampling, WithoutReplacement
from tightrope.theorems.lookup import analyse
from tightrope.theorems.worst_pairs import sum_moves_by

CLOSE = 1e-5  # the relative gap aimed at between a real value and one that misses the target
PROMISED = 1e-4  # the gap promised
CLOSE_TO_A_GAP = {QUICK: 1e-4, TIGHT: 1e-3}  # aimed at where theory keeps the sides apart; games take long
MOST_FAILURES = 2  # trials that no engine can judge; each takes long
MOST_TRIES = 12  # safer values tried until one verifies
HALVINGS = 2  # to go back towards the last value that did not verify


@dataclass(frozen=True)
class Calibration(Generic[V]):
    """The best value that certainly meets a target, and the nearest one found that certainly misses it.

    `beyond` is None where `value` is the limit of what can be set. `curve` is the certified curve of `run`,
    the run at `value`: its epsilon at the target's delta is at most the target's. For short runs a finer
    accuracy brings `value` closer to `beyond`. For batches without replacement under SUBSTITUTE theory leaves
    a gap: both values are as certain as ever but further apart, less so with effort=TIGHT. They are also
    further apart if the search was `interrupted` by `StopWork`.
    """

    parameter: str
    value: V
    beyond: V | None
    target: Target
    run: Run
    curve: PrivacyCurve
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """How far away, relative to `value`, the best possible value can be; 0 where `value` is the limit."""
        if self.beyond is None:
            return 0.0
        return abs(self.beyond - self.value) / self.value if self.value else math.inf

    @property
    def epsilon(self) -> Bracket:
        """What the run at `value` spends at the target's delta."""
        return self.curve.epsilon(self.target.delta)

    def __str__(self) -> str:
        missed = "the limit" if self.beyond is None else f"{self.beyond!r} misses the target"
        return f"{self.parameter} {self.value!r} ({missed}): {self.target}, spends {self.epsilon}"


def smallest_noise(
    sampling: Sampling,
    *,
    steps: int,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    mechanism: type[Gaussian] | type[Laplace] = Gaussian,
    besides: Run | Step = NOTHING,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[float]:
    """The smallest noise multiplier with which `steps` steps and `besides` are (epsilon, delta)-private.

    For batches without replacement under SUBSTITUTE, by=Certified(effort=TIGHT) plays games in each of a few
    trials. That takes up to minutes and brings `value` and `beyond` closer together. `progress` is called as
    by `privacy_curve`; if it raises `StopWork`, the best value so far is verified without a further game.

    >>> import tightrope as tr
    >>> target = {"epsilon": 1, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    >>> found = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=10_000, **target)
    >>> round(found.value, 4), found.epsilon.upper <= 1, found.gap < 1e-4
    (0.7876, True, True)
    """
    if mechanism not in (Gaussian, Laplace):
        remedy = "Only these have a noise multiplier."
        raise InvalidSetting("mechanism", mechanism, "be {Gaussian} or {Laplace}", remedy)
    remedy = "Without steps nothing is released and no noise is needed."
    count = check.whole(least=1, remedy=remedy, steps=steps)
    target = Target.check(epsilon, delta, relation, besides, by, progress)

    def run(noise: float) -> Run:
        return Step(mechanism(noise_multiplier=noise), sampling) * count

    first = run(1.0).parts[0][0]  # refuses what is not a sampling
    if first.sampling.rate < 1:
        _refuse_needless_noise(first.sampling, count, target)
    # what full batches would need, thinned by the sampling: a start that the search corrects
    spread = sampling.rate * math.sqrt(2 * count * math.log(1.25 / target.delta)) / max(target.epsilon, 1e-3)
    start = min(max(sum_moves_by(sampling, target.relation) * (spread + 0.3), LEAST_NOISE), MOST_NOISE)
    found = _calibrate("noise_multiplier", target, run, start, safest=MOST_NOISE, riskiest=LEAST_NOISE)
    remedy = "Accept a larger {epsilon} or {delta}, or take fewer steps."
    return _expect(found, target, f"{{noise_multiplier}} {MOST_NOISE:g}", remedy, limit=math.inf)


def most_steps(
    step: Step,
    *,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[int]:
    """How many times `step` can be taken, with `besides`, within (epsilon, delta); 0 if not even once.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
    >>> found = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    >>> found.value, found.beyond
    (11397, 11398)
    """
    if not isinstance(step, Step):
        raise InvalidSetting("step", step, "be a Step", "Write Step(mechanism, sampling).")
    target = Target.check(epsilon, delta, relation, besides, by, progress)
    most = MOST_STEPS - dict(target.besides).get(step, 0)
    found = _calibrate("steps", target, lambda times: step * times, 1000, safest=1, riskiest=most)
    if found is None:
        return Calibration("steps", 0, 1, target, target.besides, target.curve(NOTHING))
    if found.beyond is None:
        raise NoSuchValue(
            f"there is no largest number of steps: even {MOST_STEPS:.0e} steps meet {target.named}",
            "Any number you can run does.",
            limit=math.inf,
        )
    return found


def largest_rate(
    mechanism: Mechanism,
    *,
    steps: int,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[float]:
    """The largest Poisson sampling rate with which `steps` steps and `besides` are (epsilon, delta)-private.

    It is 1 if every record may join every batch.

    >>> import tightrope as tr
    >>> noise = tr.Gaussian(noise_multiplier=0.8)
    >>> found = tr.largest_rate(noise, steps=10_000, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    >>> round(found.value, 6)
    0.001054
    """
    count = check.whole(least=1, remedy="Without steps every rate is fine.", steps=steps)
    target = Target.check(epsilon, delta, relation, besides, by, progress)

    def run(rate: float) -> Run:
        return Step(mechanism, Poisson(rate=rate)) * count

    everybody = target.verify(run(1.0), target.by.accuracy)
    if everybody is not None:
        return Calibration("rate", 1.0, None, target, run(1.0) + target.besides, everybody)
    least = ceil_fraction(LEAST_RATE)
    found = _calibrate("rate", target, run, min(1.0, 10 / count), safest=least, riskiest=1.0)
    return _expect(found, target, f"{{rate}} {least:g}", "Accept a larger {delta}.", limit=0.0)


def largest_batch(
    mechanism: Mechanism,
    *,
    population: int,
    steps: int,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[int]:
    """The largest batch without replacement with which steps and `besides` are (epsilon, delta)-private.

    >>> import tightrope as tr
    >>> target = {"epsilon": 2, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    >>> noise = tr.Gaussian(noise_multiplier=2)
    >>> found = tr.largest_batch(noise, population=60_000, steps=10_000, **target)
    >>> found.value, found.beyond
    (197, 198)
    """
    size = check.whole(least=1, population=population)
    count = check.whole(least=1, remedy="Without steps every batch is fine.", steps=steps)
    target = Target.check(epsilon, delta, relation, besides, by, progress)

    def run(batch: int) -> Run:
        return Step(mechanism, WithoutReplacement(batch=batch, population=size)) * count

    largest = size
    try:
        analyse(run(size), target.relation, QUICK)
    except NoTheorem:  # a batch that holds everybody has no room for a neighbour's record
        largest = size - 1
        if not largest:
            raise
    found = _calibrate("batch", target, run, max(largest // 1000, 1), safest=1, riskiest=largest)
    remedy = "Add noise, take fewer steps, or accept a larger {epsilon} or {delta}."
    return _expect(found, target, f"a batch of 1 out of {size}", remedy, limit=0.0)


def _expect(
    found: Calibration[V] | None, target: Target, safest: str, remedy: str, *, limit: float
) -> Calibration[V]:
    if found is None:
        raise NoSuchValue(f"{target.named} is out of reach: even {safest} misses it", remedy, limit=limit)
    return found


def _calibrate(
    parameter: str, target: Target, run: Callable[[V], Run], start: V, *, safest: V, riskiest: V
) -> Calibration[V] | None:
    """The best value, verified by a curve of its own; None if even the safest value misses the target."""
    start, slope = _improve_start(target, run, start, safest=safest, riskiest=riskiest)
    trials = _Trials(parameter, target, run)
    if target.leaves_a_gap(run(start)):
        frontier = _search_a_gap(trials, start, safest=safest, riskiest=riskiest, slope=slope)
    else:
        frontier = Frontier(trials.excess, safest=safest, riskiest=riskiest, close=CLOSE, slope=slope)
        frontier.search(start)
        _narrow(trials, frontier)
    if frontier.beyond == safest:
        return None
    # First at the accuracy asked for, so that whoever asks again finds the target met; else at the finer one.
    for accuracy in dict.fromkeys((target.by.accuracy, trials.accuracy)):
        found = trials.verify(frontier, accuracy)
        if found is not None:
            value, curve = found
            if frontier.beyond is None and value != riskiest:
                break  # it is safe, but nobody knows how far from the best
            best = parameter, value, frontier.beyond, target, run(value) + target.besides, curve
            return Calibration(*best, trials.interrupted)
    raise trials.refusal


class _Trials(Generic[V]):
    """Brackets of how far a value exceeds the target. Gives up when engines fail too often."""

    def __init__(self, parameter: str, target: Target, run: Callable[[V], Run]) -> None:
        self.parameter, self.target = parameter, target
        self.run: Callable[[V], Run] = run
        self.accuracy = target.by.accuracy
        self.failures = 0
        self.interrupted = False
        self.quick: Frontier[V] | None = None  # what was found before the first game

    def excess(self, value: V) -> Bracket:
        """ln delta - ln target at `value`; StopWork if it is open because a game was stopped."""
        try:
            found = self.target.excess(self.run(value), self.accuracy)
        except OutOfReach:
            self.failures += 1
            if self.failures > MOST_FAILURES:
                raise self.refusal from None
            return self.target.nothing_known
        if found.interrupted and found.lower <= 0 < found.upper:
            raise StopWork
        return found

    def verify(self, frontier: Frontier[V], accuracy: float) -> tuple[V, PrivacyCurve] | None:
        """The safe value, or one a little safer, with the curve that verifies it.

        After an interrupt, the best value that what was played verifies.
        """
        if not self.interrupted:
            try:
                return _verify(self, frontier, accuracy)
            except StopWork:
                self.interrupted = True
        for known in (frontier, self.quick):
            with contextlib.suppress(StopWork):
                if known is not None and known.safe is not None:
                    curve = self.target.verify(self.run(known.safe), accuracy)
                    if curve is not None:
                        return known.safe, curve
        return None

    def quick_excess(self, value: V) -> Bracket:
        """The same without a game: as certain, but wider."""
        try:
            return self.target.quick.excess(self.run(value), self.accuracy)
        except (OutOfReach, NotPreciseEnough):
            return self.target.nothing_known

    @property
    def refusal(self) -> NotPreciseEnough:
        """Why there is no answer."""
        return NotPreciseEnough(
            f"{{{self.parameter}}} for {self.target.named} could not be certified: delta near the answer is "
            "out of reach of every engine",
            "Ask for a coarser {accuracy} or another target.",
        )


def _search_a_gap(trials: _Trials[V], start: V, *, safest: V, riskiest: V, slope: float) -> Frontier[V]:
    """The frontier where theory keeps the ends apart: found quickly, then narrowed by games if TIGHT."""
    effort = trials.target.by.effort

    def frontier(excess: Callable[[V], Bracket], close: float) -> Frontier[V]:
        made = Frontier(excess, safest=safest, riskiest=riskiest, close=close, slope=slope)
        made.most_varying_width = 2 * trials.accuracy
        return made

    quick = frontier(trials.excess if effort is QUICK else trials.quick_excess, CLOSE_TO_A_GAP[QUICK])
    quick.search(start)
    if effort is QUICK:
        return quick
    trials.quick = quick
    tight = frontier(trials.excess, CLOSE_TO_A_GAP[TIGHT])
    try:
        tight.search_within(quick)
    except StopWork:
        trials.interrupted = True
    return tight


def _narrow(trials: _Trials[V], frontier: Frontier[V]) -> None:
    """Search again with narrower brackets while the width of brackets keeps the sides apart."""
    while frontier.is_wide(PROMISED / 2) and trials.accuracy > 100 * FINEST_ACCURACY:
        trials.accuracy /= 6
        try:
            frontier.search_again()
        except NotPreciseEnough:
            break


def _verify(trials: _Trials[V], frontier: Frontier[V], accuracy: float) -> tuple[V, PrivacyCurve] | None:
    target, run = trials.target, trials.run
    value, unverified, curve = frontier.safe, frontier.safe, None
    for tries in range(MOST_TRIES):
        curve = None if value is None else target.verify(run(value), accuracy)
        if value is None or curve is not None:
            break
        unverified, value = value, frontier.safer(value, tries)
    if value is None or unverified is None or curve is None:
        return None
    for _ in range(HALVINGS):
        middle = frontier.between(value, unverified)
        if middle is None:
            break
        try:
            finer = target.verify(run(middle), accuracy)
        except StopWork:
            trials.interrupted = True
            break
        if finer is None:
            unverified = middle
        else:
            value, curve = middle, finer
    return value, curve


def _improve_start(
    target: Target, run: Callable[[V], Run], start: V, *, safest: V, riskiest: V
) -> tuple[V, float]:
    """Where the saddle-point approximation meets the target, and its slope there; else `start`."""
    frontier = Frontier(lambda v: target.estimate(run(v)), safest=safest, riskiest=riskiest, close=0.01)
    with contextlib.suppress(ArithmeticError):
        frontier.search(start)
    return next((v for v in (frontier.safe, frontier.beyond) if v is not None), start), frontier.slope


def _refuse_needless_noise(sampling: Sampling, steps: int, target: Target) -> None:
    """Without noise a step tells at most whether the record was drawn: a mechanism with two outputs."""
    revealing = Step(Finite(observed=[1.0, 0.0], alternative=[0.0, 1.0]), sampling) * steps
    try:
        found = target.curve(revealing).delta(target.epsilon)
    except (NoTheorem, NotPreciseEnough):
        return  # then the search finds out
    if found.upper <= target.delta:
        raise NoSuchValue(
            f"no noise is needed for {target.named}: even if every drawn record were published, "
            f"delta would be {found}",
            "Such a guarantee is empty; choose a smaller {delta}, well below 1 / population.",
            limit=0.0,
        )
