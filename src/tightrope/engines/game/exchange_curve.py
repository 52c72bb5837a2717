"""The one-step curve of a Gram matrix, ABOVE, in both orders: a closed form at nodes of two factors.

With P/base = 1-g+gX and Q/base = 1-g+gY, X = Z X1 and Y = Z Y1 for independent mean-one lognormals Z, X1, Y1
of log-variance C, U-C, W-C (times 1 / noise^2). Z and Y1 are spread onto nodes, which raises every convex
function's mean; X1 stays as it is: given Z and Y1 the divergence is that of Black and Scholes.
"""

import math

import numpy as np
from scipy import special

from tightrope.engines.game.triangles import Gram
from tightrope.numerics.floats import Floats

FARTHEST = 13.0  # standard deviations; what lies beyond is charged
# of the two terms that are subtracted: d^2 units of roundoff for |d| up to 25 and more
TERM_REL_ERROR = 2e-13
# of the nodes' weights: where a cell spans 1e-4 of its values, a mean in it loses four digits
WEIGHT_REL_ERROR = 2e-11
FLOOR = 1e-130  # what terms further out can amount to
AT_ONCE = 500_000  # nodes times losses, to bound memory
# of the largest variance: a factor that varies less is taken to vary this much, or not at all
LEAST_SHARE = 1e-4


def both_orders(
    gram: Gram, rate: float, inverse_variance: float, losses: Floats, coarseness: float
) -> tuple[Floats, Floats]:
    """Upper bounds on H_t(P || Q) and H_t(Q || P) at t = e^loss, losses >= 0.

    `inverse_variance` is 1 / noise^2. Spreading adds at most about `coarseness` of the variance 4 / noise^2.
    """
    least = 4 * LEAST_SHARE * inverse_variance
    # C may be lowered, U and W may be raised
    common = min(gram.c, gram.u, gram.w) * inverse_variance
    common = common if common >= least else 0.0
    own_x = max(gram.u * inverse_variance - common, least)
    own_y = max(gram.w * inverse_variance - common, least) if gram.w > 0 else 0.0
    # Z moves both sides: it matters less
    z, z_weights, z_tail = spread_lognormal(common, coarseness * 40 * inverse_variance)
    y, y_weights, y_tail = spread_lognormal(own_y, coarseness * 4 * inverse_variance)
    z, y = (values.ravel() for values in np.meshgrid(z, y, indexing="ij"))
    weights = np.multiply.outer(z_weights, y_weights).ravel()
    tail = rate * (z_tail + y_tail) + FLOOR
    forth, back = np.empty(len(losses)), np.empty(len(losses))
    z, y = z[:, None], y[:, None]
    for at in np.array_split(np.arange(len(losses)), math.ceil(len(losses) * len(weights) / AT_ONCE)):
        t, more = np.exp(losses[at]), np.expm1(losses[at])  # t - 1 would lose what matters at low rates
        forth[at] = weights @ _call(rate * z, more * (1 - rate) + t * rate * z * y, own_x)
        back[at] = weights @ _put(rate * z * y - more * (1 - rate), t * rate * z, own_x)
    return forth * (1 + WEIGHT_REL_ERROR) + tail, back * (1 + WEIGHT_REL_ERROR) + tail


def spread_lognormal(variance: float, allowed: float) -> tuple[Floats, Floats, float]:
    """Nodes and weights of a law above the mean-one lognormal in convex order, and the mean it lacks.

    Each cell between nodes goes to its two ends with its mass and mean; that adds about step^2 / 6 of the
    variance.
    """
    if variance == 0:
        return np.ones(1), np.ones(1), 0.0
    step = min(max(math.sqrt(6 * allowed / variance), 0.04), 1.0)
    right = [0.0]
    while right[-1] < FARTHEST:
        right.append(right[-1] + min(step * math.exp(right[-1] ** 2 / 6), 1.5))
    xi = np.array([-x for x in right[:0:-1]] + right)
    deviation = math.sqrt(variance)
    values = np.exp(deviation * xi - variance / 2)
    ends = np.concatenate([[-np.inf], xi, [np.inf]])
    mass, mean = _between(ends), _between(ends - deviation)
    low, high = np.concatenate([[0.0], values]), np.concatenate([values, [np.inf]])
    share = np.clip((mean[:-1] / mass[:-1] - low[:-1]) / (high[:-1] - low[:-1]), 0, 1)
    weights = mass[1:] * np.append(1 - share[1:], 1.0)  # the last cell sits at its lower end
    weights += mass[:-1] * share
    # the first cell's lower end is the value 0
    nodes, weights = np.append(0.0, values), np.append(mass[0] * (1 - share[0]), weights)
    return nodes, weights, float(max(mean[-1] - mass[-1] * values[-1], 0.0))


def _between(ends: Floats) -> Floats:
    """Normal masses between consecutive ends, each from the tail on its own side.

    Not from their logarithms (`Noise.log_between`), which would lose digits that WEIGHT_REL_ERROR needs.
    """
    low, high = ends[:-1], ends[1:]
    right = low + high > 0
    return np.where(right, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))


def _call(size: Floats, strike: Floats, variance: float) -> Floats:
    """Above E[(size X1 - strike)_+], X1 the mean-one lognormal; 0 where size = 0."""
    deviation = math.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (np.log(size) - np.log(strike)) / deviation + deviation / 2
        up, down = size * special.ndtr(d), strike * special.ndtr(d - deviation)
        value = np.maximum(up - down, 0) + TERM_REL_ERROR * (up + down)
    return np.where(size > 0, value, 0.0)


def _put(strike: Floats, size: Floats, variance: float) -> Floats:
    """Above E[(strike - size X1)_+]; 0 where strike <= 0."""
    deviation = math.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (np.log(size) - np.log(strike)) / deviation + deviation / 2
        up, down = strike * special.ndtr(deviation - d), size * special.ndtr(-d)
        value = np.maximum(up - down, 0) + TERM_REL_ERROR * (up + down)
    return np.where(strike > 0, value, 0.0)
