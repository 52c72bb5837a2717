"""What is made once for several files is made once, because one process runs them all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduling import PAPER, SLOW, find_scope

TESTS = Path(__file__).parent


def test_files_that_look_at_items_of_the_paper_go_to_one_process() -> None:
    looking = [file for file in TESTS.glob("test_*.py") if "\nfrom quick_paper import" in file.read_text()]
    assert len(looking) > 1
    assert {find_scope(f"tests/{file.name}::test") for file in looking} == {PAPER}


def test_files_that_begin_are_there() -> None:
    found = {find_scope(f"tests/{file.name}") for file in TESTS.glob("test_*.py")}
    assert {*SLOW} <= found


def test_of_two_processes_one_runs_a_file_as_a_whole_and_all_that_belongs_to_it(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "tests").mkdir()
    for name in ("paper_one", "paper_two", "game", "grid"):
        note = f"open(f'{tmp_path}/{{os.getpid()}}', 'a').write('{name} ')"
        tests = "".join(f"def test_{number}(): {note}\n" for number in range(4 if "paper" in name else 12))
        (tmp_path / f"tests/test_{name}.py").write_text(f"import os\n{tests}")
    words = "-p xdist -p scheduling -p no:cacheprovider -n 2 --dist loadfile tests"
    subprocess.run(
        [sys.executable, "-m", "pytest", *words.split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=True,
    )
    first, second = sorted(file.read_text().split() for file in tmp_path.iterdir() if file.is_file())
    assert len(first) + len(second) == 32
    assert not {*first} & {*second}
    assert ("paper_one" in first) == ("paper_two" in first)
    assert "paper_one" in (
        first[0],
        second[0],
    )  # slow, though others are more tests and earlier in the alphabet
