"""The commands noise, steps and rate: what they print can be typed, and meets the target."""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

import test_cli
import tightrope as tr
from shell import Shell
from test_cli import answered, loaded
from tightrope.cli.printed.calibrated import TypedValue

TARGET = "--relation add-or-remove --epsilon 1 --delta 1e-6"
NOISE = f"noise --sampling poisson --rate 0.001 --steps 10000 {TARGET}"
STEPS = f"steps --noise 0.8 --sampling poisson --rate 0.001 {TARGET}"
RATE = f"rate --noise 0.8 --sampling poisson --steps 10000 {TARGET}"
BATCH = f"rate --noise 4 --sampling without-replacement --population 60000 --steps 10000 {TARGET}"
ASKED = {"noise": NOISE, "steps": STEPS, "rate": RATE, "batch": BATCH}


def sides(out: str) -> tuple[str, str | None]:
    """The number that the first sentence says meets the target, and the one that does not."""
    sentence = out.splitlines()[0].replace(",", "")
    meets = re.search(r"(\d\S*).* (?:is|are) (?:\w+ )?enough for epsilon", sentence)
    misses = re.search(r"\((\S+) (?:is|are) not\): ", sentence)
    assert meets
    return meets[1], misses and misses[1]


def poisson(noise: float, rate: float, steps: int) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps


def batch(size: int) -> tr.Run:
    return (
        tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=size, population=60_000))
        * 10_000
    )


RUNS: dict[str, Callable[[str], tr.Run]] = {
    "noise": lambda text: poisson(float(text), 0.001, 10_000),
    "steps": lambda text: poisson(0.8, 0.001, int(text)),
    "rate": lambda text: poisson(0.8, float(text), 10_000),
    "batch": lambda text: batch(int(text)),
}


# what is answered


@pytest.mark.parametrize("name", ASKED)
def test_the_printed_numbers_certainly_meet_and_certainly_miss_the_target(shell: Shell, name: str) -> None:
    meets, misses = sides(answered(shell, ASKED[name]))
    assert misses is not None
    assert tr.epsilon(RUNS[name](meets), delta=1e-6, relation=tr.ADD_OR_REMOVE).upper <= 1
    assert tr.epsilon(RUNS[name](misses), delta=1e-6, relation=tr.ADD_OR_REMOVE).lower > 1


@pytest.mark.parametrize(("name", "option", "safer"), [("noise", "--noise", 1), ("rate", "--rate", -1)])
def test_real_values_are_printed_to_six_digits_on_the_safe_side(
    shell: Shell, name: str, option: str, safer: int
) -> None:
    out, found = answered(shell, ASKED[name]), loaded(shell, ASKED[name])
    meets, misses = sides(out)
    assert misses is not None
    assert len(meets.replace(".", "").lstrip("0")) == 6
    assert float(meets) == found["rounded"]
    assert 0 <= safer * (found["rounded"] - found["value"]) <= 1.1e-5 * found["value"]
    assert safer * (found["beyond"] - float(misses)) >= 0
    assert found["at_rounded"]["epsilon"]["upper"] < found["at_value"]["epsilon"]["upper"]
    assert f"\n{option} {meets} is safe to type.\n" in answered(shell, f"{ASKED[name]} --why")
    assert answered(shell, f"{ASKED[name]} --brief") == f"{meets}\n"


def test_what_noise_prints_can_be_typed_into_epsilon(shell: Shell) -> None:
    out = answered(shell, f"{NOISE} --why")
    meets, _ = sides(out)
    assert 0.7876 < float(meets) < 0.7877
    run = f"--noise {meets} --sampling poisson --rate 0.001 --steps 10000"
    words = f"epsilon {run} --relation add-or-remove --delta 1e-6"
    _, lower, upper = test_cli.last_row(answered(shell, f"{words} --why"))
    assert f"[{lower}, {upper}]" in out
    assert 0.9999 < float(lower) <= float(upper) <= 1


