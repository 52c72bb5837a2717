"""A Lightning training on two devices, as a user would start it; Lightning runs it once more as the other."""

import warnings

import lightning.pytorch as lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import tightrope as tr
from tightrope.integrations.lightning import PrivateTraining
from tightrope.samplers import PoissonSampler


class Model(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(3, 2)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        print("trained")
        return self.network(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    private = PrivateTraining(
        sampler=PoissonSampler(records=60, rate=0.1, steps=5),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        relation=tr.ADD_OR_REMOVE,
        delta=1e-5,
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        callbacks=[private],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), DataLoader(TensorDataset(torch.zeros(60, 3)), batch_size=6, shuffle=True))
