"""A calibrated value: a number that is short, safe to type, and printed with what it spends."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic

from tightrope.answers.calibrate import Calibration
from tightrope.answers.frontier import V
from tightrope.answers.target import Target
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import tell_calibration, tell_direction, tell_so_far, tell_worth
from tightrope.cli.printed.terminal import Page, print_brief
from tightrope.cli.typed.form import Form
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import StopWork
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import assumed_in_words, relation_in_words, trials_in_words
from tightrope.setting.run import Run

Said = tuple[str, Any]  # in words, and as JSON


@dataclass(frozen=True)
class OpenQuestion:
    """A question with a blank (null in JSON); `option` is what to type for it.

    `short` says all of it in a line, and `training` how records and epochs became steps where they did.
    """

    option: str
    name: str
    short: str
    training: str
    mechanism: Said
    sampling: Said
    steps: Said

    @property
    def facts(self) -> list[show.Fact]:
        """The question in words."""
        stated = [(name, getattr(self, name)[0]) for name in ("mechanism", "sampling", "steps")]
        return [*stated, ("training", self.training)] if self.training else stated

    @property
    def stated(self) -> show.Object:
        """The question as JSON."""
        stated = {name: getattr(self, name)[1] for name in ("mechanism", "sampling", "steps")}
        return stated | {"training": self.training} if self.training else stated


@dataclass(frozen=True, kw_only=True)
class TypedValue(Generic[V]):
    """A calibrated value, and the number to type for it: short, safe, verified by its own curve."""

    calibration: Calibration[V]
    text: str
    value: V
    curve: PrivacyCurve
    epsilon: Bracket
    delta: Bracket
    steps_follow: bool = False

    @staticmethod
    def exact(calibration: Calibration[V], *, steps_follow: bool = False) -> "TypedValue[V]":
        """The value with all its digits; `steps_follow` where epochs make fewer steps of a larger batch."""
        value, read = calibration.value, _read(calibration.curve, calibration.target)
        return TypedValue(
            calibration=calibration, text=str(value), value=value, steps_follow=steps_follow, **read
        )

    @staticmethod
    def rounded(
        calibration: Calibration[float], run: Callable[[float], Run], *, up: bool
    ) -> "TypedValue[float]":
        """The value to six digits, rounded `up` or down; with all digits where that misses the target."""
        text, target = round_outwards(calibration.value, show.DIGITS, up=up), calibration.target
        value = float(text)
        curve = None
        with suppress(StopWork):
            curve = target.verify(run(value), calibration.curve.accuracy)
        if curve is None:
            return TypedValue.exact(calibration)
        return TypedValue(calibration=calibration, text=text, value=value, **_read(curve, target))

    @property
    def missing(self) -> str | None:
        """What certainly misses the target, rounded further away; None at a limit."""
        beyond = self.calibration.beyond
        if beyond is None or isinstance(beyond, int):
            return beyond if beyond is None else str(beyond)
        return round_outwards(beyond, show.DIGITS, up=beyond > self.calibration.value)

    def in_short(self, option: str) -> str:
        """What is known while the search goes on."""
        misses = "" if self.missing is None else f", and {self.missing} misses the target"
        return f"{option} {self.text} is safe{misses} (quick)."

    @property
    def how_close(self) -> str:
        """How far the best possible value can be from the number to type, in words."""
        if self.missing is None:
            return "It is the limit of what can be set: nothing beyond it could miss the target."
        beyond = self.calibration.beyond
        if isinstance(beyond, int) and abs(beyond - self.calibration.value) == 1:
            if self.steps_follow:
                more = "larger batch" if beyond > self.calibration.value else "smaller number"
                return (
                    "The next one misses the target. Where steps follow from epochs they are rounded up, and "
                    f"some {more} may meet it again."
                )
            return "It is the best possible value: the next one misses the target."
        away = abs(float(self.missing) - self.value) / self.value if self.value else math.inf
        away_text = round_outwards(away, 2, up=True)
        return f"The best possible value is at most {away_text} away, relative to this one."


def _read(curve: PrivacyCurve, target: Target) -> dict[str, Any]:
    """A curve with what it says at the target. It is asked here, while a bar shows progress."""
    return {"curve": curve, "epsilon": curve.epsilon(target.delta), "delta": curve.delta(target.epsilon)}


def print_calibration(
    typed: TypedValue[V],
    asked: OpenQuestion,
    *,
    interrupted: bool,
    more: str = "",
    also: Mapping[str, float] | None = None,
    form: Form,
) -> None:
    """Print the value in words and the question; what the value spends, with --why; and why it is safe."""
    target, run = typed.calibration.target, typed.calibration.run
    at = f"epsilon {write_number(target.epsilon)} at delta {write_number(target.delta)}"
    assumed = assumed_in_words([step.sampling for step, _ in run], target.relation)
    if target.trials is not None:
        assumed = f"{trials_in_words(target.trials)}, {assumed}"
    value = tell_calibration(typed.calibration.parameter, typed.text, typed.missing, at, more)
    said = f"{value}: {assumed}."
    said = tell_so_far(said) if interrupted else said
    if form.json:
        stopped = {"interrupted": True} if interrupted else {}
        show.print_json({"answer": said, **stopped, **_calibration_object(typed, asked, also or {})})
        return
    if form.brief:
        print_brief([typed.text])
        return
    effort: list[show.Fact] = show.effort_facts(
        replace(target.by, accuracy=typed.curve.accuracy), [(run, target.relation)]
    )
    relation = ("relation", relation_in_words(target.relation))
    how = f"; answered with --effort {target.by.effort}" if len(effort) > 1 else ""
    page = show.open_page(
        [said, tell_direction(target.relation), tell_worth([typed.epsilon])],
        question=[*filter(None, [asked.training]), f"Run: {asked.short}{how}."],
        facts=[*asked.facts, relation, ("target", at.replace("epsilon", "epsilon at most")), *effort],
        why=form.why,
    )
    if form.why:
        _show_cost(page, typed, asked)
    brackets = (typed.epsilon, typed.delta)
    show.close_page(page, show.find_theorems(brackets), show.find_datasets(brackets), why=form.why)


def _show_cost(page: Page, typed: TypedValue[V], asked: OpenQuestion) -> None:
    """Print what the value spends, with all digits, and how far the best possible value can be."""
    target = typed.calibration.target
    at = write_number(target.epsilon), write_number(target.delta)
    delta = show.answer_cells(typed.delta, typed.curve.log_delta(target.epsilon))
    rows: list[list[str]] = [
        ["meets the target", typed.text, f"[{', '.join(ends(typed.epsilon))}]", f"[{', '.join(delta)}]"]
    ]
    if typed.missing is not None:
        rows.append(["misses it", typed.missing, f"above {at[0]}", f"above {at[1]}"])
    page.table([["", asked.name, f"epsilon at delta {at[1]}", f"delta at epsilon {at[0]}"], *rows])
    page.heading(f"{asked.option} {typed.text} is safe to type.")
    page.line(typed.how_close, indent=2)
    page.line(show.width_in_words([typed.epsilon], "The ends of epsilon"), indent=2)


def _calibration_object(typed: TypedValue[V], asked: OpenQuestion, also: Mapping[str, float]) -> show.Object:
    calibration, target = typed.calibration, typed.calibration.target
    brackets = (typed.epsilon, typed.delta)
    how = {"accuracy": target.by.accuracy, "effort": str(target.by.effort)}
    return {
        "question": {**asked.stated, **how, "relation": show.relation_object(target.relation)},
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        **show.tuning_object(target.trials),
        "parameter": calibration.parameter,
        "value": calibration.value,
        "beyond": calibration.beyond,
        "gap": show.number_object(calibration.gap),
        "rounded": typed.value,
        **also,
        "at_value": _cost_object(calibration.curve, target),
        "at_rounded": _cost_object(typed.curve, target),
        **show.why_object(show.find_theorems(brackets), show.find_datasets(brackets)),
    }


def _cost_object(curve: PrivacyCurve, target: Target) -> show.Object:
    epsilon, delta = curve.epsilon(target.delta), curve.delta(target.epsilon)
    ends = {"epsilon": show.bracket_object(epsilon), "delta": show.bracket_object(delta)}
    return {**ends, **show.width_object(epsilon)}
