"""One question of a sweep as a flat row of plain values, and its answer as more of them."""

import dataclasses
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.names import ACCOUNTANTS
from tightrope.answers.calibrate import most_steps, smallest_noise
from tightrope.answers.spend import privacy_curve
from tightrope.curve.simulated_curve import Estimate
from tightrope.errors import InvalidSetting
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.plain import MECHANISM_SPELLINGS, RELATION_SPELLINGS, SAMPLING_SPELLINGS, part_of
from tightrope.setting.run import Run
from tightrope.setting.sampling import Sampling
from tightrope.setting.tables import Table

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
WHOLE_KEYS = ("batch", "population", "steps", "draws", "seed")
_RUN_KEYS = (
    *("mechanism", "noise_multiplier", "truth_probability"),
    *("sampling", "rate", "batch", "population", "steps"),
)
_DRAWING = ("draws", "confidence", "seed")
CELL_KEYS = ("ask", "accountant", "relation", *_RUN_KEYS, "epsilon", "delta", "effort", "accuracy", *_DRAWING)
ANSWER_KEYS = ("lower", "value", "upper", "order", "because", "seconds", "error", "version")
COLUMNS = (*CELL_KEYS, *ANSWER_KEYS)
TEXT_COLUMNS = (*CHOICES, "because", "error", "version")


def find_needed_keys(cell: Cell) -> dict[str, str]:
    """What a cell must state, given its ask, mechanism and sampling, and which of these makes it so."""
    ask, mechanism, sampling = (str(cell[key]) for key in ("ask", "mechanism", "sampling"))
    needed = {"relation": "every question"}
    needed |= dict.fromkeys(_fields(CHOICES["mechanism"][mechanism]), f"mechanism {mechanism}")
    needed |= dict.fromkeys(_fields(CHOICES["sampling"][sampling]), f"sampling {sampling}")
    needed |= {"steps": f"ask {ask}", **dict.fromkeys(ASKS[ask], f"ask {ask}")}
    asked_for = {"noise": "noise_multiplier", "steps": "steps"}.get(ask)
    return {key: why for key, why in needed.items() if key != asked_for}


def default_values(accountant: str) -> dict[str, Plain]:
    """What an accountant of this name may also be told, and what it assumes otherwise."""
    if accountant == MonteCarlo.name:
        return {key: getattr(MonteCarlo(), key) for key in _DRAWING}
    return {"effort": "quick", "accuracy": 1e-3} if accountant == Certified.name else {}


def _fields(kind: type[Mechanism] | type[Sampling]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


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
    return tuple(write_value(cell[key]) for key in CELL_KEYS)


def answer(cell: Cell) -> Row:
    """The answer to the cell's question, or in `error` why there is none.

    `lower` <= truth <= `upper` wherever they are given: both ends of a certified bracket, a Rényi bound
    above, a Monte Carlo interval at the cell's `confidence`. `value` is the best guess of `monte-carlo` and
    of `gaussian-limit`. Of a calibration it is the value that is safe to use: the smallest safe noise lies
    between `lower`, which is not safe, and `upper`; the largest safe number of steps between `lower` and
    `upper`.
    """
    began = time.perf_counter()
    try:
        found = {**dict.fromkeys(ANSWER_KEYS), **_answer(cell), "version": _find_version()}
    except Exception as problem:  # an error in one cell must not stop the sweep
        found = report_failure(problem)
    return {**found, "seconds": round(time.perf_counter() - began, 6)}


def report_failure(problem: Exception) -> Row:
    """The answer to a cell that has none: the problem on one line, after its class."""
    error = " ".join(f"{type(problem).__name__}: {problem}".split())
    return {**dict.fromkeys(ANSWER_KEYS), "error": error, "version": _find_version()}


def _find_version() -> str:
    # The metadata of an editable install may be out of date.
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _answer(cell: Cell) -> Row:
    values: Any = dict(cell)
    ask, by = values["ask"], _accountant(values)
    target = {key: values[key] for key in ASKS[ask]}
    how: Any = {"relation": RELATION_SPELLINGS[values["relation"]], "by": by}
    if ask in ("epsilon", "delta"):
        curve = privacy_curve(_run(values), **how)
        return {**_ends(getattr(curve, ask)(*target.values())), "because": _names(curve.because)}
    if not isinstance(by, Certified):
        must = f"be certified where {{ask}} is {ask}"
        raise InvalidSetting("accountant", values["accountant"], must, "Ask for epsilon or delta instead.")
    if ask == "noise":
        any_noise = {"mechanism": "gaussian", "noise_multiplier": 1.0, "truth_probability": None, "steps": 1}
        (step, _), *_ = _run({**values, **any_noise})
        kind = CHOICES["mechanism"][values["mechanism"]]
        noise = smallest_noise(step.sampling, steps=values["steps"], mechanism=kind, **target, **how)
        ends: Row = {"lower": noise.beyond, "value": noise.value, "upper": noise.value}
        return {**ends, "because": _names(noise.curve.because)}
    (step, _), *_ = _run({**values, "steps": 1})
    steps = most_steps(step, **target, **how)
    upper = None if steps.beyond is None else steps.beyond - 1
    return {
        "lower": steps.value,
        "value": steps.value,
        "upper": upper,
        "because": _names(steps.curve.because),
    }


def _accountant(values: Mapping[str, Any]) -> Accountant[Any, Any]:
    stated = {key: values[key] for key in default_values(values["accountant"])}
    return ACCOUNTANTS[values["accountant"]](**stated)


def _run(values: Mapping[str, Any]) -> Run:
    return part_of(Table({key: values[key] for key in _RUN_KEYS if values[key] is not None}, ""))


def _ends(found: object) -> Row:
    if isinstance(found, Estimate) and found.interrupted:
        raise KeyboardInterrupt  # rows must be reproducible, so an interrupted simulation is no answer
    return {key: getattr(found, key, None) for key in ("lower", "value", "upper", "order")}


def _names(because: Any) -> str | None:
    return "; ".join(evidence.name for evidence in because) or None
