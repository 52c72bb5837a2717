"""The substitution game from below: one adversary's policy, and one test, evaluated under P and Q.

Outputs are merged into cells of loss, and each cell is sent to one of the two nearest whole labels, at random
so that the label is the cell's loss on average. The adversary sees the sum of the labels, plays whichever
step is best for what remains, and accuses if the sum reaches a threshold; a run whose remaining epsilon
leaves the window is let go. With A and B the probabilities of an accusation under P and Q, delta(eps) >= A -
e^eps B whatever the policy is. Going backwards,

    A_{j+1}(r) = sum over labels of P(label) A_j(r - label),   and B likewise with Q,

each with the step that makes A - e^r B largest: one recursion serves every threshold r at once. A is tilted
by e^{c r} and B by e^{(c+1) r}.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.face import Progress
from tightrope.engines.game.above import FIFTEEN_ROUNDINGS, LARGEST, Window, wrapped_spectra
from tightrope.engines.game.outward import cell_masses, mixture_masses
from tightrope.engines.game.triangles import Gram
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, gamma
from tightrope.numerics.fourier import convolution_rel_error, fast_size, threads_for, two_norm
from tightrope.numerics.ulps import UNDERFLOW_ABS_ERROR
from tightrope.pairs.exchange import Exchange
from tightrope.pairs.mixture import Noise
from tightrope.pairs.shift_pair import ShiftPair

Labels = NDArray[np.int64]
Choices = NDArray[np.int8]
LEAST_MASS = 1e-87  # of a cell: rarer ones are let go
SHRUNK = 1 - 2.0**-40  # a triangle computed in floats, so much smaller, fits the ball it was inscribed in


@dataclass(frozen=True)
class LabelLaw:
    """Disjoint cells of outputs: their masses and errors, their lower labels, the chances of the next ones.

    Which label a cell gets decides how good the policy is, not whether it is one.
    """

    masses: tuple[Floats, Floats]  # under P and under Q
    rel_errors: tuple[Floats, Floats]
    labels: Labels
    upwards: Floats

    @staticmethod
    def from_masses(
        under_p: tuple[Floats, Floats], under_q: tuple[Floats, Floats], spacing: float
    ) -> "LabelLaw":
        """Masses and their errors; each cell's loss is rounded to a label, up or down at random."""
        (p, p_abs_errors), (q, q_abs_errors) = under_p, under_q
        held = (p > LEAST_MASS) & (q > LEAST_MASS)
        p, q = p[held], q[held]
        losses = np.log(p / q) / spacing
        labels = np.floor(losses)
        rel_errors = (
            p_abs_errors[held] / p * (1 + FIFTEEN_ROUNDINGS),
            q_abs_errors[held] / q * (1 + FIFTEEN_ROUNDINGS),
        )
        return LabelLaw((p, q), rel_errors, labels.astype(np.int64), losses - labels)

    def kernel(self, window: Window, *, dual: bool) -> tuple[Floats, float]:
        """Tilted masses at the labels -reach ... reach, and how far off they are in sum; the rest is let go.

        P's are tilted by e^{c loss}, Q's, with `dual`, by e^{(c + 1) loss}.
        """
        tilt, reach = window.tilt + dual, window.reach
        logs, rel_errors = np.log(self.masses[dual]), self.rel_errors[dual]
        result, abs_error, count = np.zeros(2 * reach + 1), 0.0, 2 * len(logs)
        for labels, chance in ((self.labels, 1 - self.upwards), (self.labels + 1, self.upwards)):
            inside = np.abs(labels) <= reach
            drift = tilt * (labels[inside] * window.spacing)
            weights = np.exp(logs[inside] + drift) * chance[inside]
            result += np.bincount(labels[inside] + reach, weights=weights, minlength=2 * reach + 1)
            # the logarithm is off by 8 u of itself, the drift by 3 u; exponential and products by 12 u
            exponent_abs_errors = UNIT_ROUNDOFF * (10 * np.abs(logs[inside]) + 4 * np.abs(drift) + 16)
            errors = weights * (rel_errors[inside] + exponent_abs_errors) + UNDERFLOW_ABS_ERROR
            abs_error += float(errors.sum())
        total = float(result.sum())
        # products of these errors, all far below 1e-3, add less than a hundredth
        return result, 1.01 * (abs_error + gamma(count) * total)


