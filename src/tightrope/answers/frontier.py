"""Where a target stops being met: the last value that certainly meets it and the first that certainly does not."""

import math
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tightrope.curve.bracket import Bracket

V = TypeVar("V", int, float)

FURTHEST = 3.0  # how far, in ln value, one step may lead into the unknown
MOST_TRIALS = 80


class Frontier(Generic[V]):
    """`safe` certainly meets the target, `beyond` certainly misses it; what lies between is open.

    `excess(value)` brackets ln delta - ln target and grows from the value `safest` to the value `riskiest`, both of which
    may be the answer; values are above 0. Growth only guides the search: both sides are certain by themselves.
    """

    def __init__(self, excess: Callable[[V], Bracket], *, safest: V, riskiest: V, close: float) -> None:
        self.excess: Callable[[V], Bracket] = excess
        self.safest: V = safest
        self.riskiest: V = riskiest
        self.close = close  # the relative gap aimed at, where values are real numbers
        self.whole = isinstance(safest, int)
        self.safe: V | None = None
        self.beyond: V | None = None
        self._open: list[V] = []  # neither certain
        self._seen: dict[V, Bracket] = {}
        self._slope = 8.0  # of the excess over the risk; an ordinary delta falls about that fast

    def search(self, start: V) -> None:
        """Close in from `start` until nothing worth trying lies between the two sides, or only what stays open."""
        trial: V | None = start
        last: V | None = None
        while trial is not None and len(self._seen) < MOST_TRIALS:
            found = self._seen[trial] = self.excess(trial)
            if found.upper <= 0:
                self.safe = trial if self.safe is None else max(self.safe, trial, key=self._risk)
            elif found.lower > 0:
                self.beyond = trial if self.beyond is None else min(self.beyond, trial, key=self._risk)
            else:
                self._open.append(trial)
            if last is not None:
                self._learn_slope(last, trial)
            last, trial = trial, next(self._trials(trial), None)

    def search_again(self) -> None:
        """Forget what was open and close in once more: the brackets have become narrower."""
        tried, self._open, self._seen = self._open, [], {}
        middle = tried[len(tried) // 2] if tried else self.safe
        if middle is not None:
            self.search(middle)

    def is_wide(self, promised: float) -> bool:
        """Whether values stay open although the two sides are further apart than promised."""
        if self.safe is None or self.beyond is None or not self._open:
            return False
        gap = self._risk(self.beyond) - self._risk(self.safe)
        return gap > promised and not (self.whole and abs(self.beyond - self.safe) <= 1)

    def safer(self, value: V, tries: int) -> V | None:
        """A value a little safer, and a little more with each try; None at the end of the axis."""
        if value == self.safest:
            return None
        return max(value - 2**tries, self.safest) if self.whole else self._moved(value, -self.close / 4 * 2**tries, down=True)

    def _risk(self, value: V) -> float:
        """A coordinate that grows with the risk: plus or minus ln value."""
        return math.log(value) if self.riskiest > self.safest else -math.log(value)

    def _moved(self, value: V, by: float, *, down: bool) -> V:
        """`value` with `by` added to its risk; whole numbers are rounded `down` to less risk, or up to more."""
        factor = math.exp(by if self.riskiest > self.safest else -by)
        # a product, not a sum of logarithms: from twice the value it leads to exactly twice the value
        new = min(max(value * factor, min(self.safest, self.riskiest)), max(self.safest, self.riskiest))
        return type(value)((math.floor if down else math.ceil)(new) if self.whole else new)

    def _learn_slope(self, last: V, now: V) -> None:
        run = self._risk(now) - self._risk(last)
        before, after = self._seen[last], self._seen[now]
        rise = after.upper - before.upper
        # what is not well above the brackets' own width says nothing
        if math.isfinite(run) and math.isfinite(rise) and rise * run > 0 and abs(rise) > 10 * max(before.width, after.width):
            self._slope = min(max(rise / run, 1e-2), 1e9)

    def _trials(self, last: V) -> Iterator[V]:
        """What to try after `last`: first for the side that `last` did not settle."""
        for for_safe in (last != self.safe, last == self.safe):
            low, high = self._gap(for_safe)
            trial = self._aimed(last, for_safe)
            creeps = len(self._seen) % 8 == 7 and math.isfinite(high - low)  # Newton's steps may; halving does not
            if creeps or trial in self._seen or not low < self._risk(trial) < high:
                trial = self._between(low, high, for_safe)
            worth_it = high - low > (self.close / 10 if self.whole else self.close)
            if worth_it and trial not in self._seen and low < self._risk(trial) < high:
                yield trial

    def _gap(self, for_safe: bool) -> tuple[float, float]:
        """The risks strictly between which the next safe value, or the next one beyond, may lie."""
        low = -math.inf if self.safe is None else self._risk(self.safe)
        high = math.inf if self.beyond is None else self._risk(self.beyond)
        for value in self._open:
            risk = self._risk(value)
            low, high = (low, min(high, risk)) if for_safe else (max(low, risk), high)
        return low, high

    def _aimed(self, last: V, for_safe: bool) -> V:
        """Newton's step to where the upper end (or the lower end) crosses, and a little further."""
        found = self._seen[last]
        end = found.upper if for_safe else found.lower
        step = -end / self._slope if math.isfinite(end) else math.copysign(FURTHEST, -end)
        margin = 0.0 if self.whole else self.close / 4
        step = min(max(step, -FURTHEST), FURTHEST) + (-margin if for_safe else margin)
        return self._moved(last, step, down=for_safe)

    def _between(self, low: float, high: float, for_safe: bool) -> V:
        """The middle of a gap; further out than ever, as far as the axis goes, where the gap is open."""
        known = sorted(self._seen, key=self._risk)
        if math.isinf(low):
            return self._moved(known[0], -FURTHEST, down=True)
        if math.isinf(high):
            return self._moved(known[-1], FURTHEST, down=False)
        return self._moved(known[0], (low + high) / 2 - self._risk(known[0]), down=for_safe)
