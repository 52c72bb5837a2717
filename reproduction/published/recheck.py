"""Published training runs, accounted again on equal terms: claimed, certified as accounted, proved as run."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import tightrope as tr
from reproduction.published.batches import prove_as_implemented, sampling_of
from reproduction.published.runs_file import SHUFFLE, WINDOWED, Papers, Printed, PublishedRun
from tightrope.audit.claims.prove import ProvedBound

_NARROW = 0.01  # relative width up to which a bracket can be said to agree with a number
_BOTH_RELATIONS = (
    "add-or-remove and substitute are both asked, and the claim is held against the smaller epsilon"
)
_NO_RATE = "neither it nor batch and records are stated, and nothing can be computed without it"
_NO_LAST_BATCH = "a record may come twice in a batch that joins two epochs, so there is no upper end"


class ClaimStanding(Enum):
    """How a claim stands against a bracket. Half of the claim's last printed decimal is left to rounding."""

    ABOVE = "above"
    AGREES = "agrees"
    TOO_SMALL = "claim too small"
    UNDECIDED = "not decided"
    UNKNOWN = "not known"

    def __repr__(self) -> str:
        return self.name


def standing_of(claim: Printed, brackets: Collection[tr.Bracket]) -> ClaimStanding:
    """How the claim stands; where several relations are possible, under the one that is kindest to the claim.

    >>> standing_of(Printed("1.19"), [tr.Bracket(0.86, 0.87)])
    ABOVE
    >>> standing_of(Printed("1.19"), [tr.Bracket(1.194, 1.195)])
    AGREES
    >>> standing_of(Printed("1.19"), [tr.Bracket(1.5, 1.6), tr.Bracket(2.5, 2.6)])
    TOO_SMALL
    """
    lower = min((bracket.lower for bracket in brackets), default=0.0)
    upper = min((bracket.upper for bracket in brackets), default=math.inf)
    if lower <= 0 and math.isinf(upper):
        return ClaimStanding.UNKNOWN
    if claim - claim.half_a_digit > upper:
        return ClaimStanding.ABOVE
    if claim + claim.half_a_digit < lower:
        return ClaimStanding.TOO_SMALL
    narrow = tr.Bracket(lower, upper).relative_width <= _NARROW
    return ClaimStanding.AGREES if narrow else ClaimStanding.UNDECIDED


@dataclass(frozen=True, kw_only=True)
class RecheckedRun:
    """A run, epsilon as accounted and as implemented under each relation, and what is missing.

    Both mappings hold the stated relation, or add-or-remove and substitute where none is stated; `accounted`
    is empty where it cannot be computed. `missing` are names of keys with what their absence means.
    """

    run: PublishedRun
    accounted: Mapping[tr.Relation, tr.Bracket]
    implemented: Mapping[tr.Relation, ProvedBound]
    missing: Mapping[str, str]

    @property
    def standing(self) -> ClaimStanding:
        """The claim against the bracket for the sampling that was accounted."""
        return standing_of(self.run.claimed_epsilon, self.accounted.values())

    @property
    def standing_as_implemented(self) -> ClaimStanding:
        """The claim against what is proved for the batches that are drawn."""
        return standing_of(self.run.claimed_epsilon, [found.epsilon for found in self.implemented.values()])

    @property
    def is_as_accounted(self) -> bool:
        """Whether batches are stated to be drawn as they were accounted."""
        return self.run.implemented is not None and self.run.implemented == self.run.accounted

    @property
    def too_small_under(self) -> tuple[tr.Relation, ...]:
        """The relations under which the claim is below the lower end certified as accounted."""
        claim, small = self.run.claimed_epsilon, ClaimStanding.TOO_SMALL
        return tuple(each for each, found in self.accounted.items() if standing_of(claim, [found]) is small)

    @property
    def excess(self) -> float | None:
        """The claim over the upper end, less 1, under the relation kindest to it; None without one."""
        uppers = [bracket.upper for bracket in self.accounted.values() if bracket.upper > 0]
        return self.run.claimed_epsilon / min(uppers) - 1 if uppers else None


def recheck(
    papers: Papers, progress: Callable[[int, int], None] = lambda done, total: None
) -> tuple[RecheckedRun, ...]:
    """Account every run again; `progress` is told how many are done, out of how many.

    Under the sampling that was accounted the bracket is certified. Under the sampling that is implemented it
    is what the audit proves for such batches: both ends for a shuffle, an upper end for several draws,
    nothing where nothing is known.
    """
    found = []
    for done, run in enumerate(papers.runs, start=1):
        found.append(recheck_run(run))
        progress(done, len(papers.runs))
    return tuple(found)


def recheck_run(run: PublishedRun) -> RecheckedRun:
    """Account one run again."""
    relations = (tr.ADD_OR_REMOVE, tr.SUBSTITUTE) if run.relation is None else (run.relation,)
    missing, accounted, implemented = _missing(run), {}, {}
    for relation in relations:
        try:
            bracket = _certify(run, relation)
        except tr.TightropeError as refusal:
            bracket, missing[f"answer under {relation.name}"] = None, str(refusal)
        if bracket is not None:
            accounted[relation] = bracket
        if bracket is not None and run.implemented == run.accounted:
            implemented[relation] = ProvedBound(epsilon=bracket)
        else:
            implemented[relation] = prove_as_implemented(run, relation)
    return RecheckedRun(run=run, accounted=accounted, implemented=implemented, missing=missing)


def _certify(run: PublishedRun, relation: tr.Relation) -> tr.Bracket | None:
    """epsilon for the sampling that was accounted; None where a number is missing."""
    sampling = None if run.accounted is None else sampling_of(run, run.accounted)
    if sampling is None or run.noise_multiplier is None or run.steps is None or run.delta is None:
        return None
    step = tr.Step(tr.Gaussian(noise_multiplier=run.noise_multiplier), sampling)
    fewest, most = (
        tr.epsilon(step * steps, delta=run.delta, relation=relation, by=tr.Certified(effort=tr.TIGHT))
        for steps in (run.steps.least, run.steps.most)
    )
    return tr.Bracket(fewest.lower, most.upper)


def _missing(run: PublishedRun) -> dict[str, str]:
    """What a reader would have to know and the source does not say, by key."""
    needed = ("delta", "noise_multiplier", "steps", "accounted")
    missing = {key: "nothing can be computed without it" for key in needed if getattr(run, key) is None}
    if run.relation is None:
        missing = {"relation": _BOTH_RELATIONS, **missing}
    if run.steps is not None and run.steps.least < run.steps.most:
        missing["steps"] = f"{run.steps.how}; the lower end is for the fewest, the upper end for the most"
    if run.rate is None and run.accounted not in (None, "every-record"):
        missing["rate"] = _NO_RATE
    if run.records_from:
        missing["records"] = (
            f"{run.records:,} is taken from elsewhere: {run.records_from}" if run.records else ""
        )
    elif run.records is None:
        known = "not needed for Poisson sampling, whose rate is stated"
        missing["records"] = known if run.rate else "so the rate is not known"
    return {**missing, **_missing_about_batches(run)}


def _missing_about_batches(run: PublishedRun) -> dict[str, str]:
    match run.implemented:
        case None:
            return {"implemented": "whether the claim covers what was run cannot be said"}
        case _ if run.implemented == WINDOWED:
            return {"a theorem for windowed shuffles": "nothing is proved for them here"}
        case _ if run.implemented == SHUFFLE:
            order = {"reshuffled": "the lower end counts one epoch only"} if run.reshuffled is None else {}
            return {**order, **({"last_batch": _NO_LAST_BATCH} if run.last_batch is None else {})}
    return {}
