"""What a newcomer types in the first quarter of an hour, and what is said: nothing that could lead astray."""

import json
import re
import shlex

import pytest

import tightrope as tr
from shell import Shell
from tightrope.cli.typed.vocabulary import understand

ASKED = "--relation add-or-remove --epsilon 3 --delta 1e-5"
PLANNED = "--sampling poisson --records 60000 --batch 256 --epochs 30"
RUN = "--noise 1.1 --sampling poisson --rate 0.001 --steps 100 --relation add-or-remove --delta 1e-5"

# what is typed, and what the refusal says
REFUSED = [
    (
        f"noise --sampling poisson --records 60000 --batch 256 --epochs 30 --steps 7032 {ASKED}",
        "--steps 7032 contradicts --epochs 30",
    ),
    (
        f"noise --sampling poisson --epochs 30 --steps 7032 {ASKED}",
        "--rate is missing",
    ),
    (
        "noise",
        "5 options are missing:",
    ),
    (
        "epsilon",
        "5 options are missing:",
    ),
    (
        f"epsilon {RUN.replace('--delta 1e-5', '')}",
        "--delta is missing; pass the failure probability you accept",
    ),
    (
        "epsilon --sampling poisson --noise 1",
        "4 options are missing:",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'fixed')}",
        "pass one",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'uniform')}",
        "drawn afresh at each step (without-replacement)",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'balls-in-bins')}",
        "--batches is missing; pass how many batches a pass has",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'balls-in-bins')} --batches 1000",
        "--rate 0.001 contradicts --sampling balls-in-bins, which lets records choose among batches",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'truncated')}",
        "2 options are missing:",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'k-of-T')}",
        "2 options are missing:",
    ),
    (
        f"epsilon {RUN} --at-most 300",
        "--at-most 300 contradicts --sampling poisson, which has no such cap",
    ),
    (
        f"epsilon {RUN} --chosen 3",
        "choose --sampling random-allocation",
    ),
    (
        f"epsilon {RUN} --batches 3",
        "how large a batch is by --batch, or choose --sampling balls-in-bins",
    ),
    (
        f"epsilon {RUN} --num-batches 3",
        "the batches among which records choose in each pass are --batches",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'with-replacement')}",
        "tightrope audit",
    ),
    (
        f"epsilon {RUN.replace('add-or-remove', 'zero-out')}",
        "a zeroed record is as good as none",
    ),
    (
        f"epsilon {RUN.replace('poisson', 'shuffle')}",
        "2 options are missing:",
    ),
    (
        f"noise --sampling shuffle --records 60000 --batch 250 --drop-last --epochs 30 {ASKED}",
        "--batch must leave some of 60000 records to drop, got 250. Leave out --drop-last",
    ),
    (
        f"epsilon {RUN} --drop-last",
        "--drop-last contradicts --sampling poisson, which cuts no last batch",
    ),
    (
        "contrast --noise 1 --sampling shuffle --batches 9 --records 60 --steps 9 --delta 1e-5",
        "has as many batches as --batches says",
    ),
    (
        f"epsilon {RUN} --clip 1.0",
        "the norm itself plays no part",
    ),
    (
        f"epsilon {RUN} --max-grad-norm 1.0",
        "the norm itself plays no part",
    ),
    (
        f"epsilon {RUN} --lr 0.1",
        "does not change epsilon",
    ),
    (
        f"epsilon {RUN} --orders 2 4 8",
        "chooses its orders by itself",
    ),
    (
        f"epsilon {RUN} 3",
        "--delta must be in (0, 1), got 3",
    ),
    (
        f"epsilon {RUN} --json 3",
        "'3' belongs to no option of tightrope epsilon",
    ),
    (
        f"epsilon {RUN} --efort tight",
        "did you mean --effort?",
    ),
    (
        f"epsilon {RUN} --reltaion add",
        "did you mean --relation?",
    ),
    (
        f"epsilon {RUN} --temperature 3",
        "tightrope epsilon --help lists its options",
    ),
    (
        f"steps --noise 1 {PLANNED} {ASKED}",
        "--epochs is not an option of tightrope steps",
    ),
    (
        "rdp --noise 1",
        "tightrope epsilon --accountant renyi",
    ),
    (
        "shuffle",
        "tightrope epsilon --sampling shuffle",
    ),
    (
        "calibrate",
        "tightrope noise, steps and rate",
    ),
    (
        "epsilom",
        "did you mean tightrope epsilon?",
    ),
    (
        "frobnicate",
        "tightrope --help lists them",
    ),
    (
        f"epsilon {RUN.replace('100', '7031.25')}",
        "rounded up it is 7032",
    ),
    (
        "epsilon --noise 1 --sampling poisson --batch 7 --records 6 --steps 9 --relation add --delta .1",
        "cannot hold more",
    ),
    (
        "epsilon --noise 1 --sampling poisson --batch 256 --steps 9 --relation add --delta .1",
        "--records is missing",
    ),
    (
        f"epsilon {RUN} --batch 3",
        "--batch 3 contradicts --sampling poisson",
    ),
    (
        f"epsilon {RUN.replace('0.001', '256')}",
        "--rate must be in [0, 1], got 256",
    ),
    (
        f"epsilon {RUN.replace('--steps 100', '--epochs 0')}",
        "--epochs must be above 0",
    ),
    (
        f"rate --noise 1 --sampling poisson --epochs 3 {ASKED}",
        "--records is missing",
    ),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=lambda text: text[:60])
