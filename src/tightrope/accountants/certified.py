"""From a run to its certified privacy curve: the whole pipeline on one screen."""

from collections.abc import Callable, Iterable

from tightrope.curve.privacy_curve import Branch, Composed, PrivacyCurve
from tightrope.engines.choose import Composition
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import TIGHT, Effort
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.analysis import Analysis
from tightrope.theorems.evidence import PROVED, Evidence, Standing
from tightrope.theorems.lookup import analyse

DEFAULT_ACCURACY = 1e-3
FINEST_ACCURACY = 1e-9

Progress = Callable[[int, int], None]


def certified_curve(
    run: Run,
    *,
    relation: Relation,
    accuracy: float,
    trusting: Standing,
    effort: Effort,
    progress: Progress | None,
) -> PrivacyCurve:
    """Brackets: covers from above, witnesses from below, each schedule composed once."""
    accuracy = check.positive(
        remedy="It is the relative width in delta, for example 1e-3.", accuracy=accuracy
    )
    if not FINEST_ACCURACY <= accuracy < 1:
        raise InvalidSetting(
            f"accuracy must be at least {FINEST_ACCURACY:g} and below 1, got {accuracy!r}. "
            "It is the relative width in delta that the bracket may have; 1e-3 is the default."
        )
    effort = checked_effort(effort)
    if progress is not None and not callable(progress):
        raise InvalidSetting(
            f"progress must be callable, got {progress!r}. Pass a function of two counts, done and steps."
        )
    analyses = analyse(run, relation, trusting=trusting, effort=effort)
    compositions: dict[Schedule | Game, Composed] = {}

    def composed(schedule: Schedule | Game) -> Composed:
        if schedule not in compositions:
            compositions[schedule] = _composed(schedule, progress)
        return compositions[schedule]

    branches = tuple(
        Branch(
            analysis.branch.name,
            tuple(tuple(composed(schedule) for schedule in cover.schedules) for cover in analysis.covers),
            tuple(composed(witness.schedule) for witness in analysis.witnesses),
        )
        for analysis in analyses
    )
    opposite = relation.opposite
    curve = PrivacyCurve(
        question=f"{run!r} under {relation.name}",
        branches=branches,
        because=_because(analyses),
        witnessed_by=tuple(dict.fromkeys(w.datasets for a in analyses for w in a.witnesses)),
        accuracy=accuracy,
        leaves_a_gap=leave_a_gap(analyses),
        reverse=lambda: (
            curve
            if opposite is relation
            else certified_curve(
                run, relation=opposite, accuracy=accuracy, trusting=trusting, effort=effort, progress=progress
            )
        ),
    )
    return curve


def checked_effort(effort: object) -> Effort:
    """The effort, if it is one."""
    if not isinstance(effort, Effort):
        raise InvalidSetting(
            f"effort must be QUICK or TIGHT, got {effort!r}. Pass for example effort=tightrope.QUICK."
        )
    return effort


def effort_matters(run: Run, relation: Relation, *, trusting: Standing = PROVED) -> bool:
    """Whether QUICK and TIGHT differ: whether there is a game to play."""
    for analysis in analyse(run, relation, trusting=trusting, effort=TIGHT):
        covering = [schedule for cover in analysis.covers for schedule in cover.schedules]
        if any(
            isinstance(schedule, Game) for schedule in (*covering, *(w.schedule for w in analysis.witnesses))
        ):
            return True
    return False


def leave_a_gap(analyses: Iterable[Analysis]) -> bool:
    """Whether no witness plays just what a cover plays, in a run of more than one step."""
    for analysis in analyses:
        covering = [schedule for cover in analysis.covers for schedule in cover.schedules]
        played = [
            witness.schedule for witness in analysis.witnesses if isinstance(witness.schedule, Schedule)
        ]
        if not any(schedule in covering for schedule in played) and any(
            schedule.steps > 1 for schedule in played
        ):
            return True
    return False


def _composed(schedule: Schedule | Game, progress: Progress | None) -> Composed:
    if isinstance(schedule, Schedule):
        return Composition(schedule)
    from tightrope.engines.game.substitution import (
        Substitution,
    )  # only asked for where there is a game to play

    return Substitution(schedule) if progress is None else Substitution(schedule, progress)


def _because(analyses: tuple[Analysis, ...]) -> tuple[Evidence, ...]:
    """All theorems the upper end rests on, once each."""
    return tuple(
        dict.fromkeys(e for analysis in analyses for cover in analysis.covers for e in cover.because)
    )
