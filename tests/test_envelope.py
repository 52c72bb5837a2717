"""Batches without replacement under SUBSTITUTE: the envelope above, the directions below."""

import itertools
import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tightrope as tr
from catalogue import MIRRORED, batch, finite, gaussian, laplace, poisson, response
from oracle_cases import Case, load
from precise import laplace_step_delta, mp, mpf, normal_step_delta
from tightrope.curve.branches import ComposedCover, ComposedWitness
from tightrope.engines.choose import compose
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import LogBounds
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.one_step.cells import cut
from tightrope.engines.outcomes import exact_delta
from tightrope.engines.transforms.envelope import EnvelopeTransform
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.exchange import Game
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair
from tightrope.setting.effort import Effort
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.lookup import analyse
from tightrope.theorems.worst_pairs import step_laws

NOISES = {Noise.NORMAL: normal_step_delta, Noise.LAPLACE: laplace_step_delta}
SETTINGS = list(itertools.product(NOISES, (1e-4, 0.01, 0.3, 0.9), (0.3, 1.0, 10.0)))


def envelope(noise: Noise, rate: float, scale: float) -> Envelope:
    return Envelope(ShiftPair(Mixture(noise, Fraction(rate), Fraction(2 / scale)), Mixture(noise)))


def one_step(noise: Noise, rate: float, scale: float, epsilon: float) -> mpf:
    """The worse direction of one step, in multi-precision."""
    shift = mpf(2 / scale)
    return max(NOISES[noise](direction, mpf(rate), shift, mpf(epsilon)) for direction in ("ADD", "REMOVE"))


def quick(run: tr.Run, accuracy: float = 1e-3) -> tr.PrivacyCurve:
    return tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Certified(accuracy=accuracy, effort=tr.QUICK))


# one step ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "rate", "scale"), SETTINGS)
def test_one_step_is_the_worse_direction_at_every_epsilon(noise: Noise, rate: float, scale: float) -> None:
    make = tr.Gaussian if noise is Noise.NORMAL else tr.Laplace
    exact = Fraction(str(rate))
    step = tr.Step(make(noise_multiplier=scale), batch(exact.numerator, exact.denominator))
    curve = quick(step * 1, accuracy=1e-9)
    size = rate * min(2 / scale, 3)
    for epsilon in (-3 * size, -size, -size / 10, 0.0, size / 10, size, 3 * size, 0.5, 2.0):
        truth = one_step(noise, rate, scale, epsilon)
        found = curve.delta(epsilon)
        assert found.lower * (1 - 1e-12) <= truth <= found.upper * (1 + 1e-12) + 1e-300
        assert found.width <= 1e-11 * found.upper + 1e-15 * rate


@pytest.mark.parametrize(("noise", "rate", "scale"), SETTINGS)
def test_the_cells_of_a_step_have_the_worse_directions_divergence(
    noise: Noise, rate: float, scale: float
) -> None:
    pair = envelope(noise, rate, scale)
    reach = 1 / scale + (
        6 if noise is Noise.NORMAL else 0
    )  # Laplace noise loses no more beyond its second centre
    losses = np.unique(np.concatenate([pair.loss(pair.middle + np.linspace(0, reach, 400)), [0.0]]))
    nodes = np.concatenate([-losses[:0:-1], losses])
    cells = cut(pair, nodes)
    masses = np.exp(cells.log_masses)
    assert masses.sum() == pytest.approx(1, rel=1e-12)
    assert (masses * np.exp(-cells.merged)).sum() == pytest.approx(1, rel=1e-12)  # Q's masses
    for epsilon in nodes[
        :: len(nodes) // 23
    ]:  # at a node no cell is cut in two: the divergence of the cells is exact
        found = float(masses @ np.maximum(-np.expm1(epsilon - cells.merged), 0))
        assert found == pytest.approx(
            float(one_step(noise, rate, scale, float(epsilon))), rel=1e-9, abs=1e-15
        )
    (atom,) = np.flatnonzero(cells.merged == 0)
    assert cells.low[atom] == 0 < cells.high[atom]
    assert masses[atom] == pytest.approx(
        float((1 - rate) * (1 - 2 * np.exp(noise.log_upper(np.array(1 / scale))))), rel=1e-12
    )


