"""The examples in README.md and docs/ do what they say."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?:python|pycon|py)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"needs=([\w,]+)")  # a block opened by ```python needs=torch runs where torch is installed
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_blocks(text: str, needs: str = "") -> list[tuple[int, str]]:
    """Every fenced Python block of a page that needs these libraries, with the number of its first line."""
    return [
        (text.count("\n", 0, match.start(2)), match.group(2))
        for match in FENCE.finditer(text)
        if libraries(match[1]) == needs
    ]


def libraries(opening: str) -> str:
    """The libraries that the opening line of a block names."""
    named = NEEDS.search(opening)
    return named[1] if named else ""


def needy() -> list[tuple[Path, str]]:
    """Every page with the sets of libraries its blocks need."""
    return [
        (page, needs)
        for page in PAGES
        for needs in sorted({libraries(m[1]) for m in FENCE.finditer(page.read_text())} - {""})
    ]


@pytest.mark.parametrize(
    ("page", "needs"), needy(), ids=lambda part: part.name if isinstance(part, Path) else part
)
@pytest.mark.filterwarnings("ignore:Secure RNG turned off")  # Opacus says so to everyone without torchcsprng
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # and torch so to everyone who uses Opacus
@pytest.mark.filterwarnings(
    "ignore:The 'train_dataloader' does not have many workers"
)  # and Lightning, always
@pytest.mark.filterwarnings(
    "ignore:.isinstance.treespec, LeafSpec"
)  # which asks torch in the way of last year
@pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha")  # Opacus, while it looks for noise
@pytest.mark.filterwarnings(
    "ignore:The accountant 'tightrope' is for Poisson"
)  # what a page is there to show
@pytest.mark.usefixtures("contrasted_once")
def test_examples_that_need_a_library_do_what_the_page_says(page: Path, needs: str) -> None:
    for library in needs.split(","):
        pytest.importorskip(library, reason=f"{library} is not installed: make training")
    assert run_examples(page.read_text(), page.name, needs).failed == 0


def run_examples(text: str, name: str, needs: str = "") -> doctest.TestResults:
    """All `>>>` examples of a page, in order and in one namespace."""
    # everything that is not a Python block becomes blank lines, so that line numbers stay those of the page
    lines = [""] * (text.count("\n") + 1)
    for first, block in python_blocks(text, needs):
        if ">>>" in block:
            for offset, line in enumerate(block.splitlines()):
                lines[first + offset] = line
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {}, name, name, 0)
    return doctest.DocTestRunner(optionflags=OPTIONS).run(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("contrasted_once")
def test_examples_do_what_the_page_says(page: Path) -> None:
    assert run_examples(page.read_text(), page.name).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_without_a_prompt_runs_as_it_stands(page: Path) -> None:
    names: dict[str, object] = {}
    for first, block in python_blocks(page.read_text()):
        if ">>>" not in block:
            exec(compile("\n" * first + block, str(page), "exec"), names)


def test_the_way_in_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_a_wrong_example_would_be_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    page = "words\n\n```python\n>>> x = 1\n```\n\nmore words\n\n```python\n>>> x + 1\n3\n```\n"
    assert run_examples(page, "page") == (1, 2)
    assert "line 10" in capsys.readouterr().out
    assert run_examples(page.replace("\n3\n", "\n2\n"), "page") == (0, 2)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


def anchors(text: str) -> set[str]:
    """The places of a page that a link may name: its headings as code hosts spell them."""
    headings = re.findall(r"^#+ +(.+?) *$", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S), re.M)
    spoken = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in spoken}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_a_heading_find_it(page: Path) -> None:
    for target, place in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        if "://" not in target and (not target or target.endswith(".md")):
            there = page.parent / target if target else page
            assert place in anchors(there.read_text()), f"{target}#{place}"
