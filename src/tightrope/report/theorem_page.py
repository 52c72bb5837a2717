"""The theorem table as a Markdown page."""

from collections.abc import Callable

from tightrope.report.words import spell
from tightrope.setting.relation import RELATIONS
from tightrope.theorems.evidence import REFUTED, Evidence
from tightrope.theorems.lookup import list_theorems, support_matrix

_PROOFS = "../src/tightrope/theorems/"

_OPENING = """\
# Theorems

Every answer rests on rows of this table. A question without a row is refused, never approximated.
This page is printed by `tightrope theorems --markdown`.

N(v) is the noise centred at v in units of the clipping norm C, and g is the sampling rate. A pair (P, Q) is
the worst case of one step: delta(epsilon) is the hockey-stick divergence of P from Q at e^epsilon.

## Which questions have a theorem
"""


def theorem_page() -> str:
    """Write the page: which questions have an answer, each theorem, and the beliefs that are false."""
    everything = list_theorems()
    holds = [evidence for evidence in everything if evidence.standing is not REFUTED]
    false = [evidence for evidence in everything if evidence.standing is REFUTED]
    sections = [
        _OPENING,
        _matrix(),
        "\n## Theorems and their standing\n",
        "\n".join(_entry(evidence) for evidence in holds),
        "\n## Refuted beliefs\n",
        "\n".join(_entry(evidence) for evidence in false),
    ]
    return "\n".join(sections)


def matrix_rows(named: Callable[[Evidence], str]) -> list[list[str]]:
    """Heading and body of the support matrix: one row per mechanism and sampling, one column per relation."""
    found: dict[tuple[str, str], list[str]] = {}
    # relations come in the order of RELATIONS
    for mechanism, sampling, _, evidence in support_matrix().cells:
        names = ", ".join(map(named, evidence)) or "none"
        found.setdefault((spell(mechanism), spell(sampling)), []).append(names)
    heading = ["mechanism", "sampling", *(spell(relation) for relation in RELATIONS.values())]
    return [heading, *([*question, *names] for question, names in found.items())]


def _matrix() -> str:
    heading, *body = matrix_rows(lambda evidence: f"[{evidence.name}](#{evidence.name})")
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, ["---"] * len(heading), *body])


def _entry(evidence: Evidence) -> str:
    return (
        f"### {evidence.name}\n\n{evidence.statement}\n\n"
        f"- standing: {evidence.standing.value}\n"
        f"- reference: {evidence.reference}\n"
        f"- proof: [{evidence.proof}]({_PROOFS}{evidence.proof})\n"
    )
