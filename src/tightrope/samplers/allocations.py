"""Batches that records choose: in each pass every record takes one of them, or several."""

from abc import abstractmethod
from typing import final

from tightrope.samplers.draws import BinnedRecords, Indices, allocate
from tightrope.samplers.sampler import Sampler
from tightrope.setting.sampling import Allocated, BallsInBins, RandomAllocation


class AllocatingSampler(Sampler):
    """Batches of passes: batch t is the one at place t % batches of allocation t // batches.

    A loop that is left and begun anew goes on in the same allocation. Only what a seed cannot bring back is
    lost: a run that is resumed without a seed, within a pass, begins a new one, and the one that was broken
    off counts as a whole pass in `drawn` and `run`. So does a copy, and a process that was forked, since two
    samplers with one allocation would hand out the same batches, each as if they were its own.
    """

    def __init__(
        self, *, records: int, batches: int, steps: int | None, seed: int | None, drawn: int
    ) -> None:
        super().__init__(records=records, steps=batches if steps is None else steps, seed=seed, drawn=drawn)
        self._kept: tuple[int, BinnedRecords] | None  # the number of a pass, and its allocation

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_kept": None}

    def leave_parent(self) -> None:
        """Begin a new pass, unless a seed tells the rest of this one; the sampler it comes from goes on."""
        super().leave_parent()
        self._kept = None
        self._next = self._resume_after(self._next)

    @property
    @abstractmethod
    def sampling(self) -> Allocated:
        """The value the accountant takes."""

    @property
    def batches(self) -> int:
        """The number of batches in one pass."""
        return self.sampling.batches

    @property
    def expected_batch(self) -> float:
        """rate * records: divide the noisy sum of gradients by it, whatever the size of the batch drawn."""
        return float(self.sampling.exact_rate * self.records)

    @property
    @abstractmethod
    def _chosen(self) -> int:
        """How many batches of a pass a record takes."""

    def _draw(self, number: int) -> Indices:
        number_of_pass, place = divmod(number, self.batches)
        kept = self._kept  # `batch_at` takes no lock: another thread may keep another pass from here on
        if kept is None or kept[0] != number_of_pass:
            source = self._bytes_of(number_of_pass)
            made = allocate(records=self.records, batches=self.batches, chosen=self._chosen, draw=source)
            self._kept = kept = number_of_pass, made
        return kept[1].batch(place)

    def _resume_after(self, drawn: int) -> int:
        """The next batch; without a seed, the first of the next pass: this allocation is nowhere kept."""
        return drawn if self._seed is not None else -(-drawn // self.batches) * self.batches


@final
class BallsInBinsSampler(AllocatingSampler):
    """In each pass each of `records` takes one of `batches` batches, uniformly and on its own.

    As convenient as a shuffle: a pass is an epoch, in which every record comes exactly once, and the next
    pass allocates anew. Batch sizes vary. `steps` is how many batches one loop hands out, all of a pass by
    default; a run may stop within a pass. `batches` must not follow the size of the dataset. Seeds and
    `drawn` are those of `PoissonSampler`. A run that was broken off within a pass and is resumed without a
    seed goes on with a new pass, and the broken one counts as a whole one.

    >>> sampler = BallsInBinsSampler(records=1000, batches=20)
    >>> sum(len(batch) for batch in sampler), sampler.drawn, sampler.expected_batch
    (1000, 20, 50.0)
    >>> sampler.sampling
    BallsInBins(batches=20)
    """

    def __init__(
        self,
        *,
        records: int,
        batches: int,
        steps: int | None = None,
        seed: int | None = None,
        drawn: int = 0,
    ) -> None:
        self._sampling = BallsInBins(batches=batches)
        super().__init__(records=records, batches=self._sampling.batches, steps=steps, seed=seed, drawn=drawn)

    @property
    def sampling(self) -> BallsInBins:
        """The value the accountant takes."""
        return self._sampling

    @property
    def _chosen(self) -> int:
        return 1


@final
class RandomAllocationSampler(AllocatingSampler):
    """In each pass each of `records` takes `chosen` different ones of `batches` batches, on its own.

    Every choice is equally likely. The other arguments are those of `BallsInBinsSampler`.

    >>> sampler = RandomAllocationSampler(records=1000, batches=20, chosen=3)
    >>> sum(len(batch) for batch in sampler), sampler.expected_batch
    (3000, 150.0)
    """

    def __init__(
        self,
        *,
        records: int,
        batches: int,
        chosen: int,
        steps: int | None = None,
        seed: int | None = None,
        drawn: int = 0,
    ) -> None:
        self._sampling = RandomAllocation(batches=batches, chosen=chosen)
        super().__init__(records=records, batches=self._sampling.batches, steps=steps, seed=seed, drawn=drawn)

    @property
    def sampling(self) -> RandomAllocation:
        """The value the accountant takes."""
        return self._sampling

    @property
    def _chosen(self) -> int:
        return self._sampling.chosen
