"""Plain-text tables."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as left-aligned columns, the first row underlined as a heading.

    >>> print(aligned([["a", "b"], ["long", "x"]]))
    a     b
    ----  -
    long  x
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    heading, *body = rows
    lines = [heading, ["-" * width for width in widths], *body]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
