"""tightrope risk: what the best attack on the run achieves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tightrope.answers.spend import privacy_curve
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import safe_number, short_ends, tell_attack, tell_direction, tell_worth
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.process.long_work import long_work
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.trade_off import TradeOff
from tightrope.numerics import check
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_short, assumed_in_words, run_in_short
from tightrope.setting.relation import ADD, REMOVE, Relation, as_relation
from tightrope.theorems.evidence import Evidence

_RATES, _PRIORS = (1e-4, 1e-3, 0.01, 0.1), (0.5,)

Rates = Annotated[
    tuple[float, ...],
    opt.Numbers,
    Parameter(
        name="--fpr",
        group=opt.ANSWER,
        show_default=False,
        help="False positive rates; 1e-4 1e-3 0.01 0.1 by default.",
    ),
]
Priors = Annotated[
    tuple[float, ...],
    opt.Numbers,
    Parameter(
        name="--prior",
        group=opt.ANSWER,
        show_default=False,
        help="Chances of D before the release; 0.5 by default.",
    ),
]

_MEANINGS = (
    "Among tests that say D wrongly at this rate, none says D rightly more often than the upper end.",
    "Advantage: no test's true positive rate exceeds its false positive rate by more. "
    "Success: no guess is right more often, when D is used with the prior probability and D' otherwise.",
    "When a test of this false positive rate says D, it is D with at most this probability.",
)
_AT_MOST = (
    "All are upper ends: with so many false alarms (false positive rate) no attack raises more true ones "
    "(true positive rate), and no alarm is right with a larger probability (posterior)."
)


def risk(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    group: opt.WhichGroup = 1,
    fpr: Rates = _RATES,
    prior: Priors = _PRIORS,
    effort: opt.WhichEffort = "quick",
    plot: opt.Picture = None,
    form: Form = IN_WORDS,
) -> None:
    """Bracket what the best attack achieves: true positive rates, success and posteriors."""
    remedy = "Pass the share of false alarms, for example --fpr 0.01."
    rates = [check.open_probability(remedy=remedy, **{"--fpr": rate}) for rate in fpr]
    priors = [check.open_probability(remedy="Pass for example --prior 0.5.", **{"--prior": p}) for p in prior]
    target, by, neighbours = (
        show.check_picture(plot),
        question.certified(effort),
        as_relation(relation).of(group),
    )
    with long_work() as work:

        def answer() -> AnsweredAttack:
            curve = privacy_curve(question.run, relation=neighbours, by=by, progress=work)
            return AnsweredAttack.ask(curve, rates, priors, form)

        found = work.finish(
            answer, lambda quick: f"{tell_attack(priors, quick.successes, neighbours)} (quick)."
        )
    assumed = assumed_in_words([question.stated_sampling], neighbours)
    said = work.tell(f"{tell_attack(priors, found.successes, neighbours)}: {assumed}.")
    if form.json:
        stated = {"answer": said, **work.mark, "question": show.question_object(question, neighbours, by)}
        show.print_json({**stated, **found.objects, **show.why_object(found.theorems, found.datasets)})
    elif form.brief:
        print_brief(map(safe_number, found.successes))
    else:
        page = show.open_page(
            [said, tell_direction(neighbours), tell_worth(found.successes)],
            question=show.question_in_short(question, neighbours, by),
            facts=show.question_facts(question, neighbours, by),
            why=form.why,
        )
        found.show_on(page, neighbours, form)
    if target is not None:
        work.draw(target, lambda: _draw(question, neighbours, found.attack, rates, target))
    work.end()


def _draw(
    question: opt.RunOptions, relation: Relation, attack: TradeOff, rates: list[float], target: Path
) -> None:
    from tightrope.report.charts import draw_risk  # only where something is drawn

    title, assumed = run_in_short(question.run), assumed_in_short(question.run, relation)
    draw_risk(attack, rates, title=title, assumed=assumed, to=target)


@dataclass(frozen=True, kw_only=True)
class AnsweredAttack:
    """What the best attack achieves: how often it is right at each prior, and as JSON or in tables.

    It depends on the curve at many epsilons, so that no single theorem or pair of datasets decides it.
    """

    attack: TradeOff
    successes: list[Bracket]
    objects: show.Object
    tables: list[list[list[str]]]
    theorems: Sequence[Evidence]
    datasets: list[str]

    @staticmethod
    def ask(curve: PrivacyCurve, rates: list[float], priors: list[float], form: Form) -> "AnsweredAttack":
        """Ask the curve for everything that this form prints."""
        attack = curve.trade_off()
        return AnsweredAttack(
            attack=attack,
            successes=[attack.attack_success(prior) for prior in priors],
            objects=_attack_object(attack, rates, priors) if form.json else {},
            tables=_attack_tables(attack, rates, priors, form),
            theorems=curve.because,
            datasets=list(dict.fromkeys(w.datasets for branch in curve.branches for w in branch.witnesses)),
        )

    def show_on(self, page: Page, relation: Relation, form: Form) -> None:
        """Print the tables with what they mean, and why they hold."""
        if form.why:
            page.heading(f"An attack sees everything the run releases and says D or D'. {_meaning(relation)}")
        for table, meaning in zip(self.tables, _MEANINGS if form.why else [_AT_MOST], strict=True):
            page.table(table)
            page.line(meaning)
        show.close_page(page, self.theorems, self.datasets, why=form.why, ends="ends are")


def _attack_object(attack: TradeOff, rates: list[float], priors: list[float]) -> show.Object:
    brackets: list[show.Object] = [
        {
            "false_positive_rate": rate,
            "true_positive_rate": show.bracket_object(attack.true_positive_rate(rate)),
            "false_negative_rate": show.bracket_object(attack.false_negative_rate(rate)),
            "posteriors": [
                {"prior": p, "posterior": show.bracket_object(attack.posterior(p, rate))} for p in priors
            ],
        }
        for rate in rates
    ]
    successes = [
        {"prior": p, "attack_success": show.bracket_object(attack.attack_success(p))} for p in priors
    ]
    return {"brackets": brackets, "advantage": show.bracket_object(attack.advantage), "successes": successes}


def _attack_tables(
    attack: TradeOff, rates: list[float], priors: list[float], form: Form
) -> list[list[list[str]]]:
    """Upper ends in one table, or with --why both ends in three; none where none are printed."""
    if form.json or form.brief:
        return []
    if not form.why:
        table = [["false positive rate", "true positive rate", *(f"posterior, prior {p:g}" for p in priors)]]
        for rate in rates:
            found = [attack.true_positive_rate(rate), *(attack.posterior(p, rate) for p in priors)]
            table.append([write_number(rate), *(short_ends(bracket)[1] for bracket in found)])
        return [table]
    hits = [["false positive rate", "true positive rate, lower end", "true positive rate, upper end"]]
    hits += [[write_number(rate), *ends(attack.true_positive_rate(rate))] for rate in rates]
    overall = [["an attack's", "lower end", "upper end"], ["advantage", *ends(attack.advantage)]]
    overall += [[f"success, prior {write_number(p)}", *ends(attack.attack_success(p))] for p in priors]
    beliefs = [["prior", "false positive rate", "posterior, lower end", "posterior, upper end"]]
    for p in priors:
        beliefs += [[write_number(p), write_number(rate), *ends(attack.posterior(p, rate))] for rate in rates]
    return [hits, overall, beliefs]


def _meaning(relation: Relation) -> str:
    what = "group" if relation.group > 1 else "record"
    if relation.single is REMOVE:
        return f"D holds the {what}, D' does not."
    if relation.single is ADD:
        return f"D' holds the {what}, D does not."
    return "D is either of two neighbours, whichever is worse."
