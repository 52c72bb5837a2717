"""The theorem table: one function, one row. Importing a file of theorems fills it."""

from collections.abc import Callable
from dataclasses import dataclass

from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import Sampling
from tightrope.theorems.evidence import PROVED, REFUTED, Evidence, Standing

ROWS: "list[TheoremRow]" = []
REFUTED_BELIEFS: list[Evidence] = []


@dataclass(frozen=True)
class TheoremRow:
    """For which steps and relation a theorem gives the dominating pair, and which datasets attain it."""

    evidence: Evidence
    mechanisms: tuple[type[Mechanism], ...]
    sampling: type[Sampling]
    relation: Relation
    pair: Callable[[Step], Pair]
    attained_by: str
    needs: Callable[[Step], str | None]

    def matches(self, mechanism: type[Mechanism], sampling: type[Sampling], relation: Relation) -> bool:
        """Whether the row is about these kinds of mechanism, sampling and relation."""
        return mechanism in self.mechanisms and sampling is self.sampling and relation is self.relation


def theorem(
    *,
    mechanisms: tuple[type[Mechanism], ...],
    sampling: type[Sampling],
    relation: Relation,
    reference: str,
    proof: str,
    attained_by: str,
    standing: Standing = PROVED,
    needs: Callable[[Step], str | None] = lambda step: None,
) -> Callable[[Callable[[Step], Pair]], Callable[[Step], Pair]]:
    """Enter a function in the table. Its docstring is the statement.

    `needs` names the hypothesis that a step misses, or None.
    """

    def enter(pair: Callable[[Step], Pair]) -> Callable[[Step], Pair]:
        statement = " ".join((pair.__doc__ or "").split())
        evidence = Evidence(pair.__name__, statement, standing, reference, proof)
        ROWS.append(TheoremRow(evidence, mechanisms, sampling, relation, pair, attained_by, needs))
        return pair

    return enter


def refute(*, name: str, belief: str, counterexample: str, reference: str, proof: str) -> None:
    """Enter a belief that is false, with its counterexample."""
    REFUTED_BELIEFS.append(Evidence(name, f"{belief} False: {counterexample}", REFUTED, reference, proof))
