"""Statements about whole runs: composition, which branches of a relation are needed, sizes, limits."""

from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, REMOVE, Relation
from tightrope.setting.run import Run
from tightrope.theorems.evidence import PROVED, Evidence

COMPOSITION = Evidence(
    "dominating_pairs_compose",
    "If each step is dominated by a pair, for all epsilon, the run is dominated by the product of the pairs.",
    PROVED,
    "Zhu, Dong, Wang 2022, Thm 10",
    "proofs/composition.md",
)
BOTH_BRANCHES = Evidence(
    "add_or_remove_is_the_worse_branch",
    "The curve of ADD_OR_REMOVE is the larger of the composed ADD and REMOVE curves.",
    PROVED,
    "by definition; Lebeda, Regehr, Kamath, Steinke 2024, section 5",
    "proofs/composition.md",
)
REMOVE_SUFFICES = Evidence(
    "gaussian_remove_dominates_add",
    "For Gaussian noise and epsilon >= 0 the composed REMOVE curve is never below the ADD curve: it is that of ADD_OR_REMOVE.",
    PROVED,
    "Conjecture 12 of Lebeda, Regehr, Kamath, Steinke 2024; proof note (by Ehrhard's inequality)",
    "proofs/gaussian_remove_dominates_add.md",
)
NOTHING_SAMPLED = Evidence(
    "nothing_sampled_nothing_lost",
    "A record that is never in a batch, or of which nothing is released, changes nothing: P = Q.",
    PROVED,
    "by definition",
    "proofs/composition.md",
)
BIASED_DOWN = Evidence(
    "size_biased_down",
    "A private size that is at most the true one, except with probability beta, bounds the curve of batches without replacement "
    "at delta - beta.",
    PROVED,
    "proof note; the direction of the bias corrects Lebeda, Regehr, Kamath, Steinke 2024, Discussion",
    "proofs/dataset_size.md",
)
CENTRAL_LIMIT = Evidence(
    "gaussian_limit",
    "As steps grow and rates fall with steps rate^2 fixed, the trade-off function tends to that of two unit normals mu apart. "
    "A statement about a limit: at any number of steps the limit can be too small.",
    PROVED,
    "Dong, Roth, Su 2022, Thm 11; Bu, Dong, Long, Su 2020, Thm 5",
    "proofs/gaussian_limit.md",
)
RUN_THEOREMS = (COMPOSITION, BOTH_BRANCHES, REMOVE_SUFFICES, NOTHING_SAMPLED)


def needed_branches(run: Run, relation: Relation) -> tuple[tuple[Relation, ...], tuple[Evidence, ...]]:
    """The branches whose larger composed curve is the curve for epsilon >= 0, and why."""
    if relation is not ADD_OR_REMOVE:
        return relation.branches, ()
    if all(isinstance(step.mechanism, Gaussian) for step, _ in run):
        return (REMOVE,), (REMOVE_SUFFICES,)
    return relation.branches, (BOTH_BRANCHES,)
