"""The environment is not our bug: whatever fails around a command, one sentence and the right exit code."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope
from shell import Shell, absent
from tightrope.cli import app
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.process.streams import MOST_KEPT, spell_for
from tightrope.errors import UnwrittenFile

ROOT = Path(__file__).parent.parent
MAIN = "import sys; from tightrope.cli.entry import main; main(sys.argv[1:])"
RUN = "--noise 0.8 --sampling poisson --rate 0.001 --steps 100 --relation add-or-remove"
ASK = f"epsilon {RUN} --delta 1e-6"
REFUTED = (
    f"audit {shlex.quote(str(ROOT / 'examples/shuffled.jsonl'))} --noise 0.8 --sampling poisson --rate 0.02 "
    "--steps 500 --delta 1e-6 --relation add-or-remove"
)
STATEMENT = f"statement {shlex.quote(str(ROOT / 'examples/statement.toml'))}"

HERE = {"PYTHONPATH": str(Path(tightrope.__file__).parent.parent)}  # whatever folder a process starts in

linux = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full and no /proc")


def process(words: str, *, before: str = "", **more: Any) -> "subprocess.CompletedProcess[str]":
    """`tightrope WORDS` in a process of its own, after some Python."""
    command = [sys.executable, "-c", f"{before}\n{MAIN}", *shlex.split(words)]
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    environment = {**os.environ, **HERE, **more.pop("env", {})}
    return subprocess.run(command, text=True, check=False, env=environment, **more)


def redirected(words: str, redirections: str) -> "subprocess.CompletedProcess[str]":
    """`tightrope WORDS REDIRECTIONS`, as a shell does it."""
    command = shlex.join([sys.executable, "-c", MAIN, *shlex.split(words)])
    line = f"{command} {redirections}"
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, env=os.environ | HERE
    )


# standard output and standard error


@linux
@pytest.mark.parametrize("words", [ASK, f"{ASK} --json", "--version", "--help"], ids=["text", "json", *"vh"])
def test_on_a_full_disk_the_answer_is_on_standard_error(shell: Shell, words: str) -> None:
    code, answer, _ = shell(words)
    assert code == 0
    done = redirected(words, "> /dev/full")
    said, _, rescued = done.stderr.partition("\n")
    why = "standard output could not be written: No space left on device. What belongs there follows."
    assert (done.returncode, said) == (ExitCode.ENVIRONMENT, f"tightrope: {why}")
    assert rescued == answer


@linux
def test_of_an_answer_that_is_too_long_its_beginning_is_on_standard_error() -> None:
    done = redirected(f"curve {RUN} --accountant gaussian-limit --epsilons 0:1:3000 --json", "> /dev/full")
    said, *rescued = done.stderr.splitlines()
    assert done.returncode == ExitCode.ENVIRONMENT
    assert re.search(r"The first 40 of its \d\d,\d{3} lines follow\.$", said)
    assert (len(rescued), rescued[0]) == (40, "{")
    assert len(done.stderr) < MOST_KEPT


@linux
def test_a_verdict_is_still_the_exit_code_when_it_cannot_be_printed() -> None:
    assert redirected(REFUTED, "> /dev/full").returncode == ExitCode.NOT_MET


def test_a_verdict_is_still_the_exit_code_when_the_reader_leaves() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = process(REFUTED, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.NOT_MET, "")


@linux
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-", "2>&- >&- <&-"])
def test_a_refusal_that_nobody_can_read_is_still_one(redirection: str) -> None:
    done = redirected("epsilon", redirection)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.REFUSED, "", "")


def test_without_standard_error_remarks_do_not_get_into_the_answer(tmp_path: Path) -> None:
    target = tmp_path / "curve.svg"
    done = redirected(f"curve {RUN} --epsilons 0:1:3 --json --plot {shlex.quote(str(target))}", "2>&-")
    assert (done.returncode, json.loads(done.stdout)["version"]) == (0, tightrope.__version__)
    assert target.exists()


def test_a_closed_standard_output_is_named_and_the_answer_said_elsewhere() -> None:
    done = redirected("--version", ">&-")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.splitlines() == [
        "tightrope: standard output could not be written: it is closed. What belongs there follows.",
        tightrope.__version__,
    ]


def test_a_file_never_gets_the_descriptor_of_a_closed_stream() -> None:
    script = (
        "import os, sys\nfrom tightrope.cli.process.streams import safe_streams\n"
        "with safe_streams(), open(os.devnull) as file:\n    sys.exit(file.fileno())"
    )
    command = shlex.join([sys.executable, "-c", script])
    assert subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], check=False).returncode > 2


def test_without_standard_input_an_answer_is_the_same(shell: Shell) -> None:
    done = redirected(ASK, "<&-")
    assert (done.returncode, done.stdout, done.stderr) == shell(ASK)


# letters that an encoding lacks

ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "ASCII": {"PYTHONIOENCODING": "ascii:replace"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "us-ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""},
    "utf-8": {"LC_ALL": "C", "PYTHONIOENCODING": ""},
}


# both answers of one process: it takes longer to start than to print
FIRST = (
    "from tightrope.cli.entry import main\n"
    "try:\n"
    "    main(['theorems'])\n"
    "except SystemExit as end:\n"
    "    assert not end.code"
)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_letters_that_an_encoding_lacks_are_spelled(shell: Shell, encoding: str) -> None:
    answers = [shell(words)[1] for words in ("theorems", "theorems --markdown")]
    assert all("Rényi" in answer for answer in answers)
    done = process("theorems --markdown", before=FIRST, env=ENCODINGS[encoding], encoding=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == spell_for(encoding, "".join(answers))
    assert ("Renyi" in done.stdout) == ("ascii" in encoding.lower())


def test_help_is_drawn_in_ascii_where_there_is_nothing_else() -> None:
    done = process("compare --help", env=ENCODINGS["ascii"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "Renyi's bound" in done.stdout
    assert done.stdout.isascii()


def test_a_file_name_that_is_no_text_is_named_all_the_same() -> None:
    done = process("spent 'é\udcff.json' --delta 1e-6", env=ENCODINGS["ascii"])
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.startswith(r"tightrope: e\xff.json could not be read")


@given(st.text())
def test_spelling_loses_nothing_and_invents_no_question_mark(text: str) -> None:
    spelled = spell_for("ascii", text)
    assert spelled.isascii()
    assert spelled.count("?") == text.count("?")
    assert len(spelled) >= len(text)
    assert spell_for("utf-8", spelled) == spelled


@pytest.mark.parametrize("sign", "½²⁶٣≰")
def test_a_number_or_comparison_is_escaped_where_spelling_would_change_it(sign: str) -> None:
    assert spell_for("ascii", sign) == ascii(sign)[1:-1]


def test_a_statement_in_json_is_the_same_in_every_encoding(tmp_path: Path) -> None:
    facts = (ROOT / "examples/statement.toml").read_text().replace("Digit classifier", "Chiffres, à ε près")
    file = tmp_path / "statement.toml"
    file.write_text(facts, encoding="utf-8")
    plain, poor = (process(f"statement {file}", env=ENCODINGS[name]) for name in ("utf-8", "ascii"))
    assert json.loads(poor.stdout)["name"] == "Chiffres, à ε près"
    assert poor.stdout == plain.stdout


# places that cannot be written

FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"  # every file is too large


TOO_LARGE, IN_PROC = (FULL, "", "File too large"), ("", "/proc", "No such file or directory")


@linux
@pytest.mark.parametrize(
    ("words", "before", "folder", "why"),
    [
        (f"curve {RUN} --epsilons 0:1:3", *TOO_LARGE),
        (f"curve {RUN} --epsilons 0:1:3", *IN_PROC),
        (f"compare {RUN} --delta 1e-6 --draws 99", *TOO_LARGE),
        ("curve --runs runs.toml", *TOO_LARGE),
    ],
)
def test_numbers_are_printed_when_their_picture_cannot_be_written(
    shell: Shell, tmp_path: Path, words: str, before: str, folder: str, why: str
) -> None:
    words = words.replace("runs.toml", shlex.quote(str(ROOT / "examples/pitfall.toml")))
    _, answer, _ = shell(words)
    done = process(f"{words} --plot curve.svg", before=before, cwd=folder or tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.ENVIRONMENT, answer)
    assert done.stderr.startswith(f"tightrope: the picture 'curve.svg' could not be written: {why}.")
    assert done.stderr.count("\n") == 1


@linux
def test_a_statement_that_cannot_be_written_is_printed(shell: Shell, tmp_path: Path) -> None:
    _, answer, _ = shell(STATEMENT)
    done = process(f"{STATEMENT} --out statement.json", before=FULL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.ENVIRONMENT, answer)
    why = "could not be written: File too large. It is on standard output instead."
    assert done.stderr == f"tightrope: the statement 'statement.json' {why}\n"


@linux
def test_a_sweep_on_a_full_disk_says_that_its_rows_are_safe_and_goes_on_later(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'ask = "epsilon"\nrelation = "add"\nmechanism = "gaussian"\nnoise_multiplier = 1.0\ndelta = 1e-6\n'
        'sampling = "poisson"\nrate = 0.001\nsteps = { from = 1, to = 30, count = 30, scale = "linear" }\n'
    )
    limited = FULL.replace("(0, 0)", "(40_000, 40_000)")
    done = process("sweep grid.toml --workers 1 --out rows.csv", before=limited, cwd=tmp_path)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "The rows so far are safe: make room, then go on with --resume." in done.stderr
    done = process("sweep grid.toml --workers 1 --out rows.csv --resume", cwd=tmp_path)
    assert done.returncode == 0
    assert re.search(r"wrote rows\.csv: 30 cells, \d+ of them known before, no errors", done.stderr)


@pytest.mark.parametrize("home", [None, "/dev/null"])
def test_no_home_and_no_folder_for_temporary_files_are_no_obstacle(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    _, answer, _ = shell(ASK)
    monkeypatch.delenv("HOME", raising=False)
    there = {} if home is None else {"HOME": home}
    done = process(ASK, env={**there, "TMPDIR": "/dev/null"})
    assert (done.returncode, done.stdout, done.stderr) == (0, answer, "")


@linux
def test_a_folder_that_is_gone_is_no_obstacle_to_an_answer(shell: Shell, tmp_path: Path) -> None:
    script = f"mkdir gone; cd gone; rmdir ../gone; {shlex.join([sys.executable, '-c', MAIN])} {ASK}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | HERE
    )
    assert (done.returncode, done.stdout) == shell(ASK)[:2]


# signals

# says when main has begun, for before that Ctrl-C is Python's to answer
DOOR = """
import sys
class Door:
    def find_spec(name, path=None, target=None):
        if name == "tightrope.cli.session":
            print(".", flush=True)
