"""Poisson batches with a cap: both ends around real datasets, laws, and what every accountant says."""

import copy
import itertools
import math
import pickle
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import assert_type

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

import tightrope as tr
from tightrope.theorems.binomials import enclose_upper_tail
from tightrope.theorems.truncated_poisson import chance_of_truncation, participation_rate

Law = dict[float, float]  # the probability of each sum of a batch
NOISE = 0.8
BRANCHES = (tr.ADD, tr.REMOVE, tr.SUBSTITUTE)


def truncated(rate: float | Fraction, at_most: int, population: int) -> tr.TruncatedPoisson:
    return tr.TruncatedPoisson(rate=rate, at_most=at_most, population=population)


def gaussian(sampling: tr.Poisson | tr.TruncatedPoisson, noise: float = 1.0, steps: int = 1) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * steps


# -- honesty: every draw of small datasets enumerated --------------------------------------------------------


def sums(records: tuple[float, ...], rate: float, at_most: int, *, in_order: bool) -> Law:
    """The law of a batch's sum; of those drawn the first are kept, or uniformly chosen ones."""
    law: Law = defaultdict(float)
    for drawn in itertools.product((False, True), repeat=len(records)):
        chance = math.prod(rate if is_drawn else 1 - rate for is_drawn in drawn)
        batch = list(itertools.compress(records, drawn))
        if len(batch) <= at_most or in_order:
            law[sum(batch[:at_most])] += chance
            continue
        choices = list(itertools.combinations(batch, at_most))
        for kept in choices:
            law[sum(kept)] += chance / len(choices)
    return law


EDGES = np.concatenate([[-np.inf], np.linspace(-7, 7, 561), [np.inf]])


def binned(law: Law) -> NDArray[np.float64]:
    """The masses of cells of outputs: merging outputs is processing, so divergences only fall."""
    total = np.zeros(len(EDGES) - 1)
    for centre, chance in law.items():
        total += chance * np.diff(special.ndtr((EDGES - centre) / NOISE))
    return total


Masses = tuple[NDArray[np.float64], NDArray[np.float64]]


def neighbours(relation: tr.Relation, size: int) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Datasets whose larger one has `size` records; the differing record comes first."""
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), size - 1):
        if relation is tr.SUBSTITUTE:
            yield (1.0, *others), (-1.0, *others)
        elif relation is tr.REMOVE:
            yield (1.0, *others), others
        else:
            yield others, (1.0, *others)


def lose(pairs: list[Masses], t: float, steps: int) -> float:
    """The most that an adversary gets who chooses each step's datasets from what the steps before showed."""

    def value(p: float, q: float, left: int) -> float:
        if left == 1:
            return max(float(np.maximum(p * a - q * b, 0).sum()) for a, b in pairs)
        return max(sum(value(p * x, q * y, left - 1) for x, y in zip(a, b, strict=True)) for a, b in pairs)

    return value(1.0, t, steps)


@pytest.mark.parametrize("in_order", [False, True], ids=["uniformly", "the differing record first"])
@pytest.mark.parametrize(
    ("population", "at_most", "rate"), [(3, 1, 0.3), (3, 2, 0.6), (4, 2, 0.4), (4, 1, 0.2)]
)
@pytest.mark.parametrize("relation", BRANCHES, ids=str)
def test_no_datasets_up_to_the_population_lose_more_than_the_upper_end(
    relation: tr.Relation, population: int, at_most: int, rate: float, in_order: bool
) -> None:
    pairs = [
        (
            binned(sums(left, rate, at_most, in_order=in_order)),
            binned(sums(right, rate, at_most, in_order=in_order)),
        )
        for size in range(1, population + 1)
        for left, right in neighbours(relation, size)
    ]
    run = gaussian(truncated(rate, at_most, population), NOISE)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        found = tr.delta(run, epsilon=epsilon, relation=relation)
        assert lose(pairs, math.exp(epsilon), 1) <= found.upper
    for epsilon in (0.0, 1.0):
        found = tr.delta(run * 2, epsilon=epsilon, relation=relation)
        assert lose(pairs[-4:], math.exp(epsilon), 2) <= found.upper


