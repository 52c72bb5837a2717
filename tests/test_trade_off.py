"""What attacks achieve: closed forms, all likelihood tests by brute force, laws of trade-off functions."""

import itertools
import math
import random
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from catalogue import (
    BRANCHES,
    EVERY,
    FINITE,
    GAUSSIAN,
    LAPLACE,
    LOPSIDED,
    MIRRORED,
    MIXED,
    Entry,
    curve,
    finite,
    gaussian,
    intersect,
    laplace,
    over,
    poisson,
    response,
)
from precise import gaussian_delta, mp, mpf
from tightrope.curve.branches import Branch, ComposedCover, ComposedWitness
from tightrope.curve.trade_off import TradeOff
from tightrope.engines.face import LogBounds
from tightrope.numerics.floats import Floats

RATES = (1e-12, 1e-9, 1e-6, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6)
ONE_WAY = pytest.mark.parametrize("relation", BRANCHES, ids=repr)
ANY_WAY = pytest.mark.parametrize("relation", [*BRANCHES, tr.ADD_OR_REMOVE], ids=repr)
FEW = (
    GAUSSIAN[3],
    GAUSSIAN[5],
    GAUSSIAN[11],
    LAPLACE[0],
    LAPLACE[1],
    LAPLACE[3],
    FINITE[1],
    FINITE[5],
    FINITE[6],
    MIXED[1],
)


@cache
def attack_on(run: tr.Run, relation: tr.Relation, accuracy: float = 1e-3) -> TradeOff:
    """The attack on a run, kept so that laws share what it has learnt of the curve and of its reverse."""
    return curve(run, relation, accuracy).trade_off()


# -- closed forms --------------------------------------------------------------------------------------------


@ANY_WAY
@pytest.mark.parametrize(("noise", "steps"), [(1, 1), (4, 100), (0.5, 1), (20, 1)])
def test_gaussian_rates_are_those_of_the_formula_to_nine_digits_at_both_ends(
    noise: float, steps: int, relation: tr.Relation
) -> None:
    attack = attack_on(gaussian(noise, EVERY, steps), relation, 1e-6)
    mu = mp.sqrt(steps) / mpf(noise)
    for rate in RATES:
        quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(rate))
        hits, misses = attack.true_positive_rate(rate), attack.false_negative_rate(rate)
        assert hits.lower <= mp.ncdf(mu - quantile) <= hits.upper
        assert misses.lower <= mp.ncdf(quantile - mu) <= misses.upper
        assert hits.relative_width <= 1e-8
        assert misses.relative_width <= 1e-9


def test_gaussian_rates_far_below_the_roundoff_of_one() -> None:
    attack = attack_on(gaussian(1, EVERY, 1), tr.REMOVE)
    hits = attack.true_positive_rate(1e-250)
    with mp.workdps(600):
        quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(1e-250))
        assert hits.lower <= mp.ncdf(1 - quantile) <= hits.upper
    assert hits.relative_width <= 1e-6
    strong = attack_on(gaussian(0.05, EVERY, 1), tr.REMOVE).false_negative_rate(0.5)
    assert strong.lower <= mp.ncdf(-20) <= strong.upper
    assert strong.relative_width <= 1e-6


@ONE_WAY
@pytest.mark.parametrize("noise", [0.5, 1, 4])
def test_one_laplace_step_has_the_trade_off_of_three_pieces(noise: float, relation: tr.Relation) -> None:
    attack = attack_on(laplace(noise, EVERY, 1), relation, 1e-6)
    ratio = mp.exp(-1 / mpf(noise))
    for rate in (*RATES, float(ratio / 2)):
        a = mpf(rate)
        misses = 1 - a / ratio if a <= ratio / 2 else ratio / (4 * a) if a <= 0.5 else ratio * (1 - a)
        found, hits = attack.false_negative_rate(rate), attack.true_positive_rate(rate)
        assert found.lower <= misses <= found.upper
        assert hits.lower <= 1 - misses <= hits.upper
        assert hits.relative_width <= 1e-6
        assert found.relative_width <= 1e-6


