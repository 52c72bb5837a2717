"""What engines say of shuffled batches: laws, honesty and the numbers of the proof note."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

import tightrope as tr
from tightrope.engines.dots import connect_dots
from tightrope.engines.face import Progress
from tightrope.engines.shuffles import one_epoch
from tightrope.engines.shuffles.contours import MOST_OFFSET, Laws
from tightrope.engines.shuffles.counts import Boxes, CountsProblem
from tightrope.engines.shuffles.covers import least_cover
from tightrope.engines.shuffles.epoch_curve import OneShuffledEpoch
from tightrope.engines.shuffles.large_batches import LargeBatches
from tightrope.engines.shuffles.one_epoch import (
    bound_by_levels,
    bound_by_size,
    bound_order,
    bound_spare_place,
)
from tightrope.engines.shuffles.walks import FARTHEST_EXPANSION, LATTICE_STEP, Walks, expect, place_levels
from tightrope.engines.shuffles.worst_difference import Atoms, WorstDifference
from tightrope.engines.watching import Watcher, Workload
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

Floats = NDArray[np.float64]
BY_LEVELS = tr.Certified(effort=tr.TIGHT)


def epoch_of(noise: float, batches: int, *, batch: int = 1, is_thorough: bool = False) -> ShuffledEpoch:
    return ShuffledEpoch(
        separation=2 / Fraction(noise),
        batches=batches,
        released=batches,
        batch=batch,
        last=batch,
        is_thorough=is_thorough,
    )


def shuffled(noise: float, batches: int, epochs: int = 1, **sizes: int) -> tr.Run:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Shuffled(batches=batches, **sizes))
    return step * (batches * epochs)


def ends(run: tr.Run, delta: float = 1e-6, relation: tr.Relation = tr.SUBSTITUTE) -> tuple[float, float]:
    found = tr.epsilon(run, delta=delta, relation=relation)
    return found.lower, found.upper


def above(epoch: ShuffledEpoch, delta: float = 1e-6) -> float:
    """The upper end of a single epoch, without a pass for the lower one."""
    return OneShuffledEpoch(epoch).epsilon_bounds(delta, 1e-3)[1]


def told(noise: float, epochs: int = 1, delta: float = 1e-6) -> float:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.EveryRecord())
    return tr.epsilon(step * epochs, delta=delta, relation=tr.SUBSTITUTE).upper


def forget() -> None:
    """What one epoch's bounds keep."""
    for value in vars(one_epoch).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


# --- laws of answers


def test_the_upper_end_falls_with_batches_and_noise_and_stays_below_no_amplification() -> None:
    uppers = [above(epoch_of(4.0, batches)) for batches in (20, 100, 1000)]
    assert all(more < fewer for fewer, more in pairwise([told(4.0), *uppers]))
    uppers = [above(epoch_of(noise, 300)) for noise in (1.0, 2.0, 3.0, 10.0)]
    assert all(more < less for less, more in pairwise(uppers))


def test_both_ends_grow_with_epochs_and_do_not_cross() -> None:
    lowers, uppers = zip(*(ends(shuffled(5.0, 50, epochs)) for epochs in (1, 2, 20)), strict=True)
    assert all(fewer < more for values in (lowers, uppers) for fewer, more in pairwise(values))
    assert all(0 < lower < upper for lower, upper in zip(lowers, uppers, strict=True))


@pytest.mark.parametrize(
    ("noise", "batches", "epochs", "delta"),
    [
        (1e-3, 3, 1, 1e-6),
        (1e6, 100, 1, 1e-9),
        (4.0, 3, 1, 1e-300),
        (4.0, 1000, 1, 0.9),
        (50.0, 10**9, 2, 1e-9),
        (4.0, 3, 10**5, 1e-6),
    ],
)
def test_extreme_questions_have_ordered_ends(noise: float, batches: int, epochs: int, delta: float) -> None:
    lower, upper = ends(shuffled(noise, batches, epochs), delta)
    assert 0 <= lower <= upper <= told(noise, epochs, delta) * (1 + 1e-6)


