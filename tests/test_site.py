"""What the documentation site is made of; `make docs` builds it, and its links are checked there too."""

import html
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

import tightrope
from tightrope.audit import audit

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTES = sorted((Path(tightrope.__file__).parent / "theorems" / "proofs").glob("*.md"))
sys.path[:0] = [str(DOCS), str(DOCS / "_extensions")]

import check_site  # noqa: E402

import formulas  # noqa: E402

# -- every public name ---------------------------------------------------------------------------------------


def public() -> dict[str, object]:
    named = {name: getattr(tightrope, name) for name in tightrope.__all__}
    return named | {"audit": audit}  # the room can be called; what answers is this


def test_every_public_name_has_its_place_in_the_reference() -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    placed = re.findall(r"^\.\. (?:autoclass|autofunction|py:data):: (\w+)$", pages, re.MULTILINE)
    assert sorted(placed) == sorted(tightrope.__all__)


@pytest.mark.parametrize("name", tightrope.__all__)
def test_every_public_name_is_explained_with_an_example(name: str) -> None:
    value = public()[name]
    if inspect.isclass(value) or inspect.isfunction(value):
        assert ">>> " in (value.__doc__ or "")
    else:  # a constant, which its class explains
        examples = re.findall(r"^ *>>> (.*)$", type(value).__doc__ or "", re.MULTILINE)
        assert any(re.search(rf"\b{name}\b", example) for example in examples)


# -- every page ----------------------------------------------------------------------------------------------


def toctree(page: Path) -> list[Path]:
    """The pages that the tables of contents of a page name."""
    found = []
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for entry in (line.strip() for line in block.splitlines()):
            if entry and not entry.startswith(":"):
                found += sorted((page.parent).glob(f"{entry}.md")) or [page.parent / f"{entry}.md"]
    return [path.resolve() for path in found]


def test_every_page_is_in_a_table_of_contents_and_every_entry_is_a_page() -> None:
    if not (ROOT / "Makefile").exists():
        pytest.skip("proof notes and other pages lie elsewhere outside the source tree")
    reached, open_pages = set[Path](), [DOCS / "index.md"]
    while open_pages:
        page = open_pages.pop()
        assert page.exists(), page
        if page not in reached:
            reached.add(page)
            open_pages += toctree(page)
    pages = {page.resolve() for page in DOCS.rglob("*.md") if page.parent.name != "statements"}
    assert pages <= reached
    assert (ROOT / "CHANGELOG.md").resolve() in reached


def test_the_settings_of_the_site_can_be_read() -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed: make docs")
    from sphinx.config import Config, eval_config_file
    from sphinx.util.tags import Tags

    config = Config(eval_config_file(DOCS / "conf.py", Tags()))
    assert config.release == tightrope.__version__
    assert config.nitpicky


# -- mathematics ---------------------------------------------------------------------------------------------


def symbols_of(text: str) -> Counter[str]:
    """The symbols of plain mathematics, as they are to be drawn; braces and spaces only group."""
    parts = []
    for found in formulas.TOKEN.finditer(text):
        token = found[0]
        known = formulas.GREEK.get(token) or formulas.SIGNS.get(token)
        parts.append(known or ("′" * len(token) if found["prime"] else token))
    return count("".join(parts))


def symbols_drawn(mathml: str) -> Counter[str]:
    return count(html.unescape(re.sub(r"<[^>]*>", "", mathml)))


def count(text: str) -> Counter[str]:
    alike = {"∗": "·", "’": "′", "∑": "sum", "∏": "prod", "∫": "int"}
    return Counter(re.sub(r"[\s{}_^]", "", "".join(alike.get(sign, sign) for sign in text)))


@pytest.mark.parametrize("note", [*NOTES, DOCS / "certificates.md"], ids=lambda note: note.stem)
def test_no_symbol_of_a_note_is_lost_or_added_when_it_is_drawn(note: Path) -> None:
    text = note.read_text()
    for line in re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE):
        assert symbols_drawn(formulas.write_display(line)) == symbols_of(line), line
    for paragraph in text.split("\n\n"):
        pieces = list(formulas.split_prose(paragraph))
        assert "".join(piece for _, piece in pieces) == paragraph
        for word in (piece for is_formula, piece in pieces if is_formula):
            assert symbols_drawn(formulas.write_formula(word)) == symbols_of(word), word


@pytest.mark.parametrize(
    ("plain", "drawn"),
    [
        ("H_{k-1}", "<msub><mi>H</mi><mrow><mi>k</mi>"),
        (
            "S^l_{k_l}",
            "<msubsup><mi>S</mi><mrow><msub><mi>k</mi><mi>l</mi></msub></mrow><mi>l</mi></msubsup>",
        ),
        ("(x - y)_+", '<msub><mo stretchy="false">)</mo><mo form="prefix">+</mo></msub>'),
        ("x'^2", "<msup><mi>x</mi><mrow><mo>′</mo><mn>2</mn></mrow></msup>"),
        ("D'", "<msup><mi>D</mi><mo>′</mo></msup>"),
        ("P* = Q", "<msup><mi>P</mi><mo>∗</mo></msup>"),
        ("2 * x", ">·<"),
        ("e^-ell", '<msup><mi>e</mi><mrow><mo form="prefix">−</mo><mi>ℓ</mi></mrow></msup>'),
        ("e^(a+1)", '<msup><mi>e</mi><mrow><mo stretchy="false">(</mo>'),
        ("D~_i", '<msub><mover accent="true"><mi>D</mi><mo>~</mo></mover><mi>i</mi></msub>'),
        ("gaussian_remove_dominates_add", "<mtext>gaussian_remove_dominates_add</mtext>"),
    ],
)
def test_plain_mathematics_is_drawn_as_it_is_read(plain: str, drawn: str) -> None:
    assert drawn in formulas.write_formula(plain)


# -- the built site ------------------------------------------------------------------------------------------

GOOD = '<link rel="stylesheet" href="style.css"><h1 id="top">x</h1><a href="other.html#there">y</a>'


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (GOOD, ""),
        ('<a href="https://example.org">may be clicked</a>', ""),
        ('<script src="https://example.org/a.js"></script>', "loads https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "loads //example.org/a.css"),
        ('<img src="gone.png">', "leads to gone.png"),
        ('<a href="gone.html">x</a>', "leads to gone.html"),
        ('<a href="other.html#nowhere">x</a>', "no such place"),
        ('<a href="#nowhere">x</a>', "no such place"),
        ("<style>@import url(http://example.org/a.css);</style>", "loads from elsewhere"),
    ],
)
def test_loads_from_elsewhere_and_dead_links_are_found(tmp_path: Path, page: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text('<p id="there">')
    (tmp_path / "style.css").write_text("p { color: black }")
    faults = list(check_site.find_faults(tmp_path.resolve()))
    assert [fault in each for each in faults] == ([True] if fault else [])


def test_a_style_that_loads_from_elsewhere_and_an_empty_site_are_found(tmp_path: Path) -> None:
    assert "holds no pages" in next(check_site.find_faults(tmp_path))
    (tmp_path / "index.html").write_text(GOOD.replace("other.html#there", "#top"))
    (tmp_path / "style.css").write_text("@font-face { src: url(https://example.org/a.woff) }")
    assert "style.css loads" in next(check_site.find_faults(tmp_path))
