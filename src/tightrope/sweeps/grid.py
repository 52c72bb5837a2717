"""Many questions at once: every combination of the values listed in a TOML file or a mapping."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile
from tightrope.files import as_path, read_toml
from tightrope.numerics import check
from tightrope.setting.given import exactly
from tightrope.setting.tables import Problems, Table, place_refusals
from tightrope.sweeps.cells import (
    CELL_KEYS,
    CHOICES,
    WHOLE_KEYS,
    Cell,
    Plain,
    default_values,
    find_needed_keys,
    key_of,
)

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
Span = tuple[Cell, Values]  # choices that set cells apart, and the values of everything else they need


@dataclass(frozen=True)
class Grid:
    """Blocks of values; the cells of a block are all their combinations, the last key turning fastest.

    A key holds one value, a list, or a range such as {from = 1e-4, to = 1, count = 30, scale = "log"}. What a
    choice does not need is left out of its cells (a rate of batches without replacement), and a cell that
    comes twice is one.

    >>> asked = {"ask": "epsilon", "delta": 1e-6, "relation": "remove", "steps": 100, "sampling": "poisson"}
    >>> rates = {"from": 0.001, "to": 0.1, "count": 3, "scale": "log"}
    >>> grid = Grid.of({**asked, "mechanism": "gaussian", "noise_multiplier": [1, 2], "rate": rates})
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
                "grid", values, "be a mapping of keys to values", "Pass for example Grid.read(path)."
            )
        return _make_grid(Table(dict(values), "grid: "))

    @staticmethod
    def read(path: str | Path) -> "Grid":
        """The grid of a TOML file; a refusal lists every problem with its place (grid.toml: grid[1].rate)."""
        file = as_path(path)
        return _make_grid(Table(read_toml(file), f"{file}: "))


def _make_grid(table: Table) -> Grid:
    problems, place = Problems(), table.where.rstrip(": ")
    shared = _read_values(table, (*CELL_KEYS, "grid"), problems)
    blocks = problems.attempt(partial(_find_blocks, table)) or []
    own_values = [_read_values(block, CELL_KEYS, problems) for block in blocks]
    problems.refuse(place)
    spans: list[Span] = []
    unused = set(shared)
    for block, own in zip(blocks, own_values, strict=True):
        found = problems.attempt(partial(_make_spans, block, {**_DEFAULTS, **shared, **own})) or []
        used = {key for chosen, stated in found for key in (*chosen, *stated)}
        for key in sorted(own.keys() - used) if found else ():
            problems.attempt(partial(_refuse_unused, block, key))
        unused -= used
        spans += found
    for key in () if problems.found else sorted(unused):
        problems.attempt(partial(_refuse_unused, table, key))
    problems.refuse(place)
    return Grid(_make_cells(place, spans))


def _find_blocks(table: Table) -> list[Table]:
    """The tables under `grid`; where there are none, one that has nothing to add."""
    if "grid" not in table.entries:
        return [Table({}, table.where)]
    blocks, remedy = table.entries["grid"], "Open each block with a line [[grid]]."
    if not isinstance(blocks, list) or not blocks:
        raise InvalidSetting("grid", blocks, "be a list of at least one block", remedy, where=table.where)
    return [Table.of(block, table.place("grid", i)) for i, block in enumerate(blocks)]


def _read_values(table: Table, known: Sequence[str], problems: Problems) -> dict[str, list[Any]]:
    problems.attempt(partial(table.keep_to, known))
    read = {
        key: problems.attempt(partial(_list_values, table, key)) for key in table.entries if key in CELL_KEYS
    }
    return {key: values for key, values in read.items() if values}


def _refuse_unused(block: Table, key: str) -> None:
    problem = f"= {block.entries[key]!r} contradicts the rest: no question here takes it"
    remedy = "Leave it out."
    if key in ("steps", "epochs"):
        problem, remedy = "and steps say the same thing twice", "Leave out the one that is not meant."
    raise UnusableFile(f"{block.where}{key}", problem, remedy)


def _make_spans(block: Table, values: Values) -> list[Span]:
    """One span for each combination of choices that sets cells apart."""
    for key in _SETS_APART:
        if key not in values:
            raise _missing(block, key, f"Write one of {', '.join(CHOICES[key])}.")
    spans: list[Span] = []
    for combination in itertools.product(*(values[key] for key in _SETS_APART)):
        chosen: Cell = dict(zip(_SETS_APART, combination, strict=True))
        needed, assumed = find_needed_keys(chosen, values), default_values(str(chosen["accountant"]))
        for key, why in needed.items():
            if key not in values:
                example = f"for example {key} = {_EXAMPLES[key]}"
                example = " or ".join(CHOICES[key]) if key in CHOICES else example
                raise _missing(block, key, f"It is needed by {why}: write {example}.")
        stated_keys = [key for key in CELL_KEYS if key in needed or key in assumed]
        spans.append((chosen, {key: values.get(key, [assumed.get(key)]) for key in stated_keys}))
    return spans


