"""Intervals for the mean of numbers in [0, 1] hold as often as they say; a smaller one would be noticed."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx

from tightrope.numerics import confidence
from tightrope.numerics.balls import ball
from tightrope.numerics.confidence import Limits, Sample, betting, chernoff, hoeffding
from tightrope.numerics.floats import Floats

BETA = 0.2
REPETITIONS = 3000
# so many repetitions in 3000 fail less than once in 2000 tests, if each fails with probability BETA
MOST_MISSES = BETA * REPETITIONS + 3.3 * math.sqrt(REPETITIONS * BETA * (1 - BETA))
CHUNKS = np.array([20, 20, 40, 80, 140])

Law = Callable[[np.random.Generator, tuple[int, int]], Floats]


def coin(p: float) -> Law:
    """Of all laws with mean p the one with the largest variance: what Hoeffding and Chernoff are made for."""
    return lambda rng, shape: (rng.random(shape) < p).astype(float)


def narrow(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.where(rng.random(shape) < 0.5, 0.45, 0.55)


def rare(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Small but for 1 in 50: as the weights of a tilted simulation are."""
    return np.where(rng.random(shape) < 0.02, 1.0, 0.02 * rng.random(shape))


LAWS: dict[str, tuple[Law, float]] = {
    "fair coin": (coin(0.5), 0.5),
    "biased coin": (coin(0.03), 0.03),
    "likely coin": (coin(0.96), 0.96),
    "narrow": (narrow, 0.5),
    "rare": (rare, 0.02 + 0.98 * 0.01),
}


def limits_after(method: str, values: Floats, chunks: int = len(CHUNKS)) -> Limits:
    """What a method says after so many chunks; columns are repetitions."""
    ends = np.cumsum(CHUNKS)
    sums = np.add.reduceat(values, np.append(0, ends[:-1]), axis=0)
    squares = np.add.reduceat(values**2, np.append(0, ends[:-1]), axis=0)
    sample = Sample(CHUNKS[:chunks].astype(float), sums[:chunks], squares[:chunks])
    if method == "betting":
        return betting(sample, BETA, int(ends[-1]))
    return {"hoeffding": hoeffding, "chernoff": chernoff}[method](sample, BETA)


def of_fifty(*totals: float) -> Sample:
    return Sample(np.array([50.0]), np.array([totals]), np.array([totals]))


def drawn(law: str) -> tuple[Floats, float]:
    source, mean = LAWS[law]
    return source(np.random.default_rng(7), (int(CHUNKS.sum()), REPETITIONS)), mean


def misses(limits: Limits, mean: float, *, shrunk_to: float = 1.0) -> int:
    low, high = limits
    middle, half = (low + high) / 2, (high - low) / 2 * shrunk_to
    return int(((mean < middle - half) | (mean > middle + half)).sum())


@pytest.mark.parametrize("method", ["hoeffding", "chernoff", "betting"])
@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold_as_often_as_they_say(method: str, law: str) -> None:
    values, mean = drawn(law)
    assert misses(limits_after(method, values), mean) <= MOST_MISSES


@pytest.mark.parametrize(
    ("method", "law"),
    [("hoeffding", "fair coin"), ("chernoff", "biased coin"), ("betting", "fair coin"), ("betting", "rare")],
)
def test_a_smaller_interval_would_be_noticed(method: str, law: str) -> None:
    values, mean = drawn(law)
    assert misses(limits_after(method, values), mean, shrunk_to=0.45) > MOST_MISSES


@pytest.mark.parametrize("law", LAWS)
def test_betting_holds_at_all_times_at_once(law: str) -> None:
    values, mean = drawn(law)
    missed = np.zeros(REPETITIONS, dtype=bool)
    for chunks in range(1, len(CHUNKS) + 1):
        low, high = limits_after("betting", values, chunks)
        missed |= (mean < low) | (mean > high)
    assert missed.sum() <= MOST_MISSES


