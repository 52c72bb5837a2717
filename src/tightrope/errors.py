"""Refusals as data, which each front end puts into its own words.

The texts name arguments and settings in braces: "{rate}", "{effort=TIGHT}", "{ADD_OR_REMOVE}". Python prints
them bare; the command line prints --rate, --effort tight and add-or-remove.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number

_NAMED = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
MOST_SHOWN = 1000  # characters of a value in a refusal
MOST_DIGITS = 40  # of a number in a refusal
DIGITS_SHOWN = 10  # of a longer one
_LONG = re.compile(rf"\d{{{MOST_DIGITS + 1},}}")
MOST_LISTED = 100  # problems of one file


def write_value(value: object) -> str:
    """The value as Python writes it, cut where it would fill a screen, and numbers where nobody would count.

    >>> write_value(10**400)
    '1000000000... (401 digits)'
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        return "a number of thousands of digits"
    if isinstance(value, Number):
        text = _LONG.sub(lambda m: f"{m[0][:DIGITS_SHOWN]}... ({len(m[0])} digits)", text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def write_key(key: str) -> str:
    """The name of an entry as it stands in a file; quoted where it would break or steer a line of text."""
    return key if key.isprintable() and len(key) <= MOST_SHOWN else write_value(key)


@dataclass(frozen=True)
class Words:
    """How a front end writes a name, an argument with its value, and a value that was given."""

    name: Callable[[str], str] = str
    assign: Callable[[str, str], str] = "{}={}".format
    value: Callable[[object], str] = write_value

    def fill(self, text: str) -> str:
        """The text with every name in braces as this front end writes it."""
        return _NAMED.sub(lambda m: self.name(m[1]) if m[2] is None else self.assign(m[1], m[2]), text)


PYTHON = Words()


class Described(str):
    """A value that a refusal describes instead of printing it: it is secret, long, or not one value.

    >>> print(InvalidSetting("seed", Described("a number of 129 bits"), "be below 2^128"))
    seed must be below 2^128, got a number of 129 bits.
    """

    __slots__ = ()
    __repr__ = str.__str__


class TightropeError(Exception):
    """Any refusal: what is wrong and what to do about it.

    >>> refusal = TightropeError("{delta} is out of reach", "Ask for {accuracy=0.01}.")
    >>> print(refusal)
    delta is out of reach. Ask for accuracy=0.01.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def in_words(self, words: Words) -> str:
        """The refusal as a front end says it."""
        return self._advise(words.fill(self.what).removesuffix("."), words)

    def _advise(self, said: str, words: Words) -> str:
        return f"{said}. {words.fill(self.remedy)}".rstrip()

    def __str__(self) -> str:
        return self.in_words(PYTHON)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.args, self.__dict__)  # workers send refusals home


def _restore(
    kind: type[TightropeError], args: tuple[object, ...], state: dict[str, object]
) -> TightropeError:
    refusal = kind.__new__(kind, *args)
    refusal.__dict__.update(state)
    return refusal


class InvalidSetting(TightropeError, ValueError):
    """An argument that cannot describe a private release.

    `where` is the place in a file that the argument was read from. It is printed before the argument.

    >>> print(InvalidSetting("rate", 7, "be in [0, 1]", "Pass a probability."))
    rate must be in [0, 1], got 7. Pass a probability.
    """

    def __init__(self, argument: str, value: object, must: str, remedy: str = "", *, where: str = "") -> None:
        super().__init__(f"{argument} must {must}", remedy)
        self.args = (argument, value, must, remedy)
        self.argument, self.value, self.must, self.where = argument, value, must, where

    def in_words(self, words: Words) -> str:
        """The refusal as a front end says it."""
        argument = self.argument if self.where else words.name(self.argument)
        said = f"{self.where}{argument} must {words.fill(self.must)}, got {words.value(self.value)}"
        return self._advise(said, words)


class UnusableFile(InvalidSetting):
    """A file that cannot be read, written or understood.

    >>> print(UnusableFile("runs.toml", "could not be read: no such file", "Pass a file that exists."))
    runs.toml could not be read: no such file. Pass a file that exists.
    """

    def __init__(self, path: object, problem: str, remedy: str = "") -> None:
        super().__init__("path", path, "be usable", remedy)
        self.args = (path, problem, remedy)
        self.path, self.problem = path, problem

    def in_words(self, words: Words) -> str:
        """The refusal as a front end says it."""
        return self._advise(f"{self.where}{self.path} {words.fill(self.problem)}", words)


class UnwrittenFile(UnusableFile):
    """A file that the system did not let us write, when there was something to write into it."""


class UnwrittenRows(UnwrittenFile):
    """Results of a sweep that the system did not let us write.

    `rows` are those that were there, in the order of the grid: also where no file holds them.

    >>> refusal = UnwrittenRows("out.csv", "could not be written: no room", rows=[{"epsilon": 1.0}])
    >>> print(refusal, refusal.rows)
    out.csv could not be written: no room. [{'epsilon': 1.0}]
    """

    def __init__(
        self, path: object, problem: str, remedy: str = "", *, rows: Sequence[Mapping[str, object]] = ()
    ) -> None:
        super().__init__(path, problem, remedy)
        self.rows = list(rows)


class SeveralProblems(InvalidSetting):
    """Everything wrong with one file, so that one edit can correct it.

    >>> wrong = (InvalidSetting("rate", 7, "be in [0, 1]"), UnusableFile("steps", "is missing"))
    >>> print(SeveralProblems("runs.toml", wrong))
    runs.toml has 2 problems:
      rate must be in [0, 1], got 7.
      steps is missing.
    """

    def __init__(self, path: object, problems: Sequence[TightropeError]) -> None:
        super().__init__("path", path, "be usable")
        self.args = (path, problems)
        self.path, self.problems = path, tuple(problems)

    def in_words(self, words: Words) -> str:
        """The refusal as a front end says it."""
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        heading = f"{self.where}{self.path} has {count}:"
        listed = [problem.in_words(words) for problem in self.problems[:MOST_LISTED]]
        more = len(self.problems) - MOST_LISTED
        return "\n  ".join([heading, *listed, *([f"and {more:,} more."] if more > 0 else [])])


class NoTheorem(TightropeError):
    """No theorem covers the question; names what was asked, what is known and what to do.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Laplace(noise_multiplier=2), tr.Poisson(rate=0.1))
    >>> tr.epsilon(step, delta=1e-6, relation=tr.SUBSTITUTE)
    Traceback (most recent call last):
        ...
    tightrope.errors.NoTheorem: Laplace with Poisson sampling under SUBSTITUTE: no theorem gives ...
    """


class NoSuchValue(TightropeError):
    """No value is the smallest or largest one asked for: every value meets the target, or none does.

    `limit` is where the search would end: 0 or infinity.

    >>> import tightrope as tr
    >>> tr.smallest_noise(tr.Poisson(rate=1e-3), steps=1, epsilon=1, delta=0.5, relation=tr.REMOVE)
    Traceback (most recent call last):
        ...
    tightrope.errors.NoSuchValue: no noise is needed for epsilon 1 at delta 0.5 under REMOVE...
    """

    def __init__(self, what: str, remedy: str = "", *, limit: float) -> None:
        super().__init__(what, remedy)
        self.limit = limit


class Infeasible(NoSuchValue):
    """Even the safest value misses the target."""


class NotPreciseEnough(TightropeError, ArithmeticError):
    """The arithmetic could not certify an answer of the requested accuracy; names what to relax.

    >>> print(NotPreciseEnough("{delta} is known to 2 % only", "Ask for {accuracy=0.05}."))
    delta is known to 2 % only. Ask for accuracy=0.05.
    """


class UncertainComparison(TightropeError, ValueError):
    """What is known of an answer does not decide the comparison; names both ends and which one to compare.

    >>> import tightrope as tr
    >>> tr.Bracket(0.5, 0.75) < 0.6
    Traceback (most recent call last):
        ...
    tightrope.errors.UncertainComparison: whether the answer is below 0.6 is not certain...
    """


class StopWork(NotPreciseEnough):
    """Raised by a `progress` to end long work: the answer is then what is known by that time.

    Where nothing is known yet, it is raised to the caller.

    >>> import tightrope as tr
    >>> def refuse_to_wait(done, of):
    ...     raise tr.StopWork
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=1, population=20))
    >>> question = {"delta": 1e-5, "relation": tr.SUBSTITUTE}
    >>> tight = tr.Certified(effort=tr.TIGHT, accuracy=0.1)
    >>> found = tr.epsilon(step * 30, by=tight, progress=refuse_to_wait, **question)
    >>> found.interrupted, found == tr.epsilon(step * 30, by=tr.Certified(accuracy=0.1), **question)
    (True, True)
    """

    def __init__(
        self, what: str = "the work was stopped before anything was known", remedy: str = ""
    ) -> None:
        super().__init__(what, remedy)


class RefutedClaim(TightropeError):
    """A claim that is certainly false, which is printed only where that is asked for."""


class WorkerDied(TightropeError):
    """The process that worked on a piece was killed or crashed, again after every retry.

    >>> print(WorkerDied("a worker was killed three times", "Ask for less memory."))
    a worker was killed three times. Ask for less memory.
    """
