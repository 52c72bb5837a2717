"""Where the exact checker looks: spacing, bits, windows and cuts, planned in floats.

Nothing here decides a bound. A bad plan makes bounds loose or slow.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx

from tightrope.engines.integers.checker import GUARD, Lattice, OutputCut, cut, largest_ratio, real, split
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import Floats
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.mixture import Noise
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair

LEAST_LOSS, GROWTH = 1e-20, 1.2  # of the coarse grid of losses: even at rates of 1e-12 most mass is beyond
GRID_BITS = 192
LEAST_LOG_DELTA = -1500.0  # deltas below are bounded, and not told closely
AROUND = 176  # quarters of a noise scale: beyond lies less than the smallest float
NEGLIGIBLE = -1e4  # ln of a mass that matters to no delta that a float can state
TILTS = np.geomspace(1e-4, 1e6, 241)
KEPT_SHAPES = 1024  # of some 30 kB; runs of many different steps ask for each again and again
SHARE = 50  # truncation and rounding may each take this fraction of the width
LEAST_LENGTH = 1e-9  # of a window
MARGIN = 8  # spacings by which windows are wider than planned
FEWEST_CELLS, MOST_CELLS = 256, 1 << 18  # of a window, unless they are given
MOST_WORK = 1 << 29  # cells times bits times products that take some 10 s
WORK_PER_SECOND, SECONDS_PER_CELL = 4e7, 1e-5  # measured: products, and the law of one step
BYTES_PER_BIT = 1.0  # that a product takes for each bit of a polynomial
MOST_BITS = 1 << 31  # of a polynomial: a quarter of a gigabyte, and a product takes several


@dataclass(frozen=True, eq=False)
class Shape:
    """About the law of one step's loss under P: losses in increasing order, and ln of their masses."""

    log_masses: Floats
    losses: Floats

    @cached_property
    def log_moments(self) -> tuple[Floats, Floats]:
        """ln E e^{c loss} and ln E e^{-c loss} at the tilts c."""
        return self._log_moments(TILTS), self._log_moments(-TILTS)

    def _log_moments(self, tilts: Floats) -> Floats:
        terms = self.log_masses + tilts[:, None] * self.losses
        top = terms.max(axis=1)
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))

    def cut_off(self, log_negligible: float) -> "Shape":
        """The same without the largest losses, of so little mass together."""
        beyond = np.logaddexp.accumulate(self.log_masses[::-1])[::-1]
        kept = beyond > log_negligible
        kept[0] = True
        return Shape(self.log_masses[kept], self.losses[kept])

    def spread(self, tilt: float, spacing: float, on_lattice: float) -> float:
        """About the tilted mean of how much a lattice adds to the variance of a step's loss."""
        terms = self.log_masses + tilt * self.losses
        weights = np.exp(terms - terms.max())
        each = np.minimum(spacing**2 / 6, np.abs(self.losses) * spacing)
        each[np.isclose(self.losses, on_lattice, rtol=1e-9)] = 0
        return float(weights @ each / weights.sum())


@lru_cache(maxsize=KEPT_SHAPES)
def shape_of(pair: Pair) -> Shape:
    """The shape of a pair."""
    if isinstance(pair, FinitePair):
        logs = [math.log(p.numerator) - math.log(p.denominator) for p, _ in pair.levels]
        return Shape(np.array(logs), np.array(pair.losses))
    if isinstance(pair, ShiftPair):
        return _shape_of_noise(pair)
    if isinstance(pair, LabelledPair):
        return _join_shapes(pair)
    assert isinstance(pair, Envelope)
    remove = _shape_of_noise(pair.remove)
    masses, losses = (each[remove.losses > 0] for each in (remove.log_masses, remove.losses))
    rest = 1 - np.exp(masses).sum() - np.exp(masses - losses).sum()
    middle = [math.log(max(rest, 1e-300))]
    mirrored = (masses - losses)[::-1]
    return Shape(np.concatenate([mirrored, middle, masses]), np.concatenate([-losses[::-1], [0.0], losses]))


def _join_shapes(pair: LabelledPair) -> Shape:
    """The shapes of the parts, each lighter by its label, in increasing order."""
    parts = [shape_of(part) for part in pair.pairs]
    masses = [part.log_masses + log_w for log_w, part in zip(pair.log_weights, parts, strict=True)]
    losses = np.concatenate([part.losses for part in parts])
    order = np.argsort(losses)
    return Shape(np.concatenate(masses)[order], losses[order])


