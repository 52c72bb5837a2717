"""tightrope compare and theorems: what other accountants say, and what is known at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tightrope.answers.compare as comparing
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.renyi import Renyi
from tightrope.cli.printed import show
from tightrope.cli.printed.refusals import WORDS
from tightrope.cli.printed.sentences import safe_number, tell, tell_direction, tell_worth
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.process.long_work import long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.cli.typed.misused import Misused
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_short, assumed_in_words, run_in_short, spell
from tightrope.setting.relation import (
    RELATIONS,
    Relation,
    as_relation,
)
from tightrope.theorems.evidence import REFUTED, Evidence
from tightrope.theorems.lookup import list_theorems, support_matrix

# compare


def compare(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    group: opt.WhichGroup = 1,
    delta: opt.Deltas,
    effort: opt.WhichEffort = "quick",
    drawing: opt.DrawOptions | None = None,
    plot: opt.Picture = None,
    form: Form = IN_WORDS,
) -> None:
    """Set the certified bracket beside the exact one, Rényi's bound, the Gaussian limit and Monte Carlo."""
    target, neighbours, run = show.check_picture(plot), as_relation(relation).of(group), question.run
    certified = question.certified(effort)
    by: Any = certified
    if drawing is not None:
        others = comparing.BRIEFLY_EXACT, Renyi(), GaussianLimit()
        by = (certified, *others, drawing.monte_carlo)
    with long_work() as work:
        table = work.finish(
            lambda: comparing.compare(run, relation=neighbours, delta=delta, by=by, progress=work), _in_short
        )
        work.note_interrupts(answer for row in table.rows for answer in row.epsilons)
    certain = table.rows[0]
    if form.brief and certain.refusal is not None:
        raise certain.refusal
    assumed = assumed_in_words([question.stated_sampling], neighbours)
    said = work.tell(
        f"{tell('epsilon', 'delta', table.deltas, certain.epsilons)}: {assumed}."
        if certain.refusal is None
        else f"No epsilon is certified: {certain.refusal.in_words(WORDS)}"
    )
    if form.json:
        stated = {"answer": said, **work.mark}
        stated["question"] = show.question_object(question, neighbours, certified)
        show.print_json({**stated, "rows": [_comparison_object(row, table.deltas) for row in table.rows]})
    elif form.brief:
        print_brief(map(safe_number, certain.epsilons))
    else:
        page = show.open_page(
            [said, tell_direction(neighbours), tell_worth(certain.epsilons)],
            question=show.question_in_short(question, neighbours, certified),
            facts=show.question_facts(question, neighbours, certified),
            why=form.why,
        )
        _show_comparison(page, table, form)
    if target is not None:
        work.draw(target, lambda: _draw(question, neighbours, table, target))
    work.end()


def _in_short(quick: comparing.Comparison) -> str:
    """What the certified accountant knows while others count."""
    return show.answers_in_short("epsilon", "delta", quick.deltas, quick.rows[0].epsilons)


def _draw(question: opt.RunOptions, relation: Relation, table: comparing.Comparison, target: Path) -> None:
    from tightrope.report.plot import draw_accountants  # only where something is drawn

    curves = {by.name: curve for by, curve in table.curves.items()}
    ranged = [curve for curve in curves.values() if isinstance(curve, PrivacyCurve | RenyiCurve)][:1]
    title, assumed = run_in_short(question.run), assumed_in_short(question.run, relation)
    draw_accountants(
        curves, epsilons=show.fine_range(show.usual_range(ranged)), to=target, title=title, assumed=assumed
    )


def _show_comparison(page: Page, table: comparing.Comparison, form: Form) -> None:
    for i, delta in enumerate(table.deltas):
        rows = [["accountant", f"epsilon at delta {write_number(delta)}", "beside the certified bracket"]]
        for row in table.rows:
            found = [show.answer_in_short(row.epsilons[i]), table.locate(row, i)] if row.epsilons else []
            rows.append([row.name, *(found or ["refused", ""])])
        page.table(rows)
    page.line("")
    for name, promise in dict.fromkeys((row.by.name, row.by.promise) for row in table.rows):
        page.line(f"{name}: {promise}")
    show.show_refusals(page, [(row.name, row.refusal) for row in table.rows])
    brackets = [answer for answer in table.rows[0].epsilons if isinstance(answer, Bracket)]
    if form.why:
        show.show_width(page, brackets, "The ends of the bracket")
    show.close_page(page, show.find_theorems(brackets), show.find_datasets(brackets), why=form.why)


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
    questions = [bool(found) for *_, found in support_matrix().cells]
    page = Page()
    page.opening(
        f"{sum(questions)} of {len(questions)} kinds of question have a theorem; the others are refused. "
        "Numbers are those of the theorems below."
    )
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
