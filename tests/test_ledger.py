"""The ledger of a training loop: the one-shot answers, and what is left of a budget."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import tightrope as tr
from ledgers import POISSON, RELEASE, STEP, TABLE, ledger, mixed, small
from tightrope.answers.ledger import Ledger
from tightrope.setting.run import UNBROKEN

# recording and asking


def test_the_answers_are_those_of_one_run_to_the_last_bit() -> None:
    kept = mixed()
    run = STEP * 9_007 + RELEASE * 5 + TABLE
    assert kept.run == run
    assert kept.steps == 9_013
    assert kept.epsilon(1e-6) == tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert kept.delta(0.5) == tr.delta(run, epsilon=0.5, relation=tr.ADD_OR_REMOVE)
    assert kept.curve().because == tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).because
    finer = ledger(STEP * 100, by=tr.Certified(accuracy=1e-6), relation=tr.SUBSTITUTE)
    assert finer.epsilon(1e-6) == tr.epsilon(
        STEP * 100, delta=1e-6, relation=tr.SUBSTITUTE, by=tr.Certified(accuracy=1e-6)
    )


def test_every_step_of_a_loop_is_answered_like_one_run() -> None:
    kept = ledger()
    assert kept.epsilon(1e-6) == tr.Bracket(0.0, 0.0)
    for count in range(1, 6):
        kept.step(noise_multiplier=1, sampling=tr.Poisson(rate=0.01))
        run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * count
        assert kept.epsilon(1e-5) == tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE)


def test_ten_thousand_steps_of_a_hundred_kinds_are_a_hundred_parts() -> None:
    kept = ledger()
    for i in range(10_000):
        kept.step(noise_multiplier=0.8 + 1e-6 * (i % 100), sampling=POISSON)
    assert kept.steps == 10_000
    assert len(kept.run.parts) == 100


def test_an_answer_is_kept_until_something_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ledger(STEP)
    answer = kept.epsilon(1e-6), kept.delta(0.1)
    kept.record(STEP * 0)
    kept.step(noise_multiplier=3, sampling=POISSON, times=0)
    with monkeypatch.context() as patched:
        patched.setattr(tr.Certified, "curve", None)
        assert (kept.epsilon(1e-6), kept.delta(0.1)) == answer
    kept.record(STEP)
    assert kept.epsilon(1e-6) == tr.epsilon(STEP * 2, delta=1e-6, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize("value", [None, "1", [0.1], math.nan, True], ids=repr)
def test_bad_questions_are_refused_by_name(value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="delta must be"):
        small().epsilon(value)
    with pytest.raises(tr.InvalidSetting, match="epsilon must be"):
        small().delta(value)
    with pytest.raises(tr.InvalidSetting, match=r"delta must be in \(0, 1\), got 0"):
        small().epsilon(0)


def test_a_step_is_gaussian_unless_said_otherwise_and_counted_with_multiplicity() -> None:
    kept = ledger()
    kept.step(noise_multiplier=0.8, sampling=POISSON, times=4)
    kept.step(noise_multiplier=4, sampling=tr.EveryRecord(), mechanism=tr.Laplace)
    assert kept.run == STEP * 4 + RELEASE


def test_relation_and_sampling_have_no_default() -> None:
    make: Any = Ledger
    with pytest.raises(TypeError, match="relation"):
        make()
    take: Any = ledger().step
    with pytest.raises(TypeError, match="sampling"):
        take(noise_multiplier=1)


BAD: dict[str, tuple[Callable[[Any], object], str]] = {
    "noise": (
        lambda kept: kept.step(noise_multiplier=-1, sampling=POISSON),
        "noise_multiplier must be above 0, got -1",
    ),
    "sampling": (lambda kept: kept.step(noise_multiplier=1, sampling="poisson"), "sampling must be one of"),
    "times": (
        lambda kept: kept.step(noise_multiplier=1, sampling=POISSON, times=1.5),
        "times must be a whole number, got 1.5",
    ),
    "negative": (
        lambda kept: kept.step(noise_multiplier=1, sampling=POISSON, times=-1),
        "times must be at least 0, got -1",
    ),
    "mechanism": (
        lambda kept: kept.step(noise_multiplier=1, sampling=POISSON, mechanism=tr.Finite),
        "mechanism must be Gaussian or Laplace",
    ),
    "name": (
        lambda kept: kept.step(noise_multiplier=1, sampling=POISSON, mechanism="laplace"),
        "got 'laplace'",
    ),
    "run": (lambda kept: kept.record("run"), "run must be a Run or a Step, got 'run'"),
    "too many": (lambda kept: kept.record(RELEASE + STEP * 10**15), "steps must be at most"),
}


@pytest.mark.parametrize(("act", "reason"), BAD.values(), ids=BAD)
def test_what_is_refused_is_not_recorded(act: Callable[[Ledger], object], reason: str) -> None:
    kept = ledger(STEP)
    with pytest.raises(tr.InvalidSetting, match=reason):
        act(kept)
    assert kept == ledger(STEP)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"relation": "both"}, "relation must be one of"),
        ({"by": "certified"}, "by must be Certified"),
        ({"by": tr.Renyi()}, "by must be Certified"),
    ],
)
def test_a_bad_ledger_is_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=reason):
        ledger(**options)


def test_ledgers_are_equal_by_content_and_cannot_be_hashed() -> None:
    assert ledger(STEP, STEP) == ledger(STEP * 2)
    assert ledger(STEP, RELEASE) != ledger(RELEASE, STEP)  # the last step is what remaining() is about
    assert ledger(STEP) != ledger(STEP, relation=tr.ADD)
    assert ledger(STEP) != ledger(STEP, by=tr.Certified(accuracy=1e-2))
    assert ledger(STEP) != STEP
    with pytest.raises(TypeError, match="unhashable"):
        hash(ledger())


def test_a_ledger_says_what_it_holds() -> None:
    assert str(ledger(STEP * 2, RELEASE)).splitlines() == [
        "Ledger under ADD_OR_REMOVE: 3 steps",
        f"  2 x {STEP}",
        f"  1 x {RELEASE}",
        "  Answers hold if the steps were planned before any output was seen.",
    ]
    assert str(ledger(STEP)).startswith("Ledger under ADD_OR_REMOVE: 1 step\n")
    assert repr(ledger(STEP)) == f"<Ledger: {STEP * 1!r} under ADD_OR_REMOVE>"


def test_answers_about_several_kinds_of_steps_say_what_they_rest_on() -> None:
    kept = ledger(STEP * 3)
    assert kept.conditions == kept.epsilon(1e-6).conditions == kept.delta(0.1).conditions == ()
    kept.record(RELEASE)
    for found in (kept.epsilon(1e-6), kept.delta(0.1), kept.curve().log_delta(0.1)):
        assert str(found).endswith("] if the steps were planned before any output was seen")
        assert repr(found).endswith("conditions=('the steps were planned before any output was seen',))")
    plain = tr.epsilon(STEP * 3 + RELEASE, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert kept.epsilon(1e-6) == plain
    assert str(kept.epsilon(1e-6)).startswith(f"{plain} if")


def test_answers_about_passes_say_that_none_may_be_broken_off() -> None:
    kept = Ledger(relation=tr.ADD_OR_REMOVE)
    bins: dict[str, Any] = {"noise_multiplier": 1.0, "sampling": tr.BallsInBins(batches=2)}
    kept.step(**bins)
    assert kept.epsilon(1e-6).conditions == ()  # one batch is of one pass
    kept.step(**bins)
    assert kept.conditions == kept.epsilon(1e-6).conditions == (UNBROKEN,)
    # of two passes, each broken off after its first batch, that epsilon would be wrong
    first_batches = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.5)) * 2
    assert tr.epsilon(first_batches, delta=1e-6, relation=tr.ADD_OR_REMOVE).lower > kept.epsilon(1e-6).upper
    whole = ledger(tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=1)) * 5)
    assert whole.conditions == ()  # each of these passes is one batch


# what is left of a budget


@pytest.mark.parametrize("kept", [ledger(STEP * 300), ledger(RELEASE, STEP * 40)], ids=["steps", "mixed"])
def test_the_remaining_steps_fit_and_one_more_does_not(kept: Ledger) -> None:
    more = kept.remaining(epsilon=1, delta=1e-6)
    assert more > 0
    kept.record(STEP * more)
    assert kept.epsilon(1e-6).upper <= 1
    assert kept.remaining(epsilon=1, delta=1e-6) <= more * 1e-4
    kept.record(STEP * math.ceil(1 + more * 1e-4))
    assert kept.epsilon(1e-6).lower > 1
    assert kept.remaining(epsilon=1, delta=1e-6) == 0


def test_remaining_asks_about_the_last_step_or_a_given_one_and_changes_nothing() -> None:
    kept = ledger(RELEASE, STEP * 40)
    assert (
        kept.remaining(2, 1e-6) == kept.remaining(2, 1e-6, step=STEP) != kept.remaining(2, 1e-6, step=RELEASE)
    )
    assert (
        ledger().remaining(2, 1e-6, step=STEP)
        == tr.most_steps(STEP, epsilon=2, delta=1e-6, relation=tr.ADD_OR_REMOVE).value
    )
    assert kept == ledger(RELEASE, STEP * 40)


def test_a_spent_budget_leaves_no_steps_and_an_endless_one_is_said() -> None:
    assert ledger(STEP * 10_000).remaining(epsilon=0.5, delta=1e-6) == 0
    harmless = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0))
    with pytest.raises(tr.NoSuchValue, match="there is no largest number of steps") as refusal:
        ledger(STEP).remaining(epsilon=1, delta=1e-6, step=harmless)
    assert refusal.value.limit == math.inf


def test_remaining_needs_a_step_and_a_target() -> None:
    with pytest.raises(tr.InvalidSetting, match="step must be given while nothing is recorded"):
        ledger().remaining(1, 1e-6)
    with pytest.raises(tr.InvalidSetting, match="delta must be in"):
        ledger(STEP).remaining(1, 0)
    wrong: Any = STEP * 3
    with pytest.raises(tr.InvalidSetting, match="step must be a Step"):
        ledger(STEP).remaining(1, 1e-6, step=wrong)


def test_a_ledger_gives_the_one_shot_answer_of_the_same_accountant_to_the_last_bit() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=1, population=20))
    quick, tight = tr.Certified(), tr.Certified(effort=tr.TIGHT)
    ledgers = {by: tr.Ledger(relation=tr.SUBSTITUTE, by=by) for by in (quick, tight)}
    for by, made in ledgers.items():
        made.record(step * 5)
        assert made.by == by
        assert made.epsilon(1e-5) == tr.epsilon(step * 5, delta=1e-5, relation=tr.SUBSTITUTE, by=by)
        assert made.delta(0.2) == tr.delta(step * 5, epsilon=0.2, relation=tr.SUBSTITUTE, by=by)
    unspecified = ledger(step * 5, relation=tr.SUBSTITUTE)
    assert unspecified.epsilon(1e-5) == tr.epsilon(step * 5, delta=1e-5, relation=tr.SUBSTITUTE)
    assert unspecified.epsilon(1e-5) == ledgers[quick].epsilon(1e-5)
    assert ledgers[tight].epsilon(1e-5).upper < ledgers[quick].epsilon(1e-5).upper
    assert 0 < ledgers[quick].remaining(0.5, 1e-5) < ledgers[tight].remaining(0.5, 1e-5)


@pytest.mark.parametrize("times", [-50, 1.5, 10**15, True, "3"])
def test_a_count_that_is_none_is_refused_and_leaves_the_ledger_as_it_was(times: Any) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01))
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    ledger.count(step, 100)
    ledger.count(step, 0)
    with pytest.raises(tr.TightropeError):
        ledger.count(step, times)
    assert ledger.run == step * 100
