"""Steps chosen on the way: what a filter admits, against brute force over every choice."""

import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import tightrope as tr
from tightrope.answers.filter_game import choose_costs
from tightrope.answers.filter_rules import RuleKind
from tightrope.numerics.floats import Floats

FIRST = tr.Step(tr.Gaussian(noise_multiplier=3), tr.EveryRecord())
FULL = tr.Step(tr.Gaussian(noise_multiplier=2.668), tr.EveryRecord())
RARE = tr.Step(tr.Gaussian(noise_multiplier=0.267), tr.Poisson(rate=1e-4))
CALM = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.05))
BOLD = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05))
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "relation": tr.ADD_OR_REMOVE}


def gaussian(noise: float, rate: float) -> tr.Step:
    return tr.Step(
        tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate) if rate < 1 else tr.EveryRecord()
    )


# -- brute force: two steps by quadrature, coins by fractions ------------------------------------------------


def remove_curve(t: Floats, noise: float, rate: float) -> Floats:
    """The closed form of one REMOVE step, at any orders t > 0."""
    inside = np.maximum(t - 1 + rate, 1e-300)
    threshold = noise**2 * np.log(inside / rate) + 0.5
    found = (1 - rate - t) * ndtr(-threshold / noise) + rate * ndtr((1 - threshold) / noise)
    return np.where(t <= 1 - rate, 1 - t, found)


def add_curve(t: Floats, noise: float, rate: float) -> Floats:
    """By duality: H_t(Q || P) = 1 - t + t H_{1/t}(P || Q)."""
    return 1 - t + t * remove_curve(1 / t, noise, rate)


def two_step_value(
    first: tuple[float, float], menu: list[tuple[float, float]], epsilon: float, *, adding: bool
) -> float:
    """Whoever chooses the second step after the first output: the integral of the best choice at each."""
    noise, rate = first
    y, step = np.linspace(-9 * noise, 1 + 9 * noise, 400_001, retstep=True)
    q = np.exp(-((y / noise) ** 2) / 2)
    ratio = 1 - rate + rate * np.exp((y - 0.5) / noise**2)
    p, ratio = (q, 1 / ratio) if adding else (q * ratio, ratio)
    curve = add_curve if adding else remove_curve
    best = np.max([curve(math.exp(epsilon) / ratio, *entry) for entry in menu], axis=0)
    return float((p * best).sum() * step / (noise * math.sqrt(2 * math.pi)))


TWO_STEP_MENUS = {
    "the refuted belief's": ([(2.668, 1.0), (0.267, 1e-4)], 2.0, 1e-4),
    "two rates": ([(1.0, 0.05), (3.0, 0.5)], 1.0, 1e-2),
    "three entries": ([(2.0, 1.0), (1.0, 0.2), (0.6, 0.02)], 2.0, 5e-3),
}


@pytest.mark.parametrize("case", TWO_STEP_MENUS)
def test_the_best_choice_of_two_steps_by_quadrature_lies_in_the_bracket(case: str) -> None:
    entries, epsilon, delta = TWO_STEP_MENUS[case]
    menu = [gaussian(*entry) for entry in entries]
    for relation, adding in ((tr.REMOVE, False), (tr.ADD, True)):
        budget = tr.Filter(menu=menu, steps=2, epsilon=epsilon, delta=delta, relation=relation)
        truth = max(two_step_value(first, entries, epsilon, adding=adding) for first in entries)
        found = budget.worst_delta
        assert found.lower <= truth * (1 + 1e-8)
        assert truth * (1 - 1e-8) <= found.upper
        assert found.upper < 1.02 * truth + 1e-9 * delta  # rounding is relative to the budget
        assert found.lower > 0.98 * truth


