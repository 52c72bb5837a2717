"""The substitution game from below: one adversary's policy, and one test, evaluated under P and Q.

Outputs are merged into cells of loss, and each cell is sent to one of the two nearest whole labels, at random so that the label
is the cell's loss on average. The adversary sees the sum of the labels, plays whichever step is best for what remains, and
accuses if the sum reaches a threshold; a run whose remaining epsilon leaves the window is let go. With A and B the
probabilities of an accusation under P and Q, delta(eps) >= A - e^eps B whatever the policy is. Going backwards,

    A_{j+1}(r) = sum over labels of P(label) A_j(r - label),   and B likewise with Q,

each with the step that makes A - e^r B largest: one recursion serves every threshold r at once. A is tilted by e^{c r} and B
by e^{(c+1) r}.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tightrope.engines.cells import Cells, cut
from tightrope.engines.game.above import POWERS, Progress
from tightrope.engines.game.triangles import Gram
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.tails import Floats, log_of_difference, log_of_sum, normal_log_upper
from tightrope.pairs.shift_pair import ShiftPair

Labels = NDArray[np.int64]
LARGEST = 1e100


@dataclass(frozen=True)
class LabelLaw:
    """Cells of outputs: ln P-mass, the loss of the merged cell, its lower label and the chance of the next label."""

    log_masses: Floats
    losses: Floats
    labels: Labels
    upwards: Floats
    doubt: Floats  # bounds the relative error of each mass, under P and under Q

    @staticmethod
    def of(log_masses: Floats, losses: Floats, blur: Floats, spacing: float) -> "LabelLaw":
        """Round each loss to a label, up or down at random."""
        labels = np.floor(losses / spacing)
        doubt = 8 * UNIT_ROUNDOFF * (8 + np.abs(log_masses)) + blur
        return LabelLaw(log_masses, losses, labels.astype(np.int64), losses / spacing - labels, doubt)

    def blur(self, tilt: float) -> float:
        """The doubt about the tilted masses, relative to all of them."""
        exponents = self.log_masses + tilt * self.losses
        weights = np.exp(exponents - exponents.max())
        return float(weights @ self.doubt / weights.sum())

    def kernel(self, reach: int, spacing: float, tilt: float, *, dual: bool) -> Floats:
        """Tilted masses at the labels -reach ... reach; those further out are let go. `dual` gives Q's instead of P's."""
        result = np.zeros(2 * reach + 1)
        for labels, chance in ((self.labels, 1 - self.upwards), (self.labels + 1, self.upwards)):
            exponents = self.log_masses + tilt * labels * spacing
            if dual:
                exponents = exponents + labels * spacing - self.losses
            inside = np.abs(labels) <= reach
            result += np.bincount(
                labels[inside] + reach, weights=(np.exp(exponents) * chance)[inside], minlength=2 * reach + 1
            )
        return result


def label_law(pair: ShiftPair, spacing: float, reach: int) -> LabelLaw:
    """The labels of one pair: cells centred at the multiples of the spacing."""
    cells = cut(pair, (np.arange(-reach, reach, dtype=float) + 0.5) * spacing)
    inner = np.isfinite(cells.low) & np.isfinite(cells.high) & np.isfinite(cells.merged)
    return _of(cells.select(inner), spacing)


def _of(cells: Cells, spacing: float) -> LabelLaw:
    return LabelLaw.of(cells.log_masses, cells.merged, cells.loss_abs_errors, spacing)


def triangle_law(gram: Gram, rate: float, square: float, spacing: float) -> LabelLaw:
    """The labels of a triangle in the plane: rectangles of outputs, whose masses are products of cells on two axes.

    With Y = e^{w xi - w^2/2} and X = e^{a xi + b eta - (a^2 + b^2)/2}, the noise around a' is shifted by (w, 0) and around a
    by (a, b).
    """
    w = math.sqrt(gram.w * square)
    a = gram.c * square / w
    b = math.sqrt(max(gram.u * square - a * a, 0.0))
    step = min(0.1, max(0.5 * spacing / (rate * max(a, b, w)), 0.02))
    nodes = np.arange(-9.0, 9.0 + max(a, b, w), step)
    plain_xi, plain_eta = _log_cells(nodes), _log_cells(nodes)
    plain = np.add.outer(plain_xi, plain_eta)
    moved = np.add.outer(_log_cells(nodes - a), _log_cells(nodes - b))
    other = np.add.outer(_log_cells(nodes - w), plain_eta)
    calm, sampled = math.log1p(-rate), math.log(rate)
    log_p, log_q = (log_of_sum(calm + plain, sampled + part).ravel() for part in (moved, other))
    # a cell's mass is a difference of two tails: good to a few units of roundoff times 1 / step
    blur = np.full(log_p.shape, 64 * UNIT_ROUNDOFF * (1 + 100 / step))
    held = (log_p > -200) & (log_q > -200)
    return LabelLaw.of(log_p[held], (log_p - log_q)[held], blur[held], spacing)


def _log_cells(nodes: Floats) -> Floats:
    """ln of the normal masses between consecutive nodes, each from the tail on its own side."""
    low, high = nodes[:-1], nodes[1:]
    right = low + high > 0
    inner, outer = np.where(right, low, -high), np.where(right, high, -low)
    return log_of_difference(normal_log_upper(inner), normal_log_upper(outer))


@dataclass(frozen=True)
class Evaluated:
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
        """The largest epsilon at which some threshold's lower bound still exceeds delta; 0 if there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            reach = log_of_difference(self.log_a, np.minimum(log_delta, self.log_a)) - self.log_b
        reach = np.where(np.isfinite(reach), reach, -np.inf)
        return max(float(np.max(reach, initial=-np.inf)) * (1 - 1e-14) - 1e-13, 0.0)


