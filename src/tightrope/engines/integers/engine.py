"""One schedule in exact integers: bounds on both sides, placed where they are asked for."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest
from operator import mul

from flint import arb, ctx

from tightrope.engines.face import ABOVE, BELOW, Progress, Side
from tightrope.engines.integers.checker import (
    GUARD,
    Bound,
    LabelledOutputs,
    Lattice,
    Law,
    OutputCut,
    compose,
    cut,
    divergence,
    dominate,
    join_normals,
    largest_ratio,
    merge,
    power,
    real,
    split,
)
from tightrope.engines.integers.planning import (
    ExactPlan,
    Settings,
    Whereabouts,
    count_products,
    find_target,
    make_plan,
    outputs,
)
from tightrope.numerics.balls import ceil_float
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

KeptCuts = dict[tuple[Pair, Lattice, range], list[OutputCut]]  # both sides need the same
END_BITS = 512  # of the largest loss and the infinite mass
BISECTIONS = 200  # more than any two floats need


@dataclass(eq=False)
class ExactComposition:
    """The curve of one schedule between its bounds. Each `improve` adds bounds, and the best of all count."""

    schedule: Schedule
    _bounds: dict[Side, list[Bound]] = field(default_factory=lambda: {ABOVE: [], BELOW: []})

    @cached_property
    def _end(self) -> tuple[arb, arb]:
        """The supremum of the finite losses, and the chance of an infinite one: delta from there on."""
        with ctx.workprec(END_BITS):
            finite, largest = arb(1), arb(0)
            for pair, times in self.schedule:
                if pair.infinite_mass == 1:  # P and Q share no output
                    return arb.neg_inf(), arb(1)
                finite *= real(1 - pair.infinite_mass) ** times
                largest += times * _largest_ratio(pair).log()
            return largest, 1 - finite

    def improve(
        self,
        sides: Iterable[Side],
        known: Whereabouts,
        width: float,
        settings: Settings,
        progress: Progress | None,
    ) -> bool:
        """Add bounds on these sides near this point of the curve, about `width` apart in epsilon.

        False if finer bounds would take too long.
        """
        could_be_finer, kept = True, KeptCuts()
        for side, plan in self._plans(sides, known, width, settings):
            self._bounds[side].append(_compose(plan, side, kept, progress))
            could_be_finer = could_be_finer and not plan.is_finest
        return could_be_finer

    def foresee(
        self, sides: Iterable[Side], known: Whereabouts, width: float, settings: Settings
    ) -> tuple[float, float]:
        """About how many seconds, and how many bytes, `improve` takes."""
        plans = [plan for _, plan in self._plans(sides, known, width, settings)]
        return sum(plan.seconds for plan in plans), max((plan.memory for plan in plans), default=0.0)

    def _plans(
        self, sides: Iterable[Side], known: Whereabouts, width: float, settings: Settings
    ) -> Iterator[tuple[Side, ExactPlan]]:
        """How each side is bounded, unless nothing is left to bound there."""
        if self._end[0] <= max(known.epsilon or 0.0, 0.0):
            return
        for side in sides:
            schedule = join_normals(self.schedule, side)
            yield side, make_plan(schedule, find_target(schedule, known), width, settings)

    def above(self, epsilon: Fraction) -> arb:
        """A number that is not below delta(epsilon)."""
        largest, infinite = self._end
        if largest <= real(epsilon):
            return infinite.upper()
        return min((bound.above(epsilon) for bound in self._bounds[ABOVE]), default=arb(1))

    def below(self, epsilon: Fraction) -> arb:
        """A number that is not above delta(epsilon)."""
        found = (bound.below(epsilon, j) for bound in self._bounds[BELOW] for j in _promising(bound, epsilon))
        return max(found, default=self._end[1].lower())

    def epsilon_above(self, delta: Fraction) -> float:
        """A float that is not below the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        _, high = _bisect(lambda epsilon: not self.above(epsilon) <= real(delta), self._last)
        return high

    def epsilon_below(self, delta: Fraction) -> float:
        """A float that is not above the smallest epsilon >= 0 with delta(epsilon) <= `delta`."""
        if self._end[1].lower() > real(delta):
            return math.inf
        low, _ = _bisect(lambda epsilon: self.below(epsilon) > real(delta), self._last)
        return low

    @property
    def _last(self) -> float:
        """A float from which on no bound changes."""
        ends = [Fraction(1), *(_last_loss(bound) for bounds in self._bounds.values() for bound in bounds)]
        largest = self._end[0].upper()
        if largest.is_finite():
            ends.append(Fraction(ceil_float(largest)))
        return math.nextafter(float(max(ends)), math.inf)


def _last_loss(bound: Bound) -> Fraction:
    """A loss beyond all coefficients."""
    return (bound.law.start + bound.size + bound.law.offset) * bound.lattice.spacing


def _bisect(exceeds: Callable[[Fraction], bool], largest: float) -> tuple[float, float]:
    """Neighbouring floats, of which the first exceeds and the second does not.

    (0, 0) if 0 does not, and (largest, infinity) if the largest does.
    """
    if not exceeds(Fraction(0)):
        return 0.0, 0.0
    if exceeds(Fraction(largest)):
        return largest, math.inf
    low, high = 0.0, largest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if exceeds(Fraction(middle)) else (low, middle)
    return low, high


