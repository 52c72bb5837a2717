"""tightrope risk: what the best attack on the run achieves."""

from typing import Annotated

from cyclopts import Parameter

from tightrope.cli.curves import CurveQuestion
from tightrope.cli.options import (
    ANSWER,
    AccountantOptions,
    Json,
    Numbers,
    RunOptions,
    WhichEffort,
    WhichRelation,
)
from tightrope.cli.show import Object, bracket_object, print_json, question_object, show_evidence, why_object
from tightrope.cli.terminal import Page, watch_rounds
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.trade_off import TradeOff
from tightrope.numerics import check
from tightrope.report.digits import ends
from tightrope.setting.relation import ADD, REMOVE, Relation
from tightrope.setting.spelling import RELATION_SPELLINGS

_RATES, _PRIORS = (1e-4, 1e-3, 0.01, 0.1), (0.5,)

Rates = Annotated[
    tuple[float, ...],
    Numbers,
    Parameter(
        name="--fpr",
        group=ANSWER,
        show_default=False,
        help="False positive rates; 1e-4 1e-3 0.01 0.1 by default.",
    ),
]
Priors = Annotated[
    tuple[float, ...],
    Numbers,
    Parameter(
        name="--prior",
        group=ANSWER,
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
    question: RunOptions,
    *,
    relation: WhichRelation,
    fpr: Rates = _RATES,
    prior: Priors = _PRIORS,
    effort: WhichEffort = "quick",
    json: Json = False,
) -> None:
    """Bracket what the best attack achieves: true positive rates, advantage, success and posteriors."""
    remedy = "Pass the share of false alarms, for example --fpr 0.01."
    rates = [check.open_probability(remedy=remedy, **{"--fpr": rate}) for rate in fpr]
    priors = [check.open_probability(remedy="Pass for example --prior 0.5.", **{"--prior": p}) for p in prior]
    asked = CurveQuestion(question, RELATION_SPELLINGS[relation], AccountantOptions(effort=effort))
    with watch_rounds() as progress:
        found = asked.curve(progress)
        assert isinstance(found, PrivacyCurve)
        attack = found.trade_off()
        objects = _attack_object(attack, rates, priors) if json else {}
        tables = [] if json else _attack_tables(attack, rates, priors)
    if json:
        stated = question_object(question, asked.relation, asked.effort)
        print_json({"question": stated, **objects, **why_object(found)})
        return
    page = Page()
    page.facts(asked.facts(found, []))
    page.heading(f"An attack sees everything the run releases and says D or D'. {_meaning(asked.relation)}")
    for table, meaning in zip(tables, _MEANINGS, strict=True):
        page.table(table)
        page.line(meaning)
    show_evidence(page, found)


def _attack_object(attack: TradeOff, rates: list[float], priors: list[float]) -> Object:
    brackets: list[Object] = [
        {
            "false_positive_rate": rate,
            "true_positive_rate": bracket_object(attack.true_positive_rate(rate)),
            "false_negative_rate": bracket_object(attack.false_negative_rate(rate)),
            "posteriors": [
                {"prior": p, "posterior": bracket_object(attack.posterior(p, rate))} for p in priors
            ],
        }
        for rate in rates
    ]
    successes = [{"prior": p, "attack_success": bracket_object(attack.attack_success(p))} for p in priors]
    return {"brackets": brackets, "advantage": bracket_object(attack.advantage), "successes": successes}


def _attack_tables(attack: TradeOff, rates: list[float], priors: list[float]) -> list[list[list[str]]]:
    hits = [["false positive rate", "true positive rate, lower end", "true positive rate, upper end"]]
    hits += [[f"{rate:.12g}", *ends(attack.true_positive_rate(rate))] for rate in rates]
    overall = [["an attack's", "lower end", "upper end"], ["advantage", *ends(attack.advantage)]]
    overall += [[f"success, prior {p:.12g}", *ends(attack.attack_success(p))] for p in priors]
    beliefs = [["prior", "false positive rate", "posterior, lower end", "posterior, upper end"]]
    for p in priors:
        beliefs += [[f"{p:.12g}", f"{rate:.12g}", *ends(attack.posterior(p, rate))] for rate in rates]
    return [hits, overall, beliefs]


def _meaning(relation: Relation) -> str:
    if relation is REMOVE:
        return "D holds the record, D' does not."
    if relation is ADD:
        return "D' holds the record, D does not."
    return "D is either of two neighbours, whichever is worse."
