"""The Discussion on dataset size: a private estimate must be biased down, not up, and what the whole procedure then costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np

import tightrope as tr
from reproduction.paper.item import (
    AGREES,
    CORRECTED,
    SHARPENED,
    UNDECIDED,
    Claim,
    Item,
    Made,
    Making,
    markdown_table,
)
from reproduction.paper.number_files import at_most, shown
from tightrope.answers.private_size import PrivateSize, WholeEpsilon, least_shift, private_size
from tightrope.files import write_whole
from tightrope.numerics.confidence import chernoff
from tightrope.report.digits import ends

RECORDS, BATCH, STEPS, DELTA = 10_000, 100, 1000, 1e-5
MECHANISM = tr.Gaussian(noise_multiplier=2)
SIZES = (5_000, 8_000, 9_500, 9_900, RECORDS, 10_100, 10_500, 12_000, 20_000)
COSTS = (0.01, 0.1, 1.0)  # what the size's own release may cost
BETA = DELTA / 10
TRIED_EPSILON, TRIED_BETA, DRAWS, QUICK_DRAWS = 0.1, 0.05, 10_000, 2_000
DOUBT = 1e-9  # of the interval that must hold the frequency: a sound law fails it once in a billion
SEED = 20240530
NAME = "dataset-size"
PROOF = "../src/tightrope/theorems/proofs/dataset_size.md"


@dataclass(frozen=True)
class Reported:
    """What would be reported, at DELTA, by someone who takes the dataset for `size` records."""

    size: int
    epsilon: tr.Bracket


@dataclass(frozen=True)
class Trial:
    """How often `draws` private sizes exceeded the true one, and whether that is what the law says."""

    by: str
    draws: int
    above: int

    @property
    def interval(self) -> tr.Bracket:
        """Where the probability lies, except in one case out of 1 / DOUBT."""
        low, high = chernoff(self.draws, np.array([float(self.above)]), DOUBT)
        return tr.Bracket(float(low[0]), float(high[0]))

    def agrees(self) -> bool:
        """Whether the exact probability is in the interval."""
        return _tried().chance_above in self.interval


def reported(size: int) -> Reported:
    """Batches of BATCH out of so many records."""
    run = tr.Step(MECHANISM, tr.WithoutReplacement(batch=BATCH, population=size)) * STEPS
    return Reported(size, tr.epsilon(run, delta=DELTA, relation=tr.ADD_OR_REMOVE))


def whole(cost: float) -> WholeEpsilon:
    """The size's release and the run together, for an estimate in the middle of its law: noise 0, minus the shift."""
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


def drawn(draws: int) -> Trial:
    """From a seed, by the difference of two geometric numbers, which has the two-sided law."""
    share = -math.expm1(-TRIED_EPSILON)
    one, other = np.random.default_rng(SEED).geometric(share, size=(2, draws))
    return Trial("from a seed", draws, int(np.sum(one - other > _tried().shift)))


def released(draws: int) -> Trial:
    """By `private_size` itself, with OpenDP's noise; no two runs see the same."""
    sizes = [private_size(RECORDS, epsilon=TRIED_EPSILON, beta=TRIED_BETA).estimate for _ in range(draws)]
    return Trial("by OpenDP", draws, sum(size > RECORDS for size in sizes))


def make(making: Making) -> Made:
    """Certify the direction, price the procedure, and try its promise."""
    pieces = len(SIZES) + len(COSTS) + 1
    found, costs = [], {}
    for done, size in enumerate(SIZES):
        making.progress("sizes", done, pieces)
        found.append(reported(size))
    for done, cost in enumerate(COSTS, start=len(SIZES)):
        making.progress("costs", done, pieces)
        costs[cost] = whole(cost)
    making.progress("draws", pieces - 1, pieces)
    draws = QUICK_DRAWS if making.quick else DRAWS
    trials = [drawn(draws), *([released(draws)] if find_spec("opendp") else [])]
    making.progress("draws", pieces, pieces)
    table = making.folder / f"{NAME}.csv"
    write_whole(table, _rows(found).encode(), what="the reports")
    return Made(_claims(found, costs, trials), (table,), passage=_passage(found, costs, trials))


def _rows(found: Sequence[Reported]) -> str:
    lines = ["records,taken_for,batch,noise,steps,delta,epsilon_lower,epsilon_upper"]
    setting = f"{BATCH},{MECHANISM.noise_multiplier:g},{STEPS},{DELTA:g}"
    lines += [f"{RECORDS},{report.size},{setting},{','.join(ends(report.epsilon))}" for report in found]
    return "\n".join(lines) + "\n"


