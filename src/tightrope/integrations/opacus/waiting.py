"""Usual steps, counted now and recorded later."""

from collections.abc import Callable
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class WaitingSteps(Generic[Kind]):
    """Steps that wait until someone asks: to record one takes microseconds, to record many takes no longer.

    A kind of step is known by its identity, which takes no time to compare.
    """

    def __init__(self, record: Callable[[Kind, int], None]) -> None:
        self._record = record
        self.kind: Kind | None = None
        self.times = 0

    def add(self, kind: Kind) -> None:
        """One more step of this kind."""
        if kind is self.kind:
            self.times += 1
        else:
            self.flush()
            self.kind, self.times = kind, 1

    def flush(self) -> None:
        """Record them."""
        kind, times = self.kind, self.times
        self.kind, self.times = None, 0
        if kind is not None and times:
            self._record(kind, times)
