"""Whatever is printed of a bound, read back as a number, is on the safe side of it."""

import ast
import doctest
import math
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import tightrope as tr
from tightrope.audit.claims.judge import Audit
from tightrope.audit.claims.verdict import Verdict
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends, ends_from_logs, round_up, write_brackets
from tightrope.curve.simulated_curve import Estimate
from tightrope.numerics.text import round_outwards, write_number
from tightrope.statements.make import choose_claim, declare_as_accounted
from tightrope.statements.model import CertifiedEnds
from tightrope.statements.words import describe_ends

NUMBER = r"-?(?:\d[\d,]*\.?\d*(?:e[+-]?\d+)?|inf(?:inity)?)"


def draw_brackets(count: int) -> Iterator[Bracket]:
    """Brackets of every size and width, some a few floats from a short decimal number."""
    draw = random.Random(7)
    for _ in range(count):
        size = 10.0 ** draw.uniform(-320, 300) if draw.random() < 0.3 else 10.0 ** draw.uniform(-9, 9)
        digits = draw.choice([1, 2, 3, 4, 5, 6, 9, 17])
        lower = float(f"{size:.{digits - 1}e}")
        for _ in range(draw.randrange(3)):
            lower = math.nextafter(lower, draw.choice([0.0, math.inf]))
        width = draw.choice([0.0, 1e-16, 1e-12, 1e-9, 1e-6, 1e-3, 0.01, 1.0, math.inf])
        sign = draw.choice([1, 1, -1])
        yield Bracket(*sorted((sign * lower, sign * lower * (1 + width))))
    yield from (Bracket(-0.5, 0.0), Bracket(0.0, 5e-324), Bracket(0.0, 1.0), Bracket(-math.inf, -3.0))
    yield from (Bracket(1 / 3, 1 / 3), Bracket(math.inf, math.inf), Bracket(2 / 3, math.inf))


def read(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(NUMBER, text)]


@pytest.mark.parametrize("bracket", list(draw_brackets(400)))
def test_printed_brackets_hold_the_bracket(bracket: Bracket) -> None:
    numbers = read(str(bracket))
    assert numbers[0] <= bracket.lower <= bracket.upper <= numbers[-1]
    for lower, upper in (ends(bracket), ends(bracket, 3)):
        assert float(lower) <= bracket.lower <= bracket.upper <= float(upper)
    if bracket.lower >= 0:
        (text,) = write_brackets([bracket])
        assert read(text)[-1] >= bracket.upper or text.startswith("at least")
        assert read(text)[0] <= bracket.lower or text[0].isdigit()  # one number is rounded up
        assert float(round_up(bracket.upper, 4).replace("infinite", "inf")) >= bracket.upper
        estimate = Estimate(bracket.lower, bracket.lower, bracket.upper, confidence=0.99, draws=1)
        _, low, high, _ = read(str(estimate))
        assert low <= bracket.lower <= bracket.upper <= high
    assert float(write_number(bracket.lower)) == bracket.lower
    for digits in (1, 2, 9):
        assert float(round_outwards(bracket.upper, digits, up=True)) >= bracket.upper
        assert float(round_outwards(bracket.lower, digits, up=False)) <= bracket.lower


@pytest.mark.parametrize("log", [0.0, -1e-300, -1e-17, -1.0, -math.log(1e6), -709.5, -745.2, -5e4, -1e15])
def test_probabilities_printed_from_logarithms_hold_the_probability(log: float) -> None:
    lower, upper = ends_from_logs(Bracket(log, log))
    exact = Decimal(log)
    if lower.startswith("exp"):
        assert lower == upper == f"exp({log!r})"
        return
    # compare logarithms, in which neither end is 0
    assert Decimal(lower).ln() <= exact <= Decimal(upper).ln()
    assert log == 0 or Decimal(lower) < Decimal(upper)


def test_a_table_of_contrasts_rounds_up_what_multiplying_by_ten_thousand_rounds_down() -> None:
    upper = math.nextafter(13.1077, 14)
    assert math.ceil(upper * 1e4) / 1e4 < upper  # what used to be printed
    assert float(round_up(upper, 4)) >= upper
    assert round_up(1e305, 4).endswith(".0000")


def test_a_number_that_is_known_exactly_is_printed_in_full() -> None:
    assert str(Bracket(1 / 3, 1 / 3)) == "0.3333333333333333"
    assert str(Bracket(2.0, 2.0)) == "2"


def test_a_target_is_printed_as_it_was_set() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=20), tr.EveryRecord())
    found = tr.most_steps(step, epsilon=1.23456789, delta=1.23456789e-5, relation=tr.REMOVE)
    assert "epsilon 1.23456789 at delta 1.23456789e-05" in str(found)


