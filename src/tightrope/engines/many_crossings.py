"""Many crossings at once: each is, to the last bit, the one that `Solver` finds alone.

One curve crosses many deltas, or the curves of runs that are about as long cross one.

Rows take the steps of `Solver._approach`, all at once, where no epsilon is settled without an engine.
Whatever is unusual is left out here, and solved by itself.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.crossing import FINEST, MOST_SECANTS, SMALLEST_STEP, Crossing
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

FEWEST = 8  # deltas for which it pays


Rows = NDArray[np.intp]
BoundRows = Callable[[Rows, Floats], tuple[Floats, Floats]]  # bounds on ln delta of rows, at an epsilon each


def cross_all(
    bound: BoundRows, guesses: Floats, slopes: Floats, ends: tuple[Floats, Floats], accuracy: float
) -> list[Crossing | None]:
    """Both crossings of each ln delta, which lies between its `ends`; None where secants do not find them."""
    least_logs, most_logs = ends
    x, slope, last_x, last_excess = guesses.copy(), slopes.copy(), guesses.copy(), np.zeros_like(guesses)
    lows, highs, widths = np.full((3, len(x)), np.nan)
    rows = np.arange(len(x))
    for count in range(MOST_SECANTS):
        rows = rows[(x[rows] > 0) & (slope[rows] < 0)]
        if not len(rows):
            break
        lower, upper = bound(rows, x[rows])
        excess, width = upper - least_logs[rows], -_expm1(lower - upper)
        resolution = _choose_resolutions(width, x[rows], slope[rows], accuracy)
        if count:
            moved = np.abs(x[rows] - last_x[rows]) > resolution
            far = rows[moved]
            slope[far] = (excess[moved] - last_excess[far]) / (x[far] - last_x[far])
        usual = (slope[rows] < 0) & (lower > -math.inf)  # the others are left out
        rows, lower, excess = rows[usual], lower[usual], excess[usual]
        width, resolution = width[usual], resolution[usual]
        is_met = (slope[rows] * resolution <= excess) & (excess <= 0)
        met = rows[is_met]
        lows[met] = (x[rows] - (lower - most_logs[rows]) / slope[rows] - resolution / 2)[is_met]
        highs[met], widths[met] = x[met], np.maximum(width, -_expm1(excess))[is_met]
        last_x[rows], last_excess[rows] = x[rows], excess
        x[rows] += resolution / 2 - excess / slope[rows]  # aim a little past the crossing
        rows = rows[~is_met]
    is_certain = _certify(bound, lows, highs, most_logs)
    return [
        Crossing(low, high, width) if certain else None
        for low, high, width, certain in zip(
            *(a.tolist() for a in (lows, highs, widths, is_certain)), strict=True
        )
    ]


def _certify(bound: BoundRows, lows: Floats, highs: Floats, most_logs: Floats) -> NDArray[np.bool_]:
    """Whether the curve is certainly above each ln delta at its lower crossing."""
    is_certain = (lows > 0) & (lows <= highs)
    rows = np.flatnonzero(is_certain)
    if len(rows):
        is_certain[rows] = bound(rows, lows[rows])[0] > most_logs[rows]
    return is_certain


def _choose_resolutions(widths: Floats, x: Floats, slopes: Floats, accuracy: float) -> Floats:
    """As `Solver._resolution` does for one."""
    fine = np.minimum(np.maximum(widths, FINEST), accuracy / 10) / 5 / -slopes
    return np.maximum(np.maximum(fine, 8 * UNIT_ROUNDOFF * x), SMALLEST_STEP)


def _expm1(x: Floats) -> Floats:
    """One by one: NumPy's may differ in the last bit."""
    return np.array(list(map(math.expm1, x.tolist())))