def test_each_limit_alone_fails_at_half_the_rate() -> None:
    values, mean = drawn("rare")
    low, high = limits_after("betting", values)
    most = BETA / 2 * REPETITIONS + 3.3 * math.sqrt(REPETITIONS * BETA / 2)
    assert (mean < low).sum() <= most
    assert (mean > high).sum() <= most


def test_a_bet_knows_earlier_chunks_only() -> None:
    rng = np.random.default_rng(1)
    sums, counts = rng.random((6, 3)) * 50, np.full(6, 50.0)
    squares = sums * 0.6
    bets = confidence._bets(counts, sums, squares, 3.0, 300)
    for t in range(6):
        changed, changed_squares = sums.copy(), squares.copy()
        changed[t:], changed_squares[t:] = 1.0, 0.5
        assert (confidence._bets(counts, changed, changed_squares, 3.0, 300)[: t + 1] == bets[: t + 1]).all()
    assert (bets[0] == min(math.sqrt(2 * 3.0 / (300 * 0.25)), confidence.BOLDEST_BET)).all()


def test_the_inequality_behind_the_bets() -> None:
    for bet in (0.01, 0.1, 0.3, 0.5):
        y = np.linspace(-bet, 3, 4001)
        cost = -math.log1p(-bet) - bet
        assert (np.log1p(y) >= y - cost * y**2 / bet**2 - 1e-15).all()
    cost = -math.log1p(-confidence.BOLDEST_BET) - confidence.BOLDEST_BET
    assert 2 * cost < confidence.BOLDEST_BET  # so the capital falls as the mean that is tested grows


def test_betting_excludes_just_where_the_capital_is_large() -> None:
    rng = np.random.default_rng(3)
    values = rng.random((300, 1)) ** 4
    ends = np.cumsum(CHUNKS)
    sums = np.add.reduceat(values, np.append(0, ends[:-1]), axis=0)
    squares = np.add.reduceat(values**2, np.append(0, ends[:-1]), axis=0)
    low, high = betting(Sample(CHUNKS.astype(float), sums, squares), 0.01, 300)
    bets = confidence._bets(CHUNKS.astype(float), sums, squares, math.log(200), 300)

    def log_capital(mean: float, sign: int) -> float:
        bet = np.repeat(bets[:, 0], CHUNKS)
        gap = values[:, 0] - mean
        return float((sign * bet * gap + (np.log1p(-bet) + bet) * gap**2).sum())

    assert log_capital(float(low[0]), 1) == pytest.approx(math.log(200), rel=1e-9)
    assert log_capital(float(high[0]), -1) == pytest.approx(math.log(200), rel=1e-9)
    assert log_capital(float(low[0]) - 0.01, 1) > math.log(200) > log_capital(float(low[0]) + 0.01, 1)
    assert log_capital(float(high[0]) + 0.01, -1) > math.log(200) > log_capital(float(high[0]) - 0.01, -1)


def test_widths_are_what_theory_says() -> None:
    n, beta = 100_000, 0.01
    counts = np.full(50, n / 50)
    rng = np.random.default_rng(0)
    for law, variance in ((narrow, 0.05**2), (rare, 0.02 - 0.0298**2 + 0.98 * 0.0004 / 3)):
        values = law(rng, (n, 1))
        sums, squares = (
            values.reshape(50, -1).sum(axis=1)[:, None],
            (values**2).reshape(50, -1).sum(axis=1)[:, None],
        )
        widths = []
        for low, high in (
            betting(Sample(counts, sums, squares), beta, n),
            chernoff(Sample(counts, sums, squares), beta),
            hoeffding(Sample(counts, sums, squares), beta),
        ):
            assert low[0] < values.mean() < high[0]
            widths.append(float(high[0] - low[0]))
        assert widths[0] < widths[1] < widths[2]
        assert widths[0] == pytest.approx(2 * math.sqrt(2 * variance * math.log(2 / beta) / n), rel=0.1)
        p = values.mean()
        assert widths[1] == pytest.approx(2 * math.sqrt(2 * p * (1 - p) * math.log(2 / beta) / n), rel=0.1)
        assert widths[2] == pytest.approx(2 * math.sqrt(math.log(2 / beta) / (2 * n)), rel=1e-9)


