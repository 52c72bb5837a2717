"""python -m reproduction paper --quick, whole: the claims, the page that holds them, and what is refused."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from subprocess import run

import pytest

from quick_paper import ITEMS, quick
from reproduction.__main__ import plain_claim
from reproduction.markdown import markdown_table
from reproduction.paper.item import AGREES, CORRECTED, UNDECIDED, Item, Made, PaperClaim, PaperVerdict
from reproduction.paper.page import page_text
from shell import Shell

ROOT = Path(__file__).parent.parent
Claims = list[dict[str, str]]


@pytest.fixture
def claims() -> Claims:
    """The claims of a quick run of everything."""
    return [plain_claim(name, claim) for name in ITEMS for claim in quick(name).made.claims]


def of(claims: Claims, item: str, where: str = "") -> Claims:
    return [claim for claim in claims if claim["item"] == item and where in claim["where"]]


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+\.\d+(?:e-?\d+)?", text)]


def test_every_item_makes_claims_and_every_correction_is_argued(claims: Claims) -> None:
    assert {claim["item"] for claim in claims} == set(ITEMS)
    for claim in claims:
        assert claim["paper"], claim
        assert claim["certified"], claim
        assert claim["verdict"] in ("agrees", "sharpened", "printed as an upper bound", "corrected")
        if claim["verdict"] == "corrected":
            assert len(claim["why"]) > 40, claim


def test_the_corrections_are_those_that_are_known(claims: Claims) -> None:
    """Prop. 11 twice, the number of draws, the densities, Thm. 15, the last conjecture twice, the bias."""
    corrected = Counter(claim["item"] for claim in claims if claim["verdict"] == "corrected")
    assert corrected == {
        "figure-1": 3,
        "randomized-response": 1,
        "figure-4": 1,
        "closing-conjecture": 2,
        "dataset-size": 1,
    }
    (count,) = [claim for claim in claims if "3,342,306" in claim["paper"]]
    assert "4,493,599" in count["certified"]


def test_the_numbers_of_table_1_are_valid_as_printed_with_the_exact_ones_beside_them(claims: Claims) -> None:
    bounds = Counter(claim["item"] for claim in claims if claim["verdict"] == "printed as an upper bound")
    assert bounds == {"table-1": 7}
    (cell,) = [claim for claim in of(claims, "table-1") if claim["paper"] == "0.96"]
    assert any(0.947195 < value < 0.947197 for value in numbers(cell["certified"]))
    for claim in of(claims, "table-1", "δ = "):
        assert numbers(claim["certified"])[1] < float(claim["paper"]), claim


def test_the_crossing_of_two_laplace_steps_has_ten_digits(claims: Claims) -> None:
    crossing = next(claim for claim in of(claims, "figure-1") if "cross" in claim["paper"])
    low, high = numbers(crossing["certified"])[:2]
    assert low <= 0.3712791827 <= high
    assert high - low < 1e-8


def test_the_exact_fractions_are_there(claims: Claims) -> None:
    said = " ".join(claim["certified"] for claim in of(claims, "randomized-response"))
    for fraction in ("11/48", "1/6", "1/16", "1/8"):
        assert fraction in said


def test_nothing_contradicts_conjecture_12(claims: Claims) -> None:
    assert {claim["verdict"] for claim in of(claims, "conjecture-12")} <= {"agrees", "sharpened"}


def test_the_page_holds_every_claim_and_every_picture(claims: Claims, tmp_path: Path) -> None:
    made = [(item, quick(name).made) for name, item in ITEMS.items()]
    page = page_text(made, tmp_path / "paper.md", tmp_path, "a command", quick=True)
    assert "This is the quick version" in page
    for claim in claims:
        assert claim["certified"] in page
    links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)
    assert len(links) >= 6
    for link in links:
        assert (tmp_path / link).stat().st_size > 20_000
        assert (tmp_path / link).with_suffix(".pdf").exists()


def test_the_command_makes_the_same_claims_and_the_same_bytes(claims: Claims, tmp_path: Path) -> None:
    names = ("randomized-response", "table-1")
    words = ["paper", "--out", str(tmp_path), "--quick", "--json", "--item", *names]
    command = [sys.executable, "-W", "error", "-m", "reproduction", *words]
    done = run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["claims"] == [claim for claim in claims if claim["item"] in names]
    files = [file for name in names for file in quick(name).made.files]
    assert said["files"] == [str(tmp_path / file.name) for file in files]
    for file in files:
        assert file.read_bytes() == (tmp_path / file.name).read_bytes(), file.name
    page = (tmp_path / "paper.md").read_text()
    assert f"python -m reproduction paper --out {tmp_path} --quick --item {' '.join(names)}" in page


def test_without_json_the_command_prints_a_table(reproduce: Shell, tmp_path: Path) -> None:
    code, out, _ = reproduce(f"paper --out {tmp_path} --item table-1 --quick")
    assert code == 0
    assert "3 agrees, 0 sharpened, 7 printed as an upper bound, 0 corrected, 0 undecided" in out
    assert f"The page: {tmp_path / 'paper.md'}" in out


def test_an_item_that_does_not_exist_is_refused_with_those_that_do(reproduce: Shell, tmp_path: Path) -> None:
    code, out, err = reproduce(f"paper --out {tmp_path / 'new'} --item figure-9")
    assert (code, out) == (2, "")
    assert "--item figure-9 is no part of the paper" in err
    assert "figure-1" in err
    assert not (tmp_path / "new").exists()


def test_bad_options_are_refused_before_anything_is_made(reproduce: Shell, tmp_path: Path) -> None:
    for words, said in (
        (f"--out {tmp_path} --item", "--item"),
        (f"--out {tmp_path} --page {tmp_path} --item table-1", "--page must be a file"),
    ):
        code, out, err = reproduce(f"paper {words}")
        assert (code, out) == (2, "")
        assert said in err
    assert list(tmp_path.iterdir()) == []


def test_the_page_decides_every_claim() -> None:
    assert sum(count_verdicts().values()) == 51
    assert count_verdicts()[UNDECIDED] == 0


def test_where_the_readme_counts_claims_it_counts_those_of_the_page() -> None:
    counts = count_verdicts()
    for said in re.findall(r"Of \d+ claims[^.:]*", " ".join((ROOT / "README.md").read_text().split())):
        stated = [int(number) for number in re.findall(r"\d+", said)]
        assert stated == [counts.total(), *(counts[verdict] for verdict in PaperVerdict if counts[verdict])]


def count_verdicts() -> Counter[PaperVerdict]:
    """How many claims of docs/paper.md have each verdict."""
    words = "|".join(verdict.value for verdict in PaperVerdict)
    page = (ROOT / "docs" / "paper.md").read_text()
    return Counter(PaperVerdict(word) for word in re.findall(rf"\*\*({words})\*\* \|$", page, re.MULTILINE))


def test_a_folder_that_cannot_be_is_refused(reproduce: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = reproduce(f"paper --out {tmp_path / 'file'} --item table-1 --quick")
    assert code == 2
    assert "cannot be made" in err


def test_a_page_of_invented_claims_reads_as_expected(tmp_path: Path) -> None:
    item = Item("x", "Fig. 9: a thing", lambda making: Made(()))
    made = Made(
        (PaperClaim("Fig. 9", "1", "2", CORRECTED, "Because."), PaperClaim("Fig. 9", "3", "3", AGREES)),
        files=(tmp_path / "figures" / "x.png", tmp_path / "figures" / "x.csv"),
        captions=("Seen.",),
        passage="Words.",
    )
    text = page_text(
        [(item, made)],
        tmp_path / "paper.md",
        tmp_path / "figures",
        "python -m reproduction paper",
        quick=False,
    )
    assert "](figures/x.png)" in text
    assert "x.csv" not in text
    assert "| Fig. 9 | 1 | 2 | **corrected** |" in text
    assert "*Fig. 9, corrected.* Because." in text
    assert "[Fig. 9: a thing](#fig-9-a-thing) | 1 agrees, 1 corrected |" in text
    assert "quick version" not in text
    assert f"`python -m reproduction paper --out {tmp_path / 'figures'} --item x`" in text
    assert markdown_table([["a"], ["b"]]).splitlines()[1] == "|---|"
