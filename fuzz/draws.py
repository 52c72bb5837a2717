"""Random settings from every corner: as plain data, so that a question is one line of JSON."""

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

from fuzz.balls import exact, precision
from fuzz.references import Curve, FiniteRun, NormalRun, SampledStep
from fuzz.truth import NoReference, Truth, find_truth
from fuzz.two_steps import TwoSteps, lay_out

Plain = dict[str, Any]
LEAST_EPSILON, MOST_EPSILON = -50.0, 1e5
LEAST_DELTA, MOST_DELTA = 1e-300, 1 - 1e-15
RELATIONS = ("ADD", "REMOVE", "ADD_OR_REMOVE", "SUBSTITUTE")
NO_REFERENCE = 40  # settings drawn until one has a reference


def spread(rng: Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)


def draw_noise(rng: Random) -> float:
    """1e-3 to 1e4, half of them near those in use; now and then a round number."""
    noise = spread(rng, 1e-3, 1e4) if rng.random() < 0.5 else spread(rng, 0.2, 20)
    return float(f"{noise:.2g}") if rng.random() < 0.2 else noise


def draw_rate(rng: Random) -> float:
    """1e-12 to 1 - 1e-12, dense at both ends, and a few round ones."""
    ways: tuple[Callable[[], float], ...] = (
        lambda: spread(rng, 1e-12, 0.5),
        lambda: 1 - spread(rng, 1e-12, 0.5),
        rng.random,
        lambda: spread(rng, 1e-4, 0.1),
        lambda: rng.choice((0.5, 0.25, 0.1, 0.9, 0.99, 1e-12, 1 - 1e-12, 0.999, 1e-3)),
    )
    return rng.choice(ways)()


def draw_steps(rng: Random, most: float) -> int:
    """1 to `most`, few as often as many."""
    return rng.choice((1, 2, 3)) if rng.random() < 0.25 else max(int(spread(rng, 1, most)), 1)


def draw_epsilon(rng: Random) -> float:
    """-50 to 1e5, of every size and both signs, and places where formulas change."""
    way = rng.random()
    if way < 0.1:
        return rng.choice((0.0, 1.0, -1.0, 709.78, 709.79, 710.0, 1e-300, -1e-300, 36.7, 745.2, 1e5, -50.0))
    if way < 0.35:
        return -spread(rng, 1e-12, -LEAST_EPSILON)
    return spread(rng, 1e-12, MOST_EPSILON)


def draw_delta(rng: Random) -> float:
    """1e-300 to 1 - 1e-15, dense at both ends and where people ask."""
    way = rng.random()
    if way < 0.3:
        return spread(rng, LEAST_DELTA, 0.5)
    if way < 0.7:
        return spread(rng, 1e-12, 0.5)
    if way < 0.85:
        return 1 - spread(rng, 1 - MOST_DELTA, 0.5)
    return rng.choice((1e-5, 1e-6, 1e-9, 0.01, 0.25, 0.5, 1e-15, LEAST_DELTA, MOST_DELTA))


def draw_width(rng: Random, least: float, delta: float) -> float:
    """A width in epsilon for Exact, which takes cells by the width and bits by the digits of delta."""
    return max(spread(rng, least, 0.5), -1e-4 * math.log10(delta))


