"""What shuffled batches reach under SUBSTITUTE, by quadrature and laws: balls in bins at half the noise."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

import tightrope as tr
from alike import delta_of_alike
from tightrope.audit import Finding, How, Scheme, prove_bound
from tightrope.audit.claims import reach
from tightrope.audit.claims.reach import bound_below
from tightrope.theorems.other_batchings import ALLOCATION_AT_HALF_NOISE, LARGEST_SUM, LargestSum


def shuffled(records: int, batch: int, epochs: float, noise: float, delta: float) -> tr.Bracket:
    plan = tr.Training(records=records, batch=batch, epochs=epochs, sampling=tr.Poisson)
    return tr.epsilon_if_shuffled(plan, noise_multiplier=noise, delta=delta, relation=tr.SUBSTITUTE)


def run_of(steps: int, noise: float) -> tr.Run:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=0.5)) * steps


DROPS_LAST = Finding(
    scheme=Scheme.SHUFFLE,
    how=How.INSPECTED,
    sentence="",
    reshuffles=True,
    records=5,
    batch=2,
    epoch=2,
    full=2,
)


@pytest.mark.parametrize(
    ("noise", "epsilon"), [(0.5, 0.05), (0.5, 2.0), (0.9, 0.5), (2.0, 0.5), (2.0, 2.0), (5.0, 0.05)]
)
def test_two_batches_reach_what_quadrature_says(noise: float, epsilon: float) -> None:
    half = Fraction(1, 2)
    delta = delta_of_alike(epsilon, noise=noise, first=half, second=half)
    found = shuffled(6, 3, 1, noise, delta)
    assert epsilon - 2e-5 <= found.lower <= (1 + 1e-9) * epsilon < found.upper


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_records_that_are_left_out_of_an_epoch_are_weighed_exactly(noise: float) -> None:
    share = Fraction(2, 5)
    delta = delta_of_alike(0.7, noise=noise, first=share, second=share)
    found = prove_bound(run_of(2, noise), DROPS_LAST, delta=delta, relation=tr.SUBSTITUTE)
    assert 0.7 - 2e-5 <= found.epsilon.lower <= (1 + 1e-9) * 0.7
    assert found.because[0] is ALLOCATION_AT_HALF_NOISE


def test_one_full_batch_of_all_records_is_bracketed_to_the_last_digits() -> None:
    found = shuffled(10, 10, 3, 0.2, 1e-5)
    assert found.relative_width < 1e-6


CASES = [
    (1000, 10, 1, 4.0, 1e-6),
    (1000, 30, 3, 1.0, 1e-5),
    (1000, 30, 0.4, 1.0, 1e-5),
    (20, 10, 5, 0.39, 1e-5),
    (100, 10, 2, 0.1, 1e-5),
    (70, 40, 2, 1.5, 1e-4),
]


@pytest.mark.parametrize(("records", "batch", "epochs", "noise", "delta"), CASES)
def test_the_lower_end_is_never_below_the_largest_sum_nor_above_the_upper_end(
    records: int, batch: int, epochs: float, noise: float, delta: float
) -> None:
    found, full = shuffled(records, batch, epochs, noise, delta), records // batch
    if epochs < 1:
        full = round(epochs * -(-records // batch))
    witness = LargestSum(
        epochs=max(int(epochs), 1),
        batches=full,
        weight=Fraction(full * batch, records),
        with_record=2.0,
        without=0.0,
        noise=noise,
    )
    assert 0 < bound_below(witness, delta=delta, directions=(tr.ADD, tr.REMOVE)) <= found.lower < found.upper


@pytest.mark.parametrize(("noise", "epochs"), [(4.0, 30), (1.0, 2)])
def test_it_is_balls_in_bins_at_half_the_noise(noise: float, epochs: int) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=noise / 2), tr.BallsInBins(batches=40))
    bins = tr.epsilon(step * (40 * epochs), delta=1e-6, relation=tr.ADD_OR_REMOVE)
    found = shuffled(200, 5, epochs, noise, 1e-6)
    assert (1 - 1e-3) * bins.lower <= found.lower <= bins.upper
    assert found.decided_by is not None
    assert "D' = (-1, ..., -1), by all sums" in found.decided_by.reached_by


def test_over_many_epochs_of_much_noise_the_largest_sum_tells_little() -> None:
    witness = LargestSum(
        epochs=100, batches=100, weight=Fraction(1), with_record=2.0, without=0.0, noise=Fraction(4)
    )
    largest = bound_below(witness, delta=1e-6, directions=(tr.ADD, tr.REMOVE))
    assert shuffled(500, 5, 100, 4.0, 1e-6).lower > 2.5 * largest > 0


def test_epochs_never_tell_less() -> None:
    lowers = [shuffled(24, 4, epochs, 3.0, 1e-5).lower for epochs in (0.5, 1, 2, 2.5, 3, 10)]
    assert all(fewer < more for fewer, more in pairwise(lowers))


def test_noise_of_several_kinds_counts_as_the_largest() -> None:
    finding = replace(DROPS_LAST, records=4)
    mixed, plain = run_of(2, 1.0) + run_of(2, 2.0), run_of(4, 2.0)
    found = [prove_bound(run, finding, delta=1e-3, relation=tr.SUBSTITUTE).epsilon for run in (mixed, plain)]
    assert found[0].lower == found[1].lower > 0


def test_no_pass_is_made_where_told_batches_reach_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take seconds. With so little noise they are softened, and the largest sum tells more."""

    def refuse(*_: object) -> None:
        raise AssertionError("a pass was made")

    for name in ("resolve", "compose_side"):
        monkeypatch.setattr(reach, name, refuse)
    found = prove_bound(run_of(20, 0.1), replace(DROPS_LAST, records=4), delta=1e-5, relation=tr.SUBSTITUTE)
    assert found.because[0] is LARGEST_SUM
    copied = replace(DROPS_LAST, records=4, copies=2)  # of which no sampling tells
    with pytest.raises(AssertionError, match="a pass was made"):
        prove_bound(run_of(20, 2.0), copied, delta=1e-5, relation=tr.SUBSTITUTE)
