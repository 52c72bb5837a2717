"""Every record takes part: the plain mechanism."""

from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE
from tightrope.setting.run import Step
from tightrope.setting.sampling import EveryRecord
from tightrope.theorems.table import theorem
from tightrope.theorems.worst_pairs import needs_mirror, step_laws

ANY = (Gaussian, Laplace, RandomizedResponse, Finite)
REFERENCE = "Balle, Wang 2018 (Gaussian); Dwork et al. 2006 (Laplace); Zhu, Dong, Wang 2022, Def. 7"
PROOF = "proofs/full_batch.md"


@theorem(
    mechanisms=ANY,
    sampling=EveryRecord,
    relation=REMOVE,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
)
def full_batch_remove(step: Step) -> Pair:
    """Removing a record moves the sum by at most C, and the largest move is the worst: (N(1), N(0))."""
    return step_laws(step.mechanism, step.sampling, REMOVE).remove()


@theorem(
    mechanisms=ANY,
    sampling=EveryRecord,
    relation=ADD,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
)
def full_batch_add(step: Step) -> Pair:
    """Adding a record moves the sum by at most C, and the largest move is the worst: (N(0), N(1))."""
    return step_laws(step.mechanism, step.sampling, ADD).add()


@theorem(
    mechanisms=ANY,
    sampling=EveryRecord,
    relation=SUBSTITUTE,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0, -1)",
    needs=lambda step: needs_mirror(step.mechanism),
)
def full_batch_substitute(step: Step) -> Pair:
    """Exchanging a record moves the sum by at most 2C, from -C to C: (N(2), N(0))."""
    return step_laws(step.mechanism, step.sampling, SUBSTITUTE).remove()
