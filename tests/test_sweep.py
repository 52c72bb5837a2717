"""Sweeps: rows as they come, errors in their own rows, and nothing lost when a worker or a machine dies."""

import csv
import itertools
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
import pytest

import tightrope as tr
from pieces import (
    cluster_of,
    deadly_at_three,
    deadly_at_three_once,
    deadly_elsewhere_once,
    doubled,
    my_process,
    pausing,
    processes_within,
    refusing,
    safe_rows,
)
from tightrope import parallel
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.many_crossings import FEWEST
from tightrope.extras import install_command
from tightrope.sweeps.answer import _run, answer, answer_several
from tightrope.sweeps.cells import CELL_KEYS, COLUMNS, Row, key_of, write_value
from tightrope.sweeps.grid import Grid
from tightrope.sweeps.sweep import SOON_DONE, SweepProgress, WorkerDied, _share_out, in_parallel, sweep

QUICK_GRID: dict[str, object] = {
    "ask": "epsilon",
    "relation": "remove",
    "mechanism": "gaussian",
    "noise_multiplier": [1, 2, 3],
    "sampling": "every-record",
    "steps": [1, 10],
    "delta": 1e-6,
}
# rates of few steps are slow: some tenths of a second a cell
SLOW_GRID = {
    **QUICK_GRID,
    "noise_multiplier": [1, 2, 3, 4, 5, 6],
    "sampling": "poisson",
    "rate": 1e-4,
    "steps": [900, 1000],
}


def timeless(rows: list[Row]) -> list[Row]:
    return [{**row, "seconds": None} for row in rows]


