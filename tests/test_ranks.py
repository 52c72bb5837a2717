"""Ranks that train together agree about what is drawn, or are refused before the first step."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

from opacus import PrivacyEngine

import tightrope as tr
from opacus_training import DELTA, USUAL_WARNINGS, drawn_by, engine_and_parts, made_private, poisson, train
from tightrope.audit import Verdict
from tightrope.integrations.opacus import audit_training
from tightrope.integrations.ranks import check_agreement, compare_ranks
from tightrope.samplers import PoissonSampler

pytestmark = USUAL_WARNINGS
TWO_RANKS = Path(__file__).parent / "two_ranks.py"


def test_two_processes_with_other_seeds_ranks_rates_or_counts_are_refused(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, str(TWO_RANKS), str(process), str(tmp_path / "group")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    told = [process.communicate(timeout=100) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    for said, _ in told:
        seeds, ranks, rates, counts, trained = said.splitlines()
        assert "the seed of the sampler must be the same on every rank, got different ones in" in seeds
        assert "fresh_seed()" in seeds
        assert "987654321" not in said
        assert "123456789" not in said
        assert "rank must be another one on every rank, got share(rank=0) in processes 0 and 1" in ranks
        assert "rate=0.1' and" in rates
        assert "the count of batches of the sampler must be the same on every rank, got 0 and 3" in counts
        assert trained.startswith("trained 4 steps, True, Each of the 4 steps was seen")


def test_an_agreement_names_what_differs() -> None:
    one, two = (poisson().share(rank=rank, ranks=2).fingerprint() for rank in range(2))
    check_agreement([one, two])
    check_agreement([two, one])
    with pytest.raises(tr.InvalidSetting, match="the scheme of the sampler must be the same on every rank"):
        check_agreement([one, replace(two, scheme="kind=poisson")])
    with pytest.raises(tr.InvalidSetting, match=r"share\(rank=1\) in processes 0 and 1"):
        check_agreement([two, two])


def test_a_fingerprint_tells_seeds_apart_and_not_what_they_are() -> None:
    prints = [
        PoissonSampler(records=9, rate=0.1, steps=1, seed=seed).fingerprint() for seed in (5, 5, 6, None)
    ]
    assert prints[0] == prints[1]
    assert len({one.seed for one in prints}) == 3


def test_shares_whose_ranks_cannot_be_compared_prove_nothing() -> None:
    assert compare_ranks(poisson()) == compare_ranks(poisson().share(rank=0, ranks=1)) == ""
    engine, module, optimizer, loader = engine_and_parts(poisson().share(rank=0, ranks=2))
    train(module, optimizer, loader)
    audit = audit_training(engine, delta=DELTA)
    assert audit.verdict is Verdict.UNKNOWN
    assert "whether the other ranks drew their shares of the same batches was not seen" in audit.sentence
    named = PrivacyEngine(accountant="tightrope")
    loader = drawn_by(poisson(rate=0.1, steps=10).share(rank=0, ranks=2))
    train(*made_private(named, loader, poisson_sampling=False))
    assert audit_training(named.accountant, delta=DELTA).verdict is Verdict.UNKNOWN
