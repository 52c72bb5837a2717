"""What a bound rests on: a statement, its standing in the literature, and where its proof is."""

from dataclasses import dataclass
from enum import Enum

from tightrope.errors import PYTHON, Words


class Standing(Enum):
    """How firmly a statement is established.

    >>> PROVED, CONJECTURED.value, Standing("refuted") is REFUTED
    (PROVED, 'conjectured', True)
    """

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

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    >>> theorem = tr.privacy_curve(step, relation=tr.REMOVE).because[0]
    >>> theorem.name, theorem.standing, theorem.proof
    ('full_batch_remove', PROVED, 'proofs/full_batch.md')
    """

    name: str
    text: str
    standing: Standing
    reference: str
    proof: str

    def __hash__(self) -> int:
        return hash(self.name)  # which a text keeps; every answer collects its evidence

    @property
    def statement(self) -> str:
        """What is true, or believed, in the words of Python."""
        return self.in_words(PYTHON)

    def in_words(self, words: Words) -> str:
        """The statement as a front end says it."""
        return words.fill(self.text)

    @property
    def in_full(self) -> str:
        """The name, the statement, how it stands and where it is from."""
        return f"{self.name}: {self}"

    def __str__(self) -> str:
        return f"{self.statement} [{self.standing.value}: {self.reference}]"
