"""From the state in the address to a question and back: the one place that reads and checks it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from urllib.parse import parse_qsl, urlencode, urlsplit

from tightrope.cli.printed.refusals import WORDS
from tightrope.errors import Described, InvalidSetting, Words
from tightrope.numerics import check
from tightrope.numerics.text import write_number
from tightrope.setting.mechanism import Gaussian, Laplace, Mechanism
from tightrope.setting.relation import RELATION_SPELLINGS, Relation, spelled_relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    Sampling,
    Shuffled,
    WithoutReplacement,
)
from tightrope.setting.training import Training

SAMPLINGS: dict[str, type[Sampling]] = {
    kind.spelling: kind for kind in (Poisson, WithoutReplacement, BallsInBins, Shuffled, EveryRecord)
}
NOISES: dict[str, type[Gaussian] | type[Laplace]] = {kind.spelling: kind for kind in (Gaussian, Laplace)}
SOLVABLE = ("noise", "epochs", "batch")
ROWS = ("usual", "all")  # of the bars: whether add and remove have rows of their own
KEYS = (
    *("records", "batch", "epochs", "mechanism", "noise", "sampling", "relation", "delta"),
    *("epsilon", "solve", "rows"),
)
EXAMPLE = (
    "records=60000&batch=256&epochs=30&mechanism=gaussian&noise=1.1&sampling=poisson"
    "&relation=add-or-remove&delta=1e-05&epsilon=3"
)
LONGEST_VALUE, LONGEST_STATE = 60, 1000  # characters
_WHOLE = re.compile(r"-?[0-9]{1,18}")  # what is below 0 is a number, and refused as what it is
_FRACTION = re.compile(r"-?[0-9]{1,27}/[0-9]{1,27}")
_DECIMAL = re.compile(r"-?(?=.*[0-9])[0-9]*\.?[0-9]*(e[+-]?[0-9]{1,3})?", re.IGNORECASE)


def _name(word: str) -> str:
    return "the link" if word == "at" else WORDS.name(word).removeprefix("--")


def _assign(word: str, value: str) -> str:
    return "Working harder" if word == "effort" else WORDS.assign(word, value).removeprefix("--")


def _show(value: object) -> str:
    if isinstance(value, type):
        return str(getattr(value, "spelling", value.__name__))
    return write_number(value) if isinstance(value, Fraction) else WORDS.value(value)


PAGE = Words(_name, _assign, _show)


@dataclass(frozen=True, kw_only=True)
class PageQuestion:
    """A run in the words people train in, its relation and delta, and perhaps what to solve for.

    `epsilon` is the budget: a line in a chart, or what is solved against. What is solved for is None.

    >>> asked = read_state(EXAMPLE)
    >>> asked.plan().steps, asked.relation
    (7032, ADD_OR_REMOVE)
    >>> asked.state == EXAMPLE
    True
    """

    records: int
    batch: int | None
    epochs: float | Fraction | None
    mechanism: type[Gaussian] | type[Laplace]
    noise: float | None
    sampling: type[Sampling]
    relation: Relation
    delta: float
    epsilon: float | None = None
    solve: str = ""
    rows: str = "usual"

    def __post_init__(self) -> None:
        check.open_probability(remedy="Pass for example 1e-5.", delta=self.delta)
        if self.epsilon is not None:
            check.positive(remedy="Pass the privacy loss you accept.", epsilon=self.epsilon)
        if self.noise is not None:
            self.mechanism(noise_multiplier=self.noise)
        self._check_plan()

    def _check_plan(self) -> None:
        """Refuse records, batch and epochs that make no plan, with what is solved for left open."""
        filled = replace_quietly(
            self,
            batch=1 if self.batch is None else self.batch,
            epochs=1 if self.epochs is None else self.epochs,
        )
        filled.plan(Poisson)  # under every sampling: the bars show them all
        filled.plan()

    def plan(self, sampling: type[Sampling] | None = None) -> Training:
        """The training, with this or another sampling; full batches take no batch."""
        kind = self.sampling if sampling is None else sampling
        assert self.epochs is not None
        batch = None if kind is EveryRecord else self.batch
        return Training(records=self.records, batch=batch, epochs=self.epochs, sampling=kind)

    def noised(self) -> Mechanism:
        """The mechanism with its noise."""
        assert self.noise is not None
        return self.mechanism(noise_multiplier=self.noise)

    def run(self) -> Run:
        """All steps."""
        return self.plan().run(self.noised())

    @property
    def state(self) -> str:
        """The question as it stands in an address."""
        values = {
            "records": str(self.records),
            "batch": None if self.batch is None else str(self.batch),
            "epochs": None if self.epochs is None else write_number(self.epochs),
            "mechanism": self.mechanism.spelling,
            "noise": None if self.noise is None else write_number(self.noise),
            "sampling": self.sampling.spelling,
            "relation": str(self.relation),
            "delta": write_number(self.delta),
            "epsilon": None if self.epsilon is None else write_number(self.epsilon),
            "solve": self.solve or None,
            "rows": None if self.rows == ROWS[0] else self.rows,
        }
        return urlencode({key: value for key, value in values.items() if value is not None}, safe="/")


def replace_quietly(asked: PageQuestion, **changes: object) -> PageQuestion:
    """The question with other values, unchecked."""
    copy = object.__new__(PageQuestion)
    copy.__dict__.update(asked.__dict__, **changes)
    return copy


def settle(asked: PageQuestion, **found: object) -> PageQuestion:
    """The question with what was solved for, and nothing left to solve."""
    return replace(asked, solve="", **found)  # type: ignore[arg-type]


def read_link(link: str) -> PageQuestion:
    """The question of a link to the page, or of the state alone."""
    query = urlsplit(link).query if "?" in link else link
    return read_state(query)


def read_state(query: str) -> PageQuestion:
    """The question that a query string states; InvalidSetting names what is wrong with it.

    A plus is a plus, as in 1e+2: no value has spaces.
    """
    if len(query) > LONGEST_STATE:
        remedy = "Open the page without a question and set it there."
        raise InvalidSetting("at", Described(f"{len(query):,} characters"), "be short", remedy)
    try:
        plain = query.replace("+", "%2B")
        pairs = parse_qsl(plain, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as wrong:
        raise InvalidSetting("at", query, "be keys and values", f"Write for example {EXAMPLE}.") from wrong
    given = _collect(pairs)
    solve = _choose(given, "solve", SOLVABLE) if "solve" in given else ""
    if solve and solve in given:
        remedy = "Leave it out, or solve for nothing."
        raise InvalidSetting(solve, given[solve], "be left out where it is solved for", remedy)
    if solve and "epsilon" not in given:
        raise InvalidSetting("epsilon", None, "be stated", "It is what is solved against.")
    return PageQuestion(
        records=_whole(given, "records"),
        batch=None if solve == "batch" else _whole(given, "batch"),
        epochs=None if solve == "epochs" else _number(given, "epochs", fraction=True),
        mechanism=NOISES[_choose(given, "mechanism", NOISES)],
        noise=None if solve == "noise" else float(_number(given, "noise")),
        sampling=SAMPLINGS[_choose(given, "sampling", SAMPLINGS)],
        relation=_relation(given),
        delta=float(_number(given, "delta")),
        epsilon=float(_number(given, "epsilon")) if "epsilon" in given else None,
        solve=solve,
        rows=_choose(given, "rows", ROWS) if "rows" in given else ROWS[0],
    )


def _collect(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Each key with its value; unknown, repeated and long ones are refused."""
    given: dict[str, str] = {}
    for key, value in pairs:
        if key not in KEYS:
            raise InvalidSetting("at", key, f"have no keys but {', '.join(KEYS)}", "Leave it out.")
        if key in given:
            raise InvalidSetting(key, value, "be stated once", "Leave out one of them.")
        if len(value) > LONGEST_VALUE:
            shown = Described(f"{len(value):,} characters")
            raise InvalidSetting(key, shown, f"have at most {LONGEST_VALUE} characters", "Shorten it.")
        given[key] = value
    return given


