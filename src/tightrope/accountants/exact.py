"""Brackets in exact integers and balls: the same theorems, and no arithmetic shared with the other route."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.accountants.accountant import Accountant, check_progress
from tightrope.accountants.gaps import leaves_a_gap
from tightrope.curve.bracket import Bracket
from tightrope.curve.branches import Branch, collect_evidence
from tightrope.engines.face import Progress, Side
from tightrope.engines.resolve import resolve
from tightrope.errors import InvalidSetting, NotPreciseEnough
from tightrope.numerics import check
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.lookup import analyse
from tightrope.theorems.table import refuse_counts

if TYPE_CHECKING:  # which loads flint: only a curve needs it
    from tightrope.curve.exact_curve import ExactCurve

LEAST_WIDTH, FEWEST_CELLS, MOST_CELLS, FEWEST_BITS, MOST_BITS = 1e-12, 16, 1 << 24, 16, 1 << 16
MOST_STEPS = 10**6


@dataclass(frozen=True, kw_only=True)
class Exact(Accountant["ExactCurve", Bracket]):
    """Brackets in exact integers and balls: slower than `Certified`, and shares no arithmetic with it.

    `width` is how far apart in epsilon the ends may be. `cells` is how many losses a window of the lattice
    holds, and `bits` how finely masses are told; both are chosen to reach the width unless they are given.

    >>> import tightrope as tr
    >>> coin = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5))
    >>> print(tr.delta(coin * 2, epsilon=0.0, relation=tr.ADD_OR_REMOVE, by=Exact()))
    [0.31249..., 0.31250...]
    """

    name: ClassVar[str] = "exact"
    promise: ClassVar[str] = "a certified bracket, in exact integers"

    width: float = 1e-3
    cells: int | None = None
    bits: int | None = None

    def __post_init__(self) -> None:
        remedy = "It is how far apart in epsilon the ends may be; 1e-3 is the default."
        width = check.positive(remedy=remedy, width=self.width)
        if not LEAST_WIDTH <= width <= 1:
            raise InvalidSetting("width", self.width, f"be between {LEAST_WIDTH:g} and 1", remedy)
        object.__setattr__(self, "width", width)
        for name, least, most in (("cells", FEWEST_CELLS, MOST_CELLS), ("bits", FEWEST_BITS, MOST_BITS)):
            value = getattr(self, name)
            if value is not None:
                remedy = "Leave it out, and it is chosen for the width."
                if check.whole(least=least, remedy=remedy, **{name: value}) > most:
                    raise InvalidSetting(name, value, f"be at most {most}", remedy)

    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> "ExactCurve":
        """Covers from above, witnesses from below; `progress(done, products)` is called after each product.

        A question takes several rounds, one per schedule and side, and each counts from 1.
        """
        from tightrope.curve.exact_curve import ExactCurve  # loads flint
        from tightrope.engines.integers.engine import ExactComposition
        from tightrope.engines.integers.planning import Settings

        check_progress(progress)
        if run.steps > MOST_STEPS:
            what = f"{{steps={run.steps}}} are more than the {MOST_STEPS:,} that {{Exact}} composes"
            raise NotPreciseEnough(what, "Ask {Certified}, whose cost hardly depends on the steps.")
        analyses = analyse(run, relation, QUICK)
        refuse_counts(analyses, "Brackets in exact integers")
        compositions: dict[Schedule, ExactComposition] = {}

        def compose(schedule: Schedule | Game, side: Side) -> ExactComposition:
            if isinstance(schedule, Game):
                what = "a game chooses each step from what was seen, so its losses have no finite lattice"
                raise NotPreciseEnough(what, "Ask {Certified} with {effort=TIGHT}.")
            resolved = resolve(schedule, side)
            return compositions.setdefault(resolved, ExactComposition(resolved))

        def reverse() -> ExactCurve:
            opposite = relation.opposite
            return curve if opposite is relation else self.curve(run, opposite, progress)

        curve = ExactCurve(
            question=f"{run!r} under {relation.name}",
            because=collect_evidence(analyses),
            branches=tuple(Branch.of(analysis, compose) for analysis in analyses),
            width=self.width,
            settings=Settings(self.cells, self.bits),
            has_theory_gap=leaves_a_gap(analyses),
            reverse=reverse,
            progress=progress,
        )
        return curve
