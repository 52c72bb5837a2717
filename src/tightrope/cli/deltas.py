"""Brackets of delta at several epsilons, printed for people or machines."""

from collections.abc import Sequence
from typing import Any

from tightrope.cli.machine import bracket_object, curve_object, print_json
from tightrope.cli.options import Question
from tightrope.cli.page import Page
from tightrope.cli.show import delta_ends, show_evidence, show_question
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.setting.relation import Relation


def print_deltas(question: Question, relation: Relation, curve: PrivacyCurve, epsilons: Sequence[float], *, json: bool) -> None:
    """Print the question, both ends of delta at each epsilon, and the evidence."""
    if json:
        print_json(curve_object(question, relation, curve, delta_objects(curve, epsilons)))
        return
    rows = [[f"{at:.12g}", *delta_ends(curve, at)] for at in epsilons]
    page = Page()
    show_question(page, question, relation)
    page.table([["epsilon", "delta, lower end", "delta, upper end"], *rows])
    show_evidence(page, curve)


def delta_objects(curve: PrivacyCurve, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Both ends of delta and of its logarithm at each epsilon."""
    return [
        {"epsilon": at, "delta": bracket_object(curve.delta(at)), "log_delta": bracket_object(curve.log_delta(at))}
        for at in epsilons
    ]
