"""What is proved where batches are drawn in a way that has no row in the table: shuffled, weighted, drawn twice."""

from tightrope.theorems.evidence import PROVED, Evidence

_PROOF = "proofs/other_batchings.md"

REVEALED_BATCHES = Evidence(
    "revealed_batches",
    "If the indices of the batches do not depend on what the records hold, telling which batches hold the differing record "
    "can only help an adversary: those batches, composed as full ones, bound the run. No amplification.",
    PROVED,
    "proof note",
    _PROOF,
)
SPLIT_NOISE = Evidence(
    "split_noise",
    "A sum over m draws with Gaussian noise s is a function of the m sums with noise s / sqrt(m) each: m steps at that noise "
    "bound it.",
    PROVED,
    "proof note",
    _PROOF,
)
LARGEST_SUM = Evidence(
    "largest_sum",
    "Records that come once per epoch in a random batch: the largest of the epoch's noisy sums tells real neighbours apart.",
    PROVED,
    "proof note; the test is that of Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024",
    _PROOF,
)
BATCHING_THEOREMS = (REVEALED_BATCHES, SPLIT_NOISE, LARGEST_SUM)
