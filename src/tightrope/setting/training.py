"""What is run, in the words people train in: from records, batch and epochs to a sampling and its steps."""

import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, assert_never

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.mechanism import Gaussian, Mechanism
from tightrope.setting.run import MOST_STEPS, Run, Step
from tightrope.setting.sampling import (
    SAMPLING_SPELLINGS,
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
    epoch_length,
)

SHUFFLES = ("shuffle", "shuffling")  # as people call it, besides the printed name


@dataclass(frozen=True, kw_only=True, repr=False)
class Training:
    """`epochs` passes over `records` records in batches of `batch`, or about so many where sizes vary.

    `sampling` says how batches are drawn: `Poisson`, `WithoutReplacement`, `BallsInBins`, `Shuffled` or
    `EveryRecord`, or the printed name of one. It then holds the sampling itself, whose rate batch / records
    is exact; bins and shuffled batches are records / batch, rounded up. A shuffle whose last batch is dropped
    is passed itself: `Shuffled.cut(records=, batch=, drop_last=True)`. `steps` is epochs / rate, rounded up.
    For full batches leave out `batch`.

    >>> plan = Training(records=60_000, batch=256, epochs=30, sampling=Poisson)
    >>> plan.sampling, plan.steps
    (Poisson(rate=Fraction(8, 1875)), 7032)
    >>> print(plan)
    7,032 steps: 30 epochs of 234.4 batches; each record joins a batch with probability 256/60000.
    >>> plan.run(noise_multiplier=1.1).steps
    7032
    """

    records: int
    batch: int
    epochs: float | Fraction
    sampling: Sampling

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(
            self,
            *,
            records: int,
            epochs: float | Fraction,
            sampling: type[Sampling] | Sampling | str,
            batch: int | None = None,
        ) -> None: ...

    else:
        batch: int | None = None

    def __post_init__(self) -> None:
        records = check.whole(least=1, remedy="Pass the size of the dataset.", records=self.records)
        kind = as_sampling_kind(self.sampling)
        batch = records if self.batch is None and kind is EveryRecord else self.batch
        if batch is None:
            remedy = "Pass the number of records in a batch, for example {batch=256}."
            raise InvalidSetting("batch", None, "be stated", remedy)
        size = check.whole(least=1, remedy="Pass the number of records in a batch.", batch=batch)
        if size > records:
            remedy = "A batch cannot hold more records than there are."
            raise InvalidSetting("batch", size, f"be at most {{records={records}}}", remedy)
        if kind is EveryRecord and size != records:
            remedy = "Leave {batch} out, or choose another {sampling}."
            raise InvalidSetting("batch", size, "hold every record under {EveryRecord}", remedy)
        remedy = "Pass how often the training goes through the dataset, for example {epochs=30}."
        check.positive(remedy=remedy, epochs=self.epochs)
        drawn = _draw_batches(kind, self.sampling, batch=size, records=records)
        if isinstance(self.sampling, kind) and self.sampling != drawn:
            must, remedy = f"draw {size:,} of {records:,} records", "Pass its kind, or its printed name."
            raise InvalidSetting("sampling", self.sampling, must, remedy)
        for name, value in (("records", records), ("batch", size), ("sampling", drawn)):
            object.__setattr__(self, name, value)
        if self.steps > MOST_STEPS:
            raise InvalidSetting("epochs", self.epochs, f"take at most {MOST_STEPS:.0e} steps", remedy)

    @property
    def exact_epochs(self) -> Fraction:
        """The epochs as they were typed: 0.1 is a tenth, not the float above it."""
        return as_typed(self.epochs)

    @property
    def steps(self) -> int:
        """epochs * records / batch, or epochs * batches, rounded up."""
        return count_steps(self.exact_epochs, self.sampling)

    def step(self, mechanism: Mechanism | None = None, *, noise_multiplier: float | None = None) -> Step:
        """One step: Gaussian noise with this multiplier, or another mechanism."""
        if (mechanism is None) == (noise_multiplier is None):
            remedy = "Pass for example {noise_multiplier=1.1}, or {mechanism=Laplace(noise_multiplier=2)}."
            raise InvalidSetting("noise_multiplier", noise_multiplier, "be stated once", remedy)
        if noise_multiplier is not None:
            mechanism = Gaussian(noise_multiplier=noise_multiplier)
        assert mechanism is not None
        return Step(mechanism, self.sampling)

    def run(self, mechanism: Mechanism | None = None, *, noise_multiplier: float | None = None) -> Run:
        """All steps, with Gaussian noise of this multiplier or another mechanism."""
        return self.step(mechanism, noise_multiplier=noise_multiplier) * self.steps

    def __str__(self) -> str:
        return f"{tell_steps(self.exact_epochs, self.sampling)}; {tell_batches(self)}."

    def __repr__(self) -> str:
        exact = self.exact_epochs
        epochs = int(exact) if exact.denominator == 1 else self.epochs
        batch = "" if isinstance(self.sampling, EveryRecord) else f"batch={self.batch}, "
        kind = type(self.sampling).__name__
        dropped = isinstance(self.sampling, Shuffled) and self.sampling.left_over
        if isinstance(self.sampling, TruncatedPoisson) or dropped:  # what does not follow from the rest
            kind = repr(self.sampling)
        return f"Training(records={self.records}, {batch}epochs={epochs!r}, sampling={kind})"


