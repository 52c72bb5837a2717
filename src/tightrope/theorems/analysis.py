"""What the theorems say about one run: covers from above, witnesses from below."""

from dataclasses import dataclass

from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import Relation
from tightrope.theorems.evidence import Evidence


@dataclass(frozen=True)
class Cover:
    """A theorem: the worst of these schedules dominates every neighbouring pair of datasets."""

    schedules: tuple[Schedule | Game, ...]
    because: tuple[Evidence, ...]


@dataclass(frozen=True)
class Witness:
    """One concrete pair of neighbouring datasets, or an adaptive choice of them: a lower bound without any theorem."""

    schedule: Schedule | Game
    datasets: str


@dataclass(frozen=True)
class Analysis:
    """Covers and witnesses of one branch of a relation."""

    branch: Relation
    covers: tuple[Cover, ...]
    witnesses: tuple[Witness, ...]
