"""`Exact`: the second route, in integers and balls, against exact values and against the first route."""

import ast
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from flint import arb, ctx, fmpz, fmpz_poly

import tightrope as tr
from catalogue import EVERY, Entry, batch, finite, gaussian, intersect, laplace, poisson, response
from oracle_cases import load
from precise import mp, mpf
from tightrope.accountants.exact import MOST_STEPS
from tightrope.engines.face import ABOVE, BELOW
from tightrope.engines.integers import checker
from tightrope.engines.integers.checker import GUARD, Lattice, Law, compose, join_normals
from tightrope.engines.integers.engine import ExactComposition, _one_step
from tightrope.engines.integers.planning import (
    MOST_WORK,
    ExactPlan,
    Settings,
    Whereabouts,
    count_products,
    find_target,
    make_plan,
    outputs,
)
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.theorems.worst_pairs import step_laws

LOPSIDED = ([0.5, 0.25, 0.25, 0.0], [0.125, 0.25, 0.5, 0.125])
SOME = (
    Entry("gauss-poisson", gaussian(1, poisson(0.1), 20), (0.0, 1.0, 4.0)),
    Entry("gauss-batch", gaussian(2, batch(1, 10), 30), (0.5,)),
    Entry("laplace-poisson", laplace(1, poisson(0.5), 3), (0.5, 1.5)),
    Entry("laplace-every", laplace(2, EVERY, 5), (0.7, 2.4)),
    Entry("response", response(0.75, poisson(0.2), 10), (0.0, 1.0)),
    Entry("lopsided", finite(*LOPSIDED, poisson(0.25), 4), (0.0, 1.0)),
    Entry("mixed", gaussian(1, poisson(0.05), 10) + laplace(2, poisson(0.1), 4), (0.3, 1.5)),
    Entry("low-noise", gaussian(0.2, poisson(0.01), 1), (5.0,)),
    Entry("high-noise", gaussian(1000, poisson(0.1), 10), (1e-4,)),
)
over = pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in SOME])
both = pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE], ids=str)


def exactly(run: tr.Run, relation: tr.Relation, width: float = 1e-2) -> tr.ExactCurve:
    return tr.privacy_curve(run, relation=relation, by=tr.Exact(width=width))


@over
@both
def test_it_agrees_with_the_first_route(entry: Entry, relation: tr.Relation) -> None:
    ours, theirs = exactly(entry.run, relation), tr.privacy_curve(entry.run, relation=relation)
    for epsilon in (*entry.epsilons, -entry.epsilons[-1]):
        assert intersect(ours.log_delta(epsilon), theirs.log_delta(epsilon))
    for delta in (0.01, 1e-6):
        assert intersect(ours.epsilon(delta), theirs.epsilon(delta))


@pytest.mark.parametrize("delta", [0.2, 1e-3, 1e-12])
def test_one_gaussian_step_to_sixty_digits(delta: float) -> None:
    with mp.workdps(60):
        found = exactly(gaussian(1, EVERY, 1), tr.REMOVE, 1e-4).epsilon(delta)
        lower, upper = mpf(found.lower), mpf(found.upper)

        def spends(epsilon: mpf) -> mpf:
            return mp.ncdf(mpf(1) / 2 - epsilon) - mp.exp(epsilon) * mp.ncdf(-mpf(1) / 2 - epsilon)

        assert spends(upper) <= mpf(delta) <= spends(lower)
    assert found.width <= 1e-4


def test_the_oracle_lies_inside() -> None:
    quick = [c for c in load() if c.witness is None and c.run.steps <= 20][::4]
    assert len(quick) > 10
    for case in quick:
        found = exactly(case.run, case.relation).log_delta(float(case.epsilon))
        truth = float(mp.log(case.delta))  # to 1e-15, as is epsilon
        margin = 1e-12 * (1 + abs(truth))
        assert found.lower - margin <= truth <= found.upper + margin, case.id


