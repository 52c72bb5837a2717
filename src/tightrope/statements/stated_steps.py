"""Mechanisms and samplings as a statement holds them, each by its kind."""

import math
from fractions import Fraction
from typing import Annotated, Any, Literal

from tightrope.extras import MissingExtra
from tightrope.setting.plain import FRACTION
from tightrope.statements.validate import ClosedTable

try:
    from pydantic import (
        Field,
        GetJsonSchemaHandler,
        PlainSerializer,
        ValidatorFunctionWrapHandler,
        WrapValidator,
    )
    from pydantic_core import CoreSchema
except ModuleNotFoundError as missing:
    raise MissingExtra("a privacy statement", "pydantic", "statement") from missing


Count = Annotated[int, Field(ge=1, le=10**15)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def _allow_fraction(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """A number, or as text a fraction that no float is, such as "1/3", checked as the nearest one."""
    if not (isinstance(value, str) and FRACTION.fullmatch(value)):
        return check(value)
    try:
        check(float(Fraction(value)))
    except OverflowError:
        check(math.inf)
    return value


class _OrFraction:
    """Says in the schema that such a text may stand for a number."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, build: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [build(core), {"type": "string", "pattern": f"^{FRACTION.pattern}$"}]}


_AsGiven = WrapValidator(_allow_fraction), PlainSerializer(lambda value: value), _OrFraction()
ExactSize = Annotated[Size, *_AsGiven]
ExactShare = Annotated[Share, *_AsGiven]


class GaussianNoise(ClosedTable):
    """Gaussian noise on a sum of records."""

    kind: Literal["gaussian"]
    noise_multiplier: ExactSize


class LaplaceNoise(ClosedTable):
    """Laplace noise on a sum of records."""

    kind: Literal["laplace"]
    noise_multiplier: ExactSize


class TrueOrFalse(ClosedTable):
    """A bit that is reported truly with some probability."""

    kind: Literal["randomized-response"]
    truth_probability: ExactShare


class FiniteOutputs(ClosedTable):
    """Finitely many outputs with given probabilities on two neighbours."""

    kind: Literal["finite"]
    observed: list[ExactShare]
    alternative: list[ExactShare]


class AllRecords(ClosedTable):
    """Every record takes part."""

    kind: Literal["every-record"]


class PoissonBatches(ClosedTable):
    """Each record joins a batch by itself."""

    kind: Literal["poisson"]
    rate: ExactShare


class BatchesWithoutReplacement(ClosedTable):
    """Batches of one size, drawn afresh."""

    kind: Literal["without-replacement"]
    batch: Annotated[int, Field(ge=0)]
    population: Count


class CappedPoissonBatches(ClosedTable):
    """Each record joins a batch by itself, and a batch keeps at most so many."""

    kind: Literal["truncated-poisson"]
    rate: ExactShare
    at_most: Count
    population: Count


class Bins(ClosedTable):
    """Each record takes one batch of a pass."""

    kind: Literal["balls-in-bins"]
    batches: Count


class SeveralBins(ClosedTable):
    """Each record takes several batches of a pass."""

    kind: Literal["random-allocation"]
    batches: Count
    chosen: Count


class ShuffledBatches(ClosedTable):
    """In each epoch all records are shuffled and cut into batches."""

    kind: Literal["shuffled"]
    batches: Count
    batch: Count | None = None
    last: Count | None = None
    left_over: Annotated[int, Field(ge=0)] = 0


StatedMechanism = GaussianNoise | LaplaceNoise | TrueOrFalse | FiniteOutputs
StatedSampling = (
    AllRecords
    | PoissonBatches
    | BatchesWithoutReplacement
    | CappedPoissonBatches
    | Bins
    | SeveralBins
    | ShuffledBatches
)
