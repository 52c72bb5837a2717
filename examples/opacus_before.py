"""Private training as a newcomer writes it with Opacus, and what its epsilon is worth.

poisson_sampling=False keeps the shuffled loader, while the accountant goes on accounting Poisson batches.
Nothing says so.
"""

import sys
from collections.abc import Sequence

from opacus_shared import CLIPPING_NORM, DELTA, accuracy, classifier, options, records, train

# isort: split
# below is what the module above needs, and says how to install
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader

import tightrope as tr
from tightrope.audit import audit


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, report what Opacus reports, then audit it."""
    chosen = options((__doc__ or "").splitlines()[0], arguments)
    dataset, model = records(chosen.records, chosen.seed), classifier(chosen.seed)
    engine = PrivacyEngine(accountant="prv")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(dataset, batch_size=chosen.batch, shuffle=True),
        noise_multiplier=chosen.noise,
        max_grad_norm=CLIPPING_NORM,
        poisson_sampling=False,
    )
    steps = train(model, optimizer, loader, chosen.epochs)
    print(f"Trained {steps} steps; {accuracy(model, dataset):.0%} of the records are classified correctly.")
    print(f"Opacus reports epsilon {engine.get_epsilon(DELTA):.3f} at delta {DELTA:g}.")

    accounted = tr.Step(tr.Gaussian(noise_multiplier=chosen.noise), tr.Poisson(rate=1 / len(loader))) * steps
    print("\nThe audit of the loader:")
    print(audit(loader, accounted, delta=DELTA, relation=tr.ADD_OR_REMOVE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
