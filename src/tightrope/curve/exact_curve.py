"""The privacy curve between bounds in exact integers: floats are only what the ends are rounded to."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import ClassVar, Generic

from flint import arb, ctx

from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.curve.branches import Branch, DecidedEnds
from tightrope.curve.curve import Curve
from tightrope.engines.face import ABOVE, BELOW, End, Progress, Side
from tightrope.engines.integers.engine import ExactComposition
from tightrope.engines.integers.planning import LEAST_LOG_DELTA, Settings, Whereabouts
from tightrope.engines.watching import Workload, begin_work
from tightrope.errors import StopWork
from tightrope.numerics.balls import FIRST_BITS, ball, ceil_float, floor_float, log_ends_of_ball
from tightrope.theorems.evidence import Evidence

MOST_ROUNDS = 6  # finer lattices, until the bracket is as narrow as asked
ROUGH = 30  # times the width: what the first round aims at
LEAST_SHARE, USUAL_SHARE = 0.02, 0.5  # of the width: what the next round aims at
CLEARLY = 4  # times what a round aimed at: what is so far behind is not composed more finely
FIRST_ROUND = 1.2  # times the last round: what all of them take
CLOSE = 1e-9  # relative in delta: as good as equal
TINY = arb(0.9 * LEAST_LOG_DELTA).exp()  # a delta that is bounded, and not told closely


class Sought(ABC, Generic[End]):
    """A number of the curve that every composition bounds from its side."""

    @property
    @abstractmethod
    def first_guess(self) -> Whereabouts:
        """What is known of the point of the curve before anything is composed."""

    @abstractmethod
    def below(self, composition: ExactComposition, further: float = 0.0) -> End:
        """What a witness reaches, or would reach if its curve were `further` to the right."""

    @abstractmethod
    def above(self, composition: ExactComposition) -> End:
        """What a cover allows."""

    @abstractmethod
    def width(self, ends: DecidedEnds[End], reach: Callable[[float], End]) -> float:
        """How far apart in epsilon the ends are; `reach(further)` is what the best witness would reach."""

    def is_tiny(self, ends: DecidedEnds[End]) -> bool:
        """Whether it is so small that nobody looks closer."""
        return False

    @abstractmethod
    def locate(self, ends: DecidedEnds[End], width: float) -> Whereabouts:
        """What is known of it from ends that are so wide apart."""


@dataclass(frozen=True)
class EpsilonAt(Sought[float]):
    """The smallest epsilon at a delta."""

    delta: float

    @property
    def first_guess(self) -> Whereabouts:
        """On the level of delta."""
        return Whereabouts(log_delta=math.log(self.delta))

    def below(self, composition: ExactComposition, further: float = 0.0) -> float:
        """The epsilon of its curve, or of the curve moved."""
        return composition.epsilon_below(Fraction(self.delta)) + further

    def above(self, composition: ExactComposition) -> float:
        """The epsilon of its curve."""
        return composition.epsilon_above(Fraction(self.delta))

    def width(self, ends: DecidedEnds[float], reach: Callable[[float], float]) -> float:
        """upper - lower."""
        return 0.0 if ends.lower == ends.upper else ends.upper - ends.lower

    def locate(self, ends: DecidedEnds[float], width: float) -> Whereabouts:
        """In the middle, unless there is none."""
        if math.isinf(ends.upper):
            return self.first_guess
        return Whereabouts((ends.lower + ends.upper) / 2, math.log(self.delta), width)


@dataclass(frozen=True)
class DeltaAt(Sought[arb]):
    """delta at an epsilon >= 0; widths are told to a factor of 2, from `least_width` on."""

    epsilon: float
    least_width: float

    @property
    def first_guess(self) -> Whereabouts:
        """Above epsilon."""
        return Whereabouts(self.epsilon)

    def below(self, composition: ExactComposition, further: float = 0.0) -> arb:
        """delta on its curve, or on the curve moved."""
        return composition.below(Fraction(self.epsilon) - Fraction(further))

    def above(self, composition: ExactComposition) -> arb:
        """delta on its curve."""
        return composition.above(Fraction(self.epsilon))

    def width(self, ends: DecidedEnds[arb], reach: Callable[[float], arb]) -> float:
        """How far the lower curve must move to reach the upper end."""
        if ends.upper - ends.lower <= CLOSE * ends.upper:
            return 0.0
        apart = self.least_width
        while reach(apart) < ends.upper and apart < 1:
            apart *= 2
        return apart

    def is_tiny(self, ends: DecidedEnds[arb]) -> bool:
        """Whether the upper end is."""
        return bool(ends.upper < TINY)

    def locate(self, ends: DecidedEnds[arb], width: float) -> Whereabouts:
        """At epsilon and on the level of the upper end."""
        log_delta = float(ends.upper.log()) if ends.upper > 0 else None
        return Whereabouts(self.epsilon, log_delta, 4 * width)


@dataclass(frozen=True, kw_only=True)
class ExactCurve(Curve[Bracket]):
    """delta as a function of epsilon and back, in brackets about `width` wide in epsilon.

    Bounds are kept: a question near an earlier one costs nothing.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord()) * 2
    >>> print(tr.privacy_curve(run, relation=tr.REMOVE, by=tr.Exact(width=1e-6)).epsilon(0.1))
    [1.59754..., 1.59754...]
    """

    drawn_as: ClassVar[str] = ""

    branches: tuple[Branch[ExactComposition], ...]
    width: float
    settings: Settings
    has_theory_gap: bool
    reverse: Callable[[], "ExactCurve"] = field(repr=False)
    progress: Progress | None = field(default=None, repr=False)

    def _epsilons(self, deltas: list[float]) -> list[Bracket]:
        found = []
        for delta in deltas:
            ends, width = self._narrow(EpsilonAt(delta))
            found.append(self._bracket(ends.lower, ends.upper, ends, width))
        return found

    def _deltas(self, epsilons: list[float]) -> list[Bracket]:
        found = []
        for epsilon in epsilons:
            ends, width = self._delta(epsilon)
            low, high = max(floor_float(ends.lower), 0.0), min(ceil_float(ends.upper), 1.0)
            found.append(self._bracket(low, high, ends, width, is_tiny=bool(ends.upper < TINY)))
        return found

    def _log_deltas(self, epsilons: list[float]) -> list[Bracket]:
        found = []
        for epsilon in epsilons:
            ends, width = self._delta(epsilon)
            low = log_ends_of_ball(ends.lower)[0] if ends.lower > 0 else -math.inf
            high = min(log_ends_of_ball(ends.upper)[1], 0.0) if ends.upper > 0 else -math.inf
            found.append(self._bracket(low, high, ends, width, is_tiny=bool(ends.upper < TINY)))
        return found

    def _delta(self, epsilon: float) -> tuple[DecidedEnds[arb], float]:
        """delta at this epsilon, and about how far apart in epsilon the ends are."""
        if epsilon >= 0:
            return self._narrow(DeltaAt(epsilon, self.width))
        # 1 - e^epsilon + e^epsilon times what the reversed pair loses at -epsilon
        ends, width = self.reverse()._delta(-epsilon)
        with ctx.workprec(FIRST_BITS):
            base, factor = -ball(epsilon).expm1(), ball(epsilon).exp()
            lower, upper = (base + factor * end for end in (ends.lower, ends.upper))
            return replace(ends, lower=lower.lower(), upper=upper.upper()), width

    def _narrow(self, sought: Sought[End]) -> tuple[DecidedEnds[End], float]:
        """The ends by the bounds that are kept, or else by ever finer ones until they are as close as asked.

        The first are rough: they show where on the curve to look more closely, and who may decide. If the
        work is stopped, the bounds that are there count.
        """
        ends, width = self._measure(sought)
        if width <= self.width or sought.is_tiny(ends):
            return ends, width
        try:
            begin_work(self.progress, partial(self._foresee, sought))
            return self._improve(sought, ends, width)
        except StopWork:
            ends, width = self._measure(sought)
            return replace(ends, interrupted=True), width

    def _improve(
        self, sought: Sought[End], ends: DecidedEnds[End], width: float
    ) -> tuple[DecidedEnds[End], float]:
        """The ends by ever finer bounds."""
        known, aim = sought.first_guess, min(ROUGH * self.width, 1.0)
        contenders = self._sides
        for _ in range(MOST_ROUNDS):
            if width <= self.width or sought.is_tiny(ends):
                break
            could_be_finer = [
                composition.improve(sides, known, aim, self.settings, self.progress)
                for composition, sides in contenders.items()
            ]
            ends, width = self._measure(sought)
            known = sought.locate(ends, width)
            contenders = self._contenders(sought, ends, CLEARLY * aim)
            if aim <= self.width:
                if self.has_theory_gap or not all(could_be_finer):
                    break
                aim *= max(min(self.width / max(width, self.width), USUAL_SHARE), LEAST_SHARE)
            aim = min(aim, self.width)
        return ends, width

    def _measure(self, sought: Sought[End]) -> tuple[DecidedEnds[End], float]:
        """The ends by the bounds that are there, and how far apart in epsilon they are."""

        def reach(further: float) -> End:
            witnesses = (w for branch in self.branches for w in branch.witnesses)
            return max(sought.below(c, further) for w in witnesses for c in w.curves)

        ends = self._ends(sought)
        return ends, sought.width(ends, reach)

    def _foresee(self, sought: Sought[End]) -> Workload:
        """What narrowing takes, if one round after the first rough one is enough and everyone may decide."""
        found = [
            composition.foresee(sides, sought.first_guess, self.width, self.settings)
            for composition, sides in self._sides.items()
        ]
        return Workload(
            piece=(self.question, sought),
            what="products of polynomials in exact integers",
            seconds=FIRST_ROUND * sum(seconds for seconds, _ in found),
            instead="{by=Certified} answers at once",
            rounds=True,
            memory=max((memory for _, memory in found), default=0.0),
        )

    @property
    def _sides(self) -> dict[ExactComposition, tuple[Side, ...]]:
        """All that is composed, and on which sides."""
        covering = [c for branch in self.branches for cover in branch.covers for c in cover.curves]
        witnessing = [c for branch in self.branches for witness in branch.witnesses for c in witness.curves]
        return {
            composition: tuple(
                side for side, of in ((ABOVE, covering), (BELOW, witnessing)) if composition in of
            )
            for composition in dict.fromkeys(covering + witnessing)
        }

    def _contenders(
        self, sought: Sought[End], ends: DecidedEnds[End], behind: float
    ) -> dict[ExactComposition, tuple[Side, ...]]:
        """Whom closer bounds could let decide.

        A cover that allows less than what is reached never does, nor does a witness that is far behind.
        """

        def may_decide(composition: ExactComposition, side: Side) -> bool:
            if side is ABOVE:
                return not sought.above(composition) < ends.lower
            return not sought.below(composition, behind) < ends.lower

        found = {c: tuple(side for side in sides if may_decide(c, side)) for c, sides in self._sides.items()}
        return {composition: sides for composition, sides in found.items() if sides}

    def _ends(self, sought: Sought[End]) -> DecidedEnds[End]:
        """What the best witness attains and the best cover allows, in the worst branch."""
        uppers: list[tuple[End, tuple[Evidence, ...], str]] = []
        lowers: list[tuple[End, str]] = []
        for branch in self.branches:
            allowed: list[tuple[End, tuple[Evidence, ...]]] = [
                (max(map(sought.above, cover.curves)), cover.because) for cover in branch.covers
            ]
            least, because = min(allowed, key=itemgetter(0))
            uppers.append((least, because, branch.name))
            lowers += [(max(map(sought.below, w.curves)), w.datasets) for w in branch.witnesses]
        upper, _, name = max(uppers, key=itemgetter(0))
        lower, datasets = max(lowers, key=itemgetter(0))
        theorems = dict.fromkeys(evidence for _, because, _ in uppers for evidence in because)
        return DecidedEnds(lower, upper, Decision(tuple(theorems), datasets, name))

    def _bracket(
        self, lower: float, upper: float, ends: DecidedEnds[End], width: float, *, is_tiny: bool = False
    ) -> Bracket:
        gap = None
        if width > self.width:
            why = "the lattice is too coarse to bring them closer"
            remedy = "More {cells} narrow the bracket and take longer"
            if ends.interrupted:
                why, remedy = "the work on them was interrupted", ""
            elif is_tiny:
                why, remedy = "so small a delta is bounded, and not told closely", ""
            elif self.has_theory_gap:
                why = "the cover and the datasets that come closest to it do not meet"
                remedy = "{Certified} with {effort=TIGHT} may narrow the bracket"
            gap = Gap(Bracket(lower, upper).relative_width, self.width, why, remedy)
        return Bracket(lower, upper, decided_by=ends.decision, gap=gap, interrupted=ends.interrupted)
