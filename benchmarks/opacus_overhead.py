"""What accounting costs in the training loop of examples/opacus_after.py, as a share of one step.

Each call of the accounting hook is timed inside the real loop and set against the steps around it: two noisy
totals, with and without a hook, would differ by more than the hook costs. Wall time; nothing here is a test.
"""

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tightrope as tr
from measuring import aligned, on_one_thread, versions


@dataclass(frozen=True)
class Measured:
    """Seconds of each step and of the accounting in it; none where nothing was accounted."""

    steps: list[float]
    hooks: list[float]

    @property
    def step(self) -> float:
        return statistics.median(self.steps)

    @property
    def hook(self) -> float:
        return statistics.median(self.hooks) if self.hooks else 0.0


def timed_hook(hook: Callable[[Any], None], seconds: list[float]) -> Callable[[Any], None]:
    def record(optimizer: Any) -> None:
        start = time.perf_counter()
        hook(optimizer)
        seconds.append(time.perf_counter() - start)

    return record


def measured(model: Any, optimizer: Any, loader: Any, epochs: int, *, accounted: bool) -> Measured:
    """The loop of the example, from the batch at hand to the step taken."""
    from torch import nn

    steps: list[float] = []
    hooks: list[float] = []
    optimizer.attach_step_hook(timed_hook(optimizer.step_hook, hooks) if accounted else None)
    loss_of = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for points, labels in loader:
            start = time.perf_counter()
            optimizer.zero_grad()
            loss_of(model(points), labels).backward()
            optimizer.step()
            steps.append(time.perf_counter() - start)
    return Measured(steps, hooks)


def by_name(name: str, chosen: Any) -> tuple[Any, Any, Any]:
    """An engine of Opacus with an accountant by name."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader

    import opacus_shared as example

    model = example.classifier(chosen.seed)
    made: tuple[Any, Any, Any] = PrivacyEngine(accountant=name).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(example.records(chosen.records, chosen.seed), batch_size=chosen.batch),
        noise_multiplier=chosen.noise,
        max_grad_norm=example.CLIPPING_NORM,
    )
    return made


def by_engine(chosen: Any) -> tuple[Any, Any, Any]:
    """The engine of the example."""
    import torch

    import opacus_shared as example
    from tightrope.integrations.opacus import TightropeEngine
    from tightrope.samplers import PoissonSampler

    dataset, model = example.records(chosen.records, chosen.seed), example.classifier(chosen.seed)
    rate = chosen.batch / chosen.records
    model, optimizer, loader = TightropeEngine(relation=tr.ADD_OR_REMOVE).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        dataset=dataset,
        sampler=PoissonSampler(records=chosen.records, rate=rate, steps=chosen.steps, seed=chosen.seed),
        noise_multiplier=chosen.noise,
        max_grad_norm=example.CLIPPING_NORM,
    )
    return model, optimizer, loader


def seconds_of_one_step_call(calls: int = 20_000) -> float:
    """`accountant.step()` alone."""
    from opacus.accountants import create_accountant

    accountant = create_accountant("tightrope")
    start = time.perf_counter()
    for _ in range(calls):
        accountant.step(noise_multiplier=0.7, sample_rate=0.025)
    return (time.perf_counter() - start) / calls


def row(name: str, found: Measured) -> list[str]:
    share = f"{found.hook / found.step:.2%}" if found.hooks else ""
    hook = f"{1e6 * found.hook:.1f} us" if found.hooks else ""
    return [name, f"{len(found.steps):,}", f"{1e3 * found.step:.3f} ms", hook, share]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--epochs", type=int, default=25, help="passes over the loader, 40 steps each (default 25)"
    )
    given = parser.parse_args(arguments)
    if given.epochs < 1:
        parser.error("--epochs must be at least 1")
    if importlib.util.find_spec("opacus") is None:
        parser.error("opacus is not installed; run make training")
    on_one_thread()
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import torch

    import opacus_shared as example
    from tightrope.integrations import opacus  # noqa: F401  # registers the accountants

    torch.set_num_threads(1)
    chosen = example.options("", [])
    measured(*by_name("tightrope", chosen), 2, accounted=False)  # the first steps of a process are slower
    rows = [
        row("no accounting", measured(*by_name("tightrope", chosen), given.epochs, accounted=False)),
        row("prv (Opacus)", measured(*by_name("prv", chosen), given.epochs, accounted=True)),
        row("tightrope", measured(*by_name("tightrope", chosen), given.epochs, accounted=True)),
        row("TightropeEngine", measured(*by_engine(chosen), given.epochs, accounted=True)),
    ]
    print(
        ", ".join(f"{name} {version}" for name, version in versions("tightrope", "opacus", "torch").items())
    )
    print("Medians over the steps of the loop; the hook is timed inside it\n")
    print(aligned([["", "steps", "one step", "hook", "share"], *rows]))
    print(f"\naccountant.step() alone: {1e6 * seconds_of_one_step_call():.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
