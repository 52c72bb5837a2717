"""Line integrals for single passes, and pairs between dots: theorems/proofs/line_integrals.md."""

import itertools
import math
import random
from fractions import Fraction

import pytest
from flint import arb

import tightrope as tr
from tightrope.engines.choose import compose
from tightrope.engines.dots import connect_dots, stay_below
from tightrope.engines.face import ABOVE, BELOW, ComposedCurve, EngineDeclines
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.path import list_powers
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.passes import exchanged_pair
from tightrope.engines.passes.exchanged import bound_divergence
from tightrope.engines.passes.line_pass import LinePass
from tightrope.engines.passes.pass_pair import bound_pass
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair


def one_pass(noise: float, batches: int, released: int | None = None, kind: str = "remove") -> Allocation:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    seen = batches if released is None else released
    return Allocation(step, batches, seen, is_reversed=kind == "add", is_exchanged=kind == "exchange")


KINDS = ("remove", "add", "exchange")


@pytest.mark.parametrize("kind", KINDS)
def test_brackets_of_all_widths_overlap(kind: str) -> None:
    """Each width has a line, a path and cuts of its own: what is not charged shows in one of them."""
    rng = random.Random(11)
    told = 0
    for _ in range(12):
        noise = round(math.exp(rng.uniform(math.log(0.5), math.log(8))), 3)
        batches = round(math.exp(rng.uniform(math.log(3), math.log(30_000))))
        released = batches if rng.random() < 0.6 else rng.randint(2, batches)
        deviation = math.sqrt(math.expm1(1 / noise**2) * released) / batches
        epsilon = rng.uniform(0, 6) * math.log1p(deviation) * (2 if kind == "exchange" else 1)
        of = PassOrder(one_pass(noise, batches, released, kind), epsilon)
        ends = []
        for log_error in (-7.0, -13.0, -19.0, -26.0):
            try:
                ends.append(enclose_curve(of, log_error))
            except EngineDeclines:
                continue
        told += len(ends)
        assert max((low for low, _ in ends), default=0.0) <= min((high for _, high in ends), default=1.0)
    assert told > 30


@pytest.mark.parametrize("kind", ["remove", "add"])
@pytest.mark.parametrize(("noise", "batches", "released"), [(1.0, 100, 100), (0.7, 60, 25), (3.0, 500, 500)])
def test_lattices_agree_with_line_integrals(noise: float, batches: int, released: int, kind: str) -> None:
    pair = one_pass(noise, batches, released, kind)
    below, above = (compose(Schedule([(bound_pass(pair, side), 1)])) for side in (BELOW, ABOVE))
    for epsilon in (0.02, 0.1, 0.3):
        low, high = enclose_curve(PassOrder(pair, epsilon), math.log(1e-10))
        if high < 1e-8:
            continue
        assert high - low < 1e-4 * high
        assert math.exp(below.log_bounds(epsilon, 1e-3).lower) <= high
        assert math.exp(above.log_bounds(epsilon, 1e-3).upper) >= low


@pytest.mark.parametrize("released", [40, 15])
def test_chains_of_one_order_agree_with_line_integrals(released: int) -> None:
    pair = one_pass(1.5, 40, released, "exchange")
    order = Fraction(3, 2)
    low, high = enclose_curve(PassOrder(pair, math.log(1.5), order), math.log(1e-9))
    assert bound_divergence(pair, order, ABOVE, 32) >= arb(low)
    assert bound_divergence(pair, order, BELOW, 32) <= arb(high)
    assert 0 < high - low < 1e-2 * high


def test_nothing_is_lost_where_the_batches_that_are_not_seen_hide_all() -> None:
    """R >= 1 - r/T, so that Q - e^epsilon P has no positive part once e^epsilon (1 - r/T) >= 1."""
    pair = one_pass(0.7, 15, 5, "add")
    assert enclose_curve(PassOrder(pair, 0.57), math.log(1e-9)) == (0.0, 0.0)
    assert enclose_curve(PassOrder(pair, 0.2), math.log(1e-9))[0] > 0


def test_panels_of_a_path_share_their_ends() -> None:
    """A gap of one float is no rounding of a ball, and n of them were more than the width asked for."""
    plan = plan_line(PassOrder(one_pass(0.6, 10_000), 0.8), math.log(1e-11))
    for is_side, first, last in ((False, plan.left, plan.right), (True, 0.0, plan.shift)):
        panels = [panel for panel in plan.panels if panel.is_side is is_side]
        assert [panel.start for panel in panels] == [first, *(panel.end for panel in panels[:-1])]
        assert panels[-1].end == last


def test_powers_of_balls_stay_narrow() -> None:
    """Multiplied one by one, a box that turns grows by up to the root of 2 each time."""
    from flint import acb

    last = list_powers([acb(0, 1).exp()], 500)[-1][0]
    assert float(last.real.rad()) < 1e-9
    assert abs(float(last.real.mid()) - math.cos(500)) < 1e-9


@pytest.mark.parametrize(("noise", "batches", "low", "high"), [(1.0, 1000, 0.26747, 0.26748)])
def test_an_exchanged_record_meets_its_anchor(noise: float, batches: int, low: float, high: float) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.epsilon(step * batches, delta=1e-6, relation=tr.SUBSTITUTE)
    assert low <= found.lower <= found.upper <= high
    assert found.upper - found.lower <= 1e-5


def test_two_batches_with_an_exchanged_record_are_answered() -> None:
    """One lattice does not hold these differences, and line integrals decline orders near 1."""
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=2))
    found = tr.epsilon(step * 2, delta=1e-6, relation=tr.SUBSTITUTE)
    assert 7.28 < found.lower <= found.upper < 7.29


