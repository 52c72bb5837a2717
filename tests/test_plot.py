"""Pictures of bracketed curves."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends, ends_from_logs
from tightrope.extras import advise_install
from tightrope.report.canvas import check_target
from tightrope.report.plot import draw_accountants, draw_curve, power_ticks

GRID = np.linspace(0, 2, 9).tolist()


def gaussian() -> tr.PrivacyCurve:
    return tr.privacy_curve(tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()), relation=tr.REMOVE)


def randomized_response() -> tr.PrivacyCurve:
    """A curve that is 0 from epsilon 1.3863 on."""
    step = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5))
    return tr.privacy_curve(step * 2, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize(
    ("suffix", "opening"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("SVG", b"<?xml")]
)
def test_the_suffix_names_the_format(tmp_path: Path, suffix: str, opening: bytes) -> None:
    target = tmp_path / f"curve.{suffix}"
    assert draw_curve(gaussian(), epsilons=GRID, to=target) == target
    assert target.read_bytes().startswith(opening)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]  # nothing half-written stays


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_the_same_curve_is_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    drawn = [
        draw_curve(gaussian(), epsilons=GRID, to=tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab"
    ]
    assert drawn[0] == drawn[1]
    assert b"CreationDate" not in drawn[0]
    assert b"dc:date" not in drawn[0]


def test_title_and_assumptions_are_in_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    seen: list[str] = []

    def look(figure: Figure, *_: object, **__: object) -> None:
        axes = figure.axes[0]
        seen.extend([axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)])

    monkeypatch.setattr(Figure, "savefig", look)
    monkeypatch.setattr("os.replace", lambda *_: None)
    draw_curve(
        gaussian(),
        epsilons=GRID,
        to=tmp_path / "curve.png",
        title="One step",
        assumed="sampling: every record; relation: remove",
    )
    draw_curve(gaussian(), epsilons=GRID, to=tmp_path / "curve.png")
    assert seen[:2] == ["One step", "sampling: every record; relation: remove"]
    assert "EveryRecord" in seen[2]
    assert "under REMOVE" in seen[2]


def test_both_ends_and_the_band_are_drawn_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: seen.append(figure))
    monkeypatch.setattr("os.replace", lambda *_: None)
    curve = randomized_response()
    draw_curve(curve, epsilons=GRID, to=tmp_path / "curve.png")
    axes = seen[0].axes[0]
    upper, lower, zero = axes.lines
    for line, end in ((upper, "upper"), (lower, "lower")):
        for epsilon, drawn in zip(GRID, np.asarray(line.get_ydata(), dtype=float), strict=True):
            expected = getattr(curve.delta(epsilon), end)
            assert math.isnan(drawn) if expected == 0 else 10**drawn == pytest.approx(expected, rel=1e-9)
    assert list(np.asarray(zero.get_xdata())) == [1.5, 2.0]
    assert len(axes.collections) == 1
    assert axes.get_ylabel().startswith("failure probability")
    assert axes.get_xlabel().startswith("privacy loss")


def test_a_bound_without_a_bracket_has_ticks_and_no_word_about_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: seen.append(figure))
    step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    bound = tr.privacy_curve(step, relation=tr.REMOVE, by=tr.Renyi())
    draw_accountants({"renyi": bound}, epsilons=GRID, to=tmp_path / "curve.png")
    axes = seen[0].axes[0]
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == ""
    assert len(axes.get_yticks()) > 1


@pytest.mark.parametrize("epsilons", [[0.0], [3.0], [2.0, 3.0], [0.0, 3.0]], ids=str)
def test_curves_that_end_and_single_points_can_be_drawn(tmp_path: Path, epsilons: list[float]) -> None:
    assert (
        draw_curve(randomized_response(), epsilons=epsilons, to=tmp_path / "curve.png").stat().st_size > 1000
    )


def test_deltas_far_below_the_smallest_float_can_be_drawn(tmp_path: Path) -> None:
    assert draw_curve(gaussian(), epsilons=[0, 50, 200], to=tmp_path / "curve.svg").stat().st_size > 1000


def test_drawing_leaves_no_global_state(tmp_path: Path) -> None:
    import matplotlib

    def settings() -> dict[str, object]:
        return {
            name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"
        }  # reading that loads pyplot

    before, had_pyplot = settings(), "matplotlib.pyplot" in sys.modules
    draw_curve(gaussian(), epsilons=GRID, to=tmp_path / "curve.svg")
    assert settings() == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_bad_targets_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    class Untouchable(tr.PrivacyCurve):
        def __init__(self) -> None: ...

    for name, reason in (
        ("curve.bmp", "must end in .png, .pdf, .svg"),
        ("curve", "must end in"),
        ("no/curve.png", "a folder that does not exist"),
    ):
        with pytest.raises(tr.InvalidSetting, match=reason):
            draw_curve(Untouchable(), epsilons=GRID, to=tmp_path / name)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(tr.InvalidSetting, match="must be a file"):
        check_target(tmp_path / "folder.png")
    with pytest.raises(tr.InvalidSetting, match="at least one value"):
        draw_curve(Untouchable(), epsilons=[], to=tmp_path / "curve.png")


def test_without_matplotlib_the_refusal_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tr.InvalidSetting, match=re.escape(advise_install("plot"))):
        draw_curve(gaussian(), epsilons=GRID, to=tmp_path / "curve.png")


def test_a_failed_write_keeps_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "curve.png"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(tr.InvalidSetting, match="No space left"):
        draw_curve(gaussian(), epsilons=GRID, to=target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("bottom", "top"), [(-0.3, 0), (-2, -0.1), (-7, 0), (-320, 0), (-7400, -3), (-1e9, 0), (-5.6, -5.5)]
)
def test_an_axis_has_a_few_ticks_inside(bottom: float, top: float) -> None:
    at, labels = power_ticks(bottom, top)
    assert len(at) == len(labels) <= 12
    assert all(bottom <= tick <= top for tick in at)
    if top - bottom > 0.4:
        assert len(at) >= 2


def test_ends_are_rounded_outwards() -> None:
    assert ends(Bracket(1 / 3, 2 / 3)) == ("0.333333", "0.666667")
    assert ends(Bracket(0.0, math.inf)) == ("0", "infinity")
    assert ends(Bracket(0.1, 0.1)) == ("0.1", "0.1")
    assert ends(Bracket(8405.68993, 8405.70741), 6) == ("8405.68", "8405.71")
    assert ends(Bracket(1.234567e-9, 1.234568e-9)) == ("1.234567e-09", "1.234568e-09")


@pytest.mark.parametrize("log", [-0.5, -20.0, -700.0, -888.0, -1e6])
def test_ends_from_logs_hold_the_truth(log: float) -> None:
    def logarithm(text: str) -> float:
        mantissa, _, exponent = text.partition("e")
        return math.log(float(mantissa)) + int(exponent or 0) * math.log(10)

    lower, upper = (logarithm(end) for end in ends_from_logs(Bracket(log, log + 1e-4)))
    rounding = 4e-16 * abs(log)
    assert log - 1e-5 < lower <= log + rounding
    assert log + 1e-4 - rounding <= upper < log + 1.1e-4
