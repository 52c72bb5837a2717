"""How hard to work for a tight answer where a quick one exists."""

from enum import Enum

from tightrope.errors import InvalidSetting


class Effort(Enum):
    """QUICK takes what closed theory gives at once. TIGHT also plays a game against the worst adversary.

    It matters only for batches without replacement under SUBSTITUTE: every other question has one answer.
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
        'quick (envelope above, fixed directions below)'
        """
        if self is QUICK:
            return "quick (envelope above, fixed directions below)"
        return "tight (the substitution game besides envelope and fixed directions)"


QUICK, TIGHT = Effort.QUICK, Effort.TIGHT


def as_effort(value: object) -> Effort:
    """The effort itself, or the one with this printed name; anything else is refused."""
    for effort in Effort:
        if value is effort or value in (effort.value, effort.name):
            return effort
    raise InvalidSetting("effort", value, "be {QUICK} or {TIGHT}", "Pass for example {effort=TIGHT}.")
