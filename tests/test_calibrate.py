"""Calibrated values are safe and close to one that is not; a refusal gives a true reason."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr
from tightrope.answers.frontier import Frontier, OutOfReach
from tightrope.answers.target import Target
from tightrope.curve.bracket import Bracket
from tightrope.setting.mechanism import LEAST_NOISE, MOST_NOISE

PROMISED = 1e-4
FINE = 1e-5
GRID = [(rate, epsilon) for rate in np.geomspace(3e-4, 1, 7) for epsilon in (0.5, 2.0, 10.0)]
RELATIONS = (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE)


def check_both_sides(
    found: tr.Calibration[float] | tr.Calibration[int],
    run_at: Callable[[float | int], tr.Run],
    epsilon: float,
    delta: float,
    relation: tr.Relation,
    closest: float = PROMISED,
) -> None:
    """The value meets the target by an answer of its own; the one beyond misses it so, and is close."""
    assert found.run == run_at(found.value)
    assert tr.epsilon(run_at(found.value), delta=delta, relation=relation).upper <= epsilon
    assert tr.delta(run_at(found.value), epsilon=epsilon, relation=relation).upper <= delta
    assert found.epsilon.upper <= epsilon
    if found.beyond is not None:
        assert (
            tr.delta(
                run_at(found.beyond), epsilon=epsilon, relation=relation, by=tr.Certified(accuracy=FINE)
            ).lower
            > delta
        )
        assert found.gap <= closest or (isinstance(found.value, int) and abs(found.beyond - found.value) == 1)
        assert found.gap == abs(found.beyond - found.value) / found.value


@pytest.mark.parametrize(("rate", "epsilon"), GRID)
def test_smallest_noise_is_safe_and_closest_over_a_wide_grid(rate: float, epsilon: float) -> None:
    for delta, steps in ((1e-6, 10_000), (1e-9, 1000)):
        found = tr.smallest_noise(
            tr.Poisson(rate=float(rate)), steps=steps, epsilon=epsilon, delta=delta, relation=tr.ADD_OR_REMOVE
        )

        def run(noise: float, steps: int = steps) -> tr.Run:
            return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=float(rate))) * steps

        check_both_sides(found, run, epsilon, delta, tr.ADD_OR_REMOVE)


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize("mechanism", [tr.Gaussian, tr.Laplace], ids=lambda m: m.__name__)
def test_every_relation_and_mechanism_with_a_theorem_calibrates(
    mechanism: type[tr.Gaussian] | type[tr.Laplace], relation: tr.Relation
) -> None:
    sampling = (
        tr.Poisson(rate=0.1) if (mechanism, relation) != (tr.Laplace, tr.SUBSTITUTE) else tr.EveryRecord()
    )
    question = {"epsilon": 1.5, "delta": 1e-5, "relation": relation}
    noise = tr.smallest_noise(sampling, steps=40, mechanism=mechanism, **question)  # type: ignore[arg-type]
    check_both_sides(
        noise, lambda v: tr.Step(mechanism(noise_multiplier=v), sampling) * 40, 1.5, 1e-5, relation
    )
    step = tr.Step(mechanism(noise_multiplier=4), sampling)
    steps = tr.most_steps(step, **question)  # type: ignore[arg-type]
    check_both_sides(steps, lambda v: step * int(v), 1.5, 1e-5, relation)
    if (mechanism, relation) != (tr.Laplace, tr.SUBSTITUTE):
        rate = tr.largest_rate(mechanism(noise_multiplier=4), steps=40, **question)  # type: ignore[arg-type]
        check_both_sides(
            rate,
            lambda v: tr.Step(mechanism(noise_multiplier=4), tr.Poisson(rate=v)) * 40,
            1.5,
            1e-5,
            relation,
        )
    if relation is not tr.SUBSTITUTE:
        batch = tr.largest_batch(mechanism(noise_multiplier=9), population=997, steps=40, **question)  # type: ignore[arg-type]

        def fixed(size: float) -> tr.Run:
            return (
                tr.Step(mechanism(noise_multiplier=9), tr.WithoutReplacement(batch=int(size), population=997))
                * 40
            )

        check_both_sides(batch, fixed, 1.5, 1e-5, relation)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(5e-3, 1),
    steps=st.integers(1, 3000),
    epsilon=st.floats(0.05, 20),
    exponent=st.floats(-12, -3),
    relation=st.sampled_from((tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE)),
)
def test_smallest_noise_is_safe_and_closest_wherever_one_looks(
    rate: float, steps: int, epsilon: float, exponent: float, relation: tr.Relation
) -> None:
    delta = 10**exponent
    try:
        found = tr.smallest_noise(
            tr.Poisson(rate=rate), steps=steps, epsilon=epsilon, delta=delta, relation=relation
        )
    except tr.NoSuchValue as refusal:
        needless = refusal.limit == 0 and (1 - (1 - rate) ** steps <= delta or relation is tr.ADD)
        if not needless:
            raise
        return

    def run(noise: float) -> tr.Run:
        return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps

    # few steps have brackets as wide as the accuracy of 1e-3 allows: value and beyond cannot be closer
    check_both_sides(found, run, epsilon, delta, relation, closest=PROMISED if steps > 200 else 5e-4)


def test_a_finer_accuracy_brings_few_steps_close_too() -> None:
    sampling = tr.Poisson(rate=1 / 128)
    ask = {"steps": 2, "epsilon": 1.0, "delta": 1e-3, "relation": tr.REMOVE}
    found = tr.smallest_noise(sampling, by=tr.Certified(accuracy=1e-4), **ask)  # type: ignore[arg-type]
    assert found.gap <= 5e-5


def test_full_batches_agree_with_the_closed_form() -> None:
    from scipy import optimize, special

    def delta(noise: float) -> float:
        mu = math.sqrt(30) / noise
        upper, lower = special.ndtr(mu / 2 - 1 / mu), math.e * special.ndtr(-mu / 2 - 1 / mu)
        return float(upper - lower) - 1e-6

    exact = optimize.brentq(delta, 5, 100, xtol=1e-12, rtol=1e-14)
    found = tr.smallest_noise(tr.EveryRecord(), steps=30, epsilon=1, delta=1e-6, relation=tr.REMOVE)
    assert found.beyond is not None
    assert found.beyond < exact <= found.value < exact * (1 + 3.1e-5)


DOUBLING = [
    *itertools.product((30, 500, 5000, 50_000, 99_999), (0.3, 1.0, 10.0), (1, 100, 10_000)),
    *itertools.product((1, 3), (0.3, 10.0), (1,)),
]


@pytest.mark.parametrize(("batch", "epsilon", "steps"), DOUBLING)
def test_without_replacement_needs_exactly_twice_the_noise(batch: int, epsilon: float, steps: int) -> None:
    fixed = tr.WithoutReplacement(batch=batch, population=100_000)
    for relation, delta in ((tr.ADD_OR_REMOVE, 1e-6), (tr.ADD, 1e-9)):
        answers: list[tr.Calibration[float] | float] = []
        for sampling in (fixed, tr.Poisson(rate=fixed.exact_rate)):  # the same pair only at the same rate
            try:
                answers.append(
                    tr.smallest_noise(sampling, steps=steps, epsilon=epsilon, delta=delta, relation=relation)
                )
            except tr.NoSuchValue as refusal:
                answers.append(refusal.limit)
        without, poisson = answers
        if isinstance(without, float) or isinstance(poisson, float):
            assert without == poisson == 0
        else:
            assert without.value == 2 * poisson.value  # to the last bit
            assert poisson.beyond is not None
            assert without.beyond == 2 * poisson.beyond
            assert without.epsilon == poisson.epsilon


def test_a_delta_that_jumps_is_closed_in_upon_by_halves() -> None:
    """Within a float of the largest loss delta falls from .3 to 0: Newton's steps there lead nowhere."""
    found = tr.smallest_noise(
        tr.Poisson(rate=0.6),
        steps=1,
        epsilon=45_318,
        delta=5.6e-12,
        relation=tr.REMOVE,
        mechanism=tr.Laplace,
    )
    # the largest loss is 1 / noise + ln .6, up to e^-45318
    assert found.value == pytest.approx(1 / (45_318 - math.log(0.6)), rel=1e-4)
    assert found.gap < 1e-4