def test_zero_is_cut_at_even_where_it_is_no_node() -> None:
    pair = envelope(Noise.NORMAL, 0.2, 1.5)
    for nodes in (np.array([0.3, 0.7]), np.array([-0.5, -0.2]), np.array([-0.3, 0.4])):
        cells = cut(pair, nodes)
        assert np.exp(cells.log_masses).sum() == pytest.approx(1, rel=1e-13)
        assert set(cells.low) | set(cells.high) == {-np.inf, *nodes, np.inf}
        assert np.all((cells.low <= cells.merged) & (cells.merged <= cells.high))


def test_an_envelope_is_its_own_reverse() -> None:
    pair = envelope(Noise.LAPLACE, 0.2, 2)
    assert pair.reverse == pair
    assert pair.loss_range == (-pair.remove.loss_range[1], pair.remove.loss_range[1])
    assert Schedule([(pair, 3)]).reverse == Schedule([(pair.reverse, 3)])
    with pytest.raises(ValueError, match="genuine mixture"):
        Envelope(ShiftPair(Mixture(Noise.NORMAL, Fraction(1), Fraction(2)), Mixture(Noise.NORMAL)))
    curve = quick(laplace(2, batch(1, 5), 3))
    for epsilon in (0.1, 0.4):
        there, back = curve.delta(epsilon).upper, curve.delta(-epsilon).upper
        assert back == pytest.approx(-math.expm1(-epsilon) + math.exp(-epsilon) * there, rel=1e-12)


# finite supports --------------------------------------------------------------------------------------------


def remove_pair(run: tr.Run) -> Pair:
    ((step, _),) = run
    return step_laws(step.mechanism, step.sampling, tr.SUBSTITUTE).remove()


ORDERS = [Fraction(1, 3), Fraction(4, 5), Fraction(1), Fraction(7, 6), Fraction(3, 2), Fraction(3)]
FINITE = [response(0.75, batch(1, 2), 1), response(0.25, batch(1, 3), 1), finite(*MIRRORED, batch(1, 10), 1)]
FINITE += [finite([0.5, 0.5, 0], [0, 0.5, 0.5], batch(1, 4), 1)]


@pytest.mark.parametrize("run", FINITE, ids=repr)
def test_the_envelope_of_finite_supports_is_exact(run: tr.Run) -> None:
    remove = remove_pair(run)
    assert isinstance(remove, FinitePair)
    pair = remove.envelope
    assert pair.is_symmetric
    for order in ORDERS:
        both = [exact_delta(Schedule([(one, 1)]), order) for one in (remove, remove.reverse)]
        assert exact_delta(Schedule([(pair, 1)]), order) == max(both)


@pytest.mark.parametrize("run", FINITE, ids=repr)
def test_finite_answers_hold_the_exact_fractions(run: tr.Run) -> None:
    remove = remove_pair(run)
    assert isinstance(remove, FinitePair)
    for order in (Fraction(1), Fraction(7, 6), Fraction(3, 2)):
        found = quick(run * 3).delta(math.log(order))
        exact = exact_delta(Schedule([(remove.envelope, 3)]), order)
        splits = [exact_delta(Schedule([(remove, i), (remove.reverse, 3 - i)]), order) for i in range(4)]
        assert found.upper == pytest.approx(float(exact), rel=1e-9, abs=1e-14)
        assert found.lower == pytest.approx(float(max(splits)), rel=1e-9, abs=1e-14)
        assert max(splits) <= exact


def test_a_pair_that_does_not_mirror_itself_has_no_envelope() -> None:
    with pytest.raises(tr.NoTheorem, match="mirror"):
        quick(finite([0.5, 0.5], [0.25, 0.75], batch(1, 10), 2))


