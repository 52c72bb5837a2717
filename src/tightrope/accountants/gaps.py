"""Where theory keeps the two ends of a bracket apart: why, and what narrows it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tightrope.curve.bracket import Gap
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.exchange import Game
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import TIGHT, Effort
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import BallsInBins, RandomAllocation, Sampling, Shuffled, TruncatedPoisson
from tightrope.theorems.table import Analysis

GROUP_GAP = (
    "the upper end cuts a pass into blocks, one for each record of the group; the lower end looks only at a "
    "sum over its batches; the truth lies between"
)
REVEALED_GAP = (
    "with so little noise the upper end takes the batches of a record to be seen, and the lower end is that "
    "of more noise"
)
ENVELOPE_ONLY = "no tighter upper bound than the envelope is known here"
# of several, the first is the widest
_WITHOUT_GAMES: dict[type[Sampling], tuple[str, str]] = {
    RandomAllocation: (
        "the upper end cuts a pass into blocks, in each of which a record takes one batch, and that is not "
        "known to be reached",
        "",
    ),
    TruncatedPoisson: (
        "the upper end bounds what a record that is pushed out of a full batch can show, and that is not "
        "known to be reached",
        "A larger {at_most} makes full batches rarer",
    ),
    Shuffled: (
        "the upper end bounds what a shuffle hides; the lower end is that of datasets whose other records "
        "are all alike",
        "{effort=TIGHT} looks harder for the bound, for a minute at most",
    ),
    BallsInBins: ("that is how closely the curves of passes are enclosed", ""),
}


@dataclass(frozen=True, kw_only=True)
class GapReason:
    """Explains the gap of one question to one accountant, which asks only where there is one."""

    run: Run
    relation: Relation
    accuracy: float
    effort: Effort
    find_games: Callable[[], list[Game]]  # those that TIGHT plays
    reveals_passes: bool  # above, as no lattice holds their ratios

    def explain(self, relative_width: float, delta: float | None) -> Gap:
        """Why the ends are so far apart, what narrows them, and about how long that takes."""
        games = self.find_games()
        if not games:
            why, remedy = self._explain_without_games()
            return Gap(relative_width, self.accuracy, why, remedy)
        if not any(game.exchange.is_covered for game in games):
            why = "the upper end is the envelope, and no tighter bound is known for this noise"
            remedy = "" if self.effort is TIGHT else "{effort=TIGHT} raises the lower end a little"
            return Gap(relative_width, self.accuracy, why, remedy)
        if self.effort is TIGHT:
            return Gap(relative_width, self.accuracy, "that is how close the substitution game gets")
        from tightrope.engines.game.layout import seconds_to_play  # only where there is a game to play

        seconds = max(seconds_to_play(game, accuracy=self.accuracy, delta=delta) for game in games)
        if not math.isfinite(seconds):
            return Gap(relative_width, self.accuracy, ENVELOPE_ONLY)
        why = "the envelope above and the fixed directions below do not meet"
        remedy = "{effort=TIGHT} plays the substitution game, which narrows the bracket"
        return Gap(relative_width, self.accuracy, why, remedy, seconds)

    def _explain_without_games(self) -> tuple[str, str]:
        kinds = {type(step.sampling) for step, _ in self.run}
        if self.relation.group > 1 and BallsInBins in kinds:
            return GROUP_GAP, ""
        if self.reveals_passes and Shuffled not in kinds:
            return REVEALED_GAP, ""
        for kind, (why, remedy) in _WITHOUT_GAMES.items():
            if kind in kinds:
                return why, "" if self.effort is TIGHT and "TIGHT" in remedy else remedy
        return ENVELOPE_ONLY, ""


def leaves_a_gap(analyses: Iterable[Analysis]) -> bool:
    """Whether theory keeps the ends apart, so that a finer accuracy brings them no closer.

    No witness plays what a cover plays, in more than one step; or they play passes, between whose bounds a
    lattice lies.
    """
    return any(map(_stays_apart, analyses))


def reveals_passes(analyses: Iterable[Analysis]) -> bool:
    """Whether passes are reached, but no cover holds them: the batches of a record are told instead."""
    return any(
        _hold_passes(witness.schedule for witness in analysis.witnesses)
        and not _hold_passes(schedule for cover in analysis.covers for schedule in cover.schedules)
        for analysis in analyses
    )


def _hold_passes(schedules: Iterable[Schedule | Game]) -> bool:
    return any(isinstance(pair, Allocation) for schedule in schedules for pair in _list_pairs(schedule))


def _stays_apart(analysis: Analysis) -> bool:
    covering = [schedule for cover in analysis.covers for schedule in cover.schedules]
    witnesses = [w.schedule for w in analysis.witnesses if isinstance(w.schedule, Schedule)]
    if any(schedule.has_passes for schedule in witnesses):
        return True
    if any(s in covering for s in witnesses):
        return False
    is_labelled = any(isinstance(pair, LabelledPair) for s in covering for pair in _list_pairs(s))
    return is_labelled or any(s.steps > 1 for s in witnesses)


def _list_pairs(schedule: Schedule | Game) -> list[Pair]:
    return [pair for pair, _ in (schedule if isinstance(schedule, Schedule) else schedule.others)]
