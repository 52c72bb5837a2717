"""The lattice engine against exact fractions and balls, asked directly so that no other engine hides it.

The width of a bracket would cover most slips of rounding. So the pieces are checked where nothing covers
them: cells and cuts, spectra and their powers, wrapping.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx

from precise import laplace_step_delta, mp, mpf, normal_step_delta, two_step_delta
from tightrope.engines.face import ABOVE, BELOW, EngineDeclines
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.lattice.law import LatticeSide, LatticeStep, few_bits, log_moment_above
from tightrope.engines.one_step.atoms import LossAtoms, spread
from tightrope.engines.one_step.cells import cut
from tightrope.engines.one_step.enclosures import Cuts, cut_at, enclose_loss, enclose_masses
from tightrope.engines.outcomes import exact_delta
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import Floats
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

BITS = 400
TINY = Fraction(1, 10**12)
RATES = (TINY, Fraction(1, 3000), Fraction(3, 7), 1 - Fraction(1, 999), 1 - TINY, Fraction(1))
SHIFTS = (Fraction(1, 10**4), Fraction(1, 7), Fraction(1), Fraction(10), Fraction(1000))


def remove(noise: Noise, rate: Fraction, shift: Fraction) -> ShiftPair:
    return ShiftPair(Mixture(noise, rate, shift), Mixture(noise))


PAIRS = [
    pair for setting in product(Noise, RATES, SHIFTS) for pair in (remove(*setting), remove(*setting).reverse)
] + [
    ShiftPair(Mixture(Noise.NORMAL, rate, shift), Mixture(Noise.NORMAL, rate, -shift))
    for rate, shift in product(RATES[:-1], SHIFTS)
]


def name(pair: ShiftPair) -> str:
    laws = (pair.observed, pair.alternative)
    return f"{pair.noise.value}-" + "-".join(f"{law.rate:.4g}at{law.shift:.4g}" for law in laws)


# -- wrapping


def wrapped(losses: list[int], masses: list[float], size: int, spacing: float, tilt: float) -> LatticeSide:
    atoms = LossAtoms(np.array(losses) * spacing, np.log(masses), -math.inf, ABOVE)
    return LatticeSide.of([LatticeStep.above(atoms, 1, spacing)], tilt, size)


def test_mass_wrapped_to_just_above_epsilon_counts_in_full() -> None:
    """Half the mass lies a period and one point above epsilon, where 1 - e^-x is next to nothing."""
    spacing, size, tilt = 2.0**-7, 1280, 0.1
    side = wrapped([-100, size + 1], [0.5, 0.5], size, spacing, tilt)
    truth = 0.5 * -math.expm1(-(size + 1) * spacing)
    upper, _ = side.divergence_above(0.0, tilt, spacing)
    assert truth <= math.exp(upper)


@pytest.mark.parametrize("tilt", [0.5, 2.0])
def test_mass_wrapped_to_just_below_epsilon_counts_in_full(tilt: float) -> None:
    """The first place of the window is at or below epsilon: what is wrapped there lies less than a period
    above epsilon."""
    spacing, size = 0.5, 64
    side = wrapped([-3, size], [0.5, 0.5], size, spacing, tilt)
    epsilon = 0.999 * spacing
    upper, _ = side.divergence_above(epsilon, tilt, spacing)
    assert ball(0.5) * -(ball(epsilon) - size * ball(spacing)).expm1() <= ball(upper).exp()


@pytest.mark.parametrize("seed", range(20))
def test_wrapping_only_adds_above(seed: int) -> None:
    rng = random.Random(seed)
    size, spacing = rng.choice([64, 240, 1000]), rng.choice([2.0**-10, 2.0**-7, 0.5])
    tilt = 10 ** rng.uniform(-4, 1.5)
    most = int(600 / (tilt * spacing))
    losses = [rng.randint(-min(3 * size, most), min(5 * size, most)) for _ in range(8)]
    masses = [10 ** rng.uniform(-8, -1) for _ in losses]
    side = wrapped(losses, masses, size, spacing, tilt)
    for epsilon in (0.0, rng.choice(losses) * spacing * (1 - 1e-13), rng.uniform(-1, 3) * size * spacing):
        gaps = [ball(loss * spacing) - ball(epsilon) for loss in losses]
        truth = sum(
            (ball(m) * (1 - (-gap).exp()) for m, gap in zip(masses, gaps, strict=True) if gap > 0), arb(0)
        )
        upper, _ = side.divergence_above(epsilon, tilt, spacing)
        # logarithms of the masses were rounded on their way in
        assert truth * (1 - 40 * 2.0**-53) <= ball(upper).exp()


@pytest.mark.parametrize("seed", range(20))
def test_one_mass_anywhere_counts_in_full(seed: int) -> None:
    """Alone, so that nothing else covers it, at or near whole periods above an epsilon between two places."""
    rng = random.Random(f"alone {seed}")
    size, spacing, tilt = rng.choice([8, 64]), rng.choice([2.0**-7, 0.5]), 10 ** rng.uniform(-1, 1)
    for _ in range(20):
        start, periods, near = rng.randint(-5, 5), rng.randint(0, 3), rng.randint(-2, 3)
        epsilon, label = (start + rng.random()) * spacing, start + periods * size + near
        side = wrapped([label], [1.0], size, spacing, tilt)
        worth = -(ball(epsilon) - label * ball(spacing)).expm1()
        upper, _ = side.divergence_above(epsilon, tilt, spacing)
        assert not worth > ball(upper).exp(), (epsilon, label)


# -- spectra, powers and jumps


def exact_power(masses: dict[int, arb], times: int) -> dict[int, arb]:
    result = {0: arb(1)}
    for _ in range(times):
        longer: dict[int, arb] = {}
        for (a, p), (b, q) in product(result.items(), masses.items()):
            longer[a + b] = longer.get(a + b, arb(0)) + p * q
        result = longer
    return result


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("jumps", ["none", "some", "often", "very rare"])
@pytest.mark.parametrize("far", [0, 10**9], ids=["near 0", "far from 0"])
def test_a_power_is_within_its_errors_of_the_exact_one(far: int, jumps: str, seed: int) -> None:
    """From above and from below, P's masses and Q's; with jumps, of the runs that have at least one.

    How far from 0 the losses lie, in spacings, costs no digits: below the largest loss that is very far.
    """
    rng = random.Random(f"{jumps} {seed}")
    size, times, spacing = rng.choice([60, 64, 75, 256]), rng.randint(1, 5), 2.0**-6
    count = 9
    losses = np.array([(far + rng.randint(-20, 20) + rng.random() * 0.9) * spacing for _ in range(count)])
    log_masses = np.array([rng.uniform(-20, 0) - math.log(count) for _ in range(count)])
    rarity = {"none": 0.0, "some": -6.0, "often": 3.0, "very rare": -500.0}[jumps]
    jump = None if jumps == "none" else np.arange(count) >= 6
    if jump is not None:
        log_masses[jump] += rarity
    tilt = rng.uniform(0.1, 8)
    atoms = LossAtoms(losses, log_masses, -math.inf, BELOW)
    below = LatticeStep.below(atoms, times, spacing, tilt, jump)
    on_lattice = LossAtoms(below.labels.astype(float) * spacing, log_masses, -math.inf, ABOVE)
    above = LatticeStep.above(on_lattice, times, spacing, jump)
    with ctx.workprec(4 * BITS):
        for step, dual in ((above, False), (below, False), (below, True)):
            exact = exact_runs(step, times, dual)
            side = LatticeSide.of([step], tilt, size, dual=dual)
            assert_within(side, exact, size, spacing, tilt, upwards=not (step is below and not dual))
        total = sum(
            (
                m * (ball(tilt) * label * ball(spacing)).exp()
                for label, m in exact_runs(above, times, False).items()
            ),
            arb(0),
        )
        assert total.log() <= ball(log_moment_above([above], tilt))
        assert ball(log_moment_above([above], tilt)) - total.log() < 1e-10 + 1e-14 * abs(total.log())


def exact_runs(step: LatticeStep, times: int, dual: bool) -> dict[int, arb]:
    """Masses at each label of the runs that count."""
    laws: list[dict[int, arb]] = [{}, {}]
    for i, label in enumerate(step.labels.tolist()):
        mass = ball(float(step.log_masses[i])).exp() * ((-ball(float(step.rest[i]))).exp() if dual else 1)
        for law in laws[: 2 if step.jump is None or not step.jump[i] else 1]:
            law[label] = law.get(label, arb(0)) + mass
    everything, calm = (exact_power(law, times) for law in laws)
    if step.jump is None:
        return everything
    return {label: mass - calm.get(label, arb(0)) for label, mass in everything.items()}


def assert_within(
    side: LatticeSide, exact: dict[int, arb], size: int, spacing: float, tilt: float, *, upwards: bool
) -> None:
    found = [arb(0)] * size
    for label, mass in exact.items():
        found[label % size] += mass * (ball(tilt) * (label - side.origin) * ball(spacing)).exp()
    scale, slip = ball(side.log_scale).exp(), ball(side.scale_abs_error)
    total = sum(found, arb(0)) / scale
    for place, truth in enumerate(found):
        rounded = ball(float(side.masses[place])) - truth / scale
        if upwards:
            assert rounded >= -ball(side.mass_abs_error) - slip * truth / scale
        else:
            assert rounded <= ball(side.mass_abs_error) + slip * truth / scale
        # and they are tight
        assert abs(rounded) < 1e-11 * total
    assert ball(side.mass_abs_error) < 1e-11 * total


# -- cells and cuts


def upper_tail(noise: Noise, x: arb) -> arb:
    if noise is Noise.NORMAL:
        return (x / arb(2).sqrt()).erfc() / 2
    return (-x).exp() / 2 if x > 0 else 1 - x.exp() / 2


def between(noise: Noise, low: arb, high: arb) -> arb:
    return upper_tail(noise, low) - upper_tail(noise, high)


def exact_mass(law: Mixture, low: arb, high: arb) -> arb:
    rate, shift = ball(law.exact_rate), ball(law.exact_shift)
    return (1 - rate) * between(law.noise, low, high) + rate * between(law.noise, low - shift, high - shift)


def exact_loss(pair: ShiftPair, x: arb) -> arb:
    def ratio(law: Mixture) -> arb:
        rate, shift = ball(law.exact_rate), ball(law.exact_shift)
        log_shifted = shift * x - shift**2 / 2 if law.noise is Noise.NORMAL else abs(x) - abs(x - shift)
        return 1 - rate + rate * log_shifted.exp()

    return (ratio(pair.observed) / ratio(pair.alternative)).log()


def few_nodes(pair: ShiftPair, seed: int) -> Floats:
    """Losses all over the range, some of them close together, some beyond its ends, and 0."""
    rng = random.Random(seed)
    low, high = pair.loss_range
    outer = pair.loss(np.array([-6.0, pair.observed.shift + 6]))
    low, high = max(low, float(outer[0])), min(high, float(outer[1]))
    middle = rng.uniform(low, high)
    near = [middle * (1 + 2.0**-power) for power in (52, 45, 30, 10)]
    ends = [low * (1 + 1e-15), low * (1 - 1e-15), high * (1 - 1e-15), high * (1 + 1e-15), 2 * high]
    return np.unique([middle, *near, *ends, 0.0, *(rng.uniform(low, high) for _ in range(6))])


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_cuts_lie_at_or_before_their_losses(pair: ShiftPair) -> None:
    nodes = few_nodes(pair, 1)
    cuts = cut_at(pair, nodes)
    with ctx.workprec(4 * BITS):
        for i in np.flatnonzero(np.isfinite(cuts.outputs)):
            if cuts.abs_errors[i]:
                exact_middle = ball((pair.observed.exact_shift + pair.alternative.exact_shift) / 2)
                assert abs(exact_middle - ball(float(cuts.outputs[i]))) <= ball(float(cuts.abs_errors[i]))
                loss = arb(0)
            else:
                loss = exact_loss(pair, ball(float(cuts.outputs[i])))
            node, lift = ball(float(nodes[i])), ball(float(cuts.lifts[i]))
            assert loss <= node + arb(2) ** -1000
            assert loss >= node - lift - arb(2) ** -1000


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_losses_are_enclosed(pair: ShiftPair) -> None:
    rng = random.Random(2)
    s = max(pair.observed.shift, -pair.alternative.shift)
    x = np.array(
        [rng.uniform(-8, 8 + s) for _ in range(12)] + [s / 2, s, 0.0, s / 2 * (1 + 1e-15), -30.0, s + 30]
    )
    x = np.concatenate([x, -x])
    loss = enclose_loss(pair, x)
    with ctx.workprec(4 * BITS):
        for i, place in enumerate(x.tolist()):
            truth = exact_loss(pair, ball(place))
            assert ball(float(loss.low[i])) <= truth + arb(2) ** -1000
            assert truth <= ball(float(loss.high[i])) + arb(2) ** -1000


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_cells_bound_their_masses_and_merged_losses(pair: ShiftPair) -> None:
    """ABOVE: no less P-mass, no smaller loss, no smaller masses at the nodes. BELOW: no more."""
    nodes = few_nodes(pair, 3)
    cuts = cut_at(pair, nodes)
    cells = cut(pair, nodes)
    atoms = spread(cells)
    with ctx.workprec(4 * BITS):
        outputs = [arb("-inf"), *(exact_output(pair, cuts, i) for i in range(len(nodes))), arb("inf")]
        held = 0
        for i in range(len(outputs) - 1):
            if not outputs[i] < outputs[i + 1]:
                continue
            p, q = (exact_mass(law, outputs[i], outputs[i + 1]) for law in (pair.observed, pair.alternative))
            if not p > 0 or not q > 0:  # no digit is left of a tail beyond 1e-400
                held += 1
                continue
            merged = (p / q).log()
            assert p.log() <= ball(float(cells.log_masses_above[held]))
            assert merged <= ball(float(cells.losses_above[held])) + arb(2) ** -1000
            assert ball(float(cells.log_masses_below[held])) <= p.log()
            assert ball(float(cells.losses_below[held])) <= merged + arb(2) ** -1000
            low, high = float(cells.low[held]), float(cells.high[held])
            if math.isfinite(low) and math.isfinite(high):
                assert_spread(atoms, p, q, low, high)
            held += 1
        assert held == len(cells.low)


def exact_output(pair: ShiftPair, cuts: Cuts, i: int) -> arb:
    if cuts.abs_errors[i]:
        return ball((pair.observed.exact_shift + pair.alternative.exact_shift) / 2)
    return ball(float(cuts.outputs[i]))


def assert_spread(atoms: LossAtoms, p: arb, q: arb, low: float, high: float) -> None:
    """At the upper node (p - e^low q) / (1 - e^{low-high}), unless losses were raised: then more."""
    share = (p - ball(low).exp() * q) / (1 - (ball(low) - ball(high)).exp())
    found = sum((ball(float(m)).exp() for m in atoms.log_masses[atoms.losses == high]), arb(0))
    assert share <= found + arb(2) ** -1000


def test_narrow_and_far_masses_of_the_noise_are_enclosed() -> None:
    rng = random.Random(4)
    for noise in Noise:
        for _ in range(40):
            start = rng.uniform(-40, 40)
            points = np.unique(
                [start * (1 + 2.0**-power) for power in (52, 50, 40, 20, 5)] + [start, -start / 3]
            )
            masses = enclose_masses(noise, points, np.zeros(len(points)))
            with ctx.workprec(4 * BITS):
                for i in range(len(points) - 1):
                    truth = between(noise, ball(float(points[i])), ball(float(points[i + 1]))).log()
                    assert ball(float(masses.low[i])) <= truth <= ball(float(masses.high[i]))


# -- the engines themselves


def finite_pairs() -> Iterator[FinitePair]:
    def support(*weights: int) -> FiniteSupport:
        return FiniteSupport(tuple(Fraction(w, sum(weights)) for w in weights))

    yield FinitePair(support(3, 1), support(1, 3))
    yield FinitePair(support(10**12, 1), support(10**12 - 1, 2))
    yield FinitePair(support(1, 5, 3, 1), support(2, 5, 3, 0))
    yield FinitePair(support(10**6, 1000, 7), support(10**6 + 900, 100, 7))
    yield FinitePair(support(1, 10**15), support(10**15, 1))


AnEngine = type[LatticeEngine] | type[BigJumpEngine]
ENGINES: list[AnEngine] = [LatticeEngine, BigJumpEngine]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pair", list(finite_pairs()))
def test_finite_pairs_against_fractions(pair: FinitePair, engine: AnEngine) -> None:
    for times, share, tolerance in product((1, 2, 3, 7), (0.1, 0.6, 0.97), (1e-2, 1e-5)):
        schedule = Schedule([(pair, times)])
        epsilon = times * share * pair.largest_finite_loss
        if epsilon <= 0:
            continue
        try:
            found = engine(schedule, longest=1 << 16).near(epsilon, tolerance).bounds(epsilon)
        except (EngineDeclines, NotPreciseEnough, ArithmeticError):
            continue
        with ctx.workprec(BITS):
            order = ball(epsilon).exp()
        least, most = (
            Fraction(int(end.fmpq().p), int(end.fmpq().q)) for end in (order.lower(), order.upper())
        )
        assert found.lower <= log_of(exact_delta(schedule, least))
        assert log_of(exact_delta(schedule, most)) <= found.upper


def normal_pair(noise: float, rate: float) -> ShiftPair:
    return remove(Noise.NORMAL, Fraction(rate), 1 / Fraction(noise))


@pytest.mark.parametrize(
    ("pair", "times", "epsilon"),
    [
        (remove(Noise.LAPLACE, Fraction(1, 10), Fraction(1)).reverse, 5, 0.2),
        (normal_pair(1.0, 0.01), 20, 0.3),
        (normal_pair(1.0, 0.01).reverse, 20, 0.1),
    ],
)
def test_the_lower_end_is_the_same_with_and_without_the_excess(
    pair: ShiftPair, times: int, epsilon: float
) -> None:
    """Where losses are large enough for the difference of P's masses and Q's to keep its digits."""
    laws = LatticeEngine(Schedule([(pair, times)])).near(epsilon, 1e-3)
    steps, tilt = laws.steps[1], laws.spot.tilt
    dual = LatticeSide.of(steps, tilt, laws.size, dual=True)
    apart = replace(laws, below_dual=dual, below_excess=None)
    laws = replace(laws, below_dual=None, below_excess=laws.below.excess(steps, tilt))
    for at in (epsilon, 0.9 * epsilon):
        ours, theirs = laws.bounds(at), apart.bounds(at)
        assert ours.lower == pytest.approx(theirs.lower, abs=1e-8)
        assert ours.upper == theirs.upper
        # and what is left of the error is no more than what it takes
        assert ours.errors.rounding <= theirs.errors.rounding * (1 + 1e-3)


@pytest.mark.parametrize("apart", [1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("share", [0.2, 0.95, 0.9999])
def test_tiny_losses_keep_their_digits(apart: float, share: float) -> None:
    """P's masses and Q's agree to nearly all digits; delta is what is left, or less next to the top."""
    p, middle = Fraction(1, 3) + Fraction(apart), Fraction(1, 5)
    observed, other = (
        FiniteSupport((p, middle, 1 - p - middle)),
        FiniteSupport((Fraction(1, 3), middle, Fraction(7, 15))),
    )
    pair = FinitePair(observed, other)
    schedule = Schedule([(pair, 6)])
    epsilon = share * 6 * pair.largest_finite_loss
    found = LatticeEngine(schedule).near(epsilon, 1e-3).bounds(epsilon)
    with ctx.workprec(BITS):
        order = ball(epsilon).exp()
    least, most = (Fraction(int(end.fmpq().p), int(end.fmpq().q)) for end in (order.lower(), order.upper()))
    assert found.lower <= log_of(exact_delta(schedule, least))
    assert log_of(exact_delta(schedule, most)) <= found.upper
    assert found.width < 2e-3


def test_a_quotient_that_rounds_up_to_a_label_is_no_gain() -> None:
    """A loss just below a label has the one before: what lies above a label is never negative."""
    spacing = few_bits(0.1)
    losses = np.nextafter(np.arange(1, 2000) * spacing, -np.inf)
    atoms = LossAtoms(losses, np.full(len(losses), -8.0), -math.inf, BELOW)
    step = LatticeStep.below(atoms, 3, spacing, 1.0)
    assert (step.rest >= 0).all()
    assert (step.labels == np.arange(1, 2000) - 1).all()


def log_of(delta: Fraction) -> mpf:
    return mp.log(mpf(delta.numerator) / delta.denominator) if delta else -mp.inf


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(10))
def test_one_and_two_steps_against_many_digits(engine: AnEngine, seed: int) -> None:
    rng = random.Random(seed)
    noise, direction = rng.choice(list(Noise)), rng.choice(["REMOVE", "ADD"])
    rate = rng.choice([10 ** rng.uniform(-12, -0.3), 1 - 10 ** rng.uniform(-12, -0.3)])
    shift = 10 ** rng.uniform(-3, 1)
    pair = remove(noise, Fraction(rate), Fraction(shift))
    if direction == "ADD":
        pair = pair.reverse
    one_step = normal_step_delta if noise is Noise.NORMAL else laplace_step_delta
    for times in (1, 2):
        top = min(pair.loss_range[1], float(pair.loss(np.array(shift + 6))))
        epsilon = times * top * rng.uniform(0.05, 0.9)
        schedule = Schedule([(pair, times)])
        try:
            found = engine(schedule, longest=1 << 16).near(epsilon, 1e-4).bounds(epsilon)
        except (EngineDeclines, NotPreciseEnough, ArithmeticError):
            continue
        arguments = direction, mpf(rate), mpf(shift), mpf(epsilon)
        truth = one_step(*arguments) if times == 1 else two_step_delta(noise.value, *arguments)
        if times == 2 and truth < mpf(10) ** -40:  # the integral ends 16 deviations out
            continue
        digits = 0.0 if times == 1 else 1e-11
        assert found.lower - digits <= mp.log(truth) <= found.upper + digits


@pytest.mark.parametrize(
    ("rate", "shift", "epsilon", "tolerance"),
    [
        (2.188498129520014e-12, 0.09279190929153457, 4.4578307171353474e-13, 0.00571193006259824),
        (1.581896364611549e-10, 0.007437456312182327, 5.159687579950571e-12, 0.001027933383007193),
    ],
)
def test_losses_that_drown_in_rounding_are_not_certified(
    rate: float, shift: float, epsilon: float, tolerance: float
) -> None:
    """The lower end once exceeded the upper one here, both were false, and the smaller was taken for both."""
    pair = remove(Noise.NORMAL, Fraction(rate), Fraction(shift))
    truth = mp.log(normal_step_delta("REMOVE", mpf(rate), mpf(shift), mpf(epsilon)))
    try:
        engine = BigJumpEngine(Schedule([(pair, 1)]), longest=1 << 18)
        found = engine.near(epsilon, tolerance).bounds(epsilon)
    except NotPreciseEnough:
        return
    assert found.lower <= truth <= found.upper


def test_labels_times_a_spacing_of_few_bits_are_exact() -> None:
    rng = random.Random(5)
    for _ in range(100):
        spacing = few_bits(10 ** rng.uniform(-12, 2))
        label = rng.randint(-(2**36), 2**36)
        assert Fraction(label * spacing) == label * Fraction(spacing)