def test_two_laplace_steps_are_exact_to_a_millionth() -> None:
    for run in (laplace(1, EVERY, 2), laplace(1, poisson(0.5), 2)):
        for delta in (0.1, 1e-6):
            found = tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE, by=tr.Exact(width=1e-6))
            assert found.width <= 1e-6
            assert intersect(found, tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE))


def test_fractions_of_the_paper_lie_inside() -> None:
    run = response(0.75, poisson(0.5), 2)
    for relation, ratio, delta in (
        (tr.ADD, "4/3", "11/48"),
        (tr.REMOVE, "2", "1/8"),
        (tr.ADD, "3/2", "3/16"),
    ):
        epsilon = math.log(Fraction(ratio))
        found = exactly(run, relation, 1e-6).delta(epsilon)
        assert found.lower - 1e-15 <= float(Fraction(delta)) <= found.upper + 1e-15
        assert found.width < 1e-5


def test_more_cells_or_bits_overlap_with_fewer() -> None:
    run = gaussian(1, poisson(0.1), 10)
    found = [
        tr.epsilon(run, delta=1e-5, relation=tr.REMOVE, by=tr.Exact(cells=cells, bits=bits))
        for cells, bits in ((100, 40), (400, 60), (1600, 90), (1600, None))
    ]
    for one in found:
        assert all(intersect(one, other) for other in found)
    assert found[0].width > found[1].width > found[2].width
    coarse = tr.epsilon(run, delta=1e-5, relation=tr.REMOVE, by=tr.Exact(cells=16, bits=16))
    assert coarse.lower <= found[2].lower
    assert found[2].upper <= coarse.upper
    assert coarse.gap is not None
    assert "cells" in str(coarse.gap)


def test_infinite_masses() -> None:
    run = finite(*LOPSIDED, EVERY, 3)
    mass = 1 - (1 - Fraction(1, 8)) ** 3
    curve = exactly(run, tr.REMOVE)
    assert curve.epsilon(float(mass) * (1 - 1e-12)).lower == math.inf
    assert curve.epsilon(float(mass) * (1 + 1e-9)).upper < math.inf
    assert curve.delta(100.0).lower <= mass <= curve.delta(100.0).upper
    nothing_shared = finite([1.0, 0.0], [0.0, 1.0], EVERY, 2)
    assert exactly(nothing_shared, tr.ADD).delta(3.0) == tr.Bracket(1.0, 1.0)
    assert exactly(nothing_shared, tr.ADD).epsilon(0.5).lower == math.inf


@pytest.mark.parametrize("run", [tr.Run(), gaussian(1, poisson(0.0), 9), response(0.5, EVERY, 9)], ids=str)
def test_what_releases_nothing_costs_nothing(run: tr.Run) -> None:
    curve = exactly(run, tr.ADD_OR_REMOVE)
    assert curve.epsilon(1e-9) == tr.Bracket(0.0, 0.0)
    assert curve.delta(0.5) == tr.Bracket(0.0, 0.0)
    assert -math.expm1(-1.0) in curve.delta(-1.0)


def test_deltas_that_no_float_holds() -> None:
    found = exactly(gaussian(1, EVERY, 4), tr.REMOVE).log_delta(60.0)
    assert found.upper < -390
    assert intersect(found, tr.privacy_curve(gaussian(1, EVERY, 4), relation=tr.REMOVE).log_delta(60.0))


def test_the_envelope_and_poisson_under_substitute() -> None:
    for run, relation in (
        (gaussian(4, batch(1, 20), 50), tr.SUBSTITUTE),
        (gaussian(2, poisson(0.1), 20), tr.SUBSTITUTE),
    ):
        found = tr.epsilon(run, delta=1e-5, relation=relation, by=tr.Exact(width=0.01))
        assert intersect(found, tr.epsilon(run, delta=1e-5, relation=relation))
        assert found.decided_by is not None
        assert found.decided_by.because


