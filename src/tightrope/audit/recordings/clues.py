"""Tests of one scheme as one p-value: what each may cost, and which weighs most."""

from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.epochs import EpochCut

LEVEL = 7e-4  # p-values below it rule a scheme out: the true one, wrongly, at most 7 times in 10,000
SURELY = 1e-6  # a clue is named as the reason when its own p-value is below
# weights of this relative standard deviation must be ruled out before draws count as uniform
UNEVEN = 0.3

# Shares of the level; those of the tests of one scheme sum to at most 1. Of 400 sizes around 64, some nine
# are above 80. If these are cut to 80, a level of 4e-4 finds it in 99 of 100 recordings. If they are drawn
# again, that would take 1e-3 for this test alone: more than there is to share.
LARGEST_SHARE = 0.69
EVENNESS_SHARE = 0.1  # uniform draws and mild weights are the next harder to tell apart
CROWDED_SHARE = 0.04  # for each end of the sizes
SHARE = 0.008  # for each of at most sixteen other tests

# Balls in bins have none of the tests of ends above, and share what is left among what passes may do besides.
# Few visits are close to the last by chance, so that their absence is the hardest to tell.
DISTANCE_SHARE = 0.2
KEPT_SHARE = 0.1
TIED_SHARE = 0.1  # for each of two tests
PLACES_SHARE = 0.1
ORDER_SHARE = 0.1
RECURRING_SHARE = 0.05
BIN_ENDS_SHARE = 0.04  # for each end


@dataclass(frozen=True, kw_only=True)
class Clue:
    """One test: a p-value, what was seen, and its share of the level."""

    p_value: float
    saw: str
    share: float = SHARE

    @property
    def weighed(self) -> float:
        """The p-value as it counts against the whole level."""
        return min(1.0, self.p_value / self.share)


@dataclass(frozen=True, kw_only=True)
class SchemeTest:
    """A scheme with its p-value, the clue that weighs most against it, and the epochs that it would need."""

    scheme: Scheme
    p_value: float
    clue: Clue
    epochs: EpochCut | None = None


def combine(scheme: Scheme, clues: Sequence[Clue], epochs: EpochCut | None = None) -> SchemeTest:
    """All tests of one scheme as one p-value. Shares sum to at most 1, so it is valid if tests depend."""
    assert sum(clue.share for clue in clues) <= 1, "tests share one level"
    worst = min(clues, key=lambda clue: clue.p_value / clue.share)
    return SchemeTest(scheme=scheme, p_value=worst.weighed, clue=worst, epochs=epochs)


def rule_out(scheme: Scheme, saw: str) -> SchemeTest:
    """A scheme that never draws such batches."""
    return SchemeTest(scheme=scheme, p_value=0.0, clue=Clue(p_value=0.0, saw=saw, share=1.0))
