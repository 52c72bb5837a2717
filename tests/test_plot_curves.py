"""Curves and trade-offs that draw themselves on the axes of matplotlib."""

import builtins
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

import tightrope as tr

STEP = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
WIDE = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000)) * 100
COINS = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5)) * 2
GRID = [0.0, 0.5, 1.0, 1.5]


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    """Figures that nobody looks at, closed when the test is over."""
    mpl.use("Agg")
    yield
    pyplot.close("all")


def drawn(line: Any) -> tuple[list[float], list[float]]:
    across, upwards = (np.asarray(data, dtype=float).tolist() for data in line.get_data())
    return across, upwards


def labels(axes: Axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_a_curve_draws_its_upper_end_in_delta_itself() -> None:
    found = tr.privacy_curve(WIDE, relation="substitute").delta(GRID)
    axes = tr.privacy_curve(WIDE, relation="substitute").plot(GRID)  # afresh: a curve refines itself
    assert axes.get_yscale() == "log"
    epsilons, deltas = drawn(axes.lines[0])
    assert epsilons == GRID
    assert deltas == [delta.upper for delta in found]
    (band,) = axes.collections
    heights = {float(y) for path in band.get_paths() for _, y in np.asarray(path.vertices)}
    assert {delta.lower for delta in found} <= heights
    assert axes.get_ylabel().startswith("failure probability")
    assert axes.get_xlabel().startswith("privacy loss")
    assert "under SUBSTITUTE" in labels(axes)[0].replace("\n", " ")


def test_without_epsilons_a_curve_is_drawn_to_a_negligible_delta() -> None:
    curve = tr.privacy_curve(STEP, relation="remove")
    epsilons, deltas = drawn(curve.plot().lines[0])
    assert epsilons[0] == 0
    assert epsilons[-1] == curve.epsilon(1e-10).upper
    assert 0.9e-10 < deltas[-1] <= 1e-10


def test_several_curves_share_axes_that_are_given() -> None:
    _, axes = pyplot.subplots()
    for times in (1, 4):
        found = tr.privacy_curve(STEP * times, relation="remove").plot(GRID, ax=axes, label=f"{times}_steps")
        assert found is axes
    assert labels(axes) == ["1_steps", "4_steps"]
    assert len({line.get_color() for line in axes.lines}) == 2
    assert len(pyplot.get_fignums()) == 1


@pytest.mark.parametrize(
    ("by", "style"),
    [
        (tr.Certified(), "-"),
        (tr.Renyi(), "--"),
        (tr.GaussianLimit(), ":"),
        (tr.MonteCarlo(draws=1000), "None"),
        (tr.Exact(width=0.1), "None"),
    ],
    ids=lambda by: getattr(by, "name", ""),
)
def test_every_kind_of_curve_can_be_drawn(by: tr.Accountant[Any, Any], style: str) -> None:
    curve = tr.privacy_curve(STEP, relation="remove", by=by)
    axes = curve.plot(np.linspace(0, 1, 50))
    assert axes.lines[0].get_linestyle() == style
    assert (len(drawn(axes.lines[0])[0]) == 50) == (style != "None")  # intervals may take seconds each
    axes.figure.canvas.draw()


def test_a_curve_ends_where_delta_is_zero_and_says_so() -> None:
    axes = tr.privacy_curve(COINS, relation="add-or-remove").plot(GRID)
    line, zero = axes.lines
    assert np.isnan(drawn(line)[1]).tolist() == [False, False, False, True]
    assert drawn(zero)[0] == [1.5, 1.5]
    assert labels(axes)[-1] == r"$\delta = 0$"
    axes.figure.canvas.draw()


def test_a_trade_off_draws_the_end_that_every_attack_stays_above() -> None:
    attack = tr.privacy_curve(STEP, relation="remove").trade_off()
    axes = attack.plot(9, label="one step")
    rates, misses = attack.points(9)
    blind, line = axes.lines
    assert drawn(blind) == ([0, 1], [1, 0])
    assert drawn(line) == (rates.tolist(), [found.lower for found in misses])
    assert labels(axes) == ["blind guess", "one step"]
    attack.plot(5, ax=axes, label="again")
    assert labels(axes) == ["blind guess", "one step", "again"]


@pytest.mark.parametrize("ax", ["axes", pyplot, 3], ids=str)
def test_what_are_no_axes_are_refused(ax: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="ax must be axes of matplotlib"):
        tr.privacy_curve(STEP, relation="remove").plot(ax=ax)


def test_a_curve_that_refuses_leaves_no_empty_figure() -> None:
    with pytest.raises(tr.InvalidSetting, match="epsilon must be finite"):
        tr.privacy_curve(STEP, relation="remove").plot([float("inf")])
    with pytest.raises(tr.InvalidSetting, match="epsilons must hold at least one value"):
        tr.privacy_curve(STEP, relation="remove").plot([])
    assert pyplot.get_fignums() == []


def test_without_matplotlib_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return load(name, *args, **named)

    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    curve = tr.privacy_curve(STEP, relation="remove")
    for draw in (curve.plot, curve.trade_off().plot):
        with pytest.raises(ImportError, match=r"^a picture needs matplotlib. Install it with: \S+ .*install"):
            draw()
