"""One question of a sweep as a flat row of plain values, and its answer as more of them."""

import math
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any

from tightrope.accountants.names import ACCOUNTANTS, find_accountant
from tightrope.setting.effort import Effort
from tightrope.setting.given import given_names
from tightrope.setting.mechanism import MECHANISM_SPELLINGS, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.parts import length_key, sampling_keys
from tightrope.setting.relation import RELATION_SPELLINGS
from tightrope.setting.sampling import SAMPLING_SPELLINGS, Shuffled

Plain = str | int | float | None
Cell = Mapping[str, Plain]  # a value or None for every key, in the order of CELL_KEYS
Row = dict[str, Plain]  # a cell and its answer
Key = tuple[str, ...]  # the values of a cell as text

ASKS = {
    "epsilon": ("delta",),
    "delta": ("epsilon",),
    "noise": ("epsilon", "delta"),
    "steps": ("epsilon", "delta"),
}
_MECHANISMS = (Gaussian, Laplace, RandomizedResponse)
CHOICES: dict[str, Mapping[str, Any]] = {
    "ask": ASKS,
    "accountant": ACCOUNTANTS,
    "relation": RELATION_SPELLINGS,
    "mechanism": {name: kind for name, kind in MECHANISM_SPELLINGS.items() if kind in _MECHANISMS},
    "sampling": SAMPLING_SPELLINGS,
    "effort": {effort.value: effort for effort in Effort},
}
_ALLOCATED = ("at_most", "batches", "chosen")
WHOLE_KEYS = ("batch", "population", "records", *_ALLOCATED, "steps", "draws", "seed")
RUN_KEYS = (
    *("mechanism", "noise_multiplier", "truth_probability"),
    *("sampling", "rate", "batch", "population", "records", *_ALLOCATED, "steps", "epochs"),
)
_DRAWING = ("draws", "confidence", "seed")
CELL_KEYS = ("ask", "accountant", "relation", *RUN_KEYS, "epsilon", "delta", "effort", "accuracy", *_DRAWING)
_CELL_VALUES = itemgetter(*CELL_KEYS)
ANSWER_KEYS = ("lower", "value", "upper", "order", "because", "seconds", "error", "version")
COLUMNS = (*CELL_KEYS, *ANSWER_KEYS)
LACKING_COLUMNS = (_ALLOCATED, ("records", *_ALLOCATED, "epochs"))  # of files that were written earlier
TEXT_COLUMNS = (*CHOICES, "because", "error", "version")


def find_needed_keys(cell: Cell, stated: Collection[str] = ()) -> dict[str, str]:
    """What a cell must state, given its ask, mechanism and sampling, and which of these makes it so.

    Where records or epochs are `stated`, they stand for the rate and the steps.
    """
    ask, mechanism, sampling = (str(cell[key]) for key in ("ask", "mechanism", "sampling"))
    needed = {"relation": "every question"}
    needed |= dict.fromkeys(given_names(CHOICES["mechanism"][mechanism]), f"mechanism {mechanism}")
    kind = CHOICES["sampling"][sampling]
    about_batches = stated if kind is Shuffled and "batches" in stated else _without_batch(stated)
    needed |= dict.fromkeys(sampling_keys(kind, about_batches), f"sampling {sampling}")
    length = "steps" if ask == "steps" else length_key(stated)
    needed |= {length: f"ask {ask}", **dict.fromkeys(ASKS[ask], f"ask {ask}")}
    asked_for = {"noise": "noise_multiplier", "steps": "steps"}.get(ask)
    return {key: why for key, why in needed.items() if key != asked_for}


def _without_batch(stated: Collection[str]) -> list[str]:
    """A batch alone is that of other cells of its block: only records beside it make it a rate."""
    return [key for key in stated if key != "batch"]


def default_values(accountant: str) -> dict[str, Plain]:
    """What an accountant of this name may also be told, and what it assumes otherwise."""
    usual = find_accountant(accountant)()
    told = {key: getattr(usual, key) for key in (*_DRAWING, "effort", "accuracy") if hasattr(usual, key)}
    return {key: str(value) if isinstance(value, Effort) else value for key, value in told.items()}


def write_value(value: Plain) -> str:
    """A value as it stands in a CSV file: floats with all their digits, None as nothing.

    >>> write_value(0.1), write_value(10_000), write_value(None)
    ('0.1', '10000', '')
    """
    return "" if value is None else value if isinstance(value, str) else repr(value)


def read_value(column: str, text: str) -> Plain:
    """The value that was written so; a ValueError where there is none in this column.

    >>> read_value("steps", "100"), read_value("upper", "inf"), read_value("rate", "")
    (100, inf, None)
    """
    if column in TEXT_COLUMNS or not text:
        return text or None
    if column in WHOLE_KEYS:
        return int(text)
    number = float(text)
    if math.isnan(number):
        raise ValueError(f"{column} is no number")
    return int(text) if text.isdecimal() else number


def key_of(cell: Cell) -> Key:
    """What tells one cell from all others, in a file as well as in memory."""
    return tuple(map(write_value, _CELL_VALUES(cell)))
