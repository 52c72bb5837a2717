"""tightrope filter: a menu, a budget and a file, on the command line."""

import json
from pathlib import Path

import pytest

import tightrope as tr
from shell import Shell
from tightrope.answers.filter_file import FILTER_FILE
from tightrope.errors import InvalidSetting

MENU = """
relation = "add-or-remove"
[[run]]
name = "calm"
mechanism = "gaussian"
noise_multiplier = 40
sampling = "every-record"
steps = 1
[[run]]
name = "bold"
mechanism = "gaussian"
noise_multiplier = 20
sampling = "every-record"
steps = 1
"""
BUDGET = "--epsilon 1 --delta 1e-5"


@pytest.fixture
def menu(tmp_path: Path) -> Path:
    path = tmp_path / "menu.toml"
    path.write_text(MENU)
    return path


def test_a_menu_says_what_fits_and_what_the_freedom_costs(shell: Shell, menu: Path) -> None:
    code, out, err = shell(f"filter {menu} {BUDGET}")
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == (
        "Whatever is chosen, everything released is (1, 1e-05)-private; "
        "to choose on the way costs nothing here."
    )
    entries = [tr.Step(tr.Gaussian(noise_multiplier=noise), tr.EveryRecord()) for noise in (40, 20)]
    made = tr.Filter(menu=entries, epsilon=1, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    rows = [line.split() for line in lines if line.startswith(("1 ", "2 "))]
    assert [(name, int(fits), int(left)) for _, name, fits, _, left in rows] == [
        (name, row.fits, row.left) for name, row in zip(("calm", "bold"), made.rows, strict=True)
    ]


def test_a_file_is_spent_from_and_never_beyond(shell: Shell, menu: Path, tmp_path: Path) -> None:
    kept = tmp_path / "budget.json"
    code, _, err = shell(f"filter {menu} {BUDGET} --out {kept}")
    assert code == 0
    assert f"wrote {kept}" in err
    left = tr.Filter.load(kept).rows[1].left
    code, out, _ = shell(f"filter {kept} --spend 2 --times {left} --json")
    assert code == 0
    assert json.loads(out)["entries"][1]["left"] == 0
    code, _, err = shell(f"filter {kept} --spend 2")
    assert code == 2
    assert "--times must be at most 0, what is left of entry 2, got 1" in err
    assert tr.Filter.load(kept).spent.steps == left
    assert shell(f"filter {kept} --brief")[1].splitlines()[1] == "0"


def test_how_often_without_which_entry_is_refused(shell: Shell, menu: Path, tmp_path: Path) -> None:
    kept = tmp_path / "budget.json"
    shell(f"filter {menu} {BUDGET} --out {kept}")
    for file in (kept, menu):
        code, _, err = shell(f"filter {file} --times 10")
        assert code == 2
        assert "--times is how often the entry of --spend is taken" in err
    assert not tr.Filter.load(kept).spent


def test_a_file_is_certified_anew(shell: Shell, menu: Path, tmp_path: Path) -> None:
    kept = tmp_path / "budget.json"
    shell(f"filter {menu} {BUDGET} --out {kept}")
    code, out, _ = shell(f"filter {kept} --verify")
    assert (code, out) == (0, f"{kept} holds: its budget was certified anew, with the same costs.\n")
    made = tr.Filter.load(kept)
    object.__setattr__(made.rule, "capacity", 2 * made.rule.capacity)
    assert not made.is_certified_anew()
    other = tmp_path / "other.json"
    made.save(other)
    code, out, _ = shell(f"filter {other} --verify")
    assert code == 4
    assert "is not confirmed" in out


def test_a_budget_that_no_entry_fits_into_is_not_confirmed(shell: Shell, menu: Path, tmp_path: Path) -> None:
    kept = tmp_path / "budget.json"
    shell(f"filter {menu} {BUDGET} --out {kept}")
    table = json.loads(kept.read_text())
    table["epsilon"] = 1e-6
    for key in ("sha256", "format", "version"):
        table.pop(key)
    kept.write_bytes(FILTER_FILE.seal(table))
    code, out, _ = shell(f"filter {kept} --verify")
    assert code == 4
    assert "is not confirmed" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{menu}", "--epsilon and --delta must be given"),
        ("{menu} --epsilon 1", "--delta must be given"),
        ("{menu} {budget} --spend 1", "--spend is about a filter that is kept"),
        ("{menu} {budget} --out budget.txt", "--out must be a .json file"),
        ("{kept} --epsilon 1", "holds its budget"),
        ("{kept} --spend 1 --times 0", "--times must be at least 1, got 0"),
        ("{kept} --spend 3", "--spend must be the number of an entry, 1 to 2, got 3"),
    ],
)
def test_what_contradicts_is_refused(shell: Shell, menu: Path, tmp_path: Path, words: str, said: str) -> None:
    kept = tmp_path / "budget.json"
    shell(f"filter {menu} {BUDGET} --out {kept}")
    code, _, err = shell("filter " + words.format(menu=menu, kept=kept, budget=BUDGET))
    assert code == 2
    assert said in err


def test_one_menu_has_one_relation(shell: Shell, menu: Path) -> None:
    menu.write_text(MENU.replace('name = "bold"', 'name = "bold"\nrelation = "substitute"'))
    code, _, err = shell(f"filter {menu} {BUDGET}")
    assert code == 2
    assert "must state one relation for the whole menu, got add-or-remove, substitute" in err


def test_a_statement_about_a_filter_is_refused_with_what_to_do() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=20), tr.EveryRecord())
    made = tr.Filter(menu=[step], epsilon=1, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    facts = tr.Facts(
        name="x", setting="central", unit="record", data_accesses="one", tuning="none", outputs="all"
    )
    with pytest.raises(InvalidSetting, match=r"tightrope filter budget\.json --verify"):
        tr.statement(made, relation=tr.ADD_OR_REMOVE, delta=1e-5, facts=facts)  # type: ignore[arg-type]
