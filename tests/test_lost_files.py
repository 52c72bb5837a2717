"""Sweeps whose files somebody removes while they run: rows are written all the same, or handed over."""

import csv
import os
import pickle
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tightrope.errors import UnwrittenRows
from tightrope.sweeps.cells import Row
from tightrope.sweeps.results import Results
from tightrope.sweeps.sweep import SweepProgress, sweep

GRID: dict[str, object] = {
    "ask": "epsilon",
    "relation": "remove",
    "mechanism": "gaussian",
    "noise_multiplier": {"from": 1, "to": 6, "count": 6, "scale": "linear"},
    "sampling": "every-record",
    "steps": 10,
    "delta": 1e-6,
}
CELLS = 6
Deed = Callable[[Path], object]


def timeless(rows: list[Row]) -> list[Row]:
    return [{**row, "seconds": None} for row in rows]


def sweep_while(deed: Deed, out: Path, *, at: int = 3, **more: Any) -> list[Row]:
    """A sweep during which somebody does something to its files, after so many rows."""

    def tell(state: SweepProgress) -> None:
        if state.done == at:
            deed(out)

    return sweep(GRID, out=out, workers=1, progress=tell, **more)


def noises(path: Path) -> list[float]:
    with path.open(newline="") as file:
        return [float(row["noise_multiplier"]) for row in csv.DictReader(file)]


def journal_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.journal")


def remove_files(out: Path) -> None:
    for path in out.parent.glob(f"{out.name}*"):
        path.unlink()


def remove_folder(out: Path) -> None:
    shutil.rmtree(out.parent)


def replace_folder_by_a_file(out: Path) -> None:
    remove_folder(out)
    out.parent.touch()


REMOVALS = [remove_files, remove_folder, lambda out: journal_of(out).unlink()]


@pytest.mark.parametrize("at", [0, 3, CELLS])
@pytest.mark.parametrize("removal", REMOVALS, ids=["files", "folder", "journal"])
@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_files_that_are_removed_are_made_again(name: str, removal: Deed, at: int, tmp_path: Path) -> None:
    out = tmp_path / "folder" / name
    out.parent.mkdir()
    rows = sweep_while(removal, out, at=at)
    assert timeless(rows) == timeless(sweep(GRID, workers=1))
    assert list(out.parent.iterdir()) == [out]
    assert sweep(GRID, out=out, resume=True, workers=1) == rows


def test_who_stops_before_the_first_row_hears_nothing_of_files_that_are_gone(tmp_path: Path) -> None:
    def stop(out: Path) -> None:
        remove_files(out)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep_while(stop, tmp_path / "out.csv", at=0)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_were_kept_outlive_their_file(tmp_path: Path) -> None:
    out = tmp_path / "folder" / "out.csv"
    out.parent.mkdir()
    sweep({**GRID, "steps": 9}, out=out, workers=1)
    sweep_while(remove_folder, out, resume=True)
    assert noises(out) == 2 * [1, 2, 3, 4, 5, 6]


def test_a_crash_after_the_journal_was_removed_loses_no_row(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    rows = {str(row["noise_multiplier"]): row for row in sweep(GRID, workers=1)}
    results = Results(out, resume=False)
    for done, (noise, row) in enumerate(rows.items()):
        if done == 3:
            remove_files(out)
        results.add((noise,), row)
    results._journal.close()  # as if it had been killed
    with closing(sqlite3.connect(journal_of(out))) as journal:
        (kept,) = journal.execute("SELECT count(*) FROM rows").fetchone()
    assert kept == len(rows)


def test_rows_of_a_sweep_that_took_the_place_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    def take_place(out: Path) -> None:
        remove_files(out)
        sweep({**GRID, "steps": 9}, out=out, workers=1)

    assert len(sweep_while(take_place, out)) == CELLS
    assert noises(out) == 2 * [1, 2, 3, 4, 5, 6]


def test_a_sweep_that_works_at_the_place_is_left_alone_and_the_rows_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    out, others = tmp_path / "out.csv", []

    def take_place(out: Path) -> None:
        remove_files(out)
        others.append(Results(out, resume=False))

    with pytest.raises(UnwrittenRows, match=r"is being written by another sweep\. The rows so far are in"):
        sweep_while(take_place, out)
    others[0].close()
    assert not out.exists()
    (rescued,) = tmp_path.glob("tightrope-*/results.csv")
    assert noises(rescued) == [1, 2, 3, 4]


@pytest.mark.parametrize("at", [3, CELLS])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_without_a_folder_are_in_the_refusal_and_in_a_file_that_it_names(
    suffix: str, at: int, tmp_path: Path
) -> None:
    out = tmp_path / "folder" / f"out.{suffix}"
    out.parent.mkdir()
    with pytest.raises(UnwrittenRows) as refused:
        sweep_while(replace_folder_by_a_file, out, at=at)
    found = pickle.loads(pickle.dumps(refused.value)).rows
    assert timeless(found) == timeless(sweep(GRID, workers=1))[: at + 1]
    named = re.search(r"The rows so far are in '(.*)': move it to where it should be", str(refused.value))
    assert named is not None
    out.parent.unlink()
    out.parent.mkdir()
    shutil.move(named[1], out)
    Path(named[1]).parent.rmdir()
    known: list[SweepProgress] = []
    rows = sweep(GRID, out=out, resume=True, workers=1, progress=known.append)
    assert (rows[: at + 1], known[0].kept) == (found, min(at + 1, CELLS))


def test_rows_that_find_no_place_at_all_are_in_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    out = tmp_path / "folder" / "out.csv"
    out.parent.mkdir()
    with pytest.raises(UnwrittenRows, match=r"in no file: the attribute 'rows' of this refusal") as refused:
        sweep_while(replace_folder_by_a_file, out)
    assert len(refused.value.rows) == 4


def test_a_folder_in_the_place_of_the_file_leaves_the_rows_in_the_journal(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(UnwrittenRows, match=r"exists and is no file\. The rows so far are safe") as refused:
        sweep_while(Path.mkdir, out)
    assert len(refused.value.rows) == CELLS
    out.rmdir()
    assert sweep(GRID, out=out, resume=True, workers=1) == refused.value.rows


def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    sweep_while(lambda out: os.chdir("elsewhere"), Path("out.csv"))
    assert noises(tmp_path / "out.csv") == [1, 2, 3, 4, 5, 6]
    assert {path.name for path in tmp_path.rglob("*")} == {"out.csv", "elsewhere"}
