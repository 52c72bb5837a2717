"""What a claim takes for granted, and whether anybody checked it."""

from collections.abc import Iterator

from tightrope.audit.finding import How, Scheme
from tightrope.setting.run import FIXED_IN_ADVANCE, PLANNED, UNBROKEN, may_hide_broken_passes
from tightrope.statements.model import Assumption, Holds, Statement

BATCHES: dict[How, Holds] = {How.DECLARED: "not checked", How.INSPECTED: "yes", How.WATCHED: "tested"}
NOBODY_CHECKS = {
    "Mechanisms, noise and numbers of steps are those that ran.": "The training code says so.",
    "The contribution of every record has norm at most C.": "Clipping happens in the training code.",
    "Noise is fresh, and nobody can predict noise or batches.": "Random numbers come from the training code.",
}


def list_assumptions(stated: Statement, *, provided: str) -> Iterator[Assumption]:
    """Everything that the epsilon of what runs rests on, besides theorems; `provided` is of its bound."""
    finding = stated.finding
    known: Holds = "not checked" if finding.scheme is Scheme.UNKNOWN else BATCHES[finding.how]
    says = f"Batches are drawn as stated: {finding.scheme.value}."
    yield Assumption(says=says, holds=known, because=finding.sentence)
    unchecked = dict(NOBODY_CHECKS)
    if stated.schedule == FIXED_IN_ADVANCE:
        unchecked[f"{PLANNED[0].upper()}{PLANNED[1:]}."] = "It is stated."
    elif len(stated.accounted.parts) > 1:
        unchecked[f"{PLANNED[0].upper()}{PLANNED[1:]}."] = "A run does not say when its steps were chosen."
    if may_hide_broken_passes(stated.accounted):
        unchecked[f"{UNBROKEN[0].upper()}{UNBROKEN[1:]}."] = "A run counts steps, and not passes."
    unchecked |= dict(_list_about_groups(stated, known))
    if provided:
        unchecked[f"{provided[0].upper()}{provided[1:]}."] = "Nobody looked at it."
    yield from (Assumption(says=says, holds="not checked", because=why) for says, why in unchecked.items())


def _list_about_groups(stated: Statement, known: Holds) -> Iterator[tuple[str, str]]:
    """What is taken for granted about the records of one unit; `known` is how well its batches are."""
    unit, group = stated.unit, stated.neighbours.group
    if unit.most_records <= group and not unit.is_a_record:  # beyond, nothing is proved
        records = "one record" if unit.most_records == 1 else f"{unit.records_per_unit} records"
        yield f"Each {unit.protects} has at most {records}.", "It is stated."
    if group > 1 and known == "not checked" and stated.finding.scheme is not Scheme.EVERY_RECORD:
        owner = "group" if unit.is_a_record else unit.protects
        each = f"Records of one {owner} are drawn each by itself, and not together."
        yield each, "Records were accounted, and a sampler may draw all of one owner at once."
