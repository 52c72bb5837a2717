"""Statements about Rényi divergences: why bounding the moments of the loss bounds the curve."""

from tightrope.theorems.evidence import PROVED, Evidence

_WANG = "Wang, Balle, Kasiviswanathan 2020"
_PROOF = "proofs/renyi.md"

DOMINATES = Evidence(
    "renyi_of_the_dominating_pair",
    "A pair that dominates a step for all epsilon has at least its Rényi divergence of every order above 1, and those of the "
    "steps of a run add up.",
    PROVED,
    "Mironov 2017, Prop. 1; Zhu, Dong, Wang 2022, Prop. 8",
    _PROOF,
)
REMOVE_HAS_MORE = Evidence(
    "gaussian_renyi_remove_is_larger",
    "With Gaussian noise the Rényi divergence of a run under REMOVE is, at every order, at least that under ADD.",
    PROVED,
    "one step, Poisson: Mironov, Talwar, Zhang 2019, Thm 5; runs and other samplings: proof note",
    _PROOF,
)
ANY_NOISE_EXCHANGED = Evidence(
    "renyi_amplified_without_replacement",
    "The Rényi divergence of a step on a batch of fixed size, one record exchanged, is bounded at whole orders by a polynomial "
    "in the rate with the moments of the unsampled step, and by convexity between them.",
    PROVED,
    f"{_WANG}, Thm 9 and Cor. 10",
    _PROOF,
)
GAUSSIAN_EXCHANGED = Evidence(
    "renyi_amplified_without_replacement_gaussian",
    "For Gaussian noise the terms of that polynomial from the third on are also bounded by central moments.",
    PROVED,
    f"{_WANG}, Thm 27",
    _PROOF,
)
CONVERSION = Evidence(
    "renyi_bounds_the_curve",
    "delta(epsilon) <= E[e^{c (loss - epsilon)}] c^c / (1+c)^{1+c} for every c > 0; the Rényi divergence of order 1 + c gives "
    "the moment.",
    PROVED,
    "Canonne, Kamath, Steinke 2020, Prop. 12",
    _PROOF,
)
TOTAL_VARIATION = Evidence(
    "entropy_bounds_total_variation",
    "delta(0) <= sqrt(1 - e^-KL), and the relative entropy KL is at most the Rényi divergence of any order above 1.",
    PROVED,
    "Bretagnolle, Huber 1979",
    _PROOF,
)
RENYI_THEOREMS = (
    DOMINATES,
    REMOVE_HAS_MORE,
    ANY_NOISE_EXCHANGED,
    GAUSSIAN_EXCHANGED,
    CONVERSION,
    TOTAL_VARIATION,
)
