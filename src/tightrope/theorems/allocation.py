"""Random allocation: in each pass a record takes one of the batches, or several, on its own.

The steps of a pass are not independent, so a pass is what has a pair, and a run is passes.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from tightrope.errors import NoTheorem
from tightrope.pairs.allocation import MOST_EXCHANGED, MOST_LOSS, MOST_SEPARATION, Allocation
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.group_pass import GroupPass
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import BallsInBins, InPasses, RandomAllocation
from tightrope.theorems.evidence import PROVED, Evidence
from tightrope.theorems.group_passes import ALL_IN_ONE
from tightrope.theorems.other_batchings import REVEALED_BATCHES
from tightrope.theorems.table import StepBounds, Steps, theorem
from tightrope.theorems.worst_pairs import StepLaws, sum_moves_by

ANY_NOISE = (Gaussian, Laplace, RandomizedResponse, Finite)
PARTICIPATION = "proofs/participation.md"


def _one_pass(step: Step, relation: Relation) -> Allocation:
    assert isinstance(step.sampling, BallsInBins)
    distance = sum_moves_by(step.sampling, relation)
    present = StepLaws(step.mechanism, distance, Fraction(1)).remove()
    return Allocation(present, step.sampling.batches, step.sampling.batches)


@theorem(
    mechanisms=ANY_NOISE,
    sampling=BallsInBins,
    relation=REMOVE,
    reference="the participation theorem: proof note; Gaussian, one dimension: Chua et al. 2024",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
)
def balls_in_bins_remove(step: Step) -> Pair:
    """Each batch of a pass is equally likely to have held the removed record.

    The pair is (mean over i of P in batch i and Q elsewhere; Q).
    """
    return _one_pass(step, REMOVE)


@theorem(
    mechanisms=ANY_NOISE,
    sampling=BallsInBins,
    relation=ADD,
    reference="the participation theorem: proof note; Gaussian, one dimension: Chua et al. 2024",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
)
def balls_in_bins_add(step: Step) -> Pair:
    """Each batch of a pass is equally likely to hold the added record.

    The pair is (Q; mean over i of P in batch i and Q elsewhere).
    """
    return _one_pass(step, ADD).reverse


@theorem(
    mechanisms=(Gaussian,),
    sampling=BallsInBins,
    relation=SUBSTITUTE,
    reference="the participation theorem: proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0, -1)",
)
def balls_in_bins_substitute(step: Step) -> Pair:
    """In a pass the exchanged records move one sum by C, opposite ways: (mean of N(e_i), mean of N(-e_i))."""
    assert isinstance(step.sampling, BallsInBins)
    assert isinstance(step.mechanism, Gaussian)
    one_way = Fraction(sum_moves_by(step.sampling, SUBSTITUTE), 2) / step.mechanism.exact_noise_multiplier
    batches = step.sampling.batches
    return Allocation(ShiftPair.of_normals(one_way), batches, batches, is_exchanged=True)


@theorem(
    mechanisms=ANY_NOISE,
    sampling=RandomAllocation,
    relation=REMOVE,
    reference="Feldman, Shenfeld 2025; proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0), by the sum of the likelihood ratios",
)
def random_allocation_remove(step: Step) -> Pair:
    """A removed record that took k of T batches is bounded by one batch of each of k blocks of them."""
    return _several_of(step, REMOVE)


@theorem(
    mechanisms=ANY_NOISE,
    sampling=RandomAllocation,
    relation=ADD,
    reference="Feldman, Shenfeld 2025; proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1), by the sum of the likelihood ratios",
)
def random_allocation_add(step: Step) -> Pair:
    """An added record that takes k of T batches is bounded by one batch of each of k blocks of them."""
    return _several_of(step, ADD).reverse


def _several_of(step: Step, relation: Relation) -> Allocation:
    assert isinstance(step.sampling, RandomAllocation)
    batches = step.sampling.batches
    distance = sum_moves_by(step.sampling, relation)
    present = StepLaws(step.mechanism, distance, Fraction(1)).remove()
    return Allocation(present, batches, batches, chosen=step.sampling.chosen)


STARTED_PASS = Evidence(
    "started_pass",
    "The first r of T batches of a pass of balls in bins tell no more than one batch that the record joins "
    "with probability r / T: which of the r it is can be drawn by anybody.",
    PROVED,
    "proof note",
    PARTICIPATION,
)


def bound_passes(dominating: Pair, reached: Pair, times: int) -> StepBounds:
    """So many steps of a pair; of an allocation they are whole passes, and the first batches of one more."""
    if not isinstance(dominating, Allocation):
        above = ((dominating, times),)
        return StepBounds(above, above, above if reached is dominating else ((reached, times),))
    whole, rest = divmod(times, dominating.batches)
    started, chosen = whole + bool(rest), dominating.chosen
    below: Steps = ((dominating, whole), (_begin(dominating, rest), 1))
    revealed: Steps = ((_reveal(dominating), whole), (_reveal_part(dominating, rest), 1))
    if chosen > 1:
        revealed = ((_reveal(dominating), whole * chosen + min(rest, chosen)),)
    if is_out_of_reach(dominating):
        return StepBounds(revealed, revealed, tuple((_soften(pair), n) for pair, n in below))
    return StepBounds(below if chosen == 1 else tuple(_split(dominating, started)), revealed, below)


def why_revealed(dominating: Pair, times: int) -> tuple[Evidence, ...]:
    """On what the bound of so many steps rests if batches are revealed; nothing unless they are passes."""
    if isinstance(dominating, ShuffledEpoch):
        return (REVEALED_BATCHES,)
    if isinstance(dominating, GroupPass):
        return (ALL_IN_ONE,)
    if not isinstance(dominating, Allocation):
        return ()
    whole, rest = divmod(times, dominating.batches)
    if dominating.chosen > 1:
        return (REVEALED_BATCHES,)
    return (REVEALED_BATCHES,) * bool(whole) + (STARTED_PASS,) * bool(rest)


def is_out_of_reach(dominating: Allocation) -> bool:
    """Whether likelihood ratios spread further than the lattices of a pass reach.

    Two batches and an exchanged record need none: such a pass is one release of normal noise.
    """
    step = dominating.step
    if dominating.is_exchanged and dominating.batches == 2:
        return False
    if isinstance(step, FinitePair):
        return not step.levels or step.largest_finite_loss > MOST_LOSS
    assert isinstance(step, ShiftPair)
    return step.observed.exact_shift > _most_separation(dominating)


def _most_separation(dominating: Allocation) -> Fraction:
    if not dominating.step.has_normal_noise:
        return MOST_LOSS
    return MOST_EXCHANGED if dominating.is_exchanged else MOST_SEPARATION


def _reveal(dominating: Allocation) -> Pair:
    """One visit as a full batch; an exchanged record moves it twice as far."""
    step = dominating.step
    if dominating.is_exchanged:
        assert isinstance(step, ShiftPair)
        return ShiftPair.of_normals(2 * step.observed.exact_shift)
    return step.reverse if dominating.is_reversed else step


def _reveal_part(dominating: Allocation, released: int) -> Pair:
    """The first batches of a pass as one batch that the record joins as often as it is in one of them."""
    rate = Fraction(released, dominating.batches)
    if dominating.is_exchanged:
        assert isinstance(dominating.step, ShiftPair)
        law = replace(dominating.step.observed, exact_rate=rate)
        return ShiftPair(law, law.mirrored)
    pair = _join(dominating.step, rate)
    return pair.reverse if dominating.is_reversed else pair


def _begin(dominating: Allocation, released: int) -> Pair:
    """The first batches of a pass; the first one alone is a batch that the record joins now and then."""
    is_one = released == dominating.chosen == 1
    return _reveal_part(dominating, 1) if is_one else dominating.release(released)


def _join(step: Pair, rate: Fraction) -> Pair:
    """One batch that the record joins with this probability."""
    if isinstance(step, FinitePair):
        return FinitePair(step.alternative.mixed_with(step.observed, rate), step.alternative)
    assert isinstance(step, ShiftPair)
    return ShiftPair(replace(step.observed, exact_rate=rate), step.alternative)


def _split(dominating: Allocation, passes: int) -> Iterator[tuple[Pair, int]]:
    """One batch of each block: as many blocks as batches are chosen, as long as can be."""
    short, longer = divmod(dominating.batches, dominating.chosen)
    for batches, blocks in ((short, dominating.chosen - longer), (short + 1, longer)):
        one = replace(dominating, batches=batches, released=batches, chosen=1)
        # of one batch nothing is hidden
        yield (one if batches > 1 else _reveal(one)), blocks * passes


def _soften(dominating: Pair) -> Pair:
    """What more noise, or seeing the first batch only, still tells; a single batch is within every reach."""
    if not isinstance(dominating, Allocation):
        return dominating
    if isinstance(dominating.step, ShiftPair):
        return dominating.soften(_most_separation(dominating))
    assert isinstance(dominating.step, FinitePair)
    rate = Fraction(min(dominating.chosen, dominating.released), dominating.batches)
    pair = _join(dominating.step, rate)
    return pair.reverse if dominating.is_reversed else pair


def check_passes(run: Run) -> None:
    """Refuse passes of which nobody can say which noise they had: a run counts steps, without their order.

    Whole passes and one that was begun can be told apart; two of different noise that were begun cannot.
    """
    kinds: dict[InPasses, list[int]] = {}
    for step, times in run:
        if isinstance(step.sampling, InPasses):
            kinds.setdefault(step.sampling, []).append(times)
    for sampling, counts in kinds.items():
        if sum(times % sampling.batches > 0 for times in counts) > 1:
            told = " and ".join(f"{times:,}" for times in counts)
            raise NoTheorem(
                f"{{{type(sampling).__name__}}} with {len(counts)} kinds of noise in {told} steps: a pass of "
                f"{sampling.batches:,} batches with more than one noise has no theorem here",
                "Change the noise between passes, and count a pass that was broken off as a whole one.",
            )
