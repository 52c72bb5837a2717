"""A pass that was only started, of noise too small for the lattices of passes: what bounds it, and why."""

import math
from fractions import Fraction

import pytest

import tightrope as tr
from tightrope.engines.choose import compose, compose_side
from tightrope.engines.face import ABOVE, BELOW, ComposedCurve, Side
from tightrope.engines.passes.pass_pair import bound_pass
from tightrope.engines.passes.several_curve import settle_begun
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.mechanism import Mechanism
from tightrope.theorems.lookup import analyse

SMALL: dict[str, Mechanism] = {
    "gaussian": tr.Gaussian(noise_multiplier=0.15),
    "laplace": tr.Laplace(noise_multiplier=0.03),
    "finite": tr.Finite(observed=[0.5, 0.5, 0.0], alternative=[0.0, 0.5, 0.5]),
}
BATCHES, DELTA, ACCURACY = 10, 1e-5, 1e-3
OTHER = tr.Step(tr.Gaussian(noise_multiplier=2), tr.WithoutReplacement(batch=5, population=100))


def passes(steps: int, mechanism: Mechanism = SMALL["gaussian"]) -> tr.Run:
    return tr.Step(mechanism, tr.BallsInBins(batches=BATCHES)) * steps


def upper_end(run: tr.Run, relation: tr.Relation) -> float:
    """The upper end of epsilon alone: lower ends of so little noise take long, and say nothing here."""
    (analysis,) = analyse(run, relation, tr.QUICK)

    def cross(schedule: Schedule | Game) -> float:
        return compose_side(schedule, ABOVE, ACCURACY).epsilon_bounds(DELTA, ACCURACY)[1]

    return min(max(map(cross, cover.schedules)) for cover in analysis.covers)


def test_that_is_the_upper_end_of_the_answer() -> None:
    run = passes(3)
    assert upper_end(run, tr.REMOVE) == tr.epsilon(run, delta=DELTA, relation=tr.REMOVE).upper


def reasons(run: tr.Run, relation: tr.Relation) -> set[str]:
    return {theorem.name for theorem in tr.privacy_curve(run, relation=relation).because}


@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.SUBSTITUTE], ids=repr)
@pytest.mark.parametrize("started", [1, 3, 9])
def test_a_started_pass_costs_at_most_one_poisson_sample_at_the_rate_of_what_was_released(
    started: int, relation: tr.Relation
) -> None:
    sample = tr.Step(SMALL["gaussian"], tr.Poisson(rate=started / BATCHES))
    above = tr.epsilon(sample * 1, delta=DELTA, relation=relation)
    found = upper_end(passes(started), relation)
    assert found <= above.upper * (1 + 1e-9)
    if started == 1:  # of one batch nothing else is hidden
        assert found >= above.lower


@pytest.mark.parametrize("kind", ["laplace", "finite"])
@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE], ids=repr)
def test_so_it_is_with_any_noise(kind: str, relation: tr.Relation) -> None:
    sample = tr.Step(SMALL[kind], tr.Poisson(rate=3 / BATCHES))
    above = tr.delta(sample * 1, epsilon=0.02, relation=relation)
    found = tr.delta(passes(3, SMALL[kind]), epsilon=0.02, relation=relation)
    assert found.upper <= above.upper * (1 + 1e-9)


@pytest.mark.parametrize("relation", [tr.REMOVE, tr.SUBSTITUTE], ids=repr)
def test_what_is_told_is_named_among_the_reasons(relation: tr.Relation) -> None:
    whole, started = "revealed_batches", "started_pass"
    assert reasons(passes(BATCHES), relation) & {whole, started} == {whole}
    assert reasons(passes(3), relation) & {whole, started} == {started}
    assert reasons(passes(BATCHES + 3), relation) >= {whole, started}


@pytest.mark.parametrize("effort", [tr.QUICK, tr.TIGHT], ids=str)
def test_beside_batches_of_fixed_size_what_is_told_is_named_too(effort: tr.Effort) -> None:
    (analysis,) = analyse(passes(BATCHES + 3) + OTHER, tr.SUBSTITUTE, effort)
    for cover in analysis.covers:
        assert {"revealed_batches", "started_pass"} <= {theorem.name for theorem in cover.because}


def test_a_whole_pass_beside_a_batch_of_fixed_size_counts_once() -> None:
    alone, beside = (upper_end(run, tr.SUBSTITUTE) for run in (passes(BATCHES), passes(BATCHES) + OTHER))
    assert alone <= beside < 1.05 * alone


def test_of_several_batches_no_more_are_told_than_were_released() -> None:
    step = tr.Step(SMALL["gaussian"], tr.RandomAllocation(batches=10, chosen=4))
    full = tr.Step(SMALL["gaussian"], tr.EveryRecord())
    found = tr.epsilon(step * 2, delta=DELTA, relation=tr.REMOVE)
    assert found.upper <= tr.epsilon(full * 2, delta=DELTA, relation=tr.REMOVE).upper


WHOLE = Allocation(ShiftPair.of_normals(Fraction(1, 2)), 100, 100, is_exchanged=True)
BEGUN = Allocation(ShiftPair.of_normals(Fraction(1, 2)), 100, 30, is_exchanged=True)


@pytest.mark.parametrize("side", [ABOVE, BELOW])
def test_beside_whole_passes_a_begun_one_is_a_finite_pair(side: Side) -> None:
    settled = dict(settle_begun(Schedule([(WHOLE, 3), (BEGUN, 1)]), side))
    assert settled == {WHOLE: 3, bound_pass(BEGUN, side): 1}


def test_where_no_pass_is_whole_none_is_settled() -> None:
    added = Allocation(ShiftPair.of_normals(Fraction(1)), 40, 40)
    for alone in (Schedule([(BEGUN, 1)]), Schedule([(BEGUN, 1), (added, 2)])):
        assert settle_begun(alone, ABOVE) == alone


def test_whole_passes_and_a_begun_one_agree_with_finite_pairs_of_both_and_are_closer() -> None:
    schedule = Schedule([(WHOLE, 20), (BEGUN, 1)])
    upper, others_upper = (
        make(schedule, ABOVE).epsilon_bounds(1e-6, 1e-3)[1] for make in (told_by_default, compose)
    )
    lower, others_lower = (
        make(schedule, BELOW).epsilon_bounds(1e-6, 1e-3)[0] for make in (told_by_default, compose)
    )
    assert lower <= others_upper
    assert others_lower <= upper
    assert upper - lower < (others_upper - others_lower) / 10


def told_by_default(schedule: Schedule, side: Side) -> ComposedCurve:
    return compose_side(schedule, side, 1e-3)


@pytest.mark.parametrize("side", [ABOVE, BELOW])
def test_a_begun_pass_that_is_a_finite_pair_still_loses_nothing_for_certain(side: Side) -> None:
    """What its pair counts as lost is room for rare losses, and none of the run."""
    curve = told_by_default(Schedule([(WHOLE, 20), (BEGUN, 1)]), side)
    assert curve.log_infinite_mass == (-math.inf, -math.inf)