@ONE_WAY
@pytest.mark.parametrize(("noise", "rate"), [(1, 0.1), (0.5, 0.5), (2, 0.9), (0.8, 0.001)])
def test_one_sampled_gaussian_step_is_attacked_best_by_a_threshold_on_its_output(
    noise: float, rate: float, relation: tr.Relation
) -> None:
    attack = attack_on(gaussian(noise, poisson(rate), 1), relation, 1e-6)
    shift = 1 / mpf(noise)
    for threshold in (-4, -1, 0, 1, 2.5, 4, 7):
        absent = mp.ncdf(-mpf(threshold)), mp.ncdf(mpf(threshold))
        present = tuple(
            (1 - mpf(rate)) * plain + mpf(rate) * moved
            for plain, moved in zip(
                absent, (mp.ncdf(shift - threshold), mp.ncdf(threshold - shift)), strict=True
            )
        )
        # under REMOVE high outputs speak for the record; under ADD low ones speak against it
        alarms, hits, misses = (
            (absent[0], present[0], present[1])
            if relation is tr.REMOVE
            else (present[1], absent[1], absent[0])
        )
        below, above = math.nextafter(float(alarms), 0), math.nextafter(float(alarms), 1)
        assert attack.true_positive_rate(below).lower <= hits <= attack.true_positive_rate(above).upper
        assert attack.false_negative_rate(above).lower <= misses <= attack.false_negative_rate(below).upper
        assert attack.true_positive_rate(above).relative_width <= 1e-7


# -- all likelihood tests ------------------------------------------------------------------------------------


def laws_of(mechanism: tr.RandomizedResponse | tr.Finite) -> tuple[list[Fraction], list[Fraction]]:
    """Output probabilities without and with the record."""
    if isinstance(mechanism, tr.RandomizedResponse):
        truth = Fraction(mechanism.truth_probability)
        return [truth, 1 - truth], [1 - truth, truth]
    return list(map(Fraction, mechanism.observed)), list(map(Fraction, mechanism.alternative))


def outcomes(run: tr.Run, relation: tr.Relation) -> list[tuple[Fraction, Fraction]]:
    """(P, Q) of every sequence of outputs, exactly."""
    found = [(Fraction(1), Fraction(1))]
    for step, times in run.parts:
        assert isinstance(step.mechanism, tr.RandomizedResponse | tr.Finite)
        absent, present = laws_of(step.mechanism)
        rate = Fraction(step.sampling.rate)
        mixed = [(1 - rate) * a + rate * b for a, b in zip(absent, present, strict=True)]
        one = (
            list(zip(mixed, absent, strict=True))
            if relation is tr.REMOVE
            else list(zip(absent, mixed, strict=True))
        )
        for _ in range(times):
            found = [(p * more_p, q * more_q) for p, q in found for more_p, more_q in one]
    return found


def most_hits(pairs: list[tuple[Fraction, Fraction]], rate: Fraction) -> Fraction:
    """True positive rate of the likelihood test at that false positive rate: likeliest outputs first."""
    hits = Fraction(0)
    for p, q in sorted(pairs, key=lambda pair: pair[0] / pair[1] if pair[1] else math.inf, reverse=True):
        part = min(Fraction(1), rate / q) if q else Fraction(1)
        hits, rate = hits + part * p, rate - part * q
    return hits


COUNTABLE = (
    response(0.75, EVERY, 1),
    response(0.75, poisson(0.5), 2),
    response(0.9, poisson(0.125), 4),
    response(1, EVERY, 1),
    response(1, poisson(0.25), 3),
    finite(*LOPSIDED, EVERY, 1),
    finite(*LOPSIDED, EVERY, 3),
    finite(*LOPSIDED, poisson(0.25), 3),
    finite(*MIRRORED, poisson(0.25), 2),
    finite(*LOPSIDED, EVERY, 1) + response(0.75, poisson(0.5), 2),
)
COUNTED = pytest.mark.parametrize("run", COUNTABLE, ids=repr)


