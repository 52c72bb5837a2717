"""Sums of e^{i t loss} at many heights, against the same sums in balls."""

import math
from dataclasses import replace

import numpy as np
import pytest
from flint import acb, arb, ctx

from tightrope.engines.transforms.heights import NODES_AT_ONCE, evaluate
from tightrope.engines.transforms.transform import TiltedNodes
from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats, short


def nodes_of(losses: Floats, weights: Floats) -> TiltedNodes:
    """Nodes that are exact: what is charged is what summing them can lose."""
    return TiltedNodes(
        losses=losses,
        weights=weights,
        log_moment=0.0,
        quadrature_rel_error=0.0,
        tail_rel_error=0.0,
        weight_rel_errors=np.zeros(len(losses)),
        loss_abs_error=float(weights @ np.abs(losses)) * UNIT_ROUNDOFF,
        log_moment_abs_error=0.0,
    )


def exact_sum(nodes: TiltedNodes, t: float) -> acb:
    """1 + sum of w (e^{i t loss} - 1)."""
    terms = (
        arb(float(w)) * ((acb(0, 1) * arb(t) * arb(float(loss))).exp() - 1)
        for loss, w in zip(nodes.losses, nodes.weights, strict=True)
    )
    return sum(terms, acb(1))


CASES = {
    "one node": (1, 1.0, 0.7, 3),
    "tiny angles": (40, 1e-6, 1e-3, 30),
    "usual": (130, 0.3, 2.0, 90),
    "fast": (60, 30.0, 5.0, 200),
    "several products": (2 * NODES_AT_ONCE + 7, 1.0, 0.3, 12),
}


@pytest.mark.parametrize(("size", "scale", "spacing", "count"), CASES.values(), ids=CASES)
def test_sums_are_as_close_as_they_say(size: int, scale: float, spacing: float, count: int) -> None:
    random = np.random.default_rng(size)
    weights = random.exponential(size=size)
    nodes = nodes_of(scale * random.normal(size=size), weights / weights.sum())
    spacing = short(spacing)
    log_modulus, angle, abs_errors = evaluate(nodes, spacing, count)
    assert len(log_modulus) == len(angle) == len(abs_errors) == count + 1
    with ctx.workprec(200):
        for place in {0, 1, count // 3, count - 1, count}:
            exact = exact_sum(nodes, place * spacing)
            found = acb(arb(float(log_modulus[place])), arb(float(angle[place]))).exp()
            # what the logarithm and the angle lose themselves is charged where they are multiplied
            themselves = 9 * UNIT_ROUNDOFF * (abs(log_modulus[place]) + abs(angle[place])) * abs(found)
            assert abs(found - exact) <= arb(float(abs_errors[place])) + themselves
    assert abs_errors[0] < 1e-290  # m(0) is 1
    assert float(abs_errors.max()) < 1e-11 * max(1.0, scale * spacing * count)


def test_sums_near_one_are_charged_relative_to_what_is_missing() -> None:
    nodes = nodes_of(np.array([1e-9, -3e-9]), np.array([0.25, 0.75]))
    _, angle, abs_errors = evaluate(nodes, short(1e-3), 50)
    assert np.all(abs_errors[1:] < 1e-12 * np.abs(angle[1:]))


def test_what_functions_and_sums_lose_is_charged() -> None:
    losses = np.array([0.5, -0.5, 1.0, -1.0, 2.0] * 9)  # times the heights below they are exact
    weights = np.random.default_rng(2).exponential(size=len(losses))
    nodes = replace(nodes_of(losses, weights / weights.sum()), loss_abs_error=0.0)
    log_modulus, angle, abs_errors = evaluate(nodes, 0.375, 40)
    with ctx.workprec(200):
        for place in range(41):
            found = acb(arb(float(log_modulus[place])), arb(float(angle[place]))).exp()
            assert abs(found - exact_sum(nodes, place * 0.375)) <= arb(float(abs_errors[place]))
    assert float(abs_errors.max()) < 1e-12


def test_errors_of_weights_are_charged() -> None:
    nodes = nodes_of(np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    off = replace(nodes, weight_rel_errors=np.array([1e-3, 1e-3]))
    moved = replace(nodes, weights=nodes.weights * (1 + 1e-3))
    spacing, count = short(0.1), 40
    log_modulus, angle, abs_errors = evaluate(off, spacing, count)
    log_moved, moved_angle, _ = evaluate(moved, spacing, count)
    apart = np.abs(np.exp(log_modulus + 1j * angle) - np.exp(log_moved + 1j * moved_angle))
    assert np.all(apart[1:] <= abs_errors[1:])
    assert math.isclose(float(abs_errors[-1]), float(apart[-1]), rel_tol=9)