def _missing(table: Table, key: str, remedy: str) -> UnusableFile:
    return UnusableFile(f"{table.where}{key}", "is missing", remedy)


def _make_cells(place: str, spans: list[Span]) -> tuple[Cell, ...]:
    count = sum(math.prod(len(values) for values in stated.values()) for _, stated in spans)
    if count > MOST_CELLS:
        problem = f"must have at most {MOST_CELLS} cells, got {count}"
        raise UnusableFile(place, problem, "Make ranges coarser, or several sweeps.")
    cells: dict[tuple[str, ...], Cell] = {}
    for chosen, stated in spans:
        for combination in itertools.product(*stated.values()):
            given = {**chosen, **dict(zip(stated, combination, strict=True))}
            cell = {key: given.get(key) for key in CELL_KEYS}
            cells.setdefault(key_of(cell), cell)
    return tuple(cells.values())


def _list_values(table: Table, key: str) -> list[Plain]:
    """All values of a key, once each."""
    stated: Any = table.entries[key]
    if isinstance(stated, Mapping):
        return _list_range(Table(dict(stated), f"{table.where}{key}."), key)
    if hasattr(stated, "tolist"):  # an array
        stated = stated.tolist()
    if not isinstance(stated, list | tuple):
        return [_read_one(Table({key: stated}, table.where), key, key)]
    if not stated:
        must = "be a value, a list of at least one, or a range"
        raise InvalidSetting(key, stated, must, "Leave out what is not meant.", where=table.where)
    named = Table({f"{key}[{i}]": value for i, value in enumerate(stated)}, table.where)
    return list(dict.fromkeys(_read_one(named, name, key) for name in named.entries))


def _read_one(table: Table, name: str, key: str) -> Plain:
    """One value, of the kind its key holds; whether a run can have it is for its cell to say."""
    if key == "relation":
        return str(table.relation(name))
    if key in CHOICES:
        table.choice(name, CHOICES[key])
        return str(table.entries[name])
    value: Any
    value, remedy = table.entries[name], f"Write for example {key} = {_EXAMPLES[key]}."
    with place_refusals(table.where):
        if key not in WHOLE_KEYS:
            number = check.real(remedy=remedy, **{name: value})
            if exactly(value) != number:  # a row would answer another question than the one asked
                raise InvalidSetting(name, value, "be a float: files of results hold no other number", remedy)
            return number
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidSetting(name, value, "be a whole number", remedy)
        if abs(value) > LARGEST_WHOLE:  # too long to be printed, perhaps
            raise UnusableFile(name, f"must be at most {LARGEST_WHOLE}", remedy)
        return value


def _list_range(table: Table, key: str) -> list[Plain]:
    """`count` points with both ends, each once; where the key holds whole numbers they are rounded."""
    example = f'Write for example {key} = {{from = 1, to = 100, count = 3, scale = "log"}}.'
    if key in CHOICES:
        problem = "must be a name or a list of names, got a range"
        raise UnusableFile(table.where.rstrip("."), problem, f"Write one of {', '.join(CHOICES[key])}.")
    table.keep_to(_RANGE_KEYS)
    for name in _RANGE_KEYS:
        table.need(name, example)
    is_log = table.choice("scale", {"log": True, "linear": False})
    with place_refusals(table.where):
        first = check.real(remedy=example, **{"from": table.entries["from"]})
        last = check.real(remedy=example, to=table.entries["to"])
        count = check.whole(least=2, remedy=example, count=table.entries["count"])
        if count > MOST_CELLS:
            raise InvalidSetting("count", count, f"be at most {MOST_CELLS}", example)
        if first == last or (is_log and min(first, last) <= 0):
            must = "be above 0 on a log scale, and differ" if is_log else "differ"
            problem = f"must {must}, got {first!r} and {last!r}"
            raise UnusableFile("from and to", problem, example)
    inner = (_point(first, last, i / (count - 1), is_log) for i in range(1, count - 1))
    points: list[float] = [first, *inner, last]
    return list(dict.fromkeys(map(round, points) if key in WHOLE_KEYS else points))


def _point(first: float, last: float, part: float, is_log: bool) -> float:
    if is_log:
        return float(f"{math.exp((1 - part) * math.log(first) + part * math.log(last)):.{_DIGITS}g}")
    return float(f"{(1 - part) * first + part * last:.{_DIGITS}g}")
