"""Statements about whole runs: composition, branches of a relation, sizes, limits and Rényi divergences."""

from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, Relation
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
    "The curve of {ADD_OR_REMOVE} is the larger of the composed {ADD} and {REMOVE} curves.",
    PROVED,
    "by definition; Lebeda, Regehr, Kamath, Steinke 2024, section 5",
    "proofs/composition.md",
)
REMOVE_SUFFICES = Evidence(
    "gaussian_remove_dominates_add",
    "For Gaussian noise and epsilon >= 0 the composed {REMOVE} curve is never below the {ADD} curve: "
    "it is that of {ADD_OR_REMOVE}.",
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
    "A private size that is at most the true one, except with probability beta, bounds the curve of "
    "batches without replacement at delta - beta.",
    PROVED,
    "proof note; the direction of the bias corrects Lebeda, Regehr, Kamath, Steinke 2024, Discussion",
    "proofs/dataset_size.md",
)
CENTRAL_LIMIT = Evidence(
    "gaussian_limit",
    "As steps grow and rates fall with steps rate^2 fixed, the trade-off function tends to that of two unit "
    "normals mu apart. A statement about a limit: at any number of steps the limit can be too small.",
    PROVED,
    "Dong, Roth, Su 2022, Thm 11; Bu, Dong, Long, Su 2020, Thm 5",
    "proofs/gaussian_limit.md",
)
BANDED_NOISE = Evidence(
    "banded_noise_takes_turns",
    "Noise of b bands, and groups of records of which each is drawn from in every b-th step: the run is "
    "bounded by one step in b of independent noise, relative to the largest column norm.",
    PROVED,
    "Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu 2023; proof note",
    "proofs/banded_cyclic.md",
)
GROUPS_TOGETHER = Evidence(
    "groups_come_and_go_together",
    "Of groups of up to m records the largest loses most. A group is all added or all removed: one that is "
    "partly added and partly removed is not covered.",
    PROVED,
    "proof note",
    "proofs/groups.md",
)
RUN_THEOREMS = (COMPOSITION, BOTH_BRANCHES, REMOVE_SUFFICES, NOTHING_SAMPLED, BANDED_NOISE, GROUPS_TOGETHER)

_WANG = "Wang, Balle, Kasiviswanathan 2020"
_RENYI_NOTE = "proofs/renyi.md"

DOMINATES = Evidence(
    "renyi_of_the_dominating_pair",
    "A pair that dominates a step for all epsilon has at least its Rényi divergence of every order above 1, "
    "and those of the steps of a run add up.",
    PROVED,
    "Mironov 2017, Prop. 1; Zhu, Dong, Wang 2022, Prop. 8",
    _RENYI_NOTE,
)
REMOVE_HAS_MORE = Evidence(
    "gaussian_renyi_remove_is_larger",
    "With Gaussian noise the Rényi divergence of a run under {REMOVE} is, at every order, at least that "
    "under {ADD}.",
    PROVED,
    "one step, Poisson: Mironov, Talwar, Zhang 2019, Thm 5; runs and other samplings: proof note",
    _RENYI_NOTE,
)
ANY_NOISE_EXCHANGED = Evidence(
    "renyi_amplified_without_replacement",
    "The Rényi divergence of a step on a batch of fixed size, one record exchanged, is bounded at whole "
    "orders by a polynomial in the rate with the moments of the unsampled step, and by convexity between "
    "them.",
    PROVED,
    f"{_WANG}, Thm 9 and Cor. 10",
    _RENYI_NOTE,
)
GAUSSIAN_EXCHANGED = Evidence(
    "renyi_amplified_without_replacement_gaussian",
    "For Gaussian noise the terms from the third on of the polynomial of renyi_amplified_without_replacement "
    "are also bounded by central moments.",
    PROVED,
    f"{_WANG}, Thm 27",
    _RENYI_NOTE,
)
CONVERSION = Evidence(
    "renyi_bounds_the_curve",
    "delta(epsilon) <= E[e^{c (loss - epsilon)}] c^c / (1+c)^{1+c} for every c > 0; the Rényi divergence of "
    "order 1 + c gives the moment.",
    PROVED,
    "Canonne, Kamath, Steinke 2020, Prop. 12",
    _RENYI_NOTE,
)
TOTAL_VARIATION = Evidence(
    "entropy_bounds_total_variation",
    "delta(0) <= sqrt(1 - e^-KL), and the relative entropy KL is at most the Rényi divergence of any order "
    "above 1.",
    PROVED,
    "Bretagnolle, Huber 1979",
    _RENYI_NOTE,
)
RENYI_THEOREMS = (
    DOMINATES,
    REMOVE_HAS_MORE,
    ANY_NOISE_EXCHANGED,
    GAUSSIAN_EXCHANGED,
    CONVERSION,
    TOTAL_VARIATION,
)


def find_needed_branches(run: Run, relation: Relation) -> tuple[tuple[Relation, ...], tuple[Evidence, ...]]:
    """The branches whose larger composed curve is the curve for epsilon >= 0, and why."""
    if relation.single is not ADD_OR_REMOVE:
        return relation.branches, ()
    add, remove = relation.branches
    together = (GROUPS_TOGETHER,) * (relation.group > 1)
    if all(isinstance(step.mechanism, Gaussian) for step, _ in run):
        return (remove,), (REMOVE_SUFFICES, *together)
    return (add, remove), (BOTH_BRANCHES, *together)
