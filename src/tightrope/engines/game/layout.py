"""How a question will be played, settled beforehand: window, lattice, cover, blocks, and about how long."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.game.pooling import Quality
from tightrope.engines.lattice.law import few_bits
from tightrope.engines.planning import Plan, outline
from tightrope.engines.saddle import epsilon_estimate, log_delta_estimate, tilt_for_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.exchange import Game
from tightrope.pairs.mixture import Noise
from tightrope.pairs.schedule import Schedule

LADDER = (-2, -4, -6, -9, -12, -15, -19, -25, -32, -40, -50, -65, -80, -100, -150)  # ln delta
MOST_WORK = 1.5e10  # lattice points times curves times steps: a minute or two
MUCH_WORK = 8e9  # a coarser grain is tried before more work than this
MOST_POINTS = 2e7  # lattice points times curves: about a gigabyte
COARSER = 3.5  # times its tolerance is as far as a grain goes to save work
SHORTEST_BLOCK = 50  # steps: shorter blocks would gain nothing over the envelope
LARGEST_EXPONENT = 500.0  # of a tilt: floats end at 709
FADED = 9.0  # the window ends where the tilted curve has fallen by e^-9
TELLABLE = 12.0  # how much larger than at epsilon, as a logarithm, the tilted curve may be elsewhere
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)  # of the steps: windows grow there
USUAL_LOG_DELTA = math.log(1e-5)

# What a game costs, measured by `python benchmarks/game.py` in CPU seconds.
COVER_SECONDS = 2.0  # a cover of the usual quality; 1 to 6
SECONDS_PER_POINT = 5e-9  # for a lattice point of one curve, in one step
POLICY_CURVES = 16  # the lower end costs about as much as so many curves
MOST_MOVES = 2000  # of a policy: longer runs play several steps as one
STEPS_TO_PREPARE = 120  # putting the curves on the lattice costs about as much as so many steps
BYTES_PER_POINT = 40.0  # of one curve: its masses, its spectrum, its gains

CurveCount = Callable[[Quality], int]


@dataclass(frozen=True, kw_only=True)
class Grain:
    """How finely the game is played for accuracies from `accuracy` on.

    The lattice moves epsilon by about `tolerance` of itself, or by up to COARSER times as much where the work
    (lattice points times curves times steps) would exceed `easy`.
    """

    accuracy: float
    tolerance: float
    quality: Quality
    easy: float


# Each grain takes about twice as long as the next coarser one. Beyond FINEST the cover decides the width:
# its groups are as small as they get. What each of them reaches: docs/decisions/0006.
FINEST = Grain(accuracy=1e-5, tolerance=3e-5, quality=Quality(0.000125, 1.5, 95), easy=1e10)
FINE = Grain(accuracy=1e-4, tolerance=1e-4, quality=Quality(0.00025, 1.5, 80), easy=3e9)
USUAL = Grain(accuracy=1e-3, tolerance=4e-4, quality=Quality(0.0006, 1.75, 55), easy=1e9)
COARSE = Grain(accuracy=0.003, tolerance=4e-4, quality=Quality(0.001, 3.0, 30), easy=1e9)
ROUGH = Grain(accuracy=0.01, tolerance=1e-3, quality=Quality(0.0015, 3.0, 25), easy=3e8)
SKETCH = Grain(accuracy=0.1, tolerance=3e-3, quality=Quality(0.004, 3.0, 15), easy=1e8)
GRAINS = (FINEST, FINE, USUAL, COARSE, ROUGH, SKETCH)


def grains_for(accuracy: float) -> tuple[Grain, ...]:
    """The coarsest grain that serves an accuracy, or the finest there is; then the coarser ones."""
    first = max((i for i, grain in enumerate(GRAINS) if grain.accuracy <= accuracy), default=0)
    return GRAINS[first:]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where one question is played: epsilon, its saddle, the tilt, the window, the lattice, a block's steps.

    A tilt below the saddle lets the curve fade sooner beyond epsilon; as long as it stays above what rounding
    can tell from the largest tilted value, nothing is lost. `points` counts the lattice points of the window.
    """

    epsilon: float
    log_delta: float
    saddle: float
    tilt: float
    deviation: float
    end: float
    spacing: float
    tolerance: float
    points: float
    quality: Quality
    block: int


