"""Groups of records in balls in bins: blocks from above, sums of labels from below."""

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

import tightrope as tr
from tightrope.engines.face import ABOVE
from tightrope.engines.passes.group_labels import _add_up, _label
from tightrope.engines.passes.pass_pair import bound_pass
from tightrope.engines.passes.shared_batch import SharedRatio
from tightrope.errors import NoTheorem
from tightrope.numerics.floats import Floats
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.counted import binomial_counts
from tightrope.pairs.group_pass import GroupPass, SharedBatch
from tightrope.theorems.group_passes import _split, bound_group_passes


def passes(*, noise: float, batches: int, steps: int | None = None) -> tr.Run:
    sampling = tr.BallsInBins(batches=batches)
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * (steps or batches)


def ratio(outputs: Floats, noise: float, group: int, batches: int | None = None) -> Floats:
    """dP/dQ of a pass, records shared out in all ways; outputs in noise scales, a row for each batch seen."""
    a, unseen = 1 / noise, (batches or len(outputs)) - len(outputs)
    found = [np.full(outputs.shape[1:], float(unseen) ** k / math.factorial(k)) for k in range(group + 1)]
    for z in outputs:
        terms = [np.exp(k * a * z - (k * a) ** 2 / 2) / math.factorial(k) for k in range(group + 1)]
        found = [sum(found[k - j] * terms[j] for j in range(k + 1)) for k in range(group + 1)]
    return np.asarray(found[group] * math.factorial(group) / (batches or len(outputs)) ** group)


def grid(batches: int, points: int, furthest: float) -> tuple[Floats, Floats]:
    """Outputs and the mass that noise has there; sums of smooth functions are right to many digits."""
    axis = np.linspace(-9, furthest, points)
    weights = norm.pdf(axis) * (axis[1] - axis[0])
    mass = weights
    for _ in range(batches - 1):
        mass = np.multiply.outer(mass, weights)
    return np.stack(np.meshgrid(*[axis] * batches, indexing="ij")), mass


@pytest.mark.parametrize(
    ("noise", "batches", "steps", "points"),
    [(1.0, 2, 2, 500), (1.0, 3, 3, 110), (1.5, 3, 2, 500), (1.0, 3, 1, 4000)],
)
def test_two_records_in_few_batches_by_quadrature(
    noise: float, batches: int, steps: int, points: int
) -> None:
    outputs, mass = grid(steps, points, 9 + 2 / noise)
    found = ratio(outputs, noise, 2, batches)
    run = passes(noise=noise, batches=batches, steps=steps)
    for epsilon in (0.3, 2.0):
        for relation, gains in (
            (tr.REMOVE, np.maximum(found - math.exp(epsilon), 0)),
            (tr.ADD, np.maximum(1 - math.exp(epsilon) * found, 0)),
        ):
            exact = float((gains * mass).sum())
            bracket = tr.delta(run, epsilon=epsilon, relation=relation.of(2))
            blur = 2e-3 * exact + 1e-9  # a kink costs a sum about the square of its step
            assert bracket.lower <= exact + blur
            assert exact - blur <= bracket.upper
            if steps == 1:  # the label of one batch tells nearly all, however many records are elsewhere
                assert bracket.lower >= 0.98 * exact


@pytest.mark.parametrize(("noise", "batches", "group"), [(1.0, 20, 2), (2.0, 40, 4)])
def test_many_records_by_drawing(noise: float, batches: int, group: int) -> None:
    draws, rng = 20_000, np.random.default_rng(3)
    outputs = rng.standard_normal((batches, draws))
    for _ in range(group):
        outputs[rng.integers(batches, size=draws), np.arange(draws)] += 1 / noise
    found = ratio(outputs, noise, group)
    curve = tr.privacy_curve(passes(noise=noise, batches=batches), relation=tr.REMOVE.of(group))
    for epsilon in (0.2, 1.0):
        gains = np.maximum(1 - math.exp(epsilon) / found, 0)
        room = 5 * float(gains.std()) / math.sqrt(draws)
        bracket = curve.delta(epsilon)
        assert bracket.lower <= gains.mean() + room
        assert gains.mean() - room <= bracket.upper
    spent = curve.epsilon(1e-3)
    assert spent.upper < 1.25 * spent.lower