sys.meta_path.insert(0, Door)
"""


def signalled(words: str, number: signal.Signals, after: float) -> tuple[int, str]:
    """How a command ends, and what it says, with a signal so many seconds after it has begun."""
    command = [sys.executable, "-c", f"{DOOR}\n{MAIN}", *shlex.split(words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == ".\n"
        time.sleep(after)
        started.send_signal(number)
        _, said = started.communicate()
    return started.returncode, said


LONG = f"epsilon {RUN} --delta 1e-6 --accountant monte-carlo --draws 1e12"


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8])
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_at_any_moment_is_one_sentence(after: float) -> None:
    assert signalled(LONG, signal.SIGINT, after) == (ExitCode.INTERRUPTED, "tightrope: interrupted.\n")


def test_sigterm_ends_a_command_as_an_interrupt_does() -> None:
    code, said = signalled(LONG, signal.SIGTERM, 2)
    *before, last = said.splitlines()
    assert (code, last) == (ExitCode.TERMINATED, "tightrope: terminated.")
    assert all(line.startswith("tightrope: this will") for line in before)  # once it draws


def test_an_interrupt_that_python_could_not_raise_comes_again() -> None:
    # Python prints what is raised in a destructor, as in the callbacks with which imports end, and goes on
    script = (
        "import os, signal, time\n"
        "from tightrope.cli.process.signals import heed_signals\n"
        "class Deaf:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(10**6): pass\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with heed_signals(signal.SIGINT) as heard:\n"
        "    try:\n"
        "        Deaf()\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print(len(heard))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_library_is_loaded_ends_the_command_at_once() -> None:
    """Raised inside scipy's extension modules, one interrupt in some hundreds made them loop for ever."""
    # a library that goes on whatever is raised inside it, as half loaded C code may
    stubborn = (
        "import os, sys\n"
        "class Stubborn:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        while name == 'scipy.special':\n"
        "            try:\n"
        "                os.kill(os.getpid(), 2)\n"
        "            except KeyboardInterrupt:\n"
        "                pass\n"
        "sys.meta_path.insert(0, Stubborn)"
    )
    done = process(f"epsilon {RUN} --delta 1e-6", before=stubborn)
    assert (done.returncode, done.stdout) == (ExitCode.INTERRUPTED, "")
    assert done.stderr == "tightrope: interrupted.\n"


