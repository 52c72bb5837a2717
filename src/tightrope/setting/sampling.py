"""How the batch of one step is drawn, as frozen values; `spelling` is the printed name of a kind."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args, overload

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.given import GivenExactly, exactly, when_asked

MOST_RECORDS = 10**300  # 1 / more is not a normal float
MOST_BATCHES = 10**15  # as many as a run has steps
LEAST_RATE = Fraction(1, MOST_RECORDS)  # likewise; nor may what is missing to 1 be smaller


@dataclass(frozen=True, kw_only=True)
class EveryRecord:
    """Every record takes part in every step: no amplification.

    >>> EveryRecord().rate
    1.0
    """

    spelling: ClassVar[str] = "every-record"

    @property
    def rate(self) -> float:
        """The probability that one record takes part: 1."""
        return 1.0

    @property
    def exact_rate(self) -> Fraction:
        """1."""
        return Fraction(1)


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class Poisson(GivenExactly):
    """Each record joins the batch independently with probability `rate`; batch sizes vary and may be 0.

    >>> Poisson(rate=1e-3).rate
    0.001
    >>> Poisson(rate=Fraction(1, 3))  # kept as it is, not as the nearest float
    Poisson(rate=Fraction(1, 3))
    >>> Poisson(rate=0.01, at_most=150, population=10_000)  # a sampling of its own
    TruncatedPoisson(rate=0.01, at_most=150, population=10000)
    """

    spelling: ClassVar[str] = "poisson"

    rate: float
    exact_rate: Fraction = field(init=False, hash=False, default=when_asked())  # slow to hash

    if TYPE_CHECKING:  # no __init__ here: checkers would heed it in place of these

        @overload
        def __new__(cls, *, rate: float | Fraction) -> Self: ...

        @overload
        def __new__(  # type: ignore[misc]  # a kind of its own
            cls, *, rate: float | Fraction, at_most: int, population: int
        ) -> "TruncatedPoisson": ...

        def __new__(cls, **given: Any) -> Any:
            """Either of them."""

    else:

        def __new__(cls, **given):
            """A cap makes it another sampling, which nothing here mistakes for this one."""
            return object.__new__(cls) if given.keys() <= {"rate"} else TruncatedPoisson(**given)

        def __init__(self, *, rate):
            object.__setattr__(self, "rate", rate)
            self.__post_init__()

    def __post_init__(self) -> None:
        self._keep("rate", self.rate, _check_rate(self.rate))


@dataclass(frozen=True, kw_only=True, repr=False)
class TruncatedPoisson(GivenExactly):
    """Poisson sampling of which a batch keeps at most `at_most` records, uniformly chosen from those drawn.

    Accelerators need batches of a bounded size. `population` is the number of records, under ADD and REMOVE
    of the larger of the two neighbouring datasets, or a public bound on it. Which records are kept must not
    depend on what they hold.

    >>> TruncatedPoisson(rate=0.01, at_most=150, population=10_000).at_most
    150
    """

    spelling: ClassVar[str] = "truncated-poisson"

    rate: float
    at_most: int
    population: int
    exact_rate: Fraction = field(init=False, hash=False, default=when_asked())  # slow to hash

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, rate: float | Fraction, at_most: int, population: int) -> None: ...

    def __post_init__(self) -> None:
        self._keep("rate", self.rate, _check_rate(self.rate))
        remedy = "It is how many records a batch holds at most."
        object.__setattr__(self, "at_most", check.whole(least=1, remedy=remedy, at_most=self.at_most))
        object.__setattr__(self, "population", _check_population(self.population))


@dataclass(frozen=True, kw_only=True)
class BallsInBins:
    """In each pass every record takes one of `batches` batches, uniformly and on its own; sizes vary.

    Each step releases one batch, so `batches` steps are one pass. Passes follow each other: n steps are
    n // batches whole passes and the first batches of one more. A pass that was broken off before others
    counts as a whole one. `batches` is public and must not follow the size of the dataset.

    >>> BallsInBins(batches=1000).rate
    0.001
    """

    spelling: ClassVar[str] = "balls-in-bins"

    batches: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", _check_batches(self.batches))

    @property
    def exact_rate(self) -> Fraction:
        """1 / batches: how often a record is in a given batch."""
        return Fraction(1, self.batches)

    @property
    def rate(self) -> float:
        """1 / batches, to the nearest float."""
        return 1 / self.batches


@dataclass(frozen=True, kw_only=True)
class RandomAllocation:
    """In each pass every record takes `chosen` different ones of `batches` batches, uniformly, on its own.

    Each step releases one batch, so `batches` steps are one pass. With `chosen=1` it is `BallsInBins`.

    >>> RandomAllocation(batches=1000, chosen=5).rate
    0.005
    """

    spelling: ClassVar[str] = "random-allocation"

    batches: int
    chosen: int

    def __post_init__(self) -> None:
        batches = _check_batches(self.batches)
        chosen = check.whole(least=1, remedy="It is how many batches a record takes.", chosen=self.chosen)
        if chosen > batches:
            must = f"be at most {{batches={batches}}}"
            raise InvalidSetting("chosen", chosen, must, "A record takes each batch once at most.")
        object.__setattr__(self, "batches", batches)
        object.__setattr__(self, "chosen", chosen)

    @property
    def exact_rate(self) -> Fraction:
        """chosen / batches: how often a record is in a given batch."""
        return Fraction(self.chosen, self.batches)

    @property
    def rate(self) -> float:
        """chosen / batches, to the nearest float."""
        return self.chosen / self.batches


@dataclass(frozen=True, kw_only=True)
class WithoutReplacement:
    """A uniformly random batch of exactly `batch` out of `population` records, drawn afresh at each step.

    Under ADD and REMOVE `population` counts the larger of the two neighbouring datasets.

    >>> WithoutReplacement(batch=50, population=1000).rate
    0.05
    """

    spelling: ClassVar[str] = "without-replacement"

    batch: int
    population: int

    def __post_init__(self) -> None:
        population = _check_population(self.population)
        batch = check.whole(batch=self.batch)
        if batch > population:
            must = f"be at most {{population={population}}}"
            remedy = "A batch without replacement cannot hold more records than there are."
            raise InvalidSetting("batch", batch, must, remedy)
        object.__setattr__(self, "batch", batch)
        object.__setattr__(self, "population", population)

    @property
    def exact_rate(self) -> Fraction:
        """batch / population, exactly."""
        return Fraction(self.batch, self.population)

    @property
    def rate(self) -> float:
        """batch / population, to the nearest float."""
        return self.batch / self.population


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """In each epoch all records, in a fresh secret random order, are cut into `batches` batches.

    Each step releases one batch, so `batches` steps are one epoch. n steps are n // batches whole epochs and
    the first batches of one more; an epoch that was broken off before others counts as a whole one.

    `batch` is how many records a batch holds, if that is known: larger ones hide more. The last batch may
    hold fewer, `last`, and `left_over` records may be in no batch. Without `batch` all batches hold equally
    many, and together all records. Under ADD and REMOVE they are those of the
    larger neighbour, and both neighbours have as many batches; what is released are sums, perhaps divided by
    a public number, but not by the size of a smaller last batch, which differs between neighbours.

    >>> Shuffled(batches=1000).rate
    0.001
    >>> Shuffled.cut(records=1000, batch=30)
    Shuffled(batches=34, batch=30, last=10, left_over=0)
    >>> Shuffled.cut(records=1000, batch=30, drop_last=True)
    Shuffled(batches=33, batch=30, last=30, left_over=10)
    """

    spelling: ClassVar[str] = "shuffled"

    batches: int
    batch: int | None = None
    last: int | None = None
    left_over: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", _check_batches(self.batches))
        if self.batch is None:
            self._refuse_sizes()
            return
        remedy = "It is how many records every batch but the last one holds."
        batch = check.whole(least=1, remedy=remedy, batch=self.batch)
        most = f"make at most {MOST_RECORDS:g} records"
        if batch * self.batches > MOST_RECORDS:
            raise InvalidSetting("batch", batch, most, remedy)
        remedy = "It is how many records the last batch holds; leave it out if that is as many."
        last = batch if self.last is None else check.whole(least=1, remedy=remedy, last=self.last)
        if last > batch:
            raise InvalidSetting("last", last, f"be at most {{batch={batch}}}", remedy)
        remedy = "It is how many records of an epoch are in no batch."
        left_over = check.whole(least=0, remedy=remedy, left_over=self.left_over)
        if batch * self.batches + left_over > MOST_RECORDS:
            raise InvalidSetting("left_over", left_over, most, remedy)
        if left_over and last < batch:
            must = f"be 0 where the last batch has room for more ({{last={last}}})"
            raise InvalidSetting("left_over", left_over, must, remedy)
        for name, value in (("batch", batch), ("last", last), ("left_over", left_over)):
            object.__setattr__(self, name, value)

    def _refuse_sizes(self) -> None:
        """Refuse what only the size of a batch gives a meaning."""
        must, remedy = "be left out where {batch} is not stated", "State how many records a batch holds."
        if self.last is not None:
            raise InvalidSetting("last", self.last, must, remedy)
        left_over = check.whole(remedy=remedy, left_over=self.left_over)
        if left_over:
            raise InvalidSetting("left_over", left_over, must, remedy)
        object.__setattr__(self, "left_over", left_over)

    @classmethod
    def cut(cls, *, records: int, batch: int, drop_last: bool = False) -> Self:
        """So many records, cut into batches of so many; the last one is smaller, or dropped.

        Whole batches leave nothing to drop; a neighbour with a record fewer would have a batch fewer.
        """
        n = check.whole(least=1, remedy="Pass the size of the dataset.", records=records)
        size = check.whole(least=1, remedy="Pass the number of records in a batch.", batch=batch)
        if not isinstance(drop_last, bool):
            remedy = "It says whether records that fill no batch are left out."
            raise InvalidSetting("drop_last", drop_last, "be True or False", remedy)
        if size > n:
            must = f"be at most {{records={n}}}"
            raise InvalidSetting("batch", size, must, "A batch cannot hold more records than there are.")
        whole, rest = divmod(n, size)
        if drop_last and not rest:
            remedy = (
                "Leave out {drop_last=True} where records are exchanged; with a record fewer a whole batch "
                "would be missing, and no theorem compares such neighbours."
            )
            raise InvalidSetting("batch", size, f"leave some of {n} records to drop", remedy)
        if drop_last or not rest:
            return cls(batches=whole, batch=size, left_over=rest)
        return cls(batches=whole + 1, batch=size, last=rest)

    @property
    def records(self) -> int | None:
        """How many there are, if the size of a batch is stated."""
        if self.batch is None or self.last is None:
            return None
        return (self.batches - 1) * self.batch + self.last + self.left_over

    @property
    def exact_rate(self) -> Fraction:
        """1 / batches: of an epoch, the part that is one step."""
        return Fraction(1, self.batches)

    @property
    def rate(self) -> float:
        """1 / batches, to the nearest float."""
        return 1 / self.batches


def _check_rate(rate: float | Fraction) -> float:
    remedy = "It is the probability that one record joins one batch: expected batch size / dataset size."
    checked, exact = check.probability(remedy=remedy, rate=rate), exactly(rate)
    if 0 < min(exact, 1 - exact) < LEAST_RATE:
        must = f"be 0, 1, or {float(LEAST_RATE):g} away from both"
        raise InvalidSetting("rate", rate, must, remedy)
    return checked


def _check_population(population: int) -> int:
    checked = check.whole(least=1, population=population)
    if checked > MOST_RECORDS:
        raise InvalidSetting(
            "population", checked, f"be at most {MOST_RECORDS:g}", "Nobody has more records."
        )
    return checked


def _check_batches(batches: int) -> int:
    checked = check.whole(least=1, remedy="It is the number of batches in one pass.", batches=batches)
    if checked > MOST_BATCHES:
        must, remedy = f"be at most {MOST_BATCHES:.0e}", "Nobody cuts a pass into more."
        raise InvalidSetting("batches", checked, must, remedy)
    return checked


Allocated = BallsInBins | RandomAllocation  # each record takes its batches of a pass on its own
InPasses = Allocated | Shuffled  # what has a theorem is a pass, not a step
Sampling = EveryRecord | Poisson | WithoutReplacement | TruncatedPoisson | InPasses


def epoch_length(sampling: Sampling) -> Fraction:
    """The steps of one epoch: all batches of a pass, or as many as visit each record once on average.

    >>> epoch_length(RandomAllocation(batches=100, chosen=3)), epoch_length(Poisson(rate=0.25))
    (Fraction(100, 1), Fraction(4, 1))
    """
    return Fraction(sampling.batches) if isinstance(sampling, InPasses) else 1 / sampling.exact_rate


SAMPLING_SPELLINGS: dict[str, type[Sampling]] = {kind.spelling: kind for kind in get_args(Sampling)}
