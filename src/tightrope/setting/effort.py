"""How hard to work for a tight answer where a quick one exists."""

from enum import Enum


class Effort(Enum):
    """QUICK: what a closed theory gives at once. TIGHT: also play out what an adversary could do, which takes longer.

    It matters only for batches drawn without replacement under SUBSTITUTE; every other question has one answer.
    """

    QUICK = "quick"
    TIGHT = "tight"

    def __repr__(self) -> str:
        return self.name


QUICK, TIGHT = Effort.QUICK, Effort.TIGHT


def meaning_of(effort: Effort) -> str:
    """What the two ends are then, in words.

    >>> meaning_of(QUICK)
    'quick (envelope above, fixed directions below)'
    """
    if effort is QUICK:
        return "quick (envelope above, fixed directions below)"
    return "tight (the substitution game besides envelope and fixed directions)"
