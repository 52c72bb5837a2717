"""The command line: what it prints, what it refuses, and with which exit code."""

import importlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope
from shell import Shell
from tightrope.cli import app
from tightrope.cli.printed.refusals import WORDS
from tightrope.errors import NotPreciseEnough
from tightrope.extras import advise_install
from tightrope.theorems.lookup import list_theorems

HEADLINE = "--noise 0.8 --sampling poisson --rate 0.001 --steps 10000"
FIXED_SIZE = "--noise 0.8 --sampling without-replacement --batch 1 --population 1000 --steps 10000"
PLAIN = "--noise 1 --sampling every-record --steps 2"
COMMANDS = ("epsilon", "delta", "curve", "contrast", "theorems")


def answered(shell: Shell, words: str) -> str:
    code, out, err = shell(words)
    assert (code, err) == (0, ""), err
    return out


def loaded(shell: Shell, words: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(answered(shell, f"{words} --json"), parse_constant=refuse)
    assert found["version"] == tightrope.__version__
    return dict(found)


def last_row(out: str) -> list[str]:
    """The last row of the table in a readable answer."""
    table = next(part for part in out.split("\n\n") if "---" in part)
    return table.splitlines()[-1].split()


# what is answered


def test_epsilon_prints_question_bracket_theorems_and_witness(shell: Shell) -> None:
    out = answered(shell, f"epsilon {HEADLINE} --relation add-or-remove --delta 1e-6 --why")
    delta, lower, upper = last_row(out)
    assert delta == "1e-06"
    assert 0.9471 < float(lower) <= float(upper) < 0.9473
    assert "gaussian, noise multiplier 0.8" in out
    assert "poisson, each record joins each batch independently with probability 0.001" in out
    assert re.search(r"^steps +10000$", out, re.M)
    assert "add-or-remove, D' has one record more or one fewer than D" in out
    for name in (
        "poisson_remove (proved: Zhu, Dong, Wang 2022",
        "dominating_pairs_compose",
        "gaussian_remove_dominates_add",
    ):
        assert name in out
    assert "D = (0, ..., 0, 1) and D' = (0, ..., 0)" in out


def test_fixed_batches_cost_sixteen_times_more_than_poisson(shell: Shell) -> None:
    out = answered(shell, f"epsilon {FIXED_SIZE} --relation add-or-remove --delta 1e-6 --why")
    assert last_row(out)[2].startswith("15.25")
    assert "each batch is exactly 1 of 1,000 records" in out
    assert "without_replacement_remove" in out


def test_printed_ends_hold_the_exact_ends(shell: Shell) -> None:
    words = f"epsilon {HEADLINE} --relation remove --delta 1e-6"
    _, lower, upper = last_row(answered(shell, f"{words} --why"))
    exact = loaded(shell, words)["brackets"][0]["epsilon"]
    assert float(lower) <= exact["lower"] <= exact["upper"] <= float(upper)


def test_epsilon_as_json(shell: Shell) -> None:
    found = loaded(shell, f"epsilon {HEADLINE} --relation add-or-remove --delta 1e-6 1e-5")
    assert found["question"]["mechanism"] == {"kind": "gaussian", "noise_multiplier": 0.8}
    assert found["question"]["sampling"] == {"kind": "poisson", "rate": 0.001}
    assert found["question"]["relation"]["kind"] == "add-or-remove"
    assert found["question"]["steps"] == 10_000
    assert [at["delta"] for at in found["brackets"]] == [1e-6, 1e-5]
    first, second = (at["epsilon"]["upper"] for at in found["brackets"])
    assert 0.9471 < first < 0.9473
    assert 0.782 < second < 0.783
    assert found["theorems"][0]["name"] == "poisson_remove"
    assert found["theorems"][0]["standing"] == "proved"
    assert found["reached_by"] == ["D = (0, ..., 0, 1) and D' = (0, ..., 0)"]


def test_infinite_epsilon_is_said_in_words_and_in_valid_json(shell: Shell) -> None:
    told = "--mechanism randomized-response --truth 1 --sampling every-record --steps 1"
    words = f"epsilon {told} --relation remove --delta 1e-6"
    assert answered(shell, words).startswith("epsilon is infinite at delta 1e-06: full batches, remove")
    assert last_row(answered(shell, f"{words} --why"))[1:] == ["infinity", "infinity"]
    assert loaded(shell, words)["brackets"][0]["epsilon"] == {"lower": "infinity", "upper": "infinity"}


def test_delta_of_the_papers_randomized_response(shell: Shell) -> None:
    words = (
        "--mechanism randomized-response --truth 3/4 --sampling poisson --rate 1/2 --steps 2 --relation add"
    )
    out = answered(shell, f"delta {words} --epsilon {math.log(4 / 3)!r} --why")
    _, lower, upper = last_row(out)
    assert float(lower) == pytest.approx(11 / 48, rel=1e-12)
    assert float(upper) == pytest.approx(11 / 48, rel=1e-12)
    assert "randomized-response, the true bit is reported with probability 0.75" in out


def test_delta_below_the_smallest_float_is_printed_from_its_logarithm(shell: Shell) -> None:
    words = "delta --noise 4 --sampling every-record --steps 3 --relation add --epsilon 20"
    assert answered(shell, words).startswith(
        "delta is at most 9.842e-464 at epsilon 20 (and at least 9.841e-"
    )
    _, lower, upper = last_row(answered(shell, f"{words} --why"))
    assert lower.startswith("9.8417073")
    assert lower.endswith("e-464")
    assert upper.startswith("9.8417073")
    assert upper.endswith("e-464")
    found = loaded(shell, words)["brackets"][0]
    assert found["delta"]["lower"] == 0
    assert -1067 < found["log_delta"]["lower"] <= found["log_delta"]["upper"] < -1066


def test_delta_zero_has_an_infinite_logarithm_in_valid_json(shell: Shell) -> None:
    told = "--mechanism randomized-response --truth 0.75 --sampling poisson --rate 0.5 --steps 2"
    words = f"delta {told} --relation remove --epsilon 2"
    found = loaded(shell, words)["brackets"][0]
    assert found["delta"] == {"lower": 0, "upper": 0}
    assert found["log_delta"] == {"lower": "-infinity", "upper": "-infinity"}


def test_negative_epsilons_are_answered(shell: Shell) -> None:
    found = loaded(shell, f"delta {PLAIN} --relation remove --epsilon -1 0")["brackets"]
    assert [at["epsilon"] for at in found] == [-1, 0]
    assert found[0]["delta"]["lower"] > 1 - 1 / 2.718


def test_no_steps_lose_nothing(shell: Shell) -> None:
    out = answered(
        shell, "epsilon --noise 1 --sampling every-record --steps 0 --relation remove --delta 1e-6 --why"
    )
    assert out.startswith("epsilon is 0 at delta 1e-06: ")
    assert last_row(out)[1:] == ["0", "0"]
    assert "nothing_sampled_nothing_lost" in out


def test_curve_of_a_range_a_list_and_the_usual_range(shell: Shell) -> None:
    ranged = loaded(shell, f"curve {PLAIN} --relation add --epsilons 0:1:11")["brackets"]
    assert [at["epsilon"] for at in ranged] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    uppers = [at["delta"]["upper"] for at in ranged]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[0] == pytest.approx(0.5205, abs=1e-4)
    listed = loaded(shell, f"curve {PLAIN} --relation add --epsilons 0,0.5 1")["brackets"]
    assert listed == [ranged[0], ranged[5], ranged[10]]
    usual = loaded(shell, f"curve {PLAIN} --relation add")["brackets"]
    assert usual[0]["epsilon"] == 0
    assert usual[-1]["delta"]["upper"] <= 1e-10 < usual[5]["delta"]["upper"]


def test_curve_draws_and_says_so_on_standard_error(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "curve.png"
    code, out, err = shell(f"curve {PLAIN} --relation add --epsilons 0:2:3 --plot {target}")
    assert code == 0
    assert last_row(out)[0] == "2"
    assert err == f"tightrope: drew {target}\n"
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("contrasted_once")
def test_contrast_shows_every_sampling_and_relation_with_its_theorem(shell: Shell) -> None:
    out = answered(shell, f"contrast {HEADLINE} --delta 1e-6 --why")
    parts = out.split("\n\n")
    table = next(part for part in parts if "---" in part).splitlines()[2:]
    assert any(
        part.startswith("without-replacement, substitute: quick (what theory gives at once)")
        for part in parts
    )
    assert len(table) == 19  # five ways to draw, four relations, without the slowest
    cells = {line.partition("  ")[0]: line for line in table}
    assert "[0.94719" in cells["poisson, add-or-remove"]
    assert "[15.25" in cells["without-replacement, add-or-remove"]
    assert "[1.325" in cells["poisson, substitute"]
    assert "poisson_substitute" in out
    assert "poisson, remove: D = (0, ..., 0, 1) and D' = (0, ..., 0)" in out
    assert not re.search("^relation", out, re.M)  # all are asked about


@pytest.mark.usefixtures("contrasted_once")
def test_contrast_as_json(shell: Shell) -> None:
    found = loaded(shell, f"contrast {HEADLINE} --delta 1e-6 1e-5")
    rows = {(row["sampling"], row["relation"]): row for row in found["rows"]}
    assert len(rows) == 19
    poisson = rows["poisson", "add-or-remove"]
    assert [at["delta"] for at in poisson["brackets"]] == [1e-6, 1e-5]
    assert 0.9471 < poisson["brackets"][0]["epsilon"]["upper"] < 0.9473
    assert poisson["theorems"][0] == "poisson_remove"
    assert {theorem["name"] for theorem in found["theorems"]} >= {
        name for row in found["rows"] for name in row["theorems"]
    }
    for row in found["rows"]:
        assert bool(row["refusal"]) is not bool(row["brackets"])


def test_theorems_print_everything_in_the_table(shell: Shell) -> None:
    out = answered(shell, "theorems")
    page = answered(shell, "theorems --markdown")
    found = loaded(shell, "theorems")
    named = {entry["name"] for entry in found["theorems"] + found["refuted_beliefs"]}
    for evidence in list_theorems():
        assert f"{evidence.name} ({evidence.standing.value}: {evidence.reference})" in out
        assert evidence.in_words(WORDS) in out
        assert f"### {evidence.name}\n\n{evidence.statement}\n" in page
        assert evidence.name in named
    cell = {
        "mechanism": "gaussian",
        "sampling": "poisson",
        "relation": "substitute",
        "theorems": ["poisson_substitute"],
    }
    assert cell in found["support"]


def test_the_markdown_page_has_a_matrix_links_and_refuted_beliefs(shell: Shell) -> None:
    page = answered(shell, "theorems --markdown")
    assert page.startswith("# Theorems\n")
    assert "| mechanism | sampling | add | remove | add-or-remove | substitute |" in page
    headings = set(re.findall(r"^### (\S+)$", page, re.M))
    assert set(re.findall(r"\(#(\w+)\)", page)) <= headings
    assert page.index("## Refuted beliefs") < page.index("### without_replacement_is_like_poisson")
    docs = Path(tightrope.__file__).parents[2] / "docs"
    for proof in re.findall(r"\((\.\./\S+\.md)\)", page):
        assert (docs / proof).resolve().is_file(), proof


# what is refused

REFUSED = [
    ("epsilon --noise 0.8 --sampling poisson --steps 9 --relation add --delta 1e-6", "--rate is missing"),
    (f"epsilon {HEADLINE} --batch 3 --relation add --delta 1e-6", "--batch 3 contradicts --sampling poisson"),
    (
        f"epsilon {FIXED_SIZE} --rate 0.1 --relation add --delta 1e-6",
        "--rate 0.1 contradicts --sampling without-replacement",
    ),
    (
        "epsilon --noise 1 --sampling without-replacement --batch 9 --steps 9 --relation add --delta 1e-6",
        "--records is missing",
    ),
    (
        "epsilon --noise 1 --sampling without-replacement --batch 9 --population 5 --steps 9 "
        "--relation add --delta 1e-6",
        "--batch must be at most --records 5, got 9",
    ),
    (f"epsilon {PLAIN} --rate 1 --relation add --delta 1e-6", "--rate 1 contradicts --sampling every-record"),
    (
        "epsilon --sampling every-record --steps 9 --relation add --delta 1e-6",
        "--noise is missing; pass the noise multiplier",
    ),
    (
        f"epsilon --mechanism randomized-response --truth 0.75 {PLAIN} --relation add --delta 1e-6",
        "--noise 1 contradicts --mechanism randomized",
    ),
    (
        "epsilon --mechanism randomized-response --sampling every-record --steps 2 --relation add --delta .1",
        "--truth is missing",
    ),
    (
        f"epsilon --mechanism laplace --truth 0.5 {PLAIN} --relation add --delta 1e-6",
        "--truth 0.5 contradicts --mechanism laplace",
    ),
    (f"epsilon --mechanism cauchy {PLAIN} --relation add --delta 1e-6", "cauchy"),
    (
        "epsilon --noise -1 --sampling every-record --steps 2 --relation add --delta 1e-6",
        "--noise must be above 0, got -1.0",
    ),
    (
        "epsilon --noise nan --sampling every-record --steps 2 --relation add --delta 1e-6",
        "--noise must be finite, got nan",
    ),
    (
        "epsilon --noise loud --sampling every-record --steps 2 --relation add --delta 1e-6",
        "--noise: 'loud' is not a number",
    ),
    (
        "epsilon --noise 1 --sampling every-record --steps 1.5 --relation add --delta 1e-6",
        "--steps: '1.5' is not a whole number",
    ),
    (
        "epsilon --noise 1 --sampling every-record --steps -2 --relation add --delta 1e-6",
        "--steps must be at least 0, got -2",
    ),
    (
        "epsilon --noise 1 --sampling every-record --steps 1e999999999 --relation add --delta 1e-6",
        "--steps: '1e999999999' is too large",
    ),
    (
        "epsilon --noise 1 --sampling poisson --rate 1.5 --steps 2 --relation add --delta 1e-6",
        "--rate must be in [0, 1], got 1.5",
    ),
    (
        "epsilon --noise 1 --sampling poisson --rate 1/0 --steps 2 --relation add --delta 1e-6",
        "--rate: '1/0' is not a number",
    ),
    ("epsilon --noise 1 --steps 2 --relation add --delta 1e-6", "--sampling is missing"),
    ("epsilon --noise 1 --sampling every-record --relation add --delta 1e-6", "--steps is missing"),
    (f"epsilon {PLAIN} --delta 1e-6", "--relation is missing"),
    (f"delta {PLAIN} --epsilon 1", "--relation is missing"),
    (f"curve {PLAIN}", "--relation is missing"),
    (f"epsilon {PLAIN} --relation sideways --delta 1e-6", "sideways"),
    (f"epsilon {PLAIN} --relation add", "--delta is missing"),
    (f"epsilon {PLAIN} --relation add --delta", "--delta has no value"),
    (f"epsilon {PLAIN} --relation add --delta --json", "--delta has no value"),
    (f"epsilon {PLAIN} --relation add --delta 0", "--delta must be in (0, 1), got 0.0"),
    (f"epsilon {PLAIN} --relation add --delta 1e-6 soon", "--delta: 'soon' is not a number"),
    (f"epsilon {PLAIN} --relation add --delta 1e-6 --steps 3", "--steps"),
    (f"epsilon {PLAIN} --relation add --delta 1e-6 --frobnicate 3", "--frobnicate"),
    (f"epsilon {PLAIN} --relation add --delta 1e-6 --accuracy 2", "--accuracy must be"),
    (
        f"epsilon {PLAIN} --relation add --delta 1e-6 --effort hard",
        'Invalid value "hard" for --effort. Choose from: "quick"',
    ),
    (f"epsilon {PLAIN} --relation add --delta 1e-6 --effort", "--effort has no value; pass quick or tight."),
    (f"contrast {PLAIN} --delta 1e-6 --effort TIGHTER", "--effort"),
    (f"delta {PLAIN} --relation add", "--epsilon is missing"),
    (f"delta {PLAIN} --relation add --epsilon inf", "--epsilon must be finite, got inf"),
    (f"curve {PLAIN} --relation add --epsilons inf", "--epsilons must be finite, got inf"),
    (f"curve {PLAIN} --relation add --epsilons 0:1", "--epsilons: '0:1' is not start:stop:count"),
    (f"curve {PLAIN} --relation add --epsilons 1:0:5", "does not go upwards"),
    (f"curve {PLAIN} --relation add --epsilons 0:1:1e12", "pass a whole count from 2"),
    (f"curve {PLAIN} --relation add --plot curve.bmp", "curve.bmp must end in .png, .pdf, .svg"),
    (f"curve {PLAIN} --relation add --plot no/such/folder/curve.png", "a folder that does not exist"),
    (f"contrast {PLAIN}", "--delta is missing"),
    (f"contrast {PLAIN} --delta 1e-6 --relation add", "--relation"),
    ("epsilno", "epsilno"),
    ("theorems --json --markdown", "--json contradicts --markdown"),
    (
        "epsilon --mechanism laplace --noise 1 --sampling poisson --rate 0.1 --steps 2 "
        "--relation substitute --delta 1e-6",
        "laplace with poisson sampling under substitute: no theorem gives the worst case",
    ),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_bad_input_is_one_line_and_exit_code_2(shell: Shell, words: str, reason: str) -> None:
    code, out, err = shell(words)
    assert code == 2
    assert out == ""
    assert reason in err
    assert err.startswith("tightrope: ")
    assert err.endswith(".\n") or err.endswith("?\n")
    assert err.count("\n") == 1


def failing(problem: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise problem

    return fail


def test_an_uncertified_answer_has_exit_code_4(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tightrope.cli.commands.curves.privacy_curve",
        failing(NotPreciseEnough("ask for a coarser accuracy.")),
    )
    assert shell(f"epsilon {PLAIN} --relation add --delta 1e-6") == (
        4,
        "",
        "tightrope: ask for a coarser accuracy.\n",
    )


def test_an_internal_error_asks_to_be_reported(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.cli.commands.curves.privacy_curve", failing(ZeroDivisionError("by\nzero")))
    code, out, err = shell(f"epsilon {PLAIN} --relation add --delta 1e-6")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "ZeroDivisionError: by zero" in err
    assert "please report it" in err


# help


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_the_help_runs(
    shell: Shell, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the curve's example draws a picture
    code, out, err = shell(f"{command} --help")
    assert (code, err) == (0, "")
    example = out.split("Example:\n\n")[1].replace("\\\n", " ").strip()
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("tightrope", command)
    code, out, _ = shell(shlex.join(words))
    assert code == 0
    assert "Poisson sampling, add" in out or "without replacement" in out or "poisson" in out


@pytest.mark.parametrize("command", app.COMMANDS, ids=lambda command: command.path)
def test_a_command_says_of_itself_what_the_help_says(command: app.Command) -> None:
    module, _, name = command.full_path.partition(":")
    docstring = getattr(importlib.import_module(module), name).__doc__
    assert docstring.splitlines()[0] == command.help.splitlines()[0]


def test_help_and_version(shell: Shell) -> None:
    out = answered(shell, "--help")
    assert all(re.search(rf"\b{command}\b", out) for command in COMMANDS)
    assert "Example:" in out
    assert answered(shell, "--version") == f"{tightrope.__version__}\n"


# as a process


def process(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


MAIN = "from tightrope.cli.entry import main; main()"


def test_piped_output_is_plain_and_unwrapped_even_when_colour_is_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = shlex.split(f"contrast {PLAIN} --delta 1e-7 1e-6 1e-5 1e-4 --why")
    done = process(MAIN, *words, FORCE_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    rows = [line for line in done.stdout.splitlines() if re.match(r"every-record, \S+  ", line)]
    assert len(rows) == 4
    assert all(row.count("[") == 4 for row in rows)


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "theorems"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("library", ["cyclopts", "rich"])
def test_without_its_libraries_the_command_line_says_what_to_install(library: str) -> None:
    done = process(f"import sys; sys.modules['{library}'] = None; {MAIN}", "theorems")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"needs {library}, which is not installed. {advise_install('cli')}\n")
    assert done.stderr.count("\n") == 1


LOADED = """
import sys
from tightrope.cli.entry import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    ours = ("tightrope", "numpy", "scipy", "matplotlib")
    print(sorted(name for name in sys.modules if name.split(".")[0] in ours))
"""


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_load_neither_numpy_nor_scipy_nor_an_engine(word: str) -> None:
    done = process(LOADED, word)
    modules = done.stdout.splitlines()[-1]
    assert "tightrope.cli.entry" in modules, done.stderr
    for heavy in (
        "numpy",
        "scipy",
        "tightrope.engines",
        "tightrope.answers",
        "tightrope.cli.commands.curves",
    ):
        assert heavy not in modules


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (f"epsilon {PLAIN} --relation add --delta 1e-6", ("sweeps", "audit", "statements", "cli.runs")),
        ("theorems", ("sweeps", "audit", "statements", "cli.sweep", "cli.calibrate")),
        ("schema", ("sweeps", "cli.curves", "cli.tables")),
    ],
    ids=lambda words: words.split()[0] if isinstance(words, str) else "",
)
def test_a_command_loads_no_other_command(words: str, others: tuple[str, ...]) -> None:
    done = process(LOADED, *shlex.split(words))
    modules = done.stdout.splitlines()[-1]
    assert "tightrope.cli.entry" in modules, done.stderr
    assert "matplotlib" not in modules
    for other in others:
        assert f"tightrope.{other}'" not in modules


def test_importing_tightrope_loads_neither_plotting_nor_command_line_libraries() -> None:
    heavy = "{'matplotlib', 'cyclopts', 'rich'}"
    script = (
        f"import sys, tightrope, tightrope.report.plot; tightrope.epsilon; print({heavy} & set(sys.modules))"
    )
    assert process(script).stdout == "set()\n"


def test_importing_tightrope_is_free_until_a_name_is_used() -> None:
    script = (
        "import sys, tightrope; before = 'numpy' in sys.modules; ask = tightrope.epsilon; "
        "print(before, 'numpy' in sys.modules, hasattr(tightrope, 'nonsense'), 'Gaussian' in dir(tightrope))"
    )
    assert process(script).stdout == "False True False True\n"
