"""From schedules and a simulation to estimates of delta and of epsilon, with the confidence shared out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tightrope.engines.draws.chunks import (
    Part,
    Progress,
    Spread,
    Tally,
    drawn,
    infinite_mass,
    scaled,
    serially,
)
from tightrope.engines.draws.simulation import BETTING, CHERNOFF, PLAIN, Simulation
from tightrope.engines.draws.tilts import best_tilts
from tightrope.engines.face import EngineDeclines
from tightrope.engines.planning import NEGLIGIBLE, Plan
from tightrope.engines.saddle import epsilon_estimate
from tightrope.numerics.confidence import Limits, betting, chernoff, hoeffding
from tightrope.numerics.tails import Floats
from tightrope.pairs.schedule import Schedule

MOST_ROUNDS = 4
# Where epsilon is looked for, in units of 1 / tilt around a guess: there delta changes by half a percent from one to the next.
NEAR = np.linspace(-0.4, 0.4, 161)
FAR = np.geomspace(0.42, 12.0, 40)
START = 1.0  # likewise: where the limits of the two ends are followed from, inwards; twice as far in every further round
WIDE_POINTS = 200
ENOUGH_BETWEEN = (
    4  # grid points between the two ends: then it is the draws that keep them apart, not the grid
)


@dataclass(frozen=True)
class DrawnBounds:
    """`lower` <= truth <= `upper` but for the probability of failure; `value` is the best guess, after so many draws."""

    value: float
    lower: float
    upper: float
    draws: int
    interrupted: bool = False


@dataclass(frozen=True)
class Simulated:
    """delta and epsilon of the worst of several schedules: covers bound it from above, witnesses from below.

    All answers of one call hold together with the simulation's confidence: each limit of each schedule at each point gets
    an equal share of the probability of failure.
    """

    covers: tuple[Schedule, ...]
    witnesses: tuple[Schedule, ...]
    simulation: Simulation
    spread: Spread = serially
    progress: Progress | None = None

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Everything that is simulated, once."""
        return tuple(dict.fromkeys((*self.covers, *self.witnesses)))

    def deltas(self, epsilons: Sequence[float], points: int) -> list[DrawnBounds]:
        """delta at each epsilon >= 0, as one of the `points` answers of a call."""
        beta = self.simulation.beta / (points * len(self.schedules))
        asked = tuple(sorted(set(epsilons)))
        parts = [part for schedule in self.schedules for part in self._parts(schedule, asked)]
        parts = [replace(part, index=index) for index, part in enumerate(parts)]
        found: dict[tuple[Schedule, float], DrawnBounds] = {}
        for tally in drawn(parts, self.spread, self.progress):
            columns = zip(tally.part.epsilons, *self._limits(tally, beta), strict=True)
            for epsilon, value, low, high in columns:
                found[tally.part.schedule, epsilon] = self._estimate(
                    value, low, high, tally.draws, tally.interrupted
                )
        for schedule in self.schedules:
            for epsilon in asked:
                exact = _known_delta(schedule, epsilon)
                if exact is not None:
                    found[schedule, epsilon] = self._estimate(exact, exact, exact, 0)
        return [self._worst({s: found[s, epsilon] for s in self.schedules}) for epsilon in epsilons]

    def _parts(self, schedule: Schedule, epsilons: tuple[float, ...]) -> list[Part]:
        """One part per tilt, for the epsilons at which there is something to find out."""
        inside = tuple(epsilon for epsilon in epsilons if _known_delta(schedule, epsilon) is None)
        plain = self.simulation.drawing is PLAIN
        tilts = [0.0] * len(inside) if plain else best_tilts(schedule, inside)
        grouped: dict[float, list[float]] = {}
        for epsilon, tilt in zip(inside, tilts, strict=True):
            grouped.setdefault(tilt, []).append(epsilon)
        return [self._part(schedule, tilt, tuple(group)) for tilt, group in grouped.items()]

    def _part(self, schedule: Schedule, tilt: float, epsilons: tuple[float, ...], index: int = 0) -> Part:
        return Part(schedule, tilt, epsilons, self.simulation.draws, self.simulation.seed, index)

    def _limits(self, tally: Tally, beta: float) -> tuple[Floats, Floats, Floats]:
        """delta and its limits at each epsilon of the part."""
        total = tally.sums.sum(axis=0)
        mean = np.minimum(total / tally.draws, 1.0)
        limits: Limits
        if self.simulation.interval is BETTING:
            limits = betting(tally.counts, tally.sums, tally.squares, beta, tally.part.draws)
        elif self.simulation.interval is CHERNOFF:
            limits = chernoff(tally.draws, total, beta)
        else:
            limits = hoeffding(tally.draws, total, beta)
        return scaled(tally.part, mean, *limits)

    def _estimate(
        self, value: float, low: float, high: float, draws: int, interrupted: bool = False
    ) -> DrawnBounds:
        low, high = float(low), float(high)
        return DrawnBounds(min(max(float(value), low), high), low, high, draws, interrupted)

    def _worst(self, found: dict[Schedule, DrawnBounds]) -> DrawnBounds:
        """The worst cover from above and as the value, the best witness from below."""
        upper = max((found[schedule].upper for schedule in self.covers), default=0.0)
        lower = max((found[schedule].lower for schedule in self.witnesses), default=0.0)
        value = max((found[schedule].value for schedule in self.covers), default=0.0)
        simulated = [each.draws for each in found.values() if each.draws]
        interrupted = any(each.interrupted for each in found.values())
        return self._estimate(value, min(lower, upper), upper, min(simulated, default=0), interrupted)

    def epsilons(self, deltas: Sequence[float]) -> list[DrawnBounds]:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta, for each delta.

        A search has several rounds at most; round r gets 2^-r of its share, so that all rounds together fail no more often.
        Progress counts the draws of each round anew.
        """
        searches = [[Search(schedule, delta) for schedule in self.schedules] for delta in deltas]
        everyone = [search for row in searches for search in row]
        beta = self.simulation.beta / max(len(everyone), 1)
        index = 0
        for number in range(1, MOST_ROUNDS + 1):
            open_ones = [search for search in everyone if not search.done]
            if not open_ones:
                break
            parts = []
            for search in open_ones:
                grid, aim = search.grid()
                tilt = 0.0 if self.simulation.drawing is PLAIN else best_tilts(search.schedule, (aim,))[0]
                parts.append(self._part(search.schedule, tilt, grid, index))
                index += 1
            try:
                tallies = drawn(parts, self.spread, self.progress)
            except KeyboardInterrupt:
                if number == 1:
                    raise
                for search in open_ones:
                    search.interrupted = True
                break  # what the rounds before found stands
            for search, tally in zip(open_ones, tallies, strict=True):
                search.learn(tally.part.epsilons, *self._limits(tally, beta / 2**number), tally.draws)
                search.interrupted = tally.interrupted
                search.done = search.done or tally.interrupted  # no further round
        return [self._worst({search.schedule: self._found(search) for search in row}) for row in searches]

    def _found(self, search: "Search") -> DrawnBounds:
        return self._estimate(search.value, search.lower, search.upper, search.draws, search.interrupted)


def _known_delta(schedule: Schedule, epsilon: float) -> float | None:
    """0 where no loss is as large as epsilon, rounding included; 1 where every loss is infinite; else unknown."""
    if not schedule or epsilon >= schedule.loss_range[1] * (1 + 1e-12):
        return 0.0
    return 1.0 if infinite_mass(schedule) == 1 else None


@dataclass
class Search:
    """Where one schedule's curve crosses `delta`: what is known so far, and where to look next."""

    schedule: Schedule
    delta: float
    lower: float = 0.0
    upper: float = math.inf
    value: float = 0.0
    draws: int = 0
    done: bool = False
    interrupted: bool = False
    _aim: float | None = None
    _tilt: float = 1.0
    _rounds: int = 0

    def __post_init__(self) -> None:
        if not self.schedule:
            self.upper, self.done = 0.0, True
            return
        self.upper = self.schedule.loss_range[1]
        if infinite_mass(self.schedule) > self.delta:
            self.lower = self.value = math.inf
            self.done = True
            return
        try:
            guess = epsilon_estimate(
                Plan(self.schedule, math.log(self.delta) + NEGLIGIBLE), math.log(self.delta)
            )
        except (EngineDeclines, ArithmeticError, ValueError):
            return
        if math.isfinite(guess[0]) and guess[0] < self.upper:
            self._aim, self._tilt = guess

    def grid(self) -> tuple[tuple[float, ...], float]:
        """Epsilons in increasing order, chosen before any of their draws, and the one they are about."""
        if self._aim is not None and self._aim >= self.schedule.loss_range[1]:
            self._aim = None
        if self._aim is None:
            scale = self.upper if math.isfinite(self.upper) else 4 * max(self.lower, 10.0) ** 2
            points = np.append(
                0.0,
                np.geomspace(1e-5 * scale, scale, WIDE_POINTS)[: -1 if math.isfinite(self.upper) else None],
            )
            return tuple(points.tolist()), max(self.lower, 1e-2 * scale)
        offsets = np.concatenate([-FAR[::-1], NEAR, FAR]) / self._tilt
        points = np.unique(np.maximum(self._aim + offsets, 0.0))
        return tuple(points[points < self.schedule.loss_range[1]].tolist()), self._aim

    def learn(
        self, epsilons: tuple[float, ...], values: Floats, lows: Floats, highs: Floats, draws: int
    ) -> None:
        """Both ends from the limits on a grid.

        The upper end is where one arrives from a starting point, fixed beforehand, going down the grid while upper limits
        are at most delta; the lower end, going up from another while lower limits exceed it. The curve falls. So an upper end
        below the truth needs a wrong limit at one certain point: the last of the grid before the truth, which was passed, or
        the starting point if that is already below. Likewise for the lower end. The limits of all grid points need not hold
        together: each end fails no more often than a single limit.
        """
        start, stop = self._starts(epsilons)
        first = stop + 1 - int(np.logical_and.accumulate((highs <= self.delta)[stop::-1]).sum())
        last = start - 1 + int(np.logical_and.accumulate(lows[start:] > self.delta).sum())
        if first <= stop:
            self.upper = min(self.upper, epsilons[first])
        if last >= start:
            self.lower = max(self.lower, epsilons[last])
        self.lower = min(self.lower, self.upper)
        self.draws += draws
        self._rounds += 1
        crossed = np.flatnonzero(values <= self.delta)
        place = int(crossed[0]) if len(crossed) else len(epsilons)
        self.value = min(max(self._interpolated(epsilons, values, place), self.lower), self.upper)
        closed = first <= stop and (last >= start or epsilons[start] == 0)
        self.done = self.upper == 0 or (closed and first - last > ENOUGH_BETWEEN)
        if not self.done:
            self._look_elsewhere(epsilons, values, place)

    def _starts(self, epsilons: tuple[float, ...]) -> tuple[int, int]:
        """Grid places about START on either side of what is aimed at; the first and the last without an aim."""
        if self._aim is None:
            return 0, len(epsilons) - 1
        reach = START * 2**self._rounds / self._tilt
        stop = int(np.searchsorted(epsilons, self._aim + reach))
        return max(int(np.searchsorted(epsilons, self._aim - reach)) - 1, 0), min(stop, len(epsilons) - 1)

    def _interpolated(self, epsilons: tuple[float, ...], values: Floats, place: int) -> float:
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
        self._aim, self._tilt = self.value, max(fall, 1e-3)
