"""The file of a filter: what is spent outlives a process, and no budget is spent twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.answers.sealed_json import SealedJson

SMALL = tr.Step(tr.Gaussian(noise_multiplier=40), tr.EveryRecord())
LARGE = tr.Step(tr.Gaussian(noise_multiplier=13), tr.EveryRecord())
COIN = tr.Step(tr.RandomizedResponse(truth_probability=0.6), tr.Poisson(rate=0.5))


def free() -> tr.Filter:
    return tr.Filter(menu=[SMALL, LARGE * 2], epsilon=2, delta=1e-5, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(
    "make",
    [
        free,
        lambda: tr.Filter(menu=[COIN], steps=3, epsilon=1, delta=0.3, relation=tr.ADD),
        lambda: tr.Filter(menu=[SMALL], epsilon=2, delta=1e-5, relation=tr.ADD_OR_REMOVE.of(3)),
    ],
    ids=["Gaussian", "game", "group"],
)
def test_a_loaded_filter_goes_on_where_it_was_saved(make: Callable[[], tr.Filter], tmp_path: Path) -> None:
    budget = make()
    first = budget.menu[0]
    budget.spend(first)
    budget.save(tmp_path / "filter.json")
    loaded = tr.Filter.load(tmp_path / "filter.json")
    assert loaded.rule == budget.rule
    assert loaded.relation is budget.relation
    assert loaded.rows == budget.rows
    assert loaded.spent == budget.spent == first
    assert str(loaded) == str(budget)
    loaded.spend(first)
    loaded.save(tmp_path / "filter.json")
    assert tr.Filter.load(tmp_path / "filter.json").remaining(first) == budget.remaining(first) - 1


def test_small_integers_of_numpy_neither_overflow_nor_spoil_the_file(tmp_path: Path) -> None:
    budget, path = free(), tmp_path / "filter.json"
    for _ in range(2):
        budget.spend(SMALL, np.int8(100))  # type: ignore[arg-type]
    budget.save(path)
    assert budget.spent == tr.Filter.load(path).spent == SMALL * 200


def test_a_file_that_another_filter_spent_from_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "filter.json"
    free().save(path)
    ours, theirs = tr.Filter.load(path), tr.Filter.load(path)
    theirs.spend(SMALL, 3)
    theirs.save(path)
    ours.spend(SMALL)
    with pytest.raises(tr.UnusableFile, match="would spend it twice"):
        ours.save(path)
    with pytest.raises(tr.UnusableFile, match="would spend it twice"):
        free().save(path)
    assert tr.Filter.load(path).spent == SMALL * 3


def test_a_file_that_is_gone_is_not_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "filter.json"
    kept = free()
    kept.save(path)
    path.unlink()
    with pytest.raises(tr.UnusableFile):
        kept.save(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(capacity="many"), "capacity"),
        (lambda d: d.update(capacity="1/0"), "capacity"),
        (lambda d: d.update(surplus=1), "surplus = 1 is not a known key"),
        (lambda d: d["menu"][0].update(times=-1), "times must be a whole number"),
        (lambda d: d["menu"][0].update(times=2.5), "times must be a whole number"),
        (lambda d: d["menu"][0].update(cost="-1"), "cost must be a fraction"),
        (lambda d: d.update(rule="hope"), "rule must be a known name"),
        (lambda d: d.pop("delta"), "delta is missing"),
        (lambda d: d.update(delta="small"), "delta"),
        (lambda d: d.update(delta=3.0), "is not as a filter writes it"),
        (lambda d: d["menu"].clear(), "is not as a filter writes it"),
        (lambda d: d["menu"].append(d["menu"][0]), "is not as a filter writes it"),
        (lambda d: d["menu"][0].update(times=10**6), "is not as a filter writes it"),
        (lambda d: d["menu"][0].update(alone=0), "is not as a filter writes it"),
    ],
)
def test_a_file_that_holds_no_filter_is_refused(
    change: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "filter.json"
    free().save(path)
    document = json.loads(path.read_text())
    change(document)
    for key in ("sha256", "format", "version"):
        document.pop(key)
    path.write_bytes(SealedJson("tightrope-filter", 1).seal(document))
    with pytest.raises(tr.InvalidSetting, match=said):
        tr.Filter.load(path)


NOBODY = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0))
RARE = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05))


@pytest.mark.parametrize(
    ("menu", "steps"), [([RARE], None), ([RARE], 7), ([NOBODY], 3), ([NOBODY], None), ([RARE, NOBODY], 7)]
)
def test_every_filter_is_certified_anew_however_it_was_made(menu: list[tr.Step], steps: int | None) -> None:
    budget = tr.Filter(menu=menu, steps=steps, epsilon=2, delta=1e-5, relation=tr.REMOVE)
    assert budget.is_certified_anew()
    budget._times[0] = 10**9
    assert budget.is_certified_anew() == (menu[0] is NOBODY)  # spent beyond the budget, if it costs anything


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "filter.json"
    free().save(path)
    path.write_text(path.read_text().replace('"times": 0', '"times": 1'))
    with pytest.raises(tr.InvalidSetting, match=r"sha256 must be the checksum.*restore it from a copy\.$"):
        tr.Filter.load(path)


def test_the_file_of_a_ledger_is_said_to_be_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    tr.Ledger(relation=tr.ADD).save(path)
    with pytest.raises(tr.InvalidSetting, match=r"got 'tightrope-ledger'\. It is a file of another kind"):
        tr.Filter.load(path)
