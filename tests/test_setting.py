"""The question: steps, runs and their arithmetic; which questions have an answer; what an answer carries."""

import copy
import itertools
import math
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from catalogue import CATALOGUE, EVERY, Entry, batch, gaussian, laplace, over, poisson, response
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import RELATIONS
from tightrope.setting.sampling import Sampling
from tightrope.theorems import lookup
from tightrope.theorems.evidence import Evidence

STEPS = [
    tr.Step(tr.Gaussian(noise_multiplier=1), poisson(0.1)),
    tr.Step(tr.Gaussian(noise_multiplier=2), poisson(0.1)),
    tr.Step(tr.Gaussian(noise_multiplier=1), batch(1, 10)),
    tr.Step(tr.Laplace(noise_multiplier=1), poisson(0.1)),
]
COUNTS = st.integers(0, 5)
RUNS = st.lists(st.tuples(st.sampled_from(STEPS), COUNTS), max_size=5).map(lambda parts: tr.Run(tuple(parts)))


# -- arithmetic ----------------------------------------------------------------------------------------------


@given(one=RUNS, other=RUNS, third=RUNS)
def test_adding_runs_is_associative_and_commutative(one: tr.Run, other: tr.Run, third: tr.Run) -> None:
    assert one + other == other + one
    assert (one + other) + third == one + (other + third)
    assert hash(one + other) == hash(other + one)
    assert one + tr.Run() == one


@given(one=RUNS, other=RUNS, times=COUNTS, more=COUNTS)
def test_repeating_runs_distributes_over_adding(one: tr.Run, other: tr.Run, times: int, more: int) -> None:
    assert (one + other) * times == one * times + other * times
    assert one * (times + more) == one * times + one * more
    assert one * times * more == one * (times * more)
    assert times * one == one * times == sum([one] * times, tr.Run())
    assert len(one * times) == times * len(one)
    assert len(one + other) == len(one) + len(other)


@given(run=RUNS)
def test_a_run_is_rebuilt_from_its_parts_and_lists_each_step_once(run: tr.Run) -> None:
    assert sum((step * times for step, times in run), tr.Run()) == run
    assert len({step for step, _ in run}) == len(run.parts)
    assert all(times > 0 for _, times in run)
    assert bool(run) is (len(run) > 0)


@given(one=RUNS, other=RUNS)
def test_runs_are_equal_exactly_when_they_do_the_same_steps_as_often(one: tr.Run, other: tr.Run) -> None:
    counts = [{step: sum(n for s, n in run if s == step) for step in STEPS} for run in (one, other)]
    assert (one == other) is (counts[0] == counts[1])
    if one == other:
        assert hash(one) == hash(other)


def test_steps_become_runs() -> None:
    one, other = STEPS[:2]
    assert one + other == one * 1 + other * 1 == other + one
    assert one + one == one * 2 == 2 * one
    assert one + other * 3 == other * 3 + one
    assert sum([one * 2, other * 3]) == one * 2 + other * 3
    assert list(one * 7) == [(one, 7)]
    assert one * 0 == tr.Run() == other * 0


def test_repeats_are_merged_wherever_they_come_from() -> None:
    one, other = STEPS[:2]
    assert (one * 2 + other + one * 3).parts == ((one, 5), (other, 1))


def test_a_run_is_not_its_step_and_not_a_number() -> None:
    run: Any = STEPS[0] * 1
    assert run != STEPS[0]
    assert run != 1
    for other in (1, "x", None):
        with pytest.raises(TypeError):
            run + other
        with pytest.raises(TypeError):
            other + run


def test_equal_settings_are_equal_values() -> None:
    assert tr.Gaussian(noise_multiplier=1) == tr.Gaussian(noise_multiplier=1.0)
    assert hash(tr.Gaussian(noise_multiplier=1)) == hash(tr.Gaussian(noise_multiplier=1.0))
    assert len({tr.Gaussian(noise_multiplier=1), tr.Laplace(noise_multiplier=1)}) == 2
    assert tr.Poisson(rate=1) == tr.Poisson(rate=1.0)
    assert tr.Poisson(rate=1) != EVERY
    assert tr.Finite(observed=[0.5, 0.5], alternative=[1, 0]) == tr.Finite(
        observed=(0.5, 0.5), alternative=(1.0, 0.0)
    )


