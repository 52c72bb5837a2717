"""Curves with a formula: full batches of Gaussian noise, one step, and the stretch below the largest loss.

Everything is computed in balls, with as many digits as cancel, and rounded outwards once at the end: there is
no charge to forget, however extreme epsilon, the noise or the rate.

A float stands for every number that rounds to it: who writes noise 0.3 may mean 3/10. Each end is computed at
the corner of these numbers that is worst for it; delta falls with epsilon and grows with the shifts and the
rate, because more noise and rarer sampling are post-processing.
"""

import math
from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import ClassVar

from flint import arb, ctx

from tightrope.engines.face import NO_HINT, NOTHING, EngineDeclines, Errors, Hint, LogBounds
from tightrope.numerics.balls import FIRST_BITS, ball, enclose, log_ends_of_ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, next_down, next_up
from tightrope.pairs.counted import CountedPair, CountMixture
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

ROUNDED = Fraction(1, 2**53)  # how far a float can be, relative, from a number that rounds to it
# Where 1 - rate is smaller a rate is taken for the number it is: rounding it would decide digits of 1 - rate.
LEAST_REST = Fraction(1, 2**10)
FAR = 1000  # standard deviations
Centres = list[tuple[Fraction, Fraction]]  # of normal noise, each with its probability
NARROW = 1e-4  # of the accuracy: an epsilon known so closely near the largest loss needs no engine
MOST_NEWTON = 400  # steps to a root: each doubles the digits, once it is near


class Corner(IntEnum):
    """Which end the inputs are moved for."""

    LOWER = -1
    UPPER = 1


class Formula:
    """A curve that is known in closed form."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "Formula":
        """The formula is the same everywhere."""
        return self

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon), epsilon >= 0."""
        exact = Fraction(epsilon)
        least = self.delta(exact * (1 + ROUNDED), Corner.LOWER)
        most = self.delta(exact * (1 - ROUNDED), Corner.UPPER)
        if most.is_zero():
            return NOTHING
        lower = -math.inf if least.is_zero() else log_ends_of_ball(least)[0]
        upper = min(log_ends_of_ball(most)[1], 0.0)  # delta is at most 1, however its ball was rounded
        return LogBounds(lower, upper, Errors(rounding=-math.expm1(lower - upper)))

    def delta(self, epsilon: Fraction, corner: Corner) -> arb:
        """The curve at epsilon with the setting moved to a corner, to more digits than a float has."""
        raise NotImplementedError


class FullBatches(Formula):
    """Full batches of Gaussian noise: one step at the root of the summed squares of their separations."""

    def __init__(self, schedule: Schedule) -> None:
        self.square = schedule.exact_gaussian_square
        if any(pair.gaussian_separation is None for pair, _ in schedule):
            raise ValueError("some step is no full batch of Gaussian noise")

    def delta(self, epsilon: Fraction, corner: Corner) -> arb:
        """P(X > x) - e^eps P(X > x + mu) where x = eps / mu - mu / 2."""

        def compute() -> arb:
            mu = ball(self.square).sqrt() * ball(1 + corner * ROUNDED)
            x = ball(epsilon) / mu - mu / 2
            return normal_tail(x) - ball(epsilon).exp() * normal_tail(x + mu)

        return enclose(compute)


class OneStep(Formula):
    """The curve of one step of additive noise."""

    @staticmethod
    def of(schedule: Schedule) -> Formula:
        """The curve of a schedule of one step."""
        ((pair, _),) = schedule.parts
        if isinstance(pair, CountedPair):
            return OneCountedStep(pair)
        return OneLabelledStep(pair) if isinstance(pair, LabelledPair) else OneStep(pair)

    def __init__(self, pair: Pair) -> None:
        step = pair.one_step
        if not isinstance(step, ShiftPair):
            raise TypeError("one step of finitely many outputs is a sum, not a formula")
        self.corners = {corner: _move(step, corner) for corner in Corner}

    def delta(self, epsilon: Fraction, corner: Corner) -> arb:
        """P(X > x) - e^eps Q(X > x) where x is the output with loss epsilon."""
        pair = self.corners[corner]
        if _exceeds_every_loss(pair, epsilon):
            return arb(0)
        if not pair.has_normal_noise:
            return _laplace_delta(pair, epsilon)

        def compute() -> arb:
            x = _normal_output(pair, epsilon)
            return _mixed_tail(pair.observed, x) - ball(epsilon).exp() * _mixed_tail(pair.alternative, x)

        return enclose(compute)


class OneLabelledStep(Formula):
    """The curve of one step whose output tells which of several pairs it is of: their weighted sum."""

    def __init__(self, pair: LabelledPair) -> None:
        self.parts = [(weight, OneStep(part)) for weight, part in pair.parts]

    def delta(self, epsilon: Fraction, corner: Corner) -> arb:
        """Each part at its corner; the weights are what they are."""
        with ctx.workprec(FIRST_BITS):
            each = (ball(weight) * part.delta(epsilon, corner) for weight, part in self.parts)
            return sum(each, arb(0))


