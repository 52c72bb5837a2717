"""What a statement is made of, read from a TOML file that people write."""

import tomllib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.answers.ledger import Ledger
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.recordings.watch import watch
from tightrope.errors import InvalidSetting
from tightrope.files import read_text
from tightrope.numerics import check
from tightrope.setting.plain import run_of
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.setting.spelling import RELATION_SPELLINGS
from tightrope.setting.tables import Problems, Table, placed
from tightrope.statements.checks import contradictions
from tightrope.statements.make import Facts, declared, declared_as_accounted, statement
from tightrope.statements.model import Statement, plain_steps

TEXTS = {
    "name": "Call the release something.",
    "setting": "Say who holds the data: central, local, federated or shuffle.",
    "unit": "Say whose contribution is protected, for example example, or user.",
    "data_accesses": "Say which uses of the data the claim covers.",
    "tuning": "Say whether hyperparameters were chosen on the data, and whether the claim covers that.",
    "outputs": "Say what is released: the final model, all checkpoints, a table.",
}
MORE_TEXTS = ("description", "unit_details", "code")
KEYS = (
    *TEXTS,
    *MORE_TEXTS,
    "relation",
    "delta",
    "epsilon",
    "ledger",
    "run",
    "dataset",
    "implemented",
    "registry",
)
REGISTRY_KEYS = (
    *("slug", "curator", "curator_type", "intended_use", "region", "publication_date", "authors"),  # wanted
    *("description", "product_type", "sector", "tier", "status"),
)
DATASET_KEYS = ("records", "batch", "epochs")
SCHEMES = {scheme.name.lower().replace("_", "-"): scheme for scheme in Scheme}
AS_ACCOUNTED = "as-accounted"
IMPLEMENTED_KEYS = (
    "scheme",
    "recording",
    "records",
    "batch",
    "epoch",
    "reshuffles",
    "share",
    "draws",
    "rate",
)


@dataclass(frozen=True)
class _Read:
    """The parts of a file that could be read, each None where it was refused."""

    run: Run | None
    relation: Relation | None
    implemented: Finding | None


def read_statement(path: Path) -> Statement:
    """The statement that a file asks for; all that is wrong with the file is listed at once, each with its key."""
    table = _table(path)
    problems = Problems()
    for key, value in table.entries.items():
        problems.tried(partial(Table({key: value}, table.where).keep_to, KEYS))
    texts: dict[str, Any] = {key: problems.tried(partial(_words, table, key)) for key in TEXTS}
    texts |= {key: problems.tried(partial(_text, table, key)) for key in MORE_TEXTS if key in table.entries}
    delta = problems.tried(lambda: _probability(table, "delta"))
    epsilon = problems.tried(lambda: _epsilon(table)) if "epsilon" in table.entries else None
    dataset = problems.tried(lambda: _dataset(table)) or {}
    read = _run_and_batches(table, path, problems)
    stated_parts = plain_steps(read.run) if read.run is not None else []
    problems.found |= dict.fromkeys(
        f"{path}: {problem}"
        for problem in contradictions({"dataset": dataset, "run": stated_parts, "implemented": None})
    )
    problems.refuse(str(path))
    if read.run is None or read.relation is None or read.implemented is None or delta is None:
        raise AssertionError("what could not be read was refused")
    facts = Facts(**texts, **dataset)
    with placed(f"{path}: "):
        return statement(
            read.run,
            relation=read.relation,
            delta=delta,
            facts=facts,
            implemented=read.implemented,
            epsilon=epsilon,
        )


def read_registry_facts(path: Path) -> dict[str, Any]:
    """What the deployments registry wants to know besides, from the table [registry] of the same file."""
    table = _table(path)
    wanted = table.wanted(
        "registry", "The registry wants a table [registry] with slug, curator and more: docs/statements.md."
    )
    inner = Table.of(wanted, f"{path}: registry.")
    problems = Problems()
    for key, value in inner.entries.items():
        problems.tried(partial(Table({key: value}, inner.where).keep_to, REGISTRY_KEYS))
    for key in REGISTRY_KEYS[:7]:
        problems.tried(partial(inner.wanted, key, "The registry asks for it: see docs/statements.md."))
    problems.refuse(str(path))
    return dict(inner.entries)


def _table(path: Path) -> Table:
    text = read_text(path)
    try:
        return Table.of(tomllib.loads(text), f"{path}: ")
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InvalidSetting(f"{path} must be a TOML file, got: {problem}. Correct it there.") from None


def _run_and_batches(table: Table, path: Path, problems: Problems) -> _Read:
    if "ledger" in table.entries:
        kept = problems.tried(lambda: _ledger(table, path))
        run, relation = (kept.run, kept.relation) if kept is not None else (None, None)
    else:
        run = problems.tried(lambda: _run(table))
        relation = problems.tried(lambda: table.choice("relation", RELATION_SPELLINGS))
    implemented = problems.tried(lambda: _implemented(table, path, run))
    return _Read(run, relation, implemented)


