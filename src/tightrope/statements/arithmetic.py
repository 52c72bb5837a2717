"""What the numbers of batches as implemented must satisfy together, scheme by scheme."""

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tightrope.audit.finding import Scheme
from tightrope.errors import InvalidSetting, UnusableFile
from tightrope.numerics.text import write_number
from tightrope.setting.sampling import SAMPLING_SPELLINGS, BallsInBins, Shuffled
from tightrope.statements.model import Dataset, Implemented

CLOSE = Fraction(1, 10**4)  # relative: a number that was rounded to a few digits, or up to a grid of floats
SHARES_AGREE = Fraction(1, 20)  # relative: the size of a batch of several draws is known about so well
CORRECT = "Correct one of them."
NOTHING_SAID = {"times": 1, "alike": False, "reshuffles": False}

Numbers = Mapping[str, Any]  # exactly, by the names of this page


class Constraint(NamedTuple):
    """What numbers must satisfy together, and why; it is asked where all that it `ties` are known."""

    name: str
    sentence: str
    ties: tuple[str, ...]
    holds: Callable[..., bool]


def _is_least_share(share: Fraction, records: int) -> bool:
    """Whether a share is at least 1 / records, or the float nearest that."""
    return share * records >= 1 or share == Fraction(1 / records)


ONE_BATCH = Constraint(
    "batch",
    "a batch holds no record twice, so batch <= records",
    ("batch", "records"),
    lambda batch, records: batch <= records,
)
EPOCH = Constraint(
    "epoch",
    "only the last batch of an epoch may be short, so (epoch - 1) * batch < times * records",
    ("epoch", "batch", "times", "records"),
    lambda epoch, batch, times, records: (epoch - 1) * batch < times * records,
)
TIMES = Constraint(
    "times",
    "a record comes in each batch at most once, so times <= epoch",
    ("times", "epoch"),
    lambda times, epoch: times <= epoch,
)
FULL = Constraint(
    "full",
    "only the last batch of an epoch may be short, so epoch - 1 <= full <= epoch",
    ("full", "epoch"),
    lambda full, epoch: epoch - 1 <= full <= epoch,
)
FULL_SIZES = Constraint(
    "full sizes",
    "an epoch holds each record at most so many times, so full * batch <= times * records",
    ("full", "batch", "times", "records"),
    lambda full, batch, times, records: full * batch <= times * records,
)
ALIKE = Constraint(
    "alike",
    "one record fewer leaves as many batches, so alike needs (epoch - 1) * batch < records - 1",
    ("alike", "epoch", "batch", "records"),
    lambda alike, epoch, batch, records: not alike or (epoch - 1) * batch < records - 1,
)
ALIKE_ONCE = Constraint(
    "alike once",
    "batches that are filled up change with one record fewer, so alike needs times = 1",
    ("alike", "times"),
    lambda alike, times: not alike or times == 1,
)
ALIKE_READ = Constraint(
    "alike read",
    "batches do not tell how one record fewer would be cut, so alike is not known where they were watched",
    ("alike", "evidence"),
    lambda alike, evidence: not alike or evidence != "watched",
)
SHARE = Constraint(
    "share",
    "the probabilities of all records add up to 1, so share >= 1 / records",
    ("share", "records"),
    _is_least_share,
)
COPIES = Constraint(
    "copies",
    "copies of a record are records, so copies <= records",
    ("copies", "records"),
    lambda copies, records: copies <= records,
)
IN_ORDER = (ONE_BATCH, EPOCH, TIMES, FULL, FULL_SIZES, ALIKE, ALIKE_ONCE, ALIKE_READ)