def test_an_interrupt_is_ignored_where_it_was_ignored_before() -> None:
    before = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    interrupt = "import os, tightrope.cli.app as app\nrun = app.run\n" + (
        "def after_interrupt(words):\n    os.kill(os.getpid(), 2)\n    return run(words)\n"
        "app.run = after_interrupt"
    )
    assert process("schema", before=f"{before}\n{interrupt}").returncode == 0


def test_handlers_are_those_of_before_when_a_command_has_ended(shell: Shell) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    streams = sys.stdout, sys.stderr, sys.unraisablehook
    shell("schema")
    assert [signal.getsignal(number) for number in numbers] == before
    assert (sys.stdout, sys.stderr, sys.unraisablehook) == streams


# whose fault it is


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (
            ValueError("odd"),
            ExitCode.INTERNAL,
            "internal error (ValueError: odd); this is a bug in tightrope",
        ),
        (MemoryError(), ExitCode.ENVIRONMENT, "there is not enough memory for this."),
        (
            OSError(24, "Too many open files", "x"),
            ExitCode.ENVIRONMENT,
            "the system failed: [Errno 24] Too many",
        ),
        (UnwrittenFile("x", "is full"), ExitCode.ENVIRONMENT, "x is full."),
        (
            ImportError("no symbol", name="numpy"),
            ExitCode.ENVIRONMENT,
            "a library could not be loaded: no symbol",
        ),
        (
            ImportError("no name", name="tightrope.x"),
            ExitCode.INTERNAL,
            "internal error (ImportError: no name)",
        ),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted."),
    ],
)
def test_only_a_bug_is_called_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int, said: str
) -> None:
    def fail(words: list[str]) -> int:
        raise problem

    monkeypatch.setattr(app, "run", fail)
    ended, out, err = shell("theorems")
    assert (ended, out) == (code, "")
    assert err.startswith(f"tightrope: {said}")
    assert err.count("\n") == 1


