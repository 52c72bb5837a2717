"""Private training over a shuffled loader, in plain torch, and what is proved about it."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

import tightrope as tr

RECORDS, BATCH, EPOCHS, FEATURES = 2000, 50, 5, 20
NOISE, CLIPPING_NORM, LEARNING_RATE, DELTA = 1.0, 1.0, 0.5, 1e-5


def take_step(weights: torch.Tensor, points: torch.Tensor, labels: torch.Tensor) -> None:
    """Logistic regression: clip the gradient of each record, add noise to the sum, divide by the batch."""
    gradients = (torch.sigmoid(points @ weights) - labels)[:, None] * points
    norms = gradients.norm(dim=1, keepdim=True)
    total = (gradients * (CLIPPING_NORM / norms.clamp(min=CLIPPING_NORM))).sum(dim=0)
    weights -= LEARNING_RATE * (total + NOISE * CLIPPING_NORM * torch.randn(FEATURES)) / BATCH


def main() -> int:
    """Train, then say what the training costs."""
    points = torch.randn(RECORDS, FEATURES)
    dataset = TensorDataset(points, (points.sum(dim=1) > 0).float())
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    weights = torch.zeros(FEATURES)
    for _ in range(EPOCHS):
        for batch, labels in loader:
            take_step(weights, batch, labels)
    right = ((points @ weights > 0) == (points.sum(dim=1) > 0)).float().mean()
    plan = tr.Training(records=RECORDS, batch=BATCH, epochs=EPOCHS, sampling=tr.Poisson)
    spent = tr.epsilon_if_shuffled(plan, noise_multiplier=NOISE, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    print(f"Trained {EPOCHS} epochs; {right:.0%} of the records are classified correctly.")
    print(f"epsilon is in {spent:.2f} at delta {DELTA:g} if one record is added or removed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
