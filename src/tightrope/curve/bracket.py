"""A certified interval around a number nobody knows exactly."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bracket:
    """`lower` <= truth <= `upper`. The upper end is the guarantee; the lower end is reached by real datasets.

    A bracket never turns itself into a float: say which end you mean.

    >>> b = Bracket(0.5, 0.75)
    >>> 0.6 in b, b.width
    (True, 0.25)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ArithmeticError(f"a bracket needs lower <= upper, got {self.lower!r} and {self.upper!r}")

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    @property
    def width(self) -> float:
        """upper - lower; 0 where both are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """(upper - lower) / upper; 0 where the ends agree."""
        return self.width / abs(self.upper) if self.width else 0.0

    def __float__(self) -> float:
        raise TypeError(
            "a Bracket is two numbers: use .upper for the guarantee or .lower for what is attained"
        )

    def __str__(self) -> str:
        """The digits both ends share, then the ends: enough digits to tell them apart."""
        if self.lower == self.upper:
            return f"{self.lower:.9g}"
        if math.isinf(self.upper) or self.upper == 0:
            return f"[{self.lower:.6g}, {self.upper:.6g}]"
        digits = min(max(3, 2 - math.floor(math.log10(self.relative_width))), 15)
        return f"[{rounded(self.lower, digits, down=True)}, {rounded(self.upper, digits, down=False)}]"


def rounded(value: float, digits: int, *, down: bool) -> str:
    """`value` to so many significant digits, rounded outwards."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.{digits}g}"
    if (float(text) > value) if down else (float(text) < value):
        unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
        text = f"{value - unit if down else value + unit:.{digits}g}"
    return text
