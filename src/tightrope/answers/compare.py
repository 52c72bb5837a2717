"""The same run, put to every accountant: how far apart the answers are, and what each is worth."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tightrope.accountants.certified import DEFAULT_ACCURACY, Progress
from tightrope.accountants.names import CERTIFIED, MONTE_CARLO, Accountant, promise_of
from tightrope.answers.spend import Answer, Curve, privacy_curve
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import Approximation
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.curve.simulated_curve import Estimate
from tightrope.engines.draws.simulation import Simulation
from tightrope.errors import InvalidSetting, NotPreciseEnough
from tightrope.numerics.columns import aligned
from tightrope.setting.effort import QUICK, Effort
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.evidence import PROVED, Standing
from tightrope.theorems.moments import ANY_NOISE_EXCHANGED, GAUSSIAN_EXCHANGED

SECONDS_WORTH = 10**8  # losses, drawn in two or three seconds on one core
FEWEST_DRAWS, USUAL_DRAWS = 1_000, 100_000


@dataclass(frozen=True)
class Row:
    """What one accountant says: an epsilon at each delta, or why it says nothing. `by` tells several Rényi theorems apart."""

    accountant: Accountant
    by: str
    epsilons: tuple[Answer, ...]
    refusal: str | None = None

    @property
    def name(self) -> str:
        """The accountant, with the theorem where there are several."""
        return f"{self.accountant.value} ({self.by})" if self.by else self.accountant.value


@dataclass(frozen=True)
class Comparison:
    """Epsilon at each delta by every accountant, the certified one first. Prints as a table."""

    question: str
    deltas: tuple[float, ...]
    rows: tuple[Row, ...]
    curves: dict[Accountant, Curve] = field(repr=False)

    def beside_certified(self, row: Row, place: int) -> str:
        """Where an answer lies relative to the certified bracket, in words; empty where there is no bracket, or it is it."""
        certified = next((r for r in self.rows if r.accountant is CERTIFIED and r.epsilons), None)
        if certified is None or row.accountant is CERTIFIED or not row.epsilons:
            return ""
        bracket = certified.epsilons[place]
        assert isinstance(bracket, Bracket)
        return _beside(bracket, row.epsilons[place])

    def __str__(self) -> str:
        rows = [["accountant", *(f"epsilon at delta {delta:.12g}" for delta in self.deltas), "what it is"]]
        for row in self.rows:
            answers = [
                f"{row.epsilons[i]}{_after(self.beside_certified(row, i))}" for i in range(len(row.epsilons))
            ]
            rows.append([row.name, *(answers or ["refused"] * len(self.deltas)), promise_of(row.accountant)])
        return aligned(rows)


def compare(
    run: Run | Step,
    *,
    relation: Relation,
    delta: float | Sequence[float],
    accuracy: float = DEFAULT_ACCURACY,
    trusting: Standing = PROVED,
    effort: Effort = QUICK,
    simulation: Simulation | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Epsilon at each delta by every accountant: brackets, upper bounds, an approximation and estimates side by side.

    Without `simulation` as many sums of losses are drawn as take seconds, and none where that would be too few to say
    anything. An accountant that refuses is a row with its reason; the others answer all the same.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 100
    >>> table = tr.compare(run, relation=tr.ADD_OR_REMOVE, delta=1e-6, simulation=tr.Simulation(draws=20_000))
    >>> [row.name for row in table.rows]
    ['certified', 'renyi', 'gaussian-limit', 'monte-carlo']
    """
    run = as_run(run)
    deltas = tuple(delta) if isinstance(delta, Sequence) else (delta,)
    if not deltas:
        raise InvalidSetting("delta must hold at least one value, got none. Pass for example delta=1e-6.")
    rows: list[Row] = []
    curves: dict[Accountant, Curve] = {}
    for accountant in Accountant:
        try:
            simulated = (
                _simulation(run.steps * len(deltas), simulation) if accountant is MONTE_CARLO else None
            )
            curves[accountant] = privacy_curve(
                run,
                relation=relation,
                accountant=accountant,
                accuracy=accuracy,
                trusting=trusting,
                effort=effort,
                simulation=simulated,
                progress=progress,
            )
            rows.extend(_rows(accountant, curves[accountant], deltas))
        except NotPreciseEnough as refusal:  # where there is no theorem, no accountant has an answer
            rows.append(Row(accountant, "", (), str(refusal)))
    return Comparison(f"{run!r} under {relation.name}", deltas, tuple(rows), curves)


def _simulation(losses: int, stated: Simulation | None) -> Simulation:
    """What was stated, or as many draws as take seconds where each draw needs so many losses."""
    if stated is not None:
        return stated
    draws = min(SECONDS_WORTH // max(losses, 1), USUAL_DRAWS)
    if draws < FEWEST_DRAWS:
        raise NotPreciseEnough(
            f"so many steps leave time for {draws} draws, which say little. State how many, for example "
            f"simulation=Simulation(draws={FEWEST_DRAWS}, workers=None)."
        )
    return Simulation(draws=draws)


def _rows(accountant: Accountant, curve: Curve, deltas: tuple[float, ...]) -> Iterator[Row]:
    yield Row(accountant, "", tuple(curve.epsilon(list(deltas))))
    if (
        isinstance(curve, RenyiCurve) and len(curve.branches[0].covers) > 1
    ):  # the published theorems, one by one
        found = [curve.bounds(delta)[0] for delta in deltas]
        for each in range(1, len(found[0])):
            yield Row(accountant, _theorem(found[0][each].because), tuple(bounds[each] for bounds in found))


def _theorem(because: tuple[object, ...]) -> str:
    return (GAUSSIAN_EXCHANGED if GAUSSIAN_EXCHANGED in because else ANY_NOISE_EXCHANGED).reference


def _after(beside: str) -> str:
    return f", {beside}" if beside else ""


def _beside(bracket: Bracket, answer: Answer) -> str:
    if isinstance(answer, UpperBound):
        return "" if not 0 < bracket.upper < math.inf else f"{answer.upper / bracket.upper - 1:+.2%}"
    if isinstance(answer, Approximation):
        if bracket.lower <= answer.value <= bracket.upper:
            return "inside the bracket"
        too = "too small" if answer.value < bracket.lower else "too large"
        end = bracket.lower if answer.value < bracket.lower else bracket.upper
        return too if not 0 < end < math.inf else f"{answer.value / end - 1:+.2%}, {too}"
    assert isinstance(answer, Estimate)
    if answer.lower <= bracket.lower and bracket.upper <= answer.upper:
        return "holds the bracket"
    return (
        "overlaps the bracket"
        if answer.lower <= bracket.upper and bracket.lower <= answer.upper
        else "misses the bracket"
    )
