"""From the options that state a sampling to the sampling, which is given exactly its own."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

from tightrope.cli.refusals import Misused
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    TruncatedPoisson,
    WithoutReplacement,
)

T = TypeVar("T")
Options = Mapping[str, Any]  # the value of each option, None where it was not typed

SHUFFLE = "shuffle"
RATED_IN_RECORDS = ("poisson", "truncated-poisson", "balls-in-bins")
NOT_SHUFFLED = (
    "--sampling shuffle: no step of a shuffle is drawn by itself, so this question has no certified answer. "
    "tightrope epsilon --sampling shuffle prints the bounds that are proved; to be accounted tightly, draw "
    "batches by poisson or balls-in-bins, as docs/training.md shows, and ask with that --sampling"
)
_DRAWN_SINGLY = (
    "draws each batch by itself: say how long the training is by --steps or --epochs, and how large a batch "
    "is by --batch, or choose --sampling balls-in-bins"
)
_JOINS_AT_RATE = "joins records with the probability of --rate: leave out one of them"
_EXAMPLE = "for example --records 60000 --batch 256"


def read_sampling(sampling: str, given: Options) -> Sampling:
    """The sampling of this name, or a refusal that names the option."""
    of = f"--sampling {sampling}"
    if sampling == SHUFFLE:
        raise Misused(NOT_SHUFFLED)
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
    return EveryRecord()


def _refuse_those_of_others(sampling: str, of: str, given: Options) -> None:
    """Refuse options that only another sampling takes."""
    allocates = sampling in ("balls-in-bins", "random-allocation")
    if not allocates:
        refuse(of, _DRAWN_SINGLY, batches=given["batches"])
    if sampling != "random-allocation":
        advice = "is no choice of several batches: leave it out, or choose --sampling random-allocation"
        refuse(of, advice, chosen=given["chosen"])
    if sampling != "truncated-poisson":
        advice = "has no such cap: leave it out, or choose --sampling truncated-poisson"
        refuse(of, advice, at_most=given["at_most"])
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
    if batch > records:
        raise Misused(f"--batch {batch} contradicts --records {records}: a batch cannot hold more")
    return Fraction(batch, records)


def _read_rate(of: str, given: Options) -> Any:
    """The rate as it was typed, or that of a batch."""
    if given["rate"] is not None:
        refuse(
            of, "joins records with the probability of --rate: leave out one of them", batch=given["batch"]
        )
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
            text = f"{value:.12g}" if isinstance(value, float) else f"{value}"
            raise Misused(f"--{_kebab(name)} {text} contradicts {of}, which {remedy}")


def _kebab(name: str) -> str:
    return name.replace("_", "-")
