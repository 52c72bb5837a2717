"""tightrope audit, statement, verify and schema: what really runs, said so that others can check it."""

import json as plain_json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tightrope.audit import Audit, Verdict, watch
from tightrope.audit import audit as judge_batches
from tightrope.cli.printed import show
from tightrope.cli.printed.refusals import WORDS
from tightrope.cli.printed.sentences import tell_why
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.process.long_work import LongWork, long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.errors import NotPreciseEnough, UnusableFile, UnwrittenFile
from tightrope.files import PEOPLE_SEND, as_path, read_text, write_whole
from tightrope.setting.relation import as_relation

if TYPE_CHECKING:
    from tightrope.statements.verify import Verification

# audit

Recording = Annotated[
    Path,
    opt.about(
        "Recorded index batches: a header, then one JSON list per line, as docs/audit.md says how to record. "
        "The header may be missing where --records is given.",
        opt.QUESTION,
    ),
]
Repeats = Annotated[
    bool,
    opt.flag(
        "Let a record come twice in one batch, as evidence of draws with replacement.",
        opt.QUESTION,
        "--repeats",
    ),
]
OneDelta = Annotated[float, opt.Number, opt.about("The failure probability of the claim.", opt.ANSWER)]


def audit(
    recording: Recording,
    /,  # has no option of its own: --batches says how many batches a pass has
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    group: opt.WhichGroup = 1,
    delta: OneDelta,
    repeats: Repeats = False,
    form: Form = IN_WORDS,
) -> int:
    """Tell from recorded batches what really runs, and set it against what was accounted."""
    neighbours, by = as_relation(relation).of(group), question.certified("quick")
    finding = watch(recording, records=question.records, repeats_allowed=repeats)
    found = judge_batches(finding, question.run, delta=delta, relation=neighbours, by=by)
    said = f"{found.verdict.name.replace('_', ' ').capitalize()}: {found.verdict.value}."
    if form.json:
        stated = {"answer": said, "question": show.question_object(question, neighbours, by)}
        show.print_json({**stated, "delta": delta, **_audit_object(found)})
    elif form.brief:
        print_brief([found.verdict.name.lower()])
    else:
        page = show.open_page(
            [said, found.in_words(WORDS)],
            question=show.question_in_short(question, neighbours),
            facts=show.question_facts(question, neighbours),
            why=form.why,
        )
        _show_audit(page, found, form)
    if found.verdict.holds:
        return ExitCode.FINE
    return ExitCode.NOT_KNOWN if found.verdict is Verdict.UNKNOWN else ExitCode.NOT_MET


def _show_audit(page: Page, found: Audit, form: Form) -> None:
    finding = found.finding
    if form.why:
        page.heading("What the batches tell")
        page.line(finding.sentence)
    if form.why and finding.tests:
        rows = [["hypothesis", "p-value", "because"]]
        page.table(rows + [[test.hypothesis, f"{test.p_value:.2g}", test.saw] for test in finding.tests])
        page.line("")
    for note in finding.notes:
        page.line(f"Note: {note}")
    if form.why and found.because:
        page.heading("This is proved by")
        show.show_theorems(page, found.because)
    elif not form.why:
        page.line("")
        page.line(tell_why(found.because, "how likely the batches are under each sampling, and statements"))


def _audit_object(found: Audit) -> show.Object:
    afresh = found.without_replacement
    return {
        "verdict": found.verdict.name.lower(),
        "holds": found.verdict.holds,
        "sentence": found.in_words(WORDS),
        "finding": found.finding.plain(),
        "claimed": show.bracket_object(found.claimed),
        "proved": show.bracket_object(found.proved),
        "provided": found.provided,
        "why_not": found.why_not,
        "if_without_replacement": None if afresh is None else show.bracket_object(afresh),
        "theorems": [show.theorem_object(evidence) for evidence in found.because],
    }


# statement, verify and schema

Facts = Annotated[
    Path, opt.about("The facts and the run, a TOML file: docs/statements.md says how.", opt.QUESTION)
]
Stated = Annotated[
    Path, opt.about("A statement in JSON, as tightrope statement --format json writes it.", opt.QUESTION)
]
Format = Annotated[
    Literal["json", "md", "latex", "registry"],
    opt.about(
        "json to verify, md for a model card, latex for an appendix, or registry.", opt.ANSWER, "--format"
    ),
]
Out = Annotated[Path | None, opt.about("A new file to write; without it, standard output.", opt.ANSWER)]


