"""Claims that were once false, each attacked with a reference that shares nothing with the engines."""

import math
from fractions import Fraction

import pytest

import tightrope as tr
from precise import mp, mpf
from tightrope.numerics.floats import exact_log_ratio
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

# Inputs


def test_a_finite_mechanism_may_be_given_by_iterators() -> None:
    observed, alternative = [0.9, 0.1], [0.1, 0.9]
    listed = tr.Finite(observed=observed, alternative=alternative)
    read_once = tr.Finite(observed=iter(observed), alternative=map(float, alternative))  # type: ignore[arg-type]
    assert read_once == listed
    step = tr.Step(read_once, tr.EveryRecord())
    assert tr.delta(step, epsilon=0, relation=tr.REMOVE).upper >= 0.8


@pytest.mark.parametrize("rate", [5e-324, Fraction(1, 10**400), 1 - Fraction(1, 10**400), 1e-301])
def test_a_rate_that_no_normal_float_holds_is_refused(rate: float | Fraction) -> None:
    """With 10^15 steps at rate 5e-324, epsilon 0 was said to hold at delta 1e-318; the truth is 8e-317."""
    with pytest.raises(tr.InvalidSetting, match=r"rate must be 0, 1, or 1e-300 away from both"):
        tr.Poisson(rate=rate)


def test_the_smallest_rate_is_accounted_for() -> None:
    for noise in (1.0, 1e8):
        step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=1e-300))
        with mp.workdps(60):
            truth = mpf(1e-300) * mp.erf(1 / mpf(noise) / mp.sqrt(8))
            found = tr.delta(step, epsilon=0, relation=tr.REMOVE)
            assert found.lower <= truth <= found.upper


@pytest.mark.parametrize("noise", [1e9 - 10**i for i in range(8)])
def test_the_union_bound_holds_where_it_underflows(noise: float) -> None:
    pair = ShiftPair(Mixture(Noise.NORMAL, Fraction(1e-300), 1 / Fraction(noise)), Mixture(Noise.NORMAL))
    with mp.workdps(60):
        truth = mpf(1e-300) * mp.erf(1 / mpf(noise) / mp.sqrt(8))
        assert pair.total_variation >= truth


def test_a_number_without_an_exact_value_is_refused() -> None:
    for make in (lambda x: tr.Gaussian(noise_multiplier=x), lambda x: tr.Poisson(rate=x)):
        with pytest.raises(tr.InvalidSetting, match="must be a real number"):
            make(mpf("0.8"))


def test_probabilities_that_floats_cannot_tell_apart_are_refused_and_not_taken_for_equal() -> None:
    half, tiny = Fraction(1, 2), Fraction(1, 10**400)
    nearly = tr.Step(tr.RandomizedResponse(truth_probability=half + tiny), tr.EveryRecord())
    with pytest.raises(tr.NotPreciseEnough, match="which no float tells"):
        tr.delta(nearly * 3, epsilon=0, relation=tr.REMOVE)
    with pytest.raises(tr.NotPreciseEnough, match="which no float tells"):
        tr.epsilon(nearly * 3, delta=1e-6, relation=tr.REMOVE)
    assert exact_log_ratio(half, half) == 0
    assert exact_log_ratio(half + Fraction(1, 2**900), half) == 2.0**-899


# Masses


@pytest.mark.parametrize("steps", [1, 2001, 10**6])
def test_steps_that_share_no_output_have_no_finite_epsilon(steps: int) -> None:
    revealing = tr.Step(tr.RandomizedResponse(truth_probability=1), tr.EveryRecord())
    assert tr.epsilon(revealing * steps, delta=1e-6, relation=tr.REMOVE) == tr.Bracket(math.inf, math.inf)


def test_a_single_finite_loss_may_come_any_number_of_times() -> None:
    """The logarithms of 10^15 factorials were asked for, of which none is needed."""
    rate, steps = Fraction(1, 10**18), 10**15
    revealing = tr.Finite(observed=[1, 0], alternative=[0, 1])
    run = tr.Step(revealing, tr.Poisson(rate=rate)) * steps
    with mp.workdps(60):
        stays = mp.exp(steps * mp.log1p(-mpf(rate.numerator) / rate.denominator))
        found = tr.delta(run, epsilon=0, relation=tr.REMOVE)
        assert found.lower <= 1 - stays <= found.upper
        found = tr.delta(run, epsilon=1e-4, relation=tr.ADD)
        assert found.lower <= max(1 - mp.exp(mpf(1e-4)) * stays, 0) <= found.upper


def _envelope_tail(rate: float, shift: float, loss: float) -> mpf:
    """P(loss of the envelope > `loss`) for `loss` < 0: that of the add pair, (plain, mix)."""
    g, s = mpf(rate), mpf(shift)
    y = (mp.exp(-loss) - 1 + g) / g  # -ln(1 - g + g e^(2x - s)) > loss
    x = (mp.log(y) + s) / 2
    return 1 - mp.exp(-x) / 2 if x < s else mpf(1)


@pytest.mark.parametrize(("rate", "shift"), [(0.01, 0.001), (0.5, 0.1), (0.9, 2.0)])
def test_no_loss_near_the_top_of_an_envelope_is_forgotten(rate: float, shift: float) -> None:
    laws = Mixture(Noise.LAPLACE, Fraction(rate), Fraction(shift)), Mixture(Noise.LAPLACE)
    envelope = ShiftPair(*laws).envelope
    top = envelope.loss_range[1]
    with mp.workdps(40):
        for share in (1.05, 1.3, 1.9):
            truth = mp.log(_envelope_tail(rate, shift, top - share * top))
            assert envelope.log_masses_at_top(share * top)[1] >= truth
    assert envelope.log_masses_at_top(top / 2)[1] < 0
    assert Schedule([(envelope, 3)]).is_bounded


# Curves that are asked many questions


@pytest.mark.parametrize("relation", [tr.SUBSTITUTE, tr.ADD])
def test_a_kept_contour_is_not_asked_where_its_angles_overflow(relation: tr.Relation) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.7), tr.Poisson(rate=Fraction(1, 3))) * 10
    curve = tr.privacy_curve(run, relation=relation)
    near = curve.delta(1.0)
    for epsilon in (1e300, 1.7e308):
        if relation is tr.ADD:  # every loss is below 10 ln(3/2)
            assert curve.delta(epsilon) == tr.Bracket(0.0, 0.0)
            continue
        with pytest.raises(tr.NotPreciseEnough):
            curve.delta(epsilon)
    assert curve.delta(1.0) == near
