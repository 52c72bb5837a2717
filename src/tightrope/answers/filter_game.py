"""How much of a menu the game certifies, and what the worst policy that is played reaches."""

import math
from collections.abc import Sequence
from fractions import Fraction

from tightrope.answers.filter_rules import FilterRule, MenuQuestion, RuleKind
from tightrope.engines.face import Progress
from tightrope.engines.game.moves import labels_of
from tightrope.engines.menu.above import MenuAbove
from tightrope.engines.menu.below import MenuBelow
from tightrope.engines.menu.layout import MenuPlanner, PureSchedule
from tightrope.errors import NotPreciseEnough
from tightrope.numerics.floats import UNIT_ROUNDOFF
from tightrope.pairs.schedule import Schedule
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS

MOST_UNITS_APIECE = 8  # units that the cheapest entry costs at most
CLOSE_COSTS = 0.01  # relative: costs rounded to units this well need no finer ones


def choose_costs(alone: Sequence[int]) -> list[int]:
    """Whole costs of at least 1, about in the proportion 1 / alone, of which the smallest is small.

    >>> choose_costs([1000, 300, 100])
    [3, 10, 30]
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
    if not any(loses):
        nothing = (Fraction(0),) * len(loses)
        return FilterRule(kind=RuleKind.GAME, costs=nothing, capacity=Fraction(steps or 0), delta=0.0)
    costs = [1] * len(loses)
    if steps is None:
        chosen = iter(
            choose_costs([alone for alone, does in zip(question.alone, loses, strict=True) if does])
        )
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
        if not played:
            continue
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
