"""A training small enough to run many times."""

import functools
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tightrope as tr
from tightrope.integrations.opacus import OpacusAccountant, TightropeEngine
from tightrope.samplers import Passes, PoissonSampler, WithoutReplacementSampler
from tightrope.samplers.torch import data_loader

USUAL_WARNINGS = [
    # what Opacus says of itself each time an engine is made
    pytest.mark.filterwarnings("ignore:Secure RNG turned off:UserWarning"),
    # what torch says of the hooks of Opacus where no input needs a gradient
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
]
RECORDS, BATCH, NOISE, DELTA = 60, 6, 1.1, 1e-5
GAUSSIAN = tr.Gaussian(noise_multiplier=NOISE)


def asked(run: tr.Run, relation: tr.Relation) -> tr.Bracket:
    """What the core says."""
    return tr.epsilon(run, delta=DELTA, relation=relation)


@functools.cache
def dataset(records: int = RECORDS) -> Any:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(records, 3, generator=generator), torch.randint(0, 2, (records,), generator=generator)
    )


def shuffled(records: int = RECORDS, batch: int = BATCH) -> Any:
    return DataLoader(dataset(records), batch_size=batch, shuffle=True)


def poisson(**options: Any) -> PoissonSampler:
    return PoissonSampler(**{"records": RECORDS, "rate": 0.11, "steps": 7, "seed": 5, **options})


def without_replacement(**options: Any) -> WithoutReplacementSampler:
    return WithoutReplacementSampler(
        **{"records": RECORDS, "batch": BATCH, "steps": RECORDS // BATCH, "seed": 5, **options}
    )


def drawn_by(sampler: Passes) -> Any:
    return data_loader(dataset(), sampler)


def module_and_optimizer() -> dict[str, Any]:
    torch.manual_seed(1)
    module = nn.Linear(3, 2)
    return {"module": module, "optimizer": torch.optim.SGD(module.parameters(), lr=0.1)}


def made_private(engine: PrivacyEngine, loader: Any, **options: Any) -> tuple[Any, Any, Any]:
    common = {"data_loader": loader, "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    module, optimizer, private = engine.make_private(**module_and_optimizer(), **{**common, **options})
    return module, optimizer, private


def train(module: Any, optimizer: Any, loader: Any, *, accumulate: int = 1) -> int:
    """One pass; a step after every `accumulate` batches. Returns the number of batches."""
    loss_of = nn.CrossEntropyLoss()
    batches = 0
    for points, labels in loader:
        loss_of(module(points), labels).backward()
        batches += 1
        if batches % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return batches


def trained(name: str, loader: Any, **options: Any) -> OpacusAccountant:
    """The accountant of an engine that trained one pass."""
    engine = PrivacyEngine(accountant=name)
    train(*made_private(engine, loader, **options))
    accountant = engine.accountant
    assert isinstance(accountant, OpacusAccountant)
    return accountant


def engine_and_parts(
    sampler: Any, relation: tr.Relation = tr.ADD_OR_REMOVE, **options: Any
) -> tuple[TightropeEngine, Any, Any, Any]:
    engine = TightropeEngine(relation=relation)
    common = {"dataset": dataset(), "sampler": sampler, "noise_multiplier": NOISE, "max_grad_norm": 1.0}
    module, optimizer, loader = engine.make_private(**module_and_optimizer(), **{**common, **options})
    return engine, module, optimizer, loader
