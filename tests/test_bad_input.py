"""Bad input is refused with an error that names the argument, the value and the remedy."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from catalogue import EVERY, batch, gaussian, laplace, poisson

STEP = tr.Step(tr.Gaussian(noise_multiplier=1.0), tr.Poisson(rate=0.1))
RUN = STEP * 10
Ask = Callable[[Any], object]

NOT_NUMBERS: list[object] = [None, "1", "0.5", b"1", True, False, 1j, 1 + 0j, [0.5], (0.5,), {}, object]
NOT_FINITE: list[object] = [math.nan, math.inf, -math.inf]
ARGUMENTS: dict[str, tuple[Ask, str, list[object]]] = {
    "gaussian noise": (
        lambda x: tr.Gaussian(noise_multiplier=x),
        "noise_multiplier",
        [0, 0.0, -1, -1e-300, -0.0],
    ),
    "laplace noise": (lambda x: tr.Laplace(noise_multiplier=x), "noise_multiplier", [0, 0.0, -1, -1e-300]),
    "truth probability": (
        lambda x: tr.RandomizedResponse(truth_probability=x),
        "truth_probability",
        [-0.1, 1.1, 2, -1e-300],
    ),
    "poisson rate": (lambda x: tr.Poisson(rate=x), "rate", [-0.1, 1.0000000000000002, 2, -1e-300]),
    "batch": (
        lambda x: tr.WithoutReplacement(batch=x, population=10),
        "batch",
        [-1, 1.0, 0.5, 11, Fraction(1, 2)],
    ),
    "population": (lambda x: tr.WithoutReplacement(batch=0, population=x), "population", [0, -1, 10.0, 0.5]),
    "steps": (lambda x: STEP * x, "steps", [-1, 1.0, 0.5, Fraction(3, 2), -(10**30)]),
    "steps on the left": (lambda x: x * STEP, "steps", [-1, 1.0, 0.5]),
    "repeats of a run": (lambda x: RUN * x, "times", [-1, 1.0, 0.5]),
    "epsilon": (lambda x: tr.delta(RUN, epsilon=x, relation=tr.ADD), "epsilon", []),
    "epsilon of log_delta": (lambda x: tr.privacy_curve(RUN, relation=tr.ADD).log_delta(x), "epsilon", []),
    "epsilon of error": (lambda x: tr.privacy_curve(RUN, relation=tr.ADD).error(x), "epsilon", []),
    "delta": (
        lambda x: tr.epsilon(RUN, delta=x, relation=tr.ADD),
        "delta",
        [0, 1, 0.0, 1.0, -0.1, 1.1, 2, -1e-300],
    ),
    "delta of contrast": (lambda x: tr.contrast(RUN, delta=x), "delta", [0, 1, -0.1, 1.1]),
    "accuracy": (
        lambda x: tr.privacy_curve(RUN, relation=tr.ADD, by=tr.Certified(accuracy=x)),
        "accuracy",
        [0, -1e-3, 1, 2.0, 1e-300],
    ),
}
# an array of questions is legal, so lists and tuples of good numbers are not bad input there
TAKES_ARRAYS = {"epsilon", "epsilon of log_delta", "delta", "delta of contrast"}
BAD = [
    pytest.param(ask, argument, value, id=f"{name}-{value!r}")
    for name, (ask, argument, values) in ARGUMENTS.items()
    for value in [*NOT_NUMBERS, *NOT_FINITE, *values]
    if not (name in TAKES_ARRAYS and isinstance(value, list | tuple))
]


@pytest.mark.parametrize(("ask", "argument", "value"), BAD)
def test_a_bad_argument_is_refused_by_name_and_value(ask: Ask, argument: str, value: object) -> None:
    with pytest.raises(tr.InvalidSetting) as refusal:
        ask(value)
    message = str(refusal.value)
    assert argument in message
    assert repr(value) in message
    assert re.search(r"\. [A-Z]", message), "a remedy follows"


def test_refusals_are_tightrope_errors_and_what_python_expects() -> None:
    assert issubclass(tr.InvalidSetting, tr.TightropeError)
    assert issubclass(tr.InvalidSetting, ValueError)
    assert issubclass(tr.NoTheorem, tr.TightropeError)
    assert issubclass(tr.NotPreciseEnough, tr.TightropeError)
    assert issubclass(tr.NotPreciseEnough, ArithmeticError)


@pytest.mark.parametrize(
    "values", [[0.5, math.nan], [0.5, 2.0], ["a", "b"], [None, 0.5], [[0.5], [0.0]], [0.1, True]], ids=repr
)
def test_one_bad_delta_among_good_ones_is_refused(values: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="delta"):
        tr.privacy_curve(RUN, relation=tr.ADD).epsilon(values)


@pytest.mark.parametrize(
    "values",
    [[0.5, math.nan], [0.5, math.inf], ["a", "b"], [None, 0.5], [0.5, 1j], np.array([True])],
    ids=repr,
)
def test_one_bad_epsilon_among_good_ones_is_refused(values: Any) -> None:
    curve = tr.privacy_curve(RUN, relation=tr.ADD)
    for method in (curve.delta, curve.log_delta):
        with pytest.raises(tr.InvalidSetting, match="epsilon"):
            method(values)


@pytest.mark.parametrize("values", [[[0.5], [0.5, 0.6]]], ids=repr)
def test_a_ragged_array_is_refused(values: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="epsilon"):
        tr.privacy_curve(RUN, relation=tr.ADD).delta(values)


def test_an_empty_array_of_questions_has_an_empty_answer() -> None:
    assert tr.privacy_curve(RUN, relation=tr.ADD).delta([]).shape == (0,)
    with pytest.raises(tr.InvalidSetting, match="delta"):
        tr.contrast(RUN, delta=[])


def test_a_batch_larger_than_the_population_is_refused_with_both_numbers() -> None:
    with pytest.raises(tr.InvalidSetting, match="batch must be at most population=10, got 11"):
        tr.WithoutReplacement(batch=11, population=10)


@pytest.mark.parametrize(
    ("observed", "alternative", "named"),
    [
        ([0.5, 0.6], [0.5, 0.5], "observed"),
        ([0.5, 0.5], [0.5, 0.4], "alternative"),
        ([0.5, 0.5], [1.0], "alternative must list the 2 outputs of observed"),
        ([-0.5, 1.5], [0.5, 0.5], r"observed\[0\]"),
        ([0.5, math.nan], [0.5, 0.5], r"observed\[1\]"),
        ([0.5, 0.5], [0.5, "0.5"], r"alternative\[1\]"),
        ([True, False], [0.5, 0.5], r"observed\[0\]"),
        ([], [], "observed"),
        (0.5, [0.5, 0.5], "observed"),
        (None, [0.5, 0.5], "observed"),
        ("ab", [0.5, 0.5], r"observed\[0\]"),
        ([0.5, 0.5], [math.inf, 0.5], r"alternative\[0\]"),
    ],
)
def test_what_is_not_a_pair_of_distributions_is_refused(observed: Any, alternative: Any, named: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=named):
        tr.Finite(observed=observed, alternative=alternative)


@pytest.mark.parametrize("value", [None, "poisson", 0.1, tr.Poisson, STEP], ids=repr)
def test_a_step_needs_a_mechanism_and_a_sampling(value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="mechanism must be one of") as refusal:
        tr.Step(value, poisson(0.1))
    assert repr(value) in str(refusal.value)
    with pytest.raises(tr.InvalidSetting, match="sampling must be one of"):
        tr.Step(tr.Gaussian(noise_multiplier=1), value)


@pytest.mark.parametrize(
    "value", [None, "run", 3, tr.Gaussian(noise_multiplier=1), [STEP], tr.Step], ids=repr
)
def test_what_is_not_a_run_is_refused(value: Any) -> None:
    asked: list[Callable[[], object]] = [
        lambda: tr.delta(value, epsilon=1, relation=tr.ADD),
        lambda: tr.epsilon(value, delta=0.1, relation=tr.ADD),
        lambda: tr.privacy_curve(value, relation=tr.ADD),
        lambda: tr.contrast(value, delta=0.1),
    ]
    for ask in asked:
        with pytest.raises(tr.InvalidSetting, match="run must be a Run or a Step") as refusal:
            ask()
        assert repr(value) in str(refusal.value)


@pytest.mark.parametrize("parts", [((None, 3),), (("step", 1),), ((tr.Poisson(rate=0.1), 1),)], ids=repr)
def test_a_run_is_made_of_steps(parts: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="step must be a Step"):
        tr.Run(parts)


@pytest.mark.parametrize("value", [None, "neighbours", "both", "", 0, tr.Relation], ids=repr)
def test_an_unknown_relation_is_refused(value: Any) -> None:
    with pytest.raises(
        tr.InvalidSetting, match="relation must be one of ADD, REMOVE, ADD_OR_REMOVE, SUBSTITUTE"
    ) as refusal:
        tr.delta(RUN, epsilon=1, relation=value)
    assert repr(value) in str(refusal.value)


@pytest.mark.parametrize("value", [None, "Quick", 1, True, [], tr.Effort, tr.PROVED], ids=repr)
def test_an_unknown_effort_is_refused_by_the_accountant(value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="effort must be QUICK or TIGHT") as refusal:
        tr.Certified(effort=value)
    assert f"got {value!r}. Pass for example effort=TIGHT." in str(refusal.value)


ASKED_BY: dict[str, Ask] = {
    "epsilon": lambda x: tr.epsilon(RUN, delta=1e-6, relation=tr.ADD, by=x),
    "delta": lambda x: tr.delta(RUN, epsilon=1, relation=tr.ADD, by=x),
    "privacy_curve": lambda x: tr.privacy_curve(RUN, relation=tr.ADD, by=x),
    "compare": lambda x: tr.compare(RUN, delta=1e-6, relation=tr.ADD, by=[x]),
    "contrast": lambda x: tr.contrast(RUN, delta=1e-6, by=x),
    "smallest_noise": lambda x: tr.smallest_noise(
        poisson(0.1), steps=9, epsilon=1, delta=1e-6, relation=tr.ADD, by=x
    ),
    "most_steps": lambda x: tr.most_steps(STEP, epsilon=1, delta=1e-6, relation=tr.ADD, by=x),
    "largest_rate": lambda x: tr.largest_rate(
        STEP.mechanism, steps=9, epsilon=1, delta=1e-6, relation=tr.ADD, by=x
    ),
    "largest_batch": lambda x: tr.largest_batch(
        STEP.mechanism, population=9, steps=9, epsilon=1, delta=1e-6, relation=tr.ADD, by=x
    ),
    "fewest_batches": lambda x: tr.fewest_batches(
        STEP.mechanism, steps=9, epsilon=1, delta=1e-6, relation=tr.ADD, by=x
    ),
    "a ledger": lambda x: tr.Ledger(relation=tr.ADD, by=x),
}


@pytest.mark.parametrize("name", ASKED_BY)
@pytest.mark.parametrize("value", [None, "certified", 1e-3, tr.TIGHT, tr.Certified], ids=repr)
def test_what_is_no_accountant_is_refused_by_every_answer(name: str, value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match=r"by must be .*Certified") as refusal:
        ASKED_BY[name](value)
    assert f"got {value!r}" in str(refusal.value)


@pytest.mark.parametrize("name", ["add", "remove", "add-or-remove", "substitute"])
def test_a_relation_or_an_effort_may_be_given_by_its_printed_name(name: str) -> None:
    (relation,) = [r for r in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE) if str(r) == name]
    assert tr.epsilon(RUN, delta=1e-6, relation=name) == tr.epsilon(RUN, delta=1e-6, relation=relation)
    assert tr.Ledger(relation=name).relation is tr.Ledger(relation=relation.name).relation is relation
    tight: Any = "tight"
    assert tr.Certified(effort=tight) == tr.Certified(effort=tr.TIGHT)


@pytest.mark.parametrize("value", ["bar", 1, True, [print]], ids=repr)
def test_progress_that_cannot_be_called_is_refused(value: Any) -> None:
    with pytest.raises(
        tr.InvalidSetting, match=r"progress must be callable, got .*\. Pass a function of two counts"
    ) as refusal:
        tr.epsilon(RUN, delta=1e-6, relation=tr.ADD, progress=value)
    assert repr(value) in str(refusal.value)


def test_sampling_and_relation_have_no_default() -> None:
    ask: Any = tr.delta
    with pytest.raises(TypeError, match="relation"):
        ask(RUN, epsilon=1.0)
    make: Any = tr.Step
    with pytest.raises(TypeError, match="sampling"):
        make(tr.Gaussian(noise_multiplier=1.0))


@pytest.mark.parametrize(
    ("step", "relation", "known"),
    [
        (
            tr.Step(tr.Laplace(noise_multiplier=1), poisson(0.1)),
            tr.SUBSTITUTE,
            ["ADD, REMOVE, ADD_OR_REMOVE", "EveryRecord, WithoutReplacement"],
        ),
        (
            tr.Step(tr.RandomizedResponse(truth_probability=0.75), poisson(0.1)),
            tr.SUBSTITUTE,
            ["ADD_OR_REMOVE", "EveryRecord"],
        ),
    ],
    ids=str,
)
def test_a_question_without_a_theorem_is_refused_with_what_is_known(
    step: tr.Step, relation: tr.Relation, known: list[str]
) -> None:
    with pytest.raises(tr.NoTheorem) as refusal:
        tr.delta(step * 3, epsilon=1, relation=relation)
    message = str(refusal.value)
    asked = (
        f"{type(step.mechanism).__name__} with {type(step.sampling).__name__} sampling under {relation.name}"
    )
    assert asked in message
    for hint in known:
        assert hint in message


def test_one_step_without_a_theorem_refuses_the_whole_run() -> None:
    run = gaussian(1, batch(1, 10), 5) + laplace(1, poisson(0.1), 1)
    assert tr.delta(run, epsilon=0.1, relation=tr.ADD).lower > 0
    with pytest.raises(tr.NoTheorem, match="Laplace with Poisson"):
        tr.delta(run, epsilon=1, relation=tr.SUBSTITUTE)


def test_a_full_batch_without_replacement_has_no_smaller_neighbour() -> None:
    for relation in (tr.ADD, tr.REMOVE):
        with pytest.raises(tr.NoTheorem, match="batch=10 must be below population=10"):
            tr.delta(gaussian(1, batch(10, 10), 1), epsilon=1, relation=relation)


def test_a_lopsided_declared_pair_has_no_theorem_where_an_exchange_goes_both_ways() -> None:
    lopsided = tr.Finite(observed=[0.5, 0.5], alternative=[0.25, 0.75])
    for sampling, relation in (
        (EVERY, tr.SUBSTITUTE),
        *((batch(1, 10), r) for r in (tr.ADD, tr.REMOVE, tr.SUBSTITUTE)),
    ):
        with pytest.raises(tr.NoTheorem, match="mirror"):
            tr.delta(tr.Step(lopsided, sampling), epsilon=0.5, relation=relation)


RELATIONS = [tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE]
PRIVATE = {
    "rate 0": gaussian(0.3, poisson(0.0), 1000),
    "rate 0, written as an int": tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0)) * 2,
    "batch 0": tr.Step(tr.Laplace(noise_multiplier=1), batch(0, 10)) * 5,
    "0 steps": STEP * 0,
    "a run repeated 0 times": RUN * 0,
    "empty run": tr.Run(),
}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_rate_zero_and_zero_steps_are_legal_and_perfectly_private(name: str, relation: tr.Relation) -> None:
    run = PRIVATE[name]
    curve = tr.privacy_curve(run, relation=relation)
    assert curve.epsilon(1e-300) == tr.Bracket(0.0, 0.0)
    for epsilon in (0.0, 1e-12, 3.0):
        assert curve.delta(epsilon) == tr.Bracket(0.0, 0.0)
        assert curve.log_delta(epsilon) == tr.Bracket(-math.inf, -math.inf)


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), Fraction(1, 2)], ids=repr)
def test_numbers_of_other_types_are_welcome(value: Any) -> None:
    assert tr.Poisson(rate=value) == tr.Poisson(rate=0.5)
    assert tr.Gaussian(noise_multiplier=value) == tr.Gaussian(noise_multiplier=0.5)
    assert tr.delta(RUN, epsilon=value, relation=tr.ADD) == tr.delta(RUN, epsilon=0.5, relation=tr.ADD)
    assert tr.epsilon(RUN, delta=value / 2, relation=tr.ADD) == tr.epsilon(RUN, delta=0.25, relation=tr.ADD)
    assert STEP * np.int64(3) == STEP * 3  # type: ignore[operator] # numpy's integers are Integral


def test_a_bracket_never_turns_into_a_float() -> None:
    bracket = tr.delta(RUN, epsilon=1, relation=tr.ADD)
    with pytest.raises(TypeError, match=r"upper.*lower"):
        float(bracket)
    with pytest.raises(TypeError):
        math.exp(bracket)
    with pytest.raises(TypeError):
        bracket + 1  # type: ignore[operator] # that is the point


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 0.5), (math.nan, 1.0), (0.0, math.nan)])
def test_a_bracket_out_of_order_cannot_exist(lower: float, upper: float) -> None:
    with pytest.raises(ArithmeticError, match="lower <= upper"):
        tr.Bracket(lower, upper)


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(STEP, "sampling", EVERY),
        lambda: setattr(STEP.mechanism, "noise_multiplier", 2.0),
        lambda: setattr(RUN, "parts", ()),
        lambda: setattr(tr.ADD, "name", "REMOVE"),
        lambda: setattr(tr.Bracket(0, 1), "upper", 2.0),
    ],
)
def test_values_cannot_be_changed(change: Callable[[], None]) -> None:
    with pytest.raises(AttributeError):
        change()


def test_misspelt_arguments_are_refused() -> None:
    make: Any = tr.Gaussian
    with pytest.raises(TypeError, match="noise"):
        make(noise=1.0)
    with pytest.raises(TypeError):
        make(1.0)


def answered_or_refused(run: tr.Run, relation: tr.Relation) -> tr.Bracket | str:
    try:
        return tr.epsilon(run, delta=1e-6, relation=relation)
    except tr.NotPreciseEnough as refusal:
        return str(refusal)


@pytest.mark.parametrize("noise", [0.1, 100.0])
@pytest.mark.parametrize("steps", [1, 100, 10**6])
def test_far_noise_is_answered_or_refused_clearly(noise: float, steps: int) -> None:
    for relation in (tr.ADD, tr.REMOVE):
        found = answered_or_refused(gaussian(noise, poisson(0.01), steps), relation)
        if isinstance(found, str):
            assert "epsilon" in found
            assert "Ask for" in found
        else:
            assert 0 <= found.lower <= found.upper < math.inf


@pytest.mark.parametrize("noise", [1e-310, 1e-7, 1e10, 1e300])
@pytest.mark.parametrize("mechanism", [tr.Gaussian, tr.Laplace])
def test_noise_beyond_what_doubles_can_tell_is_refused(
    mechanism: type[tr.Gaussian] | type[tr.Laplace], noise: float
) -> None:
    with pytest.raises(tr.InvalidSetting, match=r"noise_multiplier must be between 1e-06 and 1e\+09"):
        mechanism(noise_multiplier=noise)


def test_more_steps_than_can_be_counted_are_refused() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
    with pytest.raises(tr.InvalidSetting, match="steps must be at most"):
        step * 10**400


def test_a_contrast_tells_no_theorem_from_not_certified_and_prints_zero_plainly() -> None:
    table = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1)) * 0, delta=1e-6)
    assert "-0.0000" not in str(table)
    refused = tr.contrast(tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0.1)), delta=1e-6)
    assert refused.row(tr.Poisson, tr.SUBSTITUTE).why_not == "no theorem"
    assert "no theorem" in str(refused)
