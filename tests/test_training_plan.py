"""Records, batch and epochs become a sampling and a number of steps, exactly."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from tightrope.setting.parts import part_of
from tightrope.setting.plain import plain_run, plain_setting, sampling_of
from tightrope.setting.tables import Table

MNIST: dict[str, Any] = {"records": 60_000, "batch": 256, "epochs": 30}
CAPPED = tr.TruncatedPoisson(rate=Fraction(256, 60_000), at_most=300, population=60_000)
TARGET: dict[str, Any] = {"epsilon": 3, "delta": 1e-5, "relation": tr.ADD_OR_REMOVE}


def test_a_plan_in_batches_and_epochs_is_the_run_it_says() -> None:
    plan = tr.Training(**MNIST, sampling=tr.Poisson)
    assert plan.steps == 7032
    assert plan.sampling.exact_rate == Fraction(256, 60_000)
    step = tr.Step(tr.Gaussian(noise_multiplier=1.1), tr.Poisson(rate=Fraction(256, 60_000)))
    assert plan.run(noise_multiplier=1.1) == step * 7032


@given(
    records=st.integers(1, 10**7),
    batch=st.integers(1, 10**4),
    epochs=st.fractions(Fraction(1, 100), 1000, max_denominator=100),
)
def test_steps_are_the_fewest_that_are_no_fewer_than_the_epochs(
    records: int, batch: int, epochs: Fraction
) -> None:
    batch = min(batch, records)
    plan = tr.Training(records=records, batch=batch, epochs=epochs, sampling=tr.WithoutReplacement)
    assert (plan.steps - 1) * batch < epochs * records <= plan.steps * batch


def test_a_tenth_of_an_epoch_is_what_was_typed_and_not_the_float_above_it() -> None:
    assert tr.Training(records=10, batch=1, epochs=0.1, sampling=tr.Poisson).steps == 1
    assert tr.Training(records=10, batch=1, epochs=np.float64(0.1), sampling=tr.Poisson).steps == 1


@pytest.mark.parametrize("epochs", [np.int8(100), np.int16(100), np.int32(100), np.int64(100), np.uint8(100)])
def test_whole_numbers_of_numpy_do_not_overflow(epochs: Any) -> None:
    """Left as they were, 100 epochs of int16 wrapped around to 12,589 steps of 78,125."""
    plan = tr.Training(records=50_000, batch=64, epochs=epochs, sampling=tr.Poisson)
    assert plan.steps == 78_125
    large = tr.Training(records=10**15, batch=10**13, epochs=epochs, sampling=tr.Poisson)
    assert large.steps == 10_000


def test_a_witness_with_little_noise_takes_no_minutes_and_tells_no_less() -> None:
    plan = tr.Training(records=1000, batch=10, epochs=5, sampling=tr.Poisson)
    asked: dict[str, Any] = {"delta": 1e-5, "relation": tr.SUBSTITUTE}
    little, more = (tr.epsilon_if_shuffled(plan, noise_multiplier=s, **asked) for s in (1e-3, 0.05))
    assert 0 < little.lower == more.lower
    assert more.upper < little.upper


@pytest.mark.parametrize("sampling", [tr.Poisson, tr.WithoutReplacement, "poisson", "without-replacement"])
def test_the_smallest_noise_of_a_plan_is_that_of_its_sampling_and_steps(sampling: Any) -> None:
    plan = tr.Training(records=10_000, batch=100, epochs=2, sampling=sampling)
    planned = tr.smallest_noise(plan, **TARGET)
    stated = tr.smallest_noise(plan.sampling, steps=200, **TARGET)
    assert (planned.value, planned.beyond) == (stated.value, stated.beyond)


def test_full_batches_take_one_step_per_epoch() -> None:
    plan = tr.Training(records=500, epochs=7, sampling=tr.EveryRecord)
    assert (plan.steps, plan.batch, plan.sampling) == (7, 500, tr.EveryRecord())


@pytest.mark.parametrize(
    "plan",
    [
        tr.Training(**MNIST, sampling=tr.Poisson),
        tr.Training(**MNIST, sampling=tr.WithoutReplacement),
        tr.Training(**MNIST, sampling="balls-in-bins"),
        tr.Training(**MNIST, sampling=CAPPED),
        tr.Training(records=7, epochs=2.5, sampling=tr.EveryRecord),
        tr.Training(records=7, batch=2, epochs=Fraction(1, 3), sampling=tr.Poisson),
    ],
    ids=str,
)
def test_a_plan_is_written_so_that_python_reads_it(plan: tr.Training) -> None:
    names = {name: getattr(tr, name) for name in tr.__all__}
    assert eval(repr(plan), {**names, "Fraction": Fraction}) == plan


def test_a_copy_of_a_plan_keeps_its_epochs_exactly() -> None:
    plan = tr.Training(records=7, batch=2, epochs=Fraction(1, 3), sampling=tr.Poisson)
    assert dataclasses.replace(plan) == plan
    smaller: dict[str, Any] = {"batch": 1, "sampling": tr.Poisson}  # its kind: the rate is another
    assert dataclasses.replace(plan, **smaller).steps == 3


def test_a_plan_in_place_of_a_run_is_refused_with_what_makes_it_one() -> None:
    with pytest.raises(tr.InvalidSetting, match=r"Write plan\.run\(noise_multiplier=\.\.\.\)"):
        tr.epsilon(tr.Training(**MNIST, sampling=tr.Poisson), delta=1e-5, relation=tr.ADD)  # type: ignore[call-overload]


def test_a_plan_says_how_it_was_read() -> None:
    said = str(tr.Training(**MNIST, sampling=tr.Poisson))
    assert (
        said
        == "7,032 steps: 30 epochs of 234.4 batches; each record joins a batch with probability 256/60000."
    )
    said = str(tr.Training(**MNIST, sampling=tr.BallsInBins))
    assert (
        said == "7,050 steps: 30 epochs of 235 batches; each record takes one of 235 batches in each epoch."
    )
    said = str(tr.Training(records=1000, batch=50, epochs=1, sampling=tr.WithoutReplacement))
    assert said == "20 steps: 1 epoch of 20 batches; each batch is 50 of 1,000 records, drawn afresh."


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"records": 0}, "records must be at least 1, got 0"),
        ({"batch": 60_001}, "batch must be at most records=60000, got 60001"),
        ({"batch": 2.5}, "batch must be a whole number, got 2.5"),
        ({"epochs": 0}, "epochs must be above 0, got 0"),
        ({"epochs": math.inf}, "epochs must be finite"),
        ({"epochs": 1e15}, "epochs must take at most 1e+15 steps"),
        ({"sampling": "round-robin"}, "sampling must be one of"),
        ({"sampling": tr.EveryRecord}, "batch must hold every record"),
        ({"sampling": tr.BallsInBins(batches=234)}, "sampling must draw 256 of 60,000 records"),
        ({"sampling": tr.RandomAllocation}, "sampling must follow from records and batch"),
        ({"sampling": "truncated-poisson"}, "sampling must follow from records and batch"),
        ({"sampling": tr.Poisson(rate=0.5)}, "sampling must draw 256 of 60,000 records"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(tr.InvalidSetting) as refused:
        tr.Training(**{**MNIST, "sampling": tr.Poisson, **wrong})
    assert str(refused.value).startswith(reason)


def test_a_batch_must_be_stated_unless_it_holds_everybody() -> None:
    with pytest.raises(tr.InvalidSetting, match="batch must be stated"):
        tr.Training(records=10, epochs=1, sampling=tr.Poisson)


def test_a_quotient_of_steps_is_refused_with_what_it_is_rounded_up_to() -> None:
    with pytest.raises(tr.InvalidSetting, match=r"got 7031\.25\. Round it up: steps=7032\."):
        tr.smallest_noise(tr.Poisson(rate=0.01), steps=30 * 60_000 / 256, **TARGET)  # type: ignore[arg-type]
    with pytest.raises(tr.InvalidSetting, match=r"Round it up: steps=3\."):
        tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 2.5  # type: ignore[operator]


def test_steps_are_stated_once() -> None:
    plan = tr.Training(**MNIST, sampling=tr.Poisson)
    with pytest.raises(tr.InvalidSetting, match="steps must be left out beside a plan of 7032"):
        tr.smallest_noise(plan, steps=7032, **TARGET)
    with pytest.raises(tr.InvalidSetting, match="steps must be stated"):
        tr.smallest_noise(tr.Poisson(rate=0.1), **TARGET)
    with pytest.raises(tr.InvalidSetting, match="noise_multiplier must be stated once"):
        plan.run()


# the largest batch


@pytest.mark.parametrize("sampling", [tr.Poisson, tr.WithoutReplacement])
def test_the_largest_batch_of_some_epochs_meets_the_target_and_the_one_beyond_misses(sampling: Any) -> None:
    noise = tr.Gaussian(noise_multiplier=2)
    found = tr.largest_batch(noise, population=5000, epochs=3, sampling=sampling, **TARGET)

    def spent(batch: int) -> tr.Bracket:
        plan = tr.Training(records=5000, batch=batch, epochs=3, sampling=sampling)
        return tr.epsilon(plan.run(noise), delta=1e-5, relation=tr.ADD_OR_REMOVE)

    assert found.beyond is not None
    assert spent(found.value).upper <= 3
    assert spent(found.beyond).lower > 3


def test_the_largest_poisson_batch_is_the_largest_rate_in_records() -> None:
    noise = tr.Gaussian(noise_multiplier=2)
    rate = tr.largest_rate(noise, steps=100, **TARGET)
    batch = tr.largest_batch(noise, population=1000, steps=100, sampling=tr.Poisson, **TARGET)
    assert batch.value == math.floor(rate.value * 1000)


@pytest.mark.parametrize("length", [{}, {"steps": 5, "epochs": 5}])
def test_a_largest_batch_needs_one_length(length: dict[str, Any]) -> None:
    with pytest.raises(tr.InvalidSetting, match="steps must be stated, or epochs, and not both"):
        tr.largest_batch(tr.Gaussian(noise_multiplier=2), population=10, **length, **TARGET)


# what is proved if batches are shuffled


def delta_of_one_shuffle(s: float, epsilon: float) -> float:
    """Two records in batches of one: D puts (-1, 1) in either order, D' is (1, 1). On a fine grid."""
    grid = np.linspace(-12 * s - 1, 12 * s + 1, 1601)
    cell = (grid[1] - grid[0]) ** 2
    normal = {m: np.exp(-((grid - m) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)) for m in (-1, 1)}
    mixed = (np.outer(normal[-1], normal[1]) + np.outer(normal[1], normal[-1])) / 2
    plain = np.outer(normal[1], normal[1])
    gaps = [p - math.exp(epsilon) * q for p, q in ((mixed, plain), (plain, mixed))]
    return max(float(np.maximum(gap, 0).sum() * cell) for gap in gaps)