@COUNTED
@ONE_WAY
def test_no_likelihood_test_beats_the_upper_end_and_the_best_reaches_the_lower_end(
    run: tr.Run, relation: tr.Relation
) -> None:
    attack, pairs = attack_on(run, relation, 1e-6), outcomes(run, relation)
    corners = {float(sum(q for _, q in pairs[:count])) for count in range(0, len(pairs) + 1, 3)}
    for rate in (*RATES, *sorted(corners), 0.0, 1.0):
        hits = most_hits(pairs, Fraction(rate))
        found, missed = attack.true_positive_rate(rate), attack.false_negative_rate(rate)
        assert found.lower <= hits <= found.upper
        assert missed.lower <= 1 - hits <= missed.upper
        assert found.relative_width <= 1e-6
        assert missed.relative_width <= 1e-6 or missed.upper <= 1e-15


@COUNTED
@ONE_WAY
def test_success_and_posterior_are_those_of_the_best_guess(run: tr.Run, relation: tr.Relation) -> None:
    attack, pairs = attack_on(run, relation, 1e-6), outcomes(run, relation)
    for prior in (0.5, 0.01, 0.3, 0.875, 0.999):
        p = Fraction(prior)
        success = attack.attack_success(prior)
        assert success.lower <= sum(max(p * a, (1 - p) * b) for a, b in pairs) <= success.upper
        assert success.width <= 1e-6
        for rate in (1e-6, 0.05, 0.5, 1.0):
            hits = p * most_hits(pairs, Fraction(rate))
            posterior = attack.posterior(prior, rate)
            assert posterior.lower <= hits / (hits + (1 - p) * Fraction(rate)) <= posterior.upper
            assert posterior.width <= 1e-6


@COUNTED
@ONE_WAY
def test_advantage_is_the_total_variation(run: tr.Run, relation: tr.Relation) -> None:
    attack = attack_on(run, relation)
    distance = sum(max(p - q, Fraction(0)) for p, q in outcomes(run, relation))
    assert attack.advantage.lower <= distance <= attack.advantage.upper
    half = attack.attack_success()
    assert half.lower <= (1 + distance) / 2 <= half.upper


# -- two sampled Laplace steps, where a peer combines the directions wrongly ---------------------------------


def coarse_hits(relation: tr.Relation, rate: float) -> float:
    """The best test of Laplace(1) at rate 1/2, twice, that sees outputs rounded to a fine grid on [0, 1]."""
    grid = np.linspace(0, 1, 1201)

    def lower(x: Floats) -> Floats:
        return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)

    absent = np.diff(np.concatenate([[0.0], lower(grid), [1.0]]))
    present = np.diff(np.concatenate([[0.0], lower(grid - 1), [1.0]]))
    mixed = (absent + present) / 2
    p, q = (mixed, absent) if relation is tr.REMOVE else (absent, mixed)
    both_p, both_q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    order = np.argsort(-both_p / both_q)
    alarms, hits = (np.cumsum(np.append(0.0, masses[order])) for masses in (both_q, both_p))
    return float(np.interp(rate, alarms, hits))


@pytest.mark.parametrize(
    ("relation", "misses"), [(tr.ADD, 0.8931), (tr.REMOVE, 0.8349), (tr.ADD_OR_REMOVE, 0.8349)], ids=repr
)
def test_two_sampled_laplace_steps_are_attacked_best_by_removing(
    relation: tr.Relation, misses: float
) -> None:
    found = attack_on(laplace(1, poisson(0.5), 2), relation).false_negative_rate(0.05)
    assert round(found.lower, 4) <= misses <= round(found.upper, 4)
    reached = coarse_hits(tr.ADD if relation is tr.ADD else tr.REMOVE, 0.05)
    assert 1 - reached >= found.lower
    assert 1 - reached == pytest.approx(found.upper, abs=2e-5)


# -- laws ----------------------------------------------------------------------------------------------------

