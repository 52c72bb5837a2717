"""Two steps of Laplace noise, one record of two exchanged: the three fixed splits, and adaptive choices.

Scale 2, one record out of two, under SUBSTITUTE. P is the output of a step with the differing record, Q
without it; up to translation and scale, Q is Laplace noise and P = (Q + Q moved by 1) / 2.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

import tightrope as tr
from reproduction.paper.item import Making
from reproduction.paper.numbers import overlap
from tightrope.engines.choose import compose  # a fixed split is no run of the public interface
from tightrope.engines.face import ComposedCurve
from tightrope.numerics.floats import Floats
from tightrope.pairs.schedule import Schedule
from tightrope.theorems.worst_pairs import step_laws

MECHANISM, SAMPLING, STEPS = tr.Laplace(noise_multiplier=2), tr.WithoutReplacement(batch=1, population=2), 2
LEAST, MOST = (
    (1 + math.exp(-1)) / 2,
    (1 + math.e) / 2,
)  # the likelihood ratio P / Q of a step lies between them
END = 2 * math.log(MOST)  # of the curve that ends last
SETTLED = math.log(
    MOST
)  # from here on a second step never starts beyond epsilon, and REMOVE twice is best of all
SUM_ABS_ERROR = (
    1e-13  # more than the terms of a sum below, some 16 roundings of 1 + t each, and the sum are off
)
CELLS = (1 << 8, 1 << 12, 1 << 16)  # coarse ones tell most curves apart
FINEST = 1e-11  # steps between epsilons
NEAR_0 = 0.01  # below, the pure directions are told apart by their slopes


def remove_step(p: Floats, q: Floats, t: float) -> Floats:
    """p H_{tq/p}(P||Q): what a last step (P, Q) gains where the outputs so far have masses p and q."""
    inside = (p - np.sqrt(np.maximum((2 * t * q - p) * p, 0) / math.e)) / 2
    return np.where(t * q <= LEAST * p, p - t * q, np.where(t * q >= MOST * p, 0.0, inside))


def add_step(p: Floats, q: Floats, t: float) -> Floats:
    """p H_{tq/p}(Q||P): the same for a last step (Q, P)."""
    inside = p - t * q / 2 - np.sqrt(np.maximum((2 * p - t * q) * t * q, 0) / math.e) / 2
    return np.where(MOST * t * q <= p, p - t * q, np.where(LEAST * t * q >= p, 0.0, inside))


@cache
def first_step(cells: int) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Masses (under P, under Q) of the first output: merged within cells, and spread onto the cells' ends.

    The ratio P / Q is LEAST below 0, MOST above 1 and grows in between. Merging is a post-processing, and
    spreading a mean-preserving spread of the ratio, so that their divergences enclose the true one.
    """
    width = 1 / cells
    left = np.arange(cells) * width  # exact: a power of 2
    q = np.exp(-left) * -math.expm1(-width) / 2
    p = (q + np.exp(left - 1) * math.expm1(width) / 2) / 2
    tails_q = np.array([0.5, math.exp(-1) / 2])
    tails_p = tails_q * [LEAST, MOST]
    ratio = (1 + np.exp(2 * np.arange(cells + 1) * width - 1)) / 2
    high = (p - ratio[:-1] * q) / np.diff(ratio)
    spread_q = np.concatenate([q - high, high, tails_q])
    spread_p = np.concatenate([(q - high) * ratio[:-1], high * ratio[1:], tails_p])
    return (np.concatenate([p, tails_p]), np.concatenate([q, tails_q])), (spread_p, spread_q)


@dataclass(frozen=True)
class Split:
    """Which direction is played in which step: a curve."""

    name: str
    removes: int

    @property
    def end(self) -> float:
        """The largest loss: delta is 0 from there on."""
        return self.removes * math.log(MOST) - (STEPS - self.removes) * math.log(LEAST)

    def delta(self, epsilon: float, cells: int = CELLS[-1]) -> tr.Bracket:
        """Both ends of delta at any real epsilon, about 1e-11 apart with the most cells."""
        return _delta(self.removes, epsilon, cells)

    def exceeds(self, other: "Split", here: float, there: float) -> bool:
        """Whether delta at `here` is certainly larger than the other's at `there`."""
        for cells in CELLS:
            mine, others = self.delta(here, cells), other.delta(there, cells)
            if mine.lower > others.upper:
                return True
            if mine.upper <= others.lower:
                break
        return False

    def composition(self) -> ComposedCurve:
        """The same split as the package's engines compose it."""
        laws = step_laws(MECHANISM, SAMPLING, tr.SUBSTITUTE)
        return compose(Schedule([(laws.remove(), self.removes), (laws.add(), STEPS - self.removes)]))


@cache
def _delta(removes: int, epsilon: float, cells: int) -> tr.Bracket:
    t, last = math.exp(epsilon), add_step if removes < STEPS else remove_step
    ends = [float(last(*(law if removes else law[::-1]), t).sum()) for law in first_step(cells)]
    return tr.Bracket(max(ends[0] - SUM_ABS_ERROR, 0.0), ends[1] + SUM_ABS_ERROR)


