"""The Discussion on dataset size: a private estimate must be biased down, not up, and what it all costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, UNDECIDED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import at_most, name_ends, save_rows, show
from tightrope.answers.private_size import PrivateSize, WholeEpsilon, least_shift, private_size
from tightrope.curve.digits import ends
from tightrope.numerics.confidence import Sample, chernoff

RECORDS, BATCH, STEPS, DELTA = 10_000, 100, 1000, 1e-5
MECHANISM = tr.Gaussian(noise_multiplier=2)
SIZES = (5_000, 8_000, 9_500, 9_900, RECORDS, 10_100, 10_500, 12_000, 20_000)
COSTS = (0.01, 0.1, 1.0)  # what the size's own release may cost
BETA = DELTA / 10
TRIED_EPSILON, TRIED_BETA, DRAWS, QUICK_DRAWS = 0.1, 0.05, 10_000, 2_000
FAILURE = 1e-9  # how often a sound law may miss the interval of its frequency: once in a billion
SEED = 20240530
NAME = "dataset-size"
PROOF = "../src/tightrope/theorems/proofs/dataset_size.md"


@dataclass(frozen=True)
class SizeReport:
    """What would be reported, at DELTA, by someone who takes the dataset for `size` records."""

    size: int
    epsilon: tr.Bracket


@dataclass(frozen=True)
class SizeTrial:
    """How often `draws` private sizes exceeded the true one, and whether that is what the law says."""

    by: str
    draws: int
    above: int

    @property
    def interval(self) -> tr.Bracket:
        """Where the probability lies, except in one case out of 1 / FAILURE."""
        above = np.array([[float(self.above)]])
        low, high = chernoff(Sample(np.array([float(self.draws)]), above, above), FAILURE)
        return tr.Bracket(float(low[0]), float(high[0]))

    def agrees(self) -> bool:
        """Whether the exact probability is in the interval."""
        return _tried().chance_above in self.interval


def report_size(size: int) -> SizeReport:
    """Batches of BATCH out of so many records."""
    run = tr.Step(MECHANISM, tr.WithoutReplacement(batch=BATCH, population=size)) * STEPS
    return SizeReport(size, tr.epsilon(run, delta=DELTA, relation=tr.ADD_OR_REMOVE))


def price(cost: float) -> WholeEpsilon:
    """The size's release and the run together, for the estimate in the middle of its law: noise 0."""
    shift = least_shift(epsilon=cost, beta=BETA)
    size = PrivateSize(estimate=RECORDS - shift, epsilon=cost, beta=BETA, shift=shift)
    return size.epsilon_with(MECHANISM, batch=BATCH, steps=STEPS, delta=DELTA)


def _tried() -> PrivateSize:
    return PrivateSize(
        estimate=RECORDS,
        epsilon=TRIED_EPSILON,
        beta=TRIED_BETA,
        shift=least_shift(epsilon=TRIED_EPSILON, beta=TRIED_BETA),
    )


def try_seeded(draws: int) -> SizeTrial:
    """From a seed, by the difference of two geometric numbers, which has the two-sided law."""
    share = -math.expm1(-TRIED_EPSILON)
    one, other = np.random.default_rng(SEED).geometric(share, size=(2, draws))
    return SizeTrial("from a seed", draws, int(np.sum(one - other > _tried().shift)))


def try_opendp(draws: int) -> SizeTrial:
    """By `private_size` itself, with OpenDP's noise; no two runs see the same."""
    sizes = [private_size(RECORDS, epsilon=TRIED_EPSILON, beta=TRIED_BETA).estimate for _ in range(draws)]
    return SizeTrial("by OpenDP", draws, sum(size > RECORDS for size in sizes))


def make(making: Making) -> Made:
    """Certify the direction, price the procedure, and try its promise."""
    found = [report_size(size) for size in making.each("sizes", SIZES)]
    costs = {cost: price(cost) for cost in making.each("costs", COSTS)}
    draws = QUICK_DRAWS if making.quick else DRAWS
    attempts = [try_seeded, *([try_opendp] if find_spec("opendp") else [])]
    trials = [attempt(draws) for attempt in making.each("draws", attempts)]
    setting = [str(BATCH), f"{MECHANISM.noise_multiplier:g}", str(STEPS), f"{DELTA:g}"]
    table = save_rows(
        making.folder / f"{NAME}.csv",
        ("records", "taken_for", "batch", "noise", "steps", "delta", *name_ends(["epsilon"])),
        ([RECORDS, report.size, *setting, *ends(report.epsilon)] for report in found),
    )
    return Made(_claims(found, costs, trials), (table,), passage=_passage(found, costs, trials))


def _truth(found: Sequence[SizeReport]) -> tr.Bracket:
    return next(report.epsilon for report in found if report.size == RECORDS)


def _is_valid(report: SizeReport, truth: tr.Bracket) -> bool | None:
    """Whether the report certainly bounds the truth, or certainly does not; None where brackets overlap."""
    if report.size == RECORDS or report.epsilon.lower >= truth.upper:
        return True
    return False if report.epsilon.upper < truth.lower else None


