"""Many questions at once: every combination of the values listed in a TOML file or a mapping."""

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tightrope.errors import InvalidSetting
from tightrope.files import as_path, read_text
from tightrope.numerics import check
from tightrope.setting.tables import Problems, Table, placed
from tightrope.sweeps.cells import (
    CELL_KEYS,
    CHOICES,
    WHOLE_KEYS,
    Cell,
    Plain,
    default_values,
    key_of,
    needed_keys,
)

T = TypeVar("T")

MOST_CELLS = 10**6  # all rows are held in memory, some 5 kB each
LARGEST_WHOLE = 2**63 - 1  # what a column of whole numbers holds
_RANGE_KEYS = ("from", "to", "count", "scale")
_DIGITS = 12  # of the points of a range, so that decades are 0.001 and not 0.0010000000000000002
_EXAMPLES = (
    dict.fromkeys(CELL_KEYS, "0.001") | dict.fromkeys(WHOLE_KEYS, "1000") | {"noise_multiplier": "0.8"}
)
_SETS_APART = ("ask", "accountant", "mechanism", "sampling")  # on which it depends what else a cell states
_DEFAULTS = {"accountant": ["certified"]}

Values = Mapping[str, list[Any]]


@dataclass(frozen=True)
class Grid:
    """Blocks of values; the cells are all combinations within each block, the last key turning fastest, block after block.

    A key holds one value, a list, or a range such as {from = 1e-4, to = 1, count = 30, scale = "log"}. What a choice does not
    need is left out of its cells (a rate of batches without replacement), and a cell that comes twice is one.

    >>> asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "mechanism": "gaussian", "noise_multiplier": [1, 2]}
    >>> rates = {"from": 0.001, "to": 0.1, "count": 3, "scale": "log"}
    >>> grid = Grid.of({**asked, "sampling": "poisson", "rate": rates, "steps": 100})
    >>> [(cell["noise_multiplier"], cell["rate"]) for cell in grid]
    [(1.0, 0.001), (1.0, 0.01), (1.0, 0.1), (2.0, 0.001), (2.0, 0.01), (2.0, 0.1)]
    """

    cells: tuple[Cell, ...]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    @staticmethod
    def of(values: Mapping[str, object]) -> "Grid":
        """The grid of these keys, which may hold blocks of their own under `grid`."""
        if not isinstance(values, Mapping):
            raise InvalidSetting(
                f"grid must be a mapping of keys to values, got {values!r}. Pass for example Grid.read(path)."
            )
        return _grid(Table(dict(values), "grid: "))

    @staticmethod
    def read(path: str | Path) -> "Grid":
        """The grid of a TOML file; a refusal lists each problem with its place, counted from 0: grid.toml: grid[1].rate."""
        file = as_path(path)
        text = read_text(file)
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as problem:
            raise InvalidSetting(f"{file} must be a TOML file, got: {problem}. Correct it there.") from None
        return _grid(Table(values, f"{file}: "))


def _grid(table: Table) -> Grid:
    problems = Problems()
    tried = problems.tried

    def read_values(part: Table) -> dict[str, list[Any]]:
        read = {key: tried(partial(_values, part, key)) for key in part.entries if key in CELL_KEYS}
        return {key: values for key, values in read.items() if values}

    tried(lambda: table.keep_to((*CELL_KEYS, "grid")))
    blocks = tried(lambda: _blocks(table)) or []
    shared = Table({key: value for key, value in table.entries.items() if key != "grid"}, table.where)
    shared_values = read_values(shared)
    own_values: list[dict[str, list[Any]]] = []
    for block in blocks:
        tried(partial(block.keep_to, CELL_KEYS))
        own_values.append(read_values(block))
    unused = set(shared_values)
    spans: list[tuple[Cell, Values]] = []
    if not problems.found:
        for block, own in zip(blocks, own_values, strict=True):
            values = {**_DEFAULTS, **shared_values, **own}
            found = tried(partial(_spans, block, values)) or []
            used = {key for chosen, stated in found for key in (*chosen, *stated)}
            unused -= used
            for key in own.keys() - used if found else ():
                tried(partial(_refuse_unused, block, key))
            spans += found
    if not problems.found:
        for key in sorted(unused):
            tried(partial(_refuse_unused, shared, key))
    problems.refuse(table.where.rstrip(": "))
    return Grid(_cells(table, spans))


def _blocks(table: Table) -> list[Table]:
    """The tables under `grid`, or the file itself where it has none."""
    if "grid" not in table.entries:
        return [Table(table.entries, table.where)]
    remedy = "Open each block with a line [[grid]]."
    blocks = table.items("grid", remedy)
    if not blocks:
        raise table.refusal("grid", "a list of at least one block", remedy)
    return [Table.of(block, table.place("grid", i)) for i, block in enumerate(blocks)]


def _refuse_unused(block: Table, key: str) -> None:
    raise InvalidSetting(
        f"{block.where}{key} = {block.entries[key]!r} contradicts the rest: no question here takes it. Leave it out."
    )


