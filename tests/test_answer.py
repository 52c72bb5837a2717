"""Answers at home in Python: formats, comparisons, repr, rows and notebooks."""

import decimal
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tightrope as tr
from tightrope.curve.formats import NumberFormat

PUBLIC = {name: getattr(tr, name) for name in tr.__all__}
RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
epsilon = tr.epsilon(RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE)
wide = tr.Bracket(0.5, 0.75)
bound = tr.UpperBound(1.25, order=8.0)
about = tr.Approximation(2 / 3)
guess = tr.Estimate(0.25, lower=0.2, upper=0.3, confidence=0.99, draws=1000)
ANSWERS = (wide, epsilon, bound, about, guess)
each_answer = pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)

numbers = st.floats(allow_nan=False) | st.decimals(-1000, 1000, places=4).map(float)
specs = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", " ", "-"]),
    st.sampled_from(["", ",", "_"]),
    st.sampled_from(["", ".0", ".1", ".3", ".6", ".12", ".20"]),
    st.sampled_from(["", "e", "E", "f", "F", "g", "G", "%"]),
)


def read(text: str) -> Decimal:
    """The number that a text says, exactly."""
    plain = text.replace(",", "").replace("_", "")
    with localcontext(prec=2000):
        return Decimal(plain[:-1]) / 100 if plain.endswith("%") else Decimal(plain)


@given(numbers, specs)
@example(0.1, ".3f")
@example(9.9996, ".3e")
@example(-9.9996, ".3g")
@example(99999.5, ".5g")
@example(-0.0, "+.2f")
@example(1.7e308, "%")
@example(5e-324, ".3f")
def test_a_format_never_rounds_towards_the_truth(value: float, spec: str) -> None:
    written = NumberFormat.read(spec)
    lower, upper = written.write(value, up=False), written.write(value, up=True)
    assert read(lower) <= Decimal(repr(value)) <= read(upper)


@given(st.floats(-1e6, 1e6), specs)
@example(0.0001, "g")
@example(0.00001, ".3")
@example(123456789.0, ",.3")
@example(999999.5, ".6g")
def test_numbers_look_as_python_writes_floats(value: float, spec: str) -> None:
    written = NumberFormat.read(spec)
    plain = format(value, spec)
    digits = plain.lower().replace("%", "").partition("e")[0]
    if len(re.sub(r"\D", "", digits).lstrip("0")) > 15:
        return  # Python writes digits of the binary fraction there, which are not those of the number
    if not read(plain):
        plain = plain.replace("-", spec[:1] if spec[:1] in ("+", " ") else "")  # a zero has no sign here
    assert plain in (written.write(value, up=False), written.write(value, up=True))


@given(st.floats(0, 1e9), st.floats(0, 1e9), specs)
def test_a_formatted_bracket_holds_the_bracket(one: float, other: float, spec: str) -> None:
    bracket = tr.Bracket(min(one, other), max(one, other))
    text = format(bracket, spec or ".3f")
    ends = [read(end) for end in text.strip("[]").split(", ")]
    assert ends[0] <= Decimal(repr(bracket.lower))
    assert Decimal(repr(bracket.upper)) <= ends[-1]


@pytest.mark.parametrize(
    ("answer", "spec", "text"),
    [
        (tr.Bracket(0.94719428, 0.94719668), ".3f", "[0.947, 0.948]"),
        (tr.Bracket(0.94719428, 0.94719668), ".4g", "[0.9471, 0.9472]"),
        (tr.Bracket(0.94719428, 0.94719668), ".1%", "[94.7%, 94.8%]"),
        (tr.Bracket(1.23e-6, 1.24e-6), ".1e", "[1.2e-06, 1.3e-06]"),
        (tr.Bracket(0.5, 0.5), ".2f", "0.50"),
        (tr.Bracket(2 / 3, 2 / 3), ".2f", "[0.66, 0.67]"),
        (tr.Bracket(1234.5, math.inf), ",.1f", "[1,234.5, inf]"),
        (tr.Bracket(0.5, 0.75), ">14.1f", "    [0.5, 0.8]"),
        (tr.Bracket(0.5, 0.75), "14.1f", "    [0.5, 0.8]"),
        (tr.Bracket(0.5, 0.75), "*^14.1f", "**[0.5, 0.8]**"),
        (tr.Bracket(0.5, 0.75), "<14", "[0.5, 0.75]   "),
        (tr.Bracket(0.5, 0.75, conditions=("it rains",)), ".1f", "[0.5, 0.8] if it rains"),
        (bound, ".1f", "at most 1.3"),
        (tr.UpperBound(1.0000001, order=2.0), ".3f", "at most 1.001"),
        (about, ".2f", "about 0.67"),
        (tr.Estimate(0.25, lower=0.21, upper=0.31, confidence=0.99, draws=9), ".1f", "0.2 (0.2 to 0.4"),
    ],
)
def test_each_end_is_rounded_to_its_safe_side(answer: Any, spec: str, text: str) -> None:
    assert format(answer, spec).startswith(text)
    assert format(answer, spec) == text or isinstance(answer, tr.Estimate)