def _claims(
    found: Sequence[SizeReport], costs: dict[float, WholeEpsilon], trials: Sequence[SizeTrial]
) -> tuple[PaperClaim, ...]:
    truth = _truth(found)
    falls = all(small.epsilon.lower > large.epsilon.upper for small, large in pairwise(found))
    over = [report for report in found if report.size > RECORDS]
    under = [report for report in found if report.size < RECORDS]
    wrong_way = all(_is_valid(report, truth) is False for report in over) and all(
        _is_valid(report, truth) for report in under
    )
    right_way = all(_is_valid(report, truth) for report in over)
    grows = any(small.epsilon.upper < large.epsilon.lower for small, large in pairwise(found))
    example = next(report for report in over if report.size >= 1.2 * RECORDS)
    cost = 0.1
    kept = all(trial.agrees() for trial in trials)
    return (
        PaperClaim(
            "Discussion",
            "the privacy parameters decrease as a function of n",
            f"epsilon falls from {show(found[0].epsilon, 6)} at n = {found[0].size:,} to "
            f"{show(found[-1].epsilon, 6)} at n = {found[-1].size:,}, at each of {len(found)} sizes, and "
            "always (proof note)",
            AGREES if falls else CORRECTED if grows else UNDECIDED,
        ),
        PaperClaim(
            "Discussion",
            "the bound is valid when the private estimate is higher than the true n",
            f"true n = {RECORDS:,}: epsilon is in {show(truth, 6)}. Taken for {example.size:,} records it "
            f"is reported in {show(example.epsilon, 6)}, too small",
            CORRECTED if wrong_way else AGREES if right_way else UNDECIDED,
            "A larger n means a lower rate and a smaller epsilon, so an estimate above the true n "
            "under-reports. The bound is valid when the estimate is lower than the true n: it must be "
            "biased down, which also keeps the batch below the true size.",
        ),
        PaperClaim(
            "Discussion",
            "there is no consensus best practice for estimating n privately",
            f"private_size with epsilon {cost:g} and beta {BETA:g}: size and run together cost at most "
            f"{at_most(costs[cost].upper, 6)} at delta {DELTA:g}, where a public size would give "
            f"{at_most(truth.upper, 6)}; the estimate is too high with probability at most beta, by the "
            "exact law and in simulation",
            SHARPENED if kept else UNDECIDED,
        ),
    )


def _passage(
    found: Sequence[SizeReport], costs: dict[float, WholeEpsilon], trials: Sequence[SizeTrial]
) -> str:
    truth = _truth(found)
    words = {True: "yes", False: "**no**, too small", None: "not certain"}
    reports = [["taken for", "epsilon reported", "bounds the truth"]]
    reports += [[f"{r.size:,}", show(r.epsilon, 6), words[_is_valid(r, truth)]] for r in found]
    prices = [["epsilon of the size", "estimate", "whole, fixed before", "whole, chosen after"]]
    prices += [
        [
            f"{cost:g}",
            f"{RECORDS - least_shift(epsilon=cost, beta=BETA):,}",
            at_most(whole.upper, 6),
            at_most(whole.chosen_after, 6),
        ]
        for cost, whole in costs.items()
    ]
    return "\n\n".join(
        [
            f"**Which direction.** {RECORDS:,} records, batches of {BATCH}, noise "
            f"{MECHANISM.noise_multiplier:g}, {STEPS:,} steps, delta {DELTA:g}; what is reported by someone "
            "who takes the dataset for larger or smaller than it is:",
            markdown_table(reports),
            "**What to do.** `tightrope.private_size` releases n + Z - tau with two-sided geometric noise "
            "Z, too high with probability at most beta. The release is composed with the run and beta is "
            f"taken off delta ([why that is right]({PROOF})). In the table the noise happens to be 0, and "
            f"beta is {BETA:g}. *Fixed before*: noise, batch and steps did not depend on the estimate. "
            "*Chosen after*: they did, and then only the epsilons may be added.",
            markdown_table(prices),
            _tell_trials(trials),
        ]
    )


def _tell_trials(trials: Sequence[SizeTrial]) -> str:
    """Draws from a seed are told in numbers; of OpenDP's, others each time, only whether they agree."""
    size, (seeded, *others) = _tried(), trials
    inside = {True: "holds", False: "does not hold"}
    text = (
        f"**Tried.** At epsilon {size.epsilon:g} and beta {size.beta:g} the shift is {size.shift}, and the "
        f"exact probability of an estimate above n is {size.chance_above:.6f}. Of {seeded.draws:,} draws "
        f"from a seed {seeded.above:,} were above; the interval at confidence 1 - {FAILURE:g}, "
        f"{show(seeded.interval, 3)}, {inside[seeded.agrees()]} the exact probability."
    )
    if not others:
        return text + " OpenDP is not installed, so its noise was not tried."
    return text + f" The interval of as many releases {others[0].by} {inside[others[0].agrees()]} it too."


ITEM = Item(NAME, "Dataset size: a private estimate must be biased down", make)
