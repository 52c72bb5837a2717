"""Sweeps on a real local Ray, as docs/sweeps.md says: the same rows, and nothing lost when a worker dies."""

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from pieces import deadly_at_three, doubled, endless_from_five, my_process, refusing
from tightrope.sweeps.sweep import SweepProgress, WorkerDied, in_parallel, sweep

ray = pytest.importorskip("ray", reason="ray is not installed: make training")

GRID: dict[str, object] = {
    "ask": "epsilon",
    "relation": "remove",
    "mechanism": "gaussian",
    "noise_multiplier": [1, 2, -3],
    "sampling": "every-record",
    "steps": [1, 10],
    "delta": 1e-6,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray of two cores, which joblib knows."""
    from ray.util.joblib import register_ray

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import what is here, too
        ray.init(num_cpus=2, object_store_memory=80 * 2**20, include_dashboard=False, log_to_driver=False)
    register_ray()
    yield
    ray.shutdown()


@pytest.fixture
def configured(cluster: None) -> Iterator[None]:
    import joblib

    with joblib.parallel_config("ray"):
        yield


@pytest.mark.usefixtures("configured")
def test_a_sweep_on_ray_gives_the_rows_of_one_process(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    rows = sweep(GRID, out=tmp_path / "out.csv", progress=seen.append)
    serial = sweep(GRID, out=tmp_path / "serial.csv", workers=1)
    assert [{**row, "seconds": 0} for row in rows] == [{**row, "seconds": 0} for row in serial]
    assert [state.done for state in seen] == list(range(7))  # rows come one by one
    assert seen[-1].errors == 2
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 7
    assert os.getpid() not in {pid for _, pid in in_parallel(my_process, range(4), workers=None)}


@pytest.mark.usefixtures("configured")
def test_draws_on_ray_are_the_draws_of_one_process() -> None:
    step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    one, many = (
        tr.delta(step, epsilon=0.5, relation=tr.REMOVE, by=tr.MonteCarlo(draws=300_000, workers=workers))
        for workers in (1, None)
    )
    assert one == many


@pytest.mark.usefixtures("configured")
def test_on_ray_each_piece_has_its_own_outcome_and_an_exception_is_one() -> None:
    outcomes: dict[int, Any] = dict(in_parallel(doubled, [4, -1, 5], workers=None))
    assert (outcomes[0], outcomes[2], len(outcomes)) == (8, 10, 3)
    assert isinstance(outcomes[1], ValueError)
    ((_, told),) = in_parallel(refusing, [7], workers=1 + 1)
    assert str(told) == "Unpicklable: no way home 7"


@pytest.mark.usefixtures("configured")
def test_on_ray_a_piece_that_always_kills_loses_nothing_but_itself() -> None:
    outcomes = dict(in_parallel(deadly_at_three, range(8), workers=None))
    assert isinstance(outcomes.pop(3), WorkerDied)
    assert outcomes == {i: 2 * i for i in range(8) if i != 3}


@pytest.mark.usefixtures("configured")
def test_who_stops_listening_to_ray_leaves_no_work_behind() -> None:
    # Ray starts pieces in any order: the first two come while none that is endless has been handed out
    with closing(in_parallel(endless_from_five, itertools.count(), workers=None)) as outcomes:
        assert dict(itertools.islice(outcomes, 2)).items() <= {i: 2 * i for i in range(5)}.items()
    assert dict(in_parallel(doubled, range(3), workers=None)) == {0: 0, 1: 2, 2: 4}  # on cores that are free


@pytest.mark.usefixtures("cluster")
def test_ray_is_told_what_joblib_was_told_about_its_workers() -> None:
    import joblib

    with (
        joblib.parallel_config("ray", ray_remote_args={"cores": 1}),
        pytest.raises(ValueError, match="cores"),
    ):
        in_parallel(doubled, [1], workers=None)  # refused at once, before any work


@pytest.mark.usefixtures("configured")
def test_work_that_rays_workers_cannot_load_stops_the_sweep() -> None:
    with pytest.raises(WorkerDied) as refusal:
        list(in_parallel(Unloadable(), [1], workers=None))
    assert str(refusal.value) == (
        "Ray's workers cannot do this work: ModuleNotFoundError: No module named 'another_tightrope'. "
        "Install the same tightrope on every worker, and see that the cluster runs."
    )


class Unloadable:
    """Work that can be sent away and not be read there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("another_tightrope",)

    def __call__(self, piece: int) -> int:
        raise AssertionError
