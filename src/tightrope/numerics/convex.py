"""Convex functions given at points: chords between them, and the largest one below a table."""

import numpy as np

from tightrope.numerics.floats import Floats


def chords(x: Floats, points: Floats, values: Floats) -> Floats:
    """Linear interpolation of positive values at x >= points[0], to relative accuracy; constant beyond."""
    right = np.clip(np.searchsorted(points, x), 1, len(points) - 1)
    x0, x1 = points[right - 1], points[right]
    inside = np.minimum(x, x1)
    return np.asarray((values[right - 1] * (x1 - inside) + values[right] * (inside - x0)) / (x1 - x0))


def convex_minorant(x: Floats, values: Floats) -> Floats:
    """The largest convex function below the values, at the same points.

    >>> convex_minorant(np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 3.0, 3.0, 0.0]))
    array([4.        , 2.66666667, 1.33333333, 0.        ])
    """
    turns = np.diff(np.diff(values) / np.diff(x))
    if (turns >= 0).all():
        return values
    kept: list[int] = []
    at, height = x.tolist(), values.tolist()
    for j in range(len(at)):
        while len(kept) > 1:
            i, h = kept[-1], kept[-2]
            if (height[j] - height[i]) * (at[i] - at[h]) > (height[i] - height[h]) * (at[j] - at[i]):
                break
            kept.pop()
        kept.append(j)
    return chords(x, x[kept], values[kept])