EvenIfRefuted = Annotated[
    bool,
    opt.flag("Write a claim that is certainly false, as refuted.", opt.ANSWER, "--even-if-refuted"),
]


def statement(
    file: Facts, *, format: Format = "json", out: Out = None, even_if_refuted: EvenIfRefuted = False
) -> None:
    """Make a privacy statement from a run, what is known of its batches and a few facts."""
    from tightrope.statements import render  # only statements need these
    from tightrope.statements.file import read_registry_facts, read_statement

    made = read_statement(file)
    if format == "json":
        text = render.render_json(made, even_if_refuted=even_if_refuted)
    elif format == "md":
        text = render.render_markdown(made, even_if_refuted=even_if_refuted)
    elif format == "latex":
        text = render.render_latex(made, even_if_refuted=even_if_refuted)
    else:
        facts = read_registry_facts(file)
        text = render.render_registry(made, facts, even_if_refuted=even_if_refuted)
    _write(text, out)


InIntegers = Annotated[
    bool,
    opt.flag("Check the brackets in exact integers too, which takes seconds to minutes.", name="--exact"),
]


def verify(file: Stated, *, exact: InIntegers = False, form: Form = IN_WORDS) -> int:
    """Compute a statement anew, and compare."""
    from tightrope.statements.checks import parse_statement  # only statements need these
    from tightrope.statements.verify import Outcome, verify_in_integers
    from tightrope.statements.verify import verify as compute_anew

    stated = parse_statement(read_text(as_path(file), most=PEOPLE_SEND.size), where=str(file))
    found = in_floats = compute_anew(stated)
    refusal = None
    with long_work() as work:
        try:
            if exact:
                found = work.finish(lambda: verify_in_integers(in_floats, work))
        except NotPreciseEnough as refused:  # what is known is said first
            refusal = refused
    _show_verification(in_floats if work.interrupted else found, work, form)
    work.end()
    if found.outcome is Outcome.HOLDS and refusal is not None:
        raise refusal
    codes = {Outcome.HOLDS: ExitCode.FINE, Outcome.UNKNOWN: ExitCode.NOT_KNOWN}
    return codes.get(found.outcome, ExitCode.NOT_MET)


def _show_verification(found: "Verification", work: LongWork, form: Form) -> None:
    from tightrope.statements.words import count_unchecked  # only statements need these

    if form.json:
        show.print_json(
            {
                **work.mark,
                "outcome": found.outcome.name.lower(),
                "holds": found.holds,
                "problems": list(found.problems),
                "unknown": list(found.unknown),
                "not_checked": list(found.unchecked),
                "claim": found.statement.claim.model_dump(exclude={"standing"}),
                "unit": found.statement.unit.protects,
                "relation": found.statement.relation,
                "accounted": show.bracket_object(found.audit.claimed),
                "runs": show.bracket_object(found.audit.proved),
                "sampling_verdict": found.audit.verdict.name.lower(),
                "evidence": found.statement.implemented.evidence,
                **({"exact": show.bracket_object(found.in_integers)} if found.in_integers else {}),
            }
        )
        return
    if form.brief:
        provided = f" if {count_unchecked(found.statement)}" if found.holds else ""
        print_brief([f"{found.outcome.name.lower()}{provided}"])
        return
    page = Page()
    outcome, *lines = found.in_words(WORDS).splitlines()
    page.opening(work.tell(outcome))
    for line in lines:
        page.line(line.strip(), indent=len(line) - len(line.lstrip()))
    if form.why:
        page.heading("This is proved by")
        show.show_theorems(page, found.audit.because)


def schema() -> None:
    """Print the JSON Schema of a statement."""
    from tightrope.statements.model import build_schema  # only statements need these

    print(plain_json.dumps(build_schema(), indent=2))


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise UnusableFile(out, "exists already", "Choose another name for --out.")
    try:
        write_whole(out, text.encode(), what="the statement")
    except UnwrittenFile as refused:
        print(text, end="")
        raise UnwrittenFile(refused.path, refused.problem, "It is on standard output instead.") from None
