"""Two batches and an exchanged record: a pass is one release of normal noise."""

import math
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import pytest

import tightrope as tr
from tightrope.engines.face import ABOVE, BELOW
from tightrope.engines.resolve import settle_two_batches
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair


def passes(noise: float, count: int, batches: int = 2) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches)) * (batches * count)


@pytest.mark.parametrize("noise", [0.05, 0.28, 0.7, 1.0, 4.0])  # also where no lattice reaches
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 2.2e-13])
@pytest.mark.parametrize("count", [1, 2, 100])
def test_passes_of_two_batches_are_a_gaussian_release(noise: float, delta: float, count: int) -> None:
    found = tr.epsilon(passes(noise, count), delta=delta, relation=tr.SUBSTITUTE)
    with mpmath.workdps(40):
        mu = mpmath.sqrt(2 * count) / mpmath.mpf(noise)

        def curve(epsilon: float) -> mpmath.mpf:
            near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far)

        assert curve(found.upper) <= delta <= curve(found.lower)
    assert found.upper - found.lower <= 1e-6 * found.upper


def test_the_ratio_of_a_pass_is_that_of_the_sum_of_its_outputs() -> None:
    noise, first, second = 0.8, 0.3, -1.7

    def density(moved: float) -> float:
        parts = [
            math.exp(-((first - moved) ** 2 + second**2) / (2 * noise**2)),
            math.exp(-(first**2 + (second - moved) ** 2) / (2 * noise**2)),
        ]
        return sum(parts) / 2

    loss = math.log(density(1.0) / density(-1.0))
    assert loss == pytest.approx((first + second) / noise**2, rel=1e-12)


def test_what_was_known_before_holds_the_same_curve() -> None:
    pair = Allocation(ShiftPair.of_normals(Fraction(20, 17)), 2, 2, is_exchanged=True)
    found = tr.epsilon(passes(0.85, 1), delta=2.2e-13, relation=tr.SUBSTITUTE)
    assert 13.049526 < found.lower <= found.upper < 13.049530  # by a line integral over the same pass
    ((wider, _),) = settle_two_batches(Schedule([(pair, 1)]), ABOVE)
    ((closer, _),) = settle_two_batches(Schedule([(pair, 1)]), BELOW)
    assert closer.exact_gaussian_separation is not None
    assert wider.exact_gaussian_separation is not None
    assert (
        closer.exact_gaussian_separation**2 < 2 * Fraction(20, 17) ** 2 < wider.exact_gaussian_separation**2
    )


def test_begun_passes_and_longer_ones_are_left_as_they_are() -> None:
    for batches, released in ((2, 1), (3, 3)):
        pair = Allocation(ShiftPair.of_normals(Fraction(1)), batches, released, is_exchanged=True)
        assert settle_two_batches(Schedule([(pair, 2)]), ABOVE) == Schedule([(pair, 2)])


def test_a_run_that_mixes_them_with_other_steps_is_told_closely() -> None:
    run = passes(1.0, 2) + tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()) * 3
    found = tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE)
    assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize("batches", [2, 10, 10**6])
@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.SUBSTITUTE], ids=str)
def test_one_batch_of_a_pass_is_a_poisson_batch(batches: int, relation: tr.Relation) -> None:
    noise = tr.Gaussian(noise_multiplier=0.29)
    begun = tr.Step(noise, tr.BallsInBins(batches=batches))
    poisson = tr.Step(noise, tr.Poisson(rate=Fraction(1, batches)))
    for delta in (1e-8, 1e-60):
        found = tr.epsilon(begun, delta=delta, relation=relation)
        assert found == tr.epsilon(poisson, delta=delta, relation=relation)


def test_an_odd_number_of_batches_is_passes_and_a_poisson_batch() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=0.7), tr.BallsInBins(batches=2))
    half = tr.Step(tr.Gaussian(noise_multiplier=0.7), tr.Poisson(rate=0.5))
    passes_and_more = tr.epsilon(step * 3, delta=1e-6, relation=tr.SUBSTITUTE)
    assert passes_and_more == tr.epsilon(step * 2 + half, delta=1e-6, relation=tr.SUBSTITUTE)
    assert passes_and_more.relative_width < 1e-6


def test_the_limit_of_two_batches_is_the_run_itself() -> None:
    run = passes(0.5, 2)
    limit = tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE, by=tr.GaussianLimit())
    assert limit.value == pytest.approx(tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE).upper, rel=1e-6)
