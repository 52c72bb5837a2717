"""The adapter for dp_accounting: parity with the core, counts, units of noise, refusals by name."""

import copy
import functools
import math
import pickle
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("dp_accounting", reason="dp_accounting is not installed: make training")

import dp_accounting
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    UnsupportedEventError,
    dp_event,
)

import tightrope as tr
from tightrope.extras import advise_install
from tightrope.integrations.dp_accounting import (
    PER_RECORD,
    PER_SENSITIVITY,
    DpEventAccountant,
    from_dp_event,
    from_neighboring_relation,
    to_dp_event,
    to_neighboring_relation,
)

ADD_OR_REMOVE_ONE, REPLACE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
POISSON = PoissonSampledDpEvent(0.001, GaussianDpEvent(0.8))
FIXED = SampledWithoutReplacementDpEvent(1000, 1, GaussianDpEvent(0.8))  # the setting of the paper's Table 1

add_or_remove = functools.partial(DpEventAccountant, neighboring_relation=ADD_OR_REMOVE_ONE)
per_record = functools.partial(DpEventAccountant, neighboring_relation=REPLACE_ONE, noise=PER_RECORD)
per_sensitivity = functools.partial(
    DpEventAccountant, neighboring_relation=REPLACE_ONE, noise=PER_SENSITIVITY
)


def gaussian(noise: float, sampling: Any = None) -> tr.Step:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling or tr.EveryRecord())


@pytest.mark.parametrize(
    ("event", "accountant", "run", "relation"),
    [
        (GaussianDpEvent(2.0), add_or_remove, gaussian(2) * 7, tr.ADD_OR_REMOVE),
        (POISSON, add_or_remove, gaussian(0.8, tr.Poisson(rate=0.001)) * 7, tr.ADD_OR_REMOVE),
        (
            FIXED,
            add_or_remove,
            gaussian(0.8, tr.WithoutReplacement(batch=1, population=1000)) * 7,
            tr.ADD_OR_REMOVE,
        ),
        (
            LaplaceDpEvent(2.0),
            add_or_remove,
            tr.Step(tr.Laplace(noise_multiplier=2), tr.EveryRecord()) * 7,
            tr.ADD_OR_REMOVE,
        ),
        (
            PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0)),
            add_or_remove,
            tr.Step(tr.Laplace(noise_multiplier=2), tr.Poisson(rate=0.1)) * 7,
            tr.ADD_OR_REMOVE,
        ),
        (POISSON, per_record, gaussian(0.8, tr.Poisson(rate=0.001)) * 7, tr.SUBSTITUTE),
        (POISSON, per_sensitivity, gaussian(1.6, tr.Poisson(rate=0.001)) * 7, tr.SUBSTITUTE),
        (
            FIXED,
            per_record,
            gaussian(0.8, tr.WithoutReplacement(batch=1, population=1000)) * 7,
            tr.SUBSTITUTE,
        ),
        (
            LaplaceDpEvent(2.0),
            per_record,
            tr.Step(tr.Laplace(noise_multiplier=2), tr.EveryRecord()) * 7,
            tr.SUBSTITUTE,
        ),
        (
            RandomizedResponseDpEvent(0.5, 2),
            per_record,
            tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()) * 7,
            tr.SUBSTITUTE,
        ),
    ],
)
def test_answers_are_the_upper_ends_of_the_core_to_the_last_bit(
    event: Any, accountant: Any, run: tr.Run, relation: tr.Relation
) -> None:
    spent = accountant().compose(event, 7)
    assert spent.run == run
    expected = tr.epsilon(run, delta=1e-5, relation=relation)
    assert spent.get_epsilon(1e-5) == expected.upper
    assert spent.epsilon_bracket(1e-5) == expected
    assert spent.get_delta(0.5) == tr.delta(run, epsilon=0.5, relation=relation).upper
    assert spent.delta_bracket(0.5).lower <= spent.get_delta(0.5)


def test_accuracy_and_effort_are_those_of_the_core() -> None:
    step = gaussian(4, tr.WithoutReplacement(batch=1, population=4))
    event = SampledWithoutReplacementDpEvent(4, 1, GaussianDpEvent(4.0))
    tight = per_record(by=tr.Certified(effort=tr.TIGHT)).compose(event, 2).epsilon_bracket(1e-3)
    assert tight == tr.epsilon(step * 2, delta=1e-3, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT))
    assert tight.upper < per_record().compose(event, 2).get_epsilon(1e-3)
    fine = add_or_remove(by=tr.Certified(accuracy=1e-6)).compose(POISSON, 100).epsilon_bracket(1e-6)
    assert fine == tr.epsilon(
        gaussian(0.8, tr.Poisson(rate=0.001)) * 100,
        delta=1e-6,
        relation=tr.ADD_OR_REMOVE,
        by=tr.Certified(accuracy=1e-6),
    )


