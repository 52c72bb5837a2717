"""What was asked of a pair's transform before, kept for the next question: a training loop asks after every step.

Everything kept is a pure function of its arguments, so an answer never depends on what was asked before it.
"""

from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np

from tightrope.engines.contour.bounded import FiniteTransform, LaplaceTransform
from tightrope.engines.contour.envelope import EnvelopeTransform
from tightrope.engines.contour.normal import NormalTransform
from tightrope.engines.contour.transform import TiltedNodes, Transform
from tightrope.engines.face import EngineDeclines
from tightrope.numerics.tails import Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KEPT_PAIRS = 128
KEPT_TILTS = 1024
KEPT_LINES = 32
LONGEST_KEPT = 20_000  # heights; longer lines are made anew, to bound memory
CHUNK = 500_000  # nodes times heights at once, likewise


@dataclass(frozen=True)
class StepLine:
    """m(t) = M(c + it) / M(c) of one step at heights 0, h, 2h, ..., and the nodes it was summed over."""

    nodes: TiltedNodes
    log_modulus: Floats
    angle: Floats
    wobble: Floats  # sum of weights times |e^{it loss} - 1|, which rounding is relative to


class KeptTransform:
    """One pair's transform with what was asked of it."""

    def __init__(self, pair: Pair) -> None:
        self.transform = transform_of(pair)
        self.cumulants = lru_cache(maxsize=KEPT_TILTS)(self._cumulants)
        self.log_moment_above = lru_cache(maxsize=KEPT_TILTS)(self.transform.log_moment_above)
        self.modulus_from = lru_cache(maxsize=4 * KEPT_TILTS)(self._modulus_from)
        self._bound = lru_cache(maxsize=16)(self.transform.modulus_bound)
        self._kept_line = lru_cache(maxsize=KEPT_LINES)(self._line)

    def _cumulants(self, c: float) -> tuple[float, float, float]:
        """ln M(c) and its first two derivatives, for planning."""
        return self.transform.quick_nodes(c).cumulants()

    def _modulus_from(self, c: float, t: float) -> float:
        """A bound on |M(c + is)| / M(c) for every s >= t."""
        return self._bound(c)(t)

    def line(self, c: float, spacing: float, count: int, target: float, most_evaluations: int) -> StepLine:
        """m at the heights 0 to count * spacing, from nodes that miss at most about `target`."""
        nodes = self.transform.nodes(c, count * spacing, target)
        if count * len(nodes.losses) > most_evaluations:
            raise EngineDeclines("the integrand decays too slowly")
        return (self._kept_line if count <= LONGEST_KEPT else self._line)(c, spacing, count, target)

    def _line(self, c: float, spacing: float, count: int, target: float) -> StepLine:
        nodes = self.transform.nodes(c, count * spacing, target)
        t = np.arange(count + 1, dtype=float) * spacing
        rows = max(CHUNK // len(nodes.losses), 1)
        pieces = [_line_at(nodes, t[i : i + rows]) for i in range(0, len(t), rows)]
        columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        for column in columns:
            column.setflags(write=False)  # shared by all who ask
        return StepLine(nodes, *columns)


@lru_cache(maxsize=KEPT_PAIRS)
def kept_transform(pair: Pair) -> KeptTransform:
    """The transform of a pair, by whichever quadrature its losses allow."""
    return KeptTransform(pair)


@singledispatch
def transform_of(pair: Pair) -> Transform:
    """A new transform of a pair; each kind of pair registers its quadrature here."""
    raise TypeError(f"no transform is known for {pair!r}")


@transform_of.register
def _(pair: FinitePair) -> Transform:
    return FiniteTransform(pair)


@transform_of.register
def _(pair: Envelope) -> Transform:
    return EnvelopeTransform(pair)


@transform_of.register
def _(pair: ShiftPair) -> Transform:
    return NormalTransform(pair) if pair.has_normal_noise else LaplaceTransform(pair)


def _line_at(nodes: TiltedNodes, t: Floats) -> tuple[Floats, Floats, Floats]:
    """ln|m|, arg m and the wobble, accurate where m is near 1."""
    half = np.multiply.outer(t / 2, nodes.losses)
    sine, cosine = np.sin(half), np.cos(half)
    real = -2 * (sine**2) @ nodes.weights
    imag = 2 * (sine * cosine) @ nodes.weights
    square = real * (2 + real) + imag**2
    with np.errstate(divide="ignore"):
        log_modulus = np.where(
            square > -0.5, 0.5 * np.log1p(square), np.log(np.hypot(1 + real, imag) + 1e-300)
        )
    return log_modulus, np.arctan2(imag, 1 + real), 2 * np.abs(sine) @ nodes.weights