def _truth(found: Sequence[Reported]) -> tr.Bracket:
    return next(report.epsilon for report in found if report.size == RECORDS)


def _is_valid(report: Reported, truth: tr.Bracket) -> bool | None:
    """Whether the report certainly is a bound on the truth, or certainly is not; None where the brackets overlap."""
    if report.size == RECORDS or report.epsilon.lower >= truth.upper:
        return True
    return False if report.epsilon.upper < truth.lower else None


def _claims(
    found: Sequence[Reported], costs: dict[float, WholeEpsilon], trials: Sequence[Trial]
) -> tuple[Claim, ...]:
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
    cost, price = next((cost, price) for cost, price in costs.items() if cost == 0.1)
    kept = all(trial.agrees() for trial in trials)
    return (
        Claim(
            "Discussion",
            "the privacy parameters decrease as a function of n",
            f"epsilon falls from {shown(found[0].epsilon, 6)} at n = {found[0].size:,} to "
            f"{shown(found[-1].epsilon, 6)} at n = {found[-1].size:,}, at each of {len(found)} sizes, and "
            "always (proof note)",
            AGREES if falls else CORRECTED if grows else UNDECIDED,
        ),
        Claim(
            "Discussion",
            "the bound is valid when the private estimate is higher than the true n",
            f"true n = {RECORDS:,}: epsilon is in {shown(truth, 6)}. Taken for {example.size:,} records it "
            f"is reported in {shown(example.epsilon, 6)}, too small",
            CORRECTED if wrong_way else AGREES if right_way else UNDECIDED,
            "A larger n means a lower rate and a smaller epsilon, so an estimate above the true n "
            "under-reports. The bound is valid when the estimate is lower than the true n: it must be "
            "biased down, which also keeps the batch below the true size.",
        ),
        Claim(
            "Discussion",
            "there is no consensus best practice for estimating n privately",
            f"private_size with epsilon {cost:g} and beta {BETA:g}: size and run together cost at most "
            f"{at_most(price.upper, 6)} at delta {DELTA:g}, where a public size would give "
            f"{at_most(truth.upper, 6)}; the estimate is too high with probability at most beta, by the "
            "exact law and in simulation",
            SHARPENED if kept else UNDECIDED,
        ),
    )


def _passage(found: Sequence[Reported], costs: dict[float, WholeEpsilon], trials: Sequence[Trial]) -> str:
    truth = _truth(found)
    words = {True: "yes", False: "**no**, too small", None: "not certain"}
    reports = [["taken for", "epsilon reported", "bounds the truth"]]
    reports += [[f"{r.size:,}", shown(r.epsilon, 6), words[_is_valid(r, truth)]] for r in found]
    prices = [["epsilon of the size", "estimate", "whole, fixed before", "whole, chosen after"]]
    prices += [_price(cost, price) for cost, price in costs.items()]
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
            _tried_in_words(trials),
        ]
    )


def _price(cost: float, price: WholeEpsilon) -> list[str]:
    estimate = RECORDS - least_shift(epsilon=cost, beta=BETA)
    return [f"{cost:g}", f"{estimate:,}", at_most(price.upper, 6), at_most(price.chosen_after, 6)]


def _tried_in_words(trials: Sequence[Trial]) -> str:
    """What is drawn from a seed is told in numbers; OpenDP's draws are others each time, so only whether they agree is told."""
    size, (seeded, *others) = _tried(), trials
    inside = {True: "holds", False: "does not hold"}
    text = (
        f"**Tried.** At epsilon {size.epsilon:g} and beta {size.beta:g} the shift is {size.shift}, and the "
        f"exact probability of an estimate above n is {size.chance_above:.6f}. Of {seeded.draws:,} draws "
        f"from a seed {seeded.above:,} were above; the interval at confidence 1 - {DOUBT:g}, "
        f"[{seeded.interval.lower:.4f}, {seeded.interval.upper:.4f}], {inside[seeded.agrees()]} the exact "
        "probability."
    )
    if not others:
        return text + " OpenDP is not installed, so its noise was not tried."
    return text + f" The interval of as many releases {others[0].by} {inside[others[0].agrees()]} it too."


ITEM = Item(NAME, "Dataset size: a private estimate must be biased down", make)
