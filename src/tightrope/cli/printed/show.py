"""What every answer prints, as text and as JSON: the question as assumed, the answers, and why they hold."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tightrope
from tightrope.accountants.certified import Certified, effort_matters
from tightrope.answers.compare import Answer
from tightrope.cli.printed.refusals import WORDS
from tightrope.cli.printed.sentences import is_tiny, safe_number, tell_why
from tightrope.cli.printed.terminal import Page
from tightrope.cli.typed.options import RunOptions
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends, ends_from_logs
from tightrope.curve.limit_curve import Approximation
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.errors import TightropeError
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import (
    mechanism_in_words,
    relation_in_words,
    run_in_short,
    run_in_words,
    sampling_in_words,
    spell,
)
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.setting.trials import TrialLaw
from tightrope.theorems.evidence import Evidence

DIGITS = 6

MOST_SAID = 3  # brackets while work goes on
FAR_ENOUGH = 1e-10
POINTS = 21
_DRAWN = 241

Fact = tuple[str, str]
Object = dict[str, Any]


# The question


def question_facts(asked: RunOptions, relation: Relation | None, by: object = None) -> list[Fact]:
    """State what was asked and everything that was assumed; no relation where all are asked about."""
    facts = [
        ("mechanism", mechanism_in_words(asked.stated_mechanism)),
        ("sampling", sampling_in_words(asked.stated_sampling, relation)),
        ("steps", str(asked.steps)),
    ]
    if training(asked):
        facts.append(("training", training(asked)))
    if relation is not None:
        facts.append(("relation", relation_in_words(relation)))
    return facts + effort_facts(by, [] if relation is None else [(asked.run, relation)])


def effort_facts(by: object, asked: Iterable[tuple[Run, Relation]]) -> list[Fact]:
    """State how hard the certified accountant works; its effort where that matters to a run."""
    if not isinstance(by, Certified):
        return []
    accuracy = ("accuracy", f"a relative width of {by.accuracy:.2g} in delta is asked for")
    matters = any(effort_matters(run, relation) for run, relation in asked)
    return [("effort", by.effort.meaning), accuracy] if matters else [accuracy]


def question_in_short(asked: RunOptions, relation: Relation | None, by: object = None) -> list[str]:
    """What was asked in a line or two; the relation is told with the answer."""
    matters = relation is not None and effort_matters(asked.run, relation)
    effort = f"; answered with --effort {by.effort}" if matters and isinstance(by, Certified) else ""
    run = run_in_short(asked.run) if asked.rate_in_records else run_in_words(asked.run, relation)
    return [*filter(None, [training(asked)]), f"Run: {run}{effort}."]


def training(asked: object) -> str:
    """How records, batches and epochs became a rate and steps; empty where they were not given."""
    return getattr(asked, "mapping", None) or ""


def question_object(asked: RunOptions, relation: Relation | None, by: object = None) -> Object:
    """State what was asked for JSON."""
    stated: Object = {
        "mechanism": plain_setting(asked.stated_mechanism),
        "sampling": plain_setting(asked.stated_sampling),
        "steps": asked.steps,
    }
    if isinstance(by, Certified):
        stated |= {"accuracy": by.accuracy, "effort": str(by.effort)}
    if training(asked):
        stated["training"] = training(asked)
    return stated if relation is None else {**stated, "relation": relation_object(relation)}


def tuning_object(trials: TrialLaw | None) -> Object:
    """How many runs there are, of which the best is published; empty where nothing is searched."""
    if trials is None:
        return {}
    return {"tuning": {"law": str(trials), "mean": trials.expected}}


def relation_object(relation: Relation) -> Object:
    """A relation for JSON: its kind, and what it means."""
    return {"kind": spell(relation), "meaning": relation.meaning}


# Answers


def print_json(answer: Mapping[str, Any]) -> None:
    """Print the answer and the version that gave it; infinities are "infinity" and "-infinity"."""
    print(json.dumps({**answer, "version": tightrope.__version__}, indent=2, allow_nan=False))


def number_object(value: float) -> float | str:
    """The number itself, or its name where JSON has none."""
    return value if math.isfinite(value) else "infinity" if value > 0 else "-infinity"


def bracket_object(bracket: Bracket) -> Object:
    """A bracket for JSON: both ends."""
    stopped = {"interrupted": True} if bracket.interrupted else {}
    return {"lower": number_object(bracket.lower), "upper": number_object(bracket.upper), **stopped}


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


def answer_cells(answer: Answer, log: Any = None) -> list[str]:
    """An answer of any kind, one number a cell, rounded outwards; a tiny delta from its logarithm."""
    if isinstance(answer, Bracket):
        return list(ends_from_logs(log) if log is not None and is_tiny(answer) else ends(answer))
    if isinstance(answer, UpperBound):
        return [safe_number(answer, log), f"{answer.order:.6g}"]
    if isinstance(answer, Approximation):
        return [f"{answer.value:.6g}"]
    return [f"{answer.value:.6g}", *ends(Bracket(answer.lower, answer.upper), DIGITS)]


def answer_in_short(answer: Answer) -> str:
    """An answer of any kind in one cell, rounded outwards."""
    if isinstance(answer, Bracket):
        return f"[{', '.join(ends(answer, DIGITS))}]"
    if isinstance(answer, UpperBound):
        return f"at most {round_outwards(answer.upper, DIGITS, up=True)}"
    if isinstance(answer, Approximation):
        return f"about {answer.value:.6g}"
    low, high = ends(Bracket(answer.lower, answer.upper), DIGITS)
    return f"{answer.value:.6g} ({low} to {high})"


def answers_in_short(
    ask: str, given: str, at: Sequence[float], answers: Iterable[Answer], by: str = "quick"
) -> str:
    """The first few brackets in one sentence: what is known while work goes on."""
    known = [(x, answer) for x, answer in zip(at, answers, strict=True) if isinstance(answer, Bracket)]
    said = [
        f"{ask} is between {' and '.join(ends(bracket))} at {given} {write_number(x)}"
        for x, bracket in known[:MOST_SAID]
    ]
    more = f" and so on for {len(known) - MOST_SAID} more" if len(known) > MOST_SAID else ""
    return f"{', '.join(said)}{more} ({by})."


def says_something(answer: Answer) -> bool:
    """Whether a bracket excludes anything."""
    return not isinstance(answer, Bracket) or answer.lower > 0 or answer.upper < 1


# A page: the answer in words, the question, tables, and why


def open_page(sentences: Sequence[str], *, question: Sequence[str], facts: Sequence[Fact], why: bool) -> Page:
    """Print the answer in words and the question as understood: in short, or every fact with --why."""
    page = Page()
    page.opening(*sentences)
    page.line("")
    if why:
        page.facts(facts)
    else:
        for line in question:
            page.line(line)
    return page


def close_page(
    page: Page,
    theorems: Sequence[Evidence],
    reached_by: Iterable[str],
    *,
    why: bool,
    ends: str = "end is",
    more: str = "statements and datasets",
) -> None:
    """Print why the answer holds: in one line, or theorems and datasets with --why."""
    if why:
        show_why(page, theorems, reached_by, ends)
    else:
        page.line("")
        page.line(tell_why(theorems, more))


# How wide they are, and why they hold


def width_in_words(brackets: Iterable[Bracket], ends: str = "The ends") -> str:
    """How far apart the ends are, and why further than was asked for if they are."""
    finite = (bracket for bracket in brackets if math.isfinite(bracket.upper))
    widest = max(finite, key=lambda bracket: bracket.relative_width, default=None)
    if widest is None or not widest.relative_width:
        return f"{ends} agree."
    if widest.gap is not None:
        return widest.gap.in_words(WORDS)
    width = round_outwards(widest.relative_width, 2, up=True)
    return f"{ends} are at most {width} apart, relative to the upper one."


def show_width(page: Page, brackets: Sequence[Bracket], ends: str = "The ends") -> None:
    """Print how far apart the ends are, unless a gap was told with the answer."""
    if brackets and all(bracket.gap is None for bracket in brackets):
        page.heading(width_in_words(brackets, ends))


def width_object(bracket: Bracket) -> Object:
    """The achieved width, and why it is wider than was asked for if it is."""
    gap = None if bracket.gap is None else bracket.gap.in_words(WORDS)
    return {"relative_width": number_object(bracket.relative_width), "gap": gap}


def find_theorems(brackets: Iterable[Bracket]) -> list[Evidence]:
    """The theorems that decided the upper ends, each once."""
    decisions = [bracket.decided_by for bracket in brackets if bracket.decided_by is not None]
    return list(dict.fromkeys(theorem for decision in decisions for theorem in decision.because))


def find_datasets(brackets: Iterable[Bracket]) -> list[str]:
    """The neighbours that decided the lower ends, each once."""
    decisions = [bracket.decided_by for bracket in brackets if bracket.decided_by is not None]
    return list(dict.fromkeys(decision.reached_by for decision in decisions if decision.reached_by))


def theorem_object(evidence: Evidence) -> Object:
    """Name, statement, standing, reference and proof note."""
    return {
        "name": evidence.name,
        "statement": evidence.in_words(WORDS),
        "standing": evidence.standing.value,
        "reference": evidence.reference,
        "proof": evidence.proof,
    }


def why_object(theorems: Iterable[Evidence], reached_by: Iterable[str]) -> Object:
    """The theorems of the upper ends and the datasets of the lower ends."""
    return {"theorems": [theorem_object(theorem) for theorem in theorems], "reached_by": list(reached_by)}


def show_why(
    page: Page, theorems: Sequence[Evidence], reached_by: Iterable[str], ends: str = "end is"
) -> None:
    """Print why the upper ends are valid and which datasets reach the lower ends."""
    page.heading(f"The upper {ends} guaranteed, because")
    show_theorems(page, theorems)
    page.heading(f"The lower {ends} reached by the neighbours")
    for datasets in reached_by:
        page.line(datasets, indent=2)


def show_refusals(page: Page, rows: Sequence[tuple[str, TightropeError | None]]) -> None:
    """Print why there is no answer, for each that was refused."""
    for name, refusal in rows:
        if refusal is not None:
            page.heading(f"Refused: {name}")
            page.line(refusal.in_words(WORDS), indent=2)


def show_theorems(page: Page, theorems: Sequence[Evidence]) -> None:
    """Print a numbered list: name, standing, reference, statement."""
    for number, evidence in enumerate(theorems, start=1):
        head = f"{evidence.name} ({evidence.standing.value}: {evidence.reference})"
        page.item(number, head, evidence.in_words(WORDS))


def write_numbers(theorems: Iterable[Evidence], shown: Sequence[Evidence]) -> str:
    """The numbers that these theorems have in the list that is shown."""
    return ", ".join(str(shown.index(theorem) + 1) for theorem in theorems) or "-"


# Where curves are asked and drawn


def usual_range(curves: Iterable[PrivacyCurve | RenyiCurve]) -> list[float]:
    """Epsilons from 0 to a round number where every delta is negligible, or to 1 if none is known."""
    last = max((e for c in curves if 0 < (e := c.epsilon(FAR_ENOUGH).upper) < math.inf), default=1.0)
    unit = 10.0 ** math.floor(math.log10(last))
    stop = next(digit * unit for digit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if digit * unit >= last)
    return [float(f"{stop * i / (POINTS - 1):.12g}") for i in range(POINTS)]


def fine_range(epsilons: Sequence[float]) -> list[float]:
    """The same epsilons with enough between them for a smooth line."""
    if len(epsilons) == 1:
        return list(epsilons)
    return [*epsilons, *np.linspace(min(epsilons), max(epsilons), _DRAWN).tolist()]


def check_picture(plot: Path | None) -> Path | None:
    """Refuse a picture that cannot be drawn before anything is computed."""
    if plot is None:
        return None
    from tightrope.report.canvas import check_target  # only where something is drawn

    return check_target(plot)
