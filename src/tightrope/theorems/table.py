"""The theorem table, one function, one row, and what it gives: covers from above, witnesses from below.

Importing a file of theorems fills the table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tightrope.errors import NoTheorem
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.exchange import Game
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import Sampling
from tightrope.theorems.evidence import PROVED, REFUTED, Evidence, Standing

Steps = tuple[tuple[Pair, int], ...]  # pairs, and how often each is played

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
    reached: Callable[[Step], Pair] | None = None  # by these datasets, where it is not the dominating pair

    def matches(self, mechanism: type[Mechanism], sampling: type[Sampling], relation: Relation) -> bool:
        """Whether the row is about these kinds of mechanism, sampling and relation."""
        return mechanism in self.mechanisms and sampling is self.sampling and relation is self.relation


@dataclass(frozen=True)
class StepBounds:
    """Of so many steps of one kind: what bounds them, what does if batches are revealed, what is reached."""

    above: Steps
    revealed: Steps
    reached: Steps


@dataclass(frozen=True)
class Cover:
    """A theorem: the worst of these schedules dominates every neighbouring pair of datasets."""

    schedules: tuple[Schedule | Game, ...]
    because: tuple[Evidence, ...]


@dataclass(frozen=True)
class Witness:
    """One pair of neighbouring datasets, or an adaptive choice of them: a lower bound without any theorem."""

    schedule: Schedule | Game
    datasets: str


@dataclass(frozen=True)
class Analysis:
    """The covers and witnesses of one branch of a relation."""

    branch: Relation
    covers: tuple[Cover, ...]
    witnesses: tuple[Witness, ...]


def refuse_counts(analyses: Iterable[Analysis], what: str) -> None:
    """Refuse sampled groups of records, where `what` composes pairs of one record only."""
    covers = (cover for analysis in analyses for cover in analysis.covers)
    schedules = (one for cover in covers for one in cover.schedules if isinstance(one, Schedule))
    if any(isinstance(pair, CountedPair) for schedule in schedules for pair, _ in schedule):
        remedy = "Ask {Certified}, which knows their curve from above and from below."
        raise NoTheorem(f"{what} for sampled groups of records are not worked out here", remedy)


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
    reached: Callable[[Step], Pair] | None = None,
) -> Callable[[Callable[[Step], Pair]], Callable[[Step], Pair]]:
    """Enter a function in the table. Its docstring is the statement.

    `needs` names the hypothesis that a step misses, or None. `reached` is the pair of the datasets
    `attained_by`, where they do not attain the dominating one.
    """

    def enter(pair: Callable[[Step], Pair]) -> Callable[[Step], Pair]:
        statement = " ".join((pair.__doc__ or "").split())
        evidence = Evidence(pair.__name__, statement, standing, reference, proof)
        row = TheoremRow(evidence, mechanisms, sampling, relation, pair, attained_by, needs, reached)
        ROWS.append(row)
        return pair

    return enter


def refute(*, name: str, belief: str, counterexample: str, reference: str, proof: str) -> None:
    """Enter a belief that is false, with its counterexample."""
    REFUTED_BELIEFS.append(Evidence(name, f"{belief} False: {counterexample}", REFUTED, reference, proof))