def test_chernoff_is_exact_where_all_draws_agree() -> None:
    low, high = chernoff(of_fifty(0.0, 50.0), 0.02)
    assert (1 - high[0]) ** 50 == pytest.approx(0.01, rel=1e-9)
    assert low[1] ** 50 == pytest.approx(0.01, rel=1e-9)
    assert (low[0], high[1]) == (0.0, 1.0)


@pytest.mark.parametrize("total", [1.0, 3.0, 40.0, 49.0])
def test_chernoff_solves_its_equation_from_outside(total: float) -> None:
    low, high = chernoff(of_fifty(total), 0.02)
    mean = total / 50
    for p in (float(low[0]), float(high[0])):
        entropy = mean * math.log(mean / p) + (1 - mean) * math.log((1 - mean) / (1 - p))
        assert math.log(100) <= 50 * entropy <= math.log(100) * (1 + 1e-5)
    assert low[0] < mean < high[0]


def test_chernoff_excludes_nothing_that_a_tiny_mean_allows() -> None:
    low, high = chernoff(of_fifty(1e-9), 0.02)
    assert low[0] == 0
    assert high[0] == pytest.approx(1 - 0.01 ** (1 / 50), rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.25])
def test_constant_draws_give_narrow_intervals_inside_the_unit_interval(value: float) -> None:
    counts = np.full(20, 5000.0)
    sums = value * counts[:, None]
    low, high = betting(Sample(counts, sums, value * sums), 0.01, 100_000)
    assert 0 <= low[0] <= value <= high[0] <= 1
    assert high[0] - low[0] < 5 * math.log(200) / 100_000


@pytest.mark.parametrize("total", [0.0, 1e-300, 3e-7, 0.25, 1 / 3, 0.7, 1 - 1e-15, 1.0])
@pytest.mark.parametrize("draws", [1, 1000, 10**12])
def test_limits_are_certain_whatever_the_rounding(total: float, draws: int) -> None:
    """In balls: each interval's own inequality holds at its limits, for every sum within the errors."""
    share = 2.0**-40
    sums = np.array([[total * draws]])
    sample = Sample(np.array([float(draws)]), sums, sums * total, share * sums, share * sums)
    goal = ball(2 / Fraction(0.001)).log()
    with ctx.workprec(300):
        ends = [Fraction(total) * draws * (1 + sign * Fraction(share)) / draws for sign in (-1, 1)]
        low, high = (Fraction(float(limit[0])) for limit in hoeffding(sample, 0.001))
        half = (goal / (2 * draws)).sqrt()
        assert low == 0 or ball(ends[0] - low) >= half
        assert high == 1 or ball(high - ends[1]) >= half
        low, high = (Fraction(float(limit[0])) for limit in chernoff(sample, 0.001))
        assert low == 0 or draws * entropy(max(ends[0], Fraction(0)), low) >= goal
        assert high == 1 or draws * entropy(min(ends[1], Fraction(1)), high) >= goal
        low, high = (Fraction(float(limit[0])) for limit in betting(sample, 0.001, draws))
        bet = Fraction(
            float(
                confidence._bets(sample.counts, sums, sums * total, confidence._log_odds(0.001), draws)[0, 0]
            )
        )
        cost = -ball(-bet).log1p() - ball(bet)
        for sum_share, square_share in product((-1, 1), (-1, 1)):
            s = min(Fraction(float(sums[0, 0])) * (1 + sum_share * Fraction(share)), Fraction(draws))
            q = Fraction(float(sums[0, 0] * total)) * (1 + square_share * Fraction(share))
            for m, sign, limit in ((low, 1, 0), (high, -1, 1)):
                spread = q - 2 * m * s + draws * m * m
                won = sign * ball(bet * (s - draws * m)) - cost * ball(spread)
                assert m == limit or won >= goal


def entropy(m: Fraction, p: Fraction) -> arb:
    first = ball(m) * ball(m / p).log() if m else arb(0)
    return first + (ball(1 - m) * ball((1 - m) / (1 - p)).log() if m < 1 else arb(0))