CONSTRAINTS: dict[Scheme, tuple[Constraint, ...]] = {
    Scheme.POISSON: (
        Constraint(
            "rate",
            "there is one rate, that of the sampling",
            ("rate", "sampling.rate"),
            lambda rate, sampled: rate == Fraction(float(sampled)),
        ),
        Constraint(
            "range",
            "the range of a rate holds the rate",
            ("rate_range", "sampling.rate"),
            lambda ends, sampled: not ends or ends[0] <= sampled <= ends[1],
        ),
        Constraint(
            "watched",
            "a rate that was watched has a range, and no other has one",
            ("rate_range", "evidence"),
            lambda ends, evidence: (ends != ()) == (evidence == "watched"),
        ),
    ),
    Scheme.WITHOUT_REPLACEMENT: (
        Constraint(
            "batch",
            "batches have one size, that of the sampling",
            ("batch", "sampling.batch"),
            lambda batch, sampled: batch == sampled,
        ),
        Constraint(
            "records",
            "batches are drawn from all records, the population of the sampling",
            ("records", "sampling.population"),
            lambda records, population: records == population,
        ),
        Constraint(
            "rate",
            "a record is in a batch with probability batch / population, so rate is that",
            ("rate", "sampling.batch", "sampling.population"),
            lambda rate, batch, population: rate == Fraction(batch / population),
        ),
    ),
    Scheme.EVERY_RECORD: (
        Constraint(
            "batch",
            "every batch holds all records, so batch = records",
            ("batch", "records"),
            lambda batch, records: batch == records,
        ),
        Constraint("rate", "every batch holds all records, so rate = 1", ("rate",), lambda rate: rate == 1),
    ),
    Scheme.SHUFFLE: IN_ORDER,
    Scheme.FIXED_PARTITION: IN_ORDER,
    Scheme.BALLS_IN_BINS: (
        Constraint(
            "epoch",
            "each record goes into one batch of an epoch, so epoch is records / batch, rounded down or up",
            ("epoch", "records", "batch"),
            lambda epoch, records, batch: (
                math.floor(Fraction(records) / batch) <= epoch <= math.ceil(Fraction(records) / batch)
            ),
        ),
        FULL,
    ),
    Scheme.WITH_REPLACEMENT: (
        SHARE,
        Constraint(
            "equal shares",
            "all records are equally likely, so share = 1 / records, rounded up",
            ("share", "records"),
            lambda share, records: share * records <= 1 + CLOSE,
        ),
        ALIKE_READ,
    ),
    Scheme.WEIGHTED: (
        SHARE,
        Constraint(
            "passes",
            "share tells of draws with replacement and epoch of draws without, so only one of them is known",
            ("share", "epoch"),
            lambda share, epoch: False,
        ),
        EPOCH,
        ALIKE,
        ALIKE_READ,
    ),
    Scheme.SEVERAL_DRAWS: (
        Constraint("draws", "several draws are at least 2", ("draws",), lambda draws: draws >= 2),
        Constraint("rate", "a draw may take any record, so rate > 0", ("rate",), lambda rate: rate > 0),
        Constraint(
            "size",
            "a batch is made of its draws, so draws * rate is about batch / records",
            ("draws", "rate", "batch", "records"),
            lambda draws, rate, batch, records: abs(draws * rate * records - batch) <= SHARES_AGREE * batch,
        ),
    ),
    Scheme.TRUNCATED_POISSON: (
        Constraint(
            "rate",
            "there is one rate, that of the sampling",
            ("rate", "sampling.rate"),
            lambda rate, sampled: rate == Fraction(float(sampled)),
        ),
        Constraint(
            "records",
            "the population is the number of records, or a bound on it, so records <= population",
            ("records", "sampling.population"),
            lambda records, population: records <= population,
        ),
    ),
    Scheme.RANDOM_ALLOCATION: (
        Constraint(
            "epoch",
            "a pass is as many batches as the sampling says",
            ("epoch", "sampling.batches"),
            lambda epoch, batches: epoch == batches,
        ),
    ),
    Scheme.UNKNOWN: (),
}
# The numbers that mean something for each scheme; nothing is proved where the scheme is unknown.
TAKES: dict[Scheme, tuple[str, ...]] = {
    Scheme.POISSON: ("records", "rate", "rate_range"),
    Scheme.WITHOUT_REPLACEMENT: ("records", "batch", "rate"),
    Scheme.EVERY_RECORD: ("records", "batch", "rate"),
    Scheme.SHUFFLE: ("records", "batch", "epoch", "times", "full", "alike", "reshuffles"),
    Scheme.FIXED_PARTITION: ("records", "batch", "epoch", "times", "full", "alike"),
    Scheme.BALLS_IN_BINS: ("records", "batch", "epoch", "full", "reshuffles"),
    Scheme.TRUNCATED_POISSON: ("records", "rate"),
    Scheme.RANDOM_ALLOCATION: ("records", "epoch", "reshuffles"),
    Scheme.WITH_REPLACEMENT: ("records", "batch", "share", "alike"),
    Scheme.WEIGHTED: ("records", "batch", "share", "epoch", "alike"),
    Scheme.SEVERAL_DRAWS: ("records", "draws", "rate"),
}
NUMBERS = tuple(dict.fromkeys(name for names in TAKES.values() for name in names))
# An epoch decides how often a record comes: without these nobody can tell whether it is possible.
EPOCH_NEEDS = {
    Scheme.SHUFFLE: ("records", "batch"),
    Scheme.FIXED_PARTITION: ("records", "batch"),
    Scheme.WEIGHTED: ("records", "batch"),
    Scheme.BALLS_IN_BINS: ("records",),
}


