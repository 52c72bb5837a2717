"""tightrope contrast, compare and theorems: what else the answer could have been, and what is known at all."""

from typing import Annotated

from cyclopts import Parameter

import tightrope.answers.compare as comparing
import tightrope.answers.contrast as contrasting
from tightrope.accountants.names import CERTIFIED, MONTE_CARLO, RENYI, promise_of
from tightrope.cli.curves import check_picture, fine_range, usual_range
from tightrope.cli.options import (
    ANSWER,
    Deltas,
    DrawOptions,
    Json,
    Picture,
    RelationName,
    RunOptions,
    SamplingName,
    WhichEffort,
    WhichRelation,
    flag,
)
from tightrope.cli.refusals import in_options
from tightrope.cli.show import (
    DIGITS,
    Object,
    answer_in_short,
    answer_object,
    bracket_object,
    evidence_of,
    print_json,
    question_facts,
    question_object,
    refuse_to_hide_an_interrupt,
    show_theorems,
    theorem_object,
)
from tightrope.cli.terminal import Page, say, watch_rounds
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.errors import InvalidSetting
from tightrope.report.digits import ends
from tightrope.report.theorem_page import matrix_rows, theorem_page
from tightrope.report.words import assumed_in_short, run_in_short, spelled
from tightrope.setting.effort import QUICK, Effort, meaning_of
from tightrope.setting.spelling import RELATION_SPELLINGS, SAMPLING_SPELLINGS
from tightrope.theorems.evidence import REFUTED, Evidence
from tightrope.theorems.lookup import every_theorem, support_matrix

# contrast

ClaimedSampling = Annotated[
    SamplingName | None,
    Parameter(group=ANSWER, help="The sampling to compare with; by default that of --sampling."),
]
ClaimedRelation = Annotated[RelationName, Parameter(group=ANSWER, help="The relation to compare with.")]


def contrast(
    question: RunOptions,
    *,
    delta: Deltas,
    claimed_sampling: ClaimedSampling = None,
    claimed_relation: ClaimedRelation = "add-or-remove",
    effort: WhichEffort = "quick",
    json: Json = False,
) -> None:
    """Bracket epsilon for the same noise, rate and steps under every sampling and relation, and compare with a claim."""
    claimed = SAMPLING_SPELLINGS[claimed_sampling or question.sampling], RELATION_SPELLINGS[claimed_relation]
    with watch_rounds() as progress:
        table = contrasting.contrast(
            question.run,
            delta=delta,
            claimed=claimed,
            accuracy=question.accuracy,
            effort=Effort(effort),
            progress=progress,
        )
    theorems = list(dict.fromkeys(theorem for row in table.rows for theorem in _theorems(row)))
    if json:
        print_json(
            {
                "question": question_object(question, None, Effort(effort)),
                "claimed": {"sampling": spelled(claimed[0]), "relation": spelled(claimed[1])},
                "rows": [_contrast_object(row, table.deltas) for row in table.rows],
                "verdict": table.verdict,
                "theorems": [theorem_object(theorem) for theorem in theorems],
            }
        )
        return
    page = Page()
    page.facts(question_facts(question, None, Effort(effort)))
    _show_contrast(page, table, theorems)


def _show_contrast(page: Page, table: contrasting.Contrast, theorems: list[Evidence]) -> None:
    deltas = (f"epsilon at delta {at:.12g}" for at in table.deltas)
    body = [_contrast_cells(table, row, theorems) for row in table.rows]
    page.table([["sampling", "relation", *deltas, "because"], *body])
    for row in table.rows:
        if row.effort is not None:
            narrower = "; --effort tight narrows the bracket" if row.effort is QUICK else ""
            page.line(f"{_name(row)}: {meaning_of(row.effort)}{narrower}.")
    page.heading("The upper ends are guaranteed, because")
    show_theorems(page, theorems)
    page.heading("The lower ends are reached by the neighbours")
    for row in table.rows:
        if row.curve is not None:
            page.line(f"{_name(row)}: {' or '.join(row.curve.witnessed_by)}", indent=2)
    for row in table.rows:
        if row.refusal is not None:
            page.heading(f"Refused: {_name(row)}")
            page.line(in_options(row.refusal), indent=2)
    # last: what stays above the prompt is what one must not miss
    page.heading("Verdict")
    page.line(table.verdict, indent=2)


def _name(row: contrasting.Row) -> str:
    return f"{spelled(row.sampling)}, {spelled(row.relation)}"


def _theorems(row: contrasting.Row) -> tuple[Evidence, ...]:
    return () if row.curve is None else evidence_of(row.curve)


def _contrast_cells(table: contrasting.Contrast, row: contrasting.Row, theorems: list[Evidence]) -> list[str]:
    found = zip(row.epsilons, table.ratios_in_words(row), strict=True)
    brackets = [f"[{', '.join(ends(bracket, DIGITS))}]{beside}" for bracket, beside in found]
    numbers = ", ".join(str(theorems.index(theorem) + 1) for theorem in _theorems(row)) or "-"
    refused = ["refused"] * len(table.deltas)
    return [spelled(row.sampling), spelled(row.relation), *(brackets or refused), numbers]


