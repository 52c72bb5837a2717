"""The central limit of passes: near what is certified, where many passes each tell little."""

import pytest

import tightrope as tr

BINS = tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=1000)) * 10_000


@pytest.mark.parametrize("relation", [tr.REMOVE, tr.SUBSTITUTE], ids=str)
def test_the_limit_of_many_passes_is_within_two_percent_of_what_is_certified(relation: tr.Relation) -> None:
    certified = tr.epsilon(BINS, delta=1e-6, relation=relation)
    about = tr.epsilon(BINS, delta=1e-6, relation=relation, by=tr.GaussianLimit())
    assert 0.98 * certified.lower < about.value < 1.02 * certified.upper
