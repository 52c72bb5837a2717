"""Conjecture 12, that for Gaussian noise REMOVE is nowhere below ADD: a theorem, and swept for holes."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper.item import AGREES, SHARPENED, UNDECIDED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import save_rows
from tightrope.setting.plain import spell
from tightrope.setting.sampling import Sampling

NOISES = (0.5, 0.8, 1.0, 1.5, 2.0, 4.0, 8.0)
RATES = (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
STEPS = (1, 2, 3, 10, 100, 1000, 10_000, 100_000)
RARE = ((1.0, 4.0), (1e-4,), (1, 2, 3, 10))  # lower rates take seconds where steps are few
BATCHES, BATCH_NOISES, BATCH_STEPS = ((1, 100), (1, 10), (1, 2)), (1.0, 4.0), (2, 100, 10_000)
QUICK_GRID = ((1.0, 4.0), (0.01, 0.5), (1, 2, 100))

FIRST_DELTA, LAST_DELTA = 0.99, 1e-12  # between them a curve says something
CLOSE_TO_ZERO = (0.002, 0.02)  # of the largest epsilon: there the curves have hardly parted
EVENLY = 10
ACCURACY, FINER = 1e-4, 1e-8

CSV = "conjecture-12.csv"
PROOF = "../src/tightrope/theorems/proofs/gaussian_remove_dominates_add.md"


@dataclass(frozen=True)
class SweptRun:
    """One run whose two directions are compared."""

    noise: float
    sampling: Sampling
    steps: int

    @property
    def run(self) -> tr.Run:
        """The steps."""
        return tr.Step(tr.Gaussian(noise_multiplier=self.noise), self.sampling) * self.steps

    def __str__(self) -> str:
        sampling = f"{spell(type(self.sampling))}, rate {self.sampling.rate:g}"
        return f"noise {self.noise:g}, {sampling}, {self.steps:,} steps"


@dataclass(frozen=True)
class SweptPoints:
    """What the brackets say about one setting, in numbers of epsilons.

    `proved`: REMOVE's lower end is at least ADD's upper end; `finer` of these took an accuracy of FINER.
    `equal`: epsilon 0, where both are the total variation distance and the brackets overlap as they must.
    `undecided` and `refused` list the epsilons where the brackets overlap, or where one of them could not be
    certified.
    """

    setting: SweptRun
    proved: int
    finer: int
    equal: int
    undecided: tuple[float, ...]
    refused: tuple[float, ...]

    @property
    def points(self) -> int:
        """All epsilons that were asked at."""
        return self.proved + self.equal + len(self.undecided) + len(self.refused)


def choose_settings(quick: bool) -> list[SweptRun]:
    """Poisson sampling on a wide grid, and some batches of a fixed size."""
    if quick:
        return [*_poisson(*QUICK_GRID), SweptRun(1.0, tr.WithoutReplacement(batch=1, population=10), 100)]
    batches = [
        SweptRun(noise, tr.WithoutReplacement(batch=batch, population=population), steps)
        for (batch, population), noise, steps in itertools.product(BATCHES, BATCH_NOISES, BATCH_STEPS)
    ]
    return [*_poisson(NOISES, RATES, STEPS), *_poisson(*RARE), *batches]


def _poisson(noises: Sequence[float], rates: Sequence[float], steps: Sequence[int]) -> Iterator[SweptRun]:
    for noise, rate, count in itertools.product(noises, rates, steps):
        yield SweptRun(noise, tr.Poisson(rate=rate), count)


def examine(setting: SweptRun) -> SweptPoints:
    """Both directions of one setting, bracketed separately at every epsilon."""
    coarse, fine = Directions(setting, ACCURACY), Directions(setting, FINER)
    proved, finer, equal = 0, 0, 0
    undecided: list[float] = []
    refused: list[float] = []
    for epsilon in _epsilons(coarse.remove):
        certain = coarse.remove_is_above(epsilon)
        if epsilon == 0 and certain is not None:
            equal += 1
        elif certain:
            proved += 1
        elif fine.remove_is_above(epsilon):
            proved, finer = proved + 1, finer + 1
        else:
            (refused if certain is None else undecided).append(epsilon)
    return SweptPoints(setting, proved, finer, equal, tuple(undecided), tuple(refused))


def _epsilons(remove: tr.PrivacyCurve) -> list[float]:
    """0, and where REMOVE's delta runs from FIRST_DELTA, or from epsilon close to 0, to LAST_DELTA."""
    first, last = remove.epsilon(FIRST_DELTA).upper, remove.epsilon(LAST_DELTA).upper
    start = [first] if first > 0 else [fraction * last for fraction in CLOSE_TO_ZERO]
    return [0.0, *start, *(first + (last - first) * place / EVENLY for place in range(1, EVENLY + 1))]