def check_arithmetic(implemented: Implemented, dataset: Dataset) -> Iterator[InvalidSetting]:
    """Everything about the numbers of batches that cannot be true, each with the fields it ties together."""
    scheme = Scheme[str(implemented.scheme).upper()]
    yield from _check_sampling_kind(implemented)
    places = _find_places(implemented, dataset)
    for name in NUMBERS if scheme in TAKES else ():
        if name not in TAKES[scheme] and places.get(name, "").startswith("implemented"):
            value = getattr(implemented, name)
            if value != NOTHING_SAID.get(name):
                says = f"means nothing for implemented.scheme = {str(implemented.scheme)!r}"
                yield UnusableFile(f"{places[name]} = {_write(value)}", says, "Leave it out.")
    missing = [name for name in EPOCH_NEEDS.get(scheme, ()) if name not in places]
    if "epoch" in places and missing:
        needs = " and ".join(f"implemented.{name}" for name in missing)
        problem = f"= {implemented.epoch} is stated without {needs}"
        yield UnusableFile("implemented.epoch", problem, "State them too: nobody can check it without.")
    constraints = (COPIES, *CONSTRAINTS.get(scheme, ()))
    yield from _check_constraints(constraints, implemented, dataset, places)


def _check_constraints(
    constraints: tuple[Constraint, ...], implemented: Implemented, dataset: Dataset, places: Mapping[str, str]
) -> Iterator[InvalidSetting]:
    stated = {name: _look_up(place, implemented, dataset) for name, place in places.items()}
    for constraint in constraints:
        if any(name not in stated for name in constraint.ties):
            continue
        if not constraint.holds(*(_exactly(stated[name]) for name in constraint.ties)):
            listed = [f"{places[name]} = {_write(stated[name])}" for name in constraint.ties]
            contradict = "contradict each other" if len(listed) > 1 else "is not possible"
            yield UnusableFile(_join(listed), f"{contradict}: {constraint.sentence}", CORRECT)


def _find_places(implemented: Implemented, dataset: Dataset) -> dict[str, str]:
    """Where each number stands that is known; sizes that are not implemented.* are those of the dataset."""
    places = {name: f"dataset.{name}" for name in ("records", "batch") if getattr(dataset, name) is not None}
    numbers = (*NUMBERS, "copies")
    places |= {name: f"implemented.{name}" for name in numbers if getattr(implemented, name) is not None}
    places |= {name: f"implemented.{name}" for name in ("evidence", "rate_range")}
    for name in ("rate", "batch", "population", "batches"):
        if hasattr(implemented.sampling, name):
            places[f"sampling.{name}"] = f"implemented.sampling.{name}"
    return places


def _look_up(place: str, implemented: Implemented, dataset: Dataset) -> Any:
    table, *way = place.split(".")
    value: Any = {"implemented": implemented, "dataset": dataset}[table]
    for name in way:
        value = getattr(value, name)
    return value


def _exactly(value: Any) -> Any:
    """Floats and texts such as "1/3" as fractions; no range is an empty one."""
    if isinstance(value, tuple):
        return tuple(map(Fraction, value))
    if value is None:
        return ()
    return Fraction(value) if isinstance(value, float) or (isinstance(value, str) and "/" in value) else value


def _write(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(write_number, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    return write_number(value) if isinstance(value, int | float) else str(value)


def _join(texts: list[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _check_sampling_kind(implemented: Implemented) -> Iterator[InvalidSetting]:
    """The scheme against the sampling that is said to be implemented."""
    scheme, sampling = str(implemented.scheme), implemented.sampling
    kind, expected = sampling.kind if sampling else None, scheme.replace("_", "-")
    is_accounted = expected in SAMPLING_SPELLINGS and (implemented.copies or 1) == 1
    if scheme == Scheme.SHUFFLE.name.lower() and kind in (None, Shuffled.spelling):
        return  # what loaders do is bounded; what is declared to be as accounted is accounted
    if kind is None and expected == BallsInBins.spelling:
        return  # bins that stay, and those of earlier files, are bounded and not accounted
    if kind != (expected if is_accounted else None):
        clash = f"contradicts implemented.sampling = {kind!r}"
        remedy = (
            "The schemes that are accounted have their own sampling, unless a record has copies; the others "
            "have none."
        )
        yield UnusableFile(f"implemented.scheme = {scheme!r}", clash, remedy)
