"""tightrope spent: a ledger's file on the command line, and its statement, with what nobody could check."""

import json
from pathlib import Path

import pytest

import tightrope as tr
from ledgers import RELEASE, STEP, ledger
from shell import Shell
from tightrope.statements.make import Facts, state_ledger

PLANNED = "the steps were planned before any output was seen"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "ledger.json"
    ledger(STEP * 3, RELEASE).save(place)
    return place


def test_a_ledger_tells_what_is_spent_and_on_what_that_rests(shell: Shell, path: Path) -> None:
    code, out, err = shell(f"spent {path} --delta 1e-6 1e-5 --why")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("epsilon is at most ")
    assert lines[0].endswith(
        f"everything in {path}, Poisson sampling and full batches, add or remove one record."
    )
    assert lines[1] == f"This holds if {PLANNED}."
    assert lines[3:5] == [f"ledger    {path}", "steps     4"]
    assert lines[5].startswith("3 x       gaussian, noise multiplier 0.8")
    assert lines[6].startswith("1 x       laplace, noise multiplier 4.0")
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("1e-0")}
    for delta, ends in rows.items():
        found = tr.epsilon(STEP * 3 + RELEASE, delta=float(delta), relation=tr.ADD_OR_REMOVE)
        assert float(ends[0]) <= found.lower <= found.upper <= float(ends[1])
    assert len(rows) == 2


def test_json_has_the_same_numbers_as_python_and_its_conditions(shell: Shell, path: Path) -> None:
    code, out, _ = shell(f"spent {path} --delta 1e-6 --json")
    told = json.loads(out)
    found = tr.Ledger.load(path).epsilon(1e-6)
    assert code == 0
    assert told["brackets"][0]["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert told["conditions"] == [PLANNED]
    assert [part["steps"] for part in told["parts"]] == [3, 1]
    assert told["relation"]["kind"] == "add-or-remove"


def test_steps_of_one_kind_rest_on_nothing_more(shell: Shell, tmp_path: Path) -> None:
    ledger(STEP * 3).save(tmp_path / "ledger.json")
    assert PLANNED not in shell(f"spent {tmp_path / 'ledger.json'} --delta 1e-6")[1]
    assert json.loads(shell(f"spent {tmp_path / 'ledger.json'} --delta 1e-6 --json")[1])["conditions"] == []


def test_what_is_no_ledger_and_what_is_no_delta_are_refused(shell: Shell, path: Path) -> None:
    code, out, err = shell(f"spent {path.parent / 'none.json'} --delta 1e-6")
    assert (code, out) == (2, "")
    assert "none.json could not be read: No such file or directory" in err
    code, out, err = shell(f"spent {path} --delta 0")
    assert (code, out) == (2, "")
    assert "--delta must be in (0, 1), got 0" in err


def test_a_statement_lists_the_plan_among_what_nobody_checked() -> None:
    facts = Facts(
        name="digits",
        setting="central",
        unit="example",
        data_accesses="one training run",
        tuning="none",
        outputs="the final model",
    )
    other = tr.Step(tr.Gaussian(noise_multiplier=1), STEP.sampling)
    for kept, times in ((ledger(STEP * 3), 0), (ledger(STEP * 3, other), 1)):
        made = state_ledger(kept, delta=1e-6, facts=facts)
        says = [one.holds for one in made.assumptions if PLANNED in one.says.lower()]
        assert says == ["not checked"] * times
