"""What a search costs: the best of several runs, against enumeration and against the published formula."""

import itertools
import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tightrope as tr
from tightrope.answers.tuning import tuned_curve
from tightrope.curve.ranks import ranks_of
from tightrope.setting.trials import as_trials

LAWS = [
    "geometric:20",
    "negative-binomial:0.5:20",
    "negative-binomial:-0.5:8",
    "logarithmic:20",
    "poisson:20",
]
FEW = [
    "geometric:3",
    "negative-binomial:2:3",
    "logarithmic:5",
    "poisson:2",
    "poisson:5",  # of more runs the upper end of such outputs is nearly 1, and any score lies below
    "fixed:2",
    "fixed:3",
]
ANCHOR = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
ONE_DIRECTION = (tr.ADD, tr.REMOVE, tr.SUBSTITUTE)


def chance(law: str, mass: float) -> float:
    """The chance that some of K runs is in a set of that mass, summed over K: its own arithmetic."""
    kind, *numbers = law.split(":")
    mean, miss = float(numbers[-1]), 1 - mass
    if kind == "poisson":
        return 1 - math.exp(-mean * mass)
    if kind == "fixed":
        return 1 - miss ** int(mean)
    eta = {"geometric": 1.0, "logarithmic": 0.0}.get(kind, float(numbers[0]))
    gamma = as_trials(law).gamma  # type: ignore[attr-defined]
    weight, total, hit, k = 1.0 - gamma, 0.0, 0.0, 1
    while weight > 1e-18 * max(total, 1e-300) or k < 10:
        total, hit = total + weight, hit + weight * miss**k
        weight, k = weight * (1 - gamma) * (k + eta) / (k + 1), k + 1
    return 1 - hit / total


def publish(masses: list[float], order: tuple[tuple[int, ...], ...], law: str) -> list[float]:
    """The law of the published output: outputs in classes of equal score, the best first."""
    result, above, before = [0.0] * len(masses), 0.0, 0.0
    for tied in order:
        mass = math.fsum(masses[i] for i in tied)
        above = min(above + mass, 1.0)
        here = chance(law, above)
        for i in tied:
            result[i] = (here - before) * masses[i] / mass if mass else 0.0
        before = here
    return result


def list_orders(count: int) -> list[tuple[tuple[int, ...], ...]]:
    """Every ranking of so many outputs, with ties."""
    found = []
    for labels in itertools.product(range(count), repeat=count):
        if set(labels) == set(range(max(labels) + 1)):
            classes = range(max(labels) + 1)
            found.append(tuple(tuple(i for i in range(count) if labels[i] == c) for c in classes))
    return found


def largest_delta(p: list[float], q: list[float], law: str, epsilon: float) -> float:
    """The largest delta over all scores; nothing published is an output too."""
    nothing = 1 - chance(law, 1.0)
    odds, best = math.exp(epsilon), 0.0
    for order in list_orders(len(p)):
        pairs = [*zip(publish(p, order, law), publish(q, order, law), strict=True), (nothing, nothing)]
        best = max(best, math.fsum(max(a - odds * b, 0.0) for a, b in pairs))
    return best


def draw(rng: random.Random, count: int) -> list[float]:
    power = rng.choice([1, 3])
    raw = [rng.expovariate(1) ** power for _ in range(count)]
    if rng.random() < 0.2:
        raw[rng.randrange(count)] = 0.0
    return [value / math.fsum(raw) for value in raw]


def from_above(curve: tr.PrivacyCurve) -> tr.PrivacyCurve:
    """The same upper ends: lower ends take most of the time, and say nothing here."""
    branches = tuple(replace(branch, witnesses=()) for branch in curve.branches)
    return replace(curve, branches=branches, reverse=lambda: from_above(curve.reverse()))


def test_those_are_the_upper_ends() -> None:
    step = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord())
    curve = tr.privacy_curve(tr.tuned(step, trials="geometric:3"), relation=tr.REMOVE)
    for epsilon in (-0.7, 0.3):
        assert from_above(curve).delta(epsilon).upper == curve.delta(epsilon).upper


@pytest.mark.parametrize("law", FEW)
def test_no_score_of_finite_outputs_exceeds_the_upper_end(law: str) -> None:
    rng = random.Random(law)
    for _ in range(5):
        p, q = draw(rng, 3), draw(rng, 3)
        step = tr.Step(tr.Finite(observed=p, alternative=q), tr.EveryRecord())
        for relation, (here, there) in {tr.ADD: (p, q), tr.REMOVE: (q, p)}.items():
            curve = from_above(tr.privacy_curve(tr.tuned(step, trials=law), relation=relation))
            for epsilon in (-0.7, 0.0, 0.3, 1.0, 2.5):
                reached = largest_delta(here, there, law, epsilon)
                assert reached <= curve.delta(epsilon).upper * (1 + 1e-9) + 1e-12


