"""What is given exactly is kept exactly: in text, files, statements, other samplings and other libraries."""

import json
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.answers.private_size import least_shift
from tightrope.setting.parts import part_of
from tightrope.setting.plain import plain_run
from tightrope.setting.tables import Table
from tightrope.statements.checks import parse_statement
from tightrope.statements.make import Facts, declare_as_accounted, state_run
from tightrope.statements.model import build_schema
from tightrope.statements.render import render_json, render_markdown
from tightrope.statements.verify import verify
from tightrope.theorems.other_batchings import reveal_moves, split_draws

FACTS = Facts(name="x", setting="local", unit="example", data_accesses="a", tuning="b", outputs="c")
THIRD = Fraction(1, 3)
EXTENDED = np.nextafter(np.longdouble("0.1"), np.longdouble(1))  # between two floats where it is longer
STEPS = [
    tr.Step(tr.Gaussian(noise_multiplier=Fraction(11, 10)), tr.Poisson(rate=THIRD)),
    tr.Step(
        tr.Laplace(noise_multiplier=Fraction(10**40, 10**40 + 1)),
        tr.WithoutReplacement(batch=1, population=3),
    ),
    tr.Step(tr.RandomizedResponse(truth_probability=2 * THIRD), tr.EveryRecord()),
    tr.Step(tr.Finite(observed=[THIRD, 2 * THIRD], alternative=[0.5, Fraction(1, 2)]), tr.Poisson(rate=0.5)),
]


@pytest.mark.parametrize("step", STEPS)
def test_text_and_files_keep_the_fraction(step: tr.Step, tmp_path: Path) -> None:
    names = {name: getattr(tr, name) for name in tr.__all__} | {"Fraction": Fraction}
    assert eval(repr(step), names) == step
    assert pickle.loads(pickle.dumps(step)) == step
    (plain,) = plain_run(step * 5)
    assert part_of(Table(json.loads(json.dumps(plain)), "")) == step * 5
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    ledger.record(step * 5)
    ledger.save(tmp_path / "ledger.json")
    assert tr.Ledger.load(tmp_path / "ledger.json").run == step * 5


def test_a_fraction_is_its_float_only_where_they_agree() -> None:
    assert tr.Poisson(rate=Fraction(1, 2)) == tr.Poisson(rate=0.5)
    assert hash(tr.Poisson(rate=Fraction(1, 2))) == hash(tr.Poisson(rate=0.5))
    assert tr.Poisson(rate=THIRD) != tr.Poisson(rate=float(THIRD))
    assert tr.Poisson(rate=float(THIRD)).exact_rate == Fraction(float(THIRD))
    for number in (np.float32(0.1), EXTENDED):
        assert tr.Poisson(rate=number).exact_rate == Fraction(*number.as_integer_ratio())  # type: ignore[arg-type]


def test_whole_numbers_of_numpy_do_not_overflow() -> None:
    noise: Any = np.int64(10**9)
    assert tr.Gaussian(noise_multiplier=noise).exact_noise_multiplier ** 3 == 10**27


def test_decimal_numbers_are_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match=r"rate must be a real number, got Decimal\('0.1'\)"):
        tr.Poisson(rate=Decimal("0.1"))  # type: ignore[call-overload]


@pytest.mark.parametrize("step", STEPS[::3])
def test_a_statement_says_the_fraction_and_reads_it_back(step: tr.Step) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    run, relation = step * 3, tr.ADD_OR_REMOVE
    found = declare_as_accounted(run)
    made = state_run(run, relation=relation, delta=1e-6, facts=FACTS, implemented=found)
    read = parse_statement(render_json(made))
    assert read == made
    assert read.accounted == run
    assert read.finding == found
    assert verify(read).holds
    jsonschema.Draft202012Validator(build_schema()).validate(json.loads(render_json(made)))
    assert "1/3" in render_markdown(made)


