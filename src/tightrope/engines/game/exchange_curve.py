"""The one-step curve of a Gram matrix, ABOVE, in both orders: a closed form at nodes of two factors.

With P/base = 1-g+gX and Q/base = 1-g+gY, X = Z X1 and Y = Z Y1 for independent mean-one lognormals Z, X1, Y1
of log-variance C, U-C, W-C (times 1 / noise^2). Z and Y1 are spread onto nodes, which raises every convex
function's mean; X1 stays as it is: given Z and Y1 the divergence is that of Black and Scholes. Nothing is
integrated numerically. Rounding is charged where it happens: proofs/substitution_triangles.md, 6.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from tightrope.engines.game.outward import DEEPEST, cell_masses
from tightrope.engines.game.triangles import Gram
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, ndtr_rel_error
from tightrope.pairs.exchange import Exchange
from tightrope.pairs.mixture import Noise

FARTHEST = 13.0  # standard deviations; what lies beyond is charged
# Of the two terms that are subtracted: the normal tail's own error; d - deviation is rounded, which moves the
# tail by d^2 + |d| units; an inexact d only lowers the difference, to second order (below a unit); a product.
TERM_REL_ERROR = float(ndtr_rel_error(-DEEPEST)) + UNIT_ROUNDOFF * (DEEPEST**2 + DEEPEST + 8)
MOST_EXCESS = 1e200  # of the order
FLOOR = 1e-120  # tails too small for floats, 2^-1074 times sums of at most 2 MOST_EXCESS
AT_ONCE = 60_000  # nodes times orders: half a megabyte fits the processor's cache
# of the largest variance: a factor that varies less is taken to vary this much, or not at all
LEAST_SHARE = 1e-4


@dataclass(frozen=True)
class Nodes:
    """A law above a mean-one lognormal in convex order: values between `low` and `high`, weights from above.

    `missing` is what the mean lacks.
    """

    low: Floats
    high: Floats
    weights: Floats
    missing: float


def both_orders(gram: Gram, exchange: Exchange, excess: Floats, coarseness: float) -> tuple[Floats, Floats]:
    """Upper bounds on H_t(P || Q) and H_t(Q || P) at t = 1 + excess, excess >= 0.

    Spreading adds at most about `coarseness` of the variance 4 / noise^2.
    """
    if not excess.max() <= MOST_EXCESS:
        raise NotPreciseEnough("The substitution game needs orders beyond the range of floats")
    rate, rest, inverse_variance = exchange.rate, exchange.rest, exchange.inverse_variance
    common, own_x, own_y = deviations(gram, inverse_variance)
    # Z moves both sides: it matters less
    z = spread_lognormal(common, coarseness * 40 * inverse_variance)
    y = spread_lognormal(own_y, coarseness * 4 * inverse_variance)
    weights = np.multiply.outer(z.weights, y.weights).ravel()
    tail = rate * (z.missing + y.missing) * (1 + 8 * UNIT_ROUNDOFF) + FLOOR
    # Every size is rounded to the side that raises the curve: eight roundings are more than each of them has.
    less, more = 1 - 8 * UNIT_ROUNDOFF, 1 + 8 * UNIT_ROUNDOFF
    z_low, z_high = (np.repeat(rate * ends, len(y.low))[:, None] for ends in (z.low * less, z.high * more))
    y_low, y_high = (np.tile(ends, len(z.low))[:, None] for ends in (y.low * less, y.high * more))
    zy_low, zy_high = z_low * y_low, z_high * y_high
    forth, back = np.empty(len(excess)), np.empty(len(excess))
    for at in np.array_split(np.arange(len(excess)), math.ceil(len(excess) * len(weights) / AT_ONCE)):
        t, unsampled = 1 + excess[at], excess[at] * rest * less
        forth[at] = _weigh(weights, _call(z_high, unsampled + t * less * zy_low, own_x))
        back[at] = _weigh(weights, _put((zy_high - unsampled) * more, t * less * z_low, own_x))
    summed = 1 + gamma(len(weights) + 8)
    return forth * summed + tail, back * summed + tail


def deviations(gram: Gram, inverse_variance: float) -> tuple[float, float, float]:
    """Standard deviations of ln Z, ln X1, ln Y1 as exact numbers: C may be lowered, U and W may be raised.

    Squares and roots are off by three units each, `inverse_variance` by one.
    """
    less, more = 1 - 8 * UNIT_ROUNDOFF, 1 + 8 * UNIT_ROUNDOFF
    least = 4 * LEAST_SHARE * inverse_variance
    variance = min(gram.c, gram.u, gram.w) * inverse_variance
    common = math.sqrt(variance) * less if variance >= least else 0.0

    def own(entry: float) -> float:
        rest = entry * inverse_variance * more - common**2 * less
        return math.sqrt(max(rest * more, least)) * more

    return common, own(gram.u), own(gram.w) if gram.w > 0 else 0.0


def spread_lognormal(deviation: float, allowed: float) -> Nodes:
    """Nodes of a law above the mean-one lognormal e^{deviation xi - deviation^2/2}.

    Each cell between nodes goes to its two ends with its mass and mean; that adds about step^2 / 6 of the
    variance. The first cell's lower end is the value 0; the last cell sits at its lower end.
    """
    if deviation == 0:
        return Nodes(np.ones(1), np.ones(1), np.ones(1), 0.0)
    step = min(max(math.sqrt(6 * allowed) / deviation, 0.04), 1.0)
    longest = 1.5 / min(max(deviation, 0.3), 1.0)  # so that neighbours are a factor of e^1.5 apart, or less
    right = [0.0]
    while right[-1] < FARTHEST:
        right.append(right[-1] + min(step * math.exp(right[-1] ** 2 / 6), longest))
    xi = np.array([-x for x in right[:0:-1]] + right)
    drift = deviation**2 / 2
    values = np.append(0.0, np.exp(deviation * xi - drift))
    rel_errors = np.append(
        0.0, ELEMENTARY_REL_ERROR + 4 * UNIT_ROUNDOFF * (1 + deviation * np.abs(xi) + drift)
    )
    ends = np.concatenate([[-np.inf], xi, [np.inf]])
    rounding = np.concatenate([[0.0], UNIT_ROUNDOFF * np.abs(xi - deviation), [0.0]])
    masses = cell_masses(Noise.NORMAL, ends)
    means = cell_masses(Noise.NORMAL, ends - deviation, rounding)
    weights = np.zeros(len(values))
    weights[1:] += _shares(masses, means, values, rel_errors, from_low=True)
    weights[:-1] += _shares(masses, means, values, rel_errors, from_low=False)
    (mass, mass_abs_error), (mean, mean_abs_error) = (
        (float(found[-1]), float(abs_errors[-1])) for found, abs_errors in (masses, means)
    )
    weights[-1] += mass + mass_abs_error
    last, last_rel_error = float(values[-1]), float(rel_errors[-1])
    missing = max(mean - mass * last, 0.0) + mean_abs_error
    missing += 1.01 * last * (mass_abs_error + mass * (last_rel_error + 2 * UNIT_ROUNDOFF))
    more = 1 + 8 * UNIT_ROUNDOFF
    return Nodes(
        values * (1 - more * rel_errors), values * (1 + more * rel_errors), weights * more, missing * more
    )


def _shares(
    masses: tuple[Floats, Floats],
    means: tuple[Floats, Floats],
    nodes: Floats,
    rel_errors: Floats,
    *,
    from_low: bool,
) -> Floats:
    """Above |mean - mass * end| / gap in each cell: what goes to the end opposite to `end`.

    The difference cancels where cells are narrow, so each of its errors counts 1 / gap times.
    """
    (mass, mass_abs_errors), (mean, mean_abs_errors) = (
        (found[:-1], abs_errors[:-1]) for found, abs_errors in (masses, means)
    )
    gap = nodes[1:] - nodes[:-1]
    node_abs_errors = nodes * rel_errors + UNIT_ROUNDOFF * nodes
    chosen = slice(0, -1) if from_low else slice(1, None)
    end, end_abs_errors = nodes[chosen], node_abs_errors[chosen]
    found = (mean - mass * end) / gap * (1 if from_low else -1)
    abs_errors = (
        mean_abs_errors + end * mass_abs_errors + mass * (end_abs_errors + UNIT_ROUNDOFF * end)
    ) / gap
    abs_errors += np.abs(found) * ((node_abs_errors[1:] + node_abs_errors[:-1]) / gap + 4 * UNIT_ROUNDOFF)
    # no share is negative; products of these errors, all far below 1e-3, add less than a hundredth
    return np.asarray(np.maximum(found, 0) + 1.01 * abs_errors)


def _weigh(weights: Floats, values: Floats) -> Floats:
    """weights @ values, but not by BLAS, whose threads wait for each other on a busy machine."""
    return np.asarray(np.einsum("i,ij->j", weights, values))


def _call(size: Floats, strike: Floats, deviation: float) -> Floats:
    """Above E[(size X1 - strike)_+] for strike >= 0, X1 the mean-one lognormal; 0 where size = 0."""
    with np.errstate(divide="ignore"):  # a strike of 0 has d = inf, and the call is worth `size`
        d = np.where(size > 0, size, 1.0) / strike
        np.log(d, out=d)
    d /= deviation
    d += deviation / 2
    up = special.ndtr(d)
    up *= size
    d -= deviation
    down = special.ndtr(d, out=d)
    down *= strike
    up = _difference_above(up, down)
    up *= size > 0
    return up


def _put(strike: Floats, size: Floats, deviation: float) -> Floats:
    """Above E[(strike - size X1)_+]; 0 where strike <= 0. Where it is positive, so is the size."""
    held = strike > 0  # seldom: the other places, most of them at large orders, are not computed
    strike, size = strike[held], np.broadcast_to(size, held.shape)[held]
    d = size / strike
    np.log(d, out=d)
    d /= deviation
    d += deviation / 2
    up, down = strike * special.ndtr(deviation - d), size * special.ndtr(-d)
    result = np.zeros(held.shape)
    result[held] = _difference_above(up, down)
    return result


def _difference_above(up: Floats, down: Floats) -> Floats:
    """Above up - down where that is positive, else above 0, in the place of `up`.

    Each of the two is off by TERM_REL_ERROR.
    """
    abs_errors = up + down
    abs_errors *= TERM_REL_ERROR
    up -= down
    np.maximum(up, 0, out=up)
    up += abs_errors
    return up
