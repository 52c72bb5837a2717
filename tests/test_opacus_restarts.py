"""Training that is interrupted and resumed: every start is a new pass over the loader."""

import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

from opacus import PrivacyEngine

import tightrope as tr
from opacus_training import DELTA, GAUSSIAN, USUAL_WARNINGS, asked, made_private, shuffled, train
from tightrope.integrations.opacus import SamplerMismatch
from tightrope.integrations.opacus.accountants import PoissonAccountant

pytestmark = USUAL_WARNINGS


def test_every_restart_counts_as_a_pass_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten starts of one step each: a record can have come in all ten, though ten steps are one epoch."""
    file = tmp_path / "state"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerMismatch)
        for start in range(10):
            engine = PrivacyEngine(accountant="tightrope-substitute")
            module, optimizer, loader = made_private(engine, shuffled(), poisson_sampling=False)
            if start:
                engine.load_checkpoint(path=file, module=module, optimizer=optimizer)
            train(module, optimizer, [next(iter(loader))])
            engine.save_checkpoint(path=file, module=module, optimizer=optimizer)
        spent = engine.get_epsilon(DELTA)
    ten = tr.Step(GAUSSIAN, tr.EveryRecord()) * 10
    assert spent >= asked(ten, tr.SUBSTITUTE).upper
    assert "provided that" not in capsys.readouterr().err, "the passes were counted"


def test_a_rate_that_torch_would_round_down_is_not_rounded_where_no_loader_was_seen() -> None:
    accountant = PoissonAccountant()
    above = 0.25 + 2.0**-30  # float32 has no number between 0.25 and this one
    accountant.step(noise_multiplier=1.0, sample_rate=above)
    ((step, _),) = accountant.run.parts
    assert step.sampling.rate == above
