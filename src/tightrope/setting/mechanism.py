"""What noise is added in one step, as frozen values; `spelling` is the printed name of a kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, get_args

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.given import GivenExactly, when_asked

LEAST_NOISE, MOST_NOISE = 1e-6, 1e9  # beyond, floats cannot tell it from no noise or infinitely much


def _check_noise(value: float) -> float:
    # nearly always, and asked of every step that is loaded
    if type(value) is float and LEAST_NOISE <= value <= MOST_NOISE:
        return value
    remedy = "Without noise nothing is private: pass a finite scale above 0, in units of the clipping norm C."
    noise = check.positive(remedy=remedy, noise_multiplier=value)
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        must = f"be between {LEAST_NOISE:g} and {MOST_NOISE:g}"
        remedy = "It is the noise scale divided by the clipping norm C: check the units."
        raise InvalidSetting("noise_multiplier", value, must, remedy)
    return noise


@dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(GivenExactly):
    """Adds N(0, s^2) per coordinate to a sum of records of norm at most C; `noise_multiplier` is s / C.

    >>> Gaussian(noise_multiplier=0.8)
    Gaussian(noise_multiplier=0.8)
    """

    spelling: ClassVar[str] = "gaussian"

    noise_multiplier: float
    exact_noise_multiplier: Fraction = field(init=False, hash=False, default=when_asked())  # slow to hash

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, noise_multiplier: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        self._keep("noise_multiplier", self.noise_multiplier, _check_noise(self.noise_multiplier))


@dataclass(frozen=True, kw_only=True, repr=False)
class Laplace(GivenExactly):
    """Adds Laplace noise of scale s to a sum of numbers in [-C, C]; `noise_multiplier` is s / C.

    >>> Laplace(noise_multiplier=2)
    Laplace(noise_multiplier=2.0)
    """

    spelling: ClassVar[str] = "laplace"

    noise_multiplier: float
    exact_noise_multiplier: Fraction = field(init=False, hash=False, default=when_asked())  # slow to hash

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, noise_multiplier: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        self._keep("noise_multiplier", self.noise_multiplier, _check_noise(self.noise_multiplier))


@dataclass(frozen=True, kw_only=True, repr=False)
class RandomizedResponse(GivenExactly):
    """Reports whether any sampled record says 1: the truth with `truth_probability`, else the opposite.

    >>> import tightrope as tr
    >>> coin = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord())
    >>> print(f"{tr.epsilon(coin, delta=1e-9, relation=tr.SUBSTITUTE):.3f}")  # ln 3
    [1.098, 1.099]
    """

    spelling: ClassVar[str] = "randomized-response"

    truth_probability: float
    exact_truth_probability: Fraction = field(init=False, hash=False, default=when_asked())  # slow to hash

    if TYPE_CHECKING:  # what dataclasses make, with the types it takes

        def __init__(self, *, truth_probability: float | Fraction) -> None: ...

    def __post_init__(self) -> None:
        remedy = "It is the probability of the true answer: 1/2 is perfectly private, 1 has no privacy."
        value = check.probability(remedy=remedy, truth_probability=self.truth_probability)
        self._keep("truth_probability", self.truth_probability, value)


@dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Finite(GivenExactly):
    """A mechanism with finitely many outputs, given by its worst case.

    `observed[i]` is the probability of output i when the differing record is *not* in the batch and
    `alternative[i]` when it is (or, in a full batch, when it has taken another record's place). The caller
    vouches that no other pair of batches is further apart; Tightrope then does sampling and composition.

    >>> Finite(observed=[0.75, 0.25], alternative=[0.25, 0.75]).observed
    (0.75, 0.25)
    """

    spelling: ClassVar[str] = "finite"

    observed: tuple[float, ...]
    alternative: tuple[float, ...]
    exact_observed: tuple[Fraction, ...] = field(default=when_asked())
    exact_alternative: tuple[Fraction, ...] = field(default=when_asked())

    def __init__(
        self, *, observed: Sequence[float | Fraction], alternative: Sequence[float | Fraction]
    ) -> None:
        # what can be read only once becomes a tuple
        observed, alternative = (tuple(x) if isinstance(x, Iterator) else x for x in (observed, alternative))
        self._keep("observed", observed, check.distribution(observed=observed))
        self._keep("alternative", alternative, check.distribution(alternative=alternative))
        if len(self.observed) != len(self.alternative):
            must = f"list the {len(self.observed)} outputs of {{observed}}"
            remedy = "Pass one probability per output in both, 0 where it cannot occur."
            raise InvalidSetting("alternative", self.alternative, must, remedy)


Mechanism = Gaussian | Laplace | RandomizedResponse | Finite

MECHANISM_SPELLINGS: dict[str, type[Mechanism]] = {kind.spelling: kind for kind in get_args(Mechanism)}
