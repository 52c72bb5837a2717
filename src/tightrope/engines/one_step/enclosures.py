"""Additive noise, enclosed: masses between outputs, losses at outputs, and outputs that cut at a loss.

Every function returns bounds and counts each rounding that leads to them; u is the unit roundoff. The float
shift of a mixture is right to u relative, and so are its two weights (pairs/mixture.py).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tightrope.numerics.floats import LOG_REL_ERROR, UNIT_ROUNDOFF, Floats, next_down
from tightrope.numerics.ulps import (
    ELEMENTARY_REL_ERROR,
    log_ndtr_rel_error,
    logaddexp_abs_error,
    pairwise_roundings,
)
from tightrope.pairs.counted import CountedPair, CountMixture
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.shift_pair import ShiftPair

# Error bounds are computed in floats themselves: a hundred roundings are far less than this.
LOOSE = 1 + 2.0**-40
MOST_NUDGES = 12
FIRST_MARGIN = 64 * UNIT_ROUNDOFF  # where to look first; what is found there is checked


@dataclass(frozen=True)
class Enclosed:
    """Lower and upper bounds on each of an array of numbers."""

    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        if not np.all(self.low <= self.high):  # also catches NaN
            raise ArithmeticError("bounds out of order")

    @staticmethod
    def around(values: Floats, abs_errors: Floats) -> "Enclosed":
        """The values and their errors; infinite values are exact."""
        return Enclosed(lowered(values, abs_errors), raised(values, abs_errors))

    @staticmethod
    def zeros(like: Floats) -> "Enclosed":
        """Exact zeros."""
        return Enclosed(np.zeros_like(like), np.zeros_like(like))

    def minus(self, other: "Enclosed") -> "Enclosed":
        """The difference."""
        return Enclosed(lowered(self.low - other.high), raised(self.high - other.low))


def raised(values: Floats, abs_errors: Floats | float = 0.0) -> Floats:
    """Values plus their errors and one rounding; infinite values stay."""
    sizes = np.where(np.isfinite(values), abs_errors + 2 * UNIT_ROUNDOFF * np.abs(values), 0.0)
    return np.asarray(values + sizes * LOOSE)


def lowered(values: Floats, abs_errors: Floats | float = 0.0) -> Floats:
    """Values less their errors and one rounding; infinite values stay."""
    return -raised(-values, abs_errors)


def enclose_masses(noise: Noise, points: Floats, point_abs_errors: Floats) -> Enclosed:
    """ln of the noise's mass between consecutive, increasing points, each of which may be off by so much.

    With tails T = P(noise > |point|), a cell on one side of 0 holds T_in - T_out = T_in (1 - T_out / T_in),
    and the cell around 0 holds 1 - (T_low + T_high). Relative to T_in the difference is off by what its two
    tails are off, and by ten roundings of itself.
    """
    logs, errors = _log_tails(noise, np.abs(points), point_abs_errors)
    low, high = points[:-1], points[1:]
    is_right = low >= 0
    inner, outer = np.where(is_right, logs[:-1], logs[1:]), np.where(is_right, logs[1:], logs[:-1])
    inner_error = np.where(is_right, errors[:-1], errors[1:])
    outer_error = np.where(is_right, errors[1:], errors[:-1])
    for i in np.flatnonzero((low < 0) & (high > 0)):
        outer[i] = np.logaddexp(logs[i], logs[i + 1])
        outer_error[i] = max(errors[i], errors[i + 1])
        if outer[i] > -np.inf:  # the whole line has no tails
            outer_error[i] += logaddexp_abs_error(outer[i])
        inner[i] = inner_error[i] = 0.0
    gap = outer - inner
    share = -np.expm1(gap)
    share_abs_error = np.expm1(inner_error) + np.exp(gap) * np.expm1(outer_error)
    # |gap| e^gap <= 1 - e^gap, so the rounding of the gap is one more of the share
    share_abs_error = (share_abs_error + (ELEMENTARY_REL_ERROR + 2 * UNIT_ROUNDOFF) * np.abs(share)) * LOOSE
    with np.errstate(divide="ignore"):  # ln 0 = -inf: no mass is certain
        ends = np.log(np.maximum(share - share_abs_error, 0.0)), np.log(share + share_abs_error)
    low_log, high_log = (inner + end for end in ends)
    return Enclosed(
        lowered(low_log, ELEMENTARY_REL_ERROR * np.abs(ends[0]) + 2 * UNIT_ROUNDOFF),
        raised(high_log, ELEMENTARY_REL_ERROR * np.abs(ends[1]) + 2 * UNIT_ROUNDOFF),
    )


def _log_tails(noise: Noise, sizes: Floats, point_abs_errors: Floats) -> tuple[Floats, Floats]:
    """ln P(noise > x) at x >= 0, and how far it is off if x may be off by so much.

    -d/dx ln P(noise > x) is at most x + 0.8 for normal noise (Mills' ratio is convex, 0.8 at 0) and 1 for
    Laplace noise, whose logarithm is a sum rounded once, or log1p at 0.
    """
    logs = noise.log_upper(sizes)
    is_finite = np.isfinite(sizes)  # at infinity the tail is exactly 0
    reach, size = np.where(is_finite, sizes, 0.0), np.where(is_finite, np.abs(logs), 0.0)
    point_abs_errors = np.where(is_finite, point_abs_errors, 0.0)
    if noise is Noise.NORMAL:
        return logs, log_ndtr_rel_error(-reach) * size + (reach + 1) * point_abs_errors
    return logs, ELEMENTARY_REL_ERROR * size + point_abs_errors


def _log_mixed(law: Mixture, log_ratio: Floats) -> tuple[Floats, Floats]:
    """ln(1 - g + g e^x) of a genuine mixture for exact x, and how far it is off.

    Where y = g (e^x - 1) >= -1/2, ln(1 + y): y is off by 10u relative, |y| / (1 + y) <= 2 |ln(1 + y)|, and
    log1p adds its own. Elsewhere ln(e^ln(1-g) + e^(ln g + x)): the logarithms of the weights have errors of
    their own, and of the rounded sum ln g + x only its share counts, |s| e^s <= 0.4 for s < 0.
    """
    near = law.rate * np.expm1(np.minimum(log_ratio, 30.0))
    value = np.log1p(np.maximum(near, -0.5))
    abs_error = (20 * UNIT_ROUNDOFF + ELEMENTARY_REL_ERROR) * np.abs(value)
    far = np.flatnonzero(~((near >= -0.5) & (log_ratio <= 30)))
    if len(far):
        value[far] = np.logaddexp(law.log_rest, law.log_rate + log_ratio[far])
        roundings = UNIT_ROUNDOFF * (abs(law.log_rate) + np.maximum(log_ratio[far], 0.0) + 1)
        abs_error[far] = _weights_abs_error(law) + roundings + logaddexp_abs_error(value[far])
    return value, abs_error


def _enclose_mixed(law: Mixture, log_ratio: Enclosed) -> Enclosed:
    """ln(1 - g + g e^x), which grows with x."""
    if law.is_pure:
        return log_ratio if law.is_moved else Enclosed.zeros(log_ratio.low)
    (low, low_error), (high, high_error) = (_log_mixed(law, end) for end in (log_ratio.low, log_ratio.high))
    return Enclosed(lowered(low, low_error), raised(high, high_error))


def compare_masses(
    law: Mixture, plain: Enclosed, points: Floats, abs_errors: Floats
) -> tuple[Enclosed, Enclosed]:
    """ln of the law's masses between points, and ln of their ratio to the plain noise's."""
    if law.is_plain:
        return plain, Enclosed.zeros(plain.low)
    is_finite = np.isfinite(points)
    # the difference is rounded, and the shift is right to u
    slips = UNIT_ROUNDOFF * LOOSE * (np.where(is_finite, np.abs(points), 0.0) + 2 * abs(law.shift))
    moved = enclose_masses(law.noise, points - law.shift, np.where(is_finite, slips + abs_errors, 0.0))
    ratio = _enclose_mixed(law, moved.minus(plain))
    if law.is_moved:
        return moved, ratio
    low, high = (
        np.logaddexp(law.log_rest + a, law.log_rate + b)
        for a, b in ((plain.low, moved.low), (plain.high, moved.high))
    )
    return Enclosed(lowered(low, _mix_abs_error(law, low)), raised(high, _mix_abs_error(law, high))), ratio


def _mix_abs_error(law: Mixture, log_mass: Floats) -> Floats:
    """Of ln((1 - g) a + g b) by logarithms: as in `_log_mixed`, with two rounded sums."""
    roundings = UNIT_ROUNDOFF * (1 + np.abs(log_mass))
    return _weights_abs_error(law) + roundings + logaddexp_abs_error(log_mass)


def _weights_abs_error(law: Mixture) -> float:
    """Of the logarithms of both weights, whose shares sum to 1."""
    return LOG_REL_ERROR * (abs(law.log_rest) + abs(law.log_rate))


def _enclose_log_ratio(law: Mixture, x: Floats) -> Enclosed:
    """ln of the law's density over the plain noise's at x.

    r = shift (x - shift/2) is rounded twice, and the shift's own error moves it by u |shift (x - shift)| <=
    u (|r| + shift^2/2). For Laplace noise r = 2x - shift between the centres is rounded once. An error e of r
    moves the mixture by at most its shifted part's share times e^e - 1.
    """
    if law.is_plain:
        return Enclosed.zeros(x)
    ratio = law.noise.log_shift_ratio(x, law.shift)
    size = np.where(np.isfinite(ratio), np.abs(ratio), 0.0)
    extra = law.shift**2 if law.noise is Noise.NORMAL else 2 * abs(law.shift)
    ratio_abs_error = UNIT_ROUNDOFF * (4 * size + extra)
    if law.is_moved:
        return Enclosed.around(ratio, ratio_abs_error)
    value, abs_error = _log_mixed(law, ratio)
    share = law.shifted_share(ratio) * (1 + 2.0**-30)  # expit of a rounded sum of at most 700 + 2 |ln g|
    return Enclosed.around(value, abs_error + share * np.expm1(ratio_abs_error))


def enclose_loss(pair: ShiftPair, x: Floats) -> Enclosed:
    """The loss at outputs."""
    return _enclose_log_ratio(pair.observed, x).minus(_enclose_log_ratio(pair.alternative, x))


@dataclass(frozen=True)
class Cuts:
    """Outputs at or a little before where the loss passes each of increasing nodes.

    The loss at an output is certainly at most its node, and at least the node less `lifts`. An output may be
    off by its error: only in the middle between the two centres, where the loss is exactly 0.
    """

    outputs: Floats
    abs_errors: Floats
    lifts: Floats


def cut_at(pair: ShiftPair, nodes: Floats) -> Cuts:
    """Outputs that cut a pair at these losses."""
    middle = (pair.observed.shift + pair.alternative.shift) / 2
    is_zero = nodes == 0
    # a little before the node, most outputs are certainly before it at once
    x = np.where(is_zero, middle, pair.output_at(nodes - FIRST_MARGIN * np.abs(nodes)))
    loss = enclose_loss(pair, x)
    low, high = np.where(is_zero, 0.0, loss.low), np.where(is_zero, 0.0, loss.high)
    _nudge(x, low, high, nodes, pair.output_at, partial(enclose_loss, pair))
    ordered = _in_order(x)
    ordered = np.where(nodes < 0, np.minimum(ordered, next_down(middle)), np.maximum(ordered, middle))
    ordered[is_zero] = middle
    is_middle = ordered == middle
    moved = np.flatnonzero((ordered != x) & ~is_middle)
    if len(moved):
        low[moved] = enclose_loss(pair, ordered[moved]).low
    low[is_middle] = 0.0
    lifts = raised(np.maximum(nodes - low, 0.0))
    return Cuts(ordered, np.where(is_middle, 2 * UNIT_ROUNDOFF * abs(middle), 0.0), lifts)


def _nudge(
    x: Floats,
    low: Floats,
    high: Floats,
    nodes: Floats,
    output_at: Callable[[Floats], Floats],
    enclose: Callable[[Floats], Enclosed],
) -> None:
    """Move outputs back, in place, until the loss at each, between `low` and `high`, is at most its node."""
    margins = np.zeros_like(nodes)
    for _ in range(MOST_NUDGES):
        wrong = np.flatnonzero((high > nodes) & (x > -np.inf))  # before -inf lies nothing
        if len(wrong) == 0:
            return
        margins[wrong] = 2 * (margins[wrong] + high[wrong] - np.minimum(low[wrong], nodes[wrong]))
        x[wrong] = output_at(nodes[wrong] - margins[wrong])
        loss = enclose(x[wrong])
        low[wrong], high[wrong] = loss.low, loss.high
    raise ArithmeticError("rounding hides where the loss passes a node")


def _in_order(x: Floats) -> Floats:
    """Outputs in the order of their nodes: one that lies before another has no larger loss."""
    ordered: Floats = np.minimum.accumulate(x[::-1])[::-1]
    return ordered


def enclose_counted_loss(pair: CountedPair, x: Floats) -> Enclosed:
    """The loss at outputs; at -inf and +inf it is an end of its range."""
    finite = np.isfinite(x)
    at = np.where(finite, x, 0.0)
    p, q = (Enclosed.around(*law.enclose_log_ratio(at)) for law in (pair.observed, pair.alternative))
    loss = p.minus(q)
    # rounded outwards by more than the logarithm of a weight is off
    least, most = (
        Enclosed.around(np.array([end]), np.array([abs(end) * 2.0**-50])) for end in pair.loss_range
    )
    low = np.where(finite, loss.low, np.where(x < 0, least.low, most.low))
    return Enclosed(low, np.where(finite, loss.high, np.where(x < 0, least.high, most.high)))


def cut_counted_at(pair: CountedPair, nodes: Floats) -> Cuts:
    """Outputs that cut a pair at these losses: each certainly at or a little before its node."""
    x = pair.output_at(nodes - FIRST_MARGIN * np.abs(nodes))
    loss = enclose_counted_loss(pair, x)
    low, high = loss.low.copy(), loss.high.copy()
    _nudge(x, low, high, nodes, pair.output_at, partial(enclose_counted_loss, pair))
    ordered = _in_order(x)
    moved = np.flatnonzero(ordered != x)
    if len(moved):
        low[moved] = enclose_counted_loss(pair, ordered[moved]).low
    return Cuts(ordered, np.zeros_like(ordered), raised(np.maximum(nodes - low, 0.0)))


def compare_counted(pair: CountedPair, points: Floats, abs_errors: Floats) -> tuple[Enclosed, Enclosed]:
    """ln of P's masses between points, and ln of their ratio to Q's."""
    plain = enclose_masses(Noise.NORMAL, points, abs_errors)
    ratio, other = (_compare_counts(law, plain, points) for law in (pair.observed, pair.alternative))
    return Enclosed(lowered(plain.low + ratio.low), raised(plain.high + ratio.high)), ratio.minus(other)


def _compare_counts(law: CountMixture, plain: Enclosed, points: Floats) -> Enclosed:
    """ln of the law's masses between points over the plain noise's, which grows with each count's ratio."""
    if law.is_plain:
        return Enclosed.zeros(plain.low)
    is_finite = np.isfinite(points)
    ratios = []
    for shift in law.shifts.ravel().tolist():
        # the difference is rounded, and the shift is right to u
        slips = UNIT_ROUNDOFF * LOOSE * (np.where(is_finite, np.abs(points), 0.0) + 2 * abs(shift))
        moved = enclose_masses(Noise.NORMAL, points - shift, np.where(is_finite, slips, 0.0))
        ratios.append(moved.minus(plain))
    low, high = (
        law.log_mixed(np.stack([getattr(ratio, end) for ratio in ratios])) for end in ("low", "high")
    )
    return Enclosed(lowered(low.value, low.abs_error), raised(high.value, high.abs_error))


def log_sum_above(terms: Floats) -> float:
    """An upper bound on ln of the sum of e^term.

    Each power is off by 8u. The exponents s relative to the largest one are rounded, by u |s|, of which the
    mean counts: with weights w that is at most the mean of -ln w, an entropy, and so at most ln n. Then numpy
    adds in pairs; the logarithm, the last sum and this charge itself lose their own.
    """
    top = float(terms.max(initial=-np.inf))
    if top == -math.inf:
        return -math.inf
    log_rest = math.log(float(np.exp(terms - top).sum()))
    total = top + log_rest
    units = 12 + pairwise_roundings(len(terms)) + 2 * math.log(len(terms)) + 8 * log_rest + 2 * abs(total)
    return total + UNIT_ROUNDOFF * units


def log_union_above(parts: Iterable[tuple[float, int]]) -> float:
    """An upper bound on ln of the sum of k m, from those on ln m; logarithms and the sum are rounded."""
    logs = []
    for log_mass, times in parts:
        log_any = log_mass + math.log(times)
        logs.append(log_any + 4 * UNIT_ROUNDOFF * (abs(log_any) + math.log(times) + 1))
    return log_sum_above(np.array(logs))
