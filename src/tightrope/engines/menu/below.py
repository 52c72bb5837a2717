"""The menu game from below: one policy that chooses among the entries that fit, evaluated under P and Q.

As in engines/game/below.py the adversary sees a sum of labels and accuses if it reaches a threshold. With B
units left it plays the entry, among those that cost at most B, that makes A - e^r B largest. Which entry that
is decides how good the policy is, not whether it is one.
"""

from collections.abc import Sequence

import numpy as np
from scipy import fft

from tightrope.engines.face import Progress
from tightrope.engines.game.above import Window
from tightrope.engines.game.below import GameBelow, LabelLaw, PolicyValue
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule


class MenuBelow:
    """The game of one policy over one menu, on one window."""

    def __init__(
        self, entries: Sequence[Schedule], costs: Sequence[int], laws: dict[Pair, LabelLaw], window: Window
    ) -> None:
        places = {pair: i for i, pair in enumerate(laws)}
        self.entries = [[places[pair] for pair, times in entry for _ in range(times)] for entry in entries]
        self.costs = tuple(costs)
        self.game = GameBelow(list(laws.values()), window)

    def play(self, units: int, progress: Progress) -> PolicyValue:
        """The accusation probabilities with so many units left."""
        # their exponents x <= 0 are off by 4 u |x|, and |x| e^x is below 1
        start = self.game.accusations(), [16 * UNIT_ROUNDOFF] * 2
        levels = [start]
        for left in range(1, units + 1):
            reached = [
                self._enter(entry, *levels[left - cost])
                for entry, cost in zip(self.entries, self.costs, strict=True)
                if cost <= left
            ]
            levels.append(_choose(reached) if reached else start)
            if left >= max(self.costs):
                levels[left - max(self.costs)] = start  # never needed again, and its memory is
            progress(left, units)
        return self.game.read(*levels[units], 0.0)

    def _enter(self, laws: Sequence[int], values: Floats, errors: list[float]) -> tuple[Floats, list[float]]:
        """A and B, and how far off they are, before the steps of one entry."""
        game, size, count = self.game, self.game.size, values.shape[1]
        for law in laws:
            errors = [game.next_error(i, error, values[i]) for i, error in enumerate(errors)]
            spectrum = fft.rfft(values, size, axis=1)
            found = fft.irfft(game.spectra[:, law] * spectrum, size, axis=1)
            values = np.maximum(found[:, :count], 0)  # no probability is negative
            if not np.isfinite(float(values.max()) + sum(errors)):
                raise NotPreciseEnough("The tilted values of the policy overflow")
        return values, errors


def _choose(reached: Sequence[tuple[Floats, list[float]]]) -> tuple[Floats, list[float]]:
    """A and B of the entry that makes A - e^r B largest, at each r; the largest of their errors."""
    all_values = np.stack([values for values, _ in reached])  # [entry, P or Q, r]
    chosen = np.argmax(all_values[:, 0] - all_values[:, 1], axis=0)
    values = all_values[chosen, :, np.arange(all_values.shape[2])].T
    errors = [max(errors[i] for _, errors in reached) for i in (0, 1)]
    return np.ascontiguousarray(values), errors
