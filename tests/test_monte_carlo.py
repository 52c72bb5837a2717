"""Simulation: draws have the law they should, and estimates hold as often as they say."""

import math
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from catalogue import (
    BRANCHES,
    CATALOGUE,
    EVERY,
    LOPSIDED,
    Entry,
    batch,
    curve,
    finite,
    gaussian,
    laplace,
    over,
    poisson,
    response,
)
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.monte_carlo import simulate as simulate_curve
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.engines.draws.chunks import (
    BLOCK,
    IN_THIS_PROCESS,
    ChunkResults,
    ChunkSums,
    DrawChunk,
    DrawTask,
    Spread,
    add_up_chunks,
    draw_all,
    draw_chunk,
)
from tightrope.engines.draws.estimates import EpsilonSearch
from tightrope.engines.draws.losses import tilted_source
from tightrope.engines.draws.tilts import PLAIN, TILTED, Drawing, choose_tilts
from tightrope.engines.moments.step import log_moment_above
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.numerics.confidence import BETTING, CHERNOFF, HOEFFDING, Interval, draws_needed
from tightrope.numerics.floats import Floats
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair
from tightrope.parallel import in_parallel
from tightrope.setting.effort import QUICK
from tightrope.theorems.lookup import analyse


def removed(noise: Noise, rate: float, shift: float) -> ShiftPair:
    return ShiftPair(Mixture(noise, Fraction(rate), Fraction(shift)), Mixture(noise))


NORMAL, LAPLACE = Noise.NORMAL, Noise.LAPLACE
COIN = FinitePair(
    FiniteSupport((Fraction(11, 20), Fraction(9, 20))), FiniteSupport((Fraction(9, 20), Fraction(11, 20)))
)
TENTH = Mixture(NORMAL, Fraction(1, 10), Fraction(1))
PAIRS: dict[str, Pair] = {
    "normal remove": removed(NORMAL, 0.1, 1.0),
    "normal remove, half": removed(NORMAL, 0.5, 0.7),
    "normal add": removed(NORMAL, 0.1, 1.0).reverse,
    "normal add, half": removed(NORMAL, 0.5, 1.5).reverse,
    "normal both": ShiftPair(TENTH, TENTH.mirrored),
    "normal pure": removed(NORMAL, 1.0, 0.7),
    "laplace remove": removed(LAPLACE, 0.3, 1.0),
    "laplace add": removed(LAPLACE, 0.3, 1.0).reverse,
    "laplace pure": removed(LAPLACE, 1.0, 0.8),
    "laplace, little noise": removed(LAPLACE, 0.02, 4.0),
    "coin": COIN,
    "normal envelope": Envelope(removed(NORMAL, 0.2, 0.8)),
    "normal envelope, little noise": Envelope(removed(NORMAL, 0.05, 2.5)),
    "laplace envelope": Envelope(removed(LAPLACE, 0.3, 1.2)),
}


def fine_law(pair: Pair, tilt: float) -> tuple[Floats, Floats]:
    """Losses and tilted probabilities of thousands of small cells, from the masses of P."""
    x = np.linspace(-12, 40 if isinstance(pair, FinitePair) else 30, 40_001)
    middles = (x[1:] + x[:-1]) / 2
    if isinstance(pair, FinitePair):
        losses, log_masses = np.array(pair.losses), np.log([float(p) for p, _ in pair.levels])
    elif isinstance(pair, Envelope):
        x = np.linspace(pair.middle, 30, 20_001)
        beyond = pair.remove.loss((x[1:] + x[:-1]) / 2)
        up = pair.remove.observed.log_between(x[:-1], x[1:])
        down = pair.remove.alternative.log_between(x[:-1], x[1:])
        losses, log_masses = (
            np.concatenate([beyond, -beyond, [0.0]]),
            np.concatenate([up, down, [pair.log_atom]]),
        )
    else:
        assert isinstance(pair, ShiftPair)
        losses, log_masses = pair.loss(middles), pair.observed.log_between(x[:-1], x[1:])
    log_tilted = log_masses + tilt * losses
    weights = np.exp(log_tilted - log_tilted.max())
    order = np.argsort(losses)
    return losses[order], weights[order] / weights.sum()


