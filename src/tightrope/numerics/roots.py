"""Crossings of a decreasing function, bracketed at every step."""

from collections.abc import Callable


def crossing(
    excess: Callable[[float], float], *, start: float, slope: float, resolution: float, highest: float
) -> tuple[float, float]:
    """(a, b) with a <= b, excess(a) > 0 (or a = 0) and excess(b) <= 0, b - a at most `resolution`, b at most `highest`.

    `excess` decreases; `slope` < 0 is about its derivative near `start`. Newton steps with an updated secant slope, kept
    inside the bracket. If excess(highest) > 0 the result is (highest, infinity).
    """
    low, high = 0.0, float("inf")
    x = min(max(start, 0.0), highest)
    last: tuple[float, float] | None = None
    for count in range(200):
        value = excess(x)
        if value > 0:
            if x >= highest:
                return highest, float("inf")
            low = x
        else:
            high = x
            if x == 0:
                return 0.0, 0.0
        if high - low <= resolution:
            return low, high
        if last is not None and value != last[1]:
            secant = (value - last[1]) / (x - last[0])
            if secant < 0:
                slope = secant
        last = (x, value)
        new = x - value / slope
        # aim a little past the root, so that both sides close in
        new += resolution / 3 if value > 0 else -resolution / 3
        if count > 12 or not low < new < high:
            new = (low + high) / 2 if high < float("inf") else max(2 * x, new, x + resolution)
        x = min(new, highest)
    return low, high  # a valid bracket, wider than asked: the function is too noisy for more
