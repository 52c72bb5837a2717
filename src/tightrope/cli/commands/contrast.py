"""tightrope contrast: the same run under every sampling and relation, against a claim."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tightrope.answers.contrast as contrasting
from tightrope.accountants.certified import Certified
from tightrope.answers.pictures import pick_rows
from tightrope.cli.commands.shuffled import contrast_shuffle
from tightrope.cli.printed import show
from tightrope.cli.printed.refusals import WORDS
from tightrope.cli.printed.sentences import short
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.process.long_work import LongWork, long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.cli.typed.samplings import name_kind
from tightrope.numerics.text import write_number
from tightrope.report.words import spell
from tightrope.setting.relation import as_relation
from tightrope.setting.sampling import Shuffled
from tightrope.theorems.evidence import Evidence

ClaimedSampling = Annotated[
    opt.AnySampling | None,
    opt.about("The sampling to compare with; by default that of --sampling.", opt.ANSWER),
]
ClaimedRelation = Annotated[opt.RelationName, opt.about("The relation to compare with.", opt.ANSWER)]


def contrast(
    question: opt.RunOptions,
    *,
    delta: opt.Deltas,
    claimed_sampling: ClaimedSampling = None,
    claimed_relation: ClaimedRelation = "add-or-remove",
    group: opt.WhichGroup = 1,
    effort: opt.WhichEffort = "quick",
    plot: opt.Picture = None,
    form: Form = IN_WORDS,
) -> None:
    """Bracket epsilon for the same run under every sampling and relation, and compare with a claim."""
    target, run = show.check_picture(plot), question.run
    claimed = name_kind(claimed_sampling or question.sampling), as_relation(claimed_relation).of(group)
    by = question.certified(effort)
    with long_work() as work:
        asked: Any = {"delta": delta, "claimed": claimed, "by": by, "progress": work}
        table = work.finish(lambda: contrasting.contrast(run, **asked), _in_short)
        shuffled = (
            []
            if form.brief and target is None
            else work.finish(lambda: contrast_shuffle(question, table, by))
        )
    if form.brief:
        print_brief([table.verdict])
    else:
        _print(question, by, table, shuffled, work, form)
    if target is not None:
        work.draw(target, lambda: _draw(table, shuffled, target))
    work.end()


def _draw(table: contrasting.Contrast, shuffled: Sequence[contrasting.ContrastRow], target: Path) -> None:
    from tightrope.report.charts import draw_contrast  # only where something is drawn

    draw_contrast(table, pick_rows(table, [*table.rows, *shuffled]), to=target)


def _in_short(quick: contrasting.Contrast) -> str:
    """The rows that take long, as they are known before."""
    rows = [row for row in quick.rows if row.effort is not None]
    said = (show.answers_in_short("epsilon", "delta", quick.deltas, row.epsilons) for row in rows)
    return " ".join(f"{_name(row)}: {answer}" for row, answer in zip(rows, said, strict=True))


def _print(
    question: opt.RunOptions,
    by: Certified,
    table: contrasting.Contrast,
    shuffled: Sequence[contrasting.ContrastRow],
    work: LongWork,
    form: Form,
) -> None:
    """Print the verdict with the table, in words or as JSON."""
    claimed = table.claimed
    rows = [*table.rows, *shuffled]
    shown = rows if form.why or form.json else pick_rows(table, rows)
    theorems = show.find_theorems(epsilon for row in shown for epsilon in row.epsilons)
    if form.json:
        answer = {
            "answer": work.tell(table.verdict),
            **work.mark,
            "question": show.question_object(question, None, by),
            "claimed": None
            if claimed is None
            else {"sampling": spell(claimed[0]), "relation": str(claimed[1])},
            "rows": [_contrast_object(row, table.deltas) for row in rows],
            "verdict": table.verdict,
            "theorems": [show.theorem_object(theorem) for theorem in theorems],
        }
        show.print_json(answer)
        return
    page = show.open_page(
        [work.tell(table.verdict)],
        question=show.question_in_short(question, None, by),
        facts=show.question_facts(question, None, by),
        why=form.why,
    )
    _show_contrast(page, table, shown, theorems, form)


def _show_contrast(
    page: Page,
    table: contrasting.Contrast,
    rows: Sequence[contrasting.ContrastRow],
    theorems: list[Evidence],
    form: Form,
) -> None:
    # from the largest delta down, in whichever order they were asked for
    order = sorted(range(len(table.deltas)), key=lambda i: table.deltas[i], reverse=True)
    deltas = [write_number(table.deltas[i]) for i in order]
    named = [f"delta {delta}, epsilon at most" for delta in deltas]
    body = [[_name(row), *_uppers(row, order), *_ratio(table, row)] for row in rows]
    ratio = ["ratio" if len(deltas) == 1 else f"ratio, {write_number(table.deltas[0])}"]
    if form.why:
        named = [f"epsilon at delta {delta}" for delta in deltas]
        body = [[_name(row), *_brackets(table, row, order), *_numbers(row, theorems)] for row in rows]
        ratio = ["because"]
        page.table([["", *named, *ratio], *body])
    else:
        page.table([["epsilon at most, at delta", *deltas, *ratio], *body], stacked=["", *named, *ratio])
    _show_effort(page, rows, form)
    for note in table.rounded:
        page.line("")
        page.line(note)
    answered = [row for row in rows if row.refusal is None]
    reached_by = [f"{_name(row)}: {' or '.join(show.find_datasets(row.epsilons))}" for row in answered]
    show.show_refusals(page, [(_name(row), row.refusal) for row in rows])
    show.close_page(
        page,
        theorems,
        reached_by,
        why=form.why,
        ends="ends are",
        more="statements, datasets, both ends, and every sampling and relation",
    )


def _show_effort(page: Page, rows: Sequence[contrasting.ContrastRow], form: Form) -> None:
    """Print which rows more effort would narrow, and with --why also which it did."""
    for row in rows:
        if row.effort is not None and (form.why or any(epsilon.gap for epsilon in row.epsilons)):
            page.line("")
            how = f"{row.effort.meaning}. " if form.why else ""
            page.line(f"{_name(row)}: {how}{show.width_in_words(row.epsilons)}")


def _name(row: contrasting.ContrastRow) -> str:
    return f"{spell(row.sampling)}, {row.relation}"


def _uppers(row: contrasting.ContrastRow, order: Sequence[int]) -> list[str]:
    if row.refusal is not None:
        return ["refused"] * len(order)
    uppers = [short(row.epsilons[i].upper, up=True) for i in order]
    if row.sampling is not Shuffled:
        return uppers
    lowers = (short(row.epsilons[i].lower, up=False) for i in order)  # perhaps far below
    return [f"{upper} (at least {lower})" for upper, lower in zip(uppers, lowers, strict=True)]


def _ratio(table: contrasting.Contrast, row: contrasting.ContrastRow) -> list[str]:
    """How many times the claim it is, at the delta of the verdict."""
    *below, ratio = "".join(table.ratios_in_words(row)[:1]).strip(" ()").split(" to ")
    return [f"up to {ratio}" if below else ratio]


def _brackets(table: contrasting.Contrast, row: contrasting.ContrastRow, order: Sequence[int]) -> list[str]:
    if row.refusal is not None:
        return ["refused"] * len(order)
    beside = table.ratios_in_words(row)
    return [f"{show.answer_in_short(row.epsilons[i])}{beside[i]}" for i in order]


def _numbers(row: contrasting.ContrastRow, theorems: list[Evidence]) -> list[str]:
    return [show.write_numbers(show.find_theorems(row.epsilons), theorems)]


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