def test_help_and_docs_tell_every_exit_code(shell: Shell) -> None:
    _, out, _ = shell("--help")
    page = (ROOT / "docs/command_line.md").read_text()
    for code in ExitCode:
        assert re.search(rf"^ *{int(code)}  {re.escape(code.meaning)}$", out, re.MULTILINE)
        assert re.search(rf"^\| {int(code)} \| {re.escape(code.meaning)} \|", page, re.MULTILINE)


# ways to start it


@pytest.mark.parametrize("words", ["--version", "noise --help", "epsilon --steps 5"])
def test_python_m_tightrope_is_the_command(shell: Shell, words: str) -> None:
    command = [sys.executable, "-m", "tightrope", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == shell(words)


@pytest.mark.parametrize(
    ("name", "library"),
    [("opacus_before", "opacus"), ("opacus_before", "tightrope"), ("opacus_after", "torch")],
)
def test_an_example_without_its_library_says_what_to_install(name: str, library: str) -> None:
    script = f"{absent(library)}\nimport runpy; sys.path.insert(0, 'examples')\n" + (
        f"runpy.run_path('examples/{name}.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    lacks, _, command = done.stderr.partition(" Install it with: ")
    assert lacks == f"This example needs {library}, which is not installed."
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[opacus]"]


# completion


def home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": "", "ZDOTDIR": ""}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/tightrope"),
        ("zsh", ".zsh/completions/_cyclopts_tightrope"),
        ("fish", ".config/fish/completions/tightrope.fish"),
    ],
)
def test_completion_is_one_new_file_and_nothing_else_is_touched(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    (tmp_path / ".bashrc").write_text("mine")
    for variable, value in home(tmp_path).items():
        monkeypatch.setenv(variable, value)
    code, said, remarks = shell(f"--install-completion --shell {name}")
    assert (code, remarks) == (0, "")
    assert said.startswith(f"Wrote {tmp_path / file}. ")
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {tmp_path / ".bashrc", tmp_path / file}
    assert (tmp_path / ".bashrc").read_text() == "mine"
    for variable, value in home(tmp_path / "none").items():
        monkeypatch.setenv(variable, value)
    _, shown, _ = shell(f"--install-completion --shell {name} --show")
    assert shown == (tmp_path / file).read_text()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("eps", "epsilon"), ("epsilon --relation su", "substitute"), ("--inst", "--install-completion")],
)
def test_bash_completes_what_is_typed(shell: Shell, typed: str, completed: str) -> None:
    _, script, _ = shell("--install-completion --shell bash --show")
    words = f"tightrope {typed}".split()
    ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _tightrope; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


def test_a_home_that_cannot_be_written_is_named_with_the_way_out() -> None:
    done = process("--install-completion --shell bash", env=home(Path("/dev/null")))
    assert (done.returncode, done.stdout) == (ExitCode.ENVIRONMENT, "")
    assert done.stderr.startswith("tightrope: the folder '/dev/null/.local")
    assert "Print it with --show" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_shell_that_cannot_be_told_is_asked_for() -> None:
    unknown = {"SHELL": "", "BASH_VERSION": "", "ZSH_VERSION": "", "FISH_VERSION": "", "PATH": ""}
    done = process("--install-completion", env=unknown)
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.startswith("tightrope: --shell is missing")
