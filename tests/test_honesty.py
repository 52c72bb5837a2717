"""Every published reference value lies inside its bracket, and the brackets are narrow."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

import tightrope as tr
from known_gaps import KNOWN_GAPS
from oracle_cases import Answer, Case, answer, load
from precise import mp, mpf, two_step_delta
from tightrope.engines.outcomes import exact_delta
from tightrope.pairs.schedule import Schedule
from tightrope.theorems.lookup import analyse

CASES = load()
DEFAULT, FINE = 1e-3, 1e-5


def holds(bracket: tr.Bracket, value: mpf) -> bool:
    return bool(mpf(bracket.lower) <= value <= mpf(bracket.upper))


def check_honest(case: Case, said: Answer) -> None:
    if case.asked == "eps_at_delta":
        assert said.epsilon is not None
        assert holds(said.epsilon, case.epsilon), f"epsilon {case.epsilon} outside {said.epsilon!r}"
        return
    if case.delta == 0:
        assert said.log_delta.lower == -math.inf
        assert said.log_delta.upper < math.log(1e-14)
        assert said.delta is None or said.delta.lower == 0
        return
    log_delta = mp.log(case.delta)
    assert holds(said.log_delta, log_delta), f"ln delta {log_delta} outside {said.log_delta!r}"
    assert said.delta is None or holds(said.delta, case.delta), f"delta {case.delta} outside {said.delta!r}"


def check_width(case: Case, said: Answer, accuracy: float) -> None:
    if case.asked == "eps_at_delta":
        assert said.epsilon is not None
        assert said.epsilon.relative_width <= accuracy
        return
    lower, upper = said.log_delta.lower, said.log_delta.upper
    if case.delta == 0:
        assert said.log_delta == tr.Bracket(-math.inf, -math.inf)
        assert said.delta in (None, tr.Bracket(0.0, 0.0))
    width = 0.0 if upper == -math.inf else -math.expm1(lower - upper)
    assert width <= accuracy


def is_honest(accuracy: float, case: Case) -> None:
    check_honest(case, answer(case, accuracy))


def is_narrow(accuracy: float, case: Case) -> None:
    check_width(case, answer(case, accuracy), accuracy)


CHECKS: dict[str, Callable[[Case], None]] = {
    "honest 1e-3": partial(is_honest, DEFAULT),
    "honest 1e-5": partial(is_honest, FINE),
    "width 1e-3": partial(is_narrow, DEFAULT),
    "width 1e-5": partial(is_narrow, FINE),
}


def cases_without_gap(check: str) -> list[object]:
    return [pytest.param(case, id=case.id) for case in CASES if (check, case.id) not in KNOWN_GAPS]


@pytest.mark.parametrize("case", cases_without_gap("honest 1e-3"))
def test_the_default_bracket_holds_the_reference_value(case: Case) -> None:
    CHECKS["honest 1e-3"](case)


@pytest.mark.parametrize("case", cases_without_gap("honest 1e-5"))
def test_the_fine_bracket_holds_the_reference_value(case: Case) -> None:
    CHECKS["honest 1e-5"](case)


@pytest.mark.parametrize("case", cases_without_gap("width 1e-3"))
def test_the_default_bracket_is_at_most_a_thousandth_wide(case: Case) -> None:
    CHECKS["width 1e-3"](case)


@pytest.mark.parametrize("case", cases_without_gap("width 1e-5"))
def test_the_bracket_is_at_most_1e_5_wide_when_asked(case: Case) -> None:
    CHECKS["width 1e-5"](case)


def test_every_known_gap_names_a_case_and_still_fails() -> None:
    by_id = {case.id: case for case in CASES}
    for (check, case_id), reason in KNOWN_GAPS.items():
        assert reason
        if check not in CHECKS:  # a law, which looks after its own gaps
            continue
        with pytest.raises((AssertionError, tr.TightropeError)):
            CHECKS[check](by_id[case_id])


EXACT = [pytest.param(case, id=case.id) for case in CASES if case.exact is not None]


@pytest.mark.parametrize("case", EXACT)
def test_exact_fractions_are_reproduced_exactly(case: Case) -> None:
    (analysis,) = analyse(case.run, case.relation, tr.TIGHT)
    (cover,) = analysis.covers
    (schedule,) = cover.schedules
    assert isinstance(schedule, Schedule)
    order = case.id.rsplit("-a", 1)[1].replace("_", "/")
    assert exact_delta(schedule, Fraction(order)) == case.exact


SHIFTED = [case for case in CASES if case.delta > 0][::12]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in SHIFTED])
@pytest.mark.parametrize("factor", [1 - 2 * FINE, 1 + 2 * FINE])
def test_a_reference_value_off_by_twice_the_accuracy_would_be_noticed(case: Case, factor: float) -> None:
    off = replace(case, delta=case.delta * factor, epsilon=case.epsilon * factor)
    with pytest.raises(AssertionError):
        check_honest(off, answer(case, FINE))


def test_the_oracle_reaches_the_corners_it_should() -> None:
    deltas = [case.delta for case in CASES if case.asked == "delta_at_eps"]
    steps = [len(case.run) for case in CASES]
    assert len(CASES) == 181
    assert len({case.id for case in CASES}) == len(CASES)
    assert 0 in deltas
    assert min(delta for delta in deltas if delta) < mpf("1e-308")
    assert max(deltas) > 0.9
    assert (min(steps), max(steps)) == (1, 10**6)
    assert {case.relation for case in CASES} == {tr.ADD, tr.REMOVE, tr.SUBSTITUTE}


# Where few steps meet a low rate the engines work hardest; two steps are one integral of a closed form.
TWO_STEPS: list[tuple[type[tr.Gaussian] | type[tr.Laplace], tr.Relation, float, float, float]] = [
    (tr.Gaussian, tr.REMOVE, 0.3, 1e-4, 0.0),
    (tr.Gaussian, tr.REMOVE, 0.5, 1e-5, 1.0),
    (tr.Gaussian, tr.REMOVE, 1.0, 1e-3, 0.01),
    (tr.Gaussian, tr.REMOVE, 2.0, 0.01, 0.001),
    (tr.Gaussian, tr.REMOVE, 0.8, 0.9, 5.0),
    (tr.Gaussian, tr.REMOVE, 10.0, 0.5, 0.1),
    (tr.Gaussian, tr.ADD, 0.3, 1e-4, 1e-4),
    (tr.Gaussian, tr.ADD, 1.0, 1e-3, 1e-3),
    (tr.Gaussian, tr.ADD, 0.5, 0.1, 0.15),
    (tr.Gaussian, tr.ADD, 0.8, 0.9, 3.0),
    (tr.Laplace, tr.REMOVE, 0.3, 1e-3, 0.02),
    (tr.Laplace, tr.REMOVE, 2.0, 0.01, 0.005),
    (tr.Laplace, tr.ADD, 0.5, 0.1, 0.1),
    (tr.Laplace, tr.ADD, 10.0, 0.5, 0.04),
]


@pytest.mark.parametrize(("mechanism", "relation", "noise", "rate", "epsilon"), TWO_STEPS)
def test_brackets_of_two_steps_hold_the_integral(
    mechanism: type[tr.Gaussian] | type[tr.Laplace],
    relation: tr.Relation,
    noise: float,
    rate: float,
    epsilon: float,
) -> None:
    name = "normal" if mechanism is tr.Gaussian else "laplace"
    truth = two_step_delta(name, relation.name, mpf(rate), 1 / mpf(noise), mpf(epsilon))
    run = tr.Step(mechanism(noise_multiplier=noise), tr.Poisson(rate=rate)) * 2
    for accuracy in (DEFAULT, FINE):
        found = tr.privacy_curve(run, relation=relation, by=tr.Certified(accuracy=accuracy)).log_delta(
            epsilon
        )
        assert (
            mpf(found.lower) - mpf("1e-12") <= mp.log(truth) <= mpf(found.upper) + mpf("1e-12")
        )  # the integral's own error
        assert -math.expm1(found.lower - found.upper) <= accuracy