def test_calibrations_invert_each_other() -> None:
    question: Any = {"epsilon": 2.0, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    sampling = tr.Poisson(rate=0.01)
    noise = tr.smallest_noise(sampling, steps=1000, **question).value
    steps = tr.most_steps(tr.Step(tr.Gaussian(noise_multiplier=noise), sampling), **question)
    assert steps.value == 1000
    rate = tr.largest_rate(tr.Gaussian(noise_multiplier=noise), steps=1000, **question).value
    assert rate == pytest.approx(0.01, rel=3e-5)


def test_what_is_released_besides_is_counted() -> None:
    other = tr.Step(tr.Laplace(noise_multiplier=5), tr.EveryRecord()) * 2
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.01))
    alone = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    found = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE, besides=other)
    assert 0 < found.value < alone.value
    assert found.run == step * found.value + other
    check_both_sides(found, lambda n: step * int(n) + other, 1, 1e-6, tr.ADD_OR_REMOVE)
    more = tr.smallest_noise(
        tr.Poisson(rate=0.01), steps=alone.value, epsilon=1, delta=1e-6, relation=tr.ADD, besides=other
    )
    less = tr.smallest_noise(tr.Poisson(rate=0.01), steps=alone.value, epsilon=1, delta=1e-6, relation=tr.ADD)
    assert more.value > less.value


