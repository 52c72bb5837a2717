"""Plans, files, grids, commands and accountants that meet shuffled batches all tell the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from shell import Shell
from tightrope.report.words import batches_in_words
from tightrope.samplers import sampler_of
from tightrope.setting.parts import part_of
from tightrope.setting.tables import Table

NOISE = tr.Gaussian(noise_multiplier=4)
CUT = tr.Shuffled.cut(records=1000, batch=30)
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", [tr.Shuffled, "shuffle", "shuffled", "shuffling", CUT])
def test_a_plan_is_cut_as_loaders_cut_by_default(name: Any) -> None:
    plan = tr.Training(records=1000, batch=30, epochs=1.5, sampling=name)
    assert plan.sampling == CUT
    assert plan.steps == 51  # of 34 batches


def test_a_plan_whose_last_batch_is_dropped_is_stated_by_its_sampling() -> None:
    dropped = tr.Shuffled.cut(records=1000, batch=30, drop_last=True)
    plan = tr.Training(records=1000, batch=30, epochs=2, sampling=dropped)
    assert (plan.sampling, plan.steps) == (dropped, 66)
    assert eval(repr(plan), vars(tr)) == plan
    with pytest.raises(tr.InvalidSetting, match="draw 30 of 1,000 records"):
        tr.Training(records=1000, batch=30, epochs=2, sampling=tr.Shuffled.cut(records=999, batch=30))


def test_whole_batches_leave_nothing_to_drop() -> None:
    with pytest.raises(tr.InvalidSetting, match="must leave some of 1000 records to drop, got 50"):
        tr.Shuffled.cut(records=1000, batch=50, drop_last=True)


@pytest.mark.parametrize("answer", ["no", 0, None])
def test_whether_the_last_batch_is_dropped_is_yes_or_no(answer: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="drop_last must be True or False, got "):
        tr.Shuffled.cut(records=1000, batch=30, drop_last=answer)


@pytest.mark.parametrize(
    ("name", "value"), [("last", 0), ("last", 3), ("left_over", None), ("left_over", False), ("left_over", 2)]
)
def test_sizes_mean_nothing_where_that_of_a_batch_is_not_stated(name: str, value: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match=f"{name} must be .* State how many records a batch holds"):
        tr.Shuffled(batches=5, **{name: value})


def test_records_in_no_batch_are_records_too() -> None:
    with pytest.raises(tr.InvalidSetting, match="left_over must make at most 1e"):
        tr.Shuffled(batches=5, batch=10, left_over=10**300)


def test_what_names_no_sampling_is_refused_whatever_it_is() -> None:
    with pytest.raises(tr.InvalidSetting, match="sampling must be one of"):
        tr.Training(records=100, batch=30, epochs=1, sampling=np.array([1, 2]))  # type: ignore[arg-type]


def test_a_single_batch_and_a_single_record_are_not_plural() -> None:
    words = batches_in_words(tr.Shuffled(batches=1, batch=10, left_over=1), tr.SUBSTITUTE)
    assert words.endswith("cut into 1 batch of 10, 1 record in none of them")


@pytest.mark.parametrize("sampling", [CUT, tr.TruncatedPoisson(rate=0.5, at_most=1, population=2)], ids=str)
def test_full_batches_are_offered_only_where_they_bound(sampling: Any) -> None:
    """A record that is removed lets another in: a sum may move by 2 C, which full batches never do."""
    run = tr.Step(tr.Laplace(noise_multiplier=0.5), sampling) * 2
    for relation, is_offered in ((tr.REMOVE, False), (tr.SUBSTITUTE, True)):
        with pytest.raises(tr.NoTheorem) as refused:
            tr.epsilon(run, delta=1e-5, relation=relation)
        assert ("Looser but valid" in str(refused.value)) == is_offered


@pytest.mark.parametrize(
    ("words", "sampling", "steps"),
    [
        ({"records": 1000, "batch": 30, "epochs": 2}, CUT, 68),
        ({"batches": 34, "steps": 5}, tr.Shuffled(batches=34), 5),
        ({"batches": 34, "batch": 30, "last": 10, "epochs": 1}, CUT, 34),
        (
            {"batches": 33, "batch": 30, "left_over": 10, "epochs": 1},
            tr.Shuffled.cut(records=1000, batch=30, drop_last=True),
            33,
        ),
    ],
)
@pytest.mark.parametrize("name", ["shuffle", "shuffled"])
def test_files_state_a_shuffle_in_records_or_in_batches(
    name: str, words: dict[str, Any], sampling: tr.Shuffled, steps: int
) -> None:
    run = part_of(Table({"mechanism": "gaussian", "noise": 4, "sampling": name, **words}, "run: "))
    assert run == tr.Step(NOISE, sampling) * steps


def test_a_grid_of_shuffles_has_the_answers_of_the_sampling() -> None:
    asked = {"ask": "epsilon", "delta": 1e-5, "relation": "remove", "mechanism": "gaussian"}
    shuffled = {"noise_multiplier": 4, "sampling": "shuffled", "epochs": 2}
    (in_records,) = tr.sweep({**asked, **shuffled, "records": 1000, "batch": 30})
    (in_batches,) = tr.sweep({**asked, **shuffled, "batches": 34, "batch": 30})
    for row, sampling in ((in_records, CUT), (in_batches, tr.Shuffled(batches=34, batch=30))):
        found = tr.epsilon(tr.Step(NOISE, sampling) * 68, delta=1e-5, relation="remove")
        assert (row["lower"], row["upper"]) == (found.lower, found.upper)


@pytest.mark.parametrize("relation", ["remove", "substitute"])
def test_if_shuffled_and_the_command_say_what_the_sampling_says(shell: Shell, relation: str) -> None:
    plan = tr.Training(records=1000, batch=50, epochs=2, sampling=tr.Poisson)
    shuffled = tr.Step(NOISE, tr.Shuffled.cut(records=1000, batch=50)) * 40
    found = tr.epsilon(shuffled, delta=1e-5, relation=relation)
    wrapped = tr.epsilon_if_shuffled(plan, NOISE, delta=1e-5, relation=relation)
    assert (wrapped.lower, wrapped.upper) == (found.lower, found.upper)
    if relation == "substitute":  # if nothing were gained by the shuffle, an epoch would be a full batch
        full = tr.epsilon(tr.Step(NOISE, tr.EveryRecord()) * 2, delta=1e-5, relation=relation)
        assert wrapped.upper < 0.6 * full.upper
    words = f"epsilon --noise 4 --sampling shuffle --records 1000 --batch 50 --epochs 2 --relation {relation}"
    answer = json.loads(shell(f"{words} --delta 1e-5 --json")[1])
    assert answer["brackets"][0]["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert answer["question"]["sampling"]["kind"] == "shuffled"


def test_under_add_and_remove_the_command_says_what_no_sum_is_divided_by(shell: Shell) -> None:
    words = "epsilon --noise 4 --sampling shuffle --records 100 --batch 30 --epochs 1 --delta 1e-5"
    condition = "no sum is divided by the size of a smaller last batch"
    assert condition in " ".join(shell(f"{words} --relation remove")[1].split())
    assert condition not in " ".join(shell(f"{words} --relation substitute")[1].split())


@pytest.mark.parametrize(
    "words",
    [
        "delta --noise 4 --epsilon 1 --steps 20 --relation remove",
        "curve --noise 4 --epsilons 1 2 --steps 20 --relation remove",
        "risk --noise 4 --steps 20 --relation remove",
        "steps --noise 4 --relation remove --epsilon 0.7 --delta 1e-5",
        "epsilon --accountant exact --width 0.05 --noise 4 --steps 20 --relation remove --delta 1e-5",
        "epsilon --accountant monte-carlo --draws 1000 --noise 4 --steps 20 --relation remove --delta 1e-5",
    ],
)
def test_every_command_takes_a_shuffle(shell: Shell, words: str) -> None:
    command, *options = words.split()
    code, out, err = shell(
        " ".join([command, "--sampling", "shuffle", "--batches", "20 --batch 9", *options])
    )
    assert code == 0, err
    assert "shuffled" in out


@pytest.mark.parametrize("relation", ["remove", "substitute"])
def test_accountants_without_a_theorem_for_shuffles_refuse_clearly(relation: str) -> None:
    run = tr.Step(NOISE, tr.Shuffled(batches=20, batch=50)) * 20
    with pytest.raises(tr.NoTheorem, match="shuffled batches are not bounded here"):
        tr.epsilon(run, delta=1e-5, relation=relation, by=tr.Renyi())
    table = tr.compare(run, delta=1e-5, relation=relation, by=[tr.Certified(), tr.Renyi()])
    assert [bool(row.epsilons) for row in table.rows] == [True, False]


def test_the_limit_of_exchanged_records_in_a_shuffle_is_not_known() -> None:
    run = tr.Step(NOISE, tr.Shuffled(batches=20, batch=50)) * 20
    with pytest.raises(tr.NoTheorem, match="no known limit"):
        tr.epsilon(run, delta=1e-5, relation="substitute", by=tr.GaussianLimit())


def test_the_batch_of_a_shuffle_is_not_searched_for() -> None:
    with pytest.raises(tr.InvalidSetting, match="cut anew"):
        tr.largest_batch(
            NOISE, population=1000, epochs=1, sampling="shuffle", epsilon=1, delta=1e-5, relation="remove"
        )


def test_noise_and_steps_of_a_shuffle_meet_their_targets() -> None:
    target: dict[str, Any] = {"epsilon": 3, "delta": 1e-5, "relation": "remove"}
    plan = tr.Training(records=100, batch=10, epochs=2, sampling="shuffle")
    found = tr.smallest_noise(plan, **target)
    assert tr.epsilon(plan.run(noise_multiplier=found.value), delta=1e-5, relation="remove").upper <= 3
    steps = tr.most_steps(tr.Step(NOISE, plan.sampling), **target)
    assert tr.epsilon(steps.run, delta=1e-5, relation="remove").upper <= 3


def test_a_ledger_keeps_shuffled_epochs() -> None:
    run = tr.Step(NOISE, tr.Shuffled(batches=20, batch=50)) * 20
    ledger = tr.Ledger(relation="remove")
    ledger.record(run)
    ledger.record(run)
    assert ledger.epsilon(1e-5).upper == tr.epsilon(run + run, delta=1e-5, relation="remove").upper


def test_a_statement_of_shuffled_epochs_is_made_and_verified_from_the_shell(
    shell: Shell, tmp_path: Path
) -> None:
    text = (ROOT / "examples" / "statement.toml").read_text()
    told = 'sampling = "shuffle"\nrecords = 50_000\nbatch = 50\nepochs = 10\n'
    changed = text.replace('sampling = "poisson"\nrate = 0.001\nsteps = 10_000\n', told)
    assert changed != text
    facts, file = tmp_path / "facts.toml", tmp_path / "statement.json"
    facts.write_text(changed)
    code, out, err = shell(f"statement {facts}")
    assert (code, err) == (0, "")
    file.write_text(out)
    made = json.loads(out)
    sampling = {"kind": "shuffled", "batches": 1000, "batch": 50, "last": 50, "left_over": 0}
    assert [part["sampling"] for part in made["run"]] == [sampling]
    assert made["implemented"]["scheme"] == "shuffle"
    code, out, _ = shell(f"verify {file}")
    assert code == 0
    assert "No pass was broken off before another began, or changed its noise." in out
    assert "  No sum is divided by the size of a last batch that a record fewer makes smaller." in out
    made["claim"]["epsilon"] /= 2
    file.write_text(json.dumps(made))
    assert shell(f"verify {file}")[0] == 3


def test_no_sampler_of_ours_shuffles_and_the_refusal_names_one_that_does() -> None:
    plan = tr.Training(records=100, batch=10, epochs=2, sampling="shuffle")
    with pytest.raises(tr.InvalidSetting, match="torch's RandomSampler without a generator"):
        sampler_of(plan)
