"""Runs as plain data: exact there and back, and refusals that name place, key, value and expected form."""

import json
import tomllib
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from catalogue import CATALOGUE, Entry
from tightrope.report.words import spell
from tightrope.setting.mechanism import MECHANISM_SPELLINGS
from tightrope.setting.parts import part_of, run_of
from tightrope.setting.plain import plain_run, read_plain_run
from tightrope.setting.relation import RELATION_SPELLINGS
from tightrope.setting.sampling import SAMPLING_SPELLINGS
from tightrope.setting.tables import Table

GAUSSIAN = {
    "mechanism": "gaussian",
    "noise_multiplier": 0.8,
    "sampling": "poisson",
    "rate": 0.001,
    "steps": 10000,
}
FIXED = {**GAUSSIAN, "sampling": "without-replacement", "batch": 1, "population": 1000}
del FIXED["rate"]
FINITE = {
    "mechanism": "finite",
    "observed": [0.75, 0.25],
    "alternative": [0.25, 0.75],
    "sampling": "every-record",
    "steps": 2,
}


def read(part: object) -> tr.Run:
    return part_of(Table.of(part, "ledger.json: parts[2]."))


def refused(part: object) -> str:
    with pytest.raises(tr.InvalidSetting) as refusal:
        read(part)
    return str(refusal.value)


