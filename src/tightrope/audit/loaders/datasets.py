"""How often each record of a dataset is there, as far as the structure of the dataset tells."""

import sys
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.audit.loaders.words import count, kind_of, name_class

Indices = NDArray[np.int64]
Piece = range | Indices
Numbers = tuple[Piece, ...]  # one number per index, equal where two indices give the same record

MOST_MARKS = 10**8  # one byte each, for the records that may be named; beyond it indices are sorted instead

SUBSET = "torch.utils.data.dataset.Subset"
JOINED = "torch.utils.data.dataset.ConcatDataset"
STACKED = "torch.utils.data.dataset.StackDataset"
TENSORS = "torch.utils.data.dataset.TensorDataset"
HUGGING_FACE = "datasets.arrow_dataset.Dataset"
LISTS = ("builtins.list", "builtins.tuple")
ATOMS = (int, float, str, bytes, np.generic, type(None))
RANGE, ARRAY, TENSOR = "builtins.range", "numpy.ndarray", "torch.Tensor"


@dataclass(frozen=True, kw_only=True)
class RecordCopies:
    """How often one record is there: at most `most` times, None where classes are free to repeat some.

    `distinct` counts the different records. `unread` names classes whose records cannot be told apart by
    index; `why_not` says why nothing is known at all.
    """

    most: int | None = None
    distinct: int | None = None
    unread: tuple[str, ...] = ()
    why_not: str = ""


class RowsView(NamedTuple):
    """Where the rows of an array are: all in bytes, from the `size` of `memory` that it is a view of."""

    begins: int
    row: int
    shape: tuple[int, ...]
    memory: int
    size: int


def _view_tensor(tensor: Any) -> RowsView:
    held, row = tensor.untyped_storage(), tensor.stride(0) * tensor.element_size()
    return RowsView(tensor.data_ptr(), row, tuple(tensor.shape), held.data_ptr(), held.nbytes())


def _view_array(array: NDArray[Any]) -> RowsView:
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    memory, end = np.lib.array_utils.byte_bounds(base)
    return RowsView(array.__array_interface__["data"][0], array.strides[0], array.shape, memory, end - memory)


class UnreadableDataset(Exception):
    """A dataset that holds another and gives its records in a way that cannot be read."""


def count_copies(dataset: Any) -> RecordCopies:
    """How often one record of a dataset is there, through all that selects, joins or wraps records.

    >>> count_copies([10, 20, 30]).most
    1
    """
    numbering = _Numbering()
    try:
        numbers = numbering.number(dataset)
        most, distinct = _count(numbers, numbering.size)
    except UnreadableDataset as reason:
        return RecordCopies(why_not=str(reason))
    except (TypeError, NotImplementedError):
        return RecordCopies(why_not=f"a dataset that {name_class(dataset)} holds has no length")
    unread = tuple(dict.fromkeys(numbering.unread))
    return RecordCopies(most=None if unread and most == 1 else most, distinct=distinct, unread=unread)


def as_indices(named: Any) -> range | Indices:
    """Indices in whichever form they are kept, without a Python object for each where that can be."""
    if isinstance(named, range):
        return named
    if isinstance(named, list) and named and type(named[0]) in (int, np.int64):
        try:
            return np.fromiter(named, np.int64, len(named))  # half the time of np.asarray
        except (TypeError, ValueError, OverflowError):
            raise UnreadableDataset("its indices are not whole numbers") from None
    try:
        found = np.asarray([int(one) for one in named] if isinstance(named, list | tuple) else named)
    except (TypeError, ValueError, OverflowError):
        raise UnreadableDataset("its indices are not whole numbers") from None
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise UnreadableDataset("its indices are not a row of whole numbers")
    return found.astype(np.int64, copy=False)


def as_array(indices: range | Indices) -> Indices:
    """Indices as an array; numpy would read a range number by number."""
    return np.arange(indices.start, indices.stop, indices.step) if isinstance(indices, range) else indices


