"""What an audit can say."""

from enum import Enum
from typing import NoReturn

from tightrope.errors import UncertainComparison


def refuse_truth(what: str, ask: str) -> NoReturn:
    """Raise where a result is asked whether it is true, which Python would otherwise affirm of any object."""
    raise UncertainComparison(f"{what} is neither true nor false", f"Ask {ask}.")


class Verdict(Enum):
    """How what was accounted stands against what runs. Only what was seen matches or is covered."""

    MATCHES = "what runs is what was accounted"
    COVERED = "what was seen is not all that was accounted, or not the same, but costs no more"
    DECLARED = "what is said to run was accounted, or costs no more; nobody looked"
    TOO_SMALL = "the accounted epsilon is certainly too small"
    NOT_PROVEN = "no theorem supports the accounted epsilon"
    UNKNOWN = "what runs is not known, so nothing supports the accounted epsilon"

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        refuse_truth(f"the verdict {self.name}", ".holds, or compare it: verdict is Verdict.MATCHES")

    @property
    def holds(self) -> bool:
        """Whether the accounted epsilon stands for what runs.

        A match may leave the rate open by a little, where it was watched or torch rounds it: `proved.upper`
        is the guarantee.
        """
        return self in (Verdict.MATCHES, Verdict.COVERED)
