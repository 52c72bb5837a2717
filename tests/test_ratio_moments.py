"""Moments of the ratio of a pass, and the curves they make: theorems/proofs/ratio_moments.md."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtr

import tightrope as tr
from tightrope.engines.choose import compose
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import ABOVE, BELOW
from tightrope.engines.passes.several_curve import SeveralPasses, passes_have_transforms
from tightrope.engines.transforms.allocated import AllocationTransform
from tightrope.engines.transforms.ratio_moments import RatioLattice, RatioLaw, RatioTable, plan_lattice
from tightrope.engines.transforms.transform import StepLine
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair


def moment(law: RatioLaw, exponent: float, height: float, *, power: int, log_error: float = -30.0) -> acb:
    table = RatioTable(law, power, plan_lattice(law, power, (exponent, exponent), abs(height), log_error))
    with ctx.workprec(table.bits):
        return table.moments(arb(exponent), [arb(height)])[0]


@pytest.mark.parametrize(
    ("noise", "batches", "seen"), [(0.3, 2, 2), (0.6, 1000, 1000), (5.0, 3, 2), (1.0, 50, 7)]
)
def test_first_two_moments_are_in_closed_form(noise: float, batches: int, seen: int) -> None:
    law = RatioLaw(1 / Fraction(noise), batches, seen)
    first, second = (moment(law, exponent, 0.0, power=4).real for exponent in (1.0, 2.0))
    with ctx.workprec(100):
        square = (arb(law.separation.numerator) / law.separation.denominator) ** 2
        exact = 1 + seen * (square.exp() - 1) / batches**2
        assert first.contains(arb(1))
        assert second.overlaps(exact)
        assert first.rad() < 1e-11
        assert second.rad() < 1e-11 * exact


FEW_BATCHES = [(noise, *few) for noise in (0.4, 1.0, 3.0) for few in ((1, 1), (2, 1), (2, 2))]


@pytest.mark.parametrize(("noise", "batches", "seen"), [*FEW_BATCHES, (1.0, 3, 3), (3.0, 3, 3)])
@pytest.mark.parametrize(("exponent", "height"), [(1.3, 0.0), (1.7, 2.0), (-0.6, 3.0), (2.9, 7.0)])
def test_quadrature_lies_inside(
    noise: float, batches: int, seen: int, exponent: float, height: float
) -> None:
    """Brute force over every output that is seen."""
    a, points = 1 / noise, 121 if seen == 3 else 801
    # tilted by the exponent normals reach further out on one side
    z = np.linspace(-9 - 1.2 * abs(exponent) * a, 9 + 1.2 * abs(exponent) * a, points)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    ratio = np.exp(a * z - a * a / 2)
    total, weight = np.array(float(batches - seen)), np.array(1.0)
    for _ in range(seen):
        total, weight = np.add.outer(total, ratio), np.multiply.outer(weight, density)
    brute = complex(((total / batches) ** (exponent + 1j * height) * weight).sum())
    size = float(((total / batches) ** exponent * weight).sum())
    law = RatioLaw(1 / Fraction(noise), batches, seen)
    found = moment(law, exponent, height, power=max(math.ceil(exponent) + 2, 2))
    room = arb(0, 1) * arb(1e-9 * size)  # of the sum over outputs, in floats
    assert (found + acb(room, room)).contains(acb(brute.real, brute.imag))
    assert found.real.rad() < 1e-9 * size


@pytest.mark.parametrize(("noise", "batches", "seen"), [(0.35, 40, 40), (0.9, 7, 3), (2.0, 3000, 3000)])
def test_other_tables_overlap(noise: float, batches: int, seen: int) -> None:
    """Each has points, cuts and a power of its own: what is not charged shows in one of them."""
    law = RatioLaw(1 / Fraction(noise), batches, seen)
    for exponent, height in [(1.2, 1.0), (1.9, 6.0), (-0.8, 2.5), (3.5, 0.5)]:
        found = [
            moment(law, exponent, height, power=power, log_error=log_error)
            for power, log_error in [(4, -2.0), (4, -8.0), (5, -16.0), (6, -30.0)]
        ]
        assert all(found[-1].real.overlaps(other.real) for other in found)
        assert all(found[-1].imag.overlaps(other.imag) for other in found)


def any_table(
    noise: float, batches: int, seen: int, power: int, lattice: tuple[float, int, int], far: float = 16.0
) -> RatioTable:
    """On a lattice that nobody would plan: what it misses is charged all the same."""
    law = RatioLaw(1 / Fraction(noise), batches, seen)
    return RatioTable(law, power, RatioLattice(*lattice, min(math.pi * noise / 3, 3.0), far, 200))


@pytest.mark.parametrize(
    ("noise", "batches", "power", "step", "far"),
    [
        (5.0, 2, 1, 0.5, 16.0),  # the step is so long that the rule misses about as much as is charged
        (2.0, 2, 3, 0.25, 16.0),
        (20.0, 1, 3, 0.125, 5.0),  # at the first points
        (1.0, 1, 0, 0.0625, 5.0),  # so much lies below the points in z
        (1.0, 1, 1, 0.125, 2.0),  # or above them
        (1.0, 1, 2, 0.125, 3.0),
    ],
)
def test_coarse_tables_hold_what_fine_ones_tell(
    noise: float, batches: int, power: int, step: float, far: float
) -> None:
    """Close to the charges, half of any of which would not be enough."""
    first, last = math.floor(-4 / step), math.ceil(5 / step)
    coarse = any_table(noise, batches, batches, power, (step, first, last), far)
    fine = any_table(noise, batches, batches, power, (step / 8, 8 * first, 8 * last))
    for one, same in zip(coarse.values, fine.values[::8], strict=True):
        assert one.overlaps(same)


@pytest.mark.parametrize(
    ("noise", "batches", "seen", "power", "lattice", "exponent", "height"),
    [
        (20.0, 1, 1, 4, (0.03515625, -79, 136), 2.9, 0.0),  # ends early below
        (1.0, 1, 1, 5, (0.29296875, -28, 22), 2.9, 0.0),
        (20.0, 2, 2, 3, (0.03515625, -318, 56), 1.0, 0.0),  # and above
        (0.25, 1, 1, 2, (0.41796875, -254, 54), 1.3, 15.0),  # so high that other periods are seen
        (0.25, 1000, 1, 3, (1.12890625, -31, 18), 1.0, 0.0),  # or so coarse
    ],
)
def test_any_lattice_holds_moments_in_closed_form(
    noise: float,
    batches: int,
    seen: int,
    power: int,
    lattice: tuple[float, int, int],
    exponent: float,
    height: float,
) -> None:
    """One batch is normal; and E[R] = 1."""
    table = any_table(noise, batches, seen, power, lattice)
    with ctx.workprec(200):
        found = table.moments(arb(exponent), [arb(height)])[0]
        w = acb(exponent, height)
        assert found.contains((w * (w - 1) / (2 * arb(noise) ** 2)).exp() if batches == 1 else acb(1))


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_line_says_how_far_it_is_off(is_reversed: bool) -> None:
    """It is asked roughly, so that this is more than rounding. One batch is normal, either way."""
    one = Allocation(ShiftPair.of_normals(Fraction(1)), 1, 1, is_reversed=is_reversed)
    line = AllocationTransform(one).line(0.7, 0.25, 8, 1e4, 10**6)
    with ctx.workprec(200):
        logs = [z * (z + 1) / 2 - arb(line.nodes.log_moment) for z in (acb(0.7, 0.25 * i) for i in range(9))]
        told = [acb(x, y) for x, y in zip(line.log_modulus, line.angle, strict=True)]
        off = [float(abs(x.exp() - y.exp())) for x, y in zip(logs, told, strict=True)]
        assert max(off) > 1e-4
        assert all(x <= y + 1e-15 for x, y in zip(off, line.abs_errors, strict=True))
        moment_off = float(abs(logs[0].exp() - 1))
    assert 1e-5 < moment_off <= line.nodes.tail_rel_error
    assert moment_off <= line.nodes.moment_rel_error


class RoughTransform(AllocationTransform):
    """Whatever is asked of it, its lines are off in the ninth digit."""

    def _make_line(self, c: float, spacing: float, count: int, target: float) -> StepLine:
        return super()._make_line(c, spacing, count, 1e7)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("epsilon", [0.8, 1.0])
def test_the_contour_charges_what_lines_miss(
    epsilon: float, is_reversed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes of one batch are full batches, whose curve is in closed form."""
    one = Allocation(ShiftPair.of_normals(Fraction(1, 2)), 1, 1, is_reversed=is_reversed)
    schedule = Schedule([(one, 4)])
    both = [ContourEngine(schedule).near(epsilon, 1e-9).bounds(epsilon)]
    monkeypatch.setattr("tightrope.engines.contour.engine.kept_transform", RoughTransform)
    both.append(ContourEngine(schedule).near(epsilon, 1e-9).bounds(epsilon))
    exact = math.log(ndtr(0.5 - epsilon) - math.exp(epsilon) * ndtr(-0.5 - epsilon))
    assert both[1].width > 1e-6 > 1e-9 > both[0].width
    for found in both:
        assert found.lower <= exact + 1e-12
        assert exact - 1e-12 <= found.upper


