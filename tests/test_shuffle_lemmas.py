"""The lemmas of shuffled batches, one by one: at random, at their worst, and mutated until they break.

They are those of theorems/proofs/shuffles.md. Letters as there: s the noise, tau the order, u, a, D the three
parts of a run's likelihood, T the batches of an epoch, b the records of a batch.
"""

from collections import Counter
from itertools import combinations, pairwise, permutations, product
from math import comb, exp, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
QUADRATURE_ABS_ERROR = (
    3e-5  # a kink costs step^2 / 8 times its jump in slope, and steps are 1/25 of the noise
)


def gaussian_curve(deviation: float, t: Floats | float) -> Floats:
    """G: E(L - t)_+ for the mean-one lognormal L of that deviation; 1 - t for t <= 0."""
    safe = np.maximum(t, 1e-300)
    d = -np.log(safe) / deviation + deviation / 2
    return np.where(np.asarray(t) > 0, ndtr(d) - safe * ndtr(d - deviation), 1 - np.asarray(t))


def largest_call(strike: Floats | float, tau: float, s: float, diameter: float = 2.0) -> Floats:
    """C*: the call function of D*, claimed to be the largest of all steps."""
    above, below = np.maximum(strike, 0), np.maximum(-np.asarray(strike), 0)
    up = gaussian_curve(diameter / s, tau + above)
    return np.where(
        np.asarray(strike) >= 0, up, (1 + below) * gaussian_curve(diameter / s, tau / (1 + below))
    )


def density(y: Floats, centre: float, s: float) -> Floats:
    return np.asarray(np.exp(-((y - centre) ** 2) / (2 * s * s)) / (s * sqrt(2 * np.pi)))


def normal_grid(points: int = 4001) -> tuple[Floats, Floats]:
    z = np.linspace(-9, 9, points)
    weights = np.exp(-z * z / 2)
    return z, weights / weights.sum()


def lattice_law(
    tau: float, s: float, lowest: float, highest: float, cells: int
) -> tuple[Floats, Floats, float]:
    """Places and masses of min(D*, highest), spread, left tail raised; and the charge for what lies above."""
    places = np.linspace(lowest, highest, cells + 1)
    calls = largest_call(places, tau, s)
    charge = float(calls[-1])
    slopes = np.append(-np.diff(calls - charge) / (places[1] - places[0]), 0.0)
    masses = np.append(1 - slopes[0], slopes[:-1] - slopes[1:])
    return places, masses, charge


# --- the worst step


def triangle_call(corners: Floats, strike: float, tau: float, s: float) -> float:
    """E(X - tau Y - strike)_+ under N(c) for the corners (c, x, x')."""
    z, weights = normal_grid()
    to_x, to_other = (corners[1:] - corners[0]) / s
    second = np.linalg.norm(to_other)
    shared = to_x @ to_other / second if second > 1e-9 else 0.0
    own = sqrt(max(to_x @ to_x - shared**2, 1e-16))
    size = np.exp(shared * z - shared**2 / 2)
    paid = tau * np.exp(second * z - second**2 / 2) + strike
    return float(weights @ (size * gaussian_curve(own, paid / size)))


def near_worst(rng: np.random.Generator) -> Floats:
    """Two opposite points and a third close to one of them, or any three of the disc."""
    corners = rng.normal(size=(3, 2))
    corners /= np.linalg.norm(corners, axis=1)[:, None]
    if rng.random() < 0.7:
        corners[1] = -corners[2]
        corners[0] = corners[rng.integers(1, 3)]
        corners += 0.03 * rng.normal(size=(3, 2))
    return np.asarray(corners / np.maximum(1, np.linalg.norm(corners, axis=1))[:, None])


def test_no_triangle_has_a_larger_call_than_the_closed_form_which_a_smaller_diameter_would_break() -> None:
    rng, broken = np.random.default_rng(1), 0
    for _ in range(600):
        s, tau = exp(rng.uniform(-0.3, 2)), exp(rng.uniform(-1, 1))
        strike, corners = rng.normal() * 2 / s, near_worst(rng)
        call = triangle_call(corners, strike, tau, s)
        assert call <= largest_call(strike, tau, s) + 1e-7
        broken += int(call > largest_call(strike, tau, s, 1.9) + 1e-7)
    assert broken > 100