def _need(given: dict[str, str], key: str) -> str:
    if key not in given:
        raise InvalidSetting(key, None, "be stated", "There is no default.")
    return given[key]


def _choose(given: dict[str, str], key: str, known: Iterable[str]) -> str:
    value = _need(given, key)
    if value not in known:
        raise InvalidSetting(key, value, f"be one of {', '.join(known)}", "There is no default.")
    return value


def _relation(given: dict[str, str]) -> Relation:
    found = spelled_relation(_choose(given, "relation", RELATION_SPELLINGS))
    assert found is not None
    return found


def _whole(given: dict[str, str], key: str) -> int:
    value = _need(given, key)
    if not _WHOLE.fullmatch(value):
        raise InvalidSetting(key, value, "be a whole number of at most 18 digits", "Write it in digits.")
    return int(value)


def _number(given: dict[str, str], key: str, *, fraction: bool = False) -> float | Fraction:
    value = _need(given, key)
    if fraction and _FRACTION.fullmatch(value) and not value.endswith("/" + "0" * len(value.split("/")[1])):
        return Fraction(value)
    if _WHOLE.fullmatch(value):
        return int(value)
    if not _DECIMAL.fullmatch(value):
        raise InvalidSetting(key, value, "be a number", "Write it in digits, for example 0.5 or 1e-5.")
    return float(value)