def test_levels_apart_by_less_than_floats_need_still_tell_something_at_enormous_noise() -> None:
    """The cuts of the weight are then at 1, and levels must differ."""
    upper = above(epoch_of(1e6, 100), 1e-9)
    assert upper < 0.6 * told(1e6, delta=1e-9)


def test_a_lone_batch_that_drops_records_is_no_full_batch() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=2.0), tr.WithoutReplacement(batch=10, population=15))
    truth = tr.epsilon(step * 3, delta=1e-5, relation=tr.SUBSTITUTE)
    lower, upper = ends(shuffled(2.0, 1, 3, batch=10, left_over=5), 1e-5)
    assert lower <= truth.lower < truth.upper <= upper < told(2.0, 3, 1e-5)
    lower, upper = ends(shuffled(2.0, 1, 3, batch=10), 1e-5)
    assert lower == pytest.approx(upper) == pytest.approx(told(2.0, 3, 1e-5))


def test_larger_batches_never_cost_more_and_left_over_records_cost_less_still() -> None:
    single, large = (above(epoch_of(2.5, 200, batch=batch)) for batch in (1, 10_000))
    spare = above(replace(epoch_of(2.5, 200, batch=10_000), left_over=1))
    assert spare < large < single


def test_a_smaller_last_batch_is_between_one_batch_less_and_as_many() -> None:
    values = [
        bound_order(
            ShuffledEpoch(separation=Fraction(1, 2), batches=40, released=40, batch=8, last=last),
            Fraction(21, 20),
        )
        for last in (8, 4)
    ]
    less = bound_order(epoch_of(4.0, 39, batch=8), Fraction(21, 20))
    assert values[0] < values[1] < less


def test_bounds_do_not_depend_on_what_was_asked_before() -> None:
    epoch = epoch_of(4.0, 100)
    orders = [Fraction(1), Fraction(11, 10), Fraction(13, 10)]
    found = []
    for asked in (orders, orders[::-1]):
        forget()
        found.append({order: bound_order(epoch, order) for order in asked})
    assert found[0] == found[1]


def test_a_bound_that_is_known_is_not_exceeded_and_changes_no_smaller_one() -> None:
    epoch, order = epoch_of(4.0, 100, batch=64), Fraction(11, 10)
    for way in (bound_by_levels, bound_by_size):
        found = way(epoch, order, 0.0, 1.0)
        assert way(epoch, order, 0.0, 2 * found) == found
        assert way(epoch, order, 0.0, found / 2) == found / 2


