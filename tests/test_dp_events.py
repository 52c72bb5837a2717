"""Events of dp_accounting as runs and back: round trips, and several releases about one batch."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dp_accounting", reason="dp_accounting is not installed: make training")

import dp_accounting
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    dp_event,
)

import tightrope as tr
from tightrope.integrations.dp_accounting import (
    PER_RECORD,
    PER_SENSITIVITY,
    DpEventAccountant,
    NoiseUnit,
    from_dp_event,
    to_dp_event,
)


def add_or_remove() -> DpEventAccountant:
    return DpEventAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)


def gaussian(noise: float, sampling: Any) -> tr.Step:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling)


# round trips

noises = st.floats(1e-3, 1e3)
samplings = st.one_of(
    st.just(tr.EveryRecord()),
    st.builds(lambda rate: tr.Poisson(rate=rate), st.floats(0, 1)),
    st.builds(
        lambda batch, more: tr.WithoutReplacement(batch=batch, population=batch + more),
        st.integers(0, 99),
        st.integers(1, 99),
    ),
)
additive = st.builds(
    lambda kind, noise: kind(noise_multiplier=noise), st.sampled_from([tr.Gaussian, tr.Laplace]), noises
)
additive_runs = st.lists(
    st.tuples(st.builds(tr.Step, additive, samplings), st.integers(1, 10**6)), max_size=5
).map(lambda parts: tr.Run(tuple(parts)))


@given(
    additive_runs,
    st.sampled_from([tr.ADD_OR_REMOVE, tr.ADD, tr.REMOVE, tr.SUBSTITUTE]),
    st.sampled_from(NoiseUnit),
)
def test_a_run_survives_becoming_an_event(run: tr.Run, relation: tr.Relation, noise: NoiseUnit) -> None:
    event = to_dp_event(run, relation, noise=noise)
    assert from_dp_event(event, relation, noise=noise) == run
    assert to_dp_event(from_dp_event(event, relation, noise=noise), relation, noise=noise) == event
    assert dp_event.DpEvent.from_named_tuple(event.to_named_tuple()) == event


@given(st.floats(0.5, 1))
def test_randomized_response_survives_becoming_an_event(truth: float) -> None:
    run = tr.Step(tr.RandomizedResponse(truth_probability=truth), tr.EveryRecord()) * 3
    assert (
        from_dp_event(to_dp_event(run, tr.SUBSTITUTE, noise=PER_RECORD), tr.SUBSTITUTE, noise=PER_RECORD)
        == run
    )


@given(st.floats(0, 1))
def test_a_report_is_read_exactly(noise: float) -> None:
    ((step, _),) = from_dp_event(RandomizedResponseDpEvent(noise, 2), tr.SUBSTITUTE, noise=PER_RECORD).parts
    assert isinstance(step.mechanism, tr.RandomizedResponse)
    assert (1 - step.mechanism.exact_truth_probability) * 2 == noise
    assert to_dp_event(step, tr.SUBSTITUTE, noise=PER_RECORD) == RandomizedResponseDpEvent(noise, 2)


@given(st.floats(1e-300, 1))
def test_a_batch_without_noise_is_revealed_with_its_exact_probability(rate: float) -> None:
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(0.0))
    ((step, _),) = from_dp_event(event, tr.SUBSTITUTE, noise=PER_RECORD).parts
    assert isinstance(step.mechanism, tr.Finite)
    missed, drawn, never = step.mechanism.exact_observed
    assert missed + drawn == 1
    assert drawn == rate
    assert never == 0


def test_fractions_that_no_event_holds_are_refused() -> None:
    third = tr.Poisson(rate=Fraction(1, 3))
    with pytest.raises(tr.InvalidSetting, match=r"rate must be a float to become an event"):
        to_dp_event(tr.Step(tr.Gaussian(noise_multiplier=1), third))


def test_what_no_event_can_say_is_refused() -> None:
    assert to_dp_event(tr.Run(), tr.ADD_OR_REMOVE) == NoOpDpEvent()
    revealed = from_dp_event(NonPrivateDpEvent(), tr.ADD_OR_REMOVE)
    assert to_dp_event(revealed, tr.ADD_OR_REMOVE) == NonPrivateDpEvent()
    finite = tr.Step(tr.Finite(observed=[0.5, 0.5], alternative=[0.25, 0.75]), tr.EveryRecord())
    response = tr.Step(tr.RandomizedResponse(truth_probability=0.25), tr.EveryRecord())
    for run, relation, why in (
        (finite, tr.ADD_OR_REMOVE, "got Step.Finite"),
        (response, tr.ADD_OR_REMOVE, "got Step.RandomizedResponse"),
        (response, tr.SUBSTITUTE, "truth_probability must be at least 1/2"),
    ):
        with pytest.raises(tr.InvalidSetting, match=why):
            to_dp_event(run, relation, noise=PER_RECORD)
    with pytest.raises(tr.InvalidSetting, match="noise must be"):
        to_dp_event(finite, tr.SUBSTITUTE)


def test_scalars_of_array_libraries_are_numbers() -> None:
    event = PoissonSampledDpEvent(np.float64(0.1), GaussianDpEvent(np.array(2.0)))
    assert from_dp_event(event, tr.ADD_OR_REMOVE) == gaussian(2, tr.Poisson(rate=0.1)) * 1


# several releases about one batch


def test_gaussians_on_one_batch_are_one_gaussian() -> None:
    joint = ComposedDpEvent([GaussianDpEvent(3.0), SelfComposedDpEvent(GaussianDpEvent(4.0), 1)])
    ((step, times),) = from_dp_event(PoissonSampledDpEvent(0.1, joint), tr.ADD_OR_REMOVE).parts
    assert isinstance(step.mechanism, tr.Gaussian)
    assert times == 1
    assert 2.4 * (1 - 1e-15) < step.mechanism.noise_multiplier <= 2.4
    theirs = (
        dp_accounting.rdp.RdpAccountant().compose(PoissonSampledDpEvent(0.1, joint), 50).get_epsilon(1e-6)
    )
    assert (
        0.7 * theirs
        < add_or_remove().compose(PoissonSampledDpEvent(0.1, joint), 50).get_epsilon(1e-6)
        < theirs
    )


def test_one_batch_read_twice_is_not_two_batches() -> None:
    twice = SelfComposedDpEvent(GaussianDpEvent(1.0), 2)
    one_batch = add_or_remove().compose(PoissonSampledDpEvent(0.01, twice), 100).epsilon_bracket(1e-6)
    two_batches = (
        add_or_remove().compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 200).epsilon_bracket(1e-6)
    )
    assert two_batches.upper < one_batch.lower


def test_their_accountant_forgets_all_but_one_release_when_the_noise_is_an_int() -> None:
    # why the joint noise is not left to dp_accounting: 0.6 returns the first int it meets as the noise of the
    # whole
    whole, real = (
        PoissonSampledDpEvent(0.01, SelfComposedDpEvent(GaussianDpEvent(noise), 100)) for noise in (1, 1.0)
    )
    theirs = [
        dp_accounting.rdp.RdpAccountant().compose(event, 10).get_epsilon(1e-6) for event in (whole, real)
    ]
    assert theirs[0] < theirs[1] / 100
    assert from_dp_event(whole, tr.ADD_OR_REMOVE) == from_dp_event(real, tr.ADD_OR_REMOVE)


@given(st.floats(0.3, 3), st.floats(0.3, 3), st.floats(0, 3))
def test_coordinates_of_a_laplace_release_lose_less_than_one_that_moves_as_far(
    first: float, second: float, epsilon: float
) -> None:
    # LaplaceDpEvent bounds the l1 norm of a vector; docs/interop.md proves that one coordinate is its worst
    # case
    coordinates = sum(
        (tr.Step(tr.Laplace(noise_multiplier=1 / move), tr.EveryRecord()) * 1 for move in (first, second)),
        tr.Run(),
    )
    together = tr.Step(tr.Laplace(noise_multiplier=1 / (first + second)), tr.EveryRecord())
    split = tr.delta(coordinates, epsilon=epsilon, relation=tr.REMOVE, by=tr.Certified(accuracy=1e-2))
    assert split.lower <= tr.delta(together, epsilon=epsilon, relation=tr.REMOVE).upper


def test_an_event_needs_no_relation_where_noise_is_per_record() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.WithoutReplacement(batch=5, population=100)) * 7
    assert from_dp_event(to_dp_event(run), tr.SUBSTITUTE, noise=PER_RECORD) == run
    assert from_dp_event(to_dp_event(run), tr.ADD_OR_REMOVE) == run
    with pytest.raises(tr.InvalidSetting, match="relation must be given for noise=PER_SENSITIVITY"):
        to_dp_event(run, noise=PER_SENSITIVITY)