def distance(drawn_losses: Floats, losses: Floats, weights: Floats) -> float:
    """Kolmogorov's distance of the draws from a fine law, at places between its cells."""
    places = losses[:: max(len(losses) // 500, 1)] + 1e-9
    law = np.cumsum(weights)[np.searchsorted(losses, places, side="right") - 1]
    return float(
        np.abs(np.searchsorted(np.sort(drawn_losses), places, side="right") / len(drawn_losses) - law).max()
    )


@pytest.mark.parametrize("tilt", [0.0, 0.4, 1.0, 2.5, 6.0, 7.5])
@pytest.mark.parametrize("name", PAIRS)
def test_draws_have_the_tilted_law(name: str, tilt: float) -> None:
    pair, count = PAIRS[name], 20_000
    source = tilted_source(pair, tilt)
    one = source.draw(np.random.default_rng(1), count, 1)
    assert distance(one, *fine_law(pair, tilt)) < 2.2 / math.sqrt(count)  # exceeded once in 8000 laws
    other = tilt / 2 if tilt > 2 else 3.0
    assert distance(one, *fine_law(pair, other)) > 2.2 / math.sqrt(count)  # another tilt is told apart
    # and sums of three have the moment of the certified transform: E_c[e^{-sY}] = (M(c - s) / M(c))^3
    three = source.draw(np.random.default_rng(2), count, 3)
    s = min(tilt / 2, 0.5 / float(three.std())) or -0.25
    known = 3 * (log_moment_above(pair, tilt - s) - (log_moment_above(pair, tilt) if tilt else 0.0))
    weights = np.exp(-s * three - known)
    assert abs(weights.mean() - 1) < 4.5 * weights.std() / math.sqrt(count) + 1e-12
    assert source.acceptance > 0.02


def test_infinite_losses_are_drawn_plainly_and_left_out_of_tilts() -> None:
    pair = FinitePair(
        FiniteSupport((Fraction(1, 4), Fraction(3, 4))), FiniteSupport((Fraction(0), Fraction(1)))
    )
    sums = tilted_source(pair, 0.0).draw(np.random.default_rng(0), 10_000, 3)
    assert np.isinf(sums).mean() == pytest.approx(1 - 0.75**3, abs=0.02)
    assert np.isfinite(tilted_source(pair, 2.0).draw(np.random.default_rng(0), 1000, 3)).all()
    assert Schedule([(pair, 3)]).infinite_mass == pytest.approx(1 - 0.75**3, rel=1e-14)


def schedule_of(run: tr.Run, relation: tr.Relation = tr.REMOVE) -> Schedule:
    found = analyse(run, relation, QUICK)[0].covers[0].schedules[0]
    assert isinstance(found, Schedule)
    return found


@pytest.mark.parametrize("tilt", [0.0, 3.0])
def test_sums_per_interval_give_the_sums_at_every_epsilon(tilt: float) -> None:
    schedule, epsilons = schedule_of(gaussian(1, poisson(0.2), 4)), (0.0, 0.3, 0.31, 1.0, 9.0)
    task = DrawTask(schedule, tilt, epsilons, 700, 3, 0)
    totals = add_up_chunks(task, [draw_chunk(DrawChunk(task, 0))])
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(3, spawn_key=(0, 0))))
    (pair, times), *_ = schedule
    x = tilted_source(pair, tilt).draw(rng, 700, times)[:, None] - np.array(epsilons)
    peak = math.exp(log_chernoff_factor(tilt)) if tilt else 1.0
    z = np.where(x > 0, np.exp(-tilt * x) * -np.expm1(-x), 0.0) / peak
    assert z.max() <= 1
    assert totals.sample.sums[0] == pytest.approx(z.sum(axis=0), rel=1e-12)
    assert totals.sample.squares[0] == pytest.approx((z**2).sum(axis=0), rel=1e-12)


