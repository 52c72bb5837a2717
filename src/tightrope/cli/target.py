"""What noise, steps and rate share: the target as options, and the value that meets it on a page or as JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic

from cyclopts import Parameter

from tightrope.accountants.certified import DEFAULT_ACCURACY, effort_matters
from tightrope.answers.calibrate import Calibration
from tightrope.answers.frontier import V
from tightrope.answers.target import Target
from tightrope.cli.machine import bracket_object, number_object, print_json, relation_object, theorem_object
from tightrope.cli.options import (
    ANSWER,
    Accuracy,
    EffortChoice,
    Number,
    RelationName,
    stated_effort,
    stated_relation,
)
from tightrope.cli.page import Page
from tightrope.cli.show import delta_ends, evidence_of, show_evidence
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.digits import ends
from tightrope.report.words import relation_in_words
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run

ASKED_FOR = "asked for"
_DIGITS = 6


@Parameter(name="*", group=ANSWER)
@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The options that state the privacy to reach, and how exactly that is checked."""

    relation: RelationName
    epsilon: Annotated[float, Number, Parameter(help="Privacy loss that is accepted.")]
    delta: Annotated[float, Number, Parameter(help="Failure probability that is accepted.")]
    accuracy: Accuracy = DEFAULT_ACCURACY
    effort: EffortChoice = "quick"

    @property
    def neighbours(self) -> Relation:
        """The relation that was named."""
        return stated_relation(self.relation)

    @property
    def how_hard(self) -> Effort:
        """The effort that was named."""
        return stated_effort(self.effort)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question with a gap, in words and as JSON, where null is the gap."""

    words: Sequence[tuple[str, str]]
    stated: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[V]):
    """The value that was found, and the number to type instead: short, on the safe side, verified by a curve of its own."""

    found: Calibration[V]
    text: str
    typed: V
    curve: PrivacyCurve
    epsilon: Bracket
    delta: Bracket

    @staticmethod
    def exact(found: Calibration[V]) -> "Answer[V]":
        """The value with all its digits."""
        return Answer(
            found=found, text=str(found.value), typed=found.value, **_read(found.curve, found.target)
        )

    @staticmethod
    def rounded(found: Calibration[float], run: Callable[[float], Run], *, up: bool) -> "Answer[float]":
        """The value to six digits, rounded `up` or down; with all digits if the rounded one does not meet the target."""
        text = _rounded(found.value, up=up)
        typed = float(text)
        curve = found.target.verified(run(typed), found.curve.accuracy)
        if curve is None:
            return Answer.exact(found)
        return Answer(found=found, text=text, typed=typed, **_read(curve, found.target))

    @property
    def missing(self) -> str | None:
        """What certainly misses the target, rounded further away: more risk never costs less. None at a limit."""
        beyond = self.found.beyond
        if beyond is None:
            return None
        return str(beyond) if isinstance(beyond, int) else _rounded(beyond, up=beyond > self.found.value)

    @property
    def gap(self) -> float:
        """How far, relative to the number to type, the best possible value can be."""
        return abs(float(self.missing or self.typed) - self.typed) / self.typed if self.typed else math.inf


def _read(curve: PrivacyCurve, target: Target) -> dict[str, Any]:
    """A curve with what it says at the target, asked while the asking is watched."""
    return {"curve": curve, "epsilon": curve.epsilon(target.delta), "delta": curve.delta(target.epsilon)}


def print_answer(
    answer: Answer[V],
    asked: Asked,
    target: TargetOptions,
    *,
    option: str,
    name: str,
    also: Mapping[str, float] | None = None,
    json: bool,
) -> None:
    """Print the question, the value with what it spends and means, how close the other side is, and the evidence."""
    meanings = also or {}
    if json:
        _print_object(answer, asked, target, meanings)
        return
    at = (f"{target.epsilon:.12g}", f"{target.delta:.12g}")
    epsilon, delta = ends(answer.epsilon), delta_ends(answer.curve, target.epsilon)
    rows: list[list[str]] = [
        ["meets the target", answer.text, f"[{', '.join(epsilon)}]", f"[{', '.join(delta)}]"]
    ]
    if answer.missing is not None:
        rows.append(["misses it", answer.missing, f"above {at[0]}", f"above {at[1]}"])
    page = Page()
    page.facts(
        [
            *asked.words,
            ("relation", relation_in_words(target.neighbours)),
            ("target", f"epsilon at most {at[0]} at delta {at[1]}"),
            *(
                [("effort", meaning_of(target.how_hard))]
                if effort_matters(answer.found.run, target.neighbours)
                else []
            ),
            ("accuracy", f"{answer.curve.accuracy:.2g} relative width in delta"),
        ]
    )
    page.table([["", name, f"epsilon at delta {at[1]}", f"delta at epsilon {at[0]}"], *rows])
    meant = "".join(f" ({key} {value:.6g})" for key, value in meanings.items())
    page.heading(f"{option} {answer.text}{meant} is safe to type.")
    page.line(_how_close(answer), indent=2)
    show_evidence(page, answer.curve)


def _how_close(answer: Answer[V]) -> str:
    if answer.missing is None:
        return "It is the limit of what can be set: there is nothing beyond it that could miss the target."
    if isinstance(answer.found.beyond, int) and answer.found.beyond == answer.found.value + 1:
        return "It is the best possible value: the next one misses the target."
    return f"The best possible value is at most {_rounded(answer.gap, up=True, digits=2)} away, relative to this one."


def _print_object(answer: Answer[V], asked: Asked, target: TargetOptions, also: Mapping[str, float]) -> None:
    found, relation = answer.found, relation_object(target.neighbours)
    print_json(
        {
            "question": {
                **asked.stated,
                "accuracy": target.accuracy,
                "effort": target.effort,
                "relation": relation,
            },
            "target": {"epsilon": target.epsilon, "delta": target.delta},
            "parameter": found.parameter,
            "value": found.value,
            "beyond": found.beyond,
            "gap": number_object(found.gap),
            "rounded": answer.typed,
            **also,
            "at_value": _spent(found.curve, target),
            "at_rounded": _spent(answer.curve, target),
            "theorems": [theorem_object(evidence) for evidence in evidence_of(answer.curve)],
            "reached_by": list(answer.curve.witnessed_by),
        }
    )


def _spent(curve: PrivacyCurve, target: TargetOptions) -> dict[str, Any]:
    return {
        "epsilon": bracket_object(curve.epsilon(target.delta)),
        "delta": bracket_object(curve.delta(target.epsilon)),
    }


def _rounded(value: float, *, up: bool, digits: int = _DIGITS) -> str:
    return ends(Bracket(value, value), digits)[up]
