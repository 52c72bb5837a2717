"""Several steps of one law as one move, for a policy that changes its mind only every so many steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft

from tightrope.engines.face import Progress
from tightrope.engines.game.above import FIFTEEN_ROUNDINGS, Window
from tightrope.engines.game.below import GameBelow, LabelLaw, PolicyValue, label_law
from tightrope.engines.game.layout import MOST_MOVES
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.fourier import convolution_rel_error, fast_size, two_norm
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair

FARTHER = 8.0  # standard deviations by which the sum of several labels may exceed the largest of them
MASS_REL_ERROR = 2 * UNIT_ROUNDOFF  # of a fraction as a float
Kernel = tuple[Floats, float]  # tilted masses at labels of both signs, and how far off they are in sum


@dataclass(frozen=True)
class RepeatedLaw:
    """`times` steps of one law; their labels add up, and runs whose sum leaves the reach are let go."""

    law: LabelLaw
    times: int

    def kernel(self, window: Window, *, dual: bool) -> Kernel:
        """Tilted masses of the sums from -reach to reach, and how far off they are in sum."""
        power, left = self.law.kernel(window, dual=dual), self.times
        found = None
        while True:
            if left & 1:
                found = power if found is None else add_labels(found, power)
            left >>= 1
            if not left:
                return found if found is not None else power
            power = add_labels(power, power)


def add_labels(first: Kernel, second: Kernel) -> Kernel:
    """The masses of the sum of two labels, cut to the reach of both.

    The FFT's bound is one on the 2-norm of all errors, so that their sum is at most root n of it. Masses are
    not negative, so computed ones below 0 count as 0, which brings them closer.
    """
    (one, one_abs_error), (two, two_abs_error) = first, second
    count, reach = len(one), len(one) // 2
    size = fast_size(2 * count - 1)
    found = fft.irfft(fft.rfft(one, size) * fft.rfft(two, size), size)[reach : reach + count]
    one_sum, two_sum = (float(masses.sum()) * (1 + gamma(count)) for masses in (one, two))
    rounding = convolution_rel_error(size) * (1 + gamma(size)) * math.sqrt(count) * one_sum * two_norm(two)
    abs_error = (one_sum + one_abs_error) * two_abs_error + two_sum * one_abs_error + rounding
    return np.maximum(found, 0), (abs_error + count * UNDERFLOW_ABS_ERROR) * (1 + FIFTEEN_ROUNDINGS)


def labels_of(pair: Pair, window: Window) -> LabelLaw | None:
    """The labels of a pair; None for kinds of pairs that no policy plays yet."""
    if pair.is_finite:
        levels = np.array([[float(mass) for mass in level] for level in pair.levels]).reshape(-1, 2)
        (p, q) = levels.T
        return LabelLaw.from_masses((p, MASS_REL_ERROR * p), (q, MASS_REL_ERROR * q), window.spacing)
    if isinstance(pair, ShiftPair):
        return label_law(pair, window.spacing, window.reach)
    return None


def play_stages(
    stages: Sequence[tuple[Sequence[LabelLaw], int]], window: Window, progress: Progress
) -> PolicyValue:
    """The value of a policy that chooses among each stage's laws, the last steps of the run first.

    Where there is no choice, all steps are one move.
    """
    steps, done, state = sum(times for _, times in stages), 0, None
    for laws, times in stages:
        together = max(times // MOST_MOVES, 1) if len(laws) > 1 else times
        for size, rounds in ((together, times // together), (times % together, 1)):
            if size == 0:
                continue
            game = GameBelow([RepeatedLaw(law, size) for law in laws], _widen(window, laws, size))
            state = game.start() if state is None else state
            for _ in range(rounds):
                state = game.advance(state)
                done += size
                progress(done, steps)
    if state is None:
        raise ValueError("a policy needs steps")
    return game.read_state(state)


def _widen(window: Window, laws: Sequence[LabelLaw], size: int) -> Window:
    """The window with the reach that a move of so many steps needs; no sum is longer than the window."""
    if size == 1:
        return window
    labels, farthest = np.arange(-window.reach, window.reach + 1), 0.0
    for law in laws:
        masses, _ = law.kernel(window, dual=False)
        mean = float(masses @ labels) / float(masses.sum())
        variance = float(masses @ (labels - mean) ** 2) / float(masses.sum())
        farthest = max(farthest, size * abs(mean) + FARTHER * math.sqrt(size * variance))
    reach = min(window.reach + math.ceil(farthest), size * window.reach, window.below + window.last)
    return replace(window, reach=max(reach, window.reach))