@pytest.mark.parametrize("seen", [4, 5])
def test_bounds_on_the_modulus_hold(seen: int) -> None:
    """That of a pass that was only begun says nothing."""
    transform = AllocationTransform(Allocation(ShiftPair.of_normals(Fraction(1)), 5, seen))
    sizes = np.exp(transform.line(0.7, 0.5, 8, 1e-9, 10**6).log_modulus)
    assert all(size <= transform.modulus_from(0.7, 0.5 * i) for i, size in enumerate(sizes) if i)


@pytest.mark.parametrize("height", [0.5, 3.0, 9.0])
def test_the_mean_of_the_outputs_bounds_the_modulus(height: float) -> None:
    law = RatioLaw(Fraction(2), 30, 30)
    at, there = (abs(moment(law, 1.4, y, power=4)) for y in (0.0, height))
    assert there <= at * (-arb(4) / 30 * arb(height) ** 2 / 2).exp()


@pytest.mark.parametrize(
    ("noise", "batches", "passes", "delta", "is_reversed"),
    [
        (0.35, 20, 20, 1e-5, True),
        (0.8, 30, 15, 1e-9, False),
        (2.0, 4, 200, 0.05, True),
        (2.0, 4, 200, 0.05, False),
        (0.6, 100, 12, 1e-6, False),
        (0.6, 200, 12, 1e-6, True),
    ],
)
def test_lattices_agree(noise: float, batches: int, passes: int, delta: float, is_reversed: bool) -> None:
    one = Allocation(ShiftPair.of_normals(1 / Fraction(noise)), batches, batches, is_reversed=is_reversed)
    schedule = Schedule([(one, passes)])
    assert passes_have_transforms(schedule)

    def refuse() -> SeveralPasses:
        raise AssertionError("the transforms decline")

    lower, upper = SeveralPasses(schedule, ABOVE, refuse).epsilon_bounds(delta, 1e-3)
    least, most = (
        compose(schedule, side).epsilon_bounds(delta, 1e-3)[i] for i, side in enumerate((BELOW, ABOVE))
    )
    assert least <= upper
    assert lower <= most
    assert upper - lower <= 1e-4
    at = (lower + upper) / 2
    here = SeveralPasses(schedule, ABOVE, refuse).log_bounds(at, 1e-3)
    assert here.lower <= math.log(delta) + 0.01
    assert math.log(delta) - 0.01 <= here.upper


