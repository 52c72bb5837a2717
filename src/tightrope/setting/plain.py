"""Settings and runs as the plain data that JSON and TOML hold."""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tightrope.errors import InvalidSetting
from tightrope.setting.given import as_given, given_names
from tightrope.setting.mechanism import MECHANISM_SPELLINGS, Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS, Run, Step
from tightrope.setting.sampling import SAMPLING_SPELLINGS, Sampling

Plain = dict[str, object]

FRACTION = re.compile(r"\d{1,4000}/[1-9]\d{0,3999}")  # Python reads no more than 4300 digits


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
    table: Plain = {"kind": spell(type(setting))}
    _write_parameters(setting, table)
    return table


def sampling_of(plain: Mapping[str, Any]) -> Sampling:
    """The sampling that `plain_setting` wrote. Anything else raises KeyError, TypeError or ValueError."""
    kind, parameters = (
        plain["kind"],
        {name: read_exactly(value) for name, value in plain.items() if name != "kind"},
    )
    return SAMPLING_SPELLINGS[kind](**parameters)


def plain_run(run: Run) -> list[Plain]:
    """One flat table per part, in the order of the run.

    >>> from tightrope import Gaussian, Poisson, Step
    >>> plain_run(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=1e-3)) * 10_000)
    [{'mechanism': 'gaussian', 'noise_multiplier': 0.8, 'sampling': 'poisson', 'rate': 0.001, 'steps': 10000}]
    """
    parts: list[Plain] = []
    for step, times in run:
        part: Plain = {"mechanism": step.mechanism.spelling}
        _write_parameters(step.mechanism, part)
        part["sampling"] = step.sampling.spelling
        _write_parameters(step.sampling, part)
        part["steps"] = times
        parts.append(part)
    return parts


def read_plain_run(parts: object) -> Run | None:
    """The run of which `plain_run` makes exactly this; None if there is none, or it has fractions.

    That takes a tenth of the time that reading what people write does, and explains nothing.

    >>> from tightrope import Gaussian, Poisson, Step
    >>> run = Step(Gaussian(noise_multiplier=0.8), Poisson(rate=1e-3)) * 10_000
    >>> read_plain_run(plain_run(run)) == run, read_plain_run([{"steps": 3}])
    (True, None)
    """
    if not isinstance(parts, list):
        return None
    counts: dict[Step, int] = {}
    samplings: dict[tuple[object, ...], Sampling] = {}
    try:
        for part in parts:
            step, times = _read_plain_part(part, samplings)
            if type(times) is not int or not 1 <= times <= MOST_STEPS:
                return None
            counts[step] = times
    except (InvalidSetting, KeyError, TypeError):  # whoever explains it reads it again
        return None
    return Run.of_checked(counts.items()) if len(counts) == len(parts) else None  # else a step comes twice


def _read_plain_part(part: Any, samplings: dict[tuple[object, ...], Sampling]) -> tuple[Step, object]:
    """A step and its count; what `plain_run` did not write raises InvalidSetting, KeyError or TypeError."""
    mechanism, noise, sampling, drawing = _kinds(part["mechanism"], part["sampling"], tuple(part))
    given = {name: part[name] for name in noise}
    for value in given.values():
        if type(value) is not float:
            raise TypeError("not as `plain_run` writes it")
    values = [part[name] for name in drawing]
    key = (sampling, *map(type, values), *values)
    drawn = samplings.get(key)
    if drawn is None:
        drawn = samplings[key] = _make_sampling(sampling, dict(zip(drawing, values, strict=True)))
    return Step(mechanism(**given), drawn), part["steps"]


@lru_cache(maxsize=64)  # the same for most steps of a file
def _kinds(
    mechanism: str, sampling: str, keys: tuple[str, ...]
) -> tuple[type[Mechanism], tuple[str, ...], type[Sampling], tuple[str, ...]]:
    """What two names stand for and are given by, if `plain_run` writes these keys for them, in this order."""
    noise, drawing = MECHANISM_SPELLINGS[mechanism], SAMPLING_SPELLINGS[sampling]
    if keys != ("mechanism", *given_names(noise), "sampling", *given_names(drawing), "steps"):
        raise KeyError("steps")
    return noise, given_names(noise), drawing, given_names(drawing)


def _make_sampling(kind: type[Sampling], given: dict[str, Any]) -> Sampling:
    made = kind(**given)
    written: Plain = {}
    _write_parameters(made, written)
    if written != given:
        raise TypeError("not as `plain_run` writes it")
    return made


def _write_parameters(setting: Mechanism | Sampling, into: Plain) -> None:
    for name in given_names(type(setting)):
        into[name] = _write(as_given(setting, name))


def _write(value: object) -> object:
    """A number, a list of numbers, or a fraction as the text "1/3", which no number of JSON is."""
    if type(value) is float:  # most of what a ledger keeps
        return value
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
