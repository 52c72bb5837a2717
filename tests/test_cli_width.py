"""The answer comes first, in every form, and fits 80 columns and 40 without a broken word."""

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import tightrope as tr
from ledgers import RELEASE, STEP, ledger
from shell import Shell
from test_cli import MAIN
from tightrope.cli.printed.sentences import tell, tell_calibration, tell_why
from tightrope.numerics.text import stack, wrap
from tightrope.theorems.lookup import list_theorems

ROOT = Path(__file__).parent.parent
POISSON = "--noise 0.8 --sampling poisson --rate 0.001"
RUN = f"{POISSON} --steps 10000"
FEW = "--noise 2 --sampling poisson --rate 0.1 --steps 10 --relation remove"
EXCHANGED = (
    "--noise 4 --sampling without-replacement --batch 1 --population 20 --steps 5 --relation substitute"
)
TARGET = "--relation add-or-remove --epsilon 1 --delta 1e-6"
CLAIM = "--noise 0.8 --sampling poisson --rate 0.02 --steps 500 --delta 1e-6 --relation add-or-remove"
ASSUMED = "Poisson sampling, add or remove one record."
PITFALL = "If batches are drawn without replacement, epsilon is 15.26, not 0.95 (delta 1e-06)."

# what is typed, how the answer opens, and the answer in brief; * stands for anything
COMMANDS = {
    "epsilon": (
        f"epsilon {RUN} --relation add-or-remove --delta 1e-6",
        f"epsilon is at most 0.9472 at delta 1e-06 (and at least 0.9471): {ASSUMED}",
        "0.947196",
    ),
    "wide": (
        f"epsilon {EXCHANGED} --delta 1e-5",
        "epsilon is at most 0.* and at least 0.* at delta 1e-05: sampling without replacement, exchange one*",
        "0.*",
    ),
    "deltas": (
        f"epsilon {RUN} --relation add-or-remove --delta 1e-6 1e-5",
        f"epsilon is at most 0.9472 at delta 1e-06 and at most 0.7824 at delta 1e-05: {ASSUMED}",
        "0.947196\n0.782388",
    ),
    "delta": (
        f"delta {RUN} --relation add-or-remove --epsilon 1",
        f"delta is at most 5.320e-07 at epsilon 1 (and at least 5.319e-07): {ASSUMED}",
        "5.31960e-07",
    ),
    "shuffle": (
        "epsilon --noise 1 --sampling shuffle --records 6000 --batch 256 --epochs 3 --relation substitute "
        "--delta 1e-5",
        "epsilon is at most 20.13 and at least 10.9* at delta 1e-05: shuffled batches, exchange one record*",
        "20.1251",
    ),
    "renyi": (
        f"epsilon {RUN} --relation remove --delta 1e-6 --accountant renyi",
        "epsilon is at most 1.704 at delta 1e-06, by the Rényi bound of order *, which has no lower end: *",
        "1.70363",
    ),
    "curve": (
        f"curve {RUN} --relation remove --epsilons 0:2:6",
        "delta is at most 0.07678 at epsilon 0 and at most 3.311e-10 at epsilon 2, and 4 more are below: *",
        "0.0767755\n*\n*\n*\n*\n3.3107*e-10",
    ),
    "runs": (
        f"curve --runs {ROOT}/examples/pitfall.toml --epsilons 1 2",
        "1. Poisson, add or remove: delta is at most * at epsilon 1 and at most * at epsilon 2 (Poisson *",
        "*\n*\n*\n*\n*\n*",
    ),
    "risk": (
        f"risk {RUN} --relation add-or-remove",
        "An attacker who sees everything the run releases and knows all other records guesses right whether "
        f"a record was used at most 53.84 % of the time (50 % by chance): {ASSUMED}",
        "0.538388",
    ),
    "contrast": (f"contrast {RUN} --delta 1e-6 1e-7 1e-5 1e-4", PITFALL, PITFALL),
    "compare": (
        f"compare {FEW} --delta 1e-3 1e-6 --draws 3000",
        "epsilon is at most 0.4* at delta 0.001 and at most 0.* at delta 1e-06: Poisson sampling, remove *",
        "0.4*\n0.*",
    ),
    "noise": (
        f"noise --sampling poisson --rate 0.001 --steps 10000 {TARGET}",
        f"A noise multiplier of 0.787635 is enough for epsilon 1 at delta 1e-06 (0.7876?? is not): {ASSUMED}",
        "0.787635",
    ),
    "steps": (
        f"steps {POISSON} {TARGET}",
        "11,397 steps (11.39 epochs at this rate) are few enough for epsilon 1 at delta 1e-06 (11,398 are "
        f"not): {ASSUMED}",
        "11397",
    ),
    "rate": (
        f"rate --noise 0.8 --sampling poisson --steps 10000 {TARGET}",
        "A sampling rate of 0.001054* is small enough for epsilon 1 at delta 1e-06 (0.0010* is not): *",
        "0.001054*",
    ),
    "audit": (
        f"audit {ROOT}/examples/shuffled.jsonl {CLAIM}",
        "Too small: the accounted epsilon is certainly too small.",
        "too_small",
    ),
    "spent": (
        "spent {ledger} --delta 1e-6",
        "epsilon is at most 0.* at delta 1e-06 (and at least 0.*): everything in *, Poisson sampling and *",
        "0.*",
    ),
    "verify": (
        f"verify {ROOT}/docs/statements/digits.json",
        "The claim holds for one example added or removed, epsilon 0.9472 at delta 1e-06, provided that *",
        "holds if 4 assumptions hold that nobody checked, first that batches are drawn as declared",
    ),
}
each_command = pytest.mark.parametrize("name", COMMANDS)
CODES = {"audit": 3}
pytestmark = pytest.mark.usefixtures("contrasted_once")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    ledger(STEP * 3, RELEASE).save(tmp_path / "ledger.json")
    return tmp_path / "ledger.json"


