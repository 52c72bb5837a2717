"""In Opacus, what is accounted is what the loader draws: by name, with our engine, where the two disagree."""

import importlib
import importlib.util
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

from opacus import PrivacyEngine
from opacus.accountants import IAccountant, create_accountant, register_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, RandomSampler

import tightrope as tr
from opacus_training import (
    BATCH,
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    asked,
    dataset,
    drawn_by,
    made_private,
    module_and_optimizer,
    shuffled,
    train,
    trained,
    without_replacement,
)
from tightrope import InvalidSetting
from tightrope.audit import Finding, How, Scheme, inspect_loader, prove_bound
from tightrope.audit.loaders.samplers import float32_rate
from tightrope.integrations import opacus as integration
from tightrope.integrations.opacus import OpacusAccountant, SamplerMismatch
from tightrope.theorems.other_batchings import SPLIT_NOISE

pytestmark = USUAL_WARNINGS

NAMES = {
    "tightrope": tr.ADD_OR_REMOVE,
    "tightrope-substitute": tr.SUBSTITUTE,
    "tightrope-wor": tr.ADD_OR_REMOVE,
    "tightrope-wor-substitute": tr.SUBSTITUTE,
}


# --- accountants by name


@pytest.mark.parametrize("name", NAMES)
def test_a_trained_accountant_answers_like_the_core_to_the_last_bit(name: str) -> None:
    fixed_size = "wor" in name
    options = {"poisson_sampling": False} if fixed_size else {}
    accountant = trained(name, drawn_by(without_replacement()) if fixed_size else shuffled(), **options)
    sampling = (
        tr.WithoutReplacement(batch=BATCH, population=RECORDS)
        if fixed_size
        else tr.Poisson(rate=float32_rate(BATCH / RECORDS))
    )
    assert accountant.run == tr.Step(GAUSSIAN, sampling) * 10
    assert accountant.epsilon(DELTA) == asked(accountant.run, NAMES[name])
    assert accountant.get_epsilon(DELTA) == asked(accountant.run, NAMES[name]).upper
    assert accountant.get_delta(1.0) == tr.delta(accountant.run, epsilon=1.0, relation=NAMES[name]).upper
    assert accountant.ledger().run == accountant.run
    assert accountant.ledger().relation is NAMES[name]
    assert len(accountant) == 10
    assert accountant.because


def test_the_default_is_the_one_of_the_core() -> None:
    accountant = trained("tightrope", shuffled())
    spent = tr.epsilon(accountant.run, delta=DELTA, relation=tr.ADD_OR_REMOVE)
    assert accountant.get_epsilon(DELTA) == spent.upper


def test_the_rate_that_is_accounted_is_the_one_torch_draws_also_without_a_loader() -> None:
    accountant = create_accountant("tightrope")
    accountant.step(noise_multiplier=NOISE, sample_rate=1e-6)
    ((step, _),) = accountant.run
    assert step.sampling == tr.Poisson(rate=float32_rate(1e-6))
    assert step.sampling.rate > 1e-6


def test_without_a_loader_a_rate_without_replacement_is_the_fraction_that_was_meant() -> None:
    accountant = create_accountant("tightrope-wor")
    accountant.step(noise_multiplier=NOISE, sample_rate=0.001)
    assert accountant.run == tr.Step(GAUSSIAN, tr.WithoutReplacement(batch=1, population=1000)) * 1


def test_an_answer_is_kept_until_the_history_changes_however_that_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accountant = create_accountant("tightrope")
    accountant.history = [(1.0, 0.25, 10)]
    before = accountant.get_epsilon(DELTA)
    with monkeypatch.context() as patched:
        patched.setattr(accountant, "_curve", None)  # would fail if it were asked
        assert accountant.get_epsilon(DELTA) == before
    accountant.history = [(1.0, 0.25, 20)]
    assert accountant.get_epsilon(DELTA) > before


def test_unknown_options_are_refused_by_name() -> None:
    accountant = create_accountant("tightrope")
    with pytest.raises(InvalidSetting, match="eps_error must be left out"):
        accountant.get_epsilon(DELTA, eps_error=0.1)
    accountant.step(noise_multiplier=NOISE, sample_rate=0.25)
    assert accountant.get_epsilon(DELTA, by=tr.Certified(accuracy=1e-2, effort=tr.TIGHT)) > 0