class _Numbering:
    """Numbers for the records of datasets, the same one for a record however it is reached."""

    def __init__(self) -> None:
        self.size = 0
        self.unread: list[str] = []
        self._starts: dict[object, int] = {}
        self._open: list[int] = []  # what is being read, lest a dataset that holds its owner be read forever

    def number(self, dataset: Any) -> Numbers:
        """The number of the record behind each index of a dataset."""
        kind = kind_of(dataset)
        if kind == SUBSET:
            return _pick(self.number(dataset.dataset), dataset.indices, of=dataset)
        if kind == JOINED:
            return self._join(dataset.datasets)
        if kind == HUGGING_FACE:
            return self._number_table(dataset)
        if kind == TENSORS:
            return self._number_rows(list(map(_view_tensor, dataset.tensors)), len(dataset))
        if kind in LISTS:
            return self._number_objects(dataset)
        if kind == TENSOR:
            return self._number_rows([_view_tensor(dataset)], len(dataset))
        if kind == ARRAY:
            return self._number_array(dataset)
        if kind == RANGE:
            return self._own(id(dataset), len(dataset))
        return self._number_wrapper(dataset, known=kind == STACKED)

    def _own(self, key: object, records: int) -> Numbers:
        """Numbers for records that are told apart by index."""
        if key not in self._starts:
            self._starts[key] = self.size
            self.size += records
        return (range(self._starts[key], self._starts[key] + records),)

    def _number_rows(self, views: list[RowsView], records: int) -> Numbers:
        """Rows of arrays by where they are in memory: two datasets may be made of parts of the same ones."""
        places: list[object] = []
        firsts: set[int] = set()
        total = sys.maxsize
        for view in views:
            if view.row == 0 or 0 in view.shape:  # one row in the place of all, where it is not empty
                firsts.add(0 if 0 in view.shape else -1)
                places.append((view.begins, view.shape, 0))
                continue
            start, rest = divmod(view.begins - view.memory, view.row)
            firsts.add(start)
            places.append((view.memory, view.shape[1:], (view.row, rest)))
            total = min(total, -(-view.size // view.row))
        if firsts == {-1}:
            (one,) = self._own(tuple(places), 1)
            return (np.full(records, one[0], dtype=np.int64),)
        start = firsts.pop()
        if firsts or start < 0 or start + records > total:
            return self._own(tuple((view.begins, view.shape, view.row) for view in views), records)
        (rows,) = self._own(tuple(places), total)
        return (rows[start : start + records],)

    def _number_array(self, array: Any) -> Numbers:
        """The rows of an array by where they are in memory, or its objects."""
        if array.dtype == object and array.ndim == 1:
            return self._number_objects(array)
        return self._number_rows([_view_array(array)], len(array))

    def _number_objects(self, dataset: Any) -> Numbers:
        """A list of records: one that is there twice as the same object is one record."""
        if not len(dataset) or isinstance(dataset[0], ATOMS):  # equal numbers may be one object
            return self._own(id(dataset), len(dataset))
        each = np.fromiter(map(id, dataset), np.int64, len(dataset))
        (own,) = self._own(id(dataset), len(dataset))
        # objects that were made one after the other mostly lie so in memory, which a stable sort makes use of
        if np.diff(np.sort(each, kind="stable")).all():
            return (own,)
        return (np.unique(each, return_inverse=True)[1] + own[0],)

    def _join(self, datasets: Iterable[Any]) -> Numbers:
        return tuple(piece for dataset in datasets for piece in self.number(dataset))

    def _number_table(self, dataset: Any) -> Numbers:
        """The rows of a Hugging Face dataset: its table, part by part, then its selection of rows."""
        column = dataset._data.column(0)
        numbers: Numbers = ()
        for part in column.chunks:
            places = tuple(buffer and buffer.address for buffer in part.buffers())
            numbers += self._own((places, part.offset, len(part)), len(part))
        if dataset._indices is None:
            return numbers
        return _pick(numbers, dataset._indices.column(0).to_numpy(), of=dataset)

    def _number_wrapper(self, dataset: Any, *, known: bool) -> Numbers:
        """A class that is not known: what it holds, if it can be index for index, and else a refusal."""
        held = [] if id(dataset) in self._open else _list_held(dataset)
        self.unread += [] if known else [name_class(dataset)]
        if not held:
            return self._own(id(dataset), len(dataset))
        self._open.append(id(dataset))
        found = [self.number(inner) for inner in held]
        self._open.pop()
        records, sizes = len(dataset), list(map(_size, found))
        selects = vars(dataset).get("indices")
        if len(held) == 1 and isinstance(selects, Sized) and len(selects) == records:
            return _pick(found[0], selects, of=dataset)
        if set(sizes) == {records}:
            # each index gives a part of a record of each: the one that is repeated most counts
            return max(found, key=lambda numbers: _count(numbers, self.size)[0])
        if len(held) > 1 and sum(sizes) == records:
            return sum(found, ())
        raise _refuse_wrapper(dataset, held, sizes)


def _refuse_wrapper(dataset: Any, held: list[Any], sizes: list[int]) -> UnreadableDataset:
    parts = [
        f"{name_class(inner)} of {count(size, 'record')}" for inner, size in zip(held, sizes, strict=True)
    ]
    holds = f"{name_class(dataset)} of {count(len(dataset), 'record')} holds {' and '.join(parts)}"
    return UnreadableDataset(f"{holds}, and which of them it gives how often is not known")


def _list_held(dataset: Any) -> list[Any]:
    """The datasets in the attributes of a class that is not known."""
    own: Mapping[str, Any] = getattr(dataset, "__dict__", {})
    found: dict[int, Any] = {}
    for name, value in own.items():
        several = list(value.values()) if isinstance(value, dict) else value
        is_list = isinstance(several, list | tuple) and len(several) > 0
        for inner in several if is_list and _is_dataset(several[0]) else [value]:
            if _is_dataset(inner) or (name == "dataset" and _gives_records(inner)):
                found[id(inner)] = inner
    return list(found.values())


def _is_dataset(value: object) -> bool:
    modules = (sys.modules.get("torch.utils.data"), sys.modules.get("datasets"))
    kinds = [getattr(module, "Dataset", None) for module in modules]
    return isinstance(value, tuple(filter(None, kinds))) and _gives_records(value)


def _gives_records(value: object) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _size(numbers: Numbers) -> int:
    return sum(map(len, numbers))


def _flatten(numbers: Numbers) -> Indices:
    arrays = list(map(as_array, numbers))
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _pick(numbers: Numbers, named: Any, *, of: Any) -> Numbers:
    """The numbers at some indices, which count from the end where they are negative."""
    try:
        indices = as_indices(named)
    except UnreadableDataset as reason:
        raise UnreadableDataset(f"{name_class(of)} cannot be read, since {reason}") from None
    if len(indices) == 0:
        return ()
    total, one = _size(numbers), numbers[0] if len(numbers) == 1 else None
    low, high = _find_ends(indices)
    if high >= total or low < -total:
        beyond = high if high >= total else low
        raise UnreadableDataset(f"{name_class(of)} names index {beyond:,} of {count(total, 'record')}")
    if isinstance(one, range) and low >= 0:  # without a table of all numbers
        if isinstance(indices, range):
            return (range(one[indices[0]], one[indices[-1]] + indices.step, indices.step),)
        return (indices + one.start if one.start else indices,)
    return (_flatten(numbers)[as_array(indices)],)


def _find_ends(indices: range | Indices) -> tuple[int, int]:
    if isinstance(indices, range):
        first, last = sorted((indices[0], indices[-1]))
        return first, last
    return int(indices.min()), int(indices.max())


def _count(numbers: Numbers, size: int) -> tuple[int, int]:
    """How often the most frequent of some numbers below `size` comes, and how many are different."""
    drawn = _size(numbers)
    blocks = [piece for piece in numbers if isinstance(piece, range) and piece.step == 1]
    if len(blocks) == len(numbers):
        ordered = sorted(blocks, key=lambda block: block.start)
        if all(a.stop <= b.start for a, b in pairwise(ordered)):
            return 1, drawn
    flat = _flatten(numbers)
    if size > MOST_MARKS:
        times = np.unique(flat, return_counts=True)[1]
        return int(times.max()), len(times)
    marks = np.zeros(size, dtype=bool)  # a byte each stays in the cache, where counts would not
    marks[flat] = True
    distinct = int(np.count_nonzero(marks))
    return (1 if distinct == drawn else int(np.bincount(flat).max())), distinct
