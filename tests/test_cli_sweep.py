"""tightrope sweep: what it writes, says and refuses, and that a killed one goes on where it was."""

import csv
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pieces import cluster_of, safe_rows
from shell import Shell
from tightrope.sweeps.cells import COLUMNS, key_of, write_value
from tightrope.sweeps.results import Results, open_results
from tightrope.sweeps.sweep import sweep

QUICK = """\
ask = "epsilon"
relation = "add"
mechanism = "gaussian"
noise_multiplier = [1, 2]
sampling = "poisson"
rate = [0.1, 7]
steps = 3
delta = 1e-6
"""
# 24 cells of some tenths of a second
SLOW = QUICK.replace("[1, 2]", "{from = 1, to = 9, count = 12, scale = 'linear'}").replace("[0.1, 7]", "1e-4")
SLOW = SLOW.replace("steps = 3", "steps = [900, 1000]")
DEADLINE = 60.0  # seconds a test waits for another process


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(QUICK)
    return path


def in_file(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    return rows


def timeless(rows: list[list[str]]) -> list[list[str]]:
    """Rows without how long they took."""
    place = COLUMNS.index("seconds")
    return [row[:place] + row[place + 1 :] for row in rows]


def wait_for_rows(path: Path, count: int) -> None:
    end = time.monotonic() + DEADLINE
    while len(safe_rows(path)) < count:
        assert time.monotonic() < end, "no rows came"
        time.sleep(0.02)


@contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A sweep in a session of its own, all of whose processes are gone afterwards."""
    script = "import sys; from tightrope.cli.entry import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", script, *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


# what is written and said


def test_rows_go_to_the_file_and_one_line_to_standard_error(shell: Shell, grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert shell(f"sweep {grid} --out {out} --workers 1") == (
        0,
        "",
        f"tightrope: wrote {out}: 4 cells, 2 of them with errors.\n",
    )
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in in_file(out)]
    assert [(row["noise_multiplier"], row["rate"]) for row in rows] == [
        ("1.0", "0.1"),
        ("1.0", "7.0"),
        ("2.0", "0.1"),
        ("2.0", "7.0"),
    ]
    assert [row["error"][:37] for row in rows] == [
        "",
        "InvalidSetting: rate must be in [0, 1",
        "",
        "InvalidSetting: rate must be in [0, 1",
    ]
    assert float(rows[0]["lower"]) <= float(rows[0]["upper"])


@pytest.mark.parametrize(
    ("noises", "said"), [("[1, 2]", "2 cells, all of them with errors"), ("1", "1 cell, which is an error")]
)
def test_a_sweep_that_answers_nothing_writes_its_errors_and_ends_with_2(
    shell: Shell, grid: Path, tmp_path: Path, noises: str, said: str
) -> None:
    out = tmp_path / "out.csv"
    grid.write_text(QUICK.replace("[0.1, 7]", "7").replace("[1, 2]", noises))
    code, _, err = shell(f"sweep {grid} --out {out} --workers 1")
    assert (code, err) == (2, f"tightrope: wrote {out}: {said}.\n")
    assert all("rate must be in" in row[COLUMNS.index("error")] for row in in_file(out))
    kept = said.replace(", ", f", {said[0]} of them known before, ")
    code, _, err = shell(f"sweep {grid} --out {out} --workers 1 --resume")
    assert (code, err) == (2, f"tightrope: wrote {out}: {kept}.\n")


def test_several_workers_write_what_one_writes(shell: Shell, grid: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        assert shell(f"sweep {grid} --out {tmp_path / f'{workers}.csv'} --workers {workers}")[0] == 0
    assert timeless(in_file(tmp_path / "1.csv")) == timeless(in_file(tmp_path / "2.csv"))


def test_a_terminal_sees_counts_on_standard_error(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tightrope.cli.commands.sweep import sweep

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    sweep(grid, out=tmp_path / "out.csv", workers=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Sweeping" in err
    assert "4/4" in err
    assert "2 errors" in err


def test_help_has_an_example(shell: Shell) -> None:
    code, out, _ = shell("sweep --help")
    assert code == 0
    assert "tightrope sweep examples/grid.toml --out results.csv" in out
    assert all(option in out for option in ("--out", "--resume", "--workers", "--dask"))


def test_a_dask_scheduler_is_used_by_its_address(shell: Shell, grid: Path, tmp_path: Path) -> None:
    serial, spread = tmp_path / "serial.csv", tmp_path / "spread.csv"
    shell(f"sweep {grid} --out {serial} --workers 1")
    with cluster_of(1) as cluster:
        code, _, err = shell(f"sweep {grid} --out {spread} --dask {cluster.scheduler_address}")
    assert (code, err) == (0, f"tightrope: wrote {spread}: 4 cells, 2 of them with errors.\n")
    assert timeless(in_file(spread)) == timeless(in_file(serial))


# killed and resumed


def test_a_killed_sweep_goes_on_where_it_was_and_ends_the_same(
    shell: Shell, grid: Path, tmp_path: Path
) -> None:
    grid.write_text(SLOW)
    whole, killed = tmp_path / "whole.csv", tmp_path / "killed.csv"
    with running("sweep", grid, "--out", killed, "--workers", 2) as process:
        wait_for_rows(killed, 5)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(DEADLINE) == -signal.SIGKILL
    assert not killed.exists()
    safe = [[write_value(row[column]) for column in COLUMNS] for row in safe_rows(killed)]
    assert 5 <= len(safe) < 24
    code, out, err = shell(f"sweep {grid} --out {killed} --resume --workers 2")
    assert (code, out) == (0, "")
    assert err == f"tightrope: wrote {killed}: 24 cells, {len(safe)} of them known before, no errors.\n"
    rows = in_file(killed)
    assert all(row in rows for row in safe)  # to the microsecond they took: not done again
    assert shell(f"sweep {grid} --out {whole} --workers 2")[0] == 0
    assert timeless(rows) == timeless(in_file(whole))


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(grid: Path, tmp_path: Path) -> None:
    grid.write_text(SLOW)
    out = tmp_path / "out.csv"
    with running("sweep", grid, "--out", out, "--workers", 2) as process:
        wait_for_rows(out, 2)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
    # workers that are interrupted while they start or wait may say so before
    said = re.search(
        r"^tightrope: (\d+) of 24 rows are safe; go on with --resume\.\ntightrope: interrupted\.\n\Z",
        err,
        re.M,
    )
    assert said is not None, err
    assert 0 <= len(in_file(out)) - int(said[1]) <= 1  # the last may have been written and not yet counted


def test_an_empty_file_and_one_that_is_not_there_start_anew(shell: Shell, grid: Path, tmp_path: Path) -> None:
    for name, content in (("a.csv", b""), ("c.csv", None)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert shell(f"sweep {grid} --out {tmp_path / name} --resume --workers 1")[0] == 0
        assert len(in_file(tmp_path / name)) == 4


def test_rows_in_a_journal_and_in_the_file_are_both_kept(shell: Shell, grid: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    out, journal = tmp_path / "out.parquet", tmp_path / "out.parquet.journal"
    rows = sweep(grid, workers=1)
    results = Results(out, resume=False)
    for row in rows[:2]:
        results.add(key_of(row), row)
    results._journal.close()  # as if it had been killed
    code, _, err = shell(f"sweep {grid} --out {out} --workers 1")
    assert (code, f"{journal} exists" in err) == (2, True)
    _, _, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
    assert "4 cells, 2 of them known before" in err
    assert pyarrow.parquet.read_table(out).num_rows == 4
    assert not journal.exists()
    grid.write_text(QUICK.replace("[1, 2]", "[1, 2, 3]"))
    results = Results(out, resume=True)
    last = sweep(grid, workers=1)[-1]
    results.add(key_of(last), last)
    results._journal.close()
    _, _, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
    assert "6 cells, 5 of them known before" in err
    assert not journal.exists()


# what is refused

HEADER = ",".join(COLUMNS) + "\n"
BAD_FILES = {
    "other columns": (b"ask,answer\n1,2\n", "its columns are ask, answer and not ask, accountant,"),
    "other text": (b"hello", "its columns are hello and not ask, accountant,"),
    "half a header": (HEADER[:7].encode(), "its columns are ask, acc and not ask, accountant,"),
    "half a row": ((HEADER + "1,2,3").encode(), "line 2 has 3 fields and not 31"),
    "no number": (
        (HEADER + "," * 25 + "high,,,,,\n").encode(),
        "line 2: could not convert string to float: 'high'",
    ),
    "zeros": (HEADER.encode() + b"\0\0\n", "line 2"),
}


@pytest.mark.parametrize(("content", "reason"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_of_something_else_is_refused_and_left_alone(
    shell: Shell, grid: Path, tmp_path: Path, content: bytes, reason: str
) -> None:
    out = tmp_path / "out.csv"
    out.write_bytes(content)
    code, said, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
    assert (code, said) == (2, "")
    assert f"{out} is not a file of such results: {reason}" in err
    assert out.read_bytes() == content


def test_a_file_that_is_no_text_is_refused_and_left_alone(shell: Shell, grid: Path, tmp_path: Path) -> None:
    out, content = tmp_path / "out.csv", HEADER.encode() + b"\xff\xfe\n"
    out.write_bytes(content)
    code, _, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
    assert (code, f"{out} could not be read: it is not UTF-8 text." in err) == (2, True)
    assert out.read_bytes() == content


@pytest.mark.parametrize("content", [b"no database", b"x" * 8192, None], ids=["text", "long", "other tables"])
def test_a_journal_of_something_else_is_refused_and_left_alone(
    shell: Shell, grid: Path, tmp_path: Path, content: bytes | None
) -> None:
    out, journal = tmp_path / "out.csv", tmp_path / "out.csv.journal"
    if content is None:
        with closing(sqlite3.connect(journal)) as other:
            other.execute("CREATE TABLE rows (key TEXT, row TEXT)")
        content = journal.read_bytes()
    else:
        journal.write_bytes(content)
    code, _, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
    assert (code, err.startswith(f"tightrope: {journal} ")) == (2, True)
    assert journal.read_bytes() == content
    assert not out.exists()


def test_a_parquet_file_of_something_else_is_refused_and_left_alone(
    shell: Shell, grid: Path, tmp_path: Path
) -> None:
    import pyarrow
    import pyarrow.parquet

    out = tmp_path / "out.parquet"
    out.write_text("no parquet")
    assert "is not a file of such results: " in shell(f"sweep {grid} --out {out} --resume --workers 1")[2]
    assert out.read_text() == "no parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), out)
    assert (
        "its columns are a and not ask, accountant"
        in shell(f"sweep {grid} --out {out} --resume --workers 1")[2]
    )
    assert sorted(tmp_path.iterdir()) == [grid, out]


def test_a_file_that_exists_is_not_overwritten(shell: Shell, grid: Path, tmp_path: Path) -> None:
    for name in ("out.csv", "out.parquet"):
        out = tmp_path / name
        out.write_text("precious")
        code, _, err = shell(f"sweep {grid} --out {out} --workers 1")
        assert code == 2
        assert err == (
            f"tightrope: {out} exists, and results are never overwritten. "
            "Go on with it (--resume), or choose another place.\n"
        )
        assert out.read_text() == "precious"


def test_two_sweeps_do_not_write_one_file(shell: Shell, grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with open_results(out, [], resume=False):
        code, _, err = shell(f"sweep {grid} --out {out} --resume --workers 1")
        said = f"{out}.journal is being written by another sweep. Wait for it, or choose another place."
        assert (code, err) == (2, f"tightrope: {said}\n")
    assert shell(f"sweep {grid} --out {out} --resume --workers 1")[0] == 0


REFUSED = {
    "folder": ("--out {tmp} --resume", "--out must end in .csv or .parquet"),
    "folder named so": (
        "--out {tmp}/folder.csv --resume",
        "folder.csv could not be read: Is a directory.",
    ),
    "no folder": (
        "--out {tmp}/no/such/out.csv",
        "out.csv.journal could not be opened: unable to open database file.",
    ),
    "suffix": ("--out {tmp}/out.xlsx", "--out must end in .csv or .parquet, got"),
    "no workers": (
        "--out {tmp}/out.csv --workers 0",
        "--workers must be at least 1, got 0. Pass a number of processes",
    ),
    "half a worker": ("--out {tmp}/out.csv --workers 1.5", "--workers: '1.5' is not a whole number"),
    "too many workers": ("--out {tmp}/out.csv --workers 1e6", "workers must be at most 1024, got 1000000."),
    "no out": ("", "--out"),
    "no scheduler": (
        "--out {tmp}/out.csv --dask nonsense://x",
        "--dask must be the address of a scheduler that runs, got 'nonsense",
    ),
}


@pytest.mark.parametrize(("words", "reason"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_sentence_and_leaves_no_file(
    shell: Shell, grid: Path, tmp_path: Path, words: str, reason: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    code, out, err = shell(f"sweep {grid} {words.format(tmp=tmp_path)}")
    assert (code, out) == (2, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "grid.toml"]


def test_a_bad_grid_is_refused_with_every_problem(shell: Shell, grid: Path, tmp_path: Path) -> None:
    grid.write_text(QUICK.replace("steps = 3", "steps = []").replace('"poisson"', '"poison"'))
    code, _, err = shell(f"sweep {grid} --out {tmp_path / 'out.csv'}")
    assert code == 2
    assert err.startswith(f"tightrope: {grid} has 2 problems:\n  {grid}: sampling must be a known name")
    assert not (tmp_path / "out.csv").exists()