def _contrast_object(row: contrasting.Row, deltas: tuple[float, ...]) -> Object:
    ratios: list[Object | None] = [bracket_object(ratio) for ratio in row.ratios] or [None] * len(
        row.epsilons
    )
    answered = zip(deltas, row.epsilons, ratios, strict=True) if row.refusal is None else ()
    return {
        "sampling": spelled(row.sampling),
        "relation": spelled(row.relation),
        "brackets": [
            {"delta": at, "epsilon": bracket_object(bracket), "ratio": ratio}
            for at, bracket, ratio in answered
        ],
        "theorems": [theorem.name for theorem in _theorems(row)],
        "reached_by": [] if row.curve is None else list(row.curve.witnessed_by),
        "effort": None if row.effort is None else row.effort.value,
        "refusal": row.refusal,
    }


# compare


def compare(
    question: RunOptions,
    *,
    relation: WhichRelation,
    delta: Deltas,
    effort: WhichEffort = "quick",
    drawing: DrawOptions | None = None,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Set the certified bracket beside the Rényi bound, the Gaussian limit and Monte Carlo, on one run."""
    target, neighbours = check_picture(plot), RELATION_SPELLINGS[relation]
    with watch_rounds("Counting, part") as progress:
        table = comparing.compare(
            question.run,
            relation=neighbours,
            delta=delta,
            accuracy=question.accuracy,
            effort=Effort(effort),
            simulation=None if drawing is None else drawing.simulation,
            progress=progress,
        )
        if target is not None:
            from tightrope.report.accountants_plot import draw_accountants

            known = [table.curves.get(who) for who in (CERTIFIED, RENYI)]
            ranged = [curve for curve in known if isinstance(curve, PrivacyCurve | RenyiCurve)][:1]
            title, assumed = run_in_short(question.run), assumed_in_short(question.run, neighbours)
            at = fine_range(usual_range(ranged))
            draw_accountants(table.curves, epsilons=at, to=target, title=title, assumed=assumed)
    if json:
        rows = [_comparison_object(row, table.deltas) for row in table.rows]
        print_json({"question": question_object(question, neighbours, Effort(effort)), "rows": rows})
    else:
        page = Page()
        page.facts(question_facts(question, neighbours, Effort(effort)))
        _show_comparison(page, table)
    if target is not None:
        say(f"drew {target}")
    refuse_to_hide_an_interrupt(
        answer for row in table.rows if row.accountant is MONTE_CARLO for answer in row.epsilons
    )


def _show_comparison(page: Page, table: comparing.Comparison) -> None:
    rows = [["accountant"]]
    for at in table.deltas:
        rows[0] += [f"epsilon at delta {at:.12g}", f"epsilon at delta {at:.12g}, beside the bracket"]
    for row in table.rows:
        cells: list[str] = []
        for i, answer in enumerate(row.epsilons):
            cells += [answer_in_short(answer), table.beside_certified(row, i)]
        rows.append([row.name, *(cells or ["refused", ""] * len(table.deltas))])
    page.table(rows)
    page.heading("What each answer is worth")
    for accountant in dict.fromkeys(row.accountant for row in table.rows):
        page.line(f"{accountant.value}: {promise_of(accountant)}", indent=2)
    for row in table.rows:
        if row.refusal is not None:
            page.heading(f"Refused: {row.name}")
            page.line(in_options(row.refusal), indent=2)


def _comparison_object(row: comparing.Row, deltas: tuple[float, ...]) -> Object:
    found = zip(deltas, row.epsilons, strict=True) if row.refusal is None else ()
    return {
        "accountant": row.accountant.value,
        "theorem": row.by or None,
        "promise": promise_of(row.accountant),
        "epsilons": [{"delta": at, "epsilon": answer_object(answer)} for at, answer in found],
        "refusal": row.refusal,
    }


# theorems


def theorems(
    *, json: Json = False, markdown: Annotated[bool, flag("Print a Markdown page instead of tables.")] = False
) -> None:
    """Print which questions have a theorem, every theorem with its standing, and the beliefs that are refuted."""
    if json and markdown:
        raise InvalidSetting("--json contradicts --markdown: choose one of them.")
    if markdown:
        print(theorem_page(), end="")
        return
    holds = [evidence for evidence in every_theorem() if evidence.standing is not REFUTED]
    refuted = support_matrix().refuted_beliefs
    if json:
        cells = [
            {
                "mechanism": spelled(mechanism),
                "sampling": spelled(sampling),
                "relation": spelled(relation),
                "theorems": [evidence.name for evidence in found],
            }
            for mechanism, sampling, relation, found in support_matrix().cells
        ]
        known = {
            "theorems": [theorem_object(evidence) for evidence in holds],
            "refuted_beliefs": [theorem_object(evidence) for evidence in refuted],
        }
        print_json({"support": cells, **known})
        return
    page = Page()
    page.line("Which theorem, by its number below, answers which question; none where it is refused.")
    page.table(matrix_rows(lambda evidence: str(holds.index(evidence) + 1)))
    page.heading("Theorems")
    show_theorems(page, holds)
    page.heading("Refuted beliefs")
    show_theorems(page, refuted)
