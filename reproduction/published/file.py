"""Published training runs from a TOML file, as printed, or a refusal that lists everything wrong with it."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

from reproduction.published.steps import Steps, steps_of
from tightrope.errors import InvalidSetting
from tightrope.files import as_path, read_text
from tightrope.numerics import check
from tightrope.setting.relation import Relation
from tightrope.setting.spelling import RELATION_SPELLINGS, SAMPLING_SPELLINGS
from tightrope.setting.tables import Problems, Table, placed

T = TypeVar("T")

NOT_STATED = "not stated"
SHUFFLE, WINDOWED, SEVERAL_DRAWS = "shuffle", "windowed shuffle", "several draws"
KEPT, DROPPED, JOINED = "kept", "dropped", "joined"

_KEYS = (
    "id",
    "title",
    "citation",
    "source",
    "dataset",
    "accountant",
    "unit",
    "claimed_epsilon",
    "delta",
    "noise_multiplier",
    "batch",
    "rate",
    "records",
    "records_from",
    "steps",
    "epochs",
    "steps_per_epoch",
    "relation",
    "accounted",
    "implemented",
    "implemented_source",
    "reshuffled",
    "last_batch",
    "draws",
    "notes",
)
_RELATIONS: dict[str, Relation | None] = {**RELATION_SPELLINGS, NOT_STATED: None}
_ACCOUNTED: dict[str, str | None] = {**{name: name for name in SAMPLING_SPELLINGS}, NOT_STATED: None}
_IMPLEMENTED: dict[str, str | None] = {
    **_ACCOUNTED,
    SHUFFLE: SHUFFLE,
    WINDOWED: WINDOWED,
    SEVERAL_DRAWS: SEVERAL_DRAWS,
}
_LAST_BATCHES: dict[str, str | None] = {KEPT: KEPT, DROPPED: DROPPED, JOINED: JOINED, NOT_STATED: None}
_OR_NOT = f'Write the number as printed, or "{NOT_STATED}".'
_SHUFFLE_KEYS = ("reshuffled", "last_batch")


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


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One published run; what its source does not state is None.

    `rate` is the share of the records in one batch, `records_from` says who printed their number if the
    source did not. `reshuffled` and `last_batch` describe a shuffle, `draws` how many Poisson draws make one
    step.
    """

    id: str
    title: str
    citation: str
    source: str
    dataset: str
    accountant: str
    unit: str
    claimed_epsilon: Printed
    delta: float | None
    noise_multiplier: float | None
    batch: int | None
    rate: Fraction | None
    records: int | None
    records_from: str
    steps: Steps | None
    relation: Relation | None
    accounted: str | None
    implemented: str | None
    implemented_source: str
    reshuffled: bool | None
    last_batch: str | None
    draws: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Papers:
    """What a file states."""

    path: Path
    settings: tuple[Setting, ...]


def read_papers(path: str | Path) -> Papers:
    """Read the file; a refusal lists each problem with its setting and its key."""
    where = as_path(path)
    try:
        entries = tomllib.loads(read_text(where), parse_float=Printed)
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, InvalidSetting):
            raise
        raise InvalidSetting(f"{where} must be a TOML file, got: {problem}. Correct it there.") from None
    table, problems = Table(entries, f"{where}: "), Problems()
    for key, value in entries.items():
        problems.tried(partial(Table({key: value}, table.where).keep_to, ("setting",)))
    remedy = "Open each setting with a line [[setting]]."
    found: list[Setting] = []
    for i, entry in enumerate(problems.tried(lambda: _settings(table, remedy)) or []):
        name = entry.get("id") if isinstance(entry, dict) else None
        place = f"{table.where}setting[{i}]{f' ({name})' if isinstance(name, str) else ''}."
        setting = _Reader(entry, place, problems).setting()
        if setting is not None and setting.id in {other.id for other in found}:
            problems.found[
                f"{place}id must be new, got {setting.id!r} again. Give each setting an id of its own."
            ] = None
        elif setting is not None:
            found.append(setting)
    problems.refuse(str(where))
    return Papers(where, tuple(found))


def _settings(table: Table, remedy: str) -> list[object]:
    entries = table.items("setting", remedy)
    if not entries:
        raise table.refusal("setting", "a list of at least one setting", remedy)
    return entries


