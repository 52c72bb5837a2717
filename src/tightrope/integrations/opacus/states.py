"""What a checkpoint holds of an accountant for Opacus, besides the history that Opacus saves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tightrope.audit.finding import Finding
from tightrope.audit.steps.summary import StepsSummary
from tightrope.errors import InvalidSetting, UnusableFile

STATE_KEY, STATE_VERSION = "tightrope", 2
READABLE = (1, 2)
NOT_CHECKED_THEN = "the checkpoint does not say what its steps were taken on"


class RecordedKind(NamedTuple):
    """What tells one entry of the history from another."""

    noise: float
    rate: float
    finding: Finding | None


@dataclass(frozen=True, kw_only=True)
class AccountantState:
    """What was found of the loader of each entry of the history, and what was seen of its steps."""

    drawn: Sequence[Finding | None]
    steps: StepsSummary
    shared_noise: bool = False

    def plain(self, relation: str) -> dict[str, Any]:
        """Names and numbers only."""
        return {
            "version": STATE_VERSION,
            "relation": relation,
            "drawn": [None if finding is None else finding.plain() for finding in self.drawn],
            "shared_noise": self.shared_noise,
            "steps": self.steps.plain(),
        }


def count_steps(history: Sequence[tuple[float, float, int]]) -> Counter[tuple[float, float]]:
    """How many steps of a history there are of each noise and rate."""
    counts: Counter[tuple[float, float]] = Counter()
    for noise, rate, steps in history:
        counts[noise, rate] += steps
    return counts


def read_state(state_dict: Mapping[str, Any]) -> AccountantState:
    """What `plain` wrote into a checkpoint of Opacus; where it wrote nothing, nothing was seen."""
    state, history = state_dict or {}, (state_dict or {}).get("history") or []
    taken = sum(steps for *_, steps in history)
    ours = state.get(STATE_KEY)
    if ours is None:
        return AccountantState(drawn=[None] * len(history), steps=read_steps(None, taken))
    if ours.get("version") not in READABLE:
        remedy = "Use the tightrope that wrote it, or a later one."
        must = f"be {' or '.join(map(str, READABLE))} in the state"
        raise InvalidSetting("version", ours.get("version"), must, remedy)
    return AccountantState(
        drawn=[_read_finding(plain) for plain in ours["drawn"]],
        steps=read_steps(ours.get("steps"), taken),
        shared_noise=bool(ours["shared_noise"]),
    )


def _read_finding(plain: Any) -> Finding | None:
    """The finding that a checkpoint holds, or a refusal; None where no loader was seen."""
    try:
        return None if plain is None else Finding.from_plain(plain)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise _refuse(f"must hold findings that state_dict() wrote, got {plain!r} ({problem!r})") from problem


def read_steps(plain: Any, taken: int) -> StepsSummary:
    """What was seen of the steps that a checkpoint holds; nothing where it does not say so."""
    if plain is None:
        return StepsSummary(unseen=taken, why=NOT_CHECKED_THEN if taken else "")
    try:
        return StepsSummary.from_plain(plain)
    except (AttributeError, TypeError, ValueError) as problem:
        raise _refuse(f"must count steps as state_dict() does, got {plain!r} ({problem!r})") from problem


def _refuse(what: str) -> UnusableFile:
    remedy = "The checkpoint is damaged, or was written by another version of tightrope."
    return UnusableFile("the state", what, remedy)
