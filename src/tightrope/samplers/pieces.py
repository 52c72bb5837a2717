"""Logical batches in the sizes that machines want: cut into pieces, or filled up to one size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidSetting
from tightrope.samplers.draws import Indices


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """A part of a logical batch that fits into memory; add noise and step after the one that `ends_step`."""

    indices: Indices
    ends_step: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class PaddedBatch:
    """A whole logical batch, filled up to a size that all batches share; `is_padding` marks what was added.

    The index of padding is -1, which is no record: what comes of it must not enter the sum.
    """

    indices: Indices
    is_padding: NDArray[np.bool_]


def cut_batches(batches: Iterable[Indices], most: int) -> Iterator[Piece]:
    """Each batch in pieces of at most `most` records; an empty one is one empty piece."""
    for batch in batches:
        last = max(0, (len(batch) - 1) // most * most)  # where the last piece starts
        for start in range(0, last, most):
            yield Piece(indices=batch[start : start + most], ends_step=False)
        yield Piece(indices=batch[last:], ends_step=True)


def pad_batches(batches: Iterable[Indices], size: int, *, ample: int) -> Iterator[PaddedBatch]:
    """Each batch filled up to `size`, which must hold it; a refusal tells the size that is `ample`."""
    for batch in batches:
        if len(batch) > size:
            must = f"hold the {len(batch)} records of a batch, none of which may be dropped"
            remedy = (
                f"Batches hold more than {{to={ample}}} once in 10^12 times at most. "
                "To cap them is another sampling, that of TruncatedPoissonSampler."
            )
            raise InvalidSetting("to", size, must, remedy)
        indices = np.full(size, -1, dtype=np.int64)
        indices[: len(batch)] = batch
        yield PaddedBatch(indices=indices, is_padding=np.arange(size) >= len(batch))
