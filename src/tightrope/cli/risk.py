"""tightrope risk: what the best attack on the run achieves."""

from typing import Annotated, Any

from cyclopts import Parameter

from tightrope.answers.spend import privacy_curve
from tightrope.cli.machine import bracket_object, curve_object, print_json
from tightrope.cli.options import (
    ANSWER,
    EffortChoice,
    Json,
    Numbers,
    Question,
    RelationName,
    stated_effort,
    stated_relation,
)
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.cli.show import show_evidence, show_question
from tightrope.curve.trade_off import TradeOff
from tightrope.numerics import check
from tightrope.report.digits import ends
from tightrope.setting.relation import ADD, REMOVE, Relation

EXAMPLE = """\
tightrope risk --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --relation add-or-remove --fpr 0.001 0.01 --prior 0.5"""

_RATES, _PRIORS = (1e-4, 1e-3, 0.01, 0.1), (0.5,)

FalsePositiveRates = Annotated[
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
    question: Question,
    *,
    relation: RelationName,
    fpr: FalsePositiveRates = _RATES,
    prior: Priors = _PRIORS,
    effort: EffortChoice = "quick",
    json: Json = False,
) -> None:
    """Bracket what the best attack achieves: true positive rates, advantage, success and posteriors."""
    rates = [
        check.open_probability(
            remedy="Pass the share of false alarms, for example --fpr 0.01.", **{"--fpr": a}
        )
        for a in fpr
    ]
    priors = [check.open_probability(remedy="Pass for example --prior 0.5.", **{"--prior": p}) for p in prior]
    neighbours, how_hard = stated_relation(relation), stated_effort(effort)
    # everything is asked before anything is printed: a refusal comes alone, and no bar stands between the lines
    with game_watched() as progress:
        curve = privacy_curve(
            question.run, relation=neighbours, accuracy=question.accuracy, effort=how_hard, progress=progress
        )
        attack = curve.trade_off()
        found = _object(attack, rates, priors) if json else {}
        tables = [] if json else _tables(attack, rates, priors)
    if json:
        brackets = found.pop("brackets")
        print_json({**curve_object(question, neighbours, how_hard, curve, brackets), **found})
        return
    page = Page()
    show_question(page, question, neighbours, how_hard)
    page.heading(f"An attack sees everything the run releases and says D or D'. {_meaning(neighbours)}")
    for table, meaning in zip(tables, _MEANINGS, strict=True):
        page.table(table)
        page.line(meaning)
    show_evidence(page, curve)


def _object(attack: TradeOff, rates: list[float], priors: list[float]) -> dict[str, Any]:
    brackets: list[dict[str, Any]] = [
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


def _tables(attack: TradeOff, rates: list[float], priors: list[float]) -> list[list[list[str]]]:
    hits = [["false positive rate", "true positive rate, lower end", "true positive rate, upper end"]]
    hits += [[f"{rate:.12g}", *ends(attack.true_positive_rate(rate))] for rate in rates]
    overall = [["an attack's", "lower end", "upper end"], ["advantage", *ends(attack.advantage)]]
    overall += [[f"success, prior {p:.12g}", *ends(attack.attack_success(p))] for p in priors]
    beliefs = [["prior", "false positive rate", "posterior, lower end", "posterior, upper end"]]
    beliefs += [
        [f"{p:.12g}", f"{rate:.12g}", *ends(attack.posterior(p, rate))] for p in priors for rate in rates
    ]
    return [hits, overall, beliefs]


def _meaning(relation: Relation) -> str:
    if relation is REMOVE:
        return "D holds the record, D' does not."
    if relation is ADD:
        return "D' holds the record, D does not."
    return "D is either of two neighbours, whichever is worse."
