"""Plain-text tables."""

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as left-align columns, the first row underlined as a heading.

    >>> print(align([["a", "b"], ["long", "x"]]))
    a     b
    ----  -
    long  x
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *body = rows
    lines = [heading, ["-" * width for width in widths], *body]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
