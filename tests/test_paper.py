"""What the paper (Lebeda, Regehr, Kamath, Steinke 2024) states, exactly or as bounds."""

import math
from fractions import Fraction

import pytest

import tightrope as tr
from catalogue import gaussian, laplace, log_delta, poisson, response
from oracle_cases import Case, load
from precise import mpf
from tightrope.engines.choose import compose
from tightrope.engines.face import LogBounds
from tightrope.engines.outcomes import exact_delta
from tightrope.pairs.schedule import Schedule
from tightrope.setting.sampling import Sampling
from tightrope.theorems.lookup import analyse
from tightrope.theorems.worst_pairs import step_laws


def schedule_of(run: tr.Run, relation: tr.Relation) -> Schedule:
    (analysis,) = analyse(run, relation, tr.TIGHT)
    schedule = analysis.covers[0].schedules[0]
    assert isinstance(schedule, Schedule)
    return schedule


# -- randomized response: section 4, exact -------------------------------------------------------------------

COIN = response(0.75, poisson(0.5), 1)


@pytest.mark.parametrize(
    ("relation", "order", "delta"),
    [
        (tr.ADD, Fraction(4, 3), Fraction(11, 48)),
        (tr.REMOVE, Fraction(4, 3), Fraction(1, 6)),
        (tr.ADD, Fraction(2), Fraction(1, 16)),
        (tr.REMOVE, Fraction(2), Fraction(1, 8)),
    ],
)
def test_randomized_response_at_two_steps_loses_exactly_the_papers_fractions(
    relation: tr.Relation, order: Fraction, delta: Fraction
) -> None:
    assert exact_delta(schedule_of(COIN * 2, relation), order) == delta
    bracket = tr.delta(COIN * 2, epsilon=math.log(order), relation=relation)
    assert bracket.lower == pytest.approx(float(delta), rel=1e-12)
    assert bracket.upper == pytest.approx(float(delta), rel=1e-12)


def test_add_and_remove_cross_for_randomized_response_at_two_steps() -> None:
    low, high = math.log(Fraction(4, 3)), math.log(2)
    assert log_delta(COIN * 2, tr.ADD, low).lower > log_delta(COIN * 2, tr.REMOVE, low).upper
    assert log_delta(COIN * 2, tr.REMOVE, high).lower > log_delta(COIN * 2, tr.ADD, high).upper


def test_remove_dominates_add_for_randomized_response_at_one_step() -> None:
    for order in (Fraction(n, 60) for n in range(60, 100)):
        assert exact_delta(schedule_of(COIN, tr.REMOVE), order) >= exact_delta(
            schedule_of(COIN, tr.ADD), order
        )


def kinks(schedule: Schedule) -> set[Fraction]:
    """Every order >= 1 at which the curve of a composed coin can bend."""
    ((pair, steps),) = schedule
    ratios = [p / q for p, q in getattr(pair, "levels")]  # noqa: B009 # only finite pairs have levels
    return {order for i in range(steps + 1) if (order := ratios[0] ** i * ratios[1] ** (steps - i)) >= 1} | {
        Fraction(1)
    }


def remove_dominates_add(steps: int) -> bool:
    """Whether remove loses at least as much as add at every order >= 1: both are linear between kinks."""
    add, remove = schedule_of(COIN * steps, tr.ADD), schedule_of(COIN * steps, tr.REMOVE)
    return all(exact_delta(remove, order) >= exact_delta(add, order) for order in kinks(add) | kinks(remove))


@pytest.mark.parametrize(
    ("steps", "dominates"), [(1, True), (2, False), (3, False), (4, True), (5, False), (11, True), (15, True)]
)
def test_remove_dominates_add_for_randomized_response_only_at_some_numbers_of_steps(
    steps: int, dominates: bool
) -> None:
    assert remove_dominates_add(steps) is dominates


# -- Laplace: Fig. 1 and Fig. 3 ------------------------------------------------------------------------------


def test_remove_dominates_add_for_laplace_at_one_step() -> None:
    for epsilon in (0.05, 0.1, 0.2, 0.3, 0.5):
        assert (
            log_delta(laplace(1, poisson(0.5), 1), tr.REMOVE, epsilon).lower
            > log_delta(laplace(1, poisson(0.5), 1), tr.ADD, epsilon).upper
        )


def test_remove_does_not_dominate_add_for_laplace_at_two_steps() -> None:
    run = laplace(1, poisson(0.5), 2)
    assert log_delta(run, tr.ADD, 0.25).lower > log_delta(run, tr.REMOVE, 0.25).upper
    assert log_delta(run, tr.REMOVE, 0.6).lower > log_delta(run, tr.ADD, 0.6).upper


