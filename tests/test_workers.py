"""How many workers there are, where joblib or the process itself leaves no choice."""

import multiprocessing
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pytest

import tightrope as tr
from tightrope.parallel import count_jobs, in_parallel
from tightrope.sweeps.sweep import sweep

GRID: dict[str, object] = {
    "ask": "epsilon",
    "relation": "remove",
    "mechanism": "gaussian",
    "noise_multiplier": [1, 2, 3],
    "sampling": "every-record",
    "steps": [1, 10],
    "delta": 1e-6,
}


@pytest.mark.parametrize(
    ("backend", "jobs"), [("loky", 0), ("loky", "two"), ("sequential", 0), ("threading", 0)]
)
def test_a_number_of_jobs_that_is_none_is_refused_before_a_file_is_made(
    backend: str, jobs: Any, tmp_path: Path
) -> None:
    said = rf"^joblib's n_jobs must be a whole number other than 0, got {jobs!r}\. Pass workers, or set "
    with joblib.parallel_config(backend, n_jobs=jobs):
        with pytest.raises(tr.InvalidSetting, match=said):
            sweep(GRID, out=tmp_path / "out.csv")
        with pytest.raises(tr.InvalidSetting, match=said):
            count_jobs(None)
        assert len(sweep(GRID, workers=1)) == 6
    assert list(tmp_path.iterdir()) == []


def _answer_strictly(options: dict[str, Any]) -> tuple[int, int, list[tuple[int, Any]]]:
    warnings.simplefilter("error")
    alone = sorted(in_parallel(abs, [-1, -2], **options, joining=True))
    return len(sweep(GRID, **options)), count_jobs(options["workers"]), alone


@pytest.mark.parametrize("workers", [None, 2])
def test_a_process_that_may_start_no_others_works_alone_and_says_nothing(workers: int | None) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # its workers are daemonic
        assert pool.apply(partial(_answer_strictly, {"workers": workers})) == (6, 1, [(0, 1), (1, 2)])
