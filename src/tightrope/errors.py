"""Everything Tightrope refuses to do, as exceptions that say what to do instead."""


class TightropeError(Exception):
    """Any refusal by Tightrope."""


class InvalidSetting(TightropeError, ValueError):
    """An argument that cannot describe a private release; names the argument, its value and the remedy."""


class NoTheorem(TightropeError):
    """No theorem (of the trusted standing) covers the question; names what is known and what to do."""


class NotPreciseEnough(TightropeError, ArithmeticError):
    """The arithmetic could not certify an answer of the requested accuracy; names what to relax."""
