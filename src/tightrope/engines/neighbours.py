"""Runs of many kinds of steps: neighbours in rate and noise stand together where little depends on each."""

import math
from collections.abc import Callable
from fractions import Fraction

from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

MANY_KINDS = 64  # up to here every kind is looked at
CLOSE = 0.05  # of a rate or a shift: how far neighbours are apart, about
CLOSE_IN_PLANS = 0.4  # and how far at most where many are scattered: a guess shall cost less than the answer

Parts = tuple[tuple[Pair, int], ...]


def represent(schedule: Schedule) -> Parts:
    """About the same steps of fewer kinds, for planning: of neighbours the mean stands for all."""
    if len(schedule.parts) <= MANY_KINDS:
        return schedule.parts
    close, groups = CLOSE, _gather(schedule, CLOSE)
    while len(groups) > MANY_KINDS and close < CLOSE_IN_PLANS:
        close *= 2
        groups = _gather(schedule, close)
    return tuple((_join(group, _mean_law), sum(times for _, times in group)) for group in groups)


def dominate(schedule: Schedule) -> Parts:
    """Steps of fewer kinds that dominate these: every step has the largest rate and shift of its neighbours.

    A mixture of normals with a smaller rate is what is left of this one if a coin replaces some outputs by
    noise at 0; with a smaller shift, if outputs are shrunk and noise is added. Both do the same to P and Q,
    so that the curve and every moment E[e^{c loss}], c > 0, can only fall.
    """
    if len(schedule.parts) <= MANY_KINDS:
        return schedule.parts
    groups = _gather(schedule, CLOSE)
    return tuple((_join(group, _largest_law), sum(times for _, times in group)) for group in groups)


def _gather(schedule: Schedule, close: float) -> list[list[tuple[Pair, int]]]:
    """The kinds of steps, neighbours together."""
    groups: dict[object, list[tuple[Pair, int]]] = {}
    for pair, times in schedule:
        groups.setdefault(_place(pair, close), []).append((pair, times))
    return list(groups.values())


def _place(pair: Pair, close: float) -> object:
    """The same for neighbours."""
    if not isinstance(pair, ShiftPair) or not pair.has_normal_noise:
        return pair
    p, q = pair.observed, pair.alternative
    if p.is_moved or q.is_moved or not (p.is_plain or q.is_plain or p == q.mirrored):
        return pair  # nothing is sampled, or the two directions differ
    law = q if p.is_plain else p
    odds = law.log_rate - law.log_rest
    # moments grow with a power of the shift, and with e^(its square) where it is large
    steep = math.log(abs(law.shift)) + law.shift**2
    return p.is_plain, q.is_plain, round(odds / close), round(steep / close)


def _join(group: list[tuple[Pair, int]], join: Callable[[list[tuple[Mixture, int]]], Mixture]) -> Pair:
    """One pair for neighbours: itself if there is one."""
    if len(group) == 1:
        return group[0][0]
    shifted = [(pair, times) for pair, times in group if isinstance(pair, ShiftPair)]
    assert len(shifted) == len(group)
    return ShiftPair(
        join([(pair.observed, times) for pair, times in shifted]),
        join([(pair.alternative, times) for pair, times in shifted]),
    )


def _largest_law(laws: list[tuple[Mixture, int]]) -> Mixture:
    shift = max((law.exact_shift for law, _ in laws), key=abs)
    return Mixture(laws[0][0].noise, max(law.exact_rate for law, _ in laws), shift)


def _mean_law(laws: list[tuple[Mixture, int]]) -> Mixture:
    steps = sum(times for _, times in laws)
    rate = sum(times * law.rate for law, times in laws) / steps
    shift = sum(times * law.shift for law, times in laws) / steps
    return Mixture(laws[0][0].noise, Fraction(rate), Fraction(shift))
