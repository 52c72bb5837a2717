"""A record that is there several times: both ends hold against the exact mixture, and no claim matches."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, hypergeom, norm

import tightrope as tr
from tightrope.audit import Finding, How, Scheme, Verdict, audit, prove_bound
from tightrope.errors import NoTheorem, SeveralProblems
from tightrope.setting.sampling import Sampling
from tightrope.statements.make import Facts, state_audit
from tightrope.statements.verify import verify
from tightrope.theorems.repeated_records import bound_one_by_one

GAUSSIAN = tr.Gaussian(noise_multiplier=1)
POISSON = Finding(
    scheme=Scheme.POISSON, how=How.INSPECTED, sentence="Copies.", records=100, rate=0.1, copies=3
)
FIXED = Finding(
    scheme=Scheme.WITHOUT_REPLACEMENT, how=How.INSPECTED, sentence="Copies.", records=100, batch=10, copies=3
)
FULL = Finding(scheme=Scheme.EVERY_RECORD, how=How.INSPECTED, sentence="Copies.", records=100, copies=3)


def exact_epsilon(weights: list[float], shifts: list[float], delta: float, relation: str) -> float:
    """epsilon of one step whose sum moves by `shifts` with these weights, by numerical integration."""
    x = np.linspace(-max(shifts) - 12, max(shifts) + 12, 200_001)

    def moved(by: int) -> NDArray[np.float64]:
        parts = [w * norm.pdf(x, by * shift) for w, shift in zip(weights, shifts, strict=True)]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]

    sides = {"remove": (1, 0), "add": (0, 1), "substitute": (1, -1)}
    p, q = map(moved, sides[relation])

    def excess(epsilon: float) -> float:
        return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)) - delta

    return float(brentq(excess, 0, 60))


DRAWN: dict[str, tuple[Finding, Callable[[int], float], float]] = {
    "poisson": (POISSON, lambda j: float(binom.pmf(j, 3, 0.1)), 1),
    "without replacement": (FIXED, lambda j: float(hypergeom.pmf(j, 100, 3, 10)), 2),
    "every record": (FULL, lambda j: float(j == 3), 1),
}


@pytest.mark.parametrize("relation", ["add", "remove", "substitute"])
@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_the_exact_mixture_lies_between_the_ends(drawn: str, relation: str, delta: float) -> None:
    finding, mass, moves = DRAWN[drawn]
    weights, shifts = [mass(j) for j in range(4)], [moves * j for j in range(4)]
    # without replacement all other records are -1, and so are those of the neighbour
    against = "remove" if relation == "substitute" and moves == 2 else relation
    exact = exact_epsilon(weights, shifts, delta, against)
    found = prove_bound(tr.Step(GAUSSIAN, tr.EveryRecord()) * 1, finding, delta=delta, relation=relation)
    assert found.epsilon.lower <= exact * (1 + 1e-6) + 1e-6
    assert found.epsilon.upper >= exact * (1 - 1e-6) - 1e-6
    assert found.epsilon.lower >= 0.6 * exact  # and the lower end is worth having
    one = prove_bound(
        tr.Step(GAUSSIAN, tr.EveryRecord()) * 1, replace(finding, copies=2), delta=delta, relation=relation
    )
    assert one.epsilon.lower <= found.epsilon.lower


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("relation", ["add-or-remove", "substitute"])
def test_a_claim_for_one_record_never_matches_where_it_is_there_thrice(drawn: str, relation: str) -> None:
    finding, *_ = DRAWN[drawn]
    samplings: dict[str, Sampling] = {
        "poisson": tr.Poisson(rate=0.1),
        "without replacement": tr.WithoutReplacement(batch=10, population=100),
        "every record": tr.EveryRecord(),
    }
    run = tr.Step(GAUSSIAN, samplings[drawn]) * 10
    once = replace(finding, copies=1, sampling=samplings[drawn])
    assert audit(once, run, delta=1e-5, relation=relation).verdict is Verdict.MATCHES
    # also if somebody leaves the sampling in the finding
    for found in (finding, replace(finding, sampling=samplings[drawn])):
        result = audit(found, run, delta=1e-5, relation=relation)
        assert result.verdict is Verdict.TOO_SMALL
        assert result.proved.lower > result.claimed.upper
        assert result.without_replacement is None


def test_more_copies_than_are_looked_at_reach_no_less() -> None:
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.01)) * 10
    lowers = [
        prove_bound(run, replace(POISSON, copies=copies), delta=1e-5, relation="remove").epsilon.lower
        for copies in (2, 8, 64, 1000)
    ]
    assert all(a <= b for a, b in pairwise(lowers))
    assert lowers[-1] > 10


def test_groups_of_pure_guarantees_add_up() -> None:
    assert bound_one_by_one(lambda delta: 0.5, copies=4, delta=1e-5) == pytest.approx(2)
    with pytest.raises(NoTheorem, match="group of 4 copies"):
        bound_one_by_one(lambda delta: math.inf, copies=4, delta=1e-5)


SHUFFLED = Finding(
    scheme=Scheme.SHUFFLE,
    how=How.INSPECTED,
    sentence="Shuffled.",
    records=1000,
    batch=100,
    epoch=10,
    full=10,
    reshuffles=True,
    removal_changes_one_slot=True,
)


def test_shuffled_copies_have_a_bound_under_substitution_only() -> None:
    run, copied = tr.Step(GAUSSIAN, tr.Poisson(rate=0.1)) * 20, replace(SHUFFLED, copies=4)
    once, found = (prove_bound(run, f, delta=1e-5, relation="substitute") for f in (SHUFFLED, copied))
    # the same datasets, told apart on lattices of their own
    assert 0 < found.epsilon.lower == pytest.approx(once.epsilon.lower, rel=1e-4)
    together = tr.Step(tr.Gaussian(noise_multiplier=0.25), tr.EveryRecord()) * 2
    assert found.epsilon.upper == tr.epsilon(together, delta=1e-5, relation="substitute").upper
    removed = prove_bound(run, copied, delta=1e-5, relation="remove")
    assert removed.epsilon.upper == math.inf
    assert "there 4 times" in removed.why_not
    assert 0 < removed.epsilon.lower < once.epsilon.lower
    # batches that copies leave short are not counted on: of 10 full ones 6 stay full without 400 records
    fewer = prove_bound(run, replace(SHUFFLED, full=6), delta=1e-5, relation="remove").epsilon.lower
    many = prove_bound(run, replace(SHUFFLED, copies=400), delta=1e-5, relation="remove").epsilon.lower
    assert many == fewer


def test_copies_of_weighted_records_have_no_bound() -> None:
    weighted = Finding(
        scheme=Scheme.WEIGHTED, how=How.INSPECTED, sentence="", records=100, batch=10, share=0.01, copies=2
    )
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.1)) * 20
    assert prove_bound(run, weighted, delta=1e-5, relation="substitute").epsilon.upper == math.inf


def test_a_statement_keeps_the_copies() -> None:
    run = tr.Step(GAUSSIAN, tr.Poisson(rate=0.1)) * 10
    assert Finding.from_plain(POISSON.plain()) == POISSON
    facts = Facts(
        name="x",
        setting="local",
        unit="user",
        data_accesses="a",
        tuning="b",
        outputs="c",
        records_per_unit=1,
    )
    result = audit(POISSON, run, delta=1e-5, relation="add-or-remove")
    for epsilon, holds in ((result.claimed.upper, False), (None, True)):  # None: what is proved
        made = state_audit(result, facts=facts, epsilon=epsilon)
        assert (made.implemented.copies, made.certified.sampling_verdict) == (3, "too_small")
        assert verify(made).holds is holds
    impossible = audit(replace(POISSON, copies=101), run, delta=1e-5, relation="add-or-remove")
    with pytest.raises(SeveralProblems, match="so copies <= records"):
        state_audit(impossible, facts=facts, epsilon=1.0)
