"""What a statement says, in words: one table of entries that every format prints."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tightrope.audit.claims.judge import Verdict
from tightrope.audit.finding import Scheme
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.numerics.text import write_number
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.given import as_given
from tightrope.setting.mechanism import Finite, Mechanism
from tightrope.setting.run import Step
from tightrope.statements.model import CertifiedEnds, Statement

RESTS_ON = {
    "declared": "somebody says so, and nobody looked",
    "inspected": "the structure of the loader was read",
    "watched": "recorded batches were tested",
}
NUMBERS_OF_BATCHES = {
    "records": "records",
    "batch": "batch",
    "epoch": "batches per epoch",
    "full": "full batches at the start of an epoch",
    "share": "largest probability that one draw takes a given record",
    "draws": "draws per step",
    "rate": "rate of one draw",
}


class Entry(NamedTuple):
    """One subject and what is said about it; `typed` texts, such as commands, are printed as typed."""

    subject: str
    texts: tuple[str, ...]
    typed: bool = False


def list_entries(statement: Statement) -> list[Entry]:
    """Everything that a statement says, subject by subject."""
    claim, certified, dataset = statement.claim, statement.certified, statement.dataset
    numbers = f"epsilon {write_number(claim.epsilon)}, delta {write_number(claim.delta)}"
    verdict = f"{certified.verdict}: {Verdict[certified.verdict.upper()].value}"
    sizes = (f"{name} {write_number(value)}" for name, value in dataset if value is not None)
    stated = [
        ("description", statement.description),
        ("claim", f"{numbers}: {judge_claim(statement)}"),
        ("setting", statement.setting),
        ("data accesses covered", statement.data_accesses),
        ("tuning", statement.tuning),
        ("outputs covered", statement.outputs),
        ("unit", _describe_unit(statement)),
        ("neighbours", relation_in_words(statement.neighbours)),
        ("mechanism", *describe_mechanisms(statement)),
        ("noise multiplier", statement.noise_convention),
        ("sampling as accounted", *describe_samplings(statement)),
        ("sampling as implemented", *describe_implemented(statement)),
        ("steps", str(statement.accounted.steps)),
        ("dataset", ", ".join(sizes)),
        ("epsilon as accounted", describe_ends(certified.accounted)),
        ("epsilon of what runs", describe_ends(certified.runs)),
        ("verdict", verdict),
        ("provided that", certified.provided),
        ("why nothing is proved", certified.why_not),
        ("assumptions", *describe_assumptions(statement)),
        ("theorems", *describe_theorems(statement)),
    ]
    typed = [("code", statement.code), ("checked by", statement.command)]
    entries = [Entry(subject, tuple(texts)) for subject, *texts in stated]
    entries += [Entry(subject, (text,), typed=True) for subject, text in typed]
    entries.append(Entry("accountant", (name_accountant(statement),)))
    return [entry for entry in entries if any(entry.texts)]


def judge_claim(statement: Statement) -> str:
    """How firmly the claim is established for what runs: proved, conjectured, not proved, or refuted.

    It is refuted if epsilon is certified to be larger than claimed.
    """
    claimed, runs = statement.claim.epsilon, statement.certified.runs
    if claimed < runs.lower:
        return "refuted"
    standings = {theorem.standing for theorem in statement.theorems}
    if runs.upper is None or claimed < runs.upper or not standings or "refuted" in standings:
        return "not proved"
    return "conjectured" if "conjectured" in standings else "proved"


def describe_claim(statement: Statement) -> str:
    """The claim as a formal sentence, which says so where the claim is not proved or is false."""
    claim, runs, standing = statement.claim, statement.certified.runs, judge_claim(statement)
    numbers = f"({write_number(claim.epsilon)}, {write_number(claim.delta)})"
    private = f"the release is {numbers}-differentially private in the {statement.setting} setting"
    opening = {
        "proved": f"T{private[1:]}",
        "conjectured": f"If the conjectures below are true, {private}",
        "not proved": f"It is claimed, and not proved, that {private}",
        "refuted": f"It is claimed that {private}",
    }[standing]
    lower, upper = ends(_bracket(runs))
    known = f"at most {upper} is" if runs.upper is not None else "no bound is"
    verdict = {
        "not proved": f" For what runs, {known} known of epsilon.",
        "refuted": f" The claim is false: for what runs, epsilon is at least {lower}.",
    }.get(standing, "")
    who = f"neighbours: {relation_in_words(statement.neighbours)}; unit: {_describe_unit(statement)}."
    return f"{opening}; {who}{verdict}{_count_assumptions(statement)}"


def _count_assumptions(statement: Statement) -> str:
    number = len(statement.assumptions)
    unchecked = sum(one.holds == "not checked" for one in statement.assumptions)
    if not number:
        return ""
    if unchecked == number:
        return f" Nobody checked the {number} assumptions this rests on."
    doubt = f"; nobody checked {unchecked} of them" if unchecked else ""
    return f" This rests on {number} assumptions{doubt}."


def describe_mechanisms(statement: Statement) -> list[str]:
    """The noise of each part of the run."""
    return _describe_parts(statement, lambda step: _describe_mechanism(step.mechanism))


def describe_samplings(statement: Statement) -> list[str]:
    """How the batches of each part of the run were accounted."""
    return _describe_parts(statement, lambda step: sampling_in_words(step.sampling))


def describe_implemented(statement: Statement) -> Iterator[str]:
    """How batches are really drawn, what that rests on, and the numbers that were found."""
    found, finding = statement.implemented, statement.finding
    yield f"{name_scheme(statement)}: {Scheme[found.scheme.upper()].value}"
    yield found.sentence
    yield f"Evidence: {found.evidence} ({RESTS_ON[found.evidence]})."
    if finding.sampling is not None and sampling_in_words(finding.sampling) not in found.sentence:
        yield sampling_in_words(finding.sampling)
    numbers = [(words, getattr(found, name)) for name, words in NUMBERS_OF_BATCHES.items()]
    said = [f"{words} {write_number(value)}" for words, value in numbers if value is not None]
    if found.rate_range is not None:
        said.append(f"rates that agree with the batches {' to '.join(map(write_number, found.rate_range))}")
    if found.times != 1:
        said.append(f"a record comes at most {found.times} times per epoch")
    if found.alike:
        said.append("one record fewer changes one place of an epoch")
    if found.reshuffles is not None:
        said.append("every epoch draws a new order" if found.reshuffles else "the order stays the same")
    if said:
        yield "; ".join(said)
    yield from found.notes


def describe_assumptions(statement: Statement) -> Iterator[str]:
    """Each assumption, whether it holds, and how that is known."""
    yield from (f"{one.says} Holds: {one.holds}. {one.because}" for one in statement.assumptions)


def describe_theorems(statement: Statement) -> Iterator[str]:
    """Each theorem with its standing and where its proof is."""
    for theorem in statement.theorems:
        yield f"{theorem.name}: {theorem.statement} [{theorem.standing}: {theorem.reference}]"


def describe_ends(certified: CertifiedEnds) -> str:
    """A certified bracket, each end rounded outwards.

    >>> describe_ends(CertifiedEnds(lower=2 / 3, upper=None))
    'at least 0.666666; no upper end is proved'
    """
    lower, upper = ends(_bracket(certified))
    at_most = "; no upper end is proved" if certified.upper is None else f", at most {upper}"
    return f"at least {lower}{at_most}"


def name_accountant(statement: Statement) -> str:
    """What computed the numbers."""
    return f"tightrope {statement.tightrope}"


def name_scheme(statement: Statement) -> str:
    """How batches are really drawn, in one word."""
    return str(statement.implemented.scheme).replace("_", "-")


def _describe_parts(statement: Statement, describe: Callable[[Step], str]) -> list[str]:
    parts = statement.accounted.parts
    return [f"{times} steps: {describe(step)}" if len(parts) > 1 else describe(step) for step, times in parts]


def _describe_mechanism(mechanism: Mechanism) -> str:
    said = mechanism_in_words(mechanism)
    if isinstance(mechanism, Finite):
        observed, alternative = (
            ", ".join(map(write_number, as_given(mechanism, name))) for name in ("observed", "alternative")
        )
        return f"{said}: {observed} on one dataset, {alternative} on its neighbour"
    return said


def _describe_unit(statement: Statement) -> str:
    unit = statement.unit
    return f"{unit.protects} ({unit.details})" if unit.details else unit.protects


def _bracket(certified: CertifiedEnds) -> Bracket:
    return Bracket(certified.lower, math.inf if certified.upper is None else certified.upper)
