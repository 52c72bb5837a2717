"""The participation theorem, attacked: nothing does better than it says.

Each attack is shown to break a claim that is a little too strong, so that it can fail.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]
Payoff = Callable[[Array], Array]
Queries = tuple[Array, Array]  # the vectors of the group on D and on D', one row for each record
EXACT = 1e-12  # sums of a few hundred products of floats below 10


def hockey_stick(x: Array) -> Array:
    return np.maximum(x, 0)


def smooth(x: Array) -> Array:
    """A convex function without a kink, so that the trapezoidal rule on few points is right to 1e-9."""
    return np.logaddexp(0, x)


@dataclass(frozen=True)
class Game:
    """Batches drawn by `counts[a, j, i]`, how often record i is in batch j under assignment a.

    Assignment a has weight `on_d[a]` on D and `on_d_prime[a]` on D', which need not add to 1: any state that
    earlier outputs may have led to. The value is E f(sum over a of the likelihoods on D - those on D').
    """

    counts: NDArray[np.int64]
    on_d: Array
    on_d_prime: Array
    noise: float
    payoff: Payoff
    points: int

    def value(self, menus: list[list[Queries]]) -> float:
        """What an adversary gains who picks from a menu at each step, knowing all earlier outputs."""
        return float(self._best(self.on_d[None], self.on_d_prime[None], menus)[0])

    def _best(self, d: Array, d_prime: Array, menus: list[list[Queries]]) -> Array:
        if not menus:
            return self.payoff(d.sum(axis=1) - d_prime.sum(axis=1))
        step = self.counts.shape[1] - len(menus)
        found = []
        for queries in menus[0]:
            weights, points = _normal(self.points, queries[0].shape[1])
            x, x_prime = (self._likelihood(step, vectors, points) for vectors in queries)
            after = [(w[:, None] * r[None]).reshape(-1, w.shape[1]) for w, r in ((d, x), (d_prime, x_prime))]
            found.append(self._best(after[0], after[1], menus[1:]).reshape(len(d), -1) @ weights)
        return np.max(found, axis=0)  # type: ignore[no-any-return]

    def _likelihood(self, step: int, vectors: Array, points: Array) -> Array:
        sums = self.counts[:, step] @ vectors / self.noise
        return np.exp(points @ sums.T - (sums**2).sum(axis=1) / 2)  # type: ignore[no-any-return]

    def claim(self, *, reach: float = 1.0) -> float:
        """The theorem's value: every record of the group is 1 on D and -1 on D'; or `reach` times as much."""
        steps, members = self.counts.shape[1:]
        ones = np.full((members, 1), reach)
        return self.value([[(ones, -ones)]] * steps)


@cache
def _normal(points: int, dimension: int) -> tuple[Array, Array]:
    line = np.linspace(-9, 9, points)
    mass = np.exp(-(line**2) / 2)
    mass /= mass.sum()
    weights = np.prod(np.meshgrid(*[mass] * dimension), axis=0).ravel()
    return weights, np.stack(np.meshgrid(*[line] * dimension), axis=-1).reshape(-1, dimension)


def random_game(rng: np.random.Generator, *, steps: int, group: int, payoff: Payoff, points: int) -> Game:
    """Any law of who is in which batch, any order, and at times one neighbour without the group."""
    counts = rng.integers(0, 2, (2**group * 2, steps, group))
    on_d, on_d_prime = rng.dirichlet(np.full(len(counts), 0.5), 2)
    if (
        rng.random() < 0.4
    ):  # REMOVE or ADD: one more assignment, "nobody", has all the weight of one neighbour
        counts = np.concatenate([counts, np.zeros((1, steps, group), dtype=int)])
        nobody = np.zeros(len(counts))
        nobody[-1] = 1
        on_d, on_d_prime = np.append(on_d, 0), nobody
        if rng.random() < 0.5:
            on_d, on_d_prime = on_d_prime, on_d
    order = math.exp(rng.normal(0, 0.7))
    return Game(counts, on_d, order * on_d_prime, rng.uniform(1, 3) * math.sqrt(group), payoff, points)


def random_queries(rng: np.random.Generator, group: int, dimension: int) -> Queries:
    """Vectors in the unit ball; half of the time close to the claimed worst."""
    vectors = rng.normal(size=(2, group, dimension))
    if rng.random() < 0.5:
        vectors *= 0.3
        vectors[0, :, 0] += 1
        vectors[1, :, 0] -= 1
    length = np.linalg.norm(vectors, axis=2, keepdims=True)
    vectors *= np.where(rng.random(length.shape) < 0.3, rng.random(length.shape), 1) / length
    return vectors[0], vectors[1]


def climb(rng: np.random.Generator, game: Game, queries: Queries, rounds: int) -> tuple[float, Queries]:
    """The largest value found by small changes of the first step's vectors; later steps as claimed."""
    steps, members = game.counts.shape[1:]
    later = [[(np.ones((members, 1)), -np.ones((members, 1)))]] * (steps - 1)
    best = game.value([[queries], *later])
    for _ in range(rounds):
        tried = [vectors + rng.normal(0, 0.3, vectors.shape) for vectors in queries]
        a, b = (v / np.maximum(1, np.linalg.norm(v, axis=1, keepdims=True)) for v in tried)
        if (value := game.value([[(a, b)], *later])) > best:
            best, queries = value, (a, b)
    return best, queries


def attack_states(rng: np.random.Generator, *, reach: float = 1.0) -> float:
    """By how much hill climbing from a random state exceeds the claim, in 1, 2 or 3 dimensions."""
    dimension, group = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    points, steps = (61, 2) if dimension < 3 else (37, 1)
    game = random_game(rng, steps=steps, group=group, payoff=smooth, points=points)
    found, _ = climb(rng, game, random_queries(rng, group, dimension), rounds=6)
    return found - game.claim(reach=reach)


def attack_kinks(rng: np.random.Generator, *, reach: float = 1.0) -> float:
    """The same on the line, with the divergence itself instead of a smooth function."""
    group = int(rng.integers(1, 4))
    game = random_game(rng, steps=1, group=group, payoff=hockey_stick, points=4001)
    found, _ = climb(rng, game, random_queries(rng, group, 1), rounds=20)
    return found - game.claim(reach=reach)


def attack_runs(rng: np.random.Generator, *, reach: float = 1.0) -> float:
    """By how much an adversary with a menu at each of 2 or 3 steps exceeds the claim."""
    dimension, steps, group = [(1, 3), (1, 2), (2, 2)][int(rng.integers(3))] + (int(rng.integers(1, 4)),)
    game = random_game(rng, steps=steps, group=group, payoff=smooth, points=37 if dimension == 1 else 25)
    menus = [[random_queries(rng, group, dimension) for _ in range(3)] for _ in range(steps)]
    return game.value(menus) - game.claim(reach=reach)


ATTACKS = {  # how often, and what the trapezoidal rule may be off by: on kinks more
    attack_states: (8, 1e-9),
    attack_kinks: (12, 5e-6),
    attack_runs: (8, 1e-9),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_group_dimension_state_or_adaptive_choice_exceeds_opposite_unit_vectors(
    attack: Callable[..., float],
) -> None:
    rng, (times, rule_abs_error) = np.random.default_rng(3), ATTACKS[attack]
    assert max(attack(rng) for _ in range(times)) <= rule_abs_error


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_breaks_the_claim_that_nine_tenths_of_the_distance_are_enough(
    attack: Callable[..., float],
) -> None:
    rng = np.random.default_rng(4)
    assert max(attack(rng, reach=0.9) for _ in range(6)) > 1e-3


@pytest.mark.parametrize("odds", [1.0, 1.5, 3.0])
def test_remove_is_never_below_add_when_a_record_is_in_one_of_two_batches(odds: float) -> None:
    counts = np.array([[[1], [0]], [[0], [1]], [[0], [0]]])
    group, nobody = np.array([0.5, 0.5, 0]), np.array([0.0, 0, 1])
    remove = Game(counts, group, odds * nobody, 0.8, hockey_stick, 801).claim()
    add = Game(counts, nobody, odds * group, 0.8, hockey_stick, 801).claim()
    assert remove > add - 1e-6
    assert (remove - add > 5e-3) == (odds > 1)  # equal at total variation, and strictly more after it


@dataclass(frozen=True)
class FiniteGame:
    """One record, any law of the batches it is in, and steps of three outputs; all exact but for rounding."""

    law: Array  # of the assignments
    taken: NDArray[np.bool_]  # taken[a, j]: whether the record is in batch j under assignment a
    odds: float
    adding: bool

    def value(self, menu: list[tuple[Array, Array]]) -> float:
        """What an adversary gains who picks each step's laws, without and with the record, from a menu."""
        return float(self._best(self.law[None], np.ones(1), menu, 0)[0])

    def _best(self, with_it: Array, without: Array, menu: list[tuple[Array, Array]], step: int) -> Array:
        if step == self.taken.shape[1]:
            p, q = with_it.sum(axis=1), without
            gain: Array = q - self.odds * p if self.adding else p - self.odds * q
            return np.maximum(gain, 0)
        found = []
        for absent, present in menu:
            laws = np.where(self.taken[:, step], present[:, None], absent[:, None])
            d = (with_it[:, None] * laws[None]).reshape(-1, len(self.law))
            after = self._best(d, (without[:, None] * absent).ravel(), menu, step + 1)
            found.append(after.reshape(len(with_it), -1).sum(axis=1))
        return np.max(found, axis=0)  # type: ignore[no-any-return]


def random_finite_games(seed: int, games: int) -> Iterator[tuple[FiniteGame, list[tuple[Array, Array]]]]:
    """Games with a menu of processed copies of the first pair, which dominates them all."""
    rng = np.random.default_rng(seed)
    for _ in range(games):
        taken = np.array(list(product([False, True], repeat=3)))
        law = rng.dirichlet(np.full(len(taken), 0.5))
        absent, present = rng.dirichlet(np.full(3, 0.5), 2)
        channels = rng.dirichlet(np.full(3, 0.3), (3, 3))
        menu = [(absent, present), *((absent @ c, present @ c) for c in channels)]
        yield FiniteGame(law, taken, math.exp(rng.normal()), bool(rng.random() < 0.5)), menu


def test_any_noise_and_any_law_of_one_record_are_dominated_by_the_mixture_of_the_steps_pairs() -> None:
    for game, menu in random_finite_games(6, games=60):
        assert game.value(menu) <= game.value(menu[:1]) + EXACT


def test_the_attack_with_finite_outputs_breaks_the_claim_of_a_processed_pair() -> None:
    assert max(game.value(menu) - game.value(menu[1:2]) for game, menu in random_finite_games(7, 20)) > 1e-2


def _allocation(sets: list[tuple[int, ...]], steps: int) -> tuple[Array, NDArray[np.bool_]]:
    taken = np.array([[j in chosen for j in range(steps)] for chosen in sets])
    return np.full(len(sets), 1 / len(sets)), taken


def _passes(sizes: tuple[int, ...]) -> tuple[Array, NDArray[np.bool_]]:
    """One batch of each block, blocks of these sizes in a row."""
    starts = np.cumsum((0, *sizes[:-1]))
    blocks = [range(int(start), int(start) + size) for start, size in zip(starts, sizes, strict=True)]
    return _allocation(list(product(*blocks)), sum(sizes))


def _most_excess(sizes: tuple[int, ...]) -> float:
    """The most by which 2 of 5 batches exceed a pass over each block, over pairs, orders and both ways."""
    two_of_five = _allocation(list(combinations(range(5), 2)), 5)
    rng, worst = np.random.default_rng(8), -math.inf
    for _ in range(40):
        truth, odds = rng.uniform(0.5, 0.95), math.exp(rng.normal())
        pair = (np.array([truth, 1 - truth]), np.array([1 - truth, truth]))
        for adding in (False, True):
            exact, above = (FiniteGame(*drawn, odds, adding) for drawn in (two_of_five, _passes(sizes)))
            worst = max(worst, exact.value([pair]) - above.value([pair]))
    return worst


@pytest.mark.parametrize("sizes", [(2, 3), (2, 2), (1, 4)])
def test_two_of_five_batches_are_dominated_by_one_of_each_block_of_any_sizes(sizes: tuple[int, ...]) -> None:
    assert _most_excess(sizes) <= EXACT


def test_blocks_of_more_batches_than_there_are_do_not_dominate() -> None:
    assert _most_excess((3, 3)) > 1e-3
