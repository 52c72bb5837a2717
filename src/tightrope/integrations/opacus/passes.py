"""Steps on batches among which records choose once in each pass: counted as the batches that were drawn."""

from collections.abc import Callable
from typing import Any

from tightrope.answers.ledger import Ledger
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.run import Step
from tightrope.setting.sampling import BallsInBins, RandomAllocation
from tightrope.setting.tables import Table

ONE_NOISE = "A record is in one batch of the pass or in another: change the noise where a pass begins."
ONE_BATCH = "Draws that share their noise are known for Poisson sampling: take a step on each batch."


class PassCount:
    """How many batches of a sampler a ledger holds.

    Each step brings it up to the batches that were drawn, so that those which were skipped, or fetched ahead
    and lost, count as used: a batch that is not released tells less. What was drawn of the first pass before
    counts as well.
    """

    def __init__(self, sampler: Passes, sampling: BallsInBins | RandomAllocation) -> None:
        self._sampler, self._sampling = sampler, sampling
        self._noise: float | None = None
        self._counted = sampler.drawn - sampler.drawn % sampling.batches

    def hook(
        self, count_draws: Callable[[Any], int], count: Callable[[Step, int], None]
    ) -> Callable[[Any], None]:
        """What an optimizer calls before each update."""

        def record(optimizer: Any) -> None:
            count(*self.take_step(float(optimizer.noise_multiplier), count_draws(optimizer)))

        return record

    def take_step(self, noise: float, draws: int) -> tuple[Step, int]:
        """The step that is taken, and how many of its kind that makes."""
        if draws != 1:
            raise InvalidSetting("draws", draws, f"be 1 in a step on {self._sampling!r}", ONE_BATCH)
        if self._noise not in (None, noise) and self._counted % self._sampling.batches:
            must = f"stay {self._noise!r} until the pass of {self._sampling.batches} batches ends"
            raise InvalidSetting("noise_multiplier", noise, must, ONE_NOISE)
        self._noise = noise
        times = max(self._sampler.drawn - self._counted, 0)
        self._counted += times
        return Step(Gaussian(noise_multiplier=noise), self._sampling), times

    def plain(self) -> dict[str, Any]:
        """What checkpoints hold."""
        return {"counted": self._counted, "noise": self._noise}

    def go_on(self, plain: Any) -> None:
        """Count on from what a checkpoint held; one of before there were passes held none."""
        kept = Table.of(plain or {"counted": 0, "noise": None}, "state: tightrope.passes.")
        kept.keep_to(("counted", "noise"))
        noise: Any = kept.need("noise", "It is that of the last step.")
        self._counted = check.whole(counted=kept.need("counted", "It is a number of batches."))
        self._noise = None if noise is None else check.positive(noise=noise)


def complete_passes(ledger: Ledger, sampling: BallsInBins | RandomAllocation) -> None:
    """Count passes that others broke off as whole ones, before a new sampler begins its own."""
    for step, times in ledger.run:
        if step.sampling == sampling and times % sampling.batches:
            ledger.count(step, sampling.batches - times % sampling.batches)
