"""What is done and how often: a Step is one mechanism on one sample, a Run is steps with multiplicity."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self, get_args

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.sampling import InPasses, Sampling

_MECHANISMS, _SAMPLINGS = get_args(Mechanism), get_args(Sampling)
MOST_STEPS = 10**15  # beyond, double precision cannot count
PLANNED = "the steps were planned before any output was seen"  # which a run of several kinds cannot show
FIXED_IN_ADVANCE, CHOSEN_ON_THE_WAY = "fixed in advance", "chosen on the way"  # what a schedule can be
UNBROKEN = "no pass was broken off before another began, or changed its noise"  # a run counts steps


@dataclass(frozen=True)
class Step:
    """One mechanism applied to one freshly drawn batch.

    >>> from tightrope import Gaussian, Poisson
    >>> Step(Gaussian(noise_multiplier=0.8), Poisson(rate=1e-3)) * 10_000
    Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10000
    """

    mechanism: Mechanism
    sampling: Sampling
    _kept_hash: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if type(self.mechanism) in _MECHANISMS and type(self.sampling) in _SAMPLINGS:
            return
        for name, value, kinds in (
            ("mechanism", self.mechanism, _MECHANISMS),
            ("sampling", self.sampling, _SAMPLINGS),
        ):
            if type(value) not in kinds:  # of what a subclass does, no theorem knows
                known = ", ".join(f"{{{kind.__name__}}}" for kind in kinds)
                remedy = "Write for example Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001))."
                raise InvalidSetting(name, value, f"be one of {known}", remedy)

    def __init_subclass__(cls) -> None:
        raise TypeError("Step is complete as it is: no theorem knows what a subclass does")

    def __repr__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        kept = self._kept_hash
        if kept is None:  # `cached_property` would take a lock, for every step that is loaded
            kept = hash((self.mechanism, self.sampling))
            object.__setattr__(self, "_kept_hash", kept)
        return kept

    @cached_property
    def _text(self) -> str:
        """Kept, like the hash: a training loop asks for both again and again."""
        return f"Step({self.mechanism!r}, {self.sampling!r})"

    def __reduce__(self) -> "tuple[type[Step], tuple[Mechanism, Sampling]]":
        return Step, (self.mechanism, self.sampling)  # without the hash, which may differ between processes

    def __mul__(self, times: int) -> "Run":
        return Run(((self, times),))

    __rmul__ = __mul__

    def __add__(self, other: "Step | Run") -> "Run":
        return Run(((self, 1),)) + other


@dataclass(frozen=True, init=False, eq=False)
class Run:
    """Steps with multiplicity, in the order first met.

    The order does not matter for privacy: two runs that do the same steps equally often are equal.
    Zero steps are legal and perfectly private: `Run()` releases nothing.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
    >>> run = step * 900 + step * 100
    >>> run.steps, run == step * 1000, tr.Run().steps
    (1000, True, 0)
    """

    is_about_one_record: ClassVar[bool] = False  # and says nothing about groups of several

    parts: tuple[tuple[Step, int], ...]

    def __init__(self, parts: "tuple[tuple[Step, int], ...]" = ()) -> None:
        merged: dict[Step, int] = {}
        for step, times in parts:
            if not isinstance(step, Step):
                raise InvalidSetting("step", step, "be a Step", "Write Step(mechanism, sampling) * times.")
            count = check_steps(times, remedy="The number of steps is a whole number, 0 or more.")
            merged[step] = merged.get(step, 0) + count
            if merged[step] > MOST_STEPS:
                must, remedy = f"be at most {MOST_STEPS:.0e}", "Nobody runs more steps than that."
                raise InvalidSetting("steps", merged[step], must, remedy)
        object.__setattr__(self, "parts", tuple((step, times) for step, times in merged.items() if times))

    @classmethod
    def of_checked(cls, parts: "Iterable[tuple[Step, int]]") -> Self:
        """The run of distinct steps whose counts were checked when they were made; none of them is 0."""
        run = cls.__new__(cls)
        object.__setattr__(run, "parts", tuple(parts))
        return run

    def __iter__(self) -> Iterator[tuple[Step, int]]:
        return iter(self.parts)

    @property
    def steps(self) -> int:
        """The total number of steps.

        >>> from tightrope import EveryRecord, Laplace
        >>> (3 * Step(Laplace(noise_multiplier=2), EveryRecord())).steps
        3
        """
        return sum(times for _, times in self.parts)

    def __len__(self) -> int:
        return self.steps

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __add__(self, other: "Run | Step") -> "Run":
        if isinstance(other, Step):
            other = Run(((other, 1),))
        if not isinstance(other, Run):
            return NotImplemented
        kind = type(other) if other.is_about_one_record else type(self)
        return kind(self.parts + other.parts)

    def __radd__(self, other: object) -> "Run":
        if other == 0:  # so that sum(runs) works
            return self
        return NotImplemented

    def __mul__(self, times: int) -> "Run":
        count = check.whole(remedy="A run is repeated a whole number of times, 0 or more.", times=times)
        return type(self)(tuple((step, n * count) for step, n in self.parts))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and frozenset(self.parts) == frozenset(other.parts)

    def __hash__(self) -> int:
        return hash(frozenset(self.parts))

    def __repr__(self) -> str:
        return " + ".join(f"{step!r} * {times}" for step, times in self.parts) or "Run()"


def may_hide_broken_passes(run: Run) -> bool:
    """Whether its steps may be first batches of several passes where they count as more batches of one.

    >>> from tightrope import BallsInBins, Gaussian
    >>> step = Step(Gaussian(noise_multiplier=1), BallsInBins(batches=10))
    >>> may_hide_broken_passes(step * 10), may_hide_broken_passes(step * 1)
    (True, False)
    """
    kinds = [(step.sampling, times) for step, times in run]
    return any(isinstance(drawn, InPasses) and drawn.batches > 1 and times > 1 for drawn, times in kinds)


def check_steps(steps: object, *, least: int = 0, remedy: str) -> int:
    """How many steps; a quotient such as 30 * 60_000 / 256 is refused with what it is rounded up to."""
    up = math.ceil(steps) if isinstance(steps, float | Fraction) and math.isfinite(steps) else 0
    if up > 0 and up != steps:
        advice = f"Round it up: {{steps={up}}}. Records, batch and epochs can be stated instead."
        raise InvalidSetting("steps", steps, "be a whole number", advice)
    return check.whole(least=least, remedy=remedy, steps=steps)


def check_schedule(schedule: object) -> str | None:
    """How steps came to be chosen, as it is stated; None where it is not.

    >>> check_schedule("fixed in advance")
    'fixed in advance'
    """
    if schedule is None or schedule in (FIXED_IN_ADVANCE, CHOSEN_ON_THE_WAY):
        return schedule
    must = f"be {FIXED_IN_ADVANCE!r} or {CHOSEN_ON_THE_WAY!r}, or left out"
    remedy = "Say whether steps were chosen before any output was seen, or after looking at some."
    raise InvalidSetting("schedule", schedule, must, remedy)


def as_run(run: Run | Step) -> Run:
    """A single step counts as a run of one; anything else is refused by name."""
    if isinstance(run, Step):
        return run * 1
    if isinstance(run, Run):
        return run
    # a plan knows all of a run but its noise; its own module imports this one
    remedy = "Write Step(mechanism, sampling) * times."
    if type(run).__name__ == "Training":
        remedy = "Write plan.run(noise_multiplier=...)."
    if type(run).__name__ == "Tuned":
        remedy = "About the best of several runs, ask {epsilon}, {delta}, {privacy_curve} or a calibration."
    if type(run).__name__ == "Filter":
        remedy = "What a filter released costs its whole budget, however little of it is spent."
    raise InvalidSetting("run", run, "be a Run or a Step", remedy)