@pytest.mark.parametrize("strike", [-0.7, 0.0, 0.4])
def test_opposite_points_attain_the_largest_call(strike: float) -> None:
    e = np.array([1.0, 0.0])
    corners = np.array([-e, e, -e]) if strike >= 0 else np.array([e, e, -e])
    assert triangle_call(corners, strike, 1.3, 2.0) == pytest.approx(largest_call(strike, 1.3, 2.0), abs=1e-6)


@pytest.mark.parametrize("tau", [0.6, 1.0, 1.7])
def test_the_largest_calls_are_those_of_one_law_of_mean_one_minus_tau(tau: float) -> None:
    places, masses, charge = lattice_law(tau, 2.0, -200, 400, 60_000)
    assert masses.min() > -1e-9  # convex, slopes between -1 and 0
    raised = tau * gaussian_curve(1.0, 201 / tau)
    assert places @ masses + charge - raised == pytest.approx(1 - tau, abs=1e-9)
    assert np.maximum(-places, 0) @ masses == pytest.approx(gaussian_curve(1.0, tau) + tau - 1, abs=1e-5)


def first_place_call(beta: float, tau: float, s: float) -> float:
    """The claimed bound of E(u - beta)_+."""
    scaled = beta * exp(1 / (2 * s * s))
    z = s * log((scaled + sqrt(scaled**2 + 4 * tau)) / 2)
    return float(ndtr(1 / s - z) - tau * ndtr(-1 / s - z) - beta * ndtr(-z))


def test_the_first_place_costs_most_with_opposite_unit_vectors() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        s, tau, beta = exp(rng.uniform(-0.3, 2)), exp(rng.uniform(0, 1)), 2 * rng.random()
        corners = np.vstack([[0.0, 0.0], near_worst(rng)[1:]])
        assert triangle_call(corners, beta, tau, s) <= first_place_call(beta, tau, s) + 1e-7
    e = np.array([1.0, 0.0])
    assert triangle_call(np.array([0 * e, e, -e]), 0.8, 1.2, 1.5) == pytest.approx(
        first_place_call(0.8, 1.2, 1.5), abs=1e-6
    )
    assert first_place_call(0, 1.2, 1.5) == pytest.approx(float(gaussian_curve(2 / 1.5, 1.2)))


# --- the reduction


def batches_of(order: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[frozenset[str], ...]:
    ends = np.cumsum(sizes)
    return tuple(frozenset(order[end - size : end]) for end, size in zip(ends, sizes, strict=True))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2), (2, 2, 1), (2, 1)])
def test_moving_the_record_from_home_to_a_uniform_place_shuffles_uniformly(sizes: tuple[int, ...]) -> None:
    count, others = sum(sizes) + 1, "abcdefg"[: sum(sizes)]  # one place more than the batches hold
    truth = Counter(batches_of(order, sizes) for order in permutations(("x", *others)))
    for home in range(count):
        moved: Counter[tuple[frozenset[str], ...]] = Counter()
        stuck: Counter[tuple[frozenset[str], ...]] = Counter()
        for arrangement, place in product(permutations(others), range(count)):
            order = [*arrangement[:home], "x", *arrangement[home:]]
            order[home], order[place] = order[place], order[home]
            moved[batches_of(tuple(order), sizes)] += 1
            stuck[batches_of((*arrangement[:place], "x", *arrangement[place:]), sizes)] += int(place > 0)
        assert moved == truth
        assert stuck != truth  # a record that never takes the first place is not shuffled


MENU = (-1.0, 0.0, 1.0)
TRIPLES = [t for t in product(MENU, repeat=3) if t <= (-t[0], -t[1], -t[2])]  # up to reflection


