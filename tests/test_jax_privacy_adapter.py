"""The adapter for jax_privacy: its analysis, its calibration and its plans with a certified accountant."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax_privacy", reason="jax_privacy is not installed: make training")

import dp_accounting
from jax_privacy import accounting
from jax_privacy.experimental import accounting as events
from jax_privacy.experimental import execution_plan

import tightrope as tr
from tightrope.integrations.dp_accounting import PER_RECORD, PER_SENSITIVITY, from_dp_event
from tightrope.integrations.jax_privacy import DpEventAccountantConfig, FixedBatchTrainingAccountant

ADD_OR_REMOVE_ONE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADDED = DpEventAccountantConfig(neighboring_relation=ADD_OR_REMOVE_ONE)
REPLACED = DpEventAccountantConfig(neighboring_relation=REPLACE_ONE, noise=PER_RECORD)
TABLE_1 = accounting.DpParams(noise_multipliers=0.8, num_samples=1000, delta=1e-6, batch_size=1)


def fixed_batches(params: accounting.DpParams) -> accounting.DpParams:
    return accounting.DpParams(
        noise_multipliers=params.noise_multipliers,
        num_samples=params.num_samples,
        delta=params.delta,
        batch_size=params.batch_size,
        sampling_method=accounting.SamplingMethod.FIXED_BATCH_SIZE,
    )


def gaussian(noise: float, sampling: Any) -> tr.Step:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling)


def test_the_analysis_answers_with_the_certified_upper_end() -> None:
    run = gaussian(0.8, tr.Poisson(rate=0.001)) * 10_000
    for config, relation in ((ADDED, tr.ADD_OR_REMOVE), (REPLACED, tr.SUBSTITUTE)):
        found = accounting.DpsgdTrainingAccountant(config).compute_epsilon(10_000, TABLE_1)
        assert found == tr.epsilon(run, delta=1e-6, relation=relation).upper
    theirs = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig()).compute_epsilon(
        10_000, TABLE_1
    )
    ours = accounting.DpsgdTrainingAccountant(ADDED).compute_epsilon(10_000, TABLE_1)
    assert 0.99 * theirs <= ours <= theirs * (1 + 1e-3)


def test_schedules_of_noise_and_batch_size_are_followed() -> None:
    params = accounting.DpParams(
        noise_multipliers=[(0, 1.0), (30, 2.0)], num_samples=100, delta=1e-5, batch_size=[(0, 5), (60, 10)]
    )
    poisson = (
        gaussian(1, tr.Poisson(rate=0.05)) * 30
        + gaussian(2, tr.Poisson(rate=0.05)) * 30
        + gaussian(2, tr.Poisson(rate=0.1)) * 40
    )
    small, large = (tr.WithoutReplacement(batch=batch, population=100) for batch in (5, 10))
    fixed = gaussian(1, small) * 30 + gaussian(2, small) * 30 + gaussian(2, large) * 40
    for accountant, run in (
        (accounting.DpsgdTrainingAccountant(ADDED), poisson),
        (FixedBatchTrainingAccountant(ADDED), fixed),
    ):
        assert (
            accountant.compute_epsilon(100, params)
            == tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE).upper
        )
    assert FixedBatchTrainingAccountant(ADDED).compute_epsilon(30, params) == (
        tr.epsilon(gaussian(1, small) * 30, delta=1e-5, relation=tr.ADD_OR_REMOVE).upper
    )
    late = accounting.DpParams(noise_multipliers=[(10, 1.0)], num_samples=100, delta=1e-5, batch_size=5)
    with pytest.raises(tr.InvalidSetting, match="must start at update 0"):
        FixedBatchTrainingAccountant(ADDED).compute_epsilon(30, late)


def test_a_scaled_batch_size_which_jax_holds_as_an_array_is_understood() -> None:
    params = accounting.DpParams(
        noise_multipliers=1.0, num_samples=128, delta=1e-5, batch_size=4, batch_size_scale_schedule={10: 2}
    )
    run = (
        gaussian(1, tr.WithoutReplacement(batch=4, population=128)) * 10
        + gaussian(1, tr.WithoutReplacement(batch=8, population=128)) * 10
    )
    found = FixedBatchTrainingAccountant(ADDED).compute_epsilon(20, params)
    assert found == tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE).upper
    assert 0 < accounting.DpsgdTrainingAccountant(ADDED).compute_epsilon(20, params) < found


def test_calibration_meets_its_target() -> None:
    accountant = accounting.DpsgdTrainingAccountant(ADDED)
    setting = {"target_epsilon": 2.0, "accountant": accountant, "num_samples": 10_000, "target_delta": 1e-6}
    noise = accounting.calibrate_noise_multiplier(batch_sizes=100, num_updates=1000, tol=1e-3, **setting)
    least = tr.smallest_noise(
        tr.Poisson(rate=0.01), steps=1000, epsilon=2, delta=1e-6, relation=tr.ADD_OR_REMOVE
    ).value
    assert noise == pytest.approx(least, abs=2e-3)
    updates = accounting.calibrate_num_updates(noise_multipliers=1.0, batch_sizes=100, **setting)
    most = tr.most_steps(
        gaussian(1, tr.Poisson(rate=0.01)), epsilon=2, delta=1e-6, relation=tr.ADD_OR_REMOVE
    ).value
    assert updates == pytest.approx(most, abs=1)
    batch = accounting.calibrate_batch_size(noise_multipliers=1.0, num_updates=1000, **setting)
    spent = [
        tr.epsilon(gaussian(1, tr.Poisson(rate=size / 10_000)) * 1000, delta=1e-6, relation=tr.ADD_OR_REMOVE)
        for size in (batch, batch + 1)
    ]
    assert spent[0].upper <= 2 < spent[1].upper


# batches of fixed size


def test_their_fixed_batch_size_is_the_add_or_remove_bound_and_not_one_for_replacement() -> None:
    # jax_privacy documents it as valid for replace-one; the accountant sees Poisson sampling at half the
    # noise and cannot tell
    run = gaussian(0.8, tr.WithoutReplacement(batch=1, population=1000)) * 10_000
    claimed = accounting.DpsgdTrainingAccountant(ADDED).compute_epsilon(10_000, fixed_batches(TABLE_1))
    assert claimed == pytest.approx(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE).upper, rel=1e-9)


def test_an_adaptive_adversary_exceeds_what_they_claim_for_replacement() -> None:
    params = accounting.DpParams(
        noise_multipliers=4.0, num_samples=4, delta=1e-3, batch_size=1
    )  # where the game is quick
    claimed = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig()).compute_epsilon(
        3, fixed_batches(params)
    )
    tight = DpEventAccountantConfig(
        neighboring_relation=REPLACE_ONE, noise=PER_RECORD, by=tr.Certified(effort=tr.TIGHT)
    )
    spent = tight.create_accountant().compose(events.fixed_dpsgd_event(4.0, 3, dataset_size=4, batch_size=1))
    assert claimed < spent.epsilon_bracket(1e-3).lower
    assert (claimed, spent.epsilon_bracket(1e-3).lower) == pytest.approx(
        (0.683, 0.6855), abs=5e-4
    )  # as docs/interop.md says


def test_fixed_batches_are_accounted_for_replacement_by_the_accountant_made_for_them() -> None:
    run = gaussian(0.8, tr.WithoutReplacement(batch=1, population=1000)) * 10_000
    expected = tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE)
    for params in (TABLE_1, fixed_batches(TABLE_1)):
        assert FixedBatchTrainingAccountant(REPLACED).compute_epsilon(10_000, params) == expected.upper
    assert expected.lower > 15


def test_calibration_for_fixed_batches_goes_through_the_same_door() -> None:
    setting = {
        "target_epsilon": 1.0,
        "batch_sizes": 10,
        "num_updates": 100,
        "num_samples": 1000,
        "target_delta": 1e-5,
    }
    theirs = accounting.calibrate_noise_multiplier(
        accountant=accounting.DpsgdTrainingAccountant(REPLACED), **setting
    )
    ours = accounting.calibrate_noise_multiplier(accountant=FixedBatchTrainingAccountant(REPLACED), **setting)
    fixed = tr.WithoutReplacement(batch=10, population=1000)
    assert tr.epsilon(gaussian(ours, fixed) * 100, delta=1e-5, relation=tr.SUBSTITUTE).upper <= 1
    assert (
        tr.epsilon(
            gaussian(theirs, fixed) * 100,
            delta=1e-5,
            relation=tr.SUBSTITUTE,
        ).lower
        > 1
    )


@pytest.mark.parametrize(
    "extra", [{"examples_per_user": 2}, {"cycle_length": 4}, {"truncated_batch_size": 3}]
)
def test_fixed_batches_refuse_what_no_theorem_covers(extra: dict[str, int]) -> None:
    params = accounting.DpParams(noise_multipliers=1.0, num_samples=100, delta=1e-5, batch_size=5, **extra)
    with pytest.raises(tr.InvalidSetting, match=next(iter(extra))):
        FixedBatchTrainingAccountant(ADDED).compute_epsilon(10, params)


def test_a_bad_config_is_refused_where_it_is_written() -> None:
    with pytest.raises(tr.InvalidSetting, match="noise must be PER_RECORD"):
        DpEventAccountantConfig(neighboring_relation=REPLACE_ONE)
    with pytest.raises(tr.InvalidSetting, match="accuracy"):
        DpEventAccountantConfig(neighboring_relation=ADD_OR_REMOVE_ONE, by=tr.Certified(accuracy=2.0))
    with pytest.raises(tr.NoTheorem, match="REPLACE_SPECIAL"):
        DpEventAccountantConfig(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)


def test_user_level_analysis_takes_no_accountant_but_their_own() -> None:
    params = accounting.DpParams(
        noise_multipliers=1.0, num_samples=100, delta=1e-5, batch_size=5, examples_per_user=2
    )
    with pytest.raises(ValueError, match="requires a PLDAccountant"):
        accounting.DpsgdTrainingUserLevelAccountant(ADDED).compute_epsilon(10, params)


# events and plans


def test_their_events_become_runs() -> None:
    poisson = events.dpsgd_event(3, 512, sampling_prob=0.1)
    assert from_dp_event(poisson, tr.ADD_OR_REMOVE) == gaussian(3, tr.Poisson(rate=0.1)) * 512
    fixed = events.fixed_dpsgd_event(3, 512, dataset_size=100, batch_size=10)
    assert (
        from_dp_event(fixed, tr.SUBSTITUTE, noise=PER_RECORD)
        == gaussian(3, tr.WithoutReplacement(batch=10, population=100)) * 512
    )
    truncated = events.truncated_dpsgd_event(
        3, 512, sampling_prob=0.1, num_examples=100, truncated_batch_size=20
    )
    capped = tr.TruncatedPoisson(rate=0.1, at_most=20, population=100)
    assert from_dp_event(truncated, tr.ADD_OR_REMOVE) == gaussian(3, capped) * 512


def planned(accountant: Any, partition: Any) -> Any:
    return execution_plan.BandMFExecutionPlanConfig(
        iterations=100,
        strategy=[1.0],
        epsilon=2.0,
        delta=1e-5,
        sampling_prob=0.01,
        accountant=accountant,
        partition_type=partition,
    )


def test_a_plan_is_calibrated_to_its_target_and_adds_noise_per_sensitivity() -> None:
    independent = execution_plan.batch_selection.PartitionType.INDEPENDENT
    for config, per_unit in (
        (ADDED, 1),
        (DpEventAccountantConfig(neighboring_relation=REPLACE_ONE, noise=PER_SENSITIVITY), 2),
    ):
        accountant = config.create_accountant()
        plan = planned(accountant, independent).plan
        assert accountant.run == tr.Run()  # the plan works on copies
        assert 1.99 < config.create_accountant().compose(plan.dp_event).get_epsilon(1e-5) <= 2
        # a plan scales its noise by the sensitivity under the accountant's relation: so the unit there is
        # PER_SENSITIVITY
        clipped = plan.clipped_grad(lambda: None)
        assert clipped.sensitivity(accountant.neighboring_relation) == pytest.approx(per_unit)


def test_the_examples_of_the_page_run_as_they_stand() -> None:
    page = (Path(__file__).parent.parent / "docs" / "interop.md").read_text()
    blocks = [
        block
        for block in re.findall(r"^~~~python\n(.*?)^~~~", page, re.MULTILINE | re.DOTALL)
        if "jax_privacy" in block
    ]
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/interop.md", "exec"), {})