def test_composing_what_was_recorded_is_refuted_by_a_choice() -> None:
    """Each run that can have been recorded is private at 1.002e-5; the choice between them costs 1.86e-5."""
    for second in (FULL, RARE):
        assert tr.delta(FIRST + second, epsilon=2, relation=tr.REMOVE).upper < 1.002e-5

    def chosen(epsilon: float) -> float:
        return two_step_value((3.0, 1.0), [(2.668, 1.0), (0.267, 1e-4)], epsilon, adding=False)

    assert chosen(2.0) == pytest.approx(1.85965e-5, rel=1e-5)
    assert brentq(lambda epsilon: chosen(epsilon) - 1e-5, 2, 2.5) == pytest.approx(2.21716, rel=1e-5)
    belief = next(
        row for row in tr.support_matrix().refuted_beliefs if row.name == "what_was_recorded_composes"
    )
    assert "1.86e-5" in belief.statement
    assert "2.217" in belief.statement


def coin(truth: Fraction, rate: Fraction) -> tr.Step:
    return tr.Step(tr.RandomizedResponse(truth_probability=truth), tr.Poisson(rate=rate))


def enumerate_choices(
    coins: list[tuple[Fraction, Fraction]], costs: list[int], units: int, t: Fraction
) -> Fraction:
    """The value of every way to choose among coins, REMOVE, in fractions: all outputs, all choices."""
    pairs = []
    for truth, rate in coins:
        with_record = (1 - rate) * (1 - truth) + rate * truth
        pairs.append(((with_record, 1 - truth), (1 - with_record, truth)))

    @cache
    def value(left: int, u: Fraction, v: Fraction) -> Fraction:
        reached = [
            sum((value(left - cost, u * p, v * q) for p, q in pair), Fraction(0))
            for pair, cost in zip(pairs, costs, strict=True)
            if cost <= left
        ]
        return max(reached, default=max(u - v, Fraction(0)))

    return value(units, Fraction(1), t)


COINS = [(Fraction(3, 4), Fraction(1, 2)), (Fraction(9, 10), Fraction(1, 8))]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_every_choice_of_coins_in_fractions_lies_in_the_bracket(epsilon: float) -> None:
    menu = [coin(*each) for each in COINS]
    budget = tr.Filter(menu=menu, steps=4, epsilon=epsilon, delta=0.9, relation=tr.REMOVE)
    t = Fraction(math.exp(epsilon))
    truth = enumerate_choices(COINS, [1, 1], 4, t)
    found = budget.worst_delta
    assert found.lower <= float(truth) * (1 + 1e-12)
    assert float(truth) * (1 - 1e-12) <= found.upper
    assert found.upper - found.lower < 0.05 * found.upper


@pytest.mark.parametrize(("epsilon", "delta"), list(product([0.4, 1.0], [0.15, 0.3])))
def test_no_choice_of_coins_that_a_filter_admits_exceeds_its_budget(epsilon: float, delta: float) -> None:
    menu = [coin(*each) for each in COINS]
    budget = tr.Filter(menu=menu, epsilon=epsilon, delta=delta, relation=tr.REMOVE)
    assert budget.rule.kind is RuleKind.GAME
    costs, units = [int(cost) for cost in budget.rule.costs], int(budget.rule.capacity)
    assert enumerate_choices(COINS, costs, units, Fraction(math.exp(epsilon))) <= Fraction(delta)
    assert float(enumerate_choices(COINS, costs, units, Fraction(math.exp(epsilon)))) in budget.worst_delta


# -- laws ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played() -> tr.Filter:
    return tr.Filter(menu=[CALM, BOLD], **BUDGET)


def test_no_fixed_schedule_that_a_filter_admits_exceeds_its_budget(played: tr.Filter) -> None:
    bold = played.rows[1].fits
    for times in range(0, bold + 1, 3):
        left = played.rule.capacity - times * played.rule.costs[1]
        calm = math.floor(left / played.rule.costs[0])
        run = BOLD * times + CALM * calm
        assert tr.delta(run, epsilon=2, relation=tr.ADD_OR_REMOVE).lower <= played.worst_delta.upper <= 1e-5


