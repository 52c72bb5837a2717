"""What is found besides the loader, and how a mismatch between loader and accountant is said."""

import math
import sys
import textwrap
import warnings
from dataclasses import replace
from typing import Any

from tightrope.accountants.certified import Certified
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket, Gap
from tightrope.errors import UnusableFile

BOX_WIDTH = 100
ADAPTIVE_CLIPPING = Finding(
    scheme=Scheme.UNKNOWN,
    how=How.INSPECTED,
    sentence=(
        "Adaptive clipping moves the clipping norm by the share of gradients that were not clipped, and "
        "divides by the size of the batch that was drawn, which is released without noise."
    ),
)
MADE_UP_RECORD = (
    "With rand_on_empty=True an empty batch becomes a made-up record, which is not there if a record is "
    "drawn: the sum moves by more than the clipping norm."
)


class SamplerMismatch(UserWarning):
    """The loader does not draw its batches as the accountant accounts them."""


def read_finding(plain: Any) -> Finding | None:
    """The finding that a checkpoint holds, or a refusal; None where no loader was seen."""
    try:
        return None if plain is None else Finding.from_plain(plain)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        what = f"must hold findings that state_dict() wrote, got {plain!r} ({problem!r})"
        remedy = "The checkpoint is damaged, or was written by another version of tightrope."
        raise UnusableFile("the state", what, remedy) from problem


def clips_adaptively(optimizer: Any) -> bool:
    """Whether Opacus adapts the clipping norm, with per-sample gradients or in ghost mode."""
    return hasattr(optimizer, "unclipped_num_std") or hasattr(optimizer, "_adjusted_noise_multiplier")


def make_up_record(finding: Finding) -> Finding:
    """What is found where a record pushes out a made-up one, so that the sum moves by 2C."""
    nothing = Finding(scheme=Scheme.UNKNOWN, how=finding.how, sentence=MADE_UP_RECORD)
    return replace(nothing, records=finding.records, notes=finding.notes)


def drop_lower_end(spent: Bracket, by: Certified) -> Bracket:
    """The upper end alone, where the accounted steps are worse than those that were run."""
    why = "the accounted steps only bound those that were run, so no datasets are known to reach a lower end"
    gap = Gap(1.0, by.accuracy, why) if 0 < spent.upper < math.inf else None
    return Bracket(0.0, spent.upper, gap=gap)


def warn(message: str) -> None:
    """Warn, and print: a filter over all warnings, as notebooks and trainers set one, must not hide it."""
    print(f"SamplerMismatch: {message}", file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)


def warn_in_a_box(message: str, remedy: str) -> None:
    """Warn, and print it so that nobody overlooks it."""
    texts = ("SAMPLER MISMATCH", message, f"What to do: {remedy}")
    lines = [line for text in texts for line in textwrap.wrap(text, BOX_WIDTH)]
    edge = "+" + "-" * (BOX_WIDTH + 2) + "+"
    print("\n".join([edge, *(f"| {line:<{BOX_WIDTH}} |" for line in lines), edge]), file=sys.stderr)
    warnings.warn(message, SamplerMismatch, stacklevel=3)