def check_plan(plan: object) -> Training:
    """The plan, if it is one."""
    if not isinstance(plan, Training):
        remedy = "Write for example Training(records=60_000, batch=256, epochs=30, sampling=Poisson)."
        raise InvalidSetting("plan", plan, "be a {Training}", remedy)
    return plan


def as_sampling_kind(value: object) -> type[Sampling]:
    """The kind of a sampling that was given itself, as a class or by its printed name."""
    named = value if isinstance(value, str) else ""
    if named in SHUFFLES:
        return Shuffled
    for spelling, kind in SAMPLING_SPELLINGS.items():
        if value is kind or isinstance(value, kind) or named in (spelling, kind.__name__):
            return kind
    must = f"be one of {', '.join(f'{{{kind.__name__}}}' for kind in SAMPLING_SPELLINGS.values())}"
    remedy = "It says how batches are drawn: epsilon depends on it. There is no default."
    raise InvalidSetting("sampling", value, must, remedy)


def _draw_batches(kind: type[Sampling], given: Any, *, batch: int, records: int) -> Sampling:
    """The sampling of this kind whose batches hold so many of so many records, or about so many."""
    if kind is Poisson:
        return Poisson(rate=Fraction(batch, records))
    if kind is WithoutReplacement:
        return WithoutReplacement(batch=batch, population=records)
    if kind is BallsInBins:
        return BallsInBins(batches=math.ceil(Fraction(records, batch)))
    if kind is Shuffled:
        drops = isinstance(given, Shuffled) and given.left_over > 0 and records % batch > 0
        return Shuffled.cut(records=records, batch=batch, drop_last=drops)
    if isinstance(given, TruncatedPoisson):
        return TruncatedPoisson(rate=Fraction(batch, records), at_most=given.at_most, population=records)
    if kind in (TruncatedPoisson, RandomAllocation):
        remedy = "Pass the sampling itself." if kind is TruncatedPoisson else "Name another sampling."
        steps = "Or write Step(mechanism, sampling) * steps."
        raise InvalidSetting("sampling", given, "follow from {records} and {batch}", f"{remedy} {steps}")
    return EveryRecord()


def as_typed(value: Any) -> Fraction:
    """A checked number as it was typed: 0.1 is a tenth here, not the float above it.

    >>> as_typed(0.1), as_typed(Fraction(1, 3))
    (Fraction(1, 10), Fraction(1, 3))
    """
    if isinstance(value, float):
        return Fraction(repr(float(value)))
    if isinstance(value, numbers.Rational):  # of plain ints: numpy's overflow
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(*map(int, value.as_integer_ratio()))


def count_steps(epochs: Fraction, sampling: Sampling) -> int:
    """The steps of so many epochs, rounded up."""
    return math.ceil(epochs * epoch_length(sampling))


def tell_steps(epochs: Fraction, sampling: Sampling) -> str:
    """How many steps so many epochs are.

    >>> tell_steps(Fraction(1), WithoutReplacement(batch=50, population=1000))
    '20 steps: 1 epoch of 20 batches'
    """
    steps, batches = count_steps(epochs, sampling), epoch_length(sampling)
    passes = f"{_write(epochs)} epoch{'s' * (epochs != 1)}"
    return f"{steps:,} step{'s' * (steps != 1)}: {passes} of {_write(batches)} batch{'es' * (batches != 1)}"


def tell_batches(plan: Training) -> str:
    """How the batches of a plan are drawn."""
    match plan.sampling:
        case Poisson():
            return f"each record joins a batch with probability {plan.batch}/{plan.records}"
        case WithoutReplacement():
            return f"each batch is {plan.batch:,} of {plan.records:,} records, drawn afresh"
        case EveryRecord():
            return f"each batch holds all {plan.records:,} records"
        case BallsInBins(batches=batches):
            return f"each record takes one of {batches:,} batches in each epoch"
        case RandomAllocation(batches=batches, chosen=chosen):
            return f"each record takes {chosen:,} of {batches:,} batches in each pass"
        case TruncatedPoisson(at_most=most):
            joins = f"each record joins a batch with probability {plan.batch}/{plan.records}"
            return f"{joins}, and a batch keeps at most {most:,}"
        case Shuffled(batches=batches):
            return f"each epoch is a fresh secret order of all records, cut into {batches:,} batches"
    assert_never(plan.sampling)


def _write(number: Fraction) -> str:
    """A number to read: whole, or to four digits and at least one decimal.

    >>> _write(Fraction(60_000, 256)), _write(Fraction(3, 2)), _write(Fraction(235))
    ('234.4', '1.5', '235')
    """
    if number.denominator == 1:
        return f"{number.numerator:,}"
    decimals = max(1, 3 - math.floor(math.log10(number)))
    return f"{float(number):,.{decimals}f}".rstrip("0").removesuffix(".")