def output_grid(s: float) -> tuple[Floats, float]:
    y = np.linspace(-7 * s - 1, 7 * s + 1, 351 + int(50 / s))
    return y, float(y[1] - y[0])


def best_last_step(weights: list[tuple[Floats, Floats, str]], tau: float, s: float) -> Floats:
    """For each first output, the largest integral over all vectors (x, x', c) of the second step."""
    y, step = output_grid(s)
    best = np.zeros_like(weights[0][0])
    for x, other, c in TRIPLES:
        places = {"x": (density(y, x, s), density(y, other, s)), "c": (density(y, c, s),) * 2}
        total = sum(np.outer(p, places[w][0]) - tau * np.outer(q, places[w][1]) for p, q, w in weights)
        best = np.maximum(best, np.maximum(total, 0).sum(axis=1) * step)
    return best


@pytest.mark.parametrize(("s", "tau"), [(1.0, 1.3), (2.0, 1.0), (4.0, 1.1)])
def test_two_batches_of_one_record_reach_the_reduction_and_never_exceed_it(s: float, tau: float) -> None:
    y, step = output_grid(s)
    ratios = []
    for x, other, c in TRIPLES:
        p, q, rest = density(y, x, s), density(y, other, s), density(y, c, s)
        truth = best_last_step([(p, q, "c"), (rest, rest, "x")], tau, s).sum() * step / 2
        claim = (rest * largest_call(-(p - tau * q) / rest, tau, s)).sum() * step / 2
        assert truth <= claim + QUADRATURE_ABS_ERROR
        ratios.append(truth / claim)
    assert max(ratios) > 0.9999  # so a smaller D* would be exceeded


@pytest.mark.parametrize(("s", "tau"), [(1.0, 1.3), (2.0, 1.0), (2.0, 0.8), (4.0, 1.1)])
def test_with_a_place_that_no_batch_uses_two_steps_stay_below_two_copies_of_the_worst_law(
    s: float, tau: float
) -> None:
    places, masses, charge = lattice_law(tau, s, -60, 120, 18_000)
    claim = (masses @ largest_call(-(1 - tau) - places, tau, s) + charge) / 3
    smaller = (masses @ largest_call(-(1 - tau) - places, tau, s, 1.7) + charge) / 3
    y, step = output_grid(s)
    best = 0.0
    for x, other, c in TRIPLES:
        p, q, rest = density(y, x, s), density(y, other, s), density(y, c, s)
        table = [(p + rest, q + rest, "c"), (rest, rest, "x")]  # in the first, in none, in the second batch
        best = max(best, best_last_step(table, tau, s).sum() * step / 3)
    assert smaller < best <= claim + QUADRATURE_ABS_ERROR


@pytest.mark.parametrize(("s", "tau"), [(1.0, 1.3), (2.0, 1.0), (2.0, 0.8)])
@pytest.mark.parametrize("last_place_is_used", [False, True])
def test_a_removed_record_costs_an_allocation_at_half_the_noise_and_the_last_place(
    s: float, tau: float, last_place_is_used: bool
) -> None:
    """Three records, two steps and an unused place; or two records, the second batch short of one on D'."""
    z, weights = normal_grid(801)
    far, near = (np.exp(d / s * z - (d / s) ** 2 / 2) for d in (2, 1))
    pairs = np.outer(weights, weights)
    ratio = np.outer(near, (1 + far) / 2) if last_place_is_used else (1 + far[:, None] + far) / 3
    claim = (pairs * np.maximum(ratio - tau, 0)).sum()
    y, step = output_grid(s)
    best = 0.0
    for x, c in product(MENU, repeat=2):
        p, rest, value = density(y, x, s), density(y, c, s), np.zeros_like(y)
        for x2, c2 in product(MENU, repeat=2):
            p2, rest2, empty = density(y, x2, s), density(y, c2, s), density(y, 0.0, s)
            if last_place_is_used:
                gap = np.outer(p, rest2) / 2 + np.outer(rest, p2) / 2 - tau * np.outer(rest, empty)
            else:
                gap = np.outer(p + rest, rest2) / 3 + np.outer(rest, p2) / 3 - tau * np.outer(rest, rest2)
            value = np.maximum(value, np.maximum(gap, 0).sum(axis=1) * step)
        best = max(best, value.sum() * step)
    assert best == pytest.approx(
        claim, abs=1e-4
    )  # attained, by an adversary who may adapt and gains nothing by it


