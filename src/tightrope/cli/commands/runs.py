"""Several named runs from a TOML file, side by side: delta over a range of epsilons."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import Certified, effort_matters
from tightrope.answers.spend import privacy_curve
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import SHORT, safe_number, tell
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.process.long_work import LongWork, long_work
from tightrope.cli.typed.form import Form
from tightrope.cli.typed.options import read_tuning
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, UnusableFile, write_value
from tightrope.files import read_toml
from tightrope.numerics import check
from tightrope.numerics.text import write_number
from tightrope.report.words import (
    assumed_in_short,
    assumed_in_words,
    run_in_short,
    run_in_words,
    trials_in_words,
)
from tightrope.setting.effort import Effort
from tightrope.setting.parts import PART_KEYS, part_of, run_of
from tightrope.setting.plain import plain_run
from tightrope.setting.relation import RELATION_SPELLINGS, Relation
from tightrope.setting.run import Run
from tightrope.setting.tables import Problems, Table, place_refusals
from tightrope.setting.trials import KNOWN_TRIALS, TrialLaw
from tightrope.setting.tuned import Tuned, tuned
from tightrope.theorems.evidence import Evidence

_FILE_KEYS = ("relation", "accuracy", "epsilons", "run")
_RUN_KEYS = ("name", "relation", "parts", "tuning")
_LONGEST_NAME = 80


@dataclass(frozen=True)
class NamedRun:
    """A run, who counts as its neighbour, and what it is called."""

    name: str
    run: Run
    relation: Relation
    trials: TrialLaw | None = None  # of several such runs, the best is published

    @property
    def published(self) -> Run | Tuned:
        """The run, or the search."""
        return self.run if self.trials is None else tuned(self.run, trials=self.trials)


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
    table = Table.of(read_toml(path), f"{path}: ")
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: table.keep_to(_FILE_KEYS))
    if "relation" in table.entries:
        attempt(table.relation)
    accuracy = attempt(lambda: _read_accuracy(table))
    epsilons = attempt(lambda: _read_epsilons(table))
    entries = attempt(lambda: _read_entries(table)) or []
    runs: dict[str, NamedRun] = {}
    for i, entry in enumerate(entries):
        place = table.place("run", i)
        run = attempt(partial(_read_run, entry, place, table))
        if run is not None and run.name in runs:
            remedy = "Give each run a name of its own."
            problems.note(InvalidSetting("name", run.name, "be new", remedy, where=place))
        elif run is not None:
            runs[run.name] = run
    problems.refuse(str(path))
    return RunsFile(path, tuple(runs.values()), accuracy or Certified.accuracy, epsilons)


def _read_accuracy(table: Table) -> float:
    stated: Any = table.entries.get("accuracy", Certified.accuracy)
    with place_refusals(table.where):
        return Certified(accuracy=stated).accuracy


def _read_epsilons(table: Table) -> tuple[float, ...] | None:
    if "epsilons" not in table.entries:
        return None
    remedy = "List finite numbers, for example [0.0, 0.5, 1.0]; without the key a range is chosen."
    values = table.items("epsilons", remedy)
    if not values:
        raise table.refusal("epsilons", "a list of at least one number", remedy)
    with place_refusals(table.where):
        return tuple(check.real(remedy=remedy, **{f"epsilons[{i}]": value}) for i, value in enumerate(values))


def _read_entries(table: Table) -> list[object]:
    remedy = "Open each run with a line [[run]]."
    entries = table.items("run", remedy)
    if not entries:
        raise table.refusal("run", "a list of at least one run", remedy)
    return entries


def _read_run(value: object, place: str, file: Table) -> NamedRun:
    """One run: its name, its relation or the file's, and either one part's keys or a list of parts."""
    entry = Table.of(value, place)
    entry.keep_to((*_RUN_KEYS, *PART_KEYS))
    name = entry.text("name", 'Call the run something, for example name = "Poisson".').strip()
    if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
        form = f"one line of 1 to {_LONGEST_NAME} characters"
        raise entry.refusal("name", form, "It names the run in tables and pictures.")
    return NamedRun(name, _read_steps(entry), _read_relation(entry, file), _read_tuning(entry))


def _read_tuning(entry: Table) -> TrialLaw | None:
    if "tuning" not in entry.entries:
        return None
    spelled = entry.text("tuning", f"Write the law of the number of runs: {KNOWN_TRIALS}.")
    with place_refusals(entry.where):
        return read_tuning(spelled)


def _read_steps(entry: Table) -> Run:
    own = {key: value for key, value in entry.entries.items() if key not in _RUN_KEYS}
    if "parts" not in entry.entries:
        return part_of(Table(own, entry.where))
    if own:
        key, value = next(iter(own.items()))
        wrong = f"= {write_value(value)} contradicts parts, which state the whole run"
        raise UnusableFile(f"{entry.where}{key}", wrong, "Put it into a part.")
    return run_of(entry, "parts")


def _read_relation(entry: Table, file: Table) -> Relation:
    if "relation" not in entry.entries and "relation" not in file.entries:
        choices = ", ".join(RELATION_SPELLINGS)
        entry.need("relation", f"State it in the run, or once above all runs: one of {choices}.")
    return (entry if "relation" in entry.entries else file).relation()


# Answering


@dataclass(frozen=True)
class AnsweredRun:
    """A run, counted from 1, with what its curve says at each epsilon."""

    number: int
    asked: NamedRun
    epsilons: Sequence[float]
    deltas: tuple[Bracket, ...]
    logs: tuple[Bracket, ...]

    @property
    def sentence(self) -> str:
        """What it comes to, at the ends of the range."""
        ends = slice(None, None, max(len(self.epsilons) - 1, 1))
        told = tell("delta", "epsilon", self.epsilons[ends], self.deltas[ends], self.logs[ends])
        assumed = assumed_in_words([step.sampling for step, _ in self.asked.run], self.asked.relation)
        if self.asked.trials is not None:
            assumed = f"{trials_in_words(self.asked.trials)}, {assumed}"
        return f"{self.number}. {self.asked.name}: {told} ({assumed})."

    @property
    def question(self) -> str:
        """What is run."""
        return f"Run {self.number}: {run_in_words(self.asked.run, self.asked.relation)}."

    @property
    def theorems(self) -> list[Evidence]:
        """What decided the upper ends."""
        return show.find_theorems(self.deltas)

    @property
    def datasets(self) -> list[str]:
        """What decided the lower ends."""
        return show.find_datasets(self.deltas)


def show_runs(
    file: RunsFile, epsilons: Sequence[float] | None, target: Path | None, *, effort: str, form: Form
) -> None:
    """Answer every run of the file, or refuse the whole and name the run that cannot be answered."""
    by = Certified(accuracy=file.accuracy, effort=Effort(effort))
    with long_work() as work:
        curves, at, answered = work.finish(lambda: _answer_runs(file, epsilons, by, work), _in_short)
    _print(file, by, answered, work, form)
    if target is not None:
        work.draw(target, lambda: _draw(curves, at, target))
    work.end()


Answered = tuple[list[tuple[NamedRun, PrivacyCurve]], list[float], list[AnsweredRun]]


def _answer_runs(
    file: RunsFile, epsilons: Sequence[float] | None, by: Certified, progress: Progress
) -> Answered:
    """Every run with its curve, the epsilons, and what each curve says there."""
    curves: list[tuple[NamedRun, PrivacyCurve]] = []
    for asked in file.runs:
        with place_refusals(f"{file.path}: {asked.name}: "):
            curve = privacy_curve(asked.published, relation=asked.relation, by=by, progress=progress)
            curves.append((asked, curve))
    at = list(epsilons or file.epsilons or show.usual_range(curve for _, curve in curves))
    answered: list[AnsweredRun] = []
    for asked, curve in curves:
        with place_refusals(f"{file.path}: {asked.name}: "):
            found = tuple(curve.delta(at)), tuple(curve.log_delta(at))
            answered.append(AnsweredRun(len(answered) + 1, asked, at, *found))
    return curves, at, answered


def _in_short(quick: Answered) -> str:
    _, at, (first, *_) = quick
    return f"{first.asked.name}: {show.answers_in_short('delta', 'epsilon', at, first.deltas)}"


def _print(
    file: RunsFile, by: Certified, answered: Sequence[AnsweredRun], work: LongWork, form: Form
) -> None:
    theorems = list(dict.fromkeys(theorem for run in answered for theorem in run.theorems))
    if form.json:
        said = work.tell(" ".join(run.sentence for run in answered))
        shown = [show.theorem_object(theorem) for theorem in theorems]
        runs = [_run_object(run) for run in answered]
        how = {"accuracy": by.accuracy, "effort": str(by.effort)}
        show.print_json({"answer": said, **work.mark, "runs": runs, **how, "theorems": shown})
    elif form.brief:
        print_brief(safe_number(*ends) for run in answered for ends in zip(run.deltas, run.logs, strict=True))
    else:
        page = show.open_page(
            [work.tell("").strip(), *(run.sentence for run in answered)],
            question=[run.question for run in answered],
            facts=[("runs", str(file.path)), *_effort_facts(by, file.runs)],
            why=form.why,
        )
        _show(page, answered, theorems, form)


def _effort_facts(by: Certified, runs: Sequence[NamedRun]) -> list[show.Fact]:
    """How hard to work, and for which runs that matters."""
    wide = ", ".join(asked.name for asked in runs if effort_matters(asked.run, asked.relation))
    facts = show.effort_facts(by, [(asked.run, asked.relation) for asked in runs])
    return [(name, f"{what}, for {wide}" if name == "effort" else what) for name, what in facts]


def _draw(curves: Sequence[tuple[NamedRun, PrivacyCurve]], at: Sequence[float], target: Path) -> None:
    from tightrope.report.plot import draw_curves  # only where something is drawn

    titles = {run_in_short(asked.run) for asked, _ in curves}
    title = titles.pop() if len(titles) == 1 else ""  # what tells runs apart is in their names
    named = [(asked.name, curve) for asked, curve in curves]
    draw_curves(named, epsilons=show.fine_range(at), to=target, title=title)


def _show(page: Page, answered: Sequence[AnsweredRun], theorems: Sequence[Evidence], form: Form) -> None:
    if form.why:
        stated = [["run", "what is run", "assumed", "because"]]
        for run in answered:
            asked, numbers = run.asked, show.write_numbers(run.theorems, theorems)
            assumed = assumed_in_short(asked.run, asked.relation)
            stated.append([asked.name, run_in_short(asked.run), assumed, numbers])
        page.table(stated)
    named = [f"delta of {run.asked.name}" if form.why else f"delta, run {run.number}" for run in answered]
    rows = [["epsilon", *named]]
    for i, epsilon in enumerate(answered[0].epsilons):
        rows.append([write_number(epsilon), *(_cell(run, i, form) for run in answered)])
    page.table(rows)
    for run in answered:
        if form.why or any(delta.gap for delta in run.deltas):
            page.heading(f"{run.asked.name}: {show.width_in_words(run.deltas)}")
    reached_by = [f"{run.asked.name}: {' or '.join(run.datasets)}" for run in answered]
    show.close_page(page, theorems, reached_by, why=form.why, ends="ends are")


def _cell(run: AnsweredRun, i: int, form: Form) -> str:
    """Both ends with --why, else the upper one."""
    if form.why:
        return f"[{', '.join(show.answer_cells(run.deltas[i], run.logs[i]))}]"
    return safe_number(run.deltas[i], run.logs[i], SHORT)


def _run_object(run: AnsweredRun) -> show.Object:
    brackets = [
        {
            "epsilon": epsilon,
            "delta": show.bracket_object(delta),
            "log_delta": show.bracket_object(logs),
            **show.width_object(delta),
        }
        for epsilon, delta, logs in zip(run.epsilons, run.deltas, run.logs, strict=True)
    ]
    return {
        "name": run.asked.name,
        "parts": plain_run(run.asked.run),
        "relation": show.relation_object(run.asked.relation),
        **show.tuning_object(run.asked.trials),
        "brackets": brackets,
        "theorems": [theorem.name for theorem in run.theorems],
        "reached_by": run.datasets,
    }
