"""Curves of passes whose bounds lose their way: a refusal, never an error of arithmetic."""

from collections.abc import Iterator
from contextlib import contextmanager

from tightrope.engines.face import EngineDeclines
from tightrope.errors import NotPreciseEnough, StopWork

LOST = EngineDeclines, ArithmeticError, ValueError  # the way; OverflowError and FloatingPointError as well


@contextmanager
def refusing(what: str, remedy: str) -> Iterator[None]:
    """What loses its way is NotPreciseEnough, where no other engine is left.

    So is what was refused on the way: it names places and accuracies that nobody asked for.
    """
    try:
        yield
    except StopWork:
        raise
    except LOST as reason:
        raise NotPreciseEnough(what, remedy) from reason
