"""How small the transform of a normal envelope certainly is, far up its vertical line."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from tightrope.engines.contour.transform import HALF_LOG_2PI, KEPT
from tightrope.engines.face import EngineDeclines
from tightrope.numerics.tails import Floats
from tightrope.pairs.distribution import log_mixed_ratio

MOST_CELLS = 300_000
STEEPEST = 0.8  # how steeply a line may leave the axis
RISES = (0.1, 0.3, 1.0)  # how steeply it leaves the axis, relative to how high it would like to be


@dataclass(frozen=True)
class _Half:
    """The cells of one half: distance from the middle, the shifted part's share, least and most mass."""

    near: Floats
    far: Floats
    least_share: Floats
    most_share: Floats
    least_mass: Floats
    most_mass: Floats
    tallest: float
    divided: float  # the power of R that is divided by
    hidden: float

    def gain(self, shift: float, t: float, slope: float) -> float:
        """A bound on the integral of tilted density times (R - 1); the line leaves the axis at `slope`."""
        pull = t * shift / (1 + shift**2)
        low, wish = self._height(pull * self.least_share, slope * self.near), pull * self.least_share
        high = self._height(pull * self.most_share, slope * self.far)
        # y' = (y/v) y a (1 - share) + slope (y / (slope distance))^2
        with np.errstate(divide="ignore"):
            rise = np.minimum(1, high / wish) * high * shift * (1 - self.least_share)
            rise += slope * np.minimum(1, high / (slope * self.near)) ** 2
        angle = shift * low
        turned = np.arctan2(
            self.least_share * np.sin(angle), 1 - 2 * self.least_share * np.sin(angle / 2) ** 2
        )
        log_r = (high**2 + rise**2) / 2 - t * turned
        if self.divided:
            log_r += 2 * self.divided * self.most_share * np.tan(shift * high / 2) ** 2
        gains = np.expm1(np.minimum(log_r, 700))
        return self.hidden + float(np.where(gains < 0, self.least_mass, self.most_mass) @ gains)

    def _height(self, wish: Floats, distance: Floats) -> Floats:
        """1 / (1/tallest + 1/wish + 1/distance): below each of the three, and growing with them."""
        product = wish * distance
        return self.tallest * product / (product + self.tallest * (wish + distance))


class LiftedModulus:
    """t -> a bound on |M(c + is)| / M(c) for every s >= t (lemma 9).

    Both halves start at the middle of the centres. Their lines of integration are lifted (the remove half)
    or lowered (the add half) by a height y(u) that is 0 at the middle and grows. There the integrand is at
    most R times what it is on the axis, ln R = y^2/2 + y'^2/2 - t arg, and for the add half, which divides
    by the mixture, 2 c share tan^2(a y/2) more. Each cell is charged the largest R, and the least or the
    most mass, it can have.
    """

    def __init__(
        self,
        rate: float,
        shift: float,
        c: float,
        high: float,
        log_tail: float,
        log_moment: float,
        moment_rel_error: float,
    ) -> None:
        self.shift, self.moment_rel_error = shift, moment_rel_error
        middle = shift / 2
        count = math.ceil((high - middle) / min(0.1, 0.2 / shift))
        if count > MOST_CELLS:
            raise EngineDeclines("the tilted mass spans too much")
        width = (high - middle) / count
        edges = width * np.arange(count + 1, dtype=float)
        centre = width * (np.arange(count, dtype=float) + 0.5)
        log_odds = math.log(rate) - math.log1p(-rate)
        share, inner = special.expit(shift * edges + log_odds), special.expit(shift * centre + log_odds)
        log_r, u = log_mixed_ratio(rate, shift * centre), centre + middle
        far = float(special.log_ndtr(-high)) - c * math.log1p(
            -rate
        )  # lifted and all: ln R >= ln(1 - g) + share (lemma 3)
        self.halves: list[_Half] = []
        for power, most_height, beyond in ((1 + c, 0.9 * math.pi / shift, log_tail), (-c, 1.2 / shift, far)):
            tallest, divided = 0.9 * min(most_height, 6.0), max(-power, 0.0)
            log_mass = -(u**2) / 2 - HALF_LOG_2PI + power * log_r + math.log(width) - log_moment
            curve = 1 + abs(power) * shift**2 * np.minimum(share[1:], 0.25)
            log_most = log_mass + np.abs(power * shift * inner - u) * width / 2 + curve * width**2 / 8
            live = log_most > -KEPT
            # What is not worth following in detail gets the largest R it could have.
            worst = tallest**2 / 2 + (STEEPEST + shift * tallest) ** 2 / 2
            lift = 2 * divided * share[1:][~live] * math.tan(shift * tallest / 2) ** 2
            dead = np.exp(np.minimum(log_most[~live] + worst + lift, 700))
            self.halves.append(
                _Half(
                    near=edges[:-1][live],
                    far=edges[1:][live],
                    least_share=share[:-1][live],
                    most_share=share[1:][live],
                    least_mass=np.exp(log_mass - curve * width**2 / 24)[live],
                    most_mass=np.exp(log_most[live]),
                    tallest=tallest,
                    divided=divided,
                    hidden=math.exp(min(worst + beyond - log_moment, 700.0)) + float(dead.sum()),
                )
            )

    def __call__(self, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for all s >= t."""
        total = 1 + self.moment_rel_error
        for half in self.halves:
            wish = (
                t
                * self.shift
                * float(half.most_mass @ half.most_share)
                / max(float(half.most_mass.sum()), 1e-300)
            )
            total += min(half.gain(self.shift, t, min(STEEPEST, rise * wish)) for rise in RISES)
        return total
