"""Tables as JSON and TOML hold them, read with refusals that name the place, the key and the remedy."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from tightrope.errors import (
    InvalidSetting,
    SeveralProblems,
    TightropeError,
    UnusableFile,
    write_key,
    write_value,
)
from tightrope.setting.relation import RELATION_SPELLINGS, Relation, spelled_relation

T = TypeVar("T")


@contextmanager
def place_refusals(where: str) -> Iterator[None]:
    """Write `where` before any refusal, so that it opens with the place that is wrong.

    >>> with place_refusals("runs.toml: run[2]."):
    ...     raise InvalidSetting("rate", 7, "be in [0, 1]")
    Traceback (most recent call last):
        ...
    tightrope.errors.InvalidSetting: runs.toml: run[2].rate must be in [0, 1], got 7.
    """
    try:
        yield
    except InvalidSetting as refusal:
        refusal.where = where + refusal.where
        raise
    except TightropeError as refusal:
        refusal.what = where + refusal.what
        raise


class Problems:
    """Everything wrong with a file, refused at once. A problem that several parts share is listed once."""

    def __init__(self) -> None:
        self.found: dict[str, InvalidSetting] = {}

    def attempt(self, read: Callable[[], T]) -> T | None:
        """What `read` returns, or None and a note of its refusal."""
        try:
            return read()
        except InvalidSetting as problem:
            self.note(problem)
        except ValueError as problem:  # Python refuses to print a number of thousands of digits
            self.note(UnusableFile("a number", f"cannot be read: {problem}", "Correct it there."))
        return None

    def note(self, problem: InvalidSetting) -> None:
        """Keep a problem for `refuse`."""
        self.found[str(problem)] = problem

    def refuse(self, where: str) -> None:
        """Refuse `where` if there are problems."""
        if len(self.found) > 1:
            raise SeveralProblems(where, tuple(self.found.values()))
        for problem in self.found.values():
            raise problem


# words of the command line, and what files call them
_IN_FILES = {"noise": "noise_multiplier", "sigma": "noise_multiplier", "truth": "truth_probability"}


@dataclass(frozen=True)
class Table:
    """Keys with values. `where` is the place they were read from, which is printed before a key.

    >>> Table({"rat": 0.1}, "runs.toml: run[2].").keep_to(["rate", "steps"])
    Traceback (most recent call last):
        ...
    tightrope.errors.UnusableFile: runs.toml: run[2].rat = 0.1 is not a known key. Did you mean rate?
    """

    entries: Mapping[str, object]
    where: str

    @staticmethod
    def of(value: object, where: str) -> "Table":
        """The value, if it is a table."""
        if not isinstance(value, dict):
            remedy = "Write keys with values, for example rate = 0.001."
            raise UnusableFile(where.rstrip(".: "), f"must be a table, got {write_value(value)}", remedy)
        return Table(value, where)

    def keep_to(self, known: Collection[str]) -> None:
        """Refuse every other key: a misspelt key is never ignored."""
        for key, value in self.entries.items():
            if key not in known:
                meant = _IN_FILES.get(key, key)
                near = [meant] if meant in known else get_close_matches(key, known, n=1)
                advice = f"Did you mean {near[0]}?" if near else f"Known keys are {', '.join(known)}."
                raise UnusableFile(
                    f"{self.where}{write_key(key)}", f"= {write_value(value)} is not a known key", advice
                )

    def need(self, key: str, remedy: str) -> object:
        """The value of a key, which must be there."""
        if key not in self.entries:
            raise UnusableFile(f"{self.where}{key}", "is missing", remedy)
        return self.entries[key]

    def text(self, key: str, remedy: str) -> str:
        """The value of a key that holds a string."""
        value = self.need(key, remedy)
        if not isinstance(value, str):
            raise self.refusal(key, "a string", remedy)
        return value

    def choice(self, key: str, choices: Mapping[str, T]) -> T:
        """What the name under `key` stands for."""
        remedy = f"Write one of {', '.join(choices)}."
        value = self.text(key, remedy)
        if value not in choices:
            near = get_close_matches(value, choices, n=1)
            raise self.refusal(key, "a known name", f"Did you mean {near[0]}? {remedy}" if near else remedy)
        return choices[value]

    def relation(self, key: str = "relation") -> Relation:
        """The relation under `key`, of one record or of a group: "add-or-remove of 5"."""
        value = self.entries.get(key)
        if isinstance(value, str) and " of " in value and spelled_relation(value) is None:
            remedy = "A number from 2 to 1000000 follows, in plain digits, or nothing for one record."
            raise self.refusal(key, "that of a group, such as 'add-or-remove of 5'", remedy)
        return spelled_relation(str(value)) or self.choice(key, RELATION_SPELLINGS)

    def items(self, key: str, remedy: str) -> list[object]:
        """The value of a key that holds a list."""
        value = self.need(key, remedy)
        if not isinstance(value, list):
            raise self.refusal(key, "a list", remedy)
        return value

    def place(self, key: str, index: int) -> str:
        """The place of one table of the list under `key`."""
        return f"{self.where}{key}[{index}]."

    def refusal(self, key: str, must: str, remedy: str) -> InvalidSetting:
        """What to raise if the value under `key` is not what it must be."""
        return InvalidSetting(key, self.entries[key], f"be {must}", remedy, where=self.where)
