"""The number of records, where it is private itself."""

from tightrope.theorems.evidence import PROVED, Evidence

BIASED_DOWN = Evidence(
    "size_biased_down",
    "A private size that is at most the true one, except with probability beta, bounds the curve of batches without replacement "
    "at delta - beta.",
    PROVED,
    "proof note; the direction of the bias corrects Lebeda, Regehr, Kamath, Steinke 2024, Discussion",
    "proofs/dataset_size.md",
)
