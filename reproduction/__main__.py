"""python -m reproduction: the paper claim by claim, and published runs accounted again."""

import json as json_text
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reproduction.paper.item import Item, Made, Making, PaperClaim, PaperVerdict, load_items
from reproduction.paper.page import page_text
from tightrope import __version__
from tightrope.cli.process.exits import ExitCode
from tightrope.errors import NotPreciseEnough, TightropeError
from tightrope.extras import advise_install
from tightrope.files import write_whole
from tightrope.numerics.text import align

COMMAND = ("python", "-m", "reproduction")
PAPER_EXAMPLE = """\
python -m reproduction paper --out figures
python -m reproduction paper --out figures --item figure-1 table-1 --quick"""
PUBLISHED_EXAMPLE = """\
python -m reproduction published examples/papers.toml
python -m reproduction published examples/papers.toml --markdown"""

Out = Annotated[Path, Parameter(help="Folder for pictures, tables and the page; made if it is not there.")]
Names = Annotated[
    list[str] | None,
    Parameter(name="--item", consume_multiple=True, negative="", help="Some items only, by name."),
]
Quick = Annotated[bool, Parameter(negative="", show_default=False, help="Less of everything, in a minute.")]
PageFile = Annotated[
    Path | None, Parameter(name="--page", help="Where the page goes; OUT/paper.md by default.")
]
Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print one JSON object.")]
Papers = Annotated[Path, Parameter(help="The published runs, a TOML file like examples/papers.toml.")]
Markdown = Annotated[bool, Parameter(negative="", show_default=False, help="Print a page in Markdown.")]


def paper(
    *, out: Out, item: Names = None, quick: Quick = False, page: PageFile = None, json: Json = False
) -> None:
    """Reproduce the paper: every figure, table, counterexample and conjecture beside certified numbers."""
    chosen = choose_items(item)
    target = out / "paper.md" if page is None else page
    make_folders(out, target, "--page" if page else "--out")
    made = make_items(chosen, out, quick=quick)
    options = [*(["--page", str(target)] if page else []), *(["--quick"] if quick else [])]
    options += ["--item", *(each.name for each in chosen)] if item else []
    command = shlex.join([*COMMAND, "paper", "--out", str(out), *options])
    write_whole(target, page_text(made, target, out, command, quick=quick).encode(), what="the page")
    claims = [(each.name, claim) for each, found in made for claim in found.claims]
    if json:
        files = [str(file) for _, found in made for file in found.files]
        print_json({"claims": [plain_claim(*each) for each in claims], "page": str(target), "files": files})
        return
    rows = [[name, claim.where, claim.verdict.value, claim.certified] for name, claim in claims]
    print(align([["item", "where", "verdict", "certified"], *rows]))
    counts = [f"{sum(c.verdict is verdict for _, c in claims)} {verdict.value}" for verdict in PaperVerdict]
    print(f"\n{', '.join(counts)}\nThe page: {target}")


def published(papers: Papers, *, json: Json = False, markdown: Markdown = False) -> None:
    """Account published runs again: each claim beside what is certified and what is proved."""
    # they need pydantic, which the paper does not
    from reproduction.published import page
    from reproduction.published.recheck import recheck
    from reproduction.published.runs_file import read_papers

    if json and markdown:
        raise TightropeError("--json and --markdown exclude each other", "Choose one.")
    stated = read_papers(papers)
    with bars() as bar:
        task = bar.add_task("Published runs", total=len(stated.runs))
        found = recheck(stated, lambda done, total: bar.update(task, completed=done, total=total))
    if json:
        print_json({"settings": [page.plain_run(each) for each in found], "summary": page.summary(found)})
    elif markdown:
        print(page.markdown_page(found, papers), end="")
    else:
        print(page.text_table(found))


