"""The first lines of every answer: what it means, in everyday words, rounded to the safe side."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from tightrope.cli.printed.refusals import WORDS
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ONE_NUMBER, ends_from_logs
from tightrope.curve.limit_curve import Approximation
from tightrope.curve.renyi_curve import UpperBound
from tightrope.curve.simulated_curve import Estimate
from tightrope.numerics.text import round_outwards, write_number
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, NOT_COVERED, REMOVE, SUBSTITUTE, Relation
from tightrope.theorems.evidence import PROVED, Evidence

if TYPE_CHECKING:  # which loads every accountant
    from tightrope.answers.compare import Answer

SMALLEST_FLOAT = 1e-300  # below this a float loses digits: write delta from its logarithm
SHORT = 4  # digits that people read
_FEW = 4  # answers or theorems that a sentence lists


def short(value: float, *, up: bool, digits: int = SHORT) -> str:
    """A number to a few digits on the safe side, and whole where it is large.

    >>> short(0.947195782, up=True), short(32437.31, up=True), short(9.99e-7, up=False)
    ('0.9472', '32438', '9.99e-07')
    """
    whole = len(str(math.ceil(abs(value)))) if math.isfinite(value) and abs(value) < 1e15 else 0
    return round_outwards(value, max(digits, whole), up=up)


def short_ends(bracket: Bracket, log: object = None, digits: int = SHORT) -> tuple[str, str]:
    """Both ends to a few digits, rounded outwards; a tiny delta from its logarithm."""
    if isinstance(log, Bracket) and is_tiny(bracket):
        return ends_from_logs(log, digits)
    return short(bracket.lower, up=False, digits=digits), short(bracket.upper, up=True, digits=digits)


def is_tiny(bracket: Bracket) -> bool:
    """Whether floats are too coarse for it, as for a delta of 1e-400."""
    return bracket.upper <= SMALLEST_FLOAT


def percent(share: float) -> str:
    """A share in percent, rounded up.

    >>> percent(0.5383877), percent(0.5)
    ('53.84 %', '50 %')
    """
    return f"{round_outwards(Decimal(repr(share)) * 100, SHORT, up=True).removesuffix('.0')} %"


def enumerate_words(words: Sequence[str]) -> str:
    """The words with commas, and "and" before the last.

    >>> enumerate_words(["a", "b", "c"])
    'a, b and c'
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


# epsilon and delta


def tell(
    ask: str, given: str, at: Sequence[float], answers: "Sequence[Answer]", logs: Sequence[object] = ()
) -> str:
    """What epsilon or delta is at the values given, without a full stop: what is assumed comes next.

    >>> tell("epsilon", "delta", [1e-6], [Bracket(0.947195523, 0.947195782)])
    'epsilon is at most 0.9472 at delta 1e-06 (and at least 0.9471)'
    """
    places, known = [f"at {given} {write_number(x)}" for x in at], logs or [None] * len(at)
    if len(at) == 1:
        return _tell_one(ask, places[0], answers[0], known[0])
    said = [
        f"{_limit(answer, log)} {place}" for place, answer, log in zip(places, answers, known, strict=True)
    ]
    more = f", and {len(said) - 2} more are below" * (len(said) > _FEW)
    sure = _sure(answers[0]) if isinstance(answers[0], Estimate) else ""
    return f"{ask} is {enumerate_words([said[0], said[-1]] if more else said)}{more}{sure}"


def _tell_one(ask: str, place: str, answer: "Answer", log: object) -> str:
    if isinstance(answer, Bracket):
        return _tell_bracket(ask, place, answer, log)
    said = f"{ask} is {_limit(answer, log)} {place}"
    if isinstance(answer, UpperBound):
        return f"{said}, by the Rényi bound of order {answer.order:.4g}, which has no lower end"
    if isinstance(answer, Approximation):
        return f"{said} by the Gaussian limit, which guarantees nothing and may be too small"
    return f"{said}{_sure(answer)} (best guess {answer.value:.4g})"


def _sure(answer: Estimate) -> str:
    """How sure simulation is of all its answers together, and after how many draws if it was stopped."""
    stopped = f" after {answer.draws:,} draws" if answer.interrupted else ""
    return f" with confidence {answer.confidence:g}{stopped}"


def _tell_bracket(ask: str, place: str, answer: Bracket, log: object) -> str:
    low, high = short_ends(answer, log)
    if math.isinf(answer.upper) and math.isfinite(answer.lower):
        return f"No finite {ask} is proved {place}, and it is at least {low}"
    if low == high or math.isinf(answer.lower):
        return f"{ask} is {_limit(answer, log)} {place}"
    width = log.width if isinstance(log, Bracket) and is_tiny(answer) else answer.relative_width
    if width > ONE_NUMBER:
        return f"{ask} is at most {high} and at least {low} {place}"
    return f"{ask} is at most {high} {place} (and at least {low})"


def _limit(answer: "Answer", log: object) -> str:
    """The end that matters."""
    match answer:
        case Bracket():
            low, high = short_ends(answer, log)
            if math.isinf(answer.upper):
                return "infinite" if math.isinf(answer.lower) else "not bounded"
            return high if low == high else f"at most {high}"
        case UpperBound():
            return "not bounded" if math.isinf(answer.upper) else f"at most {safe_number(answer, log, SHORT)}"
        case Approximation():
            return f"about {answer.value:.4g}"
    low, high = short_ends(Bracket(answer.lower, answer.upper))
    return f"between {low} and {high}"