def test_a_mistake_is_explained(shell: Shell, words: str, said: str) -> None:
    code, out, err = shell(words)
    assert (code, out) == (2, "")
    assert said in err


def test_everything_that_is_missing_is_said_at_once(shell: Shell) -> None:
    _, _, err = shell("noise --sampling poisson")
    named = re.findall(r"^  (--\w+):", err, re.M)
    assert named == ["--rate", "--steps", "--relation", "--epsilon", "--delta"]


def test_a_mistyped_option_that_is_needed_is_the_slip_and_not_missing(shell: Shell) -> None:
    plain = "epsilon --noise 1 --sampling every-record --steps 2"
    _, _, err = shell(f"{plain} --relation add --dleta 1e-6")
    assert "--dleta is not an option of tightrope epsilon: did you mean --delta?" in err
    assert "missing" not in err
    _, _, err = shell(f"{plain} --dleta=1e-6")
    assert "did you mean --delta?" in err
    assert "--relation is missing" in err
    assert "--delta is missing" not in err


def test_an_epoch_of_several_chosen_batches_is_all_batches_of_a_pass(shell: Shell) -> None:
    asked = (
        "epsilon --noise 9 --sampling random-allocation --batches 20 --chosen 3 --relation add --delta 1e-6"
    )
    code, in_epochs, _ = shell(f"{asked} --epochs 2")
    assert code == 0
    assert "40 steps: 2 epochs of 20 batches." in in_epochs
    assert shell(f"{asked} --epochs 2 --brief")[1] == shell(f"{asked} --steps 40 --brief")[1]


def test_an_option_of_ours_is_no_slip_of_another_that_is_missing(shell: Shell) -> None:
    _, _, err = shell(
        "epsilon --noise 1 --sampling random-allocation --batch 3 --chosen 2 --steps 2 "
        "--relation add --delta 1e-6"
    )
    assert "--batches is missing" in err
    assert "did you mean" not in err


@pytest.mark.parametrize(
    "words", ["epsilon --steps 2 --noise 1", "noise --steps 2 --epsilon 1", "compare --steps 2 --noise 1"]
)
def test_one_direction_alone_is_said_to_be_one(shell: Shell, words: str) -> None:
    asked = f"{words} --sampling every-record --delta 1e-6 --relation"
    remark = "This is one direction only: add-or-remove bounds both."
    for relation, remarked in (("add", True), ("remove", True), ("add-or-remove", False)):
        code, out, _ = shell(f"{asked} {relation}")
        assert code == 0
        assert (remark in out) == remarked


def test_epochs_are_never_taken_for_steps(shell: Shell) -> None:
    """Version 0.7 suggested --steps for --epochs: obeying it led from epsilon 3 to epsilon 12."""
    for words in (
        f"steps --noise 1 {PLANNED} {ASKED}",
        "sweep grid.toml --epochs 3",
        "spent x --epochs 3 --delta .1",
    ):
        _, _, err = shell(words)
        assert "did you mean" not in err.lower()