class OneCountedStep(Formula):
    """The curve of one step of normal noise around a drawn number of shifts."""

    def __init__(self, pair: CountedPair) -> None:
        self.pair = pair

    def delta(self, epsilon: Fraction, corner: Corner) -> arb:
        """P(X > x) - e^eps Q(X > x), x of loss epsilon; the shifts move, the weights are what they are."""
        p, q = (_list_centres(law, corner) for law in (self.pair.observed, self.pair.alternative))
        if len(p) == 1 and enclose(lambda: (-ball(epsilon)).exp() - ball(q[0][1])) <= 0:
            return arb(0)

        def compute() -> arb:
            x = _counted_output(p, q, epsilon)
            return _counted_tail(p, x) - ball(epsilon).exp() * _counted_tail(q, x)

        return enclose(compute)


def _list_centres(law: CountMixture, corner: Corner) -> Centres:
    """Where the noise is centred at a corner of the shift, and how likely that is."""
    shift = law.exact_shift * (1 + corner * ROUNDED)
    return [(j * shift, weight) for j, weight in enumerate(law.exact_weights)]


def _counted_output(p: Centres, q: Centres, epsilon: Fraction) -> arb:
    """The output whose loss is epsilon, enclosed.

    Where only one side moves, the root of a sum of exponentials, whose logarithm is convex: Newton's steps
    from where one term alone is large enough come down to it. Where both move, from the middle. The ball
    around where they end is checked: what is wanted changes its sign there.
    """
    order = ball(epsilon).exp()
    if len(q) == 1 or len(p) == 1:
        sign, law, total = (1, p, order) if len(q) == 1 else (-1, q, 1 / order)
        moving, target = [(sign * a, weight) for a, weight in law[1:]], (total - ball(law[0][1])).log()
        starts = [(target - ball(weight).log()) / ball(a) + ball(a / 2) for a, weight in moving]
        start = min(starts, key=float) if target.is_finite() else target
        return sign * _root(lambda x: _log_mixture(moving, x), start, target)

    def loss(x: arb) -> tuple[arb, arb]:
        (log_p, slope_p), (log_q, slope_q) = _log_mixture(p, x), _log_mixture(q, x)
        return log_p - log_q, slope_p - slope_q

    return _root(loss, arb(0), ball(epsilon))


def _root(rising: Callable[[arb], tuple[arb, arb]], start: arb, target: arb) -> arb:
    """Where a function that rises, given with its derivative, is `target`; nan where that cannot be told."""
    x, smallest = arb(start.mid()), arb(2) ** (16 - ctx.prec)
    for _ in range(MOST_NEWTON):
        value, slope = rising(x)
        move = arb(((target - value) / slope).mid())
        x = arb((x + move).mid())
        if not abs(move) > smallest * (1 + abs(x)):
            break
    radius = arb((1024 * smallest * (1 + abs(x))).mid())
    low, high = (rising(arb(end.mid()))[0] for end in (x - radius, x + radius))
    return arb(x, 2 * radius) if low < target < high else arb("nan")


def _log_mixture(law: Centres, x: arb) -> tuple[arb, arb]:
    """ln of the sum of weight e^{a x - a^2/2} over the centres a, and its derivative."""
    terms = [(ball(a), ball(weight) * (ball(a) * x - ball(a * a / 2)).exp()) for a, weight in law]
    total = sum((term for _, term in terms), arb(0))
    return total.log(), sum((a * term for a, term in terms), arb(0)) / total


def _counted_tail(law: Centres, x: arb) -> arb:
    """P(X > x) for normal noise around each of several centres."""
    return sum((ball(weight) * normal_tail(x - ball(a)) for a, weight in law), arb(0))


def _move(pair: ShiftPair, corner: Corner) -> ShiftPair:
    """The pair at a corner of the numbers that its rates and shifts may have been rounded from."""
    factor = 1 + corner * ROUNDED
    laws = []
    for law in (pair.observed, pair.alternative):
        stays = law.is_pure or 1 - law.exact_rate < LEAST_REST
        rate = law.exact_rate if stays else law.exact_rate * factor
        laws.append(Mixture(law.noise, rate, law.exact_shift * factor))
    return ShiftPair(*laws)


def _exceeds_every_loss(pair: ShiftPair, epsilon: Fraction) -> bool:
    """Whether no output loses more than epsilon."""
    if pair.exact_separation is not None:
        return not pair.has_normal_noise and epsilon >= pair.exact_separation
    if pair.has_normal_noise and not pair.observed.is_plain:
        return False
    low, high = pair.loss_ceiling
    if not low <= epsilon <= high:
        return epsilon > high
    if pair.has_normal_noise:  # every loss is below -ln(1 - rate)
        rest = ball(1 - pair.alternative.exact_rate)
        return bool(enclose(lambda: (-ball(epsilon)).exp() - rest) <= 0)
    return bool(enclose(lambda: pair.largest_loss - ball(epsilon)) <= 0)


def normal_tail(x: arb) -> arb:
    """P(X > x), X standard normal; far out by Tricomi's U, since flint's erfc is lost on balls there."""
    if not x > FAR:
        return (x / arb(2).sqrt()).erfc() / 2
    half = x * x / 2
    return (-half).exp() * half.hypgeom_u(arb(0.5), arb(0.5)) / (2 * arb.pi().sqrt())


