"""The same noise, rate and steps under every sampling and relation: what a mismatch would cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import numpy as np

from tightrope.answers.spend import DEFAULT_ACCURACY, privacy_curve
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.numerics import check
from tightrope.numerics.columns import aligned
from tightrope.setting.relation import RELATIONS, Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement
from tightrope.theorems.evidence import PROVED, Standing


@dataclass(frozen=True)
class Row:
    """One sampling x relation: an epsilon per delta, or why there is none."""

    sampling: type[Sampling]
    relation: Relation
    run: Run
    epsilons: tuple[Bracket, ...]
    refusal: str | None = None
    why_not: str = ""


@dataclass(frozen=True)
class Contrast:
    """Rows of `contrast`; prints as a table of certified upper ends."""

    run: Run
    deltas: tuple[float, ...]
    rows: tuple[Row, ...]

    def row(self, sampling: type[Sampling], relation: Relation) -> Row:
        """The row of one sampling x relation."""
        return next(row for row in self.rows if row.sampling is sampling and row.relation is relation)

    def __str__(self) -> str:
        heading = ["sampling", "relation", *(f"delta {d:g}" for d in self.deltas)]
        body = []
        for row in self.rows:
            cells = [_shown(b) for b in row.epsilons] if row.refusal is None else [row.why_not] * len(self.deltas)
            body.append([row.sampling.__name__, row.relation.name, *cells])
        note = (
            "Certified upper ends of epsilon, rounded up; Row.epsilons has both ends, Row.refusal the reason where there is none."
        )
        return aligned([heading, *body]) + "\n" + note


def _shown(bracket: Bracket) -> str:
    """The upper end to four decimals, rounded up."""
    return f"{math.ceil(bracket.upper * 1e4) / 1e4:.4f}" if math.isfinite(bracket.upper) else "infinite"


def contrast(
    run: Run | Step, *, delta: float | Sequence[float], accuracy: float = DEFAULT_ACCURACY, trusting: Standing = PROVED
) -> Contrast:
    """epsilon at each delta for the same mechanisms, rates and numbers of steps under every sampling x relation."""
    run = as_run(run)
    deltas = tuple(check.open_probability(delta=d) for d in np.atleast_1d(np.asarray(delta, dtype=object)).tolist())
    if not deltas:
        raise InvalidSetting("delta must hold at least one value, got none. Pass for example delta=1e-6.")
    rows = []
    for sampling in get_args(Sampling):
        for relation in RELATIONS.values():
            changed = Run(tuple((Step(step.mechanism, _resampled(step.sampling, sampling)), times) for step, times in run))
            try:
                curve = privacy_curve(changed, relation=relation, accuracy=accuracy, trusting=trusting)
                rows.append(Row(sampling, relation, changed, tuple(curve.epsilon(d) for d in deltas)))
            except NoTheorem as refusal:
                rows.append(Row(sampling, relation, changed, (), str(refusal), "no theorem"))
            except NotPreciseEnough as refusal:
                rows.append(Row(sampling, relation, changed, (), str(refusal), "not certified"))
    return Contrast(run, deltas, tuple(rows))


def _resampled(sampling: Sampling, kind: type[Sampling]) -> Sampling:
    """The same rate under another scheme."""
    if kind is EveryRecord:
        return EveryRecord()
    if isinstance(sampling, kind):
        return sampling
    if kind is Poisson:
        return Poisson(rate=sampling.rate)
    # the fraction the user meant: 0.001 is 1/1000, not the nearest binary fraction
    exact = Fraction(repr(sampling.rate))
    return WithoutReplacement(batch=exact.numerator, population=exact.denominator)
