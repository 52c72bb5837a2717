"""What a statement is made of, read from a TOML file that people write."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from tightrope.answers.ledger import Ledger
from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.recordings.watch import watch
from tightrope.errors import InvalidSetting, SeveralProblems, UnusableFile
from tightrope.extras import MissingExtra
from tightrope.files import read_toml
from tightrope.setting.parts import run_of
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run
from tightrope.setting.sampling import SAMPLING_SPELLINGS
from tightrope.setting.tables import Table, place_refusals
from tightrope.statements.checks import SEE_DOCS, find_contradictions
from tightrope.statements.make import Facts, adopt_schedule, declare, declare_as_accounted, state_run
from tightrope.statements.model import (
    Dataset,
    FailureProbability,
    Loss,
    RegistryFacts,
    Schedule,
    Setting,
    SomeWords,
    SpelledRelation,
    Statement,
    list_steps,
)
from tightrope.statements.stated_steps import Count, Share
from tightrope.statements.validate import ClosedTable, explain, must, validate

try:
    from pydantic import Field, PlainValidator, ValidationError, ValidationInfo, model_validator
except ModuleNotFoundError as missing:
    raise MissingExtra("a privacy statement", "pydantic", "statement") from missing


AS_ACCOUNTED = "as-accounted"
SCHEMES = {scheme.name.lower().replace("_", "-"): scheme for scheme in Scheme}
OTHER_SCHEMES = [name for name in SCHEMES if name not in SAMPLING_SPELLINGS]
LEAVE_OUT = "Write a text, or leave the key out."
HELD_BY_LEDGER = "The ledger holds it: leave out one of them."


def _read_run(parts: object) -> Run:
    # without a key, so that refusals open with what comes after "run": [0].rate
    run = run_of(Table({"": parts}, ""), "")
    if not run:
        raise must("be a list of at least one part")
    return run


def _load_ledger(name: str, info: ValidationInfo) -> Ledger:
    with place_refusals(": "):
        return Ledger.load(_find_file(name, info))


def _watch(name: str, info: ValidationInfo) -> Finding:
    with place_refusals(": "):
        return watch(_find_file(name, info))


def _find_file(name: object, info: ValidationInfo) -> Path:
    """A file that is named beside the statement's own."""
    if not isinstance(name, str):
        raise must("be a string")
    return Path(info.context or ".") / name


class ImplementedTable(ClosedTable):
    """How batches are really drawn: as accounted, as recorded, or by another scheme with its numbers."""

    scheme: Literal[AS_ACCOUNTED, *OTHER_SCHEMES] | None = Field(  # type: ignore[valid-type]
        None,
        description=f"Schemes with a theorem of their own stand in [[run]]: write {AS_ACCOUNTED!r} here.",
    )
    recording: Annotated[Finding | None, PlainValidator(_watch)] = Field(
        None, description="It names a file of recorded batches."
    )
    records: Count | None = None
    batch: Count | None = None
    epoch: Count | None = None
    reshuffles: bool | None = Field(None, description="Say whether every epoch draws a new order.")
    share: Share | None = None
    draws: Count | None = None
    rate: Share | None = None

    @model_validator(mode="after")
    def _stands_alone(self) -> Self:
        others = ", ".join(sorted(self.model_fields_set - {"scheme", "recording"}))
        if self.recording is not None and (others or self.scheme):
            raise UnusableFile("recording", "tells the rest by itself", "Leave out the other keys.")
        if self.recording is None and self.scheme is None:
            raise UnusableFile(
                "scheme", "is missing", f"Write one of {', '.join([AS_ACCOUNTED, *OTHER_SCHEMES])}."
            )
        if self.scheme == AS_ACCOUNTED and others:
            raise UnusableFile("scheme", f"= {AS_ACCOUNTED!r} contradicts {others}", "Leave out one of them.")
        return self

    def finding(self, run: Run) -> Finding:
        """What is said of the batches."""
        if self.recording is not None:
            return self.recording
        if self.scheme == AS_ACCOUNTED:
            return declare_as_accounted(run)
        numbers = self.model_dump(exclude={"scheme", "recording"}, exclude_unset=True)
        numbers["reshuffles"] = numbers.get("reshuffles") or None
        if self.scheme == "shuffle" and self.epoch:
            numbers["full"] = self.epoch - 1  # a last batch may be short
        return declare(SCHEMES[str(self.scheme)], **numbers)