GRID = (0.0, 1e-9, 1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.0)


@over(FEW)
@ANY_WAY
def test_rates_are_narrow_grow_bend_one_way_and_beat_guessing(entry: Entry, relation: tr.Relation) -> None:
    attack = attack_on(entry.run, relation)
    hits, misses = attack.true_positive_rate(list(GRID)), attack.false_negative_rate(np.array(GRID))
    for rate, hit, miss in zip(GRID, hits, misses, strict=True):
        assert hit.relative_width <= 2e-3
        assert rate <= hit.lower <= hit.upper <= 1
        assert 0 <= miss.lower <= miss.upper <= 1 - rate
        assert hit.lower + miss.lower <= 1 <= hit.upper + miss.upper + 1e-15
        assert miss.width <= 2e-3 * hit.upper
        assert hit.lower - rate <= attack.advantage.upper
    for low, high in itertools.pairwise(hits):
        assert low.lower <= high.upper
    for (a, left), (b, middle), (c, right) in zip(
        zip(GRID, hits, strict=True),
        zip(GRID[1:], hits[1:], strict=False),
        zip(GRID[2:], hits[2:], strict=False),
        strict=False,
    ):
        assert ((c - b) * left.lower + (b - a) * right.lower) / (c - a) <= middle.upper


@over(FEW)
def test_adding_and_removing_are_inverse_trade_offs(entry: Entry) -> None:
    for relation, opposite in itertools.permutations(BRANCHES):
        there, back = attack_on(entry.run, relation), attack_on(entry.run, opposite)
        for rate in (1e-6, 0.01, 0.3, 0.8):
            misses = there.false_negative_rate(rate)
            assert back.false_negative_rate(misses.upper).lower <= rate
            if misses.lower > 0:
                assert back.false_negative_rate(misses.lower).upper >= rate * (1 - 1e-15)


@over(FEW)
def test_adding_or_removing_is_at_least_as_bad_as_either(entry: Entry) -> None:
    either = attack_on(entry.run, tr.ADD_OR_REMOVE)
    for rate in (1e-6, 0.01, 0.3, 0.8):
        for relation in BRANCHES:
            assert (
                attack_on(entry.run, relation).true_positive_rate(rate).lower
                <= either.true_positive_rate(rate).upper
            )
    # symmetric neighbours: exchanging false positives and false negatives changes nothing
    misses = either.false_negative_rate(0.2)
    assert (
        either.false_negative_rate(misses.upper).lower
        <= 0.2
        <= either.false_negative_rate(misses.lower).upper
    )


@over(FEW)
def test_exchanging_the_datasets_exchanges_the_priors(entry: Entry) -> None:
    adding, removing = (attack_on(entry.run, relation) for relation in BRANCHES)
    for prior in (0.125, 0.5, 0.75):
        assert intersect(adding.attack_success(prior), removing.attack_success(1 - prior))
        assert adding.attack_success(prior).lower >= max(prior, 1 - prior)


@over(FEW)
def test_the_rates_say_as_much_as_the_curve(entry: Entry) -> None:
    """delta(epsilon) is the largest true positive rate less e^epsilon false positive rates."""
    attack, asked = attack_on(entry.run, tr.REMOVE), curve(entry.run, tr.REMOVE)
    for epsilon in entry.epsilons:
        for rate in (1e-9, 1e-4, 0.02, 0.2, 0.6):
            assert (
                attack.true_positive_rate(rate).lower - math.exp(epsilon) * rate <= asked.delta(epsilon).upper
            )


def test_what_a_curve_was_asked_before_does_not_matter_beyond_its_accuracy() -> None:
    run = gaussian(0.8, poisson(1e-3), 10_000)
    asked = curve(run, tr.REMOVE)
    together = asked.trade_off().true_positive_rate(np.array([[0.001, 0.01], [0.1, 0.5]]))
    assert together.shape == (2, 2)
    for rate, found in zip((0.001, 0.01, 0.1, 0.5), together.ravel(), strict=True):
        assert intersect(asked.trade_off().true_positive_rate(rate), found)