def choose_items(names: list[str] | None) -> tuple[Item, ...]:
    """The items of these names, in the order of the paper; all of them without names."""
    known = {each.name: each for each in load_items()}
    if names == []:
        raise TightropeError("--item has no value", f"Name some of {', '.join(known)}, or leave it out.")
    for name in names or ():
        if name not in known:
            raise TightropeError(f"--item {name} is no part of the paper", f"Known are {', '.join(known)}.")
    return tuple(item for name, item in known.items() if names is None or name in names)


def make_folders(out: Path, page: Path, page_option: str) -> None:
    """Make the folders that files will go to, or refuse before anything is computed."""
    import matplotlib  # noqa: F401 # pictures come last, and what they need is missed now

    for option, folder in (("--out", out), (page_option, page.parent)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            said = f"{option}: {folder} cannot be made: {problem.strerror}"
            raise TightropeError(said, "Choose another folder.") from None
    if page.is_dir():
        raise TightropeError(f"--page must be a file, got the folder {str(page)!r}", "Name a file in it.")


def make_items(chosen: Sequence[Item], folder: Path, *, quick: bool) -> list[tuple[Item, Made]]:
    """Make item after item, with a bar for all of them and one for the item; a log gets a line for each."""
    made = []
    with bars() as bar:
        whole = bar.add_task("The paper", total=len(chosen))
        for each in chosen:
            if bar.disable:
                say(f"{each.name} ...")
            own = bar.add_task(each.title, total=None)

            def tell(what: str, done: int, total: int, own: TaskID = own, title: str = each.title) -> None:
                bar.update(own, description=f"{title}: {what}", completed=done, total=total)

            made.append((each, each.make(Making(folder, quick, tell))))
            bar.remove_task(own)
            bar.advance(whole)
    return made


def bars() -> Progress:
    """Bars on a terminal's standard error that are gone afterwards; files and pipes get none."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def plain_claim(item: str, claim: PaperClaim) -> dict[str, str]:
    """A claim as JSON holds it."""
    return {
        "item": item,
        "where": claim.where,
        "paper": claim.printed,
        "certified": claim.certified,
        "verdict": claim.verdict.value,
        "why": claim.why,
    }


def print_json(answer: dict[str, object]) -> None:
    """Print the answer and the version that gave it."""
    print(json_text.dumps({**answer, "version": __version__}, indent=2, allow_nan=False))


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 fine, 1 internal error, 2 bad input, 4 not certified, 130 interrupted.

    Results go to standard output; a refusal is one sentence on standard error.
    """
    raise SystemExit(exit_code(list(sys.argv[1:] if argv is None else argv)))


def exit_code(words: list[str]) -> int:
    """Run the command that the words name."""
    app = App(
        name=" ".join(COMMAND),
        help="The paper, claim by claim, and published runs, accounted again.",
        help_format="plaintext",
        version=__version__,
        suppress_keyboard_interrupt=False,  # main says so itself
    )
    for command, example in ((paper, PAPER_EXAMPLE), (published, PUBLISHED_EXAMPLE)):
        app.command(command, help_epilogue=f"Example:\n\n{example}")
    try:
        app(words, print_error=False, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as wrong:
        wrong.verbose = False
        return say(" ".join(str(wrong).split()), ExitCode.REFUSED)
    except NotPreciseEnough as refusal:
        return say(str(refusal), ExitCode.NOT_KNOWN)
    except TightropeError as refusal:
        return say(str(refusal), ExitCode.REFUSED)
    except KeyboardInterrupt:
        return say("interrupted.", ExitCode.INTERRUPTED)
    except (
        BrokenPipeError
    ):  # the reader has seen enough; keep the interpreter from complaining when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as missing:
        return say(f"{missing}. {advise_install('cli,plot,statement')}", ExitCode.REFUSED)
    except Exception as problem:
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        return say(f"internal error ({what}); please report it with the command you ran.", ExitCode.INTERNAL)
    return ExitCode.FINE


def say(sentence: str, code: int = ExitCode.FINE) -> int:
    """Say one sentence on standard error; the code is for whoever exits with it."""
    print(f"reproduction: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