# --- weights and large batches


def test_fixed_marginals_levels_and_a_linear_bound_cover_every_joint_law_of_the_weights() -> None:
    """Two levels, three partners; D takes two values, every weight the same four with equal chances."""
    rng, tau, beta, low, high, exceeded = np.random.default_rng(3), 1.2, 0.3, 0.5, 1.6, 0
    values, chances = np.array([1.4, -1.0]), np.array([1 / 3, 2 / 3])  # mean 1 - tau
    assert values @ chances == pytest.approx(1 - tau)

    def mean_gain(weights: Floats) -> float:
        return sum(
            float(np.prod(chances[list(i)]) * max(beta + weights @ values[list(i)], 0))
            for i in product((0, 1), repeat=3)
        )

    gains = [mean_gain(np.array([high] * k + [low] * (3 - k))) for k in range(4)]
    atoms = np.array([0.3, 0.8, 1.1, 1.8])
    share = float(np.mean((np.clip(atoms, low, high) - low) / (high - low)))
    hull = max(
        ((k2 - 3 * share) * gains[k1] + (3 * share - k1) * gains[k2]) / (k2 - k1)
        for k1, k2 in combinations(range(4), 2)
        if k1 <= 3 * share <= k2
    )
    truncated = 3 * np.mean(np.maximum(atoms - high, 0)) * (np.maximum(values, 0) @ chances)
    truncated += 3 * np.mean(np.maximum(low - atoms, 0)) * (np.maximum(-values, 0) @ chances)
    for _ in range(300):
        columns = [rng.permutation(atoms) for _ in range(3)]
        truth = float(np.mean([mean_gain(np.array(row)) for row in zip(*columns, strict=True)]))
        assert truth <= hull + truncated + 1e-12
        exceeded += int(truth > mean_gain(np.full(3, atoms.mean())))
    assert exceeded > 100  # weights that differ cost something: their mean alone is not a bound


def test_bernsteins_bound_holds_for_batches_drawn_without_replacement_and_fails_without_its_second_term() -> (
    None
):
    rng, broken, highest = np.random.default_rng(4), 0, 3.0
    even = [3 * rng.random(9) for _ in range(20)]
    outliers = [np.append(0.2 * rng.random(23), highest) for _ in range(5)]
    for population, b, ell in product(even + outliers, (2, 3), (0.5, 1.0, 2.0, 2.4, 4.0)):
        mean, variance, r = population.mean(), population.var(), highest * ell / (3 * b)
        excess = r + sqrt(r * r + 2 * variance * ell / b)
        for size in (b - 1, b):  # a smaller batch keeps the threshold of its sum
            sums = np.array([sum(c) for c in combinations(population.tolist(), size)])
            assert np.mean(sums >= b * (mean + excess)) <= exp(-ell) + 1e-12
        broken += int(np.mean(sums >= b * (mean + sqrt(2 * variance * ell / b))) > exp(-ell))
    assert broken >= 5


