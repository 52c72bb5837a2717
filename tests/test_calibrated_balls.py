"""Calibrated values against delta in balls, which share nothing with the library but the theorems."""

from fractions import Fraction
from typing import Any

import pytest
from flint import arb, ctx, fmpq

import tightrope as tr
from tightrope.answers.calibrate import Calibration
from tightrope.setting.sampling import Sampling

BITS = 8192  # e^epsilon - 1 cancels against tails: some 1.5 bits for each unit of epsilon


def number(x: float | Fraction) -> arb:
    return arb(fmpq(*Fraction(x).as_integer_ratio()))


def tail(x: arb) -> arb:
    """P(N > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def full_batches(noise: arb, distance: int, steps: int, epsilon: arb) -> arb:
    mu = distance * arb(steps).sqrt() / noise
    return tail(epsilon / mu - mu / 2) - epsilon.exp() * tail(epsilon / mu + mu / 2)


def sampled_remove(noise: arb, rate: arb, epsilon: arb) -> arb:
    odds = (epsilon.exp() - 1 + rate) / rate
    at = noise**2 * odds.log() + arb(1) / 2
    return rate * tail((at - 1) / noise) - (epsilon.exp() - 1 + rate) * tail(at / noise)


def sampled_add(noise: arb, rate: arb, epsilon: arb) -> arb:
    odds = ((-epsilon).exp() - 1 + rate) / rate
    if odds <= 0:
        return arb(0)
    at = noise**2 * odds.log() + arb(1) / 2
    neither, moved = tail(-at / noise), tail((1 - at) / noise)
    return neither - epsilon.exp() * ((1 - rate) * neither + rate * moved)


def sampled_substitute(noise: arb, rate: arb, epsilon: arb) -> arb:
    """The losses of mix(0, 1) over mix(0, -1) reach epsilon where a quadratic in w = e^{x / s^2} does."""
    t, c = epsilon.exp(), (-1 / (2 * noise**2)).exp()
    a, b = rate * c, (1 - rate) * (1 - t)
    w = (-b + (b**2 + 4 * a**2 * t).sqrt()) / (2 * a)
    at = noise**2 * w.log()
    near, middle, far = tail((at - 1) / noise), tail(at / noise), tail((at + 1) / noise)
    return (1 - rate) * middle + rate * near - t * ((1 - rate) * middle + rate * far)


def exact_delta(step: tr.Step, steps: int, relation: tr.Relation, epsilon: float) -> arb:
    """delta(epsilon) of Gaussian noise on full batches, or on one Poisson sample."""
    mechanism, sampling = step.mechanism, step.sampling
    assert isinstance(mechanism, tr.Gaussian)
    noise, e = number(mechanism.exact_noise_multiplier), number(epsilon)
    if isinstance(sampling, tr.EveryRecord):
        return full_batches(noise, 2 if relation is tr.SUBSTITUTE else 1, steps, e)
    assert steps == 1
    rate = number(sampling.exact_rate)
    if relation is tr.SUBSTITUTE:
        return sampled_substitute(noise, rate, e)
    found = {tr.ADD: sampled_add, tr.REMOVE: sampled_remove}
    asked = [found[relation]] if relation in found else list(found.values())
    deltas = [ask(noise, rate, e) for ask in asked]
    return deltas[0] if len(deltas) == 1 or deltas[0] >= deltas[1] else deltas[1]


def check_noise(found: Calibration[float], sampling: Sampling, steps: int) -> None:
    target = found.target

    def at(noise: float) -> arb:
        step = tr.Step(tr.Gaussian(noise_multiplier=noise), sampling)
        return exact_delta(step, steps, target.relation, target.epsilon)

    with ctx.workprec(BITS):
        assert at(found.value) <= number(target.delta)
        assert found.beyond is None or at(found.beyond) > number(target.delta)


THIRD: Any = Fraction(1, 3)
NOISES = [
    (tr.EveryRecord(), 1, 1e-3, 1e-6, tr.REMOVE),
    (tr.EveryRecord(), 10**9, 0.5, 1e-300, tr.SUBSTITUTE),
    (tr.EveryRecord(), 7, 1000.0, 1e-12, tr.ADD),
    (tr.EveryRecord(), 1, 1e5, 1e-6, tr.SUBSTITUTE),
    (tr.Poisson(rate=0.5), 1, 720.0, 1e-6, tr.SUBSTITUTE),
    (tr.Poisson(rate=0.5), 1, 720.0, 1e-6, tr.ADD_OR_REMOVE),
    (tr.Poisson(rate=1 - 1e-12), 1, 3.0, 1e-9, tr.ADD),
    (tr.Poisson(rate=THIRD), 1, 0.7, 1e-20, tr.REMOVE),
    (tr.Poisson(rate=1e-6), 1, 0.1, 1e-9, tr.SUBSTITUTE),
]


@pytest.mark.parametrize(("sampling", "steps", "epsilon", "delta", "relation"), NOISES)
def test_the_smallest_noise_meets_the_target_and_the_one_beyond_misses_it(
    sampling: Sampling, steps: int, epsilon: float, delta: float, relation: tr.Relation
) -> None:
    found = tr.smallest_noise(sampling, steps=steps, epsilon=epsilon, delta=delta, relation=relation)
    check_noise(found, sampling, steps)


@pytest.mark.parametrize(
    ("noise", "epsilon", "delta"), [(3.0, 1.0, 1e-6), (0.01, 1e6, 1e-30), (1e4, 2.0, 0.9)]
)
def test_the_most_full_batches_meet_the_target_and_one_more_misses_it(
    noise: float, epsilon: float, delta: float
) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.EveryRecord())
    found = tr.most_steps(step, epsilon=epsilon, delta=delta, relation=tr.ADD_OR_REMOVE)
    with ctx.workprec(BITS):
        if found.value:
            assert exact_delta(step, found.value, tr.REMOVE, epsilon) <= number(delta)
        assert found.beyond is not None
        assert exact_delta(step, found.beyond, tr.REMOVE, epsilon) > number(delta)


@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.SUBSTITUTE])
@pytest.mark.parametrize(("noise", "epsilon", "delta"), [(1.0, 0.5, 1e-6), (0.5, 2.0, 1e-12)])
def test_the_largest_rate_meets_the_target_and_the_one_beyond_misses_it(
    relation: tr.Relation, noise: float, epsilon: float, delta: float
) -> None:
    mechanism = tr.Gaussian(noise_multiplier=noise)
    found = tr.largest_rate(mechanism, steps=1, epsilon=epsilon, delta=delta, relation=relation)
    with ctx.workprec(BITS):
        for rate, meets in ((found.value, True), (found.beyond, False)):
            assert rate is not None
            step = tr.Step(mechanism, tr.Poisson(rate=rate))
            reached = exact_delta(step, 1, relation, epsilon)
            assert reached <= number(delta) if meets else reached > number(delta)
