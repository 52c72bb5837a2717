"""--accountant on epsilon, delta and curve, and tightrope compare."""

import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest

import tightrope as tr
from shell import Shell
from test_cli import HEADLINE, answered, last_row, loaded

RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=0.001)) * 10_000
ASKED = f"{HEADLINE} --relation add-or-remove"
SMALL = "--noise 2 --sampling poisson --rate 0.1 --steps 10 --relation remove"


def test_renyi_prints_a_bound_its_order_and_its_theorems(shell: Shell) -> None:
    out = answered(shell, f"epsilon {ASKED} --delta 1e-6 --accountant renyi --why")
    at, upper, order = last_row(out.split("\n\nThe upper bound")[0])
    found = tr.epsilon(RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE, by=tr.Renyi())
    assert at == "1e-06"
    assert found.upper <= float(upper) <= found.upper * (1 + 1e-5)
    assert float(order) == pytest.approx(found.order, rel=1e-5)
    assert "a certified upper bound, and no lower one" in out
    assert "renyi_bounds_the_curve" in out
    assert "accuracy" not in out


def test_the_limit_says_that_it_guarantees_nothing(shell: Shell) -> None:
    words = f"delta {ASKED} --epsilon 1 --accountant gaussian-limit"
    short = answered(shell, words)
    assert re.match(
        "delta is about .* by the Gaussian limit, which guarantees nothing and may be too small", short
    )
    assert "Nothing is guaranteed. Why: gaussian_limit" in short
    out = answered(shell, f"{words} --why")
    assert "Nothing is guaranteed" in out
    assert "an approximation: it can be too small" in out
    assert "mu          0.194183758" in out


def test_monte_carlo_states_draws_seed_and_confidence(shell: Shell) -> None:
    words = f"delta {SMALL} --epsilon 0.5 --accountant monte-carlo --draws 5000 --seed 7 --confidence 0.9"
    assert re.match(
        r"delta is between \S+ and \S+ at epsilon 0.5 with confidence 0.9 ", answered(shell, words)
    )
    out = answered(shell, f"{words} --why")
    assert "draws       5,000, tilted, from seed 7" in out
    assert "confidence  0.9 that all intervals hold, by the betting interval" in out
    _, value, lower, upper = last_row(out.split("\n\nWhat is drawn")[0])
    assert float(lower) <= float(value) <= float(upper)
    assert out == answered(shell, f"{words} --why")


@pytest.mark.parametrize("accountant", ["renyi", "gaussian-limit", "monte-carlo"])
def test_json_names_the_accountant_and_its_promise(shell: Shell, accountant: str) -> None:
    found = loaded(shell, f"epsilon {SMALL} --delta 1e-3 --accountant {accountant}")
    assert found["accountant"]["kind"] == accountant
    assert "promise" in found["accountant"]
    assert "brackets" not in found
    keys = {"renyi": {"upper", "order"}, "gaussian-limit": {"value"}}
    expected = keys.get(accountant, {"value", "lower", "upper", "confidence", "draws", "interrupted"})
    assert set(found["answers"][0]["epsilon"]) == expected
    assert "effort" not in found["question"]


def test_curves_of_other_accountants_have_tables_and_pictures(shell: Shell, tmp_path: Path) -> None:
    for accountant in ("renyi", "gaussian-limit", "monte-carlo --draws 2000 --epsilons 0:1:4"):
        target = tmp_path / "curve.svg"
        code, out, err = shell(f"curve {SMALL} --accountant {accountant} --plot {target}")
        assert code == 0, err
        assert "drew" in err
        assert target.read_text().startswith("<?xml")
        assert "\nepsilon " in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"epsilon {SMALL} --delta 1e-3 --draws 5", "--draws 5 contradicts --accountant certified"),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant renyi --seed 3",
            "--seed 3 contradicts --accountant renyi",
        ),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant monte-carlo --draws 0",
            "--draws must be at least 1, got 0",
        ),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant monte-carlo --confidence 1",
            "--confidence must be in (0, 1), got 1.0",
        ),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant monte-carlo --seed -1",
            "--seed must be at least 0, got -1",
        ),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant monte-carlo --workers 0",
            "--workers must be at least 1, got 0",
        ),
        (f"epsilon {SMALL} --delta 1e-3 --accountant monte-carlo --interval wide", "wide"),
        (f"epsilon {SMALL} --delta 1e-3 --accountant oracle", "oracle"),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant exact --effort tight",
            "--effort tight contradicts --accountant exact, which plays no game",
        ),
        (
            f"epsilon {SMALL} --delta 1e-3 --accountant renyi --accuracy 1e-4",
            "--accuracy 0.0001 contradicts --accountant renyi",
        ),
        (f"epsilon {SMALL} --delta 1e-3 --accountant exact --width 2", "--width must be between"),
        (f"epsilon {SMALL} --delta 1e-3 --accountant exact --cells 3", "--cells must be at least 16"),
        (f"epsilon {SMALL} --delta 0 --accountant exact", "--delta must be in (0, 1)"),
        (f"delta {SMALL} --epsilon inf --accountant exact", "--epsilon must be finite"),
        (f"epsilon {SMALL} --delta 2 --accountant renyi", "--delta must be in (0, 1), got 2.0"),
        ("curve --runs some.toml --accountant renyi", "--accountant renyi contradicts --runs"),
        (f"compare {SMALL} --delta 1e-3 --draws 1.5", "1.5"),
    ],
)
def test_bad_input_is_refused_in_the_words_of_the_options(shell: Shell, words: str, said: str) -> None:
    code, out, err = shell(words)
    assert (code, out) == (2, "")
    assert said in err


