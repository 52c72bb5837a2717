"""What is true in a limit only, and so never part of a bracket."""

from tightrope.theorems.evidence import PROVED, Evidence

CENTRAL_LIMIT = Evidence(
    "gaussian_limit",
    "As steps grow and rates fall with steps rate^2 fixed, the trade-off function tends to that of two unit normals mu apart. "
    "A statement about a limit: at any number of steps the limit can be too small.",
    PROVED,
    "Dong, Roth, Su 2022, Thm 11; Bu, Dong, Long, Su 2020, Thm 5",
    "proofs/gaussian_limit.md",
)