def test_a_target_that_is_spent_already_is_refused() -> None:
    other = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
    with pytest.raises(tr.NoSuchValue, match=r"released besides, .* alone spends epsilon") as refused:
        tr.smallest_noise(
            tr.Poisson(rate=0.1), steps=1, epsilon=1, delta=1e-6, relation=tr.REMOVE, besides=other
        )
    assert refused.value.limit == 0


def test_full_batches_share_a_target_with_others() -> None:
    other = tr.Step(tr.Gaussian(noise_multiplier=20), tr.EveryRecord())
    found = tr.smallest_noise(
        tr.EveryRecord(), steps=10, epsilon=1, delta=1e-5, relation=tr.REMOVE, besides=other
    )

    def run(noise: float) -> tr.Run:
        return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.EveryRecord()) * 10 + other

    check_both_sides(found, run, 1, 1e-5, tr.REMOVE)


def test_what_is_released_besides_may_be_the_step_itself() -> None:
    coin = tr.Step(tr.RandomizedResponse(truth_probability=0.5), tr.EveryRecord())
    with pytest.raises(tr.NoSuchValue, match="no largest number of steps"):
        tr.most_steps(coin, epsilon=1, delta=1e-6, relation=tr.ADD, besides=coin * 7)
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.01))
    alone = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE).value
    after = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE, besides=step * 100).value
    assert after == alone - 100


def test_no_noise_is_needed_where_records_are_hardly_ever_drawn() -> None:
    ask = {"sampling": tr.Poisson(rate=1e-6), "steps": 100, "epsilon": 1, "relation": tr.ADD_OR_REMOVE}
    with pytest.raises(tr.NoSuchValue, match="no noise is needed") as refused:
        tr.smallest_noise(delta=1.1e-4, **ask)  # type: ignore[arg-type]
    assert refused.value.limit == 0
    assert tr.smallest_noise(delta=0.9e-4, **ask).value > 0  # type: ignore[arg-type]


def test_a_target_beyond_the_largest_noise_is_refused_in_no_time() -> None:
    with pytest.raises(tr.NoSuchValue, match="even noise_multiplier 1e\\+09 misses it") as refused:
        tr.smallest_noise(tr.EveryRecord(), steps=10_000, epsilon=0, delta=1e-12, relation=tr.REMOVE)
    assert refused.value.limit == math.inf


