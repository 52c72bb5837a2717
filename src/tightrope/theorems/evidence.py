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

    def is_at_least(self, trusted: "Standing") -> bool:
        """Whether someone who accepts `trusted` accepts this."""
        order = [Standing.REFUTED, Standing.CONJECTURED, Standing.PROVED]
        return self is not Standing.REFUTED and order.index(self) >= order.index(trusted)


PROVED, CONJECTURED, REFUTED = Standing.PROVED, Standing.CONJECTURED, Standing.REFUTED


@dataclass(frozen=True)
class Evidence:
    """One theorem (or refuted belief): name, statement, standing, reference and the proof note in this package."""

    name: str
    statement: str
    standing: Standing
    reference: str
    proof: str

    def __str__(self) -> str:
        return f"{self.statement} [{self.standing.value}: {self.reference}]"