def test_the_question_as_understood_and_the_evidence_are_printed(shell: Shell) -> None:
    short = answered(shell, NOISE)
    assert "\nRun: 10,000 steps of Gaussian noise; each record joins each batch independently with" in short
    assert "): Poisson sampling, add or remove one record.\n" in short
    assert re.search("^Why: poisson_remove, .*, all proved; --why shows", short, re.M)
    out = answered(shell, f"{NOISE} --why")
    assert "gaussian, its noise multiplier (noise scale / C) is to be found" in out
    assert "poisson, each record joins each batch independently with probability 0.001" in out
    assert re.search(r"^steps +10000$", out, re.M)
    assert "add-or-remove, D' has one record more or one fewer than D" in out
    assert re.search(r"^target +epsilon at most 1 at delta 1e-06$", out, re.M)
    assert re.search(r"The best possible value is at most \S+e-0[56] away", out)
    assert "poisson_remove (proved" in out
    assert "D = (0, ..., 0, 1) and D' = (0, ..., 0)" in out
    assert re.search(r"^steps +to be found$", answered(shell, f"{STEPS} --why"), re.M)


def test_whole_answers_are_the_best_possible(shell: Shell) -> None:
    for words, best in ((STEPS, 11397), (BATCH, 263)):
        out, found = answered(shell, f"{words} --why"), loaded(shell, words)
        assert sides(out) == (str(best), str(best + 1))
        assert (found["value"], found["rounded"], found["beyond"]) == (best, best, best + 1)
        assert found["gap"] == 1 / best
        assert found["at_rounded"] == found["at_value"]
        assert "It is the best possible value: the next one misses the target." in out


def test_a_batch_comes_with_its_rate(shell: Shell) -> None:
    opening = "Batches of 263 out of 60,000 records (rate 0.00438333) are small enough for epsilon 1 at"
    assert answered(shell, BATCH).startswith(opening)
    assert loaded(shell, BATCH)["rate"] == 263 / 60_000


BINS = (
    "rate --mechanism laplace --noise 1 --sampling balls-in-bins --epochs 1 "
    "--relation remove --epsilon 0.8 --delta 1e-5"
)


def test_batches_of_balls_in_bins_are_counted_where_nobody_says_how_many_records_there_are(
    shell: Shell,
) -> None:
    said = "10 batches in each pass are enough for epsilon 0.8 at delta 1e-05 (9 are not): balls in bins"
    assert answered(shell, BINS).startswith(said)
    found = loaded(shell, BINS)
    assert (found["parameter"], found["value"], found["beyond"], found["rate"]) == ("batches", 10, 9, 0.1)
    assert found["question"]["sampling"] == {"kind": "balls-in-bins", "batches": None}
    why = answered(shell, f"{BINS} --why")
    assert "--batches 10 is safe to type." in why
    assert "some smaller number may meet it again" in why


def test_batches_of_balls_in_bins_are_sized_where_records_are_counted(shell: Shell) -> None:
    said = "Batches of 11 out of 100 records (10 batches in a pass) are small enough for epsilon"
    assert answered(shell, f"{BINS} --records 100").startswith(said)
    found = loaded(shell, f"{BINS} --records 100")
    assert (found["value"], found["rate"]) == (11, 0.1)  # the rate that is run


def test_steps_come_with_their_epochs(shell: Shell) -> None:
    assert answered(shell, STEPS).startswith("11,397 steps (11.39 epochs at this rate) are few enough for")
    every = f"steps --noise 100 --sampling every-record {TARGET}"
    assert "epochs" not in answered(shell, every)


@pytest.mark.parametrize("sampling", ["balls-in-bins", "random-allocation --chosen 2", "shuffle"])
def test_steps_of_passes_come_with_epochs_of_their_batches_and_no_rate(shell: Shell, sampling: str) -> None:
    asked = "--noise 4 --batches 20 --relation substitute --epsilon 9 --delta 1e-5"
    asked = asked.replace("substitute", "add") if "random" in sampling else asked
    said = answered(shell, f"steps --sampling {sampling} {asked}")
    assert re.match(r"[\d,]+ steps \([\d.]+ epochs? of 20 batches\) are few enough for epsilon 9", said)
    assert "rate" not in said.replace("\n", " ").partition("Why:")[0]


