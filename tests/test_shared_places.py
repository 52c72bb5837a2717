"""What runs and deltas that are close share: no answer may depend on who asked before, nor lose its side."""

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.engines import neighbours
from tightrope.engines.choose import TABLE
from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.crossing import gallop
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.places import Outlook, Place
from tightrope.engines.transforms.make import make_transform
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.run import Run
from tightrope.setting.sampling import Sampling
from tightrope.theorems.lookup import analyse


def forget() -> None:
    """Empty every cache of the package."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tightrope":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def schedule_of(run: Run) -> Schedule:
    (analysis,) = analyse(run, tr.REMOVE, tr.QUICK)
    found = analysis.covers[0].schedules[0]
    assert isinstance(found, Schedule)
    return found


def step(noise: float, rate: float) -> tr.Step:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate))


# after every step of a loop


@pytest.mark.parametrize(("noise", "rate", "first"), [(0.8, 1e-3, 61), (0.8, 1e-3, 4090), (1.0, 0.01, 1020)])
def test_a_loop_is_answered_bit_for_bit_like_one_run_from_nothing(
    noise: float, rate: float, first: int
) -> None:
    kept = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    kept.record(step(noise, rate) * (first - 1))
    answers = []
    for _ in range(8):  # beyond the next number of few bits
        kept.step(noise_multiplier=noise, sampling=tr.Poisson(rate=rate))
        answers.append(kept.epsilon(1e-6))
    for count in (first, first + 4, first + 7):
        forget()
        one_shot = tr.epsilon(step(noise, rate) * count, delta=1e-6, relation=tr.ADD_OR_REMOVE)
        assert answers[count - first] == one_shot
        assert one_shot.relative_width < 1e-3


SAMPLINGS = [tr.Poisson(rate=0.01), tr.WithoutReplacement(batch=10, population=500), tr.EveryRecord()]


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.ADD], ids=str)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: type(one).__name__)
def test_rounds_that_are_answered_ahead_get_the_answer_of_each_run_alone(
    relation: tr.Relation, sampling: Sampling
) -> None:
    kept, noisy = tr.Ledger(relation=relation), tr.Step(tr.Gaussian(noise_multiplier=1.5), sampling)
    kept.record(noisy * 430)
    answers = []
    for _ in range(70):  # across the next place, which is at 464
        kept.record(noisy)
        answers.append(kept.epsilon(1e-6))
    for further in (0, 1, 2, 5, 9, 16, 17, 33, 34, 69):
        alone = tr.epsilon(noisy * (431 + further), delta=1e-6, relation=relation)
        assert answers[further] == alone
        assert answers[further].decided_by == alone.decided_by
        assert (answers[further].gap, answers[further].conditions) == (alone.gap, alone.conditions)


def test_most_rounds_of_a_loop_are_answered_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = [], tr.PrivacyCurve.epsilon

    def watch(curve: tr.PrivacyCurve, delta: float) -> tr.Bracket:
        asked.append(delta)
        return ask(curve, delta)

    monkeypatch.setattr(tr.PrivacyCurve, "epsilon", watch)
    kept = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    kept.record(step(1.0, 0.01) * 500)
    for _ in range(100):
        kept.record(step(1.0, 0.01))
        kept.epsilon(1e-6)
    assert len(asked) < 15


def test_what_interrupts_a_loop_is_answered_for_what_was_recorded(tmp_path: Path) -> None:
    kept, run = tr.Ledger(relation=tr.ADD_OR_REMOVE), step(1.0, 0.01) * 500
    kept.record(run)
    kept.save(tmp_path / "ledger.json")

    def loop(rounds: int) -> None:
        nonlocal run
        for _ in range(rounds):
            kept.record(step(1.0, 0.01))
            run = run + step(1.0, 0.01)
            found = kept.epsilon(1e-6)
        assert found == tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)

    loop(4)
    assert kept.epsilon(1e-5) == tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    loop(3)
    kept.record(step(1.0, 0.01) * 2)  # two at once
    run = run + step(1.0, 0.01) * 2
    loop(1)
    loop(5)
    other = tr.Ledger.load(tmp_path / "ledger.json")
    other.record(step(1.0, 0.01))
    other.save(tmp_path / "ledger.json")
    kept.record(step(1.0, 0.01))
    kept.save(tmp_path / "ledger.json")  # brings in what another process recorded
    run = run + step(1.0, 0.01) * 2
    loop(1)
    loop(4)
    kept.record(step(2.0, 0.01))  # another kind of steps
    run = run + step(2.0, 0.01)
    loop(3)


@pytest.mark.parametrize(("noise", "rate", "count"), [(0.8, 1e-3, 5000), (1.0, 0.01, 400), (4.0, 0.05, 1000)])
def test_a_place_tells_about_where_close_deltas_and_counts_are_crossed(
    noise: float, rate: float, count: int
) -> None:
    schedule = schedule_of(step(noise, rate) * count).rounded
    place = Composition(schedule, TABLE)._place(math.exp(-12), 1e-3, 6.0)
    assert place is not None
    ((_, times),) = schedule
    for now in (times - times // 16, times, times + times // 32):
        other, truth = schedule.recount([now]), Composition(schedule.recount([now]), TABLE)
        for log_delta in (-15.0, -12.0, -9.0):
            guess, slope = place.guess(other, log_delta)
            assert truth.log_bounds(guess, 1e-3).upper == pytest.approx(log_delta, abs=0.01)
            further = truth.log_bounds(guess * 1.01, 1e-3).upper - truth.log_bounds(guess, 1e-3).upper
            assert slope * guess * 0.01 == pytest.approx(further, rel=0.2)


# of many deltas


def test_an_array_of_deltas_is_answered_like_each_alone() -> None:
    run = step(1.0, 0.01) * 1000
    deltas = [1e-3, 2e-6, 1e-6, 9e-7, 1e-12, 0.2]
    forget()
    backwards = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).epsilon(deltas[::-1])
    for delta, found in zip(deltas, backwards[::-1], strict=True):
        forget()
        assert found == tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "logs"),
    [(0.609, 0.00979, 16, (-9.2, -14.8)), (4.288, 0.00257, 2, (-15.2, -20.8))],
)
def test_an_array_of_deltas_of_few_steps_is_answered_like_each_alone(
    noise: float, rate: float, count: int, logs: tuple[float, float]
) -> None:
    """A contour declines at the place that they share, and those closer by are not all of one kind."""
    run, deltas = step(noise, rate) * count, np.exp(np.linspace(*logs, 12))
    found = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).epsilon(deltas)
    for delta, bracket in zip(deltas.tolist(), found, strict=True):
        assert bracket == tr.epsilon(run, delta=delta, relation=tr.ADD_OR_REMOVE)


def test_no_more_rounds_are_answered_in_vain_than_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, ask = [], tr.PrivacyCurve.epsilons_of_longer

    def watch(curve: tr.PrivacyCurve, delta: float, more: int) -> list[tr.Bracket]:
        ahead.append(more)
        return ask(curve, delta, more)

    monkeypatch.setattr(tr.PrivacyCurve, "epsilons_of_longer", watch)
    for increments, expected in (([1] * 8, [2, 5]), ([7, 1, 7, 1, 7, 1], []), ([5] * 6, [])):
        ahead.clear()
        kept = tr.Ledger(relation=tr.ADD_OR_REMOVE)
        kept.record(step(1.0, 0.01) * 500)
        for more in increments:
            kept.record(step(1.0, 0.01) * more)
            kept.epsilon(1e-6)
        assert ahead == expected


@pytest.mark.parametrize("count", [4, 17])
def test_an_answer_does_not_depend_on_how_closely_others_were_asked_for(count: int) -> None:
    run = step(1.0, 0.01) * count
    alone = tr.epsilon(run, delta=2e-6, relation=tr.ADD_OR_REMOVE)
    for accuracy in (0.3, 1e-6):
        curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)
        curve.to_accuracy(accuracy).epsilon(2e-6)
        assert curve.epsilon(2e-6) == alone


# bounds placed for another run


@pytest.mark.parametrize("engine", [ContourEngine, LatticeEngine])
def test_bounds_of_other_counts_contain_those_placed_for_them(
    engine: type[ContourEngine] | type[LatticeEngine],
) -> None:
    schedule = schedule_of(step(1.0, 0.05) * 300 + step(2.0, 0.02) * 40)
    placed = engine(schedule).near(2.5, 1e-4)
    assert [times for _, times in schedule] == [40, 300]
    others = schedule.recount([37, 280])
    assert placed.recount is not None
    moved = placed.recount(others).bounds(2.5)
    own = Composition(others, TABLE).log_bounds(2.5, 1e-6)
    assert moved.lower <= own.upper
    assert own.lower <= moved.upper
    assert moved.width < 2e-3


ENGINES = pytest.mark.parametrize("engine", [ContourEngine, LatticeEngine])


@ENGINES
@pytest.mark.parametrize("counts", [[1, 2], [4, 60], [400, 3000], [2000, 15000]], ids=str)
def test_bounds_of_counts_far_from_their_place_are_wide_and_true(
    engine: type[ContourEngine] | type[LatticeEngine], counts: list[int]
) -> None:
    schedule = schedule_of(step(1.0, 0.05) * 300 + step(2.0, 0.02) * 40)
    placed = engine(schedule).near(2.5, 1e-4)
    others = schedule.recount(counts)
    assert placed.recount is not None
    line, truth = placed.recount(others), Composition(others, TABLE)
    for epsilon in (0.1, 2.5, 6.0):
        moved, own = line.bounds(epsilon), truth.log_bounds(epsilon, 1e-3)
        assert moved.lower <= own.upper
        assert own.lower <= moved.upper


@ENGINES
@pytest.mark.parametrize("counts", [[9, 20], [90, 20]], ids=str)
def test_infinite_losses_are_those_of_the_counts_asked_for(
    engine: type[ContourEngine] | type[LatticeEngine], counts: list[int]
) -> None:
    open_end = tr.Finite(observed=[0.25, 0.75, 0.0], alternative=[0.5, 0.25, 0.25])
    schedule = schedule_of(tr.Step(open_end, tr.Poisson(rate=0.01)) * 30 + step(1.0, 0.05) * 20)
    assert schedule.has_infinite_losses
    assert [times for _, times in schedule] == [30, 20]
    placed = engine(schedule).near(1.0, 1e-4)
    others = schedule.recount(counts)
    assert placed.recount is not None
    moved, own = placed.recount(others).bounds(1.0), Composition(others, TABLE).log_bounds(1.0, 1e-4)
    assert moved.lower <= own.upper
    assert own.lower <= moved.upper


@pytest.mark.parametrize(
    ("noise", "steps", "relation", "delta"),
    [
        (1.2790479234921222, 179, tr.ADD, 0.563772496022507),
        (2.0554088760839955, 316, tr.REMOVE, 0.39827717583051436),
    ],
)
def test_a_delta_close_to_that_of_epsilon_0_is_told_whatever_was_asked_before(
    noise: float, steps: int, relation: tr.Relation, delta: float
) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.WithoutReplacement(batch=5, population=100)) * steps
    fresh, asked = (tr.privacy_curve(run, relation=relation) for _ in range(2))
    asked.delta(0.1)
    assert asked.epsilon(delta) == fresh.epsilon(delta)


def test_many_counts_are_rounded_by_a_sixteenth_at_most_and_few_by_a_quarter() -> None:
    pair = schedule_of(step(1.0, 0.05) * 1).parts[0][0]
    for count in (*range(1, 130), 1023, 1025, 10**9 + 1):
        ((_, rounded),) = Schedule([(pair, count)]).rounded
        assert abs(rounded - count) <= count / (4 if count < 64 else 16)
        ((_, again),) = Schedule([(pair, rounded)]).rounded
        assert again == rounded


# neighbours


def shifted(rate: Fraction, shift: Fraction, kind: str) -> ShiftPair:
    law, plain = Mixture(Noise.NORMAL, rate, shift), Mixture(Noise.NORMAL)
    if kind == "remove":
        return ShiftPair(law, plain)
    return ShiftPair(plain, law.mirrored) if kind == "add" else ShiftPair(law, law.mirrored)


@pytest.mark.parametrize("kind", ["remove", "exchange"])
def test_what_stands_above_neighbours_has_at_least_their_moments(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "MANY_KINDS", 4)
    monkeypatch.setattr(neighbours, "CLOSE", 0.3)
    random = np.random.default_rng(3)
    pairs: list[Pair] = [
        shifted(Fraction(float(rate)), Fraction(float(shift)), kind)
        for rate, shift in zip(random.uniform(0.01, 0.05, 12), random.uniform(0.5, 1.5, 12), strict=True)
    ]
    schedule = Schedule((pair, 2) for pair in pairs)
    above = neighbours.dominate(schedule)
    assert len(above) < len(pairs)
    assert sum(times for _, times in above) == schedule.steps
    for c in (0.5, 4.0):
        each = sum(n * make_transform(pair).nodes(c).log_moment for pair, n in schedule)
        assert sum(n * make_transform(pair).nodes(c).log_moment for pair, n in above) >= each


@pytest.mark.parametrize("kind", ["remove", "add", "exchange"])
@pytest.mark.parametrize("vary", ["rate", "shift"])
def test_one_that_stands_above_others_has_more_of_the_moments_of_each(
    kind: str, vary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "MANY_KINDS", 1)
    monkeypatch.setattr(neighbours, "CLOSE", 30.0)
    tenth, one = Fraction(1, 10), Fraction(1)
    sizes = [(tenth, one * i) if vary == "shift" else (tenth * i, one) for i in (1, 2, 3)]
    schedule = Schedule((shifted(rate, shift, kind), 1) for rate, shift in sizes)
    ((above, times),) = neighbours.dominate(schedule)
    assert times == 3
    for c in (0.5, 4.0):
        most = make_transform(above).nodes(c).log_moment
        assert all(most >= make_transform(pair).nodes(c).log_moment for pair, _ in schedule)


@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.ADD, tr.SUBSTITUTE], ids=str)
def test_many_kinds_are_bounded_like_few(relation: tr.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sum((step(1 + i / 40, 0.02 + i / 2000) * (1 + i % 3) for i in range(70)), Run())
    gathered = tr.epsilon(run, delta=1e-6, relation=relation)
    assert gathered.relative_width < 1e-3
    monkeypatch.setattr(neighbours, "MANY_KINDS", 10**6)
    forget()
    alone = tr.epsilon(run, delta=1e-6, relation=relation)
    assert gathered.lower <= alone.upper
    assert alone.lower <= gathered.upper


def test_scattered_kinds_are_planned_by_few_that_stand_for_all() -> None:
    random = np.random.default_rng(7)
    noises, rates = random.uniform(0.8, 3, 400), 10 ** random.uniform(-4, -2, 400)
    run = sum((step(float(noise), float(rate)) * 3 for noise, rate in zip(noises, rates, strict=True)), Run())
    schedule = schedule_of(run)
    about = neighbours.represent(schedule)
    assert len(about) < len(schedule.parts) / 3
    assert sum(times for _, times in about) == schedule.steps
    for c in (0.5, 4.0):
        each = sum(n * make_transform(pair).cumulants(c)[0] for pair, n in schedule)
        planned = sum(n * make_transform(pair).cumulants(c)[0] for pair, n in about)
        assert planned == pytest.approx(each, rel=0.1)


@pytest.mark.parametrize(
    ("noise", "batch", "population", "steps", "delta"),
    [(0.539, 21, 1000, 28, 9.92e-4), (0.385, 146_000, 10**9, 9, 1.25e-13)],
)
def test_next_to_the_largest_loss_both_ends_are_found(
    noise: float, batch: int, population: int, steps: int, delta: float
) -> None:
    """A place of other counts leads beyond every loss, and its bounds say nothing far to the left."""
    sampling = tr.WithoutReplacement(batch=batch, population=population)
    run = tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * steps
    found = tr.epsilon(run, delta=delta, relation=tr.ADD)
    assert 0 < found.upper - found.lower < 1e-5 * found.upper
    assert tr.delta(run, epsilon=found.lower, relation=tr.ADD).upper >= delta
    assert tr.delta(run, epsilon=found.upper, relation=tr.ADD).lower <= delta


def test_a_place_beyond_every_loss_is_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = ShiftPair(Mixture(Noise.NORMAL), Mixture(Noise.NORMAL, Fraction(1, 10), Fraction(-1)))
    schedule = Schedule([(pair, 10)])
    top = schedule.loss_ceiling[1]
    # -5 there, and 10 less for every one more of epsilon
    around, shape, flat = Outlook(0.9 * top, top, 2), [-5.0, -10.0 * top], ([0.0, 0.0], [0.0, 0.0])
    local = ContourEngine(Schedule([(pair, 100)])).near(0.5, 1e-6)
    place = Place(schedule, around, shape, [flat], local, local.recount)
    guess, slope = place.guess(schedule, -5.0 - 10 * 0.05 * top)
    assert guess == pytest.approx(0.95 * top)
    assert slope == pytest.approx(-10.0)
    followed = Composition(schedule, [])
    for far in (-5.0 - 10 * 0.2 * top, -5.0 + 10 * top):
        assert not 0 < place.guess(schedule, far)[0] < top
        monkeypatch.setattr(followed, "find_place", lambda delta, accuracy: (place, local))
        assert followed._follow(min(math.exp(far), 0.5), 1e-3) is None


@pytest.mark.parametrize(
    ("crossing", "resolution"), [(0.97, 1e-9), (0.999999, 1e-12), (0.3, 1e-3), (0.97, 0.5)]
)
def test_bounds_that_are_good_on_the_right_only_are_solved_from_there(
    crossing: float, resolution: float
) -> None:
    def excess(x: float) -> float:
        return crossing - x if x > crossing - 0.1 else -math.inf

    found = gallop(excess, 1.0, resolution)
    if 1 - resolution > crossing - 0.1:
        assert crossing - max(resolution, (1 - crossing) / 64) <= found < crossing
    else:
        assert found == 0


def test_what_is_nowhere_positive_has_no_lower_end() -> None:
    assert gallop(lambda x: -x, 1.0, 1e-6) == 0
    assert gallop(lambda x: -math.inf, 1.0, 1e-6) == 0
