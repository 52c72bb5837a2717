"""The number of a search is part of its statement, and is computed anew."""

import dataclasses
import json
from typing import Any

import pytest

import tightrope as tr
from tightrope.statements.checks import parse_statement
from tightrope.statements.render import render_json, render_markdown
from tightrope.statements.verify import verify_in_integers

RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 1_000
SEARCH = tr.tuned(RUN, trials="geometric:20")
FACTS = tr.Facts(
    name="digits",
    setting="central",
    unit="example",
    outputs="the best model",
    data_accesses="all passes of all runs",
    tuning="learning rates were drawn at random",
)
QUESTION: Any = {"relation": "add-or-remove", "delta": 1e-6}


def test_the_claim_of_a_search_is_what_the_whole_search_spends() -> None:
    made = tr.statement(SEARCH, facts=FACTS, **QUESTION)
    spent, alone = tr.epsilon(SEARCH, **QUESTION), tr.epsilon(RUN, **QUESTION)
    assert made.certified.runs.upper == spent.upper > alone.upper
    assert made.claim.epsilon >= spent.upper
    assert made.claim.standing == "proved"
    assert "best_of_a_random_number_of_runs" in [theorem.name for theorem in made.theorems]
    assert any("only the best run" in one.says for one in made.assumptions)


def test_a_statement_of_a_search_survives_its_file_and_is_verified() -> None:
    made = tr.statement(SEARCH, facts=FACTS, **QUESTION)
    read = parse_statement(render_json(made))
    assert read == made
    assert read.search == tr.GeometricTrials(mean=20)
    assert tr.verify(read).holds
    assert "the best of a geometric number of runs, 20 on average" in str(tr.verify(read))
    assert "geometric:20" in render_markdown(made)


def test_a_search_that_is_stated_as_a_smaller_one_does_not_hold() -> None:
    entries = json.loads(render_json(tr.statement(SEARCH, facts=FACTS, **QUESTION)))
    for lie in ("geometric:100", None):
        found = tr.verify(parse_statement(json.dumps({**entries, "trials": lie})))
        assert not found.holds
    with pytest.raises(tr.InvalidSetting, match="trials must be spelled like"):
        parse_statement(json.dumps({**entries, "trials": "geometric"}))


def test_a_claim_of_one_run_is_refuted_for_the_search() -> None:
    alone = tr.epsilon(RUN, **QUESTION).upper
    assert tr.statement(SEARCH, facts=FACTS, epsilon=alone, **QUESTION).claim.standing == "refuted"


def test_a_search_over_batches_that_are_drawn_otherwise_has_no_proof() -> None:
    from tightrope.audit.finding import Scheme
    from tightrope.statements.make import declare

    shuffled = declare(Scheme.SHUFFLE, records=1000, batch=1, epoch=1000, full=999)
    made = tr.statement(SEARCH, facts=FACTS, implemented=shuffled, epsilon=5.0, **QUESTION)
    assert made.claim.standing == "not proved"
    assert made.certified.runs.upper is None


def test_words_alone_are_read_as_before() -> None:
    made = tr.statement(RUN, facts=FACTS, **QUESTION)
    assert made.trials is None
    assert "trials" not in json.loads(render_json(made))
    assert parse_statement(render_json(made)) == made


def test_a_search_is_stated_once_and_exact_integers_are_not_asked() -> None:
    with pytest.raises(tr.InvalidSetting, match="trials must be left out"):
        tr.statement(SEARCH, facts=dataclasses.replace(FACTS, trials=3), **QUESTION)
    by_facts = tr.statement(RUN, facts=dataclasses.replace(FACTS, trials="geometric:20"), **QUESTION)
    assert by_facts == tr.statement(SEARCH, facts=FACTS, **QUESTION)
    found = verify_in_integers(tr.verify(by_facts))
    assert found.in_integers is None
    assert "exact integers know single runs only" in str(found)