# what is typed in other words, and the same in ours
UNDERSTOOD = [
    (
        "eps --sigma 0.8 --q 0.001 --sampling Poisson --steps 1e3 --relation add-remove --delta 1e-6",
        "epsilon --noise 0.8 --rate 0.001 --sampling poisson --steps 1000 --relation "
        "add-or-remove --delta 1e-6",
    ),
    (
        "epsilon --noise-multiplier=0.8 --sample-rate=0.001 --sampling=poisson "
        "--num_steps=1_000 --adjacency=replace_one --delta=1e-6",
        "epsilon --noise 0.8 --rate 0.001 --sampling poisson --steps 1000 --relation substitute --delta 1e-6",
    ),
    (
        "epsilon --noise 1 --sampling wor --batch-size 50 --n 1,000 --epochs 3 --relation "
        "replace --delta 1e-6",
        "epsilon --noise 1 --sampling without-replacement --batch 50 --records 1000 --steps 60 "
        "--relation substitute --delta 1e-6",
    ),
    (
        "epsilon --noise 1 --sampling full --iterations 3 --relation add/remove --delta 1e-6 "
        "--accountant rdp",
        "epsilon --noise 1 --sampling every-record --steps 3 --relation add-or-remove --delta "
        "1e-6 --accountant renyi",
    ),
    (
        "epsilon --noise 1 --sampling none --steps 3 --relation unbounded --delta 1e-6 --accountant prv",
        "epsilon --noise 1 --sampling every-record --steps 3 --relation add-or-remove --delta "
        "1e-6 --accountant certified",
    ),
    (
        "noise --sampling poisson --population 60000 --batch 256 --epochs 1 --relation "
        "add-or-remove --target-epsilon 3 --target-delta 1e-5",
        "noise --sampling poisson --rate 256/60000 --steps 235 --relation add-or-remove "
        "--epsilon 3 --delta 1e-5",
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), UNDERSTOOD, ids=lambda text: text[:60])
def test_the_words_of_others_are_understood(shell: Shell, theirs: str, ours: str) -> None:
    said = [json.loads(shell(f"{words} --json")[1]) for words in (theirs, ours)]
    for answer in said:
        answer["question"].pop("training", None)
    assert said[0] == said[1]


def test_words_that_some_use_otherwise_are_read_aloud(shell: Shell) -> None:
    _, _, err = shell(
        "epsilon --sigma 1 --sampling full --steps 3 --relation swap --delta 1e-6 --accountant pld"
    )
    assert "--sigma is read as --noise, the noise multiplier: the standard deviation" in err
    assert "--relation swap is read as substitute: one record is exchanged" in err
    assert "--accountant pld is read as certified" in err


def test_no_word_is_read_as_something_that_changes_the_question() -> None:
    """Every word that is understood names the very same quantity; these look like ours and are not."""
    for word in ("--epochs", "--epsilons", "--runs", "--records", "--seed", "--draws", "--width"):
        assert understand([word]) == ([word], [])


