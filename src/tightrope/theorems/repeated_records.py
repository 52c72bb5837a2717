"""Bounds for a record that is in the dataset several times, under any of the three accounted samplings."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import comb

from tightrope.errors import NoTheorem
from tightrope.numerics.floats import floor_fraction
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import LEAST_RATE, EveryRecord, Poisson, Sampling, WithoutReplacement
from tightrope.theorems.evidence import PROVED, Evidence

MOST_COPIES = 64  # looked at from below: with more copies a lower end stays true
SMALLEST_DELTA = 1e-290  # asked of a curve
HALVINGS = 24  # of an interval of logarithms of delta
FIRST_STEP = 0.5  # down from the delta that is asked for, where such an interval is looked for
LOG_ABS_ERROR = 1e-9  # far above 2e-12, by which the logarithms below are off

_PROOF = "proofs/repeated_records.md"

COPIES_ONE_BY_ONE = Evidence(
    "copies_one_by_one",
    "m copies of a record are m neighbours in a row: if one is (epsilon, delta)-private, m are "
    "(m epsilon, (1 + e^epsilon + ... + e^((m-1) epsilon)) delta)-private.",
    PROVED,
    "group privacy; Vadhan 2017, Lemma 2.2",
    _PROOF,
)
COPIES_TOGETHER = Evidence(
    "copies_together",
    "m copies of a record move a sum by at most m times its norm; where j or more of them are drawn with "
    "probability p, Poisson sampling at rate p with noise s / j is reached.",
    PROVED,
    "proof note",
    _PROOF,
)
REPEATED_RECORD_THEOREMS = (COPIES_ONE_BY_ONE, COPIES_TOGETHER)


def bound_one_by_one(epsilon_above: Callable[[float], float], *, copies: int, delta: float) -> float:
    """epsilon at `delta` for `copies` records in a row; `epsilon_above` bounds that of one at any delta.

    (epsilon, d) for one gives (m epsilon, (1 + e^epsilon + ... + e^((m-1) epsilon)) d) for m. Any d that
    makes this at most delta is sound; the largest is looked for by bisection.

    Where a d fits, every logarithm is at most 668 in size, that of `SMALLEST_DELTA`. In units of u: ln delta
    is off by 8 of itself, its difference by 1, ln of the sum of powers by 10 of itself (a product 1, a
    logarithm 8, a sum 1) and 18 (two expm1 of 8 each, a product, a quotient), its product by 2, the last sum
    by 1, and d = e^log_delta by 8. That is 22 times 668 and 26: less than 2e-12.
    """
    target = math.log(delta) - LOG_ABS_ERROR

    def fits(log_delta: float) -> float | None:
        each = epsilon_above(math.exp(log_delta))
        return each if log_delta + _log_powers(each, copies) * (1 + LOG_ABS_ERROR) <= target else None

    # from the largest d down: smaller ones cost more epsilon, and where that grows fast none of them fits
    least, high, step = math.log(SMALLEST_DELTA), target, FIRST_STEP
    low, best = high, None
    while best is None and high > least:
        low, step = max(high - step, least), 1.5 * step
        best = fits(low)
        high = low if best is None else high
    if best is None:
        raise NoTheorem(f"no bound for a group of {copies:,} copies is known that a float can hold")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (found := fits(middle)) is None:
            high = middle
        else:
            low, best = middle, min(best, found)
    return math.nextafter(copies * best, math.inf)


def _log_powers(epsilon: float, copies: int) -> float:
    """ln of 1 + e^epsilon + ... + e^((m-1) epsilon)."""
    if epsilon < 1e-12 or math.isinf(epsilon):  # the quotient would be lost; no power exceeds the last
        return math.log(copies) + (copies - 1) * epsilon
    return (copies - 1) * epsilon + math.log(math.expm1(-copies * epsilon) / math.expm1(-epsilon))


def move_together(run: Run, *, copies: int) -> Run:
    """The run whose one record moves a sum as far as `copies` of it: full batches at noise s / copies."""
    return _with(run, EveryRecord(), Fraction(1, copies))


def witness_copies(run: Run, sampling: Poisson | WithoutReplacement, *, copies: int) -> Iterator[Run]:
    """Runs whose curves real datasets with that many copies of a record reach.

    Of m copies, j or more are drawn with probability p_j. Poisson sampling: under the same relation. Without
    replacement a copy pushes another record out and moves the sum by twice as much: curves of ADD and of
    REMOVE, reached under SUBSTITUTE too.
    """
    m, moves = min(copies, MOST_COPIES), 2 if isinstance(sampling, WithoutReplacement) else 1
    for j in sorted({*(2**i for i in range(m.bit_length())), m}):
        rate = floor_fraction(_at_least(j, m, sampling))
        if rate > 2 * LEAST_RATE and 1 - rate > 2 * LEAST_RATE:
            yield _with(run, Poisson(rate=rate), Fraction(1, moves * j))


def _at_least(j: int, m: int, sampling: Sampling) -> Fraction:
    """The probability that at least j of m records are in one batch."""
    if isinstance(sampling, WithoutReplacement):
        batch, others = sampling.batch, sampling.population - sampling.batch
        ways = sum(comb(m, i) * math.perm(batch, i) * math.perm(others, m - i) for i in range(j, m + 1))
        return Fraction(ways, math.perm(sampling.population, m))
    rate = sampling.exact_rate
    return sum((comb(m, i) * rate**i * (1 - rate) ** (m - i) for i in range(j, m + 1)), Fraction(0))


def _with(run: Run, sampling: Sampling, scale: Fraction) -> Run:
    parts = []
    for step, times in run:
        if not isinstance(step.mechanism, Gaussian):
            raise NoTheorem(
                "copies of a record that move a sum together have a theorem for Gaussian noise only"
            )
        noise = step.mechanism.exact_noise_multiplier * scale
        parts.append((Step(Gaussian(noise_multiplier=noise), sampling), times))
    return Run(tuple(parts))
