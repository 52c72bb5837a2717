"""The warning that a loader does not draw what is accounted, and a word on steps that were not seen."""

import sys
import textwrap
import warnings

from tightrope.audit.steps.summary import StepsSummary

BOX_WIDTH = 100
IF_SO = (
    "Epsilon stands if they were taken on fresh batches of the loader; an audit of the training says UNKNOWN."
)


class SamplerMismatch(UserWarning):
    """The loader does not draw its batches as the accountant accounts them."""


class PlanExceeded(UserWarning):
    """More steps are taken than the noise was chosen for."""


def warn(message: str, category: type[UserWarning] = SamplerMismatch) -> None:
    """Warn, and print: a filter over all warnings, as notebooks and trainers set one, must not hide it."""
    print(f"{category.__name__}: {message}", file=sys.stderr)
    warnings.warn(message, category, stacklevel=3)


def warn_in_a_box(message: str, remedy: str) -> None:
    """Warn, and print the warning in a box that stands out."""
    texts = ("SAMPLER MISMATCH", message, f"What to do: {remedy}")
    lines = [line for text in texts for line in textwrap.wrap(text, BOX_WIDTH)]
    edge = "+" + "-" * (BOX_WIDTH + 2) + "+"
    print("\n".join([edge, *(f"| {line:<{BOX_WIDTH}} |" for line in lines), edge]), file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)


class Teller:
    """Says once what of the steps was not seen; no warning, since nothing speaks against them."""

    def __init__(self) -> None:
        self._has_told = False

    def tell(self, steps: StepsSummary) -> None:
        """Print it, unless nothing is missing or something worse was warned of."""
        if self._has_told or not steps.steps or steps.is_proof or steps.unmatched:
            return
        self._has_told = True
        print(f"Tightrope: {steps.sentence} {IF_SO}", file=sys.stderr)
