"""How fast a transform decays, by how far apart the losses of its step lie.

With m(s) = M(c + is) / M(c) and L, L' two independent losses of the tilted step,

    1 - |m(s)|^2 = E[1 - cos s (L - L')] >= E[2 sin^2(s (L - L') / 2); both outputs in I]

for any set I of outputs. If the losses in I lie within w, sin(s x / 2) >= (x / w) sin(s w / 2) for 0 <= x <=
w and s w <= pi, so that the variance of the loss in I bounds |m(s)| for all t <= s <= pi / w. Beyond,
integration by parts over some outputs does (docs/certificates.md, lemmas 7 and 7b).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tightrope.engines.one_step.enclosures import Enclosed, compare_masses, enclose_loss, enclose_masses
from tightrope.engines.transforms.rooms import ROOM, exp_or_inf
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.shift_pair import Envelope, ShiftPair

SEGMENTS = 1.15  # ratio of the ends of the stretches of heights that get one bound each
MOST_SEGMENTS = 400
SHORTEST_WINDOW = 4  # cells
LEAST_SLOPE = 1e-250  # a smaller one bounds nothing
MOST_EDGES = 48  # between which integration by parts is tried


@dataclass(frozen=True)
class TiltedCells:
    """Cells of outputs in increasing order of their losses.

    All losses of a cell lie between `low` and `high`. The tilted probability of a cell is at least `masses`,
    and the tilted mean of its losses at least `means`.
    """

    low: Floats
    high: Floats
    means: Floats
    masses: Floats

    @staticmethod
    def of(pair: ShiftPair, outputs: Floats, c: float, log_moment_above: float) -> "TiltedCells":
        """The cells between increasing outputs, which may begin and end at infinity.

        Jensen's inequality: in a cell with masses a of P and b of Q the mean loss under P is at least
        ln(a / b), and so E_P[e^{c loss}; cell] >= a e^{c ln(a/b)}. Tilting only raises the mean.
        """
        log_masses, means = _compare(pair, outputs)
        losses = enclose_loss(pair, outputs)
        return TiltedCells(
            losses.low[:-1], losses.high[1:], means.low, _tilt(log_masses, means.low, c, log_moment_above)
        )

    @staticmethod
    def of_envelope(pair: Envelope, outputs: Floats, c: float, log_moment_above: float) -> "TiltedCells":
        """The same for an envelope and outputs from the middle on: the add half mirrors the remove half.

        A cell has the masses a of P and b of Q under the remove pair; under the add pair its mirror image has
        b of P and a of Q, and the losses have the other sign. Between the halves is the atom at loss 0.
        """
        log_masses, means = _compare(pair.remove, outputs)
        plain = enclose_masses(pair.noise, outputs, np.zeros_like(outputs)).low
        losses = enclose_loss(pair.remove, outputs)
        # the loss is 0 in the middle, and grows
        low, high = np.maximum(losses.low[:-1], 0.0), losses.high[1:]
        error = 4 * UNIT_ROUNDOFF * (64 + 48 / min(pair.middle, 1.0) + 16 * abs(pair.log_atom))
        atom = _tilt(np.array([pair.log_atom - error]), np.zeros(1), c, log_moment_above)
        above = _tilt(log_masses, means.low, c, log_moment_above)
        below = _tilt(plain, -means.high, c, log_moment_above)
        return TiltedCells(
            np.concatenate([-high[::-1], [0.0], low]),
            np.concatenate([-low[::-1], [0.0], high]),
            np.concatenate([-means.high[::-1], [0.0], means.low]),
            np.concatenate([below[::-1], atom, above]),
        )

    def spreads(self) -> tuple[Floats, Floats]:
        """For many sets of neighbouring cells, how far apart their losses are at most, and D from below.

        D is the sum over pairs of cells of both masses times the squared distance of their means.
        """
        masses, count = self.masses, len(self.masses)
        # means of a lower cell are at most `high`
        distances = np.maximum(self.means[None, :] - self.high[:, None], 0.0)
        pairs = np.triu(masses[:, None] * masses[None, :] * distances**2, 1)
        firsts, lasts = np.zeros(count, dtype=int), np.arange(count)
        sums = [np.cumsum(pairs.sum(axis=0)), np.cumsum(pairs.sum(axis=1)[::-1])[::-1]]
        starts, ends = [firsts, np.arange(count)], [lasts, np.full(count, count - 1)]
        length = SHORTEST_WINDOW
        while length < count:
            first = np.arange(0, count - length, max(length // 2, 1))
            windows = [float(pairs[i : i + length, i : i + length].sum()) for i in first]
            sums.append(np.array(windows))
            starts.append(first)
            ends.append(first + length - 1)
            length *= 2
        widths = (self.high[np.concatenate(ends)] - self.low[np.concatenate(starts)]) * (1 + ROOM)
        found = np.concatenate(sums) * (1 - ROOM)
        useful = (found > 0) & (widths > 0)
        return widths[useful], found[useful]


def _compare(pair: ShiftPair, outputs: Floats) -> tuple[Floats, Enclosed]:
    """ln of P's masses between outputs from below, and ln of their ratio to Q's."""
    exact = np.zeros_like(outputs)
    plain = enclose_masses(pair.noise, outputs, exact)
    log_masses, ratio = compare_masses(pair.observed, plain, outputs, exact)
    _, other = compare_masses(pair.alternative, plain, outputs, exact)
    return log_masses.low, ratio.minus(other)


def _tilt(log_masses: Floats, means: Floats, c: float, log_moment_above: float) -> Floats:
    """Masses e^{c mean} / M(c), from below."""
    sizes = np.abs(log_masses) + c * np.abs(means) + abs(log_moment_above)
    return np.exp(log_masses + c * means - log_moment_above - 4 * UNIT_ROUNDOFF * sizes) * (1 - ROOM)


def over_slopes(f: Floats, slopes: Floats) -> Floats:
    """f / loss' from above; infinite, so that it bounds nothing, where a slope is next to 0."""
    is_steep = slopes > LEAST_SLOPE
    return np.where(is_steep, f / np.where(is_steep, slopes, 1.0) * (1 + ROOM), np.inf)