def test_few_boxes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second order, or with nodes far out as large as they might become, it is 27,800."""
    seen = 0

    def count(problem: CountsProblem, boxes: Boxes, coefficients: Floats) -> tuple[Floats, Floats]:
        nonlocal seen
        seen += boxes.size
        return compare(problem, boxes, coefficients)

    compare = CountsProblem._compare_by_drift
    monkeypatch.setattr(CountsProblem, "_compare_by_drift", count)
    found = bound_by_levels(epoch_of(2.0, 10_000), Fraction(1.0413), 6e-4, 1.0)
    assert found < 6.4e-4
    assert seen < 8000


def test_at_order_one_two_levels_are_asked_too() -> None:
    assert bound_order(epoch_of(4.0, 100), Fraction(1)) < 0.04  # no amplification: 0.197


def test_the_smallest_noise_of_a_shuffle_keeps_the_target_and_hardly_less_would() -> None:
    sampling = tr.Shuffled(batches=2)
    found = tr.smallest_noise(sampling, steps=2, epsilon=0.5, delta=1e-3, relation=tr.SUBSTITUTE)
    noise = found.value
    assert found.epsilon.upper <= 0.5 < above(epoch_of(0.9 * noise, 2), 1e-3)


def test_who_waits_for_the_noise_of_a_shuffle_hears_how_many_values_were_judged() -> None:
    told, work = [], []

    class Listens(Watcher):
        def begin(self, begun: Workload) -> None:
            work.append(begun.what)

        def __call__(self, done: int, of: int) -> None:
            told.append((done, of))

    target: Any = {"epsilon": 1.0, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    tr.smallest_noise(tr.Shuffled(batches=20), steps=20, progress=Listens(), **target)
    assert work == ["bounds on shuffled batches for about 14 values"]
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert len(told) <= 14


def test_a_search_for_the_noise_of_a_shuffle_that_is_stopped_tells_what_is_safe_or_nothing() -> None:
    target: Any = {"epsilon": 1.0, "delta": 1e-5, "relation": tr.SUBSTITUTE}

    def stop_after(values: int) -> Progress:
        def progress(done: int, of: int) -> None:
            if done >= values:
                raise tr.StopWork

        return progress

    with pytest.raises(tr.StopWork):
        tr.smallest_noise(tr.Shuffled(batches=20), steps=20, progress=stop_after(1), **target)
    found = tr.smallest_noise(tr.Shuffled(batches=20), steps=20, progress=stop_after(8), **target)
    assert found.interrupted
    assert found.epsilon.upper <= 1


@pytest.mark.parametrize(
    ("noise", "batches", "prototype"), [(4.0, 1000, 0.0925), (8.0, 100, 0.137), (8.0, 1000, 0.037)]
)
def test_one_epoch_is_certified_as_closely_as_the_prototype_found(
    noise: float, batches: int, prototype: float
) -> None:
    found = tr.epsilon(shuffled(noise, batches), delta=1e-6, relation=tr.SUBSTITUTE, by=BY_LEVELS)
    assert found.lower < found.upper <= 1.1 * prototype


# --- honesty: sums


def convolve_power(masses: Floats, count: int) -> Floats:
    found = np.ones(1)
    for _ in range(count):
        found = np.convolve(found, masses)
    return found


def convolve(laws: Laws, counts: tuple[int, ...], start: int) -> float:
    """E(start + sum)_+ in lattice steps: positive terms only, so no digit is lost."""
    masses, lowest = np.ones(1), start
    for (places, law), count in zip(laws, counts, strict=True):
        masses = np.convolve(masses, convolve_power(law, count))
        lowest += int(places[0]) * count
    return float(masses @ np.maximum(lowest + np.arange(len(masses)), 0))


def random_walk(rng: np.random.Generator) -> tuple[Atoms, tuple[float, float], tuple[int, int], float]:
    separation = float(np.exp(rng.uniform(np.log(0.05), np.log(2))))
    order = float(np.exp(rng.uniform(0, separation / rng.choice([1, 5, 30]))))
    atoms = WorstDifference(Fraction(separation), Fraction(order)).spread(float(10 ** rng.uniform(-6, -3)))
    low, high = np.sort(np.exp(rng.normal(size=2) / 2)).tolist()
    counts = rng.integers(3, 20, size=2).tolist()
    return atoms, (low, high), (counts[0], counts[1]), math.sqrt(float(atoms.weights @ atoms.values**2))


def test_sums_on_a_contour_are_never_below_direct_convolution_and_close_to_it() -> None:
    rng, ratios = np.random.default_rng(1), []
    for i in range(8):
        atoms, (low, high), counts, deviation = random_walk(rng)
        levels = (-low / 5, high) if i % 4 == 0 else (low, high)
        spacing = LATTICE_STEP * deviation * high
        start = int(rng.normal() * 10 * math.sqrt(sum(counts)))
        truth = convolve(place_levels(atoms, levels, spacing), counts, start) * spacing
        ratios.append(expect(atoms, levels, counts, start * spacing) / truth)
        before = convolve(place_levels(atoms, levels, spacing), counts, start - 1) * spacing
        between = expect(atoms, levels, counts, (start - 0.5) * spacing)  # not above the chord, by much
        assert between >= (before + truth) / 2
    assert min(ratios) >= 1
    assert np.median(ratios) < 1 + 1e-6
    assert max(ratios) < 1.2


@pytest.mark.parametrize("radius", [2, 9])
def test_an_expansion_covers_the_counts_around_it_and_its_first_order_alone_does_not(radius: int) -> None:
    rng, above = np.random.default_rng(2), 0
    for _ in range(12):
        atoms, levels, counts, deviation = random_walk(rng)
        spacing = LATTICE_STEP * deviation * levels[1]
        laws = place_levels(atoms, levels, spacing)
        walks = Walks(laws, levels, spacing=spacing, count=sum(counts))
        start = int(rng.normal() * 10 * math.sqrt(sum(counts)))
        middle, radii = np.array([counts], dtype=float), np.full((1, 2), float(radius))
        value, slopes, remainder = walks.expand(middle, radii, np.array([float(start)]))
        for move in range(-min(radius, counts[0]), min(radius, counts[1]) + 1):
            truth = convolve(laws, (counts[0] + move, counts[1] - move), start) * spacing
            first_order = value[0] + move * (slopes[0, 0] - slopes[0, 1])
            assert truth <= (first_order + remainder[0]) * (1 + 1e-12)
            above += int(truth > first_order)
    assert above > 10


def test_nodes_far_out_do_not_spoil_an_expansion() -> None:
    """Terms there could become e^30 times as large, if they were not next to nothing."""
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-6)
    levels, spacing = (0.02, 1.0), LATTICE_STEP * 2
    walks = Walks(place_levels(atoms, levels, spacing), levels, spacing=spacing, count=20_000)
    middle, radii, offset = np.array([[19_000.0, 1000.0]]), np.full((1, 2), 600.0), np.array([30.0])
    (block,) = walks._share_out(middle, offset, radii)
    assert (radii @ np.abs(block.centred_logs.real)).max() > FARTHEST_EXPANSION
    value, slopes, remainder = walks.expand(middle, radii, offset)
    ends = middle + np.array([[-600.0, 600.0], [600.0, -600.0]])
    assert (walks.evaluate(ends, np.full(2, 30.0)) <= value + (ends - middle) @ slopes[0] + remainder).all()
    assert remainder < value / 3


def test_the_least_cover_is_that_of_a_linear_program() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        rows = (
            rng.exponential(size=(40, 5))
            * 10 ** rng.uniform(-3, 3, size=(40, 1))
            * (rng.random((40, 5)) < 0.6)
        )
        rows[:, 0] += 1e-3
        wanted = linprog(np.ones(5), A_ub=-rows, b_ub=-np.ones(40)).fun
        found = least_cover(rows)
        assert found is not None
        assert (rows @ found >= 1 - 1e-6).all()
        assert found.sum() == pytest.approx(wanted, rel=1e-6)


def test_a_sum_too_small_for_floats_is_not_called_zero() -> None:
    atoms = Atoms(
        values=np.array([-1.0, 0.0, 1.0]), weights=np.array([1.0, 1e-40, 1e-80]), beyond=0.0, below=0.0
    )
    assert expect(atoms, (1.0,), (5,), -3.5) > 0  # it is 1e-400, about


def test_offsets_beyond_those_that_are_charged_tell_nothing() -> None:
    atoms = WorstDifference(Fraction(1, 2), Fraction(1)).spread(1e-4)
    walks = Walks(place_levels(atoms, (1.0,), LATTICE_STEP / 2), (1.0,), spacing=LATTICE_STEP / 2, count=5)
    counts = np.array([[5.0], [5.0]])
    found = walks.evaluate(counts, np.array([0.0, -2.0 * MOST_OFFSET]))
    assert 0 < found[0] < found[1] == math.inf


@pytest.mark.parametrize("order", [1.0, 1.2, 3.0])
@pytest.mark.parametrize("separation", [0.01, 0.5, 2.0])
def test_atoms_are_above_the_worst_difference_and_hardly(order: float, separation: float) -> None:
    worst = WorstDifference(Fraction(separation), Fraction(order))
    atoms = worst.spread(1e-6)
    scale = worst.deviation
    for strike in np.linspace(-3, 5, 33) * scale:
        spread_above = float(atoms.weights @ np.maximum(atoms.values - strike, 0)) + atoms.beyond
        spread_below = float(atoms.weights @ np.maximum(-atoms.values - strike, 0)) + atoms.below
        call = worst._excess(strike) if strike >= 0 else 1 - order - strike + worst._shortfall(-strike)
        put = worst._shortfall(strike) if strike >= 0 else order - 1 - strike + worst._excess(-strike)
        assert call - 1e-14 * order <= spread_above <= call + 0.02 * scale * order
        assert put - 1e-14 * order <= spread_below <= put + 0.02 * scale * order


# --- honesty: theorems


def draw_worst(worst: WorstDifference, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The worst difference, by its tails: two lognormals that are never both outside."""
    m, t = float(worst.separation), float(worst.order)
    z = rng.normal(size=shape)
    up = np.exp(m * z - m * m / 2) - t  # above 0 where z is large
    down = 1 - t * np.exp(-m * z - m * m / 2)  # below 0 where z is small
    return np.where(up > 0, up, np.where(down < 0, down, 0.0))


