"""Every step that exchanging one record of a fixed-size batch can make, and runs that choose the worst."""

from dataclasses import dataclass
from fractions import Fraction

from tightrope.pairs.mixture import Mixture, Noise
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

# in units of C: outside, the curves of the cover are not resolved
LEAST_NOISE, MOST_NOISE = Fraction(1, 5), Fraction(100)


@dataclass(frozen=True)
class Exchange:
    """All pairs ((1-g)N(x) + gN(a), (1-g)N(x) + gN(a')), x, a, a' in a ball of diameter `distance`.

    The two extremes are `remove` (x = a', a opposite) and `add` (x = a, a' opposite). g, strictly between
    0 and 1, is `exact_rate`, and distances are in noise scales; both are exact.
    """

    noise: Noise
    exact_rate: Fraction
    exact_distance: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact_rate", Fraction(self.exact_rate))
        object.__setattr__(self, "exact_distance", Fraction(self.exact_distance))

    @property
    def rate(self) -> float:
        """g, to the nearest float."""
        return float(self.exact_rate)

    @property
    def rest(self) -> float:
        """1 - g, to the nearest float."""
        return float(1 - self.exact_rate)

    @property
    def distance(self) -> float:
        """The diameter of the ball in noise scales, to the nearest float."""
        return float(self.exact_distance)

    @property
    def inverse_variance(self) -> float:
        """1 / noise^2, with the noise in units of C."""
        return float(self.exact_distance**2 / 4)

    @property
    def is_covered(self) -> bool:
        """Whether a finite list of triples is certified to dominate all of them."""
        return self.noise is Noise.NORMAL and LEAST_NOISE <= 2 / self.exact_distance <= MOST_NOISE

    @property
    def remove(self) -> ShiftPair:
        """((1-g)N(0) + gN(distance), N(0))."""
        return ShiftPair(Mixture(self.noise, self.exact_rate, self.exact_distance), Mixture(self.noise))

    @property
    def add(self) -> ShiftPair:
        """(N(0), (1-g)N(0) + gN(distance)), mirrored so that its loss grows."""
        return self.remove.reverse


@dataclass(frozen=True)
class Game:
    """`times` steps of one exchange, each chosen after seeing all earlier outputs, and `others` as they are.

    Playing the others first only helps whoever chooses, so the value bounds every order of the steps.
    """

    exchange: Exchange
    times: int
    others: Schedule
