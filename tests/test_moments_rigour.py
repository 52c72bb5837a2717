"""Rényi's bounds against exact fractions and balls that share nothing with them: no end is too small."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import acb, arb, ctx

import tightrope as tr
from catalogue import EVERY, gaussian, laplace, poisson
from tightrope.engines.draws.chunks import (
    ChunkSums,
    DrawTask,
    _sum_in_bins,
    add_up_chunks,
    largest_weight,
)
from tightrope.engines.moments.renyi import RenyiBound
from tightrope.engines.moments.step import log_moment_ends
from tightrope.numerics.balls import ball
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

TINY, NEARLY_ONE = Fraction(1, 10**12), 1 - Fraction(1, 10**12)
RATES = [TINY, Fraction(1e-3), Fraction(0.3), NEARLY_ONE]
BITS = 400


def remove(noise: Noise, rate: Fraction, shift: Fraction) -> ShiftPair:
    return ShiftPair(Mixture(noise, rate, shift), Mixture(noise))


def is_enclosed(pair: Pair, c: float, truth: arb) -> bool:
    low, high = log_moment_ends(pair, c)
    return bool(ball(low) <= truth) and bool(truth <= ball(high))


@pytest.mark.parametrize(("rate", "noise"), list(product(RATES, [0.001, 0.02, 0.7, 40.0, 1e4])))
def test_whole_orders_of_sampled_normals_enclose_the_finite_sum(rate: Fraction, noise: float) -> None:
    """Mironov, Talwar and Zhang 2019: A_a = sum_j C(a,j) (1-g)^{a-j} g^j e^{(j^2-j)/(2 s^2)}."""
    shift = 1 / Fraction(noise)
    pair = remove(Noise.NORMAL, rate, shift)
    with ctx.workprec(BITS):
        for order in (2, 3, 40, 1000):
            plain, moved = ball(1 - rate), ball(rate)
            total, choices = arb(0), 1
            for j in range(order + 1):
                total += choices * plain ** (order - j) * moved**j * ball(shift**2 * j * (j - 1) / 2).exp()
                choices = choices * (order - j) // (j + 1)
            low, high = log_moment_ends(pair, order - 1.0)
            assert ball(low) <= total.log() <= ball(high)
            # where the noise is too small for nodes, the closed form above is nearly the truth
            assert high <= float(total.log()) * (1 + (1e-12 if noise >= 0.7 else 1e-4)) or noise == 0.001


def integrate(exponent: Callable[[acb, bool], acb], low: float, high: float) -> arb:
    """By arb's adaptive quadrature, where the code under test sums at nodes of its own."""
    cuts = np.linspace(low, high, 12)
    ends = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    pieces = (acb.integral(lambda u, a: exponent(u, a).exp(), x, y).real for x, y in ends)
    return sum(pieces, arb(0))


@pytest.mark.parametrize("c", [1e-4, 0.37, 6.6])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("kind", ["remove", "add", "both", "envelope"])
def test_moments_of_normals_enclose_what_another_quadrature_finds(
    kind: str, rate: Fraction, c: float
) -> None:
    shift, tilt = Fraction(0.8), Fraction(c)
    forth = remove(Noise.NORMAL, rate, shift)
    with ctx.workprec(180):

        def log_ratio(u: acb, analytic: bool, sign: int = 1) -> acb:
            moved = (sign * ball(shift) * u - ball(shift**2 / 2)).exp()
            return (ball(1 - rate) + ball(rate) * moved).log(analytic=analytic)

        def add_up(powers: tuple[Fraction, Fraction], low: float = -20.0) -> arb:
            up, down = map(ball, powers)
            return integrate(
                lambda u, a: up * log_ratio(u, a) + down * log_ratio(u, a, -1) - u * u / 2, low, 26.0
            )

        above, below, nothing = 1 + tilt, -tilt, Fraction(0)
        cases: dict[str, Callable[[], tuple[Pair, arb]]] = {
            "remove": lambda: (forth, add_up((above, nothing))),
            "add": lambda: (forth.reverse, add_up((nothing, below))),
            "both": lambda: (ShiftPair(forth.observed, forth.observed.mirrored), add_up((above, below))),
            "envelope": lambda: (
                Envelope(forth),
                add_up((above, nothing), 0.4) + add_up((below, nothing), 0.4),
            ),
        }
        pair, truth = cases[kind]()
        truth = truth / (2 * arb.pi()).sqrt()
        if kind == "envelope":
            truth += ball(1 - rate) * (ball(shift / 2) / arb(2).sqrt()).erf()
        truth += arb(0, arb(2) ** -150)  # beyond -20 and 26 there is less, at these tilts
        low, high = log_moment_ends(pair, c)
        assert ball(low) <= truth.log().upper()
        assert truth.log().lower() <= ball(high)
        assert high - low <= 1e-12 * high