def _mixed_tail(law: Mixture, x: arb) -> arb:
    """P(X > x) for a mixture of normals."""
    plain = ball(1 - law.exact_rate) * normal_tail(x) if not law.is_moved else arb(0)
    if law.is_plain:
        return plain
    return plain + ball(law.exact_rate) * normal_tail(x - ball(law.exact_shift))


def _normal_output(pair: ShiftPair, epsilon: Fraction) -> arb:
    """The output whose loss is epsilon; y is the ratio of shifted to plain noise there."""
    p, q, order = pair.observed, pair.alternative, ball(epsilon).exp()
    a, b = ball(p.exact_shift), ball(-q.exact_shift)
    if pair.exact_separation is not None:
        return ball(epsilon) / (a + b) + (a - b) / 2
    if q.is_plain:  # 1 - g + g y = e^eps
        return ((order - ball(1 - p.exact_rate)) / ball(p.exact_rate)).log() / a + a / 2
    if p.is_plain:  # 1 - g + g y = e^-eps
        return -((1 / order - ball(1 - q.exact_rate)) / ball(q.exact_rate)).log() / b - b / 2
    if p != q.mirrored:
        raise NotImplementedError("no formula for two different mixtures")
    # with w = g e^{-a^2/2} and y = e^{a x}: (1 - g) + w y = e^eps ((1 - g) + w / y), a quadratic in y
    w = ball(p.exact_rate) * (-a * a / 2).exp()
    linear = (order - 1) * ball(1 - p.exact_rate)
    return ((linear + (linear * linear + 4 * w * w * order).sqrt()) / (2 * w)).log() / a


def _laplace_delta(pair: ShiftPair, epsilon: Fraction) -> arb:
    """g (1 - e^{x - a}) for (mix, plain); (1 - e^eps (1 - g)) (1 - e^x) for (plain, mix)."""
    p, q = pair.observed, pair.alternative
    if pair.exact_separation is not None:
        gap = (pair.exact_separation - epsilon) / 2
        return enclose(lambda: -ball(-gap).expm1())

    def compute() -> arb:
        order = ball(epsilon).exp()
        if q.is_plain:  # 1 - g + g e^{2x - a} = e^eps
            y = (order - ball(1 - p.exact_rate)) / ball(p.exact_rate)
            return -ball(p.exact_rate) * ((y.log() - ball(p.exact_shift)) / 2).expm1()
        # 1 - g + g e^{-2x - b} = e^-eps
        y = (1 / order - ball(1 - q.exact_rate)) / ball(q.exact_rate)
        x = -(y.log() - ball(q.exact_shift)) / 2
        return -(1 - order * ball(1 - q.exact_rate)) * x.expm1()

    return enclose(compute)


class EndPoint:
    """Bounds close to the largest total loss L, where only runs that lose almost all they can count.

    The loss exceeds eps = L - gap only if every step loses more than its own maximum less `gap`, and it is L
    if every step loses its maximum. So, with the product over all steps,

        prod P(loss = max)  <=  delta(eps) / (1 - e^{-gap})  <=  prod P(loss > max - gap).
    """

    narrow: ClassVar[float] = NARROW

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "EndPoint":
        """Itself, where it is tight enough."""
        if self.bounds(epsilon).width > tolerance:
            raise EngineDeclines("too far from the largest loss")
        return self

    def guess(self, delta: float) -> float:
        """Where delta would be if only runs that lose all they can counted; a millionth below L at least."""
        _, most = self.schedule.loss_ceiling
        log_top = math.fsum(times * pair.log_masses_at_top(0.0)[0] for pair, times in self.schedule)
        log_gain = math.log(delta) - log_top  # ln(1 - e^-gap)
        gap = -math.log1p(-math.exp(log_gain)) if log_gain < -1e-9 else math.inf
        return most - min(max(gap, 4 * UNIT_ROUNDOFF * most), 1e-6 * most)

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""
        least, most = self.schedule.loss_ceiling
        gap_low, gap_high = next_down(least - epsilon), next_up(most - epsilon)
        if gap_high <= 0:
            return NOTHING
        tops = [(times, *pair.log_masses_at_top(gap_high)) for pair, times in self.schedule]
        # math.fsum rounds once, however many steps there are
        at_top = next_down(math.fsum(next_down(times * log_top) for times, log_top, _ in tops))
        near_top = next_up(math.fsum(next_up(times * log_near) for times, _, log_near in tops))
        upper = next_up(near_top + log_gain(gap_high)[1])
        lower = next_down(at_top + log_gain(gap_low)[0]) if gap_low > 0 else -math.inf
        rounding = -math.expm1(math.log(gap_low) - math.log(gap_high)) if gap_low > 0 else 1.0
        return LogBounds(lower, upper, Errors(-math.expm1(at_top - near_top), rounding=rounding))


def log_gain(gap: float) -> tuple[float, float]:
    """Bounds on ln(1 - e^-gap), gap > 0."""
    return log_ends_of_ball(enclose(lambda: -(-ball(gap)).expm1()))