def test_one_record_and_one_batch_are_as_before() -> None:
    run = passes(noise=1.0, batches=20)
    assert tr.epsilon(run, delta=1e-6, relation=tr.REMOVE.of(1)) == tr.epsilon(
        run, delta=1e-6, relation=tr.REMOVE
    )
    whole = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()) * 5
    one = passes(noise=2.0, batches=1, steps=5)
    relation = tr.ADD_OR_REMOVE.of(3)
    assert tr.epsilon(one, delta=1e-6, relation=relation) == tr.epsilon(whole, delta=1e-6, relation=relation)


def test_more_records_lose_more_and_more_batches_less() -> None:
    def ends(batches: int, group: int) -> tr.Bracket:
        run = passes(noise=1.0, batches=batches)
        return tr.epsilon(run, delta=1e-5, relation=tr.ADD_OR_REMOVE.of(group))

    by_group = [ends(24, group) for group in (1, 2, 3)]
    by_batches = [ends(batches, 2) for batches in (24, 6, 2)]
    for brackets in (by_group, by_batches):
        for less, more in pairwise(brackets):
            assert less.lower < more.lower
            assert less.upper < more.upper


def test_large_groups_in_few_batches_are_bounded_by_one_batch() -> None:
    run, relation = passes(noise=2.0, batches=3), tr.REMOVE.of(5)
    whole = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()) * 1
    bracket = tr.epsilon(run, delta=1e-5, relation=relation)
    assert bracket.lower < bracket.upper <= tr.epsilon(whole, delta=1e-5, relation=relation).upper


def test_little_noise_keeps_an_upper_end() -> None:
    bracket = tr.epsilon(passes(noise=0.15, batches=10), delta=1e-5, relation=tr.REMOVE.of(2))
    assert 20 < bracket.lower < bracket.upper < math.inf


def divergences(vectors: Floats, weights: Floats) -> Floats:
    """H_t(E N(u)||N(0)) in the plane, and the other way round, at some orders t."""
    outputs, mass = grid(2, 220, 12)
    exponents = np.tensordot(vectors, outputs, axes=1) - (vectors**2).sum(axis=1)[:, None, None] / 2
    found = np.tensordot(weights, np.exp(exponents), axes=1)
    gains = [gain for t in (0.5, 1, 3) for gain in (found - t, 1 - t * found)]
    return np.array([(np.maximum(gain, 0) * mass).sum() for gain in gains])


