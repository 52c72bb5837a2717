"""The epsilons at which curves are asked when nobody says, and the finer ones at which they are drawn."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve

FAR_ENOUGH = 1e-10
POINTS = 21
_DRAWN = 241


def usual_range(curves: Iterable[PrivacyCurve | RenyiCurve]) -> list[float]:
    """From 0 to a round number at or beyond which every delta is negligible; to 1 where epsilon says nothing about that."""
    ends = [curve.epsilon(FAR_ENOUGH).upper for curve in curves]
    last = max((end for end in ends if 0 < end < math.inf), default=1.0)
    unit = 10.0 ** math.floor(math.log10(last))
    stop = next(digit * unit for digit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if digit * unit >= last)
    return [float(f"{stop * i / (POINTS - 1):.12g}") for i in range(POINTS)]


def drawn_range(epsilons: Sequence[float]) -> list[float]:
    """The same epsilons with enough between them for a smooth line."""
    if len(epsilons) == 1:
        return list(epsilons)
    return [*epsilons, *np.linspace(min(epsilons), max(epsilons), _DRAWN).tolist()]