@pytest.mark.parametrize(("batches", "order"), [(3, 1.0), (5, 1.1), (10, 1.05)])
def test_a_spare_place_costs_what_draws_of_the_worst_difference_say(batches: int, order: float) -> None:
    worst = WorstDifference(Fraction(1), Fraction(order))
    sums = draw_worst(worst, np.random.default_rng(3), (200_000, batches)).sum(axis=1) + 0.5 * (1 - order)
    gains = np.maximum(sums, 0) / (batches + 0.5)
    error = 5 * gains.std() / math.sqrt(len(gains))
    value = bound_spare_place(worst, Fraction(2 * batches + 1, 2), batches, worst.positive_part)
    assert gains.mean() - error <= value <= (gains.mean() + error) * 1.05


@pytest.mark.parametrize("upper", [6, 9])
def test_large_batches_cost_what_draws_say(upper: int) -> None:
    worst = WorstDifference(Fraction(1), Fraction(23, 20))
    case = LargeBatches(
        epoch=epoch_of(2.0, 10, batch=64),
        worst=worst,
        atoms=worst.spread(1e-6),
        first=0.5,
        highest=4.0,
        certainty=4.0,
        variance=0.5,
        half=4.5,
        upper=upper,
    )
    draws = draw_worst(worst, np.random.default_rng(4), (200_000, 9)) + 0.15
    for weight in (0.2, 1.0, 2.5):  # the lower coefficient is negative at the ends
        apart = case._apart(weight)
        coefficients = np.repeat([weight + apart, weight - apart], [upper, 9 - upper])
        gains = np.maximum(0.5 - 0.15 * 9 * weight + draws @ coefficients, 0)
        error = 5 * gains.std() / math.sqrt(len(gains))
        assert gains.mean() - error <= case._psi(weight, upper) <= (gains.mean() + error) * 1.1