def test_epsilon_zero_bounds_the_total_variation() -> None:
    found = tr.smallest_noise(tr.EveryRecord(), steps=1, epsilon=0, delta=1e-3, relation=tr.REMOVE)
    # total variation erf(1 / (2 sqrt 2 noise)), about 1 / (noise sqrt(2 pi))
    assert found.value == pytest.approx(1e3 / math.sqrt(2 * math.pi), rel=1e-5)
    assert found.epsilon == tr.Bracket(0, 0)


def test_not_even_one_step() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=0.3), tr.EveryRecord())
    found = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.REMOVE)
    assert (found.value, found.beyond, found.gap) == (0, 1, math.inf)
    assert found.run == tr.Run()
    assert found.epsilon == tr.Bracket(0, 0)


@pytest.mark.parametrize(
    "step",
    [
        tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0)),
        tr.Step(tr.RandomizedResponse(truth_probability=0.5), tr.EveryRecord()),
    ],
    ids=["nobody is drawn", "a fair coin"],
)
def test_steps_without_end(step: tr.Step) -> None:
    with pytest.raises(tr.NoSuchValue, match="no largest number of steps") as refused:
        tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert refused.value.limit == math.inf


def test_exact_limits() -> None:
    everybody = tr.largest_rate(
        tr.Gaussian(noise_multiplier=100), steps=1, epsilon=1, delta=1e-6, relation=tr.REMOVE
    )
    assert (everybody.value, everybody.beyond, everybody.gap) == (1.0, None, 0.0)
    assert "the limit" in str(everybody)
    drowned = tr.largest_rate(
        tr.Gaussian(noise_multiplier=1e9), steps=1000, epsilon=1, delta=1e-6, relation=tr.REMOVE
    )
    assert (drowned.value, drowned.beyond) == (1.0, None)
    room_for_one = tr.largest_batch(
        tr.Gaussian(noise_multiplier=100), population=50, steps=1, epsilon=1, delta=1e-6, relation=tr.REMOVE
    )
    assert (room_for_one.value, room_for_one.beyond) == (49, None)


def test_a_batch_of_one_can_be_too_much() -> None:
    with pytest.raises(tr.NoSuchValue, match="even a batch of 1 out of 10 misses it") as refused:
        tr.largest_batch(
            tr.Gaussian(noise_multiplier=0.1),
            population=10,
            steps=9,
            epsilon=1,
            delta=1e-6,
            relation=tr.ADD_OR_REMOVE,
        )
    assert refused.value.limit == 0


def test_questions_without_a_theorem_stay_refused() -> None:
    with pytest.raises(tr.NoTheorem, match="SUBSTITUTE"):
        tr.most_steps(
            tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0.1)),
            epsilon=1,
            delta=1e-6,
            relation=tr.SUBSTITUTE,
        )
    with pytest.raises(tr.NoTheorem, match="SUBSTITUTE"):
        tr.largest_rate(
            tr.Laplace(noise_multiplier=1), steps=5, epsilon=1, delta=1e-6, relation=tr.SUBSTITUTE
        )


GOOD = {"sampling": tr.Poisson(rate=0.1), "steps": 10, "epsilon": 1.0, "delta": 1e-6, "relation": tr.ADD}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": -1}, "epsilon must be at least 0, got -1"),
        ({"epsilon": math.inf}, "epsilon must be finite"),
        ({"epsilon": "1"}, "epsilon must be a real number, got '1'"),
        ({"delta": 0}, "delta must be in \\(0, 1\\), got 0"),
        ({"delta": 1}, "delta must be in \\(0, 1\\), got 1"),
        ({"delta": math.nan}, "delta must be finite"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"steps": True}, "steps must be a whole number, got True"),
        ({"steps": 10**16}, "steps must be at most 1e\\+15"),
        ({"sampling": 0.1}, "sampling must be one of EveryRecord, Poisson, .*Shuffled, got 0.1"),
        ({"relation": "both"}, "relation must be one of ADD, REMOVE"),
        ({"mechanism": tr.RandomizedResponse}, "mechanism must be Gaussian or Laplace"),
        ({"mechanism": tr.Gaussian(noise_multiplier=1)}, "mechanism must be Gaussian or Laplace"),
        ({"by": tr.Renyi()}, "by must be Certified, got Renyi"),
        ({"besides": 3}, "besides must be a Run or a Step, got 3"),
        ({"besides": None}, "besides must be a Run or a Step, got None"),
    ],
)
def test_bad_arguments_are_named(changed: dict[str, object], message: str) -> None:
    with pytest.raises(tr.InvalidSetting, match=message):
        tr.smallest_noise(**{**GOOD, **changed})  # type: ignore[arg-type]


