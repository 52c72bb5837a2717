"""Grids: which cells they have, in which order, what each is answered, and what is refused beforehand."""

import _thread
import itertools
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.sweeps.answer import answer
from tightrope.sweeps.cells import CELL_KEYS, COLUMNS, Row, key_of, read_value, write_value
from tightrope.sweeps.grid import MOST_CELLS, Grid

EXAMPLE = Path(__file__).parent.parent / "examples" / "grid.toml"
ASKED: dict[str, Any] = {
    "ask": "epsilon",
    "relation": "add-or-remove",
    "mechanism": "gaussian",
    "noise_multiplier": 2,
    "sampling": "poisson",
    "rate": 0.01,
    "steps": 100,
    "delta": 1e-6,
}
RUN = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.01)) * 100


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written_to(text: str) -> Path:
        path = tmp_path / "grid.toml"
        path.write_text(text)
        return path

    return written_to


def values(grid: Grid, *keys: str) -> list[Any]:
    return [tuple(cell[key] for key in keys) if len(keys) > 1 else cell[keys[0]] for cell in grid]


def only(**asked: object) -> Row:
    (cell,) = Grid.of({**ASKED, **asked})
    return answer(cell)


# cells


def test_cells_are_the_product_and_the_last_key_turns_fastest() -> None:
    grid = Grid.of(
        {
            **ASKED,
            "steps": [1, 2],
            "noise_multiplier": [3, 1.5],
            "delta": [1e-5, 1e-6],
            "relation": ["add", "remove"],
        }
    )
    assert len(grid) == 16
    expected = itertools.product(["add", "remove"], [3.0, 1.5], [1, 2], [1e-5, 1e-6])
    assert values(grid, "relation", "noise_multiplier", "steps", "delta") == list(expected)
    assert all(tuple(cell) == CELL_KEYS for cell in grid)


def test_blocks_are_chained_and_share_what_stands_above_them(write: Callable[[str], Path]) -> None:
    grid = Grid.read(
        write(
            'ask = "epsilon"\nrelation = "add"\nmechanism = "laplace"\nsteps = 5\ndelta = 1e-6\n'
            '[[grid]]\nsampling = "every-record"\nnoise_multiplier = [4, 5]\n'
            '[[grid]]\nsampling = "poisson"\nrate = [0.1, 0.2]\nnoise_multiplier = 6\nsteps = 7\n'
        )
    )
    expected = [(4.0, None, 5), (5.0, None, 5), (6.0, 0.1, 7), (6.0, 0.2, 7)]
    assert values(grid, "noise_multiplier", "rate", "steps") == expected


def test_what_a_choice_does_not_take_is_left_out_of_its_cells() -> None:
    sampled = {
        "sampling": ["poisson", "without-replacement"],
        "rate": [0.1, 0.2, 0.3],
        "batch": [1, 2],
        "population": 10,
    }
    grid = Grid.of({**ASKED, **sampled})
    assert values(grid, "rate", "batch") == [(0.1, None), (0.2, None), (0.3, None), (None, 1), (None, 2)]
    mixed = Grid.of(
        {
            **ASKED,
            "accountant": ["certified", "renyi", "monte-carlo"],
            "accuracy": [1e-3, 1e-6],
            "draws": 1000,
        }
    )
    told = values(mixed, "accountant", "accuracy", "effort", "draws", "seed")
    assert told == [
        ("certified", 1e-3, "quick", None, None),
        ("certified", 1e-6, "quick", None, None),
        ("renyi", None, None, None, None),
        ("monte-carlo", None, None, 1000, 0),
    ]


def test_a_cell_that_comes_twice_is_one() -> None:
    assert values(Grid.of({**ASKED, "rate": [0.1, 0.1, 0.2], "noise_multiplier": [1, 1.0]}), "rate") == [
        0.1,
        0.2,
    ]
    blocks = [{"rate": [0.1, 0.2]}, {"rate": [0.2, 0.3]}]
    shared = {key: value for key, value in ASKED.items() if key != "rate"}
    assert values(Grid.of({**shared, "grid": blocks}), "rate") == [0.1, 0.2, 0.3]


