"""Pairs of additive noise: mixtures of two shifts of it, and at each loss the worse of two directions."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tightrope.numerics.floats import (
    LOG_REL_ERROR,
    SMALLEST,
    UNIT_ROUNDOFF,
    Floats,
    log_of_sum,
    next_down,
    next_up,
)
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True)
class ShiftPair(Pair):
    """P = `observed`, Q = `alternative`: mixtures of shifts of one noise. The loss grows with the output.

    P may move right (shift >= 0) and Q left (shift <= 0). Mirroring the output line changes no divergence,
    so every pair of the theorem table has this form.
    """

    observed: Mixture
    alternative: Mixture

    def __post_init__(self) -> None:
        if self.observed.noise is not self.alternative.noise:
            raise ValueError("a pair needs one noise")
        if self.observed.exact_shift < 0 or self.alternative.exact_shift > 0:
            raise ValueError("orient the pair so that the loss grows with the output")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: engines look up by pair what they know of it."""
        return hash((self.observed, self.alternative))

    @staticmethod
    def of_normals(separation: float | Fraction) -> "ShiftPair":
        """Two single normals, `separation` noise scales apart."""
        return ShiftPair(Mixture(Noise.NORMAL, Fraction(1), Fraction(separation)), Mixture(Noise.NORMAL))

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return self.noise.value, *self.observed.sort_key, *self.alternative.sort_key

    @property
    def noise(self) -> Noise:
        """The noise both mixtures shift."""
        return self.observed.noise

    @property
    def reverse(self) -> "ShiftPair":
        """(Q, P), mirrored so that its loss grows again."""
        return ShiftPair(self.alternative.mirrored, self.observed.mirrored)

    @property
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""
        return self.observed == self.alternative

    @property
    def pure_separation(self) -> float | None:
        """How far apart two single shifts are; None for genuine mixtures."""
        return None if self.exact_separation is None else float(self.exact_separation)

    @cached_property
    def exact_separation(self) -> Fraction | None:
        """The same, exactly."""
        if self.observed.is_pure and self.alternative.is_pure:
            return self.observed.exact_shift - self.alternative.exact_shift
        return None

    @property
    def has_normal_noise(self) -> bool:
        """Whether the noise is normal."""
        return self.observed.noise is Noise.NORMAL

    @property
    def exact_gaussian_separation(self) -> Fraction | None:
        """How far apart two single normals are, exactly; None for genuine mixtures and for Laplace noise."""
        return self.exact_separation if self.has_normal_noise else None

    @cached_property
    def gaussian_separation(self) -> float | None:
        """How far apart two single normals are; None for genuine mixtures and for Laplace noise."""
        return self.pure_separation if self.has_normal_noise else None

    @property
    def unsampled_separation(self) -> float:
        """How far apart the outermost centres of normal noise are; 0 for Laplace noise."""
        return self.observed.shift - self.alternative.shift if self.has_normal_noise else 0.0

    @property
    def envelope(self) -> "Envelope":
        """The pointwise worst of this pair, which must be (mix, plain), and its reverse."""
        return Envelope(self)

    def loss(self, x: Floats) -> Floats:
        """ln dP/dQ at output x, nondecreasing in x."""
        return self.observed.log_ratio(x) - self.alternative.log_ratio(x)

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss."""
        low, high = self.reverse._largest_loss, self._largest_loss
        return -low, high

    @property
    def _largest_loss(self) -> float:
        if self.noise is Noise.LAPLACE:
            # beyond every centre the density ratio is constant
            return float(self.loss(np.array(max(self.observed.shift, 0.0) + 1)))
        if not self.observed.is_plain or self.alternative.is_moved:
            return math.inf
        return -self.alternative.log_rest

    @cached_property
    def loss_ceiling(self) -> tuple[float, float]:
        """Certain bounds on the supremum of the loss."""
        if self.has_normal_noise:
            high = self._largest_loss
            return next_down(high * (1 - LOG_REL_ERROR)), next_up(high * (1 + LOG_REL_ERROR))
        from tightrope.numerics.balls import enclose, float_ends  # only where a largest loss is a logarithm

        return float_ends(enclose(lambda: self.largest_loss))

    @property
    def largest_loss(self) -> "arb":
        """The supremum of the loss of Laplace noise as a ball; R_P is largest and R_Q smallest far right."""
        from tightrope.numerics.balls import ball  # loads flint

        p, q = self.observed, self.alternative
        far_p = ball(1 - p.exact_rate) + ball(p.exact_rate) * ball(p.exact_shift).exp()
        far_q = ball(1 - q.exact_rate) + ball(q.exact_rate) * ball(q.exact_shift).exp()
        return (far_p / far_q).log()

    @cached_property
    def total_variation(self) -> float:
        """An upper bound on delta(0): sampling at rate g takes the share g of what the centres have."""
        reach = float(self.observed.exact_shift - self.alternative.exact_shift)
        apart = math.erf(reach / math.sqrt(8)) if self.has_normal_noise else -math.expm1(-reach / 2)
        # of rate, shift, root, quotient, product and the function, in which its argument counts at most once
        error = ELEMENTARY_REL_ERROR + 8 * UNIT_ROUNDOFF
        # and of two products that may underflow
        return min(max(self.observed.rate, self.alternative.rate) * apart * (1 + error) + 4 * SMALLEST, 1.0)

    @property
    def is_bounded(self) -> bool:
        """Whether the noise is Laplace: beyond every centre its density ratio is constant."""
        return self.noise is Noise.LAPLACE

    @property
    def nears_its_ceiling(self) -> bool:
        """Whether this is (plain, mix) of normal noise."""
        return self.has_normal_noise and self.observed.is_plain and not self.alternative.is_pure

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """ln P(loss = largest), rounded down, and ln P(loss > largest - gap), rounded up; Laplace noise.

        Between the centres R = 1 - g + g e^{+-(2x - shift)}. Where R, having lost the factor e^gap, is below
        all it can be, any output is near the top.
        """
        from tightrope.numerics.balls import ball, ceil_float, enclose, floor_float  # loads flint

        law = self.alternative if self.observed.is_plain else self.observed

        def at_top() -> "arb":
            if law is self.alternative:
                return ball(0.5).log()
            moved = ball(law.exact_rate)
            return ((ball(1 - law.exact_rate) * ball(-law.exact_shift).exp() + moved) / 2).log()

        def near_top() -> "arb":
            rate, rest, shift = ball(law.exact_rate), ball(1 - law.exact_rate), ball(abs(law.exact_shift))
            if law is self.alternative:  # loses its most at x >= 0, less where R = e^gap (1 - g + g e^-shift)
                y = (ball(gap) - shift).exp() + rest / rate * ball(gap).expm1()
                return (1 - (-(shift + y.log()) / 2).exp() / 2).log() if y < shift.exp() else ball(0.0)
            # loses its most at x >= shift, less where R = e^-gap (1 - g + g e^shift)
            y = (shift - ball(gap)).exp() + rest / rate * (-ball(gap)).expm1()
            if not y > (-shift).exp():
                return ball(0.0)
            x = (shift + y.log()) / 2
            return (rest * (-x).exp() / 2 + rate * (1 - (x - shift).exp() / 2)).log()

        return floor_float(enclose(at_top)), min(ceil_float(enclose(near_top)), 0.0)

    def loss_quantile(self, log_mass: float) -> float:
        """A loss that P exceeds with probability at most e^log_mass, a little above the smallest such."""
        if not self.has_normal_noise:
            return self.loss_range[1]
        return float(self.loss(np.array(self.upper_quantile(log_mass))))

    def upper_quantile(self, log_mass: float) -> float:
        """An output of normal noise above which P has at most e^log_mass, a little above the first such."""
        plain = math.sqrt(2 * max(-log_mass, 1.0))
        log_rate, shift = self.observed.log_rate, self.observed.shift
        if log_rate < log_mass:
            return plain
        return max(plain, shift + math.sqrt(2 * max(log_rate - log_mass, 1.0)))

    def centres(self) -> list[float]:
        """Where the noise of P or Q is centred, in increasing order."""
        return sorted({0.0, self.observed.shift, self.alternative.shift})

    def output_at(self, loss: Floats) -> Floats:
        """The output with the given loss; -inf and +inf at and beyond the ends of the range of losses."""
        p, q = self.observed, self.alternative
        low, high = self.loss_range
        with np.errstate(divide="ignore", invalid="ignore"):  # at and beyond the ends, where no output is
            if p.is_pure and q.is_pure:
                tilt = np.asarray(loss, dtype=float)
                x = self._unshift(tilt, p.shift, q.shift)
            elif q.is_plain:
                x = self._unshift(p.log_needed_ratio(loss), p.shift, 0.0)
            elif p.is_plain:
                x = -self._unshift(q.log_needed_ratio(-loss), -q.shift, 0.0)
            else:
                x = self._output_of_two_mixtures(loss)
        x = np.where(loss <= low, -np.inf, x)
        return np.where(loss >= high, np.inf, x)

    def _unshift(self, log_ratio: Floats, right: float, left: float) -> Floats:
        """The x at which noise(right) / noise(left) has the given logarithm."""
        if self.noise is Noise.NORMAL:
            return log_ratio / (right - left) + (right + left) / 2
        return (log_ratio + right + left) / 2

    def _output_of_two_mixtures(self, loss: Floats) -> Floats:
        """Normals, equal rates, opposite shifts: 1-g + g w y = e^loss (1-g + g w / y), y = e^(shift x)."""
        p, q = self.observed, self.alternative
        if self.noise is not Noise.NORMAL or p != q.mirrored:
            raise NotImplementedError("no closed-form inverse for this pair of mixtures")
        # odd in the loss: solve for |loss|, where the positive root is a sum of positive terms
        size = np.abs(loss)
        # ln(e^size - 1) is size + ln(1 - e^-size), which does not overflow
        log_b = size + np.log(-np.expm1(-size)) + p.log_rest - p.log_rate + p.shift**2 / 2
        # y^2 - b y - e^size = 0, in logarithms so that large losses do not overflow
        log_root = np.logaddexp(log_b, 0.5 * log_of_sum(2 * log_b, size + math.log(4))) - math.log(2)
        return np.sign(loss) * log_root / p.shift

    def cells(self, x: Floats) -> "tuple[Floats, Floats]":
        """ln P- and ln Q-mass of the cells (-inf, x_0], (x_0, x_1], ..., (x_n, inf)."""
        low, high = np.concatenate([[-np.inf], x]), np.concatenate([x, [np.inf]])
        return self.observed.log_between(low, high), self.alternative.log_between(low, high)


@dataclass(frozen=True)
class Envelope(Pair):
    """The pair whose curve is that of `remove` = (mix, plain) for eps >= 0 and that of its reverse below.

    Its losses above 0 are those of `remove`, with their masses; those below 0 are the reverse's; all other
    mass is at 0. `remove` loses more than 0 exactly where the output is beyond the middle of its two
    centres, so by the symmetry of the noise the mass at 0 is 1 - P(loss > 0) - Q(loss > 0) = (1 - rate)
    P(|noise| < shift / 2): nothing cancels.
    """

    remove: ShiftPair

    def __post_init__(self) -> None:
        if self.remove.observed.is_pure or self.remove.alternative != Mixture(self.remove.noise):
            raise ValueError("an envelope needs a genuine mixture against the plain noise")

    @property
    def add(self) -> ShiftPair:
        """The other direction, (plain, mix)."""
        return self.remove.reverse

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""
        return "envelope", *self.remove.sort_key

    @property
    def noise(self) -> Noise:
        """The noise of both directions."""
        return self.remove.noise

    @property
    def reverse(self) -> "Envelope":
        """Itself: exchanging P and Q exchanges the two directions."""
        return self

    @property
    def is_trivial(self) -> bool:
        """Never: a genuine mixture differs from the plain noise."""
        return False

    @property
    def middle(self) -> float:
        """The output of `remove` whose loss is 0."""
        return self.remove.observed.shift / 2

    @property
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss."""
        high = self.remove.loss_range[1]
        return -high, high

    @property
    def loss_ceiling(self) -> tuple[float, float]:
        """That of `remove`."""
        return self.remove.loss_ceiling

    @property
    def total_variation(self) -> float:
        """That of `remove`: the two agree at epsilon 0."""
        return self.remove.total_variation

    @property
    def one_step(self) -> ShiftPair:
        """`remove`: the two agree where epsilon >= 0."""
        return self.remove

    @property
    def has_normal_noise(self) -> bool:
        """Whether the noise is normal."""
        return self.remove.has_normal_noise

    @property
    def unsampled_separation(self) -> float:
        """How far apart the centres of normal noise are; 0 for Laplace noise."""
        return self.remove.unsampled_separation

    @property
    def is_bounded(self) -> bool:
        """Whether the loss of `remove` is."""
        return self.remove.is_bounded

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """Those of `remove`, which has the same losses above 0; any loss is near a top less than `gap`."""
        at_top, near_top = self.remove.log_masses_at_top(gap)
        return at_top, near_top if gap <= self.loss_ceiling[0] else 0.0

    def loss_quantile(self, log_mass: float) -> float:
        """That of `remove`."""
        return self.remove.loss_quantile(log_mass)

    @property
    def has_atom_at_zero(self) -> bool:
        """An envelope does: both directions agree between the centres."""
        return True

    @cached_property
    def log_atom(self) -> float:
        """ln of the mass at loss 0, the same under P and Q."""
        ends = np.array([-self.middle]), np.array([self.middle])
        return float(self.remove.observed.log_rest + self.noise.log_between(*ends)[0])

    def loss(self, x: Floats) -> Floats:
        """The loss at output x of `remove` beyond the middle."""
        return self.remove.loss(x)
