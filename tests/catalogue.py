"""Runs over which the laws are tested: every mechanism and sampling, rates from 1e-5, noise 0.3 to 10."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

import tightrope as tr
from tightrope.setting.sampling import Sampling


@dataclass(frozen=True)
class Entry:
    """A run with a theorem under ADD and REMOVE, its name, and epsilons at which its curves say something."""

    name: str
    run: tr.Run
    epsilons: tuple[float, ...]


def poisson(rate: float | Fraction) -> Sampling:
    return tr.Poisson(rate=rate)


def batch(batch: int, population: int) -> Sampling:
    return tr.WithoutReplacement(batch=batch, population=population)


def capped(rate: float | Fraction, at_most: int, population: int) -> Sampling:
    return tr.TruncatedPoisson(rate=rate, at_most=at_most, population=population)


EVERY: Sampling = tr.EveryRecord()


def gaussian(noise: float, sampling: Sampling, steps: int) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * steps


def laplace(noise: float, sampling: Sampling, steps: int) -> tr.Run:
    return tr.Step(tr.Laplace(noise_multiplier=noise), sampling) * steps


def response(truth: float, sampling: Sampling, steps: int) -> tr.Run:
    return tr.Step(tr.RandomizedResponse(truth_probability=truth), sampling) * steps


def finite(observed: list[float], alternative: list[float], sampling: Sampling, steps: int) -> tr.Run:
    return tr.Step(tr.Finite(observed=observed, alternative=alternative), sampling) * steps


LOPSIDED = ([0.5, 0.25, 0.25, 0.0], [0.125, 0.25, 0.5, 0.125])  # a loss of +infinity in one direction only
MIRRORED = ([0.625, 0.25, 0.125], [0.125, 0.25, 0.625])

GAUSSIAN = (
    Entry("gauss-every-k1", gaussian(0.3, EVERY, 1), (0, 12.5, 28)),
    Entry("gauss-every-k100", gaussian(4, EVERY, 100), (0, 8.2, 20)),
    Entry("gauss-every-k1e6", gaussian(10, EVERY, 10**6), (0, 5200, 5700)),
    Entry("gauss-poisson-.5-k1", gaussian(2, poisson(0.5), 1), (0, 0.27, 0.65, 2.7)),
    Entry("gauss-poisson-1e-5-k1", gaussian(0.3, poisson(1e-5), 1), (0, 1e-06, 9e-06, 10.8)),
    Entry("gauss-poisson-.1-k2", gaussian(1, poisson(0.1), 2), (0, 0.1, 0.208, 1.9, 5.2)),
    Entry("gauss-poisson-1e-4-k2-low-noise", gaussian(0.3, poisson(1e-4), 2), (0, 0.00018, 1.3, 14.8)),
    Entry("gauss-poisson-1e-5-k10-low-noise", gaussian(0.5, poisson(1e-5), 10), (0, 4.8e-05, 1, 3.9)),
    Entry("gauss-poisson-.9-k5", gaussian(0.8, poisson(0.9), 5), (0, 6.5, 10.8, 22)),
    Entry("gauss-poisson-.01-k50", gaussian(1, poisson(0.01), 50), (0, 0.09, 0.32, 2.6)),
    Entry("gauss-poisson-.05-k1000", gaussian(4, poisson(0.05), 1000), (0, 0.68, 2.7)),
    Entry("gauss-poisson-1e-3-k1e4", gaussian(0.8, poisson(1e-3), 10**4), (0, 0.25, 1.1, 2.9)),
    Entry("gauss-poisson-1e-4-k1e4-low-noise", gaussian(0.3, poisson(1e-4), 10**4), (0, 0.38, 0.72, 12)),
    Entry("gauss-poisson-1e-5-k1e6", gaussian(0.5, poisson(1e-5), 10**6), (0, 0.05, 0.4, 1.5)),
    Entry("gauss-poisson-.01-k1e6-high-noise", gaussian(10, poisson(0.01), 10**6), (0, 2.3, 7.2)),
    Entry("gauss-capped-.01-k50", gaussian(1, capped(0.01, 200, 10**4), 50), (0, 0.09, 0.32)),
    Entry("gauss-capped-1e-3-k1e4", gaussian(0.8, capped(1e-3, 2000, 10**6), 10**4), (0, 0.25, 1.1)),
    Entry("gauss-batch-.1-k1", gaussian(0.8, batch(1, 10), 1), (0, 0.1, 9.5)),
    Entry("gauss-batch-.01-k2-low-noise", gaussian(0.3, batch(1, 100), 2), (0, 0.02, 46)),
    Entry("gauss-batch-.5-k20", gaussian(2, batch(1, 2), 20), (0, 5.5, 15)),
    Entry("gauss-batch-.05-k1000", gaussian(4, batch(50, 1000), 1000), (0, 1.8, 6)),
    Entry("gauss-batch-1e-3-k1e4", gaussian(0.8, batch(1, 1000), 10**4), (0, 2.1, 13)),
)
LAPLACE = (
    Entry("laplace-every-k1", laplace(1, EVERY, 1), (0, 0.5, 0.99)),
    Entry("laplace-every-k20", laplace(1, EVERY, 20), (0, 9, 19)),
    Entry("laplace-poisson-.5-k1", laplace(1, poisson(0.5), 1), (0, 0.35, 0.6)),
    Entry("laplace-poisson-.5-k2", laplace(1, poisson(0.5), 2), (0, 0.5, 0.72, 1.2)),
    Entry("laplace-poisson-.1-k100", laplace(2, poisson(0.1), 100), (0, 0.8, 3.2)),
    Entry("laplace-poisson-1e-3-k1e4", laplace(0.3, poisson(1e-3), 10**4), (0, 0.7, 1.6)),
    Entry("laplace-batch-.05-k3", laplace(2, batch(1, 20), 3), (0, 0.05, 0.2)),
    Entry("laplace-batch-.01-k1000", laplace(10, batch(1, 100), 1000), (0, 0.04, 0.38)),
)
FINITE = (
    Entry("response-every-k10", response(0.75, EVERY, 10), (0, 5, 10.9)),
    Entry("response-poisson-.5-k2", response(0.75, poisson(0.5), 2), (0, 0.79, 1.3)),
    Entry("response-poisson-.05-k100", response(0.9, poisson(0.05), 100), (0, 2.6, 4.5, 11)),
    Entry("response-poisson-1e-3-k1e5", response(0.6, poisson(1e-3), 10**5), (0, 0.14, 0.8)),
    Entry("response-batch-.1-k30", response(0.6, batch(1, 10), 30), (0, 0.3, 1.3)),
    Entry("finite-every-k3", finite(*LOPSIDED, EVERY, 3), (0, 2, 4.1)),
    Entry("finite-poisson-.25-k10", finite(*LOPSIDED, poisson(0.25), 10), (0, 1.3, 2.07)),
    Entry("finite-batch-.1-k50", finite(*MIRRORED, batch(1, 10), 50), (0, 2, 4.1, 9)),
)
MIXED = (
    Entry(
        "two-gaussians-k2", gaussian(1, poisson(0.1), 1) + gaussian(2, poisson(0.2), 1), (0, 0.2, 0.3, 1.7)
    ),
    Entry(
        "two-gaussians-k700",
        gaussian(1, poisson(0.01), 500) + gaussian(2, poisson(0.02), 200),
        (0, 0.5, 1.8, 3.4),
    ),
    Entry(
        "sampled-and-full-gaussians", gaussian(1, poisson(0.01), 500) + gaussian(5, EVERY, 3), (0, 0.8, 2.9)
    ),
    Entry(
        "gaussian-and-batch", gaussian(2, poisson(0.02), 300) + gaussian(4, batch(1, 50), 300), (0, 0.37, 1.8)
    ),
    Entry(
        "gaussian-and-laplace", gaussian(2, poisson(0.1), 100) + laplace(4, poisson(0.1), 100), (0, 1, 3.5)
    ),
    Entry(
        "gaussian-and-response",
        gaussian(2, poisson(0.1), 20) + response(0.6, poisson(0.1), 5),
        (0, 0.33, 1.2),
    ),
    Entry(
        "laplace-and-finite", laplace(2, poisson(0.2), 5) + finite(*MIRRORED, poisson(0.2), 5), (0, 0.9, 3)
    ),
)
EXTREME = (
    Entry("nothing", tr.Run(), (0, 1)),
    Entry("zero-steps", gaussian(1, poisson(0.1), 0), (0, 1)),
    Entry("rate-0", gaussian(0.3, poisson(0.0), 10**6), (0, 1)),
    Entry("batch-0", laplace(0.3, batch(0, 10), 7), (0, 1)),
    Entry("coin-without-bias", response(0.5, EVERY, 9), (0, 1)),
    Entry("rate-1", gaussian(1, poisson(1.0), 10), (0, 11, 26)),
)
ALL_GAUSSIAN = GAUSSIAN + tuple(
    entry for entry in MIXED if entry.name.endswith(("k2", "k700", "gaussians", "batch"))
)
CATALOGUE = GAUSSIAN + LAPLACE + FINITE + MIXED + EXTREME
BRANCHES = (tr.ADD, tr.REMOVE)


@cache
def curve(run: tr.Run, relation: tr.Relation, accuracy: float = 1e-3) -> tr.PrivacyCurve:
    """The curve of a run, kept so that the laws share what the engines built."""
    return tr.privacy_curve(run, relation=relation, by=tr.Certified(accuracy=accuracy))


@cache
def _asked(
    method: str, run: tr.Run, relation: tr.Relation, question: float, accuracy: float
) -> tr.Bracket | Exception:
    try:
        answer = getattr(curve(run, relation, accuracy), method)(question)
    except Exception as refusal:  # kept, so that a question that fails slowly fails once
        return refusal
    assert isinstance(answer, tr.Bracket)
    return answer


def _answer(method: str, run: tr.Run, relation: tr.Relation, question: float, accuracy: float) -> tr.Bracket:
    found = _asked(method, run, relation, question, accuracy)
    if isinstance(found, Exception):
        raise found
    return found


def log_delta(run: tr.Run, relation: tr.Relation, epsilon: float, accuracy: float = 1e-3) -> tr.Bracket:
    """The bracket of ln delta(epsilon), asked once."""
    return _answer("log_delta", run, relation, epsilon, accuracy)


def epsilon_at(run: tr.Run, relation: tr.Relation, delta: float, accuracy: float = 1e-3) -> tr.Bracket:
    """The bracket of epsilon(delta), asked once."""
    return _answer("epsilon", run, relation, delta, accuracy)


def intersect(one: tr.Bracket, other: tr.Bracket) -> bool:
    """Whether both brackets can hold the same number."""
    return max(one.lower, other.lower) <= min(one.upper, other.upper)


def relative_width(log_bracket: tr.Bracket) -> float:
    """(upper - lower) / upper of delta, from the bracket of its logarithm."""
    return 0.0 if log_bracket.upper == -math.inf else -math.expm1(log_bracket.lower - log_bracket.upper)


def over(entries: tuple[Entry, ...]) -> pytest.MarkDecorator:
    """One test per entry, named after it."""
    return pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in entries])
