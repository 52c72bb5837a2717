"""The privacy curve of a run as simulation sees it: estimates with a confidence level, never brackets."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from tightrope.curve.answer import AnyAnswer, is_between
from tightrope.curve.curve import Curve
from tightrope.curve.formats import NumberFormat
from tightrope.engines.draws.estimates import DrawnBounds, Simulator
from tightrope.errors import InvalidSetting, UncertainComparison
from tightrope.numerics.text import Flat, round_outwards, write_number

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True, repr=False)
class Estimate(AnyAnswer):
    """`lower` <= truth <= `upper` with probability at least `confidence`; `value` is the best guess.

    All answers of one call hold together with that probability. `draws` is how many sums of losses were
    drawn: fewer than planned where someone `interrupted` the simulation. No comparison with an estimate is
    certain. A format rounds its ends outwards and its value to the nearest number.

    >>> print(Estimate(0.25, lower=0.2, upper=0.3, confidence=0.99, draws=1000))
    0.25 (0.2 to 0.3 with confidence 0.99)
    """

    value: float
    lower: float
    upper: float
    confidence: float
    draws: int
    interrupted: bool = False

    def __post_init__(self) -> None:
        if not self.lower <= self.value <= self.upper:
            ends = f"{self.lower!r}, {self.value!r}, {self.upper!r}"
            raise ArithmeticError(f"an estimate needs lower <= value <= upper, got {ends}")

    def __contains__(self, value: float) -> bool:
        return is_between(self.lower, value, self.upper)

    def __float__(self) -> float:
        raise TypeError("an Estimate is an interval with a confidence level: say .value, .lower or .upper")

    def __str__(self) -> str:
        lower, upper = round_outwards(self.lower, 6, up=False), round_outwards(self.upper, 6, up=True)
        return self._state(f"{self.value:.6g}", lower, upper)

    def to_dict(self) -> Flat:
        """The numbers as one flat row."""
        names = ("value", "lower", "upper", "confidence", "draws", "interrupted")
        return {name: getattr(self, name) for name in names}

    def _state(self, value: str, lower: str, upper: str) -> str:
        return f"{value} ({lower} to {upper} with confidence {write_number(self.confidence)})"

    def _format(self, spec: NumberFormat) -> str:
        ends = spec.write(self.lower, up=False), spec.write(self.upper, up=True)
        return self._state(spec.write(self.value, up=None), *ends)

    def _certain_ends(self) -> tuple[float, float]:
        raise UncertainComparison(
            f"nothing about an estimate is certain: it is {self}",
            "Compare .upper, the safe end, or .lower if that confidence is enough, or ask {Certified}.",
        )

    def _tell(self) -> tuple[str, str]:
        return f"about {self}", f"{self.value:.6g}"

    def _list_reasons(self) -> Iterator[str]:
        stopped = ", and was interrupted" if self.interrupted else ""
        yield f"The simulation drew {self.draws:,} sums of losses{stopped}."


@dataclass(frozen=True, kw_only=True)
class SimulatedCurve(Curve[Estimate]):
    """Estimates of delta and epsilon; all answers of one call hold together with probability `confidence`.

    Two calls draw anew from the same seed, so the same question has the same answer. The theorems in
    `because` are what makes the upper end bound every neighbouring pair.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    >>> curve = tr.privacy_curve(step, relation=tr.REMOVE, by=tr.MonteCarlo(draws=1000, seed=1))
    >>> curve.confidence, curve.delta(1.0) == curve.delta(1.0)
    (0.99, True)
    """

    drawn_as: ClassVar[str] = ""

    confidence: float
    simulator: Simulator = field(repr=False)
    reverse: Callable[[], "SimulatedCurve"] | None = field(default=None, repr=False)

    def _deltas(self, epsilons: list[float]) -> list[Estimate]:
        ahead = [epsilon for epsilon in epsilons if epsilon >= 0]
        found = dict(zip(ahead, self.simulator.deltas(ahead, len(epsilons)), strict=True)) if ahead else {}
        found |= self._negative([epsilon for epsilon in epsilons if epsilon < 0], len(epsilons))
        return [self._estimate(found[epsilon]) for epsilon in epsilons]

    def _log_deltas(self, epsilons: list[float]) -> list[Estimate]:
        return [_log(estimate) for estimate in self._deltas(epsilons)]

    def _epsilons(self, deltas: list[float]) -> list[Estimate]:
        return [self._estimate(found) for found in self.simulator.epsilons(deltas)]

    def _negative(self, epsilons: list[float], points: int) -> dict[float, DrawnBounds]:
        """From the reversed pair at the opposite epsilon, as in `log_delta_from_reverse`."""
        if not epsilons:
            return {}
        if self.reverse is None:
            remedy = "Below 0 the reversed run is needed."
            raise InvalidSetting("epsilon", epsilons[0], "be at least 0", remedy)
        opposite = self.reverse().simulator.deltas([-epsilon for epsilon in epsilons], points)
        return {epsilon: _reverse(epsilon, found) for epsilon, found in zip(epsilons, opposite, strict=True)}

    def _estimate(self, found: DrawnBounds) -> Estimate:
        ends = found.lower, found.upper
        return Estimate(found.value, *ends, self.confidence, found.draws, found.interrupted)


def _reverse(epsilon: float, found: DrawnBounds) -> DrawnBounds:
    """1 - e^epsilon + e^epsilon delta, the ends rounded outwards."""
    from tightrope.numerics.balls import ball, ceil_float, enclose, floor_float  # loads flint

    def undo(delta: float) -> "arb":
        return enclose(lambda: -ball(epsilon).expm1() + ball(epsilon).exp() * ball(delta))

    lower, upper = floor_float(undo(found.lower)), min(ceil_float(undo(found.upper)), 1.0)
    return replace(found, value=min(max(float(undo(found.value)), lower), upper), lower=lower, upper=upper)


def _log(delta: Estimate) -> Estimate:
    """The logarithms, the ends rounded outwards."""
    from tightrope.numerics.balls import ball, ceil_float, enclose, floor_float  # loads flint

    lower = floor_float(enclose(lambda: ball(delta.lower).log())) if delta.lower else -math.inf
    upper = ceil_float(enclose(lambda: ball(delta.upper).log())) if delta.upper else -math.inf
    value = min(max(math.log(delta.value), lower), upper) if delta.value else -math.inf
    return replace(delta, value=value, lower=lower, upper=upper)