def test_a_run_is_no_step() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1))
    with pytest.raises(tr.InvalidSetting, match="step must be a Step, got Step"):
        tr.most_steps(step * 2, epsilon=1, delta=1e-6, relation=tr.ADD)  # type: ignore[arg-type]


# --- the search itself, on functions that are known


def line(root: float, width: float, *, rising: bool) -> Callable[[float], Bracket]:
    """ln value - ln root, growing with the risk, known to `width`."""

    def excess(value: float) -> Bracket:
        middle = (math.log(value) - math.log(root)) * (5 if rising else -5)
        return Bracket(middle - width, middle + width)

    return excess


@given(
    root=st.floats(LEAST_NOISE * 2, MOST_NOISE / 2),
    start=st.floats(LEAST_NOISE, MOST_NOISE),
    width=st.sampled_from((0.0, 1e-7)),
)
def test_the_frontier_closes_in_from_anywhere(root: float, start: float, width: float) -> None:
    frontier = Frontier(line(root, width, rising=False), safest=MOST_NOISE, riskiest=LEAST_NOISE, close=1e-5)
    frontier.search(start)
    assert frontier.safe is not None
    assert frontier.beyond is not None
    assert frontier.beyond < root <= frontier.safe
    assert frontier.safe / frontier.beyond <= 1 + 3.1e-5


@pytest.mark.parametrize("root", [0.7, 3.0, 40.0])
def test_chords_meet_both_ends_of_a_gap_in_few_trials(root: float) -> None:
    """Steps along one slope take two to three times as many."""
    seen: list[float] = []

    def excess(value: float) -> Bracket:
        seen.append(value)
        below, above = (math.log(at / value) for at in (root, 1.4 * root))
        return Bracket(24 * below - 8 * math.atan(below), 8 * above + 12 * math.atan(above))  # both are bent

    frontier = Frontier(excess, safest=MOST_NOISE, riskiest=LEAST_NOISE, close=1e-3)
    frontier.follows_chords = True
    frontier.search(1.1 * root)
    assert frontier.safe is not None
    assert frontier.beyond is not None
    assert 1.4 * root <= frontier.safe <= 1.4 * root * (1 + 1e-3)
    assert root / (1 + 1e-3) <= frontier.beyond < root
    assert len(seen) <= 16


@given(root=st.integers(1, 10**9), start=st.integers(1, 10**12))
def test_the_frontier_of_whole_numbers_is_adjacent(root: int, start: int) -> None:
    frontier = Frontier(line(root + 0.5, 0.0, rising=True), safest=1, riskiest=10**15, close=1e-5)
    frontier.search(start)
    assert frontier.safe is not None
    assert frontier.beyond is not None
    assert frontier.safe <= root < frontier.beyond
    assert frontier.beyond - frontier.safe <= max(1, 1e-5 * root)


@pytest.mark.parametrize("root", [1e-9, 1e20])
def test_the_frontier_ends_at_the_end_of_the_axis(root: float) -> None:
    frontier = Frontier(line(root, 0.0, rising=True), safest=1e-3, riskiest=1e3, close=1e-5)
    frontier.search(1.0)
    assert (frontier.safe, frontier.beyond) == ((None, 1e-3) if root < 1 else (1e3, None))


def test_a_safe_value_without_a_miss_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # beyond 1000 steps no engine could tell anything: then nobody may say that any number of steps will do
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.01))
    told = Target.excess

    def blind(self: Target, run: tr.Run, accuracy: float) -> Bracket:
        if run.steps > 1000:
            raise OutOfReach
        return told(self, run, accuracy)

    monkeypatch.setattr(Target, "excess", blind)
    with pytest.raises(
        tr.NotPreciseEnough, match="steps for epsilon 1 at delta 1e-06 under ADD could not be certified"
    ):
        tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD)


