"""Filters under which a choice costs no more than a schedule: full batches, and Rényi divergences."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from tightrope.answers.filter_rules import FilterRule, MenuQuestion, RuleKind
from tightrope.errors import NoSuchValue, NoTheorem
from tightrope.setting.relation import ADD_OR_REMOVE
from tightrope.setting.sampling import EveryRecord
from tightrope.theorems.renyi import analyse_renyi

if TYPE_CHECKING:  # it loads flint, which only an answer needs
    from tightrope.engines.moments.renyi import RenyiBound

FILTER_TILTS = [2 ** (i / 4) for i in range(-8, 37)]  # orders less 1 that a Rényi filter tries: 0.25 to 512


def find_gaussian_rule(question: MenuQuestion) -> FilterRule | None:
    """Squared separations, if all steps are full batches with Gaussian noise: nothing is lost by choosing."""
    from tightrope.answers.calibrate import smallest_noise  # only where something is searched for

    schedules = question.dominate(question.relation.branches[0])
    costs = []
    for schedule in schedules:
        separations = [(pair.exact_gaussian_separation, times) for pair, times in schedule]
        if any(separation is None for separation, _ in separations):
            return None
        costs.append(sum((times * (mu or Fraction(0)) ** 2 for mu, times in separations), Fraction(0)))
    noise = smallest_noise(
        EveryRecord(),
        steps=1,
        epsilon=question.epsilon,
        delta=question.delta,
        relation=ADD_OR_REMOVE,
        by=question.by,
    )
    capacity = 1 / Fraction(noise.value) ** 2
    return FilterRule(kind=RuleKind.GAUSSIAN, costs=tuple(costs), capacity=capacity, delta=question.delta)


def find_renyi_rule(question: MenuQuestion) -> FilterRule:
    """Log-moments at the tilt at which the entry that suffers most suffers least."""
    entries = [_bound_entry(question, i) for i in range(len(question.entries))]
    rules = [rule for tilt in FILTER_TILTS if (rule := _fix_tilt(question, entries, tilt)) is not None]
    if not rules:
        raise NoSuchValue("No Rényi order leaves a budget", "Allow a larger {epsilon} or {delta}.", limit=0)
    return max(rules, key=question.count_share)


def _bound_entry(question: MenuQuestion, i: int) -> "list[list[RenyiBound]]":
    """For each branch, what bounds the moments of an entry."""
    from tightrope.engines.moments.renyi import RenyiBound  # loads flint

    branches = analyse_renyi(question.entries[i], question.relation)
    found = [[RenyiBound(cover.parts) for cover in branch.covers] for branch in branches]
    if any(bound.loses_infinitely for covers in found for bound in covers):
        raise NoTheorem("Rényi divergences are infinite where losses are", "Take fewer steps, for a game.")
    return found


def _fix_tilt(
    question: MenuQuestion, entries: "Sequence[list[list[RenyiBound]]]", tilt: float
) -> FilterRule | None:
    """The rule at one order, 1 + tilt; None where it leaves nothing."""
    from flint import ctx

    from tightrope.engines.moments.renyi import BITS, log_chernoff_ball  # loads flint
    from tightrope.numerics.balls import ball, floor_float

    costs = [max(min(bound.log_moment(tilt) for bound in covers) for covers in entry) for entry in entries]
    with ctx.workprec(BITS):
        spare = ball(question.delta).log() + ball(tilt) * ball(question.epsilon) - log_chernoff_ball(tilt)
        capacity = floor_float(spare)
    if capacity <= 0 or max(costs) == float("inf"):
        return None
    return FilterRule(
        kind=RuleKind.RENYI,
        costs=tuple(map(Fraction, costs)),
        capacity=Fraction(capacity),
        delta=question.delta,
    )
