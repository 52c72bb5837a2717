"""What people reach from `import tightrope`: audits, statements, relations by the names they type."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from tightrope.audit import Finding, How, Scheme
from tightrope.setting.relation import as_relation

STEP = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05))
RUN = STEP * 100
INSPECTED = Finding(
    scheme=Scheme.POISSON, how=How.INSPECTED, sentence="Poisson.", sampling=STEP.sampling, rate=0.05
)
FACTS = tr.Facts(
    name="digits",
    setting="central",
    unit="example",
    data_accesses="all passes",
    tuning="none",
    outputs="the last weights",
)


def run_python(script: str) -> str:
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.parametrize(
    "first",
    [
        "import tightrope as tr",
        "import tightrope as tr; from tightrope.audit import watch",
        "import tightrope as tr; import tightrope.audit.claims.judge",
        "import tightrope as tr; from tightrope import audit; assert audit is tr.audit",
        "import tightrope as tr; from tightrope.statements import make",
        "import tightrope as tr; tr.statement",
    ],
)
def test_the_audit_can_be_called_whatever_was_imported_first(first: str) -> None:
    script = f"""{first}
assert callable(tr.audit), tr.audit
from tightrope.audit import Audit, audit, inspect_loader, watch
import tightrope.audit as room
assert room is tr.audit and room.watch is watch and room.audit is audit
run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05)) * 5
said = dict(scheme=room.Scheme.POISSON, how=room.How.DECLARED, sentence='', sampling=tr.Poisson(rate=0.05))
found = tr.audit(room.Finding(**said), run, delta=1e-5, relation='add/remove')
assert isinstance(found, Audit)
print(found.verdict.name)
"""
    assert run_python(script) == "DECLARED"


def test_calling_the_audit_has_the_signature_of_the_function() -> None:
    from tightrope.audit import audit

    assert inspect.signature(tr.audit) == inspect.signature(audit)


def test_patching_inside_the_audit_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.audit.claims.judge.GRID", 0.5)
    from tightrope.audit.claims import judge

    assert judge.GRID == 0.5


def test_a_statement_is_made_of_a_run_a_ledger_its_file_or_an_audit(tmp_path: Path) -> None:
    ledger = tr.Ledger(relation="add-or-remove")
    ledger.record(RUN)
    ledger.save(tmp_path / "ledger.json")
    made = [
        tr.statement(RUN, relation="add/remove", delta=1e-5, facts=FACTS),
        tr.statement(ledger, delta=1e-5, facts=FACTS),
        tr.statement(tmp_path / "ledger.json", delta=1e-5, facts=FACTS),
        tr.statement(tr.audit(INSPECTED, RUN, delta=1e-5, relation=tr.ADD_OR_REMOVE), facts=FACTS),
    ]
    assert {one.claim.epsilon for one in made} == {made[0].claim.epsilon}
    assert [one.certified.sampling_verdict for one in made] == ["declared"] * 3 + ["matches"]
    assert all(tr.verify(one).holds for one in made)


def test_a_statement_is_verified_from_its_file(tmp_path: Path) -> None:
    from tightrope.statements.render import render_json

    path = tmp_path / "statement.json"
    path.write_text(render_json(tr.statement(STEP, relation="remove", delta=1e-5, facts=FACTS)))
    assert tr.verify(path).holds
    assert tr.verify(str(path)).holds
    entries = json.loads(path.read_text())
    entries["claim"]["epsilon"] /= 2
    path.write_text(json.dumps(entries))
    assert not tr.verify(path).holds
    with pytest.raises(tr.UnusableFile, match=r"nowhere.json"):
        tr.verify(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("release", "named", "message"),
    [
        (RUN, {"delta": 1e-5}, "relation must be stated, got None. Say who"),
        (RUN, {"relation": "add"}, "delta must be stated, got None"),
        (
            tr.Ledger(relation="add"),
            {"delta": 1e-5, "relation": "add"},
            "relation must be left out, got 'add'",
        ),
        (tr.Ledger(relation="add"), {}, "delta must be stated"),
        (
            RUN.parts,
            {"delta": 1e-5, "relation": "add"},
            "release must be a Run, a Step, a Ledger or an Audit",
        ),
    ],
)
def test_what_a_statement_lacks_or_holds_already_is_named(
    release: Any, named: dict[str, Any], message: str
) -> None:
    with pytest.raises(tr.InvalidSetting, match=message):
        tr.statement(release, facts=FACTS, **named)


def test_what_is_no_statement_and_what_are_no_facts_are_refused() -> None:
    facts: Any = {"name": "digits"}
    with pytest.raises(tr.InvalidSetting, match="facts must be Facts, got"):
        tr.statement(RUN, relation="add", delta=1e-5, facts=facts)
    with pytest.raises(tr.InvalidSetting, match="stated must be a Statement or its file, got"):
        tr.verify(facts)


def test_an_audit_holds_relation_delta_and_finding() -> None:
    found = tr.audit(
        tr.statement(RUN, relation="add", delta=1e-5, facts=FACTS).finding, RUN, delta=1e-5, relation="add"
    )
    for named in ({"delta": 1e-5}, {"relation": "add"}, {"implemented": found.finding}):
        with pytest.raises(tr.InvalidSetting, match=r"must be left out.* The audit holds it."):
            tr.statement(found, facts=FACTS, **named)


def test_star_imports_need_no_extra() -> None:
    script = """
