"""How a Monte Carlo accountant draws: how often, from which law, with which interval, from which seed."""

import math
from dataclasses import dataclass
from enum import Enum

from tightrope.errors import InvalidSetting
from tightrope.numerics import check

MOST_DRAWS = 10**12  # a year of work; more is a slip of the pen


class Drawing(Enum):
    """PLAIN draws losses as they occur; TILTED prefers large ones and weighs them down, which small deltas need."""

    PLAIN = "plain"
    TILTED = "tilted"

    def __repr__(self) -> str:
        return self.name


class Interval(Enum):
    """Confidence intervals for the mean of numbers in [0, 1], each valid for every law.

    HOEFFDING knows the range only, CHERNOFF (the relative entropy bound) also where the mean is, BETTING also the variance.
    """

    HOEFFDING = "hoeffding"
    CHERNOFF = "chernoff"
    BETTING = "betting"

    def __repr__(self) -> str:
        return self.name


PLAIN, TILTED = Drawing.PLAIN, Drawing.TILTED
HOEFFDING, CHERNOFF, BETTING = Interval.HOEFFDING, Interval.CHERNOFF, Interval.BETTING


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What MONTE_CARLO needs to know. The same values give the same answer, whatever the number of workers.

    `confidence` is that of all answers of one call together. `workers` are processes: None means all cores, or those of the
    joblib backend that is configured; more than one needs joblib (the extra `dist`).

    >>> Simulation(draws=draws_needed(alpha=0.001, beta=0.01, points=40), drawing=PLAIN, interval=HOEFFDING).draws
    4493599
    """

    draws: int = 200_000
    confidence: float = 0.99
    seed: int = 0
    drawing: Drawing = TILTED
    interval: Interval = BETTING
    workers: int | None = 1

    def __post_init__(self) -> None:
        draws = check.whole(
            least=1, remedy="It is how many sums of losses are drawn, for example 200_000.", draws=self.draws
        )
        if draws > MOST_DRAWS:
            raise InvalidSetting(
                f"draws must be at most {MOST_DRAWS:.0e}, got {draws}. Tilted draws need far fewer."
            )
        confidence = check.open_probability(remedy="Pass for example 0.99.", confidence=self.confidence)
        check.whole(remedy="A seed is a whole number, 0 or more.", seed=self.seed)
        if self.workers is not None:
            check.whole(
                least=1, remedy="Pass a number of processes, 1 or more.", workers=self.workers
            )
        if not isinstance(self.drawing, Drawing):
            raise InvalidSetting(
                f"drawing must be PLAIN or TILTED, got {self.drawing!r}. Pass for example drawing=TILTED."
            )
        if not isinstance(self.interval, Interval):
            raise InvalidSetting(
                f"interval must be HOEFFDING, CHERNOFF or BETTING, got {self.interval!r}. Pass for example interval=BETTING."
            )
        object.__setattr__(self, "confidence", confidence)

    @property
    def beta(self) -> float:
        """The probability that the answers of a call do not all hold."""
        return 1 - self.confidence


def draws_needed(*, alpha: float, beta: float, points: int = 1) -> int:
    """How many plain draws are within `alpha` at `points` epsilons at once, except with probability `beta` (Hoeffding).

    It is ln(2 points / beta) / (2 alpha^2), rounded up.

    >>> draws_needed(alpha=0.001, beta=0.01, points=40)
    4493599
    """
    wide = check.open_probability(
        remedy="It is the error in delta that is allowed, for example 0.001.", alpha=alpha
    )
    failing = check.open_probability(
        remedy="It is the probability of failure that is allowed, for example 0.01.", beta=beta
    )
    many = check.whole(least=1, remedy="It is how many epsilons are asked at once.", points=points)
    return math.ceil(math.log(2 * many / failing) / (2 * wide**2))
