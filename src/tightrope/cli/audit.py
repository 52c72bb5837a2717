"""tightrope audit, statement, verify and schema: what really runs, said so that others can check it."""

import json as plain_json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tightrope.audit import Audit, Finding, Scheme, Verdict, watch
from tightrope.audit import audit as judge_batches
from tightrope.cli.options import (
    ANSWER,
    QUESTION,
    Json,
    Number,
    RunOptions,
    WhichRelation,
    Whole,
    flag,
)
from tightrope.cli.show import (
    Object,
    bracket_object,
    number_object,
    print_json,
    question_facts,
    question_object,
    sampling_object,
    show_theorems,
    theorem_object,
)
from tightrope.cli.terminal import Page
from tightrope.errors import InvalidSetting
from tightrope.files import as_path, read_text
from tightrope.setting.effort import QUICK
from tightrope.setting.spelling import RELATION_SPELLINGS

FINE, NOT_MET, NOT_KNOWN = 0, 3, 4

# audit

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
    flag(
        "Let a record come twice in one batch, as evidence of draws with replacement.", QUESTION, "--repeats"
    ),
]
OneDelta = Annotated[float, Number, Parameter(group=ANSWER, help="The failure probability of the claim.")]


def audit(
    batches: Recording,
    question: RunOptions,
    *,
    relation: WhichRelation,
    delta: OneDelta,
    records: Records = None,
    repeats: Repeats = False,
    json: Json = False,
) -> int:
    """Tell from recorded batches what really runs, and set it against what was accounted.

    Exit code 0 if the accounted epsilon holds for what runs, 3 if it does not, 4 if what runs cannot be told.
    """
    neighbours = RELATION_SPELLINGS[relation]
    finding = watch(batches, records=records, repeats_allowed=repeats)
    found = judge_batches(finding, question.run, delta=delta, relation=neighbours, accuracy=question.accuracy)
    if json:
        stated = question_object(question, neighbours, QUICK)
        print_json({"question": stated, "delta": delta, **_audit_object(found)})
    else:
        page = Page()
        page.facts(question_facts(question, neighbours, None))
        _show_audit(page, found)
    return FINE if found.verdict.holds else NOT_KNOWN if found.verdict is Verdict.UNKNOWN else NOT_MET


def _show_audit(page: Page, found: Audit) -> None:
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


def _audit_object(found: Audit) -> Object:
    afresh = found.without_replacement
    return {
        "verdict": found.verdict.name.lower(),
        "holds": found.verdict.holds,
        "sentence": found.sentence,
        "finding": _finding_object(found.finding),
        "claimed": bracket_object(found.claimed),
        "proved": bracket_object(found.truly),
        "provided": found.provided,
        "why_not": found.why_not,
        "if_without_replacement": None if afresh is None else bracket_object(afresh),
        "theorems": [theorem_object(evidence) for evidence in found.because],
    }


def _finding_object(finding: Finding) -> Object:
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


# statement, verify and schema

Facts = Annotated[
    Path, Parameter(group=QUESTION, help="The facts and the run, a TOML file: docs/statements.md says how.")
]
Stated = Annotated[
    Path,
    Parameter(group=QUESTION, help="A statement in JSON, as tightrope statement --format json writes it."),
]
Format = Annotated[
    Literal["json", "md", "latex", "registry"],
    Parameter(
        name="--format",
        group=ANSWER,
        help="json to verify, md for a model card, latex for an appendix, or registry.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(group=ANSWER, help="A new file to write; without it, standard output."),
]


def statement(file: Facts, *, format: Format = "json", out: Out = None) -> None:
    """Make a privacy statement from a run, what is known of its batches and a few facts."""
    from tightrope.statements import render
    from tightrope.statements.file import read_registry_facts, read_statement

    made = read_statement(file)
    if format == "json":
        text = made.write_json()
    elif format == "md":
        text = render.render_markdown(made)
    elif format == "latex":
        text = render.render_latex(made)
    else:
        text = render.render_registry(made, read_registry_facts(file))
    _write(text, out)


def verify(file: Stated, *, json: Json = False) -> int:
    """Compute a statement anew; exit code 0 if it is proved for what runs and its numbers are right, else 3."""
    from tightrope.statements.checks import parse_statement
    from tightrope.statements.make import verify as compute_anew

    found = compute_anew(parse_statement(read_text(as_path(file)), where=str(file)))
    if json:
        print_json(
            {
                "holds": found.holds,
                "problems": list(found.problems),
                "claim": {"epsilon": found.statement.claim.epsilon, "delta": found.statement.claim.delta},
                "accounted": bracket_object(found.audit.claimed),
                "runs": bracket_object(found.audit.truly),
                "verdict": found.audit.verdict.name.lower(),
                "evidence": found.statement.implemented.evidence,
            }
        )
    else:
        print(found)
    return FINE if found.holds else NOT_MET


def schema() -> None:
    """Print the JSON Schema of a statement."""
    from tightrope.statements.model import build_schema

    print(plain_json.dumps(build_schema(), indent=2))


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidSetting(
            f"--out must name a new file, got {str(out)!r}, which exists. Choose another name."
        ) from None
    except OSError as problem:
        raise InvalidSetting(
            f"{str(out)!r} could not be written: {problem.strerror}. Choose another place."
        ) from None
