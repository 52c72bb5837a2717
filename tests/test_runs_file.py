"""Several runs in one table and one figure, from a TOML file that is read to the last key or refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from shell import Shell
from tightrope.cli.commands.runs import read_runs
from tightrope.report.plot import draw_curves

PITFALL = Path(__file__).parent.parent / "examples" / "pitfall.toml"
PART = 'mechanism = "gaussian"\nnoise_multiplier = 0.8\nsampling = "poisson"\nrate = 0.001\nsteps = 100\n'
INLINE = '{mechanism = "gaussian", noise_multiplier = 0.8, sampling = "poisson", rate = 0.001, steps = 100}'
RUN = f'[[run]]\nname = "a"\n{PART}'
GOOD = f'relation = "add"\n{RUN}'


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "runs.toml"
        path.write_text(text)
        return path

    return written


# what is read


def test_the_example_holds_the_three_runs_of_the_pitfall() -> None:
    found = read_runs(PITFALL)
    gaussian = tr.Gaussian(noise_multiplier=0.8)
    poisson = tr.Step(gaussian, tr.Poisson(rate=0.001)) * 10_000
    fixed = tr.Step(gaussian, tr.WithoutReplacement(batch=1, population=1000)) * 10_000
    assert [(asked.run, asked.relation) for asked in found.runs] == [
        (poisson, tr.ADD_OR_REMOVE),
        (poisson, tr.SUBSTITUTE),
        (fixed, tr.ADD_OR_REMOVE),
    ]
    assert (found.accuracy, found.epsilons) == (1e-3, None)


def test_parts_relations_accuracy_and_epsilons_are_read(write: Callable[[str], Path]) -> None:
    parts = f"parts = [{INLINE},\n {INLINE.replace('0.8', '2')}]\n"
    second = f'[[run]]\nname = " two phases "\nrelation = "remove"\n{parts}'
    found = read_runs(write(f'relation = "add"\naccuracy = 1e-5\nepsilons = [0, 0.5, -1.0]\n{RUN}{second}'))
    assert [(asked.name, asked.relation) for asked in found.runs] == [
        ("a", tr.ADD),
        ("two phases", tr.REMOVE),
    ]
    assert [times for _, times in found.runs[1].run] == [100, 100]
    assert (found.accuracy, found.epsilons) == (1e-5, (0.0, 0.5, -1.0))


REFUSED = {
    "no TOML": (
        "relation add",
        "must be a TOML file, got: Expected '=' after a key in a key/value pair (at line 1, column 10)",
    ),
    "key twice": ('relation = "add"\nrelation = "add"', "must be a TOML file, got: "),
    "empty": ("", ": run is missing. Open each run with a line [[run]]."),
    "no runs": ("run = []", ": run must be a list of at least one run, got []"),
    "one table": (GOOD.replace("[[run]]", "[run]"), ": run must be a list, got {"),
    "not a table": ('run = ["a"]', ": run[0] must be a table, got 'a'"),
    "unknown key": ("acuracy = 1\n" + GOOD, ": acuracy = 1 is not a known key. Did you mean accuracy?"),
    "unknown key of a run": (
        GOOD + "nosie_multiplier = 3",
        ": run[0].nosie_multiplier = 3 is not a known key. Did you mean noise",
    ),
    "runs": (GOOD + "[[runs]]", ": runs = [{}] is not a known key. Did you mean run?"),
    "relation": (
        GOOD.replace('"add"', '"swap"'),
        ": relation must be a known name, got 'swap'. Write one of add, remove",
    ),
    "a group of none": (
        GOOD.replace('"add"', '"add of 0"'),
        ": relation must be that of a group, such as 'add-or-remove of 5', got 'add of 0'. A number from 2",
    ),
    "no relation": (
        RUN,
        ": run[0].relation is missing. State it in the run, or once above all runs: one of add, remove",
    ),
    "own relation": (
        GOOD + 'relation = "substitut"',
        ": run[0].relation must be a known name, got 'substitut'. Did you mean subst",
    ),
    "accuracy": ("accuracy = 3\n" + GOOD, ": accuracy must be at least 1e-09 and below 1, got 3"),
    "accuracy text": ('accuracy = "fine"\n' + GOOD, ": accuracy must be a real number, got 'fine'"),
    "epsilons": ("epsilons = 3\n" + GOOD, ": epsilons must be a list, got 3. List finite numbers"),
    "no epsilons": ("epsilons = []\n" + GOOD, ": epsilons must be a list of at least one number, got []"),
    "bad epsilon": ("epsilons = [0, inf]\n" + GOOD, ": epsilons[1] must be finite, got inf"),
    "no name": (GOOD.replace('name = "a"\n', ""), ": run[0].name is missing. Call the run something"),
    "number for a name": (GOOD.replace('name = "a"', "name = 3"), ": run[0].name must be a string, got 3"),
    "blank name": (
        GOOD.replace('name = "a"', 'name = " "'),
        ": run[0].name must be one line of 1 to 80 characters, got ' '",
    ),
    "two lines": (GOOD.replace('name = "a"', r'name = "a\nb"'), ": run[0].name must be one line"),
    "same name": (GOOD + RUN, ": run[1].name must be new, got 'a'. Give each run a name of its own."),
    "bad noise": (
        GOOD.replace("0.8", "-0.8"),
        ": run[0].noise_multiplier must be above 0, got -0.8. Without noise",
    ),
    "date": (
        GOOD.replace("0.8", "2024-05-20"),
        ": run[0].noise_multiplier must be a real number, got datetime.date(2024, 5, 20)",
    ),
    "no sampling": (
        GOOD.replace('sampling = "poisson"\n', ""),
        ": run[0].sampling is missing. Write one of every-record, poisson",
    ),
    "contradiction": (GOOD + "batch = 3", ": run[0].batch = 3 contradicts the rest: "),
    "bad part": (
        f'relation = "add"\n[[run]]\nname = "a"\nparts = [{INLINE}, {{}}]',
        ": run[0].parts[1].mechanism is missing",
    ),
    "parts and keys": (
        GOOD + f"parts = [{INLINE}]",
        ": run[0].mechanism = 'gaussian' contradicts parts, which state the whole run",
    ),
    "endless number": (GOOD.replace("100", "0x1" + "0" * 5000), "digits"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_file_is_refused_by_place_key_and_form(
    text: str, reason: str, write: Callable[[str], Path], shell: Shell, tmp_path: Path
) -> None:
    path = write(text)
    code, out, err = shell(f"curve --runs {path} --plot {tmp_path / 'out.png'}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err
    assert err.startswith(f"tightrope: {path}") or reason == "digits"
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == text


def test_all_problems_of_a_file_are_listed_at_once(write: Callable[[str], Path]) -> None:
    third = RUN.replace('"a"', '"c"').replace("rate = 0.001\n", "")
    path = write(f'relation = "swap"\naccuracy = 0\n{RUN}{RUN.replace("0.8", "nan")}{third}')
    with pytest.raises(tr.InvalidSetting) as refusal:
        read_runs(path)
    heading, *problems = str(refusal.value).splitlines()
    assert heading == f"{path} has 4 problems:"
    for problem, start in zip(
        problems, ["relation", "accuracy", "run[1].noise_multiplier", "run[2].rate is missing"], strict=True
    ):
        assert problem.startswith(f"  {path}: {start}")


def test_files_that_cannot_be_read_are_refused(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell(f"curve --runs {tmp_path / 'none.toml'}")
    assert (code, out) == (2, "")
    assert "none.toml could not be read: No such file or directory." in err
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe4"')
    assert "it is not UTF-8 text" in shell(f"curve --runs {tmp_path / 'latin.toml'}")[2]
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert "opens with a byte order mark" in shell(f"curve --runs {tmp_path / 'marked.toml'}")[2]
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    assert "deep.toml must be a TOML file" in shell(f"curve --runs {tmp_path / 'deep.toml'}")[2]


@pytest.mark.parametrize(
    "words",
    [
        "--relation add",
        "--noise 1",
        "--accuracy 0.1",
        "--noise 1 --sampling every-record --steps 2 --relation add",
        "--steps=3",
    ],
)
def test_a_file_of_runs_and_the_options_of_one_run_do_not_mix(shell: Shell, words: str) -> None:
    expected = "tightrope: --runs states every run in its file: leave out the options that state one run.\n"
    assert shell(f"curve --runs {PITFALL} {words}") == (2, "", expected)
    assert shell(f"curve {words} --runs={PITFALL}") == (2, "", expected)


def test_one_run_still_needs_its_options(shell: Shell) -> None:
    assert "  --sampling: the guarantee depends on how batches are drawn" in shell("curve")[2]
    assert "  --sampling: the guarantee" in shell("curve --relation add")[2]
    assert shell("curve --runs")[2].startswith("tightrope: ")


# what is answered


def test_every_run_has_its_column_its_assumptions_and_its_theorems(shell: Shell) -> None:
    code, out, err = shell(f"curve --runs {PITFALL} --epsilons 1 2 --why")
    assert (code, err) == (0, "")
    assumptions, deltas = (part.splitlines() for part in out.split("\n\n") if "---" in part)
    assert "sampling: Poisson, rate 0.001;  relation: substitute" in assumptions[3]
    assert "sampling: without replacement, 1 of 1,000;  relation: add-or-remove" in assumptions[4]
    assert deltas[0].split("  ")[0] == "epsilon"
    assert "delta of Poisson, add or remove" in deltas[0]
    assert [line.split()[0] for line in deltas[2:]] == ["1", "2"]
    assert deltas[2].count("[") == 3
    for name in ("poisson_remove", "poisson_substitute", "without_replacement_remove"):
        assert name in out
    assert "Poisson, substitute: D = (0, ..., 0, 1) and D' = (0, ..., 0, -1)" in out


def test_every_run_opens_with_a_sentence_and_has_a_column_of_upper_ends(shell: Shell) -> None:
    code, out, err = shell(f"curve --runs {PITFALL} --epsilons 1 2 3")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [
        "1. Poisson, add or remove",
        "2. Poisson, substitute",
        "3. without replacement, add or remove",
    ]
    assert lines[1].endswith(" at epsilon 3 (Poisson sampling, exchange one record for another).")
    (table,) = (part.splitlines() for part in out.split("\n\n") if "---" in part)
    brief = shell(f"curve --runs {PITFALL} --epsilons 1 2 3 --brief")[1].split()
    runs = json.loads(shell(f"curve --runs {PITFALL} --epsilons 1 2 3 --json")[1])["runs"]
    for column, run in enumerate(runs):
        for row, bracket in enumerate(run["brackets"]):
            upper = bracket["delta"]["upper"]
            assert upper <= float(table[2 + row].split()[1 + column]) <= upper * 1.001
            assert upper <= float(brief[3 * column + row]) <= upper * 1.00001
    assert "statements and datasets" in out


def test_json_holds_every_run_as_it_can_be_written_into_a_file(shell: Shell) -> None:
    code, out, err = shell(f"curve --runs {PITFALL} --epsilons 1 --json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["version"] == tr.__version__
    assert found["accuracy"] == 1e-3
    for shown, asked in zip(found["runs"], read_runs(PITFALL).runs, strict=True):
        ((step, times),) = asked.run
        exact = tr.delta(asked.run, epsilon=1, relation=asked.relation)
        assert shown["name"] == asked.name
        assert shown["parts"][0]["steps"] == times
        assert shown["parts"][0]["noise_multiplier"] == step.mechanism.noise_multiplier  # type: ignore[union-attr]
        assert shown["brackets"][0]["delta"] == {"lower": exact.lower, "upper": exact.upper}
        assert set(shown["theorems"]) <= {theorem["name"] for theorem in found["theorems"]}


def test_the_usual_range_is_wide_enough_for_all_runs(shell: Shell) -> None:
    runs = json.loads(shell(f"curve --runs {PITFALL} --json")[1])["runs"]
    assert [bracket["epsilon"] for bracket in runs[0]["brackets"]] == [1.25 * i for i in range(21)]
    assert all(run["brackets"][-1]["delta"]["upper"] <= 1e-10 for run in runs)


def test_epsilons_come_from_the_command_line_or_the_file(shell: Shell, write: Callable[[str], Path]) -> None:
    path = write("epsilons = [0.25, 0.5]\n" + GOOD)

    def asked(words: str) -> list[float]:
        return [
            bracket["epsilon"]
            for bracket in json.loads(shell(f"curve --runs {path} --json {words}")[1])["runs"][0]["brackets"]
        ]

    assert asked("") == [0.25, 0.5]
    assert asked("--epsilons 0.75") == [0.75]


def test_a_run_without_a_theorem_is_refused_by_name(
    shell: Shell, write: Callable[[str], Path], tmp_path: Path
) -> None:
    open_problem = (
        '[[run]]\nname = "fixed"\nrelation = "substitute"\nmechanism = "laplace"\nnoise_multiplier = 1\n'
    )
    path = write(GOOD + open_problem + 'sampling = "poisson"\nrate = 0.1\nsteps = 2')
    code, out, err = shell(f"curve --runs {path} --plot {tmp_path / 'out.png'}")
    assert (code, out) == (2, "")
    assert err.startswith(
        f"tightrope: {path}: fixed: laplace with poisson sampling under substitute: no theorem"
    )
    assert list(tmp_path.iterdir()) == [path]


# the figure


def test_the_figure_of_the_pitfall_is_drawn_and_said(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "pitfall.png"
    code, out, err = shell(f"curve --runs {PITFALL} --plot {target}")
    assert (code, err) == (0, f"tightrope: drew {target}\n")
    assert out.startswith("1. Poisson, add or remove: delta is at most 0.07678 at epsilon 0 and at most ")
    assert target.read_bytes().startswith(b"\x89PNG")


def curve(step: tr.Step, times: int = 1) -> tr.PrivacyCurve:
    return tr.privacy_curve(step * times, relation=tr.ADD_OR_REMOVE)


NORMAL = curve(tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()))
ENDING = curve(tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5)), 2)
PRIVATE = tr.privacy_curve(tr.Run(), relation=tr.ADD)
GRID = np.linspace(0, 2, 9).tolist()


def test_upper_ends_are_solid_lines_with_their_names_and_bands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: seen.append(figure))
    curves = {"cost in $ or $$": NORMAL, "_ending": ENDING, "private": PRIVATE}
    draw_curves(curves.items(), epsilons=GRID, to=tmp_path / "out.png", title="Three")
    (axes,) = seen[0].axes
    assert axes.get_title(loc="left") == "Three"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [r"cost in \$ or \$\$", " _ending", "private"]
    normal, ending, zero, private, nothing = axes.lines
    assert normal.get_linestyle() == "-"
    assert len({line.get_color() for line in (normal, ending, private)}) == 3
    assert zero.get_color() == ending.get_color()
    assert list(np.asarray(zero.get_xdata())) == [1.5, 2.0]
    assert list(np.asarray(nothing.get_xdata())) == [0.0, 2.0]
    upper = [NORMAL.delta(epsilon).upper for epsilon in GRID]
    assert 10 ** np.asarray(normal.get_ydata(), dtype=float) == pytest.approx(upper, rel=1e-9)
    assert len(axes.collections) == 3


def test_the_scale_is_as_deep_as_the_slowest_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: seen.append(figure))
    quiet = curve(tr.Step(tr.Gaussian(noise_multiplier=20), tr.EveryRecord()))
    draw_curves([("quiet", quiet), ("normal", NORMAL)], epsilons=[0, 1, 2], to=tmp_path / "out.png")
    bottom, top = seen[0].axes[0].get_ylim()
    assert -11 < bottom < -10  # far above the quiet curve's end
    assert top == 0


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_the_same_curves_are_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    named = [("a", NORMAL), ("b", ENDING)]
    drawn = [
        draw_curves(named, epsilons=GRID, to=tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab"
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("epsilons", [[0.0], [3.0], [0.0, 3.0]], ids=str)
def test_many_curves_and_single_points_can_be_drawn(tmp_path: Path, epsilons: list[float]) -> None:
    named = [(f"{i} {'very ' * 12}long name", [NORMAL, ENDING, PRIVATE][i % 3]) for i in range(30)]
    assert draw_curves(named, epsilons=epsilons, to=tmp_path / "out.png").stat().st_size > 1000


def test_bad_figures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tr.InvalidSetting, match=r"at least one curve, got \[\]"):
        draw_curves([], epsilons=GRID, to=tmp_path / "out.png")
    with pytest.raises(tr.InvalidSetting, match=r"at least one value, got \[\]"):
        draw_curves([("a", NORMAL)], epsilons=[], to=tmp_path / "out.png")

    def uncertain(*_: object) -> None:
        raise tr.NotPreciseEnough("epsilon 1 is out of reach.")

    monkeypatch.setattr(tr.PrivacyCurve, "log_delta", uncertain)
    with pytest.raises(tr.NotPreciseEnough, match=r"^second run: epsilon 1 is out of reach\.$"):
        draw_curves([("second run", NORMAL)], epsilons=GRID, to=tmp_path / "out.png")
    assert list(tmp_path.iterdir()) == []
