"""Several runs side by side: delta over a range of epsilons, as a table, as JSON and as one picture."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import effort_matters
from tightrope.answers.spend import privacy_curve
from tightrope.cli.deltas import delta_objects
from tightrope.cli.machine import print_json, theorem_object
from tightrope.cli.page import Page
from tightrope.cli.progress import watched
from tightrope.cli.runs_file import NamedRun, RunsFile
from tightrope.cli.show import delta_ends, evidence_of, show_theorems
from tightrope.cli.usual_range import drawn_range, usual_range
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.report.plot import draw_curves
from tightrope.report.words import assumed_in_short, run_in_short, spelled
from tightrope.setting.effort import Effort, meaning_of
from tightrope.setting.plain import plain_run
from tightrope.setting.tables import placed
from tightrope.theorems.evidence import Evidence

Answered = tuple[NamedRun, PrivacyCurve]


def show_several(
    file: RunsFile, epsilons: Sequence[float] | None, target: Path | None, *, effort: Effort, json: bool
) -> None:
    """Answer every run of the file, or refuse the whole and name the run that cannot be answered."""
    found: list[Answered] = []
    for asked in file.runs:
        with placed(f"{file.path}: {asked.name}: "):
            found.append(
                (
                    asked,
                    privacy_curve(asked.run, relation=asked.relation, accuracy=file.accuracy, effort=effort),
                )
            )
    at = epsilons or file.epsilons or usual_range(curve for _, curve in watched(found, "Choosing a range"))
    answers: list[Any] = []
    for asked, curve in watched(found, "Bracketing delta"):
        with placed(f"{file.path}: {asked.name}: "):
            answers.append(
                delta_objects(curve, at) if json else [f"[{', '.join(delta_ends(curve, e))}]" for e in at]
            )
    if target is not None:
        named = [(asked.name, curve) for asked, curve in found]
        draw_curves(
            watched(named, "Drawing"), epsilons=drawn_range(at), to=target, title=_common_title(file.runs)
        )
        print(f"tightrope: drew {target}", file=sys.stderr)
    theorems = list(dict.fromkeys(theorem for _, curve in found for theorem in evidence_of(curve)))
    if json:
        runs = [_run_object(*answered, brackets) for answered, brackets in zip(found, answers, strict=True)]
        shown = [theorem_object(theorem) for theorem in theorems]
        print_json({"runs": runs, "accuracy": file.accuracy, "effort": effort.value, "theorems": shown})
    else:
        _show(file, found, at, answers, theorems, effort)


def _common_title(runs: Sequence[NamedRun]) -> str:
    """What all runs share; what tells them apart is in their names."""
    titles = {run_in_short(asked.run) for asked in runs}
    return titles.pop() if len(titles) == 1 else ""


def _show(
    file: RunsFile,
    found: Sequence[Answered],
    at: Sequence[float],
    columns: Sequence[Sequence[str]],
    theorems: list[Evidence],
    effort: Effort,
) -> None:
    page = Page()
    facts = [("runs", str(file.path)), ("accuracy", f"{file.accuracy:g} relative width in delta")]
    wide = [asked.name for asked, _ in found if effort_matters(asked.run, asked.relation)]
    page.facts([*facts, ("effort", f"{meaning_of(effort)}, for {', '.join(wide)}")] if wide else facts)
    stated = [
        [
            asked.name,
            run_in_short(asked.run),
            assumed_in_short(asked.run, asked.relation),
            ", ".join(str(theorems.index(theorem) + 1) for theorem in evidence_of(curve)),
        ]
        for asked, curve in found
    ]
    page.table([["run", "what is run", "assumed", "because"], *stated])
    body = [[f"{epsilon:.12g}", *brackets] for epsilon, *brackets in zip(at, *columns, strict=True)]
    page.table([["epsilon", *(f"delta of {asked.name}" for asked, _ in found)], *body])
    page.heading("The upper ends are guaranteed, because")
    show_theorems(page, theorems)
    page.heading("The lower ends are reached by the neighbours")
    for asked, curve in found:
        page.line(f"{asked.name}: {' or '.join(curve.witnessed_by)}", indent=2)


def _run_object(asked: NamedRun, curve: PrivacyCurve, brackets: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": asked.name,
        "parts": plain_run(asked.run),
        "relation": {"kind": spelled(asked.relation), "meaning": asked.relation.meaning},
        "brackets": brackets,
        "theorems": [theorem.name for theorem in evidence_of(curve)],
        "reached_by": list(curve.witnessed_by),
    }
