"""Pictures of contrasts, calibrations and attacks: what is drawn is what is certified."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

import tightrope as tr
from shell import Shell
from tightrope.answers.pictures import draw_bars, pick_rows
from tightrope.curve.digits import ONE_NUMBER
from tightrope.curve.pictures import INK, SHADE, draw_attacks, mark_powers

WIDE = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000)) * 100
ASKED = "--noise 2 --sampling poisson --rate 0.3 --steps 1"


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def table() -> tr.Contrast:
    return tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=0.1)) * 10, delta=1e-6)


def bars(axes: Axes) -> list[tuple[int, float, float, str, str]]:
    """Row, both ends, colour and hatch of every bar."""
    found = []
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        row = round(bar.get_y() + bar.get_height() / 2)
        ends = bar.get_x(), bar.get_x() + bar.get_width()
        found.append((row, *ends, to_hex(bar.get_edgecolor()), bar.get_hatch() or ""))
    return found


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_bars_are_full_to_the_lower_end_and_hatched_to_the_upper(table: tr.Contrast) -> None:
    axes = table.plot()
    rows = pick_rows(table, table.rows)
    drawn = bars(axes)
    assert drawn
    for place, row in enumerate(rows):
        (epsilon,) = row.epsilons
        full, *hatched = [bar for bar in drawn if bar[0] == place]
        assert full[1:3] == pytest.approx((0, epsilon.lower))
        assert full[4] == ""
        assert bool(hatched) == (epsilon.relative_width > ONE_NUMBER)
        for bar in hatched:
            assert bar[1:3] == pytest.approx((epsilon.lower, epsilon.upper))
            assert bar[4]
    assert any(bar[4] for bar in drawn)


def test_the_claimed_row_is_dark_and_the_others_light(table: tr.Contrast) -> None:
    axes = table.plot()
    rows = pick_rows(table, table.rows)
    for place, _, _, colour, _ in bars(axes):
        is_claimed = (rows[place].sampling, rows[place].relation) == table.claimed
        assert colour == (INK if is_claimed else SHADE)
    (line,) = axes.lines
    assert list(np.asarray(line.get_xdata())) == pytest.approx([table.claimed_epsilons[0].upper] * 2)
    assert [text for text in words(axes) if "(claimed)" in text]
    assert axes.get_xlabel().endswith("1e-06")


def test_the_colours_differ_without_colour() -> None:
    dark, light = (np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)) for colour in (INK, SHADE))
    assert light - dark > 0.25


def test_every_bar_has_its_numbers_rounded_outwards(table: tr.Contrast) -> None:
    axes = table.plot()
    for row in pick_rows(table, table.rows):
        name = f"{row.sampling.spelling.replace('-', ' ')}, {row.relation}"
        said = words(axes)[words(axes).index(name) + 1]
        *lower, upper = said.split(" (")[0].split(" to ")
        assert float(upper) >= row.epsilons[0].upper
        assert all(float(end) <= row.epsilons[0].lower for end in lower)


def test_rows_without_an_answer_or_an_end_say_so(table: tr.Contrast) -> None:
    refused = replace(table.rows[0], epsilons=(), ratios=(), why_not="no theorem", relation=tr.SUBSTITUTE)
    endless = replace(table.rows[0], epsilons=(tr.Bracket(1.25, math.inf),), ratios=(), relation=tr.ADD)
    axes = draw_bars(table, [refused, endless], None)
    assert "refused: no theorem" in words(axes)
    assert "at least 1.25" in words(axes)
    axes.figure.canvas.draw()


def test_a_calibration_draws_what_other_values_spend() -> None:
    found = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=100, epsilon=1, delta=1e-6, relation="remove")
    axes = found.plot()
    upper = axes.lines[0]
    epsilons, values = (np.asarray(data, dtype=float) for data in upper.get_data())
    for at in (0, len(values) // 2, -1):
        run = tr.Step(tr.Gaussian(noise_multiplier=values[at]), tr.Poisson(rate=1e-3)) * 100
        assert tr.epsilon(run, delta=1e-6, relation="remove").upper == pytest.approx(epsilons[at], rel=1e-6)
    assert np.all(np.diff(epsilons) < 0)
    marked = axes.lines[-1]
    assert np.asarray(marked.get_xydata()).tolist() == [[1, found.value]]
    assert axes.get_ylabel() == "noise multiplier"
    assert axes.get_xlabel().endswith("1e-06")


def test_where_theory_leaves_a_gap_both_ends_are_drawn() -> None:
    target = {"epsilon": 3, "delta": 1e-5, "relation": tr.SUBSTITUTE}
    found = tr.smallest_noise(tr.WithoutReplacement(batch=50, population=1000), steps=100, **target)  # type: ignore[arg-type]
    axes = found.plot()
    upper, lower = (np.asarray(line.get_xdata(), dtype=float) for line in axes.lines[:2])
    assert np.all(lower < upper)
    assert len(axes.collections) == 1


@pytest.mark.parametrize("parameter", ["steps", "batch", "rate"])
def test_steps_batches_and_rates_are_drawn_too(parameter: str) -> None:
    target = {"epsilon": 2, "delta": 1e-6, "relation": tr.REMOVE}
    noise = tr.Gaussian(noise_multiplier=2)
    found: tr.Calibration[int] | tr.Calibration[float]
    if parameter == "steps":
        found = tr.most_steps(tr.Step(noise, tr.Poisson(rate=0.01)), **target)  # type: ignore[arg-type]
    elif parameter == "batch":
        found = tr.largest_batch(noise, population=1000, steps=100, **target)  # type: ignore[arg-type]
    else:
        found = tr.largest_rate(noise, steps=100, **target)  # type: ignore[arg-type]
    axes = found.plot()
    assert np.asarray(axes.lines[-1].get_xydata()).tolist() == [[2, found.value]]
    assert np.all(np.diff(np.asarray(axes.lines[0].get_xdata(), dtype=float)) > 0)


def test_a_calibration_at_its_limit_says_what_to_draw_instead() -> None:
    found = tr.most_steps(
        tr.Step(tr.Gaussian(noise_multiplier=0.1), tr.EveryRecord()),
        epsilon=0.1,
        delta=1e-9,
        relation="remove",
    )
    assert found.value == 0
    with pytest.raises(tr.InvalidSetting, match=r"found\.curve\.plot"):
        found.plot()


def test_attacks_are_drawn_with_both_ends_and_marks() -> None:
    attack = tr.privacy_curve(WIDE, relation=tr.SUBSTITUTE).trade_off()
    axes = draw_attacks(attack, [1e-3, 0.1], None, "attack")
    blind, _, marks = axes.lines
    assert np.asarray(blind.get_xdata()).tolist() == np.asarray(blind.get_ydata()).tolist()
    for rate, rightly in np.asarray(marks.get_xydata(), dtype=float):
        assert rightly == pytest.approx(attack.true_positive_rate(float(rate)).upper, rel=1e-6)
    assert [float(text) for text in words(axes)] >= [float(y) for y in np.asarray(marks.get_ydata())]
    (band,) = axes.collections
    heights = {float(y) for path in band.get_paths() for _, y in np.asarray(path.vertices)}
    lower, upper = (getattr(attack.true_positive_rate(0.1), end) for end in ("lower", "upper"))
    assert min(abs(height - lower) for height in heights) < (upper - lower) / 10  # a curve refines itself
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(("low", "high"), [(1, 4), (0.02, 3), (1e-9, 1e9), (3, 3.0001)])
def test_axes_of_powers_have_plain_ticks_inside(low: float, high: float) -> None:
    _, axes = pyplot.subplots()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    mark_powers(axes.xaxis)
    axes.figure.canvas.draw()
    assert all(low <= tick <= high for tick in axes.get_xticks())


# -- the commands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        f"contrast {ASKED} --delta 1e-6",
        f"risk {ASKED} --relation remove",
        "noise --sampling poisson --rate 0.3 --steps 1 --relation remove --epsilon 1 --delta 1e-6",
    ],
)
def test_commands_draw_and_print_as_without_a_picture(shell: Shell, tmp_path: Path, words: str) -> None:
    target = tmp_path / "picture.svg"
    plain, drawn = shell(f"{words} --json"), shell(f"{words} --json --plot {target}")
    assert (plain[0], drawn[0]) == (0, 0)
    assert json.loads(plain[1]) == json.loads(drawn[1])
    assert f"drew {target}" in drawn[2]
    assert b"<svg" in target.read_bytes()


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_work(shell: Shell, tmp_path: Path) -> None:
    for words in (f"contrast {ASKED} --delta 1e-6", f"risk {ASKED} --relation remove"):
        code, out, err = shell(f"{words} --plot {tmp_path}/picture.bmp")
        assert (code, out) == (2, "")
        assert "must end in .png, .pdf, .svg" in err
