"""The warning that a loader does not draw what is accounted."""

import sys
import textwrap
import warnings

BOX_WIDTH = 100


class SamplerMismatch(UserWarning):
    """The loader does not draw its batches as the accountant accounts them."""


def warn(message: str) -> None:
    """Warn, and print: a filter over all warnings, as notebooks and trainers set one, must not hide it."""
    print(f"SamplerMismatch: {message}", file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)


def warn_in_a_box(message: str, remedy: str) -> None:
    """Warn, and print the warning in a box that stands out."""
    texts = ("SAMPLER MISMATCH", message, f"What to do: {remedy}")
    lines = [line for text in texts for line in textwrap.wrap(text, BOX_WIDTH)]
    edge = "+" + "-" * (BOX_WIDTH + 2) + "+"
    print("\n".join([edge, *(f"| {line:<{BOX_WIDTH}} |" for line in lines), edge]), file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)
