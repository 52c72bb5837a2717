"""Sums of many worst differences, each times one of a few levels, on a lattice: E(offset + sum)_+ from above.

The sum over the nodes of a contour is that of a wrapped lattice, and every wrapped term is positive: it is
never below the exact value. So only rounding is charged, and the nodes that are left out.
theorems/proofs/shuffles.md, Computing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.face import EngineDeclines
from tightrope.engines.shuffles.worst_difference import Atoms
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.fourier import fast_size, fft_rel_error
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR

Complexes = NDArray[np.complex128]

EXACT, ROUGH = 32.0, 16.0  # what is left out has about e^-32, or e^-16, of a sum; it is charged
WRAPPED = 13.0  # further, in units of 1 / tilt, lie those that are counted too
BESIDE = 3.0  # of the furthest single atom, of which a few together are tilted most
LONGEST, LONGEST_ROUGH = 1 << 21, 1 << 18  # transforms, alone and where many are made
DEEPEST = float(1 << 17)  # steps of the lattice below 0, where the left tail of a difference is raised to
LARGEST_EXPONENT = 500.0  # of a tilted mass and of a common factor
MOST_REL_ERROR = 1e-3  # of a term that is kept
TILTS = 12
# 2^-40 is 8,192 units, more than gamma(8000): what 8,000 roundings in a row can do. It stands for chains of
# sums and products of numbers that are not negative, of which none here has more than 200.
ROUNDED_UP = 1 + 2.0**-40
FINE = 0.15  # the lattice's step, in deviations of one difference
ROWS_AT_ONCE = 128  # similar ones, which need the same nodes
MOST_OFFSET = 1 << 24  # in steps of the lattice: products with a frequency are rounded
# A frequency is at most pi and off by 2.4 units, its product with an offset and the sum of an exponent by one
# each, relative to themselves: 4.4 pi < 16.
OFFSET_REL_ERROR = 16 * UNIT_ROUNDOFF * MOST_OFFSET
FROM_LOG = 1.01  # e^x - 1 is at most so many times x for x <= 0.019, and errors are below that
# Of a payoff times an exponential, in units: 5 for the rounding of a node. 28 for a part of sinh(z/2): 20 for
# the real sinh or cosh (8 of expm1, which the quotient e^x - 1 over e^x has twice, and 4 roundings), 8 for a
# sine or cosine. Its square has twice that and 3, the quotient 10 more, the division by the size 1. And the
# exponential has 8, twice, and 1. That is 5 + 59 + 11 + 17 = 92.
PAYOFF_REL_ERROR = 96 * UNIT_ROUNDOFF
# Of a sum of multiples of logarithms, in units, for each unit of count * (|log| + 1): 8 for a modulus, 8 for
# its logarithm and the angle, 12 for products and sums over at most five levels.
LOGS_REL_ERROR = 32 * UNIT_ROUNDOFF
# Of the exponent of the common factor, likewise: 8 for a logarithm, 6 for multiples and their sum over at
# most five levels, one for an offset times the tilt, one for the last sum; and 8 for the exponential.
SCALE_REL_ERROR = 32 * UNIT_ROUNDOFF
GUESSED = 0.5  # of its largest term is about what a value has
FARTHEST = 30.0  # how far, as an exponent, an expansion goes
# Transforms at the tilt itself are larger: then masses e^-500 times the largest, of which neither rounding
# nor underflow is charged, have less than e^-260 of it.
LEAST_TOP = 1e-100
UNDERFLOW = 2.0**-1000  # more than an exponential loses that is no normal float


@dataclass(frozen=True)
class Contour:
    """Transforms of all levels at the nodes of one tilt that count.

    `tops` are ln of the transforms at the tilt itself, `logs` those at the nodes relative to them, and
    `weights` those of the payoff. `rel_errors` of terms; `left_out` is what all other nodes can have, and
    `scale_rel_error` how far the common factor can be off, all for `count` summands.
    """

    tilt: float
    tops: Floats
    logs: Complexes
    frequencies: Floats
    weights: Complexes
    rel_errors: Floats
    left_out: float
    scale_rel_error: float


class Walks:
    """Laws of level * D* for several levels on one lattice, and sums of `count` of them in all."""

    def __init__(
        self,
        laws: "Laws",
        levels: Sequence[float],
        *,
        spacing: float,
        count: int,
        tilts: Sequence[float] = (),
        precision: float = EXACT,
    ) -> None:
        self.levels, self.spacing, self.count, self.precision = np.array(levels), spacing, count, precision
        laws = [_drop_zeros(law) for law in laws]
        listed = tilts or _list_tilts(laws, count, TILTS)
        planned = (_plan(laws, tilt, count, precision) for tilt in listed)
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
            sizes = np.abs(block.terms) @ (np.abs(block.weights) * block.rel_errors)
            sums = block.scale * ((block.terms @ block.weights).real + sizes + block.left_out)
            found[block.rows] = np.where(block.is_held, sums, math.inf)
        return found * self.spacing

    def expand(self, counts: Floats, radii: Floats, offsets: Floats) -> tuple[Floats, Floats, Floats]:
        """Around counts: a value, its slopes, and what all else can add where each count moves by its radius.

        The counts keep their sum, so that slopes matter up to a common number only.
        """
        values, slopes = np.full(len(counts), math.inf), np.zeros(counts.shape)
        remainders = np.full(len(counts), math.inf)
        for block in self._share_out(counts, offsets, radii):
            logs, rows = block.centred_logs, block.rows
            weighted = block.terms * block.weights
            moved = radii[rows] @ np.abs(logs)
            is_near = block.is_held & (moved.max(axis=1) <= FARTHEST)
            moved = np.minimum(moved, FARTHEST)
            # |e^x - 1 - x| <= |x|^2 e^|x| / 2. The value, the slopes and the term that they stand for each
            # carry the errors of terms. The logarithms of slopes are centred, in two roundings.
            centred = np.outer(radii[rows].sum(axis=1), block.log_abs_errors)
            besides = np.exp(moved) * (moved**2 / 2 + (2 + moved) * block.rel_errors + centred) * ROUNDED_UP
            added = np.einsum("ij,ij->i", np.abs(weighted), besides) + block.left_out
            values[rows] = block.scale * weighted.sum(axis=1).real
            slopes[rows] = block.scale[:, None] * (weighted @ logs.T).real
            remainders[rows] = np.where(is_near, block.scale * added, math.inf)
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
            self._contours[at] = _transform(self._plans[at], self.count, self.precision)
        return self._contours[at]


@dataclass(frozen=True)
class Block:
    """Terms of some rows at the nodes that count for them; `left_out` is what the others can have.

    `scale` are common factors, rounded up, where floats hold them: `is_held`. `log_abs_errors` are those of
    `centred_logs`.
    """

    rows: NDArray[np.intp]
    scale: Floats
    is_held: NDArray[np.bool_]
    terms: Complexes
    weights: Complexes
    rel_errors: Floats
    centred_logs: Complexes
    log_abs_errors: Floats
    left_out: float


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
    # every row has at least `least` of each level, and the rest decays no slower than the slowest level
    least = counts.min(axis=0)
    sizes = contour.logs.real
    logs = contour.logs + contour.tops[:, None]
    # any common number will do, as counts keep their sum: the one of the level that moves most
    widest = radii.sum(axis=0).argmax()
    centred, moves = logs - logs[widest], radii @ np.abs(contour.tops - contour.tops[widest])
    most = least @ sizes + (count - least.sum()) * sizes.max(axis=0) + radii.max(axis=0) @ np.abs(centred)
    log_weights = np.log(np.abs(contour.weights))
    kept = most + log_weights > log_weights[0] - precision
    kept[0] = True
    rest = np.exp(most[~kept] + log_weights[~kept]) * (1 + contour.rel_errors[~kept])
    nodes = contour.logs[:, kept]
    exponents = counts @ contour.tops + offsets * contour.tilt
    scale = np.exp(np.minimum(exponents, LARGEST_EXPONENT)) * (1 + contour.scale_rel_error) + UNDERFLOW
    largest = np.abs(nodes).max(axis=0) + float(np.abs(contour.tops).max())
    return Block(
        rows=rows,
        scale=scale,
        is_held=exponents < LARGEST_EXPONENT,
        terms=np.exp(counts @ nodes + 1j * np.outer(offsets, contour.frequencies[kept])),
        weights=contour.weights[kept],
        rel_errors=contour.rel_errors[kept],
        centred_logs=centred[:, kept],
        log_abs_errors=2 * gamma(len(least) + 4) * largest,
        left_out=FROM_LOG * float(rest.sum())
        + contour.left_out * math.exp(min(float(moves.max()), FARTHEST)),
    )


Law = tuple[NDArray[np.int64], Floats]
Laws = list[Law]


def expect(
    atoms: Atoms,
    levels: Sequence[float],
    counts: Sequence[int],
    offset: float,
    *,
    step: float = FINE,
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
    tilts = np.array(_list_tilts(laws, count, 2 * TILTS))
    sizes = tilts * start - 2 * np.log(tilts)
    for n, level in zip(counts, levels, strict=True):
        sizes += n * np.log(np.exp(np.outer(tilts * (level / spacing), atoms.values)) @ atoms.weights)
    tilt = float(tilts[sizes.argmin()])
    walks = Walks(laws, levels, spacing=spacing, count=count, tilts=(tilt,), precision=precision)
    # convex in the offset: not above the chord between lattice points
    low, high = walks.evaluate(
        np.array([counts, counts], dtype=float), np.array([start, start + 1.0])
    ).tolist()
    return float(((1 - share) * low + share * high) * (1 + 4 * UNIT_ROUNDOFF))


def _between(place: float) -> tuple[float, float]:
    """The lattice point before a place, which is a quotient of floats, and how far after it that may lie."""
    raised = place + 4 * UNIT_ROUNDOFF * abs(place)
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
    """Atoms times a scale, each spread on the two lattice points around it: places, and masses from above.

    A product of two floats that are each rounded once is off by three units: places are raised by four.
    """
    order = slice(None) if scale >= 0 else slice(None, None, -1)
    values, weights = atoms.values[order], atoms.weights[order]
    moved = values * scale
    moved += 4 * UNIT_ROUNDOFF * np.abs(moved)
    moved = np.maximum(moved, min(float(moved[-1]), 0.0) - DEEPEST)  # raised: what is there hardly counts
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


@dataclass(frozen=True)
class ContourPlan:
    """The contour of one tilt before it is made: laws with tilted masses, and what all of them have."""

    tilt: float
    size: int
    tilted: Laws
    tops: Floats
    rel_error: float  # of ratios


def _plan(laws: Laws, tilt: float, count: int, precision: float) -> ContourPlan | None:
    """None where it would be too long, or roundings too large."""
    furthest = max(int(places[-1]) for places, _ in laws)
    least = max((precision + WRAPPED) / tilt + 64, BESIDE * furthest)
    if least > (LONGEST if precision > ROUGH else LONGEST_ROUGH):
        return None  # and another tilt will do
    size = fast_size(math.ceil(least))
    tilted = [(places, masses * np.exp(tilt * places)) for places, masses in laws]
    tops = np.array([float(masses.sum()) for _, masses in tilted])
    # A tilted mass is off by its exponent's rounding, the exponential's and that of their product, sums by
    # their roundings. So are the transform and the top by which it is divided.
    longest = max(len(places) for places, _ in laws)
    masses_rel_error = UNIT_ROUNDOFF * (LARGEST_EXPONENT + 8) + ELEMENTARY_REL_ERROR + 2 * gamma(longest)
    rel_error = fft_rel_error(size) + 2 * masses_rel_error
    if float(tops.min()) < LEAST_TOP or count * rel_error > MOST_REL_ERROR:
        return None
    return ContourPlan(tilt=tilt, size=size, tilted=tilted, tops=tops, rel_error=rel_error)


def _transform(plan: ContourPlan, count: int, precision: float) -> Contour:
    """The contour at the nodes that count."""
    size, tilt, tops, rel_error = plan.size, plan.tilt, plan.tops, plan.rel_error
    masses = np.array([np.bincount(places % size, tilted, size) for places, tilted in plan.tilted])
    # a real transform has e^{-iwk}; the contour has e^{+iwk}
    ratio = np.conj(fft.rfft(masses)) / tops[:, None]
    frequencies = 2 * math.pi / size * np.arange(size // 2 + 1)
    # every node but the first and, if even, the last has a twin
    twins = np.full(len(frequencies), 2.0)
    twins[0] = 1.0
    if size % 2 == 0:
        twins[-1] = 1.0
    # |4 sinh(z/2)^2| for z = tilt + i frequency
    payoffs = twins / (4 * (math.sinh(tilt / 2) ** 2 + np.sin(frequencies / 2) ** 2)) / size
    squares = ratio.real**2 + ratio.imag**2
    largest = np.sqrt(squares.max(axis=0)) * ROUNDED_UP + rel_error
    log_powers = count * np.log(largest)
    term_rel_errors = FROM_LOG * count * rel_error / np.sqrt(np.maximum(squares.min(axis=0), 1e-300))
    kept = log_powers + np.log(payoffs) > math.log(payoffs[0]) - precision
    kept &= term_rel_errors < MOST_REL_ERROR
    kept[0] = True
    left_out = float(payoffs[~kept] @ np.exp(np.minimum(log_powers[~kept], 0.0)))
    logs, frequencies = np.log(ratio[:, kept]), frequencies[kept]
    exponents = count * (np.abs(logs).max(axis=0) + 1)
    rel_errors = FROM_LOG * (term_rel_errors[kept] + LOGS_REL_ERROR * exponents + OFFSET_REL_ERROR)
    rel_errors += PAYOFF_REL_ERROR + 2 * gamma(int(kept.sum()) + 8)
    log_tops = np.log(tops)
    largest_exponent = count * (float(np.abs(log_tops).max()) + 1) + MOST_OFFSET * tilt + 8
    scale_rel_error = math.expm1(FROM_LOG * count * rel_error + SCALE_REL_ERROR * largest_exponent)
    return Contour(
        tilt=tilt,
        tops=log_tops,
        logs=logs,
        frequencies=frequencies,
        # sum_{r >= 1} r e^{-zr} = 1 / (4 sinh(z/2)^2)
        weights=twins[kept] * 0.25 / _half_sinh(tilt, frequencies) ** 2 / size,
        rel_errors=rel_errors,
        left_out=FROM_LOG * left_out,
        scale_rel_error=scale_rel_error,
    )


def _half_sinh(tilt: float, frequencies: Floats) -> Complexes:
    """sinh((tilt + i frequency) / 2); PAYOFF_REL_ERROR counts its roundings."""
    grown = math.expm1(tilt / 2)
    shrunk = grown / (1 + grown)  # 1 - e^(-tilt / 2)
    sinh, cosh = (grown + shrunk) / 2, 1 + (grown - shrunk) / 2
    return np.asarray(sinh * np.cos(frequencies / 2) + 1j * (cosh * np.sin(frequencies / 2)))
