"""The curve of a pass with an exchanged record at one point after another, by whichever floats tell it."""

from contextlib import suppress

from tightrope.engines.face import EngineDeclines
from tightrope.engines.lines.far import FarLines
from tightrope.engines.lines.floats import LOG_WIDER_SHARED, FloatLines
from tightrope.engines.lines.plan import PassOrder


class QuickLines:
    """By one line for all of the sum, or by its large differences: what told the last is asked first."""

    def __init__(self) -> None:
        self._lines, self._far = FloatLines(), FarLines()
        self._is_far = False

    @property
    def work(self) -> int:
        """Of the last, in nodes of a line times points of its path."""
        return self._far.work if self._is_far else self._lines.work

    def enclose(
        self, of: PassOrder, log_error: float, log_wider: float = LOG_WIDER_SHARED
    ) -> tuple[float, float]:
        """Ends about e^log_error apart, e^(log_error + log_wider) at most; or EngineDeclines."""
        for is_far in (self._is_far, not self._is_far):
            lines = self._far if is_far else self._lines
            with suppress(EngineDeclines):
                found = lines.enclose(of, log_error, log_wider)
                self._is_far = is_far
                return found
        raise EngineDeclines("a curve that floats do not tell")
