"""A run of exchanges, bracketed by the substitution game: its cover above, one adversary's policy below.

The game is played for one kind of step. Other steps, and runs too long to play in one piece, are composed
with its value read as the curve of one step: valid for every order of the steps, since what is fixed in
advance is worst when it comes first.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import numpy as np

from tightrope.engines.face import ABOVE, BELOW, LogBounds, Progress, Side, check_order
from tightrope.engines.game.above import GameAbove, Profile, Window, bisect
from tightrope.engines.game.below import LabelLaw, PolicyValue, label_law, triangle_law
from tightrope.engines.game.layout import (
    LARGEST_EXPONENT,
    TELLABLE,
    Grain,
    Layout,
    Planner,
    foresee_game,
    grains_for,
)
from tightrope.engines.game.moves import labels_of, play_stages
from tightrope.engines.game.pooling import Quality, TriangleCover, cover_triangles
from tightrope.engines.lattice.law import LatticeSide, LatticeStep
from tightrope.engines.one_step.atoms import LossAtoms, spread
from tightrope.engines.one_step.cells import cut
from tightrope.engines.one_step.enclosures import log_sum_above
from tightrope.engines.planning import Plan, outline
from tightrope.engines.saddle import place_contour
from tightrope.engines.watching import Workload, begin_work
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.fourier import fast_size
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.exchange import Game
from tightrope.pairs.pair import Pair

# a megabyte or so each; a curve's neighbouring questions, those of the next curve, and who was interrupted
# and asks again, share them
KEPT_GAMES = 64
MOST_CELLS = 2_000_000  # of one of the other steps


def ignore_progress(done: int, steps: int) -> None:
    """What is called where nobody asked to be told."""


@dataclass(frozen=True)
class BlockProfile:
    """Blocks of a game and other steps on one lattice, from above."""

    side: LatticeSide
    tilt: float
    spacing: float
    log_infinite: float

    def log_upper(self, epsilon: float) -> float:
        """An upper bound on ln delta(epsilon)."""
        finite, _ = self.side.divergence_above(epsilon, self.tilt, self.spacing)
        return log_sum_above(np.array([finite, self.log_infinite]))

    def epsilon_above(self, log_delta: float) -> float:
        """The smallest epsilon, up to a little, whose bound is at most delta; infinity if there is none."""
        low, high = 0.0, self.spacing
        if self.log_upper(0.0) <= log_delta:
            return 0.0
        while self.log_upper(high) > log_delta:
            low, high = high, 2 * high
            if high > len(self.side.masses) * self.spacing:
                return math.inf
        return bisect(self.log_upper, log_delta, low, high, 1e-9)


@dataclass(frozen=True)
class GameBounds:
    """Both ends of the curve near one epsilon; a side that was not played is None."""

    question: "GameQuestion"
    upper: Profile | BlockProfile | None
    lower: PolicyValue | None

    @property
    def layout(self) -> Layout:
        """The window and the lattice on which it was played."""
        return self.question.layout

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        above = min(self.upper.log_upper(epsilon), 0.0) if self.upper else 0.0
        return LogBounds(self.lower.log_lower(epsilon) if self.lower else -math.inf, above)

    def epsilons(self, delta: float) -> tuple[float, float]:
        """Bounds on epsilon(delta)."""
        log_delta = math.log(delta)
        rounding = 2 * ELEMENTARY_REL_ERROR * abs(log_delta)
        above = self.upper.epsilon_above(log_delta - rounding) if self.upper else math.inf
        below = self.lower.epsilon_below(log_delta + rounding) if self.lower else 0.0
        check_order(below, above)
        return below, above


class PlayedGame:
    """The curve of a run of exchanges, for epsilon >= 0. The bracket is as wide as theory and grain leave it.

    Each question is answered on the first rung of a ladder of deltas that is at or below its own, so that
    questions that are close share what was played, and an answer never depends on what was asked before it.
    Where no list of triples is certified to cover all (`Exchange.is_covered`), the upper end is 1. On a side
    that is not among `sides` nothing is played and nothing is known.
    """

    def __init__(
        self, game: Game, progress: Progress | None = None, sides: Collection[Side] = (ABOVE, BELOW)
    ) -> None:
        self.game, self.progress, self.sides = game, progress or ignore_progress, sides
        self.planner = Planner(game)

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Nothing is known: other covers and witnesses of the run say more."""
        return -math.inf, 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon), by the grain that serves the accuracy."""
        return self.play(self.planner.rung_for_epsilon(epsilon), accuracy).bounds(epsilon)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        return self.play(self.planner.rung_for_delta(math.log(delta)), accuracy).epsilons(delta)

    def play(self, rung: int, accuracy: float) -> GameBounds:
        """The ends at one rung of the ladder."""
        question = GameQuestion(self.game, rung, grains_for(accuracy), self.progress)
        return GameBounds(
            question,
            _play_above(question) if ABOVE in self.sides else None,
            _play_below(question) if BELOW in self.sides else None,
        )


@dataclass(frozen=True)
class GameQuestion:
    """One rung of one game, at these grains; who watches makes no difference to the answer."""

    game: Game
    rung: int
    grains: tuple[Grain, ...]
    progress: Progress = field(compare=False)

    @cached_property
    def planner(self) -> Planner:
        """Where and how finely to play."""
        return Planner(self.game)

    @cached_property
    def layout(self) -> Layout:
        """The window and the lattice of this rung."""
        return self.planner.layout(self.rung, self.grains, self._count_curves)

    def foresee(self, side: Side) -> Workload:
        """About what it takes to play on one side."""
        found = foresee_game(self.game, self.rung, self.grains)
        return Workload(
            piece=(self, side),
            what=f"{self.game.times:,} rounds of the substitution game",
            seconds=found.cover + found.above if side is ABOVE else found.below,
            instead="{effort=QUICK} answers at once",
            memory=found.memory,
        )

    def _cover(self, quality: Quality) -> TriangleCover:
        return cover_triangles(self.game.exchange, quality)

    def _count_curves(self, quality: Quality) -> int:
        return self._cover(quality).size if self.game.exchange.is_covered else 1

    def above(self) -> Profile | BlockProfile:
        """The cover's value."""
        layout, times = self.layout, self.game.times
        blocks, rest = divmod(times, layout.block)
        alone = blocks == 1 and not rest and not self.game.others
        end, tilt = layout.end, layout.tilt
        if not alone:  # the far end of a block's curve counts as much as the rest, and needs its digits
            log_least = layout.log_delta - 9 - math.log(times / layout.block)
            end = self.planner.end_of_block(layout, log_least)
            tilt = max(tilt, (-log_least - TELLABLE) / end)
        largest = self.planner.largest_loss(layout.log_delta, tilt, end - layout.epsilon)
        last, reach = (math.ceil(length / layout.spacing) for length in (end, largest))
        window = Window(spacing=layout.spacing, last=last, reach=reach, tilt=tilt)
        growth = self.planner.growth(layout) if alone else []
        found = GameAbove(self._cover(layout.quality), window).play(
            layout.block, {layout.block, rest}, self.progress, growth
        )
        if alone:
            return found[layout.block]
        atoms = [(found[layout.block].atoms(), blocks)]
        if rest:
            atoms.append((found[rest].atoms(), 1))
        return self._compose(atoms)

    def _compose(self, blocks: Sequence[tuple[LossAtoms, int]]) -> BlockProfile:
        layout, atoms = self.layout, list(blocks)
        for pair, times in self.game.others:
            low, high = outline(pair, layout.log_delta - 20).losses_that_matter(
                layout.saddle, math.log(1e-4 / times), layout.log_delta - 9 - math.log(times)
            )
            ends = math.floor(low / layout.spacing) - 1, math.ceil(high / layout.spacing) + 1
            if ends[1] - ends[0] > MOST_CELLS:
                raise self.planner.refusal(layout.log_delta)
            atoms.append((spread(cut(pair, np.arange(*ends, dtype=float) * layout.spacing)), times))
        plan = Plan(self.planner.schedule, layout.log_delta - 14)
        spot = place_contour(plan, layout.saddle, layout.epsilon, layout.log_delta - 9)
        size = fast_size(math.ceil(1.5 * spot.period / layout.spacing))
        steps = [LatticeStep.above(law, times, layout.spacing) for law, times in atoms]
        side = LatticeSide.of(steps, spot.tilt, size)
        return BlockProfile(side, spot.tilt, layout.spacing, _log_infinite(atoms))

    def below(self) -> PolicyValue | None:
        """The policy's value, or None if some other step has no labels: fixed directions must do."""
        layout, game = self.layout, self.game
        widest = [self._widest_loss(pair, times) for pair, times in game.others]
        largest = max([self.planner.largest_loss(layout.log_delta, 0.0, 0.0), *widest])
        # a run that lost far more than epsilon is let go: rare at this rung and at larger deltas
        below = max(12 / layout.saddle + 2 * layout.deviation, 1.2 * largest + 10 / layout.saddle)
        below = min((game.times + game.others.steps) * largest, below)
        # nothing lies beyond this window, so a steeper tilt costs nothing and leaves more digits
        tilt = max(layout.tilt, min(layout.saddle / 2, LARGEST_EXPONENT / (layout.end + below + largest)))
        first, last, reach = (math.ceil(end / layout.spacing) for end in (below, layout.end, largest))
        if first + last + 2 * reach > MOST_CELLS:
            raise self.planner.refusal(layout.log_delta)
        window = Window(spacing=layout.spacing, below=first, last=last, reach=reach + 1, tilt=tilt)
        found = [(labels_of(pair, window), times) for pair, times in game.others]
        others = [([law], times) for law, times in found if law is not None]
        if len(others) < len(found):
            return None
        # The policy sees only the labels of what it chooses, so the other steps may come anywhere in the run:
        # their labels are added up with the last of it.
        stages = [*others, (self._laws(reach + 1), game.times)]
        return play_stages(stages, window, self.progress)

    def _widest_loss(self, pair: Pair, times: int) -> float:
        """The largest loss of either sign that matters among the other steps."""
        layout = self.layout
        low, high = outline(pair, layout.log_delta - 20).losses_that_matter(
            layout.saddle, math.log(1e-4 / times), layout.log_delta - 9 - math.log(times)
        )
        return max(-low, high)

    def _laws(self, reach: int) -> list[LabelLaw]:
        """What the adversary may play: remove, add, and the best triangle between if it beats both."""
        exchange, spacing = self.game.exchange, self.layout.spacing
        laws = [label_law(exchange.remove, spacing, reach), label_law(exchange.add, spacing, reach)]
        if exchange.is_covered:
            between = self._cover(self.grains[0].quality).best_between
            law = triangle_law(between, exchange, spacing) if between is not None else None
            laws += [law] if law is not None else []
        return laws


