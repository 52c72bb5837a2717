"""Several named runs from a TOML file, or a refusal that lists everything wrong with it."""

import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tightrope.accountants.certified import DEFAULT_ACCURACY
from tightrope.answers.spend import privacy_curve
from tightrope.errors import InvalidSetting
from tightrope.files import read_text
from tightrope.numerics import check
from tightrope.setting.plain import PART_KEYS, part_of, run_of
from tightrope.setting.relation import ADD, Relation
from tightrope.setting.run import Run
from tightrope.setting.spelling import RELATION_SPELLINGS
from tightrope.setting.tables import Problems, Table, placed

T = TypeVar("T")

_FILE_KEYS = ("relation", "accuracy", "epsilons", "run")
_RUN_KEYS = ("name", "relation", "parts")
_LONGEST_NAME = 80


@dataclass(frozen=True)
class NamedRun:
    """A run, who counts as its neighbour, and what it is called."""

    name: str
    run: Run
    relation: Relation


@dataclass(frozen=True)
class RunsFile:
    """What a file asks for; without epsilons where the choice is left open."""

    path: Path
    runs: tuple[NamedRun, ...]
    accuracy: float
    epsilons: tuple[float, ...] | None


def read_runs(path: Path) -> RunsFile:
    """Read the file; a refusal lists each problem with its place, counted from 0: runs.toml: run[1].rate."""
    table = Table.of(_parsed(path), f"{path}: ")
    problems = Problems()
    tried = problems.tried
    tried(lambda: table.keep_to(_FILE_KEYS))
    if "relation" in table.entries:
        tried(lambda: table.choice("relation", RELATION_SPELLINGS))
    accuracy = tried(lambda: _accuracy(table))
    epsilons = tried(lambda: _epsilons(table))
    entries = tried(lambda: _entries(table)) or []
    runs: list[NamedRun] = []
    for i, entry in enumerate(entries):
        place = table.place("run", i)
        run = tried(partial(_named_run, entry, place, table))
        if run is not None and run.name in {other.name for other in runs}:
            problems.found[
                f"{place}name must be new, got {run.name!r} again. Give each run a name of its own."
            ] = None
        elif run is not None:
            runs.append(run)
    problems.refuse(str(path))
    return RunsFile(path, tuple(runs), accuracy or DEFAULT_ACCURACY, epsilons)


def _parsed(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidSetting(f"{path} must be a TOML file, got: {problem}. Correct it there.") from None


def _accuracy(table: Table) -> float:
    stated: Any = table.entries.get("accuracy", DEFAULT_ACCURACY)
    with placed(table.where):
        return privacy_curve(Run(), relation=ADD, accuracy=stated).accuracy  # which checks it


def _epsilons(table: Table) -> tuple[float, ...] | None:
    if "epsilons" not in table.entries:
        return None
    remedy = "List finite numbers, for example [0.0, 0.5, 1.0]; without the key a range is chosen."
    values = table.items("epsilons", remedy)
    if not values:
        raise table.refusal("epsilons", "a list of at least one number", remedy)
    with placed(table.where):
        return tuple(check.real(remedy=remedy, **{f"epsilons[{i}]": value}) for i, value in enumerate(values))


def _entries(table: Table) -> list[object]:
    remedy = "Open each run with a line [[run]]."
    entries = table.items("run", remedy)
    if not entries:
        raise table.refusal("run", "a list of at least one run", remedy)
    return entries


def _named_run(value: object, place: str, file: Table) -> NamedRun:
    """One run: its name, its relation or the file's, and either one part's keys or a list of parts."""
    entry = Table.of(value, place)
    entry.keep_to((*_RUN_KEYS, *PART_KEYS))
    name = entry.text("name", 'Call the run something, for example name = "Poisson".').strip()
    if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise entry.refusal(
            "name", f"one line of 1 to {_LONGEST_NAME} characters", "It names the run in tables and pictures."
        )
    return NamedRun(name, _run(entry), _relation(entry, file))


def _run(entry: Table) -> Run:
    own = {key: value for key, value in entry.entries.items() if key not in _RUN_KEYS}
    if "parts" not in entry.entries:
        return part_of(Table(own, entry.where))
    for key, value in own.items():
        raise InvalidSetting(
            f"{entry.where}{key} = {value!r} contradicts parts, which state the whole run. Put it into a part."
        )
    return run_of(entry, "parts")


def _relation(entry: Table, file: Table) -> Relation:
    if "relation" not in entry.entries and "relation" not in file.entries:
        choices = ", ".join(RELATION_SPELLINGS)
        entry.wanted("relation", f"State it in the run, or once above all runs: one of {choices}.")
    return (entry if "relation" in entry.entries else file).choice("relation", RELATION_SPELLINGS)
