"""The examples run as they stand and keep their promises."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

import tightrope as tr

EXAMPLES = Path(__file__).parent.parent / "examples"
POPULATION = 1_000_000
STEPS, DELTA = 10_000, 1e-6


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", EXAMPLES / "figure_2.py", *words], capture_output=True, text=True)


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a small figure 2, and what was said."""
    folder = tmp_path_factory.mktemp("figure") / "new"
    done = run("--rates", "2", "--steps", str(STEPS), "--delta", str(DELTA), "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "10 calibrations, some seconds\n"  # no bar in a pipe
    return folder, done.stdout


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "figure-2.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_figure_2_is_a_picture_and_a_table(figure: tuple[Path, str]) -> None:
    folder, said = figure
    assert sorted(path.name for path in folder.iterdir()) == ["figure-2.csv", "figure-2.png"]
    assert (folder / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    assert list(rows(folder)[0]) == ["sampling", "epsilon", "rate", "noise", "misses_below", "gap"]
    assert len(rows(folder)) == 10
    assert "10 calibrations in" in said
    assert "Worst gap" in said


def test_the_noises_of_figure_2_are_safe_and_close_to_unsafe(figure: tuple[Path, str]) -> None:
    for row in rows(figure[0]):
        rate, target = float(row["rate"]), float(row["epsilon"])
        batch = tr.WithoutReplacement(batch=round(rate * POPULATION), population=POPULATION)
        sampling = tr.Poisson(rate=rate) if row["sampling"] == "poisson" else batch
        spent = [
            tr.epsilon(
                tr.Step(tr.Gaussian(noise_multiplier=float(row[noise])), sampling) * STEPS, delta=DELTA, relation=tr.ADD_OR_REMOVE
            )
            for noise in ("noise", "misses_below")
        ]
        assert spent[0].upper <= target < spent[1].upper, row
        assert 0 < float(row["gap"]) < 1e-4


def test_figure_2_shows_that_without_replacement_needs_twice_the_noise(figure: tuple[Path, str]) -> None:
    folder, said = figure
    noise = {(row["sampling"], row["epsilon"], row["rate"]): float(row["noise"]) for row in rows(folder)}
    fixed = {key: value for key, value in noise.items() if key[0] == "without-replacement"}
    assert len(fixed) == 2
    for (_, epsilon, rate), value in fixed.items():
        assert value == 2 * noise["poisson", epsilon, rate]
    assert said.count("2 of 2") == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--rates", "1"], "--rates must be at least 2"),
        (["--delta", "2"], "delta must be"),
        (["--steps", "0"], "steps must be"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path: Path, words: list[str], reason: str) -> None:
    done = run(*words, "--out", str(tmp_path))
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
