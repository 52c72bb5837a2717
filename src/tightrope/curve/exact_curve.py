"""The privacy curve between bounds in exact integers: floats are only what the ends are rounded to."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import Generic, TypeVar

from flint import arb

from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.curve.curve import Curve
from tightrope.engines.face import Progress
from tightrope.engines.integers.engine import ExactComposition
from tightrope.engines.integers.planning import Question, Settings
from tightrope.numerics.balls import ceil_float, floor_float
from tightrope.theorems.evidence import Evidence

MOST_ROUNDS = 6  # finer lattices, until the bracket is as narrow as asked
ROUGH = 30  # times the width: what the first round aims at
LEAST_SHARE, USUAL_SHARE = 0.02, 0.5  # of the width: what the next round aims at
CLOSE = 1e-9  # relative in delta: as good as equal

End = TypeVar("End", float, arb)


@dataclass(frozen=True)
class ExactBranch:
    """One direction of a relation: covers with their theorems, witnesses with their datasets."""

    name: str
    covers: tuple[tuple[tuple[ExactComposition, ...], tuple[Evidence, ...]], ...]
    witnesses: tuple[tuple[ExactComposition, str], ...]

    @property
    def compositions(self) -> set[ExactComposition]:
        """All that is composed."""
        covering = {each for compositions, _ in self.covers for each in compositions}
        return covering | {composition for composition, _ in self.witnesses}


@dataclass(frozen=True)
class ExactEnds(Generic[End]):
    """A lower and an upper end, and what decided them."""

    lower: End
    upper: End
    decision: Decision


@dataclass(frozen=True, kw_only=True)
class ExactCurve(Curve[Bracket]):
    """delta as a function of epsilon and back, in brackets about `width` wide in epsilon.

    Bounds are kept: a question near an earlier one costs nothing.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord()) * 2
    >>> print(tr.privacy_curve(run, relation=tr.REMOVE, by=tr.Exact(width=1e-6)).epsilon(0.1))
    [1.59754..., 1.59754...]
    """

    branches: tuple[ExactBranch, ...]
    width: float
    settings: Settings
    has_theory_gap: bool
    reverse: Callable[[], "ExactCurve"] = field(repr=False)
    progress: Progress | None = field(default=None, repr=False)

    def _epsilons(self, deltas: list[float]) -> list[Bracket]:
        return list(map(self._epsilon, deltas))

    def _epsilon(self, delta: float) -> Bracket:
        exact, log_delta = Fraction(delta), math.log(delta)

        def ask() -> ExactEnds[float]:
            return self._ends(lambda c: c.epsilon_below(exact), lambda c: c.epsilon_above(exact))

        def width(ends: ExactEnds[float]) -> float:
            return 0.0 if ends.lower == ends.upper else ends.upper - ends.lower

        def locate(ends: ExactEnds[float]) -> Question:
            if math.isinf(ends.upper):
                return Question(log_delta=log_delta)
            return Question((ends.lower + ends.upper) / 2, log_delta, width(ends))

        ends = self._narrow(ask, width, locate, Question(log_delta=log_delta))
        return self._bracket(ends.lower, ends.upper, ends.decision, width(ends))

    def _deltas(self, epsilons: list[float]) -> list[Bracket]:
        found = []
        for epsilon in epsilons:
            ends, width = self._delta(epsilon)
            low, high = max(floor_float(ends.lower), 0.0), min(ceil_float(ends.upper), 1.0)
            found.append(self._bracket(low, high, ends.decision, width))
        return found

    def _log_deltas(self, epsilons: list[float]) -> list[Bracket]:
        found = []
        for epsilon in epsilons:
            ends, width = self._delta(epsilon)
            low = floor_float(ends.lower.log()) if ends.lower > 0 else -math.inf
            high = min(ceil_float(ends.upper.log()), 0.0) if ends.upper > 0 else -math.inf
            found.append(self._bracket(low, high, ends.decision, width))
        return found

    def _delta(self, epsilon: float) -> tuple[ExactEnds[arb], float]:
        """delta at this epsilon, and about how far the two curves are apart there, in epsilon."""
        if epsilon < 0:  # 1 - e^epsilon + e^epsilon times what the reversed pair loses at -epsilon
            ends, apart = self.reverse()._delta(-epsilon)
            base, factor = -arb(epsilon).expm1(), arb(epsilon).exp()
            lower, upper = (base + factor * end for end in (ends.lower, ends.upper))
            return ExactEnds(lower.lower(), upper.upper(), ends.decision), apart
        exact = Fraction(epsilon)

        def ask(at: Fraction = exact) -> ExactEnds[arb]:
            return self._ends(lambda c: c.below(at), lambda c: c.above(exact))

        def width(ends: ExactEnds[arb]) -> float:
            if ends.upper - ends.lower <= CLOSE * ends.upper:
                return 0.0
            apart = self.width
            while ask(exact - Fraction(apart)).lower < ends.upper and apart < 1:
                apart *= 2
            return apart

        def locate(ends: ExactEnds[arb]) -> Question:
            log_delta = float(ends.upper.log()) if ends.upper > 0 else None
            return Question(epsilon, log_delta, 4 * width(ends))

        ends = self._narrow(ask, width, locate, Question(epsilon))
        return ends, width(ends)

    def _narrow(
        self,
        ask: Callable[[], ExactEnds[End]],
        width: Callable[[ExactEnds[End]], float],
        locate: Callable[[ExactEnds[End]], Question],
        question: Question,
    ) -> ExactEnds[End]:
        """The ends by the bounds that are kept, or else by ever finer ones until they are as close as asked.

        The first are rough: they show where on the curve to look more closely.
        """
        ends, aim = ask(), min(ROUGH * self.width, 1.0)
        for _ in range(MOST_ROUNDS):
            if width(ends) <= self.width:
                break
            cells = [each.improve(question, aim, self.settings, self.progress) for each in self._compositions]
            ends = ask()
            question = locate(ends)
            if aim <= self.width:
                if self.has_theory_gap or self.settings.cells or max(cells) >= self.settings.most_cells:
                    break
                aim *= max(min(self.width / max(width(ends), self.width), USUAL_SHARE), LEAST_SHARE)
            aim = min(aim, self.width)
        return ends

    @property
    def _compositions(self) -> list[ExactComposition]:
        return list(dict.fromkeys(each for branch in self.branches for each in branch.compositions))

    def _ends(
        self, below: Callable[[ExactComposition], End], above: Callable[[ExactComposition], End]
    ) -> ExactEnds[End]:
        """What the best witness attains and the best cover allows, in the worst branch."""
        uppers: list[tuple[End, tuple[Evidence, ...], str]] = []
        lowers: list[tuple[End, str]] = []
        for branch in self.branches:
            allowed: list[tuple[End, tuple[Evidence, ...]]] = [
                (max(map(above, compositions)), because) for compositions, because in branch.covers
            ]
            least, because = min(allowed, key=itemgetter(0))
            uppers.append((least, because, branch.name))
            lowers += [(below(composition), datasets) for composition, datasets in branch.witnesses]
        upper, _, name = max(uppers, key=itemgetter(0))
        lower, datasets = max(lowers, key=itemgetter(0))
        theorems = dict.fromkeys(evidence for _, because, _ in uppers for evidence in because)
        return ExactEnds(lower, upper, Decision(tuple(theorems), datasets, name))

    def _bracket(self, lower: float, upper: float, decision: Decision, width: float) -> Bracket:
        gap = None
        if width > self.width:
            relative = Bracket(lower, upper).relative_width
            if self.has_theory_gap:
                why = "the cover and the datasets that come closest to it do not meet"
                gap = Gap(relative, self.width, why, "{Certified} with {effort=TIGHT} may narrow the bracket")
            else:
                why = "the lattice is too coarse to bring them closer"
                gap = Gap(relative, self.width, why, "More {cells} narrow the bracket and take longer")
        return Bracket(lower, upper, decided_by=decision, gap=gap)
