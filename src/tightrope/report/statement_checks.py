"""What is wrong with the numbers of a statement, as far as they can be read: contradictions, each with its fields."""

import math
from collections.abc import Mapping
from typing import Any


def version_refusal(entries: Mapping[str, Any], *, where: str, format_name: str, version: int) -> str:
    """Why data of another format or version are not read at all; empty for this one."""
    if entries.get("format") != format_name:
        return (
            f"{where}: format must be {format_name!r}, got {entries.get('format')!r}. Pass a file written by tightrope statement."
        )
    stated = entries.get("version")
    if stated == version and type(stated) is int:
        return ""
    newer = isinstance(stated, int) and stated > version
    remedy = "Update tightrope to read it." if newer else "Make it anew with tightrope statement."
    return f"{where}: version must be {version}, got {stated!r}. {remedy}"


def contradictions(entries: Mapping[str, Any]) -> list[str]:
    """Numbers that cannot all be true, in data whose structure may be wrong as well."""
    dataset = _table(entries.get("dataset"))
    records, batch, epochs = (_number(dataset.get(key)) for key in ("records", "batch", "epochs"))
    run = entries.get("run")
    parts = [_table(part) for part in run] if isinstance(run, list | tuple) else []
    found = []
    for place, part in enumerate(parts):
        sampling = _table(part.get("sampling"))
        where = f"run[{place}].sampling"
        if records and batch:
            found += _against_batch(where, sampling, records, batch)
        elif records and sampling.get("kind") == "without-replacement":
            found += _against_population(where, sampling, records)
    steps = [_number(part.get("steps")) for part in parts]
    if records and batch and epochs and steps and all(steps):
        found += _against_epochs(sum(step for step in steps if step), records, batch, epochs)
    return found + _ends(_table(entries.get("certified")))


def _against_batch(where: str, sampling: Mapping[str, Any], records: float, batch: float) -> list[str]:
    rate = _number(sampling.get("rate"))
    if sampling.get("kind") == "poisson" and rate is not None:
        batches = records / batch
        # a loader counts whole batches, so one by their number is the rate as well; a float has its roundings
        low, high = 1 / math.ceil(batches - 1e-9), 1 / max(math.floor(batches + 1e-9), 1)
        if not low * (1 - 1e-4) <= rate <= high * (1 + 1e-4):
            return [
                f"{where}.rate = {rate:g} contradicts dataset.batch / dataset.records = {batch:g} / {records:g} = "
                f"{batch / records:.6g}. Correct one of them."
            ]
    if sampling.get("kind") == "without-replacement":
        drawn = _number(sampling.get("batch"))
        wrong = _against_population(where, sampling, records)
        if drawn is not None and drawn != batch:
            wrong.append(f"{where}.batch = {drawn:g} contradicts dataset.batch = {batch:g}. Correct one of them.")
        return wrong
    return []


def _against_population(where: str, sampling: Mapping[str, Any], records: float) -> list[str]:
    population = _number(sampling.get("population"))
    if population is None or population == records:
        return []
    return [f"{where}.population = {population:g} contradicts dataset.records = {records:g}. Correct one of them."]


def _against_epochs(steps: float, records: float, batch: float, epochs: float) -> list[str]:
    fewest, most = epochs * math.floor(records / batch), epochs * math.ceil(records / batch)
    if math.floor(fewest) <= steps <= math.ceil(most):
        return []
    return [
        f"run: {steps:g} steps contradict dataset.epochs = {epochs:g} of {records:g} records in batches of {batch:g}, which are "
        f"{math.floor(fewest):g} to {math.ceil(most):g} steps. Correct one of them."
    ]


def _ends(certified: Mapping[str, Any]) -> list[str]:
    found = []
    for name in ("accounted", "runs"):
        ends = _table(certified.get(name))
        lower, upper = _number(ends.get("lower")), _number(ends.get("upper"))
        if lower is not None and upper is not None and lower > upper:
            found.append(f"certified.{name}: lower = {lower:g} is above upper = {upper:g}. Make the statement anew.")
    return found


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
