"""Statements as Markdown, LaTeX and registry entries: readable, complete, and never understated."""

import datetime
import json
import math
import re
import shutil
import subprocess
import time
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from tightrope.audit import Finding, How, Scheme
from tightrope.errors import InvalidSetting
from tightrope.numerics.text import write_number
from tightrope.statements.checks import parse_statement
from tightrope.statements.make import Facts, declare_as_accounted, state_run
from tightrope.statements.model import CertifiedEnds, RegistryFacts, Statement
from tightrope.statements.render import (
    CLOSES,
    OPENS,
    escape_latex,
    escape_markdown,
    render_latex,
    render_markdown,
    render_registry,
    write_yaml,
)
from tightrope.statements.validate import validate
from tightrope.statements.words import describe_claim, describe_ends, judge_claim

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

markdown, latex = partial(render_markdown, even_if_refuted=True), partial(render_latex, even_if_refuted=True)

# how the Hub finds the front matter of a card
FRONT_MATTER = re.compile(r"---[\n\r]+([\S\s]*?)[\n\r]+---[\n\r]")

GAUSSIAN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
LAPLACE = tr.Step(tr.Laplace(noise_multiplier=2.0), tr.EveryRecord()) * 1
FOUND = Finding(
    scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="This loader shuffles.", notes=("Nobody saw it run.",)
)
SHUFFLED = replace(
    FOUND, records=63_990, batch=64, epoch=1000, full=999, removal_changes_one_slot=True, reshuffles=True
)
COUNT = Facts(
    name="count",
    setting="local",
    unit="user",
    records_per_unit=1,
    data_accesses="one count",
    tuning="none",
    outputs="one number",
)
FEDERATED = replace(COUNT, name="digits", setting="federated")
FACTS = replace(
    COUNT,
    setting="central",
    unit="example",
    description="Digits.",
    code="https://example.org/a.py",
    records=50_000,
)
PUBLISHED: dict[str, Any] = {
    "slug": "digits-2026",
    "curator": "Example",
    "curator_type": "Industry",
    "region": "Europe",
}
PUBLISHED |= {
    "description": "Reads.",
    "intended_use": "Post codes",
    "publication_date": "2026-01-31",
    "authors": ["A. Author"],
}

TRAINED = state_run(
    GAUSSIAN, relation=tr.ADD_OR_REMOVE, delta=1e-6, facts=FACTS, implemented=declare_as_accounted(GAUSSIAN)
)
COUNTED = state_run(
    LAPLACE, relation=tr.SUBSTITUTE, delta=1e-6, facts=COUNT, implemented=declare_as_accounted(LAPLACE)
)
PITFALL = state_run(
    GAUSSIAN, relation=tr.ADD_OR_REMOVE, delta=1e-6, facts=FEDERATED, implemented=SHUFFLED, epsilon=0.95
)

HARD = (
    "\\ { } $ & # _ % ~ ^ < > | \" ` ' -- [x] *y* _z_ a|b \\| --- é ε "
    "\U0001f600 \u2028 \u0007 :\r\n- x\n---\n" + CLOSES
)


def text_fields(entries: Any) -> Any:
    """The same data with one hard text in the place of every free one."""
    free = {
        "name",
        "description",
        "data_accesses",
        "tuning",
        "outputs",
        "code",
        "command",
        "protects",
        "details",
        "sentence",
    }
    free |= {"provided", "why_not", "says", "because", "statement", "reference"}
    if isinstance(entries, dict):
        return {
            key: HARD if key in free and isinstance(value, str) else text_fields(value)
            for key, value in entries.items()
        }
    return [text_fields(entry) for entry in entries] if isinstance(entries, list) else entries


HARD_STATEMENT = parse_statement(json.dumps(text_fields(json.loads(PITFALL.model_dump_json()))))
each_statement = pytest.mark.parametrize(
    "stated", [TRAINED, PITFALL, COUNTED, HARD_STATEMENT], ids=["trained", "pitfall", "counted", "hard"]
)


