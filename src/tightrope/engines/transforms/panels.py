"""Gauss-Legendre quadrature on panels, and what it can miss."""

import math

import numpy as np

from tightrope.engines.transforms.rooms import LOG_ROOM
from tightrope.numerics.floats import Floats

# The positive nodes of 32 on [-1, 1] and their weights, rounded correctly; numpy's weights are off by 500 u.
_TABLE = (
    (0.04830766568773832, 0.0965400885147278),
    (0.1444719615827965, 0.09563872007927486),
    (0.23928736225213706, 0.09384439908080457),
    (0.33186860228212767, 0.09117387869576389),
    (0.42135127613063533, 0.08765209300440381),
    (0.5068999089322294, 0.08331192422694675),
    (0.5877157572407623, 0.07819389578707031),
    (0.6630442669302152, 0.0723457941088485),
    (0.7321821187402897, 0.06582222277636185),
    (0.7944837959679424, 0.058684093478535544),
    (0.84936761373257, 0.050998059262376175),
    (0.8963211557660521, 0.04283589802222668),
    (0.9349060759377397, 0.03427386291302143),
    (0.9647622555875064, 0.02539206530926206),
    (0.9856115115452684, 0.01627439473090567),
    (0.9972638618494816, 0.007018610009470096),
)
POINTS = np.array([-x for x, _ in _TABLE[::-1]] + [x for x, _ in _TABLE])
WEIGHTS = np.array([w for _, w in _TABLE[::-1]] + [w for _, w in _TABLE])
PANEL_NODES = len(POINTS)
# rho of the panels' Bernstein ellipses: at most half a panel high, and overhanging
ELLIPSE = 1 + math.sqrt(2)


def panel_nodes(width: float, panels: int) -> tuple[Floats, Floats]:
    """The nodes' distances from where the panels start, and the logarithms of their weights.

    A distance takes four roundings besides those of the width, a logarithm three, and 8 u of itself.
    """
    offsets = (width * (np.arange(panels)[:, None] + (POINTS + 1) / 2)).ravel()
    return offsets, np.log(np.tile(WEIGHTS * (width / 2), panels))


def ellipse_of(width: float) -> tuple[float, float]:
    """How far a panel's ellipse reaches from its centre along the axis, and how high."""
    return width / 4 * (ELLIPSE + 1 / ELLIPSE), width / 4 * (ELLIPSE - 1 / ELLIPSE)


def log_panel_error(width: float) -> float:
    """ln of what the quadrature can miss on a panel, over the largest |f| on its ellipse (lemma 6)."""
    return (
        math.log(64 / 15)
        - 2 * PANEL_NODES * math.log(ELLIPSE)
        - math.log1p(-(ELLIPSE**-2))
        + math.log(width / 2)
        + LOG_ROOM
    )