REPEATED = [
    (gaussian(1, poisson(0.1), 5), tr.REMOVE, 1.5, TILTED),
    (gaussian(1, poisson(0.1), 5), tr.ADD, 0.3, TILTED),
    (gaussian(1, poisson(0.1), 5), tr.REMOVE, 0.2, PLAIN),
    (laplace(1, poisson(0.5), 2), tr.ADD, 0.5, PLAIN),
    (laplace(1, poisson(0.5), 8), tr.REMOVE, 3.0, TILTED),
    (response(0.75, EVERY, 10), tr.REMOVE, 8.0, TILTED),
    (finite(*LOPSIDED, poisson(0.25), 4), tr.REMOVE, 0.5, TILTED),
    (gaussian(4, batch(1, 2), 3), tr.SUBSTITUTE, 1.0, TILTED),
]


@pytest.mark.parametrize(("run", "relation", "epsilon", "drawing"), REPEATED)
@pytest.mark.parametrize("interval", [CHERNOFF, BETTING])
def test_estimates_hold_as_often_as_they_say(
    run: tr.Run, relation: tr.Relation, epsilon: float, drawing: Drawing, interval: Interval
) -> None:
    repetitions, beta = 150, 0.2
    analysis = replace(analyse(run, relation, QUICK)[0], witnesses=())
    simulation = MonteCarlo(draws=400, confidence=1 - beta, drawing=drawing, interval=interval)
    found = [
        simulate_curve([analysis], "", replace(simulation, seed=seed)).delta(epsilon)
        for seed in range(repetitions)
    ]
    truth = (
        tr.privacy_curve(run, relation=relation, by=tr.Certified(accuracy=1e-4, effort=QUICK))
        .delta(epsilon)
        .upper
    )
    # each limit has half of beta; more failures than this happen once in 2000 tests
    allowed = beta / 2 * repetitions + 3.3 * math.sqrt(repetitions * beta / 2)
    assert sum(truth > each.upper for each in found) <= allowed
    middle = np.array([each.value for each in found])
    # so an upper end that is too low would be noticed
    assert sum(truth > each.value for each in found) > allowed
    assert abs(middle.mean() / truth - 1) < 4.5 * middle.std() / truth / math.sqrt(repetitions)


def test_lower_ends_hold_as_often_as_they_say() -> None:
    run = gaussian(1, poisson(0.1), 5)
    truth = curve(run, tr.REMOVE).delta(1.5)
    found = [
        estimated(run, tr.REMOVE, draws=400, confidence=0.8, seed=seed).delta(1.5) for seed in range(200)
    ]
    assert sum(truth.upper < each.lower for each in found) <= 0.1 * 200 + 3.3 * math.sqrt(200 * 0.1)
    assert sum(truth.upper < each.value for each in found) > 0.1 * 200 + 3.3 * math.sqrt(200 * 0.1)


def estimated(
    run: tr.Run, relation: tr.Relation, spread: Spread = IN_THIS_PROCESS, **settings: Any
) -> SimulatedCurve:
    opposite = relation.opposite
    made = simulate_curve(
        analyse(run, relation, QUICK),
        f"{run!r} under {relation.name}",
        MonteCarlo(**{"draws": 2000, **settings}),
        spread,
        reverse=lambda: made if opposite is relation else estimated(run, opposite, spread, **settings),
    )
    return made


SHORT = tuple(entry for entry in CATALOGUE if entry.run.steps <= 1000)
NEARLY_SURE = 1 - 1e-6


@over(SHORT)
def test_estimates_agree_with_certified_brackets(entry: Entry) -> None:
    for relation in BRANCHES:
        for drawing in (PLAIN, TILTED) if entry.run.steps <= 20 else (TILTED,):
            found = estimated(entry.run, relation, drawing=drawing, confidence=NEARLY_SURE).delta(
                list(entry.epsilons)
            )
            for epsilon, estimate in zip(entry.epsilons, found, strict=True):
                certified = curve(entry.run, relation).delta(epsilon)
                assert estimate.lower <= certified.upper
                assert certified.lower <= estimate.upper


