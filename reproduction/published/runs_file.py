"""Published training runs from a TOML file, as printed, or a refusal that lists everything wrong with it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tightrope.errors import InvalidSetting, SeveralProblems, UnusableFile, write_value
from tightrope.files import as_path, read_toml
from tightrope.setting.relation import RELATION_SPELLINGS, Relation
from tightrope.setting.run import MOST_STEPS
from tightrope.setting.sampling import SAMPLING_SPELLINGS
from tightrope.statements.validate import ClosedTable, explain

NOT_STATED = "not stated"
SHUFFLE, WINDOWED, SEVERAL_DRAWS = "shuffle", "windowed shuffle", "several draws"
KEPT, DROPPED, JOINED = "kept", "dropped", "joined"
FLOOR, CEIL, UNROUNDED, ONE_OVER_RATE = "floor", "ceil", "unrounded", "one over rate"

_REMEDY = f'Write what is printed, or "{NOT_STATED}".'
_BATCH = f'State batch, or rate, or both; "{NOT_STATED}" is an answer.'
_STEPS = f'State steps, the fewest and the most in a list, or epochs; "{NOT_STATED}" is an answer.'
_RESHUFFLED = f'Write true, false or "{NOT_STATED}": whether each epoch has an order of its own.'
_MISSING = object()  # stands under a key that is needed and not there


class Printed(float):
    """A number with the digits it was printed with.

    >>> Printed("7.10"), Printed("7.10").text, Printed("7.10").half_a_digit
    (7.1, '7.10', 0.005)
    """

    text: str

    def __new__(cls, text: str) -> "Printed":
        """Read the number and keep its text."""
        number = super().__new__(cls, text)
        number.text = text.replace("_", "")
        return number

    @property
    def half_a_digit(self) -> float:
        """Half a unit of the last decimal; 0 for a number without decimals, which is taken as it is."""
        exponent = Decimal(self.text).as_tuple().exponent
        return 0.5 * 10.0**exponent if isinstance(exponent, int) and exponent < 0 else 0.0


@dataclass(frozen=True)
class StepRange:
    """From `least` to `most` steps: one number unless the source leaves a choice; `how` says why so many."""

    least: int
    most: int
    how: str


def refuse(problem: str, remedy: str) -> NoReturn:
    """Refuse the value that is being read; its place is written before the problem."""
    raise UnusableFile("", problem, remedy)


def unless_not_stated(value: object) -> object:
    """None for what a source does not state."""
    return None if value == NOT_STATED else value


def as_printed(value: object) -> Printed:
    """A finite number with its digits; those of decimals come from the TOML parser."""
    number = Printed(str(value)) if type(value) is int else value
    if not isinstance(number, Printed) or not math.isfinite(number):
        refuse(f"must be a finite number, got {write_value(value)}", _REMEDY)
    return number


def as_fraction(value: object) -> Fraction:
    """The number as printed, not the nearest float."""
    return Fraction(as_printed(value).text)


def as_line(value: object) -> object:
    """Text that is not empty and has no line breaks."""
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        refuse(f"must be one line of text, got {write_value(value)}", "Say it in one line.")
    return value.strip() if isinstance(value, str) else value


def one_of(*names: str, meaning: Mapping[str, object] | None = None) -> BeforeValidator:
    """What one of these names means, itself by default, or None for "not stated"."""
    choices = {**{name: name for name in names}, **(meaning or {}), NOT_STATED: None}

    def choose(value: object) -> object:
        if not isinstance(value, str) or value not in choices:
            near = get_close_matches(str(value), choices, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            refuse(
                f"must be a known name, got {write_value(value)}", f"{hint}Write one of {', '.join(choices)}."
            )
        return choices[value]

    return BeforeValidator(choose)


MAYBE = BeforeValidator(unless_not_stated)
Line = Annotated[str, BeforeValidator(as_line)]
Number = Annotated[Annotated[float, Field(gt=0)] | None, MAYBE]
Count = Annotated[Annotated[int, Field(ge=1)] | None, MAYBE]
Exact = Annotated[Fraction, BeforeValidator(as_fraction)]


class PublishedRun(ClosedTable):
    """One published run; what its source does not state is None.

    `rate` is the share of the records in one batch: the exact quotient where batch and records are stated.
    `records_from` says who printed the number of records if the source did not. `reshuffled` and `last_batch`
    describe a shuffle, `draws` how many Poisson draws make one step. `steps_per_epoch` is the rule of the
    source: "floor" or "ceil" of records / batch, "unrounded" if all epochs together are rounded up, "one over
    rate" rounded down. Keys are read in this order, and checked against those that could be read before.
    """

    model_config = ConfigDict(allow_inf_nan=False, arbitrary_types_allowed=True)

    id: Line
    title: Line
    citation: Line
    source: Line
    dataset: Line
    accountant: Line
    unit: Line
    claimed_epsilon: Annotated[Printed, BeforeValidator(as_printed), Field(gt=0)]
    delta: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, MAYBE]
    noise_multiplier: Number
    relation: Annotated[Relation | None, one_of(meaning=RELATION_SPELLINGS)]
    accounted: Annotated[str | None, one_of(*SAMPLING_SPELLINGS)]
    implemented: Annotated[str | None, one_of(*SAMPLING_SPELLINGS, SHUFFLE, WINDOWED, SEVERAL_DRAWS)]
    implemented_source: Line = ""
    records: Count
    records_from: Line = ""
    batch: Count = Field(default=None, description=_BATCH)
    rate: Annotated[Annotated[Exact, Field(ge=0, le=1)] | None, MAYBE] = Field(
        default=None, validate_default=True
    )
    epochs: Annotated[Annotated[Exact, Field(gt=0)] | None, MAYBE] = Field(default=None, exclude=True)
    steps_per_epoch: Annotated[str | None, one_of(FLOOR, CEIL, UNROUNDED, ONE_OVER_RATE)] = Field(
        default=None, exclude=True
    )
    steps: StepRange | None = Field(default=None, validate_default=True, description=_STEPS)
    reshuffled: Annotated[bool | None, MAYBE] = Field(default=None, description=_RESHUFFLED)
    last_batch: Annotated[str | None, one_of(KEPT, DROPPED, JOINED)] = None
    draws: Count = None
    notes: list[Line] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def mark_missing(cls, entries: Any) -> Any:
        """Mark each key that other keys make necessary, so that all problems are found at once."""
        if not isinstance(entries, dict):
            return entries
        return {**dict.fromkeys(_needed(entries), _MISSING), **entries}

    @field_validator("*", mode="before")
    @classmethod
    def refuse_missing(cls, value: object, info: ValidationInfo) -> object:
        """Refuse a key that is needed, and one that describes batches of another kind."""
        key, implemented = str(info.field_name), info.data.get("implemented", _MISSING)
        if value is _MISSING:
            refuse("is missing", cls.model_fields[key].description or _REMEDY)
        kind = {"reshuffled": SHUFFLE, "last_batch": SHUFFLE, "draws": SEVERAL_DRAWS}.get(key)
        if kind and implemented is not _MISSING and implemented != kind:
            refuse(
                f"= {write_value(value)} contradicts implemented: it describes {kind}",
                "Leave out what is not meant.",
            )
        return value

    @field_validator("batch")
    @classmethod
    def refuse_large_batches(cls, batch: int | None, info: ValidationInfo) -> int | None:
        """Refuse a batch larger than the dataset."""
        records = info.data.get("records")
        if batch and records and batch > records:
            refuse(f"= {batch} contradicts {records} records", "A batch holds no more than there are.")
        return batch

    @field_validator("rate", mode="wrap")
    @classmethod
    def divide(cls, value: object, check: Any, info: ValidationInfo) -> Fraction | None:
        """The exact quotient where there is one, which a printed rate must not contradict."""
        printed, batch, records = check(value), info.data.get("batch"), info.data.get("records")
        if not batch or not records:
            return printed if printed is None else Fraction(printed)
        exact, rounding = Fraction(batch, records), getattr(value, "half_a_digit", 0.0) * (1 + 1e-9)
        if printed is not None and abs(printed - exact) > rounding:
            quotient = f"batch / records = {batch} / {records} = {float(exact):.6g}"
            refuse(f"= {write_value(value)} contradicts {quotient}", "Leave out what is not printed.")
        return exact

    @field_validator("steps_per_epoch")
    @classmethod
    def refuse_a_rule_alone(cls, rule: str | None, info: ValidationInfo) -> str | None:
        """Refuse a rule for epochs that nobody counts."""
        if info.data.get("epochs", 0) is None:
            refuse("contradicts the rest: there are no epochs", "State them too.")
        return rule

    @field_validator("steps", mode="plain")
    @classmethod
    def count(cls, value: object, info: ValidationInfo) -> StepRange | None:
        """The steps that are stated, or those of the epochs."""
        stated, known = _stated_steps(cls.refuse_missing(value, info)), info.data
        steps, counted = stated, None
        if known.get("epochs") and "steps_per_epoch" in known and known.get("rate"):
            batch, records, rate = known.get("batch"), known.get("records"), known["rate"]
            quotient = f"{records:,} / {batch:,}" if batch and records else f"1 / {float(rate):g}"
            counted = _steps_of(known["epochs"], 1 / rate, known["steps_per_epoch"], quotient)
            steps = stated or counted
        if stated and counted and not counted.least <= stated.least <= stated.most <= counted.most:
            refuse(
                f"= {write_value(value)} contradicts epochs: {counted.how}", "Leave out what is not printed."
            )
        if steps and not 1 <= steps.least <= steps.most <= MOST_STEPS:
            refuse(f"must be from 1 to {MOST_STEPS:.0e}, got {steps.how}", "Nobody runs others.")
        return steps


def _needed(entries: Mapping[str, object]) -> Iterator[str]:
    """The keys that other keys make necessary."""
    implemented = entries.get("implemented", NOT_STATED)
    if "rate" not in entries and entries.get("accounted") != "every-record":
        yield "batch"
    if "epochs" not in entries:
        yield "steps"
    elif entries["epochs"] != NOT_STATED:
        yield "steps_per_epoch"
    if implemented != NOT_STATED:
        yield "implemented_source"
    yield from {SHUFFLE: ("reshuffled", "last_batch"), SEVERAL_DRAWS: ("draws",)}.get(str(implemented), ())


def _stated_steps(value: object) -> StepRange | None:
    """One number of steps, or the fewest and the most."""
    if value in (None, NOT_STATED):
        return None
    ends: list[Any] = value if isinstance(value, list) and len(value) == 2 else [value, value]
    if not all(type(end) is int and end >= 1 for end in ends):
        refuse(f"must be one whole number, or the fewest and the most, got {write_value(value)}", _STEPS)
    least, most = ends
    if least > most:
        refuse(f"must be the fewest before the most, got {write_value(value)}", _STEPS)
    return StepRange(least, most, f"{least:,} steps" if least == most else f"{least:,} to {most:,} steps")


def _steps_of(epochs: Fraction, batches: Fraction, rule: str | None, quotient: str) -> StepRange:
    """The steps of so many epochs by the rule of the source; without a rule, between floor and ceil."""
    many, least, most = f"{float(epochs):g} epochs", math.floor(batches), math.ceil(batches)
    if rule is None:
        least, most = math.floor(epochs * least), math.ceil(epochs * most)
        rounded = "rounded down or up in each epoch"
        return StepRange(least, most, f"{least:,} to {most:,} steps = {many} of {quotient} steps, {rounded}")
    if rule == UNROUNDED:
        steps = math.ceil(epochs * batches)
        return StepRange(steps, steps, f"{steps:,} steps = {many} of {quotient} steps, rounded up at the end")
    each, name = (most, "ceil") if rule == CEIL else (least, "floor")
    steps = math.ceil(epochs * each)
    return StepRange(steps, steps, f"{steps:,} steps = {many} of {name}({quotient}) = {each:,} steps")


class _Contents(ClosedTable):
    """The whole file."""

    setting: Annotated[
        list[dict[str, Any]], Field(min_length=1, description="Open each run with a line [[setting]].")
    ]


@dataclass(frozen=True)
class Papers:
    """The runs of a file, in its order."""

    path: Path
    runs: tuple[PublishedRun, ...]


def read_papers(path: str | Path) -> Papers:
    """Read the file; a refusal lists each problem with its run and its key."""
    where = as_path(path)
    entries = read_toml(where, parse_float=Printed)
    problems: list[InvalidSetting] = []
    try:
        _Contents.model_validate(entries)
    except ValidationError as wrong:
        problems += explain(wrong, _Contents, where=f"{where}: ")
    settings = entries.get("setting")
    runs: dict[str, PublishedRun] = {}
    for i, entry in enumerate(settings if isinstance(settings, list) else ()):
        if not isinstance(entry, dict):
            continue
        name = entry.get("id")
        place = f"{where}: setting[{i}]{f' ({name})' if isinstance(name, str) else ''}."
        try:
            run = PublishedRun.model_validate(entry)
        except ValidationError as wrong:
            problems += explain(wrong, PublishedRun, where=place, remedy=_REMEDY)
            continue
        if run.id in runs:
            problems.append(InvalidSetting("id", run.id, "be new", "Give each run its own.", where=place))
        runs[run.id] = run
    if problems:
        raise problems[0] if len(problems) == 1 else SeveralProblems(where, problems)
    return Papers(where, tuple(runs.values()))