def test_nested_counts_multiply_once() -> None:
    event = SelfComposedDpEvent(
        ComposedDpEvent(
            [GaussianDpEvent(1.0), SelfComposedDpEvent(ComposedDpEvent([POISSON, GaussianDpEvent(1.0)]), 3)]
        ),
        5,
    )
    run = gaussian(1) * (5 + 15) + gaussian(0.8, tr.Poisson(rate=0.001)) * 15
    assert from_dp_event(event, tr.ADD_OR_REMOVE) == run
    assert add_or_remove().compose(event, 2).compose(event).run == run * 3


def test_a_hundred_randomized_responses_are_not_one() -> None:
    spent = per_record().compose(RandomizedResponseDpEvent(0.5, 2), 100)
    assert spent.epsilon_bracket(1e-6).lower == pytest.approx(
        94.28987, abs=1e-5
    )  # their PLD accountant: 1.0987


def test_supports_and_answers_leave_the_state_as_it_was() -> None:
    spent = add_or_remove().compose(POISSON, 10)
    before = spent.run, spent.ledger, spent.get_epsilon(1e-6)
    assert spent.supports(GaussianDpEvent(1.0))
    assert spent.supports(NonPrivateDpEvent())
    assert not spent.supports(RandomizedResponseDpEvent(0.5, 2))
    with pytest.raises(UnsupportedEventError, match="ZCDpEvent"):
        spent.compose(ComposedDpEvent([GaussianDpEvent(1.0), dp_event.ZCDpEvent(0.1)]))
    with pytest.raises(UnsupportedEventError, match="at most 1e"):
        spent.compose(GaussianDpEvent(1.0), 10**16)
    with pytest.raises(ValueError, match="positive"):
        spent.compose(GaussianDpEvent(1.0), 0)
    assert (spent.run, spent.ledger, spent.get_epsilon(1e-6)) == before


def test_nothing_costs_nothing_and_what_is_not_private_costs_everything() -> None:
    assert add_or_remove().compose(NoOpDpEvent()).get_epsilon(1e-6) == 0
    for accountant in (add_or_remove, per_record):
        for event in (
            NonPrivateDpEvent(),
            GaussianDpEvent(0.0),
            PoissonSampledDpEvent(0.1, GaussianDpEvent(0.0)),
        ):
            spent = accountant().compose(GaussianDpEvent(1.0)).compose(event)
            assert spent.get_epsilon(1e-6) == math.inf
        assert accountant().compose(NonPrivateDpEvent()).get_delta(3.0) == 1


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE])
def test_without_noise_a_cap_is_refused_in_words(relation: tr.Relation) -> None:
    """A record that is drawn may be dropped: that of a batch without a cap would be no lower end."""
    event = dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 0.0)
    with pytest.raises(tr.NoTheorem, match="noise 0 with batches of at most 60: how often"):
        from_dp_event(event, relation, noise=PER_RECORD)


@pytest.mark.parametrize("rate", [1 / 3, 0.1, 1e-3, 1e-17, 1.0])
@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE])
def test_without_noise_only_the_draw_protects(rate: float, relation: tr.Relation) -> None:
    run = from_dp_event(PoissonSampledDpEvent(rate, GaussianDpEvent(0)), relation, noise=PER_RECORD) * 3
    drawn_once = -math.expm1(3 * math.log1p(-rate)) if rate < 1 else 1.0
    found = tr.delta(run, epsilon=2, relation=relation)
    assert found.lower * (1 - 1e-12) <= drawn_once <= found.upper * (1 + 1e-12)


def test_copies_answer_like_the_original() -> None:
    event = SampledWithoutReplacementDpEvent(10, 1, GaussianDpEvent(1.0))
    for accountant in (add_or_remove, per_record, per_sensitivity):
        spent = accountant().compose(event, 5)
        for copied in (copy.deepcopy(spent), pickle.loads(pickle.dumps(spent))):
            assert copied.compose(event, 2).get_epsilon(1e-5) == accountant().compose(event, 7).get_epsilon(
                1e-5
            )
            assert copied.supports(POISSON)
        assert spent.run.steps == 5
    exchanged = copy.deepcopy(tr.SUBSTITUTE)
    assert from_dp_event(FIXED, exchanged, noise=PER_SENSITIVITY) == from_dp_event(
        FIXED, tr.SUBSTITUTE, noise=PER_SENSITIVITY
    )
    with pytest.raises(tr.InvalidSetting, match="noise must be"):
        from_dp_event(FIXED, exchanged)


