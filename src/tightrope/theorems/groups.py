"""Groups of records, such as all of one user: which pair dominates a step that up to m of them join."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tightrope.errors import NoTheorem
from tightrope.pairs.counted import CountedPair, CountMixture, binomial_counts, hypergeometric_counts
from tightrope.pairs.group_pass import GroupPass
from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.theorems.evidence import PROVED, Evidence
from tightrope.theorems.worst_pairs import StepLaws, sum_moves_by

PARTICIPATION, GROUPS = "proofs/participation.md", "proofs/groups.md"
MOST_COUNTED = 64  # records of a group whose counts are followed one by one
GENERIC_BOUND = (
    "What always holds: if one record is (epsilon, delta)-private, {group} are ({group} epsilon, S delta)-"
    "private, S the sum of e^(i epsilon) over i from 0 to {last}; epsilon_one_by_one of Python works it out."
)


@dataclass(frozen=True)
class GroupRow:
    """For which steps and relation a theorem gives the pair that dominates a group of so many records."""

    evidence: Evidence
    mechanisms: tuple[type[Mechanism], ...]
    sampling: type[Sampling]
    relation: Relation
    pair: Callable[[Step, int], Pair]
    attained_by: str
    needs: Callable[[Step, int], str | None]

    def matches(self, mechanism: type[Mechanism], sampling: type[Sampling], relation: Relation) -> bool:
        """Whether the row is about these kinds of mechanism and sampling, and groups under this relation."""
        return mechanism in self.mechanisms and sampling is self.sampling and relation.single is self.relation


GROUP_ROWS: list[GroupRow] = []


def _group_theorem(
    *,
    mechanisms: tuple[type[Mechanism], ...],
    sampling: type[Sampling],
    relation: Relation,
    reference: str,
    proof: str,
    attained_by: str,
    needs: Callable[[Step, int], str | None] = lambda step, group: None,
) -> Callable[[Callable[[Step, int], Pair]], Callable[[Step, int], Pair]]:
    """Enter a function in the table of groups. Its docstring is the statement."""

    def enter(pair: Callable[[Step, int], Pair]) -> Callable[[Step, int], Pair]:
        statement = " ".join((pair.__doc__ or "").split())
        evidence = Evidence(pair.__name__, statement, PROVED, reference, proof)
        GROUP_ROWS.append(GroupRow(evidence, mechanisms, sampling, relation, pair, attained_by, needs))
        return pair

    return enter


def _full_batch(step: Step, relation: Relation) -> StepLaws:
    return StepLaws(step.mechanism, sum_moves_by(step.sampling, relation), Fraction(1))


_SUM_MOVES = "Balle, Wang 2018 (Gaussian); Dwork et al. 2006 (Laplace); a group moves the sum m times as far"


@_group_theorem(
    mechanisms=(Gaussian, Laplace),
    sampling=EveryRecord,
    relation=REMOVE,
    reference=_SUM_MOVES,
    proof=GROUPS,
    attained_by="D = (0, ..., 0, 1, ..., 1), which ends with the group, and D' = (0, ..., 0)",
)
def group_full_batch_remove(step: Step, group: int) -> Pair:
    """Removing m records moves the sum by at most m C: (N(m), N(0))."""
    return _full_batch(step, REMOVE.of(group)).remove()


@_group_theorem(
    mechanisms=(Gaussian, Laplace),
    sampling=EveryRecord,
    relation=ADD,
    reference=_SUM_MOVES,
    proof=GROUPS,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1, ..., 1), which ends with the group",
)
def group_full_batch_add(step: Step, group: int) -> Pair:
    """Adding m records moves the sum by at most m C: (N(0), N(m))."""
    return _full_batch(step, ADD.of(group)).add()


@_group_theorem(
    mechanisms=(Gaussian, Laplace),
    sampling=EveryRecord,
    relation=SUBSTITUTE,
    reference=_SUM_MOVES,
    proof=GROUPS,
    attained_by="D = (0, ..., 0, 1, ..., 1) and D' = (0, ..., 0, -1, ..., -1), which end with the group",
)
def group_full_batch_substitute(step: Step, group: int) -> Pair:
    """Exchanging m records moves the sum by at most 2 m C: (N(2m), N(0))."""
    return _full_batch(step, SUBSTITUTE.of(group)).remove()


def _counts(step: Step, group: int) -> CountMixture:
    """Where the sum is with the group, in noise scales, if without it the sum is at 0."""
    assert isinstance(step.mechanism, Gaussian)
    if isinstance(step.sampling, WithoutReplacement):
        weights = hypergeometric_counts(group, step.sampling.batch, step.sampling.population)
    else:
        weights = binomial_counts(group, step.sampling.exact_rate)
    each = Fraction(sum_moves_by(step.sampling, REMOVE))
    return CountMixture(weights, each / step.mechanism.exact_noise_multiplier)


def _lacks_small_group(step: Step, group: int) -> str | None:
    if group <= MOST_COUNTED:
        return None
    looser = "{EveryRecord}, which ignores the amplification by sampling"
    if isinstance(step.sampling, WithoutReplacement):  # others come in, and a sum moves twice as far
        looser += ", at half the noise"
    return (
        f"a group of {group:,} records is larger than the {MOST_COUNTED} that are counted one by one here "
        f"(looser but valid: {looser})"
    )


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=Poisson,
    relation=REMOVE,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1, ..., 1), which ends with the group, and D' = (0, ..., 0)",
    needs=_lacks_small_group,
)
def group_poisson_remove(step: Step, group: int) -> Pair:
    """Of m removed records J ~ Bin(m, g) had joined and moved the sum by J C: (E N(J), N(0))."""
    return CountedPair(_counts(step, group))


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=Poisson,
    relation=ADD,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1, ..., 1), which ends with the group",
    needs=_lacks_small_group,
)
def group_poisson_add(step: Step, group: int) -> Pair:
    """Of m added records J ~ Bin(m, g) join and move the sum by J C: (N(0), E N(J))."""
    return CountedPair(_counts(step, group)).reverse


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=Poisson,
    relation=SUBSTITUTE,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1, ..., 1) and D' = (0, ..., 0, -1, ..., -1), which end with the group",
    needs=_lacks_small_group,
)
def group_poisson_substitute(step: Step, group: int) -> Pair:
    """Of m exchanged records J ~ Bin(m, g) join, at opposite ends: (E N(J), E N(-J))."""
    law = _counts(step, group)
    return CountedPair(law, law.mirrored)


def _group_pass(step: Step, group: int) -> GroupPass:
    assert isinstance(step.sampling, BallsInBins)
    assert isinstance(step.mechanism, Gaussian)
    each = Fraction(sum_moves_by(step.sampling, REMOVE)) / step.mechanism.exact_noise_multiplier
    batches = step.sampling.batches
    return GroupPass(each, group, batches, batches)


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=BallsInBins,
    relation=REMOVE,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1, ..., 1), which ends with the group, and D' = (0, ..., 0)",
    needs=_lacks_small_group,
)
def group_balls_in_bins_remove(step: Step, group: int) -> Pair:
    """Of m removed records c_j, multinomial, were in batch j of a pass: (E N(c), N(0))."""
    return _group_pass(step, group)


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=BallsInBins,
    relation=ADD,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1, ..., 1), which ends with the group",
    needs=_lacks_small_group,
)
def group_balls_in_bins_add(step: Step, group: int) -> Pair:
    """Of m added records c_j, multinomial, are in batch j of a pass: (N(0), E N(c))."""
    return _group_pass(step, group).reverse


def _lacks_spare_records(step: Step, group: int) -> str | None:
    sampling = step.sampling
    assert isinstance(sampling, WithoutReplacement)
    if sampling.population - group < sampling.batch:
        return (
            f"{{batch={sampling.batch}}} must be at most {sampling.population - group}, because the smaller "
            f"neighbour has only {{population={sampling.population}}} less the {group} records of the group "
            "and must fill the batch too"
        )
    return _lacks_small_group(step, group)


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=WithoutReplacement,
    relation=REMOVE,
    reference="proof note",
    proof=GROUPS,
    attained_by="D = (-1, ..., -1, 1, ..., 1), which ends with the group, and D' = (-1, ..., -1)",
    needs=_lacks_spare_records,
)
def group_without_replacement_remove(step: Step, group: int) -> Pair:
    """Of m removed records J, hypergeometric, were in the batch, where others come in: (E N(2J), N(0))."""
    return CountedPair(_counts(step, group))


@_group_theorem(
    mechanisms=(Gaussian,),
    sampling=WithoutReplacement,
    relation=ADD,
    reference="proof note",
    proof=GROUPS,
    attained_by="D = (-1, ..., -1) and D' = (-1, ..., -1, 1, ..., 1), which ends with the group",
    needs=_lacks_spare_records,
)
def group_without_replacement_add(step: Step, group: int) -> Pair:
    """Of m added records J, hypergeometric, push others out of the batch: (N(0), E N(2J))."""
    return CountedPair(_counts(step, group)).reverse


def keeps_its_curve(sampling: Sampling, relation: Relation) -> bool:
    """Whether one curve holds for all datasets between two neighbours, also if their sizes differ."""
    by_size = isinstance(sampling, WithoutReplacement | TruncatedPoisson | Shuffled)
    return relation.single is SUBSTITUTE or not by_size


def refuse_turns(run: Run, relation: Relation) -> None:
    """Refuse groups where records take turns: those of other turns share their noise."""
    if relation.group > 1 and run.is_about_one_record:
        raise NoTheorem(
            f"Banded noise under {relation.text}: records of one group may take different turns, which share "
            "noise, and no theorem gives their worst case",
            GENERIC_BOUND.format(group=relation.group, last=relation.group - 1),
        )


def refuse_group(step: Step, relation: Relation, asked: str, missing: list[str], known: str) -> NoTheorem:
    """No row: what is known, and the bound that always holds."""
    if missing:
        return NoTheorem(f"{asked}: the theorem for this case does not apply, {'; '.join(missing)}")
    what, remedy = f"{asked}: no theorem gives the worst case of a group", []
    if known:
        remedy.append(f"Groups are known for {known}.")
    if keeps_its_curve(step.sampling, relation):
        remedy.append(GENERIC_BOUND.format(group=relation.group, last=relation.group - 1))
    return NoTheorem(what, " ".join(remedy))
