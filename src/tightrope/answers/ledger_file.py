"""What the file of a ledger holds, and how the steps of several writers come together in it."""

import gc
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import Certified
from tightrope.answers.sealed_json import SealedJson, checksum
from tightrope.errors import UnusableFile
from tightrope.setting.effort import Effort
from tightrope.setting.parts import run_of
from tightrope.setting.plain import Plain, plain_run, read_plain_run, spell
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, check_schedule
from tightrope.setting.tables import Table, place_refusals

LEDGER_FILE = SealedJson(format="tightrope-ledger", version=3)

_EFFORTS = {effort.value: effort for effort in Effort}
_KEYS = ("id", "relation", "accuracy", "effort", "schedule", "parts", "last")
_ELSEWHERE = "It is unchanged. Save to another place, or load it and record there."


def make_id() -> str:
    """A name that no other ledger has."""
    return secrets.token_hex(16)


@contextmanager
def collect_later() -> Iterator[None]:
    """Without the search for garbage, which takes as long as reading what is all kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, kw_only=True)
class SavedLedger:
    """A ledger as its file holds it. `id` is the same in all copies of a ledger, and in no other ledger."""

    id: str
    relation: Relation
    by: Certified
    schedule: str | None
    run: Run
    last: Step | None

    @staticmethod
    def read(path: Path) -> "SavedLedger":
        """The content of a file. One that is damaged, or has a key nobody knows, is refused."""
        table = _read(path)
        table.keep_to(_KEYS)
        relation, effort = table.relation(), table.choice("effort", _EFFORTS)
        accuracy: Any = table.need("accuracy", "It is the relative width in delta, for example 0.001.")
        with place_refusals(table.where):
            by = Certified(accuracy=accuracy, effort=effort)
            schedule = check_schedule(table.entries.get("schedule"))
        written = read_plain_run(table.entries.get("parts"))
        run = run_of(table, "parts") if written is None else written
        found = SavedLedger(
            id=table.text("id", "It tells ledgers apart: restore the file from a copy."),
            relation=relation,
            by=by,
            schedule=schedule,
            run=run,
            last=_find_last(table, [step for step, _ in run]),
        )
        head = {key: value for key, value in table.entries.items() if key not in ("parts", "last")}
        if found._head() != head or (written is None and plain_run(run) != table.entries["parts"]):
            problem = "must list each step once, with steps of at least 1"
            raise UnusableFile(f"{path}: parts", problem, "Merge equal parts.")
        return found

    def seal(self) -> bytes:
        """The file: the same bytes each time."""
        return LEDGER_FILE.seal(self.plain())

    def plain(self) -> Plain:
        """The content as JSON holds it."""
        last = None if self.last is None else self._place(self.last)
        return {**self._head(), "parts": plain_run(self.run), "last": last}

    def _head(self) -> Plain:
        """All of it but the parts, and which of them was the last."""
        return {
            "id": self.id,
            "relation": spell(self.relation),
            "accuracy": self.by.accuracy,
            "effort": self.by.effort.value,
            **({} if self.schedule is None else {"schedule": self.schedule}),
        }

    def _place(self, step: Step) -> int:
        places = range(len(self.run.parts))
        return next(place for place in reversed(places) if self.run.parts[place][0] == step)  # mostly the end

    def add(self, run: Run, last: Step | None) -> "SavedLedger":
        """The same ledger with steps more."""
        return replace(self, run=self.run + run, last=last) if run else self

    def check_descent(self, earlier: "SavedLedger", path: Path) -> None:
        """Refuse a file that does not hold everything it held earlier."""
        stated, before = ((one.id, one.relation, one.by, one.schedule) for one in (self, earlier))
        if stated != before:
            raise UnusableFile(path, "is not the ledger that was there", _ELSEWHERE)
        now = dict(self.run)
        for step, times in earlier.run:
            if now.get(step, 0) < times:
                lost = f"holds {now.get(step, 0)} x {step!r}, and held {times} before"
                raise UnusableFile(path, lost, "Restore it from a copy that holds them, or save elsewhere.")


def subtract(times: Mapping[Step, int], earlier: Mapping[Step, int]) -> Run:
    """What there is more of, and how much."""
    more = ((step, count - earlier.get(step, 0)) for step, count in times.items())
    return Run.of_checked(part for part in more if part[1] > 0)


def refuse_deleted(path: Path) -> UnusableFile:
    """Why a file that was loaded or saved, and is gone, is not written anew."""
    gone = "is gone, and with it what others may have recorded there"
    return UnusableFile(path, gone, "Restore it, or save to another place.")


def refuse_unknown(path: Path) -> UnusableFile:
    """Why a file that was not loaded is not replaced."""
    return UnusableFile(path, "exists, and holds a ledger that this one does not go on with", _ELSEWHERE)


def _read(path: Path) -> Table:
    """The content in the words of this version.

    Version 2 had no id: its checksum tells it apart, so that all who load the same file agree. Version 1
    named a standing of theorems instead of an effort.
    """
    table, version = LEDGER_FILE.unseal(path)
    if version > 2:
        return table
    told = {"id": checksum(table.entries)[:32], **table.entries}
    if version == 1:
        table.choice("trusting", {"proved": None})
        del told["trusting"]
        told["effort"] = "quick"
    return Table(told, table.where)


def _find_last(table: Table, steps: list[Step]) -> Step | None:
    """The step recorded last, or None if nothing is recorded."""
    remedy = "It is the place in parts, from 0, of the step recorded last; null without parts."
    index = table.need("last", remedy)
    if not steps and index is None:
        return None
    if type(index) is not int or not 0 <= index < len(steps):
        raise table.refusal("last", f"a whole number below {len(steps)}" if steps else "null", remedy)
    return steps[index]