@pytest.mark.parametrize("shift", [1e-4, 0.5, 80.0])
def test_moments_of_unsampled_laplace_noise_enclose_the_closed_form(shift: float) -> None:
    pair = remove(Noise.LAPLACE, Fraction(1), Fraction(shift))
    nearly = remove(Noise.LAPLACE, NEARLY_ONE, Fraction(shift))
    with ctx.workprec(BITS):
        for c in (1e-4, 0.5, 33.0, 1e5):
            tilt, d = ball(c), ball(shift)
            total = ((1 + tilt) * (tilt * d).exp() + tilt * (-(1 + tilt) * d).exp()) / (1 + 2 * tilt)
            assert is_enclosed(pair, c, total.log())
            assert log_moment_ends(nearly, c)[0] <= log_moment_ends(pair, c)[1]
            assert log_moment_ends(nearly, c)[1] == pytest.approx(log_moment_ends(pair, c)[1], rel=1e-8)


def test_moments_of_finite_pairs_enclose_the_exact_fraction() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        p, q = (tuple(Fraction(float(x)) for x in rng.dirichlet(np.full(4, 0.2)) + 1e-300) for _ in range(2))
        pair = FinitePair(FiniteSupport(p), FiniteSupport(q))
        for c in (1, 2, 17):
            exact = sum((a * (a / b) ** c for a, b in pair.levels), Fraction(0))
            with ctx.workprec(BITS):
                assert is_enclosed(pair, float(c), ball(exact).log())


def test_rho_of_full_batches_is_never_below_the_exact_fraction() -> None:
    rng = np.random.default_rng(7)
    for noise, steps in zip(rng.uniform(0.5, 20, 100).tolist(), range(1, 300, 3), strict=True):
        found = tr.privacy_curve(gaussian(noise, EVERY, steps), relation=tr.ADD_OR_REMOVE, by=tr.Renyi())
        exact = steps / (2 * Fraction(noise) ** 2)
        assert exact <= Fraction(found.zero_concentrated().upper) <= exact * (1 + Fraction(1, 2**51))
        order = Fraction(3.25)
        assert Fraction(found.divergence(3.25).upper) >= exact * order


@pytest.mark.parametrize("order", [1e9 + 1, 2e9, 1e10, 1e12, 1e300])
def test_rho_holds_at_orders_beyond_those_that_are_looked_at(order: float) -> None:
    """Sampling helps less and less there: up to order 1e12 rho was said to be 1e-19, and is 5e-9."""
    for noise, rate in ((1e4, 1e-12), (1e3, 1e-6), (1.0, 1e-3)):
        curve = tr.privacy_curve(gaussian(noise, poisson(rate), 1), relation=tr.REMOVE, by=tr.Renyi())
        rho = curve.zero_concentrated(order).upper
        # M(c) is at least its last binomial term, g^{1+c} e^{c (1+c) / (2 s^2)}
        lost = (1 / (2 * Fraction(noise) ** 2)) * Fraction(order) + Fraction(order) / (
            Fraction(order) - 1
        ) * Fraction(math.log(rate))
        assert float(lost / Fraction(order)) <= rho * (1 + 1e-12)


def test_an_order_between_floats_is_refused_and_not_rounded() -> None:
    curve = tr.privacy_curve(gaussian(1, EVERY, 1), relation=tr.REMOVE, by=tr.Renyi())
    for ask in (curve.divergence, curve.zero_concentrated):
        with pytest.raises(tr.InvalidSetting, match="between two floats"):
            ask(Fraction(4, 3))  # type: ignore[call-overload, arg-type]


