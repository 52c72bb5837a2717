"""Several writers of one ledger: no step is lost or counted twice, whoever is killed."""

import copy
import errno
import fcntl
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from ledgers import RELEASE, STEP, TABLE, ledger, small
from tightrope import files
from tightrope.answers.ledger import Ledger
from tightrope.answers.ledger_file import LEDGER_FILE

DEADLINE = 60.0  # seconds a test waits for other processes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger without steps."""
    place = tmp_path / "ledger.json"
    ledger().save(place)
    return place


def start(act: str, path: Path) -> subprocess.Popen[str]:
    """A process that does this to the ledger, without threads, so that it may fork."""
    script = Path(__file__).with_name("ledger_writers.py")
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, script, act, path], stdout=subprocess.PIPE, text=True, env=alone)


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return out


def part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


# processes


@pytest.mark.parametrize("act", ["load_step_save", "open_and_step", "step_without_locks"])
def test_two_processes_of_a_hundred_steps_leave_two_hundred(act: str, path: Path) -> None:
    for process in [start(act, path), start(act, path)]:
        finish(process)
    assert Ledger.load(path).run == STEP * 200
    assert list(path.parent.iterdir()) == [path]


def test_writers_that_are_killed_lose_nothing_that_was_acknowledged(path: Path) -> None:
    rounds = json.loads(finish(start("kill_writers", path)))
    assert len(rounds) == 30
    before = 0
    for found in rounds:
        # each of the two may have been killed after its step was on disk and before it was told
        assert 0 <= found["in the file"] - before - found["acknowledged"] <= 2
        assert found["parts"] <= 1
        before = found["in the file"]
    kept = Ledger.load(path)
    kept.record(STEP)
    kept.save(path)
    assert Ledger.load(path).steps == before + 1
    assert list(path.parent.iterdir()) == [path]


def test_a_writer_killed_at_any_call_leaves_the_old_file_or_the_new_one(path: Path) -> None:
    left = json.loads(finish(start("kill_at_every_call", path)))
    committed = ["after replace 1", "before open 2", "after open 2", "before fsync 2", "after fsync 2"]
    assert left == {call: int(call in committed) for call in left}
    assert len(left) == 16
    kept = Ledger.load(path)
    kept.save(path)
    assert list(path.parent.iterdir()) == [path]


# what several ledgers record comes together


def test_saving_adds_what_was_recorded_since_and_brings_what_others_saved(path: Path) -> None:
    one, other = Ledger.load(path), Ledger.load(path)
    one.record(STEP * 3)
    one.save(path)
    other.record(RELEASE)
    assert other.epsilon(1e-6) == tr.epsilon(RELEASE, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    other.save(path)
    assert other == Ledger.load(path) == ledger(STEP * 3, RELEASE)
    both = tr.epsilon(STEP * 3 + RELEASE, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert other.epsilon(1e-6) == both
    assert one.run == STEP * 3
    one.save(path)  # nothing new of its own: it only catches up, also with what was recorded last
    assert one == other
    one.save(path)
    assert Ledger.load(path) == one


def test_saving_twice_counts_once(path: Path) -> None:
    kept = Ledger.load(path)
    for _ in range(3):
        kept.record(STEP)
        kept.save(path)
        kept.save(path)
    assert Ledger.load(path).run == STEP * 3


def test_a_ledger_saved_elsewhere_is_a_copy_and_both_files_are_kept_up_to_date(path: Path) -> None:
    copied = path.with_name("copy.json")
    kept = Ledger.load(path)
    for place in (path, copied, path, copied):
        kept.record(STEP)
        kept.save(place)
    assert Ledger.load(copied).run == STEP * 4
    kept.save(path)
    assert copied.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))]
)
def test_a_duplicate_of_a_saved_ledger_goes_on_beside_it(
    duplicate: Callable[[Ledger], Ledger], path: Path
) -> None:
    kept = Ledger.load(path)
    for other in (kept, duplicate(kept)):
        other.record(STEP)
        other.save(path)
    assert Ledger.load(path).run == STEP * 2


