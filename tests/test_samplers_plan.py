"""A plan in records, batch and epochs is drawn as it says, in one pass."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from tightrope.samplers import (
    BallsInBinsSampler,
    PoissonSampler,
    TruncatedPoissonSampler,
    WithoutReplacementSampler,
    sampler_of,
)

MNIST: dict[str, Any] = {"records": 60_000, "batch": 256, "epochs": 30}
SMALL: dict[str, Any] = {"records": 100, "batch": 8, "epochs": 2}


@given(
    records=st.integers(1, 10**6),
    batch=st.integers(1, 10**4),
    epochs=st.fractions(Fraction(1, 100), 100, max_denominator=100),
    kind=st.sampled_from([tr.Poisson, tr.WithoutReplacement]),
)
def test_what_is_drawn_is_what_the_plan_accounts(
    records: int, batch: int, epochs: Fraction, kind: Any
) -> None:
    plan = tr.Training(records=records, batch=min(batch, records), epochs=epochs, sampling=kind)
    sampler = sampler_of(plan)
    assert (sampler.records, sampler.sampling, len(sampler)) == (plan.records, plan.sampling, plan.steps)
    assert sampler.expected_batch == plan.batch


@pytest.mark.parametrize(
    ("kind", "sampler", "steps"),
    [
        (tr.Poisson, PoissonSampler, 25),
        (tr.WithoutReplacement, WithoutReplacementSampler, 25),
        (
            tr.TruncatedPoisson(rate=Fraction(8, 100), at_most=9, population=100),
            TruncatedPoissonSampler,
            25,
        ),
        (tr.BallsInBins, BallsInBinsSampler, 26),  # an epoch has 12.5 batches of 8, so 13
    ],
)
def test_one_pass_is_the_run_of_the_plan(kind: Any, sampler: type, steps: int) -> None:
    plan = tr.Training(**SMALL, sampling=kind)
    drawn = sampler_of(plan)
    assert isinstance(drawn, sampler)
    assert len(list(drawn)) == plan.steps == steps
    noise = tr.Gaussian(noise_multiplier=1.1)
    assert drawn.run(noise) == plan.run(noise)


@given(
    records=st.integers(1, 10**5),
    batch=st.integers(1, 10**4),
    epochs=st.fractions(Fraction(1, 100), 100, max_denominator=100),
)
def test_bins_are_as_many_as_batches_of_that_size_take_and_hold_no_more_on_average(
    records: int, batch: int, epochs: Fraction
) -> None:
    plan = tr.Training(records=records, batch=min(batch, records), epochs=epochs, sampling=tr.BallsInBins)
    sampler = sampler_of(plan)
    assert (sampler.records, sampler.sampling, len(sampler)) == (plan.records, plan.sampling, plan.steps)
    assert isinstance(plan.sampling, tr.BallsInBins)
    assert (plan.sampling.batches - 1) * plan.batch < records <= plan.sampling.batches * plan.batch
    assert plan.steps - 1 < epochs * plan.sampling.batches <= plan.steps
    assert sampler.expected_batch <= plan.batch


def test_a_seed_is_handed_on_and_none_means_the_entropy_of_the_system() -> None:
    plan = tr.Training(**SMALL, sampling=tr.Poisson)
    once, again = ([batch.tolist() for batch in sampler_of(plan, seed=7)] for _ in range(2))
    assert once == again
    with pytest.raises(tr.InvalidSetting, match="seed must be given"):
        sampler_of(plan).batch_at(0)


def test_full_batches_need_no_sampler_and_a_rate_is_no_plan() -> None:
    with pytest.raises(tr.InvalidSetting, match="plan must draw its batches") as refused:
        sampler_of(tr.Training(records=500, epochs=7, sampling=tr.EveryRecord))
    assert str(refused.value).endswith(
        "got 7 steps: 7 epochs of 1 batch; each batch holds all 500 records. "
        "Nothing is drawn at random: take every record."
    )
    with pytest.raises(tr.InvalidSetting, match="plan must be a Training"):
        sampler_of(tr.Poisson(rate=0.1))  # type: ignore[arg-type]


def test_a_sampler_of_an_exact_rate_is_written_so_that_python_reads_it() -> None:
    written = repr(sampler_of(tr.Training(**MNIST, sampling=tr.Poisson)))
    assert written == "PoissonSampler(records=60000, rate=Fraction(8, 1875), steps=7032, drawn=0)"
    read = eval(written, {"PoissonSampler": PoissonSampler, "Fraction": Fraction})
    assert read.sampling.exact_rate == Fraction(256, 60_000)


def test_the_state_of_a_planned_sampler_goes_on_in_another() -> None:
    plan = tr.Training(**SMALL, sampling=tr.Poisson)
    first, second = sampler_of(plan, seed=3), sampler_of(plan, seed=3)
    list(first)
    second.load_state_dict(first.state_dict())
    assert second.drawn == 25
