"""How long it takes to read a loader over a million indices, by what holds them: printed by watching.py."""

import time
from collections.abc import Iterator

from tightrope.audit.loaders.inspect import inspect_loader

MILLION = 1_000_000


def read_loaders(repeats: int = 5) -> Iterator[tuple[str, float]]:
    """The fewest CPU seconds to read a loader over a million indices, by what holds them."""
    import torch
    from opacus.data_loader import DPDataLoader
    from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

    order = torch.randperm(MILLION, generator=torch.Generator().manual_seed(1))
    held = {"list": order.tolist(), "array": order.numpy(), "tensor": order, "range": range(MILLION)}
    for name, indices in held.items():
        loaders = {
            "a Subset": DPDataLoader(Subset(TensorDataset(torch.zeros(MILLION)), indices), sample_rate=1e-3),
            "a SubsetRandomSampler": DataLoader(range(MILLION), 64, sampler=SubsetRandomSampler(indices)),
        }
        for holder, loader in loaders.items():
            seconds = []
            for _ in range(repeats):
                begun = time.process_time()
                inspect_loader(loader)
                seconds.append(time.process_time() - begun)
            yield f"{holder}, {name}", min(seconds)


def tell_loaders() -> None:
    print(f"\n{'a million indices in':<50}{'ms':>10}")
    try:
        for name, seconds in read_loaders():
            print(f"{name:<50}{1000 * seconds:>10.1f}", flush=True)
    except ModuleNotFoundError as missing:
        print(f"not measured: {missing.name} is not installed")
