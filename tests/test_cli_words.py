"""Refusals on the command line name options and settings as they are typed, not as Python spells them."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import test_cli
import test_cli_accountants
import test_cli_calibrate
import tightrope
from shell import Shell
from tightrope.cli.printed.refusals import WORDS, words_of
from tightrope.errors import InvalidSetting, NotPreciseEnough

PYTHON = re.compile(
    r"\b[A-Z]+_[A-Z_]+\b|(?<![-\w])[a-z_]+=\S|\btightrope\.\w|\b[a-z]+_[a-z_]+\b|\bNone\b|\{|\}"
)
REFUSED = [words for words, _ in (*test_cli.REFUSED, *test_cli_calibrate.REFUSED)]
ROOT = Path(tightrope.__file__).parent
REFUSALS = {"InvalidSetting", "NoTheorem", "NoSuchValue", "Infeasible", "NotPreciseEnough"}
# rooms whose refusals the command line can meet; files are about keys, which are spelt as Python spells them
ROOMS = ("accountants", "curve", "engines", "theorems", "numerics", "setting")
FILES = ("tables.py", "plain.py", "validate.py")
ANSWERS = ("batches.py", "calibrate.py", "compare.py", "contrast.py", "spend.py", "target.py", "frontier.py")


@pytest.mark.parametrize("words", REFUSED)
def test_no_python_spelling_reaches_the_command_line(shell: Shell, words: str) -> None:
    code, _, err = shell(words)
    assert code == 2
    typed = set(shlex.split(words))
    leaked = [found for found in PYTHON.findall(err) if not any(found in word for word in typed)]
    assert not leaked, err


def refusals() -> Iterator[tuple[str, str]]:
    """Every text of a refusal in the rooms below the command line, with names in braces taken out."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.name not in FILES]
    for path in [*paths, *(ROOT / "answers" / name for name in ANSWERS)]:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in REFUSALS:
                place = f"{path.relative_to(ROOT)}:{call.lineno}"
                for text in call.args[2 if getattr(call.func, "id", "") == "InvalidSetting" else 0 :]:
                    yield place, re.sub(r"\{[^{}]*\}", "", written(text))


def written(text: ast.expr) -> str:
    """The constant parts of a string, with ... where a value goes."""
    if isinstance(text, ast.JoinedStr):
        return "".join(written(part) for part in text.values)
    return str(text.value) if isinstance(text, ast.Constant) else "..."


def test_texts_of_refusals_name_settings_in_braces_only() -> None:
    leaks = {place: text for place, text in refusals() if PYTHON.search(text)}
    assert leaks == {}


def test_names_become_options_and_settings() -> None:
    text = "{noise_multiplier} and {truth_probability} under {ADD_OR_REMOVE} with {WithoutReplacement}"
    assert WORDS.fill(text) == "--noise and --truth under add-or-remove with without-replacement"
    asked = "Ask with {effort=TIGHT}, {draws=1000}, {by=MonteCarlo(draws=5)} or {repeats_allowed=True}."
    expected = "Ask with --effort tight, --draws 1000, --accountant monte-carlo --draws 5 or --repeats."
    assert WORDS.fill(asked) == expected
    assert words_of("curve").fill("{epsilon}") == "--epsilons"


def test_a_refusal_is_said_in_options() -> None:
    refusal = InvalidSetting("effort", "hard", "be {QUICK} or {TIGHT}", "Pass {effort=TIGHT}.")
    expected = "--effort must be quick or tight, got 'hard'. Pass --effort tight."
    assert refusal.in_words(WORDS) == expected
    vague = NotPreciseEnough("{delta} is out of reach", "Ask with {effort=QUICK}.")
    assert vague.in_words(WORDS) == "--delta is out of reach. Ask with --effort quick."


def test_monte_carlo_is_refused_in_options(shell: Shell) -> None:
    words = f"epsilon {test_cli_accountants.SMALL} --delta 1e-3 --accountant monte-carlo --workers 0"
    _, _, err = shell(words)
    assert not PYTHON.findall(err)
