"""How the batch of one step is drawn, as frozen values; `spelling` is the printed name of a kind."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, get_args

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.given import GivenExactly, as_given

MOST_RECORDS = 10**300  # 1 / more is not a normal float
LEAST_RATE = Fraction(1, MOST_RECORDS)  # likewise; nor may what is missing to 1 be smaller


@dataclass(frozen=True, kw_only=True)
class EveryRecord:
    """Every record takes part in every step: no amplification."""

    spelling: ClassVar[str] = "every-record"

    @property
    def rate(self) -> float:
        """The probability that one record takes part: 1."""
        return 1.0

    @property
    def exact_rate(self) -> Fraction:
        """1."""
        return Fraction(1)


@dataclass(frozen=True, kw_only=True, repr=False)
class Poisson(GivenExactly):
    """Each record joins the batch independently with probability `rate`; batch sizes vary and may be 0.

    >>> Poisson(rate=1e-3).rate
    0.001
    >>> Poisson(rate=Fraction(1, 3))  # kept as it is, not as the nearest float
    Poisson(rate=Fraction(1, 3))
    """

    spelling: ClassVar[str] = "poisson"

    rate: float
    exact_rate: Fraction = field(init=False)

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, rate: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        remedy = "It is the probability that one record joins one batch: expected batch size / dataset size."
        self._keep("rate", self.rate, check.probability(remedy=remedy, rate=self.rate))
        if 0 < min(self.exact_rate, 1 - self.exact_rate) < LEAST_RATE:
            must = f"be 0, 1, or {float(LEAST_RATE):g} away from both"
            raise InvalidSetting("rate", as_given(self, "rate"), must, remedy)


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
        population = check.whole(least=1, population=self.population)
        if population > MOST_RECORDS:
            must = f"be at most {MOST_RECORDS:g}"
            raise InvalidSetting("population", population, must, "Nobody has more records.")
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


Sampling = EveryRecord | Poisson | WithoutReplacement

SAMPLING_SPELLINGS: dict[str, type[Sampling]] = {kind.spelling: kind for kind in get_args(Sampling)}