def test_without_noise_epsilon_is_infinite_and_not_an_error() -> None:
    accountant = trained("tightrope", shuffled(), noise_multiplier=0.0)
    assert accountant.get_epsilon(DELTA) == math.inf
    assert accountant.get_delta(1.0) == 1.0


@pytest.mark.parametrize("name", ["tightrope", "tightrope-substitute"])
def test_opacus_calibrates_by_name_to_its_tolerance(name: str) -> None:
    engine = PrivacyEngine(accountant=name)
    module, optimizer, loader = engine.make_private_with_epsilon(
        **module_and_optimizer(),
        data_loader=shuffled(),
        target_epsilon=3.0,
        target_delta=DELTA,
        epochs=2,
        max_grad_norm=1.0,
    )
    for _ in range(2):
        train(module, optimizer, loader)
    assert 2.99 <= engine.get_epsilon(DELTA) <= 3.0


def test_options_of_the_search_for_noise_are_kept_apart_from_those_of_epsilon() -> None:
    noise = get_noise_multiplier(
        target_epsilon=2.0,
        target_delta=DELTA,
        sample_rate=0.1,
        steps=10,
        accountant="tightrope",
        epsilon_tolerance=1e-3,
    )
    spent = asked(
        tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=float32_rate(0.1))) * 10,
        tr.ADD_OR_REMOVE,
    )
    assert 1.999 <= spent.upper <= 2.0


def test_a_noise_scheduler_is_followed_step_by_step() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    scheduler = ExponentialNoise(optimizer, gamma=2.0)
    train(module, optimizer, loader)
    scheduler.step()
    train(module, optimizer, loader)
    rate = float32_rate(0.1)
    assert engine.accountant.history == [(NOISE, rate, 10), (2 * NOISE, rate, 10)]


def test_under_a_memory_manager_logical_steps_count_once() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as pieces:
        physical = train(module, optimizer, pieces)
    assert physical > 10
    assert len(engine.accountant) == 10


def test_accumulated_batches_are_recorded_as_steps_that_share_their_noise() -> None:
    engine = PrivacyEngine(accountant="tightrope-wor")
    private = made_private(engine, drawn_by(without_replacement()), poisson_sampling=False)
    train(*private, accumulate=2)
    accountant = engine.accountant
    ((noise, rate, steps),) = accountant.history
    assert noise == pytest.approx(NOISE / math.sqrt(2), rel=1e-14)
    assert noise * math.sqrt(2) < NOISE
    assert (rate, steps) == (0.1, 10)
    assert accountant.epsilon(DELTA).lower == 0
    assert accountant.get_epsilon(DELTA) == asked(accountant.run, tr.ADD_OR_REMOVE).upper
    assert SPLIT_NOISE in accountant.because


# --- loaders that draw something else


def test_a_shuffled_loader_is_noticed_whatever_is_filtered_and_epsilon_is_what_is_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = PrivacyEngine(accountant="tightrope")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = made_private(engine, shuffled(), poisson_sampling=False)
        told = capsys.readouterr().err
        assert "SAMPLER MISMATCH" in told
        assert "Poisson sampling" in told
        assert "shuffles the 60 records" in told.replace("\n", " ")
        assert "What to do" in told
        train(*private)
        assert capsys.readouterr().err == ""
        spent = engine.get_epsilon(DELTA)
        assert "SamplerMismatch" in capsys.readouterr().err
        assert engine.get_epsilon(DELTA) == spent
        assert "SamplerMismatch" in capsys.readouterr().err, "said each time"
    accounted = tr.Step(GAUSSIAN, tr.Poisson(rate=float32_rate(0.1))) * 10
    truly = prove_bound(accounted, inspect_loader(shuffled()), delta=DELTA, relation=tr.ADD_OR_REMOVE)
    assert spent == truly.epsilon.upper
    assert asked(accounted, tr.ADD_OR_REMOVE).upper < spent < math.inf


def test_a_mismatch_is_a_warning_each_time_and_an_error_for_those_who_want_one() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    with pytest.warns(SamplerMismatch, match="This loader shuffles"):
        private = made_private(engine, shuffled(), poisson_sampling=False)
    train(*private)
    for _ in range(2):
        with pytest.warns(SamplerMismatch, match="What is proved: epsilon is at most"):
            engine.get_epsilon(DELTA)
    with pytest.raises(SamplerMismatch):
        engine.get_epsilon(DELTA)
    with pytest.raises(InvalidSetting, match="run must be Poisson sampling to become a ledger"):
        engine.accountant.ledger()


