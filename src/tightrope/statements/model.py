"""A privacy statement: everything that others need to check a claim, as one value that JSON holds.

It needs pydantic, which the extra `statement` brings.
"""

import datetime
import math
import re
from typing import Annotated, Any, Final, Literal

from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.extras import MissingExtra
from tightrope.files import MOST_CHARACTERS, PEOPLE_SEND
from tightrope.setting.mechanism import MECHANISM_SPELLINGS, Mechanism
from tightrope.setting.plain import plain_setting, read_exactly, sampling_of
from tightrope.setting.relation import (
    GROUP_PATTERN,
    RELATION_SPELLINGS,
    Relation,
    as_relation,
    spelled_relation,
)
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Sampling
from tightrope.setting.trials import TrialLaw, as_trials
from tightrope.statements.stated_steps import Count, Share, Size, StatedMechanism, StatedSampling
from tightrope.statements.validate import ClosedTable, must

try:
    from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
except ModuleNotFoundError as missing:
    raise MissingExtra("a privacy statement", "pydantic", "statement") from missing


FORMAT: Final = "tightrope-statement"
VERSION: Final = 2
CONVENTION: Final = "noise scale / C, where C bounds the norm of one record, under every relation"

Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Words = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Loss = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FailureProbability = Annotated[float, Field(gt=0, lt=1)]
Setting = Literal["central", "local", "federated", "shuffle"]
Holds = Literal["yes", "tested", "not checked"]
ClaimStanding = Literal["refuted", "not proved", "conjectured", "proved"]
Schedule = Literal["not stated", "fixed in advance", "chosen on the way"]
NAMES_OF_A_RECORD = ("record", "example", "row", "sample", "data point")


def _check_relation(text: str) -> str:
    if spelled_relation(text) is None:
        *names, last = map(repr, RELATION_SPELLINGS)
        raise must(f"be {', '.join(names)} or {last}, or that of a group, such as 'remove of 5'")
    return text


_SPELLING = {"type": "string", "pattern": f"^({'|'.join(RELATION_SPELLINGS)})( of ({GROUP_PATTERN}))?$"}
SpelledRelation = Annotated[str, AfterValidator(_check_relation), WithJsonSchema(_SPELLING)]


class Steps(ClosedTable):
    """One mechanism on one sampling, so many times."""

    mechanism: Annotated[StatedMechanism, Field(discriminator="kind")]
    sampling: Annotated[StatedSampling, Field(discriminator="kind")]
    steps: Count


class Unit(ClosedTable):
    """Whose contribution is protected: one example, one user, one sequence.

    Relations are between datasets of records, so a unit is protected if it is a record or has only one, or
    has no more than the groups that the relation is about.
    """

    protects: Words
    details: Text = ""
    records_per_unit: Count | None = None

    @property
    def is_a_record(self) -> bool:
        """Whether the unit is called by a name of a record."""
        return self.protects.strip().lower() in NAMES_OF_A_RECORD

    @property
    def most_records(self) -> float:
        """How many records one unit may have, as far as that is stated."""
        unstated = 1 if self.is_a_record else math.inf
        return unstated if self.records_per_unit is None else self.records_per_unit


class Dataset(ClosedTable):
    """Facts that people know their training by; they must agree with the run."""

    records: Count | None = None
    batch: Size | None = None
    epochs: Size | None = None


class Implemented(ClosedTable):
    """How batches are really drawn, and what that rests on."""

    scheme: Literal[tuple(scheme.name.lower() for scheme in Scheme)]  # type: ignore[valid-type]
    evidence: Literal[tuple(how.value for how in How)]  # type: ignore[valid-type]
    sentence: Words
    sampling: Annotated[StatedSampling, Field(discriminator="kind")] | None = None
    records: Count | None = None
    copies: Count | None = None
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
    batch_count: Count | None = None
    notes: tuple[Text, ...] = ()


class Claim(ClosedTable):
    """What is claimed, that the release is (epsilon, delta)-private, and how that stands for what runs."""

    standing: ClaimStanding
    epsilon: Loss
    delta: FailureProbability


class CertifiedEnds(ClosedTable):
    """A certified bracket; no upper end where nothing is proved."""

    lower: Loss
    upper: Loss | None


class Computed(ClosedTable):
    """What was computed: epsilon as accounted, epsilon of what runs, and how the two samplings compare."""

    accounted: CertifiedEnds
    runs: CertifiedEnds
    sampling_verdict: Literal[tuple(verdict.name.lower() for verdict in Verdict)]  # type: ignore[valid-type]
    provided: Text = ""
    why_not: Text = ""


class Theorem(ClosedTable):
    """One theorem that the upper end rests on."""

    name: Words
    statement: Words
    standing: Literal["proved", "conjectured", "refuted"]
    reference: Words


class Assumption(ClosedTable):
    """What the accounting takes for granted, and whether it holds."""

    says: Words
    holds: Holds
    because: Words


