"""What a search for the best run costs: statements about the best of K runs."""

from tightrope.theorems.evidence import PROVED, Evidence

_PROOF = "proofs/tuning.md"

WORST_RANKS = Evidence(
    "best_of_a_random_number_of_runs",
    "If the best of K runs is published, K being truncated negative binomial or Poisson and secret, delta is "
    "at most the sum over outputs of what each can lose at its worst rank, which the curves of one run in "
    "both directions bound. Each run draws its candidate anew from one law, its score is a function of what "
    "it releases, and ties are broken by independent uniform draws.",
    PROVED,
    "proof note; never more than E[K] delta(epsilon - ln C) of Koskela, Redberg, Wang 2024",
    _PROOF,
)
FIXED_TRIALS = Evidence(
    "best_of_a_fixed_number_of_runs",
    "The best of a fixed number of runs, whatever chooses it, is a function of all of them: they compose. "
    "Each has passes of its own, and one that is only begun counts as a whole one.",
    PROVED,
    "by definition; Liu, Talwar 2019, section 1",
    _PROOF,
)
TUNING_THEOREMS = (WORST_RANKS, FIXED_TRIALS)
