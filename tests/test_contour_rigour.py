"""The charges of the contour engine against balls, at rates, shifts, tilts and heights of all sizes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx

from moments_in_balls import BITS, moment, two_steps
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.make import make_transform
from tightrope.engines.transforms.normal import ModulusBound, NormalTransform, _turn_power
from tightrope.engines.transforms.panels import POINTS, WEIGHTS
from tightrope.engines.transforms.rooms import ROOM
from tightrope.engines.transforms.transform import LOG_ROUNDINGS
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, short
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KINDS = ("remove", "add", "both", "laplace remove", "laplace add", "envelope", "laplace envelope")
LABELLED = ("labelled remove", "labelled add", "labelled envelope")


def pair_of(kind: str, rate: Fraction, shift: Fraction) -> Pair:
    if kind in LABELLED:  # as likely as the shift
        full = kind.removeprefix("labelled ")
        usual = "both" if full == "envelope" else full
        return LabelledPair(((1 - rate, pair_of(usual, rate, shift)), (rate, pair_of(full, rate, 2 * shift))))
    noise = Noise.LAPLACE if "laplace" in kind else Noise.NORMAL
    mixture = Mixture(noise, rate, shift)
    remove = ShiftPair(mixture, Mixture(noise))
    if "envelope" in kind:
        return Envelope(remove)
    if kind == "both":
        return ShiftPair(mixture, mixture.mirrored)
    return remove.reverse if "add" in kind else remove


def settings(kind: str, count: int) -> list[tuple[Pair, float, float]]:
    """Pairs with rates from 1e-12 to 1 - 1e-12 and shifts from 1e-4 to 10, tilts, and heights per tilt."""
    rng = np.random.default_rng([len(kind), ord(kind[-3])])
    drawn = []
    for i in range(count):
        small = Fraction(10 ** -rng.uniform(0.1, 12))
        shift = Fraction(10 ** rng.uniform(-4, 1))
        tilt = min(float(10 ** rng.uniform(-2, 2)) / (float(shift) if i % 2 else 1.0), 1e5)
        drawn.append(
            (pair_of(kind, 1 - small if i % 3 == 2 else small, shift), tilt, float(10 ** rng.uniform(-2, 2)))
        )
    return drawn


class ReferenceGaveUp(Exception):
    """The certified integration ran out of evaluations: branch points are close where shifts are large."""


def assert_honest(pair: Pair, c: float, height: float) -> None:
    """M(c), M(c + it) and the modulus from t on are as close to the truth as the transform says."""
    transform = make_transform(pair)
    nodes, line = transform.nodes(c), transform.line(c, height, 1, 1e-15, 10**6)
    modulus = transform.modulus_from(c, height)
    with ctx.workprec(BITS):
        real, turned = moment(pair, c, 0.0).real, moment(pair, c, height)
        if not real.rad() + turned.real.rad() + turned.imag.rad() < arb(2) ** -70 * real:
            raise ReferenceGaveUp
        assert abs(real.log() - nodes.log_moment) <= nodes.moment_rel_error, (pair, c)
        assert arb(transform.log_moment_above(c)) >= real.log()
        assert abs(turned) <= min(modulus, 1.0) * real * (1 + arb(2) ** -80), (pair, c, height)
        log_modulus, angle = float(line.log_modulus[1]), float(line.angle[1])
        charge = line.nodes.missing_rel_error + float(line.abs_errors[1]) + line.nodes.log_moment_abs_error
        charge += LOG_ROUNDINGS * UNIT_ROUNDOFF * (abs(log_modulus) + abs(angle))
        off = abs(acb(log_modulus, angle).exp() - turned / arb(line.nodes.log_moment).exp())
        assert off <= charge, (pair, c, height)


@pytest.mark.parametrize("kind", [*KINDS, *LABELLED])
def test_a_transform_is_off_by_no_more_than_it_says(kind: str) -> None:
    checked = 0
    for pair, c, share in settings(kind, 6):
        try:
            variance = make_transform(pair).cumulants(c)[2]
            height = short(share * c if c * share < 50 else share / math.sqrt(variance))
            assert_honest(pair, c, height)
        except (EngineDeclines, ReferenceGaveUp):
            continue
        checked += 1
    assert checked >= 3


def test_the_error_of_a_loss_is_charged_as_often_as_the_height_says() -> None:
    # the phases t loss were off by four times everything that was charged
    pair = pair_of("laplace envelope", 1 - Fraction(1.0443908060143212e-11), Fraction(0.4694075881475389))
    assert_honest(pair, 9.8263495598242, short(2157.3592603352804))


@pytest.mark.parametrize("shift", [Fraction(1, 2), Fraction(2), Fraction(4)])
def test_no_output_of_a_cell_exceeds_its_largest_factor(shift: Fraction) -> None:
    """R of lemma 5 at the ends and inside of each cell: beyond a right angle the argument falls again."""
    law = Mixture(Noise.NORMAL, Fraction(1, 1000), shift)
    bound = ModulusBound(NormalTransform(ShiftPair(law, Mixture(Noise.NORMAL))), 0.5)
    a, g, tallest = ball(shift), ball(law.exact_rate), arb(bound.tallest)
    for t in (1.0, 30.0, 3162.0, 1e5):
        up, down = bound.exponents(t)
        for i in range(0, len(up), 3):
            for place in (-0.5, -0.2, 0.3, 0.5):
                u = arb(float(bound.centres[i])) + place * arb(bound.width)
                moved = g * (a * u - a * a / 2).exp()
                w = moved / (1 - g + moved)
                pull = t * a * w / (1 + a * a)
                y = pull * tallest / (pull + tallest)
                rise = a * (1 - w) * y * tallest / (pull + tallest)
                turned = arb.atan2(w * (a * y).sin(), 1 - w + w * (a * y).cos())
                most = arb(float(up[i])) * (1 + arb(ROOM)) - arb(float(down[i])) * (1 - arb(ROOM))
                assert (y * y + rise * rise) / 2 - t * turned <= most, (t, u)


@pytest.mark.parametrize("rate", [1e-300, 1e-90, 1e-12, 1e-5, 0.3, 0.5, 0.7, 1 - 1e-5, 1 - 1e-12])
def test_the_logarithm_of_a_mixture_is_off_by_no_more_than_it_says(rate: float) -> None:
    law = Mixture(Noise.NORMAL, Fraction(rate), Fraction(1))
    near = 10 ** np.linspace(-17, 2, 300)
    x: Floats = np.concatenate(
        [near, -near, np.linspace(-750, 700, 1001), [30.0, np.nextafter(30, 31), -1.0, 0.0]]
    )
    values = law.log_mixed(x)
    errors = law.log_mixed_abs_error(x, np.zeros_like(x), values)
    with ctx.workprec(1400):
        weight = arb(rate)
        for each, value, error in zip(x, values, errors, strict=True):
            truth = (1 - weight + weight * arb(float(each)).exp()).log()
            assert abs(arb(float(value)) - truth) <= arb(float(error)), (rate, each)


def test_the_quadrature_table_is_rounded_correctly() -> None:
    with ctx.workprec(200):
        for i, (point, weight) in enumerate(zip(POINTS, WEIGHTS, strict=True)):
            true_point, true_weight = arb.legendre_p_root(32, 31 - i, weight=True)
            assert abs(true_point - arb(float(point))) <= UNIT_ROUNDOFF * abs(true_point)
            assert abs(true_weight - arb(float(weight))) <= UNIT_ROUNDOFF * true_weight


def test_multiples_of_a_short_number_are_exact() -> None:
    for x in (math.pi, 1e-5 / 3, 12345.678, 1e300 / 7):
        step = short(x)
        assert x * (1 - 2.0**-29) <= step <= x
        for j in (1, 3, 2**20 + 1, 2**23 - 1):
            assert Fraction(j * step) == j * Fraction(step)


TWO_STEPS = [
    (Fraction(3, 4), Fraction(9, 5), 0.5),
    (Fraction(1, 40), Fraction(1, 25), 0.002),
    (Fraction(1, 20), Fraction(6, 5), 0.036),
    (1 - Fraction(1, 10**6), Fraction(3, 5), 0.03),
    (1 - Fraction(1, 10**9), Fraction(7, 10), 2.0),
    (1 - Fraction(1, 50), Fraction(1, 25), 0.02),
]


@pytest.mark.parametrize(("rate", "shift", "epsilon"), TWO_STEPS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_two_steps_against_balls(rate: Fraction, shift: Fraction, epsilon: float, tolerance: float) -> None:
    pair = pair_of("remove", rate, shift)
    assert isinstance(pair, ShiftPair)
    engine = ContourEngine(Schedule([(pair, 2)]), 50_000_000)
    bounds = engine.near(epsilon, tolerance).bounds(epsilon)
    truth = two_steps(pair, epsilon)
    with ctx.workprec(BITS):
        assert arb(bounds.lower).exp() <= truth <= arb(bounds.upper).exp()
    assert bounds.width <= 20 * tolerance


@pytest.mark.parametrize("angle", [-2.0, -0.3, 0.7, 2.5])
def test_a_turned_power_has_the_modulus_and_slope_of_complex_arithmetic(angle: float) -> None:
    power, t, shift = 4.5, 30.0, 0.8
    law = Mixture(Noise.NORMAL, Fraction(1, 50), Fraction(8, 10))
    u, step = np.linspace(-6, 12, 37), 1e-5

    def log_modulus(x: Floats) -> Floats:
        turned = law.rest + law.rate * np.exp(shift * (x - shift / 2) + 1j * angle)
        return np.asarray(((power + 1j * t) * np.log(turned)).real)

    log_turned, slope = _turn_power(law.shifted_share(shift * (u - shift / 2)), np.array(angle), power, t)
    np.testing.assert_allclose(power * law.log_ratio(u) + log_turned, log_modulus(u), rtol=1e-12, atol=1e-12)
    differences = (log_modulus(u + step) - log_modulus(u - step)) / (2 * step)
    np.testing.assert_allclose(shift * slope, differences, rtol=1e-7, atol=1e-7)
