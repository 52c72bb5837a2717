"""tightrope curve: delta over a range of epsilons, as a table and a picture."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tightrope.accountants.names import CERTIFIED, RENYI, Accountant
from tightrope.answers.spend import privacy_curve
from tightrope.cli.accountants import AccountantChoice, OtherQuestion, SimulationOptions, stated_simulation
from tightrope.cli.deltas import DeltaQuestion, print_deltas
from tightrope.cli.numbers import points
from tightrope.cli.options import (
    ANSWER,
    QUESTION,
    EffortChoice,
    Json,
    Question,
    RelationName,
    stated_effort,
    stated_relation,
)
from tightrope.cli.refusals import MIXED, missing
from tightrope.cli.runs_file import read_runs
from tightrope.cli.several_curves import show_several
from tightrope.cli.usual_range import FAR_ENOUGH, POINTS, drawn_range, usual_range
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.report.accountants_plot import draw_accountants
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
    Parameter(
        group=QUESTION, help="Several runs from this TOML file, in place of the options that state one run."
    ),
]


def curve(
    question: Question | None = None,
    *,
    relation: RelationName | None = None,
    runs: Runs = None,
    epsilons: Range = None,
    plot: Picture = None,
    accountant: AccountantChoice = "certified",
    effort: EffortChoice = "quick",
    simulation: SimulationOptions | None = None,
    json: Json = False,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file; or ask another accountant."""
    target, who = None if plot is None else checked_target(plot), Accountant(accountant)
    drawn = stated_simulation(simulation, who)
    if runs is not None:
        if who is not CERTIFIED:
            raise InvalidSetting(
                f"--accountant {accountant} contradicts --runs, whose curves are certified: leave one out."
            )
        if question is not None or relation is not None:
            raise InvalidSetting(MIXED)
        show_several(read_runs(runs), epsilons, target, effort=stated_effort(effort), json=json)
        return
    if question is None or relation is None:
        raise InvalidSetting(missing("--sampling" if question is None else "--relation"))
    if who is not CERTIFIED:
        _by_another(
            OtherQuestion(question, stated_relation(relation), who, drawn), epsilons, target, json=json
        )
        return
    asked = DeltaQuestion(question, stated_relation(relation), stated_effort(effort))
    print_deltas(asked, epsilons, draw=None if target is None else _drawing(asked, target), json=json)
    if target is not None:
        print(f"tightrope: drew {target}", file=sys.stderr)


def _by_another(
    asked: OtherQuestion, epsilons: list[float] | None, target: Path | None, *, json: bool
) -> None:
    """Delta by an accountant that gives no brackets; where nobody says, over the range that the Rényi bound suggests."""
    run, relation = asked.stated.run, asked.relation
    at = epsilons or usual_range([privacy_curve(run, relation=relation, accountant=RENYI)])
    curve = asked.print("delta", at, json=json)
    if target is not None:
        named = {asked.accountant: curve}
        draw_accountants(
            named,
            epsilons=drawn_range(at),
            to=target,
            title=run_in_short(run),
            assumed=assumed_in_short(run, relation),
        )
        print(f"tightrope: drew {target}", file=sys.stderr)


def _drawing(asked: DeltaQuestion, target: Path) -> Callable[[PrivacyCurve, Sequence[float]], None]:
    run = asked.stated.run
    title, assumed = run_in_short(run), assumed_in_short(run, asked.relation)

    def draw(curve: PrivacyCurve, epsilons: Sequence[float]) -> None:
        draw_curve(curve, epsilons=drawn_range(epsilons), to=target, title=title, assumed=assumed)

    return draw
