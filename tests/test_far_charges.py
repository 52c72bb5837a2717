"""Each charge of a far curve by itself: theorems/proofs/line_integrals.md, number 8."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, ctx
from mpmath import MPContext  # type: ignore[import-untyped]

from far_orders import log_alone, order_of
from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines import far, far_plan
from tightrope.engines.lines.far import FarCurve, JumpCells, SmallSums, enclose_far
from tightrope.engines.lines.far_plan import FarPlan, plan_far
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import LinePlan, Panel, PassOrder
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats

mp = MPContext()  # of this file alone: others have more digits
mp.dps = 20
mpf = mp.mpf


@pytest.fixture(autouse=True)
def plans_anew() -> Iterator[None]:
    plan_far.cache_clear()
    yield
    plan_far.cache_clear()


@pytest.fixture
def precise() -> Iterator[None]:
    with ctx.workprec(256):
        yield


def curve_of(noise: float, batches: int, epsilon: float, seen: int | None = None) -> FarCurve:
    of = order_of(noise, batches, epsilon, seen)
    return FarCurve(of, plan_far(of, log_alone(of) - 8))


# The integral over large differences, of two differences in all: C and C~ are in closed form.


class TwoDifferences:
    def __init__(self, of: PassOrder, left: float, right: float) -> None:
        self.a = mpf(of.separation.numerator) / of.separation.denominator
        self.t = mp.exp(mpf(of.epsilon))
        self.k = (of.allocation.batches - 2) * (self.t - 1)
        self.left, self.right = mpf(left), mpf(right)

    def below(self, z: Any) -> Any:
        return mp.erfc(-z / mp.sqrt(2)) / 2

    def at(self, z: Any) -> Any:
        return mp.exp(self.a * z - self.a**2 / 2) - self.t * mp.exp(-self.a * z - self.a**2 / 2)

    def find_z(self, d: Any) -> Any:
        rest = 4 * self.t * mp.exp(-(self.a**2))
        root = mp.sqrt(d * d + rest)
        return mp.log((d + root) / 2 if d >= 0 else rest / (2 * (root - d))) / self.a + self.a / 2

    def small(self, x: Any, zero: Any) -> Any:
        """E(D + x)_+ of one difference that is small, and of mass that counts as 0."""
        a, t, b = self.a, self.t, self.right
        z = min(max(self.find_z(-x), self.left), b)
        kept = self.below(b - a) - self.below(z - a) - t * (self.below(b + a) - self.below(z + a))
        return kept + x * (self.below(b) - self.below(z)) + zero * max(x, 0)

    def integrate(self, zero: Any) -> Any:
        b = self.right
        bends = [self.find_z(self.k - y) for y in (self.at(self.left), self.at(b), mpf(0))]
        ends = sorted({b + mpf(i) for i in range(11)} | {z for z in bends if z > b})
        density = 1 / mp.sqrt(2 * mp.pi)
        return 2 * mp.quad(
            lambda z: density * mp.exp(-z * z / 2) * self.small(self.at(z) - self.k, zero), ends
        )


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("loose", [0.0, 0.1])
@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "left", "right", "step", "count"),
    [
        (noise, batches, epsilon, left, right, step, count)
        for noise, batches, epsilon in ((0.8, 5, 1.0), (0.4, 3, 2.0))
        for left, right in ((-2.0, 2.5), (-1.5, 1.8), (-5.0, 3.5))
        for step, count in ((0.05, 400), (0.3, 4))
    ],
)
def test_large_differences_beside_one_other(
    monkeypatch: pytest.MonkeyPatch,
    noise: float,
    batches: int,
    epsilon: float,
    left: float,
    right: float,
    step: float,
    count: int,
    loose: float,
) -> None:
    of = order_of(noise, batches, epsilon, 2)
    exact = TwoDifferences(of, left, right)
    panels = Panel(False, left, right, 4), Panel(True, 0.0, 0.1, 4)
    line = LinePlan(
        left=left, right=right, keeps_jumps=True, tilt=1.0, call_tilt=1.0, put_tilt=1.0, period=1.0, turn=0.1,
        nodes=8, shift=0.1, panels=panels, cancelled=0.0, bits=0,
    )  # fmt: skip

    def enclose(self: SmallSums, missing: arb) -> tuple[Floats, Floats]:
        zero = mpf(float(missing.mid()))
        found = np.array([float(exact.small(mpf(float(x)), zero)) for x in self.x])
        odd = np.arange(len(found)) % 2  # what is told closely and what is not, in turns
        return found * (1 - 1e-15 - loose * odd), found * (1 + 1e-15 + loose * (1 - odd))

    def keep(self: SmallSums, path: object, count: int, lattices: Sequence[Floats], k: float) -> None:
        self.x = np.concatenate(lattices)

    # one lattice, or three whose steps grow: further and then hardly further than all else
    wide = step * max(float(exact.k), 1.0)
    lattices = ((wide, count),) if count == 4 else ((wide, count // 3), (2 * wide, 9), (5 * wide, 30))
    monkeypatch.setattr(SmallSums, "__init__", keep)
    monkeypatch.setattr(SmallSums, "enclose", enclose)
    monkeypatch.setattr(FarCurve, "_bound_second", lambda self, beyond: arb(0))
    monkeypatch.setattr(FarCurve, "_bound_calm", lambda self, below: arb(0))
    low, high = FarCurve(of, FarPlan(line, 1.0, lattices)).enclose()
    least = exact.integrate(mpf(0))
    most = exact.integrate(exact.below(exact.left) + exact.below(-exact.right))
    assert mpf(float(low)) <= least * (1 + mpf("1e-13"))
    assert mpf(float(high)) >= most * (1 - mpf("1e-13"))


# Errors of the transform, number 5: |phi~ - phi| <= e at all nodes.


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("times", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("first", [1, -1])
def test_transforms_that_are_wrong_by_what_is_known_are_charged(times: float, first: int) -> None:
    """In the worst phases for one x; at the first node, by which the charge goes, the other way."""
    curve = curve_of(0.6, 3000, 2.0)
    least, most = SmallSums(curve.path, curve.n - 1, curve.x_lattices).enclose(arb(0))
    values = curve.path.values
    n = curve.n - 1
    s = curve.plan.line.tilt + 2j * math.pi / curve.plan.line.period * np.arange(len(values))
    x = np.concatenate(curve.x_lattices)
    i = len(x) // 2
    turns = np.exp(-1j * ((n - 1) * np.angle(values) + s.imag * x[i] - 2 * np.angle(s)))
    turns[0] = first
    vars(curve.path)["values"] = values + times / n * turns
    small = SmallSums(curve.path, n, curve.x_lattices)
    small.path_error += arb(times / n) + arb(2e-15)
    low, high = small.enclose(arb(0))
    assert (low <= most).all()
    assert (least <= high).all()


# The same with a path of too few points.


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize(("noise", "batches", "epsilon"), [(0.6, 3000, 2.0), (0.5, 2000, 5.0)])
def test_paths_of_few_points_are_charged(noise: float, batches: int, epsilon: float) -> None:
    curve = curve_of(noise, batches, epsilon)
    least, most = SmallSums(curve.path, curve.n - 1, curve.x_lattices).enclose(arb(0))
    panels = tuple(replace(panel, points=max(panel.points - 16, 4)) for panel in curve.plan.line.panels)
    rough = FarCurve(curve.of, replace(curve.plan, line=replace(curve.plan.line, panels=panels)))
    low, high = SmallSums(rough.path, rough.n - 1, rough.x_lattices).enclose(arb(0))
    assert (low <= most).all()
    assert (least <= high).all()


# Periods that are too short.


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("share", [0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("noise", "batches", "epsilon"), [(0.6, 3000, 2.0), (0.5, 2000, 5.0)])
def test_short_periods_are_charged(
    share: float, times: int, noise: float, batches: int, epsilon: float
) -> None:
    curve = curve_of(noise, batches, epsilon)
    line, x = curve.plan.line, np.linspace(0.0, 3 * curve.x_lattices[-1][-1], 200)
    _, most = SmallSums(curve.path, curve.n - 1, [x]).enclose(arb(0))
    changed = replace(
        line,
        period=share * line.period,
        call_tilt=times * line.call_tilt,
        nodes=max(int(share * line.nodes) + 1, 8),
    )
    short = FarCurve(curve.of, replace(curve.plan, line=changed))
    with np.errstate(over="ignore"):
        low, _ = SmallSums(short.path, short.n - 1, [x]).enclose(arb(0))
    assert (low <= most * (1 + 1e-9) + 1e-9).all()


# A second large difference, and none.


@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "seen", "start"),
    [
        (0.52, 94, 0.34, 20, 2.3125), (0.63, 194, 0.05, 104, 2.125), (1.1, 22, 0.17, 22, 3.75),
        (0.83, 22, 0.23, 22, 3.125), (0.75, 43, 0.18, 43, 2.9375),
    ],
)  # fmt: skip
def test_what_one_large_difference_does_not_tell_is_charged(
    monkeypatch: pytest.MonkeyPatch, noise: float, batches: int, epsilon: float, seen: int, start: float
) -> None:
    of = order_of(noise, batches, epsilon, seen)
    monkeypatch.setattr(far_plan._FarPlanner, "_find_start", lambda self: start)
    low, high = enclose_far(of, plan_far(of, log_alone(of) - 5))
    least, most = enclose_curve(of, math.log(high) - 11)
    assert low <= most
    assert least <= high


# Roundings of the sum over nodes, where turns by y x are the largest


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("far_away", [1e3, 1e6, 1e9])
def test_turns_by_large_x_are_charged(far_away: float) -> None:
    curve = curve_of(0.6, 3000, 2.0)
    line = curve.plan.line
    x = far_away / line.tilt * (1 + np.arange(40) / 37.0)
    small = SmallSums(curve.path, curve.n - 1, [x])
    top, sums, charge = small._sum_nodes(curve.path.values)
    tilt, period = arb(line.tilt), arb(line.period)
    step = arb(float((x[-1] - x[0]) / (len(x) - 1)))
    worst = 0.0
    for i in range(0, 40, 3):
        exact, at = arb(0), arb(float(x[0])) + i * step
        for m, value in enumerate(curve.path.values.tolist()):
            s = acb(tilt, 2 * arb.pi() * m / period)
            term = acb(value) ** small.n * (acb(0, 1) * s.imag * at).exp() / (s * s)
            exact += term.real * (2 if m else 1)
        exact = exact * (-arb(top)).exp() / period
        worst = max(worst, float(abs(exact - arb(float(sums[i])))) / charge)
    assert worst < 1
    assert worst > (1e-3 if far_away > 1e5 else 0)


@pytest.mark.usefixtures("precise")
def test_turns_at_high_nodes_are_charged() -> None:
    """All of the sum is at one node, a hundred times as high as the tilt."""
    curve = curve_of(0.6, 3000, 2.0)
    line = curve.plan.line
    m = math.ceil(100 * line.tilt * line.period / (2 * math.pi))
    values = np.full(m + 1, 1e-9, dtype=np.complex128)
    values[m] = 1.0
    x = 1e6 / line.tilt * (1 + np.arange(400) / 371.0)
    small = SmallSums(curve.path, 2, [x])
    small.plan = replace(line, nodes=m)
    top, sums, charge = small._sum_nodes(values)
    y, tilt, step = 2 * arb.pi() * m / arb(line.period), arb(line.tilt), arb(float((x[-1] - x[0]) / 399))
    worst = 0.0
    for i in range(400):
        s, at = acb(tilt, y), arb(float(x[0])) + i * step
        exact = 2 * (acb(0, 1) * y * at).exp() / (s * s)
        found = exact.real * (-arb(top)).exp() / arb(line.period)
        worst = max(worst, float(abs(found - arb(float(sums[i])))) / charge)
    assert 0.01 < worst < 1


# What masses and places are off by widens both ends.


def ends(cells: JumpCells, low: Floats) -> tuple[float, float]:
    """Of the integral, of a curve that is known at all places and rises by one in the end."""
    return cells.integrate_below(low, low, float(low[-1]), 1.0), cells.integrate_above(low)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("name", ["mass", "excess", "place"])
def test_what_masses_and_places_are_off_by_widens_both_ends(name: str) -> None:
    """Any masses and excesses that are off by so much; any C that is moved by so much at places."""
    curve = curve_of(0.6, 3000, 2.0)
    low, _ = SmallSums(curve.path, curve.n - 1, curve.x_lattices).enclose(arb(0))
    cells = curve._list_cells()
    nothing = 0 * cells.mass
    exact = replace(cells, mass_abs_error=nothing, excess_abs_error=nothing, place_abs_error=nothing)
    least, most = ends(exact, low)
    if name == "place":
        wide = ends(replace(exact, place_abs_error=nothing + 10.0), low)
        moved = 10.0 * float(cells.mass.sum()) * (1 - 1e-6)
        assert wide[1] >= most + moved
        assert wide[0] <= max(least - moved, 0.0)
        return
    kept = getattr(exact, name)
    wide = ends(replace(exact, **{f"{name}_abs_error": 1e-3 * kept}), low)
    for times in (1 + 1e-3, 1 - 1e-3):
        some = ends(replace(exact, **{name: times * kept}), low)
        assert wide[0] <= some[0] * (1 + 1e-8)
        assert wide[1] >= some[1] * (1 - 1e-8)


# Places of floats


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize(
    ("noise", "batches", "epsilon", "seen"),
    [(0.6, 3000, 2.0, None), (0.6, 2_000_000, 2.0, 40), (0.45, 2000, 8.0, 1300)],
)
def test_places_in_floats_are_off_by_less_than_is_charged(
    noise: float, batches: int, epsilon: float, seen: int | None
) -> None:
    """Both as differences, D(z) - d, and as what is asked of other sums, d - k - x."""
    of = order_of(noise, batches, epsilon, seen)
    base = order_of(noise, 3000, 2.0)
    plan = replace(plan_far(base, log_alone(base) - 8), lattices=((50.0, 300), (200.0, 200)))
    curve = FarCurve(of, plan)
    away = curve._list_cells().place_abs_error
    a, t, k = ball(of.separation), of.order, curve.unseen * (of.order - 1)
    right = arb(curve.plan.line.right)
    first = (a * right - a * a / 2).exp() - t * (-a * right - a * a / 2).exp()
    places = [50 * i for i in range(300)] + [50 * 299 + 200 * i for i in range(1, 201)]
    for i in range(0, len(away), 50):
        place = first + places[i]
        assert 2 * abs(place - k - arb(float(np.concatenate(curve.x_lattices)[i]))) <= arb(float(away[i]))


# What is refused.


@pytest.mark.usefixtures("precise")
def test_sums_that_floats_may_call_0_are_refused() -> None:
    curve = curve_of(0.6, 3000, 2.0)
    x = curve.x_lattices[0] - 650.0 / curve.plan.line.tilt
    with pytest.raises(EngineDeclines):
        SmallSums(curve.path, curve.n - 1, [x]).enclose(arb(0))


def test_a_path_that_begins_where_differences_are_positive_is_refused() -> None:
    of = order_of(0.6, 3000, 2.0)
    plan = plan_far(of, log_alone(of) - 8)
    left = float(of.separation) / 2 + of.epsilon / (2 * float(of.separation)) + 0.5
    with pytest.raises(EngineDeclines, match="reach far enough"):
        enclose_far(of, replace(plan, line=replace(plan.line, left=left)))


# Differences left of the path.


@pytest.mark.usefixtures("precise")
def test_what_counts_as_nothing_is_in_every_bound() -> None:
    """More mass at 0 is more of everything: by the factors that it makes."""
    curve = curve_of(0.6, 3000, 2.0)
    below = arb(0.001)
    ratio = (curve.path.bound_moment(arb(curve.plan.calm_tilt)) + below) / curve.path.bound_moment(
        arb(curve.plan.calm_tilt)
    )
    assert curve._bound_calm(below) >= curve._bound_calm(arb(0)) * ratio**curve.n * (1 - arb("1e-9"))
    small = SmallSums(curve.path, curve.n - 1, curve.x_lattices)
    tilt = arb(curve.plan.line.call_tilt)
    ratio = (curve.path.bound_moment(tilt) + below) / curve.path.bound_moment(tilt)
    wide, narrow = small._bound_right(below), small._bound_right(arb(0))
    assert (wide >= narrow * float(ratio**small.n) * (1 - 1e-6)).all()
    off, moment, top = arb("1e-300"), arb(1), 0.0
    assert small._charge(moment, off, below, top) >= float(
        (curve.path.most_beyond + below) ** small.n / (arb.pi() * curve.path.height)
    ) * (1 - 1e-9)
    assert far.SUM_ROOM > 0
