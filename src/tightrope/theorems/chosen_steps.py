"""Steps chosen after looking at earlier outputs: what a declared menu bounds, what is free, what is false."""

from tightrope.theorems.evidence import PROVED, Evidence
from tightrope.theorems.table import refute

_NOTE = "proofs/chosen_on_the_way.md"

MENU_GAME = Evidence(
    "menu_game",
    "Entries of a declared menu, each at a declared cost, chosen after any outputs while their costs fit a "
    "declared total: the curve is at most the value of the game V_B(epsilon) = max over entries of "
    "E V_{B - cost}(epsilon - loss) over the entries' dominating pairs.",
    PROVED,
    "proof note",
    _NOTE,
)
GAUSSIAN_FILTER = Evidence(
    "gaussian_filter_is_free",
    "Full batches with Gaussian noise, chosen after any outputs while their squared separations add up to "
    "at most mu^2: the curve is at most that of two normals mu apart, as if they had been fixed in advance.",
    PROVED,
    "Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023; proof note",
    _NOTE,
)
RENYI_FILTER = Evidence(
    "renyi_filter_at_a_fixed_order",
    "Steps chosen after any outputs while their Rényi divergences of one order, fixed in advance, add up to "
    "at most a total fixed in advance: the whole has at most that divergence.",
    PROVED,
    "Feldman, Zrnic 2021; Lécuyer 2021; proof note",
    _NOTE,
)
EARLY_STOPPING = Evidence(
    "stopping_early_is_free",
    "A schedule fixed in advance may be stopped after any output: what was released is a function of what "
    "the whole schedule would have released, and its curve bounds it. The curve of the steps that were taken "
    "does not.",
    PROVED,
    "processing; proof note",
    _NOTE,
)
CHOSEN_STEP_THEOREMS = (MENU_GAME, GAUSSIAN_FILTER, RENYI_FILTER, EARLY_STOPPING)

refute(
    name="what_was_recorded_composes",
    belief="Composing the steps that were recorded gives a valid bound, whatever made one choose them.",
    counterexample="a full batch at noise 3, then a full batch at noise 2.668 or Poisson sampling at rate "
    "1e-4 and noise 0.267, chosen after the first output: composed, either run has delta(2) = 1.00e-5, and "
    "the choice reaches 1.86e-5; at delta 1e-5 its epsilon is 2.217.",
    reference="natural filters fail: preprints arXiv 2602.06756 and 2602.15815; numbers: proof note",
    proof=_NOTE,
)