def in_file(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    return rows


# pieces


@pytest.mark.parametrize("workers", [1, 2])
def test_each_piece_has_its_own_outcome_and_an_exception_is_one(workers: int) -> None:
    outcomes = dict(in_parallel(doubled, [4, -1, 5], workers=workers))
    assert (outcomes[0], outcomes[2], len(outcomes)) == (8, 10, 3)
    assert isinstance(outcomes[1], ValueError)
    assert str(outcomes[1]) == "-1 is negative"


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    ((_, outcome),) = in_parallel(refusing, [7], workers=2)
    assert isinstance(outcome, RuntimeError)
    assert str(outcome) == "Unpicklable: no way home 7"


def test_no_pieces_have_no_outcomes() -> None:
    assert list(in_parallel(doubled, [], workers=2)) == list(in_parallel(doubled, [], workers=1)) == []


def test_several_workers_are_other_processes_and_one_worker_is_this() -> None:
    assert {pid for _, pid in in_parallel(my_process, range(3), workers=1)} == {os.getpid()}
    assert os.getpid() not in {pid for _, pid in in_parallel(my_process, range(6), workers=2)}


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_are_taken_as_they_are_needed(workers: int) -> None:
    with closing(in_parallel(doubled, itertools.count(), workers=workers)) as outcomes:
        found = dict(itertools.islice(outcomes, 50))
    assert all(outcome == 2 * piece for piece, outcome in found.items())


def test_a_worker_that_dies_once_loses_nothing(tmp_path: Path) -> None:
    outcomes = dict(in_parallel(deadly_at_three_once, [(i, tmp_path / "mark") for i in range(12)], workers=2))
    assert (tmp_path / "mark").exists()
    assert outcomes == {i: 2 * i for i in range(12)}


def test_a_piece_that_always_kills_loses_nothing_but_itself() -> None:
    outcomes = dict(in_parallel(deadly_at_three, range(12), workers=2))
    killed = outcomes.pop(3)
    assert isinstance(killed, WorkerDied)
    assert "2 times with nothing else under way" in str(killed)
    assert outcomes == {i: 2 * i for i in range(12) if i != 3}


def test_workers_that_die_of_nothing_are_nobodys_fault() -> None:
    def broken(work: object, source: Iterator[parallel.Numbered]) -> Any:
        yield from ()
        return list(source)

    with pytest.raises(WorkerDied, match="no worker stays alive, whatever it is given"):
        list(parallel._survive(broken, broken, 2, doubled, [1, 2, 3]))


def test_this_process_may_be_one_of_the_workers_and_begins_while_the_others_start() -> None:
    pids = [pid for _, pid in in_parallel(my_process, range(120), workers=2, joining=True)]
    assert pids[0] == os.getpid()
    assert len(set(pids)) == 2
    assert len(pids) == 120


@pytest.mark.parametrize("pieces", [[], [-1], [4, -1, 5, 6]])
def test_every_piece_has_its_outcome_where_this_process_joins(pieces: list[int]) -> None:
    found = dict(in_parallel(doubled, pieces, workers=2, joining=True))
    assert {place: str(outcome) for place, outcome in found.items()} == {
        i: str(2 * piece) if piece > 0 else "-1 is negative" for i, piece in enumerate(pieces)
    }


def test_a_worker_that_dies_beside_this_process_loses_nothing(tmp_path: Path) -> None:
    pieces = [(i, os.getpid(), tmp_path / "mark") for i in range(200)]
    outcomes = dict(in_parallel(deadly_elsewhere_once, pieces, workers=2, joining=True))
    assert (tmp_path / "mark").exists()
    assert outcomes == {i: 2 * i for i in range(200)}


def test_who_stops_listening_leaves_no_worker_behind() -> None:
    with closing(in_parallel(pausing, range(10**5), workers=2, joining=True)) as outcomes:
        found = dict(itertools.islice(outcomes, 100))
    assert all(outcome == 2 * piece for piece, outcome in found.items())
    assert set(in_parallel(doubled, range(9), workers=2)) == {(i, 2 * i) for i in range(9)}


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2", 10**6])
def test_bad_worker_counts_are_refused_before_a_file_is_made(workers: Any, tmp_path: Path) -> None:
    with pytest.raises(
        tr.InvalidSetting, match=r"^workers must be .*Pass a number of processes, 1 or more\.$"
    ):
        sweep(QUICK_GRID, out=tmp_path / "out.csv", workers=workers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("multiprocessing", "hand over results as they come, got MultiprocessingBackend"),
        ("threading", "use processes, because threads share the precision of ball arithmetic, got Threading"),
    ],
)
def test_backends_that_cannot_do_the_work_are_refused_before_a_file_is_made(
    backend: str, reason: str, tmp_path: Path
) -> None:
    import joblib

    for resume in (False, True):
        for workers in (None, 2):
            with (
                joblib.parallel_config(backend, n_jobs=2),
                pytest.raises(
                    tr.InvalidSetting, match=rf"^joblib's backend must {reason}.* or pass workers=1"
                ),
            ):
                sweep(QUICK_GRID, out=tmp_path / "out.csv", workers=workers, resume=resume)
    assert list(tmp_path.iterdir()) == []
    with joblib.parallel_config(backend, n_jobs=2):
        assert len(sweep(QUICK_GRID, out=tmp_path / "out.csv", workers=1)) == 6


