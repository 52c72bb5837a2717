"""Bounds in which the shifted part's share of a mixture counts."""

import math

import numpy as np
from scipy import special

from tightrope.engines.face import EngineDeclines
from tightrope.engines.transforms.rooms import ROOM
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats
from tightrope.pairs.mixture import Mixture

MOST_SHARE_ERROR = 2.0**-26


def share_rel_error(exponent: float, *laws: Mixture) -> float:
    """How far the shifted part's share of a mixture can be off, relative, at log ratios up to `exponent`.

    The share is expit(x + ln rate - ln rest). x is off by 3 u of `exponent`: the shift's own rounding, a
    difference and a product. Each logarithm is off by 6 u of itself, both sums are rounded, and expit adds
    12 u (`EXPIT_REL_ERROR`): together 12 + 4 exponent + 8 logs units. At the ends of ellipses, which are sums
    themselves, x is off by up to 12 u of `exponent`; `log_bound_room` takes 64 times this. The logarithm of
    the mixture is off by less than this times 1 + |x| + logs (`Mixture.log_mixed_abs_error`).
    """
    logs = sum(abs(law.log_rate) + abs(law.log_rest) for law in laws if not law.is_pure)
    error = UNIT_ROUNDOFF * (128 + 8 * exponent + 8 * logs)
    if not error < MOST_SHARE_ERROR:
        raise EngineDeclines("the losses are too large for floats")
    return error


def bounded_gain(up: Floats, down: Floats, least: Floats, most: Floats) -> float:
    """A bound on the sum of mass (e^{up - down} - 1), rounded up, and 1 plus it still is.

    Each term gets ROOM on its own side, which covers the shares, what is made of them, and the sum; 4 u is
    for what is added to 1.
    """
    with np.errstate(over="ignore"):  # where a gain is infinite, the bound says nothing
        gain = np.expm1(up * (1 + ROOM) - down * (1 - ROOM))
    masses = np.where(gain < 0, (1 - ROOM) * least, (1 + ROOM) * most)
    return float((masses * gain).sum()) + 4 * UNIT_ROUNDOFF


def log_tail_above(law: Mixture, c: float, high: float) -> float:
    """ln of a bound on the integral of density R^{1+c} above `high`, normal noise, R the ratio of `law`.

    R is at most 2^c times its larger half's power, and at most e^{shift u} to the right of shift / 2, which
    is better where the shift is so small that tilts are huge (docs/certificates.md, lemma 3).
    """
    plain = float(special.log_ndtr(-high))
    if law.is_plain:
        return plain
    drift = (1 + c) * law.shift
    log_moved = float(special.log_ndtr(drift - high))
    far = (1 + c) * law.log_rate + c * (1 + c) * law.shift**2 / 2 + log_moved
    return min(c * math.log(2) + float(np.logaddexp(plain, far)), drift**2 / 2 + log_moved)