def test_representations_can_be_read_back() -> None:
    names: dict[str, Any] = {name: getattr(tr, name) for name in tr.__all__}
    for entry in CATALOGUE:
        assert eval(repr(entry.run), names) == entry.run


def test_a_run_prints_what_is_done_and_how_often() -> None:
    run = gaussian(0.8, poisson(1e-3), 10_000) + laplace(2, EVERY, 1)
    gauss = "Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10000"
    assert repr(run) == f"{gauss} + Step(Laplace(noise_multiplier=2.0), EveryRecord()) * 1"
    assert repr(tr.Run()) == "Run()"


def test_rates_without_replacement_are_exact() -> None:
    sampling = tr.WithoutReplacement(batch=1, population=3)
    assert sampling.exact_rate * 3 == 1
    assert sampling.rate == 1 / 3
    assert EVERY.rate == 1


def test_relations_know_their_branches() -> None:
    assert tr.ADD_OR_REMOVE.branches == (tr.ADD, tr.REMOVE)
    for relation in (tr.ADD, tr.REMOVE, tr.SUBSTITUTE):
        assert relation.branches == (relation,)
    assert [repr(relation) for relation in RELATIONS.values()] == [
        "ADD",
        "REMOVE",
        "ADD_OR_REMOVE",
        "SUBSTITUTE",
    ]


# -- which questions have an answer --------------------------------------------------------------------------

EXAMPLES: dict[type[Any], Mechanism] = {
    tr.Gaussian: tr.Gaussian(noise_multiplier=1),
    tr.Laplace: tr.Laplace(noise_multiplier=1),
    tr.RandomizedResponse: tr.RandomizedResponse(truth_probability=0.75),
    tr.Finite: tr.Finite(observed=[0.75, 0.25], alternative=[0.25, 0.75]),
}
SAMPLINGS: dict[type[Any], Sampling] = {
    tr.EveryRecord: EVERY,
    tr.Poisson: poisson(0.25),
    tr.WithoutReplacement: batch(1, 4),
}
QUESTIONS = list(itertools.product(EXAMPLES, SAMPLINGS, RELATIONS.values()))


def promised(mechanism: type[object], sampling: type[object], relation: tr.Relation) -> bool:
    """Everything except an exchanged record in Poisson batches with noise that is not Gaussian."""
    return relation is not tr.SUBSTITUTE or sampling is not tr.Poisson or mechanism is tr.Gaussian


@pytest.mark.parametrize(("mechanism", "sampling", "relation"), QUESTIONS)
def test_the_support_matrix_says_what_is_answered(
    mechanism: Any, sampling: Any, relation: tr.Relation
) -> None:
    step = tr.Step(EXAMPLES[mechanism], SAMPLINGS[sampling])
    supported = tr.support_matrix().supports(mechanism, sampling, relation)
    assert supported is promised(mechanism, sampling, relation)
    if supported:
        assert 0 < tr.delta(step, epsilon=0.1, relation=relation).upper < 1
    else:
        with pytest.raises(tr.NoTheorem, match=relation.name):
            tr.delta(step, epsilon=0.1, relation=relation)


def test_the_support_matrix_has_a_row_per_question() -> None:
    matrix = tr.support_matrix()
    assert [(m, s, r) for m, s, r, _ in matrix.cells] == list(
        itertools.product(get_args(Mechanism), get_args(Sampling), RELATIONS.values())
    )
    lines = str(matrix).splitlines()
    assert len(lines) == 2 + len(matrix.cells)
    assert (
        sum("NoTheorem" in line for line in lines) == sum(not evidence for *_, evidence in matrix.cells) > 0
    )


