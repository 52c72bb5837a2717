"""Corners that an engine once lost: very low rates, huge noise, deltas far below the smallest float."""

import importlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flint import arb, ctx

import tightrope as tr
from tightrope.curve.bracket import Gap
from tightrope.engines.choose import TABLE
from tightrope.engines.closed_forms import OneStep, normal_tail
from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import NO_HINT, Engine, EngineDeclines, EngineRow, Hint, LogBounds
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.near_ceiling import NearCeiling
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.theorems.lookup import analyse


def test_moments_that_explode_beside_the_minimum_do_not_mislead_the_tilt() -> None:
    run = (
        tr.Step(tr.Gaussian(noise_multiplier=1.3788385557875056), tr.Poisson(rate=2.4345535475592693e-06))
        * 648666
    )
    found = tr.delta(run, epsilon=0, relation=tr.REMOVE, by=tr.Certified(accuracy=1e-5))
    assert found.relative_width <= 1e-5
    # at epsilon 0 both directions have the same delta, the total variation
    other = tr.delta(run, epsilon=0, relation=tr.ADD, by=tr.Certified(accuracy=1e-3))
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
    assert tr.epsilon(
        run, delta=7e-4, relation=tr.ADD_OR_REMOVE, by=tr.Certified(accuracy=1e-5)
    ) == tr.Bracket(0, 0)


def test_many_steps_that_hardly_ever_draw_anybody_are_composed_on_a_lattice() -> None:
    # the record is drawn about 1.35 times in 135,176 steps; the run that has lost nothing is e^{-1.35} of all
    run = (
        tr.Step(tr.Gaussian(noise_multiplier=0.3497), tr.WithoutReplacement(batch=1, population=100_000))
        * 135_176
    )
    found = tr.delta(run, epsilon=10, relation=tr.REMOVE)
    assert found.relative_width <= 1e-3
    assert 0.2 < found.upper < 1 - math.exp(-1.35176)


@pytest.mark.parametrize("noise", [450.0, 4.5e4, 4.5e7])
def test_huge_noise_is_almost_a_full_batch_of_less(noise: float) -> None:
    # many tiny losses add up to a normal one with the variance of full batches at noise / rate
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=0.1)) * 10_000
    limit = tr.Step(tr.Gaussian(noise_multiplier=10 * noise), tr.EveryRecord()) * 10_000
    for scale in (0.0, 1.0, 4.0):
        epsilon = scale * 100 / (10 * noise)
        found, near = (
            tr.privacy_curve(r, relation=tr.REMOVE, by=tr.Certified(accuracy=1e-6)).delta(epsilon)
            for r in (run, limit)
        )
        assert found.upper == pytest.approx(near.upper, rel=30 / noise)


def test_the_contour_reaches_low_rates_at_large_noise() -> None:
    # off the real axis the left tail weighs e^{t a y}: nodes that end too early on that side certify nothing
    run = tr.Step(tr.Gaussian(noise_multiplier=157), tr.Poisson(rate=6.6e-6)) * 736
    (analysis,) = analyse(run, tr.REMOVE, tr.TIGHT)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    line = ContourEngine(schedule, most_evaluations=1_000_000).near(2.5e-6, 1e-8)
    assert line.bounds(2.5e-6).width < 1e-6


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 5.0])
def test_jumps_rarer_than_floats_are_counted_in_their_own_units(epsilon: float) -> None:
    # delta is e^-526 to e^-2283: as plain numbers the tilted jumps underflow, and what is left is wrong
    step = tr.Step(tr.Gaussian(noise_multiplier=5.8583540169650785), tr.Poisson(rate=0.0014884157019607806))
    (analysis,) = analyse(step * 1, tr.REMOVE, tr.TIGHT)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    ((pair, _),) = schedule
    assert isinstance(pair, ShiftPair)
    exact, found = (
        OneStep(pair).bounds(epsilon),
        BigJumpEngine(schedule, longest=1 << 17).near(epsilon, 1e-3).bounds(epsilon),
    )
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    twice = BigJumpEngine(Schedule([(pair, 2)]), longest=1 << 17).near(epsilon, 1e-3).bounds(epsilon)
    # one of two steps jumps and the other is calm, or better: close to twice one step's delta
    assert exact.lower + math.log(2) - 0.01 <= twice.upper
    assert twice.lower <= exact.upper + math.log(2) + 0.2


@pytest.mark.parametrize("x", [1.1e3, 1e5, 1e7, 1e9])
def test_a_normal_tail_is_known_as_closely_as_where_it_starts(x: float) -> None:
    with ctx.workprec(256):
        start = arb(x) * arb(2).sqrt()  # not exact
        found, density = normal_tail(start), (-start * start / 2).exp() / (2 * arb.pi()).sqrt()
        assert found.rel_accuracy_bits() > 150
        assert density * start / (1 + start * start) < found < density / start  # Mills' ratio