def test_the_bracket_of_the_worst_choice_is_narrow_and_at_most_the_budget(played: tr.Filter) -> None:
    found = played.worst_delta
    assert found.upper <= played.delta
    assert found.relative_width < 3e-3
    assert found.decided_by is not None
    assert found.decided_by.because[0].name == "menu_game"
    pure = max(
        tr.delta(row.entry * row.fits, epsilon=2, relation=tr.ADD_OR_REMOVE).lower for row in played.rows
    )
    assert found.lower > 1.2 * pure  # a choice costs more than any schedule that it may end as


def test_a_menu_of_one_entry_has_nothing_to_choose() -> None:
    budget = tr.Filter(menu=[CALM], **BUDGET)
    fixed = tr.most_steps(CALM, **BUDGET).value
    assert fixed - 1 <= budget.remaining(CALM) <= fixed


def test_a_larger_menu_admits_no_more_of_any_entry(played: tr.Filter) -> None:
    larger = tr.Filter(menu=[CALM, BOLD, gaussian(4, 0.2)], **BUDGET)
    for step in (CALM, BOLD):
        assert larger.remaining(step) <= played.remaining(step) + 1


def test_removing_and_adding_are_both_played() -> None:
    menu = [
        tr.Step(tr.Laplace(noise_multiplier=3), tr.Poisson(rate=0.3)),
        coin(Fraction(3, 5), Fraction(1, 2)),
    ]
    question: dict[str, Any] = {"menu": menu, "steps": 3, "epsilon": 0.5, "delta": 0.5}
    each = [tr.Filter(relation=relation, **question).worst_delta.upper for relation in (tr.ADD, tr.REMOVE)]
    assert tr.Filter(relation=tr.ADD_OR_REMOVE, **question).worst_delta.upper == max(each)


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE])
def test_full_batches_with_gaussian_noise_are_chosen_for_free(relation: tr.Relation) -> None:
    small, large = gaussian(40, 1.0), gaussian(13, 1.0)
    budget = tr.Filter(menu=[small, large], epsilon=2, delta=1e-5, relation=relation)
    assert budget.because.name == "gaussian_filter_is_free"
    assert budget.price == 0
    for row in budget.rows:
        assert row.fits in (row.fixed_in_advance, row.fixed_in_advance - 1)
    budget.spend(large, 3)
    rest = budget.remaining(small)
    ends = [tr.delta(large * 3 + small * (rest + more), epsilon=2, relation=relation) for more in (0, 1)]
    assert ends[0].upper <= 1e-5 < ends[1].upper * (1 + 1e-6)


