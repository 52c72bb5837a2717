"""What is wrong with a statement: its structure, and numbers that contradict each other."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from tightrope.errors import InvalidSetting, SeveralProblems, UnusableFile, write_value
from tightrope.extras import MissingExtra
from tightrope.files import parse_json
from tightrope.numerics.text import write_number
from tightrope.setting.plain import read_exactly
from tightrope.setting.run import MOST_STEPS
from tightrope.statements.arithmetic import CLOSE, CORRECT, check_arithmetic
from tightrope.statements.model import VERSION, Computed, Dataset, Implemented, Statement, Steps
from tightrope.statements.stated_steps import (
    AllRecords,
    BatchesWithoutReplacement,
    Bins,
    CappedPoissonBatches,
    PoissonBatches,
    SeveralBins,
    ShuffledBatches,
    StatedSampling,
)
from tightrope.statements.validate import explain
from tightrope.statements.versions import WRITTEN_BY, read_version, update_entries
from tightrope.statements.words import judge_anew

try:
    from pydantic import TypeAdapter, ValidationError
except ModuleNotFoundError as missing:
    raise MissingExtra("a privacy statement", "pydantic", "statement") from missing


SEE_DOCS = "docs/statements.md says what belongs there."
T = TypeVar("T")


def parse_statement(text: str, *, where: str = "statement") -> Statement:
    """The statement in a text, or a refusal that lists everything wrong with it, each with its field."""
    return check_statement(parse_json(text, where=where, remedy=WRITTEN_BY), where=where)


def check_statement(entries: object, *, where: str = "statement") -> Statement:
    """The statement that plain data hold; everything wrong with them is listed at once."""
    if not isinstance(entries, Mapping):
        raise UnusableFile(where, f"must be an object, got {write_value(entries)}", WRITTEN_BY)
    if read_version(entries, where) < VERSION:
        return judge_anew(_validate(update_entries(entries, where), where))
    return _validate(entries, where)


def _validate(entries: Mapping[str, Any], where: str) -> Statement:
    problems: list[InvalidSetting] = []
    try:
        # JSON has no tuples and one kind of number: read as JSON, types are strict all the same
        made = Statement.model_validate_json(json.dumps(entries))
        made.accounted, made.finding  # noqa: B018 # the settings check what a schema cannot say
    except ValidationError as wrong:
        problems += explain(wrong, Statement, remedy=SEE_DOCS)
    except InvalidSetting as wrong:
        problems.append(wrong)
    problems += find_contradictions(entries)
    if problems:
        raise SeveralProblems(where, problems)
    return made


def find_contradictions(entries: Mapping[str, Any]) -> Iterator[InvalidSetting]:
    """Numbers that cannot all be true; parts of the data that cannot be read are left out."""
    dataset = _read(Dataset, entries.get("dataset")) or Dataset()
    run = _read(list[Steps], entries.get("run")) or []
    implemented = _read(Implemented, entries.get("implemented"))
    computed = _read(Computed, entries.get("certified"))
    if dataset.records and dataset.batch and dataset.batch > dataset.records:
        yield _clash("dataset.batch", dataset.batch, "dataset.records", dataset.records)
    for place, part in enumerate(run):
        yield from _check_sampling(f"run[{place}].sampling", part.sampling, dataset)
    yield from _check_epochs(run, dataset)
    if implemented is not None:
        yield from check_arithmetic(implemented, dataset)
        yield from _check_sampling("implemented.sampling", implemented.sampling, dataset)
        yield from _check_sizes(implemented, dataset)
    for name in ("accounted", "runs") if computed is not None else ():
        ends = getattr(computed, name)
        if ends.upper is not None and ends.lower > ends.upper:
            above = f"lower = {write_number(ends.lower)} is above upper = {write_number(ends.upper)}"
            yield UnusableFile(f"certified.{name}:", above, "Make the statement anew.")


def _read(kind: type[T], entries: object) -> T | None:
    try:
        return TypeAdapter(kind).validate_json(json.dumps(entries))
    except (ValueError, TypeError):  # a wrong structure is refused elsewhere; JSON has no dates
        return None


def _clash(name: str, value: float | Fraction, other_name: str, other: float | Fraction) -> UnusableFile:
    return UnusableFile(name, f"= {_write(value)} contradicts {other_name} = {_write(other)}", CORRECT)


def _write(value: float | Fraction) -> str:
    return f"{float(value):.6g}" if isinstance(value, Fraction) else write_number(value)


def _check_sampling(
    where: str, sampling: StatedSampling | None, dataset: Dataset
) -> Iterator[InvalidSetting]:
    records, batch = dataset.records, dataset.batch
    match sampling:
        case PoissonBatches() | CappedPoissonBatches() if records and batch and batch <= records:
            rate, size = Fraction(read_exactly(sampling.rate)), Fraction(batch)
            if not _is_rate(rate, size, records):
                expected = f"dataset.batch / dataset.records = {_write(batch)} / {records}"
                yield _clash(f"{where}.rate", rate, expected, size / records)
        case BatchesWithoutReplacement():
            if records and sampling.population != records:
                yield _clash(f"{where}.population", sampling.population, "dataset.records", records)
            if batch and sampling.batch != batch:
                yield _clash(f"{where}.batch", sampling.batch, "dataset.batch", batch)
        case AllRecords() if records and batch and batch != records:
            yield _clash(f"{where} is every-record: dataset.batch", batch, "dataset.records", records)
    yield from _check_shuffle(where, sampling, dataset)


def _check_shuffle(where: str, sampling: StatedSampling | None, dataset: Dataset) -> Iterator[InvalidSetting]:
    if not isinstance(sampling, ShuffledBatches) or sampling.batch is None:
        return
    if dataset.batch and sampling.batch != dataset.batch:
        yield _clash(f"{where}.batch", sampling.batch, "dataset.batch", dataset.batch)
    last = sampling.batch if sampling.last is None else sampling.last
    cut = (sampling.batches - 1) * sampling.batch + last + sampling.left_over
    if dataset.records and cut != dataset.records:
        yield _clash(f"{where}: records of all batches", cut, "dataset.records", dataset.records)


def _is_rate(rate: Fraction, batch: Fraction, records: int) -> bool:
    # a loader counts whole batches, so one by their number is the rate as well
    counts = (records / batch, math.ceil(records / batch), math.floor(records / batch))
    return any(abs(rate * count - 1) <= CLOSE for count in counts)


def _check_epochs(run: Sequence[Steps], dataset: Dataset) -> Iterator[InvalidSetting]:
    rates = {_find_rate(part.sampling) for part in run}
    if dataset.records and dataset.batch:
        rates = {Fraction(dataset.batch) / dataset.records}
    rate = rates.pop() if len(rates) == 1 else None
    if not run or not rate or not dataset.epochs:
        return
    epochs, steps = Fraction(dataset.epochs), sum(part.steps for part in run)
    fewest = math.floor(epochs * math.floor(1 / rate + CLOSE))
    most = math.ceil(epochs * math.ceil(1 / rate - CLOSE))
    if most > 10 * MOST_STEPS:
        yield UnusableFile(f"dataset.epochs = {_write(epochs)}", "is no number of epochs", "Correct it.")
    elif not fewest <= steps <= most:
        means = f"which makes {fewest} to {most} steps"
        clash = f"steps contradict dataset.epochs = {_write(epochs)} at the rate {_write(rate)}, {means}"
        yield UnusableFile(f"run: {steps}", clash, CORRECT)


def _find_rate(sampling: StatedSampling) -> Fraction | None:
    """The probability that a record is in a batch, as far as the numbers can be read."""
    match sampling:
        case PoissonBatches() | CappedPoissonBatches():
            return Fraction(read_exactly(sampling.rate))
        case Bins() | ShuffledBatches():
            return Fraction(1, sampling.batches)
        case SeveralBins():
            return Fraction(sampling.chosen, sampling.batches)
        case BatchesWithoutReplacement():
            return Fraction(sampling.batch, sampling.population)
        case AllRecords():
            return Fraction(1)


def _check_sizes(implemented: Implemented, dataset: Dataset) -> Iterator[InvalidSetting]:
    for key in ("records", "batch"):
        own, stated = getattr(implemented, key), getattr(dataset, key)
        if None not in (own, stated) and own != stated:
            yield _clash(f"implemented.{key}", own, f"dataset.{key}", stated)
