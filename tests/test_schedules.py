"""How steps came to be chosen: a ledger says it, its file keeps it, and statements hold it to that."""

import dataclasses
import json
from pathlib import Path

import pytest

import tightrope as tr
from tightrope.answers.ledger_file import LEDGER_FILE
from tightrope.setting.run import PLANNED
from tightrope.statements.checks import parse_statement
from tightrope.statements.render import render_json, render_markdown

STEP = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
OTHER = tr.Step(tr.Gaussian(noise_multiplier=1.0), tr.Poisson(rate=1e-3))
FIXED, CHOSEN = "fixed in advance", "chosen on the way"
FACTS = tr.Facts(
    name="digits",
    setting="central",
    unit="example",
    data_accesses="one training run",
    tuning="none",
    outputs="the final model",
)


def ledger(schedule: str | None) -> tr.Ledger:
    kept = tr.Ledger(relation=tr.ADD_OR_REMOVE, schedule=schedule)
    kept.record(STEP * 100 + OTHER * 50)
    return kept


def test_a_schedule_fixed_in_advance_answers_without_a_condition() -> None:
    kept, unsaid = ledger(FIXED), ledger(None)
    assert unsaid.conditions == (PLANNED,)
    assert kept.conditions == ()
    assert kept.epsilon(1e-6) == unsaid.epsilon(1e-6)
    assert str(kept).startswith("Ledger under ADD_OR_REMOVE: 150 steps, fixed in advance\n")


def test_a_ledger_of_chosen_steps_refuses_to_compose_them_and_points_to_a_filter() -> None:
    kept = ledger(CHOSEN)
    for ask in (
        lambda: kept.epsilon(1e-6),
        lambda: kept.delta(1.0),
        lambda: kept.remaining(1, 1e-6),
        kept.curve,
    ):
        with pytest.raises(
            tr.NoTheorem, match=r"chosen on the way bounds nothing\. Declare .* Filter\(menu="
        ):
            ask()
    assert kept.run == STEP * 100 + OTHER * 50


def test_another_word_for_a_schedule_is_refused() -> None:
    with pytest.raises(tr.InvalidSetting, match="schedule must be 'fixed in advance' or 'chosen on the way'"):
        ledger("adaptive")


@pytest.mark.parametrize("schedule", [None, FIXED, CHOSEN])
def test_the_file_of_a_ledger_keeps_its_schedule(schedule: str | None, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger(schedule).save(path)
    assert json.loads(path.read_text()).get("schedule") == schedule
    loaded = tr.Ledger.load(path)
    assert loaded.schedule == schedule
    assert loaded == ledger(schedule)
    if schedule is not None:
        assert loaded != ledger(None)
        with pytest.raises(tr.UnusableFile, match="is kept with the schedule"):
            tr.Ledger.open(path, relation=tr.ADD_OR_REMOVE)
    assert tr.Ledger.open(path, relation=tr.ADD_OR_REMOVE, schedule=schedule) == loaded


def test_the_schedule_of_a_file_is_one_of_two_words(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger(FIXED).save(path)
    document = json.loads(path.read_text()) | {"schedule": "fixed by hand"}
    for key in ("sha256", "format", "version"):
        document.pop(key)
    path.write_bytes(LEDGER_FILE.seal(document))
    with pytest.raises(tr.InvalidSetting, match="schedule must be 'fixed in advance' or"):
        tr.Ledger.load(path)


def test_a_statement_says_the_schedule_of_its_ledger() -> None:
    made = tr.statement(ledger(FIXED), delta=1e-6, facts=FACTS)
    assert made.schedule == FIXED
    assert made.claim.standing == "proved"
    assumed = [one for one in made.assumptions if PLANNED in one.says.lower()]
    assert [(one.holds, one.because) for one in assumed] == [("not checked", "It is stated.")]
    assert parse_statement(render_json(made), where="here") == made
    assert "| schedule | fixed in advance |" in render_markdown(made)
    assert tr.verify(made).holds


def test_a_statement_about_chosen_steps_is_not_proved_and_does_not_verify() -> None:
    kept = ledger(CHOSEN)
    with pytest.raises(tr.InvalidSetting, match=r"nothing is proved .*steps were chosen on the way"):
        tr.statement(kept, delta=1e-6, facts=FACTS)
    made = tr.statement(kept, delta=1e-6, facts=FACTS, epsilon=5.0)
    assert made.claim.standing == "not proved"
    found = tr.verify(made)
    assert not found.holds
    assert any("chosen on the way" in line for line in found.unknown)
    assert str(found).splitlines()[-1].startswith("Had the steps been fixed in advance: accounted as")


def test_a_statement_that_claims_proof_for_chosen_steps_is_caught() -> None:
    made = tr.statement(ledger(FIXED), delta=1e-6, facts=FACTS)
    forged = made.model_copy(update={"schedule": CHOSEN})
    found = tr.verify(forged)
    assert any(
        "claim.standing = 'proved' is not what is found now, 'not proved'" in line for line in found.problems
    )


def test_facts_say_the_schedule_of_a_run_and_may_not_contradict_a_ledger() -> None:
    said = dataclasses.replace(FACTS, schedule=FIXED)
    assert tr.statement(STEP * 10, relation=tr.ADD, delta=1e-6, facts=said).schedule == FIXED
    assert tr.statement(ledger(FIXED), delta=1e-6, facts=said).schedule == FIXED
    with pytest.raises(tr.InvalidSetting, match="schedule must be that of the ledger"):
        tr.statement(ledger(CHOSEN), delta=1e-6, facts=said, epsilon=5.0)
    with pytest.raises(tr.InvalidSetting, match="schedule"):
        tr.statement(STEP * 10, relation=tr.ADD, delta=1e-6, facts=dataclasses.replace(FACTS, schedule="?"))
