"""Statements of version 1, with the names of version 2."""

from collections.abc import Mapping
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile
from tightrope.statements.model import FORMAT, VERSION

WRITTEN_BY = "Pass a file written by tightrope statement."
SINCE_VERSION_2 = (("claim", "standing"), ("certified", "sampling_verdict"), ("unit", "records_per_unit"))


def read_version(entries: Mapping[str, Any], where: str) -> int:
    """The version of a statement; data of another format, or of a version to come, are not read at all."""
    if entries.get("format") != FORMAT:
        found, must = entries.get("format"), f"be {FORMAT!r}"
        raise InvalidSetting("format", found, must, WRITTEN_BY, where=f"{where}: ")
    stated = entries.get("version")
    if type(stated) is int and 1 <= stated <= VERSION:
        return stated
    newer = type(stated) is int and stated > VERSION
    remedy = "Update tightrope to read it." if newer else "Make it anew with tightrope statement."
    raise InvalidSetting("version", stated, f"be 1 or {VERSION}", remedy, where=f"{where}: ")


def update_entries(entries: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Version 1 with the names of version 2, for the reader to judge its claim and its assumptions anew.

    What cannot be read stays as it is, and is refused for that.
    """
    updated: dict[str, Any] = {**entries, "version": VERSION, "assumptions": []}
    for table, key in SINCE_VERSION_2:
        if isinstance(entries.get(table), Mapping) and key in entries[table]:
            raise UnusableFile(f"{where}: {table}.{key}", "is not a known key of version 1", WRITTEN_BY)
    if isinstance(entries.get("claim"), Mapping):
        updated["claim"] = {"standing": "not proved", **entries["claim"]}
    if isinstance(entries.get("certified"), Mapping):
        certified = {**entries["certified"]}
        if "verdict" in certified:
            certified["sampling_verdict"] = _look_again(certified.pop("verdict"), entries.get("implemented"))
        updated["certified"] = certified
    return updated


def _look_again(verdict: object, implemented: object) -> object:
    """Version 1 said that batches match also where nobody had looked at them."""
    declared = isinstance(implemented, Mapping) and implemented.get("evidence") == "declared"
    return "declared" if declared and verdict in ("matches", "covered") else verdict
