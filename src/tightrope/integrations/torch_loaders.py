"""A torch loader that tells, in the main process, which batch it hands to the training loop."""

import copy
import math
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from torch.utils.data import DataLoader, IterableDataset

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.inspect import finish, read_batch_sampler
from tightrope.audit.loaders.words import kind_of, name_class
from tightrope.audit.steps.draws import DrawCounter, HandedBatch, LoaderPass
from tightrope.errors import InvalidSetting

SPLITTING = "opacus.utils.batch_memory_manager.BatchSplittingSampler"
ENOUGH_BITS = 64
CHANGED = "the loader no longer draws its batches as it did when it was looked at"
AGAIN = "the loader drew the batches of an earlier pass once more, as if a seed had been set again"


class Listener(Protocol):
    """Who is told what a loader hands out."""

    def hand_over(self, batch: HandedBatch, data: Any) -> None:
        """The training loop gets `data`, which is `batch`."""

    def end_pass(self) -> None:
        """The training loop asked for a batch after the last one."""

    def doubt(self, why: str) -> None:
        """The loader no longer draws as it did when it was looked at."""


class WatchedIterators:
    """In the place of a loader's `_get_iterator`: iterators that tell of each batch they hand out.

    Workers fetch ahead, but in order: the draws of a pass wait in a queue, and each batch that reaches the
    loop takes the first.
    """

    def __init__(self, loader: Any, whole: "WatchedIterators | None" = None) -> None:
        self.loader = loader
        self.counter: DrawCounter = DrawCounter() if whole is None else whole.counter
        self._drawing: Finding | None = read_drawing(loader) if whole is None else whole._drawing
        self.openings: Openings = Openings(self._drawing) if whole is None else whole.openings
        self._listeners: list[weakref.ref[Any]] = []  # a loader may outlive many trainings
        self.changes = 0

    def listen(self, listener: Listener) -> None:
        """Tell `listener` from now on, as long as it lives."""
        if listener not in self.listeners:
            self._listeners = [one for one in self._listeners if one() is not None] + [weakref.ref(listener)]
            self.changes += 1

    @property
    def listeners(self) -> list[Listener]:
        """Who is told."""
        return [listener for one in self._listeners if (listener := one()) is not None]

    def __call__(self) -> Any:
        """An iterator that tells."""
        self.look_again()
        loader, batches = self.loader, self.loader.batch_sampler
        noted = (NotedParts if kind_of(batches) == SPLITTING else NotedDraws)(batches, self)
        # An iterator asks the loader for its batch sampler once, when it is made. A loader refuses to have it
        # set, and must keep its own: it is inspected by its classes.
        loader.__dict__["batch_sampler"] = noted
        try:
            inner = type(loader)._get_iterator(loader)
        finally:
            loader.__dict__["batch_sampler"] = batches
        return HandingIterator(inner, noted, self)

    def look_again(self) -> None:
        """A pass begins: notice a loader that no longer draws as it did."""
        if read_drawing(self.loader) != self._drawing:
            self.doubt(CHANGED)

    def doubt(self, why: str) -> None:
        """Tell whoever listens that the draws are not what was found."""
        for listener in self.listeners:
            listener.doubt(why)

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedIterators, (self.loader,)  # nobody listens to a copy of a loader


def read_drawing(loader: Any) -> Finding | None:
    """How the batch sampler of a loader draws now, as far as it can be read; nothing is drawn from it."""
    batches = loader.batch_sampler
    try:
        whole = batches.sampler if kind_of(batches) == SPLITTING else batches
        return replace(finish(read_batch_sampler(whole, len(loader.dataset))), notes=())
    except (InvalidSetting, TypeError, NotImplementedError):  # made for another number of records
        return None


class Openings:
    """The first draws of each pass, as far as no two passes share them by chance.

    Draws of s of n records agree by chance once in C(n, s) times, and openings are compared when that makes
    2^64. Only of batches that are sampled afresh: others may come again by right.
    """

    def __init__(self, drawing: Finding | None) -> None:
        self._records = drawing.records if drawing is not None and drawing.sampling is not None else None
        self._seen: set[int] = set()

    def begin(self) -> Callable[[Sequence[int]], bool] | None:
        """What to ask of each draw of a new pass: whether it ends an opening that was seen before."""
        records = self._records
        opening, bits = 0, 0.0

        def is_known(indices: Sequence[int]) -> bool:
            nonlocal opening, bits
            if bits >= ENOUGH_BITS or records is None or not isinstance(indices, list):
                return False
            size = len(indices)
            opening = hash((opening, *indices))
            bits += log2_choices(records, size)
            if bits < ENOUGH_BITS:
                return False
            is_again = opening in self._seen
            self._seen.add(opening)
            return is_again

        return None if records is None else is_known