@each_answer
def test_without_a_spec_a_format_is_str(answer: Any) -> None:
    assert format(answer, "") == f"{answer}" == str(answer)


@each_answer
@pytest.mark.parametrize("spec", ["d", "s", "x", "n", "08.3f", "=12.3f", "#g", ".f", ".3q", " <", ".3f "])
def test_a_spec_that_means_nothing_for_an_answer_is_refused(answer: Any, spec: str) -> None:
    if spec == " <":
        assert format(answer, spec) == str(answer)  # a fill and an alignment, as Python reads it
        return
    with pytest.raises(tr.InvalidSetting, match="format_spec must be a format of floats such as") as refusal:
        format(answer, spec)
    assert f"got {spec!r}" in str(refusal.value)


@pytest.mark.parametrize("spec", [".1001f", "1001", "99999999999.2f"])
def test_formats_longer_than_a_page_are_refused(spec: str) -> None:
    with pytest.raises(tr.InvalidSetting, match="at most 1,000 characters"):
        format(wide, spec)


@pytest.mark.parametrize("kind", [float, int, Fraction, Decimal, np.float64, np.float32, np.int64], ids=str)
def test_certain_comparisons_answer_on_either_side(kind: Any) -> None:
    for small, large in ((wide, kind(1)), (kind(0), wide), (bound, kind(2)), (wide, tr.Bracket(0.8, 0.9))):
        for holds in (lt(small, large), le(small, large), gt(large, small), ge(large, small)):
            assert holds is True
        for fails in (gt(small, large), ge(small, large), lt(large, small), le(large, small)):
            assert fails is False


def test_the_ends_themselves_decide_where_they_can() -> None:
    assert wide <= 0.75
    assert wide >= 0.5
    assert not wide > 0.75
    assert not wide < 0.5
    for compare, end in ((lt, 0.75), (ge, 0.75), (gt, 0.5), (le, 0.5)):
        with pytest.raises(tr.UncertainComparison):
            compare(wide, end)


@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4))
def test_a_comparison_of_brackets_is_what_every_pair_of_values_says(ends: list[int]) -> None:
    one = tr.Bracket(*sorted(map(float, ends[:2])))
    other = tr.Bracket(*sorted(map(float, ends[2:])))
    values = [(x, y) for x in (one.lower, one.upper) for y in (other.lower, other.upper)]
    for compare in (lt, le, gt, ge):
        holds = {compare(x, y) for x, y in values}
        if len(holds) == 1:
            assert compare(one, other) is holds.pop()
        else:
            with pytest.raises(tr.UncertainComparison):
                compare(one, other)


def test_an_uncertain_comparison_says_both_ends_and_which_to_compare() -> None:
    with pytest.raises(tr.UncertainComparison) as refusal:
        _ = wide < 0.6
    assert str(refusal.value) == (
        "whether the answer is below 0.6 is not certain: it is at most 0.75 and at least 0.5. "
        "Compare .upper, the safe end, to show that it is small, or .lower to show that it is large."
    )
    assert isinstance(refusal.value, tr.TightropeError)
    with pytest.raises(tr.UncertainComparison, match=r"at most 1.25, and .* below. Compare .upper, the"):
        _ = bound <= 1
    with pytest.raises(tr.UncertainComparison, match=r"one answer is above the other .*0.75.* the other, at"):
        _ = wide > bound


