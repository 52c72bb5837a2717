"""Runs of many kinds of steps: neighbours in rate and noise stand together where little depends on each."""

import math
from collections.abc import Iterable

from tightrope.pairs.mixture import Mixture
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

MANY_KINDS = 64  # up to here every kind is looked at
CLOSE = 0.05  # of a rate or a shift: how far neighbours are apart, about

Parts = tuple[tuple[Pair, int], ...]


def represent(schedule: Schedule) -> Parts:
    """About the same steps of fewer kinds, for planning: of neighbours the first stands for all."""
    if len(schedule.parts) <= MANY_KINDS:
        return schedule.parts
    return tuple((group[0][0], sum(times for _, times in group)) for group in _gather(schedule))


def dominate(schedule: Schedule) -> Parts:
    """Steps of fewer kinds that dominate these: every step has the largest rate and shift of its neighbours.

    A mixture of normals with a smaller rate is what is left of this one if a coin replaces some outputs by
    noise at 0; with a smaller shift, if outputs are shrunk and noise is added. Both do the same to P and Q,
    so that the curve and every moment E[e^{c loss}], c > 0, can only fall.
    """
    if len(schedule.parts) <= MANY_KINDS:
        return schedule.parts
    return tuple((_largest(p for p, _ in group), sum(n for _, n in group)) for group in _gather(schedule))


def _gather(schedule: Schedule) -> list[list[tuple[Pair, int]]]:
    """The kinds of steps, neighbours together."""
    groups: dict[object, list[tuple[Pair, int]]] = {}
    for pair, times in schedule:
        groups.setdefault(_place(pair), []).append((pair, times))
    return list(groups.values())


def _place(pair: Pair) -> object:
    """The same for neighbours."""
    if not isinstance(pair, ShiftPair) or not pair.has_normal_noise:
        return pair
    p, q = pair.observed, pair.alternative
    if p.is_moved or q.is_moved or not (p.is_plain or q.is_plain or p == q.mirrored):
        return pair  # nothing is sampled, or the two directions differ
    law = q if p.is_plain else p
    odds = law.log_rate - law.log_rest
    return p.is_plain, q.is_plain, round(odds / CLOSE), round(math.log(abs(law.shift)) / CLOSE)


def _largest(pairs: Iterable[Pair]) -> Pair:
    """The pair that dominates neighbours: itself if there is one."""
    first, *others = pairs
    if not others:
        return first
    shifted = [pair for pair in (first, *others) if isinstance(pair, ShiftPair)]
    assert len(shifted) == 1 + len(others)
    observed, alternative = [pair.observed for pair in shifted], [pair.alternative for pair in shifted]
    return ShiftPair(_largest_law(observed), _largest_law(alternative))


def _largest_law(laws: list[Mixture]) -> Mixture:
    shift = max((law.exact_shift for law in laws), key=abs)
    return Mixture(laws[0].noise, max(law.exact_rate for law in laws), shift)