def test_boxes_say_of_every_count_what_convolution_says() -> None:
    atoms = WorstDifference(Fraction(1), Fraction(21, 20)).spread(1e-3)
    levels, count, first = (0.5, 1.0, 2.0), 6, 3.0
    spacing = LATTICE_STEP * 2
    laws = place_levels(atoms, levels, spacing)
    walks = Walks(laws, levels, spacing=spacing, count=count)
    problem = CountsProblem(walks, first, 0.05 + atoms.beyond)
    all_counts = [k for k in product(range(count + 1), repeat=3) if sum(k) == count]
    values = np.array([convolve(laws, k, 3) * spacing for k in all_counts])
    rows = np.array(all_counts, dtype=float)
    for shares in ((0.3, 0.5, 0.2), (0.1, 0.3, 0.6)):
        mean = np.linalg.lstsq(rows, values, rcond=None)[0]
        enough = mean * (values / (rows @ mean)).max() * 1.02
        boxes, slacks, cuts = problem._check(problem._all_boxes, enough, (0.0,), 60_000)
        assert (boxes.size, tuple(slacks), len(cuts)) == (0, (0.0,), 0)
        assert problem._check(problem._all_boxes, enough * 0.9, (0.0,), 60_000)[0].size
        # boxes that are left are settled by larger coefficients, and by no smaller ones
        boxes, slacks, _ = problem._check(problem._all_boxes, enough * 0.9, (0.0, 0.05, 0.3), 64)
        assert boxes.size or (rows @ (enough * 0.9 * (1 + slacks[0])) >= values).all()
        found = problem.bound(np.array(shares), (0.03, 0.05, 0.08, 0.12, 0.2, 0.4), 60_000)
        drawn = np.random.default_rng(5).multinomial(count, shares, size=400)
        index = {k: i for i, k in enumerate(all_counts)}
        assert np.mean([values[index[tuple(row)]] for row in drawn.tolist()]) <= found * 1.05


