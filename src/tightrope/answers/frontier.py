"""The search for where a target stops being met: the last safe value and the first one beyond."""

import math
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tightrope.curve.bracket import Bracket

V = TypeVar("V", int, float)

FURTHEST = 3.0  # how far, in ln value, one step may lead into the unknown
MOST_TRIALS = 80
UNKNOWN = Bracket(-math.inf, math.inf)


class OutOfReach(Exception):
    """No engine can bound delta at this value."""


class Frontier(Generic[V]):
    """`safe` certainly meets the target, `beyond` certainly misses it; what lies between is open.

    `excess(value)` brackets ln delta - ln target. It grows from `safest` to `riskiest`, both above 0 and both
    possible answers. Growth only guides the search: each side is certain by itself.
    """

    def __init__(
        self,
        excess: Callable[[V], Bracket],
        *,
        safest: V,
        riskiest: V,
        close: float,
        slope: float = 8.0,
    ) -> None:
        self.excess: Callable[[V], Bracket] = excess
        self.safest: V = safest
        self.riskiest: V = riskiest
        self.close = close  # the relative gap aimed at if values are real numbers
        self.whole = isinstance(safest, int)
        self.safe: V | None = None
        self.beyond: V | None = None
        self._open: list[V] = []  # neither certainly safe nor certainly beyond
        self._seen: dict[V, Bracket] = {}
        self.slope = slope  # of the excess over the risk, about
        # of a bracket's width, how much can vary from value to value; theory's share is steady
        self.most_varying_width = math.inf
        self.follows_chords = False  # for values that take long: chords meet the target in fewer trials

    def search(self, start: V) -> None:
        """Close in from `start` until nothing between the two sides is worth trying."""
        trial: V | None = start
        last: V | None = None
        while trial is not None and len(self._seen) < MOST_TRIALS and not self._is_closed:
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

    @property
    def _is_closed(self) -> bool:
        """Whether both sides are too close for more trials; whole numbers go on until they are neighbours."""
        if self.safe is None or self.beyond is None or self.whole:
            return False
        return self._apart(self.safe, self.beyond) <= 3 * self.close

    def search_within(self, known: "Frontier[V]") -> None:
        """Close in between the two sides that wider brackets found, first near the riskier one."""
        self.safe, self.beyond = known.safe, known.beyond
        if self.safe is None or self.beyond is None:
            ends = [value for value in (self.safe, self.beyond) if value is not None]
            trial = ends[0] if ends else self.safest
        else:
            apart = self._apart(self.safe, self.beyond)
            trial = self._move(self.beyond, -min(4 * self.close, apart / 2), down=True)
        if trial != self.safe:
            self.search(trial)

    def search_again(self) -> None:
        """Forget what was open and close in once more, now that brackets are narrower."""
        tried, self._open, self._seen = self._open, [], {}
        middle = tried[len(tried) // 2] if tried else self.safe
        if middle is not None:
            self.search(middle)

    def is_wide(self, promised: float) -> bool:
        """Whether values stay open although the two sides are further apart than promised."""
        if self.safe is None or self.beyond is None or not self._open:
            return False
        if self.whole and abs(self.beyond - self.safe) <= 1:
            return False
        return self._apart(self.safe, self.beyond) > promised

    def safer(self, value: V, tries: int) -> V | None:
        """A value a little safer, by twice as much with each try; None at the end of the axis."""
        if value == self.safest:
            return None
        if self.whole:
            moved = value - 2**tries if self.riskiest > self.safest else value + 2**tries
            return type(value)(max(moved, self.safest) if moved < value else min(moved, self.safest))
        return self._move(value, -self.close / 4 * 2**tries, down=True)

    def between(self, safer: V, riskier: V) -> V | None:
        """The value halfway, or None."""
        middle = self._move(safer, self._apart(safer, riskier) / 2, down=True)
        return None if middle in (safer, riskier) else middle

    def _risk(self, value: V) -> V:
        """A key that grows with the risk."""
        return value if self.riskiest > self.safest else -value

    def _apart(self, value: V, other: V) -> float:
        """How much more risk `other` takes: the log of a quotient, so that doubling both changes nothing."""
        return math.log(other / value) if self.riskiest > self.safest else math.log(value / other)

    def _move(self, value: V, by: float, *, down: bool) -> V:
        """`value` with e^by times its risk; whole numbers are rounded `down` to less risk, or up."""
        factor = math.exp(by if self.riskiest > self.safest else -by)
        # a product, so that twice the value leads to exactly twice the value
        new = min(max(value * factor, min(self.safest, self.riskiest)), max(self.safest, self.riskiest))
        rounded = math.floor if down == (self.riskiest > self.safest) else math.ceil
        return type(value)(rounded(new) if self.whole else new)

    def _learn_slope(self, last: V, now: V) -> None:
        run = self._apart(last, now)
        before, after = self._seen[last], self._seen[now]
        rise = after.upper - before.upper
        # a rise that is not well above the width of the brackets says nothing, unless that width is steady
        noise = min(max(before.width, after.width), self.most_varying_width)
        if math.isfinite(rise) and rise * run > 0 and abs(rise) > 10 * noise:
            self.slope = min(max(rise / run, 1e-2), 1e9)

    def _trials(self, last: V) -> Iterator[V]:
        """What to try after `last`: first for the side that `last` did not settle."""
        for for_safe in (last != self.safe, last == self.safe):
            low, high = self._gap(for_safe)
            apart = math.inf if low is None or high is None else self._apart(low, high)
            if apart <= self.close / (10 if self.whole else 1):
                continue
            trial = self._aim(last, low, high, for_safe)
            # Newton's steps can creep, and where delta jumps they never stop
            count = len(self._seen)
            halve = (count % 16 == 15 or (count > 16 and count % 2 == 1)) and apart < math.inf
            if halve or not self._inside(trial, low, high):
                trial = self._between(low, high, for_safe)
            if self._inside(trial, low, high):
                yield trial

    def _inside(self, trial: V, low: V | None, high: V | None) -> bool:
        risk = self._risk(trial)
        above = low is None or self._risk(low) < risk
        below = high is None or risk < self._risk(high)
        return above and below and trial not in self._seen

    def _gap(self, for_safe: bool) -> tuple[V | None, V | None]:
        """What the next safe value, or the next one beyond, must lie between; None where nothing is known."""
        low, high = self.safe, self.beyond
        for value in self._open:
            if for_safe:
                high = value if high is None else min(high, value, key=self._risk)
            else:
                low = value if low is None else max(low, value, key=self._risk)
        return low, high

    def _aim(self, last: V, low: V | None, high: V | None, for_safe: bool) -> V:
        """Newton's step to where the upper end (or the lower end) crosses, and a little further."""
        if self.follows_chords and low is not None and high is not None:
            return self._follow_chord(low, high, for_safe)
        found = self._seen[last]
        end = found.upper if for_safe else found.lower
        step = -end / self.slope if math.isfinite(end) else math.copysign(FURTHEST, -end)
        margin = 0.0 if self.whole else self.close / 4
        step = min(max(step, -FURTHEST), FURTHEST) + (-margin if for_safe else margin)
        return self._move(last, step, down=for_safe)

    def _follow_chord(self, low: V, high: V, for_safe: bool) -> V:
        """Where the chord over a gap meets the target, and a little further, where that side is not close."""
        ends = [self._seen.get(value, UNKNOWN) for value in (low, high)]
        before, after = ((end.upper if for_safe else end.lower) for end in ends)
        share = before / (before - after) if -math.inf < before < after < math.inf else 0.5
        along = share * self._apart(low, high)
        margin = self.close / 4
        return self._move(low, along - margin if along > 2 * margin else along + margin, down=for_safe)

    def _between(self, low: V | None, high: V | None, for_safe: bool) -> V:
        """The middle of a gap, or a value further out than ever where one side is open."""
        if low is not None and high is not None:
            return self._move(low, self._apart(low, high) / 2, down=for_safe)
        if low is None:
            return self._move(min(self._seen, key=self._risk), -FURTHEST, down=True)
        return self._move(max(self._seen, key=self._risk), FURTHEST, down=False)
