"""What docs/certificates.md promises of the code as a whole: what raises, what is listed, what is cited."""

import ast
import importlib
import math
import re
from collections.abc import Iterator
from numbers import Number
from pathlib import Path

import numpy as np
import pytest

import tightrope
from tightrope.engines.composition import Composition
from tightrope.engines.face import NO_HINT, EngineRow, Hint, LogBounds
from tightrope.errors import NotPreciseEnough
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair

ROOT = Path(tightrope.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "certificates.md").read_text()
ROOMS = ("numerics", "setting", "pairs", "theorems", "engines", "curve", "accountants", "answers")
LONG = 80  # characters: of longer assignments the page states the name only
STEP = Schedule([(ShiftPair.of_normals(1.0), 1)])


# -- what raises ---------------------------------------------------------------------------------------------


class OverflowsElsewhere:
    """Bounds that are 1e-9 wide where they were placed, and overflow far from there."""

    def __init__(self, place: float, tolerance: float = 1.0) -> None:
        self.place, self.tolerance = place, tolerance

    def near(self, epsilon: float, tolerance: float, hint: Hint = NO_HINT) -> "OverflowsElsewhere":
        return OverflowsElsewhere(epsilon, tolerance)

    def bounds(self, epsilon: float) -> LogBounds:
        far = np.exp(np.array([1e4 * abs(epsilon - self.place)]))
        upper = -epsilon + math.log1p(1e-9) * float(1 / far[0])
        return LogBounds(-epsilon - 1e-9, upper)


def composition() -> Composition:
    return Composition(STEP, (EngineRow(make=lambda _: OverflowsElsewhere(0.0), applies=lambda _: True),))


def test_kept_bounds_that_overflow_are_not_taken_for_bounds() -> None:
    curve = composition()
    curve.log_bounds(1.0, 1e-3)
    assert curve.log_bounds(2.0, 1e-3).upper == pytest.approx(-2.0)


def test_an_epsilon_whose_bounds_overflow_is_refused() -> None:
    with pytest.raises(NotPreciseEnough):
        composition().epsilon_bounds(math.exp(-3.0), 1e-3)


# -- the page ------------------------------------------------------------------------------------------------


def sources() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def is_numeric(value: object) -> bool:
    """Whether this is a number or a collection of numbers."""
    if isinstance(value, dict):
        return all(map(is_numeric, value.values()))
    if isinstance(value, tuple | list | np.ndarray) and len(value):
        return all(map(is_numeric, value))
    return isinstance(value, Number) and not isinstance(value, bool)


def named_numbers() -> Iterator[tuple[str, str, str]]:
    """Path, name and assignment of every module-level number written in capitals."""
    for path, source in sources():
        module = importlib.import_module("tightrope." + path.removesuffix(".py").replace("/", "."))
        for node in ast.parse(source).body:
            if not isinstance(node, ast.Assign):
                continue
            text = " ".join(str(ast.get_source_segment(source, node)).split())
            for name in (
                n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)
            ):
                if name.isupper() and is_numeric(getattr(module, name)):
                    yield path, name, text


def test_every_named_number_is_on_the_page_with_its_value() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    missing = []
    for path, name, text in named_numbers():
        wanted = f"`{text}`" if len(text) <= LONG else f"`{name}`"
        if not any(f"| `{path}` |" in row and wanted in row for row in rows):
            missing.append(f"{path}: {text}")
    assert missing == []


def test_no_row_names_a_number_that_is_gone() -> None:
    known = {(path, name) for path, name, _ in named_numbers()}
    listed = set()
    for cells in (line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")):
        path = cells[1].strip("`")
        names = {n for code in re.findall(r"`([^`]*)`", cells[0]) for n in re.findall(r"^[\w, ]+", code)}
        listed |= {(path, n) for text in names for n in re.findall(r"\w+", text) if path.endswith(".py")}
    assert listed - known == set()


def test_every_lemma_that_the_code_refers_to_is_on_the_page() -> None:
    proved = set(map(int, re.findall(r"\*\*Lemma (\d+)", PAGE)))
    assert proved == set(range(15))
    for path, source in sources():
        for found in re.findall(r"lemmas? (\d+)(?![.\d])(?: (?:and|to) (\d+))?", source):
            assert {int(number) for number in found if number} <= proved, path


def test_nothing_is_clipped_and_no_overflow_ignored_but_where_the_page_says() -> None:
    clips, ignored = [], []
    for path, source in sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                clips += [path] if node.func.attr in ("clip", "nan_to_num") else []
                overflows = [
                    k for k in node.keywords if k.arg in ("over", "all") and node.func.attr == "errstate"
                ]
                ignored += [path for k in overflows if "raise" not in ast.unparse(k.value)]
    assert sorted(clips) == ["engines/lattice/engine.py", "engines/lattice/jumps.py", "pairs/mixture.py"]
    assert sorted(ignored) == ["engines/transforms/rooms.py", "engines/transforms/shares.py"]
