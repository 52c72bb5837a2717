"""Numbers of the paper's items: as CSV that is read back exactly, and as text that is rounded outwards."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.files import write_whole


def save_rows(path: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table; floats are written so that they are read back exactly, and None is empty."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(heading)
    table.writerows(rows)
    write_whole(path, text.getvalue().encode(), what="the table")
    return path


def flatten(brackets: Iterable[Bracket]) -> Iterator[float]:
    """The lower and the upper end of each, for a row of a table."""
    for bracket in brackets:
        yield from (bracket.lower, bracket.upper)


def name_ends(names: Iterable[str]) -> Iterator[str]:
    """What a table calls the ends of the brackets of these names."""
    for name in names:
        yield from (f"{name}_lower", f"{name}_upper")


def overlap(one: Bracket, other: Bracket) -> bool:
    """Whether both can hold the same number."""
    return one.lower <= other.upper and other.lower <= one.upper


def show(bracket: Bracket, digits: int | None = None) -> str:
    """Both ends, the lower one rounded down and the upper one up.

    >>> show(Bracket(0.94719428, 0.94719668), 4)
    '[0.9471, 0.9472]'
    """
    return f"[{', '.join(ends(bracket, digits))}]"


def certain_digits(bracket: Bracket) -> str:
    """The digits that both ends begin with.

    >>> certain_digits(Bracket(0.371279182689, 0.371279182692))
    '0.3712791826'
    """
    both = zip(*ends(bracket, 15), strict=False)
    return "".join(digit for digit, _ in takewhile(lambda pair: pair[0] == pair[1], both))


def at_least(value: float, digits: int) -> str:
    """The number, rounded down.

    >>> at_least(2 / 3, 2)
    '0.66'
    """
    return ends(Bracket(value, value), digits)[0]


def at_most(value: float, digits: int) -> str:
    """The number, rounded up.

    >>> at_most(2.96e-5, 2)
    '3.0e-05'
    """
    return ends(Bracket(value, value), digits)[1]
