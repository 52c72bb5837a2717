"""Where to mark a logarithmic axis that may run far below the smallest float."""

import math

SHORT = 2.5  # decades


def power_ticks(bottom: float, top: float) -> tuple[list[float], list[str]]:
    """Positions (log10) and labels between two log10 ends: whole powers, or 1, 2, 5 times them on a short axis.

    >>> power_ticks(-10.2, 0)
    ([-10.0, -8.0, -6.0, -4.0, -2.0, 0.0], ['$10^{-10}$', '$10^{-8}$', '$10^{-6}$', '$10^{-4}$', '$10^{-2}$', '$10^{0}$'])
    >>> power_ticks(-1.1, -0.2)[1]
    ['0.1', '0.2', '0.5']
    """
    if top - bottom <= SHORT:
        powers = range(math.floor(bottom), math.ceil(top) + 1)
        found = [(power + math.log10(digit), digit, power) for power in powers for digit in (1, 2, 5)]
        kept = [(at, digit, power) for at, digit, power in found if bottom <= at <= top]
        return [at for at, _, _ in kept], [_multiple(digit, power) for _, digit, power in kept]
    apart = next(n for n in _steps() if (top - bottom) / n <= 9)
    powers = range(apart * math.ceil(bottom / apart), math.floor(top) + 1, apart)
    return [float(power) for power in powers], [f"$10^{{{power}}}$" for power in powers]


def _steps() -> list[int]:
    return [digit * 10**power for power in range(19) for digit in (1, 2, 5)]


def _multiple(digit: int, power: int) -> str:
    if -3 <= power <= 0:
        return f"{digit * 10.0**power:g}"
    return rf"$10^{{{power}}}$" if digit == 1 else rf"${digit} \cdot 10^{{{power}}}$"