def registry(stated: Statement, **more: Any) -> str:
    """The entry of the registry, made with arguments as a file holds them."""
    facts = validate(RegistryFacts, {**PUBLISHED, **more}, where="facts")
    return render_registry(stated, facts, even_if_refuted=True)


def changed(stated: Statement, **claim: float) -> Statement:
    return stated.model_copy(update={"claim": stated.claim.model_copy(update=claim)})


def front_matter(card: str) -> dict[str, Any]:
    found = FRONT_MATTER.search(card)
    assert found is not None
    read = yaml.safe_load(found[1])
    assert isinstance(read, dict)
    return read


def cells(line: str) -> list[str]:
    """The cells of a row, as readers of tables split it: at every | that no backslash protects."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def table(card: str) -> dict[str, str]:
    rows = [cells(line) for line in card.split("\n") if line.startswith("| ")]
    assert all(len(row) == 2 for row in rows)
    return dict(rows)


@each_statement
def test_the_hub_reads_the_front_matter_of_a_card(stated: Statement) -> None:
    read = front_matter(markdown(stated))["differential_privacy"]
    assert (read["epsilon"], read["delta"]) == (stated.claim.epsilon, 1e-6)
    assert isinstance(read["delta"], float)
    assert (read["unit"], read["relation"]) == (stated.unit.protects, stated.relation)
    assert next(iter(read)) == "claim_standing"
    assert (read["sampling_verdict"], read["sampling_evidence"]) == (
        stated.certified.sampling_verdict,
        stated.implemented.evidence,
    )
    assert (read["steps"], read["accountant"]) == (stated.accounted.steps, f"tightrope {stated.tightrope}")
    assert read["certified_epsilon"] == stated.certified.runs.model_dump()


def test_the_front_matter_tells_what_was_accounted_from_what_runs() -> None:
    read = front_matter(markdown(PITFALL))["differential_privacy"]
    assert read["noise"].startswith("gaussian, noise multiplier 0.8")
    assert read["sampling_accounted"].startswith("poisson")
    assert (read["sampling_implemented"], read["sampling_evidence"]) == ("shuffle", "inspected")
    assert (read["sampling_verdict"], read["claim_standing"]) == ("too_small", "refuted")
    assert "verdict" not in read


def test_a_claim_is_stated_as_firmly_as_it_is_established() -> None:
    assert describe_claim(TRAINED) == (
        "If 4 assumptions hold that nobody checked, first that batches are drawn as declared, the release is "
        "(0.9472, 1e-06)-differentially private in the central setting, for one example added or removed. "
        "Neighbours: add-or-remove, D' has one record more or one fewer than D; unit: example."
    )
    assert "for one user with one record exchanged for another." in describe_claim(COUNTED)
    assert describe_claim(PITFALL).startswith("The claim is false: for what runs, epsilon is at least 30.005")
    assert "It is claimed that the release is (0.95, 1e-06)-differentially private" in describe_claim(PITFALL)
    between = changed(PITFALL, epsilon=30.006)
    assert judge_claim(between) == "not proved"
    known = "The claim is not proved: for what runs, epsilon is known to be at most 30.01"
    assert describe_claim(between).startswith(known)
    assert judge_claim(changed(PITFALL, epsilon=30.02)) == "proved"
    theorems = tuple(one.model_copy(update={"standing": "conjectured"}) for one in TRAINED.theorems)
    believed = TRAINED.model_copy(update={"theorems": theorems})
    assert judge_claim(believed) == "conjectured"
    assert describe_claim(believed).startswith("If the conjectures below are true, and 4 assumptions")
    assert judge_claim(TRAINED.model_copy(update={"theorems": ()})) == "not proved"


@each_statement
def test_the_table_holds_everything_that_is_stated(stated: Statement) -> None:
    said = table(markdown(stated))
    whole = " ".join(said.values())
    texts = [
        stated.description,
        stated.setting,
        stated.data_accesses,
        stated.tuning,
        stated.outputs,
        stated.unit.protects,
    ]
    texts += [
        stated.unit.details,
        stated.neighbours.meaning,
        stated.noise_convention,
        stated.certified.sampling_verdict,
    ]
    texts += [
        stated.certified.provided,
        stated.certified.why_not,
        stated.implemented.sentence,
        stated.implemented.evidence,
    ]
    texts += [text for one in stated.assumptions for text in (one.says, one.holds, one.because)]
    texts += [
        text for one in stated.theorems for text in (one.name, one.statement, one.standing, one.reference)
    ]
    texts += [*stated.implemented.notes, stated.tightrope]
    assert [text for text in texts if escape_markdown(text) not in whole] == []
    for text, subject in ((stated.code, "code"), (stated.command, "checked by")):
        assert not text or said[subject] in (f"`{text}`", f"<code>{escape_markdown(text)}</code>")
    assert said["steps"] == str(stated.accounted.steps)


def test_runs_of_several_parts_are_told_apart() -> None:
    run = GAUSSIAN + tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()) * 5
    implemented = declare_as_accounted(GAUSSIAN)
    stated = state_run(run, relation=tr.REMOVE, delta=1e-5, facts=COUNT, implemented=implemented, epsilon=2.0)
    said = table(markdown(stated))
    assert said["mechanism"].count(" steps: gaussian") == 2
    assert said["sampling as accounted"].startswith("10000 steps: poisson")
    assert "<br>5 steps: every-record" in said["sampling as accounted"]
    assert said["steps"] == "10005"


@given(st.text() | st.text(alphabet="a_*<>|\\`$[]&~ \n"))
def test_no_text_ends_a_cell_or_opens_markup(text: str) -> None:
    written = escape_markdown(text)
    assert cells(f"| a | {written} |")[1:] == [written.strip()]
    plain = re.sub(r"\\[\\`*\[\]|$~#_]|&(amp|lt|gt);|<br>|(?<=[^\W_])_(?=[^\W_])", "", written)
    assert not re.search(r"[\\`*\[\]|$~<>&_\r\n]", plain)


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers())
def test_yaml_gives_back_what_was_written(text: str, number: float, whole: int) -> None:
    data = {
        "a": {"text": text, "number": number, "none": None},
        "b": [text, {"x": whole, "y": text}],
        "c": True,
    }
    read = yaml.safe_load(write_yaml(data))
    assert read == data
    assert isinstance(read["a"]["number"], float)


CARDS = {
    "empty": "",
    "text only": "# A model\n\nWords.\n",
    "front matter only": "---\nlicense: mit\n---\n",
    "no line end": "---\nlicense: mit\n---",
    "nothing in it": "---\n---\n# A model",
    "windows": "---\r\nlicense: mit\r\ntags:\r\n- a\r\n---\r\n\r\n# A model\r\n",
    "byte order mark": "\ufeff---\nlicense: mit\n---\n# A model\n",
    "rules": "# A model\n\n---\n\nWords\n\n---\n",
    "another statement": markdown(COUNTED),
    "comments": "---\n# about\nlicense: mit # free\ndifferential_privacy:\n# old\n  epsilon: 3\n\n"
    "# tags\ntags: [a]\n---\nHi\n",
    "list": "---\ndifferential_privacy:\n- epsilon\n- 3\nlicense: mit\n---\nHi\n",
    "braces": "---\n'differential_privacy': {\n  epsilon: 3\n}\nlicense: mit\n---\nHi\n",
    "body": f"---\nlicense: mit\n---\n# A model\n\n{OPENS}\nold\n{CLOSES}\n\nMore.\n",
}
each_card = pytest.mark.parametrize("card", [pytest.param(card, id=name) for name, card in CARDS.items()])


@each_card
@each_statement
def test_a_statement_goes_into_any_card_and_leaves_the_rest(card: str, stated: Statement) -> None:
    made = markdown(stated, card)
    before = FRONT_MATTER.search(card + "\n") if card.lstrip("\ufeff").startswith("---") else None
    kept = {} if before is None else {**yaml.safe_load(before[1])}
    kept.pop("differential_privacy", None)
    found = front_matter(made)
    assert found.pop("differential_privacy")["epsilon"] == stated.claim.epsilon
    assert found == kept
    body = FRONT_MATTER.sub("", made, count=1)
    assert body.count(OPENS) == body.count(CLOSES) == 1
    assert markdown(stated, made) == made
    assert "\r\n" not in card or not re.search(r"(?<!\r)\n", made)
    for line in card.splitlines(keepends=True):
        if re.match(r"license|# (about|tags|A model)|tags|Words|More|Hi", line):
            assert line in made


def test_only_the_key_and_the_body_of_a_card_are_replaced() -> None:
    front, body = "# about\nlicense: mit # free\n", "# A model | with --- signs\n\n\nWords"
    made = markdown(TRAINED, f"---\n{front}---\n{body}")
    assert made.startswith(f"---\n{front}differential_privacy:\n")
    assert f"\n---\n{body}\n\n{OPENS}\n" in made
    again = markdown(PITFALL, made.replace("---\n# A", "tags: [x]\n---\n# A"))
    assert again.startswith(f"---\n{front}differential_privacy:\n")
    assert f"\ntags: [x]\n---\n{body}\n\n{OPENS}\n" in again
    assert "0.9472" not in again
    old = "---\ndifferential_privacy:\n# old\n  epsilon: 3\n\n# tags\ntags: [a]\n---\n"
    assert "\n\n# tags\ntags: [a]\n---\n" in markdown(TRAINED, old)
    assert "# old" not in markdown(TRAINED, old)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("---\n{license: mit}\n---\n", "keys at the start of their lines, got '{license: mit}'"),
        ("---\n  license: mit\n---\n", "got '  license: mit'"),
        ("---\nWords.\n---\n", "got 'Words.'"),
        (f"{OPENS}\n", "1 and 0 of these lines"),
        (f"{CLOSES}\n{OPENS}\n", "1 and 1 of these lines"),
        (f"{OPENS}{CLOSES}" * 2, "2 and 2 of these lines"),
    ],
)
def test_a_card_that_cannot_be_changed_safely_is_refused(card: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match="card must") as refused:
        markdown(TRAINED, card)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("x" * 2**20 + "x", "card must have at most 1,048,576 characters, got 1,048,577."),
        (f"---\na: {'x' * 2**16}\n---\n", "front matter of the card must have at most 65,536 characters"),
        (f"---\na: {'[' * 20_000}\n---\n", "have at most 32 lists and tables within one another"),
        (f"---\n{'? ' * 20_000}\n---\n", "card must open with keys at the start of their lines"),
        ("---\na: &a [*a, *a]\nb: [*a, *b]\n---\n", "card must open with keys at the start of their lines"),
    ],
    ids=["card", "front matter", "lists", "keys", "unknown alias"],
)
def test_a_card_that_would_take_minutes_is_refused_at_once(card: str, said: str) -> None:
    before = time.process_time()
    with pytest.raises(InvalidSetting) as refused:
        markdown(TRAINED, card)
    assert time.process_time() - before < 2  # measured: 0.1
    assert said in str(refused.value)


def test_aliases_are_not_expanded() -> None:
    """Ten levels of nine aliases each would be three billion values."""
    levels = "".join(f"l{i + 1}: &l{i + 1} [{', '.join([f'*l{i}'] * 9)}]\n" for i in range(10))
    before = time.process_time()
    made = markdown(TRAINED, f"---\nl0: &l0 lol\n{levels}---\nHi\n")
    assert time.process_time() - before < 2  # measured: 0.02
    assert levels in made


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_certified_ends_are_rounded_outwards(one: float, other: float) -> None:
    lower, upper = sorted((one, other))
    written = re.fullmatch(
        r"at least (.*), at most (.*)", describe_ends(CertifiedEnds(lower=lower, upper=upper))
    )
    assert written is not None
    assert Decimal(written[1]) <= Decimal(repr(lower))
    assert Decimal(written[2]) >= Decimal(repr(upper))
    assert Decimal(write_number(one)) == Decimal(repr(one))


def test_a_claim_with_many_digits_is_not_rounded_down() -> None:
    claimed = math.nextafter(0.9472, 1)
    stated = changed(TRAINED, epsilon=claimed)
    for written in (markdown(stated), latex(stated), registry(stated)):
        assert repr(claimed) in written
        assert not re.search(r"0\.9472\b", written)


def without_escapes(written: str) -> str:
    names = (
        "textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|char34|char96|allowbreak"
    )
    commands = rf"\\({names})\{{\}}"
    return re.sub(rf"{commands}|\\ensuremath\{{\\?[a-z-]+\}}|\\[{{}}$&#_%]|\{{\}}", "", written)


@given(st.text(alphabet=st.characters() | st.sampled_from("\\{}$&#_%~^<>|\"`'-,\n")))
def test_every_special_character_is_escaped(text: str) -> None:
    assert not re.search(r"[\\{}$&#_%~^<>|\"`\n\r\x00-\x1f\x7f]", without_escapes(escape_latex(text)))


def test_long_words_may_be_broken_and_dashes_stay_apart() -> None:
    assert escape_latex("a--b ''c'' ,,") == "a-{}-b '{}'c'{}' ,{},"
    written = escape_latex("https://example.org/a_b?c=" + "f" * 40)
    assert max(map(len, written.split(r"\allowbreak{}"))) <= 22


@pytest.mark.parametrize("document", [False, True])
@each_statement
def test_environments_and_braces_are_balanced(stated: Statement, document: bool) -> None:
    written = latex(stated, document=document)
    places = re.sub(
        r"\\(begin|end)\{(\w+)\}", lambda found: f"<{'/' * (found[1] == 'end')}{found[2]}>", written
    )
    while (inner := re.sub(r"<(\w+)>[^<]*</\1>", "", places)) != places:
        places = inner
    assert "<" not in places
    braces = "".join(re.findall(r"(?<!\\)[{}]", written))
    while "{}" in braces:
        braces = braces.replace("{}", "")
    assert braces == ""
    assert ("\\documentclass" in written) is document
    assert ("\\section" in written) is document
    assert "\\item[steps] " in written
    assert not re.search(r"\\item\{?\}? ?\[(?!claim|[a-z ]+\])", written)


@each_statement
def test_a_document_compiles(stated: Statement, tmp_path: Path) -> None:
    engine = next(
        (name for name in ("tectonic", "pdflatex", "xelatex", "lualatex") if shutil.which(name)), None
    )
    if engine is None:
        pytest.skip("no TeX engine here")
    # no font of TeX has all signs
    source = "".join(sign if sign.isascii() else "?" for sign in latex(stated, document=True))
    (tmp_path / "statement.tex").write_text(source)
    options = [] if engine == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    subprocess.run(
        [engine, *options, "statement.tex"], cwd=tmp_path, check=True, capture_output=True, timeout=120
    )
    assert (tmp_path / "statement.pdf").exists()


# What the registry asks for: every object is closed, ! marks what is required, | separates the only values.
SCHEMA_FACTS = """
url_slug!: string
deployment!:
  basic!:
    {name!: string, description!: string, intended_use!: string, data_product_region!: string,
    publication_date!: date,
    data_curators!: [{data_curator_name!: string, data_curator_type!: "Government|Industry|Nonprofit"}],
    data_product_type!:
      Summary statistics|Machine learning model|Dataset|Synthetic data|Interactive API|SQL queries,
    data_product_sector: Technology|Healthcare|Education|Government|Energy|Finance}
  dp_variant:
    {data_domain: string, unprotected_quantities: string,
    variant_name: Pure DP|Approximate DP|Zero-concentrated DP|Renyi DP|Custom}
  privacy_loss:
    {privacy_unit: string, privacy_unit_details: string, number_of_privacy_units: integer,
    privacy_parameters_details: anything,
    privacy_parameters: {epsilon: number, delta: number or string, rho: number}}
  deployment_model:
    {model_name: Local|Central|Shuffle|Federated|Varies, model_name_details: string,
    trust_assumptions: string, actors: anything, release_type: One release|Many releases,
    release_type_details: string, data_source_type: Static|Dynamic, data_source_type_details: string,
    access_type: Interactive|Non-interactive, access_type_details: string}
  implementation:
    {preprocessing_and_hyperparameter_tuning: string, mechanisms: string, composition: string,
    post_processing: string, justification: string, utility: anything, additional_information: anything}
  administrative!:
    {evidence_sources: anything, registry_authors!: [string], tier!: tier,
    status!: Converted|Draft|Pending|Changes Required|Approved|Approved (Update Requested)|Approved (Pending)}
