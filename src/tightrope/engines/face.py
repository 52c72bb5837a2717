"""What engines show: `Engine` is a row of the table, `ComposedCurve` the curve of a composed schedule."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:  # which takes long to load
    from flint import arb

    from tightrope.pairs.schedule import Schedule

End = TypeVar("End", float, "arb")  # of a bracket
Progress = Callable[[int, int], None]  # called with (done, of) during long work


@dataclass(frozen=True)
class Errors:
    """How much each approximation can have moved delta, relative to its upper end.

    `discretisation` is what finitely many losses miss of a continuum: cells on a lattice, quadrature nodes on
    a contour, the width of the stretch below the largest loss.
    """

    discretisation: float = 0.0
    tails: float = 0.0
    aliasing: float = 0.0
    cut_off: float = 0.0
    rounding: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all errors."""
        return self.discretisation + self.tails + self.aliasing + self.cut_off + self.rounding


class Side(Enum):
    """On which side of the truth a bound, or a discretised step, lies."""

    ABOVE = "above"
    BELOW = "below"


ABOVE, BELOW = Side.ABOVE, Side.BELOW


class Contradiction(Exception):
    """Two certified bounds that cannot both be true: a bug, which nothing may hide."""


def check_order(lower: End, upper: End) -> None:
    """Refuse bounds that are no numbers, for which an engine is to blame, or that cross, which is a bug."""
    if math.isnan(lower) or math.isnan(upper):
        raise ArithmeticError(f"bounds that are not numbers: {lower} and {upper}")
    if lower > upper:
        raise Contradiction(f"the certified lower bound {lower!r} exceeds the upper bound {upper!r}")


@dataclass(frozen=True)
class LogBounds:
    """ln of a lower and an upper bound on delta; -inf below where nothing positive is certified."""

    lower: float
    upper: float
    errors: Errors = Errors()

    @property
    def width(self) -> float:
        """The relative width (upper - lower) / upper."""
        if self.upper == -math.inf:
            return 0.0
        return -math.expm1(self.lower - self.upper)

    def __post_init__(self) -> None:
        check_order(self.lower, self.upper)


NOTHING = LogBounds(-math.inf, -math.inf)
FAR = 2.0  # of ln delta, from one that is looked for


class EngineDeclines(Exception):
    """Raised by an engine that cannot do it, or not in reasonable time; another one is asked."""


@dataclass(frozen=True)
class Hint:
    """What is known before an engine is asked: about the saddle's tilt, and about ln delta.

    Where only a place is guessed, `wanted` is the ln delta that it is looked for.
    """

    tilt: float = 1.0
    log_delta: float | None = None
    wanted: float | None = None

    def is_far(self, found: LogBounds) -> bool:
        """Whether these bounds are certain that the place is elsewhere: closer ones would be of no use."""
        if self.wanted is None:
            return False
        return found.upper < self.wanted - FAR or found.lower > self.wanted + FAR


NO_HINT = Hint()


class LocalBounds(Protocol):
    """Certified bounds at any epsilon, tight near the one they were made for."""

    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""


@runtime_checkable
class Recountable(LocalBounds, Protocol):
    """Bounds whose place also suits runs of the same steps that are about as long."""

    @property
    def recount(self) -> "Callable[[Schedule], LocalBounds] | None":
        """Makes the bounds of a schedule of the same pairs with other counts; None where that is no use."""


class Engine(Protocol):
    """A way to compose one schedule, without state between questions: what helps is handed in as a hint."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> LocalBounds:
        """Bounds placed for `epsilon`, whose errors should each be below `tolerance`; or EngineDeclines."""


class ComposedCurve(Protocol):
    """The curve of one composed schedule, for epsilon >= 0."""

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of bounds on the probability of a loss that no finite epsilon covers."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
