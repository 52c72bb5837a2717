"""How many runs a search makes before the best is published: a law for each way to choose the number."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.given import GivenExactly, as_given, given_names, when_asked

if TYPE_CHECKING:
    from flint import arb

MOST_TRIALS = 10**6  # on average: nobody trains more often than that
LEAST_ETA, MOST_ETA = -0.9, 100  # a float, as what is typed: it is below -9/10
LEAST_OVER_ONE = 1e-6  # of a mean that must be above 1


class TrialLaw(ABC):
    """The law of K, the number of runs. It is drawn anew for each search, independently of the data.

    >>> law = GeometricTrials(mean=20)
    >>> isinstance(law, TrialLaw), law.expected, str(law)
    (True, 20.0, 'geometric:20')
    """

    spelling: ClassVar[str]

    @property
    @abstractmethod
    def expected(self) -> float:
        """E[K], to a few units in the last place."""

    def __str__(self) -> str:
        """As the command line and `as_trials` read it.

        >>> print(NegativeBinomialTrials(eta=0.5, mean=20))
        negative-binomial:0.5:20
        """
        given = (as_given(self, name) for name in given_names(type(self)))
        return ":".join([self.spelling, *(_write(value) for value in given)])


class TruncatedNegativeBinomial(TrialLaw):
    """P(K = k) is proportional to (1 - gamma)^k times the product of (l + eta) / (l + 1) over l < k, k >= 1.

    The family of Papernot and Steinke 2022: eta = 1 is geometric, eta = 0 logarithmic.
    """

    @property
    @abstractmethod
    def exact_shape(self) -> Fraction:
        """eta."""

    @property
    @abstractmethod
    def exact_gamma(self) -> Fraction:
        """gamma: what K is to be drawn with."""

    @property
    def gamma(self) -> float:
        """The nearest float of gamma, or gamma itself."""
        return float(self.exact_gamma)

    @property
    def expected(self) -> float:
        """E[K], to a few units in the last place."""
        from tightrope.numerics.balls import enclose  # loads flint

        return float(enclose(lambda: mean_of(self.exact_shape, self.exact_gamma)))


@dataclass(frozen=True, kw_only=True, repr=False)
class GeometricTrials(GivenExactly, TruncatedNegativeBinomial):
    """After each run the search stops with probability 1 / mean.

    >>> GeometricTrials(mean=20).gamma
    0.05
    """

    spelling: ClassVar[str] = "geometric"

    mean: float
    exact_mean: Fraction = field(init=False, default=when_asked())

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, mean: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        self._keep("mean", self.mean, _check_mean(self.mean, above_one=True))

    @property
    def exact_shape(self) -> Fraction:
        """1."""
        return Fraction(1)

    @property
    def exact_gamma(self) -> Fraction:
        """1 / mean."""
        return 1 / self.exact_mean


@dataclass(frozen=True, kw_only=True, repr=False)
class NegativeBinomialTrials(GivenExactly, TruncatedNegativeBinomial):
    """Negative binomial without 0: a smaller `eta` spreads the number of runs more widely.

    `gamma` is the largest float with which E[K] is at least `mean`; that is the law that is accounted.

    >>> law = NegativeBinomialTrials(eta=0.5, mean=20)
    >>> round(law.gamma, 6), round(law.expected, 6)
    (0.029278, 20.0)
    """

    spelling: ClassVar[str] = "negative-binomial"

    eta: float
    mean: float
    exact_eta: Fraction = field(init=False, default=when_asked())
    exact_mean: Fraction = field(init=False, default=when_asked())

    if TYPE_CHECKING:

        def __init__(self, *, eta: float | Fraction, mean: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        remedy = "1 is geometric, 0 logarithmic; Papernot and Steinke 2022 use values from -0.9 on."
        eta = check.real(remedy=remedy, eta=self.eta)
        if not LEAST_ETA <= eta <= MOST_ETA:
            must = f"be between {LEAST_ETA} and {MOST_ETA}"
            raise InvalidSetting("eta", self.eta, must, remedy)
        self._keep("eta", self.eta, eta)
        self._keep("mean", self.mean, _check_mean(self.mean, above_one=True))

    @property
    def exact_shape(self) -> Fraction:
        """eta."""
        return self.exact_eta

    @property
    def exact_gamma(self) -> Fraction:
        """The largest float with which the mean is at least the one given."""
        return _find_gamma(self.exact_eta, self.exact_mean)


@dataclass(frozen=True, kw_only=True, repr=False)
class LogarithmicTrials(GivenExactly, TruncatedNegativeBinomial):
    """P(K = k) is proportional to (1 - gamma)^k / k: the truncated negative binomial at eta = 0.

    >>> print(LogarithmicTrials(mean=20))
    logarithmic:20
    """

    spelling: ClassVar[str] = "logarithmic"

    mean: float
    exact_mean: Fraction = field(init=False, default=when_asked())

    if TYPE_CHECKING:

        def __init__(self, *, mean: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        self._keep("mean", self.mean, _check_mean(self.mean, above_one=True))

    @property
    def exact_shape(self) -> Fraction:
        """0."""
        return Fraction(0)

    @property
    def exact_gamma(self) -> Fraction:
        """The largest float with which the mean is at least the one given."""
        return _find_gamma(Fraction(0), self.exact_mean)


@dataclass(frozen=True, kw_only=True, repr=False)
class PoissonTrials(GivenExactly, TrialLaw):
    """A Poisson number of runs; with probability e^-mean there is none, and nothing is published.

    >>> PoissonTrials(mean=20).expected
    20.0
    """

    spelling: ClassVar[str] = "poisson"

    mean: float
    exact_mean: Fraction = field(init=False, default=when_asked())

    if TYPE_CHECKING:

        def __init__(self, *, mean: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        self._keep("mean", self.mean, _check_mean(self.mean, above_one=False))

    @property
    def expected(self) -> float:
        """E[K]."""
        return self.mean


@dataclass(frozen=True, kw_only=True, repr=False)
class FixedTrials(GivenExactly, TrialLaw):
    """So many runs, known to everybody: they are composed, as if all were published.

    >>> FixedTrials(number=5).expected
    5.0
    """

    spelling: ClassVar[str] = "fixed"

    number: int

    def __post_init__(self) -> None:
        number = check.whole(least=1, remedy="Pass how many runs there are.", number=self.number)
        if number > MOST_TRIALS:
            raise InvalidSetting("number", number, f"be at most {MOST_TRIALS:,}", "It is how many runs.")
        object.__setattr__(self, "number", number)

    @property
    def expected(self) -> float:
        """E[K]."""
        return float(self.number)


TRIAL_LAWS: tuple[type[TrialLaw], ...] = (
    GeometricTrials,
    NegativeBinomialTrials,
    LogarithmicTrials,
    PoissonTrials,
    FixedTrials,
)
TRIAL_SPELLINGS = {law.spelling: law for law in TRIAL_LAWS}
KNOWN_TRIALS = "poisson:20, geometric:20, negative-binomial:0.5:20, logarithmic:20 or fixed:20"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def as_trials(value: object) -> TrialLaw:
    """The law itself, the one a text spells, or so many runs if it is a whole number.

    >>> as_trials("geometric:20"), as_trials("negative-binomial:0.5:20"), as_trials(20)
    (GeometricTrials(mean=20.0), NegativeBinomialTrials(eta=0.5, mean=20.0), FixedTrials(number=20))
    """
    if isinstance(value, TrialLaw):
        return value
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return FixedTrials(number=int(value))
    remedy = f"Write for example {KNOWN_TRIALS}."
    raise InvalidSetting("trials", value, "be a law of the number of runs", remedy)


def _read(text: str) -> TrialLaw:
    kind, *numbers = (part.strip() for part in text.lower().split(":"))
    law = TRIAL_SPELLINGS.get(re.sub(r"[\s_]+", "-", kind))  # of the name only: before a number "-" is a sign
    names = () if law is None else given_names(law)
    if law is None or len(numbers) != len(names) or not all(map(_NUMBER.fullmatch, numbers)):
        remedy = "The last number is the mean, or how many runs there are if that is fixed."
        raise InvalidSetting("trials", text, f"be spelled like {KNOWN_TRIALS}", remedy)
    if law is FixedTrials:
        if not numbers[0].isdecimal():
            raise InvalidSetting("trials", text, "say a whole number of runs", "Write for example fixed:20.")
        return FixedTrials(number=int(numbers[0]))
    make: Callable[..., TrialLaw] = law
    return make(**{name: float(number) for name, number in zip(names, numbers, strict=True)})


def _check_mean(mean: float, *, above_one: bool) -> float:
    remedy = "It is how many runs a search makes on average."
    result = check.positive(remedy=remedy, mean=mean)
    if above_one and mean < 1 + LEAST_OVER_ONE:
        raise InvalidSetting("mean", mean, "be at least 1.000001", f"{remedy} Here at least one is made.")
    if not LEAST_OVER_ONE <= mean <= MOST_TRIALS:
        raise InvalidSetting("mean", mean, f"be between 1e-6 and {MOST_TRIALS:,}", remedy)
    return result


def mean_of(eta: Fraction, gamma: Fraction) -> "arb":
    """E[K] of the truncated negative binomial: eta (1 - gamma) / gamma / (1 - gamma^eta), as a ball."""
    from tightrope.numerics.balls import ball  # loads flint

    odds, log_gamma = ball((1 - gamma) / gamma), ball(gamma).log()
    return odds / -log_gamma if not eta else odds * ball(eta) / -(ball(eta) * log_gamma).expm1()


@cache
def _find_gamma(eta: Fraction, mean: Fraction) -> Fraction:
    """The largest float with which the mean, which falls with gamma, is at least `mean`."""
    from tightrope.numerics.balls import ball, enclose  # loads flint

    low, high = 2.0**-1000, 1.0
    while (middle := _between(low, high)) not in (low, high):
        gamma = Fraction(middle)
        if enclose(lambda gamma=gamma: mean_of(eta, gamma) - ball(mean)) >= 0:  # type: ignore[misc]
            low = middle
        else:
            high = middle
    return Fraction(low)


def _between(low: float, high: float) -> float:
    """Halfway, in logarithms while the two are far apart."""
    return math.sqrt(low) * math.sqrt(high) if low < high / 4 else (low + high) / 2


def _write(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
