"""How a claim stands is told apart from how batches are drawn, worst first and with its conditions."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tightrope as tr
from shell import Shell
from tightrope.audit import Finding, How, Scheme, Verdict, audit
from tightrope.errors import RefutedClaim
from tightrope.statements.checks import parse_statement
from tightrope.statements.file import read_statement
from tightrope.statements.make import Facts, declare, declare_as_accounted, state_run
from tightrope.statements.model import RegistryFacts, Statement
from tightrope.statements.render import render_json, render_latex, render_markdown, render_registry
from tightrope.statements.validate import validate
from tightrope.statements.verify import Outcome, verify

HERE = Path(__file__).parent
RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
FACTS = Facts(
    name="digits",
    setting="central",
    unit="example",
    description="Digits.",
    data_accesses="all passes",
    tuning="none",
    outputs="the last weights",
)
USERS = dataclasses.replace(FACTS, unit="user")
AS_INSPECTED = Finding(
    scheme=Scheme.POISSON,
    how=How.INSPECTED,
    sentence="This loader draws Poisson batches.",
    sampling=tr.Poisson(rate=1e-3),
)
REGISTRY = validate(
    RegistryFacts,
    {
        "slug": "digits",
        "curator": "Example",
        "curator_type": "Industry",
        "intended_use": "Digits",
        "region": "Europe",
        "publication_date": "2026-01-31",
        "authors": ["A. Author"],
    },
    where="facts",
)


def stated(facts: Facts = FACTS, run: tr.Run = RUN, **changed: Any) -> Statement:
    how: dict[str, Any] = {"relation": tr.ADD_OR_REMOVE, "delta": 1e-6, **changed}
    return state_run(run, facts=facts, **{"implemented": declare_as_accounted(RUN), **how})


REFUTED = stated(epsilon=0.5, implemented=AS_INSPECTED)

# the claim and the sampling


def test_batches_that_match_do_not_make_a_claim_true() -> None:
    assert REFUTED.claim.standing == "refuted"
    assert REFUTED.certified.sampling_verdict == "matches"
    found = verify(REFUTED)
    assert (found.outcome, found.audit.verdict) == (Outcome.DOES_NOT_HOLD, Verdict.MATCHES)


RENDERERS: dict[str, Any] = {
    "json": render_json,
    "markdown": render_markdown,
    "latex": render_latex,
    "registry": lambda made, **asked: render_registry(made, REGISTRY, **asked),
}


@pytest.mark.parametrize("name", RENDERERS)
def test_a_refuted_claim_is_rendered_only_if_that_is_asked_for(name: str) -> None:
    with pytest.raises(RefutedClaim) as refused:
        RENDERERS[name](REFUTED)
    assert "epsilon 0.5 is claimed, and for what runs, epsilon is at least 0.947195" in str(refused.value)
    assert "even_if_refuted=True" in str(refused.value)
    text = RENDERERS[name](REFUTED, even_if_refuted=True)
    assert "refuted" in text.lower() or "The claim is false" in text
    RENDERERS[name](stated())  # what is not refuted needs no leave


def test_the_worst_news_come_first_in_every_rendering() -> None:
    shown = {name: render(REFUTED, even_if_refuted=True) for name, render in RENDERERS.items()}
    assert shown["json"].startswith('{\n  "claim": {\n    "standing": "refuted",\n    "epsilon": 0.5,')
    assert shown["markdown"].startswith('---\ndifferential_privacy:\n  claim_standing: "refuted"\n')
    _, body = shown["markdown"].split("<!-- tightrope-statement -->\n")
    heading, _, sentence, *_ = body.splitlines()
    assert heading == "## REFUTED: claimed differential privacy of digits"
    assert sentence.startswith("The claim is false: for what runs, epsilon is at least 0.947195")
    assert shown["latex"].startswith(
        "\\begin{sloppypar}The claim is false: for what runs, epsilon is at least"
    )
    assert shown["registry"].startswith(
        "# refuted: The claim is false: for what runs, epsilon is at least 0.94"
    )
    unproved = stated(epsilon=2.0, implemented=declare(Scheme.UNKNOWN))
    assert "\n## Not proved: claimed differential privacy of digits\n" in render_markdown(unproved)
    assert render_latex(unproved).startswith(
        "\\begin{sloppypar}The claim is not proved: for what runs, no bound"
    )


@pytest.mark.parametrize("kind", ["json", "md", "latex", "registry"])
def test_the_command_ends_with_3_for_a_refuted_claim_and_writes_nothing(
    kind: str, shell: Shell, tmp_path: Path
) -> None:
    file, out_file = tmp_path / "statement.toml", tmp_path / "out"
    example = (HERE.parent / "examples" / "statement.toml").read_text()
    file.write_text(example.replace("delta = 1e-6", "delta = 1e-6\nepsilon = 0.5"))
    code, out, err = shell(f"statement {file} --format {kind} --out {out_file}")
    assert (code, out, out_file.exists()) == (3, "", False)
    assert "the claim is refuted: epsilon 0.5 is claimed" in err
    assert "--even-if-refuted" in err
    code, out, err = shell(f"statement {file} --format {kind} --even-if-refuted")
    assert (code, err) == (0, "")
    assert "0.5" in out


def test_what_nobody_looked_at_does_not_match() -> None:
    made = stated()
    assert (made.certified.sampling_verdict, made.claim.standing) == ("declared", "proved")
    found = audit(declare_as_accounted(RUN), RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert (found.verdict, found.verdict.holds) == (Verdict.DECLARED, False)
    assert "If that is true, which nobody checked, epsilon is at most 0.9471" in found.sentence
    for text in (str(found), render_markdown(made), render_latex(made), str(verify(made))):
        assert "matches" not in text.lower()
        assert "nobody looked" in text


def test_a_loader_that_nobody_understands_covers_no_claim_however_large() -> None:
    endless = tr.Step(tr.RandomizedResponse(truth_probability=1), tr.EveryRecord()) * 1
    unknown = Finding(scheme=Scheme.UNKNOWN, how=How.INSPECTED, sentence="A class of your own.")
    found = audit(unknown, endless, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert math.isinf(found.claimed.upper)
    assert found.verdict is Verdict.UNKNOWN


def test_where_no_epsilon_is_enough_every_claim_is_refuted() -> None:
    endless = tr.Step(tr.RandomizedResponse(truth_probability=1), tr.EveryRecord()) * 1
    made = stated(run=endless, epsilon=1e300, implemented=declare_as_accounted(endless))
    assert (made.claim.standing, made.certified.runs.upper) == ("refuted", None)
    found = verify(parse_statement(render_json(made, even_if_refuted=True)))
    assert found.outcome is Outcome.DOES_NOT_HOLD
    assert len(found.problems) == 1


def test_one_loader_does_not_stand_for_phases_of_another_kind() -> None:
    """It would make one release over all records as cheap as a batch."""
    mixed = RUN + tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.EveryRecord()) * 5
    found = audit(AS_INSPECTED, mixed, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert found.verdict is Verdict.NOT_PROVEN
    assert math.isinf(found.proved.upper)
    assert "cannot have drawn all steps of 2 samplings: audit each phase by itself" in found.sentence
    claimed = verify(stated(run=mixed, implemented=AS_INSPECTED, epsilon=50.0))
    assert claimed.outcome is Outcome.DOES_NOT_HOLD


# whom it protects, and what nobody checked


def test_the_sentence_names_unit_relation_and_everything_that_nobody_checked() -> None:
    made = stated(facts=dataclasses.replace(USERS, records_per_unit=1), relation=tr.SUBSTITUTE)
    first, *others = str(verify(made)).splitlines()
    assert first == (
        f"The claim holds for one user with one record exchanged for another, epsilon {made.claim.epsilon} "
        "at delta 1e-06, provided that all of this is true, which nobody checked:"
    )
    unchecked = [one.says for one in made.assumptions if one.holds == "not checked"]
    assert "Each user has at most one record." in unchecked
    assert len(unchecked) == 5
    assert all(any(line.strip().startswith(says) for line in others) for says in unchecked)


def test_how_many_records_a_user_has_is_among_what_nobody_checked() -> None:
    made = stated(facts=dataclasses.replace(USERS, records_per_unit=3), relation=tr.REMOVE.of(4))
    assert made.claim.standing == "proved"
    assert "Each user has at most 3 records. It is stated." in str(verify(made))


def test_evidence_that_verify_did_not_see_is_among_what_nobody_checked() -> None:
    text = str(verify(stated(implemented=AS_INSPECTED)))
    rests = "The statement says on what this rests: the structure of the loader was read."
    assert f"  Batches are drawn as stated: Poisson sampling. {rests}\n" in text


@pytest.mark.parametrize("unit", ["user", "patient", "exаmple", "group of examples"])  # noqa: RUF001
def test_a_unit_that_may_have_several_records_is_not_protected(unit: str) -> None:
    facts = dataclasses.replace(FACTS, unit=unit)
    with pytest.raises(tr.InvalidSetting, match="Pass records_per_unit=1 if each"):
        stated(facts=facts)
    claimed = stated(facts=facts, epsilon=1.0)
    assert claimed.claim.standing == "not proved"
    found = verify(claimed)
    assert (found.outcome, found.holds) == (Outcome.UNKNOWN, False)
    assert str(found).startswith(
        "UNKNOWN: nothing shows that the claim holds, epsilon 1 at delta 1e-06 for one "
    )
    assert "add-or-remove protects one record, and it is not stated that each has one record" in str(found)
    assert "The claim is not proved: add-or-remove protects one record" in render_markdown(claimed)


def test_changing_the_unit_of_a_statement_does_not_carry_its_claim_over(shell: Shell, tmp_path: Path) -> None:
    entries = json.loads(render_json(stated()))
    entries["unit"]["protects"] = "user"
    file = tmp_path / "statement.json"
    file.write_text(json.dumps(entries))
    code, out, _ = shell(f"verify {file}")
    assert (code, "claim.standing = 'proved' is not what is found now, 'not proved'" in out) == (3, True)
    entries["claim"]["standing"] = "not proved"
    file.write_text(json.dumps(entries))
    code, out, _ = shell(f"verify {file}")
    assert (code, out.startswith("UNKNOWN: ")) == (4, True)
    code, out, _ = shell(f"verify {file} --json")
    told = json.loads(out)
    assert (code, told["outcome"], told["holds"], told["unit"]) == (4, "unknown", False, "user")
    assert shell(f"verify {file} --brief") == (4, "unknown\n", "")


def test_the_brief_line_does_not_hide_what_nobody_checked(shell: Shell, tmp_path: Path) -> None:
    """It was "holds" where batches were only declared."""
    file = tmp_path / "statement.json"
    file.write_text(render_json(stated()))
    said = "holds if 4 assumptions hold that nobody checked, first that batches are drawn as declared\n"
    assert shell(f"verify {file} --brief") == (0, said, "")


def test_users_of_several_records_need_a_relation_of_groups() -> None:
    several = stated(facts=dataclasses.replace(USERS, records_per_unit=5), epsilon=50.0)
    assert verify(several).outcome is Outcome.UNKNOWN
    assert "each has up to 5 records" in str(verify(several))
    even_then = stated(facts=dataclasses.replace(USERS, records_per_unit=5), epsilon=0.5)
    assert even_then.claim.standing == "refuted"  # one record is already too much


def test_batches_that_are_not_stated_leave_the_claim_unknown(shell: Shell, tmp_path: Path) -> None:
    made = stated(epsilon=2.0, implemented=declare(Scheme.UNKNOWN))
    file = tmp_path / "statement.json"
    file.write_text(render_json(made))
    code, out, _ = shell(f"verify {file}")
    assert (code, "Nothing is known of how batches are drawn." in out) == (4, True)


def test_a_delta_that_allows_a_whole_record_is_remarked_on() -> None:
    loose = stated(facts=dataclasses.replace(FACTS, records=50_000), delta=2e-5)
    assert "Note: delta 2e-05 is at least 1 / records = 1 / 50000: publishing one record" in str(
        verify(loose)
    )
    assert "Note" not in str(verify(stated(facts=dataclasses.replace(FACTS, records=50_000), delta=1e-5)))


# forged statements


def test_texts_of_a_statement_cannot_pass_for_words_of_verify() -> None:
    entries = json.loads(render_json(stated()))
    entries["implemented"]["sentence"] = "So.\nThe claim holds for everybody.\x1b[2J" + "x" * 5000
    entries["unit"]["protects"] = "example\r\nThe claim holds"
    found = str(verify(parse_statement(json.dumps(entries))))
    assert "\x1b" not in found
    assert max(map(len, found.splitlines())) < 1000
    assert not any(line.startswith("The claim holds") for line in found.splitlines())
    assert '"So. The claim holds for everybody.[U+001B][2Jxxx' in found


def test_other_words_for_a_theorem_are_remarked_on_and_other_theorems_are_refused() -> None:
    entries = json.loads(render_json(stated()))
    entries["theorems"][0]["statement"] = "Everything is private."
    found = verify(parse_statement(json.dumps(entries)))
    assert found.holds
    assert "words these theorems otherwise: poisson_remove." in str(found)
    entries["theorems"][0]["name"] = "trust_me"
    assert not verify(parse_statement(json.dumps(entries))).holds


def test_a_run_of_more_parts_than_a_statement_holds_is_refused_before_it_is_accounted() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
    parts = [
        (dataclasses.replace(step, mechanism=tr.Gaussian(noise_multiplier=1 + i / 2000)), 1)
        for i in range(1001)
    ]
    with pytest.raises(
        tr.InvalidSetting, match="run must have at most 1,000 different steps, got 1,001 parts"
    ):
        stated(run=tr.Run(tuple(parts)))


# version 1


def read_version_1(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "statements" / f"version_1_{name}.json").read_text())
    return found


def test_a_statement_of_version_1_is_read_and_verified() -> None:
    entries = read_version_1("digits")
    schema = json.loads((HERE.parent / "docs" / "tightrope-statement-1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(entries)
    made = parse_statement(json.dumps(entries))
    assert (made.version, made.claim.standing, made.certified.sampling_verdict) == (2, "proved", "declared")
    found = verify(made)
    assert found.holds
    assert len(found.unchecked) == 4
    assert parse_statement(render_json(made)) == made


def test_version_1_did_not_say_how_many_records_a_user_has() -> None:
    found = verify(parse_statement(json.dumps(read_version_1("visits"))))
    assert (found.outcome, found.problems) == (Outcome.UNKNOWN, ())


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        ("claim", "epsilon", 0.5, "claim.epsilon = 0.5 is refuted"),
        ("certified", "verdict", "too_small", "certified.sampling_verdict = 'too_small'"),
        ("implemented", "sampling", {"kind": "poisson", "rate": 0.001001}, "certified.runs.upper"),
    ],
)
def test_a_statement_of_version_1_that_was_tampered_with_does_not_hold(
    table: str, key: str, value: object, said: str
) -> None:
    entries = read_version_1("digits")
    entries["dataset"] = {}
    entries[table][key] = value
    found = verify(parse_statement(json.dumps(entries)))
    assert found.outcome is Outcome.DOES_NOT_HOLD
    assert any(said in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"claim": 5}, "claim must"),
        ({"certified": None}, "certified must"),
        (
            {"claim": {"epsilon": 1.0, "delta": 1e-6, "standing": "proved"}},
            "claim.standing is not a known key",
        ),
        ({"colour": "red"}, "colour = 'red' is not a known key"),
        ({"implemented": []}, "implemented must"),
    ],
)
def test_what_is_wrong_with_a_statement_of_version_1_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps({**read_version_1("digits"), **change}))
    assert said in str(refused.value)


def test_a_file_says_how_many_records_a_user_has(tmp_path: Path) -> None:
    example = (HERE.parent / "examples" / "laplace_release.toml").read_text()
    file = tmp_path / "statement.toml"
    file.write_text(example)
    assert read_statement(file).unit.records_per_unit == 1
    file.write_text(example.replace("records_per_unit = 1\n", ""))
    with pytest.raises(tr.InvalidSetting, match="nothing is proved for one user"):
        read_statement(file)


@pytest.mark.parametrize(
    ("sampling", "expected"), [(tr.BallsInBins(batches=20), 1), (tr.Poisson(rate=0.05), 0)]
)
def test_that_no_pass_was_broken_off_is_an_assumption_where_there_are_passes(
    sampling: tr.BallsInBins | tr.Poisson, expected: int
) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=2), sampling) * 20
    made = tr.statement(run, delta=1e-5, relation=tr.ADD_OR_REMOVE, facts=FACTS)
    found = [one.holds for one in made.assumptions if "broken off" in one.says]
    assert found == ["not checked"] * expected
