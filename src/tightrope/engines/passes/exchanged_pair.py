"""A pass with an exchanged record: finite pairs on both sides of it."""

import math
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from tightrope.engines.dots import Dot, TwoSidedDot, connect_dots, stay_below
from tightrope.engines.face import ABOVE, EngineDeclines, Side
from tightrope.engines.lines.floats import LOG_WIDER_SHARED
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder, plan_line
from tightrope.engines.lines.quick import QuickLines
from tightrope.engines.passes.cells import as_pair, collect, order_cells
from tightrope.engines.passes.exchanged import bound_divergence, label_outputs
from tightrope.engines.passes.refusal import LOST
from tightrope.engines.passes.walked import can_walk, walk_divergence
from tightrope.numerics.balls import ceil_float
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.finite_pair import FinitePair

KEPT_PASSES = 32
COARSE, MEDIUM, FINE = 32, 64, 128  # steps of the lattice in the mean deviation of a sum
LABELLED = 2  # mean losses of a pass: about what decides several of them
LEAST_DELTA = 1e-22  # where dots end: all that lies beyond counts as lost, in each pass
MOST_DOTS, ENOUGH_DOTS = 2400, 40  # at most; and how many are a curve, though further ones take too long

# Dots by lattices, and those by line integrals: distances are in mean losses of a pass.
APART, LINES_APART = 0.2, 0.02  # between neighbours, up to
NEAR = 4  # so many mean losses
GROWS, LINES_GROW = 1.25, 1.09  # from there on the next lies so many times further from the last
BEYOND_APART, BEYOND_GROWS = 1.0, 1.5  # the same of lattices, beyond the last dot by line integrals
FLAT = Fraction(99, 100)  # of the dot before: further dots by lattices would tell little

# Line integrals.
MOST_BALL_WORK = 3_000_000  # of a dot: about .1 s
SHARED_PLAN = 4  # dots near 0 that one plan serves
ROUGH, CLOSE = 1e-3, 1e-6  # what dots may be wrong by: the first, and all others relative to the curve before
OUTER = 8  # mean losses: further dots are rarely used by a run, however many passes it has
OF_CHORDS, OF_OUTER_CHORDS = 0.002, 0.25  # what a dot may be wrong by, in what chords are off by there
LOOSE_CHORDS = (0.05, 0.5, 3.0)  # the same, where nothing else tells it
FALL, RARE = 0.03, 1e-18  # of ln of the curve from dot to dot, down to a curve that is hardly ever asked for
MOST_FALL = 0.4  # likewise, where dots take long
LOG_WIDER_DOTS = math.log(30.0)  # floats may tell a dot so much less closely: balls take far longer
FLOAT_SHARE = 0.02  # of the time that balls take for as many nodes and points
MOST_WORK, SPARE_WORK = 200_000_000, 100_000_000  # nodes times points of all dots, in balls: about 6 and 3 s


@lru_cache(maxsize=KEPT_PASSES)
def bound_exchanged_pass(pair: Allocation, side: Side) -> FinitePair:
    """A finite pair that dominates the pass, or that it dominates."""
    dots: tuple[TwoSidedDot, ...] = ()
    with suppress(*LOST):
        dots = _enclose_dots(pair)
    if side is ABOVE:
        return connect_dots(_continue_dots(pair, [(order, high) for order, _, high in dots]))
    if dots:
        return stay_below(dots)
    return merge_labels(pair, math.exp(LABELLED * _mean_loss(pair)), MEDIUM)


@lru_cache(maxsize=KEPT_PASSES)
def merge_labels(pair: Allocation, order: float, fine: int) -> FinitePair:
    """The outputs with the label sum (X - order X'), which tells most about losses near ln order."""
    laws = label_outputs(pair, Fraction(order), fine)
    unseen, bits = pair.batches - pair.released, laws.plain.bits
    plain, by_x, by_other = (collect(law.atoms()) for law in (laws.plain, *laws.weighted))
    places = sorted({*by_x, *by_other})
    p, q = ([law.get(at, 0) + unseen * plain.get(at, 0) for at in places] for law in (by_x, by_other))
    whole = pair.batches << bits
    p, q = map(list, zip(*order_cells(p, q, whole, whole), strict=True))
    return as_pair(p, whole, q, whole)


@lru_cache(maxsize=KEPT_PASSES)
def _enclose_dots(pair: Allocation) -> tuple[TwoSidedDot, ...]:
    """Orders from 1 on, with bounds on the curve, by line integrals; EngineDeclines where those take long."""
    _, high = enclose_curve(PassOrder(pair, 0.0), math.log(ROUGH))
    scale, loss, step = 2 * high, 0.0, LINES_APART * 2 * high
    low, high = enclose_curve(PassOrder(pair, 0.0), math.log(CLOSE * high))
    dots = _Dots(pair, [(Fraction(1), Fraction(low), Fraction(high))])
    while len(dots.found) < MOST_DOTS and dots.least >= LEAST_DELTA:
        is_near = loss < NEAR * scale
        step = step if is_near else min(step * LINES_GROW, dots.find_step(step))
        losses = [loss + step * i for i in range(1, (SHARED_PLAN if is_near else 1) + 1)]
        try:
            dots.add(losses, OF_CHORDS if loss < OUTER * scale else OF_OUTER_CHORDS)
        except LOST:
            if len(dots.found) < ENOUGH_DOTS:
                raise
            break  # what lies further out is told less closely
        loss = losses[-1]
    return tuple(dots.found)


