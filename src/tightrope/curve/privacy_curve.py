"""The privacy curve of a run between a certified upper and lower bound."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter, itemgetter, methodcaller
from typing import TypeVar

from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.curve.branches import Branch, ComposedCover, ComposedWitness, DecidedEnds, merge_evidence
from tightrope.curve.curve import Curve, log_delta_from_reverse
from tightrope.curve.trade_off import TradeOff
from tightrope.engines.face import ComposedCurve, Errors
from tightrope.errors import InvalidSetting, NotPreciseEnough, StopWork
from tightrope.numerics import check
from tightrope.numerics.floats import SMALLEST, log_ends, next_down, next_up

Ask = Callable[[ComposedCurve], tuple[float, float]]
Source = TypeVar("Source", ComposedCover[ComposedCurve], ComposedWitness[ComposedCurve])
LOWER, UPPER = 0, 1


@dataclass(frozen=True, kw_only=True)
class PrivacyCurve(Curve[Bracket]):
    """delta as a function of epsilon and back: a number gives a Bracket, an array an array of Brackets.

    `because` lists every theorem that an upper end may rest on; `decided_by` names those that decided. Use
    `log_delta` for deltas below about 1e-308: there the lower end of `delta` is 0 and the upper end the
    smallest float. `explain_gap(relative_width, delta)` says why theory keeps the ends apart; it is None
    where theory is tight. `conditions` are those of every bracket.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE)
    >>> print(curve.epsilon(1e-6))
    [0.94719..., 0.94719...]
    >>> print(curve.decided_by(delta=1e-6).reached_by)
    D = (0, ..., 0, 1) and D' = (0, ..., 0)
    >>> curve.delta([0.5, 1.0]).shape
    (2,)
    """

    branches: tuple[Branch[ComposedCurve], ...]
    accuracy: float
    reverse: Callable[[], "PrivacyCurve"] = field(repr=False)
    explain_gap: Callable[[float, float | None], Gap] | None = field(default=None, repr=False)
    conditions: tuple[str, ...] = ()

    @property
    def leaves_a_gap(self) -> bool:
        """Whether theory, and not only arithmetic, may keep the two ends apart."""
        return self.explain_gap is not None

    @property
    def infinite_mass(self) -> Bracket:
        """delta(infinity): the chance of an output that one neighbour produces and the other cannot."""
        ends = self._ends(attrgetter("log_infinite_mass"), lambda upper: math.inf, -math.inf)
        return self._exponential(ends)

    def to_accuracy(self, accuracy: float) -> "PrivacyCurve":
        """The same curve at another accuracy; nothing is composed again."""
        return replace(self, accuracy=accuracy, reverse=lambda: self.reverse().to_accuracy(accuracy))

    def decided_by(self, *, epsilon: float | None = None, delta: float | None = None) -> Decision:
        """What decides the bracket at this epsilon or delta: the theorems above, one witness below."""
        if (epsilon is None) == (delta is None):
            must = "be given, or {delta}, and not both"
            raise InvalidSetting("epsilon", epsilon, must, "Say at which point of the curve.")
        if delta is not None:
            found = self.epsilon(delta)
        elif epsilon is not None:
            found = self.log_delta(epsilon)
        assert found.decided_by is not None
        return found.decided_by

    def error(self, epsilon: float) -> Errors:
        """How much each approximation can have moved delta, relative to delta."""
        at = abs(check.real(epsilon=epsilon)), self.accuracy
        found = []
        for branch in self.branches:
            answers = _ask(branch.covers, partial(_log_ends, *at), UPPER)
            cover, _ = min(answers, key=itemgetter(1))
            found.append(max((curve.log_bounds(*at) for curve in cover.curves), key=attrgetter("upper")))
        errors: Errors = max(found, key=attrgetter("upper")).errors
        return errors

    def trade_off(self) -> TradeOff:
        """What the best attack achieves: rates, success, posteriors; the f of f-DP.

        >>> import tightrope as tr
        >>> step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
        >>> print(tr.privacy_curve(step, relation=tr.REMOVE).trade_off().true_positive_rate(0.05))
        [0.259511..., 0.259511...]
        """
        return TradeOff(self)

    @property
    def _provided(self) -> str:
        return f", if {' and '.join(self.conditions)}" if self.conditions else ""

    def _epsilons(self, deltas: list[float]) -> list[Bracket]:
        if len(deltas) > 1:
            self.prepare(deltas)
        return list(map(self._epsilon, deltas))

    def _epsilon(self, delta: float) -> Bracket:
        lost = self._find_lost(log_ends(delta)[UPPER], math.inf) if self._lost else None
        if lost is not None:
            return self._bracket(lost.lower, lost.upper, lost, delta)
        ask, share = methodcaller("epsilon_bounds", delta, self.accuracy), 1 - self.accuracy / 10
        met = self._ask_first(ask, share.__mul__, 0.0)
        if met is not None:  # and so is narrow
            return self._state(met.lower, met.upper, met, None)
        ends = self._ask_all(ask, share.__mul__, 0.0)
        return self._bracket(ends.lower, ends.upper, ends, delta)

    def epsilons_of_longer(self, delta: float, more: int) -> list[Bracket]:
        """Epsilon of runs that repeat one step 1, 2, ... up to `more` times more; fewer where that is slow.

        Each is, to the last bit, what the run's own curve says.
        """
        if self._first is None or self._lost:
            return []
        from tightrope.engines.together import solve_longer  # which only those need who ask much

        curve, decision = self._first
        share, found = 1 - self.accuracy / 10, []
        for lower, upper in solve_longer(curve, delta, self.accuracy, more):
            if lower < share * upper:
                break
            found.append(Bracket(lower, upper, decided_by=decision, conditions=self.conditions))
        return found

    def prepare(self, deltas: list[float]) -> None:
        """Solve for these together, where the first cover and witness can, before each is asked by itself."""
        from tightrope.engines.together import keep_epsilons  # only where several are asked at once

        for branch in self.branches:
            above = [curve for cover in branch.covers[:1] for curve in cover.curves]
            below = [curve for witness in branch.witnesses[:1] for curve in witness.curves]
            for curve in dict.fromkeys(above + below):
                keep_epsilons(curve, deltas, self.accuracy)

    def _deltas(self, epsilons: list[float]) -> list[Bracket]:
        return list(map(self._exponential, self._all_log_ends(epsilons)))

    def _log_deltas(self, epsilons: list[float]) -> list[Bracket]:
        found = []
        for ends in self._all_log_ends(epsilons):
            width = -math.expm1(ends.lower - ends.upper) if ends.lower < ends.upper else 0.0  # of delta
            found.append(self._state(ends.lower, ends.upper, ends, self._gap(width, None, ends)))
        return found

    def _all_log_ends(self, epsilons: list[float]) -> list[DecidedEnds[float]]:
        """Bounds on ln delta at each; of one curve that tells both ends, many together."""
        if len(epsilons) == 1 or self._first is None or self._lost:
            return list(map(self._log_ends, epsilons))
        from tightrope.engines.together import bound_many  # only where several are asked at once

        curve, decision = self._first
        known = bound_many(curve, [epsilon for epsilon in epsilons if epsilon >= 0], self.accuracy)
        found = []
        for epsilon in epsilons:
            lower, upper = known.get(epsilon, (-math.inf, 0.0))
            is_met = lower >= self._share_log(upper) and upper <= 0
            found.append(DecidedEnds(lower, upper, decision) if is_met else self._log_ends(epsilon))
        return found

    def _share_log(self, upper: float) -> float:
        """How large ln of a lower end must be that is close enough to an upper one."""
        return upper + math.log1p(-min(self.accuracy, 0.5))

    def _log_ends(self, epsilon: float) -> DecidedEnds[float]:
        """Bounds on ln delta(epsilon)."""
        if epsilon >= 0:
            ask = partial(_log_ends, epsilon, self.accuracy)
            if (lost := self._find_lost(-SMALLEST, 0.0)) is not None:  # P and Q share no output
                return lost
            ends = self._ends(ask, self._share_log, -math.inf)
            return replace(ends, upper=min(ends.upper, 0.0))  # delta is at most 1
        ends = self.reverse()._log_ends(-epsilon)  # what the reversed pair loses at the opposite epsilon
        lower, _ = log_delta_from_reverse(epsilon, ends.lower)
        _, upper = log_delta_from_reverse(epsilon, ends.upper)
        return replace(ends, lower=lower, upper=upper)

    @cached_property
    def _lost(self) -> tuple[float, Decision] | None:
        """The most that some datasets lose for certain, as ln of its probability, and which they are."""
        found = [
            (max(curve.log_infinite_mass[LOWER] for curve in witness.curves), witness.datasets, branch.name)
            for branch in self.branches
            for witness in branch.witnesses
        ]
        log_mass, datasets, name = max(found, default=(-math.inf, "", ""))
        if log_mass == -math.inf:
            return None
        because = merge_evidence([cover.because for branch in self.branches for cover in branch.covers[:1]])
        return log_mass, Decision(because, datasets, name)

    def _find_lost(self, log_delta: float, most: float) -> DecidedEnds[float] | None:
        """Both ends are `most` if some datasets lose something infinite with probability above e^log_delta.

        No branch can say more than that, so none is asked: one that cannot answer does not matter.
        """
        if self._lost is None or self._lost[0] <= log_delta:
            return None
        return DecidedEnds(most, most, self._lost[1])

    def _ends(self, ask: Ask, enough: Callable[[float], float], least: float) -> DecidedEnds[float]:
        """What the best witness attains and the best cover allows, in the worst branch.

        If the first cover and the first witness of a branch meet to within `enough`, no other is asked.
        """
        return self._ask_first(ask, enough, least) or self._ask_all(ask, enough, least)

    def _ask_all(self, ask: Ask, enough: Callable[[float], float], least: float) -> DecidedEnds[float]:
        """The same from every branch."""
        uppers: list[tuple[ComposedCover[ComposedCurve], float, str]] = []
        lowers: list[tuple[str, float]] = [("", least)]
        stops: list[StopWork] = []
        for branch in self.branches:
            allowed = _ask(branch.covers[:1], ask, UPPER, needed=False)
            attained = _ask(branch.witnesses[:1], ask, LOWER, needed=False)
            if not (allowed and attained and attained[0][1] >= enough(allowed[0][1])):
                allowed = _ask(branch.covers, ask, UPPER, stops=stops)
                least_upper = enough(min(upper for _, upper in allowed))
                attained = _ask(branch.witnesses, ask, LOWER, least_upper, stops=stops)
            uppers.append((*min(allowed, key=itemgetter(1)), branch.name))
            lowers += [(witness.datasets, lower) for witness, lower in attained]
        _, upper, name = max(uppers, key=itemgetter(1))
        datasets, lower = max(reversed(lowers), key=itemgetter(1))
        because = merge_evidence([cover.because for cover, _, _ in uppers])
        return DecidedEnds(lower, upper, Decision(because, datasets, name), interrupted=bool(stops))

    @cached_property
    def _first(self) -> tuple[ComposedCurve, Decision] | None:
        """Of a single branch the curve that is both its first cover and its first witness, if one is."""
        if len(self.branches) > 1 or not self.branches[0].covers or not self.branches[0].witnesses:
            return None
        branch = self.branches[0]
        cover, witness = branch.covers[0], branch.witnesses[0]
        if len(cover.curves) > 1 or cover.curves != witness.curves:
            return None
        return cover.curves[0], Decision(cover.because, witness.datasets, branch.name)

    def _ask_first(
        self, ask: Ask, enough: Callable[[float], float], least: float
    ) -> DecidedEnds[float] | None:
        """Both ends by that curve, if it tells them and they meet: mostly, and a training loop asks often."""
        if self._first is None:
            return None
        curve, decision = self._first
        try:
            lower, upper = ask(curve)
        except NotPreciseEnough:
            return None
        return DecidedEnds(lower, upper, decision) if lower >= max(enough(upper), least) else None

    def _exponential(self, logs: DecidedEnds[float]) -> Bracket:
        """Probabilities from their logarithms, one float outwards: math.exp is right to an ulp.

        The upper end is 0 only if it is exactly 0.
        """
        high = 0.0 if logs.upper == -math.inf else min(next_up(math.exp(logs.upper)), 1.0)
        low = max(next_down(math.exp(logs.lower)), 0.0)
        if logs.lower == 0:  # P and Q share no output: e^0 is 1 exactly
            low = 1.0
        found = self._bracket(low, high, logs)
        if found.gap is not None and -math.expm1(logs.lower - logs.upper) <= self.accuracy:
            why = "floats cannot tell so small a delta more closely"
            gap = Gap(found.relative_width, self.accuracy, why, "Its logarithm is known as closely as asked")
            return replace(found, gap=gap)
        return found

    def _bracket(
        self, lower: float, upper: float, ends: DecidedEnds[float], delta: float | None = None
    ) -> Bracket:
        found = self._state(lower, upper, ends, None)
        gap = self._gap(found.relative_width, delta, ends)
        return found if gap is None else replace(found, gap=gap)

    def _state(self, lower: float, upper: float, ends: DecidedEnds[float], gap: Gap | None) -> Bracket:
        return Bracket(
            lower,
            upper,
            decided_by=ends.decision,
            gap=gap,
            conditions=self.conditions,
            interrupted=ends.interrupted,
        )

    def _gap(self, relative_width: float, delta: float | None, ends: DecidedEnds[float]) -> Gap | None:
        if relative_width <= self.accuracy:
            return None
        if ends.interrupted:
            return Gap(relative_width, self.accuracy, "the work on them was interrupted")
        if self.explain_gap is not None:
            return self.explain_gap(relative_width, delta)
        if delta is None:
            return Gap(relative_width, self.accuracy, "floating-point numbers tell no more here")
        why = "{accuracy} is the width in {delta}, and {epsilon} moves by more here"
        return Gap(relative_width, self.accuracy, why, "A smaller {accuracy} narrows the bracket")


def _log_ends(epsilon: float, accuracy: float, curve: ComposedCurve) -> tuple[float, float]:
    found = curve.log_bounds(epsilon, accuracy)
    return found.lower, found.upper


def _ask(
    sources: Sequence[Source],
    ask: Ask,
    end: int,
    enough: float = math.inf,
    *,
    needed: bool = True,
    stops: list[StopWork] | None = None,
) -> list[tuple[Source, float]]:
    """One end of the largest curve of each source that can answer, up to the first that is `enough`.

    One cover fewer leaves the upper end higher, one witness fewer the lower end lower: the bracket stays
    certain. If an answer is needed and no source has one, the first refusal is raised. `stops` receives those
    of sources whose work was stopped.
    """
    answers: list[tuple[Source, float]] = []
    refusal: NotPreciseEnough | None = None
    for source in sources:
        try:
            answers.append((source, max(map(itemgetter(end), map(ask, source.curves)))))
        except NotPreciseEnough as refused:
            refusal = refusal or refused
            if stops is not None and isinstance(refused, StopWork):
                stops.append(refused)
            continue
        if enough < math.inf and answers[-1][1] >= enough:
            break
    if needed and refusal is not None and not answers:
        raise refusal
    return answers