def _spans(block: Table, values: Values) -> list[tuple[Cell, Values]]:
    """For each combination of choices that sets cells apart: these choices, and the values of everything else they need."""
    for key in _SETS_APART:
        if key not in values:
            raise InvalidSetting(f"{block.where}{key} is missing. Write one of {', '.join(CHOICES[key])}.")
    spans: list[tuple[Cell, Values]] = []
    for combination in itertools.product(*(values[key] for key in _SETS_APART)):
        chosen: Cell = dict(zip(_SETS_APART, combination, strict=True))
        needed, assumed = needed_keys(chosen), default_values(str(chosen["accountant"]))
        for key, why in needed.items():
            if key not in values:
                example = (
                    " or ".join(CHOICES[key]) if key in CHOICES else f"for example {key} = {_EXAMPLES[key]}"
                )
                raise InvalidSetting(
                    f"{block.where}{key} is missing. It is needed by {why}: write {example}."
                )
        stated = {
            key: values.get(key, [assumed.get(key)]) for key in CELL_KEYS if key in needed or key in assumed
        }
        spans.append((chosen, stated))
    return spans


def _cells(table: Table, spans: list[tuple[Cell, Values]]) -> tuple[Cell, ...]:
    count = sum(math.prod(len(values) for values in stated.values()) for _, stated in spans)
    if count > MOST_CELLS:
        place = table.where.rstrip(": ")
        raise InvalidSetting(
            f"{place} must have at most {MOST_CELLS} cells, got {count}. Make ranges coarser, or several sweeps."
        )
    cells: dict[tuple[str, ...], Cell] = {}
    for chosen, stated in spans:
        for combination in itertools.product(*stated.values()):
            given = {**chosen, **dict(zip(stated, combination, strict=True))}
            cell = {key: given.get(key) for key in CELL_KEYS}
            cells.setdefault(key_of(cell), cell)
    return tuple(cells.values())


def _values(table: Table, key: str) -> list[Plain]:
    """All values of a key, once each."""
    stated: Any = table.entries[key]
    if isinstance(stated, Mapping):
        return _range(Table(dict(stated), f"{table.where}{key}."), key)
    if hasattr(stated, "tolist"):  # an array
        stated = stated.tolist()
    if not isinstance(stated, list | tuple):
        return [_value(Table({key: stated}, table.where), key, key)]
    if not stated:
        raise table.refusal(
            key, "a value, a list of at least one, or a range", "Leave out what is not meant."
        )
    named = {f"{key}[{i}]": value for i, value in enumerate(stated)}
    return list(dict.fromkeys(_value(Table(named, table.where), name, key) for name in named))


def _value(table: Table, name: str, key: str) -> Plain:
    """One value, of the kind its key holds; whether a run can have it is for its cell to say."""
    if key in CHOICES:
        table.choice(name, CHOICES[key])
        return str(table.entries[name])
    value, remedy = table.entries[name], f"Write for example {key} = {_EXAMPLES[key]}."
    with placed(table.where):
        if key not in WHOLE_KEYS:
            return check.real(remedy=remedy, **{name: value})
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidSetting(f"{name} must be a whole number, got {value!r}. {remedy}")
        if abs(value) > LARGEST_WHOLE:
            raise InvalidSetting(f"{name} must be at most {LARGEST_WHOLE}. {remedy}")
        return value


def _range(table: Table, key: str) -> list[Plain]:
    """So many points from one end to the other, both included; whole numbers where the key holds such, once each."""
    example = f'Write for example {key} = {{from = 1, to = 100, count = 3, scale = "log"}}.'
    if key in CHOICES:
        place = table.where.rstrip(".")
        raise InvalidSetting(
            f"{place} must be a name or a list of names, got a range. Write one of {', '.join(CHOICES[key])}."
        )
    table.keep_to(_RANGE_KEYS)
    for name in _RANGE_KEYS:
        table.wanted(name, example)
    is_log = table.choice("scale", {"log": True, "linear": False})
    with placed(table.where):
        first = check.real(remedy=example, **{"from": table.entries["from"]})
        last = check.real(remedy=example, to=table.entries["to"])
        count = check.whole(least=2, remedy=example, count=table.entries["count"])
        if count > MOST_CELLS:
            raise InvalidSetting(f"count must be at most {MOST_CELLS}, got {count}. {example}")
        if first == last or (is_log and min(first, last) <= 0):
            must = "be above 0 on a log scale, and" if is_log else ""
            raise InvalidSetting(
                f"from and to must {must} differ, got {first!r} and {last!r}. {example}".replace("  ", " ")
            )
    inner = (_point(first, last, i / (count - 1), is_log) for i in range(1, count - 1))
    points: list[float] = [first, *inner, last]
    return list(
        dict.fromkeys(round(point) for point in points) if key in WHOLE_KEYS else dict.fromkeys(points)
    )


def _point(first: float, last: float, part: float, is_log: bool) -> float:
    if is_log:
        return float(f"{math.exp((1 - part) * math.log(first) + part * math.log(last)):.{_DIGITS}g}")
    return float(f"{(1 - part) * first + part * last:.{_DIGITS}g}")
