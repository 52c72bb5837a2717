"""tightrope epsilon, delta and curve: what one run spends, by whichever accountant is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.renyi import Renyi
from tightrope.answers.compare import Answer, AnyCurve
from tightrope.answers.spend import privacy_curve
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.long_work import LongWork, long_work
from tightrope.cli.refusals import MIXED, Misused, tell_missing
from tightrope.cli.terminal import Page, say
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.curve.simulated_curve import Estimate
from tightrope.engines.face import Progress
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_short, run_in_short
from tightrope.setting.relation import Relation, as_relation


@dataclass(frozen=True)
class CurveQuestion:
    """What is run, who counts as a neighbour, and who answers."""

    stated: opt.RunOptions
    relation: Relation
    by: Accountant[Any, Any]

    def curve(self, progress: Progress | None) -> AnyCurve:
        """The curve that answers it."""
        found: AnyCurve = privacy_curve(
            self.stated.run, relation=self.relation, by=self.by, progress=progress
        )
        return found

    def usual_range(self, curve: AnyCurve) -> list[float]:
        """Epsilons to ask at by default, up to where brackets or the Rényi bound find delta negligible."""
        if not isinstance(curve, PrivacyCurve | RenyiCurve):
            curve = privacy_curve(self.stated.run, relation=self.relation, by=Renyi())
        return show.usual_range([curve])

    def draw(self, curve: AnyCurve, epsilons: Sequence[float], target: Path) -> None:
        """Draw delta over the epsilons."""
        from tightrope.report.plot import draw_accountants, draw_curve

        title, assumed = run_in_short(self.stated.run), assumed_in_short(self.stated.run, self.relation)
        at = show.fine_range(epsilons)
        if isinstance(curve, PrivacyCurve):
            draw_curve(curve, epsilons=at, to=target, title=title, assumed=assumed)
        else:
            draw_accountants({self.by.name: curve}, epsilons=at, to=target, title=title, assumed=assumed)

    def facts(self, curve: AnyCurve, answers: Sequence[Answer]) -> list[show.Fact]:
        """The question, who answers, and how."""
        facts = show.question_facts(self.stated, self.relation, self.by)
        if not isinstance(self.by, Certified):
            facts.append(("accountant", f"{self.by.name}, {self.by.promise}"))
        if isinstance(self.by, Exact):
            facts.append(("width", f"{self.by.width:g} in epsilon is asked for"))
        if isinstance(curve, GaussianLimitCurve):
            facts.append(("mu", f"{curve.mu:.9g}"))
        if isinstance(self.by, MonteCarlo):
            how = self.by
            cut = [a.draws for a in answers if isinstance(a, Estimate) and a.interrupted]
            draws = f"interrupted after {min(cut):,} of {how.draws:,}" if cut else f"{how.draws:,}"
            facts.append(("draws", f"{draws}, {how.drawing.value}, from seed {how.seed}"))
            sure = f"{how.confidence:g} that all intervals hold, by the {how.interval.value} interval"
            facts.append(("confidence", sure))
        return facts

    def accountant_object(self) -> show.Object:
        """Who answers, and how, for JSON."""
        about: show.Object = {"kind": self.by.name, "promise": self.by.promise}
        if isinstance(self.by, MonteCarlo):
            about |= {name: getattr(self.by, name) for name in ("draws", "confidence", "seed")}
            about |= {"drawing": self.by.drawing.value, "interval": self.by.interval.value}
        if isinstance(self.by, Exact):
            about |= {name: getattr(self.by, name) for name in ("width", "cells", "bits")}
        return about


def epsilon(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    delta: opt.Deltas,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    json: opt.Json = False,
) -> None:
    """Bracket the smallest epsilon >= 0 for which the run is (epsilon, delta)-private."""
    asked = CurveQuestion(question, as_relation(relation), who.by(question.accuracy))
    _answer(asked, "epsilon", delta, json=json)


def delta(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    epsilon: opt.Epsilons,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    json: opt.Json = False,
) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private."""
    asked = CurveQuestion(question, as_relation(relation), who.by(question.accuracy))
    _answer(asked, "delta", epsilon, json=json)


Range = Annotated[
    list[float] | None,
    opt.Points,
    opt.about(
        f"start:stop:count or a list; by default {show.POINTS}, to where delta is {show.FAR_ENOUGH:g}.",
        opt.ANSWER,
    ),
]
Runs = Annotated[
    Path | None,
    opt.about("Several runs from this TOML file, in place of the options that state one run.", opt.QUESTION),
]


