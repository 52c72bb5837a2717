"""What all tests share: reproducible hypothesis runs, processes, command lines to type into, and Ctrl-C."""

import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest
from hypothesis import settings

import reproduction.__main__
from scheduling import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from shell import Shell
from tightrope.cli.entry import main

settings.register_profile("tightrope", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("tightrope")


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run `tightrope WORDS` in this process: exit code, standard output, standard error.

    Nobody sets COLUMNS, so that paragraphs are one line each. How busy the machine is makes no
    difference to what is announced: estimates are those of an idle machine, and nobody extrapolates.
    """
    monkeypatch.setattr("tightrope.cli.long_work.PATIENCE", 3600.0)
    for module in ("long_work", "sweep"):
        monkeypatch.setattr(f"tightrope.cli.{module}.measure_slowness", lambda: 1.0)
    monkeypatch.delenv("COLUMNS", raising=False)
    return typed_into(main, capsys)


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
