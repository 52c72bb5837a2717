"""What several accountants say about one run, as one picture."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.accountants.names import CERTIFIED, GAUSSIAN_LIMIT, MONTE_CARLO, RENYI, Accountant
from tightrope.answers.spend import Curve
from tightrope.curve.limit_curve import GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.report.plot import Ends, asked, band, checked_target, framed, gaps, headed, limits, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {CERTIFIED: "#0072b2", RENYI: "#d55e00", GAUSSIAN_LIMIT: "#009e73", MONTE_CARLO: "#000000"}
_LABELS = {
    CERTIFIED: "certified bracket",
    RENYI: "Rényi: an upper bound",
    GAUSSIAN_LIMIT: "Gaussian limit: an approximation",
    MONTE_CARLO: "Monte Carlo: intervals",
}
_DASHES: dict[Accountant, Any] = {RENYI: (0, (6, 2)), GAUSSIAN_LIMIT: (0, (1, 1.5))}
MOST_INTERVALS = 12  # each may need draws of its own


def draw_accountants(
    curves: Mapping[Accountant, Curve],
    *,
    epsilons: Sequence[float],
    to: str | Path,
    title: str = "",
    assumed: str = "",
) -> Path:
    """Draw delta over `epsilons` by each accountant: a band, lines, and intervals at some of the epsilons.

    The file appears whole or not at all, and the same curves give the same pdf and svg bytes.
    """
    target, at = checked_target(path=to), asked(epsilons)
    found = {who: _ends(curve, _places(at, who)) for who, curve in curves.items()}

    def draw(axes: "Axes") -> None:
        bottom, top = limits(list(found.values()))
        for who, ends in found.items():
            places, colour = _places(at, who), _COLOURS[who]
            if who is MONTE_CARLO:
                _draw_intervals(axes, places, ends, bottom)
                continue
            if who is CERTIFIED:
                band(axes, places, ends, bottom, colour)
            axes.plot(
                places,
                gaps(ends.upper),
                color=colour,
                linewidth=2,
                linestyle=_DASHES.get(who, "-"),
                label=_LABELS[who],
            )
        framed(axes, at, bottom, top, [found[CERTIFIED]] if CERTIFIED in found else [])
        headed(axes, title, assumed)

    return picture(draw, target)


def _places(at: NDArray[np.float64], who: Accountant) -> NDArray[np.float64]:
    """Where an accountant is asked: intervals at a dozen epsilons, lines at all."""
    if who is not MONTE_CARLO or at.size <= MOST_INTERVALS:
        return at
    some: NDArray[np.float64] = at[np.unique(np.linspace(0, at.size - 1, MOST_INTERVALS).round().astype(int))]
    return some


def _ends(curve: Curve, at: NDArray[np.float64]) -> Ends:
    if isinstance(curve, PrivacyCurve):
        return Ends.of(curve, at)
    if isinstance(curve, RenyiCurve):
        upper = np.array([bound.upper for bound in curve.log_delta(at)]) / math.log(10)
        return Ends(upper, upper)
    if isinstance(curve, GaussianLimitCurve):
        value = np.array([about.value for about in curve.log_delta(at)]) / math.log(10)
        return Ends(value, value)
    estimates = curve.delta(at)
    with np.errstate(divide="ignore"):
        lower, upper = (
            np.log10([getattr(estimate, end) for estimate in estimates]) for end in ("lower", "upper")
        )
    return Ends(lower, upper)


def _draw_intervals(axes: "Axes", at: NDArray[np.float64], ends: Ends, bottom: float) -> None:
    """Vertical bars with caps; one that reaches below the picture goes to its edge."""
    shown = ends.shown
    lower, upper = np.maximum(ends.lower[shown], bottom), ends.upper[shown]
    middle = (lower + upper) / 2
    style: dict[str, Any] = {
        "fmt": "none",
        "ecolor": _COLOURS[MONTE_CARLO],
        "elinewidth": 1.4,
        "capsize": 3,
        "zorder": 6,
    }
    axes.errorbar(
        at[shown], middle, yerr=np.maximum(upper - lower, 0) / 2, label=_LABELS[MONTE_CARLO], **style
    )
