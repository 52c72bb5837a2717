"""The reproduction's own computations as oracles: they share no engine with the package."""

from fractions import Fraction
from functools import cache

import pytest

import tightrope as tr
from precise import mp, mpf
from reproduction.paper import figure_3_splits as splits
from reproduction.paper.laplace_lattice import LaplaceStep, Lattice
from reproduction.paper.numbers import overlap
from reproduction.paper.randomized_response import exact_curve

ACCURACIES = (1e-3, 1e-6)

# noise, rate, steps, and epsilons at which ADD and REMOVE both lose something
LAPLACE = [
    (1.0, 0.5, 3, (0.0, 0.1, 0.4, 0.8)),
    (0.5, 0.1, 2, (0.0, 0.05, 0.15)),
    (2.0, 0.9, 7, (0.0, 0.5, 1.5)),
    (4.0, 0.25, 12, (0.0, 0.1, 0.3)),
]
DIRECTIONS = (tr.ADD, tr.REMOVE)


@cache
def laplace_oracle(noise: float, rate: float, steps: int) -> Lattice:
    return Lattice(LaplaceStep(shift=1 / noise, rate=rate), steps, 1 << 15)


def lattice_delta(noise: float, rate: float, steps: int, relation: tr.Relation, epsilon: float) -> tr.Bracket:
    lattice = laplace_oracle(noise, rate, steps)
    return lattice.add(epsilon) if relation is tr.ADD else lattice.remove(epsilon)


@pytest.mark.parametrize("relation", DIRECTIONS)
@pytest.mark.parametrize(("noise", "rate", "steps", "epsilons"), LAPLACE)
def test_brackets_of_laplace_noise_hold_what_the_lattice_of_ratios_has(
    noise: float, rate: float, steps: int, epsilons: tuple[float, ...], relation: tr.Relation
) -> None:
    run = tr.Step(tr.Laplace(noise_multiplier=noise), tr.Poisson(rate=rate)) * steps
    for accuracy in ACCURACIES:
        curve = tr.privacy_curve(run, relation=relation, by=tr.Certified(accuracy=accuracy))
        for epsilon in epsilons:
            truth, found = lattice_delta(noise, rate, steps, relation, epsilon), curve.delta(epsilon)
            assert truth.width < 1e-8
            assert overlap(truth, found), f"delta {truth!r} outside {found!r}"
            off = tr.Bracket(truth.lower * (1 + 3 * accuracy), truth.upper * (1 + 3 * accuracy))
            assert not overlap(off, found)  # so a bracket that is wrong by little is noticed


COINS = [
    (Fraction(3, 4), Fraction(1, 2), 2),
    (Fraction(3, 4), Fraction(1, 2), 11),
    (Fraction(7, 8), Fraction(1, 8), 5),
    (Fraction(9, 16), Fraction(1, 64), 40),
]


@pytest.mark.parametrize("relation", DIRECTIONS)
@pytest.mark.parametrize(("truth", "rate", "steps"), COINS)
def test_brackets_of_randomized_response_hold_the_exact_fraction(
    truth: Fraction, rate: Fraction, steps: int, relation: tr.Relation
) -> None:
    exact = exact_curve(relation, steps, truth, rate)
    run = tr.Step(tr.RandomizedResponse(truth_probability=float(truth)), tr.Poisson(rate=float(rate))) * steps
    curve = tr.privacy_curve(run, relation=relation)
    largest = float(mp.log(mpf(exact.kinks[-1].numerator) / exact.kinks[-1].denominator))
    for share in (0.0, 0.1, 0.35, 0.6, 0.9, 0.99):
        found = curve.delta(share * largest)
        # e^epsilon is no fraction: 40 digits from below and from above, between which the curve hardly falls
        order = Fraction(int(mp.exp(mpf(share * largest)) * 10**30), 10**30)
        delta = exact.delta(order), exact.delta(order + Fraction(1, 10**29))
        assert Fraction(found.lower) <= delta[0]
        assert delta[1] <= Fraction(found.upper)
        assert found.relative_width < 1e-3


EXCHANGES = (0.0, 0.05, 0.2, 0.3, 0.45, 0.6, 0.9, 1.2)


@pytest.mark.parametrize("split", splits.SPLITS, ids=lambda split: split.name)
def test_engines_compose_both_directions_as_the_cells_of_the_first_output_do(split: splits.Split) -> None:
    composed = split.composition()
    for epsilon in EXCHANGES:
        truth = split.delta(epsilon)
        # at 0 one step of each has an atom, at which no engine certifies 1e-6
        for accuracy in ACCURACIES if epsilon else ACCURACIES[:1]:
            bounds = composed.log_bounds(epsilon, accuracy)
            found = tr.Bracket(
                float(mp.exp(bounds.lower)) * (1 - 1e-15), float(mp.exp(bounds.upper)) * (1 + 1e-15)
            )
            assert overlap(truth, found), f"delta {truth!r} outside {found!r}"


@pytest.mark.parametrize("effort", [tr.QUICK, tr.TIGHT], ids=str)
def test_no_upper_end_under_substitution_is_below_what_an_adversary_reaches(effort: tr.Effort) -> None:
    run = tr.Step(splits.MECHANISM, splits.SAMPLING) * splits.STEPS
    curve = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Certified(effort=effort))
    for epsilon in EXCHANGES:
        reached = splits.adaptive(epsilon, 1 << 12).lower
        assert curve.delta(epsilon).upper >= max(reached, *(s.delta(epsilon).lower for s in splits.SPLITS))
