"""Every charge for rounding of line integrals in floats, term by term, against sums written out by hand.

theorems/proofs/line_integrals.md, number 7. At each point below one term is most of a charge.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines import floats
from tightrope.engines.lines.floats import (
    FLOAT_CANCELLED,
    FloatLine,
    FloatLines,
    FloatPath,
    enclose_in_floats,
)
from tightrope.engines.lines.plan import LinePlan, PassOrder, plan_line
from tightrope.engines.transforms import curve_moments
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair

U = 2.0**-53
CLOSE = 1 + 2e-3  # the room of first-order charges


def order_of(noise: float, batches: int, epsilon: float, seen: int | None = None) -> PassOrder:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    allocation = Allocation(step, batches, batches if seen is None else seen, is_exchanged=True)
    return PassOrder(allocation, epsilon)


USUAL = order_of(1.0, 10, 0.5)


@pytest.fixture(scope="module")
def plan() -> LinePlan:
    return plan_line(USUAL, -10.0, FLOAT_CANCELLED)


@pytest.fixture
def path(plan: LinePlan) -> FloatPath:
    return FloatPath(USUAL, plan)


def put(
    path: FloatPath,
    *,
    a: float = 1.0,
    z: complex = 0.0,
    half: float = 0.0,
    size: float = 1e-30,
    fall: float = 0.0,
    count: int = 1,
    weight: float = 0.5,
) -> None:
    """That many equal points, whose D is purely imaginary."""
    path.float_a = a
    ones = np.ones(count)
    vars(path)["_places"] = (0 * ones, z * ones, weight * ones, half * ones, size * ones, 1j * fall * ones)


def assert_charged(path: FloatPath, tilt: float, height: float, expected: float) -> None:
    """Not below what is expected, and hardly above."""
    mass, found = path._mass(tilt, height)
    total = expected * float(np.abs(mass).sum())
    assert (1 + 2.0**-12) * total <= found <= CLOSE * total  # |e^x - 1| is that much more than |x|


# 2 (gamma_136) is 272u: rows of 64 points, real and imaginary parts


def test_a_tilt_is_charged_by_sizes_and_places(path: FloatPath) -> None:
    put(path, a=2.0, z=3.0, half=1.0, size=1e6)
    # r = u (8a (|z| + b) + 2a^2 + 40) = u (64 + 8 + 40)
    assert_charged(path, -3.0, 0.0, 3e6 * 112 * U + (63 + 12 + 72 + 272) * U)
    assert_charged(path, 3.0, 0.0, 3e6 * 112 * U + (63 + 12 + 72 + 272) * U)


def test_squares_of_places_and_halves_of_panels_are_charged(path: FloatPath) -> None:
    put(path, z=6.0, half=20.0)
    assert_charged(path, 0.0, 0.0, (7 * 36 + 4 * 6 * 20 + 72 + 272) * U)


def test_a_point_in_the_middle_is_charged_with_sums_of_rows(path: FloatPath) -> None:
    put(path)
    assert_charged(path, 0.0, 0.0, (72 + 272) * U)


def test_more_points_have_more_roundings(path: FloatPath) -> None:
    put(path, count=64 * 2000)
    assert_charged(path, 0.0, 0.0, (72 + 2 * 2136) * U)


def test_turning_is_charged_by_heights_where_nothing_falls(path: FloatPath) -> None:
    """Also where Im D is negative: there y S e^{-y I} has no other bound."""
    for fall in (0.0, -1.0, 1e-9):
        put(path, a=0.5, size=1e3, fall=fall)
        assert_charged(path, 0.0, 7.0, (7e3 * 40.5 + 344) * U)


def test_turning_is_charged_by_how_fast_exponentials_fall(path: FloatPath) -> None:
    put(path, a=0.5, size=1e3, fall=0.25)
    assert_charged(path, 0.0, 1e9, (1e3 / (math.e * 0.25) * (1 + 4 / 1024) * 40.5 + 344) * U)


def test_exponentials_that_are_taken_for_larger_ones_are_charged(path: FloatPath) -> None:
    put(path, count=3, weight=0.0)
    assert 3 * math.exp(-700) <= path._mass(0.0, 0.0)[1] * (1 + 1e-12) <= 3.001 * math.exp(-700)


@pytest.mark.parametrize("size", [1e12, math.nan])
def test_exponents_that_may_be_far_off_are_refused(path: FloatPath, size: float) -> None:
    """1e11 sizes of 120u are just below 2^-12."""
    put(path, size=2e10)
    path._mass(1.0, 0.0)
    put(path, size=size)
    with pytest.raises(EngineDeclines, match="do not tell"):
        path._mass(1.0, 0.0)


def test_a_path_adds_what_panels_and_what_rounding_may_take(
    path: FloatPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = path.plan.tilt
    monkeypatch.setattr(FloatPath, "_bound_panels", lambda _, tilt: 3.0 if tilt == at else 5.0)
    monkeypatch.setattr(FloatPath, "_mass", lambda *_: (np.array([2.0 + 1j, 0.5]), 7.0))
    vars(path)["_line_mass"] = (np.array([1.0]), 11.0)
    assert path.abs_error(arb(at)) == 14
    assert path.abs_error(arb(2 * at)) == 12
    assert path.bound_moment(arb(2 * at)) == 14.5


def test_what_lies_above_the_last_node_includes_what_panels_miss(
    plan: LinePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for missed in (0.0, 1.0):
        monkeypatch.setattr(FloatPath, "_bound_panels", lambda *_, missed=missed: missed)
        found.append(float(FloatPath(USUAL, plan).most_beyond))
    turned = math.exp(plan.turn**2 / 2)
    assert turned * (1 - 1e-12) <= found[1] - found[0] <= 1.001 * turned


def test_what_lies_above_the_last_node_includes_both_ends(
    path: FloatPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {"_bound_panels": lambda *_: 0.0, "_sum_bounds": lambda *_: 0.0}
    for name, bound in without.items():
        monkeypatch.setattr(FloatPath, name, bound)
    monkeypatch.setattr(FloatPath, "_bound_ends", lambda *_: np.array([0.25, 0.5]))
    turn = path.plan.turn
    expected = turn * 0.75 * math.exp(turn**2 / 2)
    assert expected * (1 - 1e-12) <= float(path.most_beyond) <= 1.001 * expected


def test_exponents_of_bounds_have_room_for_what_their_parts_are_off_by(path: FloatPath) -> None:
    assert 1 + 1.9e-9 <= path._sum_bounds(np.zeros(1), np.zeros(1)) <= 1 + 2.1e-9
    # two terms, whose exponents are sums of numbers of size 10^6 and 2 10^6
    found = path._sum_bounds(np.zeros(2), np.array([1e6, 2e6]))
    assert math.exp(1e-3) + math.exp(2e-3) <= found <= (1 + 1e-8) * (math.exp(1e-3) + math.exp(2e-3))


def test_what_cancels_below_a_panel_is_charged(path: FloatPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ellipse that just touches the line, up a node so high that roundings of its place count."""
    path.middle, path.half = np.array([1.25]), np.array([1.0])
    path.is_side, path.count = np.array([True]), np.array([4])
    path.float_a, path.top = 0.5, 1e15
    monkeypatch.setattr(FloatPath, "_bound_ends", lambda *_: np.zeros(1))
    monkeypatch.setattr(FloatPath, "_sum_bounds", lambda _, logs, sizes: float(logs[0]))
    high = path._bound_panels(0.0)
    path.top = 0.0
    most = float(path._float_ends(np.array([path.plan.right + 0.75]))[1][0])
    factor = 64 / (15 * 0.75) / math.sqrt(2 * math.pi)
    assert high - path._bound_panels(0.0) >= 0.99 * factor * 1e15 * 0.5 * 4 * U * 2.5 * most


