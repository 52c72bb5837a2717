"""What the substitution game leaves out for speed: margins of FFTs, places worth nothing, far triangles."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import fft

from tightrope.engines.game import exchange_curve
from tightrope.engines.game.above import Window
from tightrope.engines.game.below import GameBelow
from tightrope.engines.game.exchange_curve import both_orders
from tightrope.engines.game.layout import SKETCH
from tightrope.engines.game.pooling import Curves, _Pooling
from tightrope.engines.game.triangles import Gram, triangle
from tightrope.numerics.floats import Floats
from tightrope.numerics.fourier import WORTH_THREADS, fast_size, threads_for
from tightrope.pairs.exchange import Exchange
from tightrope.pairs.mixture import Noise


def normal(rate: float, noise: float) -> Exchange:
    return Exchange(Noise.NORMAL, Fraction(rate), Fraction(2 / noise))


@dataclass(frozen=True)
class FixedMove:
    """A move with these tilted masses, under P and under Q."""

    masses: tuple[Floats, Floats]

    def kernel(self, window: Window, *, dual: bool) -> tuple[Floats, float]:
        return self.masses[dual], 0.0


@pytest.mark.parametrize(("below", "last", "reach"), [(20, 20, 40), (30, 12, 38), (5, 4, 15)])
def test_nothing_comes_round_the_circle_into_the_policys_window(below: int, last: int, reach: int) -> None:
    """81 and 25 points: one fewer would be fast too, and would let the ends, which are full, come round."""
    window = Window(spacing=0.1, below=below, last=last, reach=reach, tilt=0.5)
    rng = np.random.default_rng(reach)
    moves = [FixedMove((rng.random(2 * reach + 1), rng.random(2 * reach + 1))) for _ in range(3)]
    game, values = GameBelow(moves, window), rng.random((2, below + last + 1))
    assert game.size == below + last + 1 + reach == fast_size(below + last + reach) + 1
    found, chosen = game._best(values)
    exact = np.array(
        [[np.convolve(values[i], move.masses[i])[reach:-reach] for i in (0, 1)] for move in moves]
    )
    assert np.array_equal(chosen, np.argmax(exact[:, 0] - exact[:, 1], axis=0))
    assert len(set(chosen.tolist())) > 1
    for i in (0, 1):
        assert found[i] == pytest.approx(exact[chosen, i, np.arange(below + last + 1)], rel=1e-12)


@pytest.mark.parametrize("gram", [triangle(0.7, 0.3), triangle(1.5, 0.0), Gram(4.0, 0.0, 0.0)])
def test_a_curve_does_not_depend_on_the_pieces_it_is_computed_in(
    gram: Gram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on the places where a put is worth nothing: each order by itself is the same."""
    excess = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 40)])
    whole = both_orders(gram, normal(0.05, 2.0), excess, 1e-3)
    monkeypatch.setattr(exchange_curve, "AT_ONCE", 100)
    in_pieces = both_orders(gram, normal(0.05, 2.0), excess, 1e-3)
    for one, other in zip(whole, in_pieces, strict=True):
        assert one == pytest.approx(other, rel=1e-13)  # sums over nodes, whose order is numpy's
    assert (whole[1] > 0).all()
    assert whole[1][-1] < 1e-30 < whole[1][0]  # nothing but the tail's charge is left where no put is held


@pytest.mark.parametrize(("rate", "noise", "gains"), [(0.05, 4.0, False), (0.3, 1.5, True)])
def test_triangles_that_are_left_out_would_have_taught_nothing(
    rate: float, noise: float, gains: bool
) -> None:
    pooling = _Pooling(normal(rate, noise), SKETCH.quality)
    removes = pooling.removes
    middles = [box.middle for box in pooling._cut_by_variance()]
    computed: list[float] = []
    curves_of_all = pooling._curves

    def count(grams: list[Gram], coarser: float = 1.0) -> Curves:
        computed.extend([coarser] * len(grams))
        return curves_of_all(grams, coarser)

    pooling._curves = count  # type: ignore[method-assign, assignment]
    pooling._learn(middles)
    every = pooling._moments(curves_of_all(middles, coarser=1.5))
    assert pooling.best == pytest.approx(np.maximum(removes, every.max(axis=0)), rel=1e-12)
    assert (pooling.best_between is not None) == gains
    if gains:
        assert pooling.best_between == middles[int(every[:, 0].argmax())]
    assert 0 <= computed.count(1.5) < len(middles) == computed.count(6.0)


def test_threads_are_woken_for_long_transforms_and_change_no_bit() -> None:
    assert threads_for(WORTH_THREADS - 1) == 1
    assert threads_for(WORTH_THREADS) == -1
    size = fast_size(WORTH_THREADS)
    spectra = fft.rfft(np.random.default_rng(3).random((8, size)), axis=1)
    alone, shared = (fft.irfft(spectra, size, axis=1, workers=workers) for workers in (1, -1))
    assert np.array_equal(alone, shared)