def test_a_pass_that_line_integrals_decline_is_left_to_others() -> None:
    pair = one_pass(0.3, 3)
    with pytest.raises(EngineDeclines):
        plan_line(PassOrder(pair, 1.0), math.log(1e-9))
    curve = LinePass(pair, lambda: compose(Schedule([(pair, 1)]), ABOVE))
    assert 0.5 < math.exp(curve.log_bounds(1.0, 1e-2).upper) <= 1


@pytest.mark.parametrize("kind", ["remove", "add"])
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_the_usual_passes_are_told_by_line_integrals_alone(kind: str, delta: float) -> None:
    """A search that judged a slope by noise, or a plan for one epsilon that was asked at a larger one."""

    def others() -> ComposedCurve:
        raise AssertionError("which take ten times as long, and are not as close")

    for noise, batches in itertools.product((0.6, 0.7, 0.8, 2.0), (100, 1000)):
        lower, upper = LinePass(one_pass(noise, batches, kind=kind), others).epsilon_bounds(delta, 1e-3)
        assert 0 < lower <= upper < lower + 2e-5


def test_a_delta_above_the_whole_curve_needs_no_epsilon() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.BallsInBins(batches=100))
    for relation in (tr.ADD, tr.REMOVE, tr.SUBSTITUTE):
        assert tr.epsilon(step * 100, delta=0.3, relation=relation).upper == 0


# -- between dots --------------------------------------------------------------------------------------------


def symmetric_curve(order: Fraction) -> Fraction:
    """H_t of P = (3/6, 2/6, 1/6) and Q = (1/6, 2/6, 3/6), the same both ways."""
    masses = [(Fraction(i, 6), Fraction(4 - i, 6)) for i in (3, 2, 1)]
    return sum((max(p - order * q, Fraction(0)) for p, q in masses), Fraction(0))


def curve_of(pair: FinitePair, order: Fraction) -> Fraction:
    both = zip(pair.observed.masses, pair.alternative.masses, strict=True)
    return sum((max(p - order * q, Fraction(0)) for p, q in both), Fraction(0))


@pytest.mark.parametrize("width", [Fraction(0), Fraction(1, 1000), Fraction(1, 30)])
def test_a_curve_lies_between_the_pairs_made_of_its_dots(width: Fraction) -> None:
    rng = random.Random(3)
    orders = [Fraction(1), *sorted(Fraction(rng.randint(101, 400), 100) for _ in range(9))]
    values = [(t, symmetric_curve(t)) for t in dict.fromkeys(orders)]
    dots = [
        (t, max(h - width * rng.randint(0, 9) / 9, Fraction(0)), h + width * rng.randint(0, 9) / 9)
        for t, h in values
    ]
    above, below = connect_dots([(t, high) for t, _, high in dots]), stay_below(dots)
    for i in range(1, 120):
        t = Fraction(i, 24)
        assert curve_of(below, t) <= symmetric_curve(t) <= curve_of(above, t)
    if not width:
        assert curve_of(below, Fraction(1)) > symmetric_curve(Fraction(1)) / 2


def test_pairs_whose_dots_end_early_are_on_their_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lines take too long, further dots are less close; but little is a loss without end."""
    monkeypatch.setattr(exchanged_pair, "MOST_WORK", 20_000)
    monkeypatch.setattr(exchanged_pair, "SPARE_WORK", 0)
    one = one_pass(1.0, 5, kind="exchange")
    dots = exchanged_pair._enclose_dots.__wrapped__(one)
    monkeypatch.setattr(exchanged_pair, "_enclose_dots", lambda _: dots)
    last = math.log(dots[-1][0])
    assert dots[-1][2] > 1e-3
    below, above = (exchanged_pair.bound_exchanged_pass.__wrapped__(one, side) for side in (BELOW, ABOVE))
    assert above.infinite_mass < 1e-6 * float(dots[-1][2])
    for epsilon in (0.0, 1.0, 0.99 * last, last + 0.05, last + 0.5, last + 3):
        order = Fraction(math.exp(epsilon))
        low, high = enclose_curve(PassOrder(one, epsilon, order), math.log(1e-10))
        assert curve_of(below, order) <= high
        assert low <= curve_of(above, order)


@pytest.mark.parametrize(("noise", "batches", "passes"), [(2.0, 100, 10)])
def test_several_passes_with_an_exchanged_record_are_told_closely(
    noise: float, batches: int, passes: int
) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.epsilon(step * (batches * passes), delta=1e-6, relation=tr.SUBSTITUTE)
    assert found.upper - found.lower <= 1e-3
    # simulated and composed elsewhere: the bracket of the lattices that were there before
    assert found.lower <= 1.3768
    assert found.upper >= 1.3726


@pytest.mark.parametrize(("relation", "epsilon"), [(tr.ADD, 1.0), (tr.REMOVE, -0.5)])
def test_a_pass_that_was_begun_has_no_loss_beyond_what_is_left(relation: tr.Relation, epsilon: float) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.BallsInBins(batches=100)) * 30
    found = tr.delta(run, epsilon=epsilon, relation=relation)
    least = max(-math.expm1(epsilon), 0.0)  # which every curve has at a negative epsilon
    assert found.upper == pytest.approx(least, rel=1e-12)


def test_deltas_at_the_end_of_floats_are_left_to_lattices() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.BallsInBins(batches=10)) * 10
    for delta in (1e-319, 5e-324):
        found = tr.epsilon(run, delta=delta, relation=tr.REMOVE)
        assert 0 < found.lower <= found.upper < math.inf
