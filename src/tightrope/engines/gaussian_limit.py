"""The mu of the central limit theorem, an approximation: many small steps look like one Gaussian step."""

import math
from functools import singledispatch

from scipy import special

from tightrope.engines.face import ABOVE
from tightrope.engines.resolve import settle_two_batches
from tightrope.errors import NoTheorem
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.group_pass import SharedBatch
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import Envelope, ShiftPair
from tightrope.pairs.shuffled_epoch import ShuffledEpoch

LARGEST_MU = 1e6  # beyond, the limit says nothing that a float could hold


def limiting_mu(schedule: Schedule) -> float:
    """How far apart two unit normals are that the run resembles; infinite where the limit says nothing.

    Each step adds its share to mu^2: the squared separation of unsampled normals, and otherwise the
    chi-squared divergence of P from Q, which for Poisson sampling is g^2 (e^{1/s^2} - 1). An envelope of
    normals adds the share that Dong, Roth and Su give for batches of a fixed size: 2 g^2 (e^{d^2} Phi(3
    d/2) + 3 Phi(-d/2) - 2), d the distance.
    """
    total = sum(times * _share(pair) for pair, times in settle_two_batches(schedule, ABOVE))
    mu = math.sqrt(total) if math.isfinite(total) else math.inf
    return mu if mu <= LARGEST_MU else math.inf


def limiting_schedule(mu: float) -> Schedule:
    """One unsampled Gaussian step of that separation; none where the limit says nothing."""
    return Schedule([(ShiftPair.of_normals(mu), 1)] if math.isfinite(mu) else [])


@singledispatch
def _share(pair: Pair) -> float:
    if pair.gaussian_separation is not None:
        return pair.gaussian_separation**2
    if pair.infinite_mass:
        return math.inf
    from tightrope.engines.moments.step import log_moment_above  # it loads flint

    log_moment = log_moment_above(pair, 1.0)
    return math.expm1(log_moment) if log_moment < 700 else math.inf


@_share.register
def _allocation_share(pair: Allocation) -> float:
    """dP/dQ of a pass is a mean over the batches: its variance is that of one over their number.

    Where a record is exchanged, P and Q are such means of e^{dx - d^2/2} and e^{-dx - d^2/2} over the normal
    that both move from, whose difference has the variance 2 (e^{d^2} - e^{-d^2}).
    """
    if isinstance(pair.step, SharedBatch):
        raise NoTheorem(
            "groups of records in balls in bins have no limit that is worked out here",
            "Ask {Certified}, which bounds them from above and from below.",
        )
    distance = pair.step.gaussian_separation
    if distance is None:
        square = _share.dispatch(Pair)(pair.step)
    else:
        d2 = min(distance**2, 700.0)
        square = 4 * math.sinh(d2) if pair.is_exchanged else math.expm1(d2)
    return square * pair.released / pair.batches**2


@_share.register
def _shuffled_share(pair: ShuffledEpoch) -> float:
    """Nobody knows the worst law of an epoch, so that it has no variance."""
    raise NoTheorem(
        "shuffled batches with an exchanged record have no known limit",
        "Ask {Certified}, which bounds them from above and from below.",
    )


@_share.register
def _envelope_share(pair: Envelope) -> float:
    if not pair.has_normal_noise:
        return _share.dispatch(Pair)(pair)
    rate, d = pair.remove.observed.rate, pair.remove.observed.shift
    if d**2 > 700:
        return math.inf
    return 2 * rate**2 * (math.exp(d**2) * _below(1.5 * d) + 3 * _below(-0.5 * d) - 2)


def _below(x: float) -> float:
    return float(special.ndtr(x))