@pytest.mark.parametrize("order", [1.0001, 3.0, 1e6])
def test_a_divergence_is_never_below_that_of_a_milder_order(order: float) -> None:
    for run in (gaussian(0.9, poisson(0.01), 7), laplace(1, poisson(0.3), 7), gaussian(30, EVERY, 2)):
        curve = tr.privacy_curve(run, relation=tr.REMOVE, by=tr.Renyi())
        rho = curve.zero_concentrated(order * 1.5).upper
        for at in (order, order * 1.4):
            assert curve.divergence(at).upper <= rho * at * (1 + 1e-9)


@pytest.mark.parametrize("mass", [0.1, 0.25, 1e-9])
@pytest.mark.parametrize("steps", [1, 3])
def test_an_epsilon_is_infinite_just_where_delta_leaves_nothing(mass: float, steps: int) -> None:
    own = FinitePair(
        FiniteSupport((1 - Fraction(mass), Fraction(mass), Fraction(0))),
        FiniteSupport((1 - Fraction(mass), Fraction(0), Fraction(mass))),
    )
    bound = RenyiBound([(own, steps)])
    infinite = 1 - (1 - Fraction(mass)) ** steps
    nearest = float(infinite)
    for delta in (nearest, math.nextafter(nearest, 0), math.nextafter(nearest, 1)):
        assert bound.epsilon(delta)[0] == (0 if Fraction(delta) > infinite else math.inf)
    with ctx.workprec(BITS):
        assert ball(bound.log_delta(40.0)[0]) >= ball(infinite).log()


def test_conversions_are_never_below_the_bound_at_the_order_they_name() -> None:
    for run, delta in product((gaussian(1, EVERY, 9), gaussian(7, EVERY, 900)), (1e-300, 1e-9, 0.4)):
        curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=tr.Renyi())
        found = curve.epsilon(delta)
        noise, steps = run.parts[0][0].mechanism.noise_multiplier, run.steps  # type: ignore[union-attr]
        with ctx.workprec(BITS):
            c = ball(Fraction(found.order) - 1)
            square = ball(Fraction(steps) / Fraction(noise) ** 2)
            factor = c * c.log() - (1 + c) * (1 + c).log()
            truth = (c * (1 + c) * square / 2 + factor - ball(delta).log()) / c
            assert ball(found.upper * (1 + 1e-12)) >= truth
        (bound,) = (cover[0] for branch in curve.branches for cover in branch.covers)
        assert isinstance(bound, RenyiBound)
        assert bound.log_delta(found.upper)[0] <= math.log(delta) + 1e-9


@pytest.mark.parametrize("tilt", [0.0, 0.3, 7.0, 1e4])
def test_sums_of_weights_are_off_by_less_than_is_charged(tilt: float) -> None:
    """Against the same losses in balls, at epsilons a hair and a mile apart."""
    rng = np.random.default_rng(2)
    epsilons = (0.0, 1e-9, 0.7, 0.7000001, 3.0, 40.0)
    losses = np.concatenate([rng.normal(1, 2, 300), rng.exponential(1 / max(tilt, 1), 300), [45.0, 700.0]])
    task = DrawTask(Schedule([(ShiftPair.of_normals(1.0), 1)]), tilt, epsilons, len(losses), 0, 0)
    sums = ChunkSums(len(losses), _sum_in_bins(losses, np.array(epsilons), tilt))
    sample = add_up_chunks(task, [sums]).sample
    with ctx.workprec(200):
        peak, c = ball(largest_weight(tilt)), ball(tilt)
        for column, epsilon in enumerate(epsilons):
            x = [ball(Fraction(loss) - Fraction(epsilon)) for loss in losses.tolist() if loss > epsilon]
            weights = [(-c * each).exp() * -(-each).expm1() / peak for each in x]
            for found, abs_errors, power in (
                (sample.sums, sample.sum_abs_errors, 1),
                (sample.squares, sample.square_abs_errors, 2),
            ):
                truth = sum((weight**power for weight in weights), arb(0))
                assert abs(ball(float(found[0, column])) - truth) <= ball(
                    float(np.asarray(abs_errors)[0, column])
                )
            assert not any(weight > 1 for weight in weights)
            assert all(c * each * weight <= 3 for each, weight in zip(x, weights, strict=True))
