"""A finding as plain data and back: what a checkpoint holds."""

import dataclasses
from typing import Any

from tightrope.audit.finding import Finding, How, Scheme, Test
from tightrope.errors import InvalidSetting
from tightrope.setting.plain import Plain
from tightrope.setting.sampling import Sampling
from tightrope.setting.spelling import SAMPLING_SPELLINGS, spelled


def plain_finding(finding: Finding) -> Plain:
    """Names and numbers only.

    >>> plain_finding(Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", epoch=10))["scheme"]
    'SHUFFLE'
    """
    return {
        **dataclasses.asdict(finding),
        "scheme": finding.scheme.name,
        "how": finding.how.name,
        "sampling": None if finding.sampling is None else _plain_sampling(finding.sampling),
    }


def finding_of(plain: Any) -> Finding:
    """The finding that was written, or a refusal.

    >>> finding = Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", epoch=10)
    >>> finding_of(plain_finding(finding)) == finding
    True
    """
    try:
        known = dict(plain)
        known |= {
            "scheme": Scheme[known["scheme"]],
            "how": How[known["how"]],
            "sampling": None if known["sampling"] is None else _sampling_of(known["sampling"]),
            "tests": tuple(Test(**test) for test in known["tests"]),
            "notes": tuple(known["notes"]),
            "rate_range": None if known["rate_range"] is None else tuple(known["rate_range"]),
        }
        return Finding(**known)
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidSetting(
            f"a finding in the state must be what state_dict() wrote, got {plain!r} ({problem!r}). "
            "The checkpoint is damaged, or was written by another version of tightrope."
        ) from problem


def _plain_sampling(sampling: Sampling) -> Plain:
    return {"kind": spelled(type(sampling)), **dataclasses.asdict(sampling)}


def _sampling_of(plain: Any) -> Sampling:
    parameters = dict(plain)
    kind = parameters.pop("kind")
    return SAMPLING_SPELLINGS[kind](**parameters)


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
