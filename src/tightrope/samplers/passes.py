"""Numbered batches, each handed out once, in passes of a fixed length."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tightrope.numerics import check
from tightrope.samplers.draws import Indices
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Poisson, WithoutReplacement


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """A part of one logical batch that fits into memory; after the piece that `ends_step`, add the noise and step."""

    indices: Indices
    ends_step: bool


class Passes(ABC):
    """What a sampler and its shares have in common.

    `for indices in passes` is one pass of `steps` logical batches; the next pass goes on with new ones, and two
    iterators over one object never hand out the same batch. A batch counts as drawn when it is handed out, so a
    loader that fetches ahead is counted ahead: the safe side.
    """

    @property
    @abstractmethod
    def sampling(self) -> Poisson | WithoutReplacement:
        """How the global batch of one step is drawn: the value the accountant takes."""

    @property
    @abstractmethod
    def records(self) -> int:
        """The number of records drawn from, over all ranks."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of batches in one pass."""

    @property
    @abstractmethod
    def drawn(self) -> int:
        """The number of logical, global batches handed out so far: the steps to account for."""

    @property
    @abstractmethod
    def expected_batch(self) -> float:
        """The expected size of the global batch: the number to divide the noisy sum of gradients by, on every rank.

        Never divide by the size of the batch that was drawn: it depends on the records, is released without noise
        that way, and is 0 now and then.
        """

    @abstractmethod
    def batch_at(self, number: int) -> Indices:
        """Batch `number`, counted from 0, whether or not it was handed out; needs a seed. It is not counted as drawn."""

    @abstractmethod
    def state_dict(self) -> dict[str, object]:
        """What a checkpoint needs to go on with the next batch. It holds the seed: keep it as secret as the records."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where the sampler that gave `state` stopped, if it drew in the same way.

        The length of a pass may differ, and the next pass is a whole one. Going back is refused: batches would be
        handed out twice and counted once. For the same reason forget what was computed after the state was taken.
        """

    @abstractmethod
    def _hand_out(self) -> Indices:
        """The next batch, counted."""

    def step(self, mechanism: Mechanism) -> Step:
        """One step of `mechanism` on a batch of this sampler."""
        return Step(mechanism, self.sampling)

    def run(self, mechanism: Mechanism) -> Run:
        """The steps taken so far, if each batch drawn was used once by `mechanism`."""
        return self.step(mechanism) * self.drawn

    def pieces(self, *, most: int) -> Iterator[Piece]:
        """One pass in pieces of at most `most` records, for gradient accumulation.

        An empty batch is one empty piece that ends its step: a step that adds noise only, but a step all the same.
        """
        return self._pieces(
            check.whole(least=1, remedy="It is the number of records that fit into memory.", most=most)
        )

    def _pieces(self, most: int) -> Iterator[Piece]:
        for batch in self:
            last = max(0, (len(batch) - 1) // most * most)  # where the last piece starts
            for start in range(0, last, most):
                yield Piece(indices=batch[start : start + most], ends_step=False)
            yield Piece(indices=batch[last:], ends_step=True)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Indices]:
        for _ in range(self.steps):
            yield self._hand_out()