def test_many_full_batches_are_joined_to_one() -> None:
    found = tr.epsilon(gaussian(10, EVERY, 10**6), delta=1e-6, relation=tr.REMOVE, by=tr.Exact())
    assert intersect(found, tr.epsilon(gaussian(10, EVERY, 10**6), delta=1e-6, relation=tr.REMOVE))
    assert found.width <= 1e-3


# -- the checker itself --------------------------------------------------------------------------------------


def remove(noise: float, rate: float) -> ShiftPair:
    pair = step_laws(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate), tr.REMOVE).remove()
    assert isinstance(pair, ShiftPair)
    return pair


def test_a_divergence_holds_the_truth_wherever_the_cut_is() -> None:
    pair = remove(1, 0.25)
    with ctx.workprec(200):
        t = arb(1.5)
        (best,) = checker.cut(pair, outputs(pair, [t.log()]))
        truth = best.divergence(t)
        assert truth.rad() < 1e-50
        for x in (-3.0, 0.0, 0.9, 1.1, 4.0):
            (elsewhere,) = checker.cut(pair, [arb(x)])
            assert elsewhere.divergence(t).contains(truth)


def test_rounding_and_windows_err_to_their_sides() -> None:
    rng = random.Random(3)
    bits = 12
    for _ in range(50):
        p, q = ([rng.randrange(1 << bits) for _ in range(6)] for _ in range(2))
        one = Law(ABOVE, -2, Fraction(0), fmpz_poly(p), fmpz_poly(p), 5)
        two = compose(one, one, bits, Fraction(-1), Fraction(4))
        exact = {j: Fraction(0) for j in range(-4, 8)}
        for a in range(6):
            for b in range(6):
                exact[a + b - 4] += Fraction(p[a] * p[b], 1 << bits)
        kept = {two.start + i: int(c) for i, c in enumerate(two.p.coeffs())}
        assert min(kept) >= -1
        assert max(kept) <= 4
        for j in range(-4, 8):  # at least as much at or above every loss: it dominates
            above = sum(c for i, c in kept.items() if i >= j) + two.infinite
            if j <= 4:
                assert above >= sum(c for i, c in exact.items() if i >= j)
        labels = Law(BELOW, 0, Fraction(1, 3), fmpz_poly(p), fmpz_poly(q), 7)
        low = compose(labels, labels, bits, Fraction(2), Fraction(6))
        for i, c in enumerate(low.p.coeffs()):
            assert int(c) <= sum(
                Fraction(p[a] * p[low.start + i - a], 1 << bits)
                for a in range(6)
                if 0 <= low.start + i - a < 6
            )
        for i, c in enumerate(low.q.coeffs()):
            assert int(c) >= sum(
                Fraction(q[a] * q[low.start + i - a], 1 << bits)
                for a in range(6)
                if 0 <= low.start + i - a < 6
            )
        assert low.infinite <= 14


def test_cuts_in_any_order_split_the_outputs_into_disjoint_sets() -> None:
    pair = remove(1, 0.25)
    with ctx.workprec(200):
        cuts = checker.cut(pair, map(arb, (0.5, -1.0, 2.0, 0.5)))
        found = list(checker.split(cuts, 7))
        assert [label for label, _, _ in found] == [7, 8, 9, 10, 11]
        for mass in (p for _, *masses in found for p in masses):
            assert not mass < 0
        lowest, _, middle, _, _ = found
        truth = [checker.cut(pair, [arb(x)])[0] for x in (-1.0, 0.5)]
        assert (1 - truth[0].p).overlaps(lowest[1])
        assert middle[1].contains(0)  # between the two cuts at 0.5
        assert (truth[0].q - truth[1].q).overlaps(found[1][2])


def test_shifts_round_down_whatever_the_sign() -> None:
    for value in (-9, -8, -1, 0, 1, 7, 8, 9, -(1 << 90) - 1, (1 << 90) - 1):
        assert fmpz(value) >> 3 == value >> 3 == math.floor(Fraction(value, 8))


