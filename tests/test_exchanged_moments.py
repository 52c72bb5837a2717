"""Moments of the two ratios of a pass with an exchanged record: theorems/proofs/exchanged_moments.md."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtr

import tightrope as tr
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import ABOVE, EngineDeclines
from tightrope.engines.lines.line import enclose_curve
from tightrope.engines.lines.plan import PassOrder
from tightrope.engines.passes.several_curve import SeveralPasses, passes_have_transforms
from tightrope.engines.transforms.exchanged import ExchangedTransform
from tightrope.engines.transforms.exchanged_moments import ExchangedTable, PairLattice, plan_pair_lattice
from tightrope.engines.transforms.make import make_transform
from tightrope.engines.transforms.pair_moments import Area, PairLaw
from tightrope.numerics.floats import Floats
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair


def moment(law: PairLaw, tilt: float, height: float, *, power: int, log_error: float = -16.0) -> acb:
    table = ExchangedTable(law, power, plan_pair_lattice(law, power, (tilt, tilt), abs(height), log_error))
    with ctx.workprec(table.bits):
        return table.moments(arb(tilt), [arb(height)])[0]


def pass_of(noise: float, batches: int, released: int | None = None) -> Allocation:
    step = ShiftPair.of_normals(1 / Fraction(noise))
    return Allocation(step, batches, batches if released is None else released, is_exchanged=True)


def law_of(noise: float, batches: int, seen: int | None = None) -> PairLaw:
    return PairLaw(1 / Fraction(noise), batches, batches if seen is None else seen)


def ratios(noise: float, batches: int, seen: int, reach: float, points: int) -> tuple[Floats, Floats, Floats]:
    """A, B and their masses over every output that is seen."""
    a = 1 / noise
    z = np.linspace(-9 - reach * a, 9 + reach * a, points)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    up, down, weight = np.array(float(batches - seen)), np.array(float(batches - seen)), np.array(1.0)
    for _ in range(seen):
        up = np.add.outer(up, np.exp(a * z - a * a / 2))
        down = np.add.outer(down, np.exp(-a * z - a * a / 2))
        weight = np.multiply.outer(weight, density)
    return up / batches, down / batches, weight


@pytest.mark.parametrize("noise", [1.0, 5.0])
@pytest.mark.parametrize("height", [0.0, 1.5])
def test_one_batch_is_in_closed_form(noise: float, height: float) -> None:
    found = moment(law_of(noise, 1), 0.75, height, power=4)
    with ctx.workprec(100):
        z = acb(0.75, height)
        exact = (2 * (arb(1) / arb(noise)) ** 2 * z * (1 + z)).exp()
        assert found.overlaps(exact)
        assert abs(found - exact).upper() < 1e-6 * (2 * (1 / noise) ** 2 * arb(0.75) * arb(1.75)).exp()


FEW = [(0.6, 2, 1), (0.8, 2, 2), (1.5, 2, 2), (3.0, 2, 1), (3.0, 2, 2)]


@pytest.mark.parametrize(("noise", "batches", "seen"), FEW)
@pytest.mark.parametrize(("tilt", "height"), [(0.4, 0.0), (1.3, 2.0), (2.5, 4.0)])
def test_quadrature_lies_inside(noise: float, batches: int, seen: int, tilt: float, height: float) -> None:
    up, down, weight = ratios(noise, batches, seen, 2 * (1 + tilt), 801)
    brute = complex((up ** (1 + tilt + 1j * height) * down ** -(tilt + 1j * height) * weight).sum())
    size = float((up ** (1 + tilt) * down**-tilt * weight).sum())
    found = moment(law_of(noise, batches, seen), tilt, height, power=math.ceil(tilt) + 4)
    off = abs(complex(float(found.real.mid()), float(found.imag.mid())) - brute)
    error = float(found.real.rad()) + float(found.imag.rad())
    assert off <= error + 1e-12 * size
    assert error < 1e-4 * size


def test_an_error_that_is_left_out_is_seen() -> None:
    """A lattice this coarse misses much, says so, and would be wrong if it did not."""
    law = law_of(1.0, 2)
    table = ExchangedTable(law, 5, plan_pair_lattice(law, 5, (1.5, 1.5), 0.0, 0.0))
    with ctx.workprec(table.bits):
        found = table.moments(arb(1.5), [arb(0)])[0].real
    close = moment(law, 1.5, 0.0, power=6, log_error=-16.0).real
    assert found.overlaps(close)
    assert not found.mid().overlaps(close)
    assert found.rad() > 1e-6


def any_lattice(
    noise: float, step: float, columns: tuple[int, int], rows: tuple[int, int], finer: int, far: float = 16.0
) -> PairLattice:
    """One that nobody would plan: what a table misses on it is charged all the same."""
    area = Area(columns, rows[1], dict.fromkeys(range(columns[0], columns[1] + 1), rows[0]))
    return PairLattice(step, area, 1.2, min(math.pi * noise / 3, 3.0), finer, far, 200)


@pytest.mark.parametrize(
    ("noise", "batches", "power", "step", "start", "far"),
    [
        (5.0, 2, 2, 0.5, -8, 16.0),  # the rule in z is so coarse that it misses about as much as is charged
        (2.0, 2, 2, 1.0, -3, 16.0),  # by what is known of smaller u and s
        (2.0, 2, 2, 1.0, 0, 16.0),
        (0.5, 2, 2, 0.25, -16, 2.0),  # so much lies below its points
        (1.0, 1, 1, 0.125, -50, 2.0),  # or above them
    ],
)
def test_coarse_ratios_hold_what_fine_ones_tell(
    noise: float, batches: int, power: int, step: float, start: int, far: float
) -> None:
    """Close to the charges, half of any of which would not be enough."""
    ends = start, start + 4
    lattice = any_lattice(noise, step, ends, ends, 1, far)
    law = law_of(noise, batches)
    coarse, fine = (
        ExchangedTable(law, power, each).list_ratios()
        for each in (lattice, replace(lattice, finer=8, far=20.0))
    )
    for (*at, one), (*same_place, same) in zip(coarse, fine, strict=True):
        assert at == same_place
        assert all(x.overlaps(y) for x, y in zip(one, same, strict=True))


@pytest.mark.parametrize(
    ("columns", "rows", "noise", "power", "step", "height"),
    [
        ((-16, 8), (-100, 8), 20.0, 2, 0.4375, 0.0),  # ends early on the left
        ((-80, 3), (-100, 8), 20.0, 2, 0.4375, 0.0),  # on the right
        ((-80, 8), (-100, 3), 20.0, 2, 0.4375, 0.0),  # above
        ((-80, 8), (-24, 8), 20.0, 2, 0.4375, 0.0),  # below
        ((-27, 7), (-27, 7), 5.0, 3, 1.5, 0.0),  # so coarse that periods of one coordinate are seen
        ((-23, 6), (-23, 6), 5.0, 2, 1.75, 3.0),  # or, as high as this, of both
    ],
)
def test_any_lattice_holds_moments_in_closed_form(
    columns: tuple[int, int], rows: tuple[int, int], noise: float, power: int, step: float, height: float
) -> None:
    """Half of what is charged beyond an end would not be enough."""
    finer = math.ceil(2 * noise * step)
    table = ExchangedTable(law_of(noise, 1), power, any_lattice(noise, step, columns, rows, finer))
    with ctx.workprec(table.bits):
        found, z = table.moments(arb(0.5), [arb(height)])[0], acb(0.5, height)
        assert found.contains((2 / arb(noise) ** 2 * z * (1 + z)).exp())


def test_tilts_without_moments_are_refused() -> None:
    table = ExchangedTable(law_of(1.0, 1), 2, any_lattice(1.0, 0.5, (-4, 4), (-4, 4), 1))
    for tilt in (-0.5, 0.0, 1.0, 1.5):
        with pytest.raises(EngineDeclines, match="tilt"):
            table.moments(arb(tilt), [arb(0)])


@pytest.mark.parametrize(("noise", "batches", "tilt", "height"), [(1.0, 50, 2.5, 3.0), (2.0, 1000, 6.0, 0.0)])
def test_tables_of_other_powers_and_heights_overlap(
    noise: float, batches: int, tilt: float, height: float
) -> None:
    law, whole = law_of(noise, batches), math.ceil(tilt)
    plans = [(whole + 3, -18.0), (whole + 5, -8.0), (whole + 6, -20.0)]
    found = [moment(law, tilt, height, power=power, log_error=error) for power, error in plans]
    assert all(one.overlaps(other) for one in found for other in found)


@pytest.mark.parametrize(("noise", "batches", "seen"), FEW)
@pytest.mark.parametrize(("upper", "lower"), [(-1.5, 0.0), (-0.5, 2.0), (0.0, 3.0), (0.6, 1.0), (2.3, 1.5)])
def test_means_are_bounded(noise: float, batches: int, seen: int, upper: float, lower: float) -> None:
    up, down, weight = ratios(noise, batches, seen, 2 * (1 + lower) + abs(upper), 1201)
    brute = float((up**upper * down**-lower * weight).sum())
    assert brute <= float(law_of(noise, batches, seen).bound_mean(arb(upper), arb(lower))) * (1 + 1e-9)


def test_the_modulus_is_bounded_by_that_of_the_mean_output() -> None:
    pair = pass_of(1.0, 20)
    bound = make_transform(pair).modulus_bound(2.0)
    law = law_of(1.0, 20)
    whole = float(abs(moment(law, 2.0, 0.0, power=6)))
    sizes = [float(abs(moment(law, 2.0, height, power=6))) / whole for height in (1.0, 3.0)]
    assert sizes[0] <= bound(1.0)
    assert sizes[1] <= bound(3.0) < bound(1.0) < 1


def test_a_single_pass_is_what_line_integrals_say() -> None:
    """They know nothing of moments."""
    noise, batches = 1.0, 3
    schedule = Schedule([(pass_of(noise, batches), 1)])
    assert passes_have_transforms(schedule)
    found = SeveralPasses(schedule, ABOVE, lambda: pytest.fail("declined")).log_bounds(1.0, 1e-3)
    low, high = enclose_curve(PassOrder(pass_of(noise, batches), 1.0), math.log(1e-9))
    assert found.lower <= math.log(high)
    assert math.log(low) <= found.upper
    assert found.width < 1e-3


def test_a_line_says_how_far_it_is_off() -> None:
    """It is asked roughly, so that this is more than rounding."""
    noise = 5.0
    line = ExchangedTransform(pass_of(noise, 1)).line(0.7, 0.25, 8, 1e2, 10**6)
    with ctx.workprec(200):
        heights = (acb(0.7, 0.25 * i) for i in range(9))
        logs = [2 / arb(noise) ** 2 * z * (1 + z) - arb(line.nodes.log_moment) for z in heights]
        told = [acb(x, y) for x, y in zip(line.log_modulus, line.angle, strict=True)]
        off = [float(abs(x.exp() - y.exp())) for x, y in zip(logs, told, strict=True)]
        moment_off = float(abs(logs[0].exp() - 1))
    assert max(off) > 1e-5
    assert all(x <= y for x, y in zip(off, line.abs_errors, strict=True))
    assert 1e-6 < moment_off <= line.nodes.tail_rel_error


@pytest.mark.parametrize(("batches", "seen"), [(2, 1), (2, 2)])
def test_a_pass_next_to_full_batches_is_what_quadrature_says(batches: int, seen: int) -> None:
    """Passes of one batch have a curve in closed form, of which the run's is a mean over the other pass."""
    noise, times, epsilon = 1.5, 2, 1.0
    up, down, weight = ratios(noise, batches, seen, 4.0, 801)
    apart, t = 2 * math.sqrt(times) / noise, epsilon - np.log(up / down)
    full = ndtr(apart / 2 - t / apart) - np.exp(t) * ndtr(-apart / 2 - t / apart)
    exact = math.log((up * full * weight).sum())
    schedule = Schedule([(pass_of(noise, 1), times), (pass_of(noise, batches, seen), 1)])
    found = ContourEngine(schedule).near(epsilon, 1e-7).bounds(epsilon)
    assert found.lower <= exact + 1e-11
    assert exact - 1e-11 <= found.upper
    assert found.width < 1e-6


def test_simulation_agrees() -> None:
    """Three passes of five batches and two batches more, drawn: 2 % of delta would be seen."""
    noise, batches, passes, begun, epsilon, draws = 1.5, 5, 3, 2, 1.0, 200_000
    source, a = np.random.default_rng(19), 1 / noise
    losses = np.zeros(draws)
    for seen in [batches] * passes + [begun]:
        z = source.standard_normal((draws, batches))
        z[np.arange(draws), source.integers(batches, size=draws)] += a
        z = z[:, :seen]
        up, down = (np.exp(sign * a * z - a * a / 2).sum(axis=1) + batches - seen for sign in (1, -1))
        losses += np.log(up / down)
    gains = -np.expm1(np.minimum(epsilon - losses, 0.0))
    spread = 5 * float(gains.std()) / math.sqrt(draws)
    assert spread < 0.02 * float(gains.mean())
    step = tr.Step(tr.Gaussian(noise_multiplier=noise), tr.BallsInBins(batches=batches))
    found = tr.delta(step * (batches * passes + begun), epsilon=epsilon, relation=tr.SUBSTITUTE)
    assert found.lower - spread <= float(gains.mean()) <= found.upper + spread
    assert found.upper - found.lower < 1e-3 * found.upper
