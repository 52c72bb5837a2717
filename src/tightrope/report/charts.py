"""Contrasts, calibrations and attacks as pictures in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tightrope.answers.calibrate import Calibration
from tightrope.answers.contrast import Contrast, ContrastRow
from tightrope.answers.pictures import WIDE, draw_bars, draw_values, find_height
from tightrope.curve.pictures import draw_attacks
from tightrope.curve.trade_off import TradeOff
from tightrope.report.canvas import check_target, write_picture
from tightrope.report.words import assumed_in_short, run_in_short, write_steps


def draw_contrast(table: Contrast, rows: Sequence[ContrastRow], *, to: str | Path) -> Path:
    """Draw the rows as bars under the verdict."""
    return write_picture(
        lambda axes: draw_bars(table, rows, axes),
        check_target(to),
        title=table.verdict,
        assumed=run_in_short(table.run),
        size=(WIDE, find_height(len(rows))),
    )


def draw_calibration(found: Calibration[Any], *, to: str | Path) -> Path:
    """Draw what other values spend beside the one that meets the target."""
    named = found.parameter.replace("_", " ")
    title, assumed = f"{named} for each epsilon", assumed_in_short(found.run, found.target.relation)
    if found.parameter != "steps":
        assumed = f"{write_steps(found.run.steps)};  {assumed}"
    return write_picture(
        lambda axes: draw_values(found, axes),
        check_target(to),
        title=title[0].upper() + title[1:],
        assumed=assumed,
    )


def draw_risk(attack: TradeOff, rates: Sequence[float], *, title: str, assumed: str, to: str | Path) -> Path:
    """Draw the best attack's true positive rate over its false positive rate, marked at these rates."""
    return write_picture(
        lambda axes: draw_attacks(attack, rates, axes, "no attack is above this"),
        check_target(to),
        title=title,
        assumed=assumed,
    )