def test_a_product_loses_no_unit_to_rounding() -> None:
    least = Law(ABOVE, 0, Fraction(0), fmpz_poly([1, 1]), fmpz_poly([1, 1]), 0)  # 2^-12 each
    for window, kept in (((0, 2), [1, 1, 1]), ((1, 2), [2, 1]), ((3, 3), [1])):
        found = compose(least, least, 12, *map(Fraction, window))
        assert found.p == fmpz_poly(kept)
    assert compose(least, least, 12, Fraction(0), Fraction(0)).infinite == 1


def test_joined_normals_are_rounded_to_their_sides() -> None:
    schedule = Schedule([(ShiftPair.of_normals(Fraction(1, 3)), 2), (remove(1, 0.5), 1)])
    for side, sign in ((ABOVE, 1), (BELOW, -1)):
        (pair,) = [p for p, _ in join_normals(schedule, side) if p.gaussian_separation is not None]
        assert isinstance(pair, ShiftPair)
        assert pair.exact_separation is not None
        assert sign * (pair.exact_separation**2 - Fraction(2, 9)) > 0


def test_units_are_rounded_outwards() -> None:
    lattice = Lattice(Fraction(1, 8), 4)
    with ctx.workprec(100):
        for value in (arb(1) / 3, -arb(1) / 3, arb(0), arb(1) / 16, arb(0.5, 0.01)):
            assert arb(lattice.round_down(value)) / 16 <= value <= arb(lattice.round_up(value)) / 16


def test_the_checker_is_one_short_file_without_floats() -> None:
    source = Path(checker.__file__).read_text()
    assert len(source.splitlines()) <= 250
    for node in ast.walk(ast.parse(source)):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not (isinstance(node, ast.Name) and node.id in ("float", "np"))
        assert not (
            isinstance(node, ast.Attribute)
            and node.attr in ("log2", "sqrt")
            and ast.unparse(node) == "math.sqrt"
        )


def plan_of(run: tr.Run, delta: float, cells: int | None = None, width: float = 0.01) -> ExactPlan:
    curve = exactly(run, tr.REMOVE)
    (composition,) = (c for cover in curve.branches[0].covers for c in cover.curves)
    place = find_target(composition.schedule, Whereabouts(log_delta=math.log(delta)))
    return make_plan(composition.schedule, place, width, Settings(cells))


def test_a_tiny_largest_loss_does_not_set_the_spacing() -> None:
    run = laplace(13, poisson(2.7e-12), 1800) + laplace(6, EVERY, 40)
    assert plan_of(run, 0.01).lattice.spacing > 1e-4


def test_windows_hold_what_the_smallest_deltas_need() -> None:
    plan = plan_of(gaussian(1, poisson(0.01), 1000), 1e-300)
    _, top = plan.range_of(0)
    with ctx.workprec(200):
        (beyond,) = checker.cut(remove(1, 0.01), outputs(remove(1, 0.01), [plan.lattice.loss(top)]))
        assert 1000 * beyond.p < 1e-300


def test_outputs_far_below_their_label_do_not_inflate_coefficients() -> None:
    run = gaussian(
        0.01, poisson(0.5), 10
    )  # at epsilon 51,000, where losses around 0 lie 2,000 below a window
    found = tr.epsilon(run, delta=1e-6, relation=tr.REMOVE, by=tr.Exact(cells=1000))
    assert intersect(found, tr.epsilon(run, delta=1e-6, relation=tr.REMOVE))
    plan = plan_of(run, 1e-6, 1000)
    law = _one_step(plan, 0, BELOW, {})
    assert law.q.height_bits() <= plan.lattice.bits + GUARD + 1


