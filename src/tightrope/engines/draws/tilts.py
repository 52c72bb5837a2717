"""Which tilt to draw at: the one whose Rényi bound on delta is smallest, so that the mean of Z is largest."""

import math
from enum import Enum
from functools import lru_cache

from tightrope.engines.draws.losses import tilted_source
from tightrope.engines.face import EngineDeclines
from tightrope.engines.planning import Plan
from tightrope.engines.saddle import log_chernoff_factor
from tightrope.pairs.schedule import Schedule

OWN_RATIO, SHARED_RATIO = 1.05, 2**0.25  # epsilons of an array share draws: tilts off by up to 9 %
LEAST_TILT, MOST_TILT = 1e-3, 1e6
LEAST_ACCEPTANCE = 0.01  # below, a milder tilt wins what it loses by drawing faster
LOG_REJECTION = math.log(2.0)  # what drawing by rejection costs, where another tilt needs none


class Drawing(Enum):
    """PLAIN draws losses as they occur; TILTED prefers large ones and weighs them down, for small deltas.

    >>> PLAIN, Drawing("tilted") is TILTED
    (PLAIN, True)
    """

    PLAIN = "plain"
    TILTED = "tilted"

    def __repr__(self) -> str:
        return self.name


PLAIN, TILTED = Drawing.PLAIN, Drawing.TILTED


def choose_tilts(schedule: Schedule, epsilons: tuple[float, ...], drawing: Drawing = TILTED) -> list[float]:
    """A tilt for each epsilon, 0 where plain draws are better or asked for. Any tilt is valid."""
    if drawing is PLAIN:
        return [0.0] * len(epsilons)
    ratio = OWN_RATIO if len(epsilons) == 1 else SHARED_RATIO
    integer = any(tilted_source(pair, 0.0).prefers_integer_tilts for pair, _ in schedule)
    plan = Plan(schedule)
    return [_choose_tilt(schedule, plan, epsilon, ratio, integer) for epsilon in epsilons]


def _choose_tilt(schedule: Schedule, plan: Plan, epsilon: float, ratio: float, integer: bool) -> float:
    log_scale, tilt = _search_grid(schedule, plan, epsilon, _grid(ratio, integer=False))
    if not integer:
        return tilt
    log_scale_integer, integer_tilt = _search_grid(schedule, plan, epsilon, _grid(ratio, integer=True))
    return integer_tilt if log_scale_integer <= log_scale + LOG_REJECTION else tilt


def _search_grid(
    schedule: Schedule, plan: Plan, epsilon: float, grid: tuple[float, ...]
) -> tuple[float, float]:
    """The smallest ln C and its tilt, among 0 and the tilts on the grid at which drawing is no burden."""

    def grows_at(c: float) -> bool:
        """Whether ln C, a convex function of c, grows at c."""
        slope = _cumulants(plan, c)[1] - epsilon + math.log(c / (1 + c))
        return not slope <= 0

    low, high = 0, len(grid)
    while low < high:
        middle = (low + high) // 2
        if grows_at(grid[middle]):
            high = middle
        else:
            low = middle + 1
    # the minimum lies between grid[low - 1] and grid[low]; where few candidates are accepted, go further down
    best = 0.0, 0.0
    for place in range(min(low, len(grid) - 1), -1, -1):
        c = grid[place]
        log_scale = _cumulants(plan, c)[0] - c * epsilon + log_chernoff_factor(c)
        if not log_scale < best[0] and place < low - 1:
            break
        if log_scale < best[0] and _can_be_drawn(schedule, c):
            best = log_scale, c
            if place < low:
                break
    return best


@lru_cache(maxsize=16)
def _grid(ratio: float, *, integer: bool) -> tuple[float, ...]:
    least = 1.0 if integer else LEAST_TILT
    count = math.floor(math.log(MOST_TILT / least) / math.log(ratio) + 1e-9)
    tilts = (least * ratio**i for i in range(count + 1))
    return tuple(sorted({float(round(tilt)) if integer else tilt for tilt in tilts}))


def _cumulants(plan: Plan, c: float) -> tuple[float, float]:
    try:
        log_moment, mean, _ = plan(c)
    except (EngineDeclines, ArithmeticError):
        return math.inf, math.inf
    return log_moment, mean


def _can_be_drawn(schedule: Schedule, tilt: float) -> bool:
    try:
        return all(tilted_source(pair, tilt).acceptance >= LEAST_ACCEPTANCE for pair, _ in schedule)
    except EngineDeclines:
        return False
