"""Pages that commands write are what the commands write now, where that takes seconds.

docs/findings/published.md is compared in test_recheck.py, with the settings it is made of.
"""

import json
import math
import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reproduction.paper.item import Making, PaperVerdict, load_items
from reproduction.paper.page import page_text
from shell import Shell
from tightrope import Bracket

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAPER = (DOCS / "paper.md").read_text()
QUICK_ITEMS = ("randomized-response", "table-1", "figure-3")  # the others take from 15 s to minutes
STATEMENTS = [
    (source, name, kind, ending)
    for source, name in (("statement", "digits"), ("laplace_release", "visits"))
    for kind, ending in (("json", "json"), ("md", "md"), ("latex", "tex"), ("registry", "yaml"))
]
# Ends of brackets, which alone have so many digits. The last ones are the processor's: libraries add in the
# order of its vectors, and ends differed by 1e-15 in what was tried. 1e-11 leaves room for other libraries;
# the bracket of the sampled run is thousands of times wider.
LONG_NUMBER = re.compile(r"\d+\.\d{10,}(?:e[+-]?\d+)?")
LATE_DIGITS = 1e-11


def agree(made: str, kept: str) -> bool:
    """Whether both are the same to the last character, but for late digits of long numbers."""
    found, known = (list(map(float, LONG_NUMBER.findall(text))) for text in (made, kept))
    is_same = LONG_NUMBER.sub("(number)", made) == LONG_NUMBER.sub("(number)", kept)
    return is_same and found == pytest.approx(known, rel=LATE_DIGITS, abs=0)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def test_the_theorem_page_is_the_table_of_theorems(shell: Shell) -> None:
    code, out, _ = shell("theorems --markdown")
    assert code == 0
    assert out == (DOCS / "theorems.md").read_text(), "run: make docs"


@pytest.mark.parametrize(("source", "name", "kind", "ending"), STATEMENTS)
def test_the_statements_are_those_of_their_files(
    shell: Shell, source: str, name: str, kind: str, ending: str
) -> None:
    code, out, _ = shell(f"statement {ROOT}/examples/{source}.toml --format {kind}")
    assert code == 0
    kept = (DOCS / "statements" / f"{name}.{ending}").read_text()
    assert agree(out, kept), "run: make statements"


def test_pages_agree_only_where_nothing_but_late_digits_differs() -> None:
    kept = "between 0.9471956415713866 and 1.5, at 1e-06"
    assert agree(kept, kept.replace("866", "867"))
    assert not agree(kept, kept.replace("5713866", "6713866"))
    assert not agree(kept, kept.replace("1.5", "1.6"))
    assert not agree(kept, kept.replace("between 0.", "from 0."))


def test_the_schema_is_the_one_that_is_printed(shell: Shell) -> None:
    code, out, _ = shell("schema")
    assert code == 0
    assert out == (DOCS / "tightrope-statement-2.schema.json").read_text(), "run: make statements"


def test_the_accountants_page_is_made_of_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DOCS / "findings" / "accountants.csv", tmp_path)
    example("accountants")["main"](["--out", str(tmp_path)])
    made, kept = (folder / "accountants.md" for folder in (tmp_path, DOCS / "findings"))
    assert made.read_text() == kept.read_text(), "run: make accountants"
    assert (tmp_path / "accountants.csv").read_text() == (DOCS / "findings" / "accountants.csv").read_text()
    assert str(made) in capsys.readouterr().out


def test_the_substitution_page_holds_the_grid_of_its_rows() -> None:
    script = example("substitution")
    cases = script["read"](DOCS / "findings" / "substitution.csv")
    section = script["grid_section"]([cases[key] for key in sorted(cases)])
    page = (DOCS / "findings" / "substitution.md").read_text()
    assert section in page, "run: make findings"
    fixed = [re.escape(part) for part in re.split(r"\{\w+\}", script["PAGE"])]
    assert re.fullmatch("(?s:.*)".join(fixed), page), "run: make findings"


def test_the_batching_page_and_its_picture_are_made_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    shutil.copy(DOCS / "findings" / "batching.csv", tmp_path)
    example("batching")["main"](["--out", str(tmp_path), "--figures", str(tmp_path)])
    made, kept = (folder / "batching.md" for folder in (tmp_path, DOCS / "findings"))
    assert made.read_text() == kept.read_text(), "run: make batching"
    assert (tmp_path / "batching.csv").read_text() == (DOCS / "findings" / "batching.csv").read_text()
    assert {file.name for file in tmp_path.glob("*.p*")} == {"batching.png", "batching.pdf"}
    assert str(made) in capsys.readouterr().out


