"""What all tests share: reproducible hypothesis runs, processes, command lines to type into, and Ctrl-C."""

import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pytest
from hypothesis import settings

import reproduction.__main__
from scheduling import pytest_collection_modifyitems as pytest_collection_modifyitems
from scheduling import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from shell import Shell
from tightrope.answers import contrast
from tightrope.audit.claims.shuffled import epsilon_if_shuffled
from tightrope.cli.entry import main
from tightrope.setting.effort import TIGHT

settings.register_profile("tightrope", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("tightrope")
ANSWERS: dict[str, object] = {}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run `tightrope WORDS` in this process: exit code, standard output, standard error.

    Nobody sets COLUMNS, so that paragraphs are one line each. How busy the machine is makes no
    difference to what is announced: estimates are those of an idle machine, and nobody extrapolates.
    """
    monkeypatch.setattr("tightrope.cli.process.long_work.PATIENCE", 3600.0)
    for module in ("process.long_work", "commands.sweep"):
        monkeypatch.setattr(f"tightrope.cli.{module}.measure_slowness", lambda: 1.0)
    monkeypatch.delenv("COLUMNS", raising=False)
    return typed_into(main, capsys)


@pytest.fixture
def contrasted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of a contrast is computed twice in a process: rows take seconds, and tests look at a few.

    Rows are the same whatever is claimed and however they are printed. Games are played as often as asked
    for, because they tell how far they are.
    """
    compute_row = contrast._row

    def row(*asked: Any) -> Any:
        *question, by, _ = asked  # and who watches
        if by.effort is TIGHT:
            return compute_row(*asked)
        return compute_once((question, by), lambda: compute_row(*asked))

    def shuffle(*asked: Any, **more: Any) -> Any:
        return compute_once((asked, more), lambda: epsilon_if_shuffled(*asked, **more))

    monkeypatch.setattr(contrast, "_row", row)
    monkeypatch.setattr("tightrope.cli.commands.shuffled.epsilon_if_shuffled", shuffle)


def compute_once(question: object, compute: Callable[[], object]) -> object:
    """The answer to a question, which was perhaps computed before."""
    key = repr(question)  # 1e-3 and 1/1000 are equal and not the same question
    if key not in ANSWERS:
        ANSWERS[key] = compute()
    return ANSWERS[key]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, here and in processes started here.

    A shell without job control starts background jobs with SIGINT ignored, and their children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def reproduce(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run `python -m reproduction WORDS` in this process."""
    return typed_into(reproduction.__main__.main, capsys)


def typed_into(main: Callable[[Sequence[str]], NoReturn], capsys: pytest.CaptureFixture[str]) -> Shell:
    """What a command line answers: exit code, standard output, standard error."""

    def run(words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "\x1b" not in out + err
        code = ended.value.code
        assert isinstance(code, int)
        return code, out, err

    return run