# -- the ends ------------------------------------------------------------------------------------------------


@ANY_WAY
@pytest.mark.parametrize(
    "run", [gaussian(0.8, poisson(0.01), 100), laplace(1, EVERY, 3), response(0.75, EVERY, 2)], ids=repr
)
def test_attacks_that_never_or_always_raise_an_alarm(run: tr.Run, relation: tr.Relation) -> None:
    attack = attack_on(run, relation)
    assert attack.true_positive_rate(0) == tr.Bracket(0, 0)
    assert attack.false_negative_rate(0) == tr.Bracket(1, 1)
    assert attack.true_positive_rate(1) == tr.Bracket(1, 1)
    assert attack.false_negative_rate(1) == tr.Bracket(0, 0)


def test_outputs_that_only_one_dataset_produces_need_no_false_alarm() -> None:
    run = finite(*LOPSIDED, EVERY, 1)
    revealed = attack_on(run, tr.REMOVE).true_positive_rate(0)
    assert 0.125 in revealed
    assert revealed.relative_width <= 1e-11
    assert attack_on(run, tr.ADD).true_positive_rate(0) == tr.Bracket(0, 0)
    # the same output, seen from the other side: no alarm is ever missed beyond this rate
    assert attack_on(run, tr.ADD).false_negative_rate(0.8751) == tr.Bracket(0, 0)
    assert (
        attack_on(response(1, EVERY, 1), tr.REMOVE).false_negative_rate([0.0, 0.5]).tolist()
        == [tr.Bracket(0, 0)] * 2
    )


def test_a_run_that_releases_nothing_leaves_only_guessing() -> None:
    attack = attack_on(tr.Run(), tr.ADD_OR_REMOVE)
    for rate in RATES:
        assert rate in attack.true_positive_rate(rate)
        assert attack.true_positive_rate(rate).relative_width <= 1e-15
    assert attack.advantage == tr.Bracket(0, 0)
    assert attack.attack_success() == tr.Bracket(0.5, 0.5)
    assert 0.7 in attack.attack_success(0.3)
    assert 0.3 in attack.posterior(0.3, 0.01)


def test_certain_attacks() -> None:
    attack = attack_on(gaussian(1, EVERY, 10**6), tr.REMOVE)
    for rate in (1e-12, 0.1, 0.9):
        assert attack.true_positive_rate(rate).lower >= 1 - 1e-11
    assert attack.attack_success(1e-9).upper == 1


# -- curves known only roughly -------------------------------------------------------------------------------


class Rough:
    """The Gaussian curve of mu = 1, each value with errors of its own, nothing known beyond `farthest`."""

    log_infinite_mass = -math.inf, -math.inf

    def __init__(self, error: float, farthest: float) -> None:
        self.error, self.farthest = error, farthest

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        if epsilon > self.farthest:
            raise tr.NotPreciseEnough("too far")
        chance = random.Random(epsilon)
        truth = float(mp.log(gaussian_delta(mpf(1), mpf(epsilon))))
        return LogBounds(truth - chance.random() * self.error, truth + chance.random() * self.error)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        raise NotImplementedError


def rough_attack(error: float, farthest: float = math.inf) -> TradeOff:
    composed = Rough(error, farthest)
    asked = tr.PrivacyCurve(
        question="a rough curve",
        because=(),
        branches=(
            Branch("REMOVE", (ComposedCover((composed,), ()),), (ComposedWitness((composed,), "a pair"),)),
        ),
        accuracy=max(error, 1e-9),
        reverse=lambda: asked,
    )
    return asked.trade_off()


@pytest.mark.parametrize("error", [1e-8, 1e-4, 1e-2, 0.1])
def test_rough_values_still_bound_the_rates_and_little_is_added(error: float) -> None:
    attack = rough_attack(error)
    for rate in (1e-6, 0.001, 0.05, 0.3, 0.7, 0.99):
        quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * mpf(rate))
        hits, misses = attack.true_positive_rate(rate), attack.false_negative_rate(rate)
        assert hits.lower <= mp.ncdf(1 - quantile) <= hits.upper
        assert misses.lower <= mp.ncdf(quantile - 1) <= misses.upper
        assert hits.relative_width <= 2 * error


