"""A torch loader that tells, in the main process, which batch it hands to the training loop."""

import copy
import math
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from torch.utils.data import DataLoader, IterableDataset

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.words import kind_of, name_class
from tightrope.audit.steps.draws import Draw, HandedBatch, LoaderPass
from tightrope.errors import InvalidSetting

SPLITTING = "opacus.utils.batch_memory_manager.BatchSplittingSampler"
ENOUGH_BITS = 64
CHANGED = "the loader no longer draws its batches as it did when it was looked at"
AGAIN = "the loader drew the batches of an earlier pass once more, as if a seed had been set again"


class Listener(Protocol):
    """Who is told what a loader hands out; `openings` are those of all passes that it heard of."""

    openings: set[int]

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
        self.numbers: Iterator[int] = count() if whole is None else whole.numbers  # of draws
        self._drawing: Finding | None = None
        # a copy is made before its attributes are: it has nothing to read yet, and nobody listens to it
        if whole is not None:
            self._drawing = whole._drawing
        elif hasattr(loader, "batch_sampler"):
            self._drawing = read_drawing(loader)
        self._openings: set[int] = set() if whole is None else whole._openings
        self._making = threading.RLock()  # an iterator: two threads may each begin a pass
        self._listeners: list[weakref.ref[Any]] = []  # a loader may outlive many trainings
        self._iterators: weakref.WeakSet[HandingIterator] = weakref.WeakSet()

    def listen(self, listener: Listener) -> None:
        """Tell `listener` from now on, as long as it lives."""
        if listener not in self.listeners:
            if not self._listeners and self._drawing is None:  # of a copy
                self._drawing = read_drawing(self.loader)
            self._listeners = [one for one in self._listeners if one() is not None] + [weakref.ref(listener)]
            for iterator in list(self._iterators):
                iterator.prepare()

    @property
    def listeners(self) -> list[Listener]:
        """Who is told."""
        return [listener for one in self._listeners if (listener := one()) is not None]

    def __call__(self) -> Any:
        """An iterator that tells."""
        loader = self.loader
        with self._making:
            self.look_again()
            batches = loader.batch_sampler
            noted = (NotedParts if kind_of(batches) == SPLITTING else NotedDraws)(batches, self)
            # An iterator asks the loader for its batch sampler once, when it is made. A loader refuses to
            # have it set, and must keep its own: it is inspected by its classes.
            loader.__dict__["batch_sampler"] = noted
            try:
                inner = type(loader)._get_iterator(loader)
            finally:
                loader.__dict__["batch_sampler"] = batches
        made = HandingIterator(inner, noted, self)
        self._iterators.add(made)
        return made

    def look_again(self) -> None:
        """A pass begins: notice a loader that no longer draws as it did."""
        with self._making:
            drawing = read_drawing(self.loader)
        if drawing != self._drawing:
            for listener in self.listeners:
                listener.doubt(CHANGED)

    def begin_opening(self) -> "Opening | None":
        """What tells the pass that begins now from others; None where batches may come again by right."""
        drawing = self._drawing
        if drawing is None or drawing.sampling is None or drawing.records is None:
            return None
        return Opening(drawing.records)

    def compare_opening(self, digest: int) -> None:
        """Notice a pass that opens like an earlier one of this loader, or of another that was heard of."""
        for listener in self.listeners:
            if digest in self._openings or digest in listener.openings:
                listener.doubt(AGAIN)
            listener.openings.add(digest)
        self._openings.add(digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedIterators, (self.loader,)  # nobody listens to a copy of a loader


def read_drawing(loader: Any) -> Finding | None:
    """How the batch sampler of a loader draws now, as far as it can be read; nothing is drawn from it."""
    from tightrope.audit.loaders.inspect import finish, read_batch_sampler  # a short chain at load time

    batches = loader.batch_sampler
    try:
        whole = batches.sampler if kind_of(batches) == SPLITTING else batches
        return replace(finish(read_batch_sampler(whole, len(loader.dataset))), notes=())
    except (InvalidSetting, TypeError, NotImplementedError):  # made for another number of records
        return None


class Opening:
    """The first draws of a pass, as many as it takes that no two passes share them by chance.

    Draws of s of n records agree by chance once in C(n, s) times; an opening ends when that makes 2^64.
    """

    def __init__(self, records: int) -> None:
        self._records, self._bits = records, 0.0
        self.digest = 0

    def ends_with(self, indices: Sequence[int]) -> bool:
        """Whether this draw, the next one, ends the opening."""
        self.digest = hash((self.digest, *indices))
        self._bits += log2_choices(self._records, len(indices))
        return self._bits >= ENOUGH_BITS


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
        return self._note(self._batches, LoaderPass(self._watched.numbers), self.fetched)

    def _note(
        self, batches: Iterable[Any], loader_pass: LoaderPass, fetched: deque[HandedBatch]
    ) -> Iterator[Any]:
        watched, opening = self._watched, self._watched.begin_opening()
        for indices in batches:
            if opening is not None and opening.ends_with(indices):
                watched.compare_opening(opening.digest)
                opening = None
            fetched.append(Draw(loader_pass, len(indices)))
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
        self.prepare()

    def prepare(self) -> None:
        """Look up what each batch needs: its draw, and whom to tell."""
        self._listeners = self._watched.listeners
        self._take_draw = self._noted.fetched.popleft
        is_one = len(self._listeners) == 1
        self._tell = self._listeners[0].hand_over if is_one else self._tell_everyone

    def __iter__(self) -> "HandingIterator":
        return self

    def __next__(self) -> Any:
        try:
            data = next(self._inner)
        except StopIteration:
            for listener in self._listeners:
                listener.end_pass()
            raise
        self._tell(self._take_draw(), data)
        return data

    def _tell_everyone(self, batch: HandedBatch, data: Any) -> None:
        for listener in self._listeners:
            listener.hand_over(batch, data)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A loader that keeps its workers begins another pass with the same iterator."""
        self._watched.look_again()
        self._inner._reset(loader, first_iter)
        self.prepare()

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


def numbers_of(loader: Any) -> Iterator[int]:
    """The numbers of the draws of a loader to come; none where nobody listens to it."""
    watched = watched_iterators(loader)
    return iter(()) if watched is None else watched.numbers


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
