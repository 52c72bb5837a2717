"""Usual steps, counted now and recorded later."""

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Kind = TypeVar("Kind")


class WaitingSteps(Generic[Kind]):
    """Steps that wait until someone asks: to record one takes microseconds, to record many takes no longer.

    A kind of step is known by its identity, which takes no time to compare.
    """

    def __init__(self, record: Callable[[Kind, int], None]) -> None:
        self._record = record
        self._kind: Kind | None = None
        self._times = 0
        self.most: float = math.inf  # steps that may wait together: after them `usual` is asked anew

    def hook(self, *, usual: Callable[[float], Kind], other: Callable[[Any], None]) -> Callable[[Any], None]:
        """What an optimizer calls at each step: a usual one waits, any other is recorded by `other`.

        `usual` makes the kind of the steps to come from the noise of the first; nothing waits at that time.
        """
        latest_noise, latest = math.nan, None

        def record(optimizer: Any) -> None:
            nonlocal latest_noise, latest
            try:
                is_usual = optimizer.tightrope_watch.checks.usual is not None
            except AttributeError:  # nobody watches it
                is_usual = False
            if not is_usual:
                other(optimizer)
            elif (
                optimizer.noise_multiplier == latest_noise
                and self._kind is latest
                and self._times < self.most
            ):
                self._times += 1
            else:
                self.flush()
                latest_noise = float(optimizer.noise_multiplier)
                self._kind, self._times = usual(latest_noise), 1
                latest = self._kind

        return record

    def flush(self) -> None:
        """Record them."""
        kind, times = self._kind, self._times
        self._kind, self._times = None, 0
        if kind is not None and times:
            self._record(kind, times)
