"""What a certified curve stands between: covers above and witnesses below, in each branch of a relation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from tightrope.curve.bracket import Decision
from tightrope.engines.face import ABOVE, BELOW, End, Side, check_order
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.table import Analysis

Composed = TypeVar("Composed", covariant=True)


@dataclass(frozen=True)
class ComposedCover(Generic[Composed]):
    """The worst of these curves bounds every neighbouring pair from above, by these theorems."""

    curves: tuple[Composed, ...]
    because: tuple[Evidence, ...]


@dataclass(frozen=True)
class ComposedWitness(Generic[Composed]):
    """Curves that these datasets reach."""

    curves: tuple[Composed, ...]
    datasets: str


@dataclass(frozen=True)
class Branch(Generic[Composed]):
    """One direction of a relation. Covers and witnesses come cheapest first."""

    name: str
    covers: tuple[ComposedCover[Composed], ...]
    witnesses: tuple[ComposedWitness[Composed], ...]

    @staticmethod
    def of(analysis: Analysis, compose: Callable[[Schedule | Game, Side], Composed]) -> "Branch[Composed]":
        """The branch with its schedules composed: a cover needs only the upper end, a witness the lower."""
        return Branch(
            analysis.branch.name,
            tuple(
                ComposedCover(tuple(compose(schedule, ABOVE) for schedule in cover.schedules), cover.because)
                for cover in analysis.covers
            ),
            tuple(
                ComposedWitness((compose(witness.schedule, BELOW),), witness.datasets)
                for witness in analysis.witnesses
            ),
        )


def collect_evidence(analyses: Iterable[Analysis]) -> tuple[Evidence, ...]:
    """Every theorem that an upper end may rest on, each once."""
    return merge_evidence([cover.because for analysis in analyses for cover in analysis.covers])


def merge_evidence(lists: Sequence[tuple[Evidence, ...]]) -> tuple[Evidence, ...]:
    """Each theorem once. Mostly there is one list, and a training loop asks after every step."""
    return lists[0] if len(lists) == 1 else tuple(dict.fromkeys(chain.from_iterable(lists)))


@dataclass(frozen=True)
class DecidedEnds(Generic[End]):
    """A lower and an upper bound, what decided them, and whether work that could narrow them was stopped."""

    lower: End
    upper: End
    decision: Decision
    interrupted: bool = False

    def __post_init__(self) -> None:
        check_order(self.lower, self.upper)