def chances(law: str, masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """`chance` in closed form."""
    kind, number = law.split(":")
    k = float(number)
    if kind == "poisson":
        return -np.expm1(-k * masses)
    return masses / (1 / k + (1 - 1 / k) * masses) if kind == "geometric" else 1 - (1 - masses) ** k


@pytest.mark.parametrize("law", ["geometric:20", "geometric:3", "poisson:5", "fixed:2", "fixed:3"])
def test_scores_of_randomized_response_with_two_or_three_candidates_lie_in_the_bracket(law: str) -> None:
    step, odds = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()), math.exp(1.2)
    found = tr.delta(tr.tuned(step, trials=law), epsilon=1.2, relation=tr.REMOVE)
    # Three candidates of any weights: with the first, the answer of low loss scores best; with the first two,
    # the answer of high loss scores next; or only with the first, if that is the rarer one.
    low = np.array([0.0, *np.geomspace(1e-5, 1, 800)])[:, None]
    high = np.geomspace(1e-4, 1, 800)[None]
    hits = chances(law, 0.25 * low + 0.75 * high) - chances(law, 0.25 * low)
    alarms = chances(law, 0.75 * low + 0.25 * high) - chances(law, 0.75 * low)
    reached = float((hits - odds * alarms).max())
    assert found.lower <= reached <= found.upper
    assert chance(law, 0.3) == pytest.approx(float(chances(law, np.array(0.3))), rel=1e-12)
    for share in (1.0, 0.5, 0.1):  # two candidates, and every score of their answers
        p, q = (
            [m * s for s in (share, 1 - share) if s for m in side] for side in ((0.75, 0.25), (0.25, 0.75))
        )
        assert largest_delta(p, q, law, 1.2) <= found.upper


@cache
def curve_of_one(run: tr.Run, relation: tr.Relation) -> tr.PrivacyCurve:
    return tr.privacy_curve(run, relation=relation)


@cache
def places_behind(one: tr.PrivacyCurve) -> list[tuple[float, float]]:
    """The places in the other direction, the same for all laws and epsilons."""
    return places_of(one.reverse())


def places_of(back: tr.PrivacyCurve) -> list[tuple[float, float]]:
    """Many epsilon_1 with their deltas."""
    return [(0.02 * i, back.delta(0.02 * i).upper) for i in range(100)]


def published_bound(
    one: tr.PrivacyCurve, places: list[tuple[float, float]], law: str, epsilon: float
) -> float:
    """E[K] delta(epsilon - ln C) of Koskela, Redberg and Wang, at the best epsilon_1 of many."""
    trials = as_trials(law)
    if isinstance(trials, tr.PoissonTrials):
        ratios = [trials.mean * places[0][1]]
    else:
        eta, gamma = float(trials.exact_shape), trials.gamma  # type: ignore[attr-defined]
        weigh = (1 - gamma) / gamma
        ratios = [(eta + 1) * math.log(math.exp(x) + weigh * delta) for x, delta in places]
    return min(trials.expected * one.delta(epsilon - ratio).upper for ratio in ratios)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("relation", ONE_DIRECTION, ids=str)
def test_the_upper_end_is_never_above_the_published_formula_on_the_same_curve(
    law: str, relation: tr.Relation
) -> None:
    for run in (ANCHOR, tr.Step(tr.Gaussian(noise_multiplier=5), tr.EveryRecord()) * 1):
        one = curve_of_one(run, relation)
        found = from_above(tr.privacy_curve(tr.tuned(run, trials=law), relation=relation))
        for epsilon in (0.0, 0.5, 1.5, 3.0):
            bound = published_bound(one, places_behind(one), law, epsilon)
            assert found.delta(epsilon).upper <= min(bound, 1.0)


def test_the_published_formula_with_the_curve_of_the_same_direction_is_too_small() -> None:
    # P never says what gives Q away, so its own curve does not see how often Q ranks an output below it
    p, q, law = [0.99998, 0.00002], [0.69, 0.31], "geometric:10"
    step = tr.Step(tr.Finite(observed=p, alternative=q), tr.EveryRecord())
    one = tr.privacy_curve(step, relation=tr.ADD)
    epsilon = 1.14
    reached = largest_delta(p, q, law, epsilon)
    assert published_bound(one, places_of(one), law, epsilon) < 0.01 < 0.4 < reached
    assert reached <= tr.delta(tr.tuned(step, trials=law), epsilon=epsilon, relation=tr.ADD).upper


