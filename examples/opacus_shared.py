"""What both Opacus examples train: a small classifier on made-up records."""

import argparse
import math
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import opacus  # noqa: F401
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    import tightrope  # noqa: F401
except ModuleNotFoundError as missing:
    wanted = f"{Path(__file__).resolve().parent.parent}[opacus]"
    command = shlex.join([sys.executable, "-m", "pip", "install", "-e", wanted])
    sys.exit(f"This example needs {missing.name}, which is not installed. Install it with: {command}")

# Opacus says the first each time an engine is made, and these records are made up; torch says the second of
# the hooks of Opacus.
warnings.filterwarnings("ignore", message="Secure RNG turned off")
warnings.filterwarnings("ignore", message="Full backward hook is firing")

FEATURES = 20
CLIPPING_NORM = 1.0
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is chosen on the command line."""

    records: int
    batch: int
    epochs: int
    noise: float
    seed: int

    @property
    def steps(self) -> int:
        """Batches per epoch, as a loader counts them."""
        return math.ceil(self.records / self.batch)


def options(description: str, arguments: Sequence[str] | None) -> Options:
    """The command line, read."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--records", type=int, default=2000, help="records in the dataset (default 2000)")
    parser.add_argument("--batch", type=int, default=50, help="records per batch (default 50)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the loader (default 5)")
    parser.add_argument("--noise", type=float, default=0.7, help="noise multiplier (default 0.7)")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random (default 1)")
    given = parser.parse_args(arguments)
    if not (1 <= given.batch < given.records and given.epochs >= 1 and given.noise > 0 and given.seed >= 0):
        parser.error(
            "--batch must be below --records, --epochs at least 1, --noise above 0 and --seed at least 0"
        )
    return Options(
        records=given.records, batch=given.batch, epochs=given.epochs, noise=given.noise, seed=given.seed
    )


def records(count: int, seed: int) -> Any:
    """Points in two overlapping clouds, with the cloud they come from."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=generator)
    centres = torch.randn(2, FEATURES, generator=generator) / 2
    return TensorDataset(centres[labels] + torch.randn(count, FEATURES, generator=generator), labels)


def classifier(seed: int) -> Any:
    """A small network, the same for the same seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 2))


def train(model: Any, optimizer: Any, loader: Any, epochs: int) -> int:
    """Train; an empty batch is a step like any other. Returns the number of steps taken."""
    loss_of = nn.CrossEntropyLoss()
    steps = 0
    for _ in range(epochs):
        for points, labels in loader:
            optimizer.zero_grad()
            loss_of(model(points), labels).backward()
            optimizer.step()
            steps += 1
    return steps


def accuracy(model: Any, dataset: Any) -> float:
    """The share of records that are classified as they are labelled."""
    points, labels = dataset.tensors
    with torch.no_grad():
        return float((model(points).argmax(dim=1) == labels).float().mean())
