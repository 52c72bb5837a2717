"""Runs with a jump on a contour of their own: transforms in balls, bounds against other engines."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx

import tightrope as tr
from moments_in_balls import BITS, moment
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.contour.jumps import FewCalmRuns, JumpContourEngine
from tightrope.engines.face import EngineDeclines, LogBounds
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.planning import Plan, estimate_epsilon
from tightrope.engines.saddle import GeometricTail, Placement, epsilon_estimate
from tightrope.engines.split import SplitRuns
from tightrope.engines.transforms.capped import CappedEnvelope, CappedNormal, capped_transform
from tightrope.engines.transforms.jumps import JumpNormal
from tightrope.numerics.floats import UNIT_ROUNDOFF, short
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

HALF = Fraction(1, 2)
LEAKS = FinitePair(FiniteSupport((HALF, HALF)), FiniteSupport((Fraction(1), Fraction(0))))


def pair_of(kind: str, rate: float, shift: float) -> ShiftPair:
    mixture = Mixture(Noise.NORMAL, Fraction(rate), Fraction(shift))
    return ShiftPair(mixture, mixture.mirrored if kind == "both" else Mixture(Noise.NORMAL))


def draw(kind: str, index: int) -> tuple[JumpNormal, float]:
    """The jumps of a pair, and a tilt at which those near the cap matter, or not."""
    rng = np.random.default_rng([len(kind), index])
    pair = pair_of(kind, float(10 ** rng.uniform(-6, -1)), float(10 ** rng.uniform(-1.5, 0.5)))
    threshold = pair.observed.shift + float(rng.integers(8, 40)) / 8
    cap = threshold + float(rng.integers(4, 40)) / 8
    return JumpNormal(pair, threshold, cap), float(10 ** rng.uniform(-1, 1)) / float(pair.loss(np.array(cap)))


@pytest.mark.parametrize("kind", ["remove", "both"])
def test_the_transform_of_jumps_is_off_by_no_more_than_it_says(kind: str) -> None:
    checked = 0
    for index in range(2):
        wild, c = draw(kind, index)
        deviation = math.sqrt(wild.cumulants(c)[2])
        for share in (0.1, 3.0, 100.0):
            height = short(share / deviation)
            line = wild.line(c, height, 1, 1e-14, 10**8)
            with ctx.workprec(BITS):
                whole, turned = (
                    moment(wild.pair, c, t, wild.cap) - moment(wild.pair, c, t, wild.threshold)
                    for t in (0.0, height)
                )
                real = whole.real
                if not real.rad() + turned.real.rad() + turned.imag.rad() < arb(2) ** -60 * real:
                    continue  # the reference gave up
                checked += 1
                assert abs(real.log() - line.nodes.log_moment) <= line.nodes.moment_rel_error
                assert arb(wild.log_moment_above(c)) >= real.log()
                assert abs(turned) <= wild.modulus_from(c, height) * real * (1 + arb(2) ** -50)
                value = acb(float(line.log_modulus[1]), float(line.angle[1])).exp()
                charge = line.nodes.missing_rel_error + float(line.abs_errors[1])
                charge += line.nodes.log_moment_abs_error + 64 * UNIT_ROUNDOFF
                assert abs(value - turned / arb(line.nodes.log_moment).exp()) <= charge
    assert checked >= 3


def test_jumps_decay_as_fast_as_their_ends_are_high() -> None:
    """The bound falls as 1 / t, and no height beyond exceeds it."""
    wild, c = draw("remove", 1)
    deviation = math.sqrt(wild.cumulants(c)[2])
    nodes = wild.nodes(c, 300 / deviation, 1e-12)
    heights = np.geomspace(1, 300, 400) / deviation
    moduli = np.abs(np.exp(1j * np.multiply.outer(heights, nodes.losses)) @ nodes.weights)
    for t in (10.0, 30.0, 100.0):
        bound = wild.modulus_from(c, t / deviation)
        assert moduli[heights >= t / deviation].max() <= bound < 20 / t


@pytest.mark.parametrize("threshold", [1.5, 2.5, 4.0])
def test_a_known_mass_beyond_a_cap_is_no_error_of_a_moment(threshold: float) -> None:
    """However low the cap: next to moment 1 the masses that are cut off are subtracted, not charged."""
    pair = pair_of("remove", 1e-4, 1.0)
    calm = capped_transform(pair, threshold)
    assert isinstance(calm, CappedNormal)
    nodes = calm.nodes(0.1)
    assert math.exp(calm.log_mass_beyond) > 1e-5
    assert nodes.moment_rel_error < 1e-13
    with ctx.workprec(BITS):
        truth = moment(pair, 0.1, 0.0, threshold).real.log()
        assert abs(truth - nodes.log_moment) <= nodes.moment_rel_error


def test_of_an_envelope_only_mirrored_losses_beyond_a_cap_are_an_error() -> None:
    pair = pair_of("remove", 0.01, 1.0)
    envelope = capped_transform(Envelope(pair), 4.0)
    assert isinstance(envelope, CappedEnvelope)
    nodes = envelope.nodes(0.1)
    mirrored = math.erfc((envelope.middle + envelope.reach) / math.sqrt(2)) / 2
    assert math.exp(envelope.log_mass_beyond) > 1.4 * mirrored
    assert nodes.moment_rel_error < 2.01 * mirrored
    with ctx.workprec(BITS):
        truth = moment(Envelope(pair), 0.1, 0.0, envelope.reach).real.log()
        assert abs(truth - nodes.log_moment) <= nodes.moment_rel_error


def schedule_of(noise: float, rate: float, steps: int, relation: tr.Relation) -> Schedule:
    from tightrope.theorems.lookup import analyse

    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate))
    (analysis,) = analyse(step * steps, relation, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    return schedule


def envelope_of(noise: float, rate: float, steps: int) -> Schedule:
    return Schedule([(Envelope(pair_of("remove", rate, 2 / noise)), steps)])


def tell_apart(schedule: Schedule, epsilon: float, loss: float, log_beyond: float) -> SplitRuns:
    calm, jumps = JumpContourEngine(schedule)._tell_apart(loss, log_beyond)
    return SplitRuns((jumps.near(epsilon, -40.0, 10**8), calm.near(epsilon, 1e-6)))


def overlap(*found: LogBounds) -> bool:
    return max(bounds.lower for bounds in found) <= min(bounds.upper for bounds in found)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_both_kinds_of_runs_add_up_wherever_they_are_told_apart(share: float) -> None:
    """Where the contour of all runs is certain too: jumps may be many, and calm runs most of delta."""
    epsilon = 1.0
    for schedule in (
        schedule_of(1.0, 0.01, 1000, tr.REMOVE),
        schedule_of(1.0, 0.01, 1000, tr.SUBSTITUTE),
        envelope_of(2.0, 0.001, 1000),
    ):
        truth = ContourEngine(schedule).near(epsilon, 1e-9).bounds(epsilon)
        assert truth.width < 1e-3
        found = tell_apart(schedule, epsilon, share * epsilon, -40.0)
        for at in (epsilon, 1.1 * epsilon):
            assert overlap(found.bounds(at), ContourEngine(schedule).near(at, 1e-9).bounds(at))
        bounds = found.bounds(epsilon)
        assert bounds.width < 1e-4 + 3 * bounds.errors.tails + 3 * bounds.errors.rounding < 0.3


def test_two_kinds_of_steps_jump_together() -> None:
    parts = [*schedule_of(1.0, 0.01, 600, tr.REMOVE), *schedule_of(1.2, 0.02, 300, tr.REMOVE)]
    schedule = Schedule([*parts, (pair_of("remove", 0.01, 0.5).reverse, 200)])
    truth = ContourEngine(schedule).near(1.0, 1e-9).bounds(1.0)
    found = tell_apart(schedule, 1.0, 0.4, -40.0).bounds(1.0)
    assert overlap(found, truth)
    assert max(found.width, truth.width) < 1e-4


def test_runs_beyond_the_caps_of_jumps_are_charged_in_full() -> None:
    schedule = schedule_of(1.0, 0.01, 1000, tr.REMOVE)
    truth = ContourEngine(schedule).near(1.0, 1e-9).bounds(1.0)
    for log_beyond in (-6.0, -10.0):
        found = tell_apart(schedule, 1.0, 0.4, log_beyond).bounds(1.0)
        assert found.lower < truth.lower
        assert found.upper > truth.upper
        assert found.errors.tails > 1e-6
        assert found.errors.tails == pytest.approx(found.width, rel=0.5)


@pytest.mark.parametrize(
    ("schedule", "epsilon"),
    [
        (schedule_of(0.732, 2.64e-6, 4_670_000, tr.REMOVE), 0.075),
        (schedule_of(0.92, 1 / 60_000, 418_000, tr.REMOVE), 0.11),
        (schedule_of(0.936, 2.85e-5, 103_000, tr.SUBSTITUTE), 0.15),
        (envelope_of(1.75, 2e-5, 95_500), 0.1),
        (schedule_of(1.0, 2.27e-6, 8330, tr.REMOVE), 0.0048),
    ],
)
def test_one_rare_large_loss_needs_no_lattice(schedule: Schedule, epsilon: float) -> None:
    """Contours of both kinds of runs are certain where one of all runs drowns, with few heights."""
    found = JumpContourEngine(schedule).near(epsilon, 1e-3)
    bounds = found.bounds(epsilon)
    assert bounds.width < 1e-3
    assert bounds.errors.rounding < 1e-5
    lattice = BigJumpEngine(schedule, longest=1 << 18).near(epsilon, 0.3).bounds(epsilon)
    assert overlap(bounds, lattice)
    assert lattice.lower > -math.inf


def test_calm_runs_that_cannot_matter_are_bounded_by_chernoff() -> None:
    """Its tilt is any; what it says holds at every epsilon."""
    schedule = schedule_of(1.0, 0.01, 1000, tr.REMOVE)
    engine = ContourEngine(schedule)
    for tilt in (1.0, 5.0):
        few = FewCalmRuns(tilt, engine.log_moment_above(tilt))
        for epsilon in (0.5, 1.0, 3.0):
            assert few.bounds(epsilon).upper >= engine.near(epsilon, 1e-9).bounds(epsilon).upper
            assert few.bounds(epsilon).lower == -math.inf


def test_what_jumps_add_from_other_periods_is_charged_below() -> None:
    """With a period so short that they are seen."""
    schedule = schedule_of(1.0, 0.01, 1000, tr.REMOVE)
    _, jumps = JumpContourEngine(schedule)._tell_apart(0.4, -40.0)
    close = jumps.near(1.0, -40.0, 10**8)
    loose = jumps.near(1.0, close.bounds(1.0).upper - 0.5, 10**8)
    exact, found = close.bounds(1.0), loose.bounds(1.0)
    assert found.errors.aliasing > 100 * exact.errors.aliasing
    assert found.lower < exact.lower
    assert found.upper > exact.upper
    assert GeometricTail(-1.0).times(0.0) == pytest.approx(1 / (math.e - 1), rel=1e-5)


@pytest.mark.parametrize("share", [0.8, 0.5, 0.35])
def test_what_is_cut_off_from_the_integral_of_jumps_is_charged(share: float) -> None:
    """However soon it ends, the truth stays inside; and the charge is worth something."""
    schedule = schedule_of(0.732, 2.64e-6, 4_670_000, tr.REMOVE)
    _, jumps = JumpContourEngine(schedule)._tell_apart(0.03, -60.0)
    close = jumps.near(0.075, -50.0, 10**8)
    spot = Placement(close.scale.tilt, close.scale.tilt_beyond, close.scale.period)
    count = round(share * len(close.kernel.heights))
    loose = jumps._line(spot, float(close.kernel.heights[1]), count, 10**8)
    exact, found = close.bounds(0.075), loose.bounds(0.075)
    assert overlap(exact, found)
    assert loose.cut_off > 1.5 * close.cut_off
    missed = max(abs(exact.upper - found.upper), abs(exact.lower - found.lower))
    assert 0 < missed < 0.5
    assert found.lower <= exact.lower
    assert exact.upper <= found.upper


@pytest.mark.parametrize(
    "parts",
    [
        [(pair_of("remove", 1e-3, 1.0).reverse, 100)],  # no loss is ever larger
        [(pair_of("remove", 1e-3, 1.0), 100), (ShiftPair.of_normals(0.1), 2)],
        [(pair_of("remove", 1e-3, 1.0), 100), (LEAKS, 1)],
        [(pair_of("remove", 1e-3, 1.0 + i / 8), 100) for i in range(9)],
    ],
)
def test_what_is_not_told_apart_is_declined(parts: list[tuple[ShiftPair, int]]) -> None:
    with pytest.raises(EngineDeclines):
        JumpContourEngine(Schedule(parts)).near(0.1, 1e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(0.732, 2.64e-6, 4_670_000, 4.46e-11), (1.0, 2.27e-6, 8330, 1e-15), (0.247, 1 / 60_000, 4590, 0.0156)],
)
def test_a_search_begins_near_its_end_where_one_loss_makes_delta(
    noise: float, rate: float, steps: int, delta: float
) -> None:
    """The saddle of all runs is up to thirty times too far."""
    schedule = schedule_of(noise, rate, steps, tr.REMOVE)
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    truth = tr.epsilon(run, delta=delta, relation=tr.REMOVE).upper
    guess, _ = estimate_epsilon(schedule, math.log(delta), 1e-3)
    assert truth / 3 < guess < 3 * truth + 1e-9


def test_a_search_begins_at_the_saddle_where_that_is_near() -> None:
    schedule = schedule_of(3.0, 1e-3, 100_000, tr.REMOVE)
    log_delta = math.log(1e-6)
    plan = Plan(schedule, log_delta + math.log(1e-3) - 7.0)
    assert estimate_epsilon(schedule, log_delta, 1e-3) == epsilon_estimate(plan, log_delta)


def test_a_threshold_that_is_off_is_charged_however_steep_the_tilt() -> None:
    wild, _ = draw("remove", 0)
    for c in (1.0, 1e13):
        u = np.array([wild.threshold])
        log_f = (1 + c) * wild.p.log_ratio(u) - c * wild.q.log_ratio(u) - u**2 / 2
        off = 8 * UNIT_ROUNDOFF * wild.threshold
        assert wild._log_edge(c) >= float(log_f[0]) - 1 + math.log(off) + off * c * wild.steepest
