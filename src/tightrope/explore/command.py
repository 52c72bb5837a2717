"""tightrope explore: the page, in the browser or as one file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tightrope.cli.printed.terminal import say
from tightrope.cli.typed.numbers import read_whole
from tightrope.errors import UnusableFile
from tightrope.explore.questions import EXAMPLE, PageQuestion, read_link
from tightrope.files import as_path, write_whole

# not by cli.typed.options, which loads every accountant: the page should be there at once
At = Annotated[
    str | None,
    Parameter(help="The question to open with: a link to the page, or what follows its question mark."),
]
Port = Annotated[
    int,
    Parameter(
        help="The port on this machine; a free one by default.",
        converter=read_whole,
        n_tokens=1,
        show_default=False,
    ),
]
NoBrowser = Annotated[bool, Parameter(help="Only print the address.", negative="", show_default=False)]
Export = Annotated[
    Path | None, Parameter(help="Write the page with its numbers into this file instead, and end.")
]


def explore(*, at: At = None, port: Port = 0, no_browser: NoBrowser = False, export: Export = None) -> None:
    """Look at a training run in the browser: the answer, the pitfalls, the curves, the reasons."""
    asked: PageQuestion | None = None if at is None else read_link(at)
    if export is not None:
        from tightrope.explore.export import export_page  # only where a page is exported

        target = as_path(export)
        if not target.absolute().parent.is_dir():
            raise UnusableFile(target, "is in a folder that does not exist", "Make the folder first.")
        write_whole(target, export_page(asked or read_link(EXAMPLE)).encode(), what="the page")
        return
    from tightrope.explore.serve import serve  # only where pages are served

    def show(address: str) -> None:
        print(address, flush=True)
        say("The page is open on this machine only. Ctrl-C ends it.")

    serve(port, "" if asked is None else asked.state, opens_browser=not no_browser, say=show)
