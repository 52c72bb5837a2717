"""Runs as people write them into files: a table per part, in the words of Python or of the command line."""

from collections.abc import Collection, Mapping
from typing import Any

from tightrope.errors import InvalidSetting, UnusableFile, write_value
from tightrope.numerics import check
from tightrope.setting.given import given_names
from tightrope.setting.mechanism import MECHANISM_SPELLINGS
from tightrope.setting.plain import read_exactly, spell
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import (
    SAMPLING_SPELLINGS,
    BallsInBins,
    Poisson,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.setting.tables import Table, place_refusals
from tightrope.setting.training import SHUFFLES, Training, as_typed, count_steps

_EXAMPLES = {
    "noise_multiplier": "0.8",
    "truth_probability": "0.75",
    "observed": "[0.75, 0.25]",
    "alternative": "[0.25, 0.75]",
    "rate": "0.001",
    "batch": "50",
    "population": "50000",
    "records": "50000",
    "at_most": "80",
    "batches": "1000",
    "chosen": "5",
    "last": "20",
    "left_over": "10",
    "steps": "10000",
    "epochs": "10",
}
_SHORT = {"noise": "noise_multiplier", "truth": "truth_probability"}  # as the command line says it
_OWN_NAMES = {"records": "population"}
_IN_RECORDS = (Poisson, WithoutReplacement, BallsInBins, Shuffled)  # which records and batch say all about
PART_KEYS = ("mechanism", "sampling", *_EXAMPLES, *_SHORT)


def run_of(table: Table, key: str) -> Run:
    """The run whose parts are listed under `key`."""
    parts = table.items(key, "List one table per part, each with mechanism, sampling and steps.")
    runs = [part_of(Table.of(part, table.place(key, i))) for i, part in enumerate(parts)]
    with place_refusals(f"{table.where}{key}: "):
        return Run(tuple(part for run in runs for part in run))


def part_of(table: Table) -> Run:
    """One step with its multiplicity. The table states every key of its mechanism and sampling, and no other.

    Records, batch and epochs may stand for the rate and the steps.

    >>> part = {"mechanism": "laplace", "noise_multiplier": 4, "sampling": "every-record", "steps": 5}
    >>> part_of(Table(part, "run: "))
    Step(Laplace(noise_multiplier=4.0), EveryRecord()) * 5
    >>> part = {"mechanism": "gaussian", "noise": 4, "sampling": "poisson"}
    >>> part_of(Table({**part, "records": 1000, "batch": 50, "epochs": 3}, "run: "))
    Step(Gaussian(noise_multiplier=4.0), Poisson(rate=Fraction(1, 20))) * 60
    """
    table.keep_to(PART_KEYS)
    table = _spell_out(table)
    mechanism = table.choice("mechanism", MECHANISM_SPELLINGS)
    sampling = table.choice("sampling", SAMPLING_SPELLINGS)
    takes = {
        f"mechanism {spell(mechanism)}": given_names(mechanism),
        f"sampling {spell(sampling)}": sampling_keys(sampling, table.entries),
        "every part": (length_key(table.entries),),
    }
    _refuse_contradictions(table, takes)
    for kind, names in takes.items():
        for name in names:
            table.need(name, f"It is needed by {kind}: write for example {name} = {_EXAMPLES[name]}.")
    values: Mapping[str, Any] = {name: read_exactly(value) for name, value in table.entries.items()}
    with place_refusals(table.where):
        noise = mechanism(**{name: values[name] for name in given_names(mechanism)})
        drawn, steps = _read_length(sampling, values)
        return Run(((Step(noise, drawn), steps),))


def sampling_keys(sampling: type[Sampling], stated: Collection[str]) -> tuple[str, ...]:
    """What a sampling is given by: its own parameters, or records and batch where those are stated.

    >>> sampling_keys(SAMPLING_SPELLINGS["poisson"], ["batch"])
    ('records', 'batch')
    >>> sampling_keys(SAMPLING_SPELLINGS["truncated-poisson"], ["rate", "records"])
    ('rate', 'at_most', 'records')
    """
    own = given_names(sampling)
    if sampling is Shuffled:
        return _shuffled_keys(stated)
    in_records = "records" in stated or ("batch" in stated and "batch" not in own)
    if sampling is TruncatedPoisson:
        if in_records and "rate" not in stated:
            return "records", "batch", "at_most"
        return "rate", "at_most", "records" if "records" in stated else "population"
    if not in_records or sampling not in _IN_RECORDS or {"rate", "batches"} & {*own} & {*stated}:
        return own
    return "records", "batch"


def _shuffled_keys(stated: Collection[str]) -> tuple[str, ...]:
    """Records and batch, or the batches and what else is stated about them."""
    if "batches" not in stated and ("records" in stated or "batch" in stated):
        return "records", "batch"
    return "batches", *(key for key in ("batch", "last", "left_over") if key in stated)


def length_key(stated: Collection[str]) -> str:
    """Whether a part is as long as its epochs or as its steps say."""
    return "epochs" if "epochs" in stated and "steps" not in stated else "steps"


def _spell_out(table: Table) -> Table:
    """The table with the keys that Python has for those of the command line."""
    entries = dict(table.entries)
    for short, name in _SHORT.items():
        if short in entries and name in entries:
            problem = f"= {write_value(entries[short])} is stated twice, as {name} too"
            raise UnusableFile(f"{table.where}{short}", problem, "Leave out one of them.")
        if short in entries:
            entries[name] = entries.pop(short)
    if entries.get("sampling") in SHUFFLES:
        entries["sampling"] = Shuffled.spelling
    return Table(entries, table.where)


def _read_length(kind: type[Sampling], values: Mapping[str, Any]) -> tuple[Sampling, Any]:
    """The sampling and the number of steps."""
    names = sampling_keys(kind, values)
    if "records" in names and "batch" in names:
        drawn: type[Sampling] = Poisson if kind is TruncatedPoisson else kind
        plan = Training(
            records=values["records"], batch=values["batch"], epochs=values.get("epochs", 1), sampling=drawn
        )
        sampling = plan.sampling
        if kind is TruncatedPoisson:
            sampling = kind(rate=sampling.exact_rate, at_most=values["at_most"], population=values["records"])
        return sampling, plan.steps if "epochs" in values else values["steps"]
    sampling = kind(**{_OWN_NAMES.get(name, name): values[name] for name in names})
    if length_key(values) == "steps":
        return sampling, values["steps"]
    remedy = "Pass how often the training goes through the dataset."
    check.positive(remedy=remedy, epochs=values["epochs"])
    if not sampling.exact_rate:
        raise InvalidSetting("epochs", values["epochs"], "be left out beside a rate of 0", "State {steps}.")
    return sampling, count_steps(as_typed(values["epochs"]), sampling)


def _refuse_contradictions(table: Table, takes: dict[str, tuple[str, ...]]) -> None:
    """Refuse parameters of another mechanism or sampling: either they or its name are wrong."""
    stated = {"mechanism", "sampling", *(name for names in takes.values() for name in names)}
    for key, value in table.entries.items():
        if key not in stated:
            taken = [f"{kind} takes {', '.join(names) or 'nothing'}" for kind, names in takes.items()]
            problem = f"= {write_value(value)} contradicts the rest: {' and '.join(taken)}"
            raise UnusableFile(f"{table.where}{key}", problem, "Leave out what is not meant.")
