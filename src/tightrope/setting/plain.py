"""Settings as people write them, and a run as the plain data that JSON and TOML hold."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tightrope.errors import UnusableFile, write_value
from tightrope.setting.given import as_given, given_names
from tightrope.setting.mechanism import MECHANISM_SPELLINGS, Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import SAMPLING_SPELLINGS, Sampling
from tightrope.setting.tables import Table, place_refusals

Plain = dict[str, object]

_EXAMPLES = {
    "noise_multiplier": "0.8",
    "truth_probability": "0.75",
    "observed": "[0.75, 0.25]",
    "alternative": "[0.25, 0.75]",
    "rate": "0.001",
    "batch": "50",
    "population": "50000",
    "steps": "10000",
}
FRACTION = re.compile(r"\d{1,4000}/[1-9]\d{0,3999}")  # Python reads no more than 4300 digits
PART_KEYS = ("mechanism", "sampling", *_EXAMPLES)


def spell(what: type[Mechanism] | type[Sampling] | Relation) -> str:
    """The printed name of a kind of mechanism or sampling, or of a relation.

    >>> from tightrope import ADD_OR_REMOVE, WithoutReplacement
    >>> spell(WithoutReplacement), spell(ADD_OR_REMOVE)
    ('without-replacement', 'add-or-remove')
    """
    return str(what) if isinstance(what, Relation) else what.spelling


def plain_setting(setting: Mechanism | Sampling) -> Plain:
    """A mechanism or a sampling as one table: its kind, then its parameters.

    >>> from tightrope import WithoutReplacement
    >>> plain_setting(WithoutReplacement(batch=50, population=1000))
    {'kind': 'without-replacement', 'batch': 50, 'population': 1000}
    """
    return {"kind": spell(type(setting)), **_parameters(setting)}


def sampling_of(plain: Mapping[str, Any]) -> Sampling:
    """The sampling that `plain_setting` wrote. Anything else raises KeyError, TypeError or ValueError."""
    kind, parameters = (
        plain["kind"],
        {name: read_exactly(value) for name, value in plain.items() if name != "kind"},
    )
    return SAMPLING_SPELLINGS[kind](**parameters)


def plain_run(run: Run) -> list[Plain]:
    """One flat table per part, in the order of the run.

    >>> from tightrope import Gaussian, Poisson
    >>> plain_run(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=1e-3)) * 10_000)
    [{'mechanism': 'gaussian', 'noise_multiplier': 0.8, 'sampling': 'poisson', 'rate': 0.001, 'steps': 10000}]
    """
    return [
        {
            "mechanism": step.mechanism.spelling,
            **_parameters(step.mechanism),
            "sampling": step.sampling.spelling,
            **_parameters(step.sampling),
            "steps": times,
        }
        for step, times in run
    ]


def run_of(table: Table, key: str) -> Run:
    """The run whose parts are listed under `key`."""
    parts = table.items(key, "List one table per part, each with mechanism, sampling and steps.")
    runs = [part_of(Table.of(part, table.place(key, i))) for i, part in enumerate(parts)]
    with place_refusals(f"{table.where}{key}: "):
        return Run(tuple(part for run in runs for part in run))


def part_of(table: Table) -> Run:
    """One step with its multiplicity. The table states every key of its mechanism and sampling, and no other.

    >>> part = {"mechanism": "laplace", "noise_multiplier": 4, "sampling": "every-record", "steps": 5}
    >>> part_of(Table(part, "run: "))
    Run(5 x Step(Laplace(noise_multiplier=4.0), EveryRecord()))
    """
    table.keep_to(PART_KEYS)
    mechanism = table.choice("mechanism", MECHANISM_SPELLINGS)
    sampling = table.choice("sampling", SAMPLING_SPELLINGS)
    takes = {
        f"mechanism {spell(mechanism)}": given_names(mechanism),
        f"sampling {spell(sampling)}": given_names(sampling),
    }
    _refuse_contradictions(table, takes)
    for kind, names in {**takes, "every part": ("steps",)}.items():
        for name in names:
            table.need(name, f"It is needed by {kind}: write for example {name} = {_EXAMPLES[name]}.")
    values: Mapping[str, Any] = table.entries  # checked by the settings themselves
    with place_refusals(table.where):
        step = Step(
            mechanism(**{name: read_exactly(values[name]) for name in given_names(mechanism)}),
            sampling(**{name: read_exactly(values[name]) for name in given_names(sampling)}),
        )
        return Run(((step, values["steps"]),))


def _parameters(setting: Mechanism | Sampling) -> Plain:
    return {name: _write(as_given(setting, name)) for name in given_names(type(setting))}


def _write(value: object) -> object:
    """A number, a list of numbers, or a fraction as the text "1/3", which no number of JSON is."""
    if isinstance(value, tuple):
        return [_write(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def read_exactly(value: Any) -> Any:
    """A number, a list of numbers, or the fraction that a text says; the settings check the rest.

    >>> read_exactly("1/3"), read_exactly([0.5, "1/2"])
    (Fraction(1, 3), [0.5, Fraction(1, 2)])
    """
    if isinstance(value, list):
        return [read_exactly(each) for each in value]
    return Fraction(value) if isinstance(value, str) and FRACTION.fullmatch(value) else value


def _refuse_contradictions(table: Table, takes: dict[str, tuple[str, ...]]) -> None:
    """Refuse parameters of another mechanism or sampling: either they or its name are wrong."""
    stated = {"mechanism", "sampling", "steps", *(name for names in takes.values() for name in names)}
    for key, value in table.entries.items():
        if key not in stated:
            taken = [f"{kind} takes {', '.join(names) or 'nothing'}" for kind, names in takes.items()]
            problem = f"= {write_value(value)} contradicts the rest: {' and '.join(taken)}"
            raise UnusableFile(f"{table.where}{key}", problem, "Leave out what is not meant.")
