"""tightrope epsilon, delta and curve: what one run spends, by whichever accountant is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.renyi import Renyi
from tightrope.answers.compare import Answer, AnyCurve
from tightrope.answers.spend import privacy_curve
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import safe_number, tell, tell_direction, tell_why, tell_worth
from tightrope.cli.printed.terminal import print_brief
from tightrope.cli.process.long_work import LongWork, long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.cli.typed.misused import MIXED, Misused
from tightrope.cli.typed.vocabulary import tell_missing
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.curve.simulated_curve import Estimate
from tightrope.engines.face import Progress
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_short, assumed_in_words, run_in_short, trials_in_words
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.trials import TrialLaw
from tightrope.setting.tuned import tuned
from tightrope.theorems.evidence import Evidence


@dataclass(frozen=True)
class CurveQuestion:
    """What is run, who counts as a neighbour, and who answers."""

    stated: opt.RunOptions
    relation: Relation
    by: Accountant[Any, Any]
    trials: TrialLaw | None = None

    def curve(self, progress: Progress | None) -> AnyCurve:
        """The curve that answers it."""
        run = self.stated.run if self.trials is None else tuned(self.stated.run, trials=self.trials)
        found: AnyCurve = privacy_curve(run, relation=self.relation, by=self.by, progress=progress)
        return found

    def tell_tuning(self, ask: str, at: Sequence[float]) -> str:
        """What one run would cost, where several are searched."""
        if self.trials is None:
            return ""
        one = getattr(privacy_curve(self.stated.run, relation=self.relation, by=self.by), ask)(at[0])
        given = "delta" if ask == "epsilon" else "epsilon"
        return f"One run alone: {ask} at most {safe_number(one, None)} at {given} {write_number(at[0])}."

    def usual_range(self, curve: AnyCurve) -> list[float]:
        """Epsilons to ask at by default, up to where brackets or the Rényi bound find delta negligible."""
        if not isinstance(curve, PrivacyCurve | RenyiCurve):
            curve = privacy_curve(self.stated.run, relation=self.relation, by=Renyi())
        return show.usual_range([curve])

    def draw(self, curve: AnyCurve, epsilons: Sequence[float], target: Path) -> None:
        """Draw delta over the epsilons."""
        from tightrope.report.plot import draw_accountants, draw_curve  # only where something is drawn

        title, assumed = run_in_short(self.stated.run), assumed_in_short(self.stated.run, self.relation)
        at = show.fine_range(epsilons)
        if isinstance(curve, PrivacyCurve):
            draw_curve(curve, epsilons=at, to=target, title=title, assumed=assumed)
        else:
            draw_accountants({self.by.name: curve}, epsilons=at, to=target, title=title, assumed=assumed)

    def facts(self, curve: AnyCurve, answers: Sequence[Answer]) -> list[show.Fact]:
        """The question, who answers, and how."""
        facts = show.question_facts(self.stated, self.relation, self.by)
        if self.trials is not None:
            facts.append(("tuning", f"{self.trials}: {trials_in_words(self.trials)}"))
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
    group: opt.WhichGroup = 1,
    delta: opt.Deltas,
    tuning: opt.Tuning = None,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    form: Form = IN_WORDS,
) -> None:
    """Bracket the smallest epsilon >= 0 for which the run is (epsilon, delta)-private."""
    by = who.by(question.accuracy)
    trials = opt.read_tuning(tuning)
    if question.sampling in opt.SHUFFLES and isinstance(by, Certified) and trials is None:
        from tightrope.cli.commands.shuffled import show_shuffled  # only shuffles need it

        show_shuffled(question, as_relation(relation).of(group), delta, by, form=form)
        return
    asked = CurveQuestion(question, as_relation(relation).of(group), by, trials)
    _answer(asked, "epsilon", delta, form=form)


def delta(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    group: opt.WhichGroup = 1,
    epsilon: opt.Epsilons,
    tuning: opt.Tuning = None,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    form: Form = IN_WORDS,
) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private."""
    by = who.by(question.accuracy)
    asked = CurveQuestion(question, as_relation(relation).of(group), by, opt.read_tuning(tuning))
    _answer(asked, "delta", epsilon, form=form)


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
    group: opt.WhichGroup = 1,
    runs: Runs = None,
    epsilons: Range = None,
    tuning: opt.Tuning = None,
    plot: opt.Picture = None,
    who: opt.AccountantOptions = opt.USUAL_ACCOUNTANT,
    form: Form = IN_WORDS,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file."""
    target = show.check_picture(plot)
    if runs is not None:
        from tightrope.cli.commands.runs import read_runs, show_runs  # only files of runs need it

        if who.accountant != Certified.name:
            wrong = f"--accountant {who.accountant} contradicts --runs, whose curves are certified"
            raise Misused(f"{wrong}: leave one out")
        if question is not None or relation is not None or group != 1 or tuning is not None:
            raise Misused(MIXED)
        show_runs(read_runs(runs), epsilons, target, effort=who.effort, form=form)
        return
    if question is None or relation is None:
        raise Misused(tell_missing(["--sampling" if question is None else "--relation"]))
    by = who.by(question.accuracy)
    asked = CurveQuestion(question, as_relation(relation).of(group), by, opt.read_tuning(tuning))
    _answer(asked, "delta", epsilons, target=target, form=form)


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
    form: Form,
) -> None:
    """Print the answers in words, what was asked and what they are worth; draw them if there is a target."""
    if form.brief and isinstance(asked.by, GaussianLimit):
        wrong = f"--brief prints what is safe to use, and {asked.by.name} guarantees nothing"
        raise Misused(f"{wrong}: leave one of them out")
    # everything is asked before anything is printed: a refusal comes alone, and no bar stands between lines
    with long_work() as work:
        answered = _find_answers(asked, ask, at, work)
        work.note_interrupts(answered.answers)
    if form.json:
        answered.print_object(work)
    elif form.brief:
        print_brief(map(safe_number, answered.answers, answered.logs))
    else:
        answered.show(form, work)
    if target is not None:
        work.draw(target, lambda: answered.draw(target))
    work.end()


def _find_answers(
    asked: CurveQuestion, ask: Literal["epsilon", "delta"], at: Sequence[float] | None, work: LongWork
) -> "AnsweredCurve":
    """The answers, and the question with who answered in the end.

    An exact curve that was interrupted before it knew anything leaves the answer to the certified one.
    """
    # an exact curve keeps what it found; of others a new one is asked, so that the rehearsal changes no digit
    kept = asked.curve(work) if isinstance(asked.by, Exact) else None
    quick = replace(asked, by=Certified())

    def answer() -> AnsweredCurve:
        return AnsweredCurve.read(asked, asked.curve(work) if kept is None else kept, ask, at)

    def tell_quickly(found: AnsweredCurve) -> str:
        by = "quick"
        if kept is not None:
            found, by = AnsweredCurve.read(quick, quick.curve(None), ask, found.at), quick.by.name
        return show.answers_in_short(ask, found.given, found.at, found.answers, by)

    found = work.finish(answer, tell_quickly)
    if work.interrupted and kept is not None and not any(map(show.says_something, found.answers)):
        return AnsweredCurve.read(quick, quick.curve(None), ask, found.at)
    return found


@dataclass(frozen=True)
class AnsweredCurve:
    """A question, its curve, and what the curve says at the values asked about."""

    question: CurveQuestion
    curve: AnyCurve
    ask: Literal["epsilon", "delta"]
    at: Sequence[float]
    answers: Sequence[Answer]
    logs: Sequence[Answer | None]

    @staticmethod
    def read(
        question: CurveQuestion,
        curve: AnyCurve,
        ask: Literal["epsilon", "delta"],
        at: Sequence[float] | None,
    ) -> "AnsweredCurve":
        """Ask the curve at these values, or over its usual range."""
        points = list(at or question.usual_range(curve))
        answers: list[Answer] = list(getattr(curve, ask)(points))
        known = ask == "delta" and isinstance(curve, PrivacyCurve | RenyiCurve)
        logs = list(curve.log_delta(points)) if known else [None] * len(points)
        return AnsweredCurve(question, curve, ask, points, answers, logs)

    def draw(self, target: Path) -> None:
        """Draw the curve around these values."""
        self.question.draw(self.curve, self.at, target)

    @property
    def given(self) -> str:
        """What the values are values of."""
        return "delta" if self.ask == "epsilon" else "epsilon"

    @property
    def sentence(self) -> str:
        """The answer in words, with what was assumed."""
        assumed = assumed_in_words([self.question.stated.stated_sampling], self.question.relation)
        if self.question.trials is not None:
            assumed = f"{trials_in_words(self.question.trials)}, {assumed}"
        return f"{tell(self.ask, self.given, self.at, self.answers, self.logs)}: {assumed}."

    @property
    def brackets(self) -> list[Bracket]:
        """The answers of an accountant that certifies both ends; none of the others'."""
        return [answer for answer in self.answers if isinstance(answer, Bracket)]

    @property
    def theorems(self) -> list[Evidence]:
        """What the answers rest on."""
        return show.find_theorems(self.brackets) if self.brackets else list(self.curve.because)

    def show(self, form: Form, work: LongWork) -> None:
        """Print a page; a table only where it says more than the sentence."""
        asked = self.question
        page = show.open_page(
            [
                work.tell(self.sentence),
                asked.tell_tuning(self.ask, self.at),
                tell_direction(asked.relation),
                tell_worth(self.answers),
            ],
            question=show.question_in_short(asked.stated, asked.relation, asked.by),
            facts=asked.facts(self.curve, self.answers),
            why=form.why,
        )
        if form.why or len(self.at) > 1:
            table = [[self.given, *(heading.format(self.ask) for heading in _HEADINGS[asked.by.name])]]
            for x, answer, log in zip(self.at, self.answers, self.logs, strict=True):
                table.append([write_number(x), *show.answer_cells(answer, log)])
            page.table(table)
        if self.brackets and form.why:
            show.show_width(page, self.brackets)
        if self.brackets:
            show.close_page(page, self.theorems, show.find_datasets(self.brackets), why=form.why)
        elif form.why:
            page.heading(_BECAUSE[asked.by.name])
            show.show_theorems(page, self.theorems)
        else:
            warning = "Nothing is guaranteed. " * isinstance(asked.by, GaussianLimit)
            page.line("")
            page.line(f"{warning}{tell_why(self.theorems, 'what they state')}")

    def print_object(self, work: LongWork) -> None:
        """Print everything as JSON."""
        asked, rows = self.question, []
        for x, answer, log in zip(self.at, self.answers, self.logs, strict=True):
            rows.append({self.given: x, self.ask: show.answer_object(answer), **_more(self.ask, answer, log)})
        stated: show.Object = {
            "answer": work.tell(self.sentence),
            **work.mark,
            "question": show.question_object(asked.stated, asked.relation, asked.by),
            **show.tuning_object(asked.trials),
        }
        if asked.trials is not None:
            one = getattr(privacy_curve(asked.stated.run, relation=asked.relation, by=asked.by), self.ask)
            stated["one_run"] = [show.bracket_object(found) for found in one(self.at)]
        if not isinstance(asked.by, Certified):
            stated["accountant"] = asked.accountant_object()
        if self.brackets:
            why = show.why_object(self.theorems, show.find_datasets(self.brackets))
            show.print_json({**stated, "brackets": rows, **why})
        else:
            theorems = [show.theorem_object(evidence) for evidence in self.theorems]
            show.print_json({**stated, "answers": rows, "theorems": theorems})


def _more(ask: str, answer: Answer, log: Answer | None) -> show.Object:
    more = show.width_object(answer) if isinstance(answer, Bracket) else {}
    return more if log is None else {f"log_{ask}": show.answer_object(log), **more}