def test_refuted_beliefs_are_rows_with_their_counterexample() -> None:
    beliefs = tr.support_matrix().refuted_beliefs
    assert {belief.name for belief in beliefs} == {
        "one_step_worst_direction_stays_worst",
        "without_replacement_is_like_poisson",
        "laplace_substitution_is_the_larger_pure_direction",
        "gaussian_substitution_is_remove",
        "what_was_recorded_composes",
    }
    assert all(belief.standing is tr.REFUTED and "False: " in belief.statement for belief in beliefs)


@pytest.mark.parametrize("evidence", lookup.list_theorems(), ids=lambda e: e.name)
def test_every_theorem_has_a_statement_a_reference_and_a_proof_note_that_names_it(evidence: Evidence) -> None:
    note = Path(lookup.__file__).parent / evidence.proof
    assert evidence.statement.endswith(".")
    assert evidence.reference
    assert evidence.name in note.read_text()


def test_names_of_theorems_are_unique() -> None:
    names = [evidence.name for evidence in lookup.list_theorems()]
    assert len(set(names)) == len(names)


# -- what an answer carries ----------------------------------------------------------------------------------


@over(CATALOGUE)
def test_every_answer_carries_proved_theorems_and_a_witness(entry: Entry) -> None:
    for relation in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE):
        curve = tr.privacy_curve(entry.run, relation=relation)
        assert all(isinstance(reason, Evidence) and reason.standing is tr.PROVED for reason in curve.because)
        if entry.run:
            assert curve.because
            assert curve.decided_by(delta=1e-3).because
            assert curve.decided_by(delta=1e-3).reached_by
        assert relation.name in curve.question
        assert all(repr(step) in curve.question for step, _ in entry.run)


def names(run: tr.Run, relation: tr.Relation) -> list[str]:
    because = tr.privacy_curve(run, relation=relation).because
    return [reason.name for reason in because if isinstance(reason, Evidence)]


def test_gaussian_add_or_remove_rests_on_the_theorem_that_remove_suffices() -> None:
    sampled = gaussian(0.8, poisson(1e-3), 100)
    assert names(sampled, tr.ADD_OR_REMOVE) == [
        "poisson_remove",
        "dominating_pairs_compose",
        "gaussian_remove_dominates_add",
    ]
    assert names(sampled, tr.REMOVE) == ["poisson_remove", "dominating_pairs_compose"]
    assert names(gaussian(0.8, poisson(1e-3), 1), tr.REMOVE) == ["poisson_remove"]


@pytest.mark.parametrize(
    "run", [laplace(1, poisson(0.5), 2), response(0.75, poisson(0.5), 2)], ids=["laplace", "response"]
)
def test_other_noise_needs_both_branches(run: tr.Run) -> None:
    assert names(run, tr.ADD_OR_REMOVE).count("add_or_remove_is_the_worse_branch") == 1
    assert {"poisson_add", "poisson_remove"} <= set(names(run, tr.ADD_OR_REMOVE))


def test_one_step_of_other_noise_in_a_gaussian_run_needs_both_branches() -> None:
    run = gaussian(1, poisson(0.1), 100) + laplace(1, poisson(0.1), 1)
    assert "gaussian_remove_dominates_add" not in names(run, tr.ADD_OR_REMOVE)


def test_trusting_conjectures_changes_no_answer_that_is_proved() -> None:
    run = gaussian(0.8, poisson(1e-3), 100)
    proved = tr.delta(run, epsilon=1, relation=tr.ADD_OR_REMOVE)
    assert tr.delta(run, epsilon=1, relation=tr.ADD_OR_REMOVE) == proved


# -- contrast ------------------------------------------------------------------------------------------------


