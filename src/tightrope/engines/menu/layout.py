"""Where a menu is played: the lattice, its window and the tilt. Estimates, which decide no answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.game.above import Window
from tightrope.engines.game.layout import COARSER, FADED, LARGEST_EXPONENT, TELLABLE
from tightrope.engines.lattice.law import few_bits
from tightrope.engines.planning import Plan, outline
from tightrope.engines.saddle import log_delta_estimate, tilt_for_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.schedule import Schedule

TOLERANCE = 3e-4  # how far the lattice may move epsilon, relative
EASY = 1.5e9  # lattice points times products of spectra: some twenty seconds
MOST_WORK = 1e10
FEWEST_POINTS, MOST_POINTS = 4000, 2**22
STEEPEST = 4.0  # times ln(1/delta) / epsilon is as large as a saddle is taken to be
LOG_SHARE = math.log(1e-4)  # of the tilted mass of all steps that may be moved to the least loss


@dataclass(frozen=True)
class PureSchedule:
    """An entry of a menu taken as often as it would fit if nothing else were: about the worst it does."""

    entry: Schedule
    times: int

    @cached_property
    def whole(self) -> Schedule:
        """All of it."""
        return Schedule((pair, times * self.times) for pair, times in self.entry)


class MenuPlanner:
    """Lays out the game for one epsilon and about one delta."""

    def __init__(self, pure: Sequence[PureSchedule], epsilon: float, log_delta: float) -> None:
        self.pure = [one for one in pure if one.whole]
        self.epsilon, self.log_delta = epsilon, log_delta
        plans = [Plan(one.whole, log_delta - 14) for one in self.pure]
        try:
            # entries that never lose as much have no saddle of their own, and need none
            steepest = STEEPEST * (1 - log_delta) / max(epsilon, 1e-9)
            self.saddles = [min(tilt_for_epsilon(plan, epsilon), steepest) for plan in plans]
            self.deviations = [
                math.sqrt(plan(saddle)[2]) for plan, saddle in zip(plans, self.saddles, strict=True)
            ]
        except EngineDeclines:
            raise self._refuse() from None

    def window(self, units: int, accuracy: float, *, policy: bool = False) -> Window:
        """The window for about so many products of spectra; a policy's reaches further to the left."""
        low = min(self.saddles)
        tilt = min(low, max(low / 16, (-self.log_delta - TELLABLE) / max(self.epsilon, 1e-9)))
        while True:
            end = max(self._ends(tilt))
            reach = max(self._reaches())
            # to the left of this the curve is as good as straight in e^r
            below = self._below(reach) if policy else max(self.epsilon, 5 * max(self.deviations))
            if tilt * (end + below + 2 * reach) < LARGEST_EXPONENT:
                break
            tilt *= 0.7
        if -self.log_delta - tilt * self.epsilon > 2.5 * TELLABLE:
            raise self._refuse()
        width = end + below + 2 * reach
        if policy:  # nothing lies beyond its window, so a steeper tilt costs nothing and leaves more digits
            tilt = max(tilt, min(low / 2, LARGEST_EXPONENT / width))
        tolerance = TOLERANCE * min(max(accuracy / 1e-3, 0.1), 10.0)
        coarsest = COARSER * tolerance
        spacing = self._spacing(tolerance)
        while units * width / spacing > EASY and tolerance < coarsest:
            tolerance *= 1.4
            spacing = self._spacing(tolerance)
        if width / spacing > MOST_POINTS or units * width / spacing > MOST_WORK:
            raise self._refuse()
        spacing = min(spacing, few_bits(width / FEWEST_POINTS))
        first, last, widest = (math.ceil(length / spacing) for length in (below, end, reach))
        return Window(spacing=spacing, below=first, last=last, reach=widest + 1, tilt=tilt)

    def _below(self, reach: float) -> float:
        """A policy lets go who lost far more than epsilon."""
        return max(
            max(20 / saddle + 4 * deviation, 1.2 * reach + 10 / saddle)
            for saddle, deviation in zip(self.saddles, self.deviations, strict=True)
        )

    def _ends(self, tilt: float) -> list[float]:
        """Where each pure schedule's tilted curve has faded."""
        found = []
        for one, deviation in zip(self.pure, self.deviations, strict=True):
            plan = Plan(one.whole, self.log_delta - 40)
            r = self.epsilon
            for count in range(1, 17):
                r = self.epsilon + count * deviation / 2
                try:
                    there = log_delta_estimate(plan, tilt_for_epsilon(plan, r, tilt), r)
                except EngineDeclines:
                    continue
                if there + tilt * (r - self.epsilon) <= self.log_delta - FADED:
                    break
            found.append(r)
        return found

    def _reaches(self) -> list[float]:
        """The losses that matter of every pair, either way."""
        found = []
        for one, saddle in zip(self.pure, self.saddles, strict=True):
            for pair, times in one.whole:
                log_mass = self.log_delta - 9 - math.log(times)
                low, high = outline(pair, self.log_delta - 20).losses_that_matter(
                    saddle, LOG_SHARE - math.log(times), log_mass
                )
                found.append(max(-low, high))
        return found

    def _spacing(self, tolerance: float) -> float:
        """The spacing that moves each pure schedule's epsilon by about `tolerance` of itself."""
        found = []
        for one, saddle in zip(self.pure, self.saddles, strict=True):
            allowed = tolerance * max(saddle * self.epsilon, 3.0)
            laws = [(outline(pair, -50.0).tilted(saddle), times) for pair, times in one.whole]
            spacing, live = 0.0, float(one.whole.steps)
            for _ in range(4):
                spacing = math.sqrt(8 * allowed / (max(live, 0.1) * saddle * (1 + saddle)))
                live = sum(
                    times * float(weights @ np.minimum(1, 6 * np.abs(losses) / spacing))
                    for (losses, weights, _), times in laws
                )
            found.append(spacing)
        return few_bits(min(found))  # so that multiples are exact

    def _refuse(self) -> NotPreciseEnough:
        return NotPreciseEnough(
            f"The game over this menu at {{epsilon}} {self.epsilon:.4g} and {{delta}} of about "
            f"e^{self.log_delta:.0f} is out of reach",
            "Put fewer or larger entries on the menu, such as {step * 100}.",
        )