@pytest.mark.parametrize("tau", [1.0, 1.15])
def test_the_bound_of_large_batches_covers_opposite_clusters_and_is_needed(tau: float) -> None:
    """Two later batches of four: eight records, some at e and the others at -e; D takes two values."""
    s, b, batches, ell, tangent, highest = 1.5, 4, 2, 1.0, 0.5, 6.0
    z, weights = normal_grid(401)
    up = (1 - tau) + 1.0
    values, chances = np.array([up, 1 - tau - 1.0]), np.array([0.5, 0.5])
    spread = values - values @ chances
    gain = float(np.maximum(values, 0) @ chances)
    r = highest * ell / (3 * b)
    root = sqrt(r * r + 2 * tangent * ell / b)
    rise = ell / b / root
    base = r + root - rise * tangent
    signs = list(product((0, 1), repeat=batches))

    def mean_gain(beta: float, drift: Floats, coefficients: list[Floats]) -> Floats:
        return np.asarray(
            sum(
                np.prod(chances[list(i)])
                * np.maximum(
                    beta + drift + sum(c * spread[j] for c, j in zip(coefficients, i, strict=True)), 0
                )
                for i in signs
            )
        )

    a = np.minimum(np.exp(z / s - 1 / (2 * s * s)), highest)
    for beta, plus in product((0.0, 0.5), range(9)):
        one, other = a, a[::-1]
        truth = 0.0
        for k in range(
            max(0, plus - 4), min(4, plus) + 1
        ):  # how many of those at e are in the first of the two
            chance = comb(4, k) * comb(4, plus - k) / comb(8, plus)
            averages = [(i * one + (4 - i) * other) / 4 for i in (k, plus - k)]
            truth += chance * float(weights @ mean_gain(beta, (1 - tau) * sum(averages), averages))
        wide = a + base + rise * (a - 1) ** 2
        claim = float(weights @ mean_gain(beta, (1 - tau) * batches * a, [wide] * batches))
        claim += batches * exp(-ell) * (beta + batches * gain)
        assert truth <= claim
        if beta == 0 and plus in (
            3,
            4,
            5,
        ):  # common weights factor out, and differing ones cost more than that
            assert truth > float(weights @ mean_gain(beta, (1 - tau) * batches * a, [a] * batches)) + 1e-4


def test_the_integrand_of_large_batches_is_convex_and_rises_as_the_coefficients_move_apart() -> None:
    """Three centred terms, two upper coefficients a + e and a lower one a - e, of either sign."""
    rng, falls = np.random.default_rng(5), 0
    a, apart = np.linspace(0, 6, 121), np.linspace(0, 3, 61)
    for _ in range(40):
        values = rng.normal(size=4) ** 3
        values -= values.mean()
        base, rise, drift, beta = rng.random(4)
        triples = np.array(list(product(values, repeat=3)))
        most, single = (
            triples[:, 0] + triples[:, 1] - triples[:, 2],
            triples[:, 0] - triples[:, 1] - triples[:, 2],
        )
        total = triples.sum(axis=1)
        wide = base + rise * (a - 1) ** 2
        gains = np.maximum(beta - drift * a + np.outer(total, a) + np.outer(most, wide), 0).mean(axis=0)
        assert np.diff(gains, 2).min() > -1e-12
        shift = beta - drift + total[:, None]
        assert np.diff(np.maximum(shift + np.outer(most, apart), 0).mean(axis=0)).min() > -1e-12
        falls += int(np.diff(np.maximum(shift + np.outer(single, apart), 0).mean(axis=0)).min() < -1e-6)
    assert falls > 10  # with fewer upper than lower coefficients it need not rise


# --- counts, lattices and dots


def gain_of_counts(
    law: dict[float, float], levels: tuple[float, ...], counts: tuple[int, ...], beta: float
) -> float:
    total = {beta: 1.0}
    for level, count in zip(levels, counts, strict=True):
        for _ in range(count):
            following: dict[float, float] = {}
            for (x, p), (d, q) in product(total.items(), law.items()):
                following[round(x + level * d, 12)] = following.get(round(x + level * d, 12), 0.0) + p * q
            total = following
    return sum(p * max(x, 0.0) for x, p in total.items())


