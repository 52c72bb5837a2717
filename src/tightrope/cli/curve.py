"""tightrope curve: delta over a range of epsilons, as a table and a picture."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tightrope.answers.spend import privacy_curve
from tightrope.cli.deltas import print_deltas
from tightrope.cli.numbers import points
from tightrope.cli.options import ANSWER, QUESTION, Json, Question, RelationName, stated_relation
from tightrope.cli.refusals import MIXED, missing
from tightrope.cli.runs_file import read_runs
from tightrope.cli.several_curves import show_several
from tightrope.cli.usual_range import FAR_ENOUGH, POINTS, drawn_range, usual_range
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
    json: Json = False,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file."""
    target = None if plot is None else checked_target(plot)
    if runs is not None:
        if question is not None or relation is not None:
            raise InvalidSetting(MIXED)
        show_several(read_runs(runs), epsilons, target, json=json)
        return
    if question is None or relation is None:
        raise InvalidSetting(missing("--sampling" if question is None else "--relation"))
    neighbours, run = stated_relation(relation), question.run
    found = privacy_curve(run, relation=neighbours, accuracy=question.accuracy)
    asked = epsilons or usual_range([found])
    if target is not None:
        title, assumed = run_in_short(run), assumed_in_short(run, neighbours)
        draw_curve(found, epsilons=drawn_range(asked), to=target, title=title, assumed=assumed)
        print(f"tightrope: drew {target}", file=sys.stderr)
    print_deltas(question, neighbours, found, asked, json=json)