@pytest.mark.filterwarnings("ignore::tightrope.integrations.opacus.SamplerMismatch")
class TestMismatch:
    """What is answered, whatever is said."""

    def test_a_loader_that_is_not_known_has_no_epsilon(self) -> None:
        class Shuffled(DataLoader):  # type: ignore[misc]
            pass

        accountant = trained(
            "tightrope", Shuffled(dataset(), batch_size=BATCH, shuffle=True), poisson_sampling=False
        )
        assert accountant.epsilon(DELTA) == tr.Bracket(0.0, math.inf)
        assert accountant.get_delta(1.0) == 1.0
        assert accountant.because == ()

    def test_poisson_batches_are_accounted_as_such_where_fixed_ones_were_meant(self) -> None:
        accountant = trained("tightrope-wor", shuffled())
        truly = tr.Step(GAUSSIAN, tr.Poisson(rate=float32_rate(0.1))) * 10
        assert accountant.run == truly == accountant.ledger().run
        assert accountant.epsilon(DELTA) == asked(truly, tr.ADD_OR_REMOVE)

    def test_fixed_batches_are_accounted_as_such_where_poisson_ones_were_meant(self) -> None:
        loader = DataLoader(dataset(), batch_size=BATCH, sampler=RandomSampler(dataset(), num_samples=BATCH))
        accountant = trained("tightrope-substitute", loader, poisson_sampling=False)
        truly = tr.Step(GAUSSIAN, tr.WithoutReplacement(batch=BATCH, population=RECORDS)) * 1
        assert accountant.run == truly
        assert accountant.epsilon(DELTA) == asked(truly, tr.SUBSTITUTE)

    def test_a_made_up_record_in_an_empty_batch_is_not_accounted_away(self) -> None:
        accountant = trained("tightrope", shuffled(), rand_on_empty=True)
        assert accountant.get_epsilon(DELTA) == math.inf

    def test_adaptive_clipping_is_not_accounted_away(self) -> None:
        accountant = trained(
            "tightrope-wor",
            drawn_by(without_replacement()),
            poisson_sampling=False,
            clipping="adaptive",
            target_unclipped_quantile=0.5,
            clipbound_learning_rate=0.2,
            max_clipbound=10.0,
            min_clipbound=0.1,
            unclipped_num_std=10.0,
        )
        assert accountant.get_epsilon(DELTA) == math.inf

    def test_a_loader_that_was_never_trained_with_costs_nothing(self) -> None:
        engine = PrivacyEngine(accountant="tightrope")
        made_private(engine, shuffled(), poisson_sampling=False)
        train(*made_private(engine, shuffled()))
        assert (
            engine.get_epsilon(DELTA)
            == asked(tr.Step(GAUSSIAN, tr.Poisson(rate=float32_rate(0.1))) * 10, tr.ADD_OR_REMOVE).upper
        )

    def test_a_shuffled_loader_beside_another_one_has_no_bound(self) -> None:
        engine = PrivacyEngine(accountant="tightrope")
        train(*made_private(engine, shuffled()))
        train(*made_private(engine, shuffled(), poisson_sampling=False))
        assert engine.get_epsilon(DELTA) == math.inf

    def test_a_checkpoint_keeps_what_was_found(self) -> None:
        accountant = trained("tightrope", shuffled(), poisson_sampling=False)
        restored = create_accountant("tightrope")
        restored.load_state_dict(pickle.loads(pickle.dumps(accountant.state_dict())))
        assert restored.epsilon(DELTA) == accountant.epsilon(DELTA)
        assert math.isfinite(restored.get_epsilon(DELTA))


def test_a_rate_that_opacus_gets_wrong_is_said_and_accounted_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = PrivacyEngine(accountant="tightrope-wor")
    with pytest.warns(SamplerMismatch, match=r"Opacus takes 0\.01, .* that of this loader is 0\.1"):
        made_private(engine, drawn_by(without_replacement(steps=100)), poisson_sampling=False)
    assert "TightropeEngine" in capsys.readouterr().err


def test_steps_recorded_by_hand_at_another_rate_are_accounted_at_the_larger_one() -> None:
    engine = PrivacyEngine(accountant="tightrope")
    made_private(engine, shuffled())
    for rate in (0.01, 0.5):
        engine.accountant.step(noise_multiplier=NOISE, sample_rate=rate)
    assert [step.sampling.rate for step, _ in engine.accountant.run] == [float32_rate(0.1), 0.5]
    assert engine.accountant.epsilon(DELTA).lower == 0