def typed(name: str, kept: Path) -> str:
    return COMMANDS[name][0].replace("{ledger}", str(kept))


def printed(shell: Shell, words: str, code: int = 0) -> str:
    found, out, err = shell(words)
    assert (found, err) == (code, "")
    return out


# the forms


@each_command
def test_the_first_line_is_the_answer_in_words(shell: Shell, name: str, kept: Path) -> None:
    for form in ("", " --why"):
        first = printed(shell, typed(name, kept) + form, CODES.get(name, 0)).splitlines()[0]
        assert fnmatchcase(first, COMMANDS[name][1]), first


@each_command
def test_brief_prints_what_is_safe_to_use_and_nothing_else(shell: Shell, name: str, kept: Path) -> None:
    out = printed(shell, f"{typed(name, kept)} --brief", CODES.get(name, 0))
    assert fnmatchcase(out, COMMANDS[name][2] + "\n"), out
    for number in out.split() if re.match(r"\d", out) else ():
        assert float(number) > 0


@each_command
def test_theorems_and_datasets_are_shown_when_asked_for(shell: Shell, name: str, kept: Path) -> None:
    short, long = (printed(shell, typed(name, kept) + form, CODES.get(name, 0)) for form in ("", " --why"))
    statements = [
        evidence for evidence in list_theorems() if f"{evidence.name} ({evidence.standing.value}" in long
    ]
    assert statements
    assert "(proved: " not in short
    assert "D = (" not in short
    assert len(short) < len(long)
    if name != "verify":
        assert re.search("^Why: .*proved; --why shows ", short, re.M)
        assert re.search(r"^Run( \d)?: \d[\d,]* steps? of |^Run: Gaussian noise", short, re.M)


@pytest.mark.parametrize(
    ("forms", "said"),
    [
        ("--brief --json", "--brief contradicts --json, which prints more"),
        ("--brief --why", "--brief contradicts --why, which prints more"),
        (
            "--brief --accountant gaussian-limit",
            "--brief prints what is safe to use, and gaussian-limit guarantees nothing",
        ),
    ],
)
def test_forms_that_contradict_each_other_are_refused(shell: Shell, forms: str, said: str) -> None:
    expected = f"tightrope: {said}: leave one of them out.\n"
    assert shell(f"epsilon {FEW} --delta 1e-3 {forms}") == (2, "", expected)


@each_command
def test_brief_and_json_contradict_each_other_everywhere(shell: Shell, name: str, kept: Path) -> None:
    code, out, err = shell(f"{typed(name, kept)} --brief --json")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "verify"])
def test_json_holds_the_sentence_too(shell: Shell, name: str, kept: Path) -> None:
    found = json.loads(printed(shell, f"{typed(name, kept)} --json", CODES.get(name, 0)))
    first = printed(shell, typed(name, kept), CODES.get(name, 0)).splitlines()[0]
    assert found["answer"].startswith(first)


def test_how_records_and_epochs_were_read_is_told_under_the_answer_and_in_json(shell: Shell) -> None:
    read = "1,000 steps: 10 epochs of 100 batches; each record joins a batch with probability 10/1000."
    plan = "--sampling poisson --records 1000 --batch 10 --epochs 10 --relation remove --delta 1e-6"
    for words in (f"epsilon --noise 1 {plan}", f"noise --epsilon 3 {plan}"):
        assert f".\n\n{read}\nRun: " in printed(shell, words)
        assert re.search(f"^training +{read}$", printed(shell, f"{words} --why"), re.M)
        assert json.loads(printed(shell, f"{words} --json"))["question"]["training"] == read


# sentences at their limits


