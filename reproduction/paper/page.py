"""The page that sets the paper's claims beside certified numbers."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from reproduction.markdown import markdown_table
from reproduction.paper.item import UNDECIDED, Item, Made, PaperVerdict

_OPENING = """\
# The paper, claim by claim

C. J. Lebeda, M. Regehr, G. Kamath, T. Steinke, *Avoiding Pitfalls for Privacy Accounting of Subsampled
Mechanisms under Composition* (2024), reproduced. Every number on this page was written by

    {command}

and every number of ours is certified: the truth lies between the two ends given, or within the digits
printed. Lower ends are rounded down and upper ends up. **agrees** means that the claim holds as printed,
**sharpened** that it holds and more is certain now. **printed as an upper bound** means that the number is
valid as printed, and that the exact one beside it is smaller. **corrected** means that the claim does not
hold as printed; the reason stands below the table. **undecided** would mean that the brackets do not tell.
"""
_QUICK = """
This is the quick version: fewer draws, coarser grids, hardly any substitution games. Leave out
`--quick` for all of it.
"""


def page_text(made: Sequence[tuple[Item, Made]], page: Path, out: Path, command: str, *, quick: bool) -> str:
    """The whole page; pictures are linked relative to where the page lies."""
    opening = _OPENING.format(command=command) + (_QUICK if quick else "")
    summary = [["claim", "verdict"]]
    for item, found in made:
        counts = [
            f"{count} {verdict.value}"
            for verdict in PaperVerdict
            if (count := sum(claim.verdict is verdict for claim in found.claims))
        ]
        anchor = item.title.lower().replace(" ", "-").translate(str.maketrans("", "", ".,:()'"))
        summary.append([f"[{item.title}](#{anchor})", ", ".join(counts)])
    return "\n".join(
        [opening, markdown_table(summary), "", *(_section(item, found, page, out) for item, found in made)]
    )


def _section(item: Item, found: Made, page: Path, out: Path) -> str:
    pictures = [file for file in found.files if file.suffix == ".png"]
    parts = [f"## {item.title}", ""]
    for picture, caption in zip(pictures, found.captions, strict=True):
        link = os.path.relpath(picture, page.parent).replace(os.sep, "/")
        parts += [f"![{caption}]({link})", "", f"*{caption}*", ""]
    if found.passage:
        parts += [found.passage.strip(), ""]
    rows = [["where", "the paper", "certified", "verdict"]]
    rows += [[each.where, each.printed, each.certified, f"**{each.verdict.value}**"] for each in found.claims]
    parts += [markdown_table(rows), ""]
    for claim in found.claims:
        if claim.why and claim.verdict is not UNDECIDED:
            parts += [f"*{claim.where}, {claim.verdict.value}.* {claim.why}", ""]
    words = ["python", "-m", "reproduction", "paper", "--out", str(out), "--item", item.name]
    return "\n".join([*parts, f"`{shlex.join(words)}`", ""])