def test_boxes_are_split_without_losing_a_count() -> None:
    boxes = Boxes(np.zeros((1, 3)), np.full((1, 3), 7.0), 7)
    wanted = {k for k in product(range(8), repeat=3) if sum(k) == 7}
    for _ in range(12):
        weights = np.tile([1.0, 0.5, 2.0], (boxes.size, 1))
        boxes = boxes.split(weights, np.arange(boxes.size) % 3 == 0)
        held = [
            {k for k in wanted if all(low <= k) and all(k <= high)}
            for low, high in zip(boxes.lowest, boxes.highest, strict=True)
        ]
        assert set().union(*held) == wanted
        assert sum(map(len, held)) == len(wanted)
        for one, high, low in zip(held, boxes.fill(range(2, -1, -1)), boxes.fill(range(3)), strict=True):
            assert {tuple(high), tuple(low)} <= one
            assert all(
                sum(k[i:]) <= sum(high[i:]) and sum(k[i:]) >= sum(low[i:]) for k in one for i in range(3)
            )


# --- honesty: epochs


@pytest.mark.parametrize(("noise", "batches", "epsilon"), [(2.0, 3, 0.5), (4.0, 10, 0.1), (1.5, 5, 1.0)])
def test_ends_hold_what_records_that_are_alike_tell_by_draws(
    noise: float, batches: int, epsilon: float
) -> None:
    """On D' all sums are alike, and on D one of them is 2 larger: draws of the likelihood ratio under D."""
    rng = np.random.default_rng(6)
    outputs = noise * rng.normal(size=(400_000, batches))
    outputs[:, 0] += 2
    log_ratio = np.log(np.exp((2 * outputs - 2) / noise**2).mean(axis=1))
    gains = np.maximum(1 - np.exp(epsilon - log_ratio), 0)
    error = 5 * gains.std() / math.sqrt(len(gains))
    found = tr.delta(shuffled(noise, batches), epsilon=epsilon, relation=tr.SUBSTITUTE)
    assert found.lower <= gains.mean() + error
    assert found.upper >= gains.mean() - error
    assert found.lower >= (gains.mean() - error) * 0.97


def test_an_adversary_who_adapts_stays_below_the_upper_end() -> None:
    """Two batches, noise 2, order 1: others follow the first output and reach .31566, more than .29776."""
    found = tr.delta(shuffled(2.0, 2), epsilon=0.0, relation=tr.SUBSTITUTE)
    assert found.lower == pytest.approx(0.29776, abs=2e-4)
    assert found.upper >= 0.31566


def test_dots_that_are_connected_are_above_the_curve_between_them_on_both_sides() -> None:
    curve = WorstDifference(Fraction(1, 2), Fraction(1))
    orders = [Fraction(1), Fraction(6, 5), Fraction(3, 2), Fraction(2)]
    dots = [(t, Fraction(WorstDifference(curve.separation, t).positive_part)) for t in orders]
    pair = connect_dots(dots)
    p, q = (np.array([float(x) for x in side.masses]) for side in (pair.observed, pair.alternative))
    for t in (0.3, 0.6, 0.9, 1.0, 1.1, 1.7, 3.0, 50.0):
        order = Fraction(max(t, 1 / t))
        exact = WorstDifference(curve.separation, order).positive_part
        exact = exact if t >= 1 else 1 - t + t * exact
        assert exact <= np.maximum(p - t * q, 0).sum() + 1e-12


def test_no_theorem_is_asked_where_none_can_tell_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise AssertionError("a theorem was asked")

    for name in ("bound_spare_place", "bound_any_batches", "bound_large_batches"):
        monkeypatch.setattr(one_epoch, name, refuse)
    forget()
    for epoch in (epoch_of(1.0, 100), epoch_of(0.5, 100, batch=64), epoch_of(4.0, 1)):
        worst = WorstDifference(epoch.separation, Fraction(3, 2))
        assert bound_order(epoch, Fraction(3, 2)) == worst.positive_part
    with pytest.raises(AssertionError, match="a theorem was asked"):
        bound_order(epoch_of(4.0, 100), Fraction(3, 2))