def label_law(pair: ShiftPair, spacing: float, reach: int) -> LabelLaw:
    """The labels of one pair: cells centred at about the multiples of the spacing."""
    ends = pair.output_at((np.arange(-reach, reach, dtype=float) + 0.5) * spacing)
    ends = np.maximum.accumulate(ends)  # cells must not overlap, even by rounding
    return LabelLaw.from_masses(
        mixture_masses(pair.observed, ends), mixture_masses(pair.alternative, ends), spacing
    )


def triangle_law(gram: Gram, exchange: Exchange, spacing: float) -> LabelLaw | None:
    """The labels of a triangle in the plane: outputs in rectangles, whose masses are products of two cells'.

    With Y = e^{w xi - w^2/2} and X = e^{a xi + b eta - (a^2 + b^2)/2}, the noise around a' is shifted by (w,
    0) and around a by (a, b). None if the rounded triangle is not certain to fit the ball.
    """
    w, a, b = (side * SHRUNK for side in _corners(gram, exchange.inverse_variance))
    if not _fits(w, a, b, exchange.exact_distance):
        return None
    rate, rest = exchange.rate, exchange.rest
    step = min(0.1, max(0.5 * spacing / (rate * max(a, b, w)), 0.02))
    nodes = np.arange(-9.0, 9.0 + max(a, b, w), step)
    unmoved, by_a, by_b, by_w = (
        cell_masses(Noise.NORMAL, nodes - shift, 2 * UNIT_ROUNDOFF * np.abs(nodes - shift))
        for shift in (0.0, a, b, w)
    )
    plain, around_a, around_other = (
        _product(first, second) for first, second in ((unmoved, unmoved), (by_a, by_b), (by_w, unmoved))
    )
    under_p, under_q = (
        (
            rest * plain[0] + rate * moved[0],
            (rest * plain[1] + rate * moved[1]) * (1 + FIFTEEN_ROUNDINGS)
            + FIFTEEN_ROUNDINGS * (rest * plain[0] + rate * moved[0]),
        )
        for moved in (around_a, around_other)
    )
    return LabelLaw.from_masses(under_p, under_q, spacing)


