"""What Sphinx has to be told about this house: docstrings, types, anchors and examples."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

import tightrope
from tightrope.audit import audit

EXPLORER = Path(__file__).parents[2] / "build" / "explorer" / "explorer.html"  # where make docs exports it
QUOTED = re.compile(r"(`+[^`]+`+)")
SPECIAL = re.compile(r"(?<![\w*])(\*\w[^*]*\w\*)(?![\w*])|([*|_\\])")  # *words* stay, signs are escaped


def spell_anchor(heading: str) -> str:
    """The anchor of a heading as code hosts spell it.

    >>> spell_anchor("REPLACE_ONE, and the unit of the noise")
    'replace_one-and-the-unit-of-the-noise'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def write_line(line: str) -> str:
    r"""A line of a docstring as reStructuredText: quoted names as code, everything else as it stands.

    >>> write_line("Adds `s` times N(0, 1); a*b and |x|.")
    'Adds ``s`` times N(0, 1); a\\*b and \\|x\\|.'
    """
    words = QUOTED.split(line)
    words[::2] = [SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", each) for each in words[::2]]
    words[1::2] = [f"``{each.strip('`')}``" for each in words[1::2]]
    return "".join(words)


def _write_lines(lines: list[str]) -> Iterator[str]:
    example = False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        yield line if example or line.startswith("    ") else write_line(line)


def rewrite_docstring(
    _app: Sphinx, _what: str, _name: str, _it: object, _options: object, lines: list[str]
) -> None:
    """Rewrite a docstring in place; where a room can be called, take that of the function which answers."""
    if _name == "tightrope.audit":
        lines[:] = (inspect.getdoc(audit) or "").splitlines()
    lines[:] = list(_write_lines(lines))


def find_public_name(_app: Sphinx, env: Any, node: nodes.Element, shown: nodes.Element) -> nodes.Node | None:
    """Lead from a type to the page of its public name; types of the inside stay words."""
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in tightrope.__all__:
        return shown if node.get("refdomain") == "py" else None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], _app.builder, "obj", f"tightrope.{name}", node, shown)


def add_title(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Give statements in Markdown, which are parts of model cards, the title that a page needs."""
    if docname.startswith("docs/statements/"):
        _, fields, text = source[0].split("---\n", 2)
        source[0] = f"---\norphan: true\n{fields}---\n\n# A statement in Markdown\n\n{text}"


def trim_examples(_app: Sphinx, doctree: nodes.document) -> None:
    """Take the blank line away with which an example ends for doctest."""
    for block in doctree.findall(nodes.literal_block):
        trimmed = block.astext().rstrip()
        block.rawsource = trimmed
        block.clear()
        block += nodes.Text(trimmed)


def setup(app: Sphinx) -> dict[str, bool]:
    """Join Sphinx."""
    app.connect("autodoc-process-docstring", rewrite_docstring)
    if EXPLORER.exists():
        app.tags.add("explorer")
    app.connect("source-read", add_title)
    app.connect("doctree-read", trim_examples)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