import sys
for name in ("pydantic", "yaml", "matplotlib", "torch"):
    sys.modules[name] = None  # as if it were not installed
from tightrope import *
print(statement.__name__, audit.__name__)
"""
    assert run_python(script) == "statement tightrope.audit"


NAMES = {
    tr.ADD: ["add", "ADD", "add-one"],
    tr.REMOVE: ["remove", "Remove", "remove_one"],
    tr.ADD_OR_REMOVE: [
        *("add-or-remove", "ADD_OR_REMOVE", "add/remove", "add_remove", "Add or remove", "add / remove"),
        *("add-remove", "addremove", "ADD_OR_REMOVE_ONE", "unbounded"),
    ],
    tr.SUBSTITUTE: [
        *("substitute", "SUBSTITUTE", "substitution", "replace", "replace-one", "REPLACE_ONE", "replace one"),
        *("swap", "exchange", "change-one", "bounded", " substitute "),
    ],
}


@pytest.mark.parametrize(("relation", "name"), [(r, name) for r, names in NAMES.items() for name in names])
def test_relations_are_known_by_the_names_people_type(relation: tr.Relation, name: str) -> None:
    assert as_relation(name) is relation


@pytest.mark.parametrize("name", ["zero-out", "zero_out", "ZEROING-OUT", "replace-special"])
def test_zeroing_out_is_refused_with_what_is_nearest(name: str) -> None:
    with pytest.raises(tr.InvalidSetting, match="No theorem here is about records that are zeroed out") as no:
        tr.epsilon(RUN, delta=1e-5, relation=name)
    assert "ADD_OR_REMOVE gives the same bound" in str(no.value)
    assert "SUBSTITUTE covers it" in str(no.value)


@pytest.mark.parametrize(
    "name", ["add-and-remove", "neighbour", "without-replacement", "replacement", "user"]
)
def test_names_that_could_mean_something_else_are_not_guessed(name: str) -> None:
    with pytest.raises(tr.InvalidSetting, match="relation must be one of ADD, REMOVE"):
        as_relation(name)


TARGET: dict[str, Any] = {"epsilon": 3, "delta": 1e-5}
BY_NAME: dict[str, Callable[[Any], object]] = {
    "epsilon": lambda r: tr.epsilon(RUN, delta=1e-5, relation=r),
    "delta": lambda r: tr.delta(RUN, epsilon=1, relation=r),
    "privacy_curve": lambda r: tr.privacy_curve(RUN, relation=r).question,
    "smallest_noise": lambda r: tr.smallest_noise(STEP.sampling, steps=9, relation=r, **TARGET).value,
    "most_steps": lambda r: tr.most_steps(STEP, relation=r, **TARGET).value,
    "largest_rate": lambda r: tr.largest_rate(STEP.mechanism, steps=9, relation=r, **TARGET).value,
    "largest_batch": lambda r: (
        tr.largest_batch(STEP.mechanism, population=400, steps=9, relation=r, **TARGET).value
    ),
    "fewest_batches": lambda r: (
        tr.fewest_batches(tr.Gaussian(noise_multiplier=50), epochs=1, relation=r, **TARGET).value
    ),
    "contrast": lambda r: tr.contrast(RUN, delta=1e-5, claimed=(tr.Poisson, r)).verdict,
    "contrast row": lambda r: tr.contrast(RUN, delta=1e-5).row(tr.Poisson, r).epsilons,
    "compare": lambda r: str(tr.compare(RUN, delta=1e-5, relation=r, by=[tr.Certified(), tr.Renyi()])),
    "private size": lambda r: tr.PrivateSize(estimate=49_870, epsilon=0.1, beta=1e-6, shift=132).epsilon_with(
        STEP.mechanism, batch=50, steps=9, delta=1e-5, relation=r
    ),
    "ledger": lambda r: tr.Ledger(relation=r).relation,
    "audit": lambda r: tr.audit(INSPECTED, RUN, delta=1e-5, relation=r),
    "statement": lambda r: tr.statement(RUN, relation=r, delta=1e-5, facts=FACTS),
    "support matrix": lambda r: tr.support_matrix().supports(tr.Laplace, tr.Poisson, r),
}


@pytest.mark.usefixtures("contrasted_once")
@pytest.mark.parametrize("name", BY_NAME)
def test_every_question_takes_a_relation_by_name(name: str) -> None:
    ask = BY_NAME[name]
    assert ask("add/remove") == ask(tr.ADD_OR_REMOVE)
    with pytest.raises(tr.InvalidSetting):
        ask("both")


@pytest.mark.usefixtures("contrasted_once")
def test_a_row_of_no_sampling_is_refused_by_name() -> None:
    with pytest.raises(tr.InvalidSetting, match="one of Poisson, WithoutReplacement, BallsInBins, Every"):
        tr.contrast(RUN, delta=1e-5).row(STEP.sampling, "add")  # type: ignore[arg-type]
