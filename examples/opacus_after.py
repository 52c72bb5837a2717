"""The same private training with a sampler that carries its accounting: it draws what is accounted."""

import sys
from collections.abc import Sequence

from opacus_shared import CLIPPING_NORM, DELTA, accuracy, classifier, options, records, train

# isort: split
# below is what the module above needs, and says how to install
import torch

import tightrope as tr
from tightrope.audit import audit
from tightrope.integrations.opacus import TightropeEngine
from tightrope.samplers import PoissonSampler


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, report epsilon, then audit it."""
    chosen = options((__doc__ or "").splitlines()[0], arguments)
    dataset, model = records(chosen.records, chosen.seed), classifier(chosen.seed)
    # A seed makes the example repeatable. Leave it out for a release: whoever knows it knows the batches.
    sampler = PoissonSampler(
        records=len(dataset), rate=chosen.batch / len(dataset), steps=chosen.steps, seed=chosen.seed
    )
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        dataset=dataset,
        sampler=sampler,
        noise_multiplier=chosen.noise,
        max_grad_norm=CLIPPING_NORM,
    )
    steps = train(model, optimizer, loader, chosen.epochs)
    print(f"Trained {steps} steps; {accuracy(model, dataset):.0%} of the records are classified correctly.")
    print(f"epsilon is {engine.epsilon(DELTA)} at delta {DELTA:g}: a certified bracket.")
    print(engine.ledger)

    print("\nThe audit of the loader:")
    print(audit(loader, engine.ledger.run, delta=DELTA, relation=tr.ADD_OR_REMOVE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
