"""The search for a value that meets a target: trials on both sides, then a curve that verifies it."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

from tightrope.accountants.certified import FINEST_ACCURACY
from tightrope.answers.frontier import Frontier, OutOfReach, V
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.watching import Workload, begin_work
from tightrope.errors import NotPreciseEnough, StopWork
from tightrope.setting.effort import QUICK, TIGHT
from tightrope.setting.run import Run
from tightrope.setting.sampling import Shuffled

if TYPE_CHECKING:
    from tightrope.answers.target import Target

CLOSE = 1e-5  # the relative gap aimed at between a real value and one that misses the target
PROMISED = 1e-4  # the gap promised
CLOSE_TO_A_GAP = {QUICK: 1e-4, TIGHT: 1e-3}  # aimed at where theory keeps the sides apart; games take long
MOST_FAILURES = 2  # trials that no engine can judge; each takes long
MOST_TRIES = 12  # safer values tried until one verifies
ABOUT = 14  # values are judged until both sides are close, where each of them takes long
HALVINGS = 2  # to go back towards the last value that did not verify


class Trials(Generic[V]):
    """Brackets of how far a value exceeds the target. Gives up when engines fail too often."""

    def __init__(self, parameter: str, target: "Target", run: Callable[[V], Run]) -> None:
        self.parameter, self.target = parameter, target
        self.run: Callable[[V], Run] = run
        self.accuracy = target.by.accuracy
        self.failures = 0
        self.interrupted = False
        self.is_cut_short = False  # by who waits, before all values were judged: no game was stopped
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

    def has_shuffles(self, value: V) -> bool:
        """Whether batches are shuffled: their bounds are made anew for each noise and each number of them."""
        return any(isinstance(step.sampling, Shuffled) for step, _ in self.run(value).parts)

    def count(self, excess: Callable[[V], Bracket], start: V) -> Callable[[V], Bracket]:
        """The same, which tells who waits how many values were judged, where each of them takes long."""
        progress, seen = self.target.progress, 0
        if progress is None or not self.has_shuffles(start):
            return excess
        what = f"bounds on shuffled batches for about {ABOUT} values"
        begin_work(progress, lambda: Workload(piece=(self, excess), what=what, seconds=None))

        def counted(value: V) -> Bracket:
            nonlocal seen
            found, seen = excess(value), seen + 1
            progress(seen, max(ABOUT, seen + 1))
            return found

        return counted

    def verify(self, frontier: Frontier[V], accuracy: float) -> tuple[V, PrivacyCurve] | None:
        """The safe value, or one a little safer, with the curve that verifies it.

        After an interrupt, the best value that what was played verifies.
        """
        if not self.interrupted:
            try:
                return verify_near(self, frontier, accuracy)
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


def search_a_gap(trials: Trials[V], start: V, *, safest: V, riskiest: V, slope: float) -> Frontier[V]:
    """The frontier where theory keeps the ends apart: found quickly, then narrowed by games if TIGHT."""
    effort = trials.target.by.effort if trials.target.trials is None else QUICK
    # a search of runs takes long too, and so does each noise of shuffled batches
    is_long = trials.target.trials is not None or trials.has_shuffles(start)
    close = CLOSE_TO_A_GAP[TIGHT if is_long else QUICK]

    def frontier(excess: Callable[[V], Bracket], close: float) -> Frontier[V]:
        made = Frontier(excess, safest=safest, riskiest=riskiest, close=close, slope=slope)
        made.most_varying_width = 2 * trials.accuracy
        made.follows_chords = trials.has_shuffles(start)
        return made

    quick = frontier(trials.count(trials.excess if effort is QUICK else trials.quick_excess, start), close)
    try:
        quick.search(start)
    except StopWork:
        if quick.safe is None:
            raise
        trials.is_cut_short, trials.interrupted = True, effort is TIGHT
    if effort is QUICK or trials.interrupted:
        return quick
    trials.quick = quick
    tight = frontier(trials.count(trials.excess, start), CLOSE_TO_A_GAP[TIGHT])
    try:
        tight.search_within(quick)
    except StopWork:
        trials.interrupted = True
    return tight


def narrow(trials: Trials[V], frontier: Frontier[V]) -> None:
    """Search again with narrower brackets while the width of brackets keeps the sides apart."""
    while frontier.is_wide(PROMISED / 2) and trials.accuracy > 100 * FINEST_ACCURACY:
        trials.accuracy /= 6
        try:
            frontier.search_again()
        except NotPreciseEnough:
            break


def verify_near(trials: Trials[V], frontier: Frontier[V], accuracy: float) -> tuple[V, PrivacyCurve] | None:
    """The safe value, or one a little safer, with the curve that verifies it."""
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


def improve_start(
    target: "Target", run: Callable[[V], Run], start: V, *, safest: V, riskiest: V
) -> tuple[V, float]:
    """Where the saddle-point approximation meets the target, and its slope there; else `start`."""
    frontier = Frontier(lambda v: target.estimate(run(v)), safest=safest, riskiest=riskiest, close=0.01)
    with contextlib.suppress(ArithmeticError):
        frontier.search(start)
    return next((v for v in (frontier.safe, frontier.beyond) if v is not None), start), frontier.slope
