"""The mismatch between claim and practice that a reader must know about, as one sentence."""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from tightrope.curve.bracket import Bracket
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

Claim = tuple[type[Sampling], Relation]

_SAMPLED: dict[type[Sampling], str] = {
    EveryRecord: "every record joins every batch",
    Poisson: "batches are Poisson sampled",
    WithoutReplacement: "batches are drawn without replacement",
}
_RELATED = {
    ADD: "one record is added",
    REMOVE: "one record is removed",
    ADD_OR_REMOVE: "one record is added or removed",
    SUBSTITUTE: "one record is exchanged for another",
}
_USUAL_DECIMALS = 2
_ONE_NUMBER = 5e-3  # relative width up to which a bracket is written as one number
# more tell close numbers apart, fewer suit wide brackets
_DECIMALS = (*range(_USUAL_DECIMALS, 16), *reversed(range(_USUAL_DECIMALS)))


def verdict_on(claimed: Claim, answers: Mapping[Claim, Bracket]) -> str:
    """What epsilon is if sampling or relation are not as claimed and that costs more; `answers` are the epsilons known.

    Another sampling under the same relation comes first, then another relation, then both; the largest epsilon of these.
    Full batches are no mistaken sampling: their rate is another one.

    >>> answers = {(Poisson, ADD): Bracket(0.5, 0.5), (WithoutReplacement, ADD): Bracket(2.0, 2.0)}
    >>> verdict_on((Poisson, ADD), answers)
    'If batches are drawn without replacement, epsilon is 2.00, not 0.50.'
    >>> verdict_on((WithoutReplacement, ADD), answers)
    'At this rate no other sampling or relation is certified to make epsilon larger than the claimed 2.00.'
    """
    sampling, relation = claimed
    if claimed not in answers:
        return f"The claim cannot be judged: no epsilon is certified if {_SAMPLED[sampling]} and {_RELATED[relation]}."
    claim = answers[claimed]
    worse = [
        (other, epsilon)
        for other, epsilon in answers.items()
        if epsilon.lower > claim.upper and (other[0] is not EveryRecord or sampling is EveryRecord)
    ]
    if not worse:
        (least,) = written([claim])
        least = f"one, {least}" if _is_wide(claim) else least
        return f"At this rate no other sampling or relation is certified to make epsilon larger than the claimed {least}."
    mistaken, epsilon = max(
        worse, key=lambda found: (found[0][1] is relation, found[0][0] is sampling, found[1].lower)
    )
    truly = [_SAMPLED[mistaken[0]]] * (mistaken[0] is not sampling) + [_RELATED[mistaken[1]]] * (
        mistaken[1] is not relation
    )
    larger, smaller = written([epsilon, claim])
    return f"If {' and '.join(truly)}, epsilon is {larger}, not {smaller}."


def written(brackets: list[Bracket]) -> list[str]:
    """Each as one number to which both its ends round, different brackets differently; as two numbers where it is wide."""
    for decimals in _DECIMALS:
        texts = [
            _range(bracket) if _is_wide(bracket) else _rounded(bracket, decimals) for bracket in brackets
        ]
        if all(texts) and len(set(texts)) == len(texts):
            return texts
    return [_range(bracket) for bracket in brackets]


def _is_wide(bracket: Bracket) -> bool:
    """Whether one number would say more than is known."""
    return bracket.relative_width > _ONE_NUMBER or not any(
        _rounded(bracket, decimals) for decimals in _DECIMALS
    )


def _range(bracket: Bracket) -> str:
    """Both ends, rounded outwards to as many decimals as their distance is worth."""
    if math.isinf(bracket.upper):
        return f"at least {_outwards(bracket.lower, _USUAL_DECIMALS, ROUND_FLOOR)}"
    decimals = min(max(_USUAL_DECIMALS - round(math.log10(bracket.width)), 0), 15) if bracket.width else 15
    return f"between {_outwards(bracket.lower, decimals, ROUND_FLOOR)} and {_outwards(bracket.upper, decimals, ROUND_CEILING)}"


def _outwards(value: float, decimals: int, rounding: str) -> str:
    return f"{Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), rounding=rounding):f}"


def _rounded(bracket: Bracket, decimals: int) -> str:
    """The number to so many decimals; empty where the ends disagree about it or fewer than two of its digits would show."""
    if bracket.lower == bracket.upper and (bracket.upper == 0 or math.isinf(bracket.upper)):
        return "infinity" if bracket.upper else "0"
    text = f"{bracket.upper:.{decimals}f}"
    return text if f"{bracket.lower:.{decimals}f}" == text and float(text) >= 10.0 ** (1 - decimals) else ""
