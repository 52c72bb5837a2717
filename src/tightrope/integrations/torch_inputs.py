"""The tensors that reach a model, as the batch of the loader that they are, if they are one."""

import weakref
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from tightrope.audit.steps.draws import HandedBatch

MOST_ALIVE = 1024  # tensors of earlier batches that are known as long as someone keeps them alive
SAMPLE = 4096  # values compared where a batch was copied, to another device or type


def list_tensors(value: Any, depth: int = 4) -> list[Tensor]:
    """The tensors in nested lists, tuples and mappings that have a batch dimension."""
    if isinstance(value, Tensor):
        return [value] if value.ndim else []
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):  # a union would be built anew for each batch
        return []
    return [one for part in value for one in list_tensors(part, depth - 1)] if depth else []


# A batch, its tensors, and how often each had been written to: a tensor that is written to is another one.
KeptTensors = tuple[HandedBatch, list[Tensor], list[int]]


class HandedTensors:
    """The tensors of the batches that were handed to a training loop, so as to know them again."""

    def __init__(self) -> None:
        self.latest: KeptTensors | None = None
        self._earlier: KeptTensors | None = None  # the one before
        self._alive: dict[int, tuple[weakref.ref[Tensor], int, HandedBatch]] = {}

    def remember(self, batch: HandedBatch, data: Any) -> None:
        """Know this batch again by the tensors that it was collated to."""
        try:
            if type(data) is not list:
                raise AttributeError
            versions = []  # of a list of tensors, which a batch usually is
            for tensor in data:
                versions.append(tensor._version)  # noqa: PERF401  # a comprehension is a call
            kept: KeptTensors = batch, data[:], versions  # the loop may put others into its list
        except (AttributeError, RuntimeError):
            kept = _read_nested(batch, data)
        earlier = self._earlier
        if earlier is not None and not earlier[0].is_used:
            self._keep_while_alive(earlier)  # first: another thread may look for it meanwhile
        self._earlier = self.latest
        self.latest = kept

    def _keep_while_alive(self, kept: KeptTensors) -> None:
        """Know a batch that others keep, in a queue for example, as long as they do."""
        batch, tensors, versions = kept
        for tensor, version in zip(tensors, versions, strict=True):
            self._alive[id(tensor)] = (weakref.ref(tensor), version, batch)
        while len(self._alive) > MOST_ALIVE:
            del self._alive[next(iter(self._alive))]

    def find(self, inputs: Any) -> tuple[HandedBatch | None, int | None]:
        """The batch, or the part of one, that all of these inputs are; and their length, where known."""
        tensors = list_tensors(inputs)
        if not tensors:
            return None, None
        # inside vmap the first dimension is not that of the records
        records = None if is_functorch_wrapped_tensor(tensors[0]) else len(tensors[0])
        found = self._find_tensor(_unwrap(tensors[0]))
        for other in tensors[1:]:
            if found is None or self._find_tensor(_unwrap(other)) != found:
                return None, records
        return found, records

    def _find_tensor(self, tensor: Tensor) -> HandedBatch | None:
        at_hand = [kept for kept in (self.latest, self._earlier) if kept is not None]
        for batch, tensors, versions in at_hand:
            for one, version in zip(tensors, versions, strict=True):
                if one is tensor:
                    return batch if _version(tensor) == version else None
        known = self._alive.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[2] if known[1] == _version(tensor) else None
        try:
            return _find_copy(tensor, at_hand)
        except RuntimeError:  # some kinds of tensors have no memory to look at
            return None


def _find_copy(tensor: Tensor, at_hand: list[KeptTensors]) -> HandedBatch | None:
    for batch, tensors, versions in at_hand:
        for one, version in zip(tensors, versions, strict=True):
            if one.ndim and _version(one) == version and (found := _compare(tensor, one, batch)):
                return found
    return None


def _unwrap(tensor: Tensor) -> Tensor:
    """The whole tensor of which a function under vmap sees one record."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor


def _read_nested(batch: HandedBatch, data: Any) -> KeptTensors:
    tensors = list_tensors(data)
    return batch, tensors, list(map(_version, tensors))


def _version(tensor: Tensor) -> int:
    """How often a tensor was written to."""
    try:
        version: int = tensor._version
        return version
    except RuntimeError:  # nobody counts in inference mode
        return -1


def _compare(tensor: Tensor, other: Tensor, batch: HandedBatch) -> HandedBatch | None:
    """The batch, or part of it, if `tensor` is `other`, a view of it, some rows of it, or a copy."""
    if tensor.device == other.device and _share_memory(tensor, other):
        if tensor.numel() == other.numel() and tensor.data_ptr() == other.data_ptr():
            return batch if _is_laid_out_alike(tensor, other) else None
        return _find_rows(tensor, other, batch)
    is_copy = len(tensor) == len(other) and tensor.numel() == other.numel() and _same_values(tensor, other)
    return batch if is_copy else None


def _share_memory(tensor: Tensor, other: Tensor) -> bool:
    memory = tensor.untyped_storage().data_ptr()
    return bool(memory != 0 and memory == other.untyped_storage().data_ptr())


def _is_laid_out_alike(tensor: Tensor, other: Tensor) -> bool:
    """Whether a view from the same place holds each value of `other` once, and its records where they are.

    An expanded view holds one record many times, and a square batch can be transposed.
    """
    if len(tensor) == len(other) and tensor.stride(0) != other.stride(0):
        return False
    if tensor.is_contiguous() and other.is_contiguous():
        return True
    mine, yours = (sorted(zip(one.stride(), one.shape, strict=True)) for one in (tensor, other))
    return mine == yours


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