@pytest.mark.parametrize("mean", [-0.2, 0.0, 0.1])
def test_a_box_of_counts_is_bounded_by_its_top_counts_and_its_largest_drift(mean: float) -> None:
    levels, beta, strict = (0.5, 1.0, 1.75), 2.0, 0
    centred = {1.5: 0.25, 0.0: 0.25, -0.75: 0.5}
    law = {d + mean: q for d, q in centred.items()}
    for low, high in (((0, 0, 0), (2, 3, 2)), ((1, 0, 0), (4, 1, 3)), ((0, 1, 0), (4, 2, 1))):
        box = [n for n in product(*map(range, low, (h + 1 for h in high))) if sum(n) == 4]
        tails = [min(sum(high[i:]), 4 - sum(low[:i])) for i in range(3)] + [0]
        top = tuple(tails[i] - tails[i + 1] for i in range(3))
        assert top in box
        drift = max(mean * float(np.dot(levels, n)) for n in box)
        bound = gain_of_counts(centred, levels, top, beta + drift)
        for counts in box:
            assert gain_of_counts(law, levels, counts, beta) <= bound + 1e-12
            own = beta + mean * float(np.dot(levels, top))
            strict += int(
                gain_of_counts(law, levels, counts, beta) > gain_of_counts(centred, levels, top, own)
            )
    assert bool(strict) == (mean < 0)  # with the drift of the top counts it would be no bound


def test_sums_on_a_lattice_are_above_and_what_leaves_the_window_is_charged() -> None:
    tau, s, count = 1.1, 2.0, 5
    fine, fine_masses, _ = lattice_law(tau, s, -40, 80, 24_000)
    places, masses, charge = lattice_law(tau, s, -3, 6, 30)
    width = places[1] - places[0]
    assert places @ masses > 1 - tau - charge  # the raised left tail
    for strike in np.linspace(-4, 7, 45):  # increasing convex order, one copy
        exact = fine_masses @ np.maximum(fine - strike, 0)
        assert exact <= masses @ np.maximum(places - strike, 0) + charge + 1e-9
    total = masses
    for _ in range(count - 1):
        total = np.convolve(total, masses)
    sums = count * places[0] + width * np.arange(len(total))
    assert total.sum() == pytest.approx(1)
    truth = total @ np.maximum(sums, 0)
    window, cut = 64, 0
    for start in (-10.0, -6.0, -4.5):
        top = start + width * (window - 1)
        wrapped = total @ np.maximum(start + np.mod(sums - start + 1e-9, window * width), 0)
        charged = min(
            exp(-lam * top) * float(masses @ np.exp(lam * places)) ** count * (top + 1 / (lam * exp(1)))
            for lam in np.linspace(0.05, 3, 60)
        )
        assert truth <= wrapped + charged
        cut += int(truth > wrapped)
    assert cut > 0  # wrapping alone can be too small


def lower_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    hull: list[tuple[float, float]] = []
    for x, y in sorted(points):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return hull


def test_the_hull_of_dots_and_their_mirror_images_is_a_finite_pair_above_the_curve() -> None:
    rng, below = np.random.default_rng(6), 0
    for _ in range(40):
        p, q = rng.dirichlet(np.ones(6), size=2)
        orders = np.exp(np.linspace(0, 1.5, 7))
        worse = [max(np.maximum(a - t * b, 0).sum() for a, b in ((p, q), (q, p))) for t in orders]
        dots = [
            (float(t), min(float(v) * (1 + 0.2 * rng.random()), 1.0))
            for t, v in zip(orders, worse, strict=True)
        ]
        dots += [(1 / t, 1 - 1 / t + v / t) for t, v in dots]
        tail = min(v for t, v in dots)
        hull = lower_hull([(0.0, 1.0), *dots, (1e9, tail)])
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(hull)]
        jumps = np.diff([-1.0, *slopes])  # Q-masses at the dots, the first at ratio 0
        assert jumps.min() > -1e-12
        assert slopes[-1] == pytest.approx(0, abs=1e-8)
        xs, ys = np.array(hull).T
        for t in np.exp(rng.uniform(-4, 4, size=40)):
            curve = max(np.maximum(a - t * b, 0).sum() for a, b in ((p, q), (q, p)))
            assert curve <= np.interp(t, xs, ys) + 1e-9
            below += int(curve > ys[-3] + (ys[-2] - ys[-3]) / (xs[-2] - xs[-3]) * (t - xs[-3]))
    assert below > 0  # the last chord, carried on instead of a flat tail, would be too small
