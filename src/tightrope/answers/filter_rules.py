"""What a filter counts: the cost of each entry of a menu and a total, so that every choice fits the budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from tightrope.accountants.certified import Certified
from tightrope.engines.face import Progress
from tightrope.engines.menu.above import MenuAbove
from tightrope.engines.menu.below import MenuBelow, labels_of
from tightrope.engines.menu.layout import MenuPlanner, PureSchedule
from tightrope.errors import InvalidSetting, NoSuchValue, NoTheorem, NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import ADD_OR_REMOVE, Relation
from tightrope.setting.run import MOST_STEPS, Run
from tightrope.setting.sampling import BallsInBins, EveryRecord, RandomAllocation, Shuffled
from tightrope.theorems.chosen_steps import GAUSSIAN_FILTER, MENU_GAME, RENYI_FILTER
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.lookup import find_parts

MOST_UNITS_APIECE = 8  # units that the cheapest entry costs at most
CLOSE_COSTS = 0.01  # relative: costs rounded to units this well need no finer ones
TILTS = [2 ** (i / 4) for i in range(-8, 37)]  # orders less 1 that a Rényi filter tries: 1.25 to 513


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
        if any(isinstance(step.sampling, BallsInBins | RandomAllocation | Shuffled) for step, _ in entry):
            raise NoTheorem(
                "Batches of a pass in which records choose their batches are not independent of each other, "
                "and cannot be chosen one by one",
                "Put steps with {Poisson}, {WithoutReplacement} or {EveryRecord} on the menu.",
            )


def count_alone(
    entry: Run, *, epsilon: float, delta: float, relation: Relation, by: Certified
) -> int:
    """How often the entry fits the budget if nothing else is taken, fixed in advance."""
    from tightrope.answers.calibrate import most_steps

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


def find_rule(question: MenuQuestion, progress: Progress) -> FilterRule:
    """The rule that admits most. One is chosen, in advance: what either of two rules admits, neither bounds."""
    free = find_gaussian_rule(question)
    if free is not None:
        return free
    try:
        by_game = find_game_rule(question, progress)
    except NotPreciseEnough:  # too many steps for a game
        return find_renyi_rule(question)
    try:
        by_moments = find_renyi_rule(question)
    except (NoTheorem, NoSuchValue):
        return by_game
    return max(by_game, by_moments, key=question.count_share)


def find_gaussian_rule(question: MenuQuestion) -> FilterRule | None:
    """Squared separations, if all steps are full batches with Gaussian noise: nothing is lost by choosing."""
    from tightrope.answers.calibrate import smallest_noise

    schedules = question.dominate(question.relation.branches[0])
    costs = []
    for schedule in schedules:
        separations = [(pair.exact_gaussian_separation, times) for pair, times in schedule]
        if any(separation is None for separation, _ in separations):
            return None
        costs.append(sum((times * (mu or 0) ** 2 for mu, times in separations), Fraction(0)))
    noise = smallest_noise(
        EveryRecord(),
        steps=1,
        epsilon=question.epsilon,
        delta=question.delta,
        relation=ADD_OR_REMOVE,
        by=question.by,
    )
    capacity = 1 / Fraction(noise.value) ** 2
    return FilterRule(
        kind=RuleKind.GAUSSIAN, costs=tuple(costs), capacity=capacity, delta=question.delta
    )


def find_renyi_rule(question: MenuQuestion) -> FilterRule:
    """Log-moments at the tilt at which the entry that suffers most suffers least."""
    from tightrope.engines.moments.renyi import BITS, RenyiBound, log_chernoff_ball
    from tightrope.numerics.balls import ball, floor_float
    from tightrope.theorems.renyi import analyse_renyi

    from flint import ctx

    bounds = [
        [[RenyiBound(cover.parts) for cover in branch.covers] for branch in analyse_renyi(entry, question.relation)]
        for entry in question.entries
    ]
    if any(bound.loses_infinitely for entry in bounds for covers in entry for bound in covers):
        raise NoTheorem("Rényi divergences are infinite where losses are", "Ask for a game.")
    best: FilterRule | None = None
    for tilt in TILTS:
        costs = tuple(
            Fraction(max(min(bound.log_moment(tilt) for bound in covers) for covers in entry)) for entry in bounds
        )
        with ctx.workprec(BITS):
            capacity = ball(question.delta).log() + ball(tilt) * ball(question.epsilon) - log_chernoff_ball(tilt)
            total = Fraction(floor_float(capacity))
        if total <= 0:
            continue
        rule = FilterRule(kind=RuleKind.RENYI, costs=costs, capacity=total, delta=question.delta)
        if best is None or question.count_share(rule) > question.count_share(best):
            best = rule
    if best is None:
        raise NoSuchValue("No Rényi order leaves a budget", "Allow more.", limit=0)
    return best


def choose_costs(alone: Sequence[int]) -> list[int]:
    """Whole costs of at least 1, about in the proportion 1 / alone, of which the smallest is small.

    >>> choose_costs([1000, 300, 100])
    [1, 3, 10]
    """
    most = max(alone)
    best: tuple[float, list[int]] | None = None
    for units in range(1, MOST_UNITS_APIECE + 1):
        costs = [max(round(units * most / times), 1) for times in alone]
        error = max(abs(cost * times / (units * most) - 1) for cost, times in zip(costs, alone, strict=True))
        if best is None or error < best[0]:
            best = error, costs
        if error < CLOSE_COSTS:
            break
    assert best is not None
    return best[1]


def find_game_rule(question: MenuQuestion, progress: Progress, steps: int | None = None) -> FilterRule:
    """As many units as the game certifies; with `steps`, every entry costs one and there are so many."""
    loses = question.loses
    costs = [1] * len(loses)
    if steps is None:
        chosen = iter(choose_costs([alone for alone, does in zip(question.alone, loses, strict=True) if does]))
        costs = [next(chosen) if does else 0 for does in loses]
    units, uppers = 2 * _natural_units(question, costs) + 8 if steps is None else steps, []
    for branch in reversed(question.relation.branches):  # removing costs more, mostly
        uppers.append(_play_above(question, branch, costs, units, steps, progress))
        units = len(uppers[-1]) - 1
    log_delta = max(each[units] for each in uppers)
    return FilterRule(
        kind=RuleKind.GAME,
        costs=tuple(map(Fraction, costs)),
        capacity=Fraction(units),
        delta=min(math.exp(log_delta) * (1 + 16 * UNIT_ROUNDOFF), question.delta),
    )


def _natural_units(question: MenuQuestion, costs: Sequence[int]) -> int:
    """About the units that each entry alone would take."""
    return max(cost * times for cost, times in zip(costs, question.alone, strict=True))


def _plan(
    question: MenuQuestion, schedules: Sequence[Schedule], most_steps: int | None
) -> tuple[list[int], MenuPlanner]:
    """Which entries lose anything in this branch, and where to play them."""
    played = [i for i, schedule in enumerate(schedules) if schedule]
    pure = [PureSchedule(schedules[i], min(question.alone[i], most_steps or MOST_STEPS)) for i in played]
    return played, MenuPlanner(pure, question.epsilon, question.log_delta)


def _play_above(
    question: MenuQuestion,
    branch: Relation,
    costs: Sequence[int],
    units: int,
    steps: int | None,
    progress: Progress,
) -> list[float]:
    """Upper bounds on ln V at epsilon with 0, 1, ... units, as many as fit the budget."""
    schedules = question.dominate(branch)
    played, planner = _plan(question, schedules, steps)
    products = 1 + sum(schedules[i].steps for i in played)
    expected = min(units, _natural_units(question, costs))
    window = planner.window(expected * products, question.by.accuracy)
    game = MenuAbove([schedules[i] for i in played], [costs[i] for i in played], window)
    found: list[float] = []
    for level in game.play():
        log_upper = game.log_upper(level, question.epsilon)
        if log_upper > question.log_delta:
            break
        found.append(log_upper)
        if len(found) > units:
            break
        progress(len(found), max(expected, len(found)))
    if not found:
        raise NotPreciseEnough("The game is not precise enough for this budget", "Allow a larger {delta}.")
    return found


def play_policy(question: MenuQuestion, rule: FilterRule, progress: Progress) -> float:
    """A lower bound on delta at epsilon of the worst choice that a game's rule admits: one policy's."""
    best = 0.0
    costs, units = [int(cost) for cost in rule.costs], int(rule.capacity)
    for branch in question.relation.branches:
        schedules = question.reach(branch)
        played, planner = _plan(question, schedules, units)
        products = 2 * (1 + sum(schedules[i].steps for i in played))
        window = planner.window(units * products, question.by.accuracy, policy=True)
        laws = {pair: labels_of(pair, window) for i in played for pair, _ in schedules[i]}
        known = {pair: law for pair, law in laws.items() if law is not None}
        played = [i for i in played if all(pair in known for pair, _ in schedules[i])]
        if not played:
            continue
        game = MenuBelow([schedules[i] for i in played], [costs[i] for i in played], known, window)
        log_lower = game.play(units, progress).log_lower(question.epsilon)
        best = max(best, math.exp(log_lower) * (1 - 16 * UNIT_ROUNDOFF))
    return best


def refuse_entry(entry: Run) -> InvalidSetting:
    """Why an entry that does not fit the budget even once cannot be on the menu."""
    must = "hold entries that fit the budget at least once"
    return InvalidSetting("menu", entry, must, "Leave it out, give it more noise, or allow more.")
