"""From the options that state a sampling to the sampling, which is given exactly its own."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

from tightrope.cli.typed.misused import Misused
from tightrope.setting.sampling import (
    SAMPLING_SPELLINGS,
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)

T = TypeVar("T")
Options = Mapping[str, Any]  # the value of each option, None where it was not typed

SHUFFLES = ("shuffle", "shuffled")  # as people call it, and as it is printed
RATED_IN_RECORDS = ("poisson", "truncated-poisson", "balls-in-bins")
_DRAWN_SINGLY = (
    "draws each batch by itself: say how long the training is by --steps or --epochs, and how large a batch "
    "is by --batch, or choose --sampling balls-in-bins"
)
_JOINS_AT_RATE = "joins records with the probability of --rate: leave out one of them"
_EXAMPLE = "for example --records 60000 --batch 256"


def read_sampling(sampling: str, given: Options) -> Sampling:
    """The sampling of this name, or a refusal that names the option."""
    of = f"--sampling {sampling}"
    _refuse_those_of_others(sampling, of, given)
    match sampling:
        case "without-replacement":
            batch, records = _read_batch(of, given)
            return WithoutReplacement(batch=batch, population=records)
        case "poisson":
            if given["rate"] is not None:
                refuse(of, _JOINS_AT_RATE, batch=given["batch"], records=given["records"])
            return Poisson(rate=_read_rate(of, given))
        case "truncated-poisson":
            records = require(of, "for example --records 60000", records=given["records"])
            most = require(of, "for example --at-most 300", at_most=given["at_most"])
            return TruncatedPoisson(rate=_read_rate(of, given), at_most=most, population=records)
        case "balls-in-bins":
            return BallsInBins(batches=_read_batches(of, given))
        case "random-allocation":
            refuse(of, "is stated by --batches and --chosen: leave it out", batch=given["batch"])
            chosen = require(of, "for example --batches 1000 --chosen 5", chosen=given["chosen"])
            return RandomAllocation(batches=_read_batches(of, given), chosen=chosen)
        case "shuffle" | "shuffled":
            return _read_shuffle(of, given)
    return EveryRecord()


def name_kind(sampling: str) -> type[Sampling]:
    """The kind of sampling that the command line calls so.

    >>> name_kind("shuffle").__name__
    'Shuffled'
    """
    return Shuffled if sampling in SHUFFLES else SAMPLING_SPELLINGS[sampling]


def _read_shuffle(of: str, given: Options) -> Shuffled:
    """So many batches in an epoch, or as many as batches of this size are cut from so many records."""
    drops = bool(given["drop_last"])
    if given["batches"] is not None:
        advice = "has as many batches as --batches says: leave out one of them"
        refuse(of, advice, records=given["records"])
        refuse(of, advice, drop_last=True if drops else None)
        return Shuffled(batches=given["batches"], batch=given["batch"])
    batch, records = _read_batch(of, given)
    _check_fits(batch, records)
    return Shuffled.cut(records=records, batch=batch, drop_last=drops)


def _refuse_those_of_others(sampling: str, of: str, given: Options) -> None:
    """Refuse options that only another sampling takes."""
    allocates = sampling in ("balls-in-bins", "random-allocation", *SHUFFLES)
    if not allocates:
        refuse(of, _DRAWN_SINGLY, batches=given["batches"])
    if sampling != "random-allocation":
        advice = "is no choice of several batches: leave it out, or choose --sampling random-allocation"
        refuse(of, advice, chosen=given["chosen"])
    if sampling != "truncated-poisson":
        advice = "has no such cap: leave it out, or choose --sampling truncated-poisson"
        refuse(of, advice, at_most=given["at_most"])
    if sampling not in SHUFFLES:
        drops = True if given["drop_last"] else None
        refuse(of, "cuts no last batch: leave it out, or choose --sampling shuffle", drop_last=drops)
    else:
        refuse(of, "cuts batches of one size: use --records and --batch", rate=given["rate"])
    if allocates:
        refuse(of, "lets records choose among batches: use --batches", rate=given["rate"])
    if sampling == "without-replacement":
        refuse(of, "draws batches of fixed size: use --batch and --records", rate=given["rate"])
    if sampling == "every-record":
        advice = "uses all records in every step: leave it out, or choose another --sampling"
        part = given["batch"] if given["batch"] != given["records"] else None
        refuse(of, advice, rate=given["rate"], batch=part)


def _read_batch(of: str, given: Options) -> tuple[int, int]:
    records = require(of, _EXAMPLE, records=given["records"])
    batch = require(of, _EXAMPLE, batch=given["batch"])
    return batch, records


def _read_share(of: str, given: Options) -> Fraction:
    """batch / records."""
    batch, records = _read_batch(of, given)
    _check_fits(batch, records)
    return Fraction(batch, records)


def _check_fits(batch: int, records: int) -> None:
    if batch > records:
        raise Misused(f"--batch {batch} contradicts --records {records}: a batch cannot hold more")


def _read_rate(of: str, given: Options) -> Any:
    """The rate as it was typed, or that of a batch."""
    if given["rate"] is not None:
        refuse(of, _JOINS_AT_RATE, batch=given["batch"])
        return given["rate"]
    if given["batch"] is not None or (given["records"] is not None and given["at_most"] is None):
        return _read_share(of, given)
    return require(of, "for example --rate 0.001", rate=given["rate"])


def _read_batches(of: str, given: Options) -> int:
    """The batches of a pass as they were typed, or as many as batches of this size take."""
    if given["batches"] is not None:
        refuse(of, "has as many batches as --batches says: leave out one of them", batch=given["batch"])
        return int(given["batches"])
    if given["batch"] is not None:
        share = _read_share(of, given)
        return -(-share.denominator // share.numerator)
    return require(of, "for example --batches 1000, or --records 60000 --batch 256", batches=given["batches"])


def require(of: str, example: str, **option: T | None) -> T:
    """Give the value of the option that must be there."""
    ((name, value),) = option.items()
    if value is None:
        raise Misused(f"--{_kebab(name)} is missing: {of} needs it, {example}")
    return value


def refuse(of: str, remedy: str, **options: object) -> None:
    """Refuse options that must not be there."""
    for name, value in options.items():
        if value is not None:
            text = f" {value:.12g}" if isinstance(value, float) else "" if value is True else f" {value}"
            raise Misused(f"--{_kebab(name)}{text} contradicts {of}, which {remedy}")


def _kebab(name: str) -> str:
    return name.replace("_", "-")
