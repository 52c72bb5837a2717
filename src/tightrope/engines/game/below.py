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

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.cells import cut
from tightrope.engines.face import Progress
from tightrope.engines.game.above import EXP_REL_ERROR, LARGEST, Window, wrapped_spectra
from tightrope.engines.game.triangles import Gram
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, log_of_difference, log_of_sum
from tightrope.pairs.mixture import Noise
from tightrope.pairs.shift_pair import ShiftPair

Labels = NDArray[np.int64]
Choices = NDArray[np.int8]


@dataclass(frozen=True)
class LabelLaw:
    """Cells of outputs: ln P-mass, the merged cell's loss, its lower label and the chance of the next one."""

    log_masses: Floats
    losses: Floats
    labels: Labels
    upwards: Floats
    masses_rel_error: Floats  # of each mass, under P and under Q

    @staticmethod
    def from_cells(
        log_masses: Floats, losses: Floats, masses_rel_error: Floats, spacing: float
    ) -> "LabelLaw":
        """Round each loss to a label, up or down at random."""
        labels = np.floor(losses / spacing)
        rel_error = 8 * UNIT_ROUNDOFF * (8 + np.abs(log_masses)) + masses_rel_error
        return LabelLaw(log_masses, losses, labels.astype(np.int64), losses / spacing - labels, rel_error)

    def tilted_rel_error(self, tilt: float) -> float:
        """The error of the tilted masses, relative to their sum."""
        exponents = self.log_masses + tilt * self.losses
        weights = np.exp(exponents - exponents.max())
        return float(weights @ self.masses_rel_error / weights.sum())

    def kernel(self, reach: int, spacing: float, tilt: float, *, dual: bool) -> Floats:
        """Tilted masses at the labels -reach ... reach; the rest is let go. `dual` gives Q's, not P's."""
        result = np.zeros(2 * reach + 1)
        for labels, chance in ((self.labels, 1 - self.upwards), (self.labels + 1, self.upwards)):
            exponents = self.log_masses + tilt * labels * spacing
            if dual:
                exponents = exponents + labels * spacing - self.losses
            inside = np.abs(labels) <= reach
            weights = (np.exp(exponents) * chance)[inside]
            result += np.bincount(labels[inside] + reach, weights=weights, minlength=2 * reach + 1)
        return result


def label_law(pair: ShiftPair, spacing: float, reach: int) -> LabelLaw:
    """The labels of one pair: cells centred at the multiples of the spacing."""
    cells = cut(pair, (np.arange(-reach, reach, dtype=float) + 0.5) * spacing)
    cells = cells.select(np.isfinite(cells.low) & np.isfinite(cells.high) & np.isfinite(cells.merged))
    return LabelLaw.from_cells(cells.log_masses, cells.merged, cells.loss_abs_errors, spacing)


def triangle_law(gram: Gram, rate: float, inverse_variance: float, spacing: float) -> LabelLaw:
    """The labels of a triangle in the plane: outputs in rectangles, whose masses are products of two cells'.

    With Y = e^{w xi - w^2/2} and X = e^{a xi + b eta - (a^2 + b^2)/2}, the noise around a' is shifted by (w,
    0) and around a by (a, b). `inverse_variance` is 1 / noise^2.
    """
    w = math.sqrt(gram.w * inverse_variance)
    a = gram.c * inverse_variance / w
    b = math.sqrt(max(gram.u * inverse_variance - a * a, 0.0))
    step = min(0.1, max(0.5 * spacing / (rate * max(a, b, w)), 0.02))
    nodes = np.arange(-9.0, 9.0 + max(a, b, w), step)
    unmoved, by_a, by_b, by_w = (
        Noise.NORMAL.log_between((nodes - shift)[:-1], (nodes - shift)[1:]) for shift in (0.0, a, b, w)
    )
    plain = np.add.outer(unmoved, unmoved)
    around_a = np.add.outer(by_a, by_b)
    around_other = np.add.outer(by_w, unmoved)
    unsampled, sampled = math.log1p(-rate), math.log(rate)
    log_p, log_q = (
        log_of_sum(unsampled + plain, sampled + moved).ravel() for moved in (around_a, around_other)
    )
    # a cell's mass is a difference of two tails: good to a few units of roundoff times 1 / step
    masses_rel_error = np.full(log_p.shape, 64 * UNIT_ROUNDOFF * (1 + 100 / step))
    held = (log_p > -200) & (log_q > -200)
    return LabelLaw.from_cells(log_p[held], (log_p - log_q)[held], masses_rel_error[held], spacing)