# composition ------------------------------------------------------------------------------------------------

ANCHORS = [  # noise, batch, population, steps, delta, epsilon of the envelope, of removing
    (4, 50, 1000, 1000, 1e-5, 4.26291, 3.69994),
    (0.8, 1, 1000, 10_000, 1e-6, 16.31876, 15.25142),
    (1, 1, 100, 1000, 1e-5, 14.82067, 13.36022),
    (3, 1, 50, 2000, 1e-5, 3.44575, 2.85925),
]


@pytest.mark.parametrize(("noise", "size", "population", "steps", "delta", "above", "below"), ANCHORS)
def test_anchors(
    noise: float, size: int, population: int, steps: int, delta: float, above: float, below: float
) -> None:
    found = quick(gaussian(noise, batch(size, population), steps)).epsilon(delta)
    assert found.upper == pytest.approx(above, abs=2e-5)
    assert found.lower == pytest.approx(below, abs=2e-3)


def test_the_paper_s_figure_4() -> None:
    found = quick(gaussian(4, batch(50, 1000), 1000)).delta(5)
    assert found.upper == pytest.approx(3.2e-7, rel=0.02)
    assert found.lower == pytest.approx(8.8e-9, rel=0.02)


def by_fft(noise: Noise, rate: float, scale: float, steps: int, epsilon: float) -> float:
    """delta of the composed envelope on a lattice of losses, each mass shared so that its mean stays."""
    law, shift = (stats.norm if noise is Noise.NORMAL else stats.laplace), 2 / scale
    x = np.linspace(shift / 2, shift + 14, 4_000_001)
    loss = np.log1p(
        rate
        * np.expm1(
            np.clip(shift * (x - shift / 2) if noise is Noise.NORMAL else 2 * x - shift, None, shift**2 * 60)
        )
    )
    if noise is Noise.LAPLACE:
        loss = np.minimum(loss, math.log1p(rate * math.expm1(shift)))
    q = np.diff(law.cdf(x))
    p = (1 - rate) * q + rate * np.diff(law.cdf(x - shift))
    middle = (loss[1:] + loss[:-1]) / 2
    spacing, size = 2e-4, 1 << 20
    masses = np.zeros(size)
    for losses, weights in (
        (middle, p),
        (-middle, q),
        (np.zeros(1), np.array([(1 - rate) * (1 - 2 * law.sf(shift / 2))])),
    ):
        place = losses / spacing
        low = np.floor(place)
        for label, share in ((low, 1 - (place - low)), (low + 1, place - low)):
            masses += np.bincount(label.astype(int) % size, weights=weights * share, minlength=size)
    composed = np.fft.irfft(np.fft.rfft(masses) ** steps, size)
    labels = np.arange(size)
    total = np.where(labels > size // 2, labels - size, labels) * spacing
    return float(composed @ np.maximum(-np.expm1(np.minimum(epsilon - total, 0)), 0))


@pytest.mark.parametrize(
    ("noise", "rate", "scale", "steps", "epsilon"),
    [
        (Noise.NORMAL, 0.05, 4, 1000, 4.0),
        (Noise.NORMAL, 0.3, 3, 7, 1.0),
        (Noise.NORMAL, 0.02, 1, 60, 2.0),
        (Noise.LAPLACE, 0.5, 2, 3, 0.6),
        (Noise.LAPLACE, 0.1, 3, 200, 2.5),
    ],
)
def test_composed_values_agree_with_a_plain_fft(
    noise: Noise, rate: float, scale: float, steps: int, epsilon: float
) -> None:
    found = compose(Schedule([(envelope(noise, rate, scale), steps)])).log_bounds(epsilon, 1e-5)
    assert math.exp(found.upper) == pytest.approx(by_fft(noise, rate, scale, steps, epsilon), rel=2e-4)


@pytest.mark.parametrize(("rate", "scale", "epsilon"), [(0.3, 2.0, 0.4), (0.01, 0.7, 3.0), (0.8, 1.0, 6.0)])
def test_two_steps_agree_with_an_integral_over_the_first(rate: float, scale: float, epsilon: float) -> None:
    shift, order = mpf(2 / scale), mpf(epsilon)

    def rest(loss: mpf) -> mpf:
        directions = ("ADD", "REMOVE") if loss > order else ("REMOVE",)
        return max(normal_step_delta(direction, mpf(rate), shift, order - loss) for direction in directions)

    def integrand(x: mpf) -> mpf:
        ratio = 1 - rate + rate * mp.exp(shift * x - shift**2 / 2)
        return mp.npdf(x) * (ratio * rest(mp.log(ratio)) + rest(-mp.log(ratio)))

    with mp.workdps(15):
        kink = (
            mp.log((mp.exp(order) - 1 + rate) / rate) / shift + shift / 2
        )  # the first step alone loses epsilon
        cuts = [shift / 2, (shift / 2 + kink) / 2, kink, kink + 1, kink + 2, kink + 4, kink + 12]
        atom = (1 - mpf(rate)) * (2 * mp.ncdf(shift / 2) - 1)
        truth = atom * rest(mpf(0)) + mp.quad(integrand, cuts)
    found = compose(Schedule([(envelope(Noise.NORMAL, rate, scale), 2)])).log_bounds(epsilon, 1e-5)
    assert found.lower - 1e-9 <= mp.log(truth) <= found.upper + 1e-9


ENGINES = [
    (Noise.NORMAL, 0.05, 4, 1000, 4.0),
    (Noise.NORMAL, 0.01, 1, 1000, 15.0),
    (Noise.LAPLACE, 0.1, 3, 300, 3.0),
]


@pytest.mark.parametrize(("noise", "rate", "scale", "steps", "epsilon"), ENGINES)
def test_the_contour_lies_inside_the_lattice(
    noise: Noise, rate: float, scale: float, steps: int, epsilon: float
) -> None:
    schedule = Schedule([(envelope(noise, rate, scale), steps)])
    line = ContourEngine(schedule, 50_000_000).near(epsilon, 1e-6).bounds(epsilon)
    lattice = LatticeEngine(schedule).near(epsilon, 1e-4).bounds(epsilon)
    assert line.width < 1e-5
    assert lattice.width < 2e-4
    assert lattice.lower <= line.upper
    assert line.lower <= lattice.upper


@pytest.mark.parametrize(
    ("noise", "rate", "scale"), [(Noise.NORMAL, 0.05, 4), (Noise.NORMAL, 0.01, 0.7), (Noise.LAPLACE, 0.2, 1)]
)
def test_the_transform_is_as_good_as_it_says(noise: Noise, rate: float, scale: float) -> None:
    transform = EnvelopeTransform(envelope(noise, rate, scale))
    for c, height in ((0.5, 0.0), (0.5, 7.0), (4.0, 20.0)):
        coarse, fine = transform.nodes(c, height), transform.nodes(c, height, 1e-21)
        values = [nodes.weights @ np.exp(1j * height * nodes.losses) for nodes in (coarse, fine)]
        assert (
            abs(values[0] - values[1])
            <= coarse.missing_rel_error + 4 * float(coarse.weight_rel_errors.max()) + 1e-15
        )
        assert (
            abs(coarse.log_moment - fine.log_moment)
            <= coarse.missing_rel_error + 2 * coarse.log_moment_abs_error + 1e-16
        )
        bound = transform.modulus_bound(c)
        for t in (0.3, 2.0, 20.0, 60.0):
            nodes = transform.nodes(c, 3 * t)
            beyond = [abs(nodes.weights @ np.exp(1j * s * nodes.losses)) for s in np.linspace(t, 3 * t, 50)]
            assert max(beyond) <= bound(t) + 1e-13
        assert bound(60.0) < 0.999


# laws -------------------------------------------------------------------------------------------------------

LAWS = [
    (gaussian(2, batch(1, 10), 6), (0.0, 0.3, 2.0)),
    (gaussian(0.8, batch(1, 1000), 10_000), (0.0, 5.0, 15.0)),
    (laplace(2, batch(1, 2), 3), (0.0, 0.2, 0.6, 1.1)),
    (laplace(10, batch(1, 100), 1000), (0.0, 0.1, 0.3)),
    (response(0.75, batch(1, 2), 5), (0.0, 0.5, 1.5)),
]


@pytest.mark.parametrize(("run", "epsilons"), LAWS, ids=repr)
def test_the_envelope_is_never_below_any_split(run: tr.Run, epsilons: tuple[float, ...]) -> None:
    curve, remove = quick(run), remove_pair(run)
    steps = run.steps
    for epsilon in epsilons:
        found = curve.log_delta(epsilon)
        for removing in {0, 1, steps // 4, steps // 2, steps - 1, steps}:
            split = compose(Schedule([(remove, removing), (remove.reverse, steps - removing)])).log_bounds(
                epsilon, 1e-3
            )
            assert split.lower <= found.upper
            if removing in (0, steps):
                assert split.lower <= found.lower + 2e-3


@pytest.mark.parametrize(
    "run",
    [gaussian(1, batch(5, 5), 20), laplace(3, batch(5, 5), 4), response(0.75, batch(3, 3), 4)],
    ids=repr,
)
def test_a_batch_of_everybody_is_the_full_batch(run: tr.Run) -> None:
    ((step, times),) = run
    full = tr.Step(step.mechanism, tr.EveryRecord()) * times
    for epsilon in (0.0, 1.0):
        assert quick(run).delta(epsilon) == tr.delta(full, epsilon=epsilon, relation=tr.SUBSTITUTE)


def test_a_batch_of_nearly_everybody_is_nearly_the_full_batch() -> None:
    near, full = gaussian(2, batch(10**9 - 1, 10**9), 5), gaussian(2, batch(1, 1), 5)
    for epsilon in (0.0, 1.0, 8.0):
        found = quick(near, accuracy=1e-6).delta(epsilon)
        assert found.upper == pytest.approx(
            tr.delta(full, epsilon=epsilon, relation=tr.SUBSTITUTE).upper, rel=1e-4
        )


WITNESSES = [case for case in load() if case.witness is not None]


@cache
def best_witness(run: tr.Run, epsilon: mpf) -> mpf:
    return max(case.delta for case in WITNESSES if (case.run, case.epsilon) == (run, epsilon))


@pytest.mark.parametrize("case", WITNESSES, ids=lambda case: case.id)
def test_published_adversaries_lie_below_and_the_lower_end_is_as_good(case: Case) -> None:
    assert case.relation is tr.SUBSTITUTE
    found = quick(case.run).delta(float(case.epsilon))
    assert case.delta <= found.upper
    assert found.lower >= best_witness(case.run, case.epsilon) * (1 - 2e-3)


def test_mixed_runs_compose() -> None:
    run = gaussian(2, batch(1, 20), 30) + laplace(4, batch(1, 20), 5) + gaussian(5, tr.EveryRecord(), 1)
    parts = analyse(run, tr.SUBSTITUTE, tr.QUICK)[0].covers[0].schedules[0]
    assert isinstance(parts, Schedule)
    assert sorted(type(pair).__name__ for pair, _ in parts) == ["Envelope", "Envelope", "ShiftPair"]
    removing = tr.delta(run, epsilon=1, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.QUICK))
    alone = quick(gaussian(2, batch(1, 20), 30)).delta(1)
    assert alone.upper < removing.upper
    assert 0 < removing.lower < removing.upper < 1


# effort, reasons and refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize("effort", ["Quick", None, 1, True])
def test_what_is_not_an_effort_is_refused(effort: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="effort must be QUICK or TIGHT") as refusal:
        tr.delta(gaussian(1, poisson(0.1), 2), epsilon=1, relation=tr.ADD, by=tr.Certified(effort=effort))
    assert repr(effort) in str(refusal.value)
    assert (tr.QUICK, tr.TIGHT) == (Effort.QUICK, Effort.TIGHT)


def test_effort_changes_no_other_question() -> None:
    for run, relation in (
        (gaussian(1, poisson(0.1), 20), tr.SUBSTITUTE),
        (gaussian(1, batch(1, 10), 20), tr.ADD_OR_REMOVE),
        (gaussian(1, batch(10, 10), 20), tr.SUBSTITUTE),
        (gaussian(1, batch(0, 10), 20), tr.SUBSTITUTE),
        (gaussian(1, batch(1, 10), 1), tr.SUBSTITUTE),
    ):
        assert analyse(run, relation, tr.QUICK) == analyse(run, relation, tr.TIGHT)


def names(reasons: tuple[object, ...]) -> list[str]:
    return [reason.name for reason in reasons if isinstance(reason, Evidence)]


def test_the_analysis_of_a_gaussian_run_has_an_envelope_and_a_game() -> None:
    run = (
        gaussian(4, batch(1, 20), 100)
        + gaussian(1, batch(1, 50), 7)
        + laplace(3, batch(1, 9), 2)
        + gaussian(2, poisson(0.1), 3)
    )
    (analysis,) = analyse(run, tr.SUBSTITUTE, tr.TIGHT)
    assert [names(cover.because)[0] for cover in analysis.covers] == [
        "substitution_envelope",
        "substitution_game_cover",
    ]
    assert "poisson_substitute" in names(analysis.covers[1].because)
    assert "substitution_envelope" in names(analysis.covers[1].because)
    (game,) = analysis.covers[1].schedules
    assert isinstance(game, Game)
    # 100 / 400 (e^{1/4} - 1) = 0.07 and 7 / 2500 (e^4 - 1) = 0.15
    assert (game.exchange.noise, game.exchange.rate, game.exchange.distance, game.times) == (
        Noise.NORMAL,
        1 / 50,
        2.0,
        7,
    )
    assert game.others.steps == 105
    assert game.exchange.remove == remove_pair(gaussian(1, batch(1, 50), 1))
    *fixed, adaptive = analysis.witnesses
    assert not any(isinstance(witness.schedule, Game) for witness in fixed)
    # the policy looks at nothing but the steps it chooses, so the others may come anywhere between
    assert isinstance(adaptive.schedule, Game)
    assert adaptive.schedule.exchange == game.exchange
    assert remove_pair(gaussian(4, batch(1, 20), 1)) in [pair for pair, _ in adaptive.schedule.others]
    assert adaptive.schedule.others.steps == 105
    (rough,) = analyse(run, tr.SUBSTITUTE, tr.QUICK)
    assert rough.covers == analysis.covers[:1]
    assert list(rough.witnesses) == fixed
    (alone,) = analyse(gaussian(4, batch(1, 20), 100), tr.SUBSTITUTE, tr.TIGHT)
    last = alone.witnesses[-1]
    assert last.schedule == alone.covers[1].schedules[0]
    assert "chosen from all earlier outputs" in last.datasets


def test_laplace_has_a_game_below_but_none_above() -> None:
    (analysis,) = analyse(laplace(2, batch(1, 2), 3), tr.SUBSTITUTE, tr.TIGHT)
    assert len(analysis.covers) == 1
    assert isinstance(analysis.witnesses[-1].schedule, Game)
    assert len(analysis.witnesses) == 5  # four splits and the game


def test_huge_and_tiny_steps_overflow_nothing() -> None:
    far = gaussian(1e-6, batch(1, 10), 2) + gaussian(1e9, batch(1, 10), 5)
    (analysis,) = analyse(far, tr.SUBSTITUTE, tr.TIGHT)
    assert names(analysis.covers[0].because)[-1] == "substitution_envelope_alone"
    (analysis,) = analyse(far + gaussian(10, batch(1, 10), 3), tr.SUBSTITUTE, tr.TIGHT)
    (game,) = analysis.covers[1].schedules
    assert isinstance(game, Game)
    assert game.times == 3


class Refuses:
    """A composition that is out of reach."""

    log_infinite_mass = -math.inf, 0.0

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        raise NotPreciseEnough("out of reach")

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        raise NotPreciseEnough("out of reach")


NO_COVER, NO_WITNESS = ComposedCover((Refuses(),), ()), ComposedWitness((Refuses(),), "nobody")


def test_a_cover_or_witness_out_of_reach_leaves_the_answer_of_the_others() -> None:
    curve = quick(gaussian(4, batch(50, 1000), 1000))
    (branch,) = curve.branches
    fewer = replace(
        curve,
        branches=(
            replace(branch, covers=(NO_COVER, *branch.covers), witnesses=(NO_WITNESS, *branch.witnesses)),
        ),
    )
    assert fewer.delta(2) == curve.delta(2)
    assert fewer.epsilon(1e-5) == curve.epsilon(1e-5)
    for nothing in (
        replace(curve, branches=(replace(branch, covers=(NO_COVER, NO_COVER)),)),
        replace(curve, branches=(replace(branch, witnesses=(NO_WITNESS,)),)),
    ):
        with pytest.raises(NotPreciseEnough, match="out of reach"):
            nothing.delta(2)
        with pytest.raises(NotPreciseEnough, match="out of reach"):
            nothing.epsilon(1e-5)


class StandIn:
    """A game whose curve is known: ln delta = -4.5 - epsilon."""

    log_infinite_mass = -math.inf, 0.0

    def __init__(self, game: Game, progress: object, sides: object) -> None:
        self.game = game

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        # far out the real curve is lower, and two certain bounds that cross would be reported as a bug
        return LogBounds(-4.5 - epsilon - 1e-6 if epsilon < 5 else -math.inf, -4.5 - epsilon)

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        return -4.5 - math.log(delta) - 1e-6, -4.5 - math.log(delta)


def test_a_tight_answer_takes_the_better_cover_and_the_better_witness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("tightrope.engines.game.substitution")
    monkeypatch.setattr(module, "PlayedGame", StandIn, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    run = gaussian(4, batch(50, 1000), 1000)
    by = tr.Certified(effort=tr.TIGHT)
    tight, rough = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=by), quick(run)
    assert names(tight.because) == [
        "substitution_envelope",
        "dominating_pairs_compose",
        "substitution_game_cover",
    ]
    assert names(rough.because) == ["substitution_envelope", "dominating_pairs_compose"]
    assert [w.datasets for b in tight.branches for w in b.witnesses][:-1] == [
        w.datasets for b in rough.branches for w in b.witnesses
    ]
    assert names(tight.decided_by(epsilon=3).because) == [
        "substitution_game_cover",
        "dominating_pairs_compose",
    ]
    assert "chosen from all earlier outputs" in tight.decided_by(epsilon=3).reached_by
    assert names(rough.decided_by(epsilon=3).because) == ["substitution_envelope", "dominating_pairs_compose"]
    assert rough.log_delta(3).lower < -8 < -7 < rough.log_delta(3).upper
    assert tight.log_delta(3) == tr.Bracket(-7.5 - 1e-6, -7.5)
    assert tight.log_delta(8).upper == rough.log_delta(8).upper < -12.5  # where the game covers nothing
    delta = math.exp(-7.5)
    assert tight.epsilon(delta) == tr.Bracket(-4.5 - math.log(delta) - 1e-6, -4.5 - math.log(delta))
    assert tr.epsilon(
        run, delta=delta, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT)
    ) == tight.epsilon(delta)


def test_a_plan_that_is_not_a_number_is_no_internal_error() -> None:
    run = gaussian(0.06281086022097172, batch(212, 311), 100)
    try:
        assert tr.epsilon(run, delta=1e-5, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.QUICK)).upper > 0
    except tr.NotPreciseEnough as refusal:
        assert "Ask for" in str(refusal)  # noqa: PT017
