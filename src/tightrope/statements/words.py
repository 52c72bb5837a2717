"""What a statement says, in words: one table of entries that every format prints."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Scheme
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.numerics.text import write_number
from tightrope.report.words import (
    mechanism_in_words,
    relation_in_words,
    sampling_in_words,
    trials_in_words,
)
from tightrope.setting.given import as_given
from tightrope.setting.mechanism import Finite, Mechanism
from tightrope.setting.run import CHOSEN_ON_THE_WAY, Step
from tightrope.statements.assumptions import list_assumptions
from tightrope.statements.model import CertifiedEnds, ClaimStanding, Statement

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
    "batch_count": "batches watched, or in one pass",
}
CHANGES = {
    "add": "added",
    "remove": "removed",
    "add-or-remove": "added or removed",
    "substitute": "exchanged for another",
}
MOST_QUOTED = 300  # characters of a text that somebody else wrote, among words of ours


class Entry(NamedTuple):
    """One subject and what is said about it; `typed` texts, such as commands, are printed as typed."""

    subject: str
    texts: tuple[str, ...]
    typed: bool = False


def list_entries(statement: Statement) -> list[Entry]:
    """Everything that a statement says, subject by subject; the worst news come first."""
    claim, certified, dataset = statement.claim, statement.certified, statement.dataset
    numbers = f"epsilon {write_number(claim.epsilon)}, delta {write_number(claim.delta)}"
    verdict = f"{certified.sampling_verdict}: {Verdict[certified.sampling_verdict.upper()].value}"
    sizes = (f"{name} {write_number(value)}" for name, value in dataset if value is not None)
    standing: str = judge_claim(statement)
    if standing == "proved":
        standing += f" if {count_unchecked(statement)}"
    stated = [
        ("claim", f"{standing}: {numbers}, for {describe_unit_and_relation(statement)}"),
        ("why the claim is not proved", explain_claim(statement)),
        ("sampling verdict", verdict),
        ("assumptions", *describe_assumptions(statement)),
        ("description", statement.description),
        ("setting", statement.setting),
        ("data accesses covered", statement.data_accesses),
        ("tuning", *describe_tuning(statement)),
        ("outputs covered", statement.outputs),
        ("schedule", "" if statement.schedule == "not stated" else statement.schedule),
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
        ("provided that", certified.provided),
        ("why nothing is proved", certified.why_not),
        ("theorems", *describe_theorems(statement)),
    ]
    typed = [("code", statement.code), ("checked by", statement.command)]
    entries = [Entry(subject, tuple(texts)) for subject, *texts in stated]
    entries += [Entry(subject, (text,), typed=True) for subject, text in typed]
    entries.append(Entry("accountant", (name_accountant(statement),)))
    return [entry for entry in entries if any(entry.texts)]


# the claim


def judge_anew(statement: Statement) -> Statement:
    """The statement with the standing of its claim, and its assumptions, as its own numbers have them."""
    assumed = list_assumptions(statement, provided=statement.certified.provided)
    claim = statement.claim.model_copy(update={"standing": judge_claim(statement)})
    return statement.model_copy(update={"claim": claim, "assumptions": tuple(assumed)})


def judge_claim(statement: Statement) -> ClaimStanding:
    """How firmly the claim is established for what runs: refuted, not proved, conjectured or proved.

    It is refuted if epsilon is certified to be larger than claimed, for one record and so for any unit.
    """
    claimed, runs = statement.claim.epsilon, statement.certified.runs
    if claimed < runs.lower:
        return "refuted"
    standings = {theorem.standing for theorem in statement.theorems}
    if runs.upper is None or claimed < runs.upper or not standings or "refuted" in standings:
        return "not proved"
    if find_schedule_gap(statement) or find_unit_gap(statement):
        return "not proved"
    return "conjectured" if "conjectured" in standings else "proved"


def explain_claim(statement: Statement) -> str:
    """Why the claim is not proved, or false, in half a sentence; empty where it is proved."""
    standing, runs = judge_claim(statement), statement.certified.runs
    lower, upper = ends(_bracket(runs))
    if standing == "refuted":
        return f"for what runs, epsilon is at least {lower}"
    if standing != "not proved":
        return ""
    if runs.upper is None:
        return (
            f"for what runs, no bound is known of epsilon ({statement.certified.why_not.removesuffix('.')})"
        )
    if statement.claim.epsilon < runs.upper:
        return f"for what runs, epsilon is known to be at most {upper}"
    return find_schedule_gap(statement) or find_unit_gap(statement) or "no proved theorem is named"


def find_schedule_gap(statement: Statement) -> str:
    """Why composing the run bounds nothing; empty where it does, or where nobody said how it was chosen."""
    if statement.schedule != CHOSEN_ON_THE_WAY:
        return ""
    return "steps were chosen on the way, and composing what was recorded does not bound that"


def find_unit_gap(statement: Statement) -> str:
    """Why a relation between datasets of records does not protect the unit; empty where it does."""
    unit, relation = statement.unit, statement.neighbours
    if unit.most_records <= relation.group:
        return ""
    protected = "one record" if relation.group == 1 else f"{relation.group:,} records"
    number = f"it is not stated that each has {protected}{' at most' * (relation.group > 1)}"
    if unit.records_per_unit is not None:
        number = f"each has up to {unit.records_per_unit:,} records"
    return f"{relation} protects {protected}, and {number}"


def describe_unit_and_relation(statement: Statement) -> str:
    """Who is protected against what, as in 'one example added or removed'."""
    unit = statement.unit
    records = (
        "any number of records" if math.isinf(unit.most_records) else f"up to {unit.records_per_unit} records"
    )
    of = "" if unit.is_a_record else f" with {'one record' if unit.most_records == 1 else records}"
    return f"one {quote(unit.protects)}{of} {CHANGES[str(statement.neighbours.single)]}"


def name_claim(statement: Statement) -> str:
    """A title: whose privacy is stated, and first whether the claim fails."""
    opening = {
        "refuted": "REFUTED: claimed differential privacy",
        "not proved": "Not proved: claimed differential privacy",
        "conjectured": "Conjectured: differential privacy",
        "proved": "Differential privacy",
    }[judge_claim(statement)]
    return f"{opening} of {' '.join(statement.name.split())}"


def describe_claim(statement: Statement) -> str:
    """The claim as a formal sentence, and what its words mean."""
    neighbours = f"Neighbours: {relation_in_words(statement.neighbours)}; unit: {_describe_unit(statement)}."
    return f"{state_claim(statement)} {neighbours}"


def state_claim(statement: Statement) -> str:
    """The claim as a formal sentence; what speaks against it comes first."""
    claim, standing = statement.claim, judge_claim(statement)
    numbers = f"({write_number(claim.epsilon)}, {write_number(claim.delta)})"
    private = f"the release is {numbers}-differentially private in the {statement.setting} setting"
    unchecked = count_unchecked(statement)
    opening = {
        "refuted": f"The claim is false: {explain_claim(statement)}. It is claimed that {private}",
        "not proved": f"The claim is not proved: {explain_claim(statement)}. It is claimed that {private}",
        "conjectured": f"If the conjectures below are true, and {unchecked}, {private}",
        "proved": f"If {unchecked}, {private}",
    }[standing]
    return f"{opening}, for {describe_unit_and_relation(statement)}."


def list_unchecked(statement: Statement) -> list[str]:
    """What the claim rests on and nobody checked."""
    return [one.says for one in statement.assumptions if one.holds == "not checked"]


def count_unchecked(statement: Statement) -> str:
    """How many assumptions nobody checked, and whether batches are among them, as what must hold."""
    number = len(list_unchecked(statement))
    said = {0: "all assumptions hold", 1: "an assumption holds that nobody checked"}
    counted = said.get(number, f"{number} assumptions hold that nobody checked")
    declared = statement.certified.sampling_verdict == "declared"
    return f"{counted}, first that batches are drawn as declared" if declared else counted


# its parts


def describe_tuning(statement: Statement) -> Iterator[str]:
    """How hyper-parameters were chosen, and which search the numbers count."""
    yield statement.tuning
    if statement.search is not None:
        yield f"Accounted: {trials_in_words(statement.search)} ({statement.trials})."


def describe_mechanisms(statement: Statement) -> list[str]:
    """The noise of each part of the run."""
    return _describe_parts(statement, lambda step: _describe_mechanism(step.mechanism))


def describe_samplings(statement: Statement) -> list[str]:
    """How the batches of each part of the run were accounted."""
    return _describe_parts(statement, lambda step: sampling_in_words(step.sampling, statement.neighbours))


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


def quote(text: str) -> str:
    r"""Somebody else's text on one line, without signs that steer a terminal, and not at any length.

    >>> quote("a\n  b\x1b[2J"), len(quote("x" * 1000))
    ('a b[U+001B][2J', 303)
    """
    plain = "".join(sign if sign.isprintable() else f"[U+{ord(sign):04X}]" for sign in " ".join(text.split()))
    return plain if len(plain) <= MOST_QUOTED else f"{plain[:MOST_QUOTED]}..."


def _bracket(certified: CertifiedEnds) -> Bracket:
    return Bracket(certified.lower, math.inf if certified.upper is None else certified.upper)