@dataclass(frozen=True)
class PolicyValue:
    """ln of bounds on the accusation probabilities A (from below) and B (from above) for each threshold."""

    thresholds: Floats
    log_a: Floats
    log_b: Floats

    def log_lower(self, epsilon: float) -> float:
        """A lower bound on ln delta(epsilon): the best threshold's."""
        with np.errstate(invalid="ignore", divide="ignore"):
            gains = log_of_difference(self.log_a, np.minimum(self.log_b + epsilon, self.log_a))
        return float(np.max(gains, initial=-np.inf)) - 1e-12

    def epsilon_below(self, log_delta: float) -> float:
        """The largest epsilon at which some threshold's bound still exceeds delta; 0 if there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            reach = log_of_difference(self.log_a, np.minimum(log_delta, self.log_a)) - self.log_b
        reach = np.where(np.isfinite(reach), reach, -np.inf)
        return max(float(np.max(reach, initial=-np.inf)) * (1 - 1e-14) - 1e-13, 0.0)


class GameBelow:
    """The game of one policy, which chooses among a few laws, on one window."""

    def __init__(self, laws: Sequence[LabelLaw], window: Window) -> None:
        self.window = w = window
        kernels = [
            np.stack([law.kernel(w.reach, w.spacing, w.tilt, dual=dual) for law in laws])
            for dual in (False, True)
        ]
        self.norms = [float(side.sum(axis=1).max()) for side in kernels]
        self.spectra = np.stack([wrapped_spectra(side, w.size) for side in kernels])  # [P or Q, law, ...]
        rounding = 16 * UNIT_ROUNDOFF * (4 + math.log2(w.size)) + EXP_REL_ERROR
        # of one convolution, per unit of the kernel's sum and of the values' 2-norm
        self.step_abs_error = rounding + 2 * max(law.tilted_rel_error(w.tilt) for law in laws)

    def play(self, steps: int, progress: Progress, choices: list[Choices] | None = None) -> PolicyValue:
        """The best policy's accusation probabilities.

        `choices` receives which law is played at each r, the last step's first.
        """
        c, r = self.window.tilt, self.window.remaining
        values = self._accusations()
        errors, log_scale = [4 * UNIT_ROUNDOFF * float(side.max()) for side in values], 0.0
        for j in range(1, steps + 1):
            errors = [
                norm * (error + self.step_abs_error * math.sqrt(float(side @ side)))
                for norm, error, side in zip(self.norms, errors, values, strict=True)
            ]
            values, chosen = self._best(values)
            if choices is not None:
                choices.append(chosen.astype(np.int8))
            top = float(values.max())
            if not math.isfinite(top + errors[0] + errors[1]):
                raise NotPreciseEnough("The tilted values of the policy overflow")
            if top > LARGEST:
                values, errors = values / top, [error / top for error in errors]
                log_scale += math.log(top)
            progress(j, steps)
        with np.errstate(divide="ignore"):
            log_a = np.log(np.maximum(values[0] - errors[0], 0)) + log_scale - c * r
            log_b = np.log(values[1] + errors[1]) + log_scale - (c + 1) * r
        log_abs_error = 1e-13 * (1 + abs(log_scale) + (c + 1) * np.abs(r))
        return PolicyValue(r, log_a - log_abs_error, log_b + log_abs_error)

    def _accusations(self) -> Floats:
        """A and B, tilted, when no step is left: accuse where nothing of epsilon remains."""
        c, r = self.window.tilt, self.window.remaining
        accuse = r <= 1e-9 * self.window.spacing
        spent = np.where(accuse, r, 0.0)  # elsewhere e^r may be no float
        return np.where(accuse, np.exp(np.multiply.outer([c, c + 1], spent)), 0.0)

    def _best(self, values: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """A and B one step earlier, and the law that makes A - e^r B largest."""
        size, count = self.window.size, values.shape[1]
        spectrum = fft.rfft(values, size, axis=1)[:, None, :]
        both = fft.irfft(self.spectra * spectrum, size, axis=2, workers=-1)
        both = np.maximum(both[:, :, :count], 0)  # [P or Q, law, r]
        chosen = np.argmax(both[0] - both[1], axis=0)
        return both[:, chosen, np.arange(count)], chosen