# the unit of the noise


def test_under_substitution_the_unit_must_be_stated() -> None:
    with pytest.raises(
        tr.InvalidSetting, match="noise must be PER_RECORD or PER_SENSITIVITY under SUBSTITUTE"
    ) as refused:
        DpEventAccountant(neighboring_relation=REPLACE_ONE)
    for noise, digits in ((PER_RECORD, "11.0"), (PER_SENSITIVITY, "4.9")):
        run = from_dp_event(GaussianDpEvent(1.0), tr.SUBSTITUTE, noise=noise)
        assert f"epsilon {digits}" in str(refused.value)
        assert f"{tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE).upper:.1f}" == digits
    with pytest.raises(tr.InvalidSetting, match="noise must be PER_RECORD"):
        from_dp_event(POISSON, tr.SUBSTITUTE)
    with pytest.raises(tr.InvalidSetting, match="'s / C'"):
        from_dp_event(POISSON, tr.SUBSTITUTE, noise="s / C")  # type: ignore[arg-type]


def test_per_sensitivity_is_how_their_renyi_accountant_reads_it_and_per_record_how_their_pld_one() -> None:
    renyi = dp_accounting.rdp.RdpAccountant(neighboring_relation=REPLACE_ONE).compose(
        GaussianDpEvent(1.0), 10
    )
    pld = dp_accounting.pld.PLDAccountant(REPLACE_ONE, value_discretization_interval=1e-3).compose(
        GaussianDpEvent(1.0), 10
    )
    sensitivity, record = (
        spent().compose(GaussianDpEvent(1.0), 10) for spent in (per_sensitivity, per_record)
    )
    assert renyi.get_epsilon(1e-6) == pytest.approx(20.55, abs=0.01)
    assert 0.9 * renyi.get_epsilon(1e-6) < sensitivity.get_epsilon(1e-6) <= renyi.get_epsilon(1e-6)
    assert pld.get_epsilon(1e-6) == pytest.approx(49.32, abs=0.01)
    assert record.get_epsilon(1e-6) == pytest.approx(pld.get_epsilon(1e-6), rel=1e-3)


def test_fixed_batches_at_the_setting_of_table_1_cost_eight_times_what_their_accountant_reports() -> None:
    theirs = (
        dp_accounting.rdp.RdpAccountant(neighboring_relation=REPLACE_ONE)
        .compose(FIXED, 10_000)
        .get_epsilon(1e-6)
    )
    assert theirs == pytest.approx(1.979, abs=1e-3)
    ours = per_record().compose(FIXED, 10_000).epsilon_bracket(1e-6)
    assert ours.lower > 15
    assert (
        per_sensitivity().compose(FIXED, 10_000).get_epsilon(1e-6) < theirs
    )  # which is what it took the noise for


def test_elsewhere_the_unit_matters_only_where_a_full_batch_pushes_a_record_out() -> None:
    for event in (GaussianDpEvent(1.0), POISSON, LaplaceDpEvent(1.0)):
        assert from_dp_event(event, tr.ADD_OR_REMOVE, noise=PER_SENSITIVITY) == from_dp_event(
            event, tr.ADD_OR_REMOVE
        )
    assert (
        from_dp_event(FIXED, tr.ADD_OR_REMOVE)
        == gaussian(0.8, tr.WithoutReplacement(batch=1, population=1000)) * 1
    )
    moved = from_dp_event(FIXED, tr.ADD_OR_REMOVE, noise=PER_SENSITIVITY)
    assert moved == gaussian(1.6, tr.WithoutReplacement(batch=1, population=1000)) * 1


def test_a_truncated_event_is_a_run_and_a_run_with_a_cap_an_event() -> None:
    event = dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.125, 20, 1.0)
    capped = tr.TruncatedPoisson(rate=0.125, at_most=20, population=100)
    for relation in (tr.ADD_OR_REMOVE, tr.SUBSTITUTE):
        assert from_dp_event(event, relation, noise=PER_RECORD) == gaussian(1.0, capped) * 1
        # a record that joins a full batch pushes another out, so the sum moves by 2C under both
        assert from_dp_event(event, relation, noise=PER_SENSITIVITY) == gaussian(2.0, capped) * 1
    assert to_dp_event(gaussian(1.0, capped)) == event
    assert to_dp_event(gaussian(1.0, capped) * 5) == SelfComposedDpEvent(event, 5)
    with pytest.raises(tr.InvalidSetting, match="at_most must be at least 1"):
        from_dp_event(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.125, 0, 1.0), tr.ADD_OR_REMOVE)
    for other in (tr.BallsInBins(batches=8), tr.RandomAllocation(batches=8, chosen=2)):
        with pytest.raises(tr.InvalidSetting, match="sampling must have an event of its own"):
            to_dp_event(gaussian(1.0, other))


