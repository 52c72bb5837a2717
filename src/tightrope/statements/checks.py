"""What is wrong with the numbers of a statement, as far as they can be read: contradictions, each with its fields."""

import math
from collections.abc import Mapping
from typing import Any


def version_refusal(entries: Mapping[str, Any], *, where: str, format_name: str, version: int) -> str:
    """Why data of another format or version are not read at all; empty for this one."""
    if entries.get("format") != format_name:
        return f"{where}: format must be {format_name!r}, got {entries.get('format')!r}. Pass a file written by tightrope statement."
    stated = entries.get("version")
    if stated == version and type(stated) is int:
        return ""
    newer = isinstance(stated, int) and stated > version
    remedy = "Update tightrope to read it." if newer else "Make it anew with tightrope statement."
    return f"{where}: version must be {version}, got {stated!r}. {remedy}"


ACCOUNTED = {
    "poisson": "poisson",
    "without_replacement": "without-replacement",
    "every_record": "every-record",
}
CLOSE = 1e-4  # relative: a rate that was rounded to a few digits, or up to a grid of floats


def contradictions(entries: Mapping[str, Any]) -> list[str]:
    """Numbers that cannot all be true, in data whose structure may be wrong as well."""
    dataset = _table(entries.get("dataset"))
    records, batch, epochs = (_number(dataset.get(key)) for key in ("records", "batch", "epochs"))
    run = entries.get("run")
    parts = [_table(part) for part in run] if isinstance(run, list | tuple) else []
    found = []
    if records and batch and batch > records:
        found.append(
            f"dataset.batch = {batch:g} contradicts dataset.records = {records:g}. Correct one of them."
        )
    for place, part in enumerate(parts):
        found += _against_dataset(f"run[{place}].sampling", _table(part.get("sampling")), records, batch)
    steps = [_number(part.get("steps")) for part in parts]
    if epochs and steps and all(steps):
        rates = {_number(_table(part.get("sampling")).get("rate")) for part in parts}
        rate = batch / records if records and batch else rates.pop() if len(rates) == 1 else None
        found += _against_epochs(sum(step for step in steps if step), epochs, rate)
    implemented = entries.get("implemented")
    if isinstance(implemented, Mapping):
        found += _implemented(implemented, records, batch)
    return found + _ends(_table(entries.get("certified")))


def _against_dataset(
    where: str, sampling: Mapping[str, Any], records: float | None, batch: float | None
) -> list[str]:
    found = []
    rate = _number(sampling.get("rate"))
    if sampling.get("kind") == "poisson" and rate is not None and records and batch and batch <= records:
        # a loader counts whole batches, so one by their number is the rate as well
        meant = (batch / records, 1 / math.ceil(records / batch), 1 / math.floor(records / batch))
        if not any(math.isclose(rate, one, rel_tol=CLOSE) for one in meant):
            found.append(
                f"{where}.rate = {rate:g} contradicts dataset.batch / dataset.records = {batch:g} / {records:g} = "
                f"{batch / records:.6g}. Correct one of them."
            )
    if sampling.get("kind") == "without-replacement":
        drawn = _number(sampling.get("batch"))
        found += _against_population(where, sampling, records)
        if drawn is not None and batch is not None and drawn != batch:
            found.append(
                f"{where}.batch = {drawn:g} contradicts dataset.batch = {batch:g}. Correct one of them."
            )
    return found


def _implemented(implemented: Mapping[str, Any], records: float | None, batch: float | None) -> list[str]:
    """What is said of the batches as implemented, against itself and against the dataset."""
    scheme, sampling = implemented.get("scheme"), _table(implemented.get("sampling"))
    found = []
    if sampling.get("kind") != ACCOUNTED.get(str(scheme)):
        found.append(
            f"implemented.scheme = {scheme!r} contradicts implemented.sampling = {sampling.get('kind')!r}. "
            "The schemes that are accounted have their own sampling, and the others none."
        )
    found += _against_dataset("implemented.sampling", sampling, records, batch)
    own = {
        key: _number(implemented.get(key)) for key in ("records", "batch", "epoch", "full", "draws", "rate")
    }
    for key, stated in (("records", records), ("batch", batch)):
        if own[key] and stated and own[key] != stated and scheme != "poisson":
            found.append(
                f"implemented.{key} = {own[key]:g} contradicts dataset.{key} = {stated:g}. Correct one of them."
            )
    found += _rate_range(implemented, sampling)
    size, drawn = own["batch"] or batch, own["records"] or records
    epoch, full = own["epoch"], own["full"]
    if size and drawn and epoch and epoch > math.ceil(drawn / size) and implemented.get("times", 1) == 1:
        found.append(
            f"implemented.epoch = {epoch:g} contradicts {drawn:g} records in batches of {size:g}. Correct one of them."
        )
    if full and ((epoch and full > epoch) or (size and drawn and full > drawn // size)):
        found.append(
            f"implemented.full = {full:g} contradicts the other numbers: an epoch has no so many full batches."
        )
    if scheme == "several_draws" and own["draws"] and own["rate"] is not None:
        expected = own["draws"] * own["rate"]
        if own["rate"] == 0 or (
            records and batch and not math.isclose(expected, batch / records, rel_tol=0.05)
        ):
            found.append(
                f"implemented.rate = {own['rate']:g} in {own['draws']:g} draws contradicts the size of a batch."
            )
    return found


def _rate_range(implemented: Mapping[str, Any], sampling: Mapping[str, Any]) -> list[str]:
    stated = implemented.get("rate_range")
    if not isinstance(stated, list | tuple) or len(stated) != 2:
        return []
    low, high, rate = (_number(value) for value in (*stated, sampling.get("rate")))
    right = low is not None and high is not None and rate is not None and low <= rate <= high
    if right and implemented.get("evidence") == "watched":
        return []
    return [
        f"implemented.rate_range = {list(stated)} contradicts the rest: it is the range of a rate that was watched."
    ]


def _against_population(where: str, sampling: Mapping[str, Any], records: float | None) -> list[str]:
    population = _number(sampling.get("population"))
    if population is None or records is None or population == records:
        return []
    return [
        f"{where}.population = {population:g} contradicts dataset.records = {records:g}. Correct one of them."
    ]


def _against_epochs(steps: float, epochs: float, rate: float | None) -> list[str]:
    if not rate:
        return []
    fewest, most = epochs * math.floor(1 / rate + CLOSE), epochs * math.ceil(1 / rate - CLOSE)
    if not math.isfinite(most):
        return [f"dataset.epochs = {epochs:g} is no number of epochs. Correct it."]
    if math.floor(fewest) <= steps <= math.ceil(most):
        return []
    return [
        f"run: {steps:g} steps contradict dataset.epochs = {epochs:g} at the rate {rate:.6g}, which are "
        f"{math.floor(fewest):g} to {math.ceil(most):g} steps. Correct one of them."
    ]


def _ends(certified: Mapping[str, Any]) -> list[str]:
    found = []
    for name in ("accounted", "runs"):
        ends = _table(certified.get(name))
        lower, upper = _number(ends.get("lower")), _number(ends.get("upper"))
        if lower is not None and upper is not None and lower > upper:
            found.append(
                f"certified.{name}: lower = {lower:g} is above upper = {upper:g}. Make the statement anew."
            )
    return found


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    """The value as a finite float; None where it is none, which the structure is refused for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