@pytest.mark.parametrize("law", LAWS)
def test_both_ends_of_the_anchor_are_close(law: str) -> None:
    found = tr.epsilon(tr.tuned(ANCHOR, trials=law), delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert tr.epsilon(ANCHOR, delta=1e-6, relation=tr.ADD_OR_REMOVE) < found.lower
    assert found.relative_width < 0.04


def test_add_or_remove_is_the_worse_of_both_directions() -> None:
    search = tr.tuned(ANCHOR, trials="geometric:20")
    whole = tr.privacy_curve(search, relation=tr.ADD_OR_REMOVE)
    parts = [tr.privacy_curve(search, relation=branch) for branch in (tr.ADD, tr.REMOVE)]
    for epsilon in (0.1, 1.0, 1.8):
        ends = [part.delta(epsilon) for part in parts]
        found = whole.delta(epsilon)
        assert found.upper == pytest.approx(max(end.upper for end in ends), rel=1e-3)
        assert found.lower == pytest.approx(max(end.lower for end in ends), rel=1e-2)


def test_a_search_without_a_run_publishes_nothing_and_costs_nothing_then() -> None:
    rare = tr.tuned(tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()), trials="poisson:0.01")
    found = tr.delta(rare, epsilon=0.5, relation=tr.REMOVE)
    assert found.upper < 0.0101  # at most the chance that there is a run
    assert found.lower > 0.009 * tr.delta(rare.run, epsilon=0.5, relation=tr.REMOVE).lower


def test_hardly_more_than_one_run_costs_hardly_more_than_one() -> None:
    one = tr.epsilon(ANCHOR, delta=1e-6, relation=tr.REMOVE)
    found = tr.epsilon(tr.tuned(ANCHOR, trials="geometric:1.0001"), delta=1e-6, relation=tr.REMOVE)
    assert one.lower * (1 - 1e-3) <= found.lower <= found.upper <= one.upper * (1 + 1e-3)


def test_a_fixed_number_of_runs_is_composed() -> None:
    found = tr.epsilon(tr.tuned(ANCHOR, trials=20), delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert found.upper == tr.epsilon(ANCHOR * 20, delta=1e-6, relation=tr.REMOVE).upper
    assert found.lower > tr.epsilon(ANCHOR, delta=1e-6, relation=tr.ADD_OR_REMOVE).upper
    assert found.decided_by is not None
    assert "best_of_a_fixed_number_of_runs" in [theorem.name for theorem in found.decided_by.because]


@pytest.mark.parametrize("begun", [1, 3])
def test_a_pass_that_one_run_began_is_not_finished_by_the_next(begun: int) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=2))
    found = tr.delta(tr.tuned(step * begun, trials=2), epsilon=5, relation=tr.REMOVE)
    # two first batches of passes of their own are two Poisson samples, beside whole passes
    sample = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.5))
    both = tr.delta(sample * 2 + step * (2 * (begun - 1)), epsilon=5, relation=tr.REMOVE)
    assert found.upper >= both.lower > tr.delta(step * 2 * begun, epsilon=5, relation=tr.REMOVE).upper


def test_one_run_and_whole_passes_are_composed_as_they_are() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=2))
    for run, number in ((step * 1, 1), (step * 4, 3)):
        found = tr.delta(tr.tuned(run, trials=number), epsilon=1, relation=tr.REMOVE)
        assert found.upper == tr.delta(run * number, epsilon=1, relation=tr.REMOVE).upper


@pytest.mark.parametrize("law", ["geometric:7", "poisson:3", "negative-binomial:0.5:7", "logarithmic:7"])
def test_chances_of_ranks_are_those_of_the_law(law: str) -> None:
    from tightrope.numerics.balls import ball

    ranks = ranks_of(as_trials(law))
    for above, mass in ((0.0, 0.3), (0.2, 0.1), (0.6, 0.4)):
        expected = chance(law, above + mass) - chance(law, above)
        assert float(ranks.gain(ball(above), ball(mass))) == pytest.approx(expected, rel=1e-9)
    assert float(ranks.mean) == pytest.approx(as_trials(law).expected, rel=1e-12)
    assert float(ranks.mean) == pytest.approx(chance(law, 1e-7) / 1e-7, rel=1e-5)


def test_the_condition_of_a_random_number_is_printed_with_the_answer() -> None:
    found = tr.epsilon(tr.tuned(ANCHOR, trials="geometric:20"), delta=1e-6, relation=tr.REMOVE)
    assert "only the best run" in str(found)
    assert "draws its candidate anew" in str(found)
    assert "ties broken at random" in str(found)


