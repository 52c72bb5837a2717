"""Single passes of little noise in which a record is exchanged: theorems/proofs/turned_curve.md."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx

import tightrope as tr
from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder
from tightrope.engines.passes.line_pass import LinePass
from tightrope.engines.passes.turned_pass import TurnedPass, cross_turned, enclose_turned
from tightrope.engines.transforms.pair_moments import PairLaw
from tightrope.engines.transforms.turned_products import CloseProducts
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.shift_pair import ShiftPair


def pass_of(noise: str, batches: int, released: int | None = None) -> Allocation:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    return Allocation(step, batches, released or batches, is_exchanged=True)


def decline() -> TurnedPass:
    raise AssertionError("nothing else should be asked")


@pytest.mark.parametrize(("noise", "batches", "delta"), [("0.7", 5, 1e-3), ("0.8", 20, 1e-6)])
def test_crossings_are_those_of_line_integrals(noise: str, batches: int, delta: float) -> None:
    pair = pass_of(noise, batches)
    low, high = cross_turned(pair, delta, 1e-3)
    least, most = LinePass(pair, decline).epsilon_bounds(delta, 1e-3)
    assert max(low, least) <= min(high, most)
    assert high - low < 1e-4


@pytest.mark.parametrize("epsilon", [0.0, 2.5])
def test_orders_are_those_of_line_integrals(epsilon: float) -> None:
    pair, law = pass_of("0.7", 5), PairLaw(1 / Fraction("0.7"), 5, 5)
    low, high = enclose_turned(law, epsilon, math.log(1e-9))
    least, most = enclose_curve(PassOrder(pair, epsilon), math.log(1e-9))
    assert max(low, least) <= min(high, most)
    assert high - low < 1e-7


def test_few_batches_are_told() -> None:
    """Noise .5, three batches: lines are too long, and little else tells one pass of few batches."""
    step = tr.Step(tr.Gaussian(noise_multiplier=0.5), tr.BallsInBins(batches=3))
    found = tr.epsilon(step * 3, delta=1e-6, relation=tr.SUBSTITUTE)
    assert found.upper - found.lower < 1e-4


def test_deltas_that_epsilon_0_reaches_need_none() -> None:
    law = PairLaw(Fraction(2), 300, 300)
    _, most = enclose_turned(law, 0.0, math.log(1e-6))
    assert cross_turned(pass_of("0.5", 300), most, 1e-3) == (0.0, 0.0)


def test_bounds_on_delta_are_as_close_as_asked() -> None:
    turned = TurnedPass(pass_of("0.5", 4), decline, lines_are_left=False)
    found = turned.log_bounds(8.0, 1e-4)
    assert 0 < found.upper - found.lower < 1e-4


@pytest.mark.parametrize(("noise", "released"), [("0.5", 3), ("1.5", 4)])
def test_passes_begun_or_with_more_noise_are_left_to_others(noise: str, released: int) -> None:
    with pytest.raises(EngineDeclines):
        cross_turned(pass_of(noise, 4, released), 1e-6, 1e-3)


def test_products_do_not_depend_on_what_else_is_told() -> None:
    with ctx.workprec(120):
        products = CloseProducts(arb(2), arb("0.05"), 30.0, -40, 40)
        owns, others = (-20, -10, 0, 10), (5, 15, 25, 35)
        together = products.tell([(own, other) for own in owns for other in others])
        alone = products.tell(list(zip(owns, others, strict=True)))
        for at, one in alone.items():
            assert one.overlaps(together[at])
            assert one.real.rad() < 1e-9 * abs(one)
        assert len(together) == 16
