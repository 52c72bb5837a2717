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
    finding, unit = stated.finding, stated.unit
    known = "not checked" if finding.scheme is Scheme.UNKNOWN else BATCHES[finding.how]
    says = f"Batches are drawn as stated: {finding.scheme.value}."
    yield Assumption(says=says, holds=known, because=finding.sentence)
    unchecked = dict(NOBODY_CHECKS)
    if stated.schedule == FIXED_IN_ADVANCE:
        unchecked[f"{PLANNED[0].upper()}{PLANNED[1:]}."] = "It is stated."
    elif len(stated.accounted.parts) > 1:
        unchecked[f"{PLANNED[0].upper()}{PLANNED[1:]}."] = "A run does not say when its steps were chosen."
    if may_hide_broken_passes(stated.accounted):
        unchecked[f"{UNBROKEN[0].upper()}{UNBROKEN[1:]}."] = "A run counts steps, and not passes."
    if unit.most_records <= stated.neighbours.group and not unit.is_a_record:  # beyond, nothing is proved
        records = "one record" if unit.most_records == 1 else f"{unit.records_per_unit} records"
        unchecked[f"Each {unit.protects} has at most {records}."] = "It is stated."
    if provided:
        unchecked[f"{provided[0].upper()}{provided[1:]}."] = "Nobody looked at it."
    yield from (Assumption(says=says, holds="not checked", because=why) for says, why in unchecked.items())