def _product(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Masses of rectangles and their absolute errors."""
    (one, one_abs_errors), (two, two_abs_errors) = first, second
    errors = np.multiply.outer(one_abs_errors, np.abs(two) + two_abs_errors)
    errors += np.multiply.outer(np.abs(one), two_abs_errors)
    return np.multiply.outer(one, two).ravel(), errors.ravel()


def _corners(gram: Gram, inverse_variance: float) -> tuple[float, float, float]:
    """w and (a, b), about."""
    w = math.sqrt(gram.w * inverse_variance)
    a = gram.c * inverse_variance / w if w > 0 else 0.0
    return w, a, math.sqrt(max(gram.u * inverse_variance - a * a, 0.0))


def _fits(w: float, a: float, b: float, distance: Fraction) -> bool:
    """Whether 0, (w, 0) and (a, b) lie in a ball of this diameter: around the circle's centre, exactly."""
    if not (w > 0 and b > 0):
        return False
    centre = Fraction(w / 2), Fraction((a * (a - w) + b * b) / (2 * b))
    corners = ((0.0, 0.0), (w, 0.0), (a, b))
    squares = [sum((Fraction(p) - m) ** 2 for p, m in zip(corner, centre, strict=True)) for corner in corners]
    return max(squares) <= distance**2 / 4


@dataclass(frozen=True)
class PolicyValue:
    """ln of bounds on the accusation probabilities A (from below) and B (from above) for each threshold."""

    thresholds: Floats
    log_a: Floats
    log_b: Floats

    def log_lower(self, epsilon: float) -> float:
        """A lower bound on ln delta(epsilon): the best threshold's."""
        log_b = self.log_b + epsilon
        gains = log_of_difference_below(self.log_a, log_b + 2 * UNIT_ROUNDOFF * np.abs(log_b))
        return float(np.max(gains, initial=-np.inf))

    def epsilon_below(self, log_delta: float) -> float:
        """The largest epsilon at which some threshold's bound still exceeds delta; 0 if there is none."""
        gains = log_of_difference_below(self.log_a, np.full_like(self.log_a, log_delta))
        held = gains > -np.inf
        reach = gains[held] - self.log_b[held]
        reach -= 2 * UNIT_ROUNDOFF * np.abs(reach)
        return max(float(np.max(reach, initial=-np.inf)), 0.0)


def log_of_difference_below(larger: Floats, smaller: Floats) -> Floats:
    """Below ln(e^larger - e^smaller); -inf where rounding leaves nothing certain."""
    result = np.full(larger.shape, -np.inf)
    gap = np.where(larger > -np.inf, smaller - np.where(larger > -np.inf, larger, 0.0), 0.0)
    # two roundings of the gap, of which a small one forgets nothing
    gap = gap + 2 * UNIT_ROUNDOFF * np.abs(gap)
    held = gap < 0
    ratio = gap[held]
    # -expm1 is off by 9 u; its logarithm by as much, and by 8 u of itself
    left = np.log(-np.expm1(ratio))
    found = larger[held] + left
    result[held] = found - FIFTEEN_ROUNDINGS * (1 + np.abs(left) + np.abs(larger[held]))
    return result


class Move(Protocol):
    """What a policy may choose: one step, or several."""

    def kernel(self, window: Window, *, dual: bool) -> tuple[Floats, float]:
        """Tilted masses at the labels -reach ... reach, under P or Q, and how far off they are in sum."""
        ...


@dataclass(frozen=True)
class PolicyState:
    """A and B, tilted and scaled by 2^-doublings, for every r, and how far off each is."""

    values: Floats
    errors: tuple[float, ...]
    doublings: int = 0


class GameBelow:
    """The game of one policy, which chooses among a few moves, on one window."""

    def __init__(self, laws: Sequence[Move], window: Window) -> None:
        self.window = w = window
        found = [[law.kernel(w, dual=dual) for law in laws] for dual in (False, True)]
        kernels = [np.stack([kernel for kernel, _ in side]) for side in found]
        # of the kernels, in sum: what rounding did to masses and tilts
        self.kernel_abs_errors = [max(abs_error for _, abs_error in side) for side in found]
        summed = 1 + gamma(kernels[0].shape[1])
        self.norms = [
            float(side.sum(axis=1).max()) * summed + abs_error
            for side, abs_error in zip(kernels, self.kernel_abs_errors, strict=True)
        ]
        # Nothing lies beyond the window, so zeros on one side, as many as a label may be large, are enough:
        # what goes round the circle from either end falls on them.
        self.size = fast_size(w.below + w.last + 1 + w.reach)
        self.spectra = np.stack([wrapped_spectra(side, self.size) for side in kernels])  # [P or Q, law, ...]
        # of one convolution, per unit of the kernel's sum and of the values' 2-norm
        self.step_rel_error = convolution_rel_error(self.size) * (1 + gamma(self.size))

    def play(self, rounds: int, progress: Progress, choices: list[Choices] | None = None) -> PolicyValue:
        """The best policy's accusation probabilities.

        `choices` receives which move is made at each r, the last round's first.
        """
        state = self.start()
        for j in range(1, rounds + 1):
            state = self.advance(state, choices)
            progress(j, rounds)
        return self.read_state(state)

    def start(self) -> PolicyState:
        """When no step is left."""
        # the exponents x <= 0 are off by 4 u |x|, and |x| e^x is below 1
        return PolicyState(self.accusations(), (FIFTEEN_ROUNDINGS, FIFTEEN_ROUNDINGS))

    def advance(self, state: PolicyState, choices: list[Choices] | None = None) -> PolicyState:
        """One move earlier. The state may come from a window with another reach."""
        errors = tuple(map(self.next_error, (0, 1), state.errors, state.values))
        values, chosen = self._best(state.values)
        if choices is not None:
            choices.append(chosen)
        top = float(values.max())
        if not math.isfinite(top + sum(errors)):
            raise NotPreciseEnough("The tilted values of the policy overflow")
        if top <= LARGEST:
            return PolicyState(values, errors, state.doublings)
        _, power = math.frexp(top)  # powers of 2 lose nothing but what underflows
        errors = tuple(math.ldexp(error, -power) + UNDERFLOW_ABS_ERROR for error in errors)
        return PolicyState(np.ldexp(values, -power), errors, state.doublings + power)

    def read_state(self, state: PolicyState) -> PolicyValue:
        """The bounds on A and B without their tilts and scale."""
        return self.read(state.values, list(state.errors), state.doublings * math.log(2))

    def next_error(self, which: int, error: float, values: Floats) -> float:
        """How far off A or B is after one more step."""
        norm, kernel_abs_error = self.norms[which], self.kernel_abs_errors[which]
        convolved = self.step_rel_error * norm * two_norm(values)
        kernel = kernel_abs_error * float(values.max())
        return (norm * error + kernel + convolved + UNDERFLOW_ABS_ERROR) * (1 + FIFTEEN_ROUNDINGS)

    def read(self, values: Floats, errors: list[float], log_scale: float) -> PolicyValue:
        """The bounds on A and B without their tilts."""
        c, r = self.window.tilt, self.window.remaining
        with np.errstate(divide="ignore"):  # where nothing is left of A, it is bounded by 0
            log_a = np.log(np.maximum(values[0] - errors[0], 0))
        log_b = np.log(values[1] + errors[1])
        drift = (c + 1) * np.abs(r)
        held = log_a > -np.inf
        sizes = np.where(held, np.abs(np.where(held, log_a, 0.0)), 0.0) + log_scale + drift
        log_a = log_a + log_scale - c * r - FIFTEEN_ROUNDINGS * (1 + sizes)
        log_b = log_b + log_scale - (c + 1) * r + FIFTEEN_ROUNDINGS * (1 + np.abs(log_b) + log_scale + drift)
        return PolicyValue(r, log_a, log_b)

    def accusations(self) -> Floats:
        """A and B, tilted, when no step is left: accuse where nothing of epsilon remains."""
        w = self.window
        spent = np.minimum(w.remaining, 0.0)  # elsewhere e^r may be no float
        accuse = np.arange(-w.below, w.last + 1) <= 0
        return np.where(accuse, np.exp(np.multiply.outer([w.tilt, w.tilt + 1], spent)), 0.0)

    def _best(self, values: Floats) -> tuple[Floats, Choices]:
        """A and B one step earlier, and the law that makes A - e^r B largest."""
        count, products = values.shape[1], self.spectra * fft.rfft(values, self.size, axis=1)[:, None, :]
        workers = threads_for(self.size // 2)  # four of them, or six, are soon done
        both = fft.irfft(products, self.size, axis=2, overwrite_x=True, workers=workers)[:, :, :count]
        np.maximum(both, 0, out=both)  # [P or Q, law, r]; no probability is negative
        best, chosen = both[:, 0].copy(), np.zeros(count, dtype=np.int8)
        for law in range(1, both.shape[1]):
            better = both[0, law] - both[1, law] > best[0] - best[1]
            np.copyto(best, both[:, law], where=better)
            chosen[better] = law
        return best, chosen