def adaptive(epsilon: float, cells: int) -> tr.Bracket:
    """What the best adversary reaches who plays one direction first, then the better one for the output."""
    t, ends = math.exp(epsilon), []
    for p, q in first_step(cells):
        second = [np.maximum(remove_step(*law, t), add_step(*law, t)) for law in ((p, q), (q, p))]
        ends.append(max(float(gains.sum()) for gains in second))
    return tr.Bracket(max(ends[0] - SUM_ABS_ERROR, 0.0), ends[1] + SUM_ABS_ERROR)


REMOVE, MIXED, ADD = Split("remove twice", 2), Split("one of each", 1), Split("add twice", 0)
SPLITS = (ADD, MIXED, REMOVE)


def reach(leader: Split, others: Sequence[Split], start: float, goal: float) -> float:
    """How far from `start` towards `goal` the leader is certainly larger than the others, all the way.

    All curves fall. So where the leader's lower end at the right of a stretch exceeds the others' upper ends
    at its left, the leader is the largest on all of it.
    """
    at, step = start, (goal - start) / 8
    while at != goal and abs(step) > FINEST:
        there = goal if abs(goal - at) <= abs(step) else at + step
        left, right = min(at, there), max(at, there)
        if all(leader.exceeds(other, right, left) for other in others):
            at = there
        else:
            step /= 2
    return at


def add_leads_from_0() -> bool:
    """Whether the curve of ADD exceeds that of REMOVE on 0 < epsilon <= NEAR_0.

    At 0 both are the total variation distance. Both are convex in t = e^epsilon. Right of 1, ADD falls no
    faster than left of it, and REMOVE lies below its chord.
    """
    t = math.exp(NEAR_0)
    fall_of_add = (ADD.delta(-NEAR_0).upper - ADD.delta(0.0).lower) / (1 - 1 / t)
    fall_of_remove = (REMOVE.delta(0.0).lower - REMOVE.delta(NEAR_0).upper) / (t - 1)
    return fall_of_add * (1 + 1e-12) < fall_of_remove * (1 - 1e-12)


@dataclass(frozen=True)
class LeadInterval:
    """Where one split is certainly the largest: between `low` and `high`."""

    split: Split
    low: float
    high: float


def find_intervals() -> tuple[LeadInterval, ...]:
    """Where each split is certainly the largest, from left to right; at 0 itself ADD and REMOVE are equal.

    From epsilon = 1 = ln(MOST / LEAST) on only REMOVE can still lose more, with positive probability up to
    END.
    """
    certain = [
        reach(ADD, (MIXED, REMOVE), 0.1, NEAR_0) == NEAR_0 and add_leads_from_0(),
        reach(ADD, (MIXED,), NEAR_0, 0.0) == 0,
        reach(REMOVE, (ADD, MIXED), 0.8, 1.0) == 1,
    ]
    if not all(certain):
        raise tr.NotPreciseEnough(
            "The outer ends of the intervals could not be certified", "Take more cells."
        )
    return (
        LeadInterval(ADD, 0.0, reach(ADD, (MIXED, REMOVE), 0.1, 1.0)),
        LeadInterval(MIXED, reach(MIXED, (ADD, REMOVE), 0.4, 0.0), reach(MIXED, (ADD, REMOVE), 0.4, 1.0)),
        LeadInterval(REMOVE, reach(REMOVE, (ADD, MIXED), 0.8, 0.0), END),
    )


def count_agreeing(epsilons: Iterable[float]) -> tuple[int, int]:
    """How many of the brackets here overlap those of the package's engines, and how many were compared."""
    agreed = []
    for split in SPLITS:
        composed = split.composition()
        for epsilon in epsilons:
            bounds = composed.log_bounds(epsilon, 1e-6)
            engines = tr.Bracket(math.exp(bounds.lower), math.exp(bounds.upper))
            agreed.append(overlap(split.delta(epsilon), engines))
    return sum(agreed), len(agreed)


@dataclass(frozen=True)
class SplitPoint:
    """All curves at one epsilon: the splits, the best choice of the second step, and every adversary.

    The lower end of `game` is one adaptive policy, played by the package; its upper end is the envelope.
    """

    epsilon: float
    splits: dict[Split, tr.Bracket]
    adaptive: tr.Bracket
    game: tr.Bracket

    @property
    def largest_split(self) -> tr.Bracket:
        """Around the largest of the three."""
        every = self.splits.values()
        return tr.Bracket(max(each.lower for each in every), max(each.upper for each in every))

    @property
    def gain(self) -> float:
        """By which factor the game's policy certainly exceeds every split."""
        return self.game.lower / self.largest_split.upper

    @property
    def beats_every_split(self) -> bool:
        """Whether the game's policy certainly reaches more than each split."""
        return self.game.lower > self.largest_split.upper


def compute_points(count: int, making: Making) -> list[SplitPoint]:
    """The curves at equally spaced epsilons from 0 to END."""
    run = tr.Step(MECHANISM, SAMPLING) * STEPS
    curve = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT))
    cells, found = CELLS[1], []
    for epsilon in making.each("curves", np.linspace(0, END, count).tolist()):
        splits = {split: split.delta(epsilon, cells) for split in SPLITS}
        found.append(SplitPoint(epsilon, splits, adaptive(epsilon, cells), curve.delta(epsilon)))
    return found
