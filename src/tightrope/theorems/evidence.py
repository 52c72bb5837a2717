"""What a bound rests on: evidence, covers from above and witnesses from below."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tightrope.errors import PYTHON, Words

if TYPE_CHECKING:
    from tightrope.pairs.exchange import Game
    from tightrope.pairs.schedule import Schedule
    from tightrope.setting.relation import Relation


class Standing(Enum):
    """How firmly a statement is established."""

    PROVED = "proved"
    CONJECTURED = "conjectured"
    REFUTED = "refuted"

    def __repr__(self) -> str:
        return self.name


PROVED, CONJECTURED, REFUTED = Standing.PROVED, Standing.CONJECTURED, Standing.REFUTED


@dataclass(frozen=True)
class Evidence:
    """A theorem or a refuted belief. `proof` is the proof note in this package.

    `text` is the statement with settings in braces, as in refusals: each front end writes them in its words.
    """

    name: str
    text: str
    standing: Standing
    reference: str
    proof: str

    @property
    def statement(self) -> str:
        """What is true, or believed, in the words of Python."""
        return self.in_words(PYTHON)

    def in_words(self, words: Words) -> str:
        """The statement as a front end says it."""
        return words.fill(self.text)

    def __str__(self) -> str:
        return f"{self.statement} [{self.standing.value}: {self.reference}]"


@dataclass(frozen=True)
class Cover:
    """A theorem: the worst of these schedules dominates every neighbouring pair of datasets."""

    schedules: "tuple[Schedule | Game, ...]"
    because: tuple[Evidence, ...]


@dataclass(frozen=True)
class Witness:
    """One pair of neighbouring datasets, or an adaptive choice of them: a lower bound without any theorem."""

    schedule: "Schedule | Game"
    datasets: str


@dataclass(frozen=True)
class Analysis:
    """The covers and witnesses of one branch of a relation."""

    branch: "Relation"
    covers: tuple[Cover, ...]
    witnesses: tuple[Witness, ...]
