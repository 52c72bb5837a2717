"""tightrope risk: what the best attack on the run achieves."""

from typing import Annotated

from cyclopts import Parameter

from tightrope.answers.spend import privacy_curve
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.long_work import long_work
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.trade_off import TradeOff
from tightrope.numerics import check
from tightrope.numerics.text import write_number
from tightrope.setting.relation import ADD, REMOVE, Relation, as_relation

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


def risk(
    question: opt.RunOptions,
    *,
    relation: opt.WhichRelation,
    fpr: Rates = _RATES,
    prior: Priors = _PRIORS,
    effort: opt.WhichEffort = "quick",
    json: opt.Json = False,
) -> None:
    """Bracket what the best attack achieves: true positive rates, success and posteriors."""
    remedy = "Pass the share of false alarms, for example --fpr 0.01."
    rates = [check.open_probability(remedy=remedy, **{"--fpr": rate}) for rate in fpr]
    priors = [check.open_probability(remedy="Pass for example --prior 0.5.", **{"--prior": p}) for p in prior]
    by, neighbours = question.certified(effort), as_relation(relation)
    with long_work() as work:

        def answer() -> tuple[PrivacyCurve, Bracket, show.Object, list[list[list[str]]]]:
            curve = privacy_curve(question.run, relation=neighbours, by=by, progress=work)
            attack = curve.trade_off()
            objects = _attack_object(attack, rates, priors) if json else {}
            return curve, attack.advantage, objects, [] if json else _attack_tables(attack, rates, priors)

        curve, _, objects, tables = work.finish(
            answer, lambda quick: f"no attack's advantage exceeds {ends(quick[1])[1]} (quick)."
        )
    # an attack depends on the curve at many epsilons: no single theorem or pair of datasets decides it
    theorems = curve.because
    datasets = list(dict.fromkeys(w.datasets for branch in curve.branches for w in branch.witnesses))
    if json:
        stated = show.question_object(question, neighbours, by)
        show.print_json({"question": stated, **work.mark, **objects, **show.why_object(theorems, datasets)})
        work.end()
        return
    page = Page()
    work.show_on(page)
    page.facts(show.question_facts(question, neighbours, by))
    page.heading(f"An attack sees everything the run releases and says D or D'. {_meaning(neighbours)}")
    for table, meaning in zip(tables, _MEANINGS, strict=True):
        page.table(table)
        page.line(meaning)
    show.show_why(page, theorems, datasets, "ends are")
    work.end()


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


def _attack_tables(attack: TradeOff, rates: list[float], priors: list[float]) -> list[list[list[str]]]:
    hits = [["false positive rate", "true positive rate, lower end", "true positive rate, upper end"]]
    hits += [[write_number(rate), *ends(attack.true_positive_rate(rate))] for rate in rates]
    overall = [["an attack's", "lower end", "upper end"], ["advantage", *ends(attack.advantage)]]
    overall += [[f"success, prior {write_number(p)}", *ends(attack.attack_success(p))] for p in priors]
    beliefs = [["prior", "false positive rate", "posterior, lower end", "posterior, upper end"]]
    for p in priors:
        beliefs += [[write_number(p), write_number(rate), *ends(attack.posterior(p, rate))] for rate in rates]
    return [hits, overall, beliefs]


def _meaning(relation: Relation) -> str:
    if relation is REMOVE:
        return "D holds the record, D' does not."
    if relation is ADD:
        return "D' holds the record, D does not."
    return "D is either of two neighbours, whichever is worse."