def _log_infinite(atoms: Sequence[tuple[LossAtoms, int]]) -> float:
    """Above ln of the chance of an infinite loss: each step's, times all that may come before and after.

    Masses lifted for rounding may sum to a little more than 1.
    """
    log_mass = math.fsum(
        times * max(log_sum_above(np.append(law.log_masses, law.log_infinite)), 0.0) for law, times in atoms
    )
    union = log_sum_above(np.array([law.log_infinite + math.log(times) for law, times in atoms]))
    if union == -math.inf:
        return union
    most = max(math.log(times) for _, times in atoms)
    # ln of a count is good to 8 u, and each sum to one rounding
    return union + log_mass + 16 * UNIT_ROUNDOFF * (1 + most + abs(union) + log_mass)


# Kept, because a game takes seconds and a curve's questions come one by one. If one side is interrupted, the
# other is kept.


@lru_cache(maxsize=KEPT_GAMES)
def _play_above(question: GameQuestion) -> Profile | BlockProfile | None:
    """The upper end at one rung, if there is a cover."""
    if not question.game.exchange.is_covered:
        return None
    begin_work(question.progress, partial(question.foresee, ABOVE))
    return question.above()


@lru_cache(maxsize=KEPT_GAMES)
def _play_below(question: GameQuestion) -> PolicyValue | None:
    """The lower end at one rung."""
    begin_work(question.progress, partial(question.foresee, BELOW))
    return question.below()