class _Dots:
    """The dots so far, the work they took, and how the next are told."""

    def __init__(self, pair: Allocation, found: list[TwoSidedDot]) -> None:
        self.pair, self.found, self.work = pair, found, 0.0
        self.quick, self.is_quick = QuickLines(), True

    @property
    def least(self) -> Fraction:
        """The curve at the last."""
        return self.found[-1][2]

    def _find_log_error(self, of_chords: float) -> float:
        """ln of what a dot may be wrong by: a share of what chords are off by there."""
        least, fall = float(self.least), 0.0
        if len(self.found) > 1 and least:
            fall = math.log(float(self.found[-2][2]) / least)
        return math.log(max(CLOSE, of_chords * fall**2 / 8) * least)

    def find_step(self, last: float) -> float:
        """How far the next dot may lie from the last: where floats tell dots, chords are as close as that.

        Where a dot takes long they lie further apart, so that there is time for all of them.
        """
        (_, _, before), (_, _, here) = self.found[-2:]
        if not self.is_quick or not RARE < here < before:
            return math.inf
        each = self.quick.work * FLOAT_SHARE
        left = max(MOST_WORK - self.work, each)
        fall = max(FALL, min(math.log(float(here) / RARE) * each / left, MOST_FALL))
        return last * fall / math.log(float(before) / float(here))

    def add(self, losses: list[float], of_chords: float) -> None:
        """Dots there, in floats if those tell them; else in balls, or where those are slow, less closely."""
        log_error, known = self._find_log_error(of_chords), len(self.found)
        with suppress(*LOST):
            for loss in losses:
                self._add_in_floats(loss, log_error, LOG_WIDER_DOTS)
            return
        self.is_quick = False
        for loss in losses[len(self.found) - known :]:
            with suppress(*LOST):
                self._add_in_balls(loss, losses[-1], log_error, MOST_BALL_WORK)
                continue
            with suppress(*LOST):
                self._add_less_closely(loss)
                continue
            self._add_in_balls(loss, losses[-1], log_error, math.inf)

    def _add_in_floats(self, loss: float, log_error: float, log_wider: float) -> None:
        of = self._at(loss)
        ends = self.quick.enclose(of, log_error, log_wider)
        self.is_quick = True
        self._spend(self.quick.work * FLOAT_SHARE)
        self._keep(of, ends)

    def _add_less_closely(self, loss: float) -> None:
        """Little noise: between orders at which many differences decide and those at which one does."""
        for of_chords in LOOSE_CHORDS[:-1]:
            with suppress(*LOST):
                self._add_in_floats(loss, self._find_log_error(of_chords), LOG_WIDER_SHARED)
                return
        self._add_in_floats(loss, self._find_log_error(LOOSE_CHORDS[-1]), LOG_WIDER_SHARED)

    def _add_in_balls(self, loss: float, near: float, log_error: float, most: float) -> None:
        work = plan_line(PassOrder(self.pair, near), log_error).work
        if work > most:
            raise EngineDeclines("a dot that takes long")
        self._spend(work)
        self._keep(self._at(loss), enclose_curve(self._at(loss), log_error, near))

    def _at(self, loss: float) -> PassOrder:
        return PassOrder(self.pair, loss, Fraction(math.exp(loss)))

    def _keep(self, of: PassOrder, ends: tuple[float, float]) -> None:
        assert of.exact_order is not None
        self.found.append((of.exact_order, Fraction(ends[0]), Fraction(ends[1])))

    def _spend(self, work: float) -> None:
        self.work += work
        if self.work > MOST_WORK + SPARE_WORK:
            raise EngineDeclines("dots that take too long")


def _mean_loss(pair: Allocation) -> float:
    """About E|loss|, which is about twice the total variation."""
    if can_walk(pair):
        return 2 * walk_divergence(pair, Fraction(1))
    below = merge_labels(pair, 1.0, COARSE)
    return sum(float(p) * abs(loss) for (p, _), loss in zip(below.levels, below.losses, strict=True))


def _bound(pair: Allocation, order: Fraction) -> float:
    if can_walk(pair):
        with suppress(*LOST):
            return walk_divergence(pair, order)
    return ceil_float(bound_divergence(pair, order, ABOVE, COARSE))


def _continue_dots(pair: Allocation, dots: list[Dot]) -> list[Dot]:
    """Those, and further ones that take less time; all of them, if there are none.

    All that lies beyond the last is counted as a loss without end, so that one dot too few is dear.
    """
    scale = 2 * float(dots[0][1]) if dots else _mean_loss(pair)
    found, step, grows = list(dots), APART * scale, GROWS
    if dots:  # few runs ask for what lies there
        step, grows = BEYOND_APART * scale, BEYOND_GROWS
    loss = math.log(dots[-1][0]) + step if dots else 0.0
    while len(found) < MOST_DOTS and not (found and found[-1][1] < LEAST_DELTA):
        order = Fraction(math.exp(loss))
        try:
            value = min(Fraction(_bound(pair, order)), found[-1][1] if found else Fraction(1))  # H falls
        except LOST:
            if not found:
                raise
            break
        found.append((order, value))
        if len(found) > len(dots) + 1 and value > FLAT * found[-2][1]:
            break
        step = step if loss < NEAR * scale else step * grows
        loss += step
    return found