def test_contrast_asks_the_same_question_under_every_sampling_and_relation() -> None:
    run = gaussian(0.8, poisson(1e-3), 10_000)
    table = tr.contrast(run, delta=[1e-6, 1e-4])
    asked = [(row.sampling, row.relation) for row in table.rows]
    at_this_rate = (tr.Poisson, tr.WithoutReplacement, tr.BallsInBins, tr.EveryRecord)
    slowest = (tr.BallsInBins, tr.SUBSTITUTE)
    assert len(asked) == len(at_this_rate) * len(RELATIONS) - 1
    assert set(asked) == set(itertools.product(at_this_rate, RELATIONS.values())) - {slowest}
    for row in table.rows:
        if row.refusal is not None:
            assert row.sampling is tr.BallsInBins
            with pytest.raises(type(row.refusal), match=re.escape(str(row.refusal))):
                tr.epsilon(row.run, delta=1e-6, relation=row.relation)
            continue
        for delta, found in zip((1e-6, 1e-4), row.epsilons, strict=True):
            direct = tr.epsilon(row.run, delta=delta, relation=row.relation, by=tr.Certified(effort=tr.QUICK))
            assert found.lower == pytest.approx(direct.lower, rel=1e-3)
            assert found.upper == pytest.approx(direct.upper, rel=1e-3)
    batched = table.row(tr.WithoutReplacement, tr.REMOVE)
    assert batched.run == gaussian(0.8, batch(1, 1000), 10_000)
    bins = table.row(tr.BallsInBins, tr.REMOVE)
    assert bins.run == gaussian(0.8, tr.BallsInBins(batches=1000), 10_000)


@pytest.mark.usefixtures("contrasted_once")
def test_contrast_prints_upper_ends_rounded_up() -> None:
    run = gaussian(0.8, poisson(1e-3), 10_000)
    lines = str(tr.contrast(run, delta=1e-6)).splitlines()
    (poisson_line,) = [line for line in lines if line.startswith("Poisson") and "ADD_OR_REMOVE" in line]
    assert float(poisson_line.split()[2]) == math.ceil(0.94719568727 * 1e4) / 1e4
    (batch_line,) = [
        line for line in lines if line.startswith("WithoutReplacement  ") and "SUBSTITUTE" in line
    ]
    assert float(batch_line.split()[2]) == pytest.approx(16.3188, abs=1e-4)
    lines = str(tr.contrast(laplace(1, poisson(0.1), 3), delta=1e-6)).splitlines()
    (refused,) = [line for line in lines if line.startswith("Poisson") and "SUBSTITUTE" in line]
    assert refused.endswith("no theorem")


def test_contrast_keeps_other_parts_of_a_mixed_run() -> None:
    run = gaussian(2, poisson(0.25), 10) + laplace(3, batch(1, 4), 2)
    table = tr.contrast(run, delta=1e-3)
    row = table.row(tr.Poisson, tr.ADD)
    assert row.run == gaussian(2, poisson(0.25), 10) + laplace(3, poisson(0.25), 2)
    assert table.row(tr.EveryRecord, tr.ADD).run == gaussian(2, EVERY, 10) + laplace(3, EVERY, 2)


# -- brackets ------------------------------------------------------------------------------------------------


@given(lower=st.floats(1e-300, 1e300), gap=st.floats(0, 1))
def test_a_bracket_prints_itself_rounded_outwards(lower: float, gap: float) -> None:
    bracket = tr.Bracket(lower, lower * (1 + gap))
    text = str(bracket)
    if bracket.lower == bracket.upper:
        assert float(text) == pytest.approx(lower, rel=1e-8)
    else:
        low, high = (float(end) for end in text.strip("[]").split(", "))
        assert low <= bracket.lower
        assert high >= bracket.upper
        assert high - low <= 1.5 * bracket.width + 1e-14 * bracket.upper


@given(ends=st.tuples(st.floats(0, 1), st.floats(0, 1)), value=st.floats(0, 1))
def test_a_bracket_holds_what_lies_between_its_ends(ends: tuple[float, float], value: float) -> None:
    bracket = tr.Bracket(min(ends), max(ends))
    assert (value in bracket) is (min(ends) <= value <= max(ends))
    assert bracket.width == max(ends) - min(ends)
    assert bracket.relative_width * bracket.upper == pytest.approx(bracket.width)


@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE], ids=repr)
def test_a_copied_relation_is_the_relation_itself(relation: tr.Relation) -> None:
    """Identity decides how far a neighbour moves the sum: a copy of the relation would halve SUBSTITUTE."""
    assert copy.deepcopy(relation) is relation
    assert copy.copy(relation) is relation
    assert pickle.loads(pickle.dumps(relation)) is relation