def test_what_cannot_be_certified_is_refused_and_the_rest_is_not() -> None:
    attack = rough_attack(1e-6, farthest=2)
    assert attack.true_positive_rate(0.1).relative_width <= 1e-5
    with pytest.raises(
        tr.NotPreciseEnough, match=r"false_positive_rate=1e-09 could not be certified to accuracy=1e-06"
    ):
        attack.true_positive_rate(1e-9)


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 10**290), 0.7, 1 - Fraction(1, 10**20)])
def test_truthful_answers_are_attacked_as_rational_numbers_say(rate: float | Fraction) -> None:
    truth: Any = Fraction(7, 10)
    step = tr.Step(tr.RandomizedResponse(truth_probability=truth), tr.EveryRecord())
    attack = tr.privacy_curve(step, relation=tr.REMOVE).trade_off()
    a = Fraction(rate)
    exact = min(a * truth / (1 - truth), 1 - (1 - a) * (1 - truth) / truth)
    hits, misses = attack.true_positive_rate(rate), attack.false_negative_rate(rate)
    assert hits.lower <= exact <= hits.upper
    assert hits.relative_width <= 1e-8
    assert misses.lower <= 1 - exact <= misses.upper
    prior = Fraction(1, 3)
    success = attack.attack_success(prior)  # the odds 2 against D are below those of a truthful answer, 7/3
    assert success.lower <= Fraction(2, 3) * truth + prior * truth <= success.upper
    belief = attack.posterior(prior, rate)
    assert belief.lower <= prior * exact / (prior * exact + (1 - prior) * a) <= belief.upper


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan, math.inf, "0.1", None, True])
def test_bad_arguments_are_named(bad: float) -> None:
    attack = attack_on(gaussian(1, EVERY, 1), tr.REMOVE)
    for method in (attack.true_positive_rate, attack.false_negative_rate):
        with pytest.raises(tr.InvalidSetting, match=r"^false_positive_rate must be .*, got .*\. Pass "):
            method(bad)
    with pytest.raises(tr.InvalidSetting, match=r"^false_positive_rate must be .*, got .*\. Pass "):
        attack.posterior(0.5, bad)
    for prior in (bad, 0.0, 1.0):
        with pytest.raises(tr.InvalidSetting, match=r"^prior must be .*, got .*\. Pass "):
            attack.attack_success(prior)
        with pytest.raises(tr.InvalidSetting, match=r"^prior must be .*, got .*\. Pass "):
            attack.posterior(prior, 0.1)
    with pytest.raises(tr.InvalidSetting, match=r"^false_positive_rate must be above 0"):
        attack.posterior(0.5, 0)
    with pytest.raises(tr.InvalidSetting, match=r"^count must be at least 2"):
        attack.points(1)


def test_a_trade_off_prints_the_rates_attacks_are_judged_by() -> None:
    lines = str(attack_on(gaussian(1, EVERY, 1), tr.REMOVE)).splitlines()
    assert lines[0].split("  ") == ["false positive rate", "true positive rate"]
    assert [line.split()[0] for line in lines[2:]] == ["0.0001", "0.001", "0.01", "0.05", "0.1"]
    assert "[0.25951102" in lines[5]


def test_points_run_from_no_alarm_to_nothing_but_alarms() -> None:
    rates, misses = attack_on(gaussian(1, EVERY, 1), tr.REMOVE).points(9)
    assert rates[0] == 0
    assert rates[-1] == 1
    assert np.all(np.diff(rates) > 0)
    assert [misses[0], misses[-1]] == [tr.Bracket(1, 1), tr.Bracket(0, 0)]
    assert all(low.upper > high.lower for low, high in itertools.pairwise(misses))
