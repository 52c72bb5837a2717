"""What is found besides the loader, and findings in a checkpoint."""

from typing import Any

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.errors import InvalidSetting


def finding_of(plain: Any) -> Finding:
    """The finding that a checkpoint holds, or a refusal."""
    try:
        return Finding.from_plain(plain)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise InvalidSetting(
            f"a finding in the state must be what state_dict() wrote, got {plain!r} ({problem!r}). "
            "The checkpoint is damaged, or was written by another version of tightrope."
        ) from problem


ADAPTIVE_CLIPPING = Finding(
    scheme=Scheme.UNKNOWN,
    how=How.INSPECTED,
    sentence="Adaptive clipping moves the clipping norm by the share of gradients that were not clipped, and divides by the size "
    "of the batch that was drawn, which is released without noise.",
)


def clips_adaptively(optimizer: Any) -> bool:
    """Whether Opacus adapts the clipping norm, with per-sample gradients or in ghost mode."""
    return hasattr(optimizer, "unclipped_num_std") or hasattr(optimizer, "_adjusted_noise_multiplier")


def made_up_record(finding: Finding) -> Finding:
    """What is found where an empty batch is replaced by a made-up record: it pushes a record out, and the sum moves by 2C."""
    sentence = (
        "With rand_on_empty=True an empty batch becomes a made-up record, which is not there if a record is drawn: the sum moves "
        "by more than the clipping norm."
    )
    return Finding(
        scheme=Scheme.UNKNOWN,
        how=finding.how,
        sentence=sentence,
        records=finding.records,
        notes=finding.notes,
    )
