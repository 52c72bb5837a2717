"""Which accountant answers. The question stays the same; what kind of answer comes back does not."""

from enum import Enum
from typing import Final


class Accountant(Enum):
    """CERTIFIED gives brackets, RENYI upper bounds, GAUSSIAN_LIMIT approximations and MONTE_CARLO estimates."""

    CERTIFIED = "certified"
    RENYI = "renyi"
    GAUSSIAN_LIMIT = "gaussian-limit"
    MONTE_CARLO = "monte-carlo"

    def __repr__(self) -> str:
        return self.name


CERTIFIED: Final = Accountant.CERTIFIED
RENYI: Final = Accountant.RENYI
GAUSSIAN_LIMIT: Final = Accountant.GAUSSIAN_LIMIT
MONTE_CARLO: Final = Accountant.MONTE_CARLO


def promise_of(accountant: Accountant) -> str:
    """What an answer of this accountant is worth, in words.

    >>> promise_of(GAUSSIAN_LIMIT)
    'an approximation: it can be too small'
    """
    return {
        CERTIFIED: "a certified bracket",
        RENYI: "a certified upper bound, and no lower one",
        GAUSSIAN_LIMIT: "an approximation: it can be too small",
        MONTE_CARLO: "an interval that holds with the stated confidence",
    }[accountant]