def _check_trials(spelled: str) -> str:
    return str(as_trials(spelled))


class Statement(ClosedTable):
    """Everything that others need to check a privacy claim; how the claim stands comes first.

    `statements.make` makes one from a run, an audit and a few facts. `render_json`, and `parse_statement` of
    `statements.checks`, lose nothing.
    """

    claim: Claim
    format: Literal["tightrope-statement"]
    version: Literal[2]
    name: Words
    description: Text = ""
    setting: Setting
    unit: Unit
    relation: SpelledRelation
    data_accesses: Words
    tuning: Words
    trials: Annotated[str, AfterValidator(_check_trials)] | None = None
    outputs: Words
    schedule: Schedule = "not stated"
    noise_convention: Literal["noise scale / C, where C bounds the norm of one record, under every relation"]
    run: Annotated[tuple[Steps, ...], Field(min_length=1, max_length=PEOPLE_SEND.tables)]
    dataset: Dataset = Dataset()
    implemented: Implemented
    certified: Computed
    theorems: tuple[Theorem, ...]
    assumptions: tuple[Assumption, ...]
    code: Text = ""
    command: Words
    tightrope: Words

    @property
    def accounted(self) -> Run:
        """The run that was accounted."""
        return Run(tuple((Step(_mechanism(one), _sampling(one)), one.steps) for one in self.run))

    @property
    def neighbours(self) -> Relation:
        """Who counts as a neighbour."""
        return as_relation(self.relation)

    @property
    def search(self) -> TrialLaw | None:
        """The law of the number of runs, if the best of several was published."""
        return None if self.trials is None else as_trials(self.trials)

    @property
    def finding(self) -> Finding:
        """What was found of how batches are drawn."""
        return Finding.from_plain(self.implemented.model_dump())


def _mechanism(part: Steps) -> Mechanism:
    given = part.mechanism.model_dump(exclude={"kind"})
    return MECHANISM_SPELLINGS[part.mechanism.kind](
        **{name: read_exactly(value) for name, value in given.items()}
    )


def _sampling(part: Steps) -> Sampling:
    return sampling_of(part.sampling.model_dump())


def list_steps(run: Run) -> list[dict[str, Any]]:
    """A run as the parts of a statement."""
    return [
        {"mechanism": plain_setting(step.mechanism), "sampling": plain_setting(step.sampling), "steps": times}
        for step, times in run
    ]


def build_schema() -> dict[str, Any]:
    """The JSON Schema of a statement."""
    schema = Statement.model_json_schema(mode="validation")
    address = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": address, "$id": f"{FORMAT}-{VERSION}.schema.json", **schema}


def _check_words(text: str) -> str:
    if not text.strip():
        raise must("be some words")
    return text.strip()


def _read_date(day: object) -> object:
    try:
        if isinstance(day, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            return datetime.date.fromisoformat(day)
    except ValueError:
        pass
    return day


def _check_slug(slug: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", slug):
        raise must("be letters, digits, - and _")
    return slug


SomeWords = Annotated[str, AfterValidator(_check_words)]
ASKS_FOR_IT = "The registry asks for it: see docs/statements.md."
KNOWS_NO_OTHER = "The registry knows no other."


class RegistryFacts(ClosedTable):
    """What the registry asks for besides the statement: who publishes what, where and when, and who says so.

    `description` is that of the statement unless given.
    """

    slug: Annotated[str, AfterValidator(_check_slug)] = Field(description="It becomes part of an address.")
    curator: SomeWords = Field(description=ASKS_FOR_IT)
    curator_type: Literal["Government", "Industry", "Nonprofit"] = Field(
        description="Say who publishes: Government, Industry or Nonprofit."
    )
    intended_use: SomeWords = Field(description=ASKS_FOR_IT)
    region: SomeWords = Field(description=ASKS_FOR_IT)
    publication_date: Annotated[datetime.date, BeforeValidator(_read_date)] = Field(
        description="Write it as 2026-01-31; 01 stands for an unknown day."
    )
    authors: Annotated[list[SomeWords], Field(min_length=1)] = Field(description="They write the entry.")
    description: SomeWords | None = Field(None, description=ASKS_FOR_IT)
    product_type: Literal[
        "Summary statistics",
        "Machine learning model",
        "Dataset",
        "Synthetic data",
        "Interactive API",
        "SQL queries",
    ] = Field("Machine learning model", description=KNOWS_NO_OTHER)
    sector: Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None = (
        Field(None, description=KNOWS_NO_OTHER)
    )
    tier: Annotated[int, Field(ge=1, le=3)] = Field(3, description=KNOWS_NO_OTHER)
    status: Literal[
        "Converted",
        "Draft",
        "Pending",
        "Changes Required",
        "Approved",
        "Approved (Update Requested)",
        "Approved (Pending)",
    ] = Field("Draft", description=KNOWS_NO_OTHER)