class StatementFile(ClosedTable):
    """The facts of a statement; the description of a key says what to write."""

    name: SomeWords = Field(description="Call the release something.")
    setting: Setting = Field(description="Say who holds the data: central, local, federated or shuffle.")
    unit: SomeWords = Field(description="Say whose contribution is protected, for example example, or user.")
    data_accesses: SomeWords = Field(description="Say which uses of the data the claim covers.")
    tuning: SomeWords = Field(
        description="Say whether hyperparameters were chosen on the data, and whether the claim covers that."
    )
    trials: str | None = Field(
        None,
        description='It is the law of the number of runs, for example "geometric:20"; see docs/tuning.md.',
    )
    outputs: SomeWords = Field(description="Say what is released: the final model, all checkpoints, a table.")
    schedule: Schedule = Field(
        "not stated",
        description="Say whether steps were fixed in advance, or chosen on the way after looking at outputs.",
    )
    description: str = Field("", description=LEAVE_OUT)
    unit_details: str = Field("", description=LEAVE_OUT)
    records_per_unit: Count | None = Field(
        None,
        description="It is the most records that one unit has: the relation must protect as many.",
    )
    code: str = Field("", description=LEAVE_OUT)
    delta: FailureProbability = Field(
        description="It is the failure probability of the claim, for example delta = 1e-6."
    )
    epsilon: Loss | None = Field(
        None, description="It is the claim; without it the proved epsilon is claimed."
    )
    dataset: Dataset = Dataset()
    implemented: ImplementedTable = ImplementedTable.model_validate({"scheme": "unknown"})
    registry: dict[str, Any] = Field({}, description="It is a table: open it with a line [registry].")

    @property
    def facts(self) -> Facts:
        """What people state about the release."""
        texts = self.model_dump(include={field.name for field in dataclasses.fields(Facts)})
        return Facts(**texts, **self.dataset.model_dump())


class RunFile(StatementFile):
    """A file that lists its run."""

    run: Annotated[Run, PlainValidator(_read_run)] = Field(description="Open each part with a line [[run]].")
    relation: SpelledRelation = Field(description="Say who counts as a neighbour.")

    @property
    def asked(self) -> tuple[Run, Relation]:
        """What is accounted, and who counts as a neighbour."""
        return self.run, as_relation(self.relation)


class LedgerFile(StatementFile):
    """A file whose run and relation are those of a ledger."""

    ledger: Annotated[Ledger, PlainValidator(_load_ledger)] = Field(
        description="It names the file that Ledger.save wrote."
    )
    run: None = Field(None, description=HELD_BY_LEDGER)
    relation: None = Field(None, description=HELD_BY_LEDGER)

    @property
    def asked(self) -> tuple[Run, Relation]:
        """What is accounted, and who counts as a neighbour."""
        return self.ledger.run, self.ledger.relation


def read_statement(path: Path) -> Statement:
    """The statement that a file asks for; everything wrong with it is listed at once, each with its key."""
    entries = read_toml(path)
    model: type[RunFile] | type[LedgerFile] = LedgerFile if "ledger" in entries else RunFile
    problems: list[InvalidSetting] = []
    try:
        read = model.model_validate(entries, context=path.parent)
    except ValidationError as wrong:
        problems += explain(wrong, model, where=f"{path}: ", remedy=SEE_DOCS)
    problems += _find_contradictions(entries, path)
    if problems:
        raise problems[0] if len(problems) == 1 else SeveralProblems(path, problems)
    run, relation = read.asked
    with place_refusals(f"{path}: "):
        facts = adopt_schedule(read.facts, read.ledger) if isinstance(read, LedgerFile) else read.facts
        return state_run(
            run,
            relation=relation,
            delta=read.delta,
            facts=facts,
            implemented=read.implemented.finding(run),
            epsilon=read.epsilon,
        )


def read_registry_facts(path: Path) -> RegistryFacts:
    """What the registry wants to know besides, from the table [registry] of the same file."""
    entries = read_toml(path)
    if "registry" not in entries:
        what = "Write a table [registry] with slug, curator and more: docs/statements.md."
        raise UnusableFile(f"{path}: registry", "is missing", what)
    return validate(RegistryFacts, entries["registry"], where=str(path), within="registry.")


def _find_contradictions(entries: Mapping[str, Any], path: Path) -> Iterator[InvalidSetting]:
    run = Run()
    with suppress(ValueError):  # what cannot be read is refused for that
        run = _read_run(entries.get("run"))
    for problem in find_contradictions({"dataset": entries.get("dataset"), "run": list_steps(run)}):
        problem.where = f"{path}: "
        yield problem