RANGES = [
    ("rate", {"from": 1e-4, "to": 1, "count": 5, "scale": "log"}, [1e-4, 1e-3, 0.01, 0.1, 1.0]),
    ("rate", {"from": 0, "to": 1, "count": 6, "scale": "linear"}, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ("rate", {"from": 1, "to": 0.25, "count": 3, "scale": "log"}, [1.0, 0.5, 0.25]),
    ("steps", {"from": 1, "to": 100, "count": 3, "scale": "log"}, [1, 10, 100]),
    ("steps", {"from": 1, "to": 3, "count": 9, "scale": "linear"}, [1, 2, 3]),
    ("steps", range(3), None),
    ("rate", np.linspace(0, 1, 3), [0.0, 0.5, 1.0]),
    ("steps", (4, 5), [4, 5]),
]


@pytest.mark.parametrize(("key", "stated", "expected"), RANGES, ids=str)
def test_ranges_include_their_ends_and_lists_may_be_arrays(
    key: str, stated: Any, expected: list[Any] | None
) -> None:
    if expected is None:
        with pytest.raises(tr.InvalidSetting, match="steps must be a whole number, got range"):
            Grid.of({**ASKED, key: stated})
        return
    found = values(Grid.of({**ASKED, key: stated}), key)
    assert found == expected
    assert {type(value) for value in found} == {type(expected[0])}


def test_a_cell_travels_and_its_key_is_the_same_text_everywhere() -> None:
    (cell,) = Grid.of({**ASKED, "rate": 0.1 + 0.2})
    assert pickle.loads(pickle.dumps(cell)) == cell
    assert write_value(cell["rate"]) == "0.30000000000000004"
    assert {key: read_value(key, text) for key, text in zip(CELL_KEYS, key_of(cell), strict=True)} == cell


def test_the_example_is_a_grid() -> None:
    grid = Grid.read(EXAMPLE)
    assert len(grid) == 60
    assert {cell["ask"] for cell in grid} == {"epsilon", "noise"}


# refusals

GOOD = "\n".join(f"{key} = {value!r}" for key, value in ASKED.items())
REFUSED = {
    "no TOML": ("ask epsilon", "must be a TOML file, got: "),
    "empty": ("", "grid.toml: ask is missing. Write one of epsilon, delta, noise, steps."),
    "no blocks": (
        GOOD + "\ngrid = []",
        "grid.toml: grid must be a list of at least one block, got []. Open each block",
    ),
    "block is no table": (GOOD + "\ngrid = [1]", "grid.toml: grid[0] must be a table, got 1."),
    "word of the command line": (
        GOOD + "\nnoise = 1",
        "grid.toml: noise = 1 is not a known key. Did you mean noise_multiplier?",
    ),
    "unknown key": (GOOD + "\nrat = 1", "grid.toml: rat = 1 is not a known key. Did you mean rate?"),
    "key of a finite mechanism": (GOOD + "\nobserved = [1]", "grid.toml: observed = [1] is not a known key."),
    "misspelt choice": (
        GOOD.replace("'poisson'", "['poison']"),
        "sampling[0] must be a known name, got 'poison'. Did you mean poi",
    ),
    "finite": (GOOD.replace("gaussian", "finite"), "mechanism must be a known name, got 'finite'."),
    "empty list": (
        GOOD.replace("0.01", "[]"),
        "rate must be a value, a list of at least one, or a range, got [].",
    ),
    "text for a number": (
        GOOD.replace("0.01", "['a']"),
        "grid.toml: rate[0] must be a real number, got 'a'. Write for example",
    ),
    "nan": (GOOD.replace("0.01", "nan"), "grid.toml: rate must be finite, got nan."),
    "number for a choice": (GOOD.replace("'poisson'", "3"), "grid.toml: sampling must be a string, got 3."),
    "fraction of steps": (GOOD.replace("100", "1e2"), "grid.toml: steps must be a whole number, got 100.0."),
    "true steps": (GOOD.replace("100", "true"), "grid.toml: steps must be a whole number, got True."),
    "huge": (GOOD.replace("100", "1" * 30), "grid.toml: steps must be at most 9223372036854775807."),
    "missing rate": (
        GOOD.replace("rate = 0.01", ""),
        "rate is missing. It is needed by sampling poisson: write for example rate",
    ),
    "missing relation": (
        GOOD.replace("relation =", "accuracy = 0.1 #"),
        "relation is missing. It is needed by every question: write",
    ),
    "missing delta": (
        GOOD.replace("delta = 1e-06", "epsilon = 1"),
        "delta is missing. It is needed by ask epsilon",
    ),
    "contradiction": (
        GOOD + "\nbatch = 3",
        "grid.toml: batch = 3 contradicts the rest: no question here takes it.",
    ),
    "noise given and asked for": (
        GOOD.replace("'epsilon'", "'noise'") + "\nepsilon = 1",
        "noise_multiplier = 2 contradicts the rest",
    ),
    "range of choices": (
        GOOD.replace("'poisson'", "{from = 1}"),
        "sampling must be a name or a list of names, got a range.",
    ),
    "range without count": (
        GOOD.replace("0.01", "{from = 1, to = 2}"),
        "grid.toml: rate.count is missing. Write for example rate",
    ),
    "range of one": (
        GOOD.replace("0.01", "{from=1, to=2, count=1, scale='log'}"),
        "grid.toml: rate.count must be at least 2, got 1.",
    ),
    "range to itself": (
        GOOD.replace("0.01", "{from=1, to=1, count=2, scale='linear'}"),
        "rate.from and to must differ, got 1.0 and 1.0",
    ),
    "log of 0": (
        GOOD.replace("0.01", "{from=0, to=1, count=2, scale='log'}"),
        "from and to must be above 0 on a log scale, and differ",
    ),
    "scale": (
        GOOD.replace("0.01", "{from=0, to=1, count=2, scale='lin'}"),
        "rate.scale must be a known name, got 'lin'. Did you mean",
    ),
    "range key": (
        GOOD.replace("0.01", "{form=0, to=1, count=2, scale='log'}"),
        "rate.form = 0 is not a known key. Did you mean from?",
    ),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_no_grid_is_refused(write: Callable[[str], Path], text: str, reason: str) -> None:
    path = write(text)
    with pytest.raises(tr.InvalidSetting) as refusal:
        Grid.read(path)
    assert str(refusal.value).startswith(str(path))
    assert reason in str(refusal.value)


def test_all_problems_are_listed_with_their_places(write: Callable[[str], Path]) -> None:
    path = write('ask = "epsilom"\nsteps = 1.5\n[[grid]]\nrate = []\n[[grid]]\nrat = 3\n')
    with pytest.raises(tr.InvalidSetting) as refusal:
        Grid.read(path)
    first, *problems = str(refusal.value).splitlines()
    assert first == f"{path} has 4 problems:"
    places = ["ask must", "steps must", "grid[0].rate must", "grid[1].rat = 3"]
    for place, problem in zip(places, sorted(problems, key=lambda text: text.count("grid[")), strict=True):
        assert problem.startswith(f"  {path}: {place}")


def test_absurdly_many_cells_are_refused_before_they_are_made() -> None:
    many = {"from": 1, "to": 10**6, "count": 10**5, "scale": "linear"}
    with pytest.raises(
        tr.InvalidSetting, match=f"grid must have at most {MOST_CELLS} cells, got 10000000000"
    ):
        Grid.of({**ASKED, "steps": many, "noise_multiplier": many})
    with pytest.raises(tr.InvalidSetting, match="count must be at most"):
        Grid.of({**ASKED, "steps": {**many, "count": 10**9}})


@pytest.mark.parametrize("grid", [3, None, "[[grid]]", ["ask"]], ids=str)
def test_what_is_no_mapping_is_refused(grid: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="grid must be a mapping of keys to values"):
        Grid.of(grid)


# answers


def test_certified_answers_are_both_ends_and_their_theorems() -> None:
    bracket = tr.epsilon(RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    row = only()
    assert (row["lower"], row["value"], row["upper"], row["error"]) == (
        bracket.lower,
        None,
        bracket.upper,
        None,
    )
    assert row["because"] == "poisson_remove; dominating_pairs_compose; gaussian_remove_dominates_add"
    asked = {"ask": "delta", "epsilon": 0.5}
    (cell,) = Grid.of({**{key: value for key, value in ASKED.items() if key != "delta"}, **asked})
    delta = tr.delta(RUN, epsilon=0.5, relation=tr.ADD_OR_REMOVE)
    assert (answer(cell)["lower"], answer(cell)["upper"]) == (delta.lower, delta.upper)


def test_the_smallest_noise_lies_between_one_that_misses_and_the_safe_one() -> None:
    (cell,) = Grid.of(
        {
            **{key: value for key, value in ASKED.items() if key != "noise_multiplier"},
            "ask": "noise",
            "epsilon": 1,
        }
    )
    row = answer(cell)
    found = tr.smallest_noise(
        tr.Poisson(rate=0.01), steps=100, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE
    )
    assert (row["lower"], row["value"], row["upper"]) == (found.beyond, found.value, found.value)


def test_the_most_steps_are_safe_and_no_more_are() -> None:
    (cell,) = Grid.of(
        {**{key: value for key, value in ASKED.items() if key != "steps"}, "ask": "steps", "epsilon": 1}
    )
    row = answer(cell)
    found = tr.most_steps(RUN.parts[0][0], epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert row["lower"] == row["value"] == row["upper"] == found.value


def test_the_other_accountants_fill_the_columns_they_can_vouch_for() -> None:
    truth = tr.epsilon(RUN, delta=1e-6, relation=tr.ADD_OR_REMOVE).upper
    exact = only(accountant="exact")
    assert exact["error"] is None
    assert float(exact["lower"] or 0) <= truth <= float(exact["upper"] or 0)
    renyi, limit = only(accountant="renyi"), only(accountant="gaussian-limit")
    assert (renyi["error"], renyi["lower"], renyi["value"]) == (None, None, None)
    assert float(renyi["upper"] or 0) >= truth
    assert float(renyi["order"] or 0) > 1
    assert (limit["error"], limit["lower"], limit["upper"], limit["order"]) == (None, None, None, None)
    assert float(limit["value"] or 0) > 0
    drawn = only(accountant="monte-carlo", draws=20_000, seed=3)
    assert drawn["error"] is None
    assert float(drawn["lower"] or 0) <= float(drawn["value"] or 0) <= float(drawn["upper"] or 0)
    assert float(drawn["lower"] or 0) <= truth <= float(drawn["upper"] or 0)
    assert {**drawn, "seconds": 0} == {**only(accountant="monte-carlo", draws=20_000, seed=3), "seconds": 0}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_a_simulation_is_no_answer() -> None:
    (cell,) = Grid.of({**ASKED, "accountant": "monte-carlo", "draws": 10**9})
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            answer(cell)
    finally:
        timer.cancel()


ERRORS = {
    "rate": ({"rate": 7}, "InvalidSetting: rate must be in [0, 1], got 7"),
    "batch": (
        {"sampling": "without-replacement", "batch": 9, "population": 5},
        "InvalidSetting: batch must be at most population",
    ),
    "no theorem": (
        {"mechanism": "laplace", "relation": "substitute"},
        "NoTheorem: Laplace with Poisson sampling under SUBSTITUTE",
    ),
    "delta": ({"delta": 2}, "InvalidSetting: delta must be in (0, 1), got 2"),
    "accuracy": ({"accuracy": 1e-12}, "InvalidSetting: accuracy must be at least 1e-09"),
    "steps": ({"steps": -1}, "InvalidSetting: steps must be at least 0, got -1."),
    "confidence": (
        {"accountant": "monte-carlo", "confidence": 1},
        "InvalidSetting: confidence must be in (0, 1), got 1",
    ),
    "calibration": (
        {"ask": "steps", "epsilon": 1, "accountant": "renyi"},
        "InvalidSetting: accountant must be certified where ask is steps",
    ),
    "no noise": (
        {"ask": "noise", "epsilon": 1, "mechanism": "randomized-response"},
        "InvalidSetting: mechanism must be Gaussian",
    ),
}


@pytest.mark.parametrize(("asked", "error"), ERRORS.values(), ids=ERRORS)
def test_a_cell_that_cannot_be_answered_says_why_on_one_line(asked: dict[str, Any], error: str) -> None:
    (cell,) = Grid.of({**ASKED})
    assumed: dict[str, Any] = {
        "effort": "quick",
        "accuracy": 1e-3,
        "draws": 1000,
        "confidence": 0.99,
        "seed": 0,
    }
    row = answer({**cell, **assumed, **({"rate": None} if "batch" in asked else {}), **asked})
    assert str(row["error"]).startswith(error)
    assert "\n" not in str(row["error"])
    assert row["upper"] is None
    assert set(row) | set(CELL_KEYS) == set(COLUMNS)
