"""Sums of many worst differences, each times one of a few levels, on a lattice: E(offset + sum)_+ from above.

By the contours on which their terms are smallest: theorems/proofs/shuffles.md, Computing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightrope.engines.face import EngineDeclines
from tightrope.engines.shuffles.contours import (
    EXACT,
    FROM_LOG,
    LARGEST_EXPONENT,
    LONGEST,
    MOST_OFFSET,
    ROUNDED_UP,
    Complexes,
    Contour,
    Law,
    Laws,
    plan_contour,
    transform,
)
from tightrope.engines.shuffles.worst_difference import Atoms
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma

DEEPEST_PLACE = float(1 << 17)  # steps of the lattice below 0, to which left tails are raised
TILTS_TRIED = 12  # for the sums of any counts; for one sum there is time for twice as many
LATTICE_STEP = 0.15  # the lattice's step, in deviations of one difference
MOST_WALKED_BATCHES = 10**7  # of one epoch or pass: beyond, their sums spread over too many lattice points
ROWS_AT_ONCE = 64  # similar ones, which need the same nodes
# Of a place on the lattice, in units: at most two for a quotient and a product, and one for the sum that
# raises it. Places are raised by four.
PLACE_REL_ERROR = 4 * UNIT_ROUNDOFF
GUESSED = 0.5  # of its largest term is about what a value has
FARTHEST_EXPANSION = 30.0  # how far, as an exponent, an expansion goes
UNDERFLOW = 2.0**-1000  # more than an exponential loses that is no normal float


class Walks:
    """Laws of level * D* for several levels on one lattice, and sums of `count` of them in all."""

    def __init__(
        self,
        laws: Laws,
        levels: Sequence[float],
        *,
        spacing: float,
        count: int,
        tilts: Sequence[float] = (),
        precision: float = EXACT,
    ) -> None:
        self.levels, self.spacing, self.count, self.precision = np.array(levels), spacing, count, precision
        laws = [_drop_zeros(law) for law in laws]
        listed = tilts or _list_tilts(laws, count, TILTS_TRIED)
        planned = (plan_contour(laws, tilt, count, precision) for tilt in listed)
        self._plans = [plan for plan in planned if plan is not None]
        if not self._plans:
            raise EngineDeclines(f"sums of {count:,} differences are beyond the lattices")
        self._contours: dict[int, Contour] = {}
        self._tilts = np.array([plan.tilt for plan in self._plans])
        self._tops = np.log([plan.tops for plan in self._plans])
        sizes = np.array([plan.size for plan in self._plans])
        self._log_weights = -2 * np.log(2 * np.sinh(self._tilts / 2)) - np.log(sizes)

    def evaluate(self, counts: Floats, offsets: Floats) -> Floats:
        """Upper bounds on E(offset + sum)_+, each for a row of counts and an offset in lattice steps."""
        found = np.full(len(counts), math.inf)
        for block in self._share_out(counts, offsets, np.zeros(counts.shape)):
            parts = block.sizes * (np.cos(block.angles) + block.rel_errors)
            sums = block.scale * (parts.sum(axis=1) + block.left_out)
            found[block.rows] = np.where(block.is_held, sums, math.inf)
        return found * self.spacing

    def expand(self, counts: Floats, radii: Floats, offsets: Floats) -> tuple[Floats, Floats, Floats]:
        """Around counts: a value, its slopes, and what all else can add where each count moves by its radius.

        The counts keep their sum, so that slopes matter up to a common number only.
        """
        values, slopes = np.full(len(counts), math.inf), np.zeros(counts.shape)
        remainders = np.full(len(counts), math.inf)
        for block in self._share_out(counts, offsets, radii):
            terms = block.split_terms()
            values[block.rows] = block.scale * terms[0].sum(axis=1)
            slopes[block.rows] = block.scale[:, None] * _real_sums(terms, block.centred_logs)
            remainders[block.rows] = block.scale * block.bound_rest(terms, radii[block.rows])
        return values * self.spacing, slopes * self.spacing, remainders * self.spacing

    def guess_slopes(self, counts: Floats, offset: float) -> Floats:
        """About those of values, by the largest term of each: they only say where to look."""
        sizes = counts @ self._tops.T + offset * self._tilts + self._log_weights
        best = sizes.argmin(axis=1)
        least = np.minimum(sizes[np.arange(len(counts)), best], LARGEST_EXPONENT)
        return np.asarray(np.exp(least)[:, None] * self._tops[best] * (self.spacing * GUESSED))

    def _share_out(self, counts: Floats, offsets: Floats, radii: Floats) -> Iterator["Block"]:
        """Each row with the contour on which its terms are smallest, similar ones together.

        Rows whose offsets are beyond those that are charged are left out.
        """
        is_charged = np.abs(offsets) <= MOST_OFFSET
        sizes = counts @ self._tops.T + offsets[:, None] * self._tilts + self._log_weights
        best = sizes.argmin(axis=1)
        for at in np.unique(best[is_charged]).tolist():
            contour = self._contour(at)
            rows = np.flatnonzero((best == at) & is_charged)
            rows = rows[np.argsort(counts[rows] @ self.levels)]
            for block in np.array_split(rows, -(-len(rows) // ROWS_AT_ONCE)):
                asked = counts[block], offsets[block], radii[block]
                yield _compute(contour, block, *asked, count=self.count, precision=self.precision)

    def _contour(self, at: int) -> Contour:
        """Made where some row needs it."""
        if at not in self._contours:
            self._contours[at] = transform(self._plans[at], self.count, self.precision)
        return self._contours[at]


@dataclass(frozen=True)
class Block:
    """Terms of some rows at the nodes that count for them; `left_out` is what the others can have.

    A term is told by its size and its angle. `scale` are common factors, rounded up, where floats hold them:
    `is_held`. `largest` is what the terms can be at most where counts move by their radii, and all of the
    rest is for such counts too. Most of them move in the `widest` level.
    """

    rows: NDArray[np.intp]
    contour: Contour
    kept: NDArray[np.intp] | slice
    scale: Floats
    is_held: NDArray[np.bool_]
    sizes: Floats
    angles: Floats
    largest: Floats
    widest: int
    left_out: float
    count: int

    def split_terms(self) -> tuple[Floats, Floats]:
        """Their real and their imaginary parts."""
        return self.sizes * np.cos(self.angles), self.sizes * np.sin(self.angles)

    @property
    def rel_errors(self) -> Floats:
        """Of each node's terms."""
        return self.contour.rel_errors[self.kept]

    @cached_property
    def _logs(self) -> Complexes:
        return self.contour.logs[:, self.kept]

    @cached_property
    def centred_logs(self) -> Complexes:
        """Any common number will do, as counts keep their sum: the one of the level that moves most."""
        logs = self._logs + self.contour.tops[:, None]
        return np.asarray(logs - logs[self.widest])

    @property
    def _log_abs_errors(self) -> Floats:
        """What logarithms lose that are centred."""
        highest = np.abs(self._logs).max(axis=0) + float(np.abs(self.contour.tops).max())
        return np.asarray(2 * gamma(len(self._logs) + 4) * highest)

    def bound_rest(self, terms: tuple[Floats, Floats], radii: Floats) -> Floats:
        """What is left beyond value and slopes, relative to the common factors; infinite if that is far.

        Of the next order it is known how the nodes cancel, and of what is beyond how large it is. The errors
        of terms and logarithms are charged for all orders.
        """
        logs, sizes = self.centred_logs, self.sizes
        # |x| and Re x of e^x, at most
        moved, grown = radii @ np.abs(logs), radii @ np.abs(logs.real)
        largest = np.minimum(sizes * np.exp(np.minimum(grown, FARTHEST_EXPANSION)), self.largest)
        largest = np.where(grown <= FARTHEST_EXPANSION, largest, self.largest)
        # |e^x - 1 - x - x^2 / 2| <= |x|^3 e^(Re x)_+ / 6, and at most the sum of all that it consists of
        cubes, more = moved * moved * moved, 1 + moved
        beyond = np.minimum(cubes / 6 * largest, self.largest + sizes * (1 + moved * (1 + moved / 2)))
        total = radii.sum(axis=1)
        errors = np.outer(1 + 4 * total / self.count, self.rel_errors) + np.outer(total, self._log_abs_errors)
        beyond += 2 * errors * (more * more * more) * largest
        one, other = np.triu_indices(len(logs))
        bends = _real_sums(terms, logs[one] * logs[other])
        bends = np.where(one == other, np.maximum(bends, 0.0) / 2, np.abs(bends))
        found = beyond.sum(axis=1) + (bends * radii[:, one] * radii[:, other]).sum(axis=1)
        is_near = self.is_held & (grown[:, 0] <= FARTHEST_EXPANSION)
        return np.where(is_near, found * ROUNDED_UP + self.left_out, math.inf)