class Directions:
    """The two curves of one setting, asked at growing epsilons."""

    def __init__(self, setting: SweptRun, accuracy: float) -> None:
        self.setting = setting
        self.add, self.remove = (
            tr.privacy_curve(setting.run, relation=relation, by=tr.Certified(accuracy=accuracy))
            for relation in (tr.ADD, tr.REMOVE)
        )
        self._added_at_most = 0.0

    def remove_is_above(self, epsilon: float) -> bool | None:
        """Whether the brackets prove it; None without a bracket. A proof of the opposite is an error."""
        try:
            removed, added = self.remove.log_delta(epsilon), self._added(epsilon)
        except tr.NotPreciseEnough:
            return None
        if removed.upper < added.lower or (epsilon == 0 and added.upper < removed.lower):
            raise ArithmeticError(
                f"{self.setting}, epsilon {epsilon!r}: ln delta is in {removed} under REMOVE and in {added} "
                "under ADD, against the theorem. Either the proof has a hole or a bracket is wrong."
            )
        return removed.lower >= added.upper

    def _added(self, epsilon: float) -> tr.Bracket:
        """ln delta under ADD; where it is out of reach, near the largest loss, the last bound still holds."""
        try:
            found = self.add.log_delta(epsilon)
        except tr.NotPreciseEnough:
            return tr.Bracket(-math.inf, self._added_at_most)
        self._added_at_most = found.upper
        return found


def make(making: Making) -> Made:
    """Sweep, count, and retell the proof."""
    outcomes = making.work_through("settings", examine, choose_settings(making.quick))
    counts = "points,proved,proved_at_finer_accuracy,equal_at_0,undecided,refused,contradicted"
    heading = ["sampling", "noise", "rate", "steps", *counts.split(",")]
    table = save_rows(making.folder / CSV, heading, map(_row, outcomes))
    return Made(_claims(outcomes), (table,), passage=_passage(outcomes))


def _row(found: SweptPoints) -> list[object]:
    run = found.setting
    described = [spell(type(run.sampling)), f"{run.noise:g}", f"{run.sampling.rate:g}", run.steps]
    left_open = [len(found.undecided), len(found.refused)]
    return [*described, found.points, found.proved, found.finer, found.equal, *left_open, 0]


@dataclass(frozen=True)
class _Total:
    settings: int
    points: int
    proved: int
    finer: int
    equal: int
    undecided: int
    refused: int


def _total(outcomes: Sequence[SweptPoints]) -> _Total:
    return _Total(
        len(outcomes),
        sum(found.points for found in outcomes),
        sum(found.proved for found in outcomes),
        sum(found.finer for found in outcomes),
        sum(found.equal for found in outcomes),
        sum(len(found.undecided) for found in outcomes),
        sum(len(found.refused) for found in outcomes),
    )


def _claims(outcomes: Sequence[SweptPoints]) -> tuple[PaperClaim, ...]:
    """A point that contradicts has ended the sweep before; with nothing proved nothing is claimed."""
    total = _total(outcomes)
    some = total.proved > 0
    return (
        PaperClaim(
            "Conjecture 12",
            "Gaussian noise, every noise, steps, rate and epsilon >= 0: the REMOVE curve is at least the "
            "ADD curve",
            "a theorem, also for batches without replacement, mixed steps and adaptive queries, and strict "
            "for epsilon > 0 and rates strictly between 0 and 1",
            SHARPENED if some else UNDECIDED,
        ),
        PaperClaim(
            "Sec. 5, before Conjecture 12",
            "a search of a wide range of parameters found no counterexample",
            f"none at {total.points:,} points of {total.settings} settings: {total.proved:,} proved by "
            f"brackets, {total.equal:,} equal at epsilon 0, {total.undecided:,} undecided, "
            f"{total.refused:,} refused, 0 contradicted",
            AGREES if some else UNDECIDED,
        ),
    )