@pytest.mark.parametrize(
    ("is_done", "failure"), [(True, KeyboardInterrupt()), (False, OSError(5, "No disk"))]
)
def test_what_goes_wrong_around_the_rename_neither_loses_a_step_nor_counts_it_twice(
    is_done: bool, failure: BaseException, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Ledger.load(path)
    kept.record(STEP)
    replace = os.replace

    def fail(*names: Any) -> None:
        if is_done:
            replace(*names)
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises((KeyboardInterrupt, tr.InvalidSetting)):
            kept.save(path)
    assert Ledger.load(path).steps == is_done
    kept.save(path)
    assert Ledger.load(path).steps == 1


# what is no descendant is refused, and left as it is


def shrink(path: Path) -> None:
    table, version = LEDGER_FILE.unseal(path)
    parts: Any = table.entries["parts"]
    parts[0]["steps"] -= 1
    assert version == LEDGER_FILE.version
    path.write_bytes(LEDGER_FILE.seal(table.entries))


def change_relation(path: Path) -> None:
    table, _ = LEDGER_FILE.unseal(path)
    path.write_bytes(LEDGER_FILE.seal({**table.entries, "relation": "substitute"}))


def start_another(path: Path) -> None:
    path.unlink()
    ledger(STEP * 900, RELEASE * 900).save(path)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (Path.unlink, "is gone, and with it what others may have recorded there. Restore it, or"),
    "another": (start_another, "is not the ledger that was there. It is unchanged. Save to another place"),
    "relation": (change_relation, "is not the ledger that was there. It is unchanged. Save to another"),
    "cut back": (shrink, f"holds 2 x {STEP!r}, and held 3 before. Restore it from a copy that"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:99]), "must be a whole JSON file"),
    "emptied": (lambda path: path.write_bytes(b""), "must be a whole JSON file"),
    "edited": (
        lambda path: path.write_text(path.read_text().replace('"steps": 3', '"steps": 4')),
        ": sha256 must be the checksum of the rest of the file",
    ),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_lost_something_is_refused_and_the_ledger_can_be_saved_elsewhere(
    change: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.json"
    kept = small()
    kept.save(path)
    kept.record(TABLE)
    change(path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(tr.InvalidSetting) as refusal:
        kept.save(path)
    assert str(refusal.value).startswith(f"{path}")
    assert reason in str(refusal.value)
    assert (path.read_bytes() if path.exists() else None) == before
    assert list(tmp_path.iterdir()) == ([] if before is None else [path])
    kept.save(tmp_path / "rescued.json")
    assert Ledger.load(tmp_path / "rescued.json").run == STEP * 3 + RELEASE + TABLE


def test_a_ledger_that_was_not_loaded_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    small().save(path)
    before = path.read_bytes()
    for other in (small(), ledger(STEP), ledger(relation=tr.SUBSTITUTE)):
        with pytest.raises(
            tr.InvalidSetting, match="exists, and holds a ledger that this one does not go on"
        ):
            other.save(path)
    assert path.read_bytes() == before


def test_a_file_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("Chapter 1")
    with pytest.raises(tr.InvalidSetting, match=r"thesis\.txt must be a whole JSON file"):
        small().save(path)
    assert path.read_text() == "Chapter 1"


# the lock, and what dead writers leave


def test_a_writer_waits_for_another_and_gives_up_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Ledger.load(path)
    kept.record(STEP)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with part_of(path).open("w") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(tr.InvalidSetting, match=r"another process has been writing it for 0\.05 s"):
            kept.save(path)
        assert part_of(path).exists()  # it belongs to the other
    assert Ledger.load(path).steps == 0
    kept.save(path)
    assert Ledger.load(path).steps == 1
    assert list(path.parent.iterdir()) == [path]


def test_a_lock_on_a_part_file_that_was_renamed_meanwhile_is_not_taken_for_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the writer before finishes between our opening its part file and our getting the lock."""
    late, early = Ledger.load(path), Ledger.load(path)
    late.record(STEP)
    early.record(STEP)
    flock = fcntl.flock

    def finish_first(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        early.save(path)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", finish_first)
    late.save(path)
    assert Ledger.load(path).run == STEP * 2
    assert list(path.parent.iterdir()) == [path]


def test_what_a_dead_writer_left_is_overwritten(path: Path) -> None:
    part_of(path).write_text("half of a ledger, and longer than the whole " * 100)
    kept = Ledger.load(path)
    kept.record(STEP)
    kept.save(path)
    assert Ledger.load(path) == kept
    assert list(path.parent.iterdir()) == [path]


def test_a_part_file_that_is_a_link_is_not_followed(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("precious")
    part_of(path).symlink_to(other)
    with pytest.raises(tr.InvalidSetting, match="could not be written: Too many levels of symbolic links"):
        Ledger.load(path).save(path)
    assert other.read_text() == "precious"


def test_names_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("\N{GREEK SMALL LETTER EPSILON}" * 127)
    small().save(path)
    assert Ledger.load(path) == small()
    assert list(tmp_path.iterdir()) == [path]


def refuse_locks(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """As on a file system without them; 0 is a system without them."""

    def refuse(*_: int) -> None:
        raise OSError(error, os.strerror(error))

    if error:
        monkeypatch.setattr(fcntl, "flock", refuse)
    else:
        monkeypatch.setattr(files, "fcntl", None)


without_locks = pytest.mark.parametrize(
    "error", sorted({0, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
)


@without_locks
def test_where_there_are_no_locks_writers_are_served_one_by_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Every file was refused where `flock` is, and on Windows two writers lost steps."""
    refuse_locks(monkeypatch, error)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    first, second = Ledger.load(path), Ledger.load(path)
    first.record(STEP)
    second.record(STEP)
    with files.write_alone(path, what="the ledger"):
        with pytest.raises(tr.InvalidSetting, match=r"writing it for 0\.05 s or has died at it; if none"):
            first.save(path)
        assert part_of(path).exists()
    first.save(path)
    second.save(path)
    assert Ledger.load(path).run == STEP * 2
    assert list(path.parent.iterdir()) == [path]


@without_locks
def test_without_locks_a_part_file_of_a_dead_writer_is_for_its_owner_to_remove(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Nobody can tell that it is dead, and two who think so would both write."""
    refuse_locks(monkeypatch, error)
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    part_of(path).write_text("half of a ledger")
    kept = Ledger.load(path)
    kept.record(STEP)
    with pytest.raises(tr.InvalidSetting) as refusal:
        kept.save(path)
    assert f"if none is writing, remove '{part_of(path)}'" in str(refusal.value)
    assert part_of(path).read_text() == "half of a ledger"
    part_of(path).unlink()
    kept.save(path)
    assert Ledger.load(path).steps == 1


@without_locks
def test_without_locks_what_is_only_replaced_waits_for_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """A checkpoint or a picture does not depend on what was there before."""
    refuse_locks(monkeypatch, error)
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    part_of(path).write_text("half of something")
    files.write_whole(path, b"the whole", what="the picture")
    assert path.read_bytes() == b"the whole"
    assert sorted(path.parent.iterdir()) == sorted([path, part_of(path)])


def test_a_lock_that_fails_for_another_reason_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_locks(monkeypatch, errno.EIO)
    with pytest.raises(tr.InvalidSetting, match="could not be written: Input/output error"):
        Ledger.load(path).save(path)


# a ledger kept in its file


def test_an_opened_ledger_is_on_disk_after_every_step(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    kept = Ledger.open(path, relation=tr.ADD_OR_REMOVE)
    assert Ledger.load(path) == ledger()
    kept.step(noise_multiplier=0.8, sampling=tr.Poisson(rate=1e-3))
    assert Ledger.load(path) == kept
    kept.record(RELEASE * 2)
    assert Ledger.load(path) == kept
    kept.count(TABLE, 3)
    assert Ledger.load(path) == kept
    again = Ledger.open(path, relation="add-or-remove")
    assert again == kept == ledger(STEP, RELEASE * 2, TABLE * 3)
    again.record(STEP)
    kept.record(STEP)
    assert kept.run == STEP * 3 + RELEASE * 2 + TABLE * 3


def test_a_ledger_is_opened_only_as_what_it_is(path: Path) -> None:
    with pytest.raises(tr.InvalidSetting, match=r"is kept under ADD_OR_REMOVE by Certified\(.*Open it with"):
        Ledger.open(path, relation=tr.ADD)
    with pytest.raises(tr.InvalidSetting, match="is kept under ADD_OR_REMOVE"):
        Ledger.open(path, relation=tr.ADD_OR_REMOVE, by=tr.Certified(accuracy=1e-6))
    with pytest.raises(tr.InvalidSetting, match="could not be written: No such file"):
        Ledger.open(path.parent / "no" / "ledger.json", relation=tr.ADD)


def test_two_that_open_a_new_ledger_at_once_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.json"
    save = Ledger.save

    def save_second(made: Ledger, place: Path) -> None:
        monkeypatch.setattr(Ledger, "save", save)
        Ledger.open(path, relation=tr.ADD).record(STEP)
        save(made, place)

    monkeypatch.setattr(Ledger, "save", save_second)
    assert Ledger.open(path, relation=tr.ADD).run == STEP * 1


def test_a_step_that_could_not_be_saved_is_saved_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    kept = Ledger.open(path, relation=tr.ADD)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(tr.InvalidSetting, match="No space left on device"):
            kept.record(STEP)
    assert (kept.steps, Ledger.load(path).steps) == (1, 0)
    kept.record(STEP)
    assert Ledger.load(path) == kept == ledger(STEP * 2, relation=tr.ADD)
