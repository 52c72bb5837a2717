"""From a run to its certified privacy curve: the whole pipeline on one screen."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from tightrope.accountants.accountant import Accountant, check_progress
from tightrope.curve.bracket import Bracket, Gap
from tightrope.curve.branches import Branch, collect_evidence
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.choose import compose
from tightrope.engines.face import ABOVE, ComposedCurve, Progress, Side
from tightrope.engines.passes.mesh import Mesh
from tightrope.engines.passes.several_curve import SeveralPasses, passes_have_transforms
from tightrope.engines.resolve import find_single_pass, has_passes, resolve, settle_two_batches
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.pairs.exchange import Game
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shuffled_epoch import ShuffledEpoch
from tightrope.setting.effort import QUICK, TIGHT, Effort, as_effort
from tightrope.setting.relation import SUBSTITUTE, Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import BallsInBins, RandomAllocation, Sampling, Shuffled, TruncatedPoisson
from tightrope.theorems.lookup import analyse
from tightrope.theorems.table import Analysis

FINEST_ACCURACY = 1e-9


@dataclass(frozen=True, kw_only=True)
class Certified(Accountant[PrivacyCurve, Bracket]):
    """Brackets: theorems from above, real datasets from below.

    `accuracy` is the relative width in delta that a bracket may have. For batches without replacement, and
    for shuffled ones, theory leaves a gap under SUBSTITUTE, and `effort` says how hard to work on it. QUICK
    takes milliseconds, or seconds for a shuffle. TIGHT takes seconds, or a minute or two where it plays a
    game of 10,000 steps. A bracket that stays wider says so in `Bracket.gap`.

    >>> Certified(effort="tight")
    Certified(accuracy=0.001, effort=TIGHT)
    """

    name: ClassVar[str] = "certified"
    promise: ClassVar[str] = "a certified bracket"

    accuracy: float = 1e-3
    effort: Effort = QUICK

    def __post_init__(self) -> None:
        remedy = "It is the relative width in delta that the bracket may have; 1e-3 is the default."
        accuracy = check.positive(remedy=remedy, accuracy=self.accuracy)
        if not FINEST_ACCURACY <= accuracy < 1:
            must = f"be at least {FINEST_ACCURACY:g} and below 1"
            raise InvalidSetting("accuracy", self.accuracy, must, remedy)
        object.__setattr__(self, "accuracy", accuracy)
        object.__setattr__(self, "effort", as_effort(self.effort))

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> PrivacyCurve:
        """Covers from above, witnesses from below, each schedule composed once.

        `progress(done, steps)` is called after each step of a game. A question takes several rounds (from
        above, from below, at several epsilons), and each counts from 1 to `steps`. If it raises `StopWork`,
        that round is given up, and the bracket is `interrupted`: as certain as ever, but wider.
        """
        check_progress(progress)
        analyses = analyse(run, relation, self.effort)
        compositions: dict[Schedule | Game | tuple[Schedule | Game, Side], ComposedCurve] = {}

        def compose(schedule: Schedule | Game, side: Side) -> ComposedCurve:
            is_one_curve = isinstance(schedule, Schedule) and not has_passes(schedule)
            key = schedule if is_one_curve else (schedule, side)
            if key not in compositions:
                compositions[key] = compose_side(schedule, side, Mesh.of(self.accuracy), progress)
            return compositions[key]

        def reverse() -> PrivacyCurve:
            opposite = relation.opposite
            return curve if opposite is relation else self.curve(run, opposite, progress)

        def explain_gap(relative_width: float, delta: float | None) -> Gap:
            return self._explain_gap(run, relation, relative_width, delta)

        curve = PrivacyCurve(
            question=f"{run!r} under {relation.name}",
            because=collect_evidence(analyses),
            branches=tuple(Branch.of(analysis, compose) for analysis in analyses),
            accuracy=self.accuracy,
            explain_gap=explain_gap if leaves_a_gap(analyses) else None,
            reverse=reverse,
        )
        return curve

    def _explain_gap(self, run: Run, relation: Relation, relative_width: float, delta: float | None) -> Gap:
        games = find_games(run, relation)
        if not games:
            kinds = {type(step.sampling) for step, _ in run}
            if relation.group > 1 and BallsInBins in kinds:
                return Gap(relative_width, self.accuracy, GROUP_GAP)
            why, remedy = self._explain_without_games(kinds)
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

    def _explain_without_games(self, kinds: set[type[Sampling]]) -> tuple[str, str]:
        for kind, (why, remedy) in _GAPS_WITHOUT_GAMES.items():
            if kind in kinds:
                return why, remedy if self.effort is QUICK or "TIGHT" not in remedy else ""
        return ENVELOPE_ONLY, ""


GROUP_GAP = (
    "from above a pass is cut into blocks, one for each record of the group, and below the sum of what its "
    "batches tell is seen, and neither is known to be reached"
)
ENVELOPE_ONLY = "no tighter upper bound than the envelope is known here"
# of several, the first is the widest
_GAPS_WITHOUT_GAMES: dict[type[Sampling], tuple[str, str]] = {
    RandomAllocation: (
        "from above a pass is cut into blocks, of each of which a record takes one batch, and that is not "
        "known to be reached",
        "",
    ),
    TruncatedPoisson: (
        "what a record that is pushed out of a full batch can show is bounded from above, and not known to "
        "be reached",
        "A larger {at_most} makes full batches rarer",
    ),
    Shuffled: (
        "what a shuffle hides is bounded from above, and below all other records are alike",
        "{effort=TIGHT} looks harder for the bound, for a minute at most",
    ),
    BallsInBins: ("a pass is known between two finite pairs, and that is how close they are", ""),
}
BY_DEFAULT = Certified()  # the default of every answer


def check_certified(by: object) -> Certified:
    """The accountant, if it certifies both sides in milliseconds, as a search or a ledger needs."""
    if not isinstance(by, Certified):
        remedy = (
            "It certifies both sides in milliseconds, and this asks often. Ask the others about the result."
        )
        raise InvalidSetting("by", by, "be {Certified}", remedy)
    return by


def leaves_a_gap(analyses: Iterable[Analysis]) -> bool:
    """Whether theory keeps the ends apart, so that a finer accuracy brings them no closer.

    No witness plays what a cover plays, in more than one step; or they play passes, between whose bounds a
    lattice lies.
    """
    return any(map(_stays_apart, analyses))


def _stays_apart(analysis: Analysis) -> bool:
    covering = [schedule for cover in analysis.covers for schedule in cover.schedules]
    witnesses = [w.schedule for w in analysis.witnesses if isinstance(w.schedule, Schedule)]
    if any(map(has_passes, witnesses)):
        return True
    if any(s in covering for s in witnesses):
        return False
    is_labelled = any(isinstance(pair, LabelledPair) for s in covering for pair in _list_pairs(s))
    return is_labelled or any(s.steps > 1 for s in witnesses)


def _list_pairs(schedule: Schedule | Game) -> list[Pair]:
    return [pair for pair, _ in (schedule if isinstance(schedule, Schedule) else schedule.others)]


def find_games(run: Run, relation: Relation) -> list[Game]:
    """The games that TIGHT plays."""
    found: list[Schedule | Game] = []
    for analysis in analyse(run, relation, TIGHT):
        found += [schedule for cover in analysis.covers for schedule in cover.schedules]
        found += [witness.schedule for witness in analysis.witnesses]
    games = [schedule for schedule in found if isinstance(schedule, Game)]
    return [replace(game, others=resolve(game.others, ABOVE)) for game in games]


def effort_matters(run: Run, relation: Relation) -> bool:
    """Whether TIGHT may tell more than QUICK: it plays games, and tries more levels of a shuffle."""
    shuffles = relation is SUBSTITUTE and any(isinstance(step.sampling, Shuffled) for step, _ in run)
    return shuffles or bool(find_games(run, relation))


def _compose_several(schedule: Schedule, side: Side, mesh: Mesh) -> ComposedCurve:
    """By transforms where all passes have them, else on one side."""
    if passes_have_transforms(schedule):
        return SeveralPasses(schedule, lambda: compose(schedule, side, mesh))
    return compose(schedule, side, mesh)


def compose_side(
    schedule: Schedule | Game, side: Side, mesh: Mesh, progress: Progress | None = None
) -> ComposedCurve:
    """The curve of a schedule, or one on this side of it, by whichever way is the closest."""
    if isinstance(schedule, Schedule):
        schedule = settle_two_batches(schedule, side)
        if not has_passes(schedule):
            return compose(schedule, side, mesh)
        single = find_single_pass(schedule)
        if single is None:
            return _compose_several(schedule, side, mesh)
        # all load flint
        if isinstance(single, ShuffledEpoch):
            from tightrope.engines.shuffles.epoch_curve import OneShuffledEpoch

            return OneShuffledEpoch(single)
        from tightrope.engines.passes.exchanged_curve import OneExchangedPass
        from tightrope.engines.passes.pass_curve import OnePass

        if single.is_exchanged and passes_have_transforms(schedule):
            moments = SeveralPasses(schedule, lambda: OneExchangedPass(single, side))
            return OnePass(single, lambda: moments)
        if single.is_exchanged:
            return OnePass(single, lambda: OneExchangedPass(single, side))
        return OnePass(single, lambda: _compose_several(schedule, side, mesh))
    from tightrope.engines.game.substitution import PlayedGame  # only where there is a game to play

    played = replace(schedule, others=resolve(schedule.others, side, mesh))
    return PlayedGame(played, progress, (side,))