def test_other_accountants_and_things_that_know_runs_only_refuse_a_search() -> None:
    search = tr.tuned(ANCHOR, trials="geometric:20")
    with pytest.raises(tr.InvalidSetting, match="by must be Certified"):
        tr.epsilon(search, delta=1e-6, relation=tr.REMOVE, by=tr.Renyi())
    with pytest.raises(tr.InvalidSetting, match="the best of several runs"):
        tr.contrast(search, delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(tr.InvalidSetting, match="the best of several runs"):
        tr.Ledger(relation=tr.REMOVE).record(search)  # type: ignore[arg-type]
    with pytest.raises(tr.InvalidSetting, match="the best of several runs"):
        tr.tuned(search, trials=2)  # type: ignore[arg-type]


def test_games_are_not_played_for_a_search() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=1, population=20))
    search = tr.tuned(step * 30, trials="geometric:5")
    quick = tuned_curve(search, tr.SUBSTITUTE, tr.Certified()).epsilon(1e-5)
    assert tuned_curve(search, tr.SUBSTITUTE, tr.Certified(effort=tr.TIGHT)).epsilon(1e-5) == quick


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        (5, "from above all runs count as published, from below only the best one is"),
        ("geometric:5", "from above every output has its worst rank"),
    ],
)
def test_the_gap_of_a_search_says_what_bounds_it(trials: int | str, why: str) -> None:
    search = tr.tuned(tr.Step(tr.Gaussian(noise_multiplier=5), tr.EveryRecord()), trials=trials)
    gap = tr.epsilon(search, delta=1e-2, relation=tr.REMOVE).gap
    assert gap is not None
    assert why in str(gap)


MISSPELLED = [
    "geometric",
    "geometric:",
    "geometric:x",
    "binomial:3",
    "poisson:1:2",
    "fixed:2.5",
    "negative-binomial:20",
]


@pytest.mark.parametrize("wrong", [*MISSPELLED, 2.5, None, True])
def test_an_unknown_law_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(tr.InvalidSetting, match=r"^trials must"):
        tr.tuned(ANCHOR, trials=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("law", "argument"),
    [("geometric:1", "mean"), ("poisson:0", "mean"), ("fixed:0", "number"), ("negative-binomial:-1:3", "eta"),
     ("logarithmic:1e9", "mean")],
)  # fmt: skip
def test_a_number_out_of_range_is_refused_by_name(law: str, argument: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=rf"^{argument} must"):
        tr.tuned(ANCHOR, trials=law)


@pytest.mark.parametrize("law", ["negative-binomial:-0.9:20", "poisson:1e-06", "geometric:1.000001"])
def test_the_ends_that_a_refusal_names_are_taken(law: str) -> None:
    assert str(as_trials(law)) == law
    assert tr.epsilon(tr.tuned(ANCHOR, trials=law), delta=1e-6, relation=tr.REMOVE).upper > 0


@pytest.mark.parametrize("law", [*LAWS, *FEW])
def test_a_law_is_what_its_spelling_says(law: str) -> None:
    assert str(as_trials(law)) == law
    assert as_trials(str(as_trials(law))) == as_trials(law)
    assert tr.tuned(ANCHOR, trials=law) == tr.tuned(ANCHOR, trials=as_trials(law))


@pytest.mark.parametrize(
    ("spaced", "law"),
    [
        ("negative-binomial: 0.5:20", "negative-binomial:0.5:20"),
        ("Negative_Binomial : 0.5 : 20 ", "negative-binomial:0.5:20"),
        ("geometric: 20", "geometric:20"),
        ("fixed: 20", "fixed:20"),
    ],
)
def test_a_blank_before_a_number_is_no_minus_sign(spaced: str, law: str) -> None:
    assert as_trials(spaced) == as_trials(law)


def test_a_whole_number_of_numpy_is_a_fixed_number_of_runs() -> None:
    assert tr.tuned(ANCHOR, trials=np.int64(3)) == tr.tuned(ANCHOR, trials=3)  # type: ignore[arg-type]


def test_the_noise_of_one_run_is_enough_for_the_whole_search() -> None:
    target: Any = {"epsilon": 1.0, "delta": 1e-6, "relation": tr.REMOVE}
    found = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=1_000, trials="geometric:20", **target)
    alone = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=1_000, **target)
    assert found.value > alone.value
    assert found.beyond is not None
    for noise, meets in ((found.value, True), (found.beyond, False)):
        run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=1e-3)) * 1_000
        spent = tr.epsilon(tr.tuned(run, trials="geometric:20"), delta=1e-6, relation=tr.REMOVE)
        assert spent.upper <= 1 if meets else spent.lower > 1


def test_a_search_is_not_calibrated_beside_other_releases() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    with pytest.raises(tr.InvalidSetting, match="besides must be left out beside trials"):
        tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.REMOVE, besides=step, trials="poisson:3")
