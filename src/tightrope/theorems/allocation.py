"""Random allocation: in each pass a record takes one of the batches, or several, on its own.

The steps of a pass are not independent, so a pass is what has a pair, and a run is passes.
"""

from collections.abc import Iterator
from fractions import Fraction

from tightrope.errors import NoTheorem
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import BallsInBins
from tightrope.theorems.table import theorem
from tightrope.theorems.worst_pairs import StepLaws, sum_moves_by

OTHER_NOISE = (Laplace, RandomizedResponse, Finite)
PARTICIPATION = "proofs/participation.md"


def _one_pass(step: Step, relation: Relation) -> Allocation:
    assert isinstance(step.sampling, BallsInBins)
    distance = sum_moves_by(step.sampling, relation)
    present = StepLaws(step.mechanism, distance, Fraction(1)).remove()
    return Allocation(present, step.sampling.batches, step.sampling.batches)


@theorem(
    mechanisms=(Gaussian,),
    sampling=BallsInBins,
    relation=REMOVE,
    reference="the participation theorem: proof note; one dimension: Chua et al. 2024",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
)
def balls_in_bins_remove(step: Step) -> Pair:
    """In a pass the removed record moved the sum of one batch by C, all alike: (mean of N(e_i), N(0))."""
    return _one_pass(step, REMOVE)


@theorem(
    mechanisms=(Gaussian,),
    sampling=BallsInBins,
    relation=ADD,
    reference="the participation theorem: proof note; one dimension: Chua et al. 2024",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
)
def balls_in_bins_add(step: Step) -> Pair:
    """In a pass the added record moves the sum of one batch by C, all alike: (N(0), mean of N(e_i))."""
    return _one_pass(step, ADD).reverse


@theorem(
    mechanisms=OTHER_NOISE,
    sampling=BallsInBins,
    relation=REMOVE,
    reference="proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
)
def balls_in_bins_remove_any_noise(step: Step) -> Pair:
    """A pass is dominated by the mean, over its batches, of the pairs in which one batch held the record."""
    return _one_pass(step, REMOVE)


@theorem(
    mechanisms=OTHER_NOISE,
    sampling=BallsInBins,
    relation=ADD,
    reference="proof note",
    proof=PARTICIPATION,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
)
def balls_in_bins_add_any_noise(step: Step) -> Pair:
    """A pass is dominated by the mean, over its batches, of the pairs in which one batch holds the record."""
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


def count_passes(dominating: Pair, times: int) -> Iterator[tuple[Pair, int]]:
    """So many steps of a pair: of an allocation as whole passes, and the first batches of one more."""
    if not isinstance(dominating, Allocation):
        yield dominating, times
        return
    whole, rest = divmod(times, dominating.batches)
    yield dominating, whole
    yield dominating.release(rest), 1


def check_passes(run: Run) -> None:
    """Refuse passes of which nobody can say which noise they had: a run counts steps, without their order."""
    kinds: dict[BallsInBins, list[int]] = {}
    for step, times in run:
        if isinstance(step.sampling, BallsInBins):
            kinds.setdefault(step.sampling, []).append(times)
    for sampling, counts in kinds.items():
        if len(counts) > 1 and any(times % sampling.batches for times in counts):
            told = " and ".join(f"{times:,}" for times in counts)
            raise NoTheorem(
                f"{{BallsInBins}} with {len(counts)} kinds of noise in {told} steps: a pass of "
                f"{sampling.batches:,} batches with more than one noise has no theorem here",
                "Change the noise between passes, and count a pass that was broken off as a whole one.",
            )
