"""Steps on batches among which records choose once in each pass: counted as the batches that were drawn."""

from collections.abc import Callable, Sequence
from typing import Any

from tightrope.audit.steps.checks import CheckedStep
from tightrope.audit.steps.draws import Draw
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Allocated, Sampling
from tightrope.setting.tables import Table

ONE_NOISE = "A record is in one batch of the pass or in another: change the noise where a pass begins."
ONE_BATCH = "Draws that share their noise are known for Poisson sampling: take a step on each batch."


class PassCount:
    """How many batches of a sampler a ledger holds.

    Each step brings it up to the batches that were drawn, so that those which were skipped, or fetched ahead
    and lost, count as used: a batch that is not released tells less. What was drawn of the first pass before
    counts as well. Batches that were fetched ahead are counted with the noise of that time, so it may change
    only with a batch that was drawn since, the first of its pass.
    """

    def __init__(self, sampler: Passes, sampling: Allocated) -> None:
        self._sampler, self._sampling = sampler, sampling
        self._noise: float | None = None
        self._counted = sampler.drawn - count_begun(sampler)
        self._first: int | None = sampler.drawn  # the number, in the sampler, of the loader's first draw

    def hook(
        self,
        judge: Callable[[], CheckedStep],
        count_draws: Callable[[Any, CheckedStep], int],
        count: Callable[[Step, int], None],
    ) -> Callable[[Any], None]:
        """What an optimizer calls before each update."""

        def record(optimizer: Any) -> None:
            step = judge()
            draws = count_draws(optimizer, step)
            count(*self.take_step(float(optimizer.noise_multiplier), draws, step.draws[-1:]))

        return record

    def take_step(self, noise: float, draws: int, used: Sequence[Draw]) -> tuple[Step, int]:
        """The step that is taken, on the draw `used` if known, and how many of its kind that makes."""
        if draws != 1:
            raise InvalidSetting("draws", draws, f"be 1 in a step on {self._sampling!r}", ONE_BATCH)
        number = self._number(used)
        is_first = self._counted % self._sampling.batches == 0 and number >= self._counted
        if self._noise not in (None, noise) and not is_first:
            must = f"stay {self._noise!r} until the pass of {self._sampling.batches} batches ends"
            raise InvalidSetting("noise_multiplier", noise, must, ONE_NOISE)
        self._noise = noise
        times = max(self._sampler.drawn - self._counted, 0)
        self._counted += times
        return Step(Gaussian(noise_multiplier=noise), self._sampling), times

    def _number(self, used: Sequence[Draw]) -> int:
        """The number of a draw in the sampler, or less where others drew from it meanwhile; -1 if unknown."""
        if not used:
            return -1
        (draw,) = used
        if self._first is None:  # this one and those of its pass after it are the last that were drawn
            after = draw.loader_pass.draws - draw.place
            self._first = self._sampler.drawn - after - draw.number
        return self._first + draw.number

    def plain(self) -> dict[str, Any]:
        """What checkpoints hold."""
        return {"counted": self._counted, "noise": self._noise}

    def go_on(self, plain: Any) -> None:
        """Count on from what a checkpoint held; one of before there were passes held none."""
        kept = Table.of(plain or {"counted": 0, "noise": None}, "state: tightrope.passes.")
        kept.keep_to(("counted", "noise"))
        noise: Any = kept.need("noise", "It is that of the last step.")
        self._first = None  # the sampler goes on elsewhere, and its loader counts on
        self._counted = check.whole(counted=kept.need("counted", "It is a number of batches."))
        self._noise = None if noise is None else check.positive(noise=noise)


def count_begun(sampler: Passes) -> int:
    """How many batches of the pass that comes next were drawn before: they count with the others of it."""
    sampling = sampler.sampling
    if not isinstance(sampling, Allocated):
        return 0
    return sampler.drawn % sampling.batches


def complete_passes(run: Run, sampling: Sampling) -> Run:
    """What makes whole ones of passes that others broke off, before a new sampler begins its own."""
    if not isinstance(sampling, Allocated):
        return Run()
    return Run(tuple((step, -times % sampling.batches) for step, times in run if step.sampling == sampling))