@lru_cache(maxsize=KEPT_SHAPES)
def _cut_shape(pair: Pair, log_negligible: int) -> Shape:
    return shape_of(pair).cut_off(log_negligible)


def _shape_of_noise(pair: ShiftPair) -> Shape:
    found = []
    with ctx.workprec(GRID_BITS):
        cuts = [*_walk(pair, -1), *_walk(pair, 1), *cut(pair, _near_centres(pair))]
        for _, p, q in split(cuts, 0):
            if p > 0 and q > 0:
                found.append((float(p.log()), float((p / q).log())))
    masses, losses = (np.array(each) for each in zip(*found, strict=True))
    return Shape(masses, losses)


def _near_centres(pair: ShiftPair) -> Iterator[arb]:
    """Outputs around the centres of normal noise, which tell losses of low noise apart."""
    if pair.has_normal_noise:
        for centre in {Fraction(0), pair.observed.exact_shift, pair.alternative.exact_shift}:
            for step in range(-AROUND, AROUND + 1):
                yield real(centre + Fraction(step, 4)).mid()


def _walk(pair: ShiftPair, sign: int) -> Iterator[OutputCut]:
    """Cuts at losses of one sign that grow geometrically, until next to nothing lies beyond."""
    end, loss = abs(pair.loss_range[sign > 0]), LEAST_LOSS
    while loss < end:
        (here,) = cut(pair, outputs(pair, [arb(sign * loss)]))
        yield here
        rest = here.p if sign > 0 else 1 - here.p
        if not rest > 0 or float(rest.log()) < NEGLIGIBLE:
            return
        loss *= GROWTH
    # an atom at the end is alone
    yield from cut(pair, outputs(pair, [sign * arb(end) * (1 - arb(2) ** -40)]))