@over(SHORT[::3])
def test_epsilons_agree_with_certified_brackets(entry: Entry) -> None:
    for relation in BRANCHES:
        deltas = [0.3, 1e-3, 1e-6]
        for delta, estimate in zip(
            deltas, estimated(entry.run, relation, confidence=NEARLY_SURE).epsilon(deltas), strict=True
        ):
            certified = curve(entry.run, relation).epsilon(delta)
            assert estimate.lower <= certified.upper
            assert certified.lower <= estimate.upper


def test_small_deltas_are_within_reach_of_tilted_draws_and_beyond_plain_ones() -> None:
    run = gaussian(1, poisson(0.01), 300)
    certified = curve(run, tr.REMOVE).epsilon(1e-12)
    tilted = estimated(run, tr.REMOVE, draws=20_000)
    found = tilted.delta(certified.upper)
    assert 1e-12 in found
    assert found.upper < 1.2 * found.value
    back = tilted.epsilon(1e-12)
    assert back.lower <= certified.upper <= back.upper
    assert back.upper - back.lower < 0.05 * back.upper
    assert estimated(run, tr.REMOVE, draws=5000, drawing=PLAIN).delta(certified.upper).value == 0


def test_hoeffding_is_as_wide_as_asked_at_all_epsilons_together() -> None:
    draws = draws_needed(alpha=0.02, beta=0.01, points=40)
    epsilons = np.linspace(0, 0.7, 40)
    run = laplace(1, poisson(0.5), 2)
    for relation in BRANCHES:
        found = estimated(run, relation, draws=draws, drawing=PLAIN, interval=HOEFFDING).delta(epsilons)
        for estimate, bracket in zip(found, curve(run, relation).delta(epsilons), strict=True):
            assert bracket.upper in estimate
            assert estimate.upper - estimate.value == pytest.approx(0.02, rel=1e-3)
            assert estimate.draws == draws


def test_the_upper_end_is_the_covers_and_the_lower_end_the_witnesses() -> None:
    run = gaussian(4, batch(50, 1000), 100)
    certified = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Certified(effort=QUICK))
    found = estimated(run, tr.SUBSTITUTE, draws=20_000)
    at = certified.delta(1.0)
    assert found.delta(1.0).lower < at.lower < at.upper < found.delta(1.0).upper
    assert found.delta(1.0).value == pytest.approx(at.upper, rel=0.05)
    assert found.because == certified.because


def test_negative_epsilons_ask_the_reversed_run() -> None:
    run = laplace(1, poisson(0.3), 3)
    for relation in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE):
        found = estimated(run, relation, draws=3000, confidence=1 - 1e-6).delta([-0.5, 0.5])
        for epsilon, estimate in zip([-0.5, 0.5], found, strict=True):
            assert tr.privacy_curve(run, relation=relation).delta(epsilon).upper in estimate
    alone = simulate_curve(analyse(run, tr.ADD, QUICK), "", MonteCarlo(draws=100))
    with pytest.raises(tr.InvalidSetting, match="at least 0"):
        alone.delta(-0.5)


def test_log_deltas_are_the_logarithms_of_deltas() -> None:
    found = estimated(gaussian(1, poisson(0.1), 3), tr.REMOVE)
    delta, log_delta = found.delta(0.5), found.log_delta(0.5)
    assert log_delta.value == math.log(delta.value)
    assert math.exp(log_delta.lower) <= delta.lower * (1 + 1e-15)
    assert math.exp(log_delta.upper) >= delta.upper * (1 - 1e-15)
    assert estimated(laplace(1, EVERY, 2), tr.REMOVE).log_delta(2.5).upper == -math.inf


