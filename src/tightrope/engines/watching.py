"""Long work tells what begins, and about how long it takes, to whoever watches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from tightrope.engines.face import Progress
from tightrope.errors import StopWork


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A piece of work that may take long: what it is, about how long it takes, and what answers sooner.

    `piece` tells it from other work. `seconds` are those of one core of the machine on which the costs were
    measured, with nothing else to do, or None where only trying tells. What is done is counted from 1 to the
    end once, or anew in each of several `rounds`. Work that `scales_with` a setting takes half as long at
    half its value. `memory` is in bytes. Texts name settings in braces, as refusals do.
    """

    piece: Hashable
    what: str
    seconds: float | None
    instead: str = ""
    rounds: bool = False
    scales_with: tuple[str, int] | None = None
    memory: float = 0.0


class Watcher(ABC):
    """A `progress` that is also told what begins. In both cases it may raise `StopWork`."""

    @abstractmethod
    def begin(self, work: Workload) -> None:
        """Hear what begins; what was done before and is kept does not begin again."""

    @abstractmethod
    def __call__(self, done: int, of: int) -> None:
        """Hear how much of it is done."""


class Rehearsal(Watcher):
    """Notes what would begin and stops it: the answer is then what is known in milliseconds."""

    def __init__(self) -> None:
        self.noted: dict[Hashable, Workload] = {}

    def begin(self, work: Workload) -> None:
        """Note it, and stop it."""
        self.noted[work.piece] = work
        raise StopWork

    def __call__(self, done: int, of: int) -> None:
        """Stop what began unannounced."""
        raise StopWork


def begin_work(progress: Progress | None, foresee: Callable[[], Workload]) -> None:
    """Tell a watcher what begins; a plain function is told only what is done."""
    if isinstance(progress, Watcher):
        progress.begin(foresee())
