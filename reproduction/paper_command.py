"""tightrope paper: every figure, table, counterexample and conjecture of the paper, with a verdict on each claim."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reproduction.paper.catalogue import items
from reproduction.paper.item import Claim, Item, Made, Making, Verdict
from reproduction.paper.page import page_text
from tightrope.cli.machine import print_json
from tightrope.cli.options import ANSWER
from tightrope.cli.page import Page
from tightrope.errors import InvalidSetting
from tightrope.files import write_whole

EXAMPLE = """\
tightrope paper --out figures
tightrope paper --out figures --item figure-1 table-1 --quick"""

Out = Annotated[
    Path, Parameter(group=ANSWER, help="Folder for pictures, tables and the page; made if it is not there.")
]
Names = Annotated[
    list[str] | None,
    Parameter(
        name="--item",
        group=ANSWER,
        consume_multiple=True,
        negative="",
        help="Some items only, by name; all by default.",
    ),
]
Quick = Annotated[
    bool,
    Parameter(
        negative="", group=ANSWER, show_default=False, help="In under two minutes: less of everything."
    ),
]
Where = Annotated[
    Path | None, Parameter(name="--page", group=ANSWER, help="Where the page goes; OUT/paper.md by default.")
]
Json = Annotated[
    bool,
    Parameter(negative="", group=ANSWER, show_default=False, help="Print the claims as one JSON object."),
]


def paper(
    *, out: Out, item: Names = None, quick: Quick = False, page: Where = None, json: Json = False
) -> None:
    """Reproduce the paper: figures, tables, counterexamples and conjectures, each claim beside certified numbers."""
    chosen = _chosen(item)
    target = out / "paper.md" if page is None else page
    _check_matplotlib()
    for option, folder in (("--out", out), ("--page" if page else "--out", target.parent)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InvalidSetting(
                f"{option}: {folder} cannot be made: {problem.strerror}. Choose another folder."
            ) from None
    if target.is_dir():
        raise InvalidSetting(f"--page must be a file, got the folder {str(target)!r}. Name a file in it.")
    made = _made(chosen, out, quick=quick)
    words = [
        "tightrope",
        "paper",
        "--out",
        str(out),
        *(["--page", str(target)] if page else []),
        *(["--quick"] if quick else []),
    ]
    words += ["--item", *(each.name for each in chosen)] if item else []
    write_whole(
        target, page_text(made, target, out, shlex.join(words), quick=quick).encode(), what="the page"
    )
    if json:
        claims = [
            {"item": each.name, **_claim_object(claim)} for each, found in made for claim in found.claims
        ]
        print_json(
            {
                "claims": claims,
                "page": str(target),
                "files": [str(file) for _, found in made for file in found.files],
            }
        )
        return
    shown = Page()
    rows = [["item", "where", "verdict", "certified"]]
    rows += [
        [each.name, claim.where, claim.verdict.value, claim.certified]
        for each, found in made
        for claim in found.claims
    ]
    shown.table(rows)
    counts = {verdict: sum(row[2] == verdict.value for row in rows[1:]) for verdict in Verdict}
    shown.heading(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()))
    shown.line(f"The page: {target}")


def _chosen(names: list[str] | None) -> tuple[Item, ...]:
    every = items()
    if names == []:
        raise InvalidSetting(
            f"--item has no value. Name one or several of {', '.join(each.name for each in every)}, or leave it out."
        )
    known = {each.name: each for each in every}
    for name in names or ():
        if name not in known:
            raise InvalidSetting(f"--item {name} is no part of the paper. Known are {', '.join(known)}.")
    return tuple(each for each in every if names is None or each.name in names)


def _check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidSetting(
            "pictures need matplotlib, which is not installed. Install tightrope[plot]."
        ) from None


def _made(chosen: tuple[Item, ...], folder: Path, *, quick: bool) -> list[tuple[Item, Made]]:
    """Make item after item, with a bar for all of them and one for the item, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    made = []
    with bar:
        whole = bar.add_task("The paper", total=len(chosen))
        for each in chosen:
            if not sys.stderr.isatty():
                print(f"tightrope: {each.name}", file=sys.stderr)
            own = bar.add_task(each.title, total=None)

            def tell(what: str, done: int, total: int, own: TaskID = own, title: str = each.title) -> None:
                bar.update(own, description=f"{title}: {what}", completed=done, total=total)

            made.append((each, each.make(Making(folder, quick, tell))))
            bar.remove_task(own)
            bar.advance(whole)
    return made


def _claim_object(claim: Claim) -> dict[str, str]:
    return {
        "where": claim.where,
        "paper": claim.printed,
        "certified": claim.certified,
        "verdict": claim.verdict.value,
        "why": claim.why,
    }
