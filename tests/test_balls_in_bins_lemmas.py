"""The lemmas of balls in bins, in fractions: spreads above, labels below, and what rounding takes.

They are those of theorems/proofs/balls_in_bins.md.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

Law = dict[Fraction, Fraction]  # masses at places, a measure of total mass 1 or less


def spread(law: Law, width: Fraction) -> Law:
    """Each mass on the two neighbouring multiples of `width`, its mean kept."""
    out: Law = {}
    for place, mass in law.items():
        low = place // width * width
        share = (place - low) / width
        for where, part in ((low, 1 - share), (low + width, share)):
            if part:
                out[where] = out.get(where, Fraction(0)) + mass * part
    return out


def add_up(a: Law, b: Law) -> Law:
    """The law of a sum of two independent places."""
    out: Law = {}
    for (x, p), (y, q) in product(a.items(), b.items()):
        out[x + y] = out.get(x + y, Fraction(0)) + p * q
    return out


def merge(a: Law, b: Law) -> Law:
    """The sum of two measures."""
    return {x: a.get(x, Fraction(0)) + b.get(x, Fraction(0)) for x in a.keys() | b.keys()}


def call(law: Law, strike: Fraction) -> Fraction:
    """The mean of what exceeds `strike`."""
    return sum((q * max(x - strike, Fraction(0)) for x, q in law.items()), Fraction(0))


def round_down(law: Law, unit: Fraction) -> Law:
    return {x: mass // unit * unit for x, mass in law.items()} if unit else law


def random_ratio(rng: np.random.Generator) -> Law:
    """A likelihood ratio with four values, of mean one."""
    places = rng.permutation(30)[:4].tolist()
    raw = {Fraction(v, 7): Fraction(m, 40) for v, m in zip(places, (7, 12, 9, 12), strict=True)}
    mean = sum(x * m for x, m in raw.items())
    return {x / mean: m for x, m in raw.items()}


UNITS = (Fraction(1, 64), Fraction(1, 256), Fraction(0))
COARSE = Fraction(1, 2)
FINE = Fraction(1, 8)
ORDERS = [Fraction(i, 8) for i in range(1, 33)]


@pytest.mark.parametrize("unit", UNITS)
def test_spread_sums_rounded_down_with_what_is_missing_at_zero_and_infinity_dominate(unit: Fraction) -> None:
    rng, too_small = np.random.default_rng(9), 0
    for _ in range(5):
        ratio = random_ratio(rng)
        exact = add_up(add_up(ratio, ratio), ratio)
        one = round_down(spread(ratio, FINE), unit)
        two = round_down(spread(add_up(one, one), COARSE / 2), unit)
        above = round_down(spread(add_up(two, one), COARSE), unit)
        missing_mean = 1 - sum(x / 3 * q for x, q in above.items())
        assert missing_mean >= 0  # so that the finite pair is one
        assert sum(above.values()) <= 1
        for t in ORDERS:
            assert call(exact, 3 * t) / 3 <= call(above, 3 * t) / 3 + missing_mean
            too_small += int(call(exact, 3 * t) > call(above, 3 * t))
    assert bool(too_small) == bool(unit)  # rounding that is not charged is too small


def test_the_labels_law_with_the_record_obeys_the_recursion() -> None:
    rng = np.random.default_rng(10)
    ratio = random_ratio(rng)
    biased = {x: x * m for x, m in ratio.items()}
    laws = []
    for holder in range(3):  # by brute force, the record in the first, second or third batch
        a, b, c = (spread(biased if i == holder else ratio, FINE) for i in range(3))
        laws.append(spread(add_up(spread(add_up(a, b), COARSE / 2), c), COARSE))
    q1, p1 = spread(ratio, FINE), spread(biased, FINE)
    q2 = spread(add_up(q1, q1), COARSE / 2)
    p2 = spread(merge(add_up(p1, q1), add_up(q1, p1)), COARSE / 2)
    p3 = spread(merge(add_up(p2, q1), add_up(q2, p1)), COARSE)
    brute = merge(merge(laws[0], laws[1]), laws[2])
    assert {x: m for x, m in p3.items() if m} == {x: m for x, m in brute.items() if m}


def divergence(p: list[Fraction], q: list[Fraction], t: Fraction) -> Fraction:
    return sum((max(a - t * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def close_below(cells: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Cells by falling ratio; the missing masses at the ends, which swallow cells until they are extreme."""
    cells = sorted((c for c in cells if any(c)), key=lambda c: (c[1] == 0, c[0] / (c[1] or 1)))[::-1]
    p_missing, q_missing = 1 - sum(p for p, _ in cells), 1 - sum(q for _, q in cells)
    (p, q), *rest = cells
    top = (p, q + q_missing)
    while rest and rest[0][0] * top[1] > top[0] * rest[0][1]:
        top, rest = (top[0] + rest[0][0], top[1] + rest[0][1]), rest[1:]
    if not rest:
        return [(Fraction(1), Fraction(1))]
    bottom, rest = (rest[-1][0] + p_missing, rest[-1][1]), rest[:-1]
    while rest and rest[-1][0] * bottom[1] < bottom[0] * rest[-1][1]:
        bottom, rest = (bottom[0] + rest[-1][0], bottom[1] + rest[-1][1]), rest[:-1]
    if top[0] * bottom[1] < bottom[0] * top[1]:
        return [(Fraction(1), Fraction(1))]
    return [top, *rest, bottom]


def test_cells_rounded_down_and_closed_at_their_extremes_are_dominated() -> None:
    rng, told = np.random.default_rng(11), 0
    for _ in range(60):
        p, q = (
            [Fraction(int(c), 200) for c in rng.multinomial(200, rng.dirichlet(np.ones(6)))] for _ in "pq"
        )
        unit = Fraction(1, int(rng.choice([16, 32, 64])))
        closed = close_below([(a // unit * unit, b // unit * unit) for a, b in zip(p, q, strict=True)])
        for t in ORDERS:
            value = divergence([a for a, _ in closed], [b for _, b in closed], t)
            assert value <= divergence(p, q, t)
            told += int(value > max(1 - t, Fraction(0)))
    assert told > 300  # most of the pairs still tell the two apart


def test_closing_the_cells_without_looking_whether_they_stay_extreme_can_exceed_the_truth() -> None:
    p, q = [Fraction(6, 10), Fraction(4, 10)], [Fraction(5, 10), Fraction(5, 10)]
    low = (Fraction(0), Fraction(5, 10))  # the smallest ratio, after all of its P-mass was rounded away
    high = (Fraction(2, 10), Fraction(1, 10))  # the largest, after most of both was
    closed_p, closed_q = [high[0], low[0] + Fraction(8, 10)], [high[1] + Fraction(4, 10), low[1]]
    assert sum(closed_p) == sum(closed_q) == 1
    assert divergence(closed_p, closed_q, Fraction(1)) > divergence(p, q, Fraction(1))
    assert close_below([high, low]) == [(Fraction(1), Fraction(1))]
