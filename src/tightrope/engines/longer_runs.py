"""Epsilon of runs that are a few steps longer: each is, to the last bit, the one that its own curve finds."""

import math
from contextlib import suppress

import numpy as np

from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourLine
from tightrope.engines.contour.rows import ContourRows
from tightrope.engines.face import ComposedCurve, EngineDeclines, raising
from tightrope.engines.many_crossings import cross_all
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import log_ends
from tightrope.pairs.schedule import Schedule


def solve_longer(
    curve: ComposedCurve, delta: float, accuracy: float, more: int
) -> list[tuple[float, float]]:
    """Bounds on epsilon(delta) with 1, 2, ... up to `more` more of every pair; fewer where those are not quick."""
    if not isinstance(curve, Composition) or not curve.follows(delta):
        return []
    with suppress(EngineDeclines, NotPreciseEnough, ArithmeticError, ValueError):
        return _solve(curve, delta, accuracy, more)
    return []


def _solve(curve: Composition, delta: float, accuracy: float, more: int) -> list[tuple[float, float]]:
    asked = curve.share * accuracy
    placed, local = curve.find_place(delta, asked)
    if not isinstance(local, ContourLine):
        return []
    longer: list[Schedule] = []
    for further in range(1, more + 1):
        schedule = curve.schedule.recount(times + further for _, times in curve.schedule)
        if schedule.rounded != placed.schedule:  # it is followed from another place
            break
        longer.append(schedule)
    with raising():
        lines = [placed.recount(schedule) for schedule in longer]
        if not lines:
            return []
        rows = ContourRows.of([line for line in lines if isinstance(line, ContourLine)])
        log_delta, ends = math.log(delta), log_ends(delta)
        guesses, slopes = np.array([placed.guess(schedule, log_delta) for schedule in longer]).T
        least, most = (np.full(len(longer), end) for end in ends)
        found = cross_all(rows.bound, guesses, slopes, (least, most), asked)
    solved = []
    for crossing in found:
        if crossing is None or not crossing.is_enough(asked):
            break
        solved.append((crossing.lower, crossing.upper))
    return solved
