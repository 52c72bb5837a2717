"""Masses of places, and the finite pairs that they make.

What rounding took is put back so that a pair stays on its side: theorems/proofs/balls_in_bins.md, Closing.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from tightrope.engines.face import Contradiction
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport

KEPT_PASSES = 32  # finite pairs of passes, that are kept


def collect(atoms: Iterator[tuple[int, int]]) -> Mapping[int, int]:
    """The mass of each place."""
    found: dict[int, int] = {}
    for place, mass in atoms:
        found[place] = found.get(place, 0) + mass
    return found


def order_cells(p: Sequence[int], q: Sequence[int], whole_p: int, whole_q: int) -> list[tuple[int, int]]:
    """The cells with what is missing: of P in the cell of least ratio, of Q in that of the largest one.

    Neighbours are merged until ratios grow, missing masses included: only then is the pair dominated.
    """
    p, q = [p[0] + whole_p - sum(p), *p[1:]], [*q[:-1], q[-1] + whole_q - sum(q)]
    merged: list[tuple[int, int]] = []
    for cell in zip(p, q, strict=True):
        if not any(cell):  # which has no ratio to compare
            continue
        while merged and _is_above(merged[-1], cell):
            before = merged.pop()
            cell = before[0] + cell[0], before[1] + cell[1]
        merged.append(cell)
    return merged


def _is_above(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether dP/dQ of one cell is larger."""
    return one[0] * other[1] > other[0] * one[1]


def as_pair(p: Sequence[int], whole_p: int, q: Sequence[int], whole_q: int) -> FinitePair:
    """The finite pair with these masses, in units of which so many make 1."""
    if not (sum(p) == whole_p and sum(q) == whole_q and min(p) >= 0 <= min(q)):
        raise Contradiction("masses that are no distribution")
    observed, alternative = (
        [Fraction(mass, whole) for mass in masses] for masses, whole in ((p, whole_p), (q, whole_q))
    )
    return FinitePair(FiniteSupport(tuple(observed)), FiniteSupport(tuple(alternative)))
