"""tightrope contrast, compare and theorems: what else the answer could be, and what is known at all."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tightrope.answers.compare as comparing
import tightrope.answers.contrast as contrasting
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.renyi import Renyi
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.long_work import long_work
from tightrope.cli.refusals import WORDS, Misused
from tightrope.cli.terminal import Page, say
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.errors import TightropeError
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_short, run_in_short, spell
from tightrope.setting.relation import RELATIONS, Relation, as_relation
from tightrope.setting.sampling import SAMPLING_SPELLINGS
from tightrope.theorems.evidence import REFUTED, Evidence
from tightrope.theorems.lookup import list_theorems, support_matrix

# contrast

ClaimedSampling = Annotated[
    opt.SamplingName | None,
    opt.about("The sampling to compare with; by default that of --sampling.", opt.ANSWER),
]
ClaimedRelation = Annotated[opt.RelationName, opt.about("The relation to compare with.", opt.ANSWER)]


def contrast(
    question: opt.RunOptions,
    *,
    delta: opt.Deltas,
    claimed_sampling: ClaimedSampling = None,
    claimed_relation: ClaimedRelation = "add-or-remove",
    effort: opt.WhichEffort = "quick",
    json: opt.Json = False,
) -> None:
    """Bracket epsilon for the same run under every sampling and relation, and compare with a claim."""
    claimed = SAMPLING_SPELLINGS[claimed_sampling or question.sampling], as_relation(claimed_relation)
    by = question.certified(effort)
    with long_work() as work:
        asked: Any = {"delta": delta, "claimed": claimed, "by": by, "progress": work}
        table = work.finish(lambda: contrasting.contrast(question.run, **asked), _in_short)
    theorems = show.find_theorems(epsilon for row in table.rows for epsilon in row.epsilons)
    if json:
        answer = {
            "question": show.question_object(question, None, by),
            **work.mark,
            "claimed": {"sampling": spell(claimed[0]), "relation": str(claimed[1])},
            "rows": [_contrast_object(row, table.deltas) for row in table.rows],
            "verdict": table.verdict,
            "theorems": [show.theorem_object(theorem) for theorem in theorems],
        }
        show.print_json(answer)
        work.end()
        return
    page = Page()
    work.show_on(page)
    page.facts(show.question_facts(question, None, by))
    _show_contrast(page, table, theorems)
    work.end()


def _in_short(quick: contrasting.Contrast) -> str:
    """The rows that take long, as they are known before."""
    rows = [row for row in quick.rows if row.effort is not None]
    said = (show.answers_in_short("epsilon", "delta", quick.deltas, row.epsilons) for row in rows)
    return " ".join(f"{_name(row)}: {answer}" for row, answer in zip(rows, said, strict=True))


def _show_contrast(page: Page, table: contrasting.Contrast, theorems: list[Evidence]) -> None:
    deltas = (f"epsilon at delta {write_number(at)}" for at in table.deltas)
    body = [_contrast_cells(table, row, theorems) for row in table.rows]
    page.table([["sampling", "relation", *deltas, "because"], *body])
    for row in table.rows:
        if row.effort is not None:
            page.line(f"{_name(row)}: {row.effort.meaning}. {show.width_in_words(row.epsilons)}")
    reached_by = [
        f"{_name(row)}: {' or '.join(show.find_datasets(row.epsilons))}"
        for row in table.rows
        if row.refusal is None
    ]
    show.show_why(page, theorems, reached_by, "ends are")
    _show_refusals(page, [(_name(row), row.refusal) for row in table.rows])
    # last: what stays above the prompt is what one must not miss
    page.heading("Verdict")
    page.line(table.verdict, indent=2)


def _show_refusals(page: Page, rows: Sequence[tuple[str, TightropeError | None]]) -> None:
    for name, refusal in rows:
        if refusal is not None:
            page.heading(f"Refused: {name}")
            page.line(refusal.in_words(WORDS), indent=2)


def _name(row: contrasting.ContrastRow) -> str:
    return f"{spell(row.sampling)}, {row.relation}"


def _contrast_cells(
    table: contrasting.Contrast, row: contrasting.ContrastRow, theorems: list[Evidence]
) -> list[str]:
    found = zip(row.epsilons, table.ratios_in_words(row), strict=True)
    brackets = [f"{show.answer_in_short(bracket)}{beside}" for bracket, beside in found]
    numbers = show.write_numbers(show.find_theorems(row.epsilons), theorems)
    refused = ["refused"] * len(table.deltas)
    return [spell(row.sampling), str(row.relation), *(brackets or refused), numbers]


def _contrast_object(row: contrasting.ContrastRow, deltas: tuple[float, ...]) -> show.Object:
    ratios: list[Any] = [show.bracket_object(ratio) for ratio in row.ratios] or [None] * len(row.epsilons)
    answered = zip(deltas, row.epsilons, ratios, strict=True) if row.refusal is None else ()
    return {
        "sampling": spell(row.sampling),
        "relation": str(row.relation),
        "brackets": [
            {
                "delta": at,
                "epsilon": show.bracket_object(bracket),
                "ratio": ratio,
                **show.width_object(bracket),
            }
            for at, bracket, ratio in answered
        ],
        "theorems": [theorem.name for theorem in show.find_theorems(row.epsilons)],
        "reached_by": show.find_datasets(row.epsilons),
        "effort": None if row.effort is None else str(row.effort),
        "refusal": None if row.refusal is None else row.refusal.in_words(WORDS),
    }


# compare


def compare(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    delta: opt.Deltas,
    effort: opt.WhichEffort = "quick",
    drawing: opt.DrawOptions | None = None,
    plot: opt.Picture = None,
    json: opt.Json = False,
) -> None:
    """Set the certified bracket beside the exact one, Rényi's bound, the Gaussian limit and Monte Carlo."""
    target, neighbours, run = show.check_picture(plot), as_relation(relation), question.run
    certified = question.certified(effort)
    by: Any = certified
    if drawing is not None:
        others = comparing.BRIEFLY_EXACT, Renyi(), GaussianLimit()
        by = (certified, *others, drawing.monte_carlo)
    with long_work() as work:

        def answer() -> comparing.Comparison:
            return comparing.compare(run, relation=neighbours, delta=delta, by=by, progress=work)

        def tell(quick: comparing.Comparison) -> str:
            return show.answers_in_short("epsilon", "delta", quick.deltas, quick.rows[0].epsilons)

        table = work.finish(answer, tell)
        work.note_interrupts(answer for row in table.rows for answer in row.epsilons)
        is_drawn = target is not None and work.attempt(lambda: _draw(question, neighbours, table, target))
    if json:
        rows = [_comparison_object(row, table.deltas) for row in table.rows]
        stated = show.question_object(question, neighbours, certified)
        show.print_json({"question": stated, **work.mark, "rows": rows})
    else:
        page = Page()
        work.show_on(page)
        page.facts(show.question_facts(question, neighbours, certified))
        _show_comparison(page, table)
    if target is not None:
        say(f"drew {target}" if is_drawn else f"interrupted before {target} was drawn")
    work.end()


