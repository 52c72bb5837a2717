"""An ordered pair of output distributions and its privacy loss ln dP/dQ: every kind that the engines compose."""

from tightrope.pairs.envelope import Envelope
from tightrope.pairs.finite_pair import FinitePair, exact_log_ratio
from tightrope.pairs.shift_pair import ShiftPair

__all__ = ["Envelope", "FinitePair", "Pair", "ShiftPair", "exact_log_ratio"]

Pair = ShiftPair | FinitePair | Envelope
