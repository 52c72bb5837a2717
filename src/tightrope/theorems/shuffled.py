"""Shuffled batches: an epoch is what has a pair, and a run is epochs."""

from dataclasses import replace
from fractions import Fraction

from tightrope.pairs.allocation import MOST_SEPARATION, Allocation
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.pairs.shuffled_epoch import MOST_SHUFFLED, ShuffledEpoch
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import Shuffled
from tightrope.theorems.table import StepBounds, Steps, theorem
from tightrope.theorems.worst_pairs import sum_moves_by

SHUFFLES = "proofs/shuffles.md"


def _epoch(step: Step, relation: Relation) -> ShuffledEpoch:
    sampling, mechanism = step.sampling, step.mechanism
    assert isinstance(sampling, Shuffled)
    assert isinstance(mechanism, Gaussian)
    batch = sampling.batch or 1
    return ShuffledEpoch(
        separation=sum_moves_by(sampling, relation) / mechanism.exact_noise_multiplier,
        batches=sampling.batches,
        released=sampling.batches,
        batch=batch,
        last=sampling.last or batch,
        left_over=sampling.left_over,
        is_exchanged=relation is SUBSTITUTE,
    )


def _reached_by_exchange(step: Step) -> Pair:
    return _allocate(_epoch(step, SUBSTITUTE), from_above=False)


@theorem(
    mechanisms=(Gaussian,),
    sampling=Shuffled,
    relation=SUBSTITUTE,
    reference="proof note",
    proof=SHUFFLES,
    attained_by="D = (-1, ..., -1, 1) and D' = (-1, ..., -1), by all sums",
    reached=_reached_by_exchange,
)
def shuffled_substitute(step: Step) -> Pair:
    """An exchanged record costs an epoch no more than its batches show at worst, nor than a full batch."""
    return _epoch(step, SUBSTITUTE)


def _lacks_sizes(step: Step) -> str | None:
    sampling = step.sampling
    assert isinstance(sampling, Shuffled)
    if sampling.batch is None:
        return "{batch} is not stated, and a record that is added or removed moves others between batches"
    if sampling.last == 1 and not sampling.left_over:
        return "the last batch holds one record only, and without it there is a batch less"
    return None


@theorem(
    mechanisms=(Gaussian,),
    sampling=Shuffled,
    relation=REMOVE,
    reference="proof note",
    proof=SHUFFLES,
    attained_by="D = (-1, ..., -1, 1) and D' = (-1, ..., -1); at the last step of an epoch all are 1",
    needs=_lacks_sizes,
)
def shuffled_remove(step: Step) -> Pair:
    """An epoch is an allocation in which a sum moves by 2 C and, if no record is left over, a full batch.

    Means divide by one number for both neighbours: the stated batch size, not what the last one holds.
    """
    return _epoch(step, REMOVE)


@theorem(
    mechanisms=(Gaussian,),
    sampling=Shuffled,
    relation=ADD,
    reference="proof note",
    proof=SHUFFLES,
    attained_by="D = (-1, ..., -1) and D' = (-1, ..., -1, 1); at the last step of an epoch all are 1",
    needs=_lacks_sizes,
)
def shuffled_add(step: Step) -> Pair:
    """An epoch is the pair of shuffled_remove, reversed.

    That is an allocation in which a sum moves by 2 C and, if no record is left over, a full batch.
    """
    return _epoch(step, ADD).reverse


def bound_epochs(epoch: ShuffledEpoch, times: int, *, is_thorough: bool) -> StepBounds:
    """So many steps of shuffled batches: whole epochs, and the first batches of one more."""
    whole, rest = divmod(times, epoch.batches)
    started = epoch.release(rest)
    if epoch.is_exchanged:
        return _bound_exchanged(epoch, whole, started, is_thorough=is_thorough)
    epochs = ((epoch, whole), (started, 1))
    above, reached = (
        tuple((pair, n) for one, n in epochs for pair in _split(one, from_above=from_above))
        for from_above in (True, False)
    )
    revealed = tuple((pair, n) for one, n in epochs for pair in _reveal(one))
    return StepBounds(revealed if epoch.separation > MOST_SEPARATION else above, revealed, reached)


def _bound_exchanged(
    epoch: ShuffledEpoch, whole: int, started: ShuffledEpoch, *, is_thorough: bool
) -> StepBounds:
    thorough = replace(epoch, is_thorough=is_thorough)
    above: Steps = ((thorough, whole), (thorough.release(started.released), 1))
    visit = ShiftPair.of_normals(epoch.separation)
    revealed: Steps = ((visit, whole), (visit, int(started.released > 0)))
    reached: Steps = (
        (_allocate(epoch, from_above=False, is_rough=not is_thorough), whole),
        (_allocate(started, from_above=False, is_rough=not is_thorough), 1),
    )
    return StepBounds(revealed if epoch.separation > MOST_SHUFFLED else above, revealed, reached)


def _split(epoch: ShuffledEpoch, *, from_above: bool) -> list[Pair]:
    """An allocation, and the last batch, which loses a record wherever the removed one was."""
    if epoch.has_spare_place:
        return [_allocate(epoch, from_above=from_above)]
    return [_allocate(epoch.release(epoch.batches - 1), from_above=from_above), _last_batch(epoch)]


def _reveal(epoch: ShuffledEpoch) -> list[Pair]:
    visit = ShiftPair.of_normals(epoch.separation)
    visit = visit.reverse if epoch.is_reversed else visit
    if epoch.has_spare_place:
        return [visit] if epoch.released else []
    return [_last_batch(epoch)] if epoch.batches == 1 else [visit, _last_batch(epoch)]


def _last_batch(epoch: ShuffledEpoch) -> Pair:
    pair = ShiftPair.of_normals(epoch.separation / 2)
    return pair.reverse if epoch.is_reversed else pair


def _allocate(epoch: ShuffledEpoch, *, from_above: bool, is_rough: bool = False) -> Pair:
    """The batches that are seen, the record's sum moving by 2 C, each as likely as can be, or no more likely.

    A smaller last batch is raised from above, and not looked at from below.
    """
    times = Fraction(epoch.records, epoch.batch)
    whole = times.numerator // times.denominator
    if from_above:
        batches, seen = whole, min(epoch.released, whole)
    else:
        full = epoch.batches - (epoch.last < epoch.batch)
        batches, seen = -(-times.numerator // times.denominator), min(epoch.released, full)
    visit = ShiftPair.of_normals(epoch.separation)
    found: Pair = visit
    if batches > 1 or not seen:
        found = Allocation(visit, batches, seen, is_rough=is_rough)
        # with less noise no lattice holds the likelihood ratios; more noise tells less
        found = found if from_above else found.soften(MOST_SEPARATION)
    return found.reverse if epoch.is_reversed else found