def _draw(question: opt.RunOptions, relation: Relation, table: comparing.Comparison, target: Path) -> None:
    from tightrope.report.plot import draw_accountants

    curves = {by.name: curve for by, curve in table.curves.items()}
    ranged = [curve for curve in curves.values() if isinstance(curve, PrivacyCurve | RenyiCurve)][:1]
    title, assumed = run_in_short(question.run), assumed_in_short(question.run, relation)
    draw_accountants(
        curves, epsilons=show.fine_range(show.usual_range(ranged)), to=target, title=title, assumed=assumed
    )


def _show_comparison(page: Page, table: comparing.Comparison) -> None:
    rows = [["accountant"]]
    for at in table.deltas:
        rows[0] += [
            f"epsilon at delta {write_number(at)}",
            f"epsilon at delta {write_number(at)}, beside the bracket",
        ]
    for row in table.rows:
        cells: list[str] = []
        for i, answer in enumerate(row.epsilons):
            cells += [show.answer_in_short(answer), table.locate(row, i)]
        rows.append([row.name, *(cells or ["refused", ""] * len(table.deltas))])
    page.table(rows)
    brackets = [answer for answer in table.rows[0].epsilons if isinstance(answer, Bracket)]
    page.heading(show.width_in_words(brackets, "The ends of the bracket"))
    page.heading("What each answer is worth")
    for name, promise in dict.fromkeys((row.by.name, row.by.promise) for row in table.rows):
        page.line(f"{name}: {promise}", indent=2)
    _show_refusals(page, [(row.name, row.refusal) for row in table.rows])