@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_the_ends_of_a_small_shuffle_hold_what_its_datasets_reach(noise: float) -> None:
    plan = tr.Training(records=2, batch=1, epochs=1, sampling=tr.Poisson)
    found = tr.epsilon_if_shuffled(plan, noise_multiplier=noise, delta=1e-2, relation=tr.SUBSTITUTE)
    assert delta_of_one_shuffle(noise, found.upper) <= 1e-2
    assert found.lower < found.upper
    # the lower end is reached by some datasets of this size, these are close to the worst
    assert delta_of_one_shuffle(noise, found.lower) >= 1e-2 * (1 - 1e-3)


def test_shuffling_is_no_excuse_for_the_epsilon_of_poisson_batches() -> None:
    plan = tr.Training(records=50_000, batch=50, epochs=10, sampling=tr.Poisson)
    for relation in (tr.ADD_OR_REMOVE, tr.SUBSTITUTE):
        accounted = tr.epsilon(plan.run(noise_multiplier=0.8), delta=1e-6, relation=relation)
        shuffled = tr.epsilon_if_shuffled(plan, noise_multiplier=0.8, delta=1e-6, relation=relation)
        assert shuffled.lower > 9 * accounted.upper
        assert math.isfinite(shuffled.upper)


def test_more_epochs_of_a_shuffle_never_tell_less_even_if_the_last_is_broken_off() -> None:
    def ends(epochs: float) -> tr.Bracket:
        plan = tr.Training(records=70, batch=15, epochs=epochs, sampling=tr.Poisson)
        return tr.epsilon_if_shuffled(plan, noise_multiplier=1, delta=1e-5, relation=tr.SUBSTITUTE)

    found = [ends(epochs) for epochs in (0.5, 1, 1.5, 2, 2.2, 3)]
    for fewer, more in itertools.pairwise(found):
        assert fewer.lower <= more.lower
        assert fewer.upper <= more.upper
    lowers = [end.lower for end in found]
    assert 0 < lowers[0] < lowers[1] < lowers[2] < lowers[3]  # an epoch that is broken off tells more, too


