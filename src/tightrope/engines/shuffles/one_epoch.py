"""An upper bound on the divergence of one epoch of shuffled batches at one order >= 1.

The least of what theorems/proofs/shuffles.md proves: that nothing is gained; where a place is spare, theorem
1; where batches are large, theorem 2; whatever they hold, theorem 3.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache, partial

from tightrope.engines.face import EngineDeclines
from tightrope.engines.shuffles.any_batches import bound_any_batches
from tightrope.engines.shuffles.large_batches import bound_large_batches
from tightrope.engines.shuffles.walks import expect
from tightrope.engines.shuffles.worst_difference import WorstDifference
from tightrope.numerics.floats import UNIT_ROUNDOFF, ceil_fraction, next_up
from tightrope.pairs.shuffled_epoch import MOST_SHUFFLED, ShuffledEpoch

CUT = 0.01  # of a bound, that each part which is cut off may cost
LEVELS = ((0.0, 0.24, 0.78, 1.0),)
THOROUGH_LEVELS = (
    (0.0, 0.2, 0.42, 0.8, 1.0),
    (0.0, 0.18, 0.42, 0.85, 1.0),
    (0.0, 0.25, 0.6, 0.85, 1.0),
    (0.0, 0.22, 0.5, 0.8, 1.0),
    *LEVELS,
)
SMALLEST_LARGE = 16  # records in a batch, from which on their averages may tell more than levels
MOST_BATCHES = 10**7  # in an epoch: beyond, sums spread over too many lattice points
MOST_WITH_LEVELS = Fraction(5, 4)  # likewise, where weights spread them too
LOOSE = 3  # times what a spare place would give, from which on levels may tell more than large batches
CLOSE = 8  # how far from what is found a guess of it still serves
GUESS = 4  # times what a spare place would give: about what large batches give
ROUNDS = 4  # in which what is cut off becomes smaller, each up to 1 / CUT times
KEPT = 4096


@lru_cache(maxsize=KEPT)
def bound_order(epoch: ShuffledEpoch, order: Fraction) -> float:
    """An upper bound on H_order, order >= 1."""
    return min(_list_bounds(epoch, order))


def _list_bounds(epoch: ShuffledEpoch, order: Fraction) -> Iterator[float]:
    worst = WorstDifference(epoch.separation, order)
    told = worst.positive_part  # no amplification
    yield told
    has_levels = epoch.separation <= MOST_WITH_LEVELS
    if not _is_within_reach(epoch, has_levels):
        return
    try:
        spare = bound_spare_place(worst, Fraction(epoch.records, epoch.batch), epoch.released, told)
    except (EngineDeclines, ArithmeticError):
        return
    if epoch.has_spare_place:
        yield spare
    elif spare < told / 2:
        yield from _list_full_epochs(epoch, worst, spare)


def _list_full_epochs(epoch: ShuffledEpoch, worst: WorstDifference, spare: float) -> Iterator[float]:
    """Theorems 2 and 3, for epochs in which every place is seen."""
    told, found = worst.positive_part, math.inf
    if epoch.batch >= SMALLEST_LARGE:
        found = _refine(partial(bound_large_batches, epoch, worst), min(GUESS * spare, told), told)
        yield found
    is_loose = epoch.is_thorough or found > LOOSE * spare
    if is_loose and epoch.separation <= MOST_WITH_LEVELS:
        yield _bound_columns(epoch, worst, spare, min(found, told))


def _is_within_reach(epoch: ShuffledEpoch, has_levels: bool) -> bool:
    """Whether some theorem may tell more than that nothing is gained; sums take time."""
    has_others = epoch.batches > 1 and (has_levels or epoch.batch >= SMALLEST_LARGE)
    is_narrow = epoch.separation <= MOST_SHUFFLED and epoch.batches <= MOST_BATCHES
    return is_narrow and (epoch.has_spare_place or has_others)


def _bound_columns(epoch: ShuffledEpoch, worst: WorstDifference, spare: float, known: float) -> float:
    """Theorem 3: the columns of full height, and the others, which have a place less."""
    told = worst.positive_part
    tried = THOROUGH_LEVELS if epoch.is_thorough else LEVELS
    guess = math.cbrt(spare * spare * told)
    if epoch.last == epoch.batch:
        return bound_any_batches(epoch.batches, worst, tried, guess, known)
    full = Fraction(epoch.batches * epoch.last, epoch.records)
    found = 0.0
    for batches, share in ((epoch.batches, full), (epoch.batches - 1, 1 - full)):
        value = bound_any_batches(batches, worst, tried, guess, told)
        found += value * ceil_fraction(share) * (1 + 4 * UNIT_ROUNDOFF)
    return found


def _refine(bound: Callable[[float], float], guess: float, known: float) -> float:
    """The bound where what is cut off is a small part of it: of a guess, or else of what was found so."""
    found = _try(bound, CUT * guess, known)
    if guess / CLOSE < found < guess * CLOSE:
        return found
    for _ in range(ROUNDS):  # the guess may be too small for any lattice: come from above
        before, found = found, min(found, _try(bound, CUT * found, known))
        if found > before / CLOSE:
            break
    return found


def _try(bound: Callable[[float], float], allowed: float, known: float) -> float:
    """The bound where so much is cut off, or what is known without."""
    try:
        return min(bound(allowed), known)
    except (EngineDeclines, ArithmeticError):
        return known


def bound_spare_place(worst: WorstDifference, batches: Fraction, released: int, told: float) -> float:
    """Theorem 1: `released` batches are seen, of as many as `batches`, which need not be whole."""
    offset = ceil_fraction((batches - released) * (1 - worst.order))
    found = told
    for _ in range(2):  # the second time what is cut off is a small part of it
        atoms = worst.spread(CUT * CUT * found)
        value = expect(atoms, (1.0,), (released,), offset)
        mean = (value + released * atoms.beyond) / float(batches) * (1 + 16 * UNIT_ROUNDOFF)
        found = min(found, next_up(mean))  # also where it underflows
    return found