class Planner:
    """Lays out the questions about one game. Its estimates decide where to look, never what to answer."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.schedule = Schedule([(game.exchange.remove, game.times), *game.others])

    def rung_for_delta(self, log_delta: float) -> int:
        """The first rung of the ladder at or below ln delta; questions that are close share it."""
        rung = next((rung for rung in LADDER if rung <= log_delta), None)
        if rung is None:
            raise self.refusal(log_delta)
        return rung

    def rung_for_epsilon(self, epsilon: float) -> int:
        """The rung of about delta(epsilon) of removing."""
        plan = Plan(self.schedule, 1.5 * LADDER[-1])
        try:
            return self.rung_for_delta(
                min(log_delta_estimate(plan, tilt_for_epsilon(plan, epsilon), epsilon), 0.0)
            )
        except EngineDeclines:
            raise self.refusal(-math.inf) from None

    def layout(self, rung: int, grains: Sequence[Grain], count_curves: CurveCount) -> Layout:
        """The layout for a rung; `count_curves` tells how many curves a cover of some quality has."""
        try:
            return self._layout(rung, grains, count_curves)
        except EngineDeclines:
            raise self.refusal(rung) from None

    def _layout(self, rung: int, grains: Sequence[Grain], count_curves: CurveCount) -> Layout:
        plan = Plan(self.schedule, rung - 14)
        before = LADDER[max(LADDER.index(rung) - 1, 0)]
        served = [self._saddle(plan, at) for at in (rung, before)]
        epsilon, saddle = served[0]
        deviation = math.sqrt(plan(saddle)[2])
        tilt = min(saddle, max(saddle / 16, (-rung - TELLABLE) / max(epsilon, 1e-9)))
        while True:
            end = self._end_of_window(epsilon, tilt, deviation, rung)
            width = end + 2 * self.largest_loss(rung, tilt, end - epsilon)
            if tilt * width < LARGEST_EXPONENT:
                break
            tilt *= 0.7
        if -rung - tilt * epsilon > 2.5 * TELLABLE:
            raise EngineDeclines
        spacing, tolerance, quality, block = self._fit(grains, served, width, count_curves)
        return Layout(
            epsilon=epsilon,
            log_delta=rung,
            saddle=saddle,
            tilt=tilt,
            deviation=deviation,
            end=end,
            spacing=spacing,
            tolerance=tolerance,
            points=width / spacing,
            quality=quality,
            block=block,
        )

    def _fit(
        self,
        grains: Sequence[Grain],
        served: list[tuple[float, float]],
        width: float,
        count_curves: CurveCount,
    ) -> tuple[float, float, Quality, int]:
        """Spacing, tolerance, cover quality and steps of a block, by the first grain that can do it."""
        times = self.game.times
        limits = (min(MUCH_WORK, MOST_WORK), MOST_WORK)
        for grain, most in ((grain, most) for most in limits for grain in grains):
            tolerance, coarsest = grain.tolerance, COARSER * grain.tolerance
            least = times * grain.quality.usual_size * width / self._spacing(served, coarsest)
            if least > 1.3 * most and grain is not grains[-1]:
                continue  # far too much, so that the cover is not even made
            curves = count_curves(grain.quality)
            spacing = self._spacing(served, tolerance)
            while times * curves * width / spacing > grain.easy and tolerance < coarsest:
                tolerance = min(1.4 * tolerance, coarsest)
                spacing = self._spacing(served, tolerance)
            points = curves * width / spacing
            if points <= MOST_POINTS and times * points <= most:
                return spacing, tolerance, grain.quality, times
        # a block's window is longer than the run's, by how much its length decides: twice the cost is usual
        block = math.floor(MOST_WORK / points / 2)
        if points > MOST_POINTS or block < min(times, SHORTEST_BLOCK):
            raise EngineDeclines
        return spacing, tolerance, grain.quality, block

    def growth(self, layout: Layout) -> list[tuple[int, int]]:
        """How far the window reaches while few steps are played: what lies beyond is as rare as at the end.

        Numbers of steps, and the place where the window ends up to then.
        """
        log_least, found = layout.log_delta - FADED, []
        whole, _ = epsilon_estimate(Plan(self.schedule, layout.log_delta - 40), log_least)
        if whole == 0 or self.game.times < SHORTEST_BLOCK:  # so rare even at epsilon 0, or not worth it
            return []
        for share in SHARES:
            steps = math.ceil(share * self.game.times)
            plan = Plan(Schedule([(self.game.exchange.remove, steps)]), layout.log_delta - 40)
            epsilon, _ = epsilon_estimate(plan, log_least)
            found.append((steps, math.ceil(min(epsilon / whole, 1.0) * layout.end / layout.spacing)))
        return found

    def end_of_block(self, layout: Layout, log_least: float) -> float:
        """Where a block's curve is down to e^log_least, so that what is beyond may count as infinite loss."""
        block = Plan(Schedule([(self.game.exchange.remove, layout.block)]), layout.log_delta - 20)
        epsilon, _ = epsilon_estimate(block, log_least)
        return epsilon + 2 * math.sqrt(block(layout.saddle)[2])

    def largest_loss(self, log_delta: float, tilt: float, beyond: float) -> float:
        """A loss so rare that the curve, `beyond` and itself past epsilon, may take it for infinite."""
        exchange = self.game.exchange
        if exchange.noise is not Noise.NORMAL:
            return exchange.remove.loss_range[1]
        loss = 0.0
        for _ in range(3):
            log_mass = log_delta - math.log(self.game.times) - 9 - tilt * max(beyond + loss, 0.0)
            loss = exchange.remove.loss_quantile(log_mass)
        return loss

    def refusal(self, log_delta: float) -> NotPreciseEnough:
        """Why no layout exists."""
        return NotPreciseEnough(
            f"The substitution game at {{delta}} of about e^{log_delta:.0f} is out of reach "
            f"for {self.game.times:,} steps of this noise and rate",
            "Ask with {effort=QUICK}, or for another {epsilon} or {delta}.",
        )

    def _end_of_window(self, epsilon: float, tilt: float, deviation: float, log_delta: float) -> float:
        """The remaining epsilon at which remove's tilted curve, about, has faded."""
        plan = Plan(self.schedule, log_delta - 40)
        for count in range(1, 17):
            r = epsilon + count * (deviation / 2)
            try:
                log_delta_there = log_delta_estimate(plan, tilt_for_epsilon(plan, r, tilt), r)
            except EngineDeclines:
                continue
            if log_delta_there + tilt * (r - epsilon) <= log_delta - FADED:
                break
        return r

    @staticmethod
    def _saddle(plan: Plan, log_delta: float) -> tuple[float, float]:
        """About epsilon(delta), and its saddle."""
        epsilon, _ = epsilon_estimate(plan, log_delta)
        return epsilon, tilt_for_epsilon(plan, epsilon)

    def _spacing(self, served: list[tuple[float, float]], tolerance: float) -> float:
        """The spacing that moves each epsilon by about `tolerance` of itself, or delta by a few of it."""
        found = []
        for epsilon, saddle in served:
            losses, weights, _ = outline(self.game.exchange.remove, -50.0).tilted(saddle)
            spacing, live = 0.0, 1.0
            allowed = tolerance * max(saddle * epsilon, 3.0)
            for _ in range(4):
                spacing = math.sqrt(8 * allowed / (max(self.game.times * live, 0.1) * saddle * (1 + saddle)))
                live = float(weights @ np.minimum(1, 6 * np.abs(losses) / spacing))
            found.append(spacing)
        return few_bits(min(found))  # so that multiples are exact


