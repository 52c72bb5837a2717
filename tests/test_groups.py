"""Groups of records: the relation, the curves against independent numbers, and who refuses them."""

import copy
import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from flint import acb_poly, ctx

import tightrope as tr
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.transforms.counted import CountedTransform
from tightrope.engines.transforms.make import make_transform
from tightrope.numerics.balls import ball
from tightrope.pairs.counted import PLAIN, CountedPair, CountMixture, binomial_counts, hypergeometric_counts
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import RELATIONS, as_relation, spelled_relation
from tightrope.statements.checks import check_statement
from tightrope.theorems.groups import GROUP_ROWS, MOST_COUNTED
from tightrope.theorems.lookup import list_theorems
from tightrope.theorems.worst_pairs import sum_moves_by

GAUSSIAN = tr.Gaussian(noise_multiplier=1)
STEP = tr.Step(GAUSSIAN, tr.Poisson(rate=0.125))
RUN = tr.Step(GAUSSIAN, tr.Poisson(rate=1e-3)) * 10_000
FIXED = tr.Step(GAUSSIAN, tr.WithoutReplacement(batch=3, population=24))


# --- the relation


@pytest.mark.parametrize("relation", RELATIONS.values())
def test_a_group_of_one_is_the_relation_itself(relation: tr.Relation) -> None:
    assert relation.of(1) is relation
    assert (relation.group, relation.single) == (1, relation)


@pytest.mark.parametrize("one", RELATIONS.values())
def test_there_is_one_object_for_each_group_and_every_spelling_finds_it(one: tr.Relation) -> None:
    group = one.of(5)
    assert one.of(5) is group is not one.of(4)
    assert (group.group, group.single, group.opposite) == (5, one, one.opposite.of(5))
    assert group.branches == tuple(branch.of(5) for branch in one.branches)
    for same in (pickle.loads(pickle.dumps(group)), copy.deepcopy(group), as_relation(group)):
        assert same is group
    assert as_relation(str(group)) is as_relation(repr(group)) is spelled_relation(str(group)) is group


@pytest.mark.parametrize(
    "wrong", ["add of 0", "add of", "add of five", "of 5", "add of 05", "add of 2000000"]
)
def test_a_group_that_is_none_is_not_spelled(wrong: str) -> None:
    assert spelled_relation(wrong) is None


@pytest.mark.parametrize("size", [0, -1, 2.5, True, 10**7])
def test_a_group_has_a_whole_number_of_records(size: object) -> None:
    with pytest.raises(tr.InvalidSetting, match="group must be"):
        tr.ADD.of(size)  # type: ignore[arg-type]


def test_the_size_of_a_group_is_said_once() -> None:
    with pytest.raises(tr.InvalidSetting, match="that of one record"):
        tr.ADD.of(2).of(3)


def test_the_meaning_says_what_is_not_covered() -> None:
    assert "partly added and partly removed is not covered" in tr.ADD_OR_REMOVE.of(5).meaning
    assert "not covered" in tr.privacy_curve(STEP, relation=tr.ADD_OR_REMOVE.of(2)).because[-1].statement


@pytest.mark.parametrize("relation", RELATIONS.values())
@pytest.mark.parametrize("step", [STEP, FIXED, tr.Step(GAUSSIAN, tr.EveryRecord())])
def test_the_sum_moves_as_far_as_all_records_of_the_group(step: tr.Step, relation: tr.Relation) -> None:
    assert sum_moves_by(step.sampling, relation.of(4)) == 4 * sum_moves_by(step.sampling, relation)


# --- against independent numbers


def densities(
    group: int, rate: float, noise: float, relation: tr.Relation
) -> tuple[list[tuple[mpmath.mpf, mpmath.mpf]], list[tuple[mpmath.mpf, mpmath.mpf]]]:
    """Centres and weights of P and Q, in units of the noise, to 30 digits."""
    g, a = mpmath.mpf(rate), 1 / mpmath.mpf(noise)
    moved = [(j * a, mpmath.binomial(group, j) * g**j * (1 - g) ** (group - j)) for j in range(group + 1)]
    still = [(mpmath.mpf(0), mpmath.mpf(1))]
    if relation is tr.SUBSTITUTE:
        return moved, [(-centre, weight) for centre, weight in moved]
    return (moved, still) if relation is tr.REMOVE else (still, [(-c, w) for c, w in moved])


