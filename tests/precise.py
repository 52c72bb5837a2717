"""Reference formulas in multi-precision, independent of the package: 40 digits, set here once."""

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from mpmath import mp, mpc, mpf  # type: ignore[import-untyped] # mpmath has no stubs

mp.dps = 40

__all__ = ["gaussian_delta", "laplace_step_delta", "mp", "mpc", "mpf", "normal_step_delta", "two_step_delta"]


def enough_digits(formula: Callable[..., mpf]) -> Callable[..., mpf]:
    """Evaluate with as many digits more as subtracting numbers e^epsilon apart can cost."""

    @wraps(formula)
    def evaluated(*arguments: Any) -> mpf:
        with mp.workdps(60 + int(abs(arguments[-1]))):
            return formula(*arguments)

    return evaluated


def gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    """delta of the mu-Gaussian mechanism (Balle, Wang 2018)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@enough_digits
def normal_step_delta(direction: str, rate: mpf, shift: mpf, epsilon: mpf) -> mpf:
    """One sampled Gaussian step, noise of scale 1, a sum moved by `shift`, at any real epsilon."""
    order = mp.exp(epsilon)
    if direction == "REMOVE":
        if order <= 1 - rate:
            return 1 - order
        t = mp.log((order - 1 + rate) / rate) / shift + shift / 2
        return (1 - rate - order) * mp.ncdf(-t) + rate * mp.ncdf(shift - t)
    if order * (1 - rate) >= 1:
        return mpf(0)
    t = mp.log((1 / order - 1 + rate) / rate) / shift + shift / 2
    return (1 - order * (1 - rate)) * mp.ncdf(t) - order * rate * mp.ncdf(t - shift)


@enough_digits
def laplace_step_delta(direction: str, rate: mpf, shift: mpf, epsilon: mpf) -> mpf:
    """One sampled Laplace step, noise of scale 1: P(X > x) - e^epsilon Q(X > x) where the loss is epsilon."""
    order = mp.exp(epsilon)

    def mixed_upper(x: mpf) -> mpf:
        return (1 - rate) * _laplace_upper(x) + rate * _laplace_upper(x - shift)

    def plain_upper(x: mpf) -> mpf:
        return _laplace_upper(x)

    # the density ratio mixed / plain is 1 - rate + rate e^{2x - shift} on [0, shift] and constant outside
    wanted = order if direction == "REMOVE" else 1 / order
    if wanted <= 1 - rate + rate * mp.exp(-shift):
        return 1 - order if direction == "REMOVE" else mpf(0)
    if wanted >= 1 - rate + rate * mp.exp(shift):
        return mpf(0) if direction == "REMOVE" else 1 - order
    x = (mp.log((wanted - 1 + rate) / rate) + shift) / 2
    if direction == "REMOVE":
        return mixed_upper(x) - order * plain_upper(x)
    return (1 - plain_upper(x)) - order * (1 - mixed_upper(x))


def _laplace_upper(x: mpf) -> mpf:
    return mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2


@cache  # in many digits it takes long, and several engines are judged by it
def two_step_delta(noise: str, direction: str, rate: mpf, shift: mpf, epsilon: mpf) -> mpf:
    """Two sampled steps, to 12 digits: the integral over x of density_P(x) delta_1(epsilon - loss(x))."""
    one_step = {"normal": normal_step_delta, "laplace": laplace_step_delta}[noise]

    def log_ratio(x: mpf) -> mpf:
        return shift * x - shift**2 / 2 if noise == "normal" else abs(x) - abs(x - shift)

    def density(x: mpf) -> mpf:
        return mp.npdf(x) if noise == "normal" else mp.exp(-abs(x)) / 2

    def integrand(x: mpf) -> mpf:
        mixed = 1 - rate + rate * mp.exp(log_ratio(x))
        loss, weight = (mp.log(mixed), mixed) if direction == "REMOVE" else (-mp.log(mixed), mpf(1))
        return weight * density(x) * one_step(direction, rate, shift, epsilon - loss)

    reach = 16 if noise == "normal" else 48
    cuts = {mpf(0), shift, *(mpf(x) for x in range(-reach, math.ceil(shift) + reach + 1, 2))}
    with mp.workdps(20):
        return mp.quad(integrand, sorted(cuts | _kinks(noise, direction, rate, shift, epsilon)))


def _kinks(noise: str, direction: str, rate: mpf, shift: mpf, epsilon: mpf) -> set[mpf]:
    """First outputs after which the second step's curve begins or ends."""
    least, most = (
        (1 - rate, None)
        if noise == "normal"
        else (1 - rate + rate * mp.exp(-shift), 1 - rate + rate * mp.exp(shift))
    )
    found = set()
    for ratio in (least, most):
        if ratio is not None and ratio > 0:
            wanted = mp.exp(epsilon) / ratio if direction == "REMOVE" else mp.exp(-epsilon) / ratio
            inner = (wanted - 1 + rate) / rate
            if inner > 0:
                x = mp.log(inner) / shift + shift / 2 if noise == "normal" else (mp.log(inner) + shift) / 2
                if noise == "normal" or 0 < x < shift:
                    found.add(x)
    return found
