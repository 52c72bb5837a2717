"""A Ctrl-C anywhere in a ledger: no answer is that of fewer steps, and no lock is kept by nobody."""

import copy
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tightrope as tr
from tightrope import files

STEP = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
DELTA = 1e-6
MOST_LINES = 2000


@contextmanager
def interrupt_at(line: int, *sources: str) -> Iterator[None]:
    """KeyboardInterrupt before the line-th line, or return, in one of these files."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        nonlocal left
        if not frame.f_code.co_filename.endswith(sources):
            return None
        if event in ("line", "return"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def asked_of(steps: int) -> tr.Bracket:
    return tr.epsilon(STEP * steps, delta=DELTA, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize("record", [lambda kept: kept.count(STEP, 90), lambda kept: kept.record(STEP * 90)])
def test_an_answer_after_an_interrupt_is_that_of_the_steps_that_the_ledger_has(
    record: Callable[[tr.Ledger], None],
) -> None:
    first, answers = tr.Ledger(relation=tr.ADD_OR_REMOVE), {10: asked_of(10), 100: asked_of(100)}
    first.record(STEP * 10)
    for line in range(1, MOST_LINES):
        kept = copy.deepcopy(first)
        kept.epsilon(DELTA)
        try:
            with interrupt_at(line, "answers/ledger.py"):
                record(kept)
        except KeyboardInterrupt:
            assert kept.epsilon(DELTA) == answers[kept.steps]
            assert kept.run.steps == kept.steps
        else:
            break
    assert 5 < line < MOST_LINES - 1


def test_an_interrupted_save_gives_up_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    warnings.simplefilter("ignore", ResourceWarning)  # a file that an interrupt lost closes itself
    path = tmp_path / "ledger.json"
    kept = tr.Ledger.open(path, relation=tr.ADD_OR_REMOVE)
    for line in range(1, MOST_LINES):
        is_done = False
        with suppress(KeyboardInterrupt), interrupt_at(line, "tightrope/files.py"):
            kept.count(STEP, 1)
            is_done = True
        if is_done:
            break
        kept.count(STEP, 1)
        # a step whose saving was interrupted is saved with the next one, and never twice
        assert tr.Ledger.load(path).steps == kept.steps
    assert 20 < line < MOST_LINES - 1
    gc.collect()


def test_a_copy_has_steps_and_answers_of_its_own() -> None:
    kept = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    kept.record(STEP * 10)
    kept.epsilon(DELTA)
    other = copy.copy(kept)
    other.record(STEP * 90)
    assert (kept.steps, other.steps) == (10, 100)
    assert kept.epsilon(DELTA) == asked_of(10)
    assert other.epsilon(DELTA) == asked_of(100)


def test_steps_that_no_theorem_knows_are_refused_before_they_are_recorded() -> None:
    class Twice(tr.Gaussian):
        pass

    with pytest.raises(tr.InvalidSetting, match="mechanism"):
        tr.Step(Twice(noise_multiplier=1), tr.EveryRecord())
    with pytest.raises(TypeError, match="complete"):
        type("Special", (tr.Step,), {})


@pytest.mark.parametrize("step", [None, [], tr.Gaussian(noise_multiplier=1)], ids=repr)
def test_what_is_no_step_is_not_counted(step: Any) -> None:
    kept = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    with pytest.raises(tr.InvalidSetting, match="run"):
        kept.count(step, 1)