def test_noise_as_json(shell: Shell) -> None:
    found = loaded(shell, f"{NOISE} --accuracy 1e-4")
    assert found["question"] == {
        "mechanism": {"kind": "gaussian", "noise_multiplier": None},
        "sampling": {"kind": "poisson", "rate": 0.001},
        "steps": 10_000,
        "accuracy": 1e-4,
        "effort": "quick",
        "relation": {"kind": "add-or-remove", "meaning": "D' has one record more or one fewer than D"},
    }
    assert found["target"] == {"epsilon": 1, "delta": 1e-6}
    assert found["parameter"] == "noise_multiplier"
    assert found["beyond"] < found["value"]
    assert found["gap"] == pytest.approx((found["value"] - found["beyond"]) / found["value"])
    assert 0 < found["gap"] < 1e-4
    for where in ("at_value", "at_rounded"):
        assert 0.9999 < found[where]["epsilon"]["lower"] <= found[where]["epsilon"]["upper"] <= 1
        assert 0.999e-6 < found[where]["delta"]["lower"] <= found[where]["delta"]["upper"] <= 1e-6
    assert found["theorems"][0]["name"] == "poisson_remove"
    assert found["reached_by"] == ["D = (0, ..., 0, 1) and D' = (0, ..., 0)"]


def test_the_gap_in_a_question_is_null_in_json(shell: Shell) -> None:
    assert loaded(shell, STEPS)["question"]["steps"] is None
    assert loaded(shell, STEPS)["question"]["mechanism"] == {"kind": "gaussian", "noise_multiplier": 0.8}
    assert loaded(shell, RATE)["question"]["sampling"] == {"kind": "poisson", "rate": None}
    fixed = {"kind": "without-replacement", "batch": None, "population": 60_000}
    assert loaded(shell, BATCH)["question"]["sampling"] == fixed


def test_laplace_noise_in_full_batches_is_one_over_epsilon(shell: Shell) -> None:
    target = "--relation add --epsilon 0.5 --delta 1e-12"
    words = f"noise --mechanism laplace --sampling every-record --steps 1 {target}"
    found = loaded(shell, words)
    assert 2 - 1e-4 < found["beyond"] < 2 <= found["rounded"] < 2 + 1e-4
    assert found["question"]["mechanism"]["kind"] == "laplace"


def test_randomized_response_has_steps_and_a_rate(shell: Shell) -> None:
    steps = loaded(
        shell, f"steps --mechanism randomized-response --truth 3/4 --sampling poisson --rate 0.001 {TARGET}"
    )
    assert 0 < steps["value"] < steps["beyond"]
    rate = loaded(
        shell, f"rate --mechanism randomized-response --truth 3/4 --sampling poisson --steps 10 {TARGET}"
    )
    assert 0 < rate["rounded"] <= rate["value"] < rate["beyond"] < 1


def test_a_rounded_number_that_is_not_within_the_target_is_not_offered() -> None:
    target: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    found = tr.smallest_noise(tr.Poisson(rate=0.01), steps=100, **target)
    kept = TypedValue.rounded(found, lambda noise: poisson(noise, 0.01, 100), up=True)
    assert kept.value == float(kept.text) > found.value
    refused = TypedValue.rounded(found, lambda noise: poisson(0.99 * noise, 0.01, 100), up=True)
    assert refused.text == repr(found.value)
    assert (refused.value, refused.curve) == (found.value, found.curve)


# limits


def test_where_not_even_one_step_meets_the_target_nothing_is_said_to_be_safe(shell: Shell) -> None:
    words = f"steps --noise 0.1 --sampling every-record {TARGET}"
    for form in ("", "--brief", "--why"):
        code, out, err = shell(f"{words} {form}")
        assert (code, out) == (3, "")
        assert (
            "not even one step meets --epsilon 1 at --delta 1e-06 under add-or-remove: it alone spends" in err
        )
    alone = float(re.findall(r"at least (\S+)\. ", err)[0])
    step = tr.Step(tr.Gaussian(noise_multiplier=0.1), tr.EveryRecord())
    assert 1 < alone <= tr.epsilon(step, delta=1e-6, relation=tr.ADD_OR_REMOVE).lower
    code, out, err = shell(f"{words} --json")
    assert (code, err) == (3, "")
    found = json.loads(out)
    assert found["answer"].startswith("Not even one step meets epsilon 1 at delta 1e-06")
    assert (found["value"], found["beyond"], found["gap"]) == (0, 1, "infinity")
    assert found["at_value"]["epsilon"] == {"lower": 0, "upper": 0}
    assert found["theorems"][0]["name"] == "nothing_sampled_nothing_lost"


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("rate --noise 100 --sampling poisson --steps 1", "1.0"),
        ("rate --noise 100 --sampling without-replacement --population 60 --steps 1", "59"),
    ],
)
def test_at_a_limit_nothing_lies_beyond(shell: Shell, words: str, limit: str) -> None:
    out, found = answered(shell, f"{words} {TARGET} --why"), loaded(shell, f"{words} {TARGET}")
    assert sides(out) == (limit, None)
    assert "(no larger one can be set)" in out
    assert "It is the limit of what can be set" in out
    assert (found["value"], found["beyond"], found["gap"]) == (float(limit), None, 0)


