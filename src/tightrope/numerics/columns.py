"""Plain-text tables."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as left-aligned columns, the first row underlined as a heading.

    >>> print(aligned([["a", "b"], ["long", "x"]]))
    a     b
    ----  -
    long  x
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *body = rows
    lines = [heading, ["-" * width for width in widths], *body]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
