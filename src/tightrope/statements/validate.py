"""Plain data read by pydantic models: all problems at once, each with its place, value and remedy."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from tightrope.errors import InvalidSetting, SeveralProblems, UnusableFile, write_key, write_value
from tightrope.extras import MissingExtra

try:
    from pydantic import BaseModel, ConfigDict, ValidationError
    from pydantic_core import PydanticCustomError
except ImportError as missing:
    raise MissingExtra("reading this file", "pydantic", "statement") from missing

T = TypeVar("T", bound=BaseModel)


class ClosedTable(BaseModel):
    """A table of known keys; no value changes its type. The description of a field is its remedy."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def must(say: str) -> PydanticCustomError:
    """What a validator raises: the value must `say`."""
    return PydanticCustomError("must", f"Input should {say}")


def validate(model: type[T], entries: object, *, where: str, within: str = "") -> T:
    """The model that `entries` fill, or one refusal that lists everything wrong with them.

    `where` names the file; `within`, written before every key, names the table that holds the entries.
    """
    try:
        return model.model_validate(entries)
    except ValidationError as wrong:
        found = explain(wrong, model, where=f"{where}: {within}")
        raise found[0] if len(found) == 1 else SeveralProblems(where, found) from None


def explain(
    wrong: ValidationError, model: type[BaseModel], *, where: str = "", remedy: str = ""
) -> list[InvalidSetting]:
    """What pydantic found, as refusals; `remedy` is for fields without a description."""
    return [_explain_one(dict(problem), model, where, remedy) for problem in wrong.errors()]


def _explain_one(
    problem: Mapping[str, Any], model: type[BaseModel], where: str, remedy: str
) -> InvalidSetting:
    loc: tuple[Any, ...] = problem["loc"]
    key = loc[-1] if loc else ""
    owner = _find_table(model, loc[:-1])
    if owner is not None and key in owner.model_fields:
        remedy = owner.model_fields[key].description or remedy
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{write_key(part)}" for part in loc)[1:]
    value, error = problem["input"], problem.get("ctx", {}).get("error")
    if problem["type"] == "missing":
        return UnusableFile(f"{where}{place}", "is missing", remedy)
    if problem["type"] == "extra_forbidden":
        return UnusableFile(
            f"{where}{place}", f"= {write_value(value)} is not a known key", _advise(str(key), owner)
        )
    if isinstance(error, InvalidSetting):  # of a validator, which names what lies below its own place
        joined = "" if not place or str(error)[:1] in "[: " else "."
        error.where = f"{where}{place}{joined}{error.where}"
        return error
    must = re.sub(r"^\w+ should ", "", problem["msg"].replace("be None", "be left out"))
    if must == problem["msg"]:
        return UnusableFile(f"{where}{place}", f"is wrong: {must}, got {write_value(value)}", remedy)
    return InvalidSetting(place, value, must, remedy, where=where)


def _advise(key: str, owner: type[BaseModel] | None) -> str:
    if owner is None:
        return "Leave it out, or correct its name."
    near = get_close_matches(key, owner.model_fields, n=1)
    return f"Did you mean {near[0]}?" if near else f"Known keys are {', '.join(owner.model_fields)}."


def _find_table(model: type[BaseModel], way: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model of the table that the keys of `way` lead to; None where that is no plain table."""
    for key in way:
        kind = model.model_fields[key].annotation if key in model.model_fields else None
        if not isinstance(kind, type) or not issubclass(kind, BaseModel):
            return None
        model = kind
    return model
