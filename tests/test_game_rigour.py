"""Every charge of the substitution game against balls: each number is on the side that is claimed."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import acb, arb, ctx
from numpy.typing import NDArray
from scipy import special

from tightrope.engines.choose import compose
from tightrope.engines.game.above import (
    GameAbove,
    Profile,
    Window,
    _Stage,
    _State,
    chords,
    convex_minorant,
    lattice_masses,
)
from tightrope.engines.game.below import GameBelow, LabelLaw, PolicyValue, label_law, triangle_law
from tightrope.engines.game.exchange_curve import both_orders, deviations, spread_lognormal
from tightrope.engines.game.layout import SKETCH
from tightrope.engines.game.moves import labels_of
from tightrope.engines.game.outward import cell_masses, excess_below, mixture_masses
from tightrope.engines.game.pooling import Quality, TriangleCover, curves_of, largest_loss
from tightrope.engines.game.substitution import GameBounds, GameQuestion, ignore_progress
from tightrope.engines.game.triangles import REMOVE_GRAM, RIGHT, Box, Gram, triangle
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.balls import ball
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.exchange import Exchange, Game
from tightrope.pairs.finite_pair import FinitePair, FiniteSupport
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

RATES = [Fraction(1, 10**9), Fraction(1, 3), 1 - Fraction(1, 10**9), 1 - Fraction(1, 3 * 10**14)]
NOISES = [Fraction(1, 5), Fraction(7, 3), Fraction(100)]


@pytest.fixture(autouse=True)
def _precise_balls() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = before


def exchange(rate: Fraction, noise: Fraction) -> Exchange:
    return Exchange(Noise.NORMAL, rate, 2 / noise)


def below_of(x: arb) -> arb:
    """P(X < x), X standard normal."""
    return (-x / arb(2).sqrt()).erfc() / 2


def call(size: arb, strike: arb, deviation: arb) -> arb:
    """E(size X - strike)_+, X the mean-one lognormal."""
    if strike <= 0:
        return size - strike
    d = (size / strike).log() / deviation + deviation / 2
    return size * below_of(d) - strike * below_of(d - deviation)


def put(strike: arb, size: arb, deviation: arb) -> arb:
    """E(strike - size X)_+."""
    if strike <= 0:
        return arb(0)
    d = (size / strike).log() / deviation + deviation / 2
    return strike * below_of(deviation - d) - size * below_of(-d)


# one step


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rate", RATES)
def test_removes_curve_is_a_hair_above_its_closed_form(rate: Fraction, noise: Fraction) -> None:
    """Nothing is spread here: what is left between bound and truth is the charge for rounding."""
    excess = np.concatenate([[0.0], np.geomspace(1e-3 * float(rate), 1e3, 25)])
    forth, back = both_orders(REMOVE_GRAM, exchange(rate, noise), excess, 1e-4)
    g, deviation = ball(rate), ball(2 / noise)
    for i, more in enumerate(excess):
        t = 1 + ball(float(more))
        unsampled = ball(float(more)) * ball(1 - rate)
        truth = call(g, unsampled + t * g, deviation)
        reverse = put(g - unsampled, t * g, deviation)
        assert truth <= ball(float(forth[i])) <= truth * (1 + ball(1e-7)) + ball(1e-12) * g * t
        assert reverse <= ball(float(back[i])) <= reverse * (1 + ball(1e-7)) + ball(1e-12) * g * t


def curve_by_integration(gram: Gram, rate: Fraction, noise: Fraction, excess: float) -> arb:
    """H_t(P || Q) in balls: given Y, the other factor is lognormal."""
    s, g, more = ball(noise), ball(rate), ball(excess)
    w = ball(gram.w).sqrt() / s
    slope = ball(gram.c) / s**2 / w
    spread = (ball(gram.u) / s**2 - slope**2).sqrt()

    def integrand(x: acb, _: bool) -> acb:
        size, y = g * (slope * x - slope**2 / 2).exp(), (w * x - w**2 / 2).exp()
        strike = more * ball(1 - rate) + (1 + more) * g * y
        d = (size.log() - strike.log()) / spread + spread / 2
        root = acb(2).sqrt()
        mixed = size * (-d / root).erfc() / 2 - strike * (-(d - spread) / root).erfc() / 2
        return mixed * (-x * x / 2).exp() / (2 * acb.pi()).sqrt()

    with ctx.workprec(80):
        return arb(acb.integral(integrand, -12, 12, rel_tol=2.0**-40, abs_tol=2.0**-70).real)


@pytest.mark.parametrize(
    ("rate", "noise"), [(RATES[0], NOISES[1]), (RATES[1], NOISES[2]), (RATES[2], NOISES[1])]
)
def test_curves_of_triangles_lie_above_their_integrals(rate: Fraction, noise: Fraction) -> None:
    excess = np.array([0.0, 0.1, 0.7]) * float(rate) / float(noise)
    for gram in (triangle(0.5, 0.3), triangle(-0.9, 0.1)):
        forth, _ = both_orders(gram, exchange(rate, noise), excess, 1e-4)
        for more, bound in zip(excess.tolist(), forth.tolist(), strict=True):
            truth = curve_by_integration(gram, rate, noise, more)
            assert truth - ball(2.0**-60) <= ball(bound) <= truth * (1 + ball(1e-3))


@pytest.mark.parametrize("deviation", [2e-4, 0.03, 1.0, 9.7])
def test_spreading_raises_every_call_and_put(deviation: float) -> None:
    """At a node's own value the truth and the spread law agree: the charge for rounding alone is between."""
    nodes = spread_lognormal(deviation, 2.5e-4 * deviation**2)
    v = ball(deviation)
    weights = [ball(float(x)) for x in nodes.weights]
    high, low = ([ball(float(x)) for x in side] for side in (nodes.high, nodes.low))
    for i in range(1, len(high), 7):
        strike = (high[i] + low[i]) / 2
        calls = sum((w * max(z - strike, arb(0)) for w, z in zip(weights, high, strict=True)), arb(0))
        puts = sum((w * max(strike - z, arb(0)) for w, z in zip(weights, low, strict=True)), arb(0))
        truth, reverse = call(arb(1), strike, v), put(strike, arb(1), v)
        assert truth <= calls + ball(nodes.missing) <= truth * (1 + ball(1e-6)) + ball(1e-11)
        assert reverse <= puts <= reverse * (1 + ball(1e-6)) + ball(1e-11) * strike