def test_compare_prints_every_accountant(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "all.png"
    code, out, err = shell(f"compare {SMALL} --delta 1e-3 1e-6 --draws 3000 --plot {target}")
    assert code == 0, err
    for name in ("certified", "exact", "renyi", "gaussian-limit", "monte-carlo"):
        assert f"\n{name} " in out
    assert "too small" in out
    assert target.stat().st_size > 10_000


def test_compare_as_json(shell: Shell) -> None:
    found = loaded(shell, f"compare {SMALL} --delta 1e-3 --draws 3000")
    assert [row["accountant"] for row in found["rows"]] == [
        "certified",
        "exact",
        "renyi",
        "gaussian-limit",
        "monte-carlo",
    ]
    assert set(found["rows"][0]["epsilons"][0]["epsilon"]) == {"lower", "upper"}


def test_compare_tells_why_an_accountant_is_silent(shell: Shell) -> None:
    out = answered(
        shell, "compare --noise 1 --sampling poisson --rate 0.001 --steps 1e7 --relation remove --delta 1e-6"
    )
    assert "Refused: monte-carlo" in out
    assert "--draws" in out


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_simulation_prints_what_it_has(shell: Shell) -> None:
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    code, out, err = shell(f"delta {SMALL} --epsilon 0.5 --accountant monte-carlo --draws 2000000000 --json")
    timer.join()
    assert code == 130, err
    answer = json.loads(out)["answers"][0]["delta"]
    assert 0 < answer["draws"] < 2_000_000_000
    assert answer["interrupted"] is True
    truth = tr.delta(
        tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.1)) * 10, epsilon=0.5, relation=tr.REMOVE
    )
    assert answer["lower"] <= truth.lower
    assert truth.upper <= answer["upper"]
    assert "interrupted" in err


def test_exact_integers_answer_on_the_command_line(shell: Shell) -> None:
    asked = "--noise 1 --sampling poisson --rate 0.1 --steps 3 --relation remove --delta 1e-3"
    certified, exact = (
        loaded(shell, f"epsilon {asked} {who}")["brackets"][0]["epsilon"]
        for who in ("", "--accountant exact --width 0.01")
    )
    assert exact["lower"] <= certified["upper"]
    assert certified["lower"] <= exact["upper"]
    assert exact["upper"] - exact["lower"] <= 0.01
    about = loaded(shell, f"epsilon {asked} --accountant exact --width 0.01")["accountant"]
    assert (about["kind"], about["width"]) == ("exact", 0.01)
    assert "\nwidth       0.01 in epsilon" in answered(
        shell, f"epsilon {asked} --accountant exact --width 0.01 --why"
    )
    code, _, err = shell(f"epsilon {asked} --cells 100")
    assert code == 2
    assert "--cells 100 contradicts --accountant certified" in err


def test_what_exact_integers_cannot_do_is_refused_on_the_command_line(shell: Shell) -> None:
    asked = "--noise 1 --sampling poisson --rate 0.1 --relation remove --delta 1e-3 --accountant exact"
    for words, said in (
        ("--steps 1e7", "--steps 10000000 are more than the 1,000,000 that exact composes. Ask certified"),
        ("--steps 3 --cells 16000000 --bits 60000", "--cells with 60,000 --bits each takes gigabytes"),
    ):
        code, out, err = shell(f"epsilon {asked} {words}")
        assert (code, out) == (4, "")
        assert said in err


def test_a_statement_is_verified_in_exact_integers(shell: Shell) -> None:
    statement = Path(__file__).parent.parent / "docs" / "statements" / "digits.json"
    assert "In exact integers it is [0.94" in answered(shell, f"verify --exact {statement}")
    assert loaded(shell, f"verify {statement}").get("exact") is None


def test_a_statement_that_exact_integers_cannot_check_is_still_computed_anew(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = Path(__file__).parent.parent / "docs" / "statements" / "visits.json"
    monkeypatch.setattr("tightrope.accountants.exact.MOST_STEPS", 0)
    code, out, err = shell(f"verify --exact {statement}")
    assert code == 4
    assert out.startswith("The claim holds")
    assert "exact composes" in err
