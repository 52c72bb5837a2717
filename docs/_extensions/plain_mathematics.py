"""Draws the plain mathematics of proof notes, of the table of theorems and of the certificates."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from formulas import SIGN, split_prose, write_display, write_formula, write_sign

NOTES = "src/tightrope/theorems/proofs/"
PAGES = (NOTES, "docs/theorems", "docs/certificates")
LEFT_ALONE = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw)
QUOTED = re.compile(r"(`[^`]*`|\]\([^)]*\))")


def escape_underscores(_app: Sphinx, docname: str, source: list[str]) -> None:
    """An underscore here is an index, never the emphasis that Markdown would make of `x_+ ... y_+`."""
    if docname.startswith(PAGES):
        parts = QUOTED.split(source[0])
        parts[::2] = [part.replace("_", r"\_") for part in parts[::2]]
        source[0] = "".join(parts)


def draw_mathematics(_app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Draw the mathematics of one page."""
    if docname.startswith((NOTES, "docs/certificates")):
        for block in list(doctree.findall(nodes.literal_block)):
            if block.get("language", "default") in ("default", "none"):
                drawn = write_display(block.astext().replace(r"\_", "_"))
                block.replace_self(nodes.raw("", drawn, format="html"))
    if docname.startswith(PAGES):
        for text in list(doctree.findall(nodes.Text)):
            if not _is_within(text, LEFT_ALONE):
                text.parent.replace(text, draw_words(str(text)))


def _is_within(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    return node.parent is not None and (isinstance(node.parent, kinds) or _is_within(node.parent, kinds))


def draw_words(text: str) -> list[nodes.Node]:
    """A text with its mathematical words as formulas."""
    made: list[nodes.Node] = []
    for is_formula, piece in split_prose(text):
        if is_formula:
            drawn = write_sign(piece) if SIGN.fullmatch(piece) else write_formula(piece)
            made.append(nodes.raw("", f"<math>{drawn}</math>", format="html"))
        elif made and isinstance(made[-1], nodes.Text):
            made[-1] = nodes.Text(str(made[-1]) + piece)
        else:
            made.append(nodes.Text(piece))
    return made


def setup(app: Sphinx) -> dict[str, bool]:
    """Join Sphinx."""
    app.connect("source-read", escape_underscores)
    app.connect("doctree-resolved", draw_mathematics)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