def _comparison_object(row: comparing.ComparisonRow, deltas: tuple[float, ...]) -> show.Object:
    found = zip(deltas, row.epsilons, strict=True) if row.refusal is None else ()
    return {
        "accountant": row.by.name,
        "theorem": row.theorem or None,
        "promise": row.by.promise,
        "epsilons": [
            {
                "delta": at,
                "epsilon": show.answer_object(answer),
                **(show.width_object(answer) if isinstance(answer, Bracket) else {}),
            }
            for at, answer in found
        ],
        "refusal": None if row.refusal is None else row.refusal.in_words(WORDS),
    }


# theorems

_PROOFS = "../src/tightrope/theorems/"

_OPENING = """\
# Theorems

Every answer rests on rows of this table. A question without a row is refused, never approximated.
This page is printed by `tightrope theorems --markdown`.

N(v) is the noise centred at v in units of the clipping norm C, and g is the sampling rate. A pair (P, Q) is
the worst case of one step: delta(epsilon) is the hockey-stick divergence of P from Q at e^epsilon.

## Which questions have a theorem
"""


def theorems(
    *,
    json: opt.Json = False,
    markdown: Annotated[bool, opt.flag("Print a Markdown page instead of tables.")] = False,
) -> None:
    """Print which questions have a theorem, every theorem, and the refuted beliefs."""
    if json and markdown:
        raise Misused("--json contradicts --markdown: choose one of them")
    if markdown:
        print(_write_page(), end="")
        return
    holds = [evidence for evidence in list_theorems() if evidence.standing is not REFUTED]
    refuted = support_matrix().refuted_beliefs
    if json:
        cells = [
            {
                "mechanism": spell(mechanism),
                "sampling": spell(sampling),
                "relation": spell(relation),
                "theorems": [evidence.name for evidence in found],
            }
            for mechanism, sampling, relation, found in support_matrix().cells
        ]
        known = {
            "theorems": [show.theorem_object(evidence) for evidence in holds],
            "refuted_beliefs": [show.theorem_object(evidence) for evidence in refuted],
        }
        show.print_json({"support": cells, **known})
        return
    page = Page()
    page.line("Which theorem, by its number below, answers which question; none where it is refused.")
    page.table(_matrix_rows(lambda evidence: str(holds.index(evidence) + 1)))
    page.heading("Theorems")
    show.show_theorems(page, holds)
    page.heading("Refuted beliefs")
    show.show_theorems(page, refuted)


def _write_page() -> str:
    """Write the page: which questions have an answer, each theorem, and the beliefs that are false."""
    everything = list_theorems()
    holds = [evidence for evidence in everything if evidence.standing is not REFUTED]
    false = [evidence for evidence in everything if evidence.standing is REFUTED]
    sections = [
        _OPENING,
        _write_matrix(),
        "\n## Theorems and their standing\n",
        "\n".join(_write_entry(evidence) for evidence in holds),
        "\n## Refuted beliefs\n",
        "\n".join(_write_entry(evidence) for evidence in false),
    ]
    return "\n".join(sections)


def _matrix_rows(named: Callable[[Evidence], str]) -> list[list[str]]:
    """Heading and body of the support matrix: one row per mechanism and sampling, one column per relation."""
    found: dict[tuple[str, str], list[str]] = {}
    # relations come in the order of RELATIONS
    for mechanism, sampling, _, evidence in support_matrix().cells:
        names = ", ".join(map(named, evidence)) or "none"
        found.setdefault((spell(mechanism), spell(sampling)), []).append(names)
    heading = ["mechanism", "sampling", *(spell(relation) for relation in RELATIONS.values())]
    return [heading, *([*question, *names] for question, names in found.items())]


def _write_matrix() -> str:
    heading, *body = _matrix_rows(lambda evidence: f"[{evidence.name}](#{evidence.name})")
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, ["---"] * len(heading), *body])


def _write_entry(evidence: Evidence) -> str:
    return (
        f"### {evidence.name}\n\n{evidence.statement}\n\n"
        f"- standing: {evidence.standing.value}\n"
        f"- reference: {evidence.reference}\n"
        f"- proof: [{evidence.proof}]({_PROOFS}{evidence.proof})\n"
    )
