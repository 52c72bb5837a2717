"""The options that say which accountant answers, and what it printed: bounds, approximations and estimates are no brackets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from tightrope.accountants.names import GAUSSIAN_LIMIT, MONTE_CARLO, RENYI, Accountant, promise_of
from tightrope.answers.spend import Answer, Curve, privacy_curve
from tightrope.cli.machine import bracket_object, number_object, print_json, question_object, theorem_object
from tightrope.cli.options import ANSWER, Number, Question, Whole
from tightrope.cli.page import Page
from tightrope.cli.progress import game_watched
from tightrope.cli.show import SMALLEST_FLOAT, show_question, show_theorems
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import Approximation, GaussianLimitCurve
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.curve.simulated_curve import Estimate
from tightrope.engines.draws.simulation import Drawing, Interval, Simulation
from tightrope.errors import InvalidSetting
from tightrope.report.digits import ends, ends_from_logs
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.theorems.evidence import Evidence

SIMULATION = Group("How monte-carlo draws", sort_key=3)
_DIGITS = 6

AccountantName = Literal["certified", "renyi", "gaussian-limit", "monte-carlo"]
AccountantChoice = Annotated[
    AccountantName,
    Parameter(
        name="--accountant",
        group=ANSWER,
        help="Who answers: certified (a bracket), renyi (an upper bound), gaussian-limit (an approximation) or monte-carlo "
        "(an interval with a confidence level). Accuracy and effort are for certified.",
    ),
]


@Parameter(name="*", group=SIMULATION)
@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """The options of monte-carlo; what is left out has the default of `Simulation`."""

    draws: Annotated[int | None, Whole, Parameter(help="Sums of losses to draw; 200000 by default.")] = None
    confidence: Annotated[
        float | None, Number, Parameter(help="Of all answers together; 0.99 by default.")
    ] = None
    seed: Annotated[
        int | None, Whole, Parameter(help="The same seed gives the same answer; 0 by default.")
    ] = None
    drawing: Annotated[
        Literal["plain", "tilted"] | None, Parameter(help="tilted by default: small deltas need it.")
    ] = None
    interval: Annotated[
        Literal["hoeffding", "chernoff", "betting"] | None, Parameter(help="betting by default.")
    ] = None
    workers: Annotated[
        int | None, Whole, Parameter(help="Processes; 1 by default. The answer does not depend on it.")
    ] = None

    def stated(self) -> Simulation:
        """The simulation, with defaults for what is not stated."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.drawing is not None:
            given["drawing"] = Drawing(self.drawing)
        if self.interval is not None:
            given["interval"] = Interval(self.interval)
        return Simulation(**given)


def stated_simulation(options: SimulationOptions | None, accountant: Accountant) -> Simulation | None:
    """The simulation that monte-carlo asks for; other accountants draw nothing."""
    given = (
        {} if options is None else {name: value for name, value in vars(options).items() if value is not None}
    )
    if accountant is MONTE_CARLO:
        return Simulation() if options is None else options.stated()
    for name, value in given.items():
        raise InvalidSetting(
            f"--{name} {value} contradicts --accountant {accountant.value}, which draws nothing: leave it out."
        )
    return None


