"""A privacy statement: everything that others need to check a claim, as one value that JSON holds without loss.

It needs pydantic: pip install 'tightrope[statement]'.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.errors import InvalidSetting
from tightrope.setting import mechanism as mechanisms
from tightrope.setting import sampling as samplings
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.spelling import MECHANISM_SPELLINGS, RELATION_SPELLINGS, SAMPLING_SPELLINGS, spelled
from tightrope.statements.checks import contradictions, version_refusal

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError
except ImportError as missing:
    raise ImportError(
        "tightrope.statements.model needs pydantic: pip install 'tightrope[statement]'"
    ) from missing

FORMAT: Final = "tightrope-statement"
VERSION: Final = 1
CONVENTION: Final = "noise scale / C, where C bounds the norm of one record, under every relation"

Words = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=10**15)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Loss = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """What all parts of a statement share: no unknown fields, no value turned into another type, nothing changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GaussianNoise(Part):
    """Gaussian noise on a sum of records."""

    kind: Literal["gaussian"]
    noise_multiplier: Size


class LaplaceNoise(Part):
    """Laplace noise on a sum of records."""

    kind: Literal["laplace"]
    noise_multiplier: Size


class TrueOrFalse(Part):
    """A bit that is reported truly with some probability."""

    kind: Literal["randomized-response"]
    truth_probability: Share


class FiniteOutputs(Part):
    """Finitely many outputs with given probabilities on two neighbours."""

    kind: Literal["finite"]
    observed: list[Share]
    alternative: list[Share]


class EveryRecord(Part):
    """Every record takes part."""

    kind: Literal["every-record"]


class PoissonBatches(Part):
    """Each record joins a batch by itself."""

    kind: Literal["poisson"]
    rate: Share


class BatchesWithoutReplacement(Part):
    """Batches of one size, drawn afresh."""

    kind: Literal["without-replacement"]
    batch: Annotated[int, Field(ge=0)]
    population: Count


MechanismPart = Annotated[
    GaussianNoise | LaplaceNoise | TrueOrFalse | FiniteOutputs, Field(discriminator="kind")
]
SamplingPart = Annotated[
    EveryRecord | PoissonBatches | BatchesWithoutReplacement, Field(discriminator="kind")
]


class Steps(Part):
    """One mechanism on one sampling, so many times."""

    mechanism: MechanismPart
    sampling: SamplingPart
    steps: Count


class Unit(Part):
    """Whose contribution is protected: one example, one user, one sequence."""

    protects: Words
    details: str = ""


class Dataset(Part):
    """Facts that people know their training by; they must agree with the run."""

    records: Count | None = None
    batch: Size | None = None
    epochs: Size | None = None


class Implemented(Part):
    """How batches are really drawn, and what that rests on."""

    scheme: Literal[tuple(scheme.name.lower() for scheme in Scheme)]  # type: ignore[valid-type]
    evidence: Literal[tuple(how.value for how in How)]  # type: ignore[valid-type]
    sentence: Words
    sampling: SamplingPart | None = None
    records: Count | None = None
    batch: Count | None = None
    epoch: Count | None = None
    times: Count = 1
    full: Annotated[int, Field(ge=0)] | None = None
    alike: bool = False
    reshuffles: bool | None = None
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    draws: Count | None = None
    rate: Share | None = None
    rate_range: tuple[Share, Share] | None = None
    notes: tuple[str, ...] = ()


class Claim(Part):
    """What is claimed: the release is (epsilon, delta)-private."""

    epsilon: Loss
    delta: Annotated[float, Field(gt=0, lt=1)]


class Ends(Part):
    """A certified bracket; no upper end where nothing is proved."""

    lower: Loss
    upper: Loss | None


class Certified(Part):
    """What was computed: epsilon as accounted, epsilon of what runs, and how the two compare."""

    accounted: Ends
    runs: Ends
    verdict: Literal["matches", "covered", "too_small", "not_proven", "unknown"]
    provided: str = ""
    why_not: str = ""


class Theorem(Part):
    """One theorem that the upper end rests on."""

    name: Words
    statement: Words
    standing: Literal["proved", "conjectured", "refuted"]
    reference: Words


class Assumption(Part):
    """What the accounting takes for granted, and whether it holds."""

    says: Words
    holds: Literal["yes", "tested", "no", "not checked"]
    because: Words


