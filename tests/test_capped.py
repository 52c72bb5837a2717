"""Contours without the rarest losses, and how fast transforms decay: against balls and other engines."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx

import tightrope as tr
from moments_in_balls import BITS, exact, moment
from tightrope.engines.contour.capped import CappedContourEngine
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.transforms.bounded import LaplaceTransform
from tightrope.engines.transforms.capped import CappedEnvelope, CappedNormal, capped_transform, find_cap
from tightrope.engines.transforms.envelope import EnvelopeTransform
from tightrope.engines.transforms.make import make_transform
from tightrope.engines.transforms.spread import Parts, SpreadModulus, TiltedCells
from tightrope.numerics.floats import UNIT_ROUNDOFF, short
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KINDS = ("remove", "both", "envelope")


def pair_of(kind: str, rate: float, shift: float, noise: Noise = Noise.NORMAL) -> ShiftPair | Envelope:
    mixture = Mixture(noise, Fraction(rate), Fraction(shift))
    remove = ShiftPair(mixture, Mixture(noise))
    if kind == "envelope":
        return Envelope(remove)
    return ShiftPair(mixture, mixture.mirrored) if kind == "both" else remove


def draw(kind: str, index: int) -> tuple[CappedNormal | CappedEnvelope, float]:
    """A capped transform and a tilt at which losses near its cap matter, or not."""
    rng = np.random.default_rng([len(kind), index])
    pair = pair_of(kind, float(10 ** rng.uniform(-6, -1)), float(10 ** rng.uniform(-1.5, 0.5)))
    transform = capped_transform(pair, find_cap(pair, float(-rng.uniform(12, 60))))
    largest = float(pair.loss_quantile(-40.0))
    return transform, float(10 ** rng.uniform(-1, 1)) / largest


def end_of(transform: CappedNormal | CappedEnvelope) -> float:
    return transform.reach if isinstance(transform, CappedEnvelope) else transform.cap


@pytest.mark.parametrize("kind", KINDS)
def test_a_capped_transform_is_off_by_no_more_than_it_says(kind: str) -> None:
    checked = 0
    for index in range(4):
        transform, c = draw(kind, index)
        deviation = math.sqrt(transform.cumulants(c)[2])
        for share in (0.1, 1.0, 10.0):
            height = short(share / deviation)
            line = transform.line(c, height, 1, 1e-15, 10**7)
            modulus = transform.modulus_from(c, height)
            with ctx.workprec(BITS):
                cap = end_of(transform)
                real, turned = (
                    moment(transform.pair, c, 0.0, cap).real,
                    moment(transform.pair, c, height, cap),
                )
                if not real.rad() + turned.real.rad() + turned.imag.rad() < arb(2) ** -70 * real:
                    continue  # the reference gave up
                checked += 1
                assert abs(real.log() - line.nodes.log_moment) <= line.nodes.moment_rel_error
                assert arb(transform.log_moment_above(c)) >= real.log()
                assert abs(turned) <= min(modulus, 1.0) * real * (1 + arb(2) ** -60), (index, share)
                value = acb(float(line.log_modulus[1]), float(line.angle[1])).exp()
                charge = line.nodes.missing_rel_error + float(line.abs_errors[1])
                charge += line.nodes.log_moment_abs_error + 64 * UNIT_ROUNDOFF
                assert abs(value - turned / arb(line.nodes.log_moment).exp()) <= charge
    assert checked >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_beyond_a_cap_is_bounded_closely(kind: str) -> None:
    for index in range(6):
        transform, _ = draw(kind, index)
        with ctx.workprec(BITS):
            pair = transform.pair.remove if isinstance(transform.pair, Envelope) else transform.pair
            law = pair.observed
            rate, shift, cap = exact(law.exact_rate), exact(law.exact_shift), arb(end_of(transform))
            if isinstance(transform, CappedEnvelope):
                cap += shift / 2
            plain, moved = (((cap - centre) / arb(2).sqrt()).erfc() / 2 for centre in (0, shift))
            tail = (1 - rate) * plain + rate * moved
            assert tail.log() <= transform.log_mass_beyond <= tail.log() + 1e-6


def laplace(kind: str, rate: float, shift: float) -> LaplaceTransform | EnvelopeTransform:
    if kind == "add":
        pair = pair_of("remove", rate, shift, Noise.LAPLACE).reverse
    else:
        pair = pair_of(kind, rate, shift, Noise.LAPLACE)
    found = make_transform(pair)
    assert isinstance(found, LaplaceTransform | EnvelopeTransform)
    return found


@pytest.mark.parametrize("kind", ["remove", "add", "envelope"])
@pytest.mark.parametrize(("rate", "shift"), [(1e-6, 0.1), (1e-3, 2.0), (0.01, 3.0), (0.6, 1.0)])
def test_no_height_beyond_exceeds_the_bound_on_the_modulus(kind: str, rate: float, shift: float) -> None:
    """Over many heights from t on, past the stretches that the bound is made of."""
    transform = laplace(kind, rate, shift)
    for c in (0.5 / rate, 2.0):
        bound = transform.modulus_bound(c)
        assert isinstance(bound, SpreadModulus)
        deviation = math.sqrt(transform.cumulants(c)[2])
        nodes = transform.nodes(c, 20 / deviation, 1e-12)
        heights = np.geomspace(0.01, 20, 500) / deviation
        moduli = np.abs(np.exp(1j * np.multiply.outer(heights, nodes.losses)) @ nodes.weights)
        for t in (0.01, 0.3, 2.0, 10.0):
            worst = float(moduli[heights >= t / deviation].max())
            assert worst <= bound(t / deviation) + 1e-10
        # and it is worth something: at first half of what the variance says, later something
        assert 1 - bound(0.01 / deviation) > 0.25e-4
        assert bound(2.0 / deviation) < 1


@pytest.mark.parametrize(("rate", "shift", "c"), [(0.07, 5.1, 202.0), (1e-3, 5.1, 813.0), (0.07, 5.1, 600.0)])
def test_what_panels_miss_of_a_steep_envelope_is_no_gain(rate: float, shift: float, c: float) -> None:
    transform = laplace("envelope", rate, shift)
    height = 1 / math.sqrt(transform.cumulants(c)[2])
    nodes = transform.nodes(c, height)
    modulus = abs(complex(np.exp(1j * height * nodes.losses) @ nodes.weights))
    assert modulus <= transform.modulus_from(c, height) + 1e-10


def test_every_stretch_may_have_less_mass_by_what_is_missing() -> None:
    masses, ends = np.full(4, 0.25), np.zeros(5)
    assert Parts.between(masses, ends, missing=0.2).gain(1.0) == pytest.approx(0.8, rel=1e-5)
    short_ones = Parts.between(masses, np.array([np.inf, np.inf, 0.0, 0.0, np.inf]), missing=0.2)
    assert short_ones.gain(1.0) == pytest.approx(0.05, rel=1e-5)
    assert Parts.between(masses, ends, missing=1e30).gain(1.0) == 0


def test_losses_that_come_back_into_phase_are_not_held_apart() -> None:
    """Two equal atoms at a distance of 1: |m(s)| = |cos(s/2)|, which is 1 again at 2 pi."""
    losses = np.array([0.0, 1.0])
    bound = SpreadModulus(TiltedCells(losses, losses, losses, np.full(2, 0.5)), ())
    for low in np.geomspace(0.1, 20, 100):
        heights = np.linspace(low, 1.15 * low, 50)
        assert np.abs(np.cos(heights / 2)).max() <= bound._between(low, 1.15 * low) + 1e-12
    assert bound._between(1.0, 1.1) == pytest.approx(math.cos(0.5), rel=1e-5)


def test_small_losses_beyond_the_cap_of_an_envelope_are_charged() -> None:
    """Cut are large losses only: what mirrors them stays in the transform, and the nodes miss it."""
    pair = pair_of("envelope", 1e-6, 1.0)
    transform = capped_transform(pair, find_cap(pair, -12.0))
    assert isinstance(transform, CappedEnvelope)
    beyond = math.erfc((transform.middle + end_of(transform)) / math.sqrt(2)) / 2
    nodes = transform.nodes(0.01)
    assert nodes.tail_rel_error * math.exp(nodes.log_moment) > 0.999 * beyond


@pytest.mark.parametrize("kind", ["remove", "both"])
def test_of_many_kinds_a_capped_transform_has_the_same_bound(kind: str) -> None:
    """That of all outputs, whose line is lifted, does not hold for those up to a cap."""
    transform, c = draw(kind, 0)
    height = 2 / math.sqrt(transform.cumulants(c)[2])
    assert transform.modulus_by(transform.nodes(c), c, height) == transform.modulus_from(c, height)


def run_of(noise: float, rate: float, steps: int, relation: tr.Relation) -> Schedule:
    from tightrope.theorems.lookup import analyse

    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate))
    (analysis,) = analyse(step * steps, relation, tr.QUICK)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    return schedule


@pytest.mark.parametrize("relation", [tr.REMOVE, tr.SUBSTITUTE])
@pytest.mark.parametrize("log_mass", [-3.0, -8.0, -30.0])
def test_runs_beyond_a_cap_are_charged_in_full(relation: tr.Relation, log_mass: float) -> None:
    """However low the cap, the truth stays inside; and a low one costs about what lies beyond."""
    schedule, epsilon = run_of(1.0, 0.01, 1000, relation), 1.0
    truth = ContourEngine(schedule).near(epsilon, 1e-9).bounds(epsilon)
    engine, log_beyond = CappedContourEngine(schedule)._cap(log_mass)
    found = engine.near(epsilon, 1e-9).bounds(epsilon)
    assert found.lower <= truth.lower
    assert truth.upper <= found.upper
    assert found.upper <= np.logaddexp(truth.upper, log_beyond) + 1e-6
    assert found.errors.tails >= 0.99 * math.exp(log_beyond - found.upper)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon"), [(2.0, 1e-4, 20_000, 0.05), (4.0, 1e-5, 30_000, 0.0035)]
)
def test_capped_contours_agree_with_the_lattice(
    noise: float, rate: float, steps: int, epsilon: float
) -> None:
    for relation in (tr.REMOVE, tr.SUBSTITUTE):
        schedule = run_of(noise, rate, steps, relation)
        capped = CappedContourEngine(schedule).near(epsilon, 1e-4).bounds(epsilon)
        lattice = LatticeEngine(schedule).near(epsilon, 1e-2).bounds(epsilon)
        assert capped.width < 1e-3
        assert max(capped.lower, lattice.lower) <= min(capped.upper, lattice.upper)


def test_a_bracket_a_few_times_wider_than_asked_says_how_wide_it_is() -> None:
    step = tr.Step(tr.Laplace(noise_multiplier=0.985), tr.Poisson(rate=1.54e-06))
    found = tr.delta(step * 2, epsilon=1.96e-06, relation=tr.ADD, by=tr.Certified(accuracy=3e-9))
    assert 3e-9 < found.relative_width < 3e-7
    assert found.gap is not None
    finer = tr.delta(step * 2, epsilon=1.96e-06, relation=tr.ADD, by=tr.Exact())
    assert max(found.lower, finer.lower) <= min(found.upper, finer.upper)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(0.45, 0.058, 3, 3e-15), (0.36, 6.4e-3, 3, 1e-14), (0.63, 0.0276, 3, 1.4e-10)],
)
def test_an_epsilon_next_to_the_largest_loss_is_found(
    noise: float, rate: float, steps: int, delta: float
) -> None:
    """delta is about prod P(largest loss) times what is left to the largest total."""
    run = tr.Step(tr.Laplace(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    found = tr.epsilon(run, delta=delta, relation=tr.ADD)
    with ctx.workprec(BITS):
        g, b = arb(rate), 1 / arb(noise)
        largest = -steps * (1 - g + g * (-b).exp()).log()
        gap = delta * arb(2) ** steps
        assert found.lower - 1e-12 < float(largest - gap) < found.upper + 1e-12
    assert found.upper - found.lower <= 1e-7 * found.upper
