"""Upper bounds on the divergence of one epoch of shuffled batches at one order >= 1.

theorems/proofs/shuffles.md proves several: that nothing is gained; where a place is spare, theorem 1; where
batches are large, theorem 2; whatever they hold, theorem 3. The least of them is a bound.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tightrope.engines.face import EngineDeclines
from tightrope.engines.shuffles.any_batches import Work, bound_any_batches, estimate_any_batches
from tightrope.engines.shuffles.contours import ROUNDED_UP
from tightrope.engines.shuffles.cuts import search_cut
from tightrope.engines.shuffles.large_batches import bound_large_batches
from tightrope.engines.shuffles.walks import MOST_WALKED_BATCHES, expect
from tightrope.engines.shuffles.worst_difference import WorstDifference, find_worst
from tightrope.numerics.floats import ceil_fraction, next_up
from tightrope.pairs.shuffled_epoch import MOST_SHUFFLED, ShuffledEpoch

SPARE_CUT = 1e-4  # of theorem 1's bound, that what is cut off may cost
USUAL_WORK = Work(
    tried=((0.0, 0.24, 0.78, 1.0),),
    slacks=(0.03, 0.05, 0.08, 0.12, 0.2, 0.4),
    boxes=30_000,
)
THOROUGH_WORK = Work(
    tried=(
        (0.0, 0.2, 0.42, 0.8, 1.0),
        (0.0, 0.18, 0.42, 0.85, 1.0),
        (0.0, 0.25, 0.6, 0.85, 1.0),
        (0.0, 0.22, 0.5, 0.8, 1.0),
        *USUAL_WORK.tried,
    ),
    slacks=(0.01, *USUAL_WORK.slacks),
    boxes=300_000,
)
SMALLEST_LARGE = 16  # records in a batch, from which on their averages may tell more than levels
MOST_WITH_LEVELS = Fraction(5, 4)  # likewise, where weights spread them too
LARGER_CUT = 30.0  # times a cut is made that fits no lattice: next to the longest ones averages tell little
GUESS = 2  # times what a spare place would give: about what large batches give
KEPT_BOUNDS = 4096  # each of an epoch at an order

# Of an epoch, an order, a guess of the bound, and a bound that is known. Any guess will do, and 0 where there
# is none. What is not below the bound that is known is of no use.
Way = Callable[[ShuffledEpoch, Fraction, float, float], float]


@lru_cache(maxsize=KEPT_BOUNDS)
def bound_order(epoch: ShuffledEpoch, order: Fraction) -> float:
    """An upper bound on H_order, order >= 1: the least that is known of it, with less work too."""
    known = bound_order(epoch.quick, order) if epoch.is_thorough else bound_revealed(epoch, order)
    return min([known, *(way(epoch, order, 0.0, known) for way in list_ways(epoch))])


def bound_revealed(epoch: ShuffledEpoch, order: Fraction) -> float:
    """Without amplification."""
    return find_worst(epoch.separation, order).positive_part


def list_ways(epoch: ShuffledEpoch) -> list[Way]:
    """The theorems that may tell more than that nothing is gained; sums take time."""
    if epoch.separation > MOST_SHUFFLED or epoch.batches > MOST_WALKED_BATCHES:
        return []
    if epoch.has_spare_place:
        return [bound_by_spare_place]
    if epoch.batches == 1:
        return []
    ways: list[Way] = [bound_by_size] if epoch.batch >= SMALLEST_LARGE else []
    return [*ways, bound_by_levels] if epoch.separation <= MOST_WITH_LEVELS else ways


def forget_size(epoch: ShuffledEpoch) -> ShuffledEpoch:
    """The same number of batches of any size, all alike."""
    return ShuffledEpoch(
        separation=epoch.separation,
        batches=epoch.batches,
        released=epoch.batches,
        is_thorough=epoch.is_thorough,
    )


def bound_by_spare_place(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
    """Theorem 1; it needs neither a guess nor what is known."""
    return _bound_spare(epoch, order)


@lru_cache(maxsize=KEPT_BOUNDS)
def bound_by_size(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
    """Theorem 2, for epochs in which every place is seen."""
    worst = find_worst(epoch.separation, order)
    told, spare = worst.positive_part, _bound_spare(epoch, order)
    known = min(told, known)
    if spare > told / 2:
        return known
    found = search_cut(
        lambda allowed: (bound_large_batches(epoch, worst, allowed), None),
        guess=guess or min(GUESS * spare, told),
        spare=spare,
        known=known,
        larger=LARGER_CUT,
    )
    return known if found is None else found[0]


def estimate_levels(epoch: ShuffledEpoch, order: Fraction, guess: float) -> float:
    """About what levels tell of full batches, and not more."""
    worst = find_worst(epoch.separation, order)
    spare = _bound_spare(forget_size(epoch), order)
    return estimate_any_batches(epoch.batches, worst, USUAL_WORK, guess=guess, spare=spare)


def bound_by_levels(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
    """Theorem 3: the columns of full height, and where the last batch is smaller the others, a place less."""
    if epoch.last == epoch.batch:
        return _bound_column(forget_size(epoch), order, guess, known)
    full = Fraction(epoch.batches * epoch.last, epoch.records)
    found = 0.0
    for batches, share in ((epoch.batches, full), (epoch.batches - 1, 1 - full)):
        column = ShuffledEpoch(
            separation=epoch.separation, batches=batches, released=batches, is_thorough=epoch.is_thorough
        )
        found += _bound_column(column, order, guess, math.inf) * ceil_fraction(share) * ROUNDED_UP
    return found


@lru_cache(maxsize=KEPT_BOUNDS)
def _bound_column(epoch: ShuffledEpoch, order: Fraction, guess: float, known: float) -> float:
    worst = find_worst(epoch.separation, order)
    told, spare = worst.positive_part, _bound_spare(epoch, order)
    known = min(told, known)
    if spare > told / 2 or epoch.batches == 1:
        return known
    work = THOROUGH_WORK if epoch.is_thorough else USUAL_WORK
    guess = guess or math.cbrt(spare * spare * told)
    return bound_any_batches(epoch.batches, worst, work, guess=guess, spare=spare, known=known)


@lru_cache(maxsize=KEPT_BOUNDS)
def _bound_spare(epoch: ShuffledEpoch, order: Fraction) -> float:
    """What a spare place gives, or would give: no theorem has less."""
    worst = find_worst(epoch.separation, order)
    told = worst.positive_part
    try:
        return bound_spare_place(worst, Fraction(epoch.records, epoch.batch), epoch.released, told)
    except (EngineDeclines, ArithmeticError):
        return told


def bound_spare_place(worst: WorstDifference, batches: Fraction, released: int, told: float) -> float:
    """Theorem 1: `released` batches are seen, of as many as `batches`, which need not be whole."""
    offset = ceil_fraction((batches - released) * (1 - worst.order))
    found = told
    for _ in range(2):  # the second time what is cut off is a small part of it
        atoms = worst.spread(SPARE_CUT * found)
        value = expect(atoms, (1.0,), (released,), offset)
        mean = (value + released * atoms.beyond) / float(batches) * ROUNDED_UP
        found = min(found, next_up(mean))  # also where it underflows
    return found
