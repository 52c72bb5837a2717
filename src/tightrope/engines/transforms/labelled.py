"""M(z) of a labelled pair: the weighted sum of its parts' transforms, and what can be wrong with it.

With w_i the weights, L_i the parts' ln M_i(c) and L = ln sum_i w_i e^{L_i}, part i has the share
a_i = w_i e^{L_i - L} of the moment, and

    M(c + z) / e^L  =  sum_i a_i M_i(c + z) / e^{L_i}  ~  1 + sum_i a_i sum_j v_ij (e^{z l_ij} - 1)

where v_ij and l_ij are the parts' own weights and losses: each part's errors count with its share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tightrope.engines.transforms.rooms import ROOM
from tightrope.engines.transforms.transform import (
    PlannedNodes,
    TiltedNodes,
    Transform,
)
from tightrope.numerics.floats import LOG_REL_ERROR, UNIT_ROUNDOFF
from tightrope.numerics.ulps import ELEMENTARY_REL_ERROR, SECOND_ORDER
from tightrope.pairs.labelled import LabelledPair

MOST_LOG_GAIN = 600.0  # of moments whose gains over 1 are added up in floats
ROUNDED_GAIN = 3 * ELEMENTARY_REL_ERROR + 4 * UNIT_ROUNDOFF  # two functions, their product, and the sum


@dataclass(frozen=True)
class Shares:
    """ln of the weighted sum of the parts' moments, each part's share in it, and how far both can be off."""

    log_moment: float
    log_moment_abs_error: float
    shares: tuple[float, ...]
    share_rel_errors: tuple[float, ...]

    @staticmethod
    def of(log_weights: tuple[float, ...], logs: list[float], abs_errors: list[float]) -> "Shares":
        """From ln of the weights, to LOG_REL_ERROR, and the parts' log-moments with their errors.

        Each ln w + L_i is rounded once, and so is its difference to the sum or to the largest.
        """
        terms = [log_w + log for log_w, log in zip(log_weights, logs, strict=True)]
        top = max(terms)
        powers = [math.exp(term - top) for term in terms]
        total = math.fsum(powers)
        shares = tuple(power / total for power in powers)
        own = [
            error
            + LOG_REL_ERROR * abs(log_w)
            + UNIT_ROUNDOFF * (abs(term) + abs(term - top) + 2)
            + ELEMENTARY_REL_ERROR
            for error, log_w, term in zip(abs_errors, log_weights, terms, strict=True)
        ]
        mean = sum(share * error for share, error in zip(shares, own, strict=True)) * SECOND_ORDER
        if max(logs) < MOST_LOG_GAIN:
            # the weights sum to 1 exactly, so only what the moments gain over 1 is rounded
            each = [math.exp(log_w) * math.expm1(log) for log_w, log in zip(log_weights, logs, strict=True)]
            log_moment = math.log1p(math.fsum(each))
            error = sum(
                share * moved
                + abs(gain) * math.exp(-log_moment) * (LOG_REL_ERROR * abs(log_w) + ROUNDED_GAIN)
                for share, moved, gain, log_w in zip(shares, abs_errors, each, log_weights, strict=True)
            )
            error += 2 * ELEMENTARY_REL_ERROR * abs(log_moment)
        else:
            log_moment = top + math.log(total)
            error = mean + ELEMENTARY_REL_ERROR * abs(math.log(total)) + UNIT_ROUNDOFF * abs(log_moment)
        errors = tuple((error_of_part + mean) * SECOND_ORDER for error_of_part in own)
        return Shares(log_moment, error * SECOND_ORDER, shares, errors)


class LabelledTransform(Transform):
    """M(z) for one labelled pair, from the transforms of its parts."""

    def __init__(self, pair: LabelledPair, parts: Sequence[Transform]) -> None:
        super().__init__()
        self.log_weights, self.parts = pair.log_weights, parts

    def _share_nodes(self, c: float) -> Shares:
        """Of the nodes that every bound on the modulus starts from."""
        nodes = [part.nodes(c) for part in self.parts]
        errors = [each.moment_rel_error for each in nodes]  # to stand for the moments themselves
        return Shares.of(self.log_weights, [each.log_moment for each in nodes], errors)

    def _make_nodes(self, c: float, height: float = 0.0, target: float = 1e-15) -> TiltedNodes:
        parts = [part.nodes(c, height, target) for part in self.parts]
        found = Shares.of(
            self.log_weights,
            [part.log_moment for part in parts],
            [part.log_moment_abs_error for part in parts],
        )

        def average(errors: list[float]) -> float:
            """The mean over the parts: a share may be off by less than SECOND_ORDER, relative."""
            return sum(a * error for a, error in zip(found.shares, errors, strict=True)) * SECOND_ORDER

        each = list(zip(found.shares, found.share_rel_errors, parts, strict=True))
        weight_errors = [
            (part.weight_rel_errors + error + UNIT_ROUNDOFF) * SECOND_ORDER for _, error, part in each
        ]
        return TiltedNodes(
            losses=np.concatenate([part.losses for part in parts]),
            weights=np.concatenate([share * part.weights for share, _, part in each]),
            log_moment=found.log_moment,
            quadrature_rel_error=average([part.quadrature_rel_error for part in parts]),
            tail_rel_error=average([part.tail_rel_error for part in parts]),
            weight_rel_errors=np.concatenate(weight_errors),
            loss_abs_error=average([part.loss_abs_error for part in parts]),
            log_moment_abs_error=found.log_moment_abs_error,
        )

    def quick_nodes(self, c: float, log_cap: float = -math.inf) -> PlannedNodes:
        """The parts' nodes; a label as rare as what may be left out is left out."""
        # the first label is kept whatever it weighs: there is something to plan with
        chosen = [
            (log_w, part.quick_nodes(c, min(log_cap - log_w, -1.0) if log_cap > -math.inf else log_cap))
            for place, (log_w, part) in enumerate(zip(self.log_weights, self.parts, strict=True))
            if place == 0 or log_w > log_cap
        ]
        found = Shares.of(
            tuple(log_w for log_w, _ in chosen),
            [nodes.log_moment for _, nodes in chosen],
            [0.0] * len(chosen),
        )
        losses = np.concatenate([nodes.losses for _, nodes in chosen])
        weights = np.concatenate(
            [share * nodes.weights for share, (_, nodes) in zip(found.shares, chosen, strict=True)]
        )
        order = np.argsort(losses)
        return PlannedNodes(losses[order], weights[order], found.log_moment)

    def _make_modulus_bound(self, c: float) -> Callable[[float], float]:
        """|M| is at most the weighted sum of the parts' moduli."""
        found = self._share_nodes(c)
        bounds = [part.modulus_bound(c) for part in self.parts]
        most = [
            share * (1 + error * SECOND_ORDER + ROOM)
            for share, error in zip(found.shares, found.share_rel_errors, strict=True)
        ]
        return lambda t: sum(share * bound(t) for share, bound in zip(most, bounds, strict=True))
