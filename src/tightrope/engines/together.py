"""Many questions to one composed curve, or to runs a little longer, answered together.

Each epsilon that is solved for is, to the last bit, the one that is found alone. A delta in an array is as
close as asked; its late digits are not those of a single question.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

import numpy as np

from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourLine
from tightrope.engines.contour.rows import ContourRows
from tightrope.engines.crossing import Crossing
from tightrope.engines.face import BoundsOfMany, ComposedCurve, EngineDeclines, LocalBounds, raising
from tightrope.engines.many_crossings import FEWEST, cross_all
from tightrope.engines.places import PLACES_APART, Place, round_delta
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats, log_ends
from tightrope.pairs.schedule import Schedule

LOST = EngineDeclines, NotPreciseEnough, ArithmeticError, ValueError  # the way: then nothing is answered
MOST_PLACES = 12  # that an array of epsilons is worth; what is left is asked one by one


# -- epsilon at many deltas


def keep_epsilons(curve: ComposedCurve, deltas: Sequence[float], accuracy: float) -> None:
    """Let a curve solve for many deltas together what it is asked next, where that needs an engine."""
    if not isinstance(curve, Composition):
        return
    places: dict[float, list[float]] = {}
    for delta in dict.fromkeys(deltas):
        if curve.follows(delta):
            places.setdefault(round_delta(delta, PLACES_APART[0]), []).append(delta)
    for group in places.values():
        if len(group) >= FEWEST:
            with suppress(*LOST):
                # places closer by would be different ones for some of the group
                placed, local = curve.find_place(group[0], curve.share * accuracy, PLACES_APART[:1])
                if isinstance(local, BoundsOfMany):
                    for delta, found in zip(
                        group, _cross(curve, placed, local, group, accuracy), strict=True
                    ):
                        if found is not None:
                            curve.keep(delta, accuracy, found)


def _cross(
    curve: Composition, placed: Place, local: BoundsOfMany, deltas: Sequence[float], accuracy: float
) -> list[Crossing | None]:
    with raising():
        guesses, slopes = placed.guess(curve.schedule, np.array(list(map(math.log, deltas))))
        ends = np.array(list(map(log_ends, deltas))).T
        asked = curve.share * accuracy
        return cross_all(lambda _, x: local.bound_all(x), guesses, slopes, (ends[0], ends[1]), asked)


# -- delta at many epsilons


def bound_many(
    curve: ComposedCurve, epsilons: Sequence[float], accuracy: float
) -> dict[float, tuple[float, float]]:
    """Bounds on ln delta no wider than asked, where those placed for one epsilon serve many."""
    found: dict[float, tuple[float, float]] = {}
    if not isinstance(curve, Composition) or not curve.is_plain:
        return found
    rest = np.unique(np.array(epsilons, dtype=float))
    for local in curve.placed:
        rest = _bound(local, rest, curve.share * accuracy, found)
    for _ in range(MOST_PLACES):
        if len(rest) < FEWEST:
            break
        with suppress(NotPreciseEnough):
            curve.log_bounds(float(rest[len(rest) // 2]), accuracy)  # which places bounds there
        left = _bound(curve.placed[0], rest, curve.share * accuracy, found) if curve.placed else rest
        if len(left) == len(rest):
            break
        rest = left
    return found


def _bound(
    local: LocalBounds, epsilons: Floats, accuracy: float, found: dict[float, tuple[float, float]]
) -> Floats:
    """Adds what is known closely enough there; the epsilons that are left."""
    if not isinstance(local, BoundsOfMany) or not len(epsilons):
        return epsilons
    with suppress(*LOST), raising():
        lower, upper = local.bound_all(epsilons)
        is_close = -np.expm1(lower - upper) <= accuracy
        ends = zip(lower[is_close].tolist(), upper[is_close].tolist(), strict=True)
        found.update(zip(epsilons[is_close].tolist(), ends, strict=True))
        return epsilons[~is_close]
    return epsilons


# -- runs that are a little longer


def solve_longer(curve: ComposedCurve, delta: float, accuracy: float, more: int) -> list[tuple[float, float]]:
    """Bounds on epsilon(delta) with 1, 2, ... up to `more` more of every pair; fewer where that is slow."""
    if not isinstance(curve, Composition) or not curve.follows(delta):
        return []
    with suppress(*LOST):
        asked = curve.share * accuracy
        placed, local = curve.find_place(delta, asked)
        if isinstance(local, ContourLine):
            found = _cross_longer(placed, list(_list_longer(curve.schedule, placed, more)), delta, asked)
            enough = takewhile(lambda one: one is not None and one.is_enough(asked), found)
            return [(one.lower, one.upper) for one in enough if one is not None]
    return []


def _list_longer(schedule: Schedule, placed: Place, more: int) -> Iterator[Schedule]:
    """Runs that are longer, as far as they are followed from the same place."""
    for further in range(1, more + 1):
        longer = schedule.recount(times + further for _, times in schedule)
        if longer.rounded != placed.schedule:
            return
        yield longer


def _cross_longer(
    placed: Place, longer: list[Schedule], delta: float, accuracy: float
) -> list[Crossing | None]:
    if not longer:
        return []
    with raising():
        lines = [placed.recount(schedule) for schedule in longer]
        rows = ContourRows.of([line for line in lines if isinstance(line, ContourLine)])
        guesses, slopes = np.array([placed.guess(schedule, math.log(delta)) for schedule in longer]).T
        least, most = (np.full(len(longer), end) for end in log_ends(delta))
        return cross_all(rows.bound, guesses, slopes, (least, most), accuracy)