def test_a_file_that_is_resumed_is_as_it_was_when_a_backend_is_refused(tmp_path: Path) -> None:
    import joblib

    path = tmp_path / "out.csv"
    sweep({**QUICK_GRID, "steps": 1}, out=path, workers=1)
    before = path.read_bytes()
    with joblib.parallel_config("multiprocessing", n_jobs=2), pytest.raises(tr.InvalidSetting):
        sweep(QUICK_GRID, out=path, resume=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("options", [{"backend": "sequential"}, {"backend": "threading", "n_jobs": 1}])
def test_one_job_is_this_process_whatever_the_backend(options: dict[str, Any]) -> None:
    import joblib

    with joblib.parallel_config(**options):
        assert {pid for _, pid in in_parallel(my_process, range(3), workers=None)} == {os.getpid()}


def test_work_inside_a_worker_is_done_by_that_worker() -> None:
    found: dict[int, Any] = dict(in_parallel(processes_within, range(2), workers=2))
    assert all(inner == {outer} for outer, inner in found.values())


def test_without_joblib_one_worker_works_and_several_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert len(sweep(QUICK_GRID, workers=1)) == 6
    with pytest.raises(
        tr.InvalidSetting, match=re.escape(f"Pass workers=1, or install it with: {install_command('dist')}")
    ):
        sweep(QUICK_GRID, workers=2)


def test_joblib_is_not_imported_until_it_is_needed() -> None:
    script = (
        "import sys; from tightrope.sweeps.sweep import in_parallel; list(in_parallel(abs, [1], workers=1)); "
        "print([name for name in ('joblib', 'distributed', 'ray', 'pyarrow') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# rows


def test_rows_are_answers_in_the_order_of_the_grid() -> None:
    rows = sweep(QUICK_GRID, workers=1)
    assert timeless(rows) == timeless(sweep(QUICK_GRID, workers=2))
    assert [(row["noise_multiplier"], row["steps"]) for row in rows] == list(
        itertools.product([1.0, 2.0, 3.0], [1, 10])
    )
    for row in rows:
        assert list(row) == list(COLUMNS)
        step = tr.Step(tr.Gaussian(noise_multiplier=float(row["noise_multiplier"] or 0)), tr.EveryRecord())
        bracket = tr.epsilon(step * int(row["steps"] or 0), delta=1e-6, relation=tr.REMOVE)
        assert (row["lower"], row["upper"], row["error"]) == (bracket.lower, bracket.upper, None)
        assert row["version"] == tr.__version__


def test_an_impossible_cell_has_its_error_in_its_row_and_the_sweep_goes_on() -> None:
    rows = sweep(
        {**QUICK_GRID, "sampling": "poisson", "rate": [0.5, 7, -1], "steps": 1, "noise_multiplier": 1},
        workers=1,
    )
    assert [str(row["error"])[:41] for row in rows] == [
        "None",
        *["InvalidSetting: rate must be in [0, 1], g"] * 2,
    ]
    assert rows[0]["upper"] is not None
    assert rows[1]["upper"] is None


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_rows_are_safe_as_they_come_and_no_journal_is_left(name: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = tmp_path / name
    sweep(
        QUICK_GRID,
        out=path,
        workers=1,
        progress=lambda state: seen.append((state.done, len(safe_rows(path)))),
    )
    assert seen == [(i, i) for i in range(7)]
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_holds_the_rows_to_the_last_digit(tmp_path: Path) -> None:
    rows = sweep(QUICK_GRID, out=tmp_path / "out.csv", workers=2)
    assert in_file(tmp_path / "out.csv") == [[write_value(row[column]) for column in COLUMNS] for row in rows]
    assert sweep(QUICK_GRID, out=tmp_path / "out.csv", resume=True) == rows


def test_infinities_are_written_and_read(tmp_path: Path) -> None:
    grid = {**QUICK_GRID, "mechanism": "randomized-response", "truth_probability": 1, "noise_multiplier": 1}
    del grid["noise_multiplier"]
    for name in ("out.csv", "out.parquet"):
        rows = sweep(grid, out=tmp_path / name, workers=1)
        assert {row["upper"] for row in rows} == {float("inf")}
        assert sweep(grid, out=tmp_path / name, resume=True) == rows


def test_parquet_has_types(tmp_path: Path) -> None:
    import pyarrow.parquet

    path = tmp_path / "out.parquet"
    rows = sweep(QUICK_GRID, out=path, workers=1)
    table = pyarrow.parquet.read_table(path)
    assert table.to_pylist() == rows
    assert [str(table.schema.field(name).type) for name in ("steps", "upper", "relation")] == [
        "int64",
        "double",
        "string",
    ]


# going on


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_sweep_that_is_stopped_goes_on_without_doing_anything_twice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(state: SweepProgress) -> None:
        if state.done == 4:
            raise KeyboardInterrupt

    path = tmp_path / name
    with pytest.raises(KeyboardInterrupt):
        sweep(QUICK_GRID, out=path, workers=1, progress=stop)
    assert list(tmp_path.iterdir()) == [path]  # the file has the rows, also after an interrupt
    answered: list[object] = []

    def counted(cell: Any, **shared: Any) -> Row:
        answered.append(cell)
        return original(cell, **shared)

    original: Callable[..., Row] = answer
    monkeypatch.setattr("tightrope.sweeps.sweep.answer", counted)
    states: list[SweepProgress] = []
    rows = sweep(QUICK_GRID, out=path, resume=True, workers=1, progress=states.append)
    assert len(answered) == 2
    assert (states[0].kept, states[0].done, states[-1].done) == (4, 4, 6)
    assert timeless(rows) == timeless(sweep(QUICK_GRID, workers=1))
    assert list(tmp_path.iterdir()) == [path]


def test_rows_of_other_grids_are_kept_after_those_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    sweep({**QUICK_GRID, "noise_multiplier": [3, 7]}, out=path, workers=1)
    before = in_file(path)
    sweep(QUICK_GRID, out=path, resume=True, workers=1)
    after = in_file(path)
    assert [row[: len(CELL_KEYS)] for row in after[:6]] == [
        [write_value(cell[key]) for key in CELL_KEYS] for cell in Grid.of(QUICK_GRID)
    ]
    assert after[4:6] == before[:2]
    assert after[6:] == before[2:]


def test_a_cell_whose_worker_died_is_tried_again_and_one_that_was_refused_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    grid = {**QUICK_GRID, "noise_multiplier": [1, -1], "steps": 1}
    rows = sweep(grid, out=path, workers=1)
    text = path.read_text()
    died = (
        ",".join(write_value(rows[0][key]) for key in CELL_KEYS)
        + ",,,,,,,WorkerDied: gone,"
        + f"{tr.__version__}\n"
    )
    path.write_text(text.replace(text.splitlines(keepends=True)[1], died))
    states: list[SweepProgress] = []
    again = sweep(grid, out=path, resume=True, workers=1, progress=states.append)
    assert (states[0].kept, states[0].errors) == (1, 1)
    assert timeless(again) == timeless(rows)
    assert len(in_file(path)) == 2


# clusters


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A client of two worker processes that are started again when they die."""
    import dask
    import distributed

    # else a worker that happens to be starting 15 s after its first death is given up, and one piece kills
    # many
    settings = {
        "distributed.deploy.lost-worker-timeout": "10 minutes",
        "distributed.scheduler.allowed-failures": 1,
    }
    with dask.config.set(settings), cluster_of(2) as workers, distributed.Client(workers) as client:
        yield client


def test_a_dask_cluster_one_of_whose_workers_is_killed_gives_every_row(cluster: Any, tmp_path: Path) -> None:
    import joblib

    before: dict[str, int] = cluster.run(os.getpid)
    victim = min(before.values())
    killed_at: list[int] = []

    def kill_one(state: SweepProgress) -> None:
        if state.done == 3:
            os.kill(victim, signal.SIGKILL)
            killed_at.append(state.done)

    with joblib.parallel_config("dask"):
        rows = sweep(SLOW_GRID, out=tmp_path / "out.csv", progress=kill_one)
        pids = {pid for _, pid in in_parallel(my_process, range(8), workers=None)}
    assert killed_at == [3]
    assert len(before) == 2
    assert victim not in pids
    assert os.getpid() not in pids
    for row, serial in zip(rows, sweep(SLOW_GRID, workers=1), strict=True):
        # the last digits of sums depend on how many threads numpy has, which clusters set to one
        for end in ("lower", "upper"):
            assert row[end] == pytest.approx(serial[end], rel=1e-9)
        assert {**row, "seconds": 0, "lower": 0, "upper": 0} == {
            **serial,
            "seconds": 0,
            "lower": 0,
            "upper": 0,
        }
    assert [row["error"] for row in rows] == [None] * 12
    assert len(in_file(tmp_path / "out.csv")) == 12


def test_on_dask_a_piece_that_always_kills_loses_nothing_but_itself(cluster: Any) -> None:
    import joblib

    with joblib.parallel_config("dask"):
        outcomes = dict(in_parallel(deadly_at_three, range(12), workers=None))
    assert isinstance(outcomes.pop(3), WorkerDied)
    assert outcomes == {i: 2 * i for i in range(12) if i != 3}


def test_who_stops_listening_to_dask_leaves_no_work_behind(cluster: Any) -> None:
    import joblib

    with (
        joblib.parallel_config("dask"),
        closing(in_parallel(pausing, itertools.count(), workers=2)) as outcomes,
    ):
        assert len(list(itertools.islice(outcomes, 5))) == 5
    assert {state.status for state in cluster.futures.values()} <= {"finished"}


ALLOCATED = ["at_most", "batches", "chosen"]


@pytest.mark.parametrize("lacking", [ALLOCATED, ["records", "epochs", *ALLOCATED]])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_results_of_before_there_were_more_columns_are_gone_on_with(
    tmp_path: Path, ending: str, lacking: list[str]
) -> None:
    asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "steps": 10, "sampling": "poisson"}
    grid = {**asked, "rate": [0.01, 0.02], "mechanism": "gaussian", "noise_multiplier": 1}
    new, old = tmp_path / f"new.{ending}", tmp_path / f"old.{ending}"
    rows = list(tr.sweep(grid, out=new, workers=1))
    if ending == "csv":
        table = list(csv.reader(new.read_text().splitlines()))
        kept = [i for i, column in enumerate(table[0]) if column not in lacking]
        with old.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([line[i] for i in kept] for line in table)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(parquet.read_table(new).drop_columns(lacking), old)
    again = list(tr.sweep(grid, out=old, resume=True, workers=1))
    assert [row["upper"] for row in again] == [row["upper"] for row in rows]
    assert [row["seconds"] for row in again] == [row["seconds"] for row in rows]  # kept, not computed anew


def test_a_grid_states_each_sampling_in_its_own_words() -> None:
    asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "mechanism": "gaussian", "epochs": 2}
    named = ["poisson", "truncated-poisson", "balls-in-bins"]
    shared = {"sampling": named, "records": 100, "batch": 7, "at_most": 12}
    own = {"sampling": "random-allocation", "batches": [15, 20], "chosen": 3}
    grid = tr.Grid.of({**asked, "noise_multiplier": 1, "grid": [shared, own]})
    runs = [_run(dict(cell)) for cell in grid]
    rate, noise = Fraction(7, 100), tr.Gaussian(noise_multiplier=1)
    assert [next(iter(run)) for run in runs] == [
        (tr.Step(noise, tr.Poisson(rate=rate)), 29),
        (tr.Step(noise, tr.TruncatedPoisson(rate=rate, at_most=12, population=100)), 29),
        (tr.Step(noise, tr.BallsInBins(batches=15)), 30),
        (tr.Step(noise, tr.RandomAllocation(batches=15, chosen=3)), 30),
        (tr.Step(noise, tr.RandomAllocation(batches=20, chosen=3)), 40),
    ]


def test_cells_whose_group_loses_its_worker_are_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = {**QUICK_GRID, "sampling": "poisson", "rate": 0.1, "steps": 100, "delta": [1e-3, 1e-4, 1e-5]}
    sizes: list[int] = []

    def dies(work: Any, pieces: Any, *, workers: int | None, joining: bool = False) -> Any:
        for place, piece in enumerate(pieces):
            if isinstance(piece, list):
                sizes.append(len(piece))
                yield place, WorkerDied("gone", "") if len(piece) > 1 else work(piece)
            else:
                yield place, work(piece)

    expected = timeless(sweep(grid, workers=1))
    monkeypatch.setattr("tightrope.sweeps.sweep.in_parallel", dies)
    assert timeless(sweep(grid, workers=2)) == expected
    assert max(sizes) > 1


@pytest.mark.parametrize("workers", [2, 16])
def test_a_worker_takes_neighbouring_runs_and_what_may_take_long_comes_first_by_itself(workers: int) -> None:
    deltas = {"from": 1e-9, "to": 1e-3, "count": 10, "scale": "log"}
    quick = {"sampling": "poisson", "rate": 0.1, "steps": list(range(1, 101)), "delta": deltas}
    slow = {"sampling": "every-record", "steps": [1, 10]}
    asked = [(key_of(cell), cell) for cell in Grid.of({**QUICK_GRID, "grid": [quick, slow]})]
    pieces = _share_out(asked, workers)
    assert [len(piece) for piece in pieces[:6]] == [1] * 6
    assert list(itertools.chain(*pieces[6:])) == asked[:3000]
    enough = math.ceil(3000 / (64 * workers))
    assert all(enough <= len(piece) < enough + 10 for piece in pieces[6:])
    assert all(len(piece) % 10 == 0 for piece in pieces[6:])  # no run is cut


def test_pieces_are_cut_for_the_workers_that_joblib_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the cores of the machine that asks: a cluster has others."""
    shared: list[int] = []

    def note(asked: list[Any], workers: int) -> list[Any]:
        shared.append(workers)
        return []

    monkeypatch.setattr("tightrope.sweeps.sweep._share_out", note)
    for jobs in (2, 5):
        with joblib.parallel_config(n_jobs=jobs), suppress(KeyError):  # no cell has a row
            sweep(QUICK_GRID)
    assert shared == [2, 5]


def test_many_points_of_one_run_are_shared_out_too() -> None:
    deltas = {"from": 1e-9, "to": 1e-3, "count": 100, "scale": "log"}
    grid = {
        **QUICK_GRID,
        "noise_multiplier": 1,
        "sampling": "poisson",
        "rate": 0.1,
        "steps": 9,
        "delta": deltas,
    }
    asked = [(key_of(cell), cell) for cell in Grid.of(grid)]
    assert [len(piece) for piece in _share_out(asked, 16)] == [32, 32, 32, 4]


def test_rows_are_the_same_however_many_workers_share_them() -> None:
    grid = {**SLOW_GRID, "delta": [1e-9, 1e-6, 1e-3], "steps": [1000, 2000, 3000]}
    assert timeless(sweep(grid, workers=2)) == timeless(sweep(grid, workers=1))


# quick cells, so that this process joins; some are refused, each for a reason of its own
JOINED_GRID: dict[str, object] = {
    "relation": "remove",
    "mechanism": "gaussian",
    "noise_multiplier": [1, 2, -1],
    "sampling": "poisson",
    "rate": [0.1, 7],
    "steps": [100, 150],
    "grid": [
        {"ask": "epsilon", "delta": [*(1e-6 * 1.2**i for i in range(FEWEST)), 0.0, 1.0, 2.0]},
        {"ask": "delta", "epsilon": [0.0, 0.5, -0.5]},
    ],
}


def test_rows_of_a_joined_sweep_are_those_of_each_question_alone() -> None:
    rows = timeless(sweep(JOINED_GRID, workers=1))
    for workers in (2, 3):
        assert timeless(sweep(JOINED_GRID, workers=workers)) == rows
    assert {row["error"] is None for row in rows} == {True, False}
    for row in rows:
        assert row == {**row, **answer({key: row[key] for key in CELL_KEYS}), "seconds": None}
        if row["error"] is None:
            values: dict[str, Any] = dict(row)
            noise, sampling = tr.Gaussian(noise_multiplier=values["noise_multiplier"]), tr.Poisson(rate=0.1)
            curve = tr.privacy_curve(tr.Step(noise, sampling) * values["steps"], relation=tr.REMOVE)
            asked_alone: Any = {"epsilon": curve.epsilon, "delta": curve.delta}[values["ask"]]
            alone = asked_alone(values["delta"] if values["ask"] == "epsilon" else values["epsilon"])
            assert (row["lower"], row["upper"]) == (alone.lower, alone.upper)


def test_a_joined_sweep_that_is_stopped_goes_on_and_counts_right(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    states: list[SweepProgress] = []

    def stop(state: SweepProgress) -> None:
        states.append(state)
        if state.done == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(JOINED_GRID, out=path, workers=2, progress=stop)
    assert [state.done for state in states] == list(range(51))
    assert list(tmp_path.iterdir()) == [path]
    assert len(in_file(path)) == 50
    seen: list[SweepProgress] = []
    rows = sweep(JOINED_GRID, out=path, workers=2, resume=True, progress=seen.append)
    assert (seen[0].kept, seen[0].done, seen[-1].done) == (50, 50, len(rows))
    assert seen[-1].errors == sum(row["error"] is not None for row in rows)
    assert timeless(rows) == timeless(sweep(JOINED_GRID, workers=1))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add", "remove", "add-or-remove", "substitute", "add-or-remove of 3"])
def test_cells_of_one_run_are_answered_as_if_each_were_alone(mechanism: str, relation: str) -> None:
    close_by = [1e-6 * 1.2**i for i in range(FEWEST)]  # which are solved for together
    of_epsilon = {"ask": "epsilon", "delta": [1e-12, *close_by, 1e-3, 0.5, 2.0]}
    of_delta = {"ask": "delta", "epsilon": [0.0, 0.5, 0.501, 1.0, 3.0, -0.5]}
    run = {"mechanism": mechanism, "noise_multiplier": 0.9, "sampling": "poisson", "rate": 0.01}
    cells = list(Grid.of({"relation": relation, **run, "steps": [50, 700], "grid": [of_epsilon, of_delta]}))
    alone = [answer(cell) for cell in reversed(cells)]
    assert timeless(answer_several(cells)) == timeless(alone[::-1])
    assert timeless(answer_several(cells[::2])) == timeless(alone[::-1][::2])


def test_deltas_of_one_run_are_solved_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    prepare = PrivacyCurve.prepare

    def counted(curve: PrivacyCurve, deltas: list[float]) -> None:
        together.append(len(deltas))
        prepare(curve, deltas)

    monkeypatch.setattr(PrivacyCurve, "prepare", counted)
    deltas = {"from": 1e-7, "to": 1e-5, "count": 12, "scale": "log"}
    grid = {**QUICK_GRID, "sampling": "poisson", "rate": 0.1, "steps": [9, 10], "delta": deltas}
    sweep(grid, workers=1)
    assert together == [12] * 6


def test_what_is_wrong_with_several_deltas_at_once_is_told_by_none_that_has_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid = {**QUICK_GRID, "sampling": "poisson", "rate": 0.1, "delta": [1e-7, 1e-6, 1e-5]}
    expected = timeless(sweep(grid, workers=1))

    def fails(curve: PrivacyCurve, deltas: list[float]) -> None:
        raise tr.NotPreciseEnough("one of them", "")

    monkeypatch.setattr(PrivacyCurve, "prepare", fails)
    assert timeless(sweep(grid, workers=1)) == expected
    assert [row["error"] for row in expected] == [None] * 18


def test_a_small_grid_of_quick_cells_is_answered_here_unless_workers_are_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int | None] = []

    def noted(work: Any, pieces: Any, *, workers: int | None, joining: bool = False) -> Any:
        pieces = list(pieces)
        if pieces:
            asked.append(workers)
        return in_parallel(work, pieces, workers=1)

    monkeypatch.setattr("tightrope.sweeps.sweep.in_parallel", noted)
    monkeypatch.setattr("tightrope.sweeps.sweep.count_jobs", lambda workers: 4)
    quick = {**QUICK_GRID, "sampling": "poisson", "rate": 0.1}
    sweep(quick)
    sweep(quick, workers=2)
    sweep({**quick, "noise_multiplier": 1, "steps": list(range(1, SOON_DONE + 2))})
    sweep(QUICK_GRID)
    with joblib.parallel_config("multiprocessing"):
        sweep(quick)
    assert asked == [1, 2, 2, None, None]


def test_one_curve_is_asked_for_all_deltas_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []

    def counted(run: object, **how: Any) -> Any:
        runs.append(run)
        return tr.privacy_curve(run, **how)  # type: ignore[call-overload]

    monkeypatch.setattr("tightrope.sweeps.answer.privacy_curve", counted)
    grid = {**SLOW_GRID, "noise_multiplier": [1, 2], "delta": [1e-9, 1e-6, 1e-3]}
    sweep(grid, workers=1)
    assert len(runs) == 4
