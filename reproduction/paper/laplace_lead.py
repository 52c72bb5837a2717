"""Who loses more for sampled Laplace steps, ADD or REMOVE: certified at every epsilon > 0."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import tightrope as tr
from reproduction.paper.laplace_lattice import LaplaceStep, Lattice
from tightrope.curve.bracket import Bracket

NEAR_0 = 1e-3  # up to here the curves, which meet at 0, are told apart by their slopes
LATTICE_ENDS = 1.0  # beyond, curves get small, and the package's brackets are relative
AROUND = 2e-3  # how far around a crossing its being the only one rests on slopes
FINEST = 1e-7  # the shortest stretch that is worth a try
COARSE = 1 << 13

Curve = Callable[[float], Bracket]


@dataclass(frozen=True)
class Lead:
    """Who loses more: ADD below `crossing` and REMOVE beyond it; without a crossing, REMOVE everywhere."""

    steps: int
    crossing: Bracket | None


def find_lead(step: LaplaceStep, steps: int, cells: int) -> Lead:
    """Who loses more, proved at every epsilon > 0; refused where neither shape of `Lead` can be proved."""
    coarse = Lattice(step, steps, min(cells, COARSE))
    add_first = coarse.lead_of_add(10 * NEAR_0).lower > 0
    crossing = find_crossing(coarse, Lattice(step, steps, cells)) if add_first else None
    if not all(_proofs(coarse, crossing)):
        raise tr.NotPreciseEnough(
            f"Who loses more at every epsilon of {steps} steps is not certain", "Take more cells."
        )
    return Lead(steps, crossing)


def find_crossing(coarse: Lattice, fine: Lattice) -> Bracket:
    """The two ends certainly have opposite signs: ADD loses more at the lower, REMOVE at the upper one."""
    start = 10 * NEAR_0
    roughly = bisect(lambda epsilon: coarse.lead_of_add(epsilon).lower > 0, start, LATTICE_ENDS)
    low, high = roughly - AROUND, roughly + AROUND
    lower = bisect(lambda epsilon: fine.lead_of_add(epsilon).lower > 0, low, high)
    upper = -bisect(lambda opposite: fine.lead_of_add(-opposite).upper < 0, -high, -low)
    if not (fine.lead_of_add(lower).lower > 0 > fine.lead_of_add(upper).upper):
        raise ArithmeticError(f"the crossing near {roughly!r} is not certain at {lower!r} and {upper!r}")
    return Bracket(lower, upper)


def bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number found at which `holds`, which is true at `low` and false at `high`, to 1e-13."""
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _proofs(lattice: Lattice, crossing: Bracket | None) -> list[bool]:
    """Whether each stretch of epsilon > 0 is proved, from left to right; REMOVE leads beyond ADD's losses."""
    last = -lattice.steps * math.log(lattice.step.least)
    end = min(LATTICE_ENDS, last)
    if crossing is None:
        near = [leads_from_0(lattice.remove, lattice.add), leads(lattice.remove, lattice.add, NEAR_0, end)]
    else:
        low, high = crossing.lower - AROUND, crossing.upper + AROUND
        near = [
            leads_from_0(lattice.add, lattice.remove),
            leads(lattice.add, lattice.remove, NEAR_0, low),
            lead_falls(lattice, low, high),
            leads(lattice.remove, lattice.add, high, end),
        ]
    if end == last:
        return near
    step = lattice.step
    run = tr.Step(tr.Laplace(noise_multiplier=1 / step.shift), tr.Poisson(rate=step.rate)) * lattice.steps
    add, remove = (
        tr.privacy_curve(run, relation=relation, by=tr.Certified(accuracy=1e-4))
        for relation in (tr.ADD, tr.REMOVE)
    )
    return [*near, leads(remove.delta, add.delta, end, last)]


def leads(leader: Curve, other: Curve, start: float, goal: float) -> bool:
    """Whether the leader is certainly larger at every epsilon from `start` to `goal`.

    Both curves fall: if the leader at the right end of a stretch exceeds the other at its left end, it leads
    on all of it.
    """
    at, step = start, (goal - start) / 8
    above = other(at).upper
    while at < goal:
        there = min(at + step, goal)
        if leader(there).lower > above:
            at, above, step = there, other(there).upper, 1.5 * step
        else:
            step /= 2
        if step < FINEST:
            return False
    return True


def leads_from_0(leader: Curve, other: Curve) -> bool:
    """Whether the leader exceeds the other on 0 < epsilon <= NEAR_0.

    At 0 both are the total variation distance. Both are convex in t = e^epsilon: right of 1 the leader falls
    no faster than left of it, and the other lies below its chord.
    """
    slowest = steepness(leader, -NEAR_0, 0.0).upper
    fastest = steepness(other, 0.0, NEAR_0).lower
    return slowest < fastest


def lead_falls(lattice: Lattice, low: float, high: float) -> bool:
    """Whether ADD's delta less REMOVE's falls strictly from `low` to `high`, so that it is 0 only once.

    In between, ADD falls at least as fast as right of `high`, and REMOVE at most as fast as left of `low`.
    """
    return (
        steepness(lattice.add, high, high + AROUND).lower > steepness(lattice.remove, low - AROUND, low).upper
    )


def steepness(curve: Curve, low: float, high: float) -> Bracket:
    """How fast delta falls in t = e^epsilon between two epsilons: minus the slope of the chord."""
    left, right = curve(low), curve(high)
    run = math.exp(low) * math.expm1(high - low)
    slope_abs_error = 1e-14 / run  # the quotient and the exponential, rounded
    return Bracket(
        (left.lower - right.upper) / run - slope_abs_error, (left.upper - right.lower) / run + slope_abs_error
    )
