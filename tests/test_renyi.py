"""The Rényi accountant: exact moments, never below the certified curve, never worse than its peers."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product

import dp_accounting
import dp_accounting.rdp.rdp_privacy_accountant as peer
import numpy as np
import pytest

import tightrope as tr
from catalogue import (
    BRANCHES,
    CATALOGUE,
    EVERY,
    LOPSIDED,
    Entry,
    batch,
    epsilon_at,
    finite,
    gaussian,
    laplace,
    log_delta,
    over,
    poisson,
    response,
)
from precise import mp, mpf
from tightrope.curve.curve import log_delta_from_reverse
from tightrope.engines.moments.renyi import RenyiBound
from tightrope.engines.moments.step import (
    amplified_log_moment_above,
    central_moment,
    log_moment_above,
    log_moment_bound,
)
from tightrope.numerics.balls import ceil_float, float_ends
from tightrope.pairs.amplified import ANY_NOISE, GAUSSIAN_NOISE, Amplified
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.shift_pair import Envelope, ShiftPair

ALL_RELATIONS = pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=repr)
DELTAS = (0.3, 1e-2, 1e-5, 1e-9, 1e-30)


def renyi(run: tr.Run | tr.Step, relation: tr.Relation = tr.ADD_OR_REMOVE) -> tr.RenyiCurve:
    return tr.privacy_curve(run, relation=relation, by=tr.Renyi())


def remove(noise: Noise, rate: float, shift: float) -> ShiftPair:
    return ShiftPair(Mixture(noise, Fraction(rate), Fraction(shift)), Mixture(noise))


# -- laws over the catalogue ----------------------------------------------------------------------------


@over(CATALOGUE)
@ALL_RELATIONS
def test_the_certified_lower_end_is_never_above_the_bound_on_delta(
    entry: Entry, relation: tr.Relation
) -> None:
    curve = renyi(entry.run, relation)
    for epsilon in entry.epsilons:
        assert log_delta(entry.run, relation, epsilon).lower <= curve.log_delta(epsilon).upper


@over(CATALOGUE)
@ALL_RELATIONS
def test_the_certified_lower_end_is_never_above_the_bound_on_epsilon(
    entry: Entry, relation: tr.Relation
) -> None:
    curve = renyi(entry.run, relation)
    for delta in DELTAS[:4]:
        assert epsilon_at(entry.run, relation, delta).lower <= curve.epsilon(delta).upper


@over(CATALOGUE)
def test_epsilon_and_delta_are_the_same_bound(entry: Entry) -> None:
    curve = renyi(entry.run)
    for delta in DELTAS:
        epsilon = curve.epsilon(delta).upper
        if 0 < epsilon < math.inf:
            assert curve.log_delta(epsilon).upper == pytest.approx(math.log(delta), rel=1e-6, abs=1e-6) or (
                curve.epsilon(delta).order == math.inf and curve.log_delta(epsilon).upper <= math.log(delta)
            )


@pytest.mark.parametrize(
    "run",
    [
        gaussian(4, batch(50, 1000), 1000),
        gaussian(0.8, batch(1, 1000), 10_000),
        gaussian(2, batch(1, 2), 20),
        laplace(2, batch(1, 4), 50),
        response(0.6, batch(1, 10), 30),
        gaussian(2, batch(1, 50), 100) + gaussian(3, poisson(0.1), 50) + laplace(4, batch(1, 50), 10),
    ],
    ids=repr,
)
def test_every_theorem_on_exchanged_records_is_above_what_datasets_reach(run: tr.Run) -> None:
    curve = renyi(run, tr.SUBSTITUTE)
    lower = tr.epsilon(run, delta=1e-5, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.QUICK)).lower
    (bounds,) = curve.bounds(1e-5)
    assert len(bounds) >= 2
    for bound in bounds:
        assert bound.upper >= lower
    assert curve.epsilon(1e-5).upper == min(bound.upper for bound in bounds)
    for tighter, looser in pairwise(bounds[1:]):
        assert tighter.upper <= looser.upper * (1 + 1e-9)  # central moments only ever help


def test_substitution_and_poisson_are_bounded_too() -> None:
    run = gaussian(1, poisson(0.01), 1000)
    lower = tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE).lower
    assert lower <= renyi(run, tr.SUBSTITUTE).epsilon(1e-6).upper <= 2 * lower


# -- the moments ----------------------------------------------------------------------------------------


def exact_moment(pair: ShiftPair, c: float, centre: float = 0.0) -> mpf:
    """ln M(c) of a pair of normals by integrating psi to 30 digits."""

    power = mpf(c)

    def ratio_of(law: Mixture) -> Callable[[mpf], mpf]:
        rate, shift = mpf(law.rate), mpf(law.shift)
        rest, drift = 1 - rate, shift**2 / 2
        return lambda u: rest + rate * mp.exp(shift * u - drift) if rate and shift else mpf(1)

    observed, alternative = ratio_of(pair.observed), ratio_of(pair.alternative)

    def gain(u: mpf) -> mpf:
        p, q = observed(u), alternative(u)
        return mp.npdf(u) * (p * (p / q) ** power - (1 + power) * p + power * q)

    last = float((1 + c) * pair.observed.shift) + 14
    cuts = [
        -14,
        -6,
        -3,
        -1,
        0,
        1,
        3,
        6,
        *np.linspace(7, max(last, 8), 8),
        *(centre + np.array([-16, -6, -2, 0, 2, 6])) * (centre < 0),
    ]
    return mp.log1p(mp.quad(gain, sorted(set(cuts))))


@pytest.mark.parametrize("kind", ["remove", "add", "both"])
@pytest.mark.parametrize(
    ("rate", "noise", "c"),
    [(1e-4, 0.8, 0.3), (1e-3, 0.5, 7.5), (0.05, 4, 1.0), (0.5, 1, 12.25), (0.95, 20, 40.0)],
)
def test_moments_of_normals_are_a_hair_above_the_truth(
    kind: str, rate: float, noise: float, c: float
) -> None:
    law = Mixture(Noise.NORMAL, Fraction(rate), Fraction(1 / noise))
    plain = remove(Noise.NORMAL, rate, 1 / noise)
    pair = {"remove": plain, "add": plain.reverse, "both": ShiftPair(law, law.mirrored)}[kind]
    excess = float(mpf(log_moment_above(pair, c)) / exact_moment(pair, c) - 1)
    assert 0 <= excess <= 2e-12


@pytest.mark.parametrize(
    ("rate", "noise", "order"), list(product([1e-5, 1e-3, 0.05, 0.5, 0.999], [0.6, 4, 50], [2, 3, 17, 200]))
)
def test_whole_orders_of_sampled_gaussians_are_the_finite_sum(rate: float, noise: float, order: int) -> None:
    """Mironov, Talwar and Zhang 2019: A_a = sum_j C(a,j) (1-g)^{a-j} g^j e^{(j^2-j)/(2 s^2)}."""
    terms = [
        mp.binomial(order, j)
        * (1 - mpf(rate)) ** (order - j)
        * mpf(rate) ** j
        * mp.exp((j * j - j) / (2 * mpf(noise) ** 2))
        for j in range(order + 1)
    ]
    truth = mp.log(mp.fsum(terms))
    excess = float(mpf(log_moment_above(remove(Noise.NORMAL, rate, 1 / noise), order - 1.0)) / truth - 1)
    assert -1e-18 <= excess <= 1e-9  # 1e-9: where the loss is 1e-13 in all, the tails charged are 1e-24 of 1


@pytest.mark.parametrize(("scale", "order"), list(product([0.2, 1, 30], [1.001, 1.5, 2, 9, 300])))
def test_unsampled_laplace_has_its_closed_form(scale: float, order: float) -> None:
    """Mironov 2017, Table II."""
    a, d = mpf(order), 1 / mpf(scale)
    truth = mp.log((a * mp.exp((a - 1) * d) + (a - 1) * mp.exp(-a * d)) / (2 * a - 1)) / (a - 1)
    found = renyi(laplace(scale, EVERY, 1)).divergence(order).upper
    assert -1e-13 <= float(found / truth - 1) <= 1e-10


@pytest.mark.parametrize("c", [1e-3, 0.5, 1.0, 30.0])
@pytest.mark.parametrize("noise", list(Noise))
def test_an_envelope_has_the_moments_of_its_two_halves(noise: Noise, c: float) -> None:
    rate, shift = 0.2, 0.7
    middle = shift / 2
    density = mp.npdf if noise is Noise.NORMAL else (lambda u: mp.exp(-abs(u)) / 2)

    def gain(u: mpf) -> mpf:
        exponent = shift * u - mpf(shift) ** 2 / 2 if noise is Noise.NORMAL else abs(u) - abs(u - shift)
        loss = mp.log(1 - mpf(rate) + mpf(rate) * mp.exp(exponent))
        up, down = mp.expm1(c * loss) + c * mp.expm1(-loss), mp.expm1(-c * loss) + c * mp.expm1(loss)
        return density(u) * (mp.exp(loss) * up + down)

    cuts = (
        [middle, shift, 1, 2, 4, 8, 16, 40, 80]
        if noise is Noise.LAPLACE
        else [middle, 1, 2, 4, 8, 14, 20, 30, 45]
    )
    truth = mp.log1p(mp.quad(gain, cuts))
    excess = float(mpf(log_moment_above(Envelope(remove(noise, rate, shift)), c)) / truth - 1)
    assert 0 <= excess <= 2e-12


def test_finite_supports_with_outputs_of_their_own() -> None:
    forth = FinitePair(*(FiniteSupport(tuple(map(Fraction, masses))) for masses in LOPSIDED))
    for pair, c in product((forth, forth.reverse), (1e-3, 0.5, 7.0, 500.0)):
        levels = [
            (mpf(p.numerator) / p.denominator, mpf(q.numerator) / q.denominator) for p, q in pair.levels
        ]
        truth = mp.log(mp.fsum(p * (p / q) ** mpf(c) for p, q in levels))
        assert 0 <= float((log_moment_above(pair, c) - truth) / abs(truth)) <= 2e-12


@pytest.mark.parametrize("c", [0.3, 7.0, 51.43, 200.0])
def test_little_mass_that_both_laws_share_is_not_lost_by_rounding(c: float) -> None:
    share = Fraction(1e-5)
    own = [(share, share * 3 / 2), (1 - share, Fraction(0)), (Fraction(0), 1 - share * 3 / 2)]
    pair = FinitePair(FiniteSupport(tuple(p for p, _ in own)), FiniteSupport(tuple(q for _, q in own)))
    truth = mp.log(mpf(share.numerator) / share.denominator) + mpf(c) * mp.log(mpf(2) / 3)
    assert 0 <= float((log_moment_above(pair, c) - truth) / abs(truth)) <= 1e-13


def test_a_bound_near_delta_1_is_above_the_certified_lower_end() -> None:
    rare = finite([1e-8, 1 - 1e-8, 0.0], [1.1e-8, 0.0, 1 - 1.1e-8], EVERY, 1)
    run = rare + finite([0.999, 0.001], [0.001, 0.999], EVERY, 1)
    certain = tr.epsilon(run, delta=0.9999999901, relation=tr.ADD)
    assert renyi(run, tr.ADD).epsilon(0.9999999901).upper >= certain.lower


@pytest.mark.parametrize(("rate", "shift", "c"), [(0.42, 8.35, 1.0), (0.1, 6.0, 3.0), (1e-9, 5e-5, 0.0056)])
def test_far_apart_and_hardly_sampled_laws_keep_their_digits(rate: float, shift: float, c: float) -> None:
    pair = remove(Noise.NORMAL, rate, shift).reverse
    with mp.workdps(50):
        truth = exact_moment(pair, c, -shift)
        assert 0 <= float(mpf(log_moment_above(pair, c)) / truth - 1) <= 1e-10


@pytest.mark.parametrize("c", [0.01, 1.0, 6.5, 300.0])
def test_closed_forms_bound_what_no_quadrature_resolves(c: float) -> None:
    normal, double = remove(Noise.NORMAL, 0.05, 0.9), remove(Noise.LAPLACE, 0.3, 0.8)
    both = ShiftPair(normal.observed, normal.observed.mirrored)
    for pair in (normal, normal.reverse, both, Envelope(normal), double, double.reverse, Envelope(double)):
        assert log_moment_above(pair, c) <= ceil_float(log_moment_bound(pair, Fraction(c)))
    far = log_moment_above(normal, 300.0)
    assert ceil_float(log_moment_bound(normal, Fraction(300))) == pytest.approx(far, rel=1e-9)
    assert renyi(gaussian(1e-4, poisson(0.01), 3)).epsilon(0.05).upper < math.inf
    for pair in (double, double.reverse):
        assert log_moment_above(pair, 1e8) == pytest.approx(1e8 * pair.loss_range[1], rel=1e-6)


def test_central_moments_of_normals() -> None:
    for separation, power in product((0.01, 0.5, 3.0), (2, 4, 30)):
        with mp.workdps(120):
            s = mpf(separation)
            truth = mp.log(
                mp.fsum(
                    (-1) ** i * mp.binomial(power, i) * mp.exp((power - i) * (power - i - 1) * s**2 / 2)
                    for i in range(power + 1)
                )
            )
        low, high = float_ends(central_moment(Fraction(separation), power).log())
        assert low <= truth <= high
        assert high - low <= 1e-12 * abs(high)


def test_between_whole_orders_lies_the_chord() -> None:
    far = Amplified(remove(Noise.NORMAL, 1.0, 0.01), Fraction(1e-4), ANY_NOISE)
    terms = [
        mp.binomial(904, j) * mpf(1e-4) ** j * mp.exp(j * (j - 1) * mpf(0.01) ** 2 / 2) * 2
        for j in range(3, 905)
    ]
    second = (
        mp.binomial(904, 2) * mpf(1e-4) ** 2 * min(4 * mp.expm1(mpf(0.01) ** 2), 2 * mp.exp(mpf(0.01) ** 2))
    )
    truth = mp.log1p(second + mp.fsum(terms))
    assert 0 <= float(mpf(amplified_log_moment_above(far, 903.0)) / truth - 1) <= 1e-11
    step = Amplified(remove(Noise.NORMAL, 1.0, 0.5), Fraction(0.05), GAUSSIAN_NOISE)
    two, three = amplified_log_moment_above(step, 1.0), amplified_log_moment_above(step, 2.0)
    assert amplified_log_moment_above(step, 1.25) == pytest.approx(0.75 * two + 0.25 * three)
    assert amplified_log_moment_above(step, 0.5) == pytest.approx(0.5 * two)
    loose = Amplified(step.base, step.exact_rate, ANY_NOISE)
    assert amplified_log_moment_above(loose, 9.0) > amplified_log_moment_above(step, 9.0)


# -- the peers ------------------------------------------------------------------------------------------

GRID = list(product([1e-3, 0.05, 0.5, 1.0], [0.7, 1, 4, 20], [1, 1000]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("rate", "noise", "steps"), GRID)
def test_dp_accounting_agrees_at_whole_orders_and_is_never_tighter(
    rate: float, noise: float, steps: int
) -> None:
    """At fractional orders dp_accounting bounds a series, up to tens of percent above the divergence."""
    accountant = peer.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), steps)
    curve = renyi(gaussian(noise, poisson(rate), steps))
    for order, theirs in zip(accountant.orders, accountant.rdp, strict=True):
        if (
            not math.isfinite(theirs) or theirs / steps < 1e-7
        ):  # 1e-7: below, its own rounding is more than 1e-9
            continue
        ours = curve.divergence(float(order)).upper
        if order == int(order):
            assert ours == pytest.approx(theirs, rel=1e-9)
        assert ours <= theirs * (1 + 1e-9)
    for delta in (0.1, 1e-5, 1e-12):
        assert curve.epsilon(delta).upper <= accountant.get_epsilon(delta) * 1.001


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.05, 4.0), (0.3, 10.0)])
def test_dp_accounting_agrees_without_replacement_once_the_noise_means_the_same(
    rate: float, noise: float
) -> None:
    """Its noise is relative to how far an exchange moves the sum, which is 2C."""
    step = Amplified(remove(Noise.NORMAL, 1.0, 2 / noise), Fraction(rate), GAUSSIAN_NOISE)
    orders = [1.5, 2, 3, 4, 7.25, 12, 30]
    theirs = peer._compute_rdp_sample_wor_gaussian(rate, noise / 2, orders)
    ours = [RenyiBound([(step, 1)]).divergence(order) for order in orders]
    assert ours == pytest.approx(list(theirs), rel=1e-9)


# -- what follows ---------------------------------------------------------------------------------------


def test_concentrated_privacy_of_known_mechanisms() -> None:
    assert renyi(gaussian(3, EVERY, 12)).zero_concentrated().upper == pytest.approx(12 / 9 / 2, rel=1e-9)
    assert renyi(gaussian(3, poisson(0.1), 12)).zero_concentrated().upper == pytest.approx(
        12 / 9 / 2, rel=1e-9
    )
    truncated = renyi(gaussian(3, poisson(0.1), 12)).zero_concentrated(20.0).upper
    assert truncated < 0.05
    pure = renyi(laplace(1, EVERY, 1)).zero_concentrated().upper
    assert 0.3 < pure <= 0.5  # e^2/2 for e = 1, Bun and Steinke 2016


@pytest.mark.parametrize(
    "run",
    [
        gaussian(3, poisson(0.1), 12),
        laplace(1, EVERY, 5),
        laplace(1, poisson(0.3), 5) + gaussian(2, EVERY, 1),
    ],
)
@pytest.mark.parametrize("largest", [3.0, 50.0, math.inf])
def test_concentrated_privacy_holds_at_every_order_and_is_nearly_reached(run: tr.Run, largest: float) -> None:
    curve = renyi(run)
    rho = curve.zero_concentrated(largest).upper
    orders = 1 + np.geomspace(1e-3, min(largest, 1e6) - 1, 300)
    ratios = [curve.divergence(order).upper / order for order in orders]
    assert max(ratios) <= rho * (1 + 1e-9)
    assert max(ratios) >= rho * 0.98


@pytest.mark.parametrize("run", [gaussian(4, batch(50, 1000), 10), laplace(4, batch(50, 1000), 10)], ids=repr)
@pytest.mark.parametrize("largest", [3.0, 900.0, 1024.0, 1500.0, 5000.0, math.inf])
def test_no_cover_is_concentrated_beyond_the_orders_it_bounds(run: tr.Run, largest: float) -> None:
    """The published bounds end at an order. Beyond it they say nothing, unless the unsampled step does."""
    (branch,) = renyi(run, tr.SUBSTITUTE).branches
    orders = 1 + np.geomspace(1e-3, min(largest, 1e5) - 1, 60)
    for moments, _ in branch.covers:
        rho = moments.zero_concentrated(largest)
        if largest < math.inf:
            assert max(moments.divergence(order) / order for order in orders) <= rho * (1 + 1e-9)
        assert (
            max(branch.covers[0][0].divergence(order) / order for order in orders) <= rho * 1.03
        )  # the envelope's own


@pytest.mark.parametrize(("noise", "steps"), [(100, 1), (1000, 1), (50, 3)])
def test_orders_beyond_a_published_bound_do_not_disturb_the_search(noise: float, steps: int) -> None:
    run = gaussian(noise, batch(1, 1000), steps)
    lower = tr.epsilon(run, delta=1e-9, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.QUICK)).lower
    for bound in renyi(run, tr.SUBSTITUTE).bounds(1e-9)[0]:
        assert lower <= bound.upper < math.inf


def test_a_step_whose_outputs_tell_everything_has_delta_one_and_no_epsilon() -> None:
    """No loss of it is finite, so that there is nothing to plan with."""
    told = tr.Step(tr.Finite(observed=[0.0, 1.0], alternative=[1.0, 0.0]), tr.EveryRecord())
    run = told * 13 + tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()) * 2
    curve = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Renyi())
    assert curve.delta(0.5).upper == 1
    assert curve.epsilon(1e-6).upper == math.inf


def test_infinite_losses_leave_delta_finite() -> None:
    run = finite(*LOPSIDED, EVERY, 3)
    add = renyi(run, tr.REMOVE)  # the record's own output betrays it
    assert add.divergence(2.0).upper == math.inf
    assert add.epsilon(1e-3).upper == math.inf
    assert 1 - (7 / 8) ** 3 <= add.delta(3.0).upper < 1
    assert add.zero_concentrated().upper == math.inf


def test_a_run_that_releases_nothing() -> None:
    curve = renyi(tr.Run())
    assert curve.epsilon(1e-9).upper == 0
    assert curve.delta(0.0).upper == 0


def test_arrays_negative_epsilons_and_because() -> None:
    curve = renyi(gaussian(1, poisson(0.1), 10))
    assert curve.delta(np.array([[0.5, 1.0]])).shape == (1, 2)
    certified = tr.privacy_curve(gaussian(1, poisson(0.1), 10), relation=tr.ADD_OR_REMOVE)
    assert certified.delta(-0.5).lower <= curve.delta(-0.5).upper <= 1
    assert "renyi_bounds_the_curve" in [getattr(e, "name", "") for e in curve.epsilon(1e-5).because]
    for delta in (1e-3, 1e-5, 1e-7):
        found = curve.epsilon(delta)
        assert found.upper <= float(str(found).removeprefix("at most ")) <= found.upper * (1 + 1e-8)
    with pytest.raises(TypeError, match="one-sided"):
        float(curve.epsilon(1e-5))


@pytest.mark.parametrize("order", [1, 0.5, -3, math.nan, "two", None, True])
def test_orders_that_are_none_are_refused(order: object) -> None:
    with pytest.raises(tr.InvalidSetting, match="order must be"):
        renyi(gaussian(1, EVERY, 1)).divergence(order)  # type: ignore[call-overload]
    with pytest.raises(tr.InvalidSetting, match="largest_order must be"):
        renyi(gaussian(1, EVERY, 1)).zero_concentrated(order)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1, -1e-5, math.nan, "small"])
def test_deltas_that_are_none_are_refused(delta: object) -> None:
    with pytest.raises(tr.InvalidSetting, match="delta must be"):
        renyi(gaussian(1, EVERY, 1)).epsilon(delta)  # type: ignore[call-overload]


def test_a_delta_below_epsilon_0_lies_between_neighbouring_floats() -> None:
    rng = np.random.default_rng(0)
    for exponent, log_reversed in zip(
        rng.uniform(-14, 2, 300), -np.exp(rng.uniform(-3, 6, 300)), strict=True
    ):
        epsilon = -(10.0**exponent)
        lower, upper = log_delta_from_reverse(epsilon, float(log_reversed))
        with mp.workdps(200):  # 1 - e^-100 has many nines
            truth = mp.log(-mp.expm1(mpf(epsilon)) + mp.exp(mpf(epsilon) + mpf(float(log_reversed))))
            assert mpf(lower) <= truth <= mpf(upper)
        assert upper - lower <= 4 * math.ulp(lower)
    assert log_delta_from_reverse(-1.0, -math.inf)[0] == pytest.approx(math.log(-math.expm1(-1.0)))