# refusals


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (dp_event.UnsupportedDpEvent(), "UnsupportedDpEvent"),
        (dp_event.DiscreteLaplaceDpEvent(1.0, 1), "DiscreteLaplaceDpEvent"),
        (
            dp_event.SampledWithReplacementDpEvent(10, 2, GaussianDpEvent(1.0)),
            "SampledWithReplacementDpEvent",
        ),
        (dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4), "SingleEpochTreeAggregationDpEvent"),
        (dp_event.RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 2.0, 1.0), "RepeatAndSelectDpEvent"),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), "MixtureOfGaussiansDpEvent"),
        (dp_event.ZCDpEvent(0.1), "ZCDpEvent"),
        (PoissonSampledDpEvent(0.1, POISSON), "PoissonSampledDpEvent around PoissonSampledDpEvent"),
        (PoissonSampledDpEvent(0.1, NoOpDpEvent()), "PoissonSampledDpEvent around nothing"),
        (PoissonSampledDpEvent(0.1, SelfComposedDpEvent(LaplaceDpEvent(1.0), 2)), "around LaplaceDpEvent"),
        (PoissonSampledDpEvent(0.1, RandomizedResponseDpEvent(0.5, 2)), "around RandomizedResponseDpEvent"),
        (PoissonSampledDpEvent(0.1, NonPrivateDpEvent()), "around NonPrivateDpEvent"),
    ],
)
@pytest.mark.parametrize("accountant", [add_or_remove, per_record])
def test_what_is_no_step_is_refused_by_name(event: Any, named: str, accountant: Any) -> None:
    spent = accountant()
    assert not spent.supports(event)
    assert not spent.supports(SelfComposedDpEvent(ComposedDpEvent([GaussianDpEvent(1.0), event]), 3))
    with pytest.raises(UnsupportedEventError, match=named):
        spent.compose(event)
    with pytest.raises(tr.NoTheorem, match=named):
        from_dp_event(event, spent.relation, noise=PER_RECORD)


def test_an_event_of_an_unknown_kind_is_refused_with_what_is_known() -> None:
    class OwnDpEvent(GaussianDpEvent):  # type: ignore[misc]
        pass

    with pytest.raises(tr.NoTheorem, match=r"OwnDpEvent: .*Known are NoOpDpEvent, .*SelfComposedDpEvent"):
        from_dp_event(OwnDpEvent(1.0), tr.ADD_OR_REMOVE)
    with pytest.raises(tr.InvalidSetting, match="must be a DpEvent"):
        from_dp_event("gaussian", tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(
    ("event", "accountant", "why"),
    [
        (
            PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0)),
            per_record,
            "Laplace with Poisson sampling under SUBSTITUTE: no theorem",
        ),
        (
            PoissonSampledDpEvent(0.1, SelfComposedDpEvent(GaussianDpEvent(1.0), 2)),
            per_record,
            "several releases about one batch",
        ),
        (RandomizedResponseDpEvent(0.5, 2), add_or_remove, "a record more is a report more"),
        (RandomizedResponseDpEvent(0.5, 3), per_record, "known for two buckets"),
        (
            SampledWithoutReplacementDpEvent(10, 10, GaussianDpEvent(1.0)),
            add_or_remove,
            "Gaussian with WithoutReplacement",
        ),
        (
            SampledWithoutReplacementDpEvent(10, 11, GaussianDpEvent(1.0)),
            per_record,
            "batch must be at most population",
        ),
        (PoissonSampledDpEvent(1.1, GaussianDpEvent(1.0)), add_or_remove, "rate must be in"),
        (GaussianDpEvent(-1.0), add_or_remove, "noise_multiplier must be above 0"),
        (GaussianDpEvent(math.nan), add_or_remove, "noise_multiplier must be finite"),
        (SelfComposedDpEvent(GaussianDpEvent(1.0), -1), add_or_remove, "count must be at least 0"),
        (SelfComposedDpEvent(GaussianDpEvent(1.0), 1.5), add_or_remove, "count must be a whole number"),
    ],
)
def test_what_has_no_theorem_is_not_supported_and_says_why(event: Any, accountant: Any, why: str) -> None:
    spent = accountant()
    assert not spent.supports(event)
    with pytest.raises(UnsupportedEventError, match=why):
        spent.compose(event)
    assert spent.run == tr.Run()