# The sum over nodes


def radius_of(plan: LinePlan, values: list[complex], batches: int, seen: int | None = None) -> float:
    with ctx.workprec(200):
        line = FloatLine(order_of(1.0, batches, 0.5, seen), plan)
        vars(line.path)["values"] = np.array(values)
        return float(line._sum_nodes().rad())


def by_hand(plan: LinePlan, logs: list[float], angles: list[float], n: int, unseen: int = 0) -> float:
    """The charge of number 7, term by term."""
    total, y, k = 0.0, 2 * math.pi / plan.period, unseen * math.expm1(0.5)
    for m, (log, angle) in enumerate(zip(logs, angles, strict=True)):
        size = (2 if m else 1) * math.exp(n * (log - logs[0])) / (plan.tilt**2 + (m * y) ** 2)
        own = n * (8 + 10 * abs(log)) + abs(n * (log - logs[0])) + abs(n * logs[0])
        total += size * (own + 10 * n * abs(angle) + 8 * k * m * y + 96 + len(logs)) * U
    return total * math.exp(n * logs[0] - plan.tilt * k) / plan.period


@pytest.mark.parametrize(
    ("logs", "angles", "batches"),
    [
        ([0.0], [0.0], 2),  # 96u
        ([0.0], [0.0], 1000),  # 8nu
        ([0.0] * 3000, [0.0] * 3000, 2),  # sums of many terms
        ([-3.0], [0.0], 200),  # 10 n |ln| and what all is relative to
        ([0.0], [2.5], 1000),  # 10 n |arg|
        ([0.0, -1e-3, 5e-4], [0.0, 1.0, -2.0], 1000),
    ],
)
def test_terms_are_off_by_what_logarithms_angles_and_sums_of_them_are(
    plan: LinePlan, logs: list[float], angles: list[float], batches: int
) -> None:
    values = [math.exp(log) * complex(math.cos(x), math.sin(x)) for log, x in zip(logs, angles, strict=True)]
    expected = by_hand(plan, logs, angles, batches)
    assert expected * (1 - 1e-6) <= radius_of(plan, values, batches) <= CLOSE * expected