def test_a_float_between_two_of_numpy_is_not_rounded_before_it_is_compared() -> None:
    nearest = np.float32(0.1)  # 0.100000001490116...: as float32, 0.1 is the same
    assert lt(tr.Bracket(0.1, 0.1), nearest)
    assert gt(nearest, tr.Bracket(0.1, 0.1))
    assert tr.Bracket(0.1, 0.1) < Fraction(0.1) + Fraction(1, 10**30)
    assert tr.Bracket(0.5, 0.5) < Decimal("0.5000000000000000000000001")
    assert epsilon < 10**400


@pytest.mark.parametrize("nan", [math.nan, np.float64("nan"), np.float32("nan"), Decimal("nan")], ids=repr)
def test_nothing_is_compared_with_nan(nan: Any) -> None:
    for compare in (lt, le, gt, ge):
        for sides in ((wide, nan), (nan, wide), (bound, nan)):
            with pytest.raises(tr.InvalidSetting, match=r"must be a number to compare with, got .*[nN]a[nN]"):
                compare(*sides)


@pytest.mark.parametrize("other", ["1", None, True, [1], 1j], ids=repr)
def test_what_is_no_number_is_not_compared(other: Any) -> None:
    for compare in (lt, le, gt, ge):
        with pytest.raises(TypeError, match="not supported between instances"):
            compare(wide, other)


@pytest.mark.parametrize(
    ("answer", "what", "instead"),
    [
        (about, "an approximation", "Compare .value"),
        (guess, "an estimate", "Compare .upper, the safe end, or .lower"),
    ],
)
def test_nothing_about_estimates_and_approximations_is_certain(answer: Any, what: str, instead: str) -> None:
    for compare in (lt, le, gt, ge):
        for sides in ((answer, 10), (10, answer), (answer, wide), (wide, answer), (answer, answer)):
            with pytest.raises(tr.UncertainComparison, match=f"nothing about {what} is certain") as refusal:
                compare(*sides)
            assert instead in str(refusal.value)


def test_arrays_of_answers_compare_one_by_one() -> None:
    answers = tr.privacy_curve(RUN, relation="remove").epsilon([1e-6, 1e-5])
    assert (answers < 1).tolist() == [True, True]
    assert (answers > np.array([0.9, 0.9])).tolist() == [True, False]
    assert (np.array([2.0, 0.1]) < epsilon).tolist() == [False, True]
    assert sorted([tr.Bracket(3, 4), wide]) == [wide, tr.Bracket(3, 4)]
    assert max(tr.Bracket(3, 4), wide) == tr.Bracket(3, 4)


def test_equality_is_that_of_values_and_a_bracket_equals_no_number() -> None:
    assert tr.Bracket(0.5, 0.75) == wide
    assert hash(tr.Bracket(0.5, 0.75)) == hash(wide)
    exact: Any = tr.Bracket(0.5, 0.5)
    assert exact != 0.5
    assert exact not in (0.5, 0.75)
    assert tr.UpperBound(1.25, order=8.0, because=tuple(tr.support_matrix().refuted_beliefs)) == bound


@pytest.mark.parametrize(
    ("answer", "end"), [(wide, ".upper"), (bound, ".upper"), (about, ".value"), (guess, ".upper")]
)
def test_no_answer_turns_itself_into_a_float(answer: Any, end: str) -> None:
    for turn in (float, "%.3f".__mod__, math.ceil):
        with pytest.raises(TypeError) as refusal:
            turn(answer)
        assert end in str(refusal.value)


