"""Everything Tightrope refuses to do, as exceptions that say what to do instead."""


class TightropeError(Exception):
    """Any refusal by Tightrope."""


class InvalidSetting(TightropeError, ValueError):
    """An argument that cannot describe a private release; names the argument, its value and the remedy."""


class NoTheorem(TightropeError):
    """No theorem (of the trusted standing) covers the question; names what is known and what to do."""


class NoSuchValue(TightropeError):
    """No value is the smallest or largest one asked for: every value meets the target, or none does.

    `limit` is where the search would end: 0 or infinity.
    """

    def __init__(self, message: str, *, limit: float) -> None:
        super().__init__(message)
        self.limit = limit


class NotPreciseEnough(TightropeError, ArithmeticError):
    """The arithmetic could not certify an answer of the requested accuracy; names what to relax."""


class WorkerDied(TightropeError):
    """The process that worked on a piece was killed or crashed, each time it was tried; names what to do."""
