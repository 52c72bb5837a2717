"""Several named runs from a TOML file, side by side: delta over a range of epsilons."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import DEFAULT_ACCURACY, effort_matters
from tightrope.answers.spend import privacy_curve
from tightrope.cli.curves import fine_range, usual_range
from tightrope.cli.show import (
    Object,
    answer_cells,
    bracket_object,
    evidence_of,
    print_json,
    relation_object,
    show_theorems,
    theorem_object,
)
from tightrope.cli.terminal import Page, say, watch_items
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting
from tightrope.files import read_text
from tightrope.numerics import check
from tightrope.report.words import assumed_in_short, run_in_short
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.plain import PART_KEYS, part_of, plain_run, run_of
from tightrope.setting.relation import ADD, Relation
from tightrope.setting.run import Run
from tightrope.setting.spelling import RELATION_SPELLINGS
from tightrope.setting.tables import Problems, Table, placed
from tightrope.theorems.evidence import Evidence

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


# Reading


def read_runs(path: Path) -> RunsFile:
    """Read the file; a refusal lists each problem with its place, counted from 0: runs.toml: run[1].rate."""
    table = Table.of(_parse(path), f"{path}: ")
    problems = Problems()
    tried = problems.tried
    tried(lambda: table.keep_to(_FILE_KEYS))
    if "relation" in table.entries:
        tried(lambda: table.choice("relation", RELATION_SPELLINGS))
    accuracy = tried(lambda: _accuracy(table))
    epsilons = tried(lambda: _epsilons(table))
    entries = tried(lambda: _entries(table)) or []
    runs: dict[str, NamedRun] = {}
    for i, entry in enumerate(entries):
        place = table.place("run", i)
        run = tried(partial(_named_run, entry, place, table))
        if run is not None and run.name in runs:
            advice = "Give each run a name of its own."
            problems.found[f"{place}name must be new, got {run.name!r} again. {advice}"] = None
        elif run is not None:
            runs[run.name] = run
    problems.refuse(str(path))
    return RunsFile(path, tuple(runs.values()), accuracy or DEFAULT_ACCURACY, epsilons)


def _parse(path: Path) -> dict[str, Any]:
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
        form = f"one line of 1 to {_LONGEST_NAME} characters"
        raise entry.refusal("name", form, "It names the run in tables and pictures.")
    return NamedRun(name, _run(entry), _relation(entry, file))


def _run(entry: Table) -> Run:
    own = {key: value for key, value in entry.entries.items() if key not in _RUN_KEYS}
    if "parts" not in entry.entries:
        return part_of(Table(own, entry.where))
    for key, value in own.items():
        wrong = f"{entry.where}{key} = {value!r} contradicts parts, which state the whole run."
        raise InvalidSetting(f"{wrong} Put it into a part.")
    return run_of(entry, "parts")


def _relation(entry: Table, file: Table) -> Relation:
    if "relation" not in entry.entries and "relation" not in file.entries:
        choices = ", ".join(RELATION_SPELLINGS)
        entry.wanted("relation", f"State it in the run, or once above all runs: one of {choices}.")
    return (entry if "relation" in entry.entries else file).choice("relation", RELATION_SPELLINGS)


# Answering


@dataclass(frozen=True)
class AnsweredRun:
    """A run with its curve, and what that says at each epsilon."""

    asked: NamedRun
    curve: PrivacyCurve
    deltas: tuple[Bracket, ...] = ()
    logs: tuple[Bracket, ...] = ()


def show_runs(
    file: RunsFile, epsilons: Sequence[float] | None, target: Path | None, *, effort: Effort, json: bool
) -> None:
    """Answer every run of the file, or refuse the whole and name the run that cannot be answered."""
    curves: list[tuple[NamedRun, PrivacyCurve]] = []
    for asked in file.runs:
        with placed(f"{file.path}: {asked.name}: "):
            found = privacy_curve(asked.run, relation=asked.relation, accuracy=file.accuracy, effort=effort)
            curves.append((asked, found))
    at = (
        epsilons
        or file.epsilons
        or usual_range(curve for _, curve in watch_items(curves, "Choosing a range"))
    )
    answered: list[AnsweredRun] = []
    for asked, curve in watch_items(curves, "Bracketing delta"):
        with placed(f"{file.path}: {asked.name}: "):
            asking = list(at)
            deltas, logs = tuple(curve.delta(asking)), tuple(curve.log_delta(asking))
            answered.append(AnsweredRun(asked, curve, deltas, logs))
    if target is not None:
        _draw(curves, at, target)
    if json:
        theorems = [theorem_object(theorem) for theorem in _every_theorem(answered)]
        runs = [_run_object(run, at) for run in answered]
        print_json({"runs": runs, "accuracy": file.accuracy, "effort": effort.value, "theorems": theorems})
    else:
        _show(file, answered, at, effort)


def _draw(curves: Sequence[tuple[NamedRun, PrivacyCurve]], at: Sequence[float], target: Path) -> None:
    from tightrope.report.plot import draw_curves

    titles = {run_in_short(asked.run) for asked, _ in curves}
    title = titles.pop() if len(titles) == 1 else ""  # what tells runs apart is in their names
    named = [(asked.name, curve) for asked, curve in curves]
    draw_curves(watch_items(named, "Drawing"), epsilons=fine_range(at), to=target, title=title)
    say(f"drew {target}")


def _every_theorem(answered: Sequence[AnsweredRun]) -> list[Evidence]:
    return list(dict.fromkeys(theorem for run in answered for theorem in evidence_of(run.curve)))


def _show(file: RunsFile, answered: Sequence[AnsweredRun], at: Sequence[float], effort: Effort) -> None:
    page = Page()
    facts = [("runs", str(file.path)), ("accuracy", f"{file.accuracy:g} relative width in delta, asked for")]
    wide = [run.asked.name for run in answered if effort_matters(run.asked.run, run.asked.relation)]
    page.facts([*facts, ("effort", f"{meaning_of(effort)}, for {', '.join(wide)}")] if wide else facts)
    theorems = _every_theorem(answered)
    stated = [["run", "what is run", "assumed", "because"]]
    for run in answered:
        asked, numbers = run.asked, (str(theorems.index(t) + 1) for t in evidence_of(run.curve))
        assumed = assumed_in_short(asked.run, asked.relation)
        stated.append([asked.name, run_in_short(asked.run), assumed, ", ".join(numbers)])
    page.table(stated)
    rows = [["epsilon", *(f"delta of {run.asked.name}" for run in answered)]]
    for i, epsilon in enumerate(at):
        cells = (answer_cells(run.deltas[i], run.logs[i]) for run in answered)
        rows.append([f"{epsilon:.12g}", *(f"[{', '.join(ends)}]" for ends in cells)])
    page.table(rows)
    page.heading("The upper ends are guaranteed, because")
    show_theorems(page, theorems)
    page.heading("The lower ends are reached by the neighbours")
    for run in answered:
        page.line(f"{run.asked.name}: {' or '.join(run.curve.witnessed_by)}", indent=2)


def _run_object(run: AnsweredRun, at: Sequence[float]) -> Object:
    brackets = [
        {"epsilon": epsilon, "delta": bracket_object(delta), "log_delta": bracket_object(logs)}
        for epsilon, delta, logs in zip(at, run.deltas, run.logs, strict=True)
    ]
    return {
        "name": run.asked.name,
        "parts": plain_run(run.asked.run),
        "relation": relation_object(run.asked.relation),
        "brackets": brackets,
        "theorems": [theorem.name for theorem in evidence_of(run.curve)],
        "reached_by": list(run.curve.witnessed_by),
    }