def curve(
    question: opt.RunOptions | None = None,
    *,
    relation: opt.WhichRelation | None = None,
    runs: Runs = None,
    epsilons: Range = None,
    plot: opt.Picture = None,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    json: opt.Json = False,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file."""
    target = show.check_picture(plot)
    if runs is not None:
        from tightrope.cli.runs import read_runs, show_runs

        if who.accountant != Certified.name:
            wrong = f"--accountant {who.accountant} contradicts --runs, whose curves are certified"
            raise Misused(f"{wrong}: leave one out")
        if question is not None or relation is not None:
            raise Misused(MIXED)
        show_runs(read_runs(runs), epsilons, target, effort=who.effort, json=json)
        return
    if question is None or relation is None:
        raise Misused(tell_missing("--sampling" if question is None else "--relation"))
    asked = CurveQuestion(question, as_relation(relation), who.by(question.accuracy))
    _answer(asked, "delta", epsilons, target=target, json=json)


_HEADINGS = {
    "certified": ("{}, lower end", "{}, upper end"),
    "exact": ("{}, lower end", "{}, upper end"),
    "renyi": ("{}, at most", "order"),
    "gaussian-limit": ("{}, about",),
    "monte-carlo": ("{}, estimate", "lower limit", "upper limit"),
}
_BECAUSE = {
    "renyi": "The upper bound is guaranteed, because",
    "gaussian-limit": "Nothing is guaranteed. The approximation rests on",
    "monte-carlo": "What is drawn bounds every pair of neighbours, because",
}


def _answer(
    asked: CurveQuestion,
    ask: Literal["epsilon", "delta"],
    at: Sequence[float] | None,
    *,
    target: Path | None = None,
    json: bool,
) -> None:
    """Print what was asked, the answers, and what they are worth; draw them where there is a target."""
    # everything is asked before anything is printed: a refusal comes alone, and no bar stands between lines
    with long_work() as work:
        asked, (found, at, answers, logs) = _find_answers(asked, ask, at, work)
        work.note_interrupts(answers)
        is_drawn = target is not None and work.attempt(lambda: asked.draw(found, at, target))
    given = "delta" if ask == "epsilon" else "epsilon"
    brackets = [answer for answer in answers if isinstance(answer, Bracket)]
    if json:
        rows = [
            {given: x, ask: show.answer_object(answer), **_more(ask, answer, log)}
            for x, answer, log in zip(at, answers, logs, strict=True)
        ]
        _print_object(asked, found, rows, brackets, work)
    else:
        page = Page()
        work.show_on(page)
        page.facts(asked.facts(found, answers))
        table = [[given, *(heading.format(ask) for heading in _HEADINGS[asked.by.name])]]
        for x, answer, log in zip(at, answers, logs, strict=True):
            table.append([write_number(x), *show.answer_cells(answer, log)])
        page.table(table)
        _show_worth(page, asked, found, brackets)
    if target is not None:
        say(f"drew {target}" if is_drawn else f"interrupted before {target} was drawn")
    work.end()


Found = tuple[AnyCurve, list[float], list[Answer], list[Any]]  # the curve, where it was asked, what it says


def _find_answers(
    asked: CurveQuestion, ask: Literal["epsilon", "delta"], at: Sequence[float] | None, work: LongWork
) -> tuple[CurveQuestion, Found]:
    """The answers, and the question with who answered in the end.

    An exact curve that was interrupted before it knew anything leaves the answer to the certified one.
    """
    # an exact curve keeps what it found; of others a new one is asked, so that the rehearsal changes no digit
    kept = asked.curve(work) if isinstance(asked.by, Exact) else None

    def answer() -> Found:
        return _read(asked, asked.curve(work) if kept is None else kept, ask, at)

    def tell(found: Found) -> str:
        by = "quick"
        if isinstance(asked.by, Exact):
            found, by = _read(quick, quick.curve(None), ask, found[1]), quick.by.name
        given = "delta" if ask == "epsilon" else "epsilon"
        return show.answers_in_short(ask, given, found[1], found[2], by)

    quick = replace(asked, by=Certified())
    found = work.finish(answer, tell)
    if work.interrupted and isinstance(asked.by, Exact) and not any(map(show.says_something, found[2])):
        return quick, _read(quick, quick.curve(None), ask, found[1])
    return asked, found


def _read(asked: CurveQuestion, curve: AnyCurve, ask: str, at: Sequence[float] | None) -> Found:
    points = list(at or asked.usual_range(curve))
    answers: list[Answer] = list(getattr(curve, ask)(points))
    known = ask == "delta" and isinstance(curve, PrivacyCurve | RenyiCurve)
    return curve, points, answers, list(curve.log_delta(points)) if known else [None] * len(points)


def _more(ask: str, answer: Answer, log: Answer | None) -> show.Object:
    more = show.width_object(answer) if isinstance(answer, Bracket) else {}
    return more if log is None else {f"log_{ask}": show.answer_object(log), **more}


def _print_object(
    asked: CurveQuestion, curve: AnyCurve, rows: list[show.Object], brackets: list[Bracket], work: LongWork
) -> None:
    stated: show.Object = {"question": show.question_object(asked.stated, asked.relation, asked.by)}
    stated |= work.mark
    if not isinstance(asked.by, Certified):
        stated["accountant"] = asked.accountant_object()
    if brackets:
        why = show.why_object(show.find_theorems(brackets), show.find_datasets(brackets))
        show.print_json({**stated, "brackets": rows, **why})
        return
    theorems = [show.theorem_object(evidence) for evidence in curve.because]
    show.print_json({**stated, "answers": rows, "theorems": theorems})


def _show_worth(page: Page, asked: CurveQuestion, curve: AnyCurve, brackets: list[Bracket]) -> None:
    if brackets:
        page.heading(show.width_in_words(brackets))
        show.show_why(page, show.find_theorems(brackets), show.find_datasets(brackets))
    else:
        page.heading(_BECAUSE[asked.by.name])
        show.show_theorems(page, curve.because)
