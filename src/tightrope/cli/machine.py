"""Answers as one JSON object."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import tightrope
from tightrope.cli.options import Question
from tightrope.cli.show import evidence_of
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.words import spelled
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.sampling import Sampling
from tightrope.theorems.evidence import Evidence


def print_json(answer: Mapping[str, Any]) -> None:
    """Print the answer and the version that gave it; infinities are the strings "infinity" and "-infinity"."""
    print(json.dumps({**answer, "version": tightrope.__version__}, indent=2, allow_nan=False))


def question_object(question: Question, relation: Relation | None, effort: Effort) -> dict[str, Any]:
    """State what was asked; without a relation where every one is asked about."""
    stated = {
        "mechanism": mechanism_object(question.step.mechanism),
        "sampling": sampling_object(question.step.sampling),
        "steps": question.steps,
        "accuracy": question.accuracy,
        "effort": effort.value,
    }
    return stated if relation is None else {**stated, "relation": relation_object(relation)}


def mechanism_object(mechanism: Mechanism) -> dict[str, Any]:
    """Kind and parameters."""
    return {"kind": spelled(type(mechanism)), **dataclasses.asdict(mechanism)}


def sampling_object(sampling: Sampling) -> dict[str, Any]:
    """Kind, parameters and rate."""
    return {"kind": spelled(type(sampling)), **dataclasses.asdict(sampling), "rate": sampling.rate}


def relation_object(relation: Relation) -> dict[str, str]:
    """Kind and meaning."""
    return {"kind": spelled(relation), "meaning": relation.meaning}


def curve_object(
    question: Question,
    relation: Relation,
    effort: Effort,
    curve: PrivacyCurve,
    brackets: list[dict[str, Any]],
) -> dict[str, Any]:
    """Question, brackets, the theorems of the upper end and the datasets of the lower end."""
    return {
        "question": question_object(question, relation, effort),
        "brackets": brackets,
        "theorems": [theorem_object(evidence) for evidence in evidence_of(curve)],
        "reached_by": list(curve.witnessed_by),
    }


def bracket_object(bracket: Bracket) -> dict[str, float | str]:
    """Both ends."""
    return {"lower": number_object(bracket.lower), "upper": number_object(bracket.upper)}


def theorem_object(evidence: Evidence) -> dict[str, str]:
    """Name, statement, standing, reference and proof note."""
    return {**dataclasses.asdict(evidence), "standing": evidence.standing.value}


def number_object(value: float) -> float | str:
    """The number itself, or its name where JSON has none."""
    return value if math.isfinite(value) else "infinity" if value > 0 else "-infinity"