def _promising(bound: Bound, epsilon: Fraction) -> set[int]:
    """Labels from which on an event may be the best test; any would be valid."""
    spacing, offset, at = float(bound.lattice.spacing), float(bound.law.offset), float(epsilon)

    def gains(j: int) -> bool:
        p, q = (c[j] if j < len(c) else 0 for c in (bound.p, bound.q))
        loss = (bound.law.start + j + offset) * spacing
        return (math.log(p) - math.log(q) + loss if p and q else loss) > at

    low, high = 0, bound.size
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if gains(middle) else (middle + 1, high)
    return {min(max(j, 0), bound.size) for j in range(low - 2, low + 3)}


def _compose(plan: ExactPlan, side: Side, kept: KeptCuts, progress: Progress | None) -> Bound:
    """The bound that a plan leads to."""
    parts, bits = plan.schedule.parts, plan.lattice.bits
    products = count_products(plan.schedule)
    begun = 0

    def window(counts: list[int]) -> tuple[Fraction, Fraction]:
        nonlocal begun
        begun += 1
        if progress is not None:
            progress(begun, products)
        return plan.window(counts)

    found: Law | None = None
    counts = [0] * len(parts)
    with ctx.workprec(bits + GUARD):
        for place, (_, times) in enumerate(parts):

            def alone(n: int, place: int = place) -> tuple[Fraction, Fraction]:
                return window([n if place == each else 0 for each in range(len(parts))])

            law = power(_one_step(plan, place, side, kept), times, bits, alone)
            counts[place] = times
            found = law if found is None else compose(found, law, bits, *window(counts))
    assert found is not None
    return Bound(found, plan.lattice)


def _one_step(plan: ExactPlan, place: int, side: Side, kept: KeptCuts) -> Law:
    """One step of the pair at this place of the schedule."""
    pair, lattice, indices = plan.schedule.parts[place][0], plan.lattice, range(*plan.range_of(place))
    losses = [lattice.loss(index) for index in indices]
    if side is ABOVE:
        ratios = [loss.exp() for loss in losses]
        return dominate(_divergences(pair, losses, ratios, (lattice, indices), kept), indices[0], lattice)
    assert isinstance(pair, FinitePair | ShiftPair)  # the others dominate, and no datasets reach them
    cuts = _cut(pair, losses, (lattice, indices), kept)
    labelled = list(split(cuts, indices[0] - 1) if cuts else _label(pair, lattice, indices))
    # what lies far below its label hardly counts, and would make the coefficients of Q as large as e^label
    near = [one for one in labelled if one[0] >= indices[0] or not _is_far_below(one, lattice)]
    labelled = near or labelled[-1:]
    return merge(labelled, pair.infinite_mass, _centre(labelled, lattice, plan.target.tilt), lattice)


def _largest_ratio(pair: Pair) -> arb:
    """That of the worst label where there are several."""
    return max(map(largest_ratio, pair.pairs)) if isinstance(pair, LabelledPair) else largest_ratio(pair)


def _cut(pair: Pair, losses: list[arb], place: tuple[Lattice, range], kept: KeptCuts) -> list[OutputCut]:
    """A pair of additive noise, cut at these losses, which are those of the place; nothing for others."""
    if isinstance(pair, FinitePair):
        return []
    noisy = pair.remove if isinstance(pair, Envelope) else pair
    assert isinstance(noisy, ShiftPair)
    key = (pair, *place)
    if key not in kept:
        kept[key] = cut(noisy, outputs(noisy, losses if noisy is pair else map(abs, losses)))
    return kept[key]


def _divergences(
    pair: Pair, losses: list[arb], ratios: list[arb], place: tuple[Lattice, range], kept: KeptCuts
) -> list[arb]:
    """H_t of a pair at each of these ratios t = e^loss; of a labelled one the weighted sum of its parts'."""
    if not isinstance(pair, LabelledPair):
        each = zip_longest(ratios, _cut(pair, losses, place, kept))
        return [divergence(pair, ratio, one) for ratio, one in each]
    found = [_divergences(part, losses, ratios, place, kept) for part in pair.pairs]
    weights = [real(weight) for weight, _ in pair.parts]
    return [sum(map(mul, weights, column), arb(0)) for column in zip(*found, strict=True)]


def _is_far_below(outputs: LabelledOutputs, lattice: Lattice) -> bool:
    """Whether the label overstates the loss of these outputs by so much that their Q-mass is a burden."""
    label, p, q = outputs
    return bool(q * lattice.loss(label).exp() > p * 2**GUARD)


def _label(pair: Pair, lattice: Lattice, indices: range) -> Iterator[LabelledOutputs]:
    """Finitely many outputs, each with the last lattice loss that is not above its own, within the range."""
    for p, q in pair.levels:
        index = real(p / q).log() / lattice.loss(1) + arb(2) ** -(GUARD // 2)  # for a loss on the lattice
        yield min(max(math.floor(float(index)), indices[0] - 1), indices[-1]), real(p), real(q)


def _centre(outputs: Sequence[LabelledOutputs], lattice: Lattice, tilt: float) -> Fraction:
    """How far above its label, in spacings, a loss is on average where sums come to epsilon."""
    found = [
        (
            float(p.log()) + tilt * float(label * lattice.spacing),
            float((p / q).log() / lattice.loss(1)) - label,
        )
        for label, p, q in outputs
        if p > 0 and q > 0
    ]
    top = max((weight for weight, _ in found), default=0.0)
    inner = [(math.exp(weight - top), above) for weight, above in found if 0 <= above <= 1]  # no open end
    total = sum(weight for weight, _ in inner)
    mean = sum(weight * above for weight, above in inner) / total if total else 0.0
    return Fraction(round(mean * 2**20), 2**20)
