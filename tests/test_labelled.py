"""A pair whose label tells which of several it is: every engine against the sum over how labels may fall."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tightrope.engines.choose import compose
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.draws.losses import tilted_source
from tightrope.engines.face import Engine
from tightrope.engines.lattice.engine import LatticeEngine
from tightrope.engines.lattice.jumps import BigJumpEngine
from tightrope.engines.moments.step import log_moment_bound, log_moment_ends
from tightrope.engines.one_step.atoms import merge, spread
from tightrope.engines.one_step.cells import cut
from tightrope.engines.transforms.labelled import Shares
from tightrope.numerics.balls import float_ends
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

ENGINES: dict[str, Callable[[Schedule], Engine]] = {
    "contour": lambda schedule: ContourEngine(schedule, 50_000_000),
    "lattice": lambda schedule: LatticeEngine(schedule, longest=1 << 19),
    "jumps": lambda schedule: BigJumpEngine(schedule, longest=1 << 19),
}


def remove(rate: Fraction, shift: Fraction) -> ShiftPair:
    return ShiftPair(Mixture(Noise.NORMAL, rate, shift), Mixture(Noise.NORMAL))


def labelled(kind: str, rate: Fraction, shift: Fraction, weight: Fraction) -> LabelledPair:
    usual, full = remove(rate, shift), remove(rate, 2 * shift)
    pairs: dict[str, tuple[Pair, Pair]] = {
        "remove": (usual, full),
        "add": (usual.reverse, full.reverse),
        "substitute": (ShiftPair(usual.observed, usual.observed.mirrored), full.envelope),
    }
    first, second = pairs[kind]
    return LabelledPair(((1 - weight, first), (weight, second)))


@cache
def sum_over_labels(pair: LabelledPair, steps: int, epsilon: float, accuracy: float) -> tuple[float, float]:
    """Bounds on delta from runs with each number of steps that have the second label."""
    (_, first), (weight, second) = pair.parts
    low = high = 0.0
    for often in range(steps + 1):
        chance = float(math.comb(steps, often) * weight**often * (1 - weight) ** (steps - often))
        bounds = compose(Schedule([(first, steps - often), (second, often)])).log_bounds(epsilon, accuracy)
        low, high = low + chance * math.exp(bounds.lower), high + chance * math.exp(bounds.upper)
    return low * (1 - 1e-12), high * (1 + 1e-12)


CASES = [
    ("remove", Fraction(1, 50), Fraction(1), Fraction(1, 10), 5, 0.3),
    ("remove", Fraction(1, 100), Fraction(1), Fraction(1, 10**6), 12, 0.05),
    ("remove", Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), 6, 0.5),
    ("add", Fraction(1, 50), Fraction(1), Fraction(1, 10), 5, 0.02),
    ("add", Fraction(1, 3), Fraction(1, 2), Fraction(1, 10**9), 6, 0.4),
    ("substitute", Fraction(1, 50), Fraction(1), Fraction(1, 10), 5, 0.3),
    ("substitute", Fraction(1, 4), Fraction(1, 3), Fraction(1, 1000), 3, 0.2),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kind", "rate", "shift", "weight", "steps", "epsilon"), CASES)
def test_every_engine_composes_what_the_sum_over_labels_gives(
    engine: str, kind: str, rate: Fraction, shift: Fraction, weight: Fraction, steps: int, epsilon: float
) -> None:
    pair = labelled(kind, rate, shift, weight)
    found = ENGINES[engine](Schedule([(pair, steps)])).near(epsilon, 1e-3).bounds(epsilon)
    low, high = sum_over_labels(pair, steps, epsilon, 1e-6)
    assert math.exp(found.lower) <= high
    assert low <= math.exp(found.upper)
    assert found.width < 0.05


@pytest.mark.parametrize(("kind", "rate", "shift", "weight", "steps", "epsilon"), CASES)
def test_one_step_is_the_weighted_sum_of_two_formulas(
    kind: str, rate: Fraction, shift: Fraction, weight: Fraction, steps: int, epsilon: float
) -> None:
    pair = labelled(kind, rate, shift, weight)
    found = compose(Schedule([(pair, 1)])).log_bounds(epsilon, 1e-9)
    low, high = sum_over_labels(pair, 1, epsilon, 1e-9)
    assert math.exp(found.lower) <= high
    assert low <= math.exp(found.upper) * (1 + 1e-15)
    assert found.upper == -math.inf or found.width < 1e-12


@pytest.mark.parametrize("kind", ["remove", "add", "substitute"])
def test_cells_hold_the_masses_of_all_parts(kind: str) -> None:
    pair = labelled(kind, Fraction(1, 20), Fraction(1), Fraction(1, 8))
    cells = cut(pair, np.linspace(-2, 2, 81))
    assert np.exp(cells.log_masses_above).sum() == pytest.approx(1)
    assert np.all(cells.log_masses_below <= cells.log_masses_above)
    above, below = spread(cells), merge(cells)
    for epsilon in (0.02, 0.1, 1.0):
        exact = compose(Schedule([(pair, 1)])).log_bounds(epsilon, 1e-9)
        assert below.delta(epsilon) <= math.exp(exact.upper)
        assert math.exp(exact.lower) <= above.delta(epsilon) + 1e-15


@pytest.mark.parametrize("kind", ["remove", "add", "substitute"])
@pytest.mark.parametrize("tilt", [0.5, 3.0, 40.0])
def test_a_moment_is_the_weighted_sum_of_the_parts(kind: str, tilt: float) -> None:
    pair = labelled(kind, Fraction(1, 20), Fraction(1), Fraction(1, 8))
    low, high = log_moment_ends(pair, tilt)
    ends = [log_moment_ends(part, tilt) for part in pair.pairs]
    direct = np.logaddexp.reduce([log_w + e[0] for log_w, e in zip(pair.log_weights, ends, strict=True)])
    assert low == pytest.approx(float(direct), rel=1e-9, abs=1e-12)
    assert low <= high <= float_ends(log_moment_bound(pair, Fraction(tilt)))[1]


def test_log_moments_next_to_zero_keep_their_relative_accuracy() -> None:
    weights = (Fraction(999, 1000), Fraction(1, 1000))
    logs = [3e-18, 5e-17]
    found = Shares.of(tuple(math.log(float(weight)) for weight in weights), logs, [0.0, 0.0])
    exact = sum(float(weight) * log for weight, log in zip(weights, logs, strict=True))
    assert found.log_moment == pytest.approx(exact, rel=1e-14)
    assert found.log_moment_abs_error < 1e-13 * exact


def test_a_label_that_weighs_nothing_does_not_hide_a_huge_moment() -> None:
    found = Shares.of((math.log1p(-1e-100), math.log(1e-100)), [1e-9, 900.0], [0.0, 0.0])
    assert found.log_moment == pytest.approx(900 + math.log(1e-100))
    assert found.shares[1] == pytest.approx(1)


@pytest.mark.parametrize("kind", ["remove", "add", "substitute"])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_drawn_losses_have_the_tilted_mean(kind: str, tilt: float) -> None:
    pair = labelled(kind, Fraction(1, 5), Fraction(1), Fraction(1, 4))
    losses = tilted_source(pair, tilt).draw(np.random.default_rng(3), 40_000, 6)

    def log_moment(c: float) -> float:
        """Of P where c is 0; M(c) = M(-1 - c) of the reverse, with which derivatives at 0 are taken."""
        return log_moment_ends(pair, c)[0] if c > 0 else 0.0

    step = 1e-4
    mean = (log_moment(tilt + step) - log_moment(tilt)) / step
    assert losses.mean() == pytest.approx(6 * mean, abs=6 * losses.std() / math.sqrt(40_000) + 6e-3)


def test_a_pair_and_its_reverse() -> None:
    pair = labelled("remove", Fraction(1, 20), Fraction(1), Fraction(1, 8))
    assert pair.reverse.reverse == pair
    assert pair.reverse == labelled("add", Fraction(1, 20), Fraction(1), Fraction(1, 8))
    assert pair.reverse.loss_range == pytest.approx((-math.inf, -math.log(0.95)))
    assert pair.total_variation <= max(part.total_variation for part in pair.pairs)
    delta = compose(Schedule([(pair, 1)])).log_bounds(0.0, 1e-6)
    assert math.exp(delta.upper) <= pair.total_variation
    assert sorted([pair, pair.reverse], key=lambda each: each.sort_key)


@pytest.mark.parametrize("log_mass", [-3.0, -12.0, -80.0])
def test_a_quantile_leaves_no_more_than_its_mass(log_mass: float) -> None:
    pair = labelled("remove", Fraction(1, 20), Fraction(2), Fraction(1, 10**4))
    quantile = pair.loss_quantile(log_mass)
    beyond = 0.0
    for weight, part in pair.parts:
        assert isinstance(part, ShiftPair)
        x = part.output_at(np.array([quantile]))
        beyond += float(weight) * math.exp(float(part.observed.log_between(x, np.array([np.inf]))[0]))
    assert beyond <= math.exp(log_mass)


def test_weights_that_are_no_chances_and_parts_without_sampling_are_refused() -> None:
    good = remove(Fraction(1, 2), Fraction(1))
    with pytest.raises(ValueError, match="sum to 1"):
        LabelledPair(((Fraction(1, 2), good), (Fraction(1, 3), good)))
    with pytest.raises(ValueError, match="sampled normal noise"):
        LabelledPair(((Fraction(1, 2), good), (Fraction(1, 2), ShiftPair.of_normals(1))))
    with pytest.raises(ValueError, match="no largest loss"):
        labelled("add", Fraction(1, 2), Fraction(1), Fraction(1, 2)).log_masses_at_top(0.1)