def test_the_logarithm_of_the_target_is_charged_on_both_sides() -> None:
    # a target equal to what is spent, to the last bit, is neither met for certain nor missed for certain
    run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()) * 3
    spent = tr.privacy_curve(run, relation=tr.ADD).log_delta(1.0)
    for end in (spent.lower, spent.upper):
        target = Target.check(1.0, math.exp(end), tr.ADD, tr.Run(), tr.Certified(), None)
        found = target.excess(run, 1e-3)
        assert found.lower < 0 < found.upper


# effort: where the theory leaves a gap, both sides stay certain

FIXED_SIZE = tr.WithoutReplacement(batch=1, population=20)
EXCHANGED = tr.Step(tr.Gaussian(noise_multiplier=4), FIXED_SIZE)


def wide(found: tr.Calibration[Any], run: Any, effort: tr.Effort) -> None:
    """Both sides hold when asked again with the same effort, and the other effort contradicts neither."""
    assert found.beyond is not None
    for harder in (effort, tr.TIGHT):
        spent = tr.epsilon(
            run(found.value), delta=1e-5, relation=tr.SUBSTITUTE, by=tr.Certified(effort=harder)
        )
        assert spent.upper <= found.target.epsilon
    for harder in (effort, tr.TIGHT):
        missed = tr.delta(
            run(found.beyond),
            epsilon=found.target.epsilon,
            relation=tr.SUBSTITUTE,
            by=tr.Certified(effort=harder),
        )
        assert missed.upper > 1e-5
    assert missed.lower > 1e-5


def test_the_most_steps_are_safe_with_either_effort_and_more_with_the_greater() -> None:
    goal: Any = {"epsilon": 0.5, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    quick = tr.most_steps(EXCHANGED, **goal)
    tight = tr.most_steps(EXCHANGED, **goal, by=tr.Certified(effort=tr.TIGHT))
    assert quick.value < tight.value
    assert quick.beyond is not None
    assert tight.beyond == tight.value + 1 <= quick.beyond
    wide(quick, lambda steps: EXCHANGED * steps, tr.QUICK)
    wide(tight, lambda steps: EXCHANGED * steps, tr.TIGHT)


def test_the_smallest_noise_is_safe_with_either_effort_and_less_with_the_greater() -> None:
    goal: Any = {"steps": 5, "epsilon": 0.3, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    quick, tight = (
        tr.smallest_noise(FIXED_SIZE, **goal),
        tr.smallest_noise(FIXED_SIZE, **goal, by=tr.Certified(effort=tr.TIGHT)),
    )
    assert quick.value > tight.value > tight.beyond >= quick.beyond  # type: ignore[operator]
    assert tight.gap < 5e-3 < quick.gap < 0.1
    wide(quick, lambda noise: tr.Step(tr.Gaussian(noise_multiplier=noise), FIXED_SIZE) * 5, tr.QUICK)


def test_the_largest_batch_under_an_exchange() -> None:
    found = tr.largest_batch(
        tr.Gaussian(noise_multiplier=4),
        population=200,
        steps=5,
        epsilon=0.5,
        delta=1e-5,
        relation=tr.SUBSTITUTE,
    )
    assert found.value < found.beyond <= 1.2 * found.value  # type: ignore[operator]
    assert found.epsilon.upper <= 0.5


def test_a_gap_in_what_is_released_besides_is_no_reason_to_look_on() -> None:
    goal: Any = {"steps": 100, "epsilon": 2, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    found = tr.smallest_noise(tr.Poisson(rate=0.01), **goal, besides=EXCHANGED * 20)
    assert found.epsilon.upper <= 2
    assert 1e-4 < found.gap < 0.1


def test_effort_elsewhere_changes_nothing() -> None:
    goal: Any = {"epsilon": 1, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    step = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
    assert (
        tr.most_steps(step, **goal, by=tr.Certified(effort=tr.TIGHT)).value
        == tr.most_steps(step, **goal).value
    )
