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
