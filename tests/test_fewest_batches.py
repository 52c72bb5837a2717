"""How few batches a pass may have, and how large batches of balls in bins may be: both sides are certain."""

import math
from typing import Any

import pytest

import tightrope as tr
from tightrope.answers.frontier import Frontier
from tightrope.curve.bracket import Bracket

DELTA = 1e-5
NOISE = tr.Gaussian(noise_multiplier=1)


def spend(
    batches: int, passes: float, relation: tr.Relation, mechanism: tr.Gaussian | tr.Laplace = NOISE
) -> tr.Bracket:
    run = tr.Step(mechanism, tr.BallsInBins(batches=batches)) * math.ceil(passes * batches)
    return tr.epsilon(run, delta=DELTA, relation=relation)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "passes", "relation"),
    [
        (NOISE, 2.0, 1, tr.ADD_OR_REMOVE),
        (tr.Gaussian(noise_multiplier=3), 1.5, 1, tr.SUBSTITUTE),
        (tr.Laplace(noise_multiplier=1), 0.8, 1, tr.REMOVE),
        (tr.Laplace(noise_multiplier=1), 0.8, 1.5, tr.ADD),
    ],
    ids=repr,
)
def test_the_fewest_batches_meet_the_target_and_one_fewer_misses_it(
    mechanism: tr.Gaussian | tr.Laplace, epsilon: float, passes: float, relation: tr.Relation
) -> None:
    found = tr.fewest_batches(mechanism, epochs=passes, epsilon=epsilon, delta=DELTA, relation=relation)
    assert found.parameter == "batches"
    assert found.beyond == found.value - 1
    assert spend(found.value, passes, relation, mechanism).upper <= epsilon
    assert spend(found.beyond, passes, relation, mechanism).lower > epsilon


def test_a_given_number_of_steps_is_cut_into_passes_of_that_many() -> None:
    found = tr.fewest_batches(
        tr.Laplace(noise_multiplier=2), steps=25, epsilon=1.5, delta=DELTA, relation=tr.ADD_OR_REMOVE
    )
    assert found.run == tr.Step(tr.Laplace(noise_multiplier=2), tr.BallsInBins(batches=found.value)) * 25
    assert found.beyond == found.value - 1


def test_one_batch_in_each_pass_is_the_limit() -> None:
    found = tr.fewest_batches(
        tr.Gaussian(noise_multiplier=50), epochs=1, epsilon=2, delta=DELTA, relation=tr.ADD_OR_REMOVE
    )
    assert (found.value, found.beyond) == (1, None)


@pytest.mark.parametrize("records", [40, 997])
def test_the_largest_batches_of_balls_in_bins_are_the_fewest_that_records_can_be_cut_into(
    records: int,
) -> None:
    target: dict[str, Any] = {"epsilon": 1.2, "delta": DELTA, "relation": tr.REMOVE}
    noise = tr.Laplace(noise_multiplier=1)
    largest = tr.largest_batch(noise, population=records, epochs=2, sampling=tr.BallsInBins, **target)
    fewest = tr.fewest_batches(noise, epochs=2, **target)

    def cut(batch: int) -> int:
        return math.ceil(records / batch)

    assert largest.parameter == "batch"
    assert largest.beyond == largest.value + 1
    assert cut(largest.beyond) < fewest.value <= cut(largest.value)
    plan = tr.Training(records=records, batch=largest.value, epochs=2, sampling=tr.BallsInBins)
    assert largest.run == plan.run(noise)


def test_a_target_beyond_every_batch_is_refused() -> None:
    with pytest.raises(tr.errors.Infeasible, match="even a batch of 1 out of 5 misses it"):
        tr.largest_batch(
            NOISE,
            population=5,
            epochs=1,
            sampling=tr.BallsInBins,
            epsilon=0.1,
            delta=1e-9,
            relation=tr.ADD_OR_REMOVE,
        )


@pytest.mark.parametrize(
    ("sampling", "told"),
    [
        (tr.RandomAllocation, "How many batches a record takes is a choice of its own"),
        (tr.TruncatedPoisson, "How many records a batch keeps is a choice of its own"),
        (tr.EveryRecord, "A full batch is as large as the dataset"),
    ],
)
def test_samplings_with_another_number_to_choose_are_refused_with_what_to_do(
    sampling: Any, told: str
) -> None:
    with pytest.raises(tr.InvalidSetting, match=told):
        tr.largest_batch(
            NOISE, population=100, epochs=1, sampling=sampling, epsilon=1, delta=DELTA, relation=tr.ADD
        )


@pytest.mark.parametrize("length", [{}, {"steps": 5, "epochs": 5}])
def test_the_length_is_stated_once(length: dict[str, Any]) -> None:
    with pytest.raises(tr.InvalidSetting, match="steps must be stated, or epochs, and not both"):
        tr.fewest_batches(NOISE, **length, epsilon=1, delta=DELTA, relation=tr.ADD)


@pytest.mark.parametrize("epochs", [0, -1, math.nan, 1e16])
def test_epochs_that_nobody_trains_are_refused(epochs: float) -> None:
    with pytest.raises(tr.InvalidSetting, match="epochs must"):
        tr.fewest_batches(NOISE, epochs=epochs, epsilon=1, delta=DELTA, relation=tr.ADD)


@pytest.mark.parametrize("where", [1, 2, 7, 76, 999, 1000])
@pytest.mark.parametrize("start", [1, 30, 1000])
def test_a_search_among_whole_numbers_of_which_larger_ones_are_safer_ends_at_neighbours(
    where: int, start: int
) -> None:
    def excess(value: int) -> Bracket:
        above = math.log((where - 0.5) / value)
        return Bracket(above, above)

    frontier = Frontier(excess, safest=1000, riskiest=1, close=1e-5)
    frontier.search(start)
    assert frontier.safe == where
    assert frontier.beyond == (where - 1 or None)
    assert frontier.safer(where, 0) == (where + 1 if where < 1000 else None)


def test_what_misses_even_with_as_many_batches_as_there_can_be_is_said_in_whole_numbers() -> None:
    target: dict[str, Any] = {"epsilon": 2, "delta": DELTA, "relation": tr.ADD_OR_REMOVE}
    with pytest.raises(tr.errors.Infeasible, match="even a pass of 1 batch misses it"):
        tr.fewest_batches(tr.Gaussian(noise_multiplier=1), epochs=1e15, **target)


@pytest.mark.parametrize("sampling", [tr.Shuffled, "Shuffled"])
def test_how_large_shuffled_batches_may_be_is_not_asked(sampling: Any) -> None:
    target: dict[str, Any] = {"epsilon": 2, "delta": DELTA, "relation": tr.ADD_OR_REMOVE}
    noise = tr.Gaussian(noise_multiplier=50)
    with pytest.raises(tr.InvalidSetting, match="cut anew"):
        tr.largest_batch(noise, population=1000, epochs=1, sampling=sampling, **target)
