"""m(t) = sum of w e^{i t loss} at equally spaced heights, by products of matrices, and how far it can be off.

A height is t = far + near, far a multiple of some sqrt(n) spacings and near less than that many. With
f = e^{i far loss} - 1 and g = e^{i near loss} - 1, each made from the sine and cosine of half an angle,

    m(t) - 1 = sum of w (f g + f + g),

so that n heights take about 2 sqrt(n) sines for every loss, and m near 1 keeps its accuracy: where t loss is
small, so are f and g.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma

if TYPE_CHECKING:
    from tightrope.engines.transforms.transform import TiltedNodes

SUMS_ROUNDED_UP = 1 + 2.0**-20  # for sums of positive charges: many times what adding them can lose
NODES_AT_ONCE = 512  # nodes in one product: of longer sums the worst case would be charged
LEAST_MODULUS = 1e-300  # a smaller one counts as this, which is charged: its logarithm must be a number


def evaluate(nodes: "TiltedNodes", spacing: float, count: int) -> tuple[Floats, Floats, Floats]:
    """ln|m|, arg m and how far m can be off, at the heights 0 to count * spacing.

    Angles are rounded once, which moves m by at most u t |loss| in all: that is part of `loss_abs_error`.
    With s the sine of half of an angle, the real part of f is -2 s^2 and its imaginary part 2 s cos: relative
    to themselves they lose 16 u in the functions, 1 u in the product and 1 u with the weight. A product of
    both loses 35 u, and the sum of n such terms gamma_n; three more sums follow, of 1 u each. The parts'
    sizes sum to at most

        w (|f'| + |f''|) (|g'| + |g''|) + w (|f'| + |f''|) + w (|g'| + |g''|) <= 7 w (|s_f| + |s_g|),

    as |f'| + |f''| <= 2 sqrt(2) |s_f| and |s_f s_g| <= (|s_f| + |s_g|) / 2. Errors of the weights count
    |e^{i t loss} - 1| <= 2 |s_f| + 2 |s_g| times. ln|m| = log1p(x (2 + x) + y^2) / 2 loses at most 8 u times
    the sum of w (2 |s_f| + 2 |s_g|) while |m|^2 > 1/2; else hypot loses 9 u |m|, less than 22 u times it.
    """
    block = math.isqrt(count) + 1
    near = np.arange(block, dtype=float) * spacing  # exact, like all heights
    far = np.arange(count // block + 1, dtype=float) * block * spacing
    columns = len(near)
    roundings = 7 * (
        gamma(min(len(nodes.losses), NODES_AT_ONCE) + len(nodes.losses) // NODES_AT_ONCE + 2)
        + 39 * UNIT_ROUNDOFF
    )
    charges = nodes.weights * (2 * nodes.weight_rel_errors + roundings + 44 * UNIT_ROUNDOFF)
    both = np.zeros((2 * len(far), 2 * columns))
    alone, beside = np.zeros(2 * len(far)), np.zeros(2 * columns)
    swing, swing_beside = np.zeros(len(far)), np.zeros(columns)
    for start in range(0, len(nodes.losses), NODES_AT_ONCE):
        chosen = slice(start, start + NODES_AT_ONCE)
        weights, charged = nodes.weights[chosen], charges[chosen]
        rows, sines = _turn(far, nodes.losses[chosen])
        others, sines_beside = _turn(near, nodes.losses[chosen])
        rows *= weights
        both += rows @ others.T
        alone += rows.sum(axis=1)
        beside += others @ weights
        swing += sines @ charged
        swing_beside += sines_beside @ charged
    half = len(far)
    real = both[:half, :columns] - both[half:, columns:]
    real += alone[:half, None] + beside[:columns]
    imag = both[:half, columns:] + both[half:, :columns]
    imag += alone[half:, None] + beside[columns:]
    x, y = real.ravel()[: count + 1], imag.ravel()[: count + 1]
    abs_errors = (swing[:, None] + swing_beside).ravel()[: count + 1] * SUMS_ROUNDED_UP
    square = x * (2 + x) + y**2
    small = square <= -0.5
    plain = np.log(np.maximum(np.hypot(1 + x, y), LEAST_MODULUS))
    log_modulus = np.where(small, plain, 0.5 * np.log1p(np.where(small, 0.0, square)))
    t = np.arange(count + 1, dtype=float) * spacing
    return log_modulus, np.arctan2(y, 1 + x), abs_errors + t * nodes.loss_abs_error + LEAST_MODULUS


def _turn(t: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """The real and, below them, the imaginary parts of e^{i t loss} - 1; and |sin(t loss / 2)|."""
    sines = np.multiply.outer(t / 2, losses)
    cosines = np.cos(sines)
    np.sin(sines, out=sines)
    return np.concatenate([-2 * sines**2, 2 * sines * cosines]), np.abs(sines)
