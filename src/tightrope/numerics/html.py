"""Text, tables and reasons as small pieces of HTML for notebooks: escaped, in the colours of the page."""

from collections.abc import Iterable, Sequence
from html import escape

_LEFT = ' style="text-align: left"'  # notebooks set tables flush right


def write_text(text: str, *, strong: str = "") -> str:
    """A paragraph; the part of it that is `strong` stands out.

    >>> write_text("at most 1.5 & more", strong="1.5")
    '<p>at most <b>1.5</b> &amp; more</p>'
    """
    before, found, after = text.partition(strong) if strong else (text, "", "")
    middle = f"<b>{escape(found)}</b>" if found else ""
    return f"<p>{escape(before)}{middle}{escape(after)}</p>"


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its heading.

    >>> write_table([["a"], ["<b>"]])
    '<table><thead><tr><th ...>a</th></tr></thead><tbody><tr><td ...>&lt;b&gt;</td></tr></tbody></table>'
    """
    heading, *body = rows
    head, rest = _write_row(heading, "th"), "".join(_write_row(row, "td") for row in body)
    return f"<table><thead>{head}</thead><tbody>{rest}</tbody></table>"


def fold(summary: str, items: Iterable[str]) -> str:
    """A list that opens when its summary is clicked; nothing if it is empty.

    >>> fold("why", ["a < b"])
    '<details><summary>why</summary><ul><li>a &lt; b</li></ul></details>'
    """
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<details><summary>{escape(summary)}</summary><ul>{listed}</ul></details>" if listed else ""


def join(*pieces: str) -> str:
    """The pieces as one block."""
    return f"<div>{''.join(pieces)}</div>"


def _write_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}{_LEFT}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
