"""From a statement to whether its claim holds: everything is computed anew, and compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any

from tightrope import __version__
from tightrope.accountants.exact import Exact
from tightrope.answers.spend import epsilon
from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.claims.verdict import refuse_truth
from tightrope.audit.finding import Scheme
from tightrope.curve.bracket import Bracket
from tightrope.engines.face import Progress
from tightrope.errors import PYTHON, Words
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import trials_in_words
from tightrope.statements.assumptions import list_assumptions
from tightrope.statements.make import VERIFY, compute_ends, list_theorems
from tightrope.statements.model import CertifiedEnds, Statement
from tightrope.statements.searched import search_runs
from tightrope.statements.words import (
    RESTS_ON,
    describe_unit_and_relation,
    find_schedule_gap,
    find_unit_gap,
    judge_claim,
    quote,
)

AGREE = 1e-3  # relative: brackets computed by different versions may differ by their accuracy


NOT_IN_INTEGERS = "Note: exact integers know single runs only, and were not asked about a search."


class Outcome(Enum):
    """What came of checking a statement."""

    HOLDS = "the claim holds, provided that what nobody checked is true"
    UNKNOWN = "the claim is not known to hold"
    DOES_NOT_HOLD = "the claim does not hold, or the statement says what is not so"

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        refuse_truth(f"the outcome {self.name}", "whether it is Outcome.HOLDS, or .holds of the verification")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A statement against what is computed now.

    It `holds` if the claim is proved for what runs and every number is right, provided that what is
    `unchecked` is true. `problems` are false; `unknown` says what the statement would have to tell.
    """

    statement: Statement
    audit: Audit
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    in_integers: Bracket | None = None  # the accounted epsilon by `Exact`, if that was asked

    def __bool__(self) -> bool:
        refuse_truth("a verification", ".holds, or .outcome for what was found")

    @property
    def outcome(self) -> Outcome:
        """The worst that was found."""
        if self.problems:
            return Outcome.DOES_NOT_HOLD
        return Outcome.UNKNOWN if self.unknown else Outcome.HOLDS

    @property
    def holds(self) -> bool:
        """Whether nothing was found wrong, and nothing is missing."""
        return self.outcome is Outcome.HOLDS

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What the claim rests on and nobody checked, in sentences; evidence is not part of a statement."""
        return tuple(_list_unchecked(self.statement))

    def __str__(self) -> str:
        return self.in_words(PYTHON)

    def in_words(self, words: Words) -> str:
        """What came of it as a front end says it: the outcome, for whom, and on what it rests."""
        claim, whom = self.statement.claim, describe_unit_and_relation(self.statement)
        said = f"epsilon {write_number(claim.epsilon)} at delta {write_number(claim.delta)} for {whom}"
        opening = {
            Outcome.DOES_NOT_HOLD: f"The claim does not hold: {said}.",
            Outcome.UNKNOWN: f"UNKNOWN: nothing shows that the claim holds, {said}.",
            Outcome.HOLDS: f"The claim holds for {whom}, {said.removesuffix(f' for {whom}')}, "
            "provided that all of this is true, which nobody checked:",
        }[self.outcome]
        lines = self.problems + self.unknown if not self.holds else self.unchecked
        also = () if self.in_integers is None else (f"In exact integers it is {self.in_integers}.",)
        composed = self.audit.in_words(words)
        if find_schedule_gap(self.statement):
            composed = f"Had the steps been fixed in advance: {composed[0].lower()}{composed[1:]}"
        return "\n".join([opening, *(f"  {line}" for line in lines), *self.notes, composed, *also])


def verify(stated: Statement) -> Verification:
    """The statement, computed anew."""
    finding = replace(stated.finding, sentence=f'"{quote(stated.implemented.sentence)}"')
    found = audit(finding, stated.accounted, delta=stated.claim.delta, relation=stated.neighbours)
    found = search_runs(found, stated.search)
    return Verification(
        statement=stated,
        audit=found,
        problems=tuple(_find_problems(stated, found)),
        unknown=tuple(_find_unknown(stated, found)),
        notes=tuple(_find_notes(stated, found)),
    )


def verify_in_integers(found: Verification, progress: Progress | None = None) -> Verification:
    """The same, with the accounted run computed once more by `Exact`, which shares no arithmetic.

    Both brackets must overlap, and neither the stated upper end nor, where what runs is what was accounted,
    the claim may be below what exact integers reach.
    """
    stated, claimed = found.statement, found.audit.claimed
    if stated.search is not None:
        return replace(found, notes=(*found.notes, NOT_IN_INTEGERS))
    asked: Any = {"delta": stated.claim.delta, "relation": stated.neighbours, "progress": progress}
    exact = epsilon(stated.accounted, by=Exact(), **asked)
    problems = list(found.problems)
    if exact.lower > claimed.upper or claimed.lower > exact.upper:
        problems.append(f"the certified bracket {claimed} contradicts {exact} in exact integers.")
    upper = stated.certified.accounted.upper
    if upper is not None and upper < exact.lower:
        said = f"certified.accounted.upper = {write_number(upper)}"
        problems.append(f"{said} is below {exact} in exact integers.")
    proved = found.audit.proved
    as_accounted = (proved.lower, proved.upper) == (claimed.lower, claimed.upper)
    if as_accounted and stated.claim.epsilon < exact.lower:
        said = f"claim.epsilon = {write_number(stated.claim.epsilon)}"
        problems.append(f"{said} is below {exact} in exact integers.")
    return replace(found, problems=tuple(problems), in_integers=exact)


def _find_problems(stated: Statement, found: Audit) -> Iterator[str]:
    """What is false."""
    claimed, proved = stated.claim.epsilon, found.proved
    said = f"claim.epsilon = {write_number(claimed)}"
    if claimed < proved.lower:
        at_least = round_outwards(proved.lower, 6, up=False)
        yield f"{said} is refuted: epsilon {at_least} is reached by what runs."
    elif claimed < proved.upper and found.finding.scheme is not Scheme.UNKNOWN:
        at_most = round_outwards(proved.upper, 6, up=True)
        known = "no epsilon" if math.isinf(proved.upper) else f"epsilon {at_most}"
        yield f"{said} is not proved: {known} is proved for what runs."
    computed = compute_ends(found)
    yield from _compare_ends("accounted", stated.certified.accounted, computed.accounted)
    yield from _compare_ends("runs", stated.certified.runs, computed.runs)
    for name in ("sampling_verdict", "provided", "why_not"):
        before, now = getattr(stated.certified, name), getattr(computed, name)
        if before != now:
            yield f"certified.{name} = {quote(before)!r} is not what is found now, {now!r}."
    fresh = stated.model_copy(update={"certified": computed, "theorems": list_theorems(found)})
    if stated.claim.standing != judge_claim(fresh):
        yield f"claim.standing = {stated.claim.standing!r} is not what is found now, {judge_claim(fresh)!r}."
    if [(one.name, one.standing) for one in stated.theorems] != [
        (one.name, one.standing) for one in fresh.theorems
    ]:
        yield "theorems are not those that are found now. Make the statement anew."
    if stated.assumptions != tuple(list_assumptions(stated, provided=found.provided)):
        yield "assumptions are not those that are found now. Make the statement anew."
    if stated.command != VERIFY:
        yield f"command = {quote(stated.command)!r} is not how a statement is checked, {VERIFY!r}."


def _find_unknown(stated: Statement, found: Audit) -> Iterator[str]:
    """What the statement would have to tell for its claim to hold."""
    if found.finding.scheme is Scheme.UNKNOWN:
        yield "Nothing is known of how batches are drawn."
    if gap := find_schedule_gap(stated):
        yield f"Nothing is proved: {gap}."
    if gap := find_unit_gap(stated):
        yield f"Nothing is proved for one {quote(stated.unit.protects)}: {gap}."


def _find_notes(stated: Statement, found: Audit) -> Iterator[str]:
    """What is true and may mislead: a delta that allows anything, theorems in words of another release."""
    if stated.search is not None:
        yield f"Note: what is accounted is {trials_in_words(stated.search)}."
    records, delta = stated.dataset.records or stated.implemented.records, stated.claim.delta
    if records is not None and Fraction(delta) * records >= 1:
        whole = "publishing one record in the clear, chosen at random, would do as well"
        yield f"Note: delta {write_number(delta)} is at least 1 / records = 1 / {records}: {whole}."
    ours = {one.name: one for one in list_theorems(found)}
    reworded = [one.name for one in stated.theorems if one.name in ours and one != ours[one.name]]
    if reworded:
        yield f"Note: tightrope {__version__} words these theorems otherwise: {', '.join(reworded)}."


def _list_unchecked(stated: Statement) -> Iterator[str]:
    drawn, *others = list_assumptions(stated, provided=stated.certified.provided)
    rests_on = RESTS_ON[stated.implemented.evidence]
    yield f"{drawn.says} The statement says on what this rests: {rests_on}."
    yield from (f"{quote(one.says)} {one.because}" for one in others)


def _compare_ends(name: str, stated: CertifiedEnds, found: CertifiedEnds) -> Iterator[str]:
    (lower, upper), (least, most) = _ends(stated), _ends(found)
    rows = (("lower", lower, least, lower > most), ("upper", upper, most, upper < least))
    for end, before, after, certainly_false in rows:
        if certainly_false or not math.isclose(before, after, rel_tol=AGREE, abs_tol=1e-9):
            said, now = ("nothing" if math.isinf(one) else write_number(one) for one in (before, after))
            yield f"certified.{name}.{end} = {said} is not what is computed now, {now}."


def _ends(certified: CertifiedEnds) -> tuple[float, float]:
    return certified.lower, math.inf if certified.upper is None else certified.upper