def test_larger_inner_products_lose_more() -> None:
    rng, compared = np.random.default_rng(0), 0
    while compared < 12:
        weights = rng.dirichlet(np.ones(3))
        near, far = 0.9 * rng.standard_normal((3, 2)), 1.1 * rng.standard_normal((3, 2))
        more = far @ far.T - near @ near.T
        if (more >= 0).all():
            compared += 1
            less = divergences(near, weights)
            assert (less <= divergences(far, weights) * 1.002).all()  # what a grid may miss at a kink
    # longer vectors are not enough: if they point apart, a mixture hides them better
    apart = np.array([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    alike = np.array([[0.9, 0.0]] * 3)
    equal = np.full(3, 1 / 3)
    assert (divergences(apart, equal) < 0.5 * divergences(alike, equal)).any()


def begin_and_join(batches: int, released: int, group: int) -> dict[tuple[int, ...], Fraction]:
    """The law of k: how many records are in the block that each record began."""
    found: dict[tuple[int, ...], Fraction] = {}
    for drawn in product(range(batches), repeat=group):
        counts = [
            sum(other == at for other in drawn[i:]) if at not in drawn[:i] and at < released else 0
            for i, at in enumerate(drawn)
        ]
        found[tuple(counts)] = found.get(tuple(counts), Fraction(0)) + Fraction(1, batches**group)
    return found


@pytest.mark.parametrize(("batches", "released", "group"), [(3, 3, 3), (5, 5, 4), (6, 4, 3), (4, 4, 4)])
def test_blocks_of_records_are_below_independent_draws(batches: int, released: int, group: int) -> None:
    law = begin_and_join(batches, released, group)
    independent = []
    for i in range(1, group + 1):
        joined = binomial_counts(group - i, Fraction(1, batches - i + 1)) if i < group else (Fraction(1),)
        begun = Fraction(released, batches)
        independent.append([1 - begun, *(begun * weight for weight in joined)])
    for least in product(range(group + 1), repeat=group):
        reached = sum(p for k, p in law.items() if all(n >= x for n, x in zip(k, least, strict=True)))
        bound = math.prod(
            sum(weights[x:], Fraction(0)) for weights, x in zip(independent, least, strict=True)
        )
        assert reached <= bound


@pytest.mark.parametrize(
    ("batches", "released", "group"), [(100, 100, 5), (103, 103, 7), (50, 31, 3), (9, 9, 9)]
)
def test_blocks_fit_into_the_batches_that_are_seen(batches: int, released: int, group: int) -> None:
    parts = list(_split(GroupPass(Fraction(1, 4), group, batches, released)))
    blocks = [(pair, times) for pair, times in parts if isinstance(pair, Allocation)]
    assert sum(times for _, times in blocks) == group
    assert sum(pair.released * times for pair, times in blocks) <= released
    first = 0
    for pair, times in blocks:
        # a record is in a block of those seen at least as often, and so many of those after it may join
        assert Fraction(pair.released, pair.batches) >= Fraction(released, batches)
        weights = pair.step.weights if isinstance(pair.step, SharedBatch) else (Fraction(1),)
        for i in range(first + 1, first + times + 1):
            exact = binomial_counts(group - i, Fraction(1, batches - i + 1)) if i < group else (Fraction(1),)
            left_out = 1 - sum(weights)
            for x in range(group):
                assert sum(weights[x:], Fraction(0)) + left_out >= sum(exact[x:], Fraction(0))
        first += times


def test_sums_of_labels_are_shared_out_in_all_ways() -> None:
    one = _label(GroupPass(Fraction(1), 2, 3, 3), 2)
    laws = [np.zeros(4096) for _ in one]
    origin = min(place for law in one for place, _ in law.atoms())
    for law, of in zip(laws, one, strict=True):
        for place, mass in of.atoms():
            law[place - origin] += mass / 2.0**of.bits
    expected = np.zeros(3 * 4096 - 2)
    for first, second in product(range(3), repeat=2):
        counts = [(first == at) + (second == at) for at in range(3)]
        both = np.convolve(laws[counts[0]], laws[counts[1]])
        expected += np.convolve(both, laws[counts[2]])
    for place, mass in _add_up(one, 3)[2].atoms():
        expected[place - 3 * origin] -= mass / 2.0 ** one[0].bits
    assert np.abs(expected).max() < 1e-12


def test_the_ratio_of_a_shared_batch_by_quadrature() -> None:
    from flint import arb

    weights = (Fraction(9, 10), Fraction(9, 100), Fraction(1, 100))
    of = SharedRatio(SharedBatch(weights, Fraction(3, 4)))

    def ratio_at(z: float) -> float:
        return sum(
            float(w) * math.exp(0.75 * k * z - (0.75 * k) ** 2 / 2) for k, w in enumerate(weights, start=1)
        )

    for place in (0.2, 1.0, 7.0):
        (zero, one), (again, two) = of.tails(arb(place))
        start = float(of._find_output(arb(place)))
        assert ratio_at(start) == pytest.approx(place, rel=1e-12)
        for power, found in ((0, zero), (1, one), (1, again), (2, two)):
            exact, _ = integrate.quad(lambda z, n=power: ratio_at(z) ** n * norm.pdf(z), start, 30)
            assert float(found) == pytest.approx(exact, rel=1e-8)


def test_values_left_out_are_charged() -> None:
    # two records in a batch would move it by ten noise scales, which no lattice reaches
    bounds = bound_group_passes(GroupPass(Fraction(5), 2, 20, 20), 20)
    (shared,) = [p for p, _ in bounds.above if isinstance(p, Allocation) and isinstance(p.step, SharedBatch)]
    assert isinstance(shared.step, SharedBatch)
    left_out = 1 - sum(shared.step.weights)
    assert left_out == Fraction(1, 20)
    assert left_out < bound_pass(shared, ABOVE).infinite_mass < left_out + Fraction(1, 10**9)


@pytest.mark.parametrize("by", [tr.Renyi(), tr.GaussianLimit()])
def test_accountants_without_passes_refuse(by: Any) -> None:
    with pytest.raises(NoTheorem):
        tr.epsilon(passes(noise=1.0, batches=10), delta=1e-5, relation=tr.REMOVE.of(2), by=by)


def test_exchanged_groups_are_refused() -> None:
    with pytest.raises(NoTheorem, match="no theorem gives the worst case of a group"):
        tr.epsilon(passes(noise=1.0, batches=10), delta=1e-5, relation=tr.SUBSTITUTE.of(2))