def test_two_passes_of_two_batches_by_quadrature() -> None:
    """delta(1) of the composed run, over the loss of one pass in cells."""
    a = 1.25
    z = np.linspace(-9, 9, 1201)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    ratio = np.exp(a * z - a * a / 2)
    r = (np.add.outer(ratio, ratio) / 2).ravel()
    q = np.multiply.outer(density, density).ravel()
    edges = np.linspace(-20, 20, 8001)
    cell = np.digitize(np.log(r), edges)
    mass, mean = (np.bincount(cell, weights=w, minlength=len(edges) + 1) for w in (q, q * r))
    at = np.divide(mean, mass, out=np.zeros_like(mass), where=mass > 0)
    keep = mass > 1e-30
    both = np.multiply.outer(at[keep], at[keep])
    brute = float((np.maximum(both - math.e, 0) * np.multiply.outer(mass[keep], mass[keep])).sum())
    step = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.BallsInBins(batches=2))
    found = tr.delta(step * 4, epsilon=1.0, relation=tr.ADD_OR_REMOVE)
    assert found.lower <= brute * (1 + 1e-4)
    assert brute * (1 - 1e-4) <= found.upper
    assert found.upper - found.lower <= 1e-5 * found.upper


def test_a_begun_pass_and_other_steps_are_composed_with_whole_ones() -> None:
    gaussian = tr.Gaussian(noise_multiplier=0.8)
    passes = tr.Step(gaussian, tr.BallsInBins(batches=20)) * 310
    others = tr.Step(gaussian, tr.Poisson(rate=0.05)) * 100
    found, alone = (
        tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE) for run in (passes + others, passes)
    )
    apart = tr.epsilon(others, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert alone.upper < found.lower < alone.upper + apart.upper
    assert found.upper - found.lower <= 1e-3


def test_a_delta_of_passes_does_not_depend_on_what_another_curve_was_asked() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=1.0), tr.BallsInBins(batches=10)) * 100

    def ask(epsilon: float) -> tr.Bracket:
        return tr.delta(run, epsilon=epsilon, relation=tr.ADD)

    first = ask(3.001)
    ask(4.5)
    assert ask(3.001) == first
