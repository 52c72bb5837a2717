"""One of two processes that train together: what is refused, then a training that is not."""

import sys
import warnings
from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import distributed, nn
from torch.utils.data import TensorDataset

import tightrope as tr
from tightrope.audit import Verdict
from tightrope.integrations.opacus import TightropeEngine, audit_training
from tightrope.samplers import Passes, PoissonSampler

RECORDS, STEPS, SEED, OTHER_SEED = 60, 4, 987654321, 123456789


def train(share: Passes) -> TightropeEngine:
    torch.manual_seed(1)
    module = DifferentiallyPrivateDistributedDataParallel(nn.Linear(3, 2))
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        dataset=TensorDataset(torch.randn(RECORDS, 3), torch.randint(0, 2, (RECORDS,))),
        sampler=share,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for points, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(points), labels).backward()
        optimizer.step()
    return engine


def tell_refusal(share: Passes) -> None:
    try:
        train(share)
    except tr.InvalidSetting as refusal:
        print(refusal)
    else:
        print("accepted")


def main(process: int, file: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=process, world_size=2)

    def share(*, rank: int = process, seed: int = SEED, **options: Any) -> Passes:
        given = {"records": RECORDS, "rate": 0.2, "steps": STEPS, **options}
        return PoissonSampler(**given, seed=seed).share(rank=rank, ranks=2)

    tell_refusal(share(seed=SEED if process else OTHER_SEED))
    tell_refusal(share(rank=0))
    tell_refusal(share(rate=0.2 if process else 0.1))
    tell_refusal(share(drawn=3 * process))
    engine = train(share())
    matches = audit_training(engine, delta=1e-5).verdict is Verdict.MATCHES
    print(f"trained {engine.ledger.steps} steps, {matches}, {engine.steps.sentence}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