@pytest.mark.usefixtures("contrasted_once")
def test_tables_and_statements_print_no_upper_end_too_small() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    table = tr.contrast(run, delta=[1e-6, 1e-5])
    lines = {tuple(line.split()[:2]): line for line in str(table).splitlines()}
    for row in table.rows:
        printed = re.findall(
            r"(?<![\d(])\d+\.\d{4}(?![\dx])", lines[row.sampling.__name__, row.relation.name]
        )
        assert all(float(text) >= e.upper for text, e in zip(printed, row.epsilons, strict=True))
        for words, ratio in zip(table.ratios_in_words(row), row.ratios, strict=False):
            numbers = read(words)
            assert len(numbers) < 2 or numbers[0] <= ratio.lower
            assert not numbers or numbers[-1] >= ratio.upper
    attack = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).trade_off()
    for line in str(attack).splitlines()[2:]:
        rate, lower, upper = read(line)
        found = attack.true_positive_rate(rate)
        assert lower <= found.lower <= found.upper <= upper
    ends_of_statement = CertifiedEnds(lower=1 / 3, upper=2 / 3)
    lower, upper = read(describe_ends(ends_of_statement))
    assert lower <= 1 / 3 < 2 / 3 <= upper
    compared = tr.compare(run, relation=tr.ADD_OR_REMOVE, delta=1e-6, by=[tr.Certified(), tr.Renyi()])
    certified, renyi = str(compared).splitlines()[2:]
    assert read(certified.partition("[")[2])[1] >= compared.rows[0].epsilons[0].upper  # type: ignore[union-attr]
    assert read(renyi.partition("at most")[2])[0] >= compared.rows[1].epsilons[0].upper  # type: ignore[union-attr]


def test_a_claim_that_nobody_states_is_the_proved_epsilon_rounded_up() -> None:
    for size in (1e-9, 1 / 3, 12345.67891, 5e26):
        upper = math.nextafter(size, math.inf)
        step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
        audit = Audit(
            run=step * 1,
            delta=1e-6,
            relation=tr.REMOVE,
            finding=declare_as_accounted(step),
            claimed=Bracket(0.0, upper),
            proved=Bracket(0.0, upper),
            verdict=Verdict.MATCHES,
        )
        assert upper <= choose_claim(audit) <= upper + 1e-4 or size > 1e15


def test_what_an_accountant_is_off_by_is_not_exaggerated() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    by = [tr.Certified(), tr.Renyi(), tr.GaussianLimit()]
    compared = tr.compare(run, relation=tr.ADD_OR_REMOVE, delta=1e-6, by=by)
    ((bracket,), (bound,), (limit,)) = (row.epsilons for row in compared.rows)
    assert isinstance(bracket, Bracket)
    ((above,), (below,)) = (read(compared.locate(row, 0)) for row in compared.rows[1:])
    assert 0 <= bound.upper / bracket.upper - 1 - above / 100 < 1e-4  # type: ignore[union-attr]
    assert 0 <= below / 100 - (limit.value / bracket.lower - 1) < 1e-4  # type: ignore[union-attr]


# -- in the code: ends go through round_outwards, which knows their side -------------------------------------

ROOT = Path(__file__).parent.parent
ROOMS = ("src", "reproduction", "examples")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SIDES = {"lower", "upper", "beyond", "chosen_after"}


def nearest_ends(source: str) -> list[str]:
    """The places where an f-string rounds something made of an end of a bracket to the nearest number."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FormattedValue) or node.format_spec is None:
            continue
        names = {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute)}
        spec = "".join(
            str(part.value) for part in ast.walk(node.format_spec) if isinstance(part, ast.Constant)
        )
        if names & SIDES and re.search(r"[efgEFG%]$", spec):
            found.append(ast.unparse(node.value))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-3:]))
def test_no_end_is_rounded_to_the_nearest_number(path: Path) -> None:
    assert nearest_ends(path.read_text()) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_example_shows_how_to_round_an_end_to_the_nearest_number(path: Path) -> None:
    examples = doctest.DocTestParser().get_examples(re.sub(r"^(```|~~~).*", "", path.read_text(), flags=re.M))
    assert [end for example in examples for end in nearest_ends(example.source)] == []


def test_an_end_that_is_rounded_to_the_nearest_number_would_be_noticed() -> None:
    assert nearest_ends('f"{found.upper:.4f}"') == ["found.upper"]
    assert nearest_ends('f"{100 * (a.lower / b.upper - 1):.1f} %"') == ["100 * (a.lower / b.upper - 1)"]
    assert nearest_ends('f"{found.upper}, {found.value:.3g}, {name.lower():>9}"') == []
