"""What a bound rests on: a statement, its standing in the literature, and where its proof is."""

from dataclasses import dataclass
from enum import Enum


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
    """A theorem or a refuted belief. `proof` is the proof note in this package."""

    name: str
    statement: str
    standing: Standing
    reference: str
    proof: str

    def __str__(self) -> str:
        return f"{self.statement} [{self.standing.value}: {self.reference}]"