def _real_sums(terms: tuple[Floats, Floats], factors: Complexes) -> Floats:
    """Real parts of the sums over all nodes of terms times each row of factors."""
    real, imaginary = terms
    return np.asarray(real @ factors.real.T - imaginary @ factors.imag.T)


def _compute(
    contour: Contour,
    rows: NDArray[np.intp],
    counts: Floats,
    offsets: Floats,
    radii: Floats,
    *,
    count: int,
    precision: float,
) -> Block:
    widest = int(radii.sum(axis=0).argmax())
    # Every row has at least `least` of each level, and the rest decays no slower than the slowest level.
    # Common factors move too.
    least = np.maximum(counts - radii, 0.0).min(axis=0)
    moves = min(float((radii @ np.abs(contour.tops - contour.tops[widest])).max()), FARTHEST_EXPANSION)
    most = least @ contour.decays + (count - least.sum()) * contour.slowest + contour.log_weights + moves
    is_kept = most > contour.log_weights[0] - precision
    is_kept[0] = True
    kept = _narrow(np.flatnonzero(is_kept))
    largest = FROM_LOG * np.exp(most) * (1 + contour.rel_errors)
    exponents = counts @ contour.tops + offsets * contour.tilt
    scale = np.exp(np.minimum(exponents, LARGEST_EXPONENT)) * (1 + contour.scale_rel_error) + UNDERFLOW
    return Block(
        rows=rows,
        contour=contour,
        kept=kept,
        scale=scale,
        is_held=exponents < LARGEST_EXPONENT,
        sizes=np.exp(counts @ contour.decays[:, kept]) * contour.weights[kept],
        angles=counts @ contour.angles[:, kept] + np.outer(offsets, contour.frequencies[kept]),
        largest=largest[kept],
        widest=widest,
        left_out=float(largest[~is_kept].sum()) + contour.left_out * math.exp(moves),
        count=count,
    )


