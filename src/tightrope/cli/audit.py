"""tightrope audit: recorded batches against what was accounted."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tightrope.audit import Audit, Finding, Scheme, Verdict, watch
from tightrope.audit import audit as audited
from tightrope.cli.machine import (
    bracket_object,
    number_object,
    print_json,
    question_object,
    sampling_object,
    theorem_object,
)
from tightrope.cli.options import (
    ANSWER,
    QUESTION,
    Json,
    Number,
    Question,
    RelationName,
    Whole,
    stated_relation,
)
from tightrope.cli.page import Page
from tightrope.cli.show import show_question, show_theorems
from tightrope.setting.effort import QUICK

EXAMPLE = """\
tightrope audit examples/shuffled.jsonl --noise 0.8 --sampling poisson --rate 0.02 \\
    --steps 500 --delta 1e-6 --relation add-or-remove"""

FINE, NOT_MET, NOT_KNOWN = 0, 3, 4

Recording = Annotated[
    Path,
    Parameter(
        group=QUESTION,
        help="Recorded index batches, one JSON list per line: docs/audit.md says how to record.",
    ),
]
Records = Annotated[
    int | None,
    Whole,
    Parameter(group=QUESTION, help="The size of the dataset; a recording states it, so leave it out."),
]
Repeats = Annotated[
    bool,
    Parameter(
        name="--repeats",
        negative="",
        group=QUESTION,
        show_default=False,
        help="Let a record come twice in one batch, as evidence of draws with replacement.",
    ),
]
OneDelta = Annotated[float, Number, Parameter(group=ANSWER, help="The failure probability of the claim.")]


def audit(
    batches: Recording,
    question: Question,
    *,
    relation: RelationName,
    delta: OneDelta,
    records: Records = None,
    repeats: Repeats = False,
    json: Json = False,
) -> int:
    """Tell from recorded batches what really runs, and set it against what was accounted.

    Exit code 0 if the accounted epsilon holds for what runs, 3 if it does not, 4 if what runs cannot be told.
    """
    neighbours = stated_relation(relation)
    finding = watch(batches, records=records, repeats_allowed=repeats)
    found = audited(finding, question.run, delta=delta, relation=neighbours, accuracy=question.accuracy)
    if json:
        print_json(
            {"question": question_object(question, neighbours, QUICK), "delta": delta, **_object(found)}
        )
    else:
        page = Page()
        show_question(page, question, neighbours, None)
        _show(page, found)
    return FINE if found.verdict.holds else NOT_KNOWN if found.verdict is Verdict.UNKNOWN else NOT_MET


def _show(page: Page, found: Audit) -> None:
    finding = found.finding
    page.heading("What the batches tell")
    page.line(finding.sentence)
    if finding.tests:
        rows = [["hypothesis", "p-value", "because"]]
        page.table(rows + [[test.hypothesis, f"{test.p_value:.2g}", test.saw] for test in finding.tests])
    for note in finding.notes:
        page.line(f"Note: {note}")
    page.heading(f"{found.verdict.name.replace('_', ' ').capitalize()}: {found.verdict.value}")
    page.line(found.sentence)
    if found.because:
        page.heading("This is proved by")
        show_theorems(page, found.because)


def _object(found: Audit) -> dict[str, Any]:
    afresh = found.without_replacement
    return {
        "verdict": found.verdict.name.lower(),
        "holds": found.verdict.holds,
        "sentence": found.sentence,
        "finding": finding_object(found.finding),
        "claimed": bracket_object(found.claimed),
        "proved": bracket_object(found.truly),
        "provided": found.provided,
        "why_not": found.why_not,
        "if_without_replacement": None if afresh is None else bracket_object(afresh),
        "theorems": [theorem_object(evidence) for evidence in found.because],
    }


def finding_object(finding: Finding) -> dict[str, Any]:
    """What was found, with what it rests on."""
    return {
        "scheme": finding.scheme.name.lower(),
        "how": finding.how.value,
        "known": finding.scheme is not Scheme.UNKNOWN,
        "sentence": finding.sentence,
        "sampling": None if finding.sampling is None else sampling_object(finding.sampling),
        "records": finding.records,
        "batch": finding.batch,
        "batches_per_epoch": finding.epoch,
        "times_per_epoch": finding.times,
        "reshuffles": finding.reshuffles,
        "share": finding.share,
        "draws_per_step": finding.draws,
        "rate_range": finding.rate_range,
        "tests": [
            {"hypothesis": test.hypothesis, "p_value": number_object(test.p_value), "saw": test.saw}
            for test in finding.tests
        ],
        "notes": list(finding.notes),
    }