def test_an_estimated_rate_is_no_finding_to_account_by() -> None:
    estimated = Finding(
        scheme=Scheme.POISSON,
        how=How.WATCHED,
        sentence="",
        sampling=tr.Poisson(rate=0.1),
        rate_range=(0.09, 0.11),
    )
    with pytest.raises(InvalidSetting, match="what inspect_loader found"):
        create_accountant("tightrope").see_loader(estimated)


def test_other_accountants_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    made_private(PrivacyEngine(accountant="rdp"), shuffled(), poisson_sampling=False)
    assert capsys.readouterr().err == ""


# --- checkpoints and registration


def test_a_checkpoint_restores_epsilon_and_training_goes_on(tmp_path: Path) -> None:
    engine = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(engine, shuffled())
    train(module, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)

    later = PrivacyEngine(accountant="tightrope")
    module, optimizer, loader = made_private(later, shuffled())
    later.load_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)
    assert later.get_epsilon(DELTA) == engine.get_epsilon(DELTA)
    train(module, optimizer, loader)
    assert later.accountant.history == [(NOISE, float32_rate(0.1), 20)]

    other = PrivacyEngine(accountant="tightrope-substitute")
    with pytest.raises(ValueError, match="state_dict of tightrope cannot be loaded"):
        other.load_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)


def test_states_without_our_part_are_believed_and_damaged_ones_are_not() -> None:
    accountant = create_accountant("tightrope")
    accountant.load_state_dict({"history": [[1.0, 0.25, 3]], "mechanism": "tightrope"})
    assert accountant.run == tr.Step(tr.Gaussian(noise_multiplier=1.0), tr.Poisson(rate=0.25)) * 3
    state = accountant.state_dict()
    with pytest.raises(InvalidSetting, match="version must be 1 or 2 in the state"):
        accountant.load_state_dict({**state, "tightrope": {"version": 3}})
    with pytest.raises(InvalidSetting, match="the state must count steps"):
        accountant.load_state_dict({**state, "tightrope": {**state["tightrope"], "steps": {"records": -1}}})
    with pytest.raises(InvalidSetting, match="the state must hold findings"):
        accountant.load_state_dict(
            {**state, "tightrope": {**state["tightrope"], "drawn": [{"scheme": "TEA_LEAVES"}]}}
        )
    with pytest.raises(ValueError, match="None or empty"):
        accountant.load_state_dict({})


@pytest.mark.parametrize("name", NAMES)
def test_accountants_are_picklable_classes_of_their_name(name: str) -> None:
    accountant = create_accountant(name)
    accountant.step(noise_multiplier=1.0, sample_rate=0.25)
    again = pickle.loads(pickle.dumps(accountant))
    assert type(again) is type(accountant)
    assert again.run == accountant.run
    assert accountant.mechanism() == name


def test_the_module_can_be_imported_again_and_looks_at_loaders_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = PrivacyEngine._prepare_data_loader
    importlib.reload(integration)
    assert PrivacyEngine._prepare_data_loader is looking
    spec = importlib.util.find_spec("tightrope.integrations.opacus.accountants")
    assert spec is not None
    assert spec.loader is not None
    afresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(afresh)
    integration._register(afresh.PoissonAccountant)
    assert type(create_accountant("tightrope")) is afresh.PoissonAccountant
    integration._register(integration.PoissonAccountant)
    assert isinstance(create_accountant("tightrope"), OpacusAccountant)


def test_a_name_that_is_taken_is_refused() -> None:
    class Someone(IAccountant):  # type: ignore[misc]
        def __init__(self) -> None:
            self.history: list[Any] = []

        def step(self, *, noise_multiplier: float, sample_rate: float) -> None: ...

        def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
            return 0.0

        def __len__(self) -> int:
            return 0

        @classmethod
        def mechanism(cls) -> str:
            return "tightrope"

    register_accountant("tightrope", Someone, force=True)
    try:
        with pytest.raises(InvalidSetting, match=r"must name our accountant in Opacus, got .*Someone"):
            integration._register(integration.PoissonAccountant)
    finally:
        register_accountant("tightrope", integration.PoissonAccountant, force=True)
