"""tightrope curve: delta over a range of epsilons, as a table and a picture."""

import math
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from tightrope.answers.spend import privacy_curve
from tightrope.cli.deltas import print_deltas
from tightrope.cli.numbers import points
from tightrope.cli.options import ANSWER, Json, Question, RelationName, stated_relation
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.plot import checked_target, draw_curve
from tightrope.report.words import assumed_in_short, run_in_short

EXAMPLE = """\
tightrope curve --noise 0.8 --sampling poisson --rate 0.001 \\
    --steps 10000 --relation add-or-remove --epsilons 0:2:5 --plot curve.png"""

_FAR_ENOUGH = 1e-10
_POINTS, _DRAWN = 21, 121

Range = Annotated[
    list[float] | None,
    Parameter(
        converter=points,
        n_tokens=-1,
        consume_multiple=1,
        negative="",
        group=ANSWER,
        help=f"start:stop:count or a list; by default {_POINTS} points from 0 to about where delta is {_FAR_ENOUGH:g}.",
    ),
]
Picture = Annotated[Path | None, Parameter(group=ANSWER, help="Also draw the curve into this png, pdf or svg file.")]


def curve(
    question: Question, *, relation: RelationName, epsilons: Range = None, plot: Picture = None, json: Json = False
) -> None:
    """Bracket delta over a range of epsilons."""
    target = None if plot is None else checked_target(plot)
    neighbours, run = stated_relation(relation), question.run
    found = privacy_curve(run, relation=neighbours, accuracy=question.accuracy)
    asked = epsilons or _usual_range(found)
    if target is not None:
        drawn = [*asked, *np.linspace(min(asked), max(asked), _DRAWN)] if len(asked) > 1 else asked
        draw_curve(found, epsilons=drawn, to=target, title=run_in_short(run), assumed=assumed_in_short(run, neighbours))
        print(f"tightrope: drew {target}", file=sys.stderr)
    print_deltas(question, neighbours, found, asked, json=json)


def _usual_range(curve: PrivacyCurve) -> list[float]:
    """From 0 to a round number at or beyond which delta is negligible; to 1 where epsilon says nothing about that."""
    last = curve.epsilon(_FAR_ENOUGH).upper
    if not 0 < last < math.inf:
        last = 1.0
    unit = 10.0 ** math.floor(math.log10(last))
    stop = next(digit * unit for digit in (1, 2, 4, 5, 8, 10) if digit * unit >= last)
    return [float(f"{stop * i / (_POINTS - 1):.12g}") for i in range(_POINTS)]