def test_what_is_known_exactly_is_not_drawn() -> None:
    nothing = Estimate(0.0, 0.0, 0.0, 0.99, 0)
    assert estimated(tr.Run(), tr.REMOVE).delta(0.0) == nothing
    assert estimated(tr.Run(), tr.REMOVE).epsilon(0.1) == nothing
    assert estimated(laplace(1, EVERY, 2), tr.REMOVE).delta(2.5) == nothing  # beyond the largest loss
    disjoint = finite([1.0, 0.0], [0.0, 1.0], EVERY, 2)
    assert estimated(disjoint, tr.REMOVE).delta(3.0) == Estimate(1.0, 1.0, 1.0, 0.99, 0)
    assert estimated(disjoint, tr.REMOVE).epsilon(0.5).lower == math.inf
    certain = estimated(finite(*LOPSIDED, EVERY, 3), tr.REMOVE).epsilon(1e-3)
    assert certain.lower == math.inf
    assert estimated(laplace(1, EVERY, 2), tr.REMOVE, draws=2000).epsilon(0.999).upper == 0


def backwards(work: Callable[[DrawChunk], ChunkSums], chunks: Iterable[DrawChunk]) -> ChunkResults:
    """Every chunk in an order of its own, through the form in which it travels."""
    numbered = list(enumerate(chunks))
    random.Random(4).shuffle(numbered)
    for index, chunk in numbered:
        yield index, pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(chunk)))))


def test_the_same_seed_gives_the_same_bits_whoever_works() -> None:
    run, draws = gaussian(1, poisson(0.1), 3), 3 * BLOCK
    here = estimated(run, tr.REMOVE, draws=draws).delta([0.1, 1.0, 3.0])
    for spread in (backwards, partial(in_parallel, workers=2), partial(in_parallel, workers=1)):
        assert (estimated(run, tr.REMOVE, spread, draws=draws).delta([0.1, 1.0, 3.0]) == here).all()
    assert (estimated(run, tr.REMOVE, draws=draws, seed=1).delta([0.1, 1.0, 3.0]) != here).all()


def task_of(run: tr.Run, draws: int, tilt: float = 2.0) -> DrawTask:
    return DrawTask(schedule_of(run), tilt, (0.5, 1.0), draws, 0, 0)


@pytest.mark.parametrize("draws", [1, 1023, 1025, 50_000, 10**7, 10**12])
def test_chunks_hold_all_draws_and_stay_few(draws: int) -> None:
    chunks = task_of(gaussian(1, poisson(0.1), 1), draws).chunk_sizes
    assert sum(chunks) == draws
    assert len(chunks) < 300


def test_an_interrupt_leaves_what_was_done() -> None:
    seen: list[tuple[int, int]] = []

    def impatient(done: int, work: int) -> None:
        seen.append((done, work))
        if len(seen) == 4:
            raise KeyboardInterrupt

    task = task_of(gaussian(1, poisson(0.1), 3), 100_000)
    (totals,) = draw_all([task], progress=impatient)
    assert totals.sample.counts.tolist() == [1024, 1024, 2048, 4096]
    assert seen[-1] == (8192, 100_000)
    (whole,) = draw_all([task])
    assert (totals.sample.sums == whole.sample.sums[:4]).all()
    seen.clear()
    run = gaussian(1, poisson(0.1), 3)
    by = MonteCarlo(draws=100_000)
    stopped = tr.privacy_curve(run, relation=tr.REMOVE, by=by, progress=impatient).delta(1.0)
    assert stopped.draws == 8192
    assert curve(run, tr.REMOVE).delta(1.0).upper in stopped


def test_an_interrupt_before_anything_is_done_is_raised_and_a_hole_is_not_jumped() -> None:
    task = task_of(gaussian(1, poisson(0.1), 2), 20_000)

    def stopped_after(order: list[int]) -> Spread:
        def spread(work: Callable[[DrawChunk], ChunkSums], chunks: Iterable[DrawChunk]) -> ChunkResults:
            made = list(chunks)
            for index in order:
                yield index, work(made[index])
            raise KeyboardInterrupt

        return spread

    with pytest.raises(KeyboardInterrupt):
        draw_all([task], stopped_after([1, 2]))
    (totals,) = draw_all([task], stopped_after([0, 3, 1]))
    assert totals.sample.counts.tolist() == [1024, 1024]