def test_terms_of_a_pass_that_was_only_begun_are_off_by_what_turns_them(plan: LinePlan) -> None:
    """Two of three million batches: nearly all of the angle of a node is that of the threshold."""
    found, expected = (
        radius_of(plan, [1.0, 1.0], 3_000_000, seen=2),
        by_hand(plan, [0.0] * 2, [0.0] * 2, 2, 2_999_998),
    )
    assert expected * (1 - 1e-6) <= found <= CLOSE * expected


def test_terms_that_are_no_numbers_are_refused(plan: LinePlan) -> None:
    with pytest.raises(EngineDeclines, match="do not tell"):
        radius_of(plan, [math.nan], 10)


# What is refused


def test_bounds_with_too_many_roundings_are_refused(path: FloatPath) -> None:
    path.float_a = 5e3
    with pytest.raises(EngineDeclines, match="do not bound"):
        path._sum_bounds(np.zeros(1), np.zeros(1))


def test_paths_that_turn_by_a_quarter_are_refused(plan: LinePlan) -> None:
    path = FloatPath(USUAL, plan)
    tops = np.where(path.is_side, path.middle + 1.25 * path.half, plan.shift + 0.75 * path.half)
    path.float_a = 1.569 / float(tops.max())
    path._bound_panels(plan.tilt)
    path.float_a = 1.5709 / float(tops.max())
    with pytest.raises(EngineDeclines, match="leaves where"):
        path._bound_panels(plan.tilt)
    path.float_a = 1.5709 / plan.turn
    with pytest.raises(EngineDeclines, match="turns too far"):
        _ = path.most_beyond


def test_a_pass_whose_record_is_not_exchanged_is_refused(plan: LinePlan) -> None:
    allocation = Allocation(ShiftPair.of_normals(Fraction(1)), 10, 10)
    with pytest.raises(EngineDeclines, match="a pass whose line"):
        enclose_in_floats(PassOrder(allocation, 0.5), plan)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "lose",
    [lambda: np.exp(np.array([800.0])), lambda: np.array([math.inf]) - math.inf, lambda: math.exp(800)],
)
def test_arithmetic_that_loses_its_way_is_refused(
    plan: LinePlan, monkeypatch: pytest.MonkeyPatch, lose: Callable[[], Any]
) -> None:
    def enclose(_: FloatLine) -> tuple[arb, arb]:
        lose()
        return arb(0), arb(1)

    monkeypatch.setattr(floats.FloatLine, "enclose", enclose)
    with pytest.raises(EngineDeclines, match="out of the reach"):
        enclose_in_floats(USUAL, plan)


def test_a_plan_that_is_kept_is_not_asked_for_what_no_float_holds() -> None:
    lines = FloatLines()
    lines.enclose(USUAL, -10.0)
    with pytest.raises(EngineDeclines):
        lines.enclose(order_of(1.0, 10, 710.0), -10.0)


@pytest.mark.parametrize(("log", "tilt", "epsilon"), [(0.0, 1.0, 1.0), (-1.0, 1.0, 0.0), (-0.5, 1.0, 0.5)])
def test_three_roundings_of_chernoffs_logarithm_have_room(
    monkeypatch: pytest.MonkeyPatch, log: float, tilt: float, epsilon: float
) -> None:
    """Where the sum itself is exact all of the room is left: 4u, and no more."""
    monkeypatch.setattr(curve_moments, "_log_bounds", lambda _: (np.array([tilt]), np.array([log])))
    assert curve_moments.bound_log_curve(PairLaw(Fraction(1), 10, 10), epsilon) == -1 + 4 * U