def test_deviations_only_lower_what_is_common_and_raise_the_rest() -> None:
    rng = np.random.default_rng(1)
    for noise in NOISES:
        inverse_variance = 1 / noise**2
        for _ in range(40):
            d = rng.uniform(-RIGHT, RIGHT)
            gram = triangle(d, rng.uniform(0, RIGHT - abs(d)))
            common, own_x, own_y = (Fraction(x) for x in deviations(gram, float(inverse_variance)))
            c, u, w = (Fraction(x) * inverse_variance for x in (min(gram.c, gram.u, gram.w), gram.u, gram.w))
            assert common**2 <= c
            assert common**2 + own_x**2 >= u
            assert common**2 + own_y**2 >= w


def test_boxes_dominate_their_triangles_exactly() -> None:
    """The three inequalities of the lemma in balls, at corners and inside."""
    rng = np.random.default_rng(2)
    half = arb.pi() / 2
    for size in (0.3, 1e-3, 1e-9):
        for _ in range(15):
            d0, e0 = rng.uniform(0, 1.5), rng.uniform(0, 0.5)
            box = Box(d0, min(d0 + size, RIGHT), e0, min(e0 + size, RIGHT - d0))
            if box.is_empty or box.e1 <= box.e0:
                continue
            found = box.dominator
            u1, w1, c1 = ball(found.u), ball(found.w), ball(found.c)
            for d, e in [(box.d0, box.e0), (box.d0, box.e1), (box.d1, box.e0), (box.d1, box.e1)]:
                x, y = ball(d), ball(e)
                if x + y > half:
                    continue
                u, w = 2 + 2 * (y + x).sin(), 2 + 2 * (y - x).sin()
                c = 2 * y.sin() ** 2 + 2 * x.cos() * y.sin()
                assert u1 >= u
                assert w1 >= w
                assert c1 <= c + ((u1 - u) * (w1 - w)).sqrt()


# cells


