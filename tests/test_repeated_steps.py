"""What a step is does not depend on how often it is taken: the short way to its analysis is the long one."""

import pytest

import tightrope as tr
from tightrope.theorems import lookup

STEPS = [
    tr.Step(mechanism, sampling)
    for mechanism in (
        tr.Gaussian(noise_multiplier=0.8),
        tr.Laplace(noise_multiplier=2),
        tr.RandomizedResponse(truth_probability=0.75),
    )
    for sampling in (
        tr.EveryRecord(),
        tr.Poisson(rate=0.01),
        tr.Poisson(rate=0),
        tr.Poisson(rate=1),
        tr.WithoutReplacement(batch=1, population=100),
    )
]


@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE], ids=str)
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_the_analysis_of_a_repeated_step_is_that_of_the_run(step: tr.Step, relation: tr.Relation) -> None:
    for times in (1, 2, 7, 10_000):
        expected = lookup._analyse(step * times, relation, tr.QUICK)
        assert lookup.analyse(step * times, relation, tr.QUICK) == expected