def test_sentences_of_infinite_exact_and_unbounded_answers() -> None:
    inf = float("inf")

    def said(lower: float, upper: float) -> str:
        return tell("epsilon", "delta", [1e-6], [tr.Bracket(lower, upper)])

    assert said(inf, inf) == "epsilon is infinite at delta 1e-06"
    assert said(4.2087, inf) == "No finite epsilon is proved at delta 1e-06, and it is at least 4.208"
    assert said(0, 0) == "epsilon is 0 at delta 1e-06"
    assert said(32437.31, 32437.39) == "epsilon is at most 32438 at delta 1e-06 (and at least 32437)"
    assert said(0.9999, 0.99991) == "epsilon is at most 1.000 at delta 1e-06 (and at least 0.9999)"
    several = tell("epsilon", "delta", [0.1, 0.2], [tr.Bracket(1, inf), tr.Bracket(inf, inf)])
    assert several == "epsilon is not bounded at delta 0.1 and infinite at delta 0.2"


def test_sentences_of_calibrations_count_and_name_limits() -> None:
    assert tell_calibration("steps", "1", "2", "T").startswith("1 step is few enough for T (2 is not)")
    assert tell_calibration("batch", "59", None, "T", " out of 60") == (
        "Batches of 59 out of 60 are small enough for T (no larger one can be set)"
    )
    assert tell_calibration("noise_multiplier", "1e-06", None, "T").endswith("(no smaller one can be set)")


def test_a_theorem_that_is_not_proved_is_not_called_proved() -> None:
    theorems = list_theorems()
    refuted = next(each for each in theorems if each.standing.value == "refuted")
    said = tell_why([theorems[0], refuted], "more")
    assert said == f"Why: {theorems[0].name} (proved) and {refuted.name} (refuted); --why shows more."
    assert tell_why(theorems[:9], "more").startswith("Why: 9 theorems, all proved; ")


# the width


def words_of(out: str) -> set[str]:
    """What is printed, word by word, without rules of tables and punctuation."""
    return {word.rstrip(",:") for word in out.split()} - {word for word in out.split() if set(word) == {"-"}}


@pytest.mark.parametrize("form", ["", " --why"], ids=["short", "why"])
@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("name", [*COMMANDS, "theorems"])
def test_no_line_is_too_long_and_no_word_is_broken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, width: int, form: str, kept: Path
) -> None:
    words = typed(name, kept) + form if name != "theorems" else "theorems"
    whole = printed(shell, words, CODES.get(name, 0))
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = printed(shell, words, CODES.get(name, 0))
    long = [line for line in narrow.splitlines() if len(line) > width and len(line.split()) > 1]
    assert long == []
    assert words_of(narrow) == words_of(whole)
    assert max(map(len, whole.splitlines())) > width


@pytest.mark.parametrize("columns", ["", "0", "wide", "-3"])
def test_columns_that_are_no_width_change_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    words = COMMANDS["epsilon"][0]
    whole = printed(shell, words)
    monkeypatch.setenv("COLUMNS", columns)
    assert printed(shell, words) == whole


def test_a_table_too_wide_for_the_width_is_stacked() -> None:
    rows = [["name", "what it says"], ["first", "a few words"], ["second", ""]]
    assert stack(rows, 14) == "name: first\nwhat it says:\n  a few words\n\nname: second"
    assert wrap("unbreakable-word", 5) == "unbreakable-word"


def at_a_terminal(words: str, columns: int) -> str:
    """What a terminal of so many columns shows of standard output."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    patiently = (
        "import tightrope.cli.process.long_work as p; p.PATIENCE = 60.0"  # a busy machine needs no bar either
    )
    command = [sys.executable, "-c", f"{patiently}\n{MAIN}", *shlex.split(words)]
    process = subprocess.Popen(
        command, stdin=end, stdout=end, stderr=end, env={**environment, "TERM": "xterm"}
    )
    os.close(end)
    shown = b""
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        shown += read
    assert process.wait(timeout=60) == 0
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [80, 40])
def test_a_terminal_sees_what_columns_of_its_width_would_print_with_the_answer_in_bold(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    words = "contrast --noise 2 --sampling poisson --rate 0.1 --steps 10 --delta 1e-6"  # a quick one
    shown = at_a_terminal(words, width)
    assert shown.startswith("\x1b[1mIf batches are drawn")
    monkeypatch.setenv("COLUMNS", str(width))
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == printed(shell, words)


def test_make_run_shows_the_pitfall_in_fewer_than_25_lines(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = re.search(r"^run:.*\n\t@\$\(BIN\)/tightrope (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(shell, recipe[1]).splitlines()
    assert len(lines) < 25
    assert lines[0] == PITFALL.replace(" (delta 1e-06)", "")
    heading = next(line.split() for line in lines if line.startswith("epsilon at most, at delta "))
    assert heading[5:] == ["1e-06", "ratio"]
    assert not any("every-record" in line for line in lines)