def test_one_command_leads_from_records_batch_and_epochs_to_the_noise(shell: Shell) -> None:
    code, out, err = shell(f"noise {PLANNED} {ASKED} --json")
    assert (code, err) == (0, "")
    plan = tr.Training(records=60_000, batch=256, epochs=30, sampling=tr.Poisson)
    found = tr.smallest_noise(plan, epsilon=3, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    answer = json.loads(out)
    assert (answer["value"], answer["beyond"]) == (found.value, found.beyond)


def test_the_mapping_is_said(shell: Shell) -> None:
    mapping = "7,032 steps: 30 epochs of 234.4 batches; each record joins a batch with probability 256/60000."
    for words in (f"noise {PLANNED} {ASKED}", f"epsilon --noise 1.1 {PLANNED} --relation add --delta 1e-5"):
        assert mapping in " ".join(shell(words)[1].split())
        assert json.loads(shell(f"{words} --json")[1])["question"]["training"] == mapping


def test_a_shuffle_is_answered_with_what_is_proved_and_what_to_do_instead(shell: Shell) -> None:
    words = f"epsilon --noise 0.8 {PLANNED} --relation substitute --delta 1e-5".replace("poisson", "shuffle")
    code, out, _ = shell(words)
    assert code == 0
    plan = tr.Training(records=60_000, batch=256, epochs=30, sampling=tr.Poisson)
    found = tr.epsilon_if_shuffled(plan, noise_multiplier=0.8, delta=1e-5, relation="substitute")
    upper, lower = map(float, re.findall(r"at most (\S+) and at least (\S+) at delta", out)[0])
    assert lower <= found.lower
    assert found.upper <= upper
    assert "Drawn by Poisson sampling, in 7,032 steps, they cost at most" in out
    assert found.upper <= float(shell(f"{words} --brief")[1]) <= upper
    answer = json.loads(shell(f"{words} --json")[1])
    assert answer["brackets"][0]["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert answer["question"]["steps"] == 7050  # 235 batches per epoch, the last of them smaller


def test_a_shuffle_may_be_stated_in_steps_of_which_the_last_epoch_is_broken_off(shell: Shell) -> None:
    words = "epsilon --noise 1 --sampling shuffle --records 100 --batch 30 --relation remove --delta 1e-5"
    fewer, same, more = (
        json.loads(shell(f"{words} --json {length}")[1])["brackets"][0]["epsilon"]
        for length in ("--steps 8", "--epochs 2", "--steps 9")
    )
    assert fewer == same
    assert same["upper"] < more["upper"]


def test_a_bare_command_prints_the_help(shell: Shell) -> None:
    code, out, err = shell("")
    assert (code, err) == (0, "")
    assert "Usage: tightrope COMMAND" in out


def test_a_point_in_a_whole_number_is_not_guessed_about(shell: Shell) -> None:
    """10.000 steps are ten thousand in half of Europe: read as ten, they led to epsilon 17.5 instead of 3."""
    code, _, err = shell(f"epsilon {RUN.replace('--steps 100', '--steps 10.000')}")
    assert code == 2
    assert "leave out the point" in err


def test_a_standard_deviation_is_not_taken_for_the_scale_of_laplace_noise(shell: Shell) -> None:
    code, _, err = shell(f"epsilon --mechanism laplace {RUN.replace('--noise', '--sigma')}")
    assert code == 2
    assert "stated by its scale" in err


def test_epochs_beside_steps_in_a_grid_are_not_simply_to_be_left_out() -> None:
    asked = {
        "ask": "epsilon",
        "delta": 1e-5,
        "relation": "remove",
        "mechanism": "gaussian",
        "noise_multiplier": 1,
    }
    with pytest.raises(tr.UnusableFile, match="Leave out the one that is not meant"):
        tr.Grid.of(
            {**asked, "noise_multiplier": 1, "sampling": "poisson", "rate": 0.01, "steps": 30, "epochs": 3}
        )


def test_epochs_that_are_told_can_be_typed(shell: Shell) -> None:
    """Rounded to nearest, 1,000 steps at the float 0.03 were told as 30 epochs, which are 1,001 steps."""
    target = "--noise 1.53229 --sampling poisson --rate 0.03 --relation add-or-remove --delta 1e-5"
    out = shell(f"steps {target} --epsilon 3")[1]
    steps, epochs = re.findall(r"^(\S+) steps \((\S+) epochs", out)[0]
    typed = json.loads(shell(f"epsilon {target} --epochs {epochs} --json")[1])
    assert typed["question"]["steps"] <= int(steps.replace(",", ""))


@pytest.mark.parametrize("option", ["--lrate", "--batches"])
def test_what_only_looks_like_an_option_of_ours_is_explained_and_not_corrected(
    shell: Shell, option: str
) -> None:
    code, _, err = shell(f"epsilon {RUN} {option} 3")
    assert code == 2
    assert "did you mean" not in err


def test_thousands_may_be_separated() -> None:
    assert shlex.join(understand(["epsilon", "--n", "60,000"])[0]) == "epsilon --records 60,000"
