"""The same run, put to every accountant: how far apart the answers are, and what each is worth."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.renyi import Renyi
from tightrope.answers.spend import privacy_curve
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import Approximation, GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough, StopWork
from tightrope.numerics import html
from tightrope.numerics.text import Flat, align, write_number
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.composition import ANY_NOISE_EXCHANGED, GAUSSIAN_EXCHANGED

if TYPE_CHECKING:  # which loads flint, and few questions need it
    from tightrope.curve.exact_curve import ExactCurve

AnyAccountant = Accountant[Any, Any]
AnyCurve: TypeAlias = "PrivacyCurve | RenyiCurve | GaussianLimitCurve | SimulatedCurve | ExactCurve"
Answer = Bracket | UpperBound | Approximation | Estimate

SECONDS_WORTH = 10**8  # losses, drawn in two or three seconds on one core
BRIEFLY_EXACT = Exact(width=0.01)  # takes seconds
FEWEST_DRAWS, USUAL_DRAWS = 1_000, 100_000


@dataclass(frozen=True)
class ComparisonRow:
    """What one accountant says: an epsilon at each delta, or why it says nothing.

    `theorem` tells several Rényi bounds apart.
    """

    by: AnyAccountant
    theorem: str
    epsilons: tuple[Answer, ...]
    refusal: NotPreciseEnough | NoTheorem | None = None

    @property
    def name(self) -> str:
        """The accountant, with the theorem where there are several."""
        return f"{self.by.name} ({self.theorem})" if self.theorem else self.by.name


@dataclass(frozen=True)
class Comparison:
    """Epsilon at each delta by every accountant, the certified one first. Prints as a table.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord())
    >>> table = tr.compare(step, relation=tr.REMOVE, delta=1e-6, by=[tr.Certified(), tr.Renyi()])
    >>> [row.name for row in table.rows]
    ['certified', 'renyi']
    """

    question: str
    deltas: tuple[float, ...]
    rows: tuple[ComparisonRow, ...]
    curves: dict[AnyAccountant, AnyCurve] = field(repr=False)

    def locate(self, row: ComparisonRow, place: int) -> str:
        """Where an answer lies relative to the certified bracket, in words; empty if there is no other."""
        certified = next((r for r in self.rows if isinstance(r.by, Certified) and r.epsilons), None)
        if certified is None or isinstance(row.by, Certified) or not row.epsilons:
            return ""
        bracket = certified.epsilons[place]
        assert isinstance(bracket, Bracket)
        return _locate(bracket, row.epsilons[place])

    def to_dicts(self) -> list[Flat]:
        """One flat row for each accountant and delta; what an accountant does not say is missing from it.

        >>> import tightrope as tr
        >>> step = tr.Step(tr.Gaussian(noise_multiplier=1), tr.EveryRecord())
        >>> found = tr.compare(step, relation="remove", delta=1e-6, by=[tr.Certified(), tr.Renyi()])
        >>> [(row["accountant"], "lower" in row) for row in found.to_dicts()]
        [('certified', True), ('renyi', False)]
        """
        rows: list[Flat] = []
        for row in self.rows:
            who = {"accountant": row.by.name, "theorem": row.theorem, "promise": row.by.promise}
            refusal = "" if row.refusal is None else str(row.refusal)
            for place, delta in enumerate(self.deltas):
                answer = row.epsilons[place].to_dict() if row.epsilons else {}
                rows.append({**who, "delta": delta, **answer, "refusal": refusal})
        return rows

    def __str__(self) -> str:
        return align(self._table())

    def _repr_html_(self) -> str:
        refusals = [f"{row.name}: {row.refusal}" for row in self.rows if row.refusal is not None]
        theorems = dict.fromkeys(theorem for curve in self.curves.values() for theorem in curve.because)
        why = html.fold("why", [*refusals, *(theorem.in_full for theorem in theorems)])
        question = html.write_text(self.question, strong=self.question)
        return html.join(question, html.write_table(self._table()), why)

    def _table(self) -> list[list[str]]:
        rows = [
            [
                "accountant",
                *(f"epsilon at delta {write_number(delta)}" for delta in self.deltas),
                "what it is",
            ]
        ]
        for row in self.rows:
            answers = [
                ", ".join(filter(None, (str(answer), self.locate(row, place))))
                for place, answer in enumerate(row.epsilons)
            ]
            rows.append([row.name, *(answers or ["refused"] * len(self.deltas)), row.by.promise])
        return rows


def compare(
    run: Run | Step,
    *,
    relation: Relation | str,
    delta: float | Sequence[float],
    by: Certified | Sequence[AnyAccountant] = BY_DEFAULT,
    progress: Progress | None = None,
) -> Comparison:
    """Epsilon at each delta by every accountant: brackets, upper bounds, approximations and estimates.

    `by` lists the accountants. If it is a certified accountant alone, the four others are asked too: Exact to
    a width of 0.01, Monte Carlo with as many draws as take seconds, or none if those would be too few to say
    anything. An accountant that refuses is a row with its reason.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 100
    >>> table = tr.compare(run, relation=tr.ADD_OR_REMOVE, delta=1e-6)
    >>> [row.name for row in table.rows]
    ['certified', 'exact', 'renyi', 'gaussian-limit', 'monte-carlo']
    """
    run, relation = as_run(run), as_relation(relation)
    deltas = tuple(np.atleast_1d(np.asarray(delta, dtype=object)).tolist())
    if not deltas:
        raise InvalidSetting("delta", delta, "hold at least one value", "Pass for example {delta=1e-6}.")
    rows: list[ComparisonRow] = []
    curves: dict[AnyAccountant, AnyCurve] = {}
    listed = isinstance(by, Sequence) and by and not isinstance(by, str)
    if not listed and not isinstance(by, Certified):
        must = "be {Certified}, or a list of accountants"
        raise InvalidSetting("by", by, must, "List for example {Certified} and {Renyi}.")
    asked = _list_accountants(run.steps * len(deltas), by) if isinstance(by, Certified) else by
    planned = asked is not by
    for accountant in asked:
        try:
            if planned:
                _refuse_few_draws(accountant)
            curves[accountant] = privacy_curve(run, relation=relation, by=accountant, progress=progress)
            rows.extend(_rows(accountant, curves[accountant], deltas))
        except NotPreciseEnough as refusal:
            rows.append(ComparisonRow(accountant, "", (), refusal))
        except NoTheorem as refusal:
            if not curves:  # then no accountant has an answer
                raise
            rows.append(ComparisonRow(accountant, "", (), refusal))
    return Comparison(f"{run!r} under {relation.name}", deltas, tuple(rows), curves)


def _list_accountants(losses: int, certified: Certified) -> tuple[AnyAccountant, ...]:
    """One of each, with as many draws as take seconds if each draw needs so many losses."""
    draws = max(min(SECONDS_WORTH // max(losses, 1), USUAL_DRAWS), 1)
    return certified, BRIEFLY_EXACT, Renyi(), GaussianLimit(), MonteCarlo(draws=draws)


def _refuse_few_draws(accountant: AnyAccountant) -> None:
    """Do not make draws that nobody asked for and that are too few to say anything."""
    if isinstance(accountant, MonteCarlo) and accountant.draws < FEWEST_DRAWS:
        raise NotPreciseEnough(
            f"so many steps leave time for {accountant.draws} draws, which say little",
            f"State how many: {{draws={FEWEST_DRAWS}}}.",
        )


def _rows(by: AnyAccountant, curve: AnyCurve, deltas: tuple[float, ...]) -> Iterator[ComparisonRow]:
    found = tuple(curve.epsilon(list(deltas)))
    if any(isinstance(each, Bracket) and each.interrupted and math.isinf(each.upper) for each in found):
        raise StopWork  # nothing is known that would be worth a row
    yield ComparisonRow(by, "", found)
    if isinstance(curve, RenyiCurve) and len(curve.branches[0].covers) > 1:  # each published theorem alone
        published = [curve.bounds(delta)[0] for delta in deltas]
        for each in range(1, len(published[0])):
            theorem = _theorem(published[0][each].because)
            yield ComparisonRow(by, theorem, tuple(bounds[each] for bounds in published))


def _theorem(because: tuple[object, ...]) -> str:
    return (GAUSSIAN_EXCHANGED if GAUSSIAN_EXCHANGED in because else ANY_NOISE_EXCHANGED).reference


def _locate(bracket: Bracket, answer: Answer) -> str:
    if isinstance(answer, UpperBound):
        return "" if not 0 < bracket.upper < math.inf else _percent(answer.upper / bracket.upper - 1)
    if isinstance(answer, Approximation):
        if bracket.lower <= answer.value <= bracket.upper:
            return "inside the bracket"
        too = "too small" if answer.value < bracket.lower else "too large"
        end = bracket.lower if answer.value < bracket.lower else bracket.upper
        return too if not 0 < end < math.inf else f"{_percent(answer.value / end - 1)}, {too}"
    if answer.lower <= bracket.lower and bracket.upper <= answer.upper:
        return "holds the bracket"
    overlaps = answer.lower <= bracket.upper and bracket.lower <= answer.upper
    return "overlaps the bracket" if overlaps else "misses the bracket"


def _percent(share: float) -> str:
    """With two decimals, rounded towards 0: so much is certain.

    >>> _percent(0.79866), _percent(-0.146888), _percent(math.inf)
    ('+79.86%', '-14.68%', '+inf%')
    """
    if math.isinf(share):
        return f"{share:+}%"
    long = Context(prec=400)  # 309 digits before the point
    return f"{Decimal(100 * share).quantize(Decimal('0.01'), ROUND_DOWN, long):+f}%"
