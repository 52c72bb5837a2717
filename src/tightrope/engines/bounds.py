"""Bounds on ln delta with every error named."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Errors:
    """How much each approximation can have moved delta, relative to its upper end."""

    cells: float = 0.0
    tails: float = 0.0
    aliasing: float = 0.0
    cut_off: float = 0.0
    rounding: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all errors."""
        return self.cells + self.tails + self.aliasing + self.cut_off + self.rounding


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
        if not self.lower <= self.upper:  # also catches NaN
            raise ArithmeticError(f"bounds out of order: {self.lower} > {self.upper}")


NOTHING = LogBounds(-math.inf, -math.inf)