def loss(laws: Any, x: Any) -> Any:
    p, q = (sum(w * mpmath.exp(c * x - c * c / 2) for c, w in law) for law in laws)
    return mpmath.log(p) - mpmath.log(q)


def quadrature(group: int, rate: float, noise: float, relation: tr.Relation, eps: float) -> mpmath.mpf:
    """delta of one step, to 30 digits: the tails beyond the output whose loss is epsilon.

    There their difference is largest, so that an output which is 1e-16 off makes it 1e-32 smaller.
    """
    laws = densities(group, rate, noise, relation)
    low, high = mpmath.mpf(-60), mpmath.mpf(60)
    if loss(laws, high) <= eps:
        return mpmath.mpf(0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(laws, middle) < eps else (low, middle)
    p, q = (sum(w * mpmath.erfc((low - c) / mpmath.sqrt(2)) / 2 for c, w in law) for law in laws)
    return p - mpmath.exp(eps) * q


ONE_DIRECTION = [tr.ADD, tr.REMOVE, tr.SUBSTITUTE]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("relation", ONE_DIRECTION)
@pytest.mark.parametrize("group", [2, 5])
def test_one_step_holds_the_value_of_a_quadrature_of_30_digits(
    group: int, relation: tr.Relation, epsilon: float
) -> None:
    with mpmath.workdps(30):
        truth = quadrature(group, 0.125, 1.0, relation, epsilon)
        found = tr.delta(STEP, epsilon=epsilon, relation=relation.of(group))
        assert found.lower <= truth <= found.upper
        assert found.upper - found.lower <= 1e-14


@pytest.mark.parametrize("relation", ONE_DIRECTION)
@pytest.mark.parametrize("group", [2, 5])
def test_two_steps_hold_the_value_of_a_quadrature(group: int, relation: tr.Relation) -> None:
    """delta_2(eps) is the mean over the first output of delta_1 at what is left of epsilon."""
    with mpmath.workdps(30):
        laws = densities(group, 0.125, 1.0, relation)

        def left(eps: mpmath.mpf) -> mpmath.mpf:
            at = float(eps)
            if at >= 0:
                return quadrature(group, 0.125, 1.0, relation, eps)
            # H_t(P||Q) = 1 - t + t H_{1/t}(Q||P), and the reverse pair is that of the opposite relation
            return (
                1 - mpmath.exp(eps) + mpmath.exp(eps) * quadrature(group, 0.125, 1.0, relation.opposite, -eps)
            )

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            density = sum(w * mpmath.npdf(x, c) for c, w in laws[0])
            return density * left(mpmath.mpf(1) - loss(laws, x))

        nodes, weights = np.polynomial.legendre.leggauss(24)
        truth = mpmath.mpf(0)
        for start in range(-9, 15, 3):
            for node, weight in zip(nodes, weights, strict=True):
                truth += mpmath.mpf(weight) * 1.5 * integrand(start + 1.5 * (1 + mpmath.mpf(node)))
    found = tr.delta(STEP * 2, epsilon=1.0, relation=relation.of(group), by=tr.Certified(accuracy=1e-6))
    assert found.lower * (1 - 1e-5) <= truth <= found.upper * (1 + 1e-5)
    assert found.relative_width <= 1e-6


def test_the_mixture_accountant_of_dp_accounting_agrees_within_its_own_error() -> None:
    from dp_accounting.pld import privacy_loss_distribution

    weights = [float(w) for w in binomial_counts(5, Fraction(0.01))]
    pld = {
        pessimistic: privacy_loss_distribution.from_mixture_gaussian_mechanism(
            1.0,
            list(range(6)),
            weights,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=2e-2,
        ).self_compose(20)
        for pessimistic in (True, False)
    }
    found = tr.delta(
        tr.Step(GAUSSIAN, tr.Poisson(rate=0.01)) * 20, epsilon=2.0, relation=tr.ADD_OR_REMOVE.of(5)
    )
    assert found.lower <= pld[True].get_delta_for_epsilon(2.0)
    assert pld[False].get_delta_for_epsilon(2.0) <= found.upper
    assert pld[True].get_delta_for_epsilon(2.0) <= found.upper * 1.05


# --- laws


@pytest.mark.parametrize("relation", RELATIONS.values())
@pytest.mark.parametrize("run", [STEP * 20, RUN, tr.Step(GAUSSIAN, tr.EveryRecord()) * 3, FIXED * 4])
def test_a_larger_group_loses_more(run: tr.Run, relation: tr.Relation) -> None:
    if run.parts[0][0] == FIXED and relation is tr.SUBSTITUTE:
        pytest.skip("no theorem")
    found = [tr.delta(run, epsilon=1.0, relation=relation.of(m)) for m in (1, 2, 3, 5, 8)]
    for smaller, larger in itertools.pairwise(found):
        assert smaller.lower <= larger.upper
        assert smaller.upper < 1.01 * larger.upper


@pytest.mark.parametrize("relation", RELATIONS.values())
@pytest.mark.parametrize("group", [2, 5, 12])
def test_no_group_is_above_the_generic_bound(group: int, relation: tr.Relation) -> None:
    """delta_m(eps) <= sum over i < m of e^(i eps / m) delta(eps / m)."""
    many, one = (tr.privacy_curve(RUN, relation=r) for r in (relation.of(group), relation))
    for epsilon in (0.5, 2.0, 4.0):
        generic = sum(math.exp(i * epsilon / group) for i in range(group)) * one.delta(epsilon / group).upper
        assert many.delta(epsilon).upper <= generic * (1 + 1e-3)


@pytest.mark.parametrize("relation", RELATIONS.values())
def test_the_bound_one_by_one_is_certain_and_never_below_the_curve_of_the_group(
    relation: tr.Relation,
) -> None:
    group = relation.of(5)
    generic = tr.epsilon_one_by_one(RUN, delta=1e-6, relation=group)
    one, many = (tr.epsilon(RUN, delta=1e-6, relation=r) for r in (relation, group))
    assert generic.upper >= many.lower
    assert generic.lower == one.lower
    assert tr.epsilon_one_by_one(RUN, delta=1e-6, relation=relation) == one
    e = Fraction(generic.upper) / 5
    spent = sum(math.exp(i * float(e)) for i in range(5))
    assert spent * tr.delta(RUN, epsilon=float(e), relation=relation).lower <= 1e-6


def test_sizes_in_between_have_curves_of_their_own() -> None:
    with pytest.raises(tr.NoTheorem, match="datasets of other sizes"):
        tr.epsilon_one_by_one(FIXED, delta=1e-6, relation=tr.REMOVE.of(2))


def test_add_or_remove_is_the_worse_of_both_directions() -> None:
    run = STEP * 20
    worse = max(tr.delta(run, epsilon=1.0, relation=r.of(3)).upper for r in (tr.ADD, tr.REMOVE))
    assert tr.delta(run, epsilon=1.0, relation=tr.ADD_OR_REMOVE.of(3)).upper == worse


def test_a_group_of_one_record_has_the_answers_of_that_record_to_the_last_bit() -> None:
    for relation in RELATIONS.values():
        assert tr.epsilon(RUN, delta=1e-6, relation=relation.of(1)) == tr.epsilon(
            RUN, delta=1e-6, relation=relation
        )


def test_counts_of_one_record_have_the_curve_of_the_pair_of_one_record() -> None:
    law = CountMixture(binomial_counts(1, Fraction(1, 8)), Fraction(1))
    for pair, relation in (
        (CountedPair(law), tr.REMOVE),
        (CountedPair(law).reverse, tr.ADD),
        (CountedPair(law, law.mirrored), tr.SUBSTITUTE),
    ):
        known = tr.delta(STEP * 20, epsilon=0.5, relation=relation)
        bounds = ContourEngine(Schedule([(pair, 20)])).near(0.5, 1e-9).bounds(0.5)
        assert math.exp(bounds.lower) <= known.upper * (1 + 1e-9)
        assert known.lower <= math.exp(bounds.upper) * (1 + 1e-9)
        assert bounds.width < 1e-3


PAIRS = {
    "five rare records": (
        CountedPair(CountMixture(binomial_counts(5, Fraction(1, 1000)), Fraction(1))),
        1000,
        1.0,
    ),
    "added": (CountedPair(CountMixture(binomial_counts(3, Fraction(1, 4)), Fraction(1, 2))).reverse, 50, 0.5),
    "without replacement": (
        CountedPair(CountMixture(hypergeometric_counts(3, 5, 20), Fraction(1, 2))),
        20,
        2.0,
    ),
}


@pytest.mark.parametrize("named", PAIRS)
def test_three_engines_agree_about_groups(named: str) -> None:
    pair, steps, epsilon = PAIRS[named]
    schedule = Schedule([(pair, steps)])
    engines: list[Any] = [
        ContourEngine(schedule),
        LatticeEngine(schedule, longest=1 << 18),
        BigJumpEngine(schedule, longest=1 << 18),
    ]
    found = [
        engine.near(epsilon, tolerance).bounds(epsilon)
        for engine, tolerance in zip(engines, (1e-6, 1e-3, 1e-3), strict=True)
    ]
    for one, other in itertools.permutations(found, 2):
        assert one.lower <= other.upper
        assert one.width < 2e-3


# --- what the contour rests on


@pytest.mark.parametrize("noise", [Fraction(3, 10), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("weights", [binomial_counts(6, Fraction(1, 7)), hypergeometric_counts(6, 9, 40)])
def test_the_zeros_of_a_groups_likelihood_ratio_are_real(
    weights: tuple[Fraction, ...], noise: Fraction
) -> None:
    with ctx.workprec(1200):
        terms = [ball(w) * (-ball(Fraction(j * j, 2) / noise**2)).exp() for j, w in enumerate(weights)]
        zeros = acb_poly(terms).roots()
        assert len(zeros) == len(weights) - 1
        assert all(zero.imag.contains(0) and zero.real < 0 for zero in zeros)


def test_counts_that_are_no_sum_of_draws_have_other_zeros() -> None:
    with ctx.workprec(1200):
        terms = [ball(Fraction(w)) * (-ball(Fraction(j * j, 200))).exp() for j, w in enumerate((1, 1, 100))]
        assert not any(zero.imag.contains(0) for zero in acb_poly(terms).roots())


LAWS = [
    CountMixture(binomial_counts(5, Fraction(1, 10)), Fraction(1)),
    CountMixture(hypergeometric_counts(4, 6, 30), Fraction(2, 3)),
    CountMixture(binomial_counts(2, Fraction(1, 1000)), Fraction(3)),
    CountMixture(binomial_counts(12, Fraction(9, 10)), Fraction(1, 7)),
]


@pytest.mark.parametrize("law", LAWS)
def test_the_logarithm_of_a_groups_ratio_is_as_accurate_as_charged(law: CountMixture) -> None:
    outputs = np.concatenate([np.linspace(-40, 60, 83), [0.0, 1e-9, law.shift / 2]])
    value, abs_error = law.enclose_log_ratio(outputs)
    for u, got, charged in zip(outputs.tolist(), value.tolist(), abs_error.tolist(), strict=True):

        def exact(u: float = u) -> Any:
            each = (
                ball(w) * (ball(j * law.exact_shift) * ball(u) - ball((j * law.exact_shift) ** 2 / 2)).exp()
                for j, w in enumerate(law.exact_weights)
            )
            return sum(each, ball(0.0)).log()

        with ctx.workprec(400):
            assert abs(exact() - ball(got)) <= ball(charged)
        assert charged <= 1e-11 * (1 + abs(got))


@pytest.mark.parametrize("tilt", [0.5, 3.0])
@pytest.mark.parametrize("law", LAWS[:3])
@pytest.mark.parametrize("exchanged", [False, True])
def test_the_transform_of_a_group_is_what_its_nodes_and_bounds_say(
    law: CountMixture, tilt: float, exchanged: bool
) -> None:
    pair = CountedPair(law, law.mirrored if exchanged else PLAIN)
    transform = make_transform(pair)
    assert isinstance(transform, CountedTransform)
    nodes = transform.nodes(tilt, 4.0)
    fine: Any = np.arange(-30_000, 200_001) * 1e-3
    log_p, log_q = pair.observed.log_ratio(fine), pair.alternative.log_ratio(fine)
    logs = (1 + tilt) * log_p - tilt * log_q - fine**2 / 2 - 0.5 * math.log(2 * math.pi) + math.log(1e-3)
    top = logs.max()
    terms = np.exp(logs - top)
    assert nodes.log_moment == pytest.approx(float(np.log(terms.sum()) + top), rel=1e-11, abs=1e-13)
    for height in (0.5, 4.0):
        truth = (terms * np.exp(1j * height * (log_p - log_q))).sum() / terms.sum()
        got = 1 + (nodes.weights * (np.exp(1j * height * nodes.losses) - 1)).sum()
        assert abs(got - truth) < 1e-11
        assert abs(truth) <= transform.modulus_from(tilt, height) * (1 + 1e-12)


# --- attacks on the theorems


def sampled_divergence(vectors: Any, others: tuple[float, ...], rate: float, order: float) -> float:
    """H_t of a group in the plane against nothing, Poisson sampled, noise 1: on a grid of outputs."""
    grid = np.linspace(-9, 9, 361)
    x, y = np.meshgrid(grid, grid)
    p = np.zeros_like(x)
    for drawn in itertools.product((0, 1), repeat=len(vectors)):
        weight = math.prod(rate if d else 1 - rate for d in drawn)
        cx, cy = (sum(d * v[i] for d, v in zip(drawn, vectors, strict=True)) + others[i] for i in (0, 1))
        p += weight * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 2)
    q = np.exp(-((x - others[0]) ** 2 + (y - others[1]) ** 2) / 2)
    return float(np.maximum(p - order * q, 0).sum()) * 0.0025 / (2 * math.pi)


def test_no_vectors_of_a_group_lose_more_than_its_pair() -> None:
    rng = np.random.default_rng(7)
    for order in (1.0, 1.5, 3.0):
        bound = tr.delta(STEP, epsilon=math.log(order), relation=tr.REMOVE.of(3)).upper
        reached = sampled_divergence([(1.0, 0.0)] * 3, (0.0, 0.0), 0.125, order)
        assert reached == pytest.approx(bound, rel=2e-3)
        for _ in range(25):
            angles, radii = rng.uniform(0, 2 * math.pi, 3), rng.uniform(0.3, 1, 3) ** 0.5
            vectors = [(r * math.cos(a), r * math.sin(a)) for a, r in zip(angles, radii, strict=True)]
            assert sampled_divergence(vectors, (0.0, 0.0), 0.125, order) <= bound * (1 + 2e-3)


def fixed_size_divergence(group: list[float], others: list[float], batch: int, order: float) -> float:
    """H_t(D||D') on the line for batches of fixed size, D with the group and D' without it, noise 1."""
    grid = np.linspace(-30, 30, 6001)

    def density(records: list[float]) -> Any:
        batches = list(itertools.combinations(records, batch))
        return sum(np.exp(-((grid - sum(b)) ** 2) / 2) for b in batches) / len(batches)

    p, q = density([*others, *group]), density(others)
    return float(np.maximum(p - order * q, 0).sum()) * 0.01 / math.sqrt(2 * math.pi)


def test_no_records_of_a_batch_of_fixed_size_lose_more_than_the_pair_of_their_group() -> None:
    rng, step = np.random.default_rng(3), tr.Step(GAUSSIAN, tr.WithoutReplacement(batch=3, population=8))
    for order, direction in itertools.product((1.0, 2.0), (tr.REMOVE, tr.ADD)):
        bound = tr.delta(step, epsilon=math.log(order), relation=direction.of(3)).upper

        def reach(
            group: list[float], others: list[float], order: float = order, d: tr.Relation = direction
        ) -> float:
            if d is tr.REMOVE:
                return fixed_size_divergence(group, others, 3, order)
            # H_t(Q||P) = 1 - t + t H_{1/t}(P||Q)
            return 1 - order + order * fixed_size_divergence(group, others, 3, 1 / order)

        assert reach([1.0] * 3, [-1.0] * 5) == pytest.approx(bound, rel=1e-5)
        for _ in range(40):
            group, others = rng.uniform(-1, 1, 3).tolist(), rng.uniform(-1, 1, 5).tolist()
            assert reach(group, others) <= bound * (1 + 1e-5)


# --- who refuses


SAMPLINGS: list[Any] = [
    tr.RandomAllocation(batches=10, chosen=2),
    tr.TruncatedPoisson(rate=0.1, population=100, at_most=20),
    tr.Shuffled(batches=10, batch=5),
]


@pytest.mark.parametrize("relation", RELATIONS.values())
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_samplings_without_a_theorem_refuse_groups(sampling: Any, relation: tr.Relation) -> None:
    run = tr.Step(GAUSSIAN, sampling) * 10
    with pytest.raises(tr.NoTheorem, match="no theorem gives the worst case of a group"):
        tr.epsilon(run, delta=1e-6, relation=relation.of(2))


def test_a_refusal_names_the_generic_bound_where_it_holds() -> None:
    run = tr.Step(GAUSSIAN, tr.RandomAllocation(batches=10, chosen=2)) * 10
    with pytest.raises(tr.NoTheorem, match="epsilon_one_by_one") as refused:
        tr.epsilon(run, delta=1e-6, relation=tr.REMOVE.of(2))
    assert "Groups are known for Gaussian with EveryRecord, Poisson, WithoutReplacement" in str(refused.value)
    found = tr.epsilon_one_by_one(run, delta=1e-6, relation=tr.REMOVE.of(2))
    assert found.upper > 2 * tr.epsilon(run, delta=1e-6, relation=tr.REMOVE).lower
    capped = tr.Step(GAUSSIAN, SAMPLINGS[1]) * 10
    with pytest.raises(tr.NoTheorem) as unknown:
        tr.epsilon(capped, delta=1e-6, relation=tr.REMOVE.of(2))
    assert "epsilon_one_by_one" not in str(unknown.value)


@pytest.mark.parametrize(
    "mechanism",
    [tr.RandomizedResponse(truth_probability=0.75), tr.Finite(observed=[1, 0], alternative=[0.5, 0.5])],
)
def test_a_declared_pair_says_nothing_of_groups(mechanism: Any) -> None:
    with pytest.raises(tr.NoTheorem, match="groups of 2 records"):
        tr.delta(tr.Step(mechanism, tr.EveryRecord()), epsilon=1, relation=tr.ADD.of(2))


def test_sampled_laplace_noise_and_exchanges_without_replacement_refuse_groups() -> None:
    for step, relation in (
        (tr.Step(tr.Laplace(noise_multiplier=2), tr.Poisson(rate=0.1)), tr.REMOVE),
        (FIXED, tr.SUBSTITUTE),
    ):
        with pytest.raises(tr.NoTheorem):
            tr.delta(step, epsilon=1, relation=relation.of(2))


def test_full_batches_of_laplace_noise_move_as_far_as_the_group() -> None:
    near, far = (tr.Step(tr.Laplace(noise_multiplier=b), tr.EveryRecord()) for b in (6, 2))
    assert tr.delta(near, epsilon=0.25, relation=tr.ADD.of(3)) == tr.delta(far, epsilon=0.25, relation=tr.ADD)


def test_a_batch_that_the_smaller_neighbour_cannot_fill_is_refused() -> None:
    step = tr.Step(GAUSSIAN, tr.WithoutReplacement(batch=6, population=8))
    assert tr.delta(step, epsilon=1, relation=tr.REMOVE.of(2)).upper < 1
    with pytest.raises(tr.NoTheorem, match="must fill the batch too"):
        tr.delta(step, epsilon=1, relation=tr.REMOVE.of(3))


def test_a_group_too_large_to_count_is_refused() -> None:
    with pytest.raises(tr.NoTheorem, match="larger than the 64"):
        tr.delta(STEP, epsilon=1, relation=tr.REMOVE.of(MOST_COUNTED + 1))
    full = tr.Step(GAUSSIAN, tr.EveryRecord())
    assert tr.delta(full, epsilon=1, relation=tr.REMOVE.of(1000)).upper == 1


@pytest.mark.parametrize("by", [tr.Exact(), tr.MonteCarlo(draws=1000)])
def test_accountants_that_know_no_counts_say_so(by: Any) -> None:
    with pytest.raises(tr.NoTheorem, match="sampled groups of records"):
        tr.delta(STEP, epsilon=1, relation=tr.REMOVE.of(2), by=by)
    full = tr.Step(GAUSSIAN, tr.EveryRecord())
    found = tr.delta(full, epsilon=1, relation=tr.REMOVE.of(2), by=by)
    assert (
        found.lower <= tr.delta(full, epsilon=1, relation=tr.REMOVE.of(2)).upper <= found.upper * (1 + 1e-9)
    )


def test_renyi_bounds_groups_from_above() -> None:
    for relation in (tr.ADD_OR_REMOVE.of(3), tr.SUBSTITUTE.of(3)):
        bound = tr.epsilon(RUN, delta=1e-6, relation=relation, by=tr.Renyi())
        assert bound.upper >= tr.epsilon(RUN, delta=1e-6, relation=relation).lower


def test_other_programs_have_no_word_for_groups() -> None:
    from tightrope.integrations.dp_events import from_dp_event, to_dp_event, to_neighboring_relation

    event = to_dp_event(STEP)
    for ask in (
        lambda: to_neighboring_relation(tr.ADD_OR_REMOVE.of(2)),
        lambda: to_dp_event(STEP, tr.ADD_OR_REMOVE.of(2)),
        lambda: from_dp_event(event, tr.ADD_OR_REMOVE.of(2)),
    ):
        with pytest.raises(tr.NoTheorem, match="know no groups of records"):
            ask()


def test_private_sizes_are_those_of_one_record() -> None:
    size = tr.PrivateSize(estimate=1000, epsilon=0.1, beta=1e-7, shift=154)
    with pytest.raises(tr.NoTheorem, match="private sizes know no groups"):
        size.epsilon_with(GAUSSIAN, batch=10, steps=10, delta=1e-5, relation=tr.REMOVE.of(2))


# --- answers, files and statements


def test_every_row_for_groups_is_listed_with_its_proof() -> None:
    names = {evidence.name for evidence in list_theorems()}
    assert {row.evidence.name for row in GROUP_ROWS} <= names
    assert "groups_come_and_go_together" in names


def test_the_support_matrix_knows_groups() -> None:
    matrix = tr.support_matrix()
    assert matrix.supports(tr.Gaussian, tr.Poisson, tr.SUBSTITUTE.of(5))
    assert matrix.supports(tr.Gaussian, tr.WithoutReplacement, tr.ADD_OR_REMOVE.of(5))
    assert not matrix.supports(tr.Gaussian, tr.WithoutReplacement, tr.SUBSTITUTE.of(5))
    assert not matrix.supports(tr.Laplace, tr.Poisson, tr.REMOVE.of(5))


def test_calibrated_values_hold_for_the_group() -> None:
    target: Any = {"epsilon": 1.0, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE.of(5)}
    noise = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=1000, **target)
    run = tr.Step(tr.Gaussian(noise_multiplier=noise.value), tr.Poisson(rate=1e-3)) * 1000
    assert tr.epsilon(run, delta=1e-6, relation=target["relation"]).upper <= 1
    steps = tr.most_steps(tr.Step(tr.Gaussian(noise_multiplier=4), tr.Poisson(rate=1e-3)), **target)
    assert steps.value > 0


def test_a_ledger_keeps_its_group(tmp_path: object) -> None:
    ledger = tr.Ledger(relation=tr.SUBSTITUTE.of(3))
    ledger.record(STEP * 10)
    ledger.save(f"{tmp_path}/ledger.json")
    kept = tr.Ledger.load(f"{tmp_path}/ledger.json")
    assert kept.relation is tr.SUBSTITUTE.of(3)
    assert kept.epsilon(1e-5) == tr.epsilon(STEP * 10, delta=1e-5, relation=tr.SUBSTITUTE.of(3))


def test_a_sweep_asks_about_groups() -> None:
    asked = {
        "ask": "epsilon",
        "relation": ["remove", "remove of 3"],
        "mechanism": "gaussian",
        "noise_multiplier": 1,
        "sampling": "poisson",
        "rate": 0.01,
        "steps": 100,
        "delta": 1e-6,
    }
    rows: Any = tr.sweep(asked)
    one, many = rows
    assert (one["relation"], many["relation"]) == ("remove", "remove of 3")
    assert one["upper"] < many["lower"]


@pytest.mark.usefixtures("contrasted_once")
def test_a_contrast_with_a_claim_about_groups_is_about_groups() -> None:
    table = tr.contrast(RUN, delta=1e-6, claimed=(tr.Poisson, tr.ADD_OR_REMOVE.of(2)))
    assert {row.relation.group for row in table.rows} == {2}
    assert table.verdict == "If batches are drawn without replacement, epsilon is 10.37, not 1.18."


def state(records: int | None, relation: tr.Relation, epsilon: float | None = None) -> Any:
    facts = tr.Facts(
        name="model",
        setting="central",
        unit="user",
        data_accesses="all",
        tuning="none",
        outputs="the model",
        records_per_unit=records,
    )
    return tr.statement(RUN, relation=relation, delta=1e-6, facts=facts, epsilon=epsilon)


def test_a_statement_protects_users_with_as_many_records_as_its_relation() -> None:
    from tightrope.statements.words import describe_unit_and_relation

    made = state(5, tr.ADD_OR_REMOVE.of(5))
    assert made.claim.standing == "proved"
    whom = describe_unit_and_relation(made)
    assert whom == "one user with up to 5 records added or removed"
    again = check_statement(made.model_dump(mode="json"))
    assert again.neighbours is tr.ADD_OR_REMOVE.of(5)


def test_verify_holds_a_statement_to_its_unit() -> None:
    found = tr.verify(state(6, tr.ADD_OR_REMOVE.of(5), epsilon=4.0))
    assert "add-or-remove of 5 protects 5 records, and each has up to 6 records" in str(found)
    with pytest.raises(tr.InvalidSetting, match="nothing is proved for one user"):
        state(None, tr.ADD_OR_REMOVE.of(5))


def test_that_records_of_a_user_are_drawn_one_by_one_is_among_what_nobody_checked() -> None:
    """All records of a user in a batch, or none, is Poisson sampling of users, and loses far more."""
    says = "Records of one user are drawn each by itself, and not together."
    assert says in [one.says for one in state(5, tr.ADD_OR_REMOVE.of(5)).assumptions]
    assert says not in [one.says for one in state(1, tr.ADD_OR_REMOVE).assumptions]


def test_an_audit_compares_groups_of_the_same_sampling() -> None:
    from tightrope.audit import Verdict, audit
    from tightrope.samplers import PoissonSampler

    sampler = PoissonSampler(records=1000, rate=0.01, steps=50)
    run = tr.Step(GAUSSIAN, sampler.sampling) * 50
    found = audit(sampler, run, delta=1e-6, relation=tr.ADD_OR_REMOVE.of(3))
    assert found.verdict is Verdict.MATCHES
    assert found.proved == tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE.of(3))


# --- the command line


def test_the_command_line_answers_for_a_group_and_says_what_is_not_covered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tightrope.cli.entry import main

    run = ["--noise", "1", "--sampling", "poisson", "--rate", "0.001", "--steps", "10000"]
    with pytest.raises(SystemExit) as ended:
        main(["epsilon", *run, "--relation", "add-or-remove", "--group", "5", "--delta", "1e-6"])
    said = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert said.startswith("epsilon is at most 3.190 at delta 1e-06 (and at least 3.189)")
    assert "add or remove up to 5 records" in said
    assert "A group that is partly added and partly removed is not covered." in said