VALUES = [
    *ANSWERS,
    tr.Bracket(0.5, math.inf, conditions=("it rains",)),
    tr.Bracket(-math.inf, np.float64(0.5)),
    tr.UpperBound(math.inf, order=math.inf),
    tr.Approximation(math.inf),
    tr.Estimate(0.5, lower=0.0, upper=math.inf, confidence=0.9, draws=1, interrupted=True),
    tr.Gap(math.inf, 1e-3, "nobody knows"),
    tr.Gap(0.1, 1e-3, "nobody knows", "Ask {TIGHT}", 3.5),
    epsilon.decided_by,
    *(tr.Gaussian(noise_multiplier=0.8), tr.Laplace(noise_multiplier=2)),
    *(
        tr.RandomizedResponse(truth_probability=0.75),
        tr.Finite(observed=[0.5, 0.5], alternative=[0.25, 0.75]),
    ),
    *(tr.EveryRecord(), tr.Poisson(rate=1e-3), tr.WithoutReplacement(batch=5, population=100)),
    tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)),
    *(tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE, tr.QUICK, tr.TIGHT, tr.PROVED, tr.REFUTED),
    *(tr.Certified(effort=tr.TIGHT), tr.Exact(), tr.Renyi(), tr.GaussianLimit(), tr.MonteCarlo(), tr.PLAIN),
    tr.PrivateSize(estimate=49_870, epsilon=0.1, beta=1e-6, shift=132),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_repr_of_a_value_makes_an_equal_one(value: object) -> None:
    assert eval(repr(value), dict(PUBLIC)) == value


def test_a_repr_evaluates_among_the_public_names() -> None:
    _ = tr.Bracket
    assert eval(repr(epsilon), vars(tr)) == epsilon


@each_answer
def test_an_answer_is_one_flat_row(answer: Any) -> None:
    row = answer.to_dict()
    assert all(isinstance(value, str | int | float) for value in row.values())
    assert json.loads(json.dumps(row)) == row
    for name in ("lower", "value", "upper"):
        assert (name in row) == hasattr(answer, name)
        assert row.get(name) == getattr(answer, name, None)


def test_a_row_keeps_what_an_answer_depends_on() -> None:
    row = epsilon.to_dict()
    assert row["branch"] == "REMOVE"
    assert str(row["because"]).split("; ")[0] == "poisson_remove"
    assert (
        tr.Bracket(0, 1, conditions=("it rains", "it pours")).to_dict()["conditions"] == "it rains; it pours"
    )


@pytest.mark.usefixtures("contrasted_once")
def test_tables_of_answers_become_data_frames() -> None:
    pd = pytest.importorskip("pandas")
    assert pd.Series([wide, tr.Bracket(3, 4)]).lt(1).tolist() == [True, False]
    contrast = tr.contrast(RUN, delta=[1e-6, 1e-5])
    frame = pd.DataFrame(contrast.to_dicts())
    assert len(frame) == 2 * len(contrast.rows)
    claimed = frame[frame.claimed & (frame.delta == 1e-6)].iloc[0]
    row = contrast.row(tr.Poisson, "add-or-remove")
    assert (claimed.lower, claimed.upper) == (row.epsilons[0].lower, row.epsilons[0].upper)
    assert (claimed.sampling, claimed.relation, claimed.ratio_upper) == ("poisson", "add-or-remove", 1.0)
    mixed = tr.contrast(tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0.1)), delta=1e-6)
    refused = pd.DataFrame(mixed.to_dicts()).query("refusal != ''")
    assert refused.upper.isna().all()
    assert len(refused)
    steps = tr.most_steps(RUN.parts[0][0], epsilon=1, delta=1e-6, relation="add/remove")
    found = pd.DataFrame(steps.to_dicts()).iloc[0]
    assert (found.parameter, found.value, found.beyond, found.relation) == (
        "steps",
        11397,
        11398,
        "add-or-remove",
    )
    assert found.spent_upper <= found.epsilon == 1
    by = [tr.Certified(), tr.Renyi(), tr.GaussianLimit()]
    compared = pd.DataFrame(tr.compare(RUN, relation="remove", delta=[1e-6, 1e-5], by=by).to_dicts())
    assert compared.accountant.tolist() == [
        name for name in ("certified", "renyi", "gaussian-limit") for _ in "ab"
    ]
    assert compared.lower.notna().tolist() == [True, True, False, False, False, False]
    matrix = pd.DataFrame(tr.support_matrix().to_dicts())
    assert len(matrix) == len(tr.support_matrix().cells)
    assert matrix[~matrix.answered].theorems.eq("").all()