@pytest.mark.parametrize(("population", "at_most", "rate"), [(3, 1, 0.3), (4, 2, 0.4), (5, 4, 0.9)])
def test_zeros_around_the_differing_record_reach_the_lower_end(
    population: int, at_most: int, rate: float
) -> None:
    zeros = (0.0,) * (population - 1)
    law = sums((1.0, *zeros), rate, at_most, in_order=False)
    sampling = truncated(rate, at_most, population)
    found = tr.delta(gaussian(sampling, NOISE), epsilon=0.3, relation=tr.REMOVE)
    assert participation_rate(sampling) <= law[1.0] + 1e-15
    reached = lose([(binned(law), binned(sums(zeros, rate, at_most, in_order=False)))], math.exp(0.3), 1)
    assert found.lower == pytest.approx(reached, rel=1e-3)
    assert found.lower < found.upper
    assert found.decided_by is not None
    assert found.decided_by.reached_by == "D = (0, ..., 0, 1) and D' = (0, ..., 0)"


@pytest.mark.parametrize(("population", "at_most", "rate"), [(3, 1, (1, 3)), (6, 2, (2, 5)), (9, 8, (9, 10))])
def test_a_record_is_drawn_and_kept_at_the_rate_that_enumeration_gives(
    population: int, at_most: int, rate: tuple[int, int]
) -> None:
    g, others = Fraction(*rate), population - 1
    masses = [math.comb(others, m) * g**m * (1 - g) ** (others - m) for m in range(population)]
    kept = [min(Fraction(1), Fraction(at_most, m + 1)) for m in range(population)]
    exact = sum((g * mass * share for mass, share in zip(masses, kept, strict=True)), Fraction(0))
    found = participation_rate(truncated(g, at_most, population))
    assert exact * (1 - Fraction(1, 10**14)) <= found <= exact
    low, high = chance_of_truncation(truncated(g, at_most, population))
    assert low <= sum(masses[at_most:]) <= high <= low * (1 + Fraction(1, 10**15))


# -- binomial tails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "rate", "least"),
    [
        (10, Fraction(1, 3), 4),
        (60, Fraction(9, 10), 59),
        (200, Fraction(1, 100), 0),
        (200, Fraction(1, 100), 20),
    ],
)
def test_binomial_tails_are_those_of_exact_sums(trials: int, rate: Fraction, least: int) -> None:
    exact = sum(math.comb(trials, i) * rate**i * (1 - rate) ** (trials - i) for i in range(least, trials + 1))
    low, high = enclose_upper_tail(trials, rate, least)
    assert low <= exact <= high
    assert high - low <= exact / 10**14


@pytest.mark.parametrize(
    ("trials", "rate", "least", "about"),
    [
        (10**15, Fraction(1, 2), 5 * 10**14, 0.5),
        (10**15, 1 - Fraction(1, 10**12), 10**15 - 1000, 0.5084),
        (10**300, Fraction(1, 10**299), 10**4, 0.0),
        (10**300, Fraction(1, 2), 7, 1.0),
        (10, Fraction(1), 10, 1.0),
        (10, Fraction(0), 1, 0.0),
        (10, Fraction(1, 2), 11, 0.0),
    ],
)
def test_binomial_tails_of_extreme_laws_are_told(
    trials: int, rate: Fraction, least: int, about: float
) -> None:
    low, high = enclose_upper_tail(trials, rate, least)
    assert 0 <= low <= high <= 1
    assert float(low) == pytest.approx(about, abs=1e-4)
    assert float(high) == pytest.approx(about, abs=1e-4)


