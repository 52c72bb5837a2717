"""What is made of one part of the paper: files, claims with verdicts, and a passage for the page."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from tightrope.parallel import in_parallel

P = TypeVar("P")
R = TypeVar("R")


class PaperVerdict(Enum):
    """How a claim of the paper stands beside the certified numbers."""

    AGREES = "agrees"
    SHARPENED = "sharpened"  # true, and more is certain now
    UPPER_BOUND = "printed as an upper bound"  # valid as printed, above the exact value
    CORRECTED = "corrected"  # not true as printed
    UNDECIDED = "undecided"  # the brackets do not tell


AGREES, SHARPENED, UPPER_BOUND, CORRECTED, UNDECIDED = PaperVerdict


@dataclass(frozen=True)
class PaperClaim:
    """One thing the paper says, and what is certain about it.

    `where` is its place in the paper, `printed` its number or statement in our words, `certified` ours with
    enough digits to check, and `why` argues a correction in a few sentences. Whoever makes the claim computes
    the verdict from the numbers.
    """

    where: str
    printed: str
    certified: str
    verdict: PaperVerdict
    why: str = ""


@dataclass(frozen=True)
class Making:
    """Where files go, whether minutes may be spent, and who is told what is done: pieces, of how many."""

    folder: Path
    quick: bool
    progress: Callable[[str, int, int], None]

    def each(self, what: str, pieces: Sequence[P]) -> Iterator[P]:
        """The pieces, one after the other; progress is told before each and at the end."""
        for done, piece in enumerate(pieces):
            self.progress(what, done, len(pieces))
            yield piece
        self.progress(what, len(pieces), len(pieces))

    def work_through(self, what: str, work: Callable[[P], R], pieces: Sequence[P]) -> list[R]:
        """What `work` makes of each piece, on all cores where joblib is installed; the first failure ends it.

        A quick making stays in this process: starting others takes longer than its pieces do.
        """
        workers = None if find_spec("joblib") and not self.quick else 1
        found: dict[int, R] = {}
        self.progress(what, 0, len(pieces))
        with warnings.catch_warnings():
            # joblib replaces workers that have grown large, and says so each time
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            for place, outcome in in_parallel(work, pieces, workers=workers):
                if isinstance(outcome, Exception):
                    raise outcome
                found[place] = outcome
                self.progress(what, len(found), len(pieces))
        return [found[place] for place in range(len(pieces))]


@dataclass(frozen=True)
class Made:
    """The claims of one item, its files (pictures first), and a passage in Markdown above the claims.

    The passage may hold tables; the page embeds the pictures among `files`, with `captions` in the same
    order.
    """

    claims: tuple[PaperClaim, ...]
    files: tuple[Path, ...] = ()
    captions: tuple[str, ...] = ()
    passage: str = ""


@dataclass(frozen=True)
class Item:
    """One part of the paper that can be made alone: `python -m reproduction paper --item NAME`."""

    name: str
    title: str
    make: Callable[[Making], Made]


# everything in the paper that has a number in it, in the order of the paper
_MODULES = (
    *("figure_1", "randomized_response", "figure_2", "table_1", "figure_3", "figure_4"),
    *("conjecture_12", "closing_conjecture", "dataset_size"),
)


def load_items() -> tuple[Item, ...]:
    """One item per module, which calls it ITEM."""
    found = [import_module(f"reproduction.paper.{name}").ITEM for name in _MODULES]
    assert all(isinstance(item, Item) for item in found)
    return tuple(found)
