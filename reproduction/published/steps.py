"""How many steps a published run takes: stated, or from epochs by the rule that its source follows."""

import math
from dataclasses import dataclass
from fractions import Fraction

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.run import MOST_STEPS
from tightrope.setting.tables import Table, placed

FLOOR, CEIL, UNROUNDED, ONE_OVER_RATE = "floor", "ceil", "unrounded", "one over rate"
RULES = (FLOOR, CEIL, UNROUNDED, ONE_OVER_RATE)


@dataclass(frozen=True)
class Steps:
    """From `least` to `most` steps: one number unless the source leaves the choice; `how` says where it comes from."""

    least: int
    most: int
    how: str


def steps_of(
    table: Table, *, records: int | None, batch: int | None, rate: Fraction | None, not_stated: str
) -> Steps | None:
    """The steps that the keys steps, epochs and steps_per_epoch state; None where the source does not tell.

    `steps_per_epoch` is the rule of the source: "floor" or "ceil" of records / batch, "unrounded" if all
    epochs together are rounded up, "one over rate" rounded down. Where the rule is not stated, the steps lie
    between floor and ceil.
    """
    steps = _read(table, records, batch, rate, not_stated)
    if steps is not None and not 1 <= steps.least <= steps.most <= MOST_STEPS:
        raise InvalidSetting(
            f"{table.where}steps must be from 1 to {MOST_STEPS:.0e}, got {steps.how}. Nobody runs others."
        )
    return steps


def _read(
    table: Table, records: int | None, batch: int | None, rate: Fraction | None, not_stated: str
) -> Steps | None:
    stated, epochs = _stated(table, not_stated), _epochs(table, not_stated)
    if "steps" not in table.entries and "epochs" not in table.entries:
        table.wanted("steps", f'State steps, or epochs and steps_per_epoch; "{not_stated}" is an answer.')
    if epochs is None:
        if "steps_per_epoch" in table.entries and "epochs" not in table.entries:
            raise InvalidSetting(
                f"{table.where}steps_per_epoch contradicts the rest: there are no epochs. State them too."
            )
        return stated
    rule = table.choice("steps_per_epoch", {name: name for name in (*RULES, not_stated)})
    batches = Fraction(records, batch) if records and batch else 1 / rate if rate else None
    if batches is None:
        return stated
    counted = _counted(
        epochs,
        batches,
        rule,
        f"{records:,} / {batch:,}" if records and batch else f"1 / {float(1 / batches):g}",
    )
    if stated is not None and not (counted.least <= stated.least and stated.most <= counted.most):
        raise InvalidSetting(
            f"{table.where}steps = {table.entries['steps']!r} contradicts epochs = "
            f"{table.entries['epochs']!r}: {counted.how}. Leave out what is not printed."
        )
    return stated or counted


def _stated(table: Table, not_stated: str) -> Steps | None:
    value = table.entries.get("steps", not_stated)
    if value == not_stated:
        return None
    remedy = "Write one number, or two in a list: the fewest and the most steps that the source allows."
    if not isinstance(value, list):
        with placed(table.where):
            steps = check.whole(least=1, remedy=remedy, steps=value)
        return Steps(steps, steps, f"{steps:,} steps")
    if len(value) != 2:
        raise table.refusal("steps", "one whole number, or the fewest and the most", remedy)
    with placed(table.where):
        least, most = (
            check.whole(least=1, remedy=remedy, **{f"steps[{i}]": each}) for i, each in enumerate(value)
        )
    if least > most:
        raise table.refusal("steps", "the fewest before the most", remedy)
    return Steps(least, most, f"{least:,} to {most:,} steps")


def _epochs(table: Table, not_stated: str) -> Fraction | None:
    value = table.entries.get("epochs", not_stated)
    if value == not_stated:
        return None
    with placed(table.where):
        check.positive(remedy=f'Write the number of epochs, or "{not_stated}".', epochs=value)
    return Fraction(getattr(value, "text", str(value)))


def _counted(epochs: Fraction, batches: Fraction, rule: str, quotient: str) -> Steps:
    many = f"{float(epochs):g} epochs"
    if rule == UNROUNDED:
        steps = math.ceil(epochs * batches)
        return Steps(steps, steps, f"{steps:,} steps = {many} of {quotient} steps, rounded up at the end")
    if rule in RULES:
        each = math.ceil(batches) if rule == CEIL else math.floor(batches)
        steps = math.ceil(epochs * each)
        name = "ceil" if rule == CEIL else "floor"
        return Steps(steps, steps, f"{steps:,} steps = {many} of {name}({quotient}) = {each:,} steps")
    least, most = math.floor(epochs * math.floor(batches)), math.ceil(epochs * math.ceil(batches))
    return Steps(
        least,
        most,
        f"{least:,} to {most:,} steps = {many} of {quotient} steps, rounded down or up in each epoch",
    )
