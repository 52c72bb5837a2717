"""The same noise, rate and steps under every sampling and relation: what a mismatch would cost."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import get_args

import numpy as np

from tightrope.accountants.accountant import Progress
from tightrope.accountants.certified import Certified, find_games
from tightrope.answers.spend import BY_DEFAULT
from tightrope.answers.verdict import Claim, verdict_on
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.numerics import check
from tightrope.numerics.columns import align
from tightrope.setting.effort import QUICK, Effort
from tightrope.setting.relation import ADD_OR_REMOVE, RELATIONS, Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

_ONE_NUMBER = 5e-3  # relative width up to which a ratio is written as one number


@dataclass(frozen=True)
class ContrastRow:
    """One sampling x relation: an epsilon per delta, or why there is none.

    `ratios` are those epsilons divided by the claimed ones, [0, inf] where nothing is known: 0 / 0 or infinity / infinity.
    There are none where this row or the claimed one was refused, or nothing was claimed. `effort` is there where it
    matters: with another one the brackets would be others.
    """

    sampling: type[Sampling]
    relation: Relation
    run: Run
    epsilons: tuple[Bracket, ...]
    refusal: NoTheorem | NotPreciseEnough | None = None
    why_not: str = ""
    curve: PrivacyCurve | None = field(default=None, repr=False, compare=False)
    ratios: tuple[Bracket, ...] = ()
    effort: Effort | None = None


@dataclass(frozen=True)
class Contrast:
    """Rows of `contrast`; prints as a table of certified upper ends, their ratios to the claimed ones, and the verdict."""

    run: Run
    deltas: tuple[float, ...]
    rows: tuple[ContrastRow, ...]
    claimed: Claim | None

    def row(self, sampling: type[Sampling], relation: Relation) -> ContrastRow:
        """The row of one sampling x relation."""
        return next(row for row in self.rows if row.sampling is sampling and row.relation is relation)

    @property
    def verdict(self) -> str:
        """The mismatch to know about, at the first delta, in one sentence.

        >>> import tightrope as tr
        >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
        >>> tr.contrast(run, delta=1e-6).verdict
        'If batches are drawn without replacement, epsilon is 15.25, not 0.95.'
        """
        if self.claimed is None:
            return "Nothing was claimed: the steps do not share one sampling. Pass for example claimed=(Poisson, ADD_OR_REMOVE)."
        known = {(row.sampling, row.relation): row.epsilons[0] for row in self.rows if row.refusal is None}
        said = verdict_on(self.claimed, known)
        return said if len(self.deltas) == 1 else f"{said.removesuffix('.')} (delta {self.deltas[0]:g})."

    def __str__(self) -> str:
        heading = ["sampling", "relation", *(f"delta {d:g}" for d in self.deltas)]
        body = [[row.sampling.__name__, row.relation.name, *self._cells(row)] for row in self.rows]
        note = (
            "Certified upper ends of epsilon, rounded up (times the claimed one, to three digits); "
            "the rows' epsilons and ratios have both ends, their refusal the reason where there is none."
        )
        return "\n".join([align([heading, *body]), note, *self._notes(), self.verdict])

    def _notes(self) -> list[str]:
        """What is open where the theory leaves a gap."""
        return [
            f"{row.sampling.__name__} under {row.relation.name} is {row.effort.meaning}"
            f"{'; effort=TIGHT narrows the bracket' if row.effort is QUICK else ''}."
            for row in self.rows
            if row.effort is not None and row.refusal is None
        ]

    def _cells(self, row: ContrastRow) -> list[str]:
        if row.refusal is not None:
            return [row.why_not] * len(self.deltas)
        return [
            _show(epsilon) + beside
            for epsilon, beside in zip(row.epsilons, self.ratios_in_words(row), strict=True)
        ]

    def ratios_in_words(self, row: ContrastRow) -> list[str]:
        """What to write beside each epsilon of a row: " (16.1x)", " (claimed)", or nothing where no ratio is known.

        Where little is known both ends are said: " (16.1x to 17.2x)".
        """
        if (row.sampling, row.relation) == self.claimed:
            return [" (claimed)"] * len(row.epsilons)
        return [_times(ratio) for ratio in row.ratios] or [""] * len(row.epsilons)


def _times(ratio: Bracket) -> str:
    if not math.isfinite(ratio.upper):
        return " (infinitely larger)" if math.isinf(ratio.lower) else ""
    lower, upper = (f"{float(f'{end:.3g}'):,.12g}x" for end in (ratio.lower, ratio.upper))
    return (
        f" ({lower} to {upper})" if ratio.relative_width > _ONE_NUMBER and lower != upper else f" ({upper})"
    )


def _show(bracket: Bracket) -> str:
    """The upper end to four decimals, rounded up."""
    return f"{math.ceil(bracket.upper * 1e4) / 1e4:.4f}" if math.isfinite(bracket.upper) else "infinite"


def contrast(
    run: Run | Step,
    *,
    delta: float | Sequence[float],
    claimed: Claim | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Contrast:
    """epsilon at each delta for the same mechanisms, rates and numbers of steps under every sampling x relation.

    `claimed` is the kind of sampling and the relation to compare with, for example (Poisson, ADD_OR_REMOVE); by default
    the run's own sampling, if its steps share one, under ADD_OR_REMOVE. The effort of `by` matters for one row,
    WithoutReplacement under SUBSTITUTE, which takes seconds to minutes if it is TIGHT.
    """
    run = as_run(run)
    claim = _own_claim(run) if claimed is None else _check_claim(claimed)
    deltas = tuple(
        check.open_probability(delta=d) for d in np.atleast_1d(np.asarray(delta, dtype=object)).tolist()
    )
    if not deltas:
        raise InvalidSetting("delta", delta, "hold at least one value", "Pass for example {delta=1e-6}.")
    if not isinstance(by, Certified):
        raise InvalidSetting("by", by, "be {Certified}", "`compare` puts one run to every accountant.")
    rows = [
        _row(_resample_run(run, sampling), sampling, relation, deltas, by, progress)
        for sampling in get_args(Sampling)
        for relation in RELATIONS.values()
    ]
    compared_with = next((row.epsilons for row in rows if (row.sampling, row.relation) == claim), ())
    return Contrast(run, deltas, tuple(_add_ratios(row, compared_with) for row in rows), claim)


def _row(
    run: Run,
    sampling: type[Sampling],
    relation: Relation,
    deltas: tuple[float, ...],
    by: Certified,
    progress: Progress | None,
) -> ContrastRow:
    try:
        curve = by.curve(run, relation, progress)
        effort = by.effort if find_games(run, relation) else None
        found = tuple(curve.epsilon(delta) for delta in deltas)
        return ContrastRow(sampling, relation, run, found, curve=curve, effort=effort)
    except NoTheorem as refusal:
        return ContrastRow(sampling, relation, run, (), refusal, "no theorem")
    except NotPreciseEnough as refusal:
        return ContrastRow(sampling, relation, run, (), refusal, "not certified")


def _resample_run(run: Run, sampling: type[Sampling]) -> Run:
    return Run(
        tuple((Step(step.mechanism, _resample(step.sampling, sampling)), times) for step, times in run)
    )


def _own_claim(run: Run) -> Claim | None:
    kinds = {type(step.sampling) for step, _ in run}
    return (kinds.pop(), ADD_OR_REMOVE) if len(kinds) == 1 else None


def _check_claim(claimed: object) -> Claim:
    if isinstance(claimed, tuple) and len(claimed) == 2:
        sampling, relation = claimed
        if any(sampling is kind for kind in get_args(Sampling)):
            with suppress(InvalidSetting):  # the refusal below shows the whole claim
                return sampling, as_relation(relation)
    remedy = "Write for example claimed=(Poisson, ADD_OR_REMOVE)."
    raise InvalidSetting("claimed", claimed, "be a kind of sampling and a relation", remedy)


def _add_ratios(row: ContrastRow, claimed: tuple[Bracket, ...]) -> ContrastRow:
    if not (row.epsilons and claimed):
        return row
    same = row.epsilons is claimed  # a number is exactly once itself, however little is known about it
    pairs = zip(row.epsilons, claimed, strict=True)
    return replace(
        row, ratios=tuple(Bracket(1.0, 1.0) if same else _ratio(epsilon, claim) for epsilon, claim in pairs)
    )


def _ratio(epsilon: Bracket, claim: Bracket) -> Bracket:
    """All ratios of a number in one bracket and one in the other; 0 / 0 and infinity / infinity can be anything."""
    return Bracket(
        _quotient(epsilon.lower, claim.upper, 0.0), _quotient(epsilon.upper, claim.lower, math.inf)
    )


def _quotient(above: float, below: float, outwards: float) -> float:
    if (above == 0 and below == 0) or (math.isinf(above) and math.isinf(below)):
        return outwards
    if above == 0 or math.isinf(below):
        return 0.0
    if below == 0 or math.isinf(above):
        return math.inf
    return math.nextafter(above / below, outwards)  # one unit in the last place for the division


def _resample(sampling: Sampling, kind: type[Sampling]) -> Sampling:
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