def test_the_commands_of_the_batching_page_make_its_numbers(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    script = example("batching")
    known = script["read"](DOCS / "findings" / "batching.csv")
    assert list(known) == script["questions"](), "run: make batching"
    asked = [each for each in known if (each.noise, each.epochs) == (2, 10)]  # the quickest
    added = ["balls-in-bins", "poisson"]
    assert [each.sampling for each in asked] == [*script["NAMES"], *added]
    for each in asked:
        code, out, _ = shell(each.command.removeprefix("tightrope ") + " --json")
        assert code == 0
        (found,) = json.loads(out)["brackets"]
        assert script["say"](Bracket(**found["epsilon"])) == script["say"](known[each]), each.command


def test_the_shuffles_page_and_its_picture_are_made_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    shutil.copy(DOCS / "findings" / "shuffles.csv", tmp_path)
    example("shuffles")["main"](["--out", str(tmp_path), "--figures", str(tmp_path)])
    made, kept = (folder / "shuffles.md" for folder in (tmp_path, DOCS / "findings"))
    assert made.read_text() == kept.read_text(), "run: make shuffles"
    assert (tmp_path / "shuffles.csv").read_text() == (DOCS / "findings" / "shuffles.csv").read_text()
    assert {file.name for file in tmp_path.glob("*.p*")} == {"shuffles.png", "shuffles.pdf"}
    assert str(made) in capsys.readouterr().out


def test_the_rows_of_the_shuffles_page_are_the_answers_to_its_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    script = example("shuffles_asked")
    known = script["read"](DOCS / "findings" / "shuffles.csv")
    assert list(known) == script["questions"](), "run: make shuffles"
    asked = [each for each in known if (each.noise, each.batches, each.epochs) == (4, 50, 1)]  # the quickest
    assert {each.batching for each in asked} == {*script["NAMES"]} - {"told", "balls-in-bins"}
    for each in asked:
        found = script["ask"](each)
        assert str(found) == str(known[each]), f"{each}; run: make shuffles"


def test_what_the_shuffles_page_shows_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    script = example("shuffles_asked")
    rows = script["read"](DOCS / "findings" / "shuffles.csv")
    known = {each: found for each, found in rows.items() if each.batching != "clones"}  # not certified ends
    for each, found in known.items():
        assert found.lower <= found.upper
        for name in ("noise", "batches", "epochs"):
            others = [other for other in known if replace(other, **{name: getattr(each, name)}) == each]
            larger = [other for other in others if getattr(other, name) > getattr(each, name)]
            for other in larger:  # more noise and more batches hide more, more epochs tell more
                less, more = (each, other) if name == "epochs" else (other, each)
                assert known[less].upper <= known[more].upper, (less, more)


def test_clones_give_what_their_counts_give_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    script = example("shuffles_clones")
    epsilon, local, reports = 0.3, 1.2, 12
    chance, share = math.exp(-local), 1 / (1 + math.exp(-local))
    whole = 0.0
    for clones in range(reports):
        given = 0.0
        for k in range(clones + 2):
            before, here = math.comb(clones, k - 1) if k else 0, math.comb(clones, k)
            first, second = share * before + (1 - share) * here, (1 - share) * before + share * here
            given += max(first - math.exp(epsilon) * second, 0) / 2**clones
        whole += (
            math.comb(reports - 1, clones) * chance**clones * (1 - chance) ** (reports - 1 - clones) * given
        )
    assert script["_clones_delta"](epsilon, local, reports) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("name", QUICK_ITEMS)
def test_the_paper_page_holds_what_its_items_make(name: str, tmp_path: Path) -> None:
    (item,) = (each for each in load_items() if each.name == name)
    made = item.make(Making(tmp_path, False, lambda *words: None))
    figures = Path("docs/figures")
    moved = replace(made, files=tuple(figures / file.name for file in made.files))
    text = page_text([(item, moved)], Path("docs/paper.md"), figures, "a command", quick=False)
    assert text[text.index("## ") :] in PAPER, "run: make paper"


def test_the_paper_page_counts_its_own_verdicts() -> None:
    summary, *sections = PAPER.split("\n## ")
    for section in sections:
        title = section.splitlines()[0]
        found = re.findall(r"\| \*\*(.+)\*\* \|$", section, re.MULTILINE)
        counts = ", ".join(f"{found.count(v.value)} {v.value}" for v in PaperVerdict if v.value in found)
        row = rf"^\| \[{re.escape(title)}\]\(#[^)]*\) \| {counts} \|$"
        assert re.search(row, summary, re.MULTILINE), title


def test_the_page_about_tuning_has_the_rows_that_its_example_prints() -> None:
    page, made = (DOCS / "tuning.md").read_text(), example("tuning")
    for law in ("geometric:20", "poisson:20"):
        assert made["write_row"](law) in page, "run: python examples/tuning.py"
