"""The answer to one cell of a sweep, as a flat row of plain values."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.names import find_accountant
from tightrope.answers.calibrate import most_steps, smallest_noise
from tightrope.answers.spend import privacy_curve
from tightrope.curve.simulated_curve import Estimate
from tightrope.engines.face import Progress
from tightrope.engines.watching import Rehearsal, Workload
from tightrope.errors import InvalidSetting
from tightrope.setting.parts import part_of
from tightrope.setting.relation import as_relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import EveryRecord
from tightrope.setting.tables import Table
from tightrope.sweeps.cells import ANSWER_KEYS, ASKS, CHOICES, RUN_KEYS, Cell, Row, default_values


class LastCurve:
    """The curve of the latest quick question, for the next epsilon of the same run.

    `curve.epsilon` does not depend on earlier questions, so one curve serves all deltas of a run that are
    among `cells`, solved together. `curve.delta` does, so each has a curve of its own: a row must not depend
    on its neighbours.
    """

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self._run: tuple[object, ...] | None = None
        self._curve: Any = None
        self._deltas: dict[tuple[object, ...], list[float]] = {}
        for cell in filter(_is_quick_epsilon, cells):
            delta = cell["delta"]
            if isinstance(delta, float) and 0 < delta < 1:
                self._deltas.setdefault(find_run(cell), []).append(delta)

    def find(self, cell: Cell, make: Callable[[], Any]) -> Any:
        """The curve that was kept, or the one that `make` makes."""
        if not _is_quick_epsilon(cell):
            return make()
        run = find_run(cell)
        if run != self._run:
            self._curve, self._run = make(), run
            deltas = self._deltas.get(run, [])
            if len(deltas) > 1:
                with suppress(Exception):  # which the row of its own cell will tell
                    self._curve.prepare(deltas)
        return self._curve


def answer(cell: Cell, last: LastCurve | None = None) -> Row:
    """The answer to the cell's question, or in `error` why there is none.

    `lower` <= truth <= `upper` wherever they are given: both ends of a certified bracket, a Rényi bound
    above, a Monte Carlo interval at the cell's `confidence`. `value` is the best guess of `monte-carlo` and
    of `gaussian-limit`. Of a calibration it is the value that is safe to use: the smallest safe noise lies
    between `lower`, which is not safe, and `upper`; the largest safe number of steps between `lower` and
    `upper`. `last` saves work and changes no digit.
    """
    began = time.perf_counter()
    try:
        found = {**dict.fromkeys(ANSWER_KEYS), **_answer(cell, last=last), "version": _find_version()}
    except Exception as problem:  # an error in one cell must not stop the sweep
        found = report_failure(problem)
    return {**found, "seconds": round(time.perf_counter() - began, 6)}


def answer_several(cells: list[Cell]) -> list[Row]:
    """The answers to cells that have much in common."""
    last = LastCurve(cells)
    return [answer(cell, last) for cell in cells]


def is_quick(cell: Cell) -> bool:
    """Whether milliseconds are enough, as a rule."""
    stated = cell["ask"], cell["accountant"], cell["effort"], cell["sampling"]
    return stated[0] in ("epsilon", "delta") and stated[1:] == ("certified", "quick", "poisson")


def _is_quick_epsilon(cell: Cell) -> bool:
    return cell["ask"] == "epsilon" and is_quick(cell)


def find_run(cell: Cell) -> tuple[object, ...]:
    """All that a cell states but the point of the curve."""
    return tuple(value for key, value in cell.items() if key not in ("epsilon", "delta"))


def foresee(cell: Cell) -> list[Workload]:
    """The long work that the answer to a cell takes; asking takes as long as the quick answer."""
    rehearsal = Rehearsal()
    with suppress(Exception):  # which the row will tell
        _answer(cell, rehearsal)
    return list(rehearsal.noted.values())


def report_failure(problem: Exception) -> Row:
    """The answer to a cell that has none: the problem on one line, after its class."""
    error = " ".join(f"{type(problem).__name__}: {problem}".split())
    return {**dict.fromkeys(ANSWER_KEYS), "error": error, "version": _find_version()}


def _find_version() -> str:
    # The metadata of an editable install may be out of date.
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _answer(cell: Cell, progress: Progress | None = None, last: LastCurve | None = None) -> Row:
    values: Any = dict(cell)
    ask = values["ask"]
    target = {key: values[key] for key in ASKS[ask]}
    if ask in ("epsilon", "delta"):
        curve = (last or LastCurve()).find(
            cell, lambda: privacy_curve(_run(values), **_how(values, progress))
        )
        return {**_ends(getattr(curve, ask)(*target.values())), "because": _names(curve.because)}
    how = _how(values, progress)
    if not isinstance(how["by"], Certified):
        must = f"be certified where {{ask}} is {ask}"
        raise InvalidSetting("accountant", values["accountant"], must, "Ask for epsilon or delta instead.")
    if ask == "noise":
        any_noise = {"mechanism": "gaussian", "noise_multiplier": 1.0, "truth_probability": None}
        run = _run({**values, **any_noise})
        sampling = run.parts[0][0].sampling if run else EveryRecord()  # no steps are refused below
        kind = CHOICES["mechanism"][values["mechanism"]]
        noise = smallest_noise(sampling, steps=run.steps, mechanism=kind, **target, **how)
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


def _how(values: Mapping[str, Any], progress: Progress | None) -> dict[str, Any]:
    return {"relation": as_relation(values["relation"]), "by": _accountant(values), "progress": progress}


def _accountant(values: Mapping[str, Any]) -> Accountant[Any, Any]:
    stated = {key: values[key] for key in default_values(values["accountant"])}
    return find_accountant(values["accountant"])(**stated)


def _run(values: Mapping[str, Any]) -> Run:
    return part_of(Table({key: values[key] for key in RUN_KEYS if values[key] is not None}, ""))


def _ends(found: object) -> Row:
    if isinstance(found, Estimate) and found.interrupted:
        raise KeyboardInterrupt  # rows must be reproducible, so an interrupted simulation is no answer
    return {key: getattr(found, key, None) for key in ("lower", "value", "upper", "order")}


def _names(because: Any) -> str | None:
    return "; ".join(evidence.name for evidence in because) or None
