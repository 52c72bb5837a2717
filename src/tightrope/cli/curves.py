"""tightrope epsilon, delta, curve and risk: what one run spends, by whichever accountant is asked."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from tightrope.accountants.certified import Progress
from tightrope.accountants.names import CERTIFIED, MONTE_CARLO, RENYI, promise_of
from tightrope.answers.spend import Answer, Curve, privacy_curve
from tightrope.cli.options import (
    ANSWER,
    QUESTION,
    USUAL_ACCOUNTANT,
    AccountantOptions,
    Deltas,
    Epsilons,
    Json,
    Picture,
    Points,
    RunOptions,
    WhichRelation,
)
from tightrope.cli.refusals import MIXED, missing
from tightrope.cli.show import (
    Fact,
    Object,
    answer_cells,
    answer_object,
    print_json,
    question_facts,
    question_object,
    refuse_to_hide_an_interrupt,
    show_evidence,
    show_theorems,
    theorem_object,
    why_object,
)
from tightrope.cli.terminal import Page, say, watch_rounds
from tightrope.curve.limit_curve import GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve
from tightrope.curve.simulated_curve import Estimate
from tightrope.errors import InvalidSetting
from tightrope.report.words import assumed_in_short, run_in_short
from tightrope.setting.effort import Effort
from tightrope.setting.relation import Relation
from tightrope.setting.spelling import RELATION_SPELLINGS
from tightrope.theorems.evidence import Evidence

FAR_ENOUGH = 1e-10
POINTS = 21
_DRAWN = 241


def usual_range(curves: Iterable[PrivacyCurve | RenyiCurve]) -> list[float]:
    """Epsilons from 0 to a round number where every delta is negligible; to 1 where no epsilon is known for that."""
    last = max((e for c in curves if 0 < (e := c.epsilon(FAR_ENOUGH).upper) < math.inf), default=1.0)
    unit = 10.0 ** math.floor(math.log10(last))
    stop = next(digit * unit for digit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if digit * unit >= last)
    return [float(f"{stop * i / (POINTS - 1):.12g}") for i in range(POINTS)]


def fine_range(epsilons: Sequence[float]) -> list[float]:
    """The same epsilons with enough between them for a smooth line."""
    if len(epsilons) == 1:
        return list(epsilons)
    return [*epsilons, *np.linspace(min(epsilons), max(epsilons), _DRAWN).tolist()]


@dataclass(frozen=True)
class CurveQuestion:
    """What is run, who counts as a neighbour, and who answers."""

    stated: RunOptions
    relation: Relation
    by: AccountantOptions

    def __post_init__(self) -> None:
        self.by.who  # noqa: B018  options that contradict each other are refused before anything is computed

    @property
    def is_certified(self) -> bool:
        """Whether brackets answer it."""
        return self.by.who is CERTIFIED

    @property
    def effort(self) -> Effort | None:
        """How hard to work; None for whoever does not heed it."""
        return self.by.how_hard if self.is_certified else None

    def curve(self, progress: Progress | None) -> Curve:
        """The curve that answers it."""
        return privacy_curve(
            self.stated.run,
            relation=self.relation,
            accountant=self.by.who,
            accuracy=self.stated.accuracy,
            effort=self.by.how_hard,
            simulation=self.by.simulation if self.by.who is MONTE_CARLO else None,
            progress=progress,
        )

    def usual_range(self, curve: Curve) -> list[float]:
        """Where to ask when nobody says; brackets and the Rényi bound know where delta is negligible."""
        if not isinstance(curve, PrivacyCurve | RenyiCurve):
            curve = privacy_curve(self.stated.run, relation=self.relation, accountant=RENYI)
        return usual_range([curve])

    def draw(self, curve: Curve, epsilons: Sequence[float], target: Path) -> None:
        """Draw delta over the epsilons."""
        from tightrope.report.accountants_plot import draw_accountants
        from tightrope.report.plot import draw_curve

        about = (run_in_short(self.stated.run), assumed_in_short(self.stated.run, self.relation))
        if isinstance(curve, PrivacyCurve):
            draw_curve(curve, epsilons=fine_range(epsilons), to=target, title=about[0], assumed=about[1])
        else:
            named = {self.by.who: curve}
            draw_accountants(
                named, epsilons=fine_range(epsilons), to=target, title=about[0], assumed=about[1]
            )

    def facts(self, curve: Curve, answers: Sequence[Answer]) -> list[Fact]:
        """The question, who answers, and how."""
        facts = question_facts(self.stated, self.relation, self.effort)
        if self.is_certified:
            return facts
        facts.append(("accountant", f"{self.by.accountant}, {promise_of(self.by.who)}"))
        if isinstance(curve, GaussianLimitCurve):
            facts.append(("mu", f"{curve.mu:.9g}"))
        if self.by.who is MONTE_CARLO:
            how = self.by.simulation
            cut = [a.draws for a in answers if isinstance(a, Estimate) and a.interrupted]
            draws = f"interrupted after {min(cut):,} of {how.draws:,}" if cut else f"{how.draws:,}"
            facts.append(("draws", f"{draws}, {how.drawing.value}, from seed {how.seed}"))
            sure = f"{how.confidence:g} that all intervals hold, by the {how.interval.value} interval"
            facts.append(("confidence", sure))
        return facts

    def accountant_object(self) -> Object:
        """Who answers, and how, for JSON."""
        about: Object = {"kind": self.by.accountant, "promise": promise_of(self.by.who)}
        if self.by.who is MONTE_CARLO:
            how = self.by.simulation
            about |= {name: getattr(how, name) for name in ("draws", "confidence", "seed")}
            about |= {"drawing": how.drawing.value, "interval": how.interval.value}
        return about


# epsilon, delta and curve

_HEADINGS = {
    "certified": ("{}, lower end", "{}, upper end"),
    "renyi": ("{}, at most", "order"),
    "gaussian-limit": ("{}, about",),
    "monte-carlo": ("{}, estimate", "lower limit", "upper limit"),
}
_BECAUSE = {
    "renyi": "The upper bound is guaranteed, because",
    "gaussian-limit": "Nothing is guaranteed. The approximation rests on",
    "monte-carlo": "What is drawn bounds every pair of neighbours, because",
}


def epsilon(
    question: RunOptions,
    *,
    relation: WhichRelation,
    delta: Deltas,
    by: AccountantOptions = USUAL_ACCOUNTANT,
    json: Json = False,
) -> None:
    """Bracket the smallest epsilon >= 0 for which the run is (epsilon, delta)-private."""
    _answer(CurveQuestion(question, RELATION_SPELLINGS[relation], by), "epsilon", delta, json=json)


def delta(
    question: RunOptions,
    *,
    relation: WhichRelation,
    epsilon: Epsilons,
    by: AccountantOptions = USUAL_ACCOUNTANT,
    json: Json = False,
) -> None:
    """Bracket the smallest delta for which the run is (epsilon, delta)-private."""
    _answer(CurveQuestion(question, RELATION_SPELLINGS[relation], by), "delta", epsilon, json=json)


Range = Annotated[
    list[float] | None,
    Points,
    Parameter(
        group=ANSWER,
        help=f"start:stop:count or a list; by default {POINTS} points from 0 to about where delta is {FAR_ENOUGH:g}.",
    ),
]
Runs = Annotated[
    Path | None,
    Parameter(
        group=QUESTION, help="Several runs from this TOML file, in place of the options that state one run."
    ),
]


def curve(
    question: RunOptions | None = None,
    *,
    relation: WhichRelation | None = None,
    runs: Runs = None,
    epsilons: Range = None,
    plot: Picture = None,
    by: AccountantOptions = USUAL_ACCOUNTANT,
    json: Json = False,
) -> None:
    """Bracket delta over a range of epsilons, for one run or for several from a file."""
    target = check_picture(plot)
    if runs is not None:
        _show_runs(runs, question, relation, epsilons, target, by, json=json)
        return
    if question is None or relation is None:
        raise InvalidSetting(missing("--sampling" if question is None else "--relation"))
    asked = CurveQuestion(question, RELATION_SPELLINGS[relation], by)
    _answer(asked, "delta", epsilons, target=target, json=json)


def check_picture(plot: Path | None) -> Path | None:
    """Refuse a picture that cannot be drawn before anything is computed."""
    if plot is None:
        return None
    from tightrope.report.plot import checked_target

    return checked_target(plot)


def _show_runs(
    runs: Path,
    question: RunOptions | None,
    relation: str | None,
    epsilons: list[float] | None,
    target: Path | None,
    by: AccountantOptions,
    *,
    json: bool,
) -> None:
    from tightrope.cli.runs import read_runs, show_runs

    if by.who is not CERTIFIED:
        raise InvalidSetting(
            f"--accountant {by.accountant} contradicts --runs, whose curves are certified: leave one out."
        )
    if question is not None or relation is not None:
        raise InvalidSetting(MIXED)
    show_runs(read_runs(runs), epsilons, target, effort=by.how_hard, json=json)


def _answer(
    asked: CurveQuestion,
    ask: Literal["epsilon", "delta"],
    at: Sequence[float] | None,
    *,
    target: Path | None = None,
    json: bool,
) -> None:
    """Print what was asked, the answers, and what they are worth; draw them where there is a target."""
    given = "delta" if ask == "epsilon" else "epsilon"
    # everything is asked before anything is printed: a refusal comes alone, and no bar stands between the lines
    with watch_rounds("Game, round" if asked.is_certified else "Drawing, part") as progress:
        found = asked.curve(progress)
        at = at or asked.usual_range(found)
        answers: list[Answer] = list(getattr(found, ask)(list(at)))
        known = ask == "delta" and isinstance(found, PrivacyCurve | RenyiCurve)
        logs: list[Any] = list(found.log_delta(list(at))) if known else [None] * len(at)
        if target is not None:
            asked.draw(found, at, target)
    rows = list(zip(at, answers, logs, strict=True))
    if json:
        _print_object(asked, found, [_row_object(ask, given, *row) for row in rows])
    else:
        page = Page()
        page.facts(asked.facts(found, answers))
        headings = (heading.format(ask) for heading in _HEADINGS[asked.by.accountant])
        page.table([[given, *headings], *([f"{x:.12g}", *answer_cells(y, log)] for x, y, log in rows)])
        _show_why(page, asked, found)
    if target is not None:
        say(f"drew {target}")
    refuse_to_hide_an_interrupt(answers)


def _row_object(ask: str, given: str, at: float, answer: Answer, logs: Any) -> Object:
    row: Object = {given: at, ask: answer_object(answer)}
    return row if logs is None else {**row, f"log_{ask}": answer_object(logs)}


def _print_object(asked: CurveQuestion, curve: Curve, rows: list[Object]) -> None:
    question = question_object(asked.stated, asked.relation, asked.effort)
    if isinstance(curve, PrivacyCurve):
        print_json({"question": question, "brackets": rows, **why_object(curve)})
    else:
        theorems = [theorem_object(evidence) for evidence in _theorems(curve)]
        about = asked.accountant_object()
        print_json({"question": question, "accountant": about, "answers": rows, "theorems": theorems})


def _show_why(page: Page, asked: CurveQuestion, curve: Curve) -> None:
    if isinstance(curve, PrivacyCurve):
        show_evidence(page, curve)
    else:
        page.heading(_BECAUSE[asked.by.accountant])
        show_theorems(page, _theorems(curve))


def _theorems(curve: Curve) -> list[Evidence]:
    return [evidence for evidence in curve.because if isinstance(evidence, Evidence)]
