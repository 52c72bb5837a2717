"""A statement loses nothing, is checked as a whole, and is computed anew by whoever doubts it."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tightrope as tr
from shell import Shell
from tightrope.audit import Finding, How, Scheme, audit, watch
from tightrope.samplers import PoissonSampler
from tightrope.statements.checks import parse_statement
from tightrope.statements.file import read_registry_facts, read_statement
from tightrope.statements.make import (
    Facts,
    choose_claim,
    declare_as_accounted,
    read_history,
    state_audit,
    state_ledger,
    state_run,
)
from tightrope.statements.model import Statement, build_schema
from tightrope.statements.render import render_json, render_latex, render_markdown, render_registry
from tightrope.statements.verify import verify

ROOT = Path(__file__).parent.parent
RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
FACTS = Facts(
    name="digits",
    setting="central",
    unit="example",
    data_accesses="all passes",
    tuning="none",
    outputs="the last weights",
    records=50_000,
    batch=50,
    epochs=10,
)
SHUFFLED = Finding(
    scheme=Scheme.SHUFFLE,
    how=How.INSPECTED,
    sentence="This loader shuffles.",
    records=50_000,
    batch=50,
    epoch=1000,
    full=1000,
    removal_changes_one_slot=True,
    reshuffles=True,
)


def stated(**changed: Any) -> Statement:
    how: dict[str, Any] = {
        "relation": tr.ADD_OR_REMOVE,
        "delta": 1e-6,
        "facts": FACTS,
        "implemented": declare_as_accounted(RUN),
    }
    return state_run(RUN, **{**how, **changed})


def write(made: Statement) -> str:
    return render_json(made, even_if_refuted=True)


def one_of_each() -> list[Statement]:
    laplace = tr.Step(tr.Laplace(noise_multiplier=2), tr.EveryRecord()) * 1
    response = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()) * 3
    finite = tr.Step(tr.Finite(observed=[0.75, 0.25], alternative=[0.25, 0.75]), tr.EveryRecord()) * 2
    batches = (
        tr.Step(tr.Gaussian(noise_multiplier=2), tr.WithoutReplacement(batch=50, population=50_000)) * 1000
    )
    plain = Facts(
        name="x",
        setting="local",
        unit="user",
        records_per_unit=1,
        data_accesses="a",
        tuning="b",
        outputs="c",
    )
    others = [
        state_run(
            run, relation=tr.ADD_OR_REMOVE, delta=1e-6, facts=plain, implemented=declare_as_accounted(run)
        )
        for run in (laplace, response, finite, batches)
    ]
    watched = watch(PoissonSampler(records=2000, rate=0.01, steps=2000, seed=5), records=2000)
    rate = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 500
    seen = state_run(rate, relation=tr.SUBSTITUTE, delta=1e-6, facts=plain, implemented=watched)
    unknown = Finding(scheme=Scheme.UNKNOWN, how=How.DECLARED, sentence="Not stated.")
    return [stated(), stated(implemented=SHUFFLED), stated(implemented=unknown, epsilon=1.0), seen, *others]


@pytest.mark.parametrize("made", one_of_each(), ids=lambda made: made.certified.sampling_verdict)
def test_json_and_back_loses_nothing_and_fits_the_schema(made: Statement) -> None:
    text = write(made)
    again = parse_statement(text)
    assert again == made
    assert write(again) == text
    assert json.loads(text) == json.loads(json.dumps(json.loads(text)))
    jsonschema.Draft202012Validator(build_schema()).validate(json.loads(text))
    assert again.accounted == made.accounted


def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert json.loads((ROOT / "docs" / "tightrope-statement-2.schema.json").read_text()) == build_schema()


def changed(path: str, value: object) -> dict[str, Any]:
    """The plain statement with one entry set, or left out where the value is `...`."""
    entries: dict[str, Any] = json.loads(write(stated()))
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner: Any = entries
    for part in way:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return entries


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("outputs", ..., "outputs is missing"),
        ("name", "", "name must"),
        ("colour", "red", "colour = 'red' is not a known key"),
        ("unit/colour", "red", "unit.colour = 'red' is not a known key"),
        ("setting", "moon", "setting must"),
        ("relation", "neighbours", "relation must"),
        ("run", [], "run must"),
        ("run/0/steps", 0, "run[0].steps must"),
        ("run/0/steps", "ten", "run[0].steps must"),
        ("run/0/mechanism/noise_multiplier", -1, "noise_multiplier must"),
        ("run/0/mechanism/kind", "uniform", "run[0].mechanism is wrong"),
        ("run/0/sampling/rate", 2, "rate must"),
        ("run/0/sampling/batch", 5, "batch = 5 is not a known key"),
        ("claim/epsilon", -1, "claim.epsilon must"),
        ("claim/delta", 0, "claim.delta must"),
        ("claim/epsilon", "1", "claim.epsilon must"),
        ("certified/sampling_verdict", "fine", "certified.sampling_verdict must"),
        ("claim/standing", "fine", "claim.standing must"),
        ("unit/records_per_unit", 0, "unit.records_per_unit must"),
        ("implemented/scheme", "magic", "implemented.scheme must"),
        ("implemented/evidence", "hearsay", "implemented.evidence must"),
        ("theorems/0/standing", "likely", "theorems[0].standing must"),
        ("noise_convention", "s / sensitivity", "noise_convention must"),
        ("implemented/share", 0, "implemented.share must"),
    ],
)
def test_what_we_refuse_the_schema_refuses_and_the_field_is_named(
    path: str, value: object, said: str
) -> None:
    entries = changed(path, value)
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(entries))
    assert said in str(refused.value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(build_schema()).validate(entries)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("version", 3, "version must be 1 or 2, got 3. Update tightrope"),
        ("version", 0, "version must be 1 or 2, got 0. Make it anew"),
        ("version", "1", "version must be 1 or 2, got '1'"),
        ("version", True, "version must be 1 or 2, got True"),
        ("version", 1, "claim.standing is not a known key of version 1"),
        ("format", "card", "format must be 'tightrope-statement'"),
        ("dataset/epochs", 3, "10000 steps contradict dataset.epochs = 3"),
        ("dataset/batch", 500, "run[0].sampling.rate = 0.001 contradicts dataset.batch / dataset.records"),
        ("run/0/sampling/rate", 0.01, "contradicts dataset.batch / dataset.records"),
        ("certified/accounted/lower", 3, "lower = 3 is above upper"),
        (
            "implemented/scheme",
            "shuffle",
            "implemented.scheme = 'shuffle' contradicts implemented.sampling = 'poisson'",
        ),
        ("implemented/sampling", None, "implemented.scheme = 'poisson' contradicts"),
        ("implemented/sampling/rate", 1e-6, "implemented.sampling.rate = 1e-06 contradicts dataset.batch"),
        (
            "implemented/rate_range",
            [0.0, 0.0],
            "implemented.rate_range = [0, 0] and implemented.sampling.rate",
        ),
        ("implemented/rate_range", [0.0, 1.0], "a rate that was watched has a range, and no other has one"),
        ("dataset/batch", 100_000, "dataset.batch = 100000 contradicts dataset.records"),
        ("dataset/epochs", 1e308, "dataset.epochs = 1e+308"),
        ("dataset/records", 10**400, "dataset.records must"),
    ],
)
def test_versions_and_numbers_that_contradict_each_other_are_refused(
    path: str, value: object, said: str
) -> None:
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(changed(path, value)))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("records", 777, "implemented.records = 777 contradicts dataset.records = 50000"),
        ("batch", 3, "implemented.batch = 3 contradicts dataset.batch = 50"),
        ("epoch", 10_000, "implemented.epoch = 10000, implemented.batch = 50, implemented.times = 1 and"),
        ("full", 2000, "implemented.full = 2000 and implemented.epoch = 1000 contradict each other"),
    ],
)
def test_numbers_of_a_shuffle_are_held_against_the_dataset(key: str, value: int, said: str) -> None:
    entries = json.loads(write(stated(implemented=SHUFFLED)))
    entries["implemented"][key] = value
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(entries))
    assert said in str(refused.value)


def test_steps_are_held_against_epochs_by_the_rate_alone() -> None:
    entries = changed("dataset/batch", None)
    entries["dataset"]["epochs"] = 1
    with pytest.raises(
        tr.InvalidSetting, match=r"10000 steps contradict dataset\.epochs = 1 at the rate 0\.001"
    ):
        parse_statement(json.dumps(entries))


def test_a_key_that_stands_twice_is_refused() -> None:
    text = write(stated()).replace('"epsilon": 0.9472', '"epsilon": 0.5, "epsilon": 0.9472')
    with pytest.raises(tr.InvalidSetting, match="the key 'epsilon' twice"):
        parse_statement(text)


def test_what_runs_names_its_own_theorems() -> None:
    drawn = tr.WithoutReplacement(batch=50, population=50_000)
    finding = Finding(
        scheme=Scheme.WITHOUT_REPLACEMENT, how=How.INSPECTED, sentence="Drawn afresh.", sampling=drawn
    )
    made = stated(implemented=finding)
    assert made.theorems[0].name.startswith("without_replacement")
    assert made.claim.epsilon > 15


def test_what_was_watched_is_tested_and_not_known() -> None:
    watched = one_of_each()[3]
    assert watched.implemented.evidence == "watched"
    assert watched.assumptions[0].holds == "tested"
    assert "like those that were watched" in watched.certified.provided


def test_everything_wrong_is_listed_at_once() -> None:
    entries = changed("dataset/epochs", 3)
    del entries["outputs"]
    entries["colour"] = "red"
    entries["claim"]["delta"] = 7
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(entries))
    for said in ("has 4 problems", "outputs is missing", "colour", "claim.delta", "10000 steps contradict"):
        assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '"x"', "[" * 100_000])
def test_what_is_no_statement_is_refused(text: str) -> None:
    with pytest.raises(tr.InvalidSetting):
        parse_statement(text)


def test_a_claim_is_verified_in_well_under_a_second() -> None:
    made = stated()
    before = time.process_time()
    found = verify(parse_statement(write(made)))
    assert found.holds
    assert time.process_time() - before < 5  # measured: some milliseconds
    first, *_ = str(found).splitlines()
    assert first.startswith(
        "The claim holds for one example added or removed, epsilon 0.9472 at delta 1e-06, "
    )
    assert first.endswith("provided that all of this is true, which nobody checked:")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "claim/epsilon",
            0.947,
            "claim.epsilon = 0.947 is refuted: epsilon 0.947195 is reached by what runs",
        ),
        ("claim/epsilon", 0.9471957, "claim.epsilon = 0.9471957 is not proved"),
        ("claim/delta", 1e-7, "is refuted"),
        ("certified/accounted/upper", 0.96, "certified.accounted.upper"),
        ("certified/runs/upper", None, "certified.runs.upper = nothing"),
        ("certified/sampling_verdict", "covered", "certified.sampling_verdict = 'covered'"),
        ("certified/sampling_verdict", "matches", "certified.sampling_verdict = 'matches'"),
        (
            "claim/standing",
            "conjectured",
            "claim.standing = 'conjectured' is not what is found now, 'proved'",
        ),
        ("command", "curl example.org | sh", "is not how a statement is checked"),
        ("certified/provided", "nothing", "certified.provided = 'nothing'"),
        ("theorems", [], "theorems are not those"),
        ("theorems/0/standing", "conjectured", "theorems are not those"),
        ("assumptions", [], "assumptions are not those"),
        ("relation", "substitute", "is refuted"),
        ("run/0/mechanism/noise_multiplier", 0.7, "is refuted"),
    ],
)
def test_a_statement_that_was_tampered_with_does_not_hold(path: str, value: object, said: str) -> None:
    found = verify(parse_statement(json.dumps(changed(path, value))))
    assert not found.holds
    assert any(said in problem for problem in found.problems)


@pytest.mark.parametrize("name", ["accounted", "runs"])
@pytest.mark.parametrize(
    "ends", [{"lower": 0.94719, "upper": 0.947195}, {"lower": 0.947196, "upper": 0.9472}]
)
def test_a_bracket_beside_the_truth_is_false_however_near(name: str, ends: dict[str, float]) -> None:
    found = verify(parse_statement(json.dumps(changed(f"certified/{name}", ends))))
    assert any(f"certified.{name}." in problem for problem in found.problems)


def test_a_claim_about_poisson_batches_does_not_hold_for_a_loader_that_shuffles() -> None:
    found = verify(stated(implemented=SHUFFLED, epsilon=0.9472))
    assert not found.holds
    assert "is refuted: epsilon 30.0055 is reached" in found.problems[0]
    honest = stated(implemented=SHUFFLED)
    assert 30 < honest.claim.epsilon < 31
    assert verify(honest).holds
    assert [a.holds for a in honest.assumptions] == ["yes", *["not checked"] * 4]
    assert (honest.claim.standing, honest.certified.sampling_verdict) == ("proved", "too_small")


def test_nothing_proved_means_no_claim_of_our_own() -> None:
    unknown = Finding(scheme=Scheme.UNKNOWN, how=How.DECLARED, sentence="Not stated.")
    with pytest.raises(tr.InvalidSetting, match="epsilon must be stated: nothing is proved for what runs"):
        stated(implemented=unknown)
    assert not verify(stated(implemented=unknown, epsilon=100.0)).holds


def test_a_claim_of_our_own_is_rounded_up() -> None:
    found = audit(declare_as_accounted(RUN), RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert found.proved.upper <= choose_claim(found) <= found.proved.upper + 1e-4


def test_wrong_facts_are_listed_together() -> None:
    wrong = dataclasses.replace(FACTS, setting="moon", epochs=3)
    with pytest.raises(tr.InvalidSetting) as refused:
        stated(facts=wrong)
    assert "setting must" in str(refused.value)
    assert "contradict dataset.epochs" in str(refused.value)


def test_a_ledger_becomes_a_statement_without_retyping(tmp_path: Path) -> None:
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    ledger.record(RUN)
    ledger.save(tmp_path / "ledger.json")
    assert state_ledger(tmp_path / "ledger.json", delta=1e-6, facts=FACTS) == stated()
    assert state_ledger(ledger, delta=1e-6, facts=FACTS, implemented=SHUFFLED) == stated(implemented=SHUFFLED)


def test_an_audit_and_a_history_become_statements() -> None:
    found = audit(SHUFFLED, RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert state_audit(found, facts=FACTS) == stated(implemented=SHUFFLED)
    assert read_history([(0.8, 1e-3, 4000), (0.8, 1e-3, 6000)]) == RUN


def test_the_command_makes_and_verifies_statements(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell(f"statement {ROOT}/examples/statement.toml")
    assert (code, err) == (0, "")
    file = tmp_path / "statement.json"
    file.write_text(out)
    assert shell(f"verify {file}")[0] == 0
    lying = json.loads(out)
    lying["claim"]["epsilon"] = 0.5
    file.write_text(json.dumps(lying))
    code, out, err = shell(f"verify {file}")
    assert (code, err) == (3, "")
    assert "The claim does not hold" in out
    code, out, _ = shell(f"verify {file} --json")
    assert (code, json.loads(out)["holds"]) == (3, False)
    code, out, _ = shell("schema")
    assert (code, json.loads(out)) == (0, build_schema())


def test_a_file_is_never_overwritten(shell: Shell, tmp_path: Path) -> None:
    out_file = tmp_path / "statement.json"
    asked = f"statement {ROOT}/examples/statement.toml --out {out_file}"
    assert shell(asked)[0] == 0
    before = out_file.read_bytes()
    code, out, err = shell(asked)
    assert (code, out) == (2, "")
    assert "exists already" in err
    assert out_file.read_bytes() == before


def test_everything_wrong_with_a_file_is_listed_at_once(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "statement.toml"
    file.write_text(
        'name = ""\nsetting = "central"\ncolour = 1\ndelta = 2\nrelation = "nobody"\n[dataset]\nrecords = 0\n'
        '[implemented]\nscheme = "magic"\n'
        '[[run]]\nmechanism = "gaussian"\nsampling = "poisson"\nrate = 7\nsteps = 1\n'
    )
    code, out, err = shell(f"statement {file}")
    assert (code, out) == (2, "")
    for said in (
        "name must be",
        "colour",
        "unit is missing",
        "tuning is missing",
        "delta must be",
        "relation must be",
    ):
        assert said in err
    for said in ("dataset.records must be", "implemented.scheme must be", "noise_multiplier is missing"):
        assert said in err


@pytest.mark.parametrize("name", ["digits", "visits"])
def test_the_examples_in_the_docs_hold_and_are_rendered_from_one_another(name: str) -> None:
    folder = ROOT / "docs" / "statements"
    made = parse_statement((folder / f"{name}.json").read_text())
    assert verify(made).holds
    assert write(made) == (folder / f"{name}.json").read_text()
    assert render_markdown(made) == (folder / f"{name}.md").read_text()
    assert render_latex(made) == (folder / f"{name}.tex").read_text()
    facts = read_registry_facts(
        ROOT / "examples" / {"digits": "statement.toml", "visits": "laplace_release.toml"}[name]
    )
    assert render_registry(made, facts) == (folder / f"{name}.yaml").read_text()
    assert made.tightrope == tr.__version__


FILE = (
    'name = "x"\nsetting = "central"\nunit = "e"\ndata_accesses = "a"\ntuning = "t"\noutputs = "o"\n'
    "delta = 1e-6\nepsilon = 20.0\n"
)
ONE_RUN = (
    '[[run]]\nmechanism = "gaussian"\nnoise_multiplier = 0.8\n'
    'sampling = "poisson"\nrate = 0.001\nsteps = 10\n'
)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('ledger = "nope.json"\n', "ledger: "),
        ('ledger = 5\nrelation = "add"\n', "relation must be left out, got 'add'. The ledger holds it"),
        ('relation = "add"\n', "run is missing. Open each part with a line [[run]]."),
        ('relation = "add"\nrun = 5\n', "run must be a list, got 5."),
        ('relation = "add"\nrun = []\n', "run must be a list of at least one part, got []."),
        ('relation = "add"\nrun = [1]\n', "run[0] must be a table, got 1."),
        (f'relation = "add"\ndelat = 1\n{ONE_RUN}', "delat = 1 is not a known key. Did you mean delta?"),
        (f'relation = "add"\n[dataset]\nrecords = 2020-01-01\n{ONE_RUN}', "dataset.records must be a valid"),
        (f'relation = "add"\n[dataset]\nrecords = 0x{"f" * 500}\n{ONE_RUN}', "dataset.records must be less"),
        (f'relation = "add"\n[dataset]\nrecords = 1000\nbatch = 7\n{ONE_RUN}', "7 / 1000 = 0.007."),
        (f'relation = "add"\n[implemented]\n{ONE_RUN}', "implemented.scheme is missing. Write one of"),
        (f'relation = "add"\n[implemented]\nscheme = "poisson"\n{ONE_RUN}', "write 'as-accounted' here."),
        (f'relation = "add"\n[implemented]\nscheme = "as-accounted"\nrecords = 5\n{ONE_RUN}', "contradicts"),
        (f'relation = "add"\n[implemented]\nrecording = "r.jsonl"\n{ONE_RUN}', "implemented.recording: "),
    ],
)
def test_each_key_of_a_file_is_refused_with_its_place_and_a_remedy(
    lines: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "statement.toml"
    file.write_text(FILE + lines)
    with pytest.raises(tr.InvalidSetting) as refused:
        read_statement(file)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(file))


def test_a_file_names_a_ledger_instead_of_its_run(tmp_path: Path) -> None:
    ledger = tr.Ledger(relation=tr.ADD_OR_REMOVE)
    ledger.record(RUN)
    ledger.save(tmp_path / "ledger.json")
    file = tmp_path / "statement.toml"
    file.write_text(f'{FILE}ledger = "ledger.json"\n[implemented]\nscheme = "as-accounted"\n')
    assert read_statement(file).accounted == RUN
