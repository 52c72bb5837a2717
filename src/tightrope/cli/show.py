"""The parts every answer prints: the question as assumed, both ends, and the theorems behind them."""

from collections.abc import Sequence

from tightrope.accountants.certified import effort_matters
from tightrope.cli.options import Question
from tightrope.cli.page import Page
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.digits import ends, ends_from_logs
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.relation import Relation
from tightrope.theorems.evidence import Evidence

SMALLEST_FLOAT = 1e-300  # below this a float loses digits: write delta from its logarithm


def show_question(
    page: Page,
    question: Question,
    relation: Relation | None,
    effort: Effort | None,
    more: Sequence[tuple[str, str]] = (),
) -> None:
    """Print what was asked, with everything that was assumed; without a relation where every one is asked about.

    The effort is told where it matters; without one, neither it nor the accuracy mean anything to who answers. `more` says
    who answers, and how.
    """
    facts = [
        ("mechanism", mechanism_in_words(question.step.mechanism)),
        ("sampling", sampling_in_words(question.step.sampling)),
        ("steps", str(question.steps)),
    ]
    if relation is not None:
        facts.append(("relation", relation_in_words(relation)))
    if effort is not None:
        if relation is not None and effort_matters(question.run, relation):
            facts.append(("effort", meaning_of(effort)))
        facts.append(("accuracy", f"{question.accuracy:g} relative width in delta"))
    page.facts([*facts, *more])


def delta_ends(curve: PrivacyCurve, epsilon: float) -> tuple[str, str]:
    """Both ends of delta as text, however small."""
    delta = curve.delta(epsilon)
    return ends(delta) if delta.upper > SMALLEST_FLOAT else ends_from_logs(curve.log_delta(epsilon))


def show_evidence(page: Page, curve: PrivacyCurve) -> None:
    """Print why the upper end is valid and which datasets reach the lower end."""
    page.heading("The upper end is guaranteed, because")
    show_theorems(page, evidence_of(curve))
    page.heading("The lower end is reached by the neighbours")
    for datasets in curve.witnessed_by:
        page.line(datasets, indent=2)


def evidence_of(curve: PrivacyCurve) -> tuple[Evidence, ...]:
    """Pick the theorems the upper end rests on."""
    return tuple(evidence for evidence in curve.because if isinstance(evidence, Evidence))


def show_theorems(page: Page, theorems: Sequence[Evidence]) -> None:
    """Print a numbered list: name, standing, reference, statement."""
    for number, evidence in enumerate(theorems, start=1):
        page.item(
            number, f"{evidence.name} ({evidence.standing.value}: {evidence.reference})", evidence.statement
        )
