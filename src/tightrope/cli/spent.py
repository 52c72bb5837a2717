"""tightrope spent: what everything that a ledger has recorded costs together."""

from pathlib import Path
from typing import Annotated

from tightrope.answers.ledger import Ledger
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.long_work import LongWork, long_work
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import check_delta
from tightrope.numerics.text import write_number
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.plain import plain_run

LedgerPath = Annotated[Path, opt.about("The file that Ledger.save or Ledger.open wrote.", opt.QUESTION)]


def spent(ledger: LedgerPath, *, delta: opt.Deltas, json: opt.Json = False) -> None:
    """Bracket the epsilon of everything that a ledger has recorded so far."""
    kept, deltas = Ledger.load(ledger), [check_delta(each) for each in delta]
    with long_work() as work:
        found = work.finish(
            lambda: [kept.epsilon(each, work) for each in deltas],
            lambda quick: show.answers_in_short("epsilon", "delta", deltas, quick),
        )
    answers = list(zip(deltas, found, strict=True))
    if json:
        _print_object(ledger, kept, answers, work)
    else:
        page = Page()
        work.show_on(page)
        _show(page, ledger, kept, answers)
    work.end()


def _print_object(path: Path, kept: Ledger, answers: list[tuple[float, Bracket]], work: LongWork) -> None:
    found = [bracket for _, bracket in answers]
    rows = [
        {"delta": delta, "epsilon": show.bracket_object(bracket), **show.width_object(bracket)}
        for delta, bracket in answers
    ]
    show.print_json(
        {
            "ledger": str(path),
            **work.mark,
            "parts": plain_run(kept.run),
            "relation": show.relation_object(kept.relation),
            "accuracy": kept.by.accuracy,
            "effort": str(kept.by.effort),
            "brackets": rows,
            "conditions": list(kept.conditions),
            **show.why_object(show.find_theorems(found), show.find_datasets(found)),
        }
    )


def _show(page: Page, path: Path, kept: Ledger, answers: list[tuple[float, Bracket]]) -> None:
    found = [bracket for _, bracket in answers]
    facts = [("ledger", str(path)), ("steps", f"{kept.steps:,}")]
    for step, times in kept.run:
        noise, batches = mechanism_in_words(step.mechanism), sampling_in_words(step.sampling)
        facts.append((f"{times:,} x", f"{noise}; {batches}"))
    facts.append(("relation", relation_in_words(kept.relation)))
    page.facts(facts + show.effort_facts(kept.by, [(kept.run, kept.relation)]))
    page.table(
        [
            ["delta", "epsilon, lower end", "epsilon, upper end"],
            *([write_number(delta), *show.answer_cells(bracket)] for delta, bracket in answers),
        ]
    )
    for condition in kept.conditions:
        page.heading(f"This holds if {condition}.")
    page.heading(show.width_in_words(found))
    show.show_why(page, show.find_theorems(found), show.find_datasets(found))