def test_nobody_is_asked_after_a_closed_form() -> None:
    """ln delta is -1.8e18 here, and moves by a thousand with the last bit of the noise."""

    def refuse(schedule: Schedule) -> Engine:
        raise AssertionError("was asked")

    step = tr.Step(tr.Gaussian(noise_multiplier=1e9), tr.Poisson(rate=1.3e-13))
    (analysis,) = analyse(step * 1, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    table = [row for row in TABLE if row.has_the_last_word]
    table.append(EngineRow(make=refuse, applies=lambda schedule: True))
    with pytest.raises(tr.NotPreciseEnough, match="only to"):
        Composition(schedule, table).log_bounds(5.6e-12, 1e-3)


def test_where_nearly_every_run_loses_something_infinite_no_engine_is_needed() -> None:
    step = tr.Step(tr.Finite(observed=[0.5, 0.5, 0], alternative=[0.5, 0.25, 0.25]), tr.EveryRecord())
    found = tr.delta(step * 10**7, epsilon=3.5e6, relation=tr.REMOVE)
    assert 1 - 1e-14 < found.lower <= found.upper == 1


class Vague:
    """An engine that knows nothing from below."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "Vague":
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        return LogBounds(-math.inf, -epsilon)


def test_a_much_coarser_accuracy_is_advised_only_where_it_was_not_asked_for() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1)) * 100
    (analysis,) = analyse(run, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    vague = EngineRow(make=lambda _: Vague(), applies=lambda _: True)
    for accuracy, advice in ((1e-3, "Ask for a much coarser accuracy, such as 0.1"), (0.1, "No accuracy is")):
        with pytest.raises(tr.NotPreciseEnough, match=advice):
            Composition(schedule, [vague]).epsilon_bounds(1e-6, accuracy)


def test_no_lattice_is_asked_where_all_outcomes_are_counted() -> None:
    """Next to the largest loss every float loses its digits: a lattice took seconds to say nothing."""
    step = tr.Step(tr.Finite(observed=[0.125, 0.875], alternative=[0.5, 0.5]), tr.EveryRecord())
    (analysis,) = analyse(step * 3, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    asked = [type(row.make(schedule)) for row in TABLE if row.applies(schedule)]
    assert LatticeEngine not in asked
    assert BigJumpEngine not in asked
    noisy = analyse(tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0.1)) * 3, tr.REMOVE, tr.QUICK)
    many = noisy[0].covers[0].schedules[0]
    assert isinstance(many, Schedule)
    assert {LatticeEngine, BigJumpEngine} <= {type(row.make(many)) for row in TABLE if row.applies(many)}


def test_a_refusal_is_not_worked_out_twice() -> None:
    """Covers, witnesses and both ends ask the same curve, and refusing takes longest."""
    asked = []

    def decline(schedule: Schedule) -> Engine:
        asked.append(schedule)
        raise tr.NotPreciseEnough("too hard")

    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1))
    (analysis,) = analyse(step * 2, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    composed = Composition(schedule, [EngineRow(make=decline, applies=lambda schedule: True)])
    for _ in range(2):
        with pytest.raises(tr.NotPreciseEnough):
            composed.log_bounds(1.0, 1e-3)
    assert len(asked) == 1


class KnowsNothing:
    """Bounds that hold for every curve."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "KnowsNothing":
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        return LogBounds(-math.inf, 0.0)


class Declines:
    """An engine for none."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> KnowsNothing:
        raise EngineDeclines("too hard")


def test_what_no_engine_reaches_is_refused_in_the_words_of_the_question() -> None:
    """A search for epsilon at delta 0.01 said that delta at epsilon 1 was out of reach: its first guess."""
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1))
    (analysis,) = analyse(step * 1000, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    composed = Composition(schedule, [EngineRow(make=lambda _: Declines(), applies=lambda _: True)])
    reach = "is out of reach of every engine. Ask for another"
    for _ in range(2):  # the second time it is kept
        with pytest.raises(tr.NotPreciseEnough) as refused:
            composed.epsilon_bounds(0.01, 1e-3)
        assert f"{refused.value}" == f"epsilon at delta=0.01 {reach} delta, or for fewer steps."
        with pytest.raises(tr.NotPreciseEnough) as refused:
            composed.log_bounds(2.5, 1e-3)
        assert f"{refused.value}" == f"delta at epsilon=2.5 {reach} epsilon, or for fewer steps."


def test_where_no_accuracy_is_coarse_enough_the_refusal_says_so() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1))
    (analysis,) = analyse(step * 1000, tr.REMOVE, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    composed = Composition(schedule, [EngineRow(make=lambda _: KnowsNothing(), applies=lambda _: True)])
    with pytest.raises(tr.NotPreciseEnough, match=r"No accuracy is coarse enough here\. Ask for delta"):
        composed.epsilon_bounds(1e-6, 0.1)


def test_the_benchmark_of_reach_prints_why_a_bracket_is_wide_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    reach = importlib.import_module("reach")
    wide = tr.Bracket(1.0, 2.0, gap=Gap(0.5, 1e-3, "{accuracy} is the width in {delta}"))
    monkeypatch.setattr(tr, "epsilon", lambda *_, **__: wide)
    question = reach.Question("Gaussian", 1.0, 0.01, 100, "ADD", "delta", 1e-6)
    assert reach.ask(question).why_wide == "accuracy is the width in delta"


class Refuses:
    """A curve that no engine can tell."""

    log_infinite_mass = (-math.inf, -math.inf)

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        raise tr.NotPreciseEnough("nothing is known")

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        raise tr.NotPreciseEnough("nothing is known")


def refuse_in_one_direction(leak: float) -> tr.PrivacyCurve:
    """ADD_OR_REMOVE of a step whose last output, of probability `leak`, tells that the record was there."""
    leaks = tr.Finite(observed=[1, 0], alternative=[1 - leak, leak])
    curve = tr.privacy_curve(tr.Step(leaks, tr.EveryRecord()) * 3, relation=tr.ADD_OR_REMOVE)
    hidden, told = sorted(curve.branches, key=lambda branch: branch.witnesses[0].curves[0].log_infinite_mass)
    covers = tuple(replace(cover, curves=(Refuses(),)) for cover in hidden.covers)
    witnesses = tuple(replace(witness, curves=(Refuses(),)) for witness in hidden.witnesses)
    return replace(curve, branches=(replace(hidden, covers=covers, witnesses=witnesses), told))


def test_a_direction_that_cannot_be_told_does_not_hide_that_the_other_loses_everything() -> None:
    curve = refuse_in_one_direction(0.01)
    found = curve.epsilon(1e-3)
    assert found == tr.Bracket(math.inf, math.inf)
    assert found.decided_by is not None
    assert found.decided_by.branch == curve.branches[1].name
    with pytest.raises(tr.NotPreciseEnough):  # above the infinite mass the first direction may count
        curve.epsilon(0.1)
    with pytest.raises(tr.NotPreciseEnough):
        curve.delta(1.0)


def test_where_no_output_is_shared_delta_is_one_whatever_the_other_direction_says() -> None:
    assert refuse_in_one_direction(1.0).delta(1.0) == tr.Bracket(1, 1)


# -- a largest loss that no output reaches -------------------------------------------------------------------


def adding(noise: float, rate: float, steps: int) -> Schedule:
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    (analysis,) = analyse(run, tr.ADD, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    return schedule


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [(0.1, 1e-3, 10**6), (0.1, 1e-2, 10**7), (0.08, 1e-4, 10**7), (0.12, 1e-3, 10**6)],
)
def test_adding_a_record_under_little_noise_loses_almost_the_most_it_can(
    noise: float, rate: float, steps: int, delta: float
) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    found = tr.epsilon(run, delta=delta, relation=tr.ADD)
    most = -steps * math.log1p(-rate)
    assert found.lower < found.upper <= most + math.log1p(-delta) + 1e-12 * most
    assert found.relative_width <= 1e-4
    assert found.lower > (1 - 1e-3) * most


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12])
@pytest.mark.parametrize(("noise", "rate"), [(0.1, 1e-3), (0.25, 0.2), (1.0, 0.9), (1e-3, 1e-9)])
def test_bounds_near_a_largest_loss_hold_the_closed_form_of_one_step(
    noise: float, rate: float, share: float
) -> None:
    schedule = adding(noise, rate, 1)
    epsilon = share * schedule.loss_ceiling[0]
    truth, found = OneStep.of(schedule).bounds(epsilon), NearCeiling(schedule).bounds(epsilon)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper


@pytest.mark.parametrize("gap", [0.3, 0.5, 2.0, 10.0])
def test_bounds_near_a_largest_loss_agree_with_a_contour(gap: float) -> None:
    schedule = Schedule([*adding(0.25, 0.02, 400), *adding(0.3, 0.05, 200)])
    epsilon = schedule.loss_ceiling[0] - gap
    near = NearCeiling(schedule).bounds(epsilon)
    contour = ContourEngine(schedule, 500_000_000).near(epsilon, 1e-6).bounds(epsilon)
    assert contour.width < 1e-3
    assert near.lower <= contour.upper
    assert contour.lower <= near.upper
    # the event certifies a fair share of it
    assert near.lower > contour.lower - 12


def test_an_epsilon_far_from_the_largest_loss_is_left_to_the_contour() -> None:
    schedule = adding(1.0, 0.01, 1000)
    with pytest.raises(EngineDeclines):
        NearCeiling(schedule).near(0.5, 1e-3)


def test_an_epsilon_of_zero_is_not_approached_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds were placed at ever smaller epsilons before delta(0) was looked at."""
    asked: list[float] = []
    localise = Composition._localise

    def counted(curve: Composition, epsilon: float, *how: Any) -> Any:
        asked.append(epsilon)
        return localise(curve, epsilon, *how)

    monkeypatch.setattr(Composition, "_localise", counted)
    step = tr.Step(tr.Gaussian(noise_multiplier=0.525), tr.WithoutReplacement(batch=9470, population=10**9))
    assert tr.epsilon(step * 1120, relation=tr.REMOVE, delta=0.00598).upper == 0
    assert asked[-1] == 0
    assert min(filter(None, asked)) > 1e-3