def test_the_refusal_points_at_the_part_that_is_to_blame() -> None:
    blamed = PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0))
    details = per_record()._maybe_compose(
        SelfComposedDpEvent(ComposedDpEvent([GaussianDpEvent(1.0), blamed]), 2), 1, False
    )
    assert details is not None
    assert details.invalid_event == blamed


def test_relations_have_one_name_each_and_the_others_are_refused_by_name() -> None:
    for theirs in (ADD_OR_REMOVE_ONE, REPLACE_ONE):
        assert to_neighboring_relation(from_neighboring_relation(theirs)) is theirs
    with pytest.raises(tr.NoTheorem, match="REPLACE_SPECIAL"):
        DpEventAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    with pytest.raises(tr.InvalidSetting, match="must be a NeighboringRelation"):
        DpEventAccountant(neighboring_relation=tr.ADD_OR_REMOVE)
    with pytest.raises(tr.InvalidSetting, match="got ADD"):
        to_neighboring_relation(tr.ADD)
    with pytest.raises(tr.InvalidSetting, match="relation must be one of"):
        from_dp_event(POISSON, ADD_OR_REMOVE_ONE)
    assert from_dp_event(POISSON, tr.ADD) == from_dp_event(POISSON, tr.REMOVE)


# beside the accountants of dp_accounting


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(0.8, 0.001, 10_000), (1.0, 0.01, 1000), (4.0, 0.05, 1000), (2.0, 1.0, 100)]
)
def test_epsilon_is_below_their_upper_bounds_and_close_to_the_finer_one(
    noise: float, rate: float, steps: int
) -> None:
    event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)
    ours = add_or_remove().compose(event).get_epsilon(1e-6)
    pld = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-6)
    assert 0.99 * pld <= ours <= pld * (1 + 1e-3)
    assert ours <= dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(1e-6)


def test_calibration_finds_the_least_noise_for_poisson_sampling() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        add_or_remove,
        lambda noise: SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(noise)), 1000),
        target_epsilon=2.0,
        target_delta=1e-6,
    )
    ours = tr.smallest_noise(
        tr.Poisson(rate=0.01), steps=1000, epsilon=2, delta=1e-6, relation=tr.ADD_OR_REMOVE
    )
    assert found == pytest.approx(ours.value, rel=1e-4)
    assert (
        add_or_remove().compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(found)), 1000).get_epsilon(1e-6)
        <= 2
    )


@pytest.mark.parametrize("accountant", [add_or_remove, per_record])
def test_calibration_works_for_fixed_batches_which_their_pld_accountant_refuses(accountant: Any) -> None:
    def training(noise: float) -> Any:
        return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(noise)), 100)

    for relation in NeighboringRelation:
        assert not dp_accounting.pld.PLDAccountant(neighboring_relation=relation).supports(training(1.0))
    found = dp_accounting.calibrate_dp_mechanism(
        accountant, training, target_epsilon=2.0, target_delta=1e-5, tol=1e-3
    )
    assert 1.9 < accountant().compose(training(found)).get_epsilon(1e-5) <= 2


def test_calibration_starts_from_no_noise_under_substitution_too() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        per_record,
        lambda noise: SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(noise)), 100),
        target_epsilon=2.0,
        target_delta=1e-5,
        tol=1e-3,
    )
    assert (
        per_record().compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(found)), 100).get_epsilon(1e-5) <= 2
    )


def test_calibration_finds_the_most_steps() -> None:
    found = dp_accounting.calibrate_dp_mechanism(
        add_or_remove,
        lambda steps: SelfComposedDpEvent(POISSON, steps),
        target_epsilon=1.0,
        target_delta=1e-6,
        bracket_interval=dp_accounting.ExplicitBracketInterval(1000, 20_000),
        discrete=True,
    )
    step = gaussian(0.8, tr.Poisson(rate=0.001))
    assert found == pytest.approx(
        tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE).value, abs=2
    )


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("dp_accounting", "dp_accounting", "interop"),
        ("jax_privacy", "jax_privacy", "jax"),
        ("flower", "flwr", "flower"),
        ("accelerate", "accelerate", "accelerate"),
        ("lightning", "lightning", "lightning"),
        ("huggingface", "transformers", "huggingface"),
    ],
)
def test_an_absent_library_is_named_with_what_installs_it(module: str, library: str, extra: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None; import tightrope.integrations.{module}"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert f"MissingExtra: tightrope.integrations.{module} needs" in found.stderr
    assert found.stderr.strip().endswith(advise_install(extra))