NOTEBOOK: dict[str, Callable[[], Any]] = {
    "bracket": lambda: epsilon,
    "bound": lambda: tr.epsilon(RUN, delta=1e-6, relation="remove", by=tr.Renyi()),
    "approximation": lambda: about,
    "estimate": lambda: guess,
    "curve": lambda: tr.privacy_curve(RUN, relation="substitute"),
    "renyi curve": lambda: tr.privacy_curve(RUN, relation="remove", by=tr.Renyi()),
    "trade-off": lambda: tr.privacy_curve(RUN.parts[0][0] * 10, relation="remove").trade_off(),
    "calibration": lambda: tr.most_steps(RUN.parts[0][0], epsilon=1, delta=1e-6, relation="remove"),
    "contrast": lambda: tr.contrast(RUN, delta=1e-6),
    "comparison": lambda: tr.compare(RUN, relation="remove", delta=1e-6, by=[tr.Certified(), tr.Renyi()]),
    "ledger": lambda: filled_ledger(),
    "support matrix": tr.support_matrix,
}


def filled_ledger() -> tr.Ledger:
    ledger = tr.Ledger(relation="add-or-remove")
    ledger.record(RUN)
    ledger.record(tr.Step(tr.Gaussian(noise_multiplier=3), tr.EveryRecord()))
    return ledger


@pytest.mark.usefixtures("contrasted_once")
@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebooks_show_small_pieces_of_sound_html_in_their_own_colours(name: str) -> None:
    from xml.etree import ElementTree

    shown = NOTEBOOK[name]()._repr_html_()
    tree = ElementTree.fromstring(shown)  # every element is closed, every sign escaped
    assert tree.tag == "div"
    known = "div p b table thead tbody tr th td details summary ul li"
    assert {element.tag for element in tree.iter()} <= set(known.split())
    styles = {value for element in tree.iter() for value in element.attrib.values()}
    assert styles <= {"text-align: left"}
    assert "<details>" in shown
    assert len(shown) < 20_000


def test_a_notebook_shows_ends_that_hold_and_why() -> None:
    shown = epsilon._repr_html_()
    upper, lower = re.findall(r"[\d.]{6,}", shown)[:2]
    assert float(lower) <= epsilon.lower <= epsilon.upper <= float(upper)
    assert f"<b>{upper}</b>" in shown
    assert "REMOVE costs most" in shown
    assert "poisson_remove" in shown
    assert "D&#x27; = (0, ..., 0)" in shown


def test_what_a_notebook_shows_is_escaped() -> None:
    shown = tr.Bracket(0.5, 0.75, conditions=("<script>alert('x')</script>",))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_notebook_shows_the_relation_and_the_conditions_of_a_ledger() -> None:
    shown = filled_ledger()._repr_html_()
    assert "Ledger under ADD_OR_REMOVE: 10001 steps" in shown
    assert "planned before any output was seen" in shown
    assert "D&#x27; has one record more or one fewer than D" in shown


def test_a_notebook_shows_some_of_many_kinds_of_steps() -> None:
    ledger = tr.Ledger(relation="add-or-remove")
    for noise in range(1, 31):
        ledger.step(noise_multiplier=noise, sampling=tr.EveryRecord())
    shown = ledger._repr_html_()
    assert shown.count("Gaussian") == 20
    assert "and 10 more kinds of steps" in shown


def test_a_notebook_shows_what_the_answers_of_a_curve_depend_on() -> None:
    assert "if the steps were planned before" in filled_ledger().curve()._repr_html_()


def test_showing_a_curve_asks_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = tr.privacy_curve(RUN, relation="remove")

    def refuse(*_: object) -> None:
        raise AssertionError("asked")

    for question in ("_deltas", "_log_deltas", "_epsilons"):
        monkeypatch.setattr(tr.PrivacyCurve, question, refuse)
    assert "under REMOVE" in curve._repr_html_()


def test_a_format_rounds_outwards_whatever_the_context_of_decimals_is() -> None:
    with decimal.localcontext(decimal.Context(prec=3)):
        assert f"{tr.Bracket(1.2341, 1.2344):.4f}" == "[1.2341, 1.2344]"
        assert f"{tr.UpperBound(1.703625, order=2.0):.6f}".endswith("1.703625")


def test_a_number_of_numpy_is_inside_a_bracket_only_if_its_value_is() -> None:
    single: Any = np.float32(0.1)  # 0.10000000149
    half: Any = np.float16(0.1)  # 0.09998
    assert single not in tr.Bracket(0.05, 0.1)
    assert half not in tr.Bracket(0.1, 0.2)
    assert np.float64(0.1) in tr.Bracket(0.05, 0.1)