def _passage(outcomes: Sequence[SweptPoints]) -> str:
    total = _total(outcomes)
    return "\n\n".join(
        [
            f"Both directions are bracketed separately for {total.settings} settings, at epsilon 0 and from "
            f"where REMOVE's delta is {FIRST_DELTA:g} (or epsilon is close to 0) to where it is "
            f"{LAST_DELTA:g}. A point is *proved* when REMOVE's lower end is at least ADD's upper end, or "
            "ADD's at a smaller epsilon where its own is out of reach. At epsilon 0 both curves are the "
            "total variation distance, which is symmetric: there the brackets must overlap, and do, "
            f"{total.equal:,} times. {_left_open(outcomes)}",
            _by_steps(outcomes),
            RETOLD,
        ]
    )


def _left_open(outcomes: Sequence[SweptPoints]) -> str:
    total = _total(outcomes)
    if not total.undecided + total.refused + total.finer:
        return f"An accuracy of {ACCURACY:g} decides every other point."
    finer = (
        f"An accuracy of {FINER:g} instead of {ACCURACY:g} was needed, and enough, for {total.finer:,} of "
        "the proved points."
    )
    if not total.undecided + total.refused:
        return f"{finer} No other point is left open."
    named = [
        f"{len(left)} at {found.setting} ({_span(left)}{how})"
        for kind, how in (("undecided", ""), ("refused", "; refused"))
        for found in outcomes
        if (left := getattr(found, kind))
    ]
    return f"{finer} Left open: {'; '.join(named)}."


def _span(epsilons: Sequence[float]) -> str:
    low, high = min(epsilons), max(epsilons)
    return f"epsilon {low:.3g}" if low == high else f"epsilon {low:.3g} to {high:.3g}"


def _by_steps(outcomes: Sequence[SweptPoints]) -> str:
    counted = ("settings", "points", "proved", "equal (epsilon 0)", "undecided", "refused", "contradicted")
    rows = [["sampling", "steps", *counted]]
    keys = sorted({(spell(type(found.setting.sampling)), found.setting.steps) for found in outcomes})
    for sampling, steps in keys:
        among = [
            f for f in outcomes if (spell(type(f.setting.sampling)), f.setting.steps) == (sampling, steps)
        ]
        total = _total(among)
        counts = (total.settings, total.points, total.proved, total.equal, total.undecided, total.refused, 0)
        rows.append([sampling, f"{steps:,}", *(f"{count:,}" for count in counts)])
    return markdown_table(rows)


RETOLD = f"""\
**Why it is true** ([the proof in full]({PROOF})). Let Q = N(0, I) on R^k, one coordinate per step, and let P
be the law with the record: multiplying out, a mixture of Gaussians with the same covariance. REMOVE is
H_t(P||Q) and ADD is H_t(Q||P), with t = e^epsilon >= 1.

1. The loss X = ln dP/dQ is the logarithm of an average of exponentials of linear functions of the output, so
   it is *convex*.
2. Hence the sets {{X <= c}} are convex, and moving between two of them moves c linearly. Ehrhard's inequality
   turns that into: under Q, X is distributed as q(Z), Z standard normal, with q nondecreasing and *convex*,
   and E e^q(Z) = 1.
3. For one Gaussian against another, q is a straight line r(z) = l z - l^2/2. Choose its slope l such that
   both have the same divergence at order t: E(e^r - t)_+ = E(e^q - t)_+.
4. Let D(K) = E(K - e^q)_+ - E(K - e^r)_+. It is 0 at K = 0, at infinity (both means are 1) and at t. A convex
   function and a line cross at most twice: q - r has signs +, -, + (fewer crossings would leave D no zero
   inside, unless q = r), so D falls, rises and falls. Hence D <= 0 up to a single zero, which is t, and D >=
   0 after it.
5. As 1/t <= t, D(1/t) <= 0. Multiplied by t: H_t(Q||P) = E(1 - t e^q)_+ <= E(1 - t e^r)_+. The right side is
   a divergence of two Gaussians, which a reflection exchanges, so it equals E(e^r - t)_+ = E(e^q - t)_+ =
   H_t(P||Q). That is ADD <= REMOVE.

Where the loss is not convex, as for Laplace noise and randomized response, step 1 fails, and so does the
statement."""

ITEM = Item("conjecture-12", "Conjecture 12: for Gaussian noise REMOVE is the worse direction", make)
