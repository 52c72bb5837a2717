"""How hard to work for a tight answer where a quick one exists."""

from enum import Enum

from tightrope.errors import InvalidSetting


class Effort(Enum):
    """QUICK takes what theory gives at once, TIGHT works for up to minutes.

    It matters only under SUBSTITUTE. With batches without replacement TIGHT plays a game against the worst
    adversary, with shuffled ones it looks for a closer bound. Every other question has one answer.

    >>> Effort("tight") is TIGHT, Effort("quick") is QUICK
    (True, True)
    """

    QUICK = "quick"
    TIGHT = "tight"

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.value

    @property
    def meaning(self) -> str:
        """What the two ends are, in words.

        >>> QUICK.meaning
        'quick (what theory gives at once)'
        """
        if self is QUICK:
            return "quick (what theory gives at once)"
        return "tight (besides, the substitution game, or a closer look at a shuffle)"


QUICK, TIGHT = Effort.QUICK, Effort.TIGHT


def as_effort(value: object) -> Effort:
    """The effort itself, or the one with this printed name; anything else is refused."""
    for effort in Effort:
        if value is effort or value in (effort.value, effort.name):
            return effort
    raise InvalidSetting("effort", value, "be {QUICK} or {TIGHT}", "Pass for example {effort=TIGHT}.")
