"""Tables in Markdown."""

from collections.abc import Sequence


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first as its heading.

    >>> print(markdown_table([["a", "b"], ["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    heading, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([heading, "|" + "---|" * len(rows[0]), *body])