@dataclass(frozen=True)
class PolicyWindow:
    """Remaining epsilons from -below to last spacings; labels up to reach either way; the tilt."""

    spacing: float
    below: int
    last: int
    reach: int
    tilt: float

    @property
    def size(self) -> int:
        """The length of the FFTs."""
        return fft.next_fast_len(self.below + self.last + 1 + 2 * self.reach, real=True)

    @property
    def remaining(self) -> Floats:
        """Every remaining epsilon of the window."""
        return np.arange(-self.below, self.last + 1, dtype=float) * self.spacing


def evaluate(
    laws: Sequence[LabelLaw],
    window: PolicyWindow,
    steps: int,
    progress: Progress,
    record: list[NDArray[np.int8]] | None = None,
) -> Evaluated:
    """The best policy's accusation probabilities; `record` receives which law is played at each r, first the last step's."""
    w, c = window, window.tilt
    r = w.remaining
    kernels = [[law.kernel(w.reach, w.spacing, c, dual=dual) for law in laws] for dual in (False, True)]
    norms = [max(float(kernel.sum()) for kernel in side) for side in kernels]
    spectra = np.stack(
        [np.stack([_spectrum(kernel, w) for kernel in side]) for side in kernels]
    )  # [P or Q, law, frequency]
    unit = 16 * UNIT_ROUNDOFF * (4 + math.log2(w.size)) + 2 * max(law.blur(c) for law in laws) + POWERS
    accuse = r <= 1e-9 * w.spacing
    below = np.where(accuse, r, 0.0)  # above, e^r may be no float
    values = np.stack(
        [np.where(accuse, np.exp(c * below), 0.0), np.where(accuse, np.exp((c + 1) * below), 0.0)]
    )
    errors, log_scale = [4 * UNIT_ROUNDOFF * float(side.max()) for side in values], 0.0
    places = np.arange(len(r))
    for j in range(1, steps + 1):
        rough = [math.sqrt(float(side @ side)) for side in values]
        both = fft.irfft(spectra * fft.rfft(values, w.size, axis=1)[:, None, :], w.size, axis=2, workers=-1)
        both = np.maximum(both[:, :, : len(r)], 0)  # [P or Q, law, r]
        chosen = np.argmax(both[0] - both[1], axis=0)
        if record is not None:
            record.append(chosen.astype(np.int8))
        values = both[:, chosen, places]
        errors = [
            norm * error + norm * unit * size for norm, error, size in zip(norms, errors, rough, strict=True)
        ]
        top = float(values.max())
        if not math.isfinite(top + errors[0] + errors[1]):
            raise NotPreciseEnough("The tilted values of the policy overflow.")
        if top > LARGEST:
            values, errors, log_scale = (
                values / top,
                [error / top for error in errors],
                log_scale + math.log(top),
            )
        progress(j, steps)
    with np.errstate(divide="ignore"):
        log_a = np.log(np.maximum(values[0] - errors[0], 0)) + log_scale - c * r
        log_b = np.log(values[1] + errors[1]) + log_scale - (c + 1) * r
    slack = 1e-13 * (1 + abs(log_scale) + (c + 1) * np.abs(r))
    return Evaluated(r, log_a - slack, log_b + slack)


def _spectrum(kernel: Floats, w: PolicyWindow) -> NDArray[np.complex128]:
    wrapped = np.zeros(w.size)
    wrapped[: w.reach + 1] = kernel[w.reach :]
    wrapped[w.size - w.reach :] += kernel[: w.reach]
    return np.asarray(fft.rfft(wrapped))
