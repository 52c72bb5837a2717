"""Settings and runs as the plain data that JSON and TOML hold."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tightrope.setting.given import as_given, given_names
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
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

    >>> from tightrope import Gaussian, Poisson, Step
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
