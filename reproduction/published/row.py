"""One published run and what is certified about it."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from reproduction.published.batches import proven_as_implemented, sampling_of
from reproduction.published.file import SHUFFLE, WINDOWED, Printed, Setting
from tightrope.answers.spend import epsilon
from tightrope.audit.claims.proven import Proven
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Step

_NARROW = 0.01  # relative width up to which a bracket can be said to agree with a number


class Standing(Enum):
    """How a claim stands against a bracket. Half of the claim's last printed decimal is left to rounding."""

    ABOVE = "above"
    AGREES = "agrees"
    TOO_SMALL = "claim too small"
    UNDECIDED = "not decided"
    UNKNOWN = "not known"

    def __repr__(self) -> str:
        return self.name


def standing_of(claim: Printed, brackets: Collection[Bracket]) -> Standing:
    """How the claim stands; where several relations are possible, under the one that is kindest to the claim.

    >>> standing_of(Printed("1.19"), [Bracket(0.86, 0.87)]), standing_of(Printed("1.19"), [Bracket(1.194, 1.195)])
    (ABOVE, AGREES)
    >>> standing_of(Printed("1.19"), [Bracket(1.5, 1.6), Bracket(2.5, 2.6)]), standing_of(Printed("1.19"), [])
    (TOO_SMALL, UNKNOWN)
    """
    if not brackets:
        return Standing.UNKNOWN
    kindest = Bracket(min(bracket.lower for bracket in brackets), min(bracket.upper for bracket in brackets))
    if kindest.lower <= 0 and math.isinf(kindest.upper):
        return Standing.UNKNOWN
    if claim - claim.half_a_digit > kindest.upper:
        return Standing.ABOVE
    if claim + claim.half_a_digit < kindest.lower:
        return Standing.TOO_SMALL
    return Standing.AGREES if kindest.relative_width <= _NARROW else Standing.UNDECIDED


@dataclass(frozen=True, kw_only=True)
class Row:
    """A setting, epsilon certified as accounted and proved as implemented under each relation, and what is missing.

    Both mappings hold the stated relation, or add-or-remove and substitute where none is stated; `accounted`
    is empty where it cannot be computed. `missing` are names of keys with what their absence means.
    """

    setting: Setting
    accounted: Mapping[Relation, Bracket]
    implemented: Mapping[Relation, Proven]
    missing: Mapping[str, str]

    @property
    def standing(self) -> Standing:
        """The claim against the bracket for the sampling that was accounted."""
        return standing_of(self.setting.claimed_epsilon, self.accounted.values())

    @property
    def standing_as_implemented(self) -> Standing:
        """The claim against what is proved for the batches that are drawn."""
        return standing_of(
            self.setting.claimed_epsilon, [found.epsilon for found in self.implemented.values()]
        )

    @property
    def as_accounted(self) -> bool:
        """Whether batches are stated to be drawn as they were accounted."""
        return self.setting.implemented is not None and self.setting.implemented == self.setting.accounted

    @property
    def too_small_under(self) -> tuple[Relation, ...]:
        """The relations under which the claim is below the lower end certified for the sampling that was accounted."""
        claim, small = self.setting.claimed_epsilon, Standing.TOO_SMALL
        return tuple(
            relation for relation, found in self.accounted.items() if standing_of(claim, [found]) is small
        )

    @property
    def excess(self) -> float | None:
        """The claim over the upper end, less 1, under the relation kindest to it; None where it cannot be computed."""
        uppers = [bracket.upper for bracket in self.accounted.values() if bracket.upper > 0]
        return self.setting.claimed_epsilon / min(uppers) - 1 if uppers else None


def row_of(setting: Setting) -> Row:
    """Account a setting again."""
    relations = (ADD_OR_REMOVE, SUBSTITUTE) if setting.relation is None else (setting.relation,)
    missing, accounted = _missing(setting), {}
    for relation in relations:
        found = _as_accounted(setting, relation)
        if isinstance(found, Bracket):
            accounted[relation] = found
        elif found:
            missing[f"answer under {relation.name}"] = found
    same = setting.implemented == setting.accounted
    return Row(
        setting=setting,
        accounted=accounted,
        implemented={
            relation: Proven(epsilon=accounted[relation])
            if same and relation in accounted
            else proven_as_implemented(setting, relation)
            for relation in relations
        },
        missing=missing,
    )


def _as_accounted(setting: Setting, relation: Relation) -> Bracket | str:
    """The bracket, or why there is none; an empty sentence where that is a number that is missing anyway."""
    sampling = None if setting.accounted is None else sampling_of(setting, setting.accounted)
    noise, steps, delta = setting.noise_multiplier, setting.steps, setting.delta
    if sampling is None or noise is None or steps is None or delta is None:
        return ""
    try:
        step = Step(Gaussian(noise_multiplier=noise), sampling)
        fewest = epsilon(step * steps.least, delta=delta, relation=relation)
        most = (
            fewest
            if steps.least == steps.most
            else epsilon(step * steps.most, delta=delta, relation=relation)
        )
    except (NoTheorem, NotPreciseEnough, InvalidSetting) as refusal:
        return str(refusal)
    return Bracket(fewest.lower, most.upper)


def _missing(setting: Setting) -> dict[str, str]:
    """What a reader would have to know and the source does not say, by key."""
    missing = {}
    if setting.relation is None:
        missing["relation"] = (
            "add-or-remove and substitute are both asked, and the claim is held against the smaller epsilon"
        )
    for key in ("delta", "noise_multiplier", "steps", "accounted"):
        if getattr(setting, key) is None:
            missing[key] = "nothing can be computed without it"
    if setting.steps is not None and setting.steps.least < setting.steps.most:
        missing["steps"] = f"{setting.steps.how}; the lower end is for the fewest, the upper end for the most"
    if setting.rate is None and setting.accounted not in (None, "every-record"):
        missing["rate"] = (
            "neither it nor batch and records are stated, and nothing can be computed without it"
        )
    if setting.records_from:
        missing["records"] = (
            f"{setting.records:,} is taken from elsewhere: {setting.records_from}" if setting.records else ""
        )
    elif setting.records is None:
        missing["records"] = (
            "not needed for Poisson sampling, whose rate is stated"
            if setting.rate
            else "so the rate is not known"
        )
    if setting.implemented is None:
        missing["implemented"] = "whether the claim covers what was run cannot be said"
    if setting.implemented == WINDOWED:
        missing["a theorem for windowed shuffles"] = "nothing is proved for them here"
    if setting.implemented == SHUFFLE:
        if setting.reshuffled is None:
            missing["reshuffled"] = "the lower end counts one epoch only"
        if setting.last_batch is None:
            missing["last_batch"] = (
                "a record may come twice in a batch that joins two epochs, so there is no upper end"
            )
    return missing
