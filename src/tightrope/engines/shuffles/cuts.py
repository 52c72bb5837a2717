"""How much of a bound is cut off: what lies far out has to be, and more of it makes the rest smaller."""

from collections.abc import Callable
from typing import TypeVar

from tightrope.engines.face import EngineDeclines

T = TypeVar("T")

# Each part that is cut off costs such a share of the bound: more where the bound is many times what a spare
# place would give. Twice as much, or half as much, tells about the same.
LEAST_CUT_SHARE, CUT_SHARE_GROWS, MOST_CUT_SHARE, AS_GOOD = 0.01, 0.012, 0.05, 2.0
MOST_CUTS = 6


def search_cut(
    attempt: Callable[[float], tuple[float, T]], *, guess: float, spare: float, known: float, larger: float
) -> tuple[float, T] | None:
    """The least bound of some attempts, if it is below what is known, and what came with it.

    An attempt is told what each part that is cut off may cost; the first one goes by a guess of the bound,
    and the others by what was found. `spare` is about what a spare place would give. A cut that fits no
    lattice is made so many times `larger`.
    """
    best: tuple[float, T] | None = None
    allowed = _choose_cut(guess, spare)
    for _ in range(MOST_CUTS):
        found = _try(attempt, allowed)
        while found is None and best is None and allowed < known:
            allowed *= larger
            found = _try(attempt, allowed)
        if found is None or (best is not None and found[0] >= best[0]):
            break
        best = found
        wanted = _choose_cut(found[0], spare)
        if wanted / AS_GOOD <= allowed <= wanted * AS_GOOD:
            break
        allowed = wanted
    return best if best is not None and best[0] < known else None


def _choose_cut(bound: float, spare: float) -> float:
    return bound * min(max(CUT_SHARE_GROWS * bound / spare, LEAST_CUT_SHARE), MOST_CUT_SHARE)


def _try(attempt: Callable[[float], tuple[float, T]], allowed: float) -> tuple[float, T] | None:
    try:
        return attempt(allowed)
    except (EngineDeclines, ArithmeticError):
        return None
