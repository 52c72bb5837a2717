"""Brackets of delta at several epsilons, printed for people or machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tightrope.accountants.certified import Progress
from tightrope.answers.spend import privacy_curve
from tightrope.cli.machine import bracket_object, curve_object, print_json
from tightrope.cli.options import Question
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.cli.show import delta_ends, show_evidence, show_question
from tightrope.cli.usual_range import usual_range
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.setting.effort import Effort
from tightrope.setting.relation import Relation


@dataclass(frozen=True)
class DeltaQuestion:
    """What is run, who counts as a neighbour, and how hard to work."""

    stated: Question
    relation: Relation
    effort: Effort

    def curve(self, progress: Progress | None) -> PrivacyCurve:
        """The curve that answers it."""
        run, accuracy = self.stated.run, self.stated.accuracy
        return privacy_curve(
            run, relation=self.relation, accuracy=accuracy, effort=self.effort, progress=progress
        )


def print_deltas(
    asked: DeltaQuestion,
    epsilons: Sequence[float] | None,
    *,
    draw: Callable[[PrivacyCurve, Sequence[float]], None] | None = None,
    json: bool,
) -> None:
    """Print the question, both ends of delta at each epsilon (of the usual range, if none is given), and the evidence."""
    with game_watched() as progress:
        curve = asked.curve(progress)
        at = epsilons or usual_range([curve])
        brackets = delta_objects(curve, at) if json else []
        rows = [] if json else [[f"{epsilon:.12g}", *delta_ends(curve, epsilon)] for epsilon in at]
        if draw is not None:
            draw(curve, at)
    if json:
        print_json(curve_object(asked.stated, asked.relation, asked.effort, curve, brackets))
        return
    page = Page()
    show_question(page, asked.stated, asked.relation, asked.effort)
    page.table([["epsilon", "delta, lower end", "delta, upper end"], *rows])
    show_evidence(page, curve)


def delta_objects(curve: PrivacyCurve, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Both ends of delta and of its logarithm at each epsilon."""
    return [
        {
            "epsilon": at,
            "delta": bracket_object(curve.delta(at)),
            "log_delta": bracket_object(curve.log_delta(at)),
        }
        for at in epsilons
    ]
