"""What a training has spent so far, as numbers for whatever draws its curves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tightrope.audit.claims.verdict import Verdict
from tightrope.curve.bracket import Bracket


class MetricsLog(Protocol):
    """Where metrics go: TensorBoard, MLflow, Weights & Biases, or anything else with this method."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Keep these numbers as those of `step`."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What `steps` steps of a training cost at `delta`, as far as it is proved.

    The bracket of a training whose steps were not all seen is [0, infinity], and its verdict is never
    MATCHES.

    >>> Spent(epsilon=Bracket(0.5, 0.75), delta=1e-5, steps=20, verdict=Verdict.MATCHES).metrics()
    {'epsilon_lower': 0.5, 'epsilon_upper': 0.75, 'delta': 1e-05, 'private_steps': 20.0, 'matches': 1.0}
    """

    epsilon: Bracket
    delta: float
    steps: int
    verdict: Verdict

    def metrics(self) -> dict[str, float]:
        """By name; `matches` is 1 if the verdict is MATCHES, else 0."""
        return {
            "epsilon_lower": self.epsilon.lower,
            "epsilon_upper": self.epsilon.upper,
            "delta": self.delta,
            "private_steps": float(self.steps),
            "matches": float(self.verdict is Verdict.MATCHES),
        }


class _TensorBoardLog:
    def __init__(self, writer: Any, prefix: str) -> None:
        self._writer, self._prefix = writer, prefix

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(f"{self._prefix}{name}", value, step)


class _MlflowLog:
    def __init__(self, mlflow: Any, prefix: str) -> None:
        self._mlflow, self._prefix = mlflow, prefix

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(_name_all(metrics, self._prefix), step=step)


class _WandbLog:
    def __init__(self, run: Any, prefix: str) -> None:
        self._run, self._prefix = run, prefix

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(_name_all(metrics, self._prefix), step=step)


def to_tensorboard(writer: Any, *, prefix: str = "privacy/") -> MetricsLog:
    """Into a `SummaryWriter` of `torch.utils.tensorboard` or tensorboardX."""
    return _TensorBoardLog(writer, prefix)


def to_mlflow(mlflow: Any, *, prefix: str = "privacy/") -> MetricsLog:
    """Into the active run of the module `mlflow`."""
    return _MlflowLog(mlflow, prefix)


def to_wandb(run: Any, *, prefix: str = "privacy/") -> MetricsLog:
    """Into a run of Weights & Biases: what `wandb.init` returned, or the module `wandb`."""
    return _WandbLog(run, prefix)


def _name_all(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in metrics.items()}
