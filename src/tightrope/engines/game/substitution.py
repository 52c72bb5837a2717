"""A run of exchanges, bracketed by the substitution game: its cover above, one adversary's policy below.

The game is played for one kind of step. Other steps, and runs too long to play in one piece, are composed with its value read
as the curve of one step: valid for every order of the steps, since what is fixed in advance is worst when it comes first.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from tightrope.engines.atoms import LossAtoms, spread
from tightrope.engines.cells import cut
from tightrope.engines.face import EngineDeclines, LogBounds
from tightrope.engines.game.above import GameAbove, Profile, Progress, Window
from tightrope.engines.game.below import Evaluated, LabelLaw, PolicyWindow, evaluate, label_law, triangle_law
from tightrope.engines.game.pooling import COARSE, FINE, Cover, Quality, cover
from tightrope.engines.lattice.law import LatticeSide, LatticeStep
from tightrope.engines.planning import Plan, outline
from tightrope.engines.saddle import epsilon_estimate, log_delta_estimate, place, tilt_for_epsilon
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.distribution import Noise
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule

EASY, MOST = 1e9, 1.5e10  # lattice points times curves times steps: some seconds, and two or three minutes
FINEST, COARSEST = 3e-4, 1.5e-3  # how far the lattice may move epsilon, relative to it
SHORTEST_BLOCK = 50  # steps: blocks shorter than this would gain nothing over the envelope
LADDER = (
    -2.0,
    -4.0,
    -6.0,
    -9.0,
    -12.0,
    -15.0,
    -19.0,
    -25.0,
    -32.0,
    -40.0,
    -50.0,
    -65.0,
    -80.0,
    -100.0,
    -150.0,
)  # ln delta
KEPT_PLACES = 32
LARGEST_EXPONENT = 500.0  # of a tilt: floats end at 709
MOST_POINTS = 2e7  # lattice points times curves: about a gigabyte
FADED = 9.0  # the window ends where the tilted curve has fallen by e^-9
TELLABLE = 12.0  # how much larger than at epsilon, as a logarithm, the tilted curve may be elsewhere


def unwatched(done: int, steps: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Layout:
    """Where one question is played: epsilon and its saddle, the tilt, the end of the window, the lattice, a block's steps.

    A tilt below the saddle lets the curve fade sooner beyond epsilon; as long as it stays above what rounding can tell from
    the largest tilted value, nothing is lost.
    """

    epsilon: float
    log_delta: float
    saddle: float
    tilt: float
    deviation: float
    end: float
    spacing: float
    tolerance: float
    block: int


@dataclass(frozen=True)
class Composed:
    """Blocks of a game and other steps on one lattice, from above."""

    side: LatticeSide
    tilt: float
    spacing: float
    log_infinite: float
    blur: float  # how far rounding in the other steps' masses can move delta, relative to it

    def log_upper(self, epsilon: float) -> float:
        """An upper bound on ln delta(epsilon)."""
        finite, _ = self.side.divergence_above(epsilon, self.tilt, self.spacing)
        return float(
            np.logaddexp(finite + self.blur + 1e-11 * (1 + abs(self.side.log_scale)), self.log_infinite)
        )

    def epsilon_above(self, log_delta: float) -> float:
        """The smallest epsilon whose bound is at most delta, up to a little; infinity if none is."""
        low, high = 0.0, self.spacing
        if self.log_upper(0.0) <= log_delta:
            return 0.0
        while self.log_upper(high) > log_delta:
            low, high = high, 2 * high
            if high > len(self.side.masses) * self.spacing:
                return math.inf
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.log_upper(middle) > log_delta else (low, middle)
        return high


@dataclass(frozen=True)
class Place:
    """Both ends of the curve near one epsilon."""

    layout: Layout
    upper: Profile | Composed | None
    lower: Evaluated | None

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        above = min(self.upper.log_upper(epsilon), 0.0) if self.upper else 0.0
        below = self.lower.log_lower(epsilon) if self.lower else -math.inf
        return LogBounds(_in_order(below, above), above)

    def epsilons(self, log_delta: float) -> tuple[float, float]:
        """Bounds on epsilon(delta)."""
        above = self.upper.epsilon_above(log_delta) if self.upper else math.inf
        below = self.lower.epsilon_below(log_delta) if self.lower else 0.0
        return _in_order(below, above), above


def _in_order(below: float, above: float) -> float:
    """The lower end; ends that cross by more than rounding are a mistake that must not look like an answer."""
    if not below <= above + 1e-6 * (1 + abs(above)):
        raise ArithmeticError(f"the game's ends cross: {below} > {above}")
    return min(below, above)


_kept: OrderedDict[tuple[Game, float], Place] = OrderedDict()


class Substitution:
    """The curve of a run of exchanges, for epsilon >= 0. The bracket is as wide as the theory leaves it.

    Each question is answered on the first rung of a ladder of deltas that is at or below its own, so that questions that are
    close share what was played, and an answer never depends on what was asked before it. Where no list of triples is
    certified to cover all (`Exchange.is_covered`), the upper end is 1.
    """

    def __init__(self, game: Game, progress: Progress | None = None) -> None:
        self.game, self.progress = game, progress or unwatched
        self.schedule = Schedule([(game.exchange.remove, game.times), *game.others])

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """Nothing is known: other covers and witnesses of the run say more."""
        return -math.inf, 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        return self.place(self._log_delta_about(epsilon)).bounds(epsilon)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """(lower, upper) around the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        return self.place(math.log(delta)).epsilons(math.log(delta))

    def place(self, log_delta: float) -> Place:
        """Both ends of the curve where ln delta is about `log_delta`; the last few are kept."""
        rung = next((rung for rung in LADDER if rung <= log_delta), None)
        if rung is None:
            raise self._refusal(log_delta)
        key = self.game, rung
        if key in _kept:
            _kept.move_to_end(key)
        else:
            layout, quality = self._layout(rung)
            _kept[key] = Place(
                layout,
                self._above(layout, quality) if self.game.exchange.is_covered else None,
                self._below(layout),
            )
            if len(_kept) > KEPT_PLACES:
                _kept.popitem(last=False)
        return _kept[key]

    def _log_delta_about(self, epsilon: float) -> float:
        """About ln delta(epsilon) of removing: it only chooses the rung."""
        plan = Plan(self.schedule, 1.5 * LADDER[-1])
        try:
            return min(log_delta_estimate(plan, tilt_for_epsilon(plan, epsilon), epsilon), 0.0)
        except EngineDeclines:
            raise self._refusal(-math.inf) from None

    def _layout(self, log_delta: float) -> tuple[Layout, Quality]:
        plan = Plan(self.schedule, log_delta - 14)
        before = LADDER[max(LADDER.index(log_delta) - 1, 0)]
        try:
            served = [self._saddle(plan, at) for at in (log_delta, before)]
            epsilon, saddle = served[0]
            deviation = math.sqrt(plan(saddle)[2])
        except EngineDeclines:
            raise self._refusal(log_delta) from None
        tilt = min(saddle, max(saddle / 16, (-log_delta - TELLABLE) / max(epsilon, 1e-9)))
        while True:
            end = self._end_of_window(epsilon, tilt, deviation, log_delta)
            width = end + 2 * self._largest_loss(log_delta, tilt, end - epsilon)
            if tilt * width < LARGEST_EXPONENT:
                break
            tilt *= 0.7
        if -log_delta - tilt * epsilon > 2.5 * TELLABLE:
            raise self._refusal(log_delta)
        times, block = self.game.times, self.game.times
        for quality in (FINE, COARSE):
            curves = self._cover(quality).size if self.game.exchange.is_covered else 1
            tolerance = FINEST
            while times * curves * width / self._spacing(served, tolerance) > EASY and tolerance < COARSEST:
                tolerance = min(1.4 * tolerance, COARSEST)
            cost = curves * width / self._spacing(served, tolerance)
            if cost > MOST_POINTS:
                raise self._refusal(log_delta)
            if times * cost <= MOST:
                break
        else:
            # what a block's window needs beyond the run's is not known before its length: twice the cost is usual
            block = math.floor(MOST / cost / 2)
        if block < min(times, SHORTEST_BLOCK):
            raise self._refusal(log_delta)
        spacing = self._spacing(served, tolerance)
        return Layout(epsilon, log_delta, saddle, tilt, deviation, end, spacing, tolerance, block), quality

    def _cover(self, quality: Quality) -> Cover:
        return cover(self.game.exchange.rate, self.game.exchange.distance**2 / 4, quality)

    def _end_of_window(self, epsilon: float, tilt: float, deviation: float, log_delta: float) -> float:
        """The remaining epsilon at which remove's tilted curve, about, has faded."""
        plan = Plan(self.schedule, log_delta - 40)
        step = deviation / 2
        for count in range(1, 17):
            r = epsilon + count * step
            try:
                faded = (
                    log_delta_estimate(plan, tilt_for_epsilon(plan, r, tilt), r) + tilt * (r - epsilon)
                    <= log_delta - FADED
                )
            except EngineDeclines:
                faded = False
            if faded:
                break
        return r

    def _refusal(self, log_delta: float) -> NotPreciseEnough:
        return NotPreciseEnough(
            f"The substitution game at delta of about e^{log_delta:.0f} is out of reach for {self.game.times:,} steps of this "
            "noise and rate. Ask with effort=QUICK, or for another epsilon or delta."
        )

    @staticmethod
    def _saddle(plan: Plan, log_delta: float) -> tuple[float, float]:
        """About epsilon(delta), and its saddle."""
        epsilon, _ = epsilon_estimate(plan, log_delta)
        return epsilon, tilt_for_epsilon(plan, epsilon)

    def _spacing(self, served: list[tuple[float, float]], tolerance: float) -> float:
        """The lattice spacing that moves each epsilon that is served by about `tolerance` of itself, or delta by a few of it."""
        found = []
        for epsilon, saddle in served:
            losses, weights, _ = outline(self.game.exchange.remove, -50.0).tilted(saddle)
            spacing, live = 0.0, 1.0
            allowed = tolerance * max(saddle * epsilon, 3.0)
            for _ in range(4):
                spacing = math.sqrt(8 * allowed / (max(self.game.times * live, 0.1) * saddle * (1 + saddle)))
                live = float(weights @ np.minimum(1, 6 * np.abs(losses) / spacing))
            found.append(spacing)
        return min(found)

    def _largest_loss(self, log_delta: float, tilt: float, beyond: float) -> float:
        """A loss so rare that taking it for infinite leaves no mark on the tilted curve, `beyond` and itself past epsilon."""
        exchange = self.game.exchange
        if exchange.noise is not Noise.NORMAL:
            return exchange.remove.loss_range[1]
        loss = 0.0
        for _ in range(3):
            log_mass = log_delta - math.log(self.game.times) - 9 - tilt * max(beyond + loss, 0.0)
            loss = exchange.remove.loss_quantile(log_mass)
        return loss

    def _above(self, layout: Layout, quality: Quality) -> Profile | Composed:
        exchange, times = self.game.exchange, self.game.times
        square = exchange.distance**2 / 4
        pieces, rest = divmod(times, layout.block)
        alone = pieces == 1 and not rest and not self.game.others
        end, tilt = layout.end, layout.tilt
        if not alone:  # the far end of a block's curve counts as much as the rest, and needs its digits
            log_least = layout.log_delta - 9 - math.log(times / layout.block)
            end = self._end_of_block(layout, log_least)
            tilt = max(tilt, (-log_least - TELLABLE) / end)
        reach = math.ceil(self._largest_loss(layout.log_delta, tilt, end - layout.epsilon) / layout.spacing)
        window = Window(layout.spacing, math.ceil(end / layout.spacing), reach, tilt)
        game = GameAbove(self._cover(quality), exchange.rate, square, quality.coarseness, window)
        found = game.play(layout.block, {layout.block, rest}, self.progress)
        if alone:
            return found[layout.block]
        atoms = [(found[layout.block].atoms(), pieces)]
        if rest:
            atoms.append((found[rest].atoms(), 1))
        return self._composed(layout, atoms)

    def _end_of_block(self, layout: Layout, log_least: float) -> float:
        """Where a block's curve is down to e^log_least, so that what is beyond may count as infinite loss."""
        block = Plan(Schedule([(self.game.exchange.remove, layout.block)]), layout.log_delta - 20)
        epsilon, _ = epsilon_estimate(block, log_least)
        return epsilon + 2 * math.sqrt(block(layout.saddle)[2])

    def _composed(self, layout: Layout, blocks: Sequence[tuple[LossAtoms, int]]) -> Composed:
        atoms, blur = list(blocks), 0.0
        for pair, times in self.game.others:
            low, high = outline(pair, layout.log_delta - 20).losses_that_matter(
                layout.saddle, math.log(1e-4 / times), layout.log_delta - 9 - math.log(times)
            )
            ends = math.floor(low / layout.spacing) - 1, math.ceil(high / layout.spacing) + 1
            if ends[1] - ends[0] > 2_000_000:
                raise self._refusal(layout.log_delta)
            cells = cut(pair, np.arange(*ends, dtype=float) * layout.spacing)
            atoms.append((spread(cells), times))
            blur += times * cells.average_rel_error(layout.saddle)
        plan = Plan(self.schedule, layout.log_delta - 14)
        spot = place(plan, layout.saddle, layout.epsilon, layout.log_delta - 9)
        size = fft.next_fast_len(math.ceil(1.5 * spot.period / layout.spacing), real=True)
        steps = [LatticeStep.above(law, times, layout.spacing) for law, times in atoms]
        side = LatticeSide.of(steps, spot.tilt, size)
        # masses lifted for rounding may sum to a little more than 1
        mass = sum(
            times * max(math.log(float(np.exp(law.log_masses).sum()) + math.exp(law.log_infinite)), 0.0)
            for law, times in atoms
        )
        infinite = sum(times * math.exp(law.log_infinite) for law, times in atoms)
        return Composed(
            side, spot.tilt, layout.spacing, math.log(infinite) + mass if infinite else -math.inf, blur
        )

    def _below(self, layout: Layout) -> Evaluated | None:
        """The policy's value; a run that is not played in one piece, or holds other steps, is left to fixed directions."""
        if layout.block < self.game.times or self.game.others:
            return None
        largest = self._largest_loss(layout.log_delta, 0.0, 0.0)
        # a run that lost far more than epsilon is let go: rare at this rung, and at the larger deltas it also serves
        below = max(20 / layout.saddle + 4 * layout.deviation, 1.2 * largest + 10 / layout.saddle)
        below = min(self.game.times * largest, below)
        reach = math.ceil(largest / layout.spacing) + 1
        # nothing lies beyond this window, so a steeper tilt costs nothing and leaves more digits
        tilt = max(layout.tilt, min(layout.saddle / 2, LARGEST_EXPONENT / (layout.end + below + largest)))
        first, last = (math.ceil(end / layout.spacing) for end in (below, layout.end))
        window = PolicyWindow(layout.spacing, first, last, reach, tilt)
        return evaluate(self._laws(layout.spacing, reach), window, self.game.times, self.progress)

    def _laws(self, spacing: float, reach: int) -> list[LabelLaw]:
        """The steps the adversary may play: remove, add, and the best triangle between them where one beats both."""
        exchange = self.game.exchange
        laws = [label_law(exchange.remove, spacing, reach), label_law(exchange.add, spacing, reach)]
        if self.game.exchange.is_covered:
            between = self._cover(FINE).best_between
            if between is not None:
                laws.append(triangle_law(between, exchange.rate, exchange.distance**2 / 4, spacing))
        return laws
