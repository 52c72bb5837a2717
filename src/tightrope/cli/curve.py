"""tightrope curve: delta over a range of epsilons, as a table and a picture."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tightrope.cli.deltas import DeltaQuestion, print_deltas
from tightrope.cli.numbers import points
from tightrope.cli.options import ANSWER, QUESTION, EffortChoice, Json, Question, RelationName, stated_effort, stated_relation
from tightrope.cli.refusals import MIXED, missing
from tightrope.cli.runs_file import read_runs
from tightrope.cli.several_curves import show_several
from tightrope.cli.usual_range import FAR_ENOUGH, POINTS, drawn_range
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.report.plot import checked_target, draw_curve
from tightrope.report.words import assumed_in_short, run_in_short

EXAMPLE = """\
tightrope curve --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --relation add-or-remove --epsilons 0:2:5 --plot curve.png"""

Range = Annotated[
    list[float] | None,
    Parameter(
        converter=points,
        n_tokens=-1,
        consume_multiple=1,
        negative="",
        group=ANSWER,
        help=f"start:stop:count or a list; by default {POINTS} points from 0 to about where delta is {FAR_ENOUGH:g}.",
    ),
]
Picture = Annotated[Path | None, Parameter(group=ANSWER, help="Also draw into this png, pdf or svg file.")]
Runs = Annotated[
    Path | None,
    Parameter(group=QUESTION, help="Several runs from this TOML file, in place of the options that state one run."),
]


def curve(
    question: Question | None = None,
    *,
    relation: RelationName | None = None,
    runs: Runs = None,
    epsilons: Range = None,
    plot: Picture = None,
    effort: EffortChoice = "quick",
    json: Json = False,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file."""
    target = None if plot is None else checked_target(plot)
    if runs is not None:
        if question is not None or relation is not None:
            raise InvalidSetting(MIXED)
        show_several(read_runs(runs), epsilons, target, effort=stated_effort(effort), json=json)
        return
    if question is None or relation is None:
        raise InvalidSetting(missing("--sampling" if question is None else "--relation"))
    asked = DeltaQuestion(question, stated_relation(relation), stated_effort(effort))
    print_deltas(asked, epsilons, draw=None if target is None else _drawing(asked, target), json=json)
    if target is not None:
        print(f"tightrope: drew {target}", file=sys.stderr)


def _drawing(asked: DeltaQuestion, target: Path) -> Callable[[PrivacyCurve, Sequence[float]], None]:
    run = asked.stated.run
    title, assumed = run_in_short(run), assumed_in_short(run, asked.relation)

    def draw(curve: PrivacyCurve, epsilons: Sequence[float]) -> None:
        draw_curve(curve, epsilons=drawn_range(epsilons), to=target, title=title, assumed=assumed)

    return draw