class Statement(Part):
    """Everything that others need to check a privacy claim; `json` and `from_json` lose nothing.

    `of` in `tightrope.statements.make` makes one from a run, an audit and a few facts.
    """

    format: Literal["tightrope-statement"]
    version: Literal[1]
    name: Words
    description: str = ""
    setting: Literal["central", "local", "federated", "shuffle"]
    unit: Unit
    relation: Literal[tuple(RELATION_SPELLINGS)]  # type: ignore[valid-type]
    data_accesses: Words
    tuning: Words
    outputs: Words
    noise_convention: Literal["noise scale / C, where C bounds the norm of one record, under every relation"]
    run: Annotated[tuple[Steps, ...], Field(min_length=1)]
    dataset: Dataset = Dataset()
    implemented: Implemented
    claim: Claim
    certified: Certified
    theorems: tuple[Theorem, ...]
    assumptions: tuple[Assumption, ...]
    code: str = ""
    command: Words
    tightrope: Words

    def json_text(self) -> str:
        """The statement as JSON text, the same for the same statement."""
        return self.model_dump_json(indent=2) + "\n"

    @staticmethod
    def from_json(text: str, *, where: str = "statement") -> "Statement":
        """The statement in a text, or a refusal that lists everything wrong with it, each with its field."""
        try:
            entries = json.loads(text, object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as problem:
            raise InvalidSetting(
                f"{where} must be JSON, got: {problem}. Pass a file written by tightrope statement."
            ) from None
        return checked(entries, where=where)

    @property
    def accounted(self) -> Run:
        """The run that was accounted."""
        return Run(
            tuple(
                (Step(_mechanism(part.mechanism), _sampling(part.sampling)), part.steps) for part in self.run
            )
        )

    @property
    def neighbours(self) -> Relation:
        """Who counts as a neighbour."""
        return RELATION_SPELLINGS[self.relation]

    @property
    def finding(self) -> Finding:
        """What was found of how batches are drawn."""
        return Finding.from_plain(self.implemented.model_dump())


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two equal ones every reader would take another."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(key for key, _ in pairs if [name for name, _ in pairs].count(key) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return entries


def checked(entries: object, *, where: str = "statement") -> Statement:
    """The statement that plain data hold; all that is wrong with them is listed at once."""
    if not isinstance(entries, Mapping):
        raise InvalidSetting(
            f"{where} must be an object, got {entries!r}. Pass a file written by tightrope statement."
        )
    refusal = version_refusal(entries, where=where, format_name=FORMAT, version=VERSION)
    if refusal:
        raise InvalidSetting(refusal)
    wrong: list[str] = []
    made: Statement | None = None
    try:
        # JSON has no tuples and one kind of number: validated as JSON, the types are strict all the same
        made = Statement.model_validate_json(json.dumps(entries))
    except ValidationError as problems:
        wrong += [_in_words(problem) for problem in problems.errors()]
    wrong += contradictions(entries)
    if made is not None and not wrong:
        try:
            made.accounted  # noqa: B018 # the settings check what a schema cannot say
            made.finding  # noqa: B018
        except InvalidSetting as problem:
            wrong.append(str(problem))
    if wrong or made is None:
        heading = f"{where} has {len(wrong)} problem{'s' * (len(wrong) > 1)}:"
        raise InvalidSetting("\n  ".join([heading, *wrong]))
    return made


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a statement."""
    schema = Statement.model_json_schema(mode="validation")
    address = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": address, "$id": f"{FORMAT}-{VERSION}.schema.json", **schema}


def plain_steps(run: Run) -> list[dict[str, Any]]:
    """A run as the parts of a statement."""
    return [
        {"mechanism": _plain(step.mechanism), "sampling": _plain(step.sampling), "steps": times}
        for step, times in run
    ]


def plain_finding(finding: Finding) -> dict[str, Any]:
    """A finding as part of a statement."""
    return {name: value for name, value in finding.plain().items() if name != "tests"}


def _plain(setting: mechanisms.Mechanism | samplings.Sampling) -> dict[str, Any]:
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(setting).items()
    }
    return {"kind": spelled(type(setting)), **values}


def _mechanism(part: Part) -> mechanisms.Mechanism:
    return MECHANISM_SPELLINGS[part.kind](**part.model_dump(exclude={"kind"}))  # type: ignore[attr-defined]


def _sampling(part: Part) -> samplings.Sampling:
    return SAMPLING_SPELLINGS[part.kind](**part.model_dump(exclude={"kind"}))  # type: ignore[attr-defined]


def _in_words(problem: Any) -> str:
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]
    ).removeprefix(".")
    if problem["type"] == "missing":
        return f"{place} is missing. docs/statements.md says what belongs there."
    if problem["type"] == "extra_forbidden":
        return f"{place} = {problem['input']!r} is not a known field. Leave it out, or correct its name."
    return f"{place} is wrong: {problem['msg']}, got {problem['input']!r}."