def outputs(pair: ShiftPair, losses: Iterable[arb]) -> list[arb]:
    """Near the outputs with these losses; far out where a loss is not reached."""
    p, q = pair.observed, pair.alternative
    if p.is_plain:
        return [-x for x in outputs(pair.reverse, (-loss for loss in losses))]
    shift, rate, rest = real(p.exact_shift), real(p.exact_rate), real(1 - p.exact_rate)
    far, tiny = (shift + 2 * ctx.prec).mid(), arb(2) ** (-ctx.prec // 2)
    found = []
    for loss in losses:
        if not q.is_plain:
            # equal mixtures to both sides: odd in the loss, and y = e^(shift x) solves y^2 - b y = e^loss
            b = abs(loss).expm1() * rest / rate * (shift**2 / 2).exp()
            x = ((b + (b * b + 4 * abs(loss).exp()).sqrt()) / 2).log() / shift
            found.append(x.mid() if loss >= 0 else -x.mid())
            continue
        needed = (loss.exp() - rest) / rate
        if not needed > 0:
            found.append(-far)
        elif pair.noise is Noise.NORMAL:
            found.append((needed.log() / shift + shift / 2).mid())
        else:
            x = ((needed.log() + shift) / 2).mid()
            found.append(far if x > shift + tiny else -far if x < -tiny else x)
    return found


@dataclass(frozen=True)
class CurvePoint:
    """A point of the curve: epsilon, ln delta of finite losses, and the tilt of the saddle between them."""

    epsilon: float
    log_delta: float
    tilt: float
    slack: float = math.inf


@dataclass(frozen=True)
class Whereabouts:
    """What is known of a point of the curve: epsilon up to `slack`, ln delta, or both."""

    epsilon: float | None = None
    log_delta: float | None = None
    slack: float = math.inf


@dataclass(frozen=True)
class LossOutline:
    """A schedule as its shapes, without the losses that are too rare to matter."""

    shapes: tuple[Shape, ...]
    counts: tuple[int, ...]
    log_negligible: float

    @staticmethod
    def of(schedule: Schedule, log_negligible: float) -> "LossOutline":
        """The outline of a schedule."""
        log_each = log_negligible - math.log(2 * schedule.steps)
        shapes = tuple(_cut_shape(pair, math.floor(log_each)) for pair, _ in schedule)
        return LossOutline(shapes, tuple(times for _, times in schedule), log_negligible)

    def log_moments(self, counts: Sequence[int], *, down: bool = False) -> Floats:
        """ln E e^{c loss}, or with -c, of so many steps of each shape."""
        return np.asarray(np.array(counts, dtype=float) @ self._moments[down])

    @cached_property
    def _moments(self) -> list[Floats]:
        return [np.array([shape.log_moments[down] for shape in self.shapes]) for down in (False, True)]

    def point(self, epsilon: float | None, log_delta: float | None) -> CurvePoint:
        """About the point of the curve at this epsilon or delta, by the best bound from one moment."""
        prefactor = TILTS * np.log(TILTS) - (1 + TILTS) * np.log1p(TILTS)
        moments = self.log_moments(self.counts) + prefactor
        if epsilon is None:
            epsilons = (moments - (log_delta or 0.0)) / TILTS
            best = int(epsilons.argmin())
            if epsilons[best] > 0:
                return CurvePoint(float(epsilons[best]), log_delta or 0.0, float(TILTS[best]))
            epsilon = 0.0
        logs = moments - TILTS * epsilon
        best = int(logs.argmin())
        found = min(float(logs[best]), 0.0) if log_delta is None else log_delta
        return CurvePoint(epsilon, found, float(TILTS[best]))

    def window(self, target: CurvePoint, counts: Sequence[int]) -> tuple[float, float]:
        """Losses above which a partial sum is negligible, below which it hardly comes back to epsilon."""
        rest = [times - count for times, count in zip(self.counts, counts, strict=True)]
        steps = sum(self.counts)
        copies = math.log(2 * steps / sum(counts)) + math.log(2 + math.log2(steps))
        up, down = self.log_moments(counts), self.log_moments(counts, down=True)
        high = float(((up + copies - self.log_negligible) / TILTS).min())
        back = self.log_negligible - copies - down - self.log_moments(rest) + TILTS * target.epsilon
        low = float((back / (2 * TILTS)).max())
        if not any(rest):  # in the end nothing comes back
            low = max(low, target.epsilon - target.slack)
        return min(low, high), high

    def spacing(self, tilt: float, width: float, on_lattice: float) -> float:
        """The largest spacing with which the lattice moves epsilon by about a third of the width."""
        low, high = 1e-25, 1e6
        for _ in range(80):
            middle = math.sqrt(low * high)
            parts = zip(self.shapes, self.counts, strict=True)
            spread = sum(times * shape.spread(tilt, middle, on_lattice) for shape, times in parts)
            low, high = (middle, high) if (tilt + 1) / 2 * spread < width / 3 else (low, middle)
        return low


@dataclass(frozen=True)
class ExactPlan:
    """How one schedule is composed near one point of its curve: the lattice, and the windows."""

    schedule: Schedule
    outline: LossOutline
    target: CurvePoint
    lattice: Lattice
    is_finest: bool  # whether more cells would take too long, help nothing, or are not what was asked for
    cells: int  # of the longest window

    @property
    def seconds(self) -> float:
        """About how long it takes, within a factor of 3 on a machine that is not busy."""
        work = self.cells * self.lattice.bits * (1 + count_products(self.schedule))
        return work / WORK_PER_SECOND + self.cells * SECONDS_PER_CELL

    @property
    def memory(self) -> float:
        """About how many bytes a product takes."""
        return self.cells * self.lattice.bits * BYTES_PER_BIT

    def window(self, counts: Sequence[int]) -> tuple[Fraction, Fraction]:
        """The losses, in spacings, that matter after so many steps of each pair."""
        low, high = self.outline.window(self.target, counts)
        margin = MARGIN + math.isqrt(sum(counts))  # labels stray from losses
        return Fraction(low) / self.lattice.spacing - margin, Fraction(high) / self.lattice.spacing + margin

    def range_of(self, place: int) -> tuple[int, int]:
        """The lattice losses of one step of the pair at this place of the schedule, the end excluded."""
        first, last = self.window([int(place == each) for each in range(len(self.schedule.parts))])
        low, high = self.schedule.parts[place][0].loss_range
        top = min(high, float(self.outline.shapes[place].losses[-1]) * GROWTH)
        last = min(last, Fraction(top) / self.lattice.spacing + 2)
        if math.isfinite(low):
            first = max(first, Fraction(low) / self.lattice.spacing - 1)
        index = math.floor(first)
        return index, max(math.ceil(last), index + 1) + 1


def find_target(schedule: Schedule, known: Whereabouts) -> CurvePoint:
    """About the point of the curve that is asked for."""
    infinite, log_delta = schedule.infinite_mass, known.log_delta
    if log_delta is not None and infinite:
        log_delta += math.log(max(1 - infinite * math.exp(min(-log_delta, 700)), 1e-6))  # of finite losses
    at = NEGLIGIBLE if log_delta is None else log_delta
    for _ in range(4):  # losses that are too rare to matter would spoil the moments
        found = LossOutline.of(schedule, at + math.log(1e-6)).point(known.epsilon, log_delta)
        at = found.log_delta
    if at < LEAST_LOG_DELTA:  # bounds that are made earlier on the curve hold there, too
        return LossOutline.of(schedule, LEAST_LOG_DELTA + math.log(1e-6)).point(None, LEAST_LOG_DELTA)
    if known.epsilon is not None and log_delta is not None:  # a curve far below needs no steeper tilt
        at_delta = LossOutline.of(schedule, at + math.log(1e-6)).point(None, log_delta)
        found = replace(found, tilt=min(found.tilt, at_delta.tilt))
    if infinite and log_delta is None:
        at = float(np.logaddexp(math.log(infinite), at))
    return replace(found, log_delta=at, slack=known.slack)


@dataclass(frozen=True)
class Settings:
    """Cells and bits, if they are given."""

    cells: int | None = None
    bits: int | None = None


def make_plan(schedule: Schedule, target: CurvePoint, width: float, settings: Settings) -> ExactPlan:
    """A plan whose bounds should be `width` apart in epsilon, or as close as takes seconds."""
    log_negligible = target.log_delta + math.log(min(target.tilt * width, 0.5) / SHARE)
    outline = LossOutline.of(schedule, log_negligible)
    windows = [outline.window(target, counts) for counts in _stages(outline.counts)]
    length = max(LEAST_LENGTH, *(high - low for low, high in windows))
    top = _largest_loss(schedule, math.ceil(-log_negligible / math.log(2)) + 2 * GUARD)
    wanted = min(outline.spacing(target.tilt, width, float(top)), length * math.sqrt(width) / MARGIN)
    cells = settings.cells or math.ceil(min(length / wanted, MOST_CELLS))
    masses = math.log2(4 * schedule.steps * (cells + 2 * MARGIN)) - log_negligible / math.log(2)
    bits = settings.bits or max(math.ceil(masses), 32)
    most = settings.cells or _most_cells(bits * (1 + count_products(schedule)))
    count = min(cells, most)
    _refuse_too_large(count, bits)
    spacing = length / count
    is_tiny = target.log_delta <= LEAST_LOG_DELTA
    exact = top / math.ceil(top / Fraction(spacing)) if top > spacing else Fraction(spacing)
    is_finest = cells >= most or is_tiny
    return ExactPlan(schedule, outline, target, Lattice(exact, bits), is_finest, cells=count)


def count_products(schedule: Schedule) -> int:
    """How many products compose the schedule: squares, single steps, and one between two parts."""
    parts = schedule.parts
    return sum(times.bit_length() + times.bit_count() - 2 for _, times in parts) + len(parts) - 1


def _most_cells(work: int) -> int:
    """How many cells take no more than seconds, if each is so much work."""
    return max(min(MOST_CELLS, MOST_WORK // work), FEWEST_CELLS)


def _refuse_too_large(cells: int, bits: int) -> None:
    if cells * bits > MOST_BITS:
        what = f"a polynomial of {cells:,} {{cells}} with {bits:,} {{bits}} each takes gigabytes of memory"
        raise NotPreciseEnough(what, "Ask for fewer of either, or leave both out.")


def _stages(counts: Sequence[int]) -> Iterator[Sequence[int]]:
    """How many steps of each pair have been composed where windows are longest."""
    yield counts
    for place, count in enumerate(counts):
        for times in {count, (count + 1) // 2}:
            yield [times if place == each else 0 for each in range(len(counts))]


def _largest_loss(schedule: Schedule, bits: int) -> Fraction:
    """The largest finite loss of the most frequent bounded pair, or a little less; 0 if there is none.

    On the lattice its mass need not be spread; a little beyond, it stays alone in its cell.
    """
    bounded = [
        (times, place) for place, (pair, times) in enumerate(schedule) if pair.is_finite or pair.is_bounded
    ]
    if not bounded:
        return Fraction(0)
    with ctx.workprec(bits):
        mantissa, exponent = largest_ratio(schedule.parts[max(bounded)[1]][0]).log().lower().man_exp()
    return max(Fraction(int(mantissa)) * Fraction(2) ** int(exponent), Fraction(0))
