"""`tightrope risk`: what it prints and what it refuses."""

import json
import re
import shlex
from statistics import NormalDist
from typing import Any

import pytest

import tightrope as tr
from shell import Shell

PLAIN = "risk --noise 1 --sampling every-record --steps 1"
RESPONSE = "risk --mechanism randomized-response --truth 0.75 --sampling every-record --steps 1"


def answered(shell: Shell, words: str) -> str:
    code, out, err = shell(words)
    assert (code, err) == (0, ""), err
    return out


def loaded(shell: Shell, words: str) -> dict[str, Any]:
    return dict(json.loads(answered(shell, f"{words} --json")))


def rows(out: str, heading: str) -> list[list[str]]:
    """The cells of the table whose heading starts so."""
    table = next(part for part in out.split("\n\n") if part.startswith(heading)).splitlines()
    return [re.split(r"  +", line.strip()) for line in table[2:] if "  " in line]


def test_risk_prints_question_rates_advantage_success_posterior_and_evidence(shell: Shell) -> None:
    out = answered(shell, f"{PLAIN} --relation remove --why")
    rates = {row[0]: row[1:] for row in rows(out, "false positive rate")}
    assert list(rates) == ["0.0001", "0.001", "0.01", "0.1"]
    normal = NormalDist()
    assert float(rates["0.1"][0]) <= normal.cdf(1 + normal.inv_cdf(0.1)) <= float(rates["0.1"][1])
    advantage, success = rows(out, "an attack's")
    assert advantage[0] == "advantage"
    assert advantage[1].startswith("0.38292")
    assert success[0] == "success, prior 0.5"
    assert success[2].startswith("0.69146")
    beliefs = rows(out, "prior")
    assert [row[:2] for row in beliefs] == [["0.5", rate] for rate in rates]
    assert beliefs[3][2].startswith("0.7955")
    assert "gaussian, noise multiplier 1.0" in out
    assert "D holds the record, D' does not." in out
    assert "full_batch_remove (proved" in out
    assert "D = (0, ..., 0, 1) and D' = (0, ..., 0)" in out


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("add", "D' holds the record, D does not."),
        ("add-or-remove", "D is either of two neighbours, whichever is worse."),
        ("substitute", "D is either of two neighbours, whichever is worse."),
    ],
)
def test_what_d_stands_for_is_said(shell: Shell, relation: str, said: str) -> None:
    assert said in answered(shell, f"{PLAIN} --relation {relation} --fpr 0.1 --why")


def test_the_first_sentence_says_how_often_an_attacker_is_right_and_the_table_has_upper_ends(
    shell: Shell,
) -> None:
    out = answered(shell, f"{PLAIN} --relation remove --prior 0.5 0.2")
    who = "An attacker who sees everything the run releases and knows all other records guesses right whether"
    assert out.startswith(
        f"{who} a record was used at most 69.15 % of the time (50 % by chance) and at most "
    )
    assert "(80 % by chance): full batches, remove one record.\n" in out
    attack = tr.privacy_curve(
        tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord()) * 1, relation=tr.REMOVE
    ).trade_off()
    for rate, found, half, fifth in rows(out, "false positive rate"):
        at = float(rate)
        assert (
            attack.true_positive_rate(at).upper <= float(found) <= attack.true_positive_rate(at).upper * 1.001
        )
        assert attack.posterior(0.5, at).upper <= float(half)
        assert attack.posterior(0.2, at).upper <= float(fifth) < float(half)
    exchanged = answered(shell, f"{PLAIN} --relation substitute")
    assert exchanged.startswith(f"{who.removesuffix('whether')}which of two records was used at most ")
    brief = answered(shell, f"{PLAIN} --relation remove --prior 0.5 0.2 --brief").split()
    assert [
        float(number) >= attack.attack_success(p).upper for number, p in zip(brief, (0.5, 0.2), strict=True)
    ]


def test_risk_as_json_of_randomized_response(shell: Shell) -> None:
    found = loaded(shell, f"{RESPONSE} --relation remove --fpr 0.05 0.25 --prior 1/2 1/4")
    assert found["advantage"]["lower"] <= 0.5 <= found["advantage"]["upper"]
    at, corner = found["brackets"]
    assert (at["false_positive_rate"], corner["false_positive_rate"]) == (0.05, 0.25)
    assert at["true_positive_rate"]["upper"] == pytest.approx(0.15, rel=1e-6)
    assert corner["true_positive_rate"]["lower"] == pytest.approx(0.75, rel=1e-6)
    assert corner["false_negative_rate"]["upper"] == pytest.approx(0.25, rel=1e-6)
    half, quarter = corner["posteriors"]
    assert (half["prior"], quarter["prior"]) == (0.5, 0.25)
    assert half["posterior"]["upper"] == pytest.approx(0.75, rel=1e-6)
    assert quarter["posterior"]["upper"] == pytest.approx(0.5, rel=1e-6)
    assert [at["attack_success"]["lower"] for at in found["successes"]] == pytest.approx(
        [0.75, 0.75], rel=1e-6
    )
    assert found["theorems"][0]["name"] == "full_batch_remove"
    assert found["question"]["relation"]["kind"] == "remove"
    assert found["version"] == tr.__version__


def test_printed_ends_hold_the_exact_ends(shell: Shell) -> None:
    words = (
        "risk --noise 0.8 --sampling poisson --rate 0.001 --steps 10000 --relation add-or-remove --fpr 0.01"
    )
    ((_, lower, upper),) = rows(answered(shell, f"{words} --why"), "false positive rate")
    exact = loaded(shell, words)["brackets"][0]["true_positive_rate"]
    assert float(lower) <= exact["upper"]
    assert exact["lower"] <= float(upper)
    assert lower.startswith("0.016848")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"{PLAIN} --relation remove --fpr 2", "--fpr must be in (0, 1), got 2.0"),
        (f"{PLAIN} --relation remove --fpr 0", "--fpr must be in (0, 1), got 0.0"),
        (f"{PLAIN} --relation remove --fpr often", "--fpr: 'often' is not a number"),
        (f"{PLAIN} --relation remove --prior 1", "--prior must be in (0, 1), got 1.0"),
        (f"{PLAIN}", "--relation is missing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(shell: Shell, words: str, reason: str) -> None:
    code, out, err = shell(words)
    assert (code, out) == (2, "")
    assert reason in err
    assert err.startswith("tightrope: ")
    assert err.count("\n") == 1


def test_help_lists_the_command_and_its_example_runs(shell: Shell) -> None:
    assert re.search(r"\brisk\b", answered(shell, "--help"))
    example = answered(shell, "risk --help").split("Example:\n\n")[1].replace("\\\n", " ").strip()
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("tightrope", "risk")
    assert answered(shell, shlex.join(words)).startswith("An attacker who sees everything the run releases")
