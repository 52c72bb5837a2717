"""What the file of a filter holds: the menu, the budget, the rule that was certified, and what is spent."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import Certified
from tightrope.answers.filter_rules import FilterRule, MenuQuestion, RuleKind
from tightrope.answers.sealed_json import SealedJson
from tightrope.errors import UnusableFile
from tightrope.setting.effort import Effort
from tightrope.setting.parts import run_of
from tightrope.setting.plain import Plain, plain_run, spell
from tightrope.setting.tables import Table, place_refusals

# an edited budget, cost or capacity was never certified
FILTER_FILE = SealedJson(format="tightrope-filter", version=1, takes_edits=False)

_EFFORTS = {effort.value: effort for effort in Effort}
_KINDS = {kind.value: kind for kind in RuleKind}
_KEYS = ("relation", "accuracy", "effort", "epsilon", "delta", "rule", "capacity", "certified_delta", "menu")
_ENTRY_KEYS = ("parts", "alone", "cost", "times")
_EXACT = re.compile(r"\d{1,4000}(/[1-9]\d{0,3999})?")  # Python reads no more than 4300 digits
_RESTORE = "Restore the file from a copy."


@dataclass(frozen=True, kw_only=True)
class SavedFilter:
    """A filter as its file holds it. The rule is not certified again when it is read."""

    question: MenuQuestion
    rule: FilterRule
    times: tuple[int, ...]

    @staticmethod
    def read(path: Path) -> "SavedFilter":
        """The content of a file. One that is damaged, or has a key nobody knows, is refused."""
        table, _ = FILTER_FILE.unseal(path)
        table.keep_to(_KEYS)
        items = table.items("menu", _RESTORE)
        entries = [Table.of(item, table.place("menu", i)) for i, item in enumerate(items)]
        for entry in entries:
            entry.keep_to(_ENTRY_KEYS)
        question = MenuQuestion(
            entries=tuple(run_of(entry, "parts") for entry in entries),
            epsilon=_number(table, "epsilon"),
            delta=_number(table, "delta"),
            relation=table.relation(),
            by=_accountant(table),
            alone=tuple(_count(entry, "alone") for entry in entries),
        )
        rule = FilterRule(
            kind=table.choice("rule", _KINDS),
            costs=tuple(_fraction(entry, "cost") for entry in entries),
            capacity=_fraction(table, "capacity"),
            delta=_number(table, "certified_delta"),
        )
        found = SavedFilter(
            question=question, rule=rule, times=tuple(_count(entry, "times") for entry in entries)
        )
        if found.plain() != table.entries or not found.is_possible:
            raise UnusableFile(path, "is not as a filter writes it", _RESTORE)
        return found

    @property
    def is_possible(self) -> bool:
        """Whether a filter could hold this: entries that fit, a budget, and no more spent than there is."""
        entries, spent = self.question.entries, zip(self.times, self.rule.costs, strict=True)
        return (
            0 < len(entries) == len(set(entries))
            and all(self.question.alone)
            and 0 < self.question.delta < 1
            and sum((times * cost for times, cost in spent), Fraction(0)) <= self.rule.capacity
        )

    def seal(self) -> bytes:
        """The file: the same bytes each time."""
        return FILTER_FILE.seal(self.plain())

    def plain(self) -> Plain:
        """The content as JSON holds it."""
        asked, rule = self.question, self.rule
        return {
            "relation": spell(asked.relation),
            "accuracy": asked.by.accuracy,
            "effort": asked.by.effort.value,
            "epsilon": asked.epsilon,
            "delta": asked.delta,
            "rule": rule.kind.value,
            "capacity": str(rule.capacity),
            "certified_delta": rule.delta,
            "menu": [
                {"parts": plain_run(entry), "alone": alone, "cost": str(cost), "times": times}
                for entry, alone, cost, times in zip(
                    asked.entries, asked.alone, rule.costs, self.times, strict=True
                )
            ],
        }


def _accountant(table: Table) -> Certified:
    accuracy: Any = table.need("accuracy", "It is the relative width in delta, for example 0.001.")
    effort = table.choice("effort", _EFFORTS)
    with place_refusals(table.where):
        return Certified(accuracy=accuracy, effort=effort)


def _number(table: Table, key: str) -> float:
    value = table.need(key, _RESTORE)
    if not isinstance(value, float) or not 0 <= value < math.inf:
        raise table.refusal(key, "a number that is not negative", _RESTORE)
    return value


def _count(table: Table, key: str) -> int:
    value = table.need(key, _RESTORE)
    if type(value) is not int or value < 0:
        raise table.refusal(key, "a whole number, 0 or more", _RESTORE)
    return value


def _fraction(table: Table, key: str) -> Fraction:
    text = table.text(key, _RESTORE)
    if not _EXACT.fullmatch(text):
        raise table.refusal(key, "a fraction such as 3/4", _RESTORE)
    return Fraction(text)


def refuse_changed(path: Path) -> UnusableFile:
    """Why a file that holds something else than was last loaded or saved is not replaced."""
    problem = "exists, and holds something else than this filter last loaded or saved there"
    remedy = (
        "It is unchanged. Two filters that spend one budget would spend it twice: load it and go on there."
    )
    return UnusableFile(path, problem, remedy)
