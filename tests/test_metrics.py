"""The bracket as metrics: TensorBoard and MLflow for real, Weights & Biases by the signature of its run."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from tightrope.audit.claims.verdict import Verdict
from tightrope.integrations.metrics import Spent, to_mlflow, to_tensorboard, to_wandb

BRACKET = tr.Bracket(0.5, 0.75)
METRICS = Spent(epsilon=BRACKET, delta=1e-5, steps=20, verdict=Verdict.MATCHES).metrics()
UNPROVED = Spent(epsilon=tr.Bracket(0.0, float("inf")), delta=1e-5, steps=40, verdict=Verdict.COVERED)


def test_only_a_match_is_one() -> None:
    assert METRICS["matches"] == 1
    for verdict in set(Verdict) - {Verdict.MATCHES}:
        assert Spent(epsilon=BRACKET, delta=1e-5, steps=1, verdict=verdict).metrics()["matches"] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard.*")
def test_tensorboard_keeps_them(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make training")
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: make training")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        log = to_tensorboard(writer)
        log.log(METRICS, 20)
        log.log(UNPROVED.metrics(), 40)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(f"privacy/{name}" for name in METRICS)
    upper = [(event.step, event.value) for event in events.Scalars("privacy/epsilon_upper")]
    assert upper == [(20, 0.75), (40, float("inf"))]


@pytest.mark.filterwarnings("ignore::FutureWarning:mlflow.*")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed: make training")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        to_mlflow(mlflow).log(METRICS, 20)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "privacy/epsilon_upper")
    assert [(point.step, point.value) for point in history] == [(20, 0.75)]


class FakeWandbRun:
    """`log` with the arguments of `wandb.Run.log` 0.31; the library itself is not installed for tests."""

    def __init__(self) -> None:
        self.logged: list[tuple[dict[str, Any], int | None]] = []

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        self.logged.append((data, step))


def test_weights_and_biases_gets_them() -> None:
    run = FakeWandbRun()
    to_wandb(run, prefix="dp/").log(METRICS, 20)
    assert run.logged == [({f"dp/{name}": value for name, value in METRICS.items()}, 20)]
    assert list(inspect.signature(run.log).parameters) == ["data", "step", "commit"]
