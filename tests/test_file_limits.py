"""Files that would take minutes, or mean another thing to another reader, are refused at once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from reproduction.published.runs_file import read_papers
from shell import Shell
from tightrope.answers.ledger import Ledger
from tightrope.cli.commands.runs import read_runs
from tightrope.files import MOST_CHARACTERS, PEOPLE_SEND, PEOPLE_WRITE, parse_json, read_toml
from tightrope.statements.checks import parse_statement
from tightrope.statements.file import read_statement
from tightrope.sweeps.grid import Grid

AT_ONCE = 2.0  # seconds of work: measured, 0.01 to 0.7
PART = '[[run]]\nmechanism = "gaussian"\nnoise_multiplier = 0.8\nsampling = "poisson"\nrate = {}\nsteps = 1\n'
TOML_READERS: dict[str, Callable[[Path], object]] = {
    "statement": read_statement,
    "runs": read_runs,
    "grid": Grid.read,
    "papers": read_papers,
}
HOSTILE_TOML = {
    "dotted keys": (
        ".".join("a" * 200_000)[: 2**18 - 9] + " = 1\n",
        "more than 64 keys joined by dots in line 1",
    ),
    "quoted dotted keys": (
        "x = 1\n" + " . ".join(['"a"'] * 30_000) + " = 1\n",
        "keys joined by dots in line 2",
    ),
    "dotted headers": (f"[{'.'.join('a' * 100_000)}]\n", "more than 64 keys joined by dots in line 1"),
    "400 KB": ("# " + "x" * 400_000, "has more than 262,144 bytes, and no more are read"),
    "nested lists": ("a = " + "[" * 100_000 + "]" * 100_000, "recursion"),
    "nested tables": (
        "a = " + "{a = " * 60 + "1" + "}" * 60,
        "more than 32 tables and lists within one another",
    ),
    "long text": (f'name = "{"x" * 50_000}"', f"50,000 characters under 'name'; at most {MOST_CHARACTERS:,}"),
    "small number": (
        PART.format("1e-40000000"),
        "1e-40000000, which is not 0 and nearer to it than any other",
    ),
    "large number": (PART.format("1e40000000"), "1e40000000, which is larger than any float"),
    "long number": (PART.format("0." + "1" * 100_000), "a number of 100,002 digits; at most 4,000 are read"),
    "whole number": (
        PART.format("0x" + "f" * 100_000),
        "a whole number of about 120,412 digits under 'rate'; at most 4,000",
    ),
    "20,000 parts": (
        "[[run]]\n" * 20_000,
        "20,000 tables under 'run'; at most 1,000 are read: write equal ones",
    ),
    "twin keys": ("a = 1\na = 2\n", "Cannot overwrite a value"),
}


@pytest.mark.parametrize("reader", TOML_READERS)
@pytest.mark.parametrize(("text", "said"), HOSTILE_TOML.values(), ids=HOSTILE_TOML)
def test_a_hostile_toml_file_is_refused_at_once_by_every_reader(
    reader: str, text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.toml"
    file.write_text(text)
    before = time.process_time()
    with pytest.raises(tr.InvalidSetting) as refused:
        TOML_READERS[reader](file)
    assert time.process_time() - before < AT_ONCE
    assert str(refused.value).startswith(str(file))
    assert said in str(refused.value)
    assert len(str(refused.value)) < 2000


HOSTILE_JSON = {
    "lists": ("[" * 100_000, "must be a whole JSON file, got: maximum recursion depth"),
    "deep": ("[" * 40 + "]" * 40, "more than 32 tables and lists within one another"),
    "twins": ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' twice"),
    "digits": ('{"a": ' + "9" * 4001 + "}", "a whole number of about 4,001 digits under 'a'"),
    "small": ('{"a": {"rate": 1e-40000000}}', "1e-40000000, which is not 0 and nearer to it"),
    "text": (json.dumps({"a": "x" * 20_000}), "20,000 characters under 'a'; at most 10,000 are read"),
    "key": (json.dumps({"x" * 20_000: 1}), "a key of more than 10,000 characters"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_hostile_json_is_refused_at_once_in_statements_and_ledgers(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    for read in (parse_statement, lambda _: Ledger.load(file)):
        before = time.process_time()
        with pytest.raises(tr.InvalidSetting) as refused:
            read(text)
        assert time.process_time() - before < AT_ONCE
        assert said in str(refused.value)


def test_a_statement_of_a_megabyte_or_of_thousands_of_parts_is_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "statement.json"
    file.write_text(" " * (PEOPLE_SEND.size + 1))
    code, _, said = shell(f"verify {file}")
    assert (code, "has more than 1,048,576 bytes" in said) == (2, True)
    with pytest.raises(tr.InvalidSetting, match="1,001 tables under 'run'; at most 1,000 are read"):
        parse_statement(json.dumps({"run": [{}] * 1001}))


def test_an_endless_file_is_not_read_to_its_end() -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("no endless file here")
    with pytest.raises(tr.InvalidSetting, match="has more than 262,144 bytes"):
        read_toml(endless)


def test_a_ledger_keeps_more_parts_than_people_write(tmp_path: Path) -> None:
    parts = [
        (tr.Step(tr.Gaussian(noise_multiplier=1 + i / 1000), tr.EveryRecord()), 1)
        for i in range(PEOPLE_WRITE.tables + 1)
    ]
    kept = Ledger(relation=tr.ADD)
    kept.record(tr.Run(tuple(parts)))
    kept.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json") == kept


def test_what_people_write_is_read_as_before(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    dots = ".".join("abc" * 20)
    file.write_text(
        f'a = {{b.c = 1e-300, d = [0.0, -0e5, inf]}}\nsays = "{dots} and {dots}"\n"x.y"."z" = 1_0\n'
    )
    found: dict[str, Any] = {"a": {"b": {"c": 1e-300}, "d": [0.0, 0.0, float("inf")]}, "x.y": {"z": 10}}
    assert read_toml(file) == {**found, "says": f"{dots} and {dots}"}
    assert parse_json('{"a": [1, 2.5, "x", null, true]}', where="x", remedy="") == {
        "a": [1, 2.5, "x", None, True]
    }


def test_a_refusal_shows_the_beginning_of_a_long_value() -> None:
    refusal = str(tr.InvalidSetting("name", "x" * 5000, "be short"))
    assert refusal.endswith("... (5,002 characters).")
    assert len(refusal) < 1100