def bound_variation(q: Floats, edges: Floats, slowest: Floats, fastest: Floats) -> Floats:
    """The variation of q > 0 in each cell between edges, from above, where (ln q)' lies between two bounds.

    q grows by at most e^{sup|(ln q)'| width} over a cell.
    """
    steepness = np.maximum(np.abs(slowest), np.abs(fastest)) * (1 + ROOM) + ROOM
    turned = steepness * np.diff(edges) * (1 + ROOM)
    log_q = np.log(np.maximum(q[:-1], LEAST_SLOPE))
    return exp_or_inf(turned + np.log(turned) + log_q) * (1 + ROOM)  # where it is infinite, it bounds nothing


@dataclass(frozen=True)
class Parts:
    """Outputs between which the loss is smooth: choices of a stretch, and what parts say about each.

    The tilted integral of e^{is loss} over a stretch is at most `variations` / s, that of 1 at least
    `masses`.
    """

    masses: Floats
    variations: Floats

    @staticmethod
    def between(
        masses: Floats, ends: Floats, *, missing: float = 0.0, inner: Floats | None = None
    ) -> "Parts":
        """All stretches between some of the `ends`, from the masses between consecutive ones.

        All masses together may be too large by `missing`, and so may those of any stretch. `ends` are f /
        loss' there, and `inner` its variation between consecutive ends; without it f / loss' has no maximum
        inside.
        """
        edges = np.unique(np.linspace(0, len(ends) - 1, min(len(ends), MOST_EDGES)).astype(int))
        added = np.concatenate([[0.0], np.cumsum(masses)])
        first, last = np.triu_indices(len(edges), 1)
        first, last = edges[first], edges[last]
        room = 4 * UNIT_ROUNDOFF * len(ends)  # of cumulative sums
        sums = added[last] - added[first] - room * added[-1] - missing
        both = ends[first] + ends[last]
        if inner is None:
            return Parts(sums, 2 * both * (1 + ROOM))
        is_bounded = np.isfinite(inner)
        turned = np.concatenate([[0.0], np.cumsum(np.where(is_bounded, inner, 0.0))])
        unbounded = np.concatenate([[0], np.cumsum(~is_bounded)])
        variations = both + turned[last] - turned[first] + room * turned[-1]
        kept = (unbounded[last] == unbounded[first]) & np.isfinite(both)
        return Parts(sums[kept], variations[kept] * (1 + ROOM))

    def gain(self, s: float) -> float:
        """What the stretch that says most takes from |m| at the height s and beyond."""
        return max(float((self.masses - self.variations / s).max(initial=0.0)) * (1 - ROOM), 0.0)


class SpreadModulus:
    """t -> a bound on |M(c + is)| / M(c) for every s >= t."""

    def __init__(self, cells: TiltedCells, parts: tuple[Parts, ...]) -> None:
        self.widths, self.sums = cells.spreads()
        self.parts = parts
        self._segment = lru_cache(maxsize=None)(self._between)
        self._beyond = lru_cache(maxsize=None)(self._bound_beyond)

    def __call__(self, t: float) -> float:
        """The worst over stretches of heights from t on, and all beyond the last of them."""
        worst, beyond, low = 0.0, self._beyond(t), t
        index = math.floor(math.log(t) / math.log(SEGMENTS)) + 1
        for _ in range(MOST_SEGMENTS):
            high = max(SEGMENTS**index, low)
            worst = max(worst, min(beyond, self._segment(low, high)))
            low, beyond, index = high, self._beyond(high), index + 1
            if beyond <= worst:  # and so is all that follows
                break
        return max(worst, beyond) * (1 + 8 * UNIT_ROUNDOFF)

    def _bound_beyond(self, t: float) -> float:
        """A bound on |m(s)| for all s >= t, by parts."""
        return 1 - sum(parts.gain(t) for parts in self.parts)

    def _between(self, low: float, high: float) -> float:
        """A bound on |m(s)| for low <= s <= high, by how far losses are apart."""
        within = self.widths * (high * (1 + ROOM)) <= math.pi
        widths = self.widths[within]
        gains = self.sums[within] * (2 * np.sin(low / 2 * widths) / widths) ** 2
        gain = float(gains.max(initial=0.0)) * (1 - ROOM)
        return math.sqrt(max(1 - gain, 0.0))
