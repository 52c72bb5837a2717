"""A private size is too high as rarely as it says, costs what it says, and bounds what is run on it."""

import math
import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import opendp.mod as mod
import pytest

import tightrope as tr
from precise import mp, mpf
from tightrope.answers.private_size import PrivateSize, least_shift, private_size
from tightrope.numerics.confidence import Sample, chernoff
from tightrope.setting.mechanism import Mechanism

LAWS = [(0.1, 0.05), (0.1, 1e-6), (1.0, 1e-6), (3.0, 0.2), (0.01, 1e-9), (20.0, 0.4), (0.5, 0.9)]


def masses(epsilon: float, furthest: int) -> dict[int, mpf]:
    """The two-sided geometric law by its definition, normalised by adding up what is not negligible."""
    weights = {z: mp.exp(-mpf(epsilon) * abs(z)) for z in range(-furthest, furthest + 1)}
    total = sum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


@pytest.mark.parametrize(("epsilon", "beta"), LAWS)
def test_the_shift_is_the_smallest_that_noise_exceeds_with_probability_at_most_beta(
    epsilon: float, beta: float
) -> None:
    shift = least_shift(epsilon=epsilon, beta=beta)
    law = masses(epsilon, shift + math.ceil(60 / epsilon))

    def above(bound: int) -> mpf:
        return sum((mass for z, mass in law.items() if z > bound), mpf(0))

    assert above(shift) <= beta
    assert shift == 0 or above(shift - 1) > beta
    size = PrivateSize(estimate=0, epsilon=epsilon, beta=beta, shift=shift)
    assert size.chance_above == pytest.approx(float(above(shift)), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 0.1, 1.0, 5.0, 30.0])
def test_the_step_that_stands_for_the_release_costs_at_least_its_epsilon_and_hardly_more(
    epsilon: float,
) -> None:
    size = PrivateSize(estimate=0, epsilon=epsilon, beta=0.5, shift=least_shift(epsilon=epsilon, beta=0.5))
    mechanism = size.as_step.mechanism
    assert isinstance(mechanism, tr.RandomizedResponse)
    truth = mpf(mechanism.truth_probability)
    assert truth / (1 - truth) >= mp.exp(mpf(epsilon))
    assert truth - 1 / (1 + mp.exp(-mpf(epsilon))) <= 1e-15


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_release_of_the_size_is_dominated_by_that_step(epsilon: float) -> None:
    law = masses(epsilon, math.ceil(60 / epsilon))
    size = PrivateSize(estimate=0, epsilon=epsilon, beta=0.5, shift=least_shift(epsilon=epsilon, beta=0.5))
    curve = tr.privacy_curve(size.as_step, relation=tr.ADD_OR_REMOVE)
    for eps in (0.0, 0.3 * epsilon, 0.9 * epsilon, 0.999 * epsilon):
        divergence = sum(
            max(mass - mp.exp(eps) * law.get(z - 1, mpf(0)), mpf(0))
            for z, mass in law.items()
            if z - 1 in law
        )
        assert divergence <= curve.delta(eps).upper


SETTINGS: list[tuple[Mechanism, int, int]] = [
    (tr.Gaussian(noise_multiplier=1), 10, 100),
    (tr.Laplace(noise_multiplier=3), 5, 20),
    (tr.RandomizedResponse(truth_probability=0.75), 2, 10),
]


@pytest.mark.parametrize(("mechanism", "batch", "steps"), SETTINGS)
@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE])
def test_epsilon_falls_as_the_population_grows(
    mechanism: Mechanism, batch: int, steps: int, relation: tr.Relation
) -> None:
    found = [
        tr.epsilon(
            tr.Step(mechanism, tr.WithoutReplacement(batch=batch, population=population)) * steps,
            delta=1e-4,
            relation=relation,
        )
        for population in (batch + 1, 3 * batch, 10 * batch, 50 * batch)
    ]
    assert all(small.lower > large.upper for small, large in pairwise(found))


# -- the whole procedure, by adding up every outcome ---------------------------------------------------------

TRUTH, COST, BETA, DELTA, PLANNED = 0.9, 0.5, 0.02, 0.08, 6
ANSWERS = ((TRUTH, 1 - TRUTH), (1 - TRUTH, TRUTH))


def training(records: int, larger: bool) -> tuple[float, float]:
    """Randomized response on one record out of `records`, one of which says yes in the larger dataset."""
    rate = 1 / records if larger else 0.0
    no, yes = ANSWERS
    return ((1 - rate) * no[0] + rate * yes[0], (1 - rate) * no[1] + rate * yes[1])


def outcomes(records: int, larger: bool, shift: int) -> dict[tuple[int, int | None], float]:
    """The probability of every size and answer; without an answer where the size is below PLANNED."""
    law = {z: float(mass) for z, mass in masses(COST, 150).items()}
    found: dict[tuple[int, int | None], float] = {}
    for z, mass in law.items():
        size = max(0, records + z - shift)
        answers = enumerate(training(records, larger)) if size >= PLANNED and records > 1 else [(None, 1.0)]
        for answer, probability in answers:
            found[size, answer] = found.get((size, answer), 0.0) + mass * probability
    return found


def neighbours(
    shift: int,
) -> Iterator[tuple[dict[tuple[int, int | None], float], dict[tuple[int, int | None], float]]]:
    for records in range(2, 16):
        more, fewer = outcomes(records, True, shift), outcomes(records - 1, False, shift)
        yield more, fewer
        yield fewer, more


def worst(epsilon: float, shift: int) -> float:
    """The largest divergence of the whole procedure over neighbours of all sizes."""
    return max(
        sum(max(mass - math.exp(epsilon) * other.get(outcome, 0.0), 0.0) for outcome, mass in one.items())
        for one, other in neighbours(shift)
    )