def test_a_tail_of_more_trials_than_the_beta_function_takes_is_bounded() -> None:
    low, high = enclose_upper_tail(10**300, Fraction(1, 10**299), 12)
    assert low == 0
    assert special.pdtrc(11, 10) < high < 1


# -- laws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=str)
def test_more_room_in_a_batch_brings_the_ends_together_at_those_of_poisson(relation: tr.Relation) -> None:
    poisson = tr.epsilon(gaussian(tr.Poisson(rate=0.01), steps=300), delta=1e-6, relation=relation)
    last = math.inf
    for at_most in (90, 110, 130, 150, 190):
        found = tr.epsilon(
            gaussian(truncated(0.01, at_most, 10_000), steps=300), delta=1e-6, relation=relation
        )
        assert found.lower <= poisson.upper
        assert poisson.lower <= found.upper < last * (1 + 1e-6)
        last = found.upper
    assert last <= poisson.upper * (1 + 1e-6)
    assert found.lower >= poisson.lower * (1 - 1e-6)
    assert found.gap is None


@pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_cap_that_is_never_met_is_poisson_to_the_last_bit(relation: tr.Relation, rate: float) -> None:
    capped = gaussian(truncated(rate, 7, 7), steps=5)
    assert tr.delta(capped, epsilon=0.5, relation=relation) == tr.delta(
        gaussian(tr.Poisson(rate=rate), steps=5), epsilon=0.5, relation=relation
    )


@pytest.mark.parametrize("relation", [tr.REMOVE, tr.SUBSTITUTE], ids=str)
def test_a_batch_of_all_records_with_a_cap_stands_around_batches_of_that_size(relation: tr.Relation) -> None:
    run = gaussian(truncated(1.0, 5, 10), 2.0, steps=3)
    batches = tr.Step(tr.Gaussian(noise_multiplier=2.0), tr.WithoutReplacement(batch=5, population=10)) * 3
    found, same = (tr.epsilon(each, delta=1e-5, relation=relation) for each in (run, batches))
    assert found.lower <= same.lower
    assert same.upper <= found.upper


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE], ids=str)
def test_more_steps_more_records_and_less_noise_cost_more(relation: tr.Relation) -> None:
    def spend(population: int, steps: int, noise: float) -> float:
        return tr.epsilon(
            gaussian(truncated(0.01, 120, population), noise, steps), delta=1e-6, relation=relation
        ).upper

    here = spend(10_000, 100, 1.0)
    assert spend(9_000, 100, 1.0) < here
    assert spend(10_000, 50, 1.0) < here
    assert spend(10_000, 100, 1.1) < here