class _Reader:
    """One table as a setting; whatever is wrong with it is kept with the other problems of the file."""

    def __init__(self, value: object, where: str, problems: Problems) -> None:
        self._problems = problems
        self._table = problems.tried(lambda: Table.of(value, where)) or Table({}, where)
        self._empty = not isinstance(value, dict)

    def setting(self) -> Setting | None:
        """The setting; None where it has a problem, so that nothing is computed from half of it."""
        if self._empty:
            return None
        before = len(self._problems.found)
        for key, value in self._table.entries.items():
            self._tried(partial(Table({key: value}, self._table.where).keep_to, _KEYS))
        accounted, implemented = (
            self._choice("accounted", _ACCOUNTED),
            self._choice("implemented", _IMPLEMENTED),
        )
        batch, records, rate = self._batches(accounted)
        self._refuse_foreign(implemented)
        shuffled = implemented == SHUFFLE
        setting = Setting(
            id=self._text("id"),
            title=self._text("title"),
            citation=self._text("citation"),
            source=self._text("source"),
            dataset=self._text("dataset"),
            accountant=self._text("accountant"),
            unit=self._text("unit"),
            claimed_epsilon=self._tried(self._claimed) or Printed("0"),
            delta=self._number("delta", check.open_probability),
            noise_multiplier=self._number("noise_multiplier", check.positive),
            batch=batch,
            rate=rate,
            records=records,
            records_from=self._text("records_from", default=""),
            steps=self._tried(
                lambda: steps_of(self._table, records=records, batch=batch, rate=rate, not_stated=NOT_STATED)
            ),
            relation=self._choice("relation", _RELATIONS),
            accounted=accounted,
            implemented=implemented,
            implemented_source=self._text("implemented_source", default="" if implemented is None else None),
            reshuffled=self._tried(self._reshuffled) if shuffled else None,
            last_batch=self._choice("last_batch", _LAST_BATCHES) if shuffled else None,
            draws=self._whole("draws") if implemented == SEVERAL_DRAWS else None,
            notes=self._tried(self._notes) or (),
        )
        return None if len(self._problems.found) > before else setting

    def _tried(self, read: Callable[[], T]) -> T | None:
        return self._problems.tried(read)

    def _text(self, key: str, default: str | None = None) -> str:
        def read() -> str:
            if default is not None and key not in self._table.entries:
                return default
            text = self._table.text(key, "Say it in one line.").strip()
            if not text or not text.isprintable():
                raise self._table.refusal(key, "one line of text", "Say it in one line.")
            return text

        return self._tried(read) or ""

    def _choice(self, key: str, choices: Mapping[str, T]) -> T | None:
        return self._tried(lambda: self._table.choice(key, choices))

    def _stated(self, key: str) -> bool:
        return self._table.entries.get(key, NOT_STATED) != NOT_STATED

    def _number(self, key: str, checked: Callable[..., T]) -> T | None:
        def read() -> T | None:
            self._table.wanted(key, _OR_NOT)
            if not self._stated(key):
                return None
            with placed(self._table.where):
                return checked(remedy=_OR_NOT, **{key: self._table.entries[key]})

        return self._tried(read)

    def _whole(self, key: str) -> int | None:
        return self._number(key, lambda **named: check.whole(least=1, **named))

    def _claimed(self) -> Printed:
        value = self._table.wanted("claimed_epsilon", "Write the number as printed.")
        with placed(self._table.where):
            check.positive(remedy="Write the number as printed.", claimed_epsilon=value)
        return value if isinstance(value, Printed) else Printed(str(value))

    def _batches(self, accounted: str | None) -> tuple[int | None, int | None, Fraction | None]:
        """Batch, records and the rate; the exact quotient where there is one, which a printed rate must not contradict."""
        table, records = self._table, self._whole("records")
        if "batch" not in table.entries and "rate" not in table.entries and accounted != "every-record":
            self._tried(
                lambda: table.wanted("batch", f'State batch, or rate, or both; "{NOT_STATED}" is an answer.')
            )
        batch = self._whole("batch") if "batch" in table.entries else None
        stated = self._number("rate", check.probability) if "rate" in table.entries else None
        if batch is None or records is None:
            printed = table.entries.get("rate")
            return (
                batch,
                records,
                None if stated is None else Fraction(getattr(printed, "text", str(printed))),
            )
        if batch > records:
            self._tried(
                lambda: self._contradiction(
                    "batch", f"{records} records. A batch holds no more records than there are."
                )
            )
        exact, printed = Fraction(batch, records), table.entries.get("rate")
        if stated is not None and abs(stated - exact) > getattr(printed, "half_a_digit", 0.0) * (1 + 1e-9):
            said = (
                f"batch / records = {batch} / {records} = {float(exact):.6g}. Leave out what is not printed."
            )
            self._tried(lambda: self._contradiction("rate", said))
        return batch, records, exact

    def _contradiction(self, key: str, said: str) -> None:
        raise InvalidSetting(f"{self._table.where}{key} = {self._table.entries[key]!r} contradicts {said}")

    def _refuse_foreign(self, implemented: str | None) -> None:
        """Refuse keys that describe batches of another kind."""
        for kind, keys in ((SHUFFLE, _SHUFFLE_KEYS), (SEVERAL_DRAWS, ("draws",))):
            for key in keys:
                if implemented != kind and key in self._table.entries:
                    said = f"implemented: it describes {kind}. Leave out what is not meant."
                    self._tried(partial(self._contradiction, key, said))

    def _reshuffled(self) -> bool | None:
        remedy = f'Write true, false or "{NOT_STATED}": whether each epoch has an order of its own.'
        value = self._table.wanted("reshuffled", remedy)
        if value == NOT_STATED:
            return None
        if not isinstance(value, bool):
            raise self._table.refusal("reshuffled", "true or false", remedy)
        return value

    def _notes(self) -> tuple[str, ...]:
        if "notes" not in self._table.entries:
            return ()
        notes = self._table.items("notes", "List sentences.")
        if not all(isinstance(note, str) and note and note.isprintable() for note in notes):
            raise self._table.refusal("notes", "a list of sentences of one line", "List sentences.")
        return tuple(str(note) for note in notes)