def log2_choices(records: int, size: int) -> float:
    """How many bits it takes to say which `size` of `records` records, to the accuracy of floats."""
    if size >= records:
        return 0.0
    ways = math.lgamma(records + 1) - math.lgamma(size + 1) - math.lgamma(records - size + 1)
    return ways / math.log(2)


class NotedDraws:
    """Batches of indices, each noted as a draw when an iterator takes it."""

    def __init__(self, batches: Iterable[Any], watched: WatchedIterators) -> None:
        self._batches, self._watched = batches, watched
        self.fetched: deque[HandedBatch] = deque()

    def __iter__(self) -> Iterator[Any]:
        self.fetched = deque()  # what a pass that was broken off had fetched never reaches the loop
        return self._note(self._batches, self._watched.counter.begin_pass(), self.fetched)

    def _note(
        self, batches: Iterable[Any], loader_pass: LoaderPass, fetched: deque[HandedBatch]
    ) -> Iterator[Any]:
        is_known = self._watched.openings.begin()
        for indices in batches:
            if is_known is not None and is_known(indices):
                self._watched.doubt(AGAIN)
            fetched.append(self._watched.counter.draw(loader_pass, indices))
            yield indices

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


class NotedParts(NotedDraws):
    """The parts into which Opacus' splitting sampler cuts each draw."""

    def _note(self, batches: Any, loader_pass: LoaderPass, fetched: deque[HandedBatch]) -> Iterator[Any]:
        splitting, latest = copy.copy(batches), deque[HandedBatch](maxlen=1)
        splitting.sampler = super()._note(batches.sampler, loader_pass, latest)
        whole, start = None, 0
        for indices in splitting:
            if latest[0] is not whole:
                whole, start = latest[0], 0
            fetched.append(whole.cut(start, len(indices)))
            start += len(indices)
            yield indices


class HandingIterator:
    """An iterator of a loader that tells of each batch when it hands it over."""

    def __init__(self, inner: Any, noted: NotedDraws, watched: WatchedIterators) -> None:
        self._inner, self._noted, self._watched = inner, noted, watched
        self._listeners, self._changes = watched.listeners, watched.changes

    def __iter__(self) -> "HandingIterator":
        return self

    def __next__(self) -> Any:
        if self._changes != self._watched.changes:
            self._listeners, self._changes = self._watched.listeners, self._watched.changes
        try:
            data = next(self._inner)
        except StopIteration:
            for listener in self._listeners:
                listener.end_pass()
            raise
        batch = self._noted.fetched.popleft()
        for listener in self._listeners:
            listener.hand_over(batch, data)
        return data

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A loader that keeps its workers begins another pass with the same iterator."""
        self._watched.look_again()
        self._inner._reset(loader, first_iter)

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def why_blind(loader: Any) -> str:
    """Why the batches that a loader hands out cannot be tied to its draws; empty if they can."""
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__:
        return f"{name_class(loader)} hands out its batches in a way of its own"
    if loader.batch_sampler is None or isinstance(loader.dataset, IterableDataset):
        return "the dataset makes the batches, not the loader"
    if not getattr(loader, "in_order", True):
        return "with in_order=False batches do not come in the order in which they were drawn"
    return ""


def watched_iterators(loader: Any) -> WatchedIterators | None:
    """What makes the iterators of a loader that is watched."""
    found = vars(loader).get("_get_iterator") if hasattr(loader, "__dict__") else None
    return found if isinstance(found, WatchedIterators) else None


def listen(loader: Any, listener: Listener) -> None:
    """From now on `listener` is told of every batch that `loader` hands out, with the draw that it is."""
    watched = watched_iterators(loader)
    if watched is None:
        watched = loader._get_iterator = WatchedIterators(loader)
    watched.listen(listener)


def listen_to_parts(parts: Any, loader: Any) -> None:
    """Whoever listens to `loader` is told of `parts`, a loader that hands out its draws in parts."""
    watched = watched_iterators(loader)
    if watched is not None:
        parts._get_iterator = of_parts = WatchedIterators(parts, watched)
        for listener in watched.listeners:
            of_parts.listen(listener)