@dataclass(frozen=True, kw_only=True)
class PlayingTime:
    """About how many CPU seconds each part of a game takes, and how much memory it needs."""

    cover: float
    above: float
    below: float
    memory: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.cover + self.above + self.below


def foresee_game(game: Game, rung: int, grains: Sequence[Grain]) -> PlayingTime:
    """About what a game takes at one rung, told in milliseconds; it is refused where the game would be.

    The cover is not made: it is taken to have the usual number of curves.
    """
    planner = Planner(game)
    try:
        layout = planner.layout(rung, grains, lambda quality: quality.usual_size)
    except NotPreciseEnough:
        layout = planner.layout(rung, grains, lambda quality: 1)  # perhaps the cover is smaller than usual
    cover = COVER_SECONDS * math.sqrt(USUAL.quality.box / layout.quality.box)
    per_curve = layout.points * (layout.block + STEPS_TO_PREPARE) * SECONDS_PER_POINT
    per_move = layout.points * (min(game.times, MOST_MOVES) + STEPS_TO_PREPARE) * SECONDS_PER_POINT
    return PlayingTime(
        cover=cover if game.exchange.is_covered else 0.0,
        above=layout.quality.usual_size * per_curve if game.exchange.is_covered else 0.0,
        below=POLICY_CURVES * per_move,
        memory=BYTES_PER_POINT * layout.points * layout.quality.usual_size,
    )


def seconds_to_play(game: Game, *, accuracy: float, delta: float | None = None) -> float:
    """About how many CPU seconds TIGHT takes for one answer, within a factor of 4; milliseconds to ask.

    Infinity where the game is refused, or bounds nothing from above because no cover is certified. Without a
    delta it is the time at 1e-5.

    >>> from fractions import Fraction
    >>> from tightrope.pairs.exchange import Exchange
    >>> game = Game(Exchange(Noise.NORMAL, Fraction(1, 20), Fraction(1, 2)), times=1000, others=Schedule([]))
    >>> 2 < seconds_to_play(game, accuracy=1e-3) < 20
    True
    """
    if not game.exchange.is_covered or (delta is not None and delta <= 0):
        return math.inf
    log_delta = USUAL_LOG_DELTA if delta is None else math.log(delta)
    try:
        rung = Planner(game).rung_for_delta(log_delta)
        return foresee_game(game, rung, grains_for(accuracy)).seconds
    except NotPreciseEnough:
        return math.inf