def without(part: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


@pytest.mark.parametrize("part", [GAUSSIAN, FIXED, FINITE], ids=lambda part: part["sampling"])
def test_a_part_is_read_and_written_the_same(part: dict[str, Any]) -> None:
    assert plain_run(read(part)) == [part]


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_run_of_the_catalogue_survives_json(entry: Entry) -> None:
    plain = json.loads(json.dumps(plain_run(entry.run), allow_nan=False))
    assert run_of(Table({"parts": plain}, "file: "), "parts").parts == entry.run.parts


@given(st.floats(1e-6, 1e9), st.floats(1e-300, 1) | st.just(0.0), st.integers(1, 10**15))
def test_floats_survive_json_and_toml_exactly(noise: float, rate: float, steps: int) -> None:
    run = tr.Step(tr.Laplace(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    (plain,) = plain_run(run)
    toml = "\n".join(f"{key} = {json.dumps(value)}" for key, value in plain.items())
    assert read(json.loads(json.dumps(plain))).parts == run.parts
    assert read(tomllib.loads(toml)).parts == run.parts


def test_every_kind_has_one_spelling() -> None:
    for table in (MECHANISM_SPELLINGS, SAMPLING_SPELLINGS, RELATION_SPELLINGS):
        for name, what in table.items():
            assert spell(what) == name


@pytest.mark.parametrize(
    ("part", "reasons"),
    [
        (
            {**GAUSSIAN, "noise_multipler": 1},
            ["noise_multipler = 1 is not a known key", "Did you mean noise_multiplier?"],
        ),
        (
            {**GAUSSIAN, "zzz": 1},
            ["zzz = 1 is not a known key", "Known keys are mechanism, sampling, noise_multiplier"],
        ),
        (
            {**FIXED, "rate": 0.1},
            ["rate = 0.1 contradicts", "sampling without-replacement takes batch, population"],
        ),
        ({**GAUSSIAN, "batch": 3}, ["batch = 3 contradicts", "sampling poisson takes rate"]),
        ({**FINITE, "rate": 0.5}, ["rate = 0.5 contradicts", "sampling every-record takes nothing"]),
        (
            {**GAUSSIAN, "truth_probability": 0.5},
            ["truth_probability = 0.5 contradicts", "gaussian takes noise_multiplier"],
        ),
        (
            without(GAUSSIAN, "sampling"),
            ["sampling is missing", "every-record, poisson, without-replacement"],
        ),
        (
            without(GAUSSIAN, "mechanism"),
            ["mechanism is missing", "gaussian, laplace, randomized-response, finite"],
        ),
        (without(GAUSSIAN, "rate"), ["rate is missing", "sampling poisson", "rate = 0.001"]),
        (without(FIXED, "population"), ["population is missing", "sampling without-replacement"]),
        (without(FINITE, "alternative"), ["alternative is missing", "mechanism finite"]),
        (without(GAUSSIAN, "steps"), ["steps is missing", "steps = 10000"]),
        (
            {**GAUSSIAN, "sampling": "posson"},
            ["sampling must be a known name, got 'posson'", "Did you mean poisson?"],
        ),
        ({**GAUSSIAN, "mechanism": 3}, ["mechanism must be a string, got 3", "Write one of gaussian"]),
        ({**GAUSSIAN, "mechanism": None}, ["mechanism must be a string, got None"]),
        (
            {**GAUSSIAN, "noise_multiplier": -1},
            ["noise_multiplier must be above 0, got -1. Without noise nothing is private"],
        ),
        ({**GAUSSIAN, "noise_multiplier": "0.8"}, ["noise_multiplier must be a real number, got '0.8'"]),
        ({**GAUSSIAN, "noise_multiplier": True}, ["noise_multiplier must be a real number, got True"]),
        ({**GAUSSIAN, "rate": [0.1]}, ["rate must be a real number, got [0.1]"]),
        ({**GAUSSIAN, "rate": float("nan")}, ["rate must be finite, got nan"]),
        ({**GAUSSIAN, "steps": 1.5}, ["steps must be a whole number, got 1.5"]),
        ({**GAUSSIAN, "steps": -3}, ["steps must be at least 0, got -3"]),
        ({**GAUSSIAN, "steps": 10**16}, ["steps must be at most 1e+15"]),
        ({**FIXED, "batch": 2000}, ["batch must be at most population=1000, got 2000"]),
        ({**FINITE, "observed": [0.5]}, ["observed must be of total 1"]),
        ({**FINITE, "observed": [0.5, "x"]}, ["observed[1] must be a real number, got 'x'"]),
        ({**FINITE, "observed": 0.5}, ["observed must be a sequence of probabilities, got 0.5"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_bad_part_is_refused_by_place_key_value_and_form(part: dict[str, Any], reasons: list[str]) -> None:
    message = refused(part)
    assert message.startswith(f"ledger.json: parts[2].{reasons[0]}")
    for reason in reasons:
        assert reason in message


@pytest.mark.parametrize("part", [None, 3, "gaussian", [GAUSSIAN]], ids=repr)
def test_a_part_is_a_table(part: object) -> None:
    assert refused(part).startswith(f"ledger.json: parts[2] must be a table, got {part!r}. ")


def test_parts_are_a_list_whose_places_are_named() -> None:
    with pytest.raises(
        tr.InvalidSetting, match=r"^runs\.toml: run\[1\]\.parts must be a list, got 3\. List one table"
    ):
        run_of(Table({"parts": 3}, "runs.toml: run[1]."), "parts")
    with pytest.raises(
        tr.InvalidSetting, match=r"^runs\.toml: run\[1\]\.parts\[1\]\.rate must be in \[0, 1\], got 2"
    ):
        run_of(Table({"parts": [GAUSSIAN, {**GAUSSIAN, "rate": 2}]}, "runs.toml: run[1]."), "parts")
    with pytest.raises(tr.InvalidSetting, match=r"^x: parts: steps must be at most"):
        run_of(Table({"parts": [{**GAUSSIAN, "steps": 10**15}] * 2}, "x: "), "parts")


def test_zero_steps_and_no_parts_are_the_run_that_releases_nothing() -> None:
    assert read({**GAUSSIAN, "steps": 0}) == tr.Run()
    assert run_of(Table({"parts": []}, "x: "), "parts") == tr.Run()


def test_a_step_that_a_list_holds_twice_is_left_to_whoever_explains_it() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 3
    assert read_plain_run(plain_run(run)) == run
    assert read_plain_run(plain_run(run) * 2) is None


def test_steps_are_read_and_written_without_making_fractions_of_floats() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=0.01)) * 3
    found = read_plain_run(plain_run(run))
    assert found is not None
    assert plain_run(found) == plain_run(run)
    ((step, _),) = found
    assert "exact_noise_multiplier" not in vars(step.mechanism)  # which takes as long as all else
    assert step.sampling.exact_rate == Fraction(0.01)
    assert found == run