def _ledger(table: Table, path: Path) -> Ledger:
    for key in ("run", "relation"):
        if key in table.entries:
            raise InvalidSetting(
                f"{table.where}{key} contradicts ledger, which holds it. Leave out one of them."
            )
    with placed(f"{table.where}ledger: "):
        return Ledger.load(path.parent / table.text("ledger", "It names the file that Ledger.save wrote."))


def _run(table: Table) -> Run:
    run = run_of(table, "run")
    if not run:
        raise table.refusal("run", "a list of at least one part", "Open each part with a line [[run]].")
    return run


def _words(table: Table, key: str) -> str:
    text = table.text(key, TEXTS[key]).strip()
    if not text:
        raise table.refusal(key, "some words", TEXTS[key])
    return text


def _text(table: Table, key: str) -> str:
    return table.text(key, "Write a text, or leave the key out.").strip()


def _probability(table: Table, key: str) -> float:
    value: Any = table.wanted(key, "It is the failure probability of the claim, for example delta = 1e-6.")
    with placed(table.where):
        return check.open_probability(**{key: value})


def _epsilon(table: Table) -> float:
    with placed(table.where):
        value = check.real(
            remedy="It is the claim; without it the proved epsilon is claimed.",
            epsilon=table.entries["epsilon"],
        )
    if value < 0:
        raise table.refusal(
            "epsilon", "at least 0", "It is the claim; without it the proved epsilon is claimed."
        )
    return value


def _dataset(table: Table) -> dict[str, Any]:
    if "dataset" not in table.entries:
        return {}
    inner = Table.of(table.entries["dataset"], f"{table.where}dataset.")
    inner.keep_to(DATASET_KEYS)
    stated: dict[str, Any] = {}
    entries: dict[str, Any] = dict(inner.entries)
    with placed(inner.where):
        if "records" in inner.entries:
            stated["records"] = check.whole(least=1, records=entries["records"])
        for key in ("batch", "epochs"):
            if key in inner.entries:
                stated[key] = check.positive(**{key: entries[key]})
    return stated


def _implemented(table: Table, path: Path, run: Run | None) -> Finding:
    if "implemented" not in table.entries:
        return declared(Scheme.UNKNOWN)
    inner = Table.of(table.entries["implemented"], f"{table.where}implemented.")
    inner.keep_to(IMPLEMENTED_KEYS)
    if "recording" in inner.entries:
        if len(inner.entries) > 1:
            raise InvalidSetting(
                f"{inner.where}recording stands alone: the batches tell the rest. Leave out the other keys."
            )
        with placed(f"{inner.where}recording: "):
            return watch(path.parent / inner.text("recording", "It names a file of recorded batches."))
    choices = {AS_ACCOUNTED: None, **SCHEMES}
    scheme = inner.choice("scheme", choices)
    numbers: dict[str, Any] = {key: value for key, value in inner.entries.items() if key != "scheme"}
    if scheme is None:
        if numbers:
            raise InvalidSetting(
                f"{inner.where}{next(iter(numbers))} contradicts scheme = {AS_ACCOUNTED!r}. Leave it out."
            )
        if run is None:
            return declared(Scheme.UNKNOWN)  # the run is refused already
        return declared_as_accounted(run)
    return _declared(inner, scheme, numbers)


def _declared(inner: Table, scheme: Scheme, numbers: dict[str, Any]) -> Finding:
    if scheme in (Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT, Scheme.EVERY_RECORD):
        raise inner.refusal(
            "scheme",
            "another scheme than those that are accounted",
            f"Account it in [[run]], and write scheme = {AS_ACCOUNTED!r}.",
        )
    plain = declared(scheme)
    stated: dict[str, Any] = {}
    with placed(inner.where):
        for key in ("records", "batch", "epoch", "draws"):
            if key in numbers:
                stated[key] = check.whole(least=1, **{key: numbers[key]})
        for key in ("share", "rate"):
            if key in numbers:
                stated[key] = check.probability(**{key: numbers[key]})
    if "reshuffles" in numbers:
        if not isinstance(numbers["reshuffles"], bool):
            raise inner.refusal("reshuffles", "true or false", "Say whether every epoch draws a new order.")
        stated["reshuffles"] = numbers["reshuffles"] or None
    if stated.get("epoch") and scheme is Scheme.SHUFFLE:
        stated["full"] = stated["epoch"] - 1  # a last batch may be short
    return Finding(scheme=scheme, how=How.DECLARED, sentence=plain.sentence, **stated)
