"""From a run to its certified privacy curve: the whole pipeline on one screen."""

from dataclasses import dataclass, replace
from typing import ClassVar

from tightrope.accountants.accountant import Accountant, check_progress
from tightrope.accountants.gaps import GapReason, leaves_a_gap, reveals_passes
from tightrope.curve.bracket import Bracket
from tightrope.curve.branches import Branch, collect_evidence
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.choose import compose_side
from tightrope.engines.face import ABOVE, ComposedCurve, Progress, Side
from tightrope.engines.resolve import resolve
from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK, TIGHT, Effort, as_effort
from tightrope.setting.relation import SUBSTITUTE, Relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import Shuffled
from tightrope.theorems.lookup import analyse

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
            is_one_curve = isinstance(schedule, Schedule) and not schedule.has_passes
            key = schedule if is_one_curve else (schedule, side)
            if key not in compositions:
                compositions[key] = compose_side(schedule, side, self.accuracy, progress)
            return compositions[key]

        def reverse() -> PrivacyCurve:
            opposite = relation.opposite
            return curve if opposite is relation else self.curve(run, opposite, progress)

        reason = GapReason(
            run=run,
            relation=relation,
            accuracy=self.accuracy,
            effort=self.effort,
            find_games=lambda: find_games(run, relation),
            reveals_passes=reveals_passes(analyses),
        )
        curve = PrivacyCurve(
            question=f"{run!r} under {relation.name}",
            because=collect_evidence(analyses),
            branches=tuple(Branch.of(analysis, compose) for analysis in analyses),
            accuracy=self.accuracy,
            explain_gap=reason.explain if leaves_a_gap(analyses) else None,
            reverse=reverse,
        )
        return curve


BY_DEFAULT = Certified()  # the default of every answer


def check_certified(by: object) -> Certified:
    """The accountant, if it certifies both sides in milliseconds, as a search or a ledger needs."""
    if not isinstance(by, Certified):
        remedy = (
            "It certifies both sides in milliseconds, and this asks often. Ask the others about the result."
        )
        raise InvalidSetting("by", by, "be {Certified}", remedy)
    return by


def find_games(run: Run, relation: Relation) -> list[Game]:
    """The games that TIGHT plays, with all other steps as pairs that bound them."""
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
