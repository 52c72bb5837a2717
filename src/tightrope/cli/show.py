"""The parts every answer prints, for people and as JSON: the question as assumed, the answers, and why they hold."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tightrope
from tightrope.accountants.certified import effort_matters
from tightrope.answers.spend import Answer
from tightrope.cli.options import RunOptions
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import Approximation
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import UpperBound
from tightrope.curve.simulated_curve import Estimate
from tightrope.report.digits import ends, ends_from_logs
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words, spelled
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.sampling import Sampling
from tightrope.theorems.evidence import Evidence

DIGITS = 6
SMALLEST_FLOAT = 1e-300  # below this a float loses digits: write delta from its logarithm

Fact = tuple[str, str]
Object = dict[str, Any]


# The question


def question_facts(asked: RunOptions, relation: Relation | None, effort: Effort | None) -> list[Fact]:
    """State what was asked, with everything that was assumed; without a relation where each is asked about in turn.

    Without an effort, neither it nor the accuracy mean anything to whoever answers.
    """
    facts = [
        ("mechanism", mechanism_in_words(asked.stated_mechanism)),
        ("sampling", sampling_in_words(asked.stated_sampling)),
        ("steps", str(asked.steps)),
    ]
    if relation is not None:
        facts.append(("relation", relation_in_words(relation)))
    if effort is not None:
        if relation is not None and effort_matters(asked.run, relation):
            facts.append(("effort", meaning_of(effort)))
        facts.append(("accuracy", f"{asked.accuracy:g} relative width in delta, asked for"))
    return facts


def question_object(asked: RunOptions, relation: Relation | None, effort: Effort | None) -> Object:
    """State the same for JSON."""
    stated = {
        "mechanism": mechanism_object(asked.stated_mechanism),
        "sampling": sampling_object(asked.stated_sampling),
        "steps": asked.steps,
    }
    if effort is not None:
        stated |= {"accuracy": asked.accuracy, "effort": effort.value}
    return stated if relation is None else {**stated, "relation": relation_object(relation)}


def mechanism_object(mechanism: Mechanism) -> Object:
    """Kind and parameters."""
    return {"kind": spelled(type(mechanism)), **dataclasses.asdict(mechanism)}


def sampling_object(sampling: Sampling) -> Object:
    """Kind, parameters and rate."""
    return {"kind": spelled(type(sampling)), **dataclasses.asdict(sampling), "rate": sampling.rate}


def relation_object(relation: Relation) -> Object:
    """Kind and meaning."""
    return {"kind": spelled(relation), "meaning": relation.meaning}


# Answers


def print_json(answer: Mapping[str, Any]) -> None:
    """Print the answer and the version that gave it; infinities are the strings "infinity" and "-infinity"."""
    print(json.dumps({**answer, "version": tightrope.__version__}, indent=2, allow_nan=False))


def number_object(value: float) -> float | str:
    """The number itself, or its name where JSON has none."""
    return value if math.isfinite(value) else "infinity" if value > 0 else "-infinity"


def bracket_object(bracket: Bracket) -> Object:
    """Both ends."""
    return {"lower": number_object(bracket.lower), "upper": number_object(bracket.upper)}


def answer_object(answer: Answer) -> Object:
    """An answer of any kind."""
    if isinstance(answer, Bracket):
        return bracket_object(answer)
    if isinstance(answer, UpperBound):
        return {"upper": number_object(answer.upper), "order": number_object(answer.order)}
    if isinstance(answer, Approximation):
        return {"value": number_object(answer.value)}
    numbers = {name: number_object(getattr(answer, name)) for name in ("value", "lower", "upper")}
    return {**numbers, **{name: getattr(answer, name) for name in ("confidence", "draws", "interrupted")}}


def answer_cells(answer: Answer, logs: Answer | None = None) -> list[str]:
    """An answer of any kind, one number a cell, rounded outwards; from its logarithm where it is too small a delta."""
    if isinstance(answer, Bracket):
        tiny = isinstance(logs, Bracket) and answer.upper <= SMALLEST_FLOAT
        return list(ends_from_logs(logs) if tiny and isinstance(logs, Bracket) else ends(answer))
    if isinstance(answer, UpperBound):
        tiny = isinstance(logs, UpperBound) and 0 < answer.upper < SMALLEST_FLOAT
        log = logs.upper if tiny and isinstance(logs, UpperBound) else 0.0
        upper = ends_from_logs(Bracket(log, log))[1] if tiny else round_outwards(answer.upper, up=True)
        return [upper, f"{answer.order:.6g}"]
    if isinstance(answer, Approximation):
        return [f"{answer.value:.6g}"]
    return [f"{answer.value:.6g}", *ends(Bracket(answer.lower, answer.upper), DIGITS)]


def answer_in_short(answer: Answer) -> str:
    """An answer of any kind in one cell, rounded outwards."""
    if isinstance(answer, Bracket):
        return f"[{', '.join(ends(answer, DIGITS))}]"
    if isinstance(answer, UpperBound):
        return f"at most {round_outwards(answer.upper, up=True)}"
    if isinstance(answer, Approximation):
        return f"about {answer.value:.6g}"
    low, high = ends(Bracket(answer.lower, answer.upper), DIGITS)
    return f"{answer.value:.6g} ({low} to {high})"


def round_outwards(value: float, *, up: bool, digits: int = DIGITS) -> str:
    """Write the number to a few digits, rounded up or down."""
    return ends(Bracket(value, value), digits)[up]


def refuse_to_hide_an_interrupt(answers: Iterable[Answer]) -> None:
    """Say by the exit code that a simulation was stopped early; what it had is printed."""
    if any(isinstance(answer, Estimate) and answer.interrupted for answer in answers):
        raise KeyboardInterrupt


# Why they hold


def evidence_of(curve: PrivacyCurve) -> tuple[Evidence, ...]:
    """Pick the theorems the upper end rests on."""
    return tuple(evidence for evidence in curve.because if isinstance(evidence, Evidence))


def theorem_object(evidence: Evidence) -> Object:
    """Name, statement, standing, reference and proof note."""
    return {**dataclasses.asdict(evidence), "standing": evidence.standing.value}


def why_object(curve: PrivacyCurve) -> Object:
    """The theorems of the upper ends and the datasets of the lower ends."""
    theorems = [theorem_object(evidence) for evidence in evidence_of(curve)]
    return {"theorems": theorems, "reached_by": list(curve.witnessed_by)}


def show_evidence(page: Page, curve: PrivacyCurve) -> None:
    """Print why the upper end is valid and which datasets reach the lower end."""
    page.heading("The upper end is guaranteed, because")
    show_theorems(page, evidence_of(curve))
    page.heading("The lower end is reached by the neighbours")
    for datasets in curve.witnessed_by:
        page.line(datasets, indent=2)


def show_theorems(page: Page, theorems: Sequence[Evidence]) -> None:
    """Print a numbered list: name, standing, reference, statement."""
    for number, evidence in enumerate(theorems, start=1):
        head = f"{evidence.name} ({evidence.standing.value}: {evidence.reference})"
        page.item(number, head, evidence.statement)