def test_where_a_neighbour_is_cut_into_fewer_batches_add_and_remove_have_no_upper_bound() -> None:
    plan = tr.Training(records=101, batch=10, epochs=1, sampling=tr.Poisson)
    found = tr.epsilon_if_shuffled(plan, noise_multiplier=1, delta=1e-5, relation=tr.REMOVE)
    assert found.upper == math.inf
    assert found.gap is not None
    assert "change more than one slot" in found.gap.why


# files


def test_files_take_the_words_of_the_command_line() -> None:
    words = {"mechanism": "gaussian", "noise": 1.1, "sampling": "poisson", **MNIST}
    assert part_of(Table(words, "")) == tr.Training(**MNIST, sampling=tr.Poisson).run(noise_multiplier=1.1)
    rated = {"mechanism": "gaussian", "noise": 1.1, "sampling": "poisson", "rate": 0.25, "epochs": 3}
    assert part_of(Table(rated, "")).steps == 12
    fixed = {"mechanism": "gaussian", "noise": 1.1, "sampling": "without-replacement", "steps": 5}
    run = part_of(Table({**fixed, "records": 100, "batch": 7}, ""))
    assert run == part_of(Table({**fixed, "population": 100, "batch": 7}, ""))


@pytest.mark.parametrize(
    ("words", "sampling", "steps"),
    [
        ({"sampling": "balls-in-bins", "batches": 20, "epochs": 3}, tr.BallsInBins(batches=20), 60),
        ({"sampling": "balls-in-bins", "batches": 20, "steps": 33}, tr.BallsInBins(batches=20), 33),
        (
            {"sampling": "balls-in-bins", "records": 100, "batch": 8, "epochs": 1.5},
            tr.BallsInBins(batches=13),
            20,
        ),
        (
            {"sampling": "random-allocation", "batches": 20, "chosen": 4, "epochs": 2},
            tr.RandomAllocation(batches=20, chosen=4),
            40,  # all batches of a pass, though each record is in four of them
        ),
        (
            {"sampling": "truncated-poisson", "rate": 0.25, "at_most": 5, "population": 9, "epochs": 2},
            tr.TruncatedPoisson(rate=0.25, at_most=5, population=9),
            8,
        ),
        (
            {"sampling": "truncated-poisson", "rate": 0.25, "at_most": 5, "records": 9, "steps": 3},
            tr.TruncatedPoisson(rate=0.25, at_most=5, population=9),
            3,
        ),
        (
            {"sampling": "truncated-poisson", "records": 9, "batch": 3, "at_most": 5, "epochs": 2},
            tr.TruncatedPoisson(rate=Fraction(1, 3), at_most=5, population=9),
            6,
        ),
    ],
)
def test_files_state_allocations_and_caps(words: dict[str, Any], sampling: Any, steps: int) -> None:
    noise = tr.Gaussian(noise_multiplier=1.1)
    run = part_of(Table({"mechanism": "gaussian", "noise": 1.1, **words}, ""))
    assert run == tr.Step(noise, sampling) * steps
    (written,) = plain_run(run)
    assert part_of(Table(json.loads(json.dumps(written)), "")) == run
    assert sampling_of(json.loads(json.dumps(plain_setting(sampling)))) == sampling


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            {"sampling": "balls-in-bins", "batches": 9, "batch": 5, "steps": 3},
            "batch = 5 contradicts the rest",
        ),
        ({"sampling": "balls-in-bins", "steps": 3}, "batches is missing"),
        ({"sampling": "random-allocation", "batches": 9, "steps": 3}, "chosen is missing"),
        ({"sampling": "truncated-poisson", "rate": 0.1, "at_most": 3, "steps": 3}, "population is missing"),
        ({"sampling": "poisson", "rate": 0.1, "at_most": 3, "steps": 3}, "at_most = 3 contradicts the rest"),
        ({"sampling": "poisson", "rate": 0.1, "batch": 5, "steps": 3}, "batch = 5 contradicts the rest"),
        ({"sampling": "poisson", "batch": 5, "steps": 3}, "records is missing"),
        ({"sampling": "poisson", "rate": 0.1, "steps": 3, "epochs": 3}, "epochs = 3 contradicts the rest"),
        ({"sampling": "poisson", "rate": 0, "epochs": 3}, "epochs must be left out beside a rate of 0"),
        (
            {"sampling": "poisson", "rate": 0.1, "steps": 3, "noise_multiplier": 2},
            "noise = 1 is stated twice",
        ),
        ({"sampling": "shuffle", "batch": 3, "epochs": 1}, "records is missing"),
        ({"sampling": "shuffled", "records": 9, "epochs": 1}, "batch is missing"),
        (
            {"sampling": "shuffled", "batches": 9, "records": 9, "epochs": 1},
            "records = 9 contradicts the rest",
        ),
    ],
)
def test_files_are_held_to_one_way_of_saying_it(words: dict[str, Any], reason: str) -> None:
    with pytest.raises(tr.TightropeError) as refused:
        part_of(Table({"mechanism": "gaussian", "noise": 1, **words}, "run: "))
    assert str(refused.value).startswith(f"run: {reason}")


def test_a_grid_may_be_stated_in_batches_and_epochs() -> None:
    asked = {"ask": "epsilon", "delta": 1e-5, "relation": "add-or-remove", "mechanism": "gaussian"}
    swept = {"sampling": ["poisson", "without-replacement"], "records": 1000, "batch": [10, 20], "epochs": 2}
    rows = list(tr.sweep({**asked, "noise_multiplier": 1, **swept}))
    assert len(rows) == 4
    for row in rows:
        kind = {"poisson": tr.Poisson, "without-replacement": tr.WithoutReplacement}[str(row["sampling"])]
        plan = tr.Training(records=1000, batch=int(str(row["batch"])), epochs=2, sampling=kind)
        spent = tr.epsilon(plan.run(noise_multiplier=1), delta=1e-5, relation=tr.ADD_OR_REMOVE)
        assert (row["lower"], row["upper"]) == (spent.lower, spent.upper)