def truth_of_cells(noise: Noise, ends: list[arb]) -> list[arb]:
    def lower(x: arb) -> arb:
        if noise is Noise.NORMAL:
            return below_of(x)
        return x.exp() / 2 if x < 0 else 1 - (-x).exp() / 2

    return [lower(high) - lower(low) for low, high in pairwise(ends)]


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("rate", RATES)
def test_cell_masses_are_as_good_as_is_said(noise: Noise, rate: Fraction) -> None:
    rng = np.random.default_rng(3)
    ends = np.sort(np.concatenate([rng.uniform(-12, 12, 60), 1e-6 * rng.standard_normal(9), [0.0, 1 / 3]]))
    exact = [ball(float(x)) for x in ends]
    plain, plain_abs_errors = cell_masses(noise, ends)
    for mass, error, truth in zip(plain, plain_abs_errors, truth_of_cells(noise, exact), strict=True):
        assert abs(ball(float(mass)) - truth) <= ball(float(error))
    law = Mixture(noise, rate, Fraction(1, 3))
    masses, abs_errors = mixture_masses(law, ends)
    moved = truth_of_cells(noise, [x - ball(Fraction(1, 3)) for x in exact])
    for i, (still, gone) in enumerate(zip(truth_of_cells(noise, exact), moved, strict=True)):
        truth = ball(1 - rate) * still + ball(rate) * gone
        assert abs(ball(float(masses[i])) - truth) <= ball(float(abs_errors[i]))
    whole, whole_abs_error = cell_masses(noise, np.array([-np.inf, 0.3, np.inf]))
    assert whole.sum() == pytest.approx(1, abs=float(whole_abs_error.sum()))


# the lattice


def test_masses_give_at_least_the_table_back() -> None:
    """In balls, at every lattice point: the broken line of the masses is nowhere below the table."""
    for rate, noise, spacing in ((RATES[1], NOISES[1], 0.05), (RATES[0], NOISES[2], 1e-12)):
        excess = excess_below(np.arange(31.0), spacing)
        forth, back = both_orders(REMOVE_GRAM, exchange(rate, noise), excess, 1e-4)
        table = np.concatenate([(back * np.exp(-np.arange(31.0) * spacing))[:0:-1], forth])
        masses = [ball(float(x)) for x in lattice_masses(table[None], spacing)[0]]
        w = ball(spacing)
        for i in range(0, 61, 6):
            value = ball(float(table[-1]))
            for j in range(i + 1, 61):
                value += masses[j] * -((i - j) * w).expm1()
            certain = -((i - 30) * w).expm1() if i < 30 else arb(0)
            assert (
                ball(float(table[i])) + certain
                <= value
                <= (ball(float(table[i])) + certain) * (1 + ball(1e-11))
            )


def test_lowered_orders_are_lower_and_chords_higher() -> None:
    indices = np.array([0.0, 1, 7, 1000, 12345])
    for spacing in (1e-12, 0.01, 1 / 300):
        for index, found in zip(indices, excess_below(indices, spacing), strict=True):
            truth = (int(index) * ball(spacing)).expm1()
            assert truth * (1 - ball(1e-12)) <= ball(float(found)) <= truth
    rng = np.random.default_rng(4)
    points = np.concatenate([[0.0], np.cumsum(10 ** rng.uniform(-9, 3, 20))])
    values = np.sort(10 ** rng.uniform(-20, 0, 21))[::-1]
    x = np.sort(rng.uniform(0, points[-1], 60))
    for at, found in zip(x, chords(x, points, values), strict=True):
        i = int(np.searchsorted(points, at, side="right"))
        share = (ball(float(at)) - ball(float(points[i - 1]))) / (
            ball(float(points[i])) - ball(float(points[i - 1]))
        )
        assert ball(float(values[i - 1])) * (1 - share) + ball(float(values[i])) * share <= ball(float(found))


def test_a_convex_curve_below_the_values_is_below_their_minorant() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([[0.0], np.cumsum(10 ** rng.uniform(-12, 0, 80))])
    curve = 1 / (1 + x)  # convex; rounding alone makes its floats not convex
    hull = convex_minorant(x, curve * (1 + 4e-16))
    for at, value in zip(x, hull, strict=True):
        assert 1 / (1 + ball(float(at))) <= ball(float(value))