def safe_number(answer: "Answer", log: object = None, digits: int = 6) -> str:
    """The upper end, rounded up."""
    assert not isinstance(answer, Approximation)  # which has none
    if isinstance(log, UpperBound) and 0 < answer.upper < SMALLEST_FLOAT:
        log, answer = Bracket(log.upper, log.upper), Bracket(0.0, answer.upper)
    return short_ends(Bracket(min(answer.upper, 0.0), answer.upper), log, digits)[1]


def tell_worth(answers: "Iterable[Answer]") -> str:
    """Why a bracket is wider than was asked for, and on what it rests besides its theorems; often nothing."""
    brackets = [answer for answer in answers if isinstance(answer, Bracket)]
    gaps = [bracket for bracket in brackets if bracket.gap is not None and not is_tiny(bracket)]
    widest = max(gaps, key=lambda bracket: bracket.relative_width, default=None)
    said = [] if widest is None or widest.gap is None else [widest.gap.in_words(WORDS)]
    rests = dict.fromkeys(condition for bracket in brackets for condition in bracket.conditions)
    return " ".join([*said, *(f"This holds if {condition}." for condition in rests)])


def tell_direction(relation: Relation) -> str:
    """What a relation leaves out: add, or remove, is one direction only, and groups come and go together.

    >>> tell_direction(ADD)
    'This is one direction only: add-or-remove bounds both.'
    >>> tell_direction(ADD_OR_REMOVE.of(5))
    'A group that is partly added and partly removed is not covered.'
    """
    if relation.single in (ADD, REMOVE):
        return "This is one direction only: add-or-remove bounds both."
    is_group = relation.group > 1 and relation.single is ADD_OR_REMOVE
    return f"{NOT_COVERED[0].upper()}{NOT_COVERED[1:]}." if is_group else ""


def tell_so_far(said: str) -> str:
    """An answer whose work was interrupted.

    >>> tell_so_far("epsilon is at most 2 at delta 1e-05.")
    'Interrupted. Known so far: epsilon is at most 2 at delta 1e-05.'
    """
    return f"Interrupted. Known so far: {said}"


# calibrations


def tell_calibration(parameter: str, text: str, missing: str | None, target: str, more: str = "") -> str:
    """The value that meets a target and the one that does not, without a full stop.

    >>> tell_calibration("noise_multiplier", "1.11225", "1.11222", "epsilon 3 at delta 1e-05")
    'A noise multiplier of 1.11225 is enough for epsilon 3 at delta 1e-05 (1.11222 is not)'
    """
    if (parameter, text) == ("steps", "0"):
        return f"Not even one step meets {target}"
    value, beyond = _separate(text), _separate(missing or "")
    subject, verb = {
        "noise_multiplier": (f"A noise multiplier of {value}", "is"),
        "rate": (f"A sampling rate of {value}", "is small"),
        "steps": (f"{value} steps", "are few") if text != "1" else ("1 step", "is few"),
        "batch": (f"Batches of {value}", "are small"),
        "batches": (f"{value} batches in each pass", "are")
        if text != "1"
        else ("1 batch in each pass", "is"),
    }[parameter]
    beyond_it = {"noise_multiplier": "no smaller one", "batches": "no fewer"}.get(parameter, "no larger one")
    limit = f"{beyond} {verb.split()[0]} not" if beyond else f"{beyond_it} can be set"
    return f"{subject}{more} {verb} enough for {target} ({limit})"


def _separate(text: str) -> str:
    """A whole number with its thousands apart."""
    return f"{int(text):,}" if text.isdecimal() else text


# attacks


def tell_attack(priors: Sequence[float], successes: Sequence[Bracket], relation: Relation) -> str:
    """How often the best attack is right, without a full stop."""
    many = f"groups of up to {relation.group:,} records" if relation.group > 1 else ""
    about = f"whether {f'a group of up to {relation.group:,} records' if many else 'a record'} was used"
    if relation.single is SUBSTITUTE:
        about = f"which of two {many or 'records'} was used"
    who = "An attacker who sees everything the run releases and knows all other records"
    rates = [
        f"at most {percent(success.upper)} of the time ({percent(max(prior, 1 - prior))} by chance)"
        for prior, success in zip(priors, successes, strict=True)
    ]
    return f"{who} guesses right {about} {enumerate_words(rates)}"


# why


def tell_why(theorems: Sequence[Evidence], more: str) -> str:
    """The theorems behind an answer in one line, and where to read more.

    >>> from tightrope.theorems.lookup import list_theorems
    >>> tell_why(list_theorems()[:1], "what it states")
    'Why: balls_in_bins_remove, proved; --why shows what it states.'
    """
    firm = all(theorem.standing is PROVED for theorem in theorems)
    names = [theorem.name if firm else f"{theorem.name} ({theorem.standing.value})" for theorem in theorems]
    said = enumerate_words(names) if 0 < len(names) <= _FEW else f"{len(names)} theorems" * bool(names)
    worth = ("", ", proved", ", both proved", ", all proved")[min(len(names), 3)]
    return f"Why: {said}{worth if firm else ''}{'; ' * bool(names)}--why shows {more}."
