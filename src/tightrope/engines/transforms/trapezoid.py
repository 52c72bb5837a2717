"""The trapezoidal rule on the line: its nodes, its cells, and what it misses of a normal density."""

import math

import numpy as np

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.rooms import LOG_ROOM
from tightrope.numerics.floats import HALF_LOG_2PI, Floats, short


def log_normal_aliasing(step: float) -> float:
    """ln of what the trapezoidal rule misses of a normal density: 2 (r + r^4 + ...), r = e^{-2 pi^2 / h^2}.

    That is less than 2.1 r for steps up to 2.4, where r <= 0.04.
    """
    if not step < 2.4:
        return math.inf
    return math.log(2.1) - 2 * (math.pi / step) ** 2 * (1 - LOG_ROOM)


def log_aliasing(log_line: float, turns: float) -> float:
    """ln of 2 e^log_line / (e^turns - 1), from above: what the rule misses of an integrand.

    e^log_line bounds the integral of its modulus along either edge of a strip where it is analytic
    (lemmas 4 and 4b of docs/certificates.md). `turns` is off by 4 u of itself.
    """
    return log_line + math.log(2) - turns - math.log(-math.expm1(-turns)) + LOG_ROOM * (1 + turns)


def log_terms(u: Floats, log_p: Floats, log_q: Floats, c: float, step: float) -> Floats:
    """ln of f(u; c) step."""
    return (1 + c) * log_p - c * log_q - u**2 / 2 - HALF_LOG_2PI + math.log(step)


def cells_between(low: float, high: float, steepest: float, *, most: int) -> tuple[Floats, float]:
    """Centres and width of cells that cover [low, high], fine enough for the bounds to lose little."""
    wish = min(0.1, 0.2 / steepest)
    if not (high - low) / wish < most:
        raise EngineDeclines("the tilted mass spans too much")
    width = short(wish)
    return (np.arange(round_down(low / width), round_up(high / width), dtype=float) + 0.5) * width, width


def round_down(x: float) -> int:
    """An integer below a quotient that was rounded, and at most 2^20."""
    return math.floor(x - 2.0**-20)


def round_up(x: float) -> int:
    """An integer above such a quotient."""
    return -round_down(-x)
