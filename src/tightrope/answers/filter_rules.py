"""What a filter counts: the cost of each entry of a menu and a total, so that any choice fits the budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from tightrope.accountants.certified import Certified
from tightrope.errors import InvalidSetting, NoSuchValue, NoTheorem
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS, Run
from tightrope.setting.sampling import InPasses
from tightrope.theorems.chosen_steps import GAUSSIAN_FILTER, MENU_GAME, RENYI_FILTER
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.lookup import find_parts


class RuleKind(Enum):
    """Which theorem certifies a filter."""

    GAME = "game"
    GAUSSIAN = "Gaussian"
    RENYI = "Rényi"

    @property
    def because(self) -> Evidence:
        """The theorem."""
        return {RuleKind.GAME: MENU_GAME, RuleKind.GAUSSIAN: GAUSSIAN_FILTER}.get(self, RENYI_FILTER)


@dataclass(frozen=True, kw_only=True)
class FilterRule:
    """Entries may be chosen as long as the costs of all that were chosen add up to at most `capacity`.

    `delta` is an upper bound on delta at the budget's epsilon, whatever is chosen.
    """

    kind: RuleKind
    costs: tuple[Fraction, ...]
    capacity: Fraction
    delta: float

    def count_fitting(self, entry: int, spent: Fraction) -> int:
        """How many more times an entry fits; MOST_STEPS for one that costs nothing."""
        cost = self.costs[entry]
        return min(math.floor((self.capacity - spent) / cost), MOST_STEPS) if cost else MOST_STEPS


@dataclass(frozen=True, kw_only=True)
class MenuQuestion:
    """A menu and its budget. `alone` is how often each entry fits if it is all that is ever taken."""

    entries: tuple[Run, ...]
    epsilon: float
    delta: float
    relation: Relation
    by: Certified
    alone: tuple[int, ...]

    @property
    def loses(self) -> tuple[bool, ...]:
        """Which entries lose anything; the others cost nothing."""
        found = [self.dominate(branch) for branch in self.relation.branches]
        return tuple(any(schedules) for schedules in zip(*found, strict=True))

    @property
    def log_delta(self) -> float:
        """ln delta, rounded down."""
        log_delta = math.log(self.delta)
        return log_delta - 2 * ELEMENTARY_REL_ERROR * abs(log_delta)

    def dominate(self, branch: Relation) -> list[Schedule]:
        """What dominates each entry."""
        found = [find_parts(entry, branch) for entry in self.entries]
        return [Schedule((part.dominating, part.times) for part in parts) for parts in found]

    def reach(self, branch: Relation) -> list[Schedule]:
        """What real datasets reach in each entry: the same records in all of them, under other queries."""
        found = [find_parts(entry, branch) for entry in self.entries]
        return [
            Schedule((part.remove if part.exchanges else part.reached, part.times) for part in parts)
            for parts in found
        ]

    def count_share(self, rule: FilterRule) -> float:
        """The least share, over the entries, of what would fit if it were fixed in advance."""
        none = Fraction(0)
        return min(
            (rule.count_fitting(i, none) / alone for i, alone in enumerate(self.alone) if alone < MOST_STEPS),
            default=1.0,
        )


def check_entries(entries: Sequence[Run]) -> None:
    """Refuse entries that are no steps by themselves."""
    for entry in entries:
        if any(isinstance(step.sampling, InPasses) for step, _ in entry):
            raise NoTheorem(
                "Batches of a pass in which records choose their batches are not independent of each other, "
                "and cannot be chosen one by one",
                "Put steps with {Poisson}, {TruncatedPoisson}, {WithoutReplacement} or {EveryRecord} on the "
                "menu.",
            )


def count_alone(entry: Run, *, epsilon: float, delta: float, relation: Relation, by: Certified) -> int:
    """How often the entry fits the budget if nothing else is taken, fixed in advance."""
    from tightrope.answers.calibrate import most_steps  # only where something is searched for

    if not entry:
        return MOST_STEPS
    if len(entry.parts) == 1:
        ((step, times),) = entry.parts
        try:
            found = most_steps(step, epsilon=epsilon, delta=delta, relation=relation, by=by)
        except NoSuchValue as refusal:
            return MOST_STEPS if refusal.limit == math.inf else 0
        return found.value // times

    def fits(times: int) -> bool:
        return by.curve(entry * times, relation).delta(epsilon).upper <= delta

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
        if high * entry.steps > MOST_STEPS:
            return MOST_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def refuse_entry(entry: Run) -> InvalidSetting:
    """Why an entry that does not fit the budget even once cannot be on the menu."""
    must = "hold entries that fit the budget at least once"
    return InvalidSetting("menu", entry, must, "Leave it out, give it more noise, or allow more.")
