"""From schedules to bounds on delta and epsilon that hold but for a stated probability of failure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tightrope.engines.draws.chunks import (
    IN_THIS_PROCESS,
    DrawTask,
    DrawTotals,
    Spread,
    draw_all,
    scale_to_delta,
)
from tightrope.engines.draws.tilts import Drawing, choose_tilts
from tightrope.engines.face import EngineDeclines, Progress
from tightrope.engines.planning import NEGLIGIBLE, Plan
from tightrope.engines.saddle import epsilon_estimate
from tightrope.engines.watching import Workload, begin_work
from tightrope.errors import StopWork
from tightrope.numerics.confidence import Interval, find_limits
from tightrope.numerics.floats import Floats, next_down
from tightrope.pairs.schedule import Schedule

MOST_ROUNDS = 4
# Where to look for epsilon around a guess, in units of 1 / tilt: from one to the next, delta changes by 0.5 %
NEAR = np.linspace(-0.4, 0.4, 161)
FAR = np.geomspace(0.42, 12.0, 40)
START = 1.0  # in the same units: from here the two ends move inwards; twice as far in every further round
WIDE_POINTS = 200
ENOUGH_BETWEEN = 4  # grid points between the ends: then the draws keep them apart, not the grid


@dataclass(frozen=True, kw_only=True)
class DrawPlan:
    """How to draw. All answers of one call together fail with probability at most `beta`."""

    draws: int
    beta: float
    seed: int
    drawing: Drawing
    interval: Interval


@dataclass(frozen=True)
class DrawnBounds:
    """`lower` <= truth <= `upper` but for the probability of failure; `value` is the best guess."""

    value: float
    lower: float
    upper: float
    draws: int = 0
    interrupted: bool = False


@dataclass(frozen=True)
class Simulator:
    """delta and epsilon of the worst of several schedules: covers bound it from above, witnesses from below.

    Each limit of each schedule at each point gets an equal share of the probability of failure, so that all
    answers of one call hold together.
    """

    covers: tuple[Schedule, ...]
    witnesses: tuple[Schedule, ...]
    plan: DrawPlan
    spread: Spread = IN_THIS_PROCESS
    progress: Progress | None = None

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Everything that is simulated, once."""
        return tuple(dict.fromkeys((*self.covers, *self.witnesses)))

    def deltas(self, epsilons: Sequence[float], points: int) -> list[DrawnBounds]:
        """delta at each epsilon >= 0; these are some of the `points` answers of one call."""
        beta = next_down(self.plan.beta / (points * len(self.schedules)))
        asked = tuple(sorted(set(epsilons)))
        found = {
            (schedule, epsilon): known
            for schedule in self.schedules
            for epsilon in asked
            if (known := _known_delta(schedule, epsilon)) is not None
        }
        tasks: list[DrawTask] = []
        for schedule in self.schedules:
            unknown = tuple(epsilon for epsilon in asked if (schedule, epsilon) not in found)
            tasks += self._tasks(schedule, unknown, len(tasks))
        for totals in self._draw(tasks):
            columns = zip(totals.task.epsilons, *self._limits(totals, beta), strict=True)
            for epsilon, value, low, high in columns:
                bounds = _bounds(value, low, high, totals.draws, totals.interrupted)
                found[totals.task.schedule, epsilon] = bounds
        return [self._worst({s: found[s, epsilon] for s in self.schedules}) for epsilon in epsilons]

    def epsilons(self, deltas: Sequence[float]) -> list[DrawnBounds]:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta, for each delta.

        A search has several rounds at most; round r gets 2^-r of its share, so that all rounds together fail
        no more often. Progress counts the draws of each round anew.
        """
        rows = [[EpsilonSearch(schedule, delta) for schedule in self.schedules] for delta in deltas]
        searches = [search for row in rows for search in row]
        beta, index = next_down(self.plan.beta / max(len(searches), 1)), 0
        for number in range(1, MOST_ROUNDS + 1):
            unfinished = [search for search in searches if not search.done]
            if not unfinished:
                break
            self._search_once(unfinished, beta / 2**number, index)
            index += len(unfinished)
        return [self._worst({search.schedule: search.found for search in row}) for row in rows]

    def _search_once(self, searches: "list[EpsilonSearch]", beta: float, index: int) -> None:
        """One round of every search; an interrupt leaves what the rounds before found."""
        tasks = []
        for number, search in enumerate(searches, start=index):
            grid, aim = search.grid()
            (tilt,) = choose_tilts(search.schedule, (aim,), self.plan.drawing)
            tasks.append(self._task(search.schedule, tilt, grid, number))
        try:
            all_totals = self._draw(tasks)
        except (KeyboardInterrupt, StopWork):
            if not all(search.rounds for search in searches):
                raise
            for search in searches:
                search.interrupt()
            return
        for search, totals in zip(searches, all_totals, strict=True):
            search.learn(totals.task.epsilons, *self._limits(totals, beta), totals.draws)
            if totals.interrupted:
                search.interrupt()

    def _draw(self, tasks: list[DrawTask]) -> list[DrawTotals]:
        if tasks:
            begin_work(self.progress, partial(self._foresee, tasks))
        return draw_all(tasks, self.spread, self.progress)

    def _foresee(self, tasks: list[DrawTask]) -> Workload:
        """What is drawn; how long it takes differs a hundredfold between runs, and the first draws tell."""
        return Workload(
            piece=tuple(tasks),
            what=f"{sum(task.draws for task in tasks):,} draws",
            seconds=None,
            scales_with=("draws", self.plan.draws),
        )

    def _tasks(self, schedule: Schedule, epsilons: tuple[float, ...], index: int) -> list[DrawTask]:
        """One task per tilt."""
        grouped: dict[float, list[float]] = {}
        for epsilon, tilt in zip(epsilons, choose_tilts(schedule, epsilons, self.plan.drawing), strict=True):
            grouped.setdefault(tilt, []).append(epsilon)
        return [
            self._task(schedule, tilt, tuple(group), number)
            for number, (tilt, group) in enumerate(grouped.items(), start=index)
        ]

    def _task(self, schedule: Schedule, tilt: float, epsilons: tuple[float, ...], index: int) -> DrawTask:
        return DrawTask(schedule, tilt, epsilons, self.plan.draws, self.plan.seed, index)

    def _limits(self, totals: DrawTotals, beta: float) -> tuple[Floats, Floats, Floats]:
        """delta and its limits at each epsilon of the task."""
        mean = totals.sample.sums.sum(axis=0) / totals.draws
        limits = find_limits(self.plan.interval, totals.sample, beta, totals.task.draws)
        return scale_to_delta(totals.task, mean, *limits)

    def _worst(self, found: dict[Schedule, DrawnBounds]) -> DrawnBounds:
        """The worst cover from above and as the value, the best witness from below."""
        upper = max((found[schedule].upper for schedule in self.covers), default=0.0)
        lower = max((found[schedule].lower for schedule in self.witnesses), default=0.0)
        value = max((found[schedule].value for schedule in self.covers), default=0.0)
        draws = min((bounds.draws for bounds in found.values() if bounds.draws), default=0)
        interrupted = any(bounds.interrupted for bounds in found.values())
        # they cross only if a limit failed, which beta allows for: no rounding can do it
        return _bounds(value, min(lower, upper), upper, draws, interrupted)


def _bounds(value: float, low: float, high: float, draws: int, interrupted: bool) -> DrawnBounds:
    low, high = float(low), float(high)
    return DrawnBounds(min(max(float(value), low), high), low, high, draws, interrupted)


def _known_delta(schedule: Schedule, epsilon: float) -> DrawnBounds | None:
    """0 where certainly no loss exceeds epsilon; 1 where every loss is infinite; else unknown."""
    if schedule.shares_no_output:
        return DrawnBounds(1.0, 1.0, 1.0)
    return DrawnBounds(0.0, 0.0, 0.0) if epsilon >= _largest_loss(schedule) else None


def _largest_loss(schedule: Schedule) -> float:
    """An upper bound on the largest total loss, infinite ones included."""
    return math.inf if schedule.has_infinite_losses else schedule.loss_ceiling[1]


@dataclass
class EpsilonSearch:
    """Where one schedule's curve crosses `delta`: what is known so far, and where to look next."""

    schedule: Schedule
    delta: float
    found: DrawnBounds = DrawnBounds(0.0, 0.0, math.inf)
    done: bool = False
    rounds: int = 0
    _aim: float | None = None
    _tilt: float = 1.0

    def __post_init__(self) -> None:
        if not self.schedule:
            self.found, self.done = DrawnBounds(0.0, 0.0, 0.0), True
            return
        largest = _largest_loss(self.schedule)
        if self.schedule.compare_infinite_mass(self.delta) > 0:
            self.found, self.done = DrawnBounds(math.inf, math.inf, math.inf), True
            return
        self.found = DrawnBounds(0.0, 0.0, largest)
        log_delta = math.log(self.delta)
        try:
            aim, tilt = epsilon_estimate(Plan(self.schedule, log_delta + NEGLIGIBLE), log_delta)
        except (EngineDeclines, ArithmeticError, ValueError):
            return
        if math.isfinite(aim) and aim < largest:
            self._aim, self._tilt = aim, tilt

    def interrupt(self) -> None:
        """No further round: what is known stands."""
        self.found, self.done = replace(self.found, interrupted=True), True

    def grid(self) -> tuple[tuple[float, ...], float]:
        """Epsilons in increasing order, chosen before any of their draws, and the one they are about."""
        largest = _largest_loss(self.schedule)
        if self._aim is not None and self._aim >= largest:
            self._aim = None
        if self._aim is None:
            lower, upper = self.found.lower, self.found.upper
            scale = upper if math.isfinite(upper) else 4 * max(lower, 10.0) ** 2
            wide = np.geomspace(1e-5 * scale, scale, WIDE_POINTS)
            points = np.append(0.0, wide[:-1] if math.isfinite(upper) else wide)
            return tuple(points.tolist()), max(lower, 1e-2 * scale)
        offsets = np.concatenate([-FAR[::-1], NEAR, FAR]) / self._tilt
        points = np.unique(np.maximum(self._aim + offsets, 0.0))
        return tuple(points[points < largest].tolist()), self._aim

    def learn(
        self, epsilons: tuple[float, ...], values: Floats, lows: Floats, highs: Floats, draws: int
    ) -> None:
        """Both ends from the limits on a grid.

        The upper end starts from a point fixed beforehand and goes down the grid while upper limits are at
        most delta; the lower end starts from another and goes up while lower limits exceed it. The curve
        falls. So an upper end below the truth needs a wrong limit at one certain point: the last of the grid
        before the truth, which was passed, or the starting point if that is already below. Likewise for the
        lower end. The limits of all grid points need not hold together: each end fails no more often than a
        single limit.
        """
        start, stop = self._starts(epsilons)
        first = stop + 1 - int(np.logical_and.accumulate((highs <= self.delta)[stop::-1]).sum())
        last = start - 1 + int(np.logical_and.accumulate(lows[start:] > self.delta).sum())
        upper = min(self.found.upper, epsilons[first]) if first <= stop else self.found.upper
        lower = max(self.found.lower, epsilons[last]) if last >= start else self.found.lower
        self.rounds += 1
        crossed = np.flatnonzero(values <= self.delta)
        place = int(crossed[0]) if len(crossed) else len(epsilons)
        guess = self._interpolate(epsilons, values, place)
        # as in `_worst`: ends that cross are a failure that beta allows for
        self.found = _bounds(guess, min(lower, upper), upper, self.found.draws + draws, False)
        closed = first <= stop and (last >= start or epsilons[start] == 0)
        self.done = upper == 0 or (closed and first - last > ENOUGH_BETWEEN)
        if not self.done:
            self._look_elsewhere(epsilons, values, place)

    def _starts(self, epsilons: tuple[float, ...]) -> tuple[int, int]:
        """Grid places about START on either side of the aim; the first and the last without an aim."""
        if self._aim is None:
            return 0, len(epsilons) - 1
        reach = START * 2**self.rounds / self._tilt
        stop = int(np.searchsorted(epsilons, self._aim + reach))
        return max(int(np.searchsorted(epsilons, self._aim - reach)) - 1, 0), min(stop, len(epsilons) - 1)

    def _interpolate(self, epsilons: tuple[float, ...], values: Floats, place: int) -> float:
        """ln delta is nearly linear between two grid points."""
        if place == 0 or place == len(epsilons):
            return epsilons[min(place, len(epsilons) - 1)]
        left, right = epsilons[place - 1], epsilons[place]
        if values[place] <= 0:
            return right
        share = math.log(values[place - 1] / self.delta) / math.log(values[place - 1] / values[place])
        return left + share * (right - left)

    def _look_elsewhere(self, epsilons: tuple[float, ...], values: Floats, place: int) -> None:
        """Around the crossing where there is one, at the slope it has; else everywhere."""
        if not 0 < place < len(epsilons) or values[place] <= 0:
            self._aim = None
            return
        fall = math.log(values[place - 1] / values[place]) / (epsilons[place] - epsilons[place - 1])
        self._aim, self._tilt = self.found.value, max(fall, 1e-3)