"""
KINDS: dict[str, dict[str, Any]] = {kind: {"type": kind} for kind in ("string", "integer", "number")}
KINDS |= {"number or string": {"type": ["number", "string"]}}
KINDS |= {
    "date": {"type": "string", "format": "date"},
    "anything": {},
    "tier": {"type": "integer", "enum": [1, 2, 3]},
}


def schema(facts: Any) -> dict[str, Any]:
    if isinstance(facts, str):
        return KINDS[facts] if facts in KINDS else {"enum": facts.split("|")}
    if isinstance(facts, list):
        return {"type": "array", "minItems": 1, "items": schema(facts[0])}
    properties = {name.rstrip("!"): schema(fact) for name, fact in facts.items()}
    required = [name.rstrip("!") for name in facts if name.endswith("!")]
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


SCHEMA = schema(yaml.safe_load(SCHEMA_FACTS))


def entry(stated: Statement, **more: Any) -> dict[str, Any]:
    read = yaml.safe_load(registry(stated, **more))
    jsonschema.validate(read, SCHEMA, format_checker=jsonschema.FormatChecker())
    return dict(read["deployment"])


@each_statement
def test_an_entry_is_what_the_registry_takes(stated: Statement) -> None:
    read = entry(stated)
    assert read["basic"]["name"] == stated.name
    assert read["dp_variant"] == {"variant_name": "Approximate DP"}
    assert read["privacy_loss"]["privacy_parameters"] == {"epsilon": stated.claim.epsilon, "delta": 1e-6}
    assert read["privacy_loss"].get("number_of_privacy_units") == stated.dataset.records
    assert read["deployment_model"]["model_name"].lower() == stated.setting
    assert read["administrative"] == {"status": "Draft", "registry_authors": ["A. Author"], "tier": 3}
    told = read["implementation"]
    assert all(escape_markdown(theorem.name) in told["composition"] for theorem in stated.theorems)
    assert f"Sampling verdict: {stated.certified.sampling_verdict}." in told["justification"]
    assert "Batches as implemented:" in told["mechanisms"]


def test_an_entry_takes_what_a_statement_does_not_know() -> None:
    read = entry(
        TRAINED, description=None, publication_date=datetime.date(2026, 1, 2), sector="Education", tier=2
    )
    assert read["basic"]["description"] == TRAINED.description
    assert read["basic"]["publication_date"] == "2026-01-02"
    assert read["basic"]["data_product_sector"] == "Education"


def test_the_schema_is_as_strict_as_the_registry() -> None:
    made = yaml.safe_load(registry(TRAINED))
    made["deployment"]["implementation"]["noise_multiplier"] = 0.8
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(made)


REFUSED: dict[str, list[object]] = {
    "curator_type": ["Company"],
    "product_type": ["Model"],
    "sector": ["Sports"],
}
REFUSED |= {
    "status": ["draft"],
    "tier": [0, True, [3]],
    "publication_date": ["31.01.2026", "20260131", "2026-02-30"],
}
REFUSED |= {"slug": ["a b", ""], "curator": [" "], "description": [""], "authors": [[], "A. Author", [""]]}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values]
)
def test_an_argument_that_the_registry_would_refuse_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=rf"^facts: {name}(\[0\])? must ") as refused:
        registry(TRAINED, **{name: value})
    assert repr(value).strip("[]") in str(refused.value)  # of a list, the wrong entry is named