def test_a_failing_piece_is_not_passed_over() -> None:
    def broken(work: Callable[[DrawChunk], ChunkSums], chunks: Iterable[DrawChunk]) -> ChunkResults:
        for index, _ in enumerate(chunks):
            yield index, ArithmeticError("lost")

    with pytest.raises(ArithmeticError, match="lost"):
        draw_all([task_of(gaussian(1, poisson(0.1), 2), 2000)], broken)


def test_memory_does_not_grow_with_the_draws() -> None:
    def peak(draws: int) -> int:
        tracemalloc.start()
        draw_all([task_of(gaussian(1, poisson(0.1), 1), draws)])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(2 * BLOCK)
    assert peak(60 * BLOCK) < 1.3 * peak(6 * BLOCK) + 200_000


@pytest.mark.parametrize(
    ("run", "most"), [(gaussian(1, poisson(0.01), 1000), 20), (laplace(1, poisson(0.5), 5), 40)]
)
def test_epsilons_of_an_array_share_tilts(run: tr.Run, most: int) -> None:
    schedule = schedule_of(run)
    tilts = choose_tilts(schedule, tuple(np.linspace(0, 0.9 * min(schedule.loss_range[1], 5), 200).tolist()))
    assert len(set(tilts)) <= most
    assert tilts == sorted(tilts)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "1", None, True])
def test_bad_epsilons_are_refused(bad: object) -> None:
    with pytest.raises(tr.InvalidSetting, match="epsilon must be"):
        estimated(gaussian(1, poisson(0.1), 2), tr.REMOVE, draws=10).delta(bad)  # type: ignore[call-overload]


def test_other_bad_input_is_refused() -> None:
    run = gaussian(1, poisson(0.1), 2)
    with pytest.raises(tr.InvalidSetting, match=r"delta must be in \(0, 1\)"):
        estimated(run, tr.REMOVE, draws=10).epsilon([0.1, 1.0])
    with pytest.raises(tr.InvalidSetting, match="Pass floats"):
        estimated(run, tr.REMOVE, draws=10).delta(["a", "b"])  # type: ignore[list-item]
    with pytest.raises(tr.InvalidSetting, match="progress must be callable"):
        tr.privacy_curve(run, relation=tr.REMOVE, by=MonteCarlo(), progress=3)  # type: ignore[call-overload]
    with pytest.raises(tr.InvalidSetting, match="draws"):
        MonteCarlo(draws=0)


@pytest.mark.parametrize(("steps", "delta"), [(1, 0.101), (2, 0.191), (5, 0.40992)])
def test_a_delta_just_above_the_infinite_mass_is_answered(steps: int, delta: float) -> None:
    run = tr.Step(tr.Finite(observed=[0.9, 0.1, 0.0], alternative=[0.5, 0.4, 0.1]), tr.EveryRecord()) * steps
    found = tr.epsilon(run, delta=delta, relation=tr.REMOVE, by=MonteCarlo(draws=5000))
    certain = tr.epsilon(run, delta=delta, relation=tr.REMOVE)
    assert found.lower <= certain.upper
    assert certain.lower <= found.upper


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_epsilon_is_infinite_just_where_the_exact_infinite_mass_exceeds_delta(steps: int) -> None:
    """No float near the mass may turn a finite epsilon into an infinite one, or the other way round."""
    mass = Fraction(1, 10)
    own = FinitePair(
        FiniteSupport((1 - mass, mass, Fraction(0))), FiniteSupport((1 - mass, Fraction(0), mass))
    )
    infinite = 1 - (1 - mass) ** steps
    near = float(infinite)
    for delta in (near, math.nextafter(near, 0), math.nextafter(near, 1), near * (1 - 1e-15)):
        search = EpsilonSearch(Schedule([(own, steps)]), delta)
        assert (search.found.lower == math.inf) == (infinite > Fraction(delta))