def exact_game(game: GameAbove, steps: int) -> list[arb]:
    """What `play` computes, without FFTs, tilts and rounding: W at the lattice points of the window."""
    w = game.window
    gap, step = ball(w.spacing).expm1(), ball(w.spacing)
    kernels = []
    for row in game.tables:
        table = [ball(float(x)) for x in row]
        slopes = [(b - a) / gap for a, b in pairwise(table)]
        right = [*slopes, arb(0)]
        left = [table[0], *(slope * step.exp() for slope in slopes)]
        masses = [
            max(a - b + (i == game.left), arb(0)) for i, (a, b) in enumerate(zip(right, left, strict=True))
        ]
        kernels.append((table, masses))
    values = [arb(0)] * (w.last + 1)
    for _ in range(steps):

        def at(i: int, values: list[arb] = values) -> arb:
            inside = values[min(abs(i), w.last)]  # beyond the window: its last value
            return inside if i >= 0 else inside * (i * step).exp()

        best = []
        for r in range(w.last + 1):
            options = []
            for table, masses in kernels:
                mean = sum((m * at(r - i + game.left) for i, m in enumerate(masses)), arb(0))
                options.append(table[game.left + min(r, w.reach)] + mean)
            best.append(max(options))
        values = best
    return values


def a_cover_of_three(family: Exchange) -> TriangleCover:
    """Curves of three Gram matrices; a whole cover takes seconds."""
    top = largest_loss(family.rate, family.inverse_variance, 13.0)
    excess = np.expm1(np.concatenate([[0.0], np.geomspace(1e-4 * top, top, 40)]))
    curves = curves_of([REMOVE_GRAM, triangle(0.6, 0.2), REMOVE_GRAM.exchanged], family, excess, 1e-3)
    return TriangleCover(
        exchange=family,
        quality=SKETCH.quality,
        excess=excess,
        groups=curves.rows([0, 1]),
        others=curves.rows([2]),
        first=(REMOVE_GRAM,),
        best_between=None,
    )


@pytest.mark.parametrize(("rate", "noise"), [(RATES[1], NOISES[1]), (1 - Fraction(1, 10**6), Fraction(5))])
def test_the_game_from_above_is_above_the_same_game_in_balls(rate: Fraction, noise: Fraction) -> None:
    spacing = 0.12 / float(noise)
    window = Window(spacing=spacing, last=14, reach=5, tilt=1.5)
    game = GameAbove(a_cover_of_three(exchange(rate, noise)), window)
    profile = game.play(2, {2}, ignore_progress)[2]
    # two steps from so far inside the window never leave it
    for i, truth in enumerate(exact_game(game, 2)[: window.last - window.reach]):
        found = ball(float(profile.log_curve[i]))
        assert truth.log() <= found <= truth.log() + ball(1e-9)


def test_values_that_a_steep_tilt_makes_tiny_keep_their_charge() -> None:
    """The largest tilted value is e^15 times the smallest, of which an FFT forgets half the digits."""
    window = Window(spacing=0.05, last=40, reach=5, tilt=10.0)
    game = GameAbove(a_cover_of_three(exchange(RATES[1], NOISES[1])), window)
    profile = game.play(2, {2}, ignore_progress)[2]
    for i, truth in enumerate(exact_game(game, 2)[: window.last - window.reach]):
        assert truth.log() <= ball(float(profile.log_curve[i]))


