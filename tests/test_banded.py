"""Banded noise and groups that take turns: the numbers of jax_privacy, and what the proof uses."""

from fractions import Fraction

import numpy as np
import pytest

import tightrope as tr

POISSON = tr.Poisson(rate=0.05)


@pytest.mark.parametrize(
    ("steps", "bands", "times"), [(2000, 16, 125), (2001, 16, 126), (7, 8, 1), (0, 8, 0), (9, 1, 9)]
)
def test_a_record_takes_part_in_every_so_many_steps(steps: int, bands: int, times: int) -> None:
    run = tr.banded_run(noise_multiplier=Fraction(4, 3), sampling=POISSON, bands=bands, steps=steps)
    assert run == tr.Step(tr.Gaussian(noise_multiplier=Fraction(4, 3)), POISSON) * times


@pytest.mark.parametrize(("noise", "rate", "bands", "steps"), [(1.0, 0.05, 8, 1000), (0.7, 0.2, 16, 250)])
def test_epsilon_is_that_of_jax_privacy(noise: float, rate: float, bands: int, steps: int) -> None:
    accounting = pytest.importorskip("jax_privacy.experimental.accounting")
    from dp_accounting.pld import PLDAccountant

    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(accounting.amplified_bandmf_event(noise, steps, num_bands=bands, sampling_prob=rate))
    run = tr.banded_run(noise_multiplier=noise, sampling=tr.Poisson(rate=rate), bands=bands, steps=steps)
    found = tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert found.lower <= other.get_epsilon(1e-6)
    assert found.upper == pytest.approx(other.get_epsilon(1e-6), rel=1e-3)


def test_capped_groups_are_those_of_jax_privacy() -> None:
    accounting = pytest.importorskip("jax_privacy.experimental.accounting")
    from dp_accounting.pld import PLDAccountant

    event = accounting.truncated_amplified_bandmf_event(
        1.0, 400, num_bands=4, sampling_prob=0.05, largest_group_size=1000, truncated_batch_size=85
    )
    other = PLDAccountant(value_discretization_interval=1e-3)
    other.compose(event)
    group = tr.TruncatedPoisson(rate=0.05, at_most=85, population=1000)
    run = tr.banded_run(noise_multiplier=1.0, sampling=group, bands=4, steps=400)
    found = tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert found.lower <= other.get_epsilon(1e-6)
    assert found.upper == pytest.approx(other.get_epsilon(1e-6), rel=0.02)


def test_blocks_of_one_group_share_no_rows_and_hold_one_column_each() -> None:
    """What the proof says about the strategy matrix, on one of 3 bands whose columns have norm 1 at most."""
    steps, bands = 11, 3
    matrix = np.zeros((steps, steps))
    for i in range(steps):
        rows = np.arange(i, min(i + bands, steps))
        matrix[rows, i] = 0.6 ** (rows - i) / np.linalg.norm(0.6 ** np.arange(bands))
    for group in range(bands):
        columns = matrix[:, group::bands]
        assert np.count_nonzero((columns != 0).sum(axis=1) > 1) == 0
        assert columns.shape[1] <= -(-steps // bands)
        # a record that is in every batch of its group: the squared norms add up, none counts twice
        assert np.linalg.norm(columns.sum(axis=1)) ** 2 == pytest.approx((columns**2).sum())
        assert (columns**2).sum(axis=0).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"bands": 0}, r"bands must be at least 1, got 0\..* 1 is independent noise"),
        ({"bands": 2.5}, r"bands must be a whole number, got 2\.5"),
        ({"steps": -1}, r"steps must be at least 0, got -1"),
        ({"steps": 12.5}, r"steps must be a whole number, got 12\.5\. Round it up: steps=13"),
        ({"noise_multiplier": 0}, r"noise_multiplier must be above 0, got 0"),
        (
            {"sampling": tr.EveryRecord()},
            r"sampling must be Poisson or TruncatedPoisson, got EveryRecord\(\)",
        ),
    ],
)
def test_what_makes_no_banded_run_is_refused_by_name(changed: dict[str, object], sentence: str) -> None:
    setting = {"noise_multiplier": 1.0, "sampling": POISSON, "bands": 4, "steps": 100}
    with pytest.raises(tr.InvalidSetting, match=sentence):
        tr.banded_run(**{**setting, **changed})  # type: ignore[arg-type]


BANDED = tr.banded_run(noise_multiplier=1.0, sampling=tr.Poisson(rate=0.01), bands=4, steps=400)
PLAIN = tr.Step(tr.Gaussian(noise_multiplier=2.0), tr.Poisson(rate=0.1))


@pytest.mark.parametrize(
    "run", [BANDED, BANDED + PLAIN, PLAIN + BANDED, BANDED * 2, sum([PLAIN * 3, BANDED])]
)
def test_records_of_one_user_that_take_turns_are_refused(run: tr.Run) -> None:
    for ask in (
        lambda: tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE.of(2)),
        lambda: tr.epsilon(run, delta=1e-6, relation=tr.SUBSTITUTE.of(2), by=tr.Renyi()),
        lambda: tr.epsilon(tr.tuned(run, trials=2), delta=1e-6, relation=tr.ADD.of(2)),
        lambda: tr.Ledger(relation=tr.REMOVE.of(2)).record(run),
    ):
        with pytest.raises(tr.NoTheorem, match=r"Banded noise under .* share noise"):
            ask()
    assert tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE).upper > 0


def test_other_samplings_of_banded_noise_are_no_better_known_for_groups() -> None:
    found = tr.contrast(BANDED, delta=1e-6, claimed=(tr.Poisson, tr.ADD_OR_REMOVE.of(2)))
    assert all(row.refusal is not None for row in found.rows if row.relation.group > 1)


def test_one_band_is_independent_noise_of_which_groups_are_known() -> None:
    run = tr.banded_run(noise_multiplier=1.0, sampling=tr.Poisson(rate=0.01), bands=1, steps=100)
    assert tr.epsilon(run, delta=1e-6, relation=tr.ADD.of(2)).upper > 0