def test_a_contrast_has_the_same_rate_in_every_row() -> None:
    (fixed, poisson) = tr.WithoutReplacement(batch=1, population=3), tr.Poisson(rate=THIRD)
    noise = tr.Gaussian(noise_multiplier=3)
    for given, kind, other in ((fixed, tr.Poisson, poisson), (poisson, tr.WithoutReplacement, fixed)):
        ((step, _),) = tr.contrast(tr.Step(noise, given), delta=1e-6).row(kind, tr.ADD).run
        assert step.sampling == other
    tiny = tr.contrast(tr.Step(noise, tr.Poisson(rate=1.1e-300)), delta=1e-6)
    assert "too many records" in str(tiny.row(tr.WithoutReplacement, tr.ADD).refusal)


def test_a_sweep_refuses_what_its_files_cannot_hold() -> None:
    asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "steps": 1, "mechanism": "gaussian"}
    with pytest.raises(tr.InvalidSetting, match=r"rate must be a float"):
        tr.sweep({**asked, "noise_multiplier": 1, "sampling": "poisson", "rate": THIRD}, workers=1)


def test_a_target_between_floats_is_met() -> None:
    step = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord())
    epsilon, delta = 1 + Fraction(1, 10**20), Fraction(10**20 - 1, 10**25)
    found = tr.most_steps(step, epsilon=epsilon, delta=delta, relation=tr.ADD)  # type: ignore[arg-type]
    assert (found.target.epsilon, found.target.delta <= delta) == (1.0, True)


def test_a_question_between_floats_is_refused_and_not_rounded() -> None:
    step = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord())
    curve, ledger = tr.privacy_curve(step, relation=tr.ADD), tr.Ledger(relation=tr.ADD)
    between: Any = THIRD
    for ask in (curve.epsilon, curve.delta, curve.log_delta, ledger.epsilon, ledger.delta):
        with pytest.raises(tr.InvalidSetting, match=r"must be a float, got Fraction\(1, 3\)"):
            ask(between)
    assert curve.epsilon(0.25) == curve.epsilon(float(Fraction(1, 4)))


def test_bounds_for_other_batchings_start_from_the_fraction() -> None:
    """The float 0.1 is more noise than 1/10."""
    tenth = Fraction(1, 10)
    run = tr.Step(tr.Gaussian(noise_multiplier=tenth), tr.EveryRecord()) * 3
    for bounding, most in (
        (reveal_moves(run), tenth / 2),
        (split_draws(run, draws=1, rate=0.5), tenth),
        (split_draws(run, draws=4, rate=0.5), tenth / 2),
    ):
        ((step, _),) = bounding.parts
        assert isinstance(step.mechanism, tr.Gaussian)
        assert step.mechanism.exact_noise_multiplier <= most


def test_a_private_size_between_floats_is_refused_and_not_rounded() -> None:
    third = Fraction(1, 3)
    for ask in (
        lambda: least_shift(epsilon=third, beta=0.1),  # type: ignore[arg-type]
        lambda: least_shift(epsilon=0.1, beta=third),  # type: ignore[arg-type]
        lambda: tr.PrivateSize(estimate=9, epsilon=0.1, beta=third, shift=50),  # type: ignore[arg-type]
    ):
        with pytest.raises(tr.InvalidSetting, match="between two floats"):
            ask()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (10**400, "got 1000000000... (401 digits)."),
        (-(10**60), "got -1000000000... (61 digits)."),
        (Fraction(10**60 + 1, 3), "got Fraction(1000000000... (61 digits), 3)."),
        (10**39, f"got {10**39}."),
        (10**5000, "got a number of thousands of digits."),
    ],
    ids=["long", "negative", "fraction", "short", "thousands"],
)
def test_a_number_of_hundreds_of_digits_is_shortened_in_a_refusal(value: object, said: str) -> None:
    refusal = tr.InvalidSetting("delta", value, "be in (0, 1)")
    assert str(refusal) == f"delta must be in (0, 1), {said}"


def test_a_delta_of_hundreds_of_digits_does_not_fill_the_screen() -> None:
    with pytest.raises(tr.InvalidSetting) as refusal:
        tr.epsilon(tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()), delta=10**400, relation="add")
    assert "0" * 50 not in str(refusal.value)