def _narrow(nodes: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """The same nodes; most often they are the first ones, of which nothing need be copied."""
    return slice(len(nodes)) if nodes[-1] == len(nodes) - 1 else nodes


def expect(
    atoms: Atoms,
    levels: Sequence[float],
    counts: Sequence[int],
    offset: float,
    *,
    step: float = LATTICE_STEP,
    precision: float = EXACT,
) -> float:
    """An upper bound on E(offset + sum)_+ for so many summands of each level, on the tilt that suits them.

    `step` is that of the lattice, in deviations of an atom at the largest level.
    """
    deviation = math.sqrt(float(atoms.weights @ atoms.values**2))
    spacing = step * deviation * max(map(abs, levels))
    count = sum(counts)
    start, share = _between(offset / spacing)
    laws = place_levels(atoms, levels, spacing)
    tilts = np.array(_list_tilts(laws, count, 2 * TILTS_TRIED))
    sizes = tilts * start - 2 * np.log(tilts)
    for n, level in zip(counts, levels, strict=True):
        sizes += n * np.log(np.exp(np.outer(tilts * (level / spacing), atoms.values)) @ atoms.weights)
    tilt = float(tilts[sizes.argmin()])
    walks = Walks(laws, levels, spacing=spacing, count=count, tilts=(tilt,), precision=precision)
    # convex in the offset: not above the chord between lattice points
    low, high = walks.evaluate(
        np.array([counts, counts], dtype=float), np.array([start, start + 1.0])
    ).tolist()
    return float(((1 - share) * low + share * high) * ROUNDED_UP)


def _between(place: float) -> tuple[float, float]:
    """The lattice point before a place, which is a quotient of floats, and how far after it that may lie."""
    raised = place + PLACE_REL_ERROR * abs(place)
    start = math.floor(raised)
    return float(start), raised - start


def place_levels(atoms: Atoms, levels: Sequence[float], spacing: float) -> Laws:
    """The law of level * D* for every level."""
    return [_place(atoms, level / spacing) for level in levels]


def _list_tilts(laws: Laws, count: int, number: int) -> Sequence[float]:
    """From sums that are hardly exceeded to those that never are."""
    deviations = [math.sqrt(float(masses @ places**2.0)) for places, masses in laws]
    furthest = max(1.0, *(float(places[-1]) for places, _ in laws))  # all may be negative
    most = min(
        12 / (max(min(deviations), max(deviations) / 64) * math.sqrt(count)), LARGEST_EXPONENT / furthest
    )
    least = min(0.5 / (max(deviations) * math.sqrt(count)), 10 / furthest, most / 4)
    return [float(tilt) for tilt in np.geomspace(least, most, number)]


def _place(atoms: Atoms, scale: float) -> Law:
    """Atoms times a scale, each spread on the two lattice points around it: places, and masses from above."""
    order = slice(None) if scale >= 0 else slice(None, None, -1)
    values, weights = atoms.values[order], atoms.weights[order]
    moved = values * scale
    moved += PLACE_REL_ERROR * np.abs(moved)
    moved = np.maximum(
        moved, min(float(moved[-1]), 0.0) - DEEPEST_PLACE
    )  # raised: what is there hardly counts
    low = np.floor(moved)
    share = moved - low  # exactly, but between -1/2 and 0, where it is at least 1/2 and rounded once
    if low[-1] - low[0] > LONGEST:
        raise EngineDeclines("differences spread over too many points")
    first = int(low[0])
    at = low.astype(np.int64) - first
    size = int(at[-1]) + 2
    masses = np.bincount(at, weights * (1 - share), size)
    masses += np.bincount(at + 1, weights * share, size)
    return first + np.arange(size, dtype=np.int64), np.asarray(masses * (1 + gamma(2 * len(at) + 4)))


def _drop_zeros(law: Law) -> Law:
    places, masses = law
    kept = masses > 0
    return places[kept], masses[kept]
