"""From a run and a relation to covers and witnesses, or a refusal that says what is known."""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import is_
from typing import get_args

from tightrope.errors import NoTheorem
from tightrope.numerics import html
from tightrope.numerics.text import Flat, align
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.exchange import Game
from tightrope.pairs.group_pass import GroupPass
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch
from tightrope.setting.effort import TIGHT, Effort
from tightrope.setting.mechanism import Gaussian, Mechanism
from tightrope.setting.relation import ADD_OR_REMOVE, RELATIONS, REMOVE, SUBSTITUTE, Relation, as_relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import (
    Allocated,
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.theorems import (
    allocation,
    full_batch,
    poisson,
    shuffled,
    truncated_poisson,
    without_replacement,
)
from tightrope.theorems.allocation import STARTED_PASS, bound_passes, check_passes, why_revealed
from tightrope.theorems.chosen_steps import CHOSEN_STEP_THEOREMS
from tightrope.theorems.composition import (
    BIASED_DOWN,
    CENTRAL_LIMIT,
    COMPOSITION,
    NOTHING_SAMPLED,
    REMOVE_SUFFICES,
    RENYI_THEOREMS,
    RUN_THEOREMS,
    find_needed_branches,
)
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.group_passes import ALL_IN_ONE, SHARED_BLOCKS, bound_group_passes, why_shared
from tightrope.theorems.groups import GROUP_ROWS, refuse_group, refuse_turns
from tightrope.theorems.other_batchings import BATCHING_THEOREMS
from tightrope.theorems.repeated_records import REPEATED_RECORD_THEOREMS
from tightrope.theorems.shuffled import bound_epochs
from tightrope.theorems.substitution import (
    ENVELOPE_ALONE,
    GAME_COVER,
    DominatedStep,
    analyse_exchange,
    is_exchange,
)
from tightrope.theorems.table import REFUTED_BELIEFS, ROWS, Analysis, Cover, StepBounds, Steps, Witness
from tightrope.theorems.tuning import TUNING_THEOREMS

ANY_NEIGHBOURS = "any neighbours"
KEPT_STEPS = 1024  # whose dominating pair is kept: a training loop asks after every step
# importing these fills the table
_FILLED_BY = (full_batch, poisson, truncated_poisson, without_replacement, allocation, shuffled)


def analyse(run: Run, relation: Relation, effort: Effort) -> tuple[Analysis, ...]:
    """One analysis per branch that the curve for epsilon >= 0 needs."""
    if repeats_one_step(run, relation):
        return _recount(_analyse_twice(run.parts[0][0], relation, effort), run.steps)
    return _analyse(run, relation, effort)


def repeats_one_step(run: Run, relation: Relation) -> bool:
    """Whether one more of its only step changes nothing but how often every pair is played."""
    if len(run.parts) != 1 or type(run) is not Run or relation.group > 1 or relation is SUBSTITUTE:
        return False
    ((step, times),) = run
    return times > 1 and isinstance(step.sampling, _DRAWN_AFRESH)


# Whose analysis is the same for any number of steps from two on, unless a record is exchanged.
_DRAWN_AFRESH = (EveryRecord, Poisson, WithoutReplacement)


@lru_cache(maxsize=KEPT_STEPS)
def _analyse_twice(step: Step, relation: Relation, effort: Effort) -> tuple[Analysis, ...]:
    """Of a step that is taken twice: a training loop asks after every step, and only the count is new."""
    return _analyse(step * 2, relation, effort)


def _recount(analyses: tuple[Analysis, ...], times: int) -> tuple[Analysis, ...]:
    """The same step, taken so often."""
    made: dict[Schedule | Game, Schedule] = {}

    def recount(schedule: Schedule | Game) -> Schedule:
        assert isinstance(schedule, Schedule)  # games are played where a record is exchanged
        if schedule not in made:
            made[schedule] = schedule.recount([times] * len(schedule.parts))
        return made[schedule]

    return tuple(
        Analysis(
            one.branch,
            tuple(Cover(tuple(map(recount, cover.schedules)), cover.because) for cover in one.covers),
            tuple(Witness(recount(witness.schedule), witness.datasets) for witness in one.witnesses),
        )
        for one in analyses
    )


def _analyse(run: Run, relation: Relation, effort: Effort) -> tuple[Analysis, ...]:
    branches, why = find_needed_branches(run, relation)
    return tuple(_analyse_branch(run, branch, why, effort) for branch in branches)


def _analyse_branch(run: Run, branch: Relation, why: tuple[Evidence, ...], effort: Effort) -> Analysis:
    check_passes(run)
    parts = find_parts(run, branch)
    if is_exchange(parts, branch):
        return analyse_exchange([one for part in parts for one in _split_passes(part, effort)], effort)
    because = dict.fromkeys(part.evidence for part in parts)
    datasets = dict.fromkeys(part.attained_by for part in parts)
    if run.steps > 1:
        because[COMPOSITION] = None
    if not run:
        because[NOTHING_SAMPLED] = None
        datasets[ANY_NEIGHBOURS] = None
    bounds = [_bound_steps(part, effort) for part in parts]
    above, revealed, reached = _schedules_of(bounds)
    covers = [Cover((above,), (*because, *_why_above(parts, bounds), *why))]
    if revealed != above:  # looser, and certain at any delta
        covers.append(Cover((revealed,), (*because, *_why_revealed(parts), *why)))
    return Analysis(branch, tuple(covers), (Witness(reached, "; ".join(datasets)),))


def _schedules_of(bounds: list[StepBounds]) -> tuple[Schedule, Schedule, Schedule]:
    """The schedules of all steps: above, revealed and reached, the same object where they are the same."""
    above = [bound.above for bound in bounds]
    first = Schedule(chain.from_iterable(above))

    def schedule_of(steps: list[Steps]) -> Schedule:
        return first if all(map(is_, steps, above)) else Schedule(chain.from_iterable(steps))

    revealed, reached = [bound.revealed for bound in bounds], [bound.reached for bound in bounds]
    return first, schedule_of(revealed), schedule_of(reached)


def _bound_steps(part: DominatedStep, effort: Effort) -> StepBounds:
    """What bounds a kind of step, and what is reached."""
    if isinstance(part.dominating, GroupPass):
        return bound_group_passes(part.dominating, part.times)
    if isinstance(part.dominating, ShuffledEpoch):
        return bound_epochs(part.dominating, part.times, is_thorough=effort is TIGHT)
    return bound_passes(part.dominating, part.reached, part.times)


def _split_passes(part: DominatedStep, effort: Effort) -> list[DominatedStep]:
    """The kind of step as passes, if it is one of them: each with what dominates it and what it reaches."""
    if not isinstance(part.dominating, Allocation | ShuffledEpoch):
        return [part]
    bounds = _bound_steps(part, effort)
    only_revealed = bounds.above == bounds.revealed
    return [
        replace(
            part,
            times=times,
            dominating=over,
            below=under,
            also=why_revealed(part.dominating, covered) if only_revealed else (),
        )
        for (over, times), (under, _), covered in zip(
            bounds.above, bounds.reached, _lengths(part), strict=True
        )
        if times and covered
    ]


def _lengths(part: DominatedStep) -> tuple[int, int]:
    """The steps of whole passes, and those of the pass that was only started."""
    assert isinstance(part.dominating, Allocation | ShuffledEpoch)
    rest = part.times % part.dominating.batches
    return part.times - rest, rest


def _why_revealed(parts: list[DominatedStep]) -> dict[Evidence, None]:
    """On what parts rest if their batches are revealed."""
    return dict.fromkeys(why for part in parts for why in why_revealed(part.dominating, part.times))


def _why_above(parts: list[DominatedStep], bounds: list[StepBounds]) -> dict[Evidence, None]:
    """On what parts rest: those that have no better bound on what is revealed, groups on their blocks."""
    found: dict[Evidence, None] = {}
    for part, bound in zip(parts, bounds, strict=True):
        if bound.above == bound.revealed:
            found |= _why_revealed([part])
        elif isinstance(part.dominating, GroupPass):
            found |= dict.fromkeys(why_shared(part.dominating, part.times))
    return found


def find_parts(run: Run, branch: Relation) -> list[DominatedStep]:
    """Every kind of step with its dominating pair, or a refusal."""
    refuse_turns(run, branch)
    return [replace(_dominate(step, branch), times=times) for step, times in run]


@lru_cache(maxsize=KEPT_STEPS)
def _dominate(step: Step, relation: Relation) -> DominatedStep:
    """A kind of step, taken once, with its dominating pair."""
    if step.sampling.exact_rate == 0:
        nobody = Mixture(Noise.NORMAL)
        return DominatedStep(step, 1, ShiftPair(nobody, nobody), NOTHING_SAMPLED, ANY_NEIGHBOURS)
    plain = Step(step.mechanism, _plainest(step.sampling, relation))
    if relation.group > 1:
        return _dominate_group(step, plain, relation)
    missing = []
    for row in ROWS:
        if row.matches(type(plain.mechanism), type(plain.sampling), relation):
            lacks = row.needs(plain)
            if lacks is None:
                below = row.reached(plain) if row.reached is not None else None
                return DominatedStep(step, 1, row.pair(plain), row.evidence, row.attained_by, below)
            missing.append(lacks)
    raise _refusal(step, relation, missing)


def _dominate_group(step: Step, plain: Step, relation: Relation) -> DominatedStep:
    """A kind of step with the pair that dominates a group, or a refusal."""
    missing = []
    for row in GROUP_ROWS:
        if row.matches(type(plain.mechanism), type(plain.sampling), relation):
            lacks = row.needs(plain, relation.group)
            if lacks is None:
                pair = row.pair(plain, relation.group)
                return DominatedStep(step, 1, pair, row.evidence, row.attained_by)
            missing.append(lacks)
    mechanism = type(step.mechanism)
    known = [s for s in get_args(Sampling) if any(row.matches(mechanism, s, relation) for row in GROUP_ROWS)]
    names = f"{{{mechanism.__name__}}} with " + ", ".join(f"{{{s.__name__}}}" for s in known) if known else ""
    raise refuse_group(step, relation, _name_step(step, relation), missing, names)


def _plainest(sampling: Sampling, relation: Relation) -> Sampling:
    """A cap that is never met is none. Sampling that always takes every record is the full batch."""
    if isinstance(sampling, TruncatedPoisson):
        if sampling.at_most < sampling.population:
            return sampling
        sampling = Poisson(rate=sampling.exact_rate)
    if isinstance(sampling, RandomAllocation) and sampling.chosen == 1:
        sampling = BallsInBins(batches=sampling.batches)
    alone = isinstance(sampling, Poisson | Allocated)  # none stands aside for another
    leaves_out = isinstance(sampling, Shuffled) and sampling.left_over > 0
    if sampling.exact_rate == 1 and (alone or relation.single is SUBSTITUTE) and not leaves_out:
        return EveryRecord()
    return sampling


def _name_step(step: Step, relation: Relation) -> str:
    mechanism, sampling = type(step.mechanism).__name__, type(step.sampling).__name__
    return f"{{{mechanism}}} with {{{sampling}}} sampling under {relation.text}"


def _refusal(step: Step, relation: Relation, missing: list[str]) -> NoTheorem:
    mechanism, sampling = type(step.mechanism), type(step.sampling)
    asked = _name_step(step, relation)
    if missing:
        return NoTheorem(f"{asked}: the theorem for this case does not apply, {'; '.join(missing)}")
    known = ", ".join(f"{{{r.name}}}" for r in RELATIONS.values() if _cell(mechanism, sampling, r))
    elsewhere = [s for s in get_args(Sampling) if s is not sampling and _cell(mechanism, s, relation)]
    remedy = [f"Known for {{{mechanism.__name__}}} with {{{sampling.__name__}}}: {known or 'nothing'}."]
    if elsewhere:
        names = ", ".join(f"{{{s.__name__}}}" for s in elsewhere)
        remedy.append(f"Under {{{relation.name}}} known for {names}.")
    if EveryRecord in elsewhere and (relation is SUBSTITUTE or sampling in (Poisson, *get_args(Allocated))):
        # elsewhere a record that is removed lets another into its batch, which moves the sum by 2 C
        remedy.append(
            "Looser but valid: account the same steps with {EveryRecord}, "
            "which ignores the amplification by sampling."
        )
    return NoTheorem(f"{asked}: no theorem gives the worst case", " ".join(remedy))


def _cell(mechanism: type[Mechanism], sampling: type[Sampling], relation: Relation) -> list[Evidence]:
    """The evidence for one cell of the support matrix: a row per branch that is needed, or nothing."""
    remove_suffices = relation is ADD_OR_REMOVE and mechanism is Gaussian
    branches = (REMOVE,) if remove_suffices else relation.branches
    rows = [[row for row in ROWS if row.matches(mechanism, sampling, branch)] for branch in branches]
    evidence = [found[0].evidence for found in rows if found]
    if len(evidence) < len(branches):
        return []
    game = mechanism is Gaussian and sampling is WithoutReplacement and relation is SUBSTITUTE
    return evidence + [REMOVE_SUFFICES] * remove_suffices + [GAME_COVER] * game


@dataclass(frozen=True)
class SupportMatrix:
    """Which questions have a theorem: mechanism x sampling x relation. Prints as a table.

    >>> from tightrope import ADD, Gaussian, Poisson, support_matrix
    >>> support_matrix().supports(Gaussian, Poisson, ADD)
    True
    """

    cells: tuple[tuple[type[Mechanism], type[Sampling], Relation, tuple[Evidence, ...]], ...]
    refuted_beliefs: tuple[Evidence, ...]

    def supports(
        self, mechanism: type[Mechanism], sampling: type[Sampling], relation: Relation | str
    ) -> bool:
        """Whether some theorem answers the question.

        >>> from tightrope import Laplace, Poisson, support_matrix
        >>> support_matrix().supports(Laplace, Poisson, "substitute")
        False
        """
        asked = (mechanism, sampling, as_relation(relation))
        if asked[2].group > 1:
            return all(any(row.matches(*asked[:2], one) for row in GROUP_ROWS) for one in asked[2].branches)
        return any(evidence for *cell, evidence in self.cells if tuple(cell) == asked)

    def to_dicts(self) -> list[Flat]:
        """One flat row for each cell.

        >>> support_matrix().to_dicts()[0]["theorems"]
        'full_batch_add'
        """
        return [
            {
                "mechanism": mechanism.spelling,
                "sampling": sampling.spelling,
                "relation": str(relation),
                "answered": bool(evidence),
                "theorems": "; ".join(e.name for e in evidence),
            }
            for mechanism, sampling, relation, evidence in self.cells
        ]

    def _repr_html_(self) -> str:
        relations = dict.fromkeys(relation.name for _, _, relation, _ in self.cells)
        answered: dict[tuple[str, str], list[str]] = {}
        for mechanism, sampling, _, evidence in self.cells:
            row = answered.setdefault((mechanism.__name__, sampling.__name__), [])
            row.append("yes" if evidence else "no theorem")
        rows = [[*case, *row] for case, row in answered.items()]
        beliefs = html.fold("refuted beliefs", map(str, self.refuted_beliefs))
        return html.join(html.write_table([["mechanism", "sampling", *relations], *rows]), beliefs)

    def __str__(self) -> str:
        rows = [["mechanism", "sampling", "relation", "theorem"]]
        for mechanism, sampling, relation, evidence in self.cells:
            names = " and ".join(e.name for e in evidence) or "none: NoTheorem"
            rows.append([mechanism.__name__, sampling.__name__, relation.name, names])
        return align(rows)


def support_matrix() -> SupportMatrix:
    """Every mechanism x sampling x relation with the theorems that answer it, and the refuted beliefs.

    >>> support_matrix().refuted_beliefs[0].name
    'one_step_worst_direction_stays_worst'
    """
    cells = tuple(
        (mechanism, sampling, relation, tuple(_cell(mechanism, sampling, relation)))
        for mechanism in get_args(Mechanism)
        for sampling in get_args(Sampling)
        for relation in RELATIONS.values()
    )
    return SupportMatrix(cells, tuple(REFUTED_BELIEFS))


def list_theorems() -> tuple[Evidence, ...]:
    """All that the table holds: one-step theorems, statements about runs, refuted beliefs."""
    return (
        *(row.evidence for row in ROWS),
        *(row.evidence for row in GROUP_ROWS),
        GAME_COVER,
        ENVELOPE_ALONE,
        *RUN_THEOREMS,
        *RENYI_THEOREMS,
        CENTRAL_LIMIT,
        BIASED_DOWN,
        *BATCHING_THEOREMS,
        STARTED_PASS,
        SHARED_BLOCKS,
        ALL_IN_ONE,
        *CHOSEN_STEP_THEOREMS,
        *REPEATED_RECORD_THEOREMS,
        *TUNING_THEOREMS,
        *REFUTED_BELIEFS,
    )
