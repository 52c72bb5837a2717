"""Poisson sampling: each record joins the batch on its own."""

from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE
from tightrope.setting.run import Step
from tightrope.setting.sampling import Poisson
from tightrope.theorems.table import theorem
from tightrope.theorems.worst_pairs import step_laws

ANY = (Gaussian, Laplace, RandomizedResponse, Finite)
REFERENCE = "Zhu, Dong, Wang 2022, Thm 11(1); Lebeda, Regehr, Kamath, Steinke 2024, Prop. 9(1)"


@theorem(
    mechanisms=ANY,
    sampling=Poisson,
    relation=REMOVE,
    reference=REFERENCE,
    proof="proofs/poisson_add_remove.md",
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0)",
)
def poisson_remove(step: Step) -> Pair:
    """The removed record joined with probability g and moved the sum by C: ((1-g)N(0)+gN(1), N(0))."""
    return step_laws(step.mechanism, step.sampling, REMOVE).remove()


@theorem(
    mechanisms=ANY,
    sampling=Poisson,
    relation=ADD,
    reference=REFERENCE,
    proof="proofs/poisson_add_remove.md",
    attained_by="D = (0, ..., 0) and D' = (0, ..., 0, 1)",
)
def poisson_add(step: Step) -> Pair:
    """The added record joins with probability g and moves the sum by C: (N(0), (1-g)N(0)+gN(1))."""
    return step_laws(step.mechanism, step.sampling, ADD).add()


@theorem(
    mechanisms=(Gaussian,),
    sampling=Poisson,
    relation=SUBSTITUTE,
    reference="Lebeda, Regehr, Kamath, Steinke 2024, Prop. 13; every dimension: proof note",
    proof="proofs/poisson_substitute.md",
    attained_by="D = (0, ..., 0, 1) and D' = (0, ..., 0, -1)",
)
def poisson_substitute(step: Step) -> Pair:
    """The exchanged records join with probability g at opposite ends: ((1-g)N(0)+gN(1), (1-g)N(0)+gN(-1))."""
    return step_laws(step.mechanism, step.sampling, SUBSTITUTE).exchange()
