"""What engines show: `Engine` is a row of the table, `ComposedCurve` the curve of a composed schedule."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats

if TYPE_CHECKING:  # which takes long to load
    from flint import arb

    from tightrope.pairs.schedule import Schedule

End = TypeVar("End", float, "arb")  # of a bracket
Progress = Callable[[int, int], None]  # called with (done, of) during long work


class Errors(NamedTuple):
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


def raising() -> np.errstate:
    """What overflows or is no number raises, instead of looking like a bound."""
    return np.errstate(over="raise", invalid="raise")


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
    errors: Errors = field(default_factory=Errors)

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


@contextmanager
def reaching(asked: str, other: str) -> Iterator[None]:
    """Refuse what no engine reaches in the words of the question, whatever was looked for on the way."""
    try:
        yield
    except EngineDeclines:
        remedy = f"Ask for another {other}, or for fewer {{steps}}."
        raise NotPreciseEnough(f"{asked} is out of reach of every engine", remedy) from None


@dataclass(frozen=True)
class Hint:
    """What is known before an engine is asked: about the saddle's tilt, and about ln delta.

    Where only a place is guessed, `wanted` is the ln delta that is looked for.
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


class BoundsOfMany(ABC):
    """Bounds that are made for many epsilons at once. A class says so: to look for its methods takes long."""

    @abstractmethod
    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""

    @abstractmethod
    def bound_all(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Bounds on ln delta at each of them, to the last bit those of `bounds`."""


class Recountable(ABC):
    """Bounds whose place also suits runs of the same steps that are about as long."""

    # makes the bounds of a schedule of the same pairs with other counts; None where that is no use
    recount: "Callable[[Schedule], LocalBounds] | None"

    @abstractmethod
    def bounds(self, epsilon: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""


class Engine(Protocol):
    """A way to compose one schedule, without state between questions: what helps is handed in as a hint."""

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> LocalBounds:
        """Bounds placed for `epsilon`, whose errors should each be below `tolerance`; or EngineDeclines."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineRow:
    """One line of the table: which schedules an engine applies to, and how closely it is asked.

    Rounding does not shrink with patience. Where it `is_final`, an engine that drowned in rounding is not
    asked again with more patience. Nobody is asked after an engine that `has_the_last_word`: what a closed
    form cannot tell in balls, no float can.
    """

    make: "Callable[[Schedule], Engine]"
    applies: "Callable[[Schedule], bool]"
    tolerances: Callable[[float], tuple[float, ...]] = lambda accuracy: (accuracy,)
    rounding_is_final: bool = False
    has_the_last_word: bool = False
    is_slow: bool = False
    # Its bounds serve runs that are about as long, from places so far apart in ln delta, and it declines
    # early; 0 if they are for the question alone.
    apart: float = 0.0

    def drowns(self, found: LogBounds, accuracy: float) -> bool:
        """Whether rounding keeps these bounds so far apart that no patience helps."""
        return self.rounding_is_final and found.errors.rounding > accuracy / 4

    def attempts(
        self, engine: Engine, epsilon: float, accuracy: float, hint: Hint
    ) -> Iterator[tuple[LocalBounds, LogBounds]]:
        """Bounds by that engine, ever closer, and what they say at epsilon, until it declines."""
        for tolerance in self.tolerances(accuracy):
            try:
                # an engine whose arithmetic overflows certifies nothing here
                with raising():
                    local = engine.near(epsilon, tolerance, hint)
                    found = local.bounds(epsilon)
            except (EngineDeclines, ArithmeticError, ValueError):  # ValueError: a plan that is no number
                return
            yield local, found


Table = tuple[EngineRow, ...]


class ComposedCurve(Protocol):
    """The curve of one composed schedule, for epsilon >= 0."""

    @property
    def log_infinite_mass(self) -> tuple[float, float]:
        """ln of bounds on the probability of a loss that no finite epsilon covers."""

    def log_bounds(self, epsilon: float, accuracy: float) -> LogBounds:
        """Bounds on ln delta(epsilon)."""

    def epsilon_bounds(self, delta: float, accuracy: float) -> tuple[float, float]:
        """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
