"""Which engine when: a table of those that compose steps, fastest first, and who tells a side of a run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tightrope.engines.composition import Composition
from tightrope.engines.contour.engine import ContourEngine
from tightrope.engines.face import ABOVE, ComposedCurve, Engine, EngineRow, Progress, Side
from tightrope.engines.near_ceiling import NearCeiling
from tightrope.engines.outcomes import MOST_OUTCOMES, ExactOutcomes
from tightrope.engines.passes.mesh import USUAL, Mesh
from tightrope.engines.places import PLACES_APART
from tightrope.engines.resolve import find_single_pass, resolve, settle_two_batches
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.exchange import Game
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

QUICK_EVALUATIONS = 20_000_000  # of a contour: some 20 ms
SHARE_BESIDE_PASSES = 1 / 8  # of the width: both sides of a pass take the rest, at little cost
FAR_APART, CLOSE_BY = PLACES_APART  # a contour's errors hardly grow within three powers of e, a lattice's do
MANY_STEPS = 500  # fewer hardly decay without their rarest losses


def _contour(most_evaluations: int, applies: Callable[[Schedule], bool]) -> EngineRow:
    """A contour costs little to ask closely; where rounding allows, closer still."""
    return EngineRow(
        make=partial(ContourEngine, most_evaluations=most_evaluations),
        applies=lambda schedule: not schedule.shares_no_output and applies(schedule),
        tolerances=lambda accuracy: (1e-6, accuracy / 1000, accuracy / 1e6),
        is_slow=most_evaluations > QUICK_EVALUATIONS,
        apart=FAR_APART if most_evaluations <= QUICK_EVALUATIONS else 0.0,
    )


def _full_batches(schedule: Schedule) -> Engine:
    from tightrope.engines.closed_forms import FullBatches  # and balls: most questions need neither

    return FullBatches(schedule)


def _one_step(schedule: Schedule) -> Engine:
    from tightrope.engines.closed_forms import OneStep  # loads flint

    return OneStep.of(schedule)


def _end_point(schedule: Schedule) -> Engine:
    from tightrope.engines.closed_forms import EndPoint  # loads flint

    return EndPoint(schedule)


def _capped_contour(schedule: Schedule) -> Engine:
    from tightrope.engines.contour.capped import CappedContourEngine  # few questions need it

    return CappedContourEngine(schedule)


def _jump_contour(schedule: Schedule) -> Engine:
    from tightrope.engines.contour.jumps import JumpContourEngine  # few questions need it

    return JumpContourEngine(schedule)


def _lattice(schedule: Schedule, longest: int) -> Engine:
    from tightrope.engines.lattice.engine import LatticeEngine  # and SciPy's FFT: most questions need neither

    return LatticeEngine(schedule, longest=longest)


def _jumps(schedule: Schedule, longest: int) -> Engine:
    from tightrope.engines.lattice.jumps import BigJumpEngine  # few questions need it

    return BigJumpEngine(schedule, longest=longest)


def _always(schedule: Schedule) -> bool:
    return True


def _are_countable(schedule: Schedule) -> bool:
    """Whether all outcomes can be counted one by one: no lattice comes closer than that."""
    return schedule.distinct_outcomes <= MOST_OUTCOMES


def _are_uncountable(schedule: Schedule) -> bool:
    return not _are_countable(schedule)


# The engines, fastest first; the slow ones again with more patience.
TABLE = (
    EngineRow(
        make=_full_batches,
        applies=lambda schedule: schedule.gaussian_separation is not None,
        has_the_last_word=True,
    ),
    EngineRow(make=_one_step, applies=lambda schedule: schedule.is_one_noisy_step, has_the_last_word=True),
    EngineRow(make=ExactOutcomes, applies=_are_countable),
    EngineRow(make=_end_point, applies=lambda schedule: schedule.is_bounded),
    EngineRow(make=NearCeiling, applies=lambda schedule: schedule.nears_its_ceiling),
    _contour(QUICK_EVALUATIONS, _always),
    EngineRow(
        make=_capped_contour,
        applies=lambda schedule: schedule.steps >= MANY_STEPS and schedule.has_ever_rarer_losses,
        tolerances=lambda accuracy: (accuracy / 100, accuracy),
    ),
    EngineRow(make=_jump_contour, applies=lambda schedule: schedule.has_ever_rarer_losses),
    EngineRow(
        make=partial(_lattice, longest=1 << 17),
        applies=_are_uncountable,
        rounding_is_final=True,
        apart=CLOSE_BY,
    ),
    EngineRow(make=partial(_jumps, longest=1 << 20), applies=_are_uncountable, is_slow=True),
    _contour(500_000_000, _are_uncountable),
    EngineRow(
        make=partial(_lattice, longest=1 << 22),
        applies=_are_uncountable,
        rounding_is_final=True,
        is_slow=True,
    ),
    EngineRow(make=partial(_jumps, longest=1 << 22), applies=_are_uncountable, is_slow=True),
)


def compose(schedule: Schedule, side: Side = ABOVE, mesh: Mesh = USUAL) -> Composition:
    """The curve of a schedule; where it holds passes, a curve on this side of it, as near as `mesh` says."""
    share = SHARE_BESIDE_PASSES if schedule.has_passes else 1.0
    return Composition(resolve(schedule, side, mesh), TABLE, share=share)


def compose_side(
    schedule: Schedule | Game, side: Side, accuracy: float, progress: Progress | None = None
) -> ComposedCurve:
    """What an upper or a lower end is told by; passes are cut as finely as `accuracy` needs.

    A schedule without passes has one curve for both sides.
    """
    mesh = Mesh.of(accuracy)
    if isinstance(schedule, Game):
        from tightrope.engines.game.substitution import PlayedGame  # only where there is a game to play

        played = replace(schedule, others=resolve(schedule.others, side, mesh))
        return PlayedGame(played, progress, (side,))
    schedule = settle_two_batches(schedule, side)
    if not schedule.has_passes:
        return Composition(schedule, TABLE)
    single = find_single_pass(schedule)
    if single is None:
        return _compose_several(schedule, side, mesh)
    if isinstance(single, ShuffledEpoch):
        from tightrope.engines.shuffles.epoch_curve import OneShuffledEpoch  # loads flint

        return OneShuffledEpoch(single)
    return _ask_pass(single, schedule, side, mesh)


def _ask_pass(single: Allocation, schedule: Schedule, side: Side, mesh: Mesh) -> ComposedCurve:
    """A pass that is all of the schedule: by integrals, the quicker ones first; finite pairs come last."""
    # only passes need these, and flint, which takes 70 ms to load
    from tightrope.engines.passes.exchanged_curve import OneExchangedPass
    from tightrope.engines.passes.line_pass import LinePass
    from tightrope.engines.passes.several_curve import SeveralPasses, passes_have_transforms
    from tightrope.engines.passes.turned_pass import TurnedPass

    if not single.is_exchanged:
        return LinePass(single, lambda: _compose_several(schedule, side, mesh))
    if not passes_have_transforms(schedule):
        return LinePass(single, lambda: OneExchangedPass(single, side, compose))
    moments = SeveralPasses(schedule, side, lambda: OneExchangedPass(single, side, compose))
    turned = TurnedPass(single, lambda: moments, lines_are_left=False)
    lines = LinePass(single, lambda: turned)
    return TurnedPass(single, lambda: lines, lines_are_left=True)


def _compose_several(schedule: Schedule, side: Side, mesh: Mesh) -> ComposedCurve:
    """By transforms where all passes have them; else, or where those decline, between finite pairs."""
    from tightrope.engines.passes.several_curve import SeveralPasses, passes_have_transforms  # loads flint

    if passes_have_transforms(schedule):
        return SeveralPasses(schedule, side, lambda: compose(schedule, side, mesh))
    return compose(schedule, side, mesh)
