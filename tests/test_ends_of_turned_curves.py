"""What is charged beyond the ends of the rule in x: theorems/proofs/turned_curve.md, number 6."""

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
from flint import arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_curve import TurnedCurve, TurnedPlan

STEP = 0.125


def curve_of(a: Fraction, batches: int) -> TurnedCurve:
    """One whose rules are planned, and nothing else."""
    curve = TurnedCurve.__new__(TurnedCurve)
    curve.law, curve.a, curve.n = PairLaw(a, batches, batches), float(a), batches
    curve.plan = TurnedPlan(1.0, 2, 8, 1, 0.5, (-10.0,) * 3)
    return curve


def fourth_moment(a: Fraction, n: int, t: arb) -> arb:
    """E S^4: X^j X'^l has the mean e^{a^2 ((j - l)^2 - j - l) / 2}."""
    square = arb(a.numerator) ** 2 / arb(a.denominator) ** 2

    def mean(j: int, k: int) -> arb:
        return (square * ((j - k) ** 2 - j - k) / 2).exp()

    moments = [
        sum(math.comb(m, j) * (-t) ** (m - j) * mean(j, m - j) for j in range(m + 1)) for m in range(5)
    ]
    one = moments[1]
    central = [sum(math.comb(m, j) * (-one) ** (m - j) * moments[j] for j in range(m + 1)) for m in range(5)]
    whole, two, three = n * one, n * central[2], n * central[3]
    four = n * central[4] + 3 * n * (n - 1) * central[2] ** 2
    return arb(whole**4 + 6 * whole**2 * two + 4 * whole * three + four)


CASES = [
    (Fraction(1), 2, 0.0),
    (Fraction(5, 2), 3, 2.0),
    (Fraction(1), 10**8, 0.0),
    (Fraction(1), 10**6, 3.0),
]


@pytest.mark.parametrize(("a", "n", "epsilon"), CASES)
def test_the_fourth_moment_before_the_first_point_is_charged_term_by_term(
    a: Fraction, n: int, epsilon: float
) -> None:
    """One batch alone, pairs of them, and all together: each is most of it once."""
    with ctx.workprec(200):
        x, t, square = arb(-7), arb(epsilon).exp(), arb(a.numerator) ** 2 / arb(a.denominator) ** 2
        alone = 16 * n * (6 * square).exp() * (1 + t**4)
        pairs = 3 * arb(n) ** 2 * (square.exp() * (1 + t**2)) ** 2
        fourth = 8 * (alone + pairs + arb(n) ** 4 * (t - 1) ** 4)
        assert fourth_moment(a, n, t) <= fourth
        # of r^4 E S^4 / 24 at x and all points before, weighed as in the rule
        points = (3 * (x + square / 2)).exp() / (1 - arb(-3 * STEP).exp())
        exact = (points * fourth * STEP / (24 * arb.pi() * n)).log()
        room = arb(curve_of(a, n)._log_low(-7.0, epsilon)) - exact
        # and 1e-9 for what floats make of it
        assert 9e-10 <= float(room) <= 1.1e-9


def test_both_ends_and_what_lies_beside_the_rule_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = curve_of(Fraction(1), 10)
    vars(curve)["_ends"] = [(-40, 8)] * 3
    charges = {"low": 0.0, "high": 0.0, "between": 0.0}

    def log(charge: str) -> float:
        return math.log(charges[charge]) if charges[charge] else -math.inf

    monkeypatch.setattr(TurnedCurve, "_log_low", lambda _, x, at: log("low") if (x, at) == (-5, 1) else 99.0)
    monkeypatch.setattr(TurnedCurve, "_log_most", lambda _, x, at: log("high") if (x, at) == (1, 1) else 99.0)
    vars(curve)["_strip"] = SimpleNamespace(bound=lambda _: charges["between"])

    def radius() -> float:
        with ctx.workprec(200):
            return float(curve._finish(1, arb(0)).rad())

    assert radius() < 1e-50
    # the points from 9 on, a geometric series, over n = 10
    above = math.exp(-9 * STEP - 0.5) / (1 - math.exp(-STEP)) * STEP / 10
    beside = 1 / (10 * math.pi * math.expm1(2 * math.pi * 0.5 / STEP))
    for charge, expected in (("low", 1.0), ("high", above), ("between", beside)):
        charges.update(low=0.0, high=0.0, between=0.0)
        charges[charge] = 0.25
        assert expected / 4 <= radius() <= expected / 4 * (1 + 1e-5)
    for lost in (math.inf, math.nan):
        charges["between"] = lost
        with pytest.raises(EngineDeclines, match="strip"):
            radius()


def test_a_rule_that_ends_before_it_begins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without points is a rule: all that is not beyond its last point is before its first."""
    curve = curve_of(Fraction(1), 10)
    monkeypatch.setattr(TurnedCurve, "_find_last", lambda *_: -9)
    monkeypatch.setattr(TurnedCurve, "_find_first", lambda *_: -8 * STEP)
    assert curve._ends == [(-8, -9)] * 3
    del vars(curve)["_ends"]
    monkeypatch.setattr(TurnedCurve, "_find_first", lambda *_: -7 * STEP)
    with pytest.raises(EngineDeclines, match="ends before"):
        _ = curve._ends