def test_what_would_take_gigabytes_is_refused() -> None:
    run = gaussian(1, poisson(0.1), 10)
    with pytest.raises(tr.NotPreciseEnough, match=r"16,777,216 cells with 65,536 bits .* memory"):
        tr.epsilon(run, delta=1e-5, relation=tr.REMOVE, by=tr.Exact(cells=1 << 24, bits=1 << 16))


def test_the_lattice_is_no_finer_than_takes_seconds() -> None:
    for run, delta in ((gaussian(1, poisson(0.5), 10**6), 1e-6), (gaussian(1, poisson(0.1), 1000), 1e-300)):
        plan = plan_of(run, delta, width=1e-5)
        low, high = plan.window(plan.outline.counts)
        assert plan.is_finest
        assert (high - low) * plan.lattice.bits * count_products(plan.schedule) < 2 * MOST_WORK


# -- manners -------------------------------------------------------------------------------------------------


def test_progress_counts_the_products_of_each_part() -> None:
    seen: list[tuple[int, int]] = []
    run = gaussian(1, poisson(0.1), 12)
    tr.epsilon(
        run, delta=1e-5, relation=tr.REMOVE, by=tr.Exact(width=0.05), progress=lambda *at: seen.append(at)
    )
    assert (1, 4) in seen
    assert (4, 4) in seen
    assert all(1 <= done <= of for done, of in seen)


def test_an_interrupt_leaves_nothing_behind() -> None:
    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    before = ctx.prec
    curve = tr.privacy_curve(gaussian(1, poisson(0.1), 12), relation=tr.REMOVE, by=tr.Exact(), progress=stop)
    with pytest.raises(KeyboardInterrupt):
        curve.epsilon(1e-5)
    assert ctx.prec == before
    assert all(not bounds for composition in curve._sides for bounds in composition._bounds.values())


def test_what_has_no_finite_lattice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tr.NotPreciseEnough, match="Certified"):
        tr.privacy_curve(gaussian(1, poisson(0.1), MOST_STEPS + 1), relation=tr.REMOVE, by=tr.Exact())
    import tightrope.accountants.exact as home
    from tightrope.theorems.lookup import analyse

    monkeypatch.setattr(home, "analyse", lambda run, relation, effort: analyse(run, relation, tr.TIGHT))
    with pytest.raises(tr.NotPreciseEnough, match="no finite lattice"):
        tr.privacy_curve(gaussian(1, batch(1, 10), 3), relation=tr.SUBSTITUTE, by=tr.Exact())
    assert Game is not None


@pytest.mark.parametrize(
    "wrong",
    [{"width": 0}, {"width": 2}, {"width": "x"}, {"cells": 3}, {"cells": 1.5}, {"bits": 10**9}],
    ids=str,
)
def test_bad_settings_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(tr.InvalidSetting, match=next(iter(wrong))):
        tr.Exact(**wrong)  # type: ignore[arg-type]


def test_an_accountant_is_a_value_that_does_not_load_flint() -> None:
    code = "import tightrope as tr, sys; tr.Certified(), tr.Exact(); assert 'flint' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_delta_that_is_too_small_to_tell_is_bounded_once() -> None:
    seen: list[int] = []
    run = gaussian(1, poisson(0.1), 2)
    curve = tr.privacy_curve(
        run, relation=tr.REMOVE, by=tr.Exact(width=0.1), progress=lambda *at: seen.append(at[0])
    )
    found = curve.log_delta(1e300)
    assert found.lower == -math.inf
    assert found.upper < -1400
    assert found.gap is not None
    assert "not told closely" in str(found.gap)
    asked = len(seen)
    assert curve.delta(1e4) == tr.Bracket(0.0, math.ulp(0.0))
    assert len(seen) == asked


def test_a_composition_without_bounds_says_nothing_wrong() -> None:
    blank = ExactComposition(Schedule([(remove(1, 0.5), 2)]))
    assert blank.above(Fraction(1)) == 1
    assert blank.below(Fraction(1)) == 0
