"""The same noise, rate and steps under every sampling and relation: what a mismatch would cost."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified, effort_matters
from tightrope.answers.resample import AT_ANY_RATE, resample_run, tell_rounded_batches
from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import check_delta
from tightrope.curve.digits import ONE_NUMBER, ends, is_wide, round_up, write_brackets
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.numerics import html
from tightrope.numerics.text import Flat, align, write_number
from tightrope.setting.effort import QUICK, Effort
from tightrope.setting.relation import (
    ADD,
    ADD_OR_REMOVE,
    RELATIONS,
    REMOVE,
    SUBSTITUTE,
    Relation,
    as_relation,
)
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    InPasses,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Claim = tuple[type[Sampling], Relation]

SLOWEST = (BallsInBins, SUBSTITUTE)  # some ten seconds, where others take milliseconds
_SAMPLED: dict[type[Sampling], str] = {
    EveryRecord: "every record joins every batch",
    Poisson: "batches are Poisson sampled",
    WithoutReplacement: "batches are drawn without replacement",
    TruncatedPoisson: "batches are Poisson sampled and capped",
    BallsInBins: "each record takes one batch of each pass",
    RandomAllocation: "each record takes several batches of each pass",
    Shuffled: "batches are cut from a fresh shuffle of each epoch",
}
_NOTE = (
    "Certified upper ends of epsilon, rounded up (and how many times the claimed one); "
    "the rows' epsilons and ratios have both ends, their refusal the reason where there is none."
)
_RELATED = {
    ADD: ("one record is added", "up to {} records are added"),
    REMOVE: ("one record is removed", "up to {} records are removed"),
    ADD_OR_REMOVE: ("one record is added or removed", "up to {} records are added or removed"),
    SUBSTITUTE: ("one record is exchanged for another", "up to {} records are exchanged for others"),
}


@dataclass(frozen=True)
class ContrastRow:
    """One sampling x relation: an epsilon per delta, or why there is none.

    `ratios` are these epsilons divided by the claimed ones. A ratio of 0 to 0 or of infinity to infinity
    is [0, inf]. There are no ratios if this row or the claimed one was refused, or if nothing was claimed.
    `effort` is None where it does not matter.
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
    """The rows of `contrast`, the claimed sampling first. Prints the verdict, then upper ends and ratios.

    >>> import tightrope as tr
    >>> tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.3)), delta=1e-6).verdict
    'If batches are drawn without replacement, epsilon is 3.45, not 1.17.'
    """

    run: Run
    deltas: tuple[float, ...]
    rows: tuple[ContrastRow, ...]
    claimed: Claim | None

    def row(self, sampling: type[Sampling], relation: Relation | str) -> ContrastRow:
        """The row of one sampling x relation."""
        neighbours = as_relation(relation)
        for row in self.rows:
            if row.sampling is sampling and row.relation is neighbours:
                return row
        kinds = ", ".join(dict.fromkeys(f"{{{row.sampling.__name__}}}" for row in self.rows))
        raise InvalidSetting("sampling", sampling, f"be one of {kinds}", "Pass the class itself.")

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw epsilon at the first delta as bars, the claimed one dark; needs matplotlib.

        A bar is full up to the lower end and hatched up to the upper one. What is drawn on is `ax`, or
        new axes; they are returned.
        """
        from tightrope.answers.pictures import draw_bars, pick_rows  # only where something is drawn

        return draw_bars(self, pick_rows(self, self.rows), ax)

    def to_dicts(self) -> list[Flat]:
        """One flat row for each sampling, relation and delta; where there is no epsilon, why.

        >>> import tightrope as tr
        >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
        >>> rows = tr.contrast(run, delta=[1e-6, 1e-5]).to_dicts()
        >>> len(rows), rows[0]["sampling"], rows[0]["relation"]
        (30, 'poisson', 'add')
        """
        return [
            self._flatten(row, place, delta) for row in self.rows for place, delta in enumerate(self.deltas)
        ]

    def _flatten(self, row: ContrastRow, place: int, delta: float) -> Flat:
        epsilon = row.epsilons[place] if row.epsilons else None
        ratio = row.ratios[place] if row.ratios else None
        return {
            "sampling": row.sampling.spelling,
            "relation": str(row.relation),
            "delta": delta,
            "lower": None if epsilon is None else epsilon.lower,
            "upper": None if epsilon is None else epsilon.upper,
            "ratio_lower": None if ratio is None else ratio.lower,
            "ratio_upper": None if ratio is None else ratio.upper,
            "claimed": (row.sampling, row.relation) == self.claimed,
            "effort": "" if row.effort is None else str(row.effort),
            "refusal": "" if row.refusal is None else str(row.refusal),
        }

    @property
    def claimed_epsilons(self) -> tuple[Bracket, ...]:
        """What the claimed row says; nothing where none is claimed, or where it was refused."""
        return next((row.epsilons for row in self.rows if (row.sampling, row.relation) == self.claimed), ())

    @property
    def verdict(self) -> str:
        """The mismatch to know about, at the first delta, in one sentence.

        >>> import tightrope as tr
        >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
        >>> tr.contrast(run, delta=1e-6).verdict
        'If batches are drawn without replacement, epsilon is 15.26, not 0.95.'
        """
        if self.claimed is None:
            return (
                "Nothing was claimed: the steps do not share one sampling. "
                "Pass for example claimed=(Poisson, ADD_OR_REMOVE)."
            )
        known = {(row.sampling, row.relation): row.epsilons[0] for row in self.rows if row.refusal is None}
        said = judge_claim(self.claimed, known)
        return (
            said
            if len(self.deltas) == 1
            else f"{said.removesuffix('.')} (delta {write_number(self.deltas[0])})."
        )

    def __str__(self) -> str:
        return "\n".join([self.verdict, "", align(self._table()), _NOTE, *self._notes()])

    def _repr_html_(self) -> str:
        verdict = html.write_text(self.verdict, strong=self.verdict)
        refusals = dict.fromkeys(str(row.refusal) for row in self.rows if row.refusal is not None)
        why = html.fold("why", [_NOTE, *self._notes(), *refusals])
        return html.join(verdict, html.write_table(self._table()), why)

    def _table(self) -> list[list[str]]:
        heading = ["sampling", "relation", *(f"delta {write_number(d)}" for d in self.deltas)]
        body = [[row.sampling.__name__, row.relation.name, *self._cells(row)] for row in self.rows]
        return [heading, *body]

    @property
    def rounded(self) -> list[str]:
        """How many bins were taken, where no whole number of them has this rate.

        >>> import tightrope as tr
        >>> run = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.3))
        >>> tr.contrast(run, delta=1e-6).rounded
        ['In balls in bins each record takes one of 4 batches: 1 / 0.3, rounded up.']
        """
        return tell_rounded_batches(self.run)

    def _notes(self) -> list[str]:
        """How hard each row was worked for, where that matters, and what was rounded."""
        return self.rounded + [
            f"{row.sampling.__name__} under {row.relation.name} is {row.effort.meaning}"
            f"{'; effort=TIGHT narrows the bracket' if row.effort is QUICK else ''}."
            for row in self.rows
            if row.effort is not None and row.refusal is None
        ]

    def _cells(self, row: ContrastRow) -> list[str]:
        if row.refusal is not None:
            return [row.why_not] * len(self.deltas)
        return [
            f"{round_up(epsilon.upper, 4)}{beside}"
            for epsilon, beside in zip(row.epsilons, self.ratios_in_words(row), strict=True)
        ]

    def ratios_in_words(self, row: ContrastRow) -> list[str]:
        """What to write beside each epsilon: " (16.11x)", " (16.1x to 17.2x)", " (claimed)" or nothing."""
        if (row.sampling, row.relation) == self.claimed:
            return [" (claimed)"] * len(row.epsilons)
        return [_write_ratio(ratio) for ratio in row.ratios] or [""] * len(row.epsilons)


def _write_ratio(ratio: Bracket) -> str:
    if not math.isfinite(ratio.upper):
        return " (infinitely larger)" if math.isinf(ratio.lower) else ""
    if ratio.relative_width <= ONE_NUMBER:
        return f" ({_plain(ends(ratio, 4)[1])}x)"
    lower, upper = ends(ratio, 3)
    return f" ({_plain(lower)}x to {_plain(upper)}x)"


def _plain(rounded: str) -> str:
    """A number of few digits without an exponent, with commas."""
    return f"{float(rounded):,.12g}"


def contrast(
    run: Run | Step,
    *,
    delta: float | Sequence[float],
    claimed: Claim | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Contrast:
    """epsilon at each delta for the same mechanisms, rates and steps under every sampling x relation.

    Balls in bins under SUBSTITUTE take long: they have a row if the run uses them.
    Balls in bins have as many batches as one expects to fill at this rate, rounded up. Capped batches and
    random allocations say more than a rate, so they have rows where the run uses them.

    `claimed` is the kind of sampling and the relation to compare with, for example (Poisson, ADD_OR_REMOVE).
    Where that is about groups of records, such as ADD_OR_REMOVE.of(5), so is every row.
    The default is the run's own sampling under ADD_OR_REMOVE, if its steps share one. The effort of `by`
    matters under SUBSTITUTE only: WithoutReplacement and Shuffled take seconds to minutes if it is TIGHT.

    >>> import tightrope as tr
    >>> table = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.3)), delta=1e-6)
    >>> print(f"{table.row(tr.WithoutReplacement, tr.ADD_OR_REMOVE).epsilons[0]:.2f}")
    [3.44, 3.45]
    """
    run = as_run(run)
    claim = _own_claim(run) if claimed is None else _check_claim(claimed)
    asked = np.atleast_1d(np.asarray(delta, dtype=object)).tolist()
    deltas = tuple(check_delta(each) for each in asked)
    if not deltas:
        raise InvalidSetting("delta", delta, "hold at least one value", "Pass for example {delta=1e-6}.")
    check_certified(by)
    group = 1 if claim is None else claim[1].group
    kinds = dict.fromkeys([*AT_ANY_RATE, *_own_kinds(run)])
    if claim is not None and claim[0] not in kinds:
        known = ", ".join(f"{{{kind.__name__}}}" for kind in kinds)
        remedy = "What else it says does not follow from this run."
        raise InvalidSetting("claimed", claim[0], f"be one of {known}", remedy)
    rows = [
        _row(run, sampling, relation, deltas, by, progress)
        for sampling in sorted(kinds, key=lambda kind: _rank(kind, claim))
        for relation in (one.of(group) for one in RELATIONS.values())
        if (sampling, relation) != SLOWEST or BallsInBins in _own_kinds(run)
    ]
    table = Contrast(run, deltas, tuple(rows), claim)
    return replace(table, rows=tuple(compare_row(row, table.claimed_epsilons) for row in rows))


def _rank(sampling: type[Sampling], claim: Claim | None) -> int:
    """What is claimed comes first; EveryRecord, whose rate is another one, last."""
    if claim is not None and sampling is claim[0]:
        return 0
    return 2 if sampling is EveryRecord else 1


def _row(
    run: Run,
    sampling: type[Sampling],
    relation: Relation,
    deltas: tuple[float, ...],
    by: Certified,
    progress: Progress | None,
) -> ContrastRow:
    try:
        run = resample_run(run, sampling)
        curve = by.curve(run, relation, progress)
        effort = by.effort if effort_matters(run, relation) else None
        found = tuple(curve.epsilon(delta) for delta in deltas)
        return ContrastRow(sampling, relation, run, found, curve=curve, effort=effort)
    except NoTheorem as refusal:
        return ContrastRow(sampling, relation, run, (), refusal, "no theorem")
    except NotPreciseEnough as refusal:
        return ContrastRow(sampling, relation, run, (), refusal, "not certified")


def _own_kinds(run: Run) -> list[type[Sampling]]:
    return [type(step.sampling) for step, _ in run]


def _own_claim(run: Run) -> Claim | None:
    kinds = set(_own_kinds(run))
    return (kinds.pop(), ADD_OR_REMOVE) if len(kinds) == 1 else None


def _check_claim(claimed: object) -> Claim:
    if isinstance(claimed, tuple) and len(claimed) == 2:
        sampling, relation = claimed
        if any(sampling is kind for kind in get_args(Sampling)):
            with suppress(InvalidSetting):  # the refusal below shows the whole claim
                return sampling, as_relation(relation)
    remedy = "Write for example claimed=(Poisson, ADD_OR_REMOVE)."
    raise InvalidSetting("claimed", claimed, "be a kind of sampling and a relation", remedy)


def _relate(relation: Relation) -> str:
    one, many = _RELATED[relation.single]
    return one if relation.group == 1 else many.format(f"{relation.group:,}")


def compare_row(row: ContrastRow, claimed: tuple[Bracket, ...]) -> ContrastRow:
    """The row with its ratios to the claimed epsilons, where both have some."""
    if row.epsilons is claimed:  # a number is exactly once itself, however little is known about it
        return replace(row, ratios=tuple(Bracket(1.0, 1.0) for _ in claimed))
    if not (row.epsilons and claimed):
        return row
    return replace(row, ratios=tuple(map(_divide, row.epsilons, claimed)))


def _divide(epsilon: Bracket, claim: Bracket) -> Bracket:
    """All ratios of a number in one bracket to one in the other; 0 / 0 can be anything."""
    lower = _quotient(epsilon.lower, claim.upper, outwards=0.0)
    return Bracket(lower, _quotient(epsilon.upper, claim.lower, outwards=math.inf))


def _quotient(above: float, below: float, *, outwards: float) -> float:
    if above == below and (above == 0 or math.isinf(above)):
        return outwards
    if above == 0 or math.isinf(below):
        return 0.0
    if below == 0 or math.isinf(above):
        return math.inf
    return math.nextafter(above / below, outwards)  # one unit in the last place for the division


def judge_claim(claimed: Claim, answers: Mapping[Claim, Bracket]) -> str:
    """The mismatch between claim and practice that a reader must know about, in one sentence.

    `answers` are the epsilons known. Another sampling under the same relation comes first, then another
    relation, then both; among these the largest epsilon. EveryRecord is not offered as the true sampling,
    because its rate is another one.

    >>> answers = {(Poisson, ADD): Bracket(0.5, 0.5), (WithoutReplacement, ADD): Bracket(2.0, 2.0)}
    >>> judge_claim((Poisson, ADD), answers)
    'If batches are drawn without replacement, epsilon is 2.00, not 0.50.'
    >>> judge_claim((WithoutReplacement, ADD), answers)
    'At this rate no other sampling or relation is certified to make epsilon larger than the claimed 2.00.'
    """
    sampling, relation = claimed
    if claimed not in answers:
        case = f"{_SAMPLED[sampling]} and {_relate(relation)}"
        return f"The claim cannot be judged: no epsilon is certified if {case}."
    claim = answers[claimed]
    worse = [
        (other, epsilon)
        for other, epsilon in answers.items()
        if epsilon.lower > claim.upper and (other[0] is not EveryRecord or sampling is EveryRecord)
    ]
    if not worse:
        least = f"{'one, ' if is_wide(claim) else ''}{write_brackets([claim])[0]}"
        alike = "With batches of this size" if issubclass(sampling, InPasses) else "At this rate"
        told = "no other sampling or relation is certified to make epsilon larger than the claimed"
        return f"{alike} {told} {least}."
    (true_sampling, true_relation), epsilon = max(
        worse, key=lambda found: (found[0][1] is relation, found[0][0] is sampling, found[1].lower)
    )
    truth = [_SAMPLED[true_sampling]] if true_sampling is not sampling else []
    truth += [_relate(true_relation)] if true_relation is not relation else []
    larger, smaller = write_brackets([epsilon, claim])
    return f"If {' and '.join(truth)}, epsilon is {larger}, not {smaller}."
