"""What is made of one part of the paper: files, claims with verdicts, and a passage for the page."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

Progress = Callable[[str, int, int], None]  # what is done, how many pieces are, of how many


class Verdict(Enum):
    """How a claim of the paper stands beside the certified numbers."""

    AGREES = "agrees"
    SHARPENED = "sharpened"  # true, and more is certain now
    CORRECTED = "corrected"  # not true as printed
    UNDECIDED = "undecided"  # the brackets do not tell


AGREES, SHARPENED, CORRECTED, UNDECIDED = (
    Verdict.AGREES,
    Verdict.SHARPENED,
    Verdict.CORRECTED,
    Verdict.UNDECIDED,
)


@dataclass(frozen=True)
class Claim:
    """One thing the paper says, and what is certain about it.

    `where` is its place in the paper, `printed` its number or statement in our words, `certified` ours with
    enough digits to check, and `why` argues a correction in a few sentences. The verdict is computed from the
    numbers by who makes the claim.
    """

    where: str
    printed: str
    certified: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True)
class Making:
    """Where files go, whether minutes may be spent, and who is told how far it is."""

    folder: Path
    quick: bool
    progress: Progress


@dataclass(frozen=True)
class Made:
    """The claims of one item, its files (pictures first), and a passage in Markdown between heading and claims.

    The passage may hold tables; pictures among `files` are embedded by the page, with `captions` in the same
    order.
    """

    claims: tuple[Claim, ...]
    files: tuple[Path, ...] = ()
    captions: tuple[str, ...] = ()
    passage: str = ""


@dataclass(frozen=True)
class Item:
    """One part of the paper that can be made alone: `python -m reproduction paper --item NAME`."""

    name: str
    title: str
    make: Callable[[Making], Made]


def markdown_table(rows: list[list[str]]) -> str:
    """Rows as a Markdown table, the first as its heading.

    >>> print(markdown_table([["a", "b"], ["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    heading, *body = rows
    lines = [heading, *body]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(heading), *text[1:]])
