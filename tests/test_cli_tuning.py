"""--tuning on the command line: the law, what it costs, and what refuses it."""

import json
from pathlib import Path

import pytest

import tightrope as tr
from shell import Shell

RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 1_000
ANCHOR = "--noise 0.8 --sampling poisson --rate 0.001 --steps 1000 --relation add-or-remove"


def test_the_answer_names_the_law_its_mean_and_what_one_run_costs(shell: Shell) -> None:
    code, out, err = shell(f"epsilon {ANCHOR} --delta 1e-6 --tuning geometric:20")
    assert (code, err) == (0, "")
    assert "the best of a geometric number of runs, 20 on average" in out.splitlines()[0]
    assert out.splitlines()[1].startswith("One run alone: epsilon at most 0.46")
    assert "This holds if each run draws its candidate anew" in out


def test_the_answer_names_every_number_of_the_law(shell: Shell) -> None:
    _, out, _ = shell(f"epsilon {ANCHOR} --delta 1e-6 --tuning negative-binomial:0.5:20")
    assert "the best of a negative binomial number of runs (eta 0.5), 20 on average" in out


def test_json_has_the_law_and_both_brackets(shell: Shell) -> None:
    _, out, _ = shell(f"epsilon {ANCHOR} --delta 1e-6 --tuning poisson:3 --json")
    told = json.loads(out)
    found = tr.epsilon(tr.tuned(RUN, trials="poisson:3"), delta=1e-6, relation="add-or-remove")
    assert told["tuning"] == {"law": "poisson:3", "mean": 3.0}
    assert told["brackets"][0]["epsilon"] == {"lower": found.lower, "upper": found.upper}
    assert told["one_run"][0]["upper"] == tr.epsilon(RUN, delta=1e-6, relation="add-or-remove").upper


def test_delta_and_curve_know_a_search(shell: Shell) -> None:
    remove = ANCHOR.replace("add-or-remove", "remove")
    _, out, _ = shell(f"delta {remove} --epsilon 1 --tuning logarithmic:5 --why")
    assert "tuning     logarithmic:5: the best of a logarithmic number of runs, 5 on average" in out
    code, out, _ = shell(f"curve {remove} --epsilons 0.5 1 --tuning fixed:3")
    assert code == 0
    assert "the best of 3 runs, all of which count" in out


def test_noise_is_enough_for_the_whole_search(shell: Shell) -> None:
    asked = "noise --sampling poisson --rate 0.001 --steps 1000 --relation remove --epsilon 1 --delta 1e-6"
    _, out, _ = shell(f"{asked} --tuning geometric:20 --json")
    told = json.loads(out)
    assert told["tuning"]["law"] == "geometric:20"
    run = tr.Step(tr.Gaussian(noise_multiplier=told["rounded"]), tr.Poisson(rate=1e-3)) * 1_000
    assert tr.epsilon(tr.tuned(run, trials="geometric:20"), delta=1e-6, relation="remove").upper <= 1


@pytest.mark.parametrize("wrong", ["geometric", "binomial:3", "geometric:0.5"])
def test_an_unknown_law_is_refused_by_its_option(shell: Shell, wrong: str) -> None:
    code, _, err = shell(f"epsilon {ANCHOR} --delta 1e-6 --tuning {wrong}")
    assert code == 2
    assert "--tuning must" in err


def test_other_accountants_refuse_a_search(shell: Shell) -> None:
    code, _, err = shell(f"epsilon {ANCHOR} --delta 1e-6 --tuning geometric:20 --accountant renyi")
    assert code == 2
    assert "certified" in err


def test_a_file_of_runs_states_a_search(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "runs.toml"
    steps = 'sampling = "poisson"\nrate = 0.001\nnoise_multiplier = 0.8\nsteps = 1000\nmechanism = "gaussian"'
    path.write_text(
        'relation = "remove"\nepsilons = [1.0]\n'
        f'[[run]]\nname = "one"\n{steps}\n[[run]]\nname = "best"\ntuning = "geometric:20"\n{steps}\n'
    )
    code, out, _ = shell(f"curve --runs {path} --json")
    one, best = json.loads(out)["runs"]
    assert code == 0
    assert best["tuning"]["law"] == "geometric:20"
    assert one["brackets"][0]["delta"]["upper"] < best["brackets"][0]["delta"]["lower"]