def test_add_or_remove_follows_the_crossing_for_laplace_at_two_steps() -> None:
    run = laplace(1, poisson(0.5), 2)
    assert log_delta(run, tr.ADD_OR_REMOVE, 0.25).lower > log_delta(run, tr.REMOVE, 0.25).upper
    assert log_delta(run, tr.ADD_OR_REMOVE, 0.6).lower > log_delta(run, tr.ADD, 0.6).upper


def adversary(removes: int, adds: int, epsilon: float) -> LogBounds:
    """Laplace noise of scale 2, half of the records without replacement: so many steps of each direction."""
    laws = step_laws(tr.Laplace(noise_multiplier=2), tr.WithoutReplacement(batch=1, population=2), tr.REMOVE)
    return compose(Schedule([(laws.remove(), removes), (laws.add(), adds)])).log_bounds(epsilon, 1e-4)


def test_one_step_of_each_direction_beats_both_pure_directions_for_laplace_under_substitution() -> None:
    assert adversary(1, 1, 0.4).lower > max(adversary(2, 0, 0.4).upper, adversary(0, 2, 0.4).upper)


def test_one_step_of_each_direction_does_not_always_beat_the_pure_ones() -> None:
    assert adversary(0, 2, 0.05).lower > adversary(1, 1, 0.05).upper
    assert adversary(2, 0, 0.8).lower > adversary(1, 1, 0.8).upper


# -- Gaussian: Table 1, and what became of the conjectures ---------------------------------------------------

BATCHES: dict[str, Sampling] = {
    "poisson": tr.Poisson(rate=1e-3),
    "wor": tr.WithoutReplacement(batch=1, population=1000),
}
PRINTED = {
    ("poisson", 1e-7): 1.19,
    ("poisson", 1e-6): 0.96,
    ("poisson", 1e-5): 0.80,
    ("poisson", 1e-4): 0.64,
    ("wor", 1e-7): 17.48,
    ("wor", 1e-6): 15.26,
    ("wor", 1e-5): 12.98,
    ("wor", 1e-4): 10.62,
}


@pytest.mark.parametrize(("sampling", "delta"), PRINTED)
def test_table_1_is_an_upper_bound_that_ours_does_not_exceed(sampling: str, delta: float) -> None:
    printed = PRINTED[sampling, delta]
    ours = tr.epsilon(gaussian(0.8, BATCHES[sampling], 10_000), delta=delta, relation=tr.ADD_OR_REMOVE)
    assert printed - 0.03 <= ours.lower <= ours.upper <= printed + 0.005


TABLE_1 = [case for case in load() if case.id.startswith("table1")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in TABLE_1])
def test_table_1_brackets_hold_the_exact_epsilon(case: Case) -> None:
    ours = tr.epsilon(
        case.run, delta=float(case.delta), relation=case.relation, by=tr.Certified(accuracy=1e-5)
    )
    assert mpf(ours.lower) <= case.epsilon <= mpf(ours.upper)
    assert ours.relative_width <= 1e-5


@pytest.mark.parametrize("delta", [1e-7, 1e-6, 1e-5, 1e-4])
def test_all_four_poisson_entries_of_table_1_are_certainly_too_high(delta: float) -> None:
    ours = tr.epsilon(gaussian(0.8, BATCHES["poisson"], 10_000), delta=delta, relation=tr.ADD_OR_REMOVE)
    assert ours.upper < PRINTED["poisson", delta] - 0.005


def test_substitution_without_replacement_is_not_like_poisson() -> None:
    poisson_like = tr.epsilon(gaussian(0.8, BATCHES["poisson"], 10_000), delta=1e-6, relation=tr.SUBSTITUTE)
    laws = step_laws(tr.Gaussian(noise_multiplier=0.8), BATCHES["wor"], tr.REMOVE)
    witnessed, _ = compose(Schedule([(laws.remove(), 10_000)])).epsilon_bounds(1e-6, 1e-3)
    assert poisson_like.upper < 1.34
    assert witnessed > 15.25


def test_remove_is_not_the_worst_substitution_of_gaussian_noise_without_replacement() -> None:
    """Batches of 4 of 5 records, noise 3, two steps: (0,0,0,0,1) and (0,0,0,0,-1), see refuted_beliefs.md."""
    laws = step_laws(
        tr.Gaussian(noise_multiplier=3), tr.WithoutReplacement(batch=4, population=5), tr.SUBSTITUTE
    )
    for epsilon, opposite, removed in (
        (0.0, 0.291722402484907, 0.291181259349624),
        (0.02, 0.284668510272142, 0.284475541593201),
    ):
        exchange = compose(Schedule([(laws.exchange(), 2)])).log_bounds(epsilon, 1e-5)
        remove = compose(Schedule([(laws.remove(), 2)])).log_bounds(epsilon, 1e-5)
        assert exchange.lower > remove.upper
        assert exchange.lower - 1e-14 <= math.log(opposite) <= exchange.upper + 1e-14
        assert remove.lower - 1e-14 <= math.log(removed) <= remove.upper + 1e-14