@dataclass(frozen=True)
class OtherQuestion:
    """What is run, who counts as a neighbour, and which accountant but the certified one is asked."""

    stated: Question
    relation: Relation
    accountant: Accountant
    simulation: Simulation | None

    def answers(self, ask: Literal["epsilon", "delta"], at: Sequence[float]) -> tuple[Curve, list[Answer]]:
        """The curve, and its answer at each number; all estimates hold together."""
        with game_watched("Drawing, part") as progress:
            curve = privacy_curve(
                self.stated.run,
                relation=self.relation,
                accountant=self.accountant,
                simulation=self.simulation,
                progress=progress,
            )
            return curve, list(getattr(curve, ask)(list(at)))

    def print(self, ask: Literal["epsilon", "delta"], at: Sequence[float], *, json: bool) -> Curve:
        """Print what was asked, the answers and what they are worth."""
        given: Literal["epsilon", "delta"] = "delta" if ask == "epsilon" else "epsilon"
        curve, answers = self.answers(ask, at)
        theorems = [evidence for evidence in curve.because if isinstance(evidence, Evidence)]
        if json:
            found = [{given: x, ask: answer_object(answer)} for x, answer in zip(at, answers, strict=True)]
            shown = [theorem_object(evidence) for evidence in theorems]
            accountant = {
                "kind": self.accountant.value,
                "promise": promise_of(self.accountant),
                **self._simulated(),
            }
            question = question_object(self.stated, self.relation, QUICK)
            for irrelevant in ("accuracy", "effort"):  # which only the certified accountant heeds
                question.pop(irrelevant)
            print_json({"question": question, "accountant": accountant, "answers": found, "theorems": shown})
        else:
            self._show(curve, ask, given, list(zip(at, answers, strict=True)), theorems)
        refuse_to_hide_an_interrupt(answers)
        return curve

    def _show(
        self,
        curve: Curve,
        ask: str,
        given: str,
        found: Sequence[tuple[float, Answer]],
        theorems: Sequence[Evidence],
    ) -> None:
        page = Page()
        who = ("accountant", f"{self.accountant.value}, {promise_of(self.accountant)}")
        show_question(
            page,
            self.stated,
            self.relation,
            None,
            [who, *self._facts(curve, [answer for _, answer in found])],
        )
        headings = {
            RENYI: [f"{ask}, at most", "order"],
            GAUSSIAN_LIMIT: [f"{ask}, about"],
            MONTE_CARLO: [f"{ask}, estimate", "lower limit", "upper limit"],
        }
        rows = [[f"{at:.12g}", *_cells(curve, ask, at, answer)] for at, answer in found]
        page.table([[given, *headings[self.accountant]], *rows])
        page.heading(
            {
                RENYI: "The upper bound is guaranteed, because",
                GAUSSIAN_LIMIT: "Nothing is guaranteed. The approximation rests on",
                MONTE_CARLO: "What is drawn bounds every pair of neighbours, because",
            }[self.accountant]
        )
        show_theorems(page, theorems)

    def _facts(self, curve: Curve, answers: Sequence[Answer]) -> list[tuple[str, str]]:
        if self.simulation is not None:
            drawn = self.simulation
            cut = [answer.draws for answer in answers if isinstance(answer, Estimate) and answer.interrupted]
            draws = f"interrupted after {min(cut):,} of {drawn.draws:,}" if cut else f"{drawn.draws:,}"
            return [
                ("draws", f"{draws}, {drawn.drawing.value}, from seed {drawn.seed}"),
                (
                    "confidence",
                    f"{drawn.confidence:g} that all intervals hold, by the {drawn.interval.value} interval",
                ),
            ]
        return [("mu", f"{curve.mu:.9g}")] if isinstance(curve, GaussianLimitCurve) else []

    def _simulated(self) -> dict[str, Any]:
        if self.simulation is None:
            return {}
        drawn = self.simulation
        stated = {name: getattr(drawn, name) for name in ("draws", "confidence", "seed")}
        return {**stated, "drawing": drawn.drawing.value, "interval": drawn.interval.value}


def refuse_to_hide_an_interrupt(answers: Sequence[Answer]) -> None:
    """Say by the exit code that a simulation was stopped early; what it had is printed."""
    if any(isinstance(answer, Estimate) and answer.interrupted for answer in answers):
        raise KeyboardInterrupt


def answer_object(answer: Answer) -> dict[str, Any]:
    """An answer of any kind for JSON."""
    if isinstance(answer, Bracket):
        return bracket_object(answer)
    if isinstance(answer, UpperBound):
        return {"upper": number_object(answer.upper), "order": number_object(answer.order)}
    if isinstance(answer, Approximation):
        return {"value": number_object(answer.value)}
    numbers = {name: number_object(getattr(answer, name)) for name in ("value", "lower", "upper")}
    return {
        **numbers,
        "confidence": answer.confidence,
        "draws": answer.draws,
        "interrupted": answer.interrupted,
    }


def answer_in_short(answer: Answer) -> str:
    """An answer of any kind in one cell, rounded outwards."""
    if isinstance(answer, Bracket):
        return f"[{', '.join(ends(answer, _DIGITS))}]"
    if isinstance(answer, UpperBound):
        return f"at most {_up(answer.upper)}"
    if isinstance(answer, Approximation):
        return f"about {answer.value:.6g}"
    low, high = ends(Bracket(answer.lower, answer.upper), _DIGITS)
    return f"{answer.value:.6g} ({low} to {high})"


def _cells(curve: Curve, ask: str, at: float, answer: Answer) -> list[str]:
    if isinstance(answer, UpperBound):
        upper = _up(answer.upper)
        if ask == "delta" and 0 < answer.upper < SMALLEST_FLOAT and isinstance(curve, RenyiCurve):
            log = curve.log_delta(at).upper
            upper = ends_from_logs(Bracket(log, log))[1]
        return [upper, f"{answer.order:.6g}"]
    if isinstance(answer, Approximation):
        return [f"{answer.value:.6g}"]
    assert isinstance(answer, Estimate)
    return [f"{answer.value:.6g}", *ends(Bracket(answer.lower, answer.upper), _DIGITS)]


def _up(value: float) -> str:
    return ends(Bracket(value, value), _DIGITS)[1]