def test_steps_with_different_caps_compose_with_each_other_and_with_other_steps() -> None:
    first, second = gaussian(truncated(0.01, 120, 10_000), steps=50), gaussian(truncated(0.5, 3, 5), 3.0, 2)
    others = tr.Step(tr.Laplace(noise_multiplier=9.0), tr.Poisson(rate=0.01)) * 3
    others += tr.Step(tr.Gaussian(noise_multiplier=4.0), tr.WithoutReplacement(batch=2, population=50)) * 4
    parts = [tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE) for run in (first, second, others)]
    whole = tr.epsilon(first + second + others, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert max(part.lower for part in parts) <= whole.lower
    assert max(part.upper for part in parts) <= whole.upper
    assert whole.decided_by is not None
    assert "truncated_poisson_remove" in {evidence.name for evidence in whole.decided_by.because}


def test_substitution_games_take_capped_steps_beside_them() -> None:
    run = gaussian(truncated(0.01, 150, 10_000), steps=20)
    run += tr.Step(tr.Gaussian(noise_multiplier=2.0), tr.WithoutReplacement(batch=10, population=1000)) * 5
    quick, tight = (
        tr.epsilon(run, delta=1e-5, relation=tr.SUBSTITUTE, by=tr.Certified(effort=effort))
        for effort in (tr.QUICK, tr.TIGHT)
    )
    assert quick.lower <= tight.upper <= quick.upper


# -- what it is worth ----------------------------------------------------------------------------------------


def test_an_upper_end_is_below_that_of_another_accountant_for_the_same_batches() -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    for at_most in (110, 150):
        other = PLDAccountant(value_discretization_interval=1e-3)
        event = dp_accounting.TruncatedSubsampledGaussianDpEvent(
            dataset_size=10_000,
            sampling_probability=0.01,
            truncated_batch_size=at_most,
            noise_multiplier=1.0,
        )
        other.compose(event, 1000)
        found = tr.epsilon(
            gaussian(truncated(0.01, at_most, 10_000), steps=1000), delta=1e-6, relation=tr.ADD_OR_REMOVE
        )
        assert found.lower < other.get_epsilon(1e-6)
        # that accountant takes the number of records for known, and the rate of full batches is a little less
        assert found.upper == pytest.approx(other.get_epsilon(1e-6), rel=0.02)


def test_a_gap_says_that_full_batches_leave_it_even_in_one_step() -> None:
    for run in (gaussian(truncated(0.01, 100, 10_000)), gaussian(truncated(0.01, 100, 10_000), steps=50)):
        found = tr.delta(run, epsilon=0.5, relation=tr.REMOVE)
        assert found.gap is not None
        assert "pushed out of a full batch" in str(found.gap)
        assert "A larger at_most" in str(found.gap)


@pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=str)
def test_exact_integers_and_random_draws_agree_with_the_certified_bracket(relation: tr.Relation) -> None:
    run = gaussian(truncated(0.05, 8, 100), steps=10)
    found = tr.epsilon(run, delta=1e-3, relation=relation)
    exact = tr.epsilon(run, delta=1e-3, relation=relation, by=tr.Exact())
    drawn = tr.epsilon(run, delta=1e-3, relation=relation, by=tr.MonteCarlo(draws=20_000))
    assert exact.lower <= found.lower * (1 + 1e-3)
    assert exact.upper >= found.upper * (1 - 1e-3)
    assert exact.upper == pytest.approx(found.upper, abs=2e-3)
    assert exact.lower == pytest.approx(found.lower, abs=2e-3)
    assert drawn.lower <= found.lower * (1 + 1e-3)
    assert found.upper * (1 - 1e-3) <= drawn.upper


@pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=str)
def test_renyi_bounds_are_above_and_the_limit_answers(relation: tr.Relation) -> None:
    run = gaussian(truncated(0.01, 130, 10_000), steps=200)
    found = tr.epsilon(run, delta=1e-5, relation=relation)
    assert tr.epsilon(run, delta=1e-5, relation=relation, by=tr.Renyi()).upper >= found.upper
    assert tr.epsilon(run, delta=1e-5, relation=relation, by=tr.GaussianLimit()).value > 0
    curve = tr.Renyi().curve(run, relation)
    assert 0 < curve.divergence(2.0).upper < curve.divergence(8.0).upper
    assert curve.divergence(8.0).upper <= 8 * curve.zero_concentrated().upper


# -- answers that ask often ----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE], ids=str)
def test_noise_and_steps_are_calibrated_for_capped_batches(relation: tr.Relation) -> None:
    sampling = truncated(0.01, 150, 10_000)
    noise = tr.smallest_noise(sampling, steps=200, epsilon=1.0, delta=1e-6, relation=relation)
    assert tr.epsilon(gaussian(sampling, noise.value, 200), delta=1e-6, relation=relation).upper <= 1.0
    assert noise.value >= tr.smallest_noise(
        tr.Poisson(rate=0.01), steps=200, epsilon=1.0, delta=1e-6, relation=relation
    ).value * (1 - 1e-6)
    step = tr.Step(tr.Gaussian(noise_multiplier=1.0), sampling)
    steps = tr.most_steps(step, epsilon=1.0, delta=1e-6, relation=relation)
    assert tr.epsilon(step * steps.value, delta=1e-6, relation=relation).upper <= 1.0