# what is refused

REFUSED = [
    (
        "noise --sampling poisson --rate 0.001 --steps 1 --relation add-or-remove --epsilon 1 --delta 0.01",
        "no noise is needed for --epsilon 1 at --delta 0.01 under add-or-remove: "
        "even if every drawn record were published",
    ),
    (
        f"steps --noise 1 --sampling poisson --rate 0 {TARGET}",
        "even 1e+15 steps meet --epsilon 1 at --delta 1e-06 under add-or",
    ),
    (f"{NOISE} --noise 1", "--noise"),
    (f"{NOISE} --truth 0.75", "--truth"),
    (f"{STEPS} --steps 5", "--steps"),
    (f"{RATE} --rate 0.1", "--rate"),
    (f"{BATCH} --batch 5", "--batch"),
    (f"{NOISE} --mechanism randomized-response", "--mechanism"),
    (f"rate --noise 1 --sampling every-record --steps 1 {TARGET}", "every-record"),
    (f"{RATE} --batch 5", "--batch is not an option of tightrope rate"),
    (f"rate --noise 1 --sampling balls-in-bins {TARGET}", "--steps is missing"),
    (
        f"rate --noise 1 --sampling balls-in-bins --steps 5 --epochs 5 {TARGET}",
        "--steps 5 contradicts --epochs 5",
    ),
    (f"rate --noise 1 --sampling without-replacement --steps 9 {TARGET}", "--records is missing"),
    (f"rate --sampling poisson --steps 9 {TARGET}", "--noise is missing; pass the noise multiplier"),
    (f"noise --sampling poisson --steps 9 {TARGET}", "--rate is missing; pass the probability"),
    (
        f"noise --sampling poisson --rate 0.1 --batch 3 --steps 9 {TARGET}",
        "--batch 3 contradicts --sampling poisson",
    ),
    (f"noise --sampling every-record --steps 0 {TARGET}", "--steps must be at least 1, got 0"),
    (f"noise --sampling every-record --steps 1.5 {TARGET}", "--steps: '1.5' is not a whole number"),
    (f"rate --noise 1 --sampling poisson --steps 0 {TARGET}", "--steps must be at least 1, got 0"),
    (
        f"rate --noise 1 --sampling without-replacement --population 0 --steps 1 {TARGET}",
        "--records must be at least 1",
    ),
    (f"steps --noise -1 --sampling every-record {TARGET}", "--noise must be above 0, got -1.0"),
    (f"noise --steps 1 {TARGET}", "--sampling is missing"),
    (f"noise --sampling every-record {TARGET}", "--steps is missing"),
    ("noise --sampling every-record --steps 1 --epsilon 1 --delta 1e-6", "--relation is missing"),
    ("noise --sampling every-record --steps 1 --relation add --delta 1e-6", "--epsilon is missing"),
    ("noise --sampling every-record --steps 1 --relation add --epsilon 1", "--delta is missing"),
    (
        "noise --sampling every-record --steps 1 --relation add --epsilon -1 --delta 1e-6",
        "--epsilon must be at least 0, got -1.0",
    ),
    (
        "noise --sampling every-record --steps 1 --relation add --epsilon nan --delta 1e-6",
        "--epsilon must be finite, got nan",
    ),
    (
        "noise --sampling every-record --steps 1 --relation add --epsilon 1 --delta 1",
        "--delta must be in (0, 1), got 1.0",
    ),
    (f"{NOISE} --accuracy 2", "--accuracy must be"),
    (
        "noise --mechanism laplace --sampling poisson --rate 0.1 --steps 9 "
        "--relation substitute --epsilon 1 --delta 1e-6",
        "laplace with poisson sampling under substitute: no theorem gives the worst case",
    ),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_bad_input_and_targets_without_an_answer_are_one_line_and_exit_code_2(
    shell: Shell, words: str, reason: str
) -> None:
    code, out, err = shell(words)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.startswith("tightrope: ")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1


INFEASIBLE = [
    (
        f"rate --noise 1 --sampling without-replacement --population 60 --steps 1000 {TARGET}",
        "--epsilon 1 at --delta 1e-06 under add-or-remove is out of reach: "
        "even a batch of 1 out of 60 misses it",
    ),
    (
        "noise --sampling every-record --steps 1 --relation add --epsilon 1e-12 --delta 1e-12",
        "is out of reach: even --noise 1e+09 misses it. Accept a larger --epsilon or --delta, or take fewer",
    ),
]


@pytest.mark.parametrize("form", ["", "--brief", "--json"])
@pytest.mark.parametrize(("words", "reason"), INFEASIBLE, ids=["batch", "noise"])
def test_a_target_that_nothing_meets_is_one_line_and_exit_code_3(
    shell: Shell, words: str, reason: str, form: str
) -> None:
    code, out, err = shell(f"{words} {form}")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert reason in err


def test_no_python_name_is_left_in_a_refused_target(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "{epsilon} 1 at {delta} 1e-06 under {ADD} is out of reach: even {noise_multiplier} 1e+09 misses it"
    refusal = tr.NoSuchValue(said, "Accept a larger {delta}.", limit=0.0)
    monkeypatch.setattr("tightrope.cli.commands.calibrate.smallest_noise", test_cli.failing(refusal))
    expected = "--epsilon 1 at --delta 1e-06 under add is out of reach: even --noise 1e+09 misses it."
    assert shell(NOISE) == (2, "", f"tightrope: {expected} Accept a larger --delta.\n")


# help

SAMPLING = {
    "--sampling",
    "--rate",
    "--batch",
    "--records",
    "--at-most",
    "--batches",
    "--chosen",
    "--drop-last",
}
LENGTH = {"--steps", "--epochs"}
MECHANISM = {"--mechanism", "--noise", "--truth"}
EVERY_TARGET = {"--relation", "--group", "--epsilon", "--delta", "--tuning", "--accuracy", "--effort"}
EVERY_TARGET |= {"--json", "--why", "--brief"}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("noise", {"--mechanism", "--plot"} | LENGTH | SAMPLING),
        ("steps", MECHANISM | SAMPLING),
        ("rate", MECHANISM | LENGTH | {"--sampling", "--records"}),
    ],
)
def test_the_help_lists_exactly_the_options_of_the_command(
    shell: Shell, command: str, options: set[str]
) -> None:
    out = answered(shell, f"{command} --help")
    assert set(re.findall(r"^│ [ *] +(--\S+)", out, re.M)) == options | EVERY_TARGET
    run, asked = out.split("What is asked")
    assert "--relation" in run
    assert {"--epsilon", "--delta", "--accuracy", "--effort", "--json"} <= set(re.findall(r"--\w+", asked))
    assert "randomized-response" in out or command == "noise"


@pytest.mark.parametrize("command", ["noise", "steps", "rate"])
def test_the_example_in_the_help_runs(shell: Shell, command: str) -> None:
    example = answered(shell, f"{command} --help").split("Example:\n\n")[1].replace("\\\n", " ")
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("tightrope", command)
    assert re.match(r"\S.* enough for epsilon [13] at delta 1e-0[56] \(", answered(shell, shlex.join(words)))


def test_the_commands_follow_contrast_in_the_help(shell: Shell) -> None:
    out = answered(shell, "--help")
    places = [re.search(rf"^│ {command} ", out, re.M) for command in ("contrast", "noise", "steps", "rate")]
    found = [place.start() for place in places if place]
    assert len(found) == 4
    assert found == sorted(found)
