"""The tensors that reach a model, as the batch of the loader that they are, if they are one."""

import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tightrope.audit.steps.draws import HandedBatch

AT_HAND = 2  # batches kept alive: the one trained on, and one that a loop reads ahead
ALIVE = 64  # batches known as long as someone else keeps them alive, in a queue for example
SAMPLE = 4096  # values compared where a batch was copied, to another device or type


def list_tensors(value: Any, depth: int = 4) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and mappings that have a batch dimension."""
    if isinstance(value, Tensor):
        if value.ndim:
            yield value
    elif depth and isinstance(value, Mapping):
        for entry in value.values():
            yield from list_tensors(entry, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for entry in value:
            yield from list_tensors(entry, depth - 1)


@dataclass(frozen=True)
class _Kept:
    """A batch, and its tensors with their versions: a tensor that was written to is another one."""

    batch: HandedBatch
    tensors: tuple[tuple[Tensor, int], ...]


class HandedTensors:
    """The tensors of the batches that were handed to a training loop, so as to know them again."""

    def __init__(self) -> None:
        self._at_hand: deque[_Kept] = deque(maxlen=AT_HAND)
        self._by_id: dict[int, tuple[weakref.ref[Tensor], int, HandedBatch]] = {}
        self._order: deque[tuple[int, ...]] = deque()

    def remember(self, batch: HandedBatch, data: Any) -> None:
        """Know this batch again by the tensors that it was collated to."""
        tensors = tuple((tensor, _version(tensor)) for tensor in list_tensors(data))
        self._at_hand.append(_Kept(batch, tensors))
        for tensor, version in tensors:
            self._by_id[id(tensor)] = (weakref.ref(tensor), version, batch)
        self._order.append(tuple(id(tensor) for tensor, _ in tensors))
        if len(self._order) > ALIVE:
            for one in self._order.popleft():
                self._forget(one)

    def _forget(self, one: int) -> None:
        # the address may belong to a tensor of a later batch by now
        if one in self._by_id and not any(one in later for later in self._order):
            del self._by_id[one]

    def find(self, inputs: Any) -> tuple[HandedBatch | None, int | None]:
        """The batch, or the part of one, that all of these inputs are; and the length of the first."""
        batches: set[HandedBatch] = set()
        records = None
        for tensor in list_tensors(inputs):
            records = len(tensor) if records is None else records
            found = self._find_tensor(tensor)
            if found is None:
                return None, records
            batches.add(found)
        return (batches.pop() if len(batches) == 1 else None), records

    def _find_tensor(self, tensor: Tensor) -> HandedBatch | None:
        known = self._by_id.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[2] if known[1] == _version(tensor) else None
        try:
            for kept in reversed(self._at_hand):
                for other, version in kept.tensors:
                    if _version(other) == version and (found := _compare(tensor, other, kept.batch)):
                        return found
        except RuntimeError:  # inside vmap and the like a tensor has no memory to look at
            return None
        return None


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _compare(tensor: Tensor, other: Tensor, batch: HandedBatch) -> HandedBatch | None:
    """The batch, or part of it, if `tensor` is `other`, a view of it, some rows of it, or a copy."""
    if tensor.device == other.device and _share_memory(tensor, other):
        if tensor.numel() == other.numel() and tensor.data_ptr() == other.data_ptr():
            return batch
        return _find_rows(tensor, other, batch)
    is_copy = len(tensor) == len(other) and tensor.numel() == other.numel() and _same_values(tensor, other)
    return batch if is_copy else None


def _share_memory(tensor: Tensor, other: Tensor) -> bool:
    memory = tensor.untyped_storage().data_ptr()
    return bool(memory != 0 and memory == other.untyped_storage().data_ptr())


def _find_rows(tensor: Tensor, other: Tensor, batch: HandedBatch) -> HandedBatch | None:
    """Which rows of a contiguous batch a contiguous slice of it is."""
    same = tensor.is_contiguous() and other.is_contiguous() and tensor.dtype == other.dtype
    if not same or tensor.shape[1:] != other.shape[1:] or len(other) != batch.records:
        return None
    bytes_per_row = other.element_size() * max(other[:1].numel(), 1)
    start, rest = divmod(tensor.data_ptr() - other.data_ptr(), bytes_per_row)
    inside = rest == 0 and start >= 0 and start + len(tensor) <= len(other)
    return batch.cut(start, len(tensor)) if inside else None


def _same_values(tensor: Tensor, other: Tensor) -> bool:
    """Whether a copy, perhaps on another device or of another type, agrees in a sample of its values.

    Values that are all alike, such as a mask of ones, do not tell batches apart.
    """
    if tensor.numel() == 0:
        return True
    stride = max(1, tensor.numel() // SAMPLE) | 1  # odd, so that it does not stay in one column
    mine = tensor.detach().flatten()[::stride].cpu()
    yours = other.detach().flatten()[::stride].to(device="cpu", dtype=tensor.dtype)
    return bool((mine == yours).all()) and bool((mine != mine[0]).any())