def test_a_ledger_and_a_trade_off_take_capped_batches(tmp_path: Path) -> None:
    run = gaussian(truncated(0.01, 150, 10_000), steps=100)
    curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)
    poisson = tr.privacy_curve(gaussian(tr.Poisson(rate=0.01), steps=100), relation=tr.ADD_OR_REMOVE)
    rates = [each.trade_off().true_positive_rate(0.05) for each in (curve, poisson)]
    assert rates[0].upper >= rates[1].lower
    assert rates[0].lower <= rates[1].upper
    assert curve.delta(-0.5).upper >= poisson.delta(-0.5).lower
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    ledger.record(run)
    ledger.save(tmp_path / "kept.json")
    again = tr.Ledger.load(tmp_path / "kept.json")
    assert again.run == run
    assert again.epsilon(1e-6) == tr.epsilon(run, delta=1e-6, relation="add-or-remove")


def test_a_sweep_goes_over_caps(tmp_path: Path) -> None:
    asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "steps": 10, "mechanism": "gaussian"}
    drawn = {"sampling": "truncated-poisson", "rate": 0.01, "at_most": [110, 150], "population": 10_000}
    out = tmp_path / "caps.csv"
    rows = list(tr.sweep({**asked, "noise_multiplier": 1, **drawn}, out=out, workers=1))
    for row, at_most in zip(rows, (110, 150), strict=True):
        found = tr.epsilon(
            gaussian(truncated(0.01, at_most, 10_000), steps=10), delta=1e-6, relation="remove"
        )
        assert (row["at_most"], row["lower"], row["upper"]) == (at_most, found.lower, found.upper)
    again = list(tr.sweep({**asked, "noise_multiplier": 1, **drawn}, out=out, resume=True, workers=1))
    assert [row["seconds"] for row in again] == [row["seconds"] for row in rows]  # read, not computed anew


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [tr.Laplace(noise_multiplier=1.0), tr.RandomizedResponse(truth_probability=0.75)]
)
def test_noise_that_is_not_gaussian_is_refused_with_what_is_known(mechanism: tr.Laplace) -> None:
    with pytest.raises(
        tr.NoTheorem, match=r"with TruncatedPoisson: nothing\..* account the same steps with Eve"
    ):
        tr.epsilon(tr.Step(mechanism, truncated(0.1, 5, 10)), delta=1e-5, relation=tr.SUBSTITUTE)


@pytest.mark.parametrize(
    "run",
    [
        gaussian(truncated(1e-290, 10**11, 10**300), steps=10),
        gaussian(truncated(0.999, 1, 2), 2.0, 3),
        gaussian(truncated(0.5, 1, 100), 50.0, 10**9),
        gaussian(truncated(1e-3, 10**4, 10**6), 0.8, 10**4),
    ],
    ids=["rates next to 0", "one of two", "always full", "never full"],
)
@pytest.mark.parametrize("relation", BRANCHES, ids=str)
def test_extreme_settings_get_ends_in_order(run: tr.Run, relation: tr.Relation) -> None:
    found = tr.epsilon(run, delta=1e-9, relation=relation)
    assert 0 <= found.lower <= found.upper < math.inf


def test_a_cap_makes_another_kind_which_checkers_of_types_know_too() -> None:
    capped = tr.Poisson(rate=0.01, at_most=150, population=10_000)
    plain = tr.Poisson(rate=0.01)
    assert_type(capped, tr.TruncatedPoisson)
    assert_type(plain, tr.Poisson)
    assert capped == tr.TruncatedPoisson(rate=0.01, at_most=150, population=10_000)
    assert copy.deepcopy(plain) == plain == pickle.loads(pickle.dumps(plain)) == replace(plain)
    for given in ({}, {"rate": 0.01, "at_most": 150}, {"rate": 0.01, "cap": 150}):
        with pytest.raises(TypeError, match="argument"):
            tr.Poisson(**given)
