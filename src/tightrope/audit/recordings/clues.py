"""Tests of one scheme as one p-value: what each may cost, and which weighs most."""

from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.epochs import EpochCut

LEVEL = 5e-4  # p-values below it rule a scheme out: the true one, wrongly, at most once in 2,000 recordings
SURELY = 1e-6  # a clue is named as the reason when its own p-value is below

# Shares of the level; those of the tests of one scheme sum to at most 1. A cap two standard deviations above
# the mean size keeps some nine of 400 batches from being larger, and in one recording of a hundred only five
# show it: less than 3e-4 would not find it.
LARGEST_SHARE = 0.6
EVENNESS_SHARE = 0.15  # uniform draws and mild weights are the next harder to tell apart
SMALLEST_SHARE = 0.07
SHARE = 0.011  # for each of at most sixteen other tests


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
