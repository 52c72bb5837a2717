"""What accounting and checking cost in the training loop of examples/opacus_after.py, as a share of one step.

Everything that they add is timed inside the real loop and set against the steps around it: two noisy totals,
with and without them, differ by more than they cost. What stands around a function of torch or Opacus is
timed with it, less the function. The clock is timed in the same loop, and taken off. Batches are let go
outside the clocks: a watched loop frees them two steps later than another one, not more often. Wall time;
nothing here is a test.
"""

import argparse
import importlib.util
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tightrope as tr
from measuring import aligned, on_one_thread, versions

AROUND = {  # what is added, by the name of what it stands around
    "pre_step": "pre_step of Opacus",
    "forward": "forward of Opacus",
    "next": "next of torch",
    "idle around": "idle",
}


@dataclass(frozen=True)
class Measured:
    """Seconds of each step, of each batch from the loader, and of what was called in them, by its name."""

    steps: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    calls: dict[str, list[float]] = field(default_factory=dict)

    def time(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, each of whose calls is timed."""
        clock, seconds = time.perf_counter, self.calls.setdefault(name, [])

        def measure(*given: Any, **options: Any) -> Any:
            start = clock()
            result = call(*given, **options)
            seconds.append(clock() - start)
            return result

        return measure

    @property
    def step(self) -> float:
        return statistics.median(self.steps)

    @property
    def batch(self) -> float:
        return statistics.median(self.batches)

    def of(self, *names: str) -> float:
        """Seconds of these calls for each step."""
        return sum(self._of(name) for name in names if self.calls.get(name))

    def _of(self, name: str) -> float:
        calls, inside = self.calls[name], self.calls.get(AROUND.get(name, ""))
        if inside is None:
            own, clock = calls, statistics.median(self.calls["clock"])
        else:
            own = [whole - part for whole, part in zip(calls, inside, strict=False)]
            clock = 0.0 if name == "idle around" else self._of("idle around")
        return (statistics.median(own) - clock) * len(calls) / len(self.steps)

    @property
    def hook(self) -> float:
        return self.of("hook")

    @property
    def checks(self) -> float:
        """What a step takes longer because it is checked."""
        return self.of("pre_step", "forward", "_see_part", "bypass")

    @property
    def telling(self) -> float:
        """What a batch takes longer because its loader tells of it."""
        return self.of("next", "draw")


def do_nothing() -> None:
    """What the clock is timed on."""


@contextmanager
def timing(found: Measured) -> Iterator[None]:
    """Time what a watch adds to models, optimizers and loaders that are made meanwhile."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    from tightrope.audit.steps.draws import Draw
    from tightrope.integrations.torch_loaders import HandingIterator
    from tightrope.integrations.training import TrainingWatch, WatchedForward

    places = [
        (DPOptimizer, "pre_step", "pre_step of Opacus"),
        (GradSampleModule, "forward", "forward of Opacus"),
        (WatchedForward, "__call__", "forward"),
        (TrainingWatch, "_see_part", "_see_part"),
        (_BaseDataLoaderIter, "__next__", "next of torch"),
        (HandingIterator, "__next__", "next"),
        (Draw, "__init__", "draw"),
    ]
    originals = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in places]
    for owner, attribute, name in places:
        setattr(owner, attribute, found.time(getattr(owner, attribute), name))
    try:
        yield
    finally:
        for owner, attribute, call in originals:
            setattr(owner, attribute, call)


def measured(make: Callable[[], tuple[Any, Any, Any]], epochs: int, *, accounted: bool) -> Measured:
    """The loop of the example: a batch from the loader, then a step on it."""
    from torch import nn
    from torch.optim.optimizer import _global_optimizer_pre_hooks

    found = Measured()
    clock, clocks = time.perf_counter, found.calls.setdefault("clock", [])
    idle = found.time(found.time(do_nothing, "idle"), "idle around")
    kept: deque[Any] = deque(maxlen=4)
    with timing(found):
        model, optimizer, loader = make()
        hook = optimizer.step_hook
        optimizer.attach_step_hook(found.time(hook, "hook") if accounted else None)
        if "pre_step" in vars(optimizer):
            optimizer.pre_step = found.time(optimizer.pre_step, "pre_step")
        hooks = dict(_global_optimizer_pre_hooks)
        for number, call in hooks.items():
            _global_optimizer_pre_hooks[number] = found.time(call, "bypass")
        loss_of = nn.CrossEntropyLoss()
        for _ in range(epochs):
            batches, start = iter(loader), clock()
            for points, labels in batches:
                middle = clock()
                optimizer.zero_grad()
                loss_of(model(points), labels).backward()
                optimizer.step()
                end = clock()
                found.batches.append(middle - start)
                found.steps.append(end - middle)
                clocks.append(-clock() + clock())
                idle()
                kept.append((points, labels))
                start = clock()
        _global_optimizer_pre_hooks.update(hooks)
    return found


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
    costs = [found.hook, found.checks, found.telling]
    parts = [f"{1e6 * cost:.1f} us" if cost else "" for cost in costs]
    of_step = f"{sum(costs) / found.step:.2%}" if found.hook else ""
    times = [f"{1e3 * seconds:.3f} ms" for seconds in (found.step, found.batch)]
    return [name, f"{len(found.steps):,}", *times, *parts, of_step]


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
    makers: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
        "prv (Opacus)": lambda: by_name("prv", chosen),
        "tightrope": lambda: by_name("tightrope", chosen),
        "TightropeEngine": lambda: by_engine(chosen),
    }
    measured(makers["prv (Opacus)"], 2, accounted=False)  # the first steps of a process are slower
    plain = measured(makers["prv (Opacus)"], given.epochs, accounted=False)
    rows = [row("no accounting", plain)]
    rows += [row(name, measured(make, given.epochs, accounted=True)) for name, make in makers.items()]
    print(
        ", ".join(f"{name} {version}" for name, version in versions("tightrope", "opacus", "torch").items())
    )
    print("Medians over the steps of the loop; calls are timed inside it.")
    print("hook: accounting. checks: each step against its draw. loader: telling which batch it hands out.\n")
    titles = ["", "steps", "one step", "its batch", "hook", "checks", "loader", "all of a step"]
    print(aligned([titles, *rows]))
    print(f"\naccountant.step() alone: {1e6 * seconds_of_one_step_call():.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
