"""What every kind of privacy curve has in common: questions about numbers and arrays, checked once."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidSetting
from tightrope.numerics import check, html
from tightrope.theorems.evidence import Evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Answer = TypeVar("Answer")
Checked = TypeVar("Checked")
Answers = NDArray[np.object_]
Numbers = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve(ABC, Generic[Answer]):
    """delta as a function of epsilon and back. A number gives one answer, an array an array of answers.

    A curve implements `_deltas`, `_log_deltas` and `_epsilons`, which answer all questions of a call at once:
    epsilons are finite, deltas lie in (0, 1).
    """

    drawn_as: ClassVar[str] = "-"  # matplotlib's name of the line; "" are intervals, where a point takes long

    question: str
    because: tuple[Evidence, ...]

    @overload
    def delta(self, epsilon: float) -> Answer: ...
    @overload
    def delta(self, epsilon: Numbers) -> Answers: ...
    def delta(self, epsilon: ArrayLike) -> Answer | Answers:
        """The smallest delta at each epsilon."""
        return in_shape_of(epsilon, self._deltas(check_all(epsilon, check_epsilon, "epsilon")))

    @overload
    def log_delta(self, epsilon: float) -> Answer: ...
    @overload
    def log_delta(self, epsilon: Numbers) -> Answers: ...
    def log_delta(self, epsilon: ArrayLike) -> Answer | Answers:
        """The natural logarithm of delta(epsilon), usable however small delta is; -inf where delta is 0."""
        return in_shape_of(epsilon, self._log_deltas(check_all(epsilon, check_epsilon, "epsilon")))

    @overload
    def epsilon(self, delta: float) -> Answer: ...
    @overload
    def epsilon(self, delta: Numbers) -> Answers: ...
    def epsilon(self, delta: ArrayLike) -> Answer | Answers:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; infinity if there is none."""
        return in_shape_of(delta, self._epsilons(check_all(delta, check_delta, "delta")))

    def plot(
        self, epsilons: Numbers | None = None, *, ax: "Axes | None" = None, label: str | None = None
    ) -> "Axes":
        """Draw delta over epsilon, down to delta 1e-10 if no epsilons are given; needs matplotlib.

        The line is the upper end; the band below it reaches to the lower end. Estimates and exact brackets
        are drawn as some intervals, because each may take seconds. What is drawn on is `ax`, or new axes;
        they are returned. Pass them on to draw several curves together.

        >>> import tightrope as tr
        >>> step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
        >>> ax = tr.privacy_curve(step, relation="add-or-remove").plot(label="one step")
        >>> ax = tr.privacy_curve(step * 4, relation="add-or-remove").plot(ax=ax, label="four steps")
        >>> ax.figure.savefig("curves.png")  # doctest: +SKIP
        """
        from tightrope.curve.pictures import draw_deltas  # only where something is drawn

        return draw_deltas(self, None if epsilons is None else list(epsilons), ax, label)

    def _repr_html_(self) -> str:
        # no numbers: asking takes time, and may change the last digits of later answers
        theorems = (theorem.in_full for theorem in self.because)
        ask = "Ask .epsilon(delta) or .delta(epsilon), or .plot() it."
        question = html.write_text(f"{self.question}{self._provided}", strong=self.question)
        return html.join(question, html.write_text(ask), html.fold("why", theorems))

    @property
    def _provided(self) -> str:
        """What every answer depends on, in words that go on from the question."""
        return ""

    @abstractmethod
    def _deltas(self, epsilons: list[float]) -> list[Answer]: ...

    @abstractmethod
    def _log_deltas(self, epsilons: list[float]) -> list[Answer]: ...

    @abstractmethod
    def _epsilons(self, deltas: list[float]) -> list[Answer]: ...


def elementwise(answer: Callable[[Any], Answer], values: ArrayLike | Fraction, name: str) -> Answer | Answers:
    """The answer for a number, an array of answers for an array of numbers; anything else is refused."""
    return in_shape_of(values, check_all(values, answer, name))


def check_all(values: ArrayLike | Fraction, check_one: Callable[[Any], Checked], name: str) -> list[Checked]:
    """Every number of a call, checked; a single number as it was given."""
    if type(values) is float:  # mostly, and a training loop asks after every step
        return [check_one(values)]
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # ragged, or a tensor that wants gradients
        array = np.array(["ragged"])
    if array.ndim == 0:
        return [check_one(array[()] if isinstance(values, np.ndarray) else values)]
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidSetting(name, values, "be numbers, none of them masked", "Pass values.compressed().")
    if array.size and not np.issubdtype(array.dtype, np.number):
        raise InvalidSetting(name, values, "be a number or an array of numbers", "Pass floats.")
    return [check_one(value) for value in array.ravel().tolist()]


def in_shape_of(values: ArrayLike | Fraction, answers: list[Answer]) -> Answer | Answers:
    """The answers to all questions of a call, in the shape in which they were asked."""
    shape = () if isinstance(values, float | Fraction) else np.shape(values)
    if shape == ():
        return answers[0]
    result = np.empty(len(answers), dtype=object)
    for place, answer in enumerate(answers):
        result[place] = answer
    return result.reshape(shape)


def log_delta_from_reverse(epsilon: float, log_reversed: float) -> tuple[float, float]:
    """Certain bounds on ln delta(epsilon), epsilon < 0, from ln delta(-epsilon) of the reversed pair.

    delta(epsilon) = 1 - e^epsilon + e^epsilon delta_reversed(-epsilon): both terms are positive, so that no
    digit cancels.

    >>> log_delta_from_reverse(-1.0, -math.inf)
    (-0.45867514538708193, -0.4586751453870819)
    """
    from flint import ctx

    from tightrope.numerics.balls import FIRST_BITS, ball, float_ends  # loads flint

    with ctx.workprec(FIRST_BITS):
        reversed_delta = ball(log_reversed).exp() if log_reversed > -math.inf else ball(0.0)
        shared = ball(epsilon).exp() * reversed_delta
        if epsilon > -1:
            log_delta = (shared - ball(epsilon).expm1()).log()
        else:  # near 1, what is missing keeps its digits
            log_delta = (shared - ball(epsilon).exp()).log1p()
        lower, upper = float_ends(log_delta)
    return lower, min(upper, 0.0)  # delta is at most 1


def check_delta(delta: object) -> float:
    """The delta, if it is one at which epsilon can be asked for."""
    if type(delta) is float and 0 < delta < 1:  # mostly, and asked of every element of an array
        return delta
    remedy = "Pass the probability of failure you accept; it is usually below 1 / population."
    check.open_probability(remedy=remedy, delta=delta)
    return check.exact_float(remedy=remedy, delta=delta)


def check_epsilon(epsilon: object) -> float:
    """The epsilon, if it is one at which delta can be asked for."""
    remedy = "Pass a finite epsilon; delta(infinity) is the chance of an infinite loss."
    return check.exact_float(remedy=remedy, epsilon=epsilon)
