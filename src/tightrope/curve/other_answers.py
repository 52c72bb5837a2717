"""Answers that are no brackets: an upper bound, an approximation, an estimate with a confidence level."""

from dataclasses import dataclass, field

from tightrope.curve.bracket import round_to


@dataclass(frozen=True)
class UpperBound:
    """truth <= `upper`; how far below it the truth lies is not known.

    `order` is the Rényi order that gave it (infinity where it is the largest loss, 1 where it is the relative entropy), and
    `because` lists the theorems.

    >>> UpperBound(1.25, order=8.0).upper
    1.25
    """

    upper: float
    order: float
    because: tuple[object, ...] = field(default=(), repr=False)

    def __float__(self) -> float:
        raise TypeError("an UpperBound is one-sided: use .upper")

    def __str__(self) -> str:
        return f"at most {round_to(self.upper, 9, down=False)}"


@dataclass(frozen=True)
class Approximation:
    """About the truth, without a guarantee: it can be too small as well as too large.

    >>> print(Approximation(0.5))
    about 0.5
    """

    value: float

    def __float__(self) -> float:
        raise TypeError("an Approximation guarantees nothing: use .value if that is what you want")

    def __str__(self) -> str:
        return f"about {self.value:.9g}"


@dataclass(frozen=True)
class Estimate:
    """`lower` <= truth <= `upper` with probability at least `confidence` over the draws; `value` is the best guess.

    All answers of one call hold together with that probability. `draws` is how many sums of losses were looked at, fewer than
    planned where someone `interrupted` the simulation.

    >>> print(Estimate(0.25, lower=0.2, upper=0.3, confidence=0.99, draws=1000))
    0.25 (0.2 to 0.3 with confidence 0.99)
    """

    value: float
    lower: float
    upper: float
    confidence: float
    draws: int
    interrupted: bool = False

    def __post_init__(self) -> None:
        if not self.lower <= self.value <= self.upper:
            raise ArithmeticError(
                f"an estimate needs lower <= value <= upper, got {self.lower!r}, {self.value!r}, {self.upper!r}"
            )

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __float__(self) -> float:
        raise TypeError("an Estimate is an interval with a confidence level: say .value, .lower or .upper")

    def __str__(self) -> str:
        return f"{self.value:.6g} ({self.lower:.6g} to {self.upper:.6g} with confidence {self.confidence:g})"
