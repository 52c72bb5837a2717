"""The curve of a pass by a line integral in floats: about where to ask for bounds, and never a bound."""

import math
from contextlib import suppress
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import LinePlan, PassOrder, plan_line
from tightrope.numerics.floats import Floats

MOST_CANCELLED = 55.0  # bits: then floats are off by a few times what is wanted
KEPT_RULES = 256


@lru_cache(maxsize=KEPT_RULES)
def _rule(points: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights


def guess_curve(of: PassOrder, log_error: float) -> float:
    """About the curve of the pass there, to about e^log_error; or EngineDeclines."""
    plan = plan_line(of, log_error)
    if plan.cancelled > MOST_CANCELLED and not of.is_put:
        with suppress(EngineDeclines):  # a longer line, on which less cancels: floats are quick
            plan = plan_line(of, log_error, MOST_CANCELLED)
    if plan.cancelled <= MOST_CANCELLED:
        with suppress(ArithmeticError), np.errstate(over="raise", invalid="raise"):
            return _estimate(of, plan)
    return sum(enclose_curve(of, log_error)) / 2


def _estimate(of: PassOrder, plan: LinePlan) -> float:
    a, n = float(of.separation), of.count
    t, k, scale = of.at_order(math.exp(of.epsilon))
    places, weights = [], []
    for panel in plan.panels:
        middle, half = (panel.start + panel.end) / 2, (panel.end - panel.start) / 2
        nodes, parts = _rule(panel.points)
        along = middle + half * nodes
        places.append(plan.right + 1j * along if panel.is_side else along + 1j * plan.shift)
        weights.append(parts * half * (-1j if panel.is_side else 1.0))
    z = np.concatenate(places)
    difference = np.exp(a * z - a * a / 2) - t * np.exp(-a * z - a * a / 2)
    masses = np.concatenate(weights) * np.exp(-z * z / 2 + plan.tilt * difference) / math.sqrt(2 * math.pi)
    step = 2 * math.pi / plan.period
    columns = math.isqrt(plan.nodes + 1)
    rows = -(-(plan.nodes + 1) // columns)
    near = np.exp(1j * step * np.multiply.outer(np.arange(columns), difference))
    far = masses * np.exp(1j * step * columns * np.multiply.outer(np.arange(rows), difference))
    transforms = (far @ near.T).reshape(-1)[: plan.nodes + 1]
    s = plan.tilt + 1j * step * np.arange(plan.nodes + 1)
    terms = (transforms**n * np.exp(-s * k) / (s * s)).real
    found = float(2 * terms.sum() - terms[0]) / plan.period
    ratio = math.exp(-abs(plan.tilt) * plan.period)
    times, more = ratio / (1 - ratio), plan.period * ratio / (1 - ratio) ** 2
    mass = float(ndtr(plan.right)) if plan.keeps_jumps else 1.0
    mean = float(ndtr(plan.right - a) - t * ndtr(plan.right + a)) if plan.keeps_jumps else 1 - t
    away = n * mean * mass ** (n - 1) - k * mass**n
    found -= (-away if of.is_put else away) * times + more * mass**n
    if plan.keeps_jumps:
        beyond = float(ndtr(-plan.right))
        out = float(ndtr(a - plan.right) - t * ndtr(-plan.right - a))
        some = -math.expm1(n * math.log1p(-beyond))
        others = -math.expm1((n - 1) * math.log1p(-beyond))
        found += n * out + n * mean * others - k * some
    return scale * found