def test_scaling_by_powers_of_two_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the window grows after values were scaled: gains, edges and bounds beyond follow."""
    game = GameAbove(
        a_cover_of_three(exchange(RATES[1], Fraction(1))), Window(spacing=0.1, last=60, reach=40, tilt=1.0)
    )

    def play() -> Floats:
        return game.play(6, {6}, ignore_progress, [(3, 40)])[6].log_curve

    unscaled = play()
    monkeypatch.setattr("tightrope.engines.game.above.LARGEST", 0.5)
    assert play() == pytest.approx(unscaled, abs=1e-10)


@pytest.mark.parametrize("reach", [40, 120])
def test_what_is_put_beyond_a_window_is_above_what_a_longer_one_finds(reach: int) -> None:
    """Losses far beyond the window are usual: Chernoff's bound counts, and the losses no table reaches."""
    last, count, window = 20, 60, Window(spacing=0.25, last=160, reach=reach, tilt=0.5)
    game = GameAbove(a_cover_of_three(exchange(Fraction(9, 10), Fraction(1, 2))), window)
    short, long = _Stage(game, last), _Stage(game, window.last)
    less, more = (stage.enter(_State(np.zeros(1)), 0) for stage in (short, long))
    for j in (1, 2):
        less, more = short.advance(less, j), long.advance(more, j)
        beyond = short._beyond(less, j, count)
        assert (beyond >= more.values[last + 1 : last + 1 + count] - more.abs_error).all()
        if j == 1:  # not by the edge alone
            assert beyond[-1] < 0.9 * less.edge * math.exp(window.tilt * count * window.spacing)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [
        (RATES[0], NOISES[0], 2),
        (RATES[0], NOISES[2], 1),
        (RATES[2], NOISES[0], 3),
        (RATES[2], NOISES[2], 5),
        (Fraction(1, 20), NOISES[1], 1000),
    ],
)
def test_ends_never_cross_and_are_never_below_remove(
    rate: Fraction, noise: Fraction, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that plays remove or add, against a cover of little more than the two; crossing ends raise."""

    def cover(family: Exchange, quality: Quality) -> TriangleCover:
        return a_cover_of_three(family)

    monkeypatch.setattr("tightrope.engines.game.substitution.cover_triangles", cover)
    family = exchange(rate, noise)
    curve = compose(Schedule([(family.remove, steps)]))
    for rung in (-2, -25) if steps < 100 else (-12,):
        try:
            asked = GameQuestion(Game(family, steps, Schedule([])), rung, (SKETCH,), ignore_progress)
            found = GameBounds(asked, asked.above(), asked.below())
        except NotPreciseEnough:
            continue
        lower, upper = found.epsilons(math.exp(rung))
        assert lower <= upper
        for epsilon in (0.0, lower, found.layout.epsilon):
            assert found.bounds(epsilon).upper >= curve.log_bounds(epsilon, 0.1).lower


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("rate", [RATES[1], RATES[3]])
def test_the_policys_probabilities_are_on_their_sides(noise: Noise, rate: Fraction) -> None:
    """The same policy in balls: exact masses, no FFT, no tilt."""
    pairs = [Exchange(noise, rate, Fraction(3, 7)).remove, Exchange(noise, rate, Fraction(3, 7)).add]
    spacing, reach, steps = 0.11, 6, 3
    window = Window(spacing=spacing, below=15, last=15, reach=reach, tilt=2.0)
    laws = [label_law(pair, spacing, reach) for pair in pairs]
    choices: list[NDArray[np.int8]] = []
    found = GameBelow(laws, window).play(steps, ignore_progress, choices)
    for which, log_found, sign in ((0, found.log_a, -1), (1, found.log_b, 1)):
        kernels = [
            exact_labels(pair, law, spacing, reach)[which] for pair, law in zip(pairs, laws, strict=True)
        ]
        values = [arb(int(r <= 0)) for r in range(-15, 16)]
        for chosen in choices:
            values = [
                sum(
                    (
                        mass * values[r + 15 - label]
                        for label, mass in kernels[chosen[r + 15]].items()
                        if 0 <= r + 15 - label <= 30
                    ),
                    arb(0),
                )
                for r in range(-15, 16)
            ]
        for truth, log_value in zip(values, log_found.tolist(), strict=True):
            if not truth > 0:
                continue
            difference = sign * (ball(log_value) - truth.log())
            assert difference >= 0
            assert difference <= ball(1e-9)


def exact_labels(
    pair: ShiftPair, law: LabelLaw, spacing: float, reach: int
) -> tuple[dict[int, arb], dict[int, arb]]:
    """Probabilities of the labels under P and Q, for the cells that the law was made from."""
    ends = np.maximum.accumulate(pair.output_at((np.arange(-reach, reach, dtype=float) + 0.5) * spacing))
    inner = ends[1:] > ends[:-1]
    kernels: tuple[dict[int, arb], dict[int, arb]] = {}, {}
    for kernel, mixture in zip(kernels, (pair.observed, pair.alternative), strict=True):
        shift, g = ball(mixture.exact_shift), ball(mixture.exact_rate)
        still, gone = (
            truth_of_cells(pair.noise, [ball(float(x)) - moved for x in ends]) for moved in (arb(0), shift)
        )
        masses = [(1 - g) * a + g * b for a, b, held in zip(still, gone, inner, strict=True) if held]
        for mass, label, upwards in zip(masses, law.labels.tolist(), law.upwards.tolist(), strict=True):
            for at, chance in ((label, 1 - ball(upwards)), (label + 1, ball(upwards))):
                if abs(at) <= reach:
                    kernel[at] = kernel.get(at, arb(0)) + mass * chance
    return kernels


def test_triangles_that_are_played_fit_their_ball() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        d = rng.uniform(0, 1.4)
        law = triangle_law(
            triangle(d, rng.uniform(0.02, RIGHT - d - 0.02)), exchange(RATES[1], NOISES[1]), 0.1
        )
        assert law is not None
        assert math.fsum(law.masses[0]) <= 1 + 1e-12
    assert triangle_law(Gram(4.0001, 0.01, 0.0), exchange(RATES[1], NOISES[1]), 0.1) is None


# reading the answer


def test_chords_of_a_profile_are_above_the_chords_in_balls() -> None:
    rng = np.random.default_rng(7)
    for spacing, drop in ((0.1, 3.0), (1e-9, 1e-12), (1 / 3, 9.0)):
        profile = Profile(spacing, 1.0, -np.cumsum(rng.uniform(0, drop, 30)))
        for place in [*rng.uniform(0, 29, 40), 7.0, 3 - 1e-16, 3 + 1e-15]:
            epsilon = float(place) * spacing
            i = int(Fraction(epsilon) // Fraction(spacing))
            near, far = (ball(float(profile.log_curve[j])).exp() for j in (i, i + 1))
            t, t0, t1 = (x.exp() for x in (ball(epsilon), i * ball(spacing), (i + 1) * ball(spacing)))
            truth = (near + (far - near) * (t - t0) / (t1 - t0)).log()
            assert truth <= ball(profile.log_upper(epsilon)) <= truth + ball(1e-13) * (1 + abs(truth))
        log_delta = float(profile.log_curve[11]) - 1e-3 * drop
        assert profile.log_upper(profile.epsilon_above(log_delta)) <= log_delta


def test_the_atoms_of_a_block_dominate_its_curve() -> None:
    """In balls, at every lattice point and at r < 0, where V(-r) = 1 - e^-r + e^-r V(r)."""
    spacing, count = 0.09375, 25
    r = np.arange(count, dtype=float) * spacing
    gaussian = special.ndtr(0.5 - r) - np.exp(r) * special.ndtr(-0.5 - r)
    profile = Profile(spacing, 2.0, np.log(gaussian) + 2.0 * r)
    atoms, w = profile.atoms(), ball(spacing)
    places = np.rint(atoms.losses / spacing).astype(int).tolist()
    masses = [ball(float(x)).exp() for x in atoms.log_masses]
    for i in range(-count + 1, count):
        value = ball(atoms.log_infinite).exp()
        for place, mass in zip(places, masses, strict=True):
            if place > i:
                value += mass * -((i - place) * w).expm1()
        curve = ball(float(profile.log_curve[abs(i)])).exp()
        truth = curve if i >= 0 else -(i * w).expm1() + (i * w).exp() * curve
        assert truth <= value <= truth * (1 + ball(1e-12))


def test_chernoffs_factor_is_as_good_as_its_charge() -> None:
    for c in [1e-9, 0.01, 1 / 3, 1.0, 7.3, 450.0, 1e6]:
        truth = -ball(c) * (1 / ball(c)).log1p() - ball(c).log1p()
        assert abs(ball(log_chernoff_factor(c)) - truth) <= 15 * ball(UNIT_ROUNDOFF) * abs(truth)


def test_what_a_policy_certifies_is_below_its_advantage_in_balls() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        log_a, gap = -(10 ** rng.uniform(-17, 2.5)), 10 ** rng.uniform(-17, 2)
        epsilon = 10 ** rng.uniform(-10, 2)
        value = PolicyValue(np.zeros(1), np.array([log_a]), np.array([log_a - gap - epsilon]))
        a, b = ball(log_a).exp(), ball(float(value.log_b[0])).exp()
        bound = value.log_lower(epsilon)
        assert bound == -math.inf or ball(bound).exp() <= a - ball(epsilon).exp() * b
        log_delta = log_a - 10 ** rng.uniform(-17, 2)
        reach = value.epsilon_below(log_delta)
        assert reach == 0 or a - ball(reach).exp() * b >= ball(log_delta).exp()


def test_fractions_as_floats_are_as_good_as_is_said() -> None:
    pair = FinitePair(
        FiniteSupport((Fraction(1, 3), Fraction(2, 3))), FiniteSupport((Fraction(3, 7), Fraction(4, 7)))
    )
    law = labels_of(pair, Window(spacing=0.1, last=9, reach=9, tilt=1.0))
    assert law is not None
    for which in (0, 1):
        truths = [level[which] for level in pair.levels]
        for mass, rel_error, truth in zip(law.masses[which], law.rel_errors[which], truths, strict=True):
            assert abs(Fraction(float(mass)) - truth) <= Fraction(float(rel_error)) * truth