def draw_sampling(rng: Random, kind: str) -> Plain:
    """The keys that say how batches are drawn; some rates are fractions that no float is."""
    if kind == "poisson":
        rate = draw_rate(rng)
        if rng.random() < 0.2:
            below = rng.choice((3, 7, 10, 10**6, 10**12, 3**40))
            return {"sampling": kind, "rate": str(Fraction(max(int(rate * below), 1), below))}
        return {"sampling": kind, "rate": rate}
    if kind == "every-record":
        return {"sampling": kind}
    population = max(int(spread(rng, 2, 1e16 if rng.random() < 0.3 else 1e6)), 2)
    share = int(population * draw_rate(rng))
    batch = rng.choice((1, population - 1, share, population // 2))
    return {"sampling": kind, "batch": min(max(batch, 1), population - 1), "population": population}


def draw_masses(rng: Random) -> tuple[list[float], list[float]]:
    """Two distributions on the same few outputs that mirror each other or not, sometimes with zeros."""
    size = rng.randint(2, 4)
    grain = rng.choice((8, 1000, 2**40))

    def distribution() -> list[float]:
        cuts = sorted(rng.randint(0, grain) for _ in range(size - 1))
        return [float(Fraction(b - a, grain)) for a, b in zip([0, *cuts], [*cuts, grain], strict=True)]

    observed = distribution()
    if rng.random() < 0.6:
        return observed, observed[::-1]
    alternative = distribution()
    nudge = spread(rng, 1e-15, 1)  # two distributions that nearly agree
    if rng.random() < 0.3:
        alternative = [(1 - nudge) * p + nudge * q for p, q in zip(observed, alternative, strict=True)]
    return observed, alternative


def draw_part(rng: Random, mechanism: str, sampling: str, steps: int) -> Plain:
    """One kind of step."""
    part: Plain = {"mechanism": mechanism}
    if mechanism in ("gaussian", "laplace"):
        noise = draw_noise(rng)
        scaled = (
            sampling == "every-record" and rng.random() < 0.7
        )  # long runs of full batches need much noise
        part["noise_multiplier"] = min(noise * math.sqrt(steps), 1e8) if scaled else noise
    elif mechanism == "randomized-response":
        far = spread(rng, 1e-15, 0.5)
        part["truth_probability"] = rng.choice((1 - far, 0.5 + far / 2, rng.uniform(0.5, 1), 0.75))
    else:
        part["observed"], part["alternative"] = draw_masses(rng)
    return {**part, **draw_sampling(rng, sampling), "steps": steps}


def draw_any_part(rng: Random, most_steps: float) -> Plain:
    """One kind of step of any mechanism and sampling."""
    mechanism = rng.choice(("gaussian",) * 5 + ("laplace",) * 3 + ("randomized-response", "finite"))
    sampling = rng.choice(
        ("poisson", "poisson", "without-replacement", "without-replacement", "every-record")
    )
    return draw_part(rng, mechanism, sampling, draw_steps(rng, most_steps))


def draw_run(rng: Random, most_steps: float = 1e9) -> list[Plain]:
    """A run of one kind of step, or of a few."""
    kinds = rng.choice((1, 1, 1, 1, 2, 3))
    return [draw_any_part(rng, most_steps if kinds == 1 else min(most_steps, 1e5)) for _ in range(kinds)]


def draw_known_run(rng: Random, shape: str) -> tuple[list[Plain], str, Truth]:
    """A run and a relation whose truth is known: "closed", "mixed" (finite and one more) or "two steps"."""
    draw = {"closed": _draw_closed, "mixed": _draw_mixed, "two steps": _draw_two_steps}[shape]
    for _ in range(NO_REFERENCE):
        relation, run = rng.choice(RELATIONS), draw(rng)
        try:
            return run, relation, find_truth(run, relation)
        except NoReference:
            continue
    raise NoReference("none was drawn")


def _draw_closed(rng: Random) -> list[Plain]:
    way = rng.random()
    sampling = rng.choice(("poisson", "without-replacement"))
    if way < 0.5:  # one sampled step
        return [draw_part(rng, rng.choice(("gaussian", "laplace")), sampling, 1)]
    if way < 0.65:  # full batches of Gaussian noise
        most = 10 ** rng.uniform(0, 9)
        return [
            draw_part(rng, "gaussian", "every-record", draw_steps(rng, most))
            for _ in range(rng.choice((1, 1, 2, 5)))
        ]
    return _draw_finite(rng, rng.choice((1, 1, 2)), 300)


def _draw_finite(rng: Random, kinds: int, most_steps: int) -> list[Plain]:
    found = []
    for _ in range(kinds):
        mechanism = rng.choice(("randomized-response", "finite"))
        sampling = rng.choice(("every-record", "poisson", "without-replacement"))
        found.append(draw_part(rng, mechanism, sampling, draw_steps(rng, most_steps)))
    return found


def _draw_mixed(rng: Random) -> list[Plain]:
    sampling = rng.choice(("poisson", "without-replacement"))
    return [*_draw_finite(rng, 1, 20), draw_part(rng, rng.choice(("gaussian", "laplace")), sampling, 1)]


def _draw_two_steps(rng: Random) -> list[Plain]:
    def part(steps: int) -> Plain:
        noise = rng.choice(("gaussian", "laplace"))
        kind = rng.choice(("poisson", "poisson", "without-replacement", "every-record"))
        drawn = draw_part(rng, noise, kind, steps)
        # an integral takes long where the noise is far from the distance
        return {**drawn, "noise_multiplier": spread(rng, 0.1, 100)}

    return [part(2)] if rng.random() < 0.6 else [part(1), part(1)]


def draw_telling_epsilon(rng: Random, truth: Truth) -> float:
    """An epsilon at which the curve is neither 0 nor trivial, most of the time."""
    if rng.random() < 0.25:
        return draw_epsilon(rng)
    with precision(128):
        found = _typical_loss(rng, rng.choice(truth.upper))
    if not math.isfinite(found):
        return draw_epsilon(rng)
    if rng.random() < 0.1:  # beside the last loss, or where formulas change
        found = math.nextafter(found, rng.choice((-math.inf, math.inf)))
    return min(max(found, LEAST_EPSILON), MOST_EPSILON)


def _typical_loss(rng: Random, curve: Curve) -> float:
    if isinstance(curve, NormalRun):
        mu = math.sqrt(curve.mu_squared)
        return mu * rng.uniform(-8, 40) + mu * mu / 2
    if isinstance(curve, SampledStep):
        stretches, atoms = lay_out(curve)
        stretch = rng.choice(stretches)
        reach = rng.uniform(-8, 8) if rng.random() < 0.7 else rng.uniform(-38, 38)
        at = min(max(Fraction(reach) + rng.choice((0, curve.shift)), stretch.low), stretch.high)
        ratios = [stretch.ratio(exact(at)), *(atom.ratio for atom in atoms)]
        return float(rng.choice((ratios[0], rng.choice(ratios))).log())
    if isinstance(curve, TwoSteps):
        return _typical_loss(rng, curve.step) + _typical_loss(rng, curve.besides)
    assert isinstance(curve, FiniteRun)
    total = 0.0 if curve.besides is None else _typical_loss(rng, curve.besides)
    for step, times in curve.steps:
        if step.levels:
            total += sum(_finite_losses(rng, step.levels, times))
    return total


def _finite_losses(rng: Random, levels: list[tuple[Fraction, Fraction]], times: int) -> list[float]:
    """The losses of one outcome, drawn without regard to its probability."""
    losses = [float((exact(p) / exact(q)).log()) for p, q in levels]
    if rng.random() < 0.2:
        return [max(losses) * times]
    share = rng.random()
    one, other = rng.choice(losses), rng.choice(losses)
    count = round(share * times)
    return [one * count, other * (times - count)]
