"""tightrope spent: what everything that a ledger has recorded costs together."""

from pathlib import Path
from typing import Annotated

from tightrope.answers.ledger import Ledger
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import safe_number, tell, tell_direction, tell_worth
from tightrope.cli.printed.terminal import print_brief
from tightrope.cli.process.long_work import LongWork, long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import check_delta
from tightrope.numerics.text import write_number
from tightrope.report.words import (
    assumed_in_words,
    mechanism_in_words,
    relation_in_words,
    run_in_words,
    sampling_in_words,
)
from tightrope.setting.plain import plain_run

LedgerPath = Annotated[Path, opt.about("The file that Ledger.save or Ledger.open wrote.", opt.QUESTION)]


def spent(ledger: LedgerPath, *, delta: opt.Deltas, form: Form = IN_WORDS) -> None:
    """Bracket the epsilon of everything that a ledger has recorded so far."""
    kept, deltas = Ledger.load(ledger), [check_delta(each) for each in delta]
    with long_work() as work:
        found = work.finish(
            lambda: [kept.epsilon(each, work) for each in deltas],
            lambda quick: show.answers_in_short("epsilon", "delta", deltas, quick),
        )
    answers = list(zip(deltas, found, strict=True))
    assumed = assumed_in_words([step.sampling for step, _ in kept.run], kept.relation)
    said = work.tell(f"{tell('epsilon', 'delta', deltas, found)}: everything in {ledger}, {assumed}.")
    if form.json:
        _print_object(said, ledger, kept, answers, work)
    elif form.brief:
        print_brief(map(safe_number, found))
    else:
        _show(said, ledger, kept, answers, form)
    work.end()


def _print_object(
    said: str, path: Path, kept: Ledger, answers: list[tuple[float, Bracket]], work: LongWork
) -> None:
    found = [bracket for _, bracket in answers]
    rows = [
        {"delta": delta, "epsilon": show.bracket_object(bracket), **show.width_object(bracket)}
        for delta, bracket in answers
    ]
    show.print_json(
        {
            "answer": said,
            **work.mark,
            "ledger": str(path),
            "parts": plain_run(kept.run),
            "relation": show.relation_object(kept.relation),
            "accuracy": kept.by.accuracy,
            "effort": str(kept.by.effort),
            "brackets": rows,
            "conditions": list(kept.conditions),
            **show.why_object(show.find_theorems(found), show.find_datasets(found)),
        }
    )


def _show(said: str, path: Path, kept: Ledger, answers: list[tuple[float, Bracket]], form: Form) -> None:
    found = [bracket for _, bracket in answers]
    facts = [("ledger", str(path)), ("steps", f"{kept.steps:,}")]
    for step, times in kept.run:
        noise = mechanism_in_words(step.mechanism)
        batches = sampling_in_words(step.sampling, kept.relation)
        facts.append((f"{times:,} x", f"{noise}; {batches}"))
    facts.append(("relation", relation_in_words(kept.relation)))
    page = show.open_page(
        [said, tell_direction(kept.relation), tell_worth(found)],
        question=[f"Run: {run_in_words(kept.run, kept.relation)}."],
        facts=facts + show.effort_facts(kept.by, [(kept.run, kept.relation)]),
        why=form.why,
    )
    if form.why or len(found) > 1:
        rows = [[write_number(delta), *show.answer_cells(bracket)] for delta, bracket in answers]
        page.table([["delta", "epsilon, lower end", "epsilon, upper end"], *rows])
    if form.why:
        show.show_width(page, found)
    show.close_page(page, show.find_theorems(found), show.find_datasets(found), why=form.why)