def test_the_whole_procedure_is_as_private_as_is_said_for_datasets_of_every_size() -> None:
    size = PrivateSize(estimate=PLANNED, epsilon=COST, beta=BETA, shift=least_shift(epsilon=COST, beta=BETA))
    whole = size.epsilon_with(tr.RandomizedResponse(truth_probability=TRUTH), batch=1, steps=1, delta=DELTA)
    assert worst(whole.upper, size.shift) <= DELTA
    assert whole.upper <= whole.chosen_after


def test_a_size_that_is_biased_up_would_break_the_promise() -> None:
    size = PrivateSize(estimate=PLANNED, epsilon=COST, beta=BETA, shift=least_shift(epsilon=COST, beta=BETA))
    whole = size.epsilon_with(tr.RandomizedResponse(truth_probability=TRUTH), batch=1, steps=1, delta=DELTA)
    assert worst(whole.upper, -size.shift) > DELTA


def test_composing_the_release_costs_less_than_adding_it() -> None:
    size = PrivateSize(estimate=9_869, epsilon=0.1, beta=1e-6, shift=131)
    whole = size.epsilon_with(tr.Gaussian(noise_multiplier=2), batch=100, steps=1000, delta=1e-5)
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.WithoutReplacement(batch=100, population=9_869))
    alone = tr.epsilon(step * 1000, delta=9e-6, relation=tr.ADD_OR_REMOVE)
    assert alone.upper < whole.upper < whole.chosen_after
    assert whole.chosen_after == pytest.approx(0.1 + alone.upper, rel=1e-9)
    with pytest.raises(TypeError, match=r"\.upper"):
        float(whole)


# -- OpenDP --------------------------------------------------------------------------------------------------


def test_opendp_exceeds_the_true_size_as_often_as_the_law_says() -> None:
    sizes = [private_size(1000, epsilon=0.1, beta=0.05) for _ in range(2000)]
    above = np.array([[float(sum(size.estimate > 1000 for size in sizes))]])
    low, high = chernoff(Sample(np.array([2000.0]), above, above), 1e-9)
    assert low[0] <= sizes[0].chance_above <= high[0]
    mean = sum(size.estimate for size in sizes) / 2000
    assert abs(mean - (1000 - sizes[0].shift)) < 3  # 9 standard deviations of the mean


def test_what_opendp_allows_is_left_as_it_was() -> None:
    before = set(mod.GLOBAL_FEATURES)
    private_size(10, epsilon=1, beta=0.1)
    assert set(mod.GLOBAL_FEATURES) == before
    mod.enable_features("contrib")
    try:
        private_size(10, epsilon=1, beta=0.1)
        assert "contrib" in mod.GLOBAL_FEATURES
    finally:
        mod.GLOBAL_FEATURES.clear()
        mod.GLOBAL_FEATURES.update(before)


def test_a_size_of_nothing_is_not_negative() -> None:
    assert {private_size(0, epsilon=1, beta=1e-6).estimate for _ in range(20)} == {0}


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(tr.TightropeError, match=r"\[opendp\]"):
        private_size(10, epsilon=1, beta=0.1)


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "wanted", "told"),
    [
        (-1, {}, "records must be at least 0"),
        (1.5, {}, "records must be a whole number"),
        (True, {}, "records must be a whole number"),
        (10**16, {}, r"records must be at most 1e\+15"),
        (10, {"epsilon": 0}, "epsilon must be above 0"),
        (10, {"epsilon": 31}, "epsilon must be from 1e-09 to 30"),
        (10, {"epsilon": math.nan}, "epsilon must be finite"),
        (10, {"beta": 0}, r"beta must be in \(0, 1\)"),
        (10, {"beta": 1}, r"beta must be in \(0, 1\)"),
        (10, {"batch": 0}, "batch must be at least 1"),
        (10, {"batch": 2.0}, "batch must be a whole number"),
    ],
)
def test_bad_input_is_refused_by_name_before_anything_is_released(
    records: int, wanted: dict[str, float], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)  # a release would be refused for another reason
    with pytest.raises(tr.InvalidSetting, match=told):
        private_size(records, **{"epsilon": 0.1, "beta": 0.05, **wanted})  # type: ignore[arg-type]


def test_an_estimate_that_no_batch_fits_into_is_refused_without_telling_the_true_size() -> None:
    with pytest.raises(tr.InvalidSetting, match="batch must be below the private estimate") as refusal:
        private_size(54_321, epsilon=1, beta=1e-6, batch=60_000)
    assert "54321" not in str(refusal.value)


SIZE = PrivateSize(estimate=100, epsilon=0.1, beta=1e-3, shift=63)
GAUSSIAN = tr.Gaussian(noise_multiplier=1)


def test_a_batch_as_large_as_the_estimate_is_refused() -> None:
    assert SIZE.sampling(99) == tr.WithoutReplacement(batch=99, population=100)
    with pytest.raises(tr.InvalidSetting, match="below the private estimate of the size, 100, got 100"):
        SIZE.sampling(100)


def test_a_delta_that_beta_uses_up_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match=r"delta must be above beta, 0\.001, got 0\.001"):
        SIZE.epsilon_with(GAUSSIAN, batch=10, steps=1, delta=1e-3)


def test_under_substitution_the_size_is_public() -> None:
    with pytest.raises(tr.InvalidSetting, match="the size is public"):
        SIZE.epsilon_with(GAUSSIAN, batch=10, steps=1, delta=0.01, relation=tr.SUBSTITUTE)


def test_a_shift_that_breaks_the_promise_of_beta_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="shift must be at least"):
        PrivateSize(estimate=100, epsilon=0.1, beta=1e-3, shift=SIZE.shift - 2)