def test_menus_too_long_for_a_game_are_filtered_by_renyi_divergences_of_one_order() -> None:
    menu = [gaussian(1, 0.01), gaussian(4, 0.01)]
    budget = tr.Filter(menu=menu, epsilon=3, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert budget.because.name == "renyi_filter_at_a_fixed_order"
    for row in budget.rows:
        assert 0 < row.fits < row.fixed_in_advance
    budget.spend(menu[0], 1000)
    rest = budget.remaining(menu[1])
    spent = menu[0] * 1000 + menu[1] * rest
    assert tr.epsilon(spent, delta=1e-5, relation=tr.ADD_OR_REMOVE, by=tr.Renyi()).upper <= 3


def test_batches_of_fixed_size_with_a_record_exchanged_are_filtered_by_their_envelope() -> None:
    menu = [
        tr.Step(tr.Gaussian(noise_multiplier=noise), tr.WithoutReplacement(batch=1, population=20))
        for noise in (4, 6)
    ]
    budget = tr.Filter(menu=menu, epsilon=2, delta=1e-5, relation=tr.SUBSTITUTE)
    found = budget.worst_delta
    assert budget.because.name == "menu_game"
    assert 0 < found.lower < found.upper <= 1e-5


def test_an_entry_may_be_a_run_that_is_taken_as_a_whole() -> None:
    ten = tr.Filter(menu=[CALM * 10, BOLD * 5], **BUDGET)
    assert ten.menu == (CALM * 10, BOLD * 5)
    ten.spend(CALM * 10, 2)
    assert ten.spent == CALM * 20
    one = tr.Filter(menu=[CALM, BOLD], **BUDGET)
    assert 10 * ten.rows[0].fits <= 1.2 * one.rows[0].fits


def test_an_entry_that_loses_nothing_always_fits() -> None:
    idle = gaussian(1, 0.0)
    budget = tr.Filter(menu=[idle, CALM], **BUDGET)
    while budget.may(CALM):
        budget.spend(CALM, budget.remaining(CALM))
    assert budget.may(idle, 1000)
    assert tr.Filter(menu=[idle], steps=3, **BUDGET).worst_delta.upper == 0


def test_costs_are_whole_and_about_in_proportion() -> None:
    assert choose_costs([1000, 300, 100]) == [3, 10, 30]
    assert choose_costs([7]) == [1]
    assert all(cost >= 1 for cost in choose_costs([10**15, 3]))


# -- what it is like to use ----------------------------------------------------------------------------------


def test_spending_takes_away_and_what_does_not_fit_is_refused() -> None:
    budget = tr.Filter(menu=[CALM, BOLD], **BUDGET)
    fits = budget.remaining(BOLD)
    budget.spend(BOLD, fits)
    assert budget.spent == BOLD * fits
    assert not budget.may(BOLD)
    with pytest.raises(
        tr.InvalidSetting, match=r"step must fit what is left of the budget: it does not fit any"
    ):
        budget.spend(BOLD)
    assert budget.spent == BOLD * fits


def test_a_step_outside_the_menu_is_refused_with_the_remedy() -> None:
    budget = tr.Filter(menu=[FULL], **BUDGET)
    with pytest.raises(tr.InvalidSetting, match=r"be on the menu: .*make one that lists it"):
        budget.may(CALM)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"menu": []}, "menu must hold at least one entry"),
        ({"menu": CALM}, "menu must be a list of steps or runs"),
        ({"menu": [CALM, CALM]}, "menu must list each entry once"),
        ({"menu": [gaussian(0.2, 1.0)]}, "menu must hold entries that fit the budget at least once"),
        ({"epsilon": -1}, "epsilon must be at least 0"),
        ({"delta": 0}, "delta must be"),
        ({"steps": 0}, "steps must be"),
        ({"relation": "neighbours"}, "relation must be one of"),
    ],
)
def test_what_makes_no_filter_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=said):
        tr.Filter(**{"menu": [CALM, BOLD], **BUDGET, **given})


def test_more_steps_than_are_certified_are_refused_with_how_many_are() -> None:
    with pytest.raises(tr.NoSuchValue, match=r"do not fit the budget\. Certified are \d+ at most"):
        tr.Filter(menu=[CALM, BOLD], steps=100, **BUDGET)


def test_batches_of_a_pass_cannot_be_chosen_one_by_one() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.BallsInBins(batches=100))
    with pytest.raises(tr.NoTheorem, match="cannot be chosen one by one"):
        tr.Filter(menu=[step], **BUDGET)


def test_a_filter_is_no_run_and_the_refusal_says_what_it_costs(played: tr.Filter) -> None:
    with pytest.raises(tr.InvalidSetting, match="costs its whole budget"):
        tr.epsilon(played, delta=1e-5, relation=tr.ADD_OR_REMOVE)  # type: ignore[call-overload]


def test_a_filter_prints_what_the_freedom_costs(played: tr.Filter) -> None:
    said = str(played)
    assert "fixed in advance" in said
    assert f"costs up to {math.ceil(1000 * played.price) / 10:g} % of the steps" in said
    assert "each entry is chosen from what was released before it" in said
    assert [row["fits"] for row in played.to_dicts()] == [row.fits for row in played.rows]
    assert "menu_game" in played._repr_html_()
    assert repr(played) == "<Filter: epsilon 2.0, delta 1e-05 under ADD_OR_REMOVE, 0.0% spent>"
