"""What the file of a filter holds: the menu, the budget, the rule that was certified, and what is spent."""

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
from tightrope.setting.relation import RELATION_SPELLINGS
from tightrope.setting.tables import Table, place_refusals

FILTER_FILE = SealedJson(format="tightrope-filter", version=1)

_EFFORTS = {effort.value: effort for effort in Effort}
_KINDS = {kind.value: kind for kind in RuleKind}
_KEYS = ("relation", "accuracy", "effort", "epsilon", "delta", "rule", "capacity", "certified_delta", "menu")
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
        numbers: dict[str, Any] = {
            key: table.need(key, _RESTORE) for key in ("accuracy", "epsilon", "delta", "certified_delta")
        }
        effort, kind = table.choice("effort", _EFFORTS), table.choice("rule", _KINDS)
        with place_refusals(table.where):
            by = Certified(accuracy=numbers["accuracy"], effort=effort)
        try:
            found = SavedFilter(
                question=MenuQuestion(
                    entries=tuple(run_of(entry, "parts") for entry in entries),
                    epsilon=numbers["epsilon"],
                    delta=numbers["delta"],
                    relation=table.choice("relation", RELATION_SPELLINGS),
                    by=by,
                    alone=tuple(int(entry.need("alone", _RESTORE)) for entry in entries),  # type: ignore[call-overload]
                ),
                rule=FilterRule(
                    kind=kind,
                    costs=tuple(Fraction(entry.text("cost", _RESTORE)) for entry in entries),
                    capacity=Fraction(table.text("capacity", _RESTORE)),
                    delta=numbers["certified_delta"],
                ),
                times=tuple(int(entry.need("times", _RESTORE)) for entry in entries),  # type: ignore[call-overload]
            )
        except (TypeError, ZeroDivisionError) as error:
            raise UnusableFile(path, f"holds what is no filter: {error}", _RESTORE) from None
        if found.plain() != table.entries:
            raise UnusableFile(path, "is not as a filter writes it", _RESTORE)
        return found

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


def refuse_changed(path: Path) -> UnusableFile:
    """Why a file that holds something else than was last loaded or saved is not replaced."""
    problem = "exists, and holds something else than this filter last loaded or saved there"
    remedy = (
        "It is unchanged. Two filters that spend one budget would spend it twice: load it and go on there."
    )
    return UnusableFile(path, problem, remedy)
