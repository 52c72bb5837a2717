"""The engine with our samplers: what is drawn is what is recorded; and the examples that show it."""

import importlib
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")
pytest.importorskip("opacus", reason="opacus is not installed: make training")

import torch
from opacus.accountants import create_accountant
from opacus.schedulers import ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager

import tightrope as tr
from opacus_training import (
    DELTA,
    GAUSSIAN,
    NOISE,
    RECORDS,
    USUAL_WARNINGS,
    asked,
    engine_and_parts,
    module_and_optimizer,
    poisson,
    shuffled,
    train,
    trained,
    without_replacement,
)
from tightrope import InvalidSetting, NoTheorem
from tightrope.audit import inspect_loader
from tightrope.extras import advise_install
from tightrope.integrations.opacus import PlanExceeded, TightropeEngine, audit_training
from tightrope.integrations.opacus.engine import _count_ranks
from tightrope.samplers import BallsInBinsSampler

pytestmark = USUAL_WARNINGS
EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = ["--records", "300", "--batch", "30", "--epochs", "1"]


def bins() -> BallsInBinsSampler:
    return BallsInBinsSampler(records=RECORDS, batches=6)


@pytest.mark.parametrize("make", [poisson, without_replacement])
@pytest.mark.parametrize("relation", [tr.ADD_OR_REMOVE, tr.SUBSTITUTE])
def test_the_engine_records_what_its_sampler_draws(make: Callable[[], Any], relation: tr.Relation) -> None:
    sampler = make()
    engine, module, optimizer, loader = engine_and_parts(sampler, relation)
    assert train(module, optimizer, loader) == len(sampler)
    assert engine.ledger.run == sampler.run(GAUSSIAN)
    assert engine.epsilon(DELTA) == asked(sampler.run(GAUSSIAN), relation)
    assert engine.get_epsilon(DELTA) == engine.epsilon(DELTA).upper
    assert inspect_loader(loader).sampling == sampler.sampling


def test_a_dataset_that_repeats_records_is_refused_before_training() -> None:
    module, optimizer = module_and_optimizer()
    repeated = torch.utils.data.Subset(shuffled().dataset, [0] * RECORDS)
    with pytest.raises(InvalidSetting, match="hold each record once"):
        TightropeEngine(relation=tr.ADD_OR_REMOVE).make_private(
            module=module,
            optimizer=optimizer,
            dataset=repeated,
            sampler=poisson(),
            noise_multiplier=NOISE,
            max_grad_norm=1.0,
        )


def test_gradients_are_divided_by_the_expected_batch() -> None:
    _, _, optimizer, _ = engine_and_parts(poisson())
    assert optimizer.expected_batch_size == 0.11 * RECORDS
    _, _, optimizer, _ = engine_and_parts(poisson().share(rank=0, ranks=2))
    assert optimizer.expected_batch_size == 0.11 * RECORDS / 2


@pytest.mark.parametrize("make", [poisson, bins])
def test_gradients_are_never_divided_by_the_size_of_the_batch_that_was_drawn(make: Callable[[], Any]) -> None:
    """The noise of a step told how many records were in its batch, and the engine said that all was well."""
    engine, module, optimizer, loader = engine_and_parts(make())
    before, size = [parameter.clone() for parameter in module.parameters()], optimizer.expected_batch_size
    optimizer.expected_batch_size = size + 1
    with pytest.raises(InvalidSetting, match=r"expected_batch_size must stay [\d.]+, the expected size of a"):
        train(module, optimizer, loader)
    assert all(map(torch.equal, before, module.parameters()))
    assert not engine.ledger.run
    optimizer.zero_grad()
    optimizer.expected_batch_size = size
    assert train(module, optimizer, loader) == engine.steps.records


def test_empty_batches_are_steps() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(rate=0.002, steps=20))
    sizes = [len(labels) for _, labels in loader]
    assert 0 in sizes
    train(module, optimizer, loader)
    assert engine.ledger.steps == 20
    assert all(torch.isfinite(parameter).all() for parameter in module.parameters())
    named = trained("tightrope", shuffled(records=4, batch=1))
    assert len(named) == 4


def test_the_engine_works_in_pieces_and_with_a_noise_scheduler() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as pieces:
        assert train(module, optimizer, pieces) > 7
    scheduler = ExponentialNoise(optimizer, gamma=2.0)
    scheduler.step()
    train(module, optimizer, loader)
    louder = tr.Gaussian(noise_multiplier=2 * NOISE)
    sampling = tr.Poisson(rate=0.11)
    assert engine.ledger.run == tr.Step(GAUSSIAN, sampling) * 7 + tr.Step(louder, sampling) * 7


def test_the_engine_bounds_accumulated_batches() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson(steps=8))
    module.allow_grad_accumulation()
    train(module, optimizer, loader, accumulate=4)
    ((step, times),) = engine.ledger.run
    assert times == 8
    assert step.mechanism.noise_multiplier == pytest.approx(NOISE / 2, rel=1e-14)  # type: ignore[union-attr]
    assert engine.epsilon(DELTA) == tr.Bracket(0.0, engine.ledger.epsilon(DELTA).upper)
    assert "only bound those that were run" in str(engine.epsilon(DELTA).gap)


@pytest.mark.parametrize("make", [poisson, without_replacement])
def test_the_engine_finds_the_smallest_noise_and_counts_what_is_spent(make: Callable[..., Any]) -> None:
    engine, module, optimizer, loader = engine_and_parts(make(), noise_multiplier=5.0)
    steps = train(module, optimizer, loader)
    module, optimizer, loader = engine.make_private_with_epsilon(
        **module_and_optimizer(),
        dataset=loader.dataset,
        sampler=make(seed=6),
        target_epsilon=3.0,
        target_delta=DELTA,
        steps=steps,
        max_grad_norm=1.0,
    )
    train(module, optimizer, loader)
    assert engine.get_epsilon(DELTA) <= 3.0
    assert engine.get_epsilon(DELTA) == pytest.approx(3.0, rel=1e-3)


def aimed(engine: TightropeEngine, **options: Any) -> tuple[Any, ...]:
    """Parts that are private at the noise for epsilon 3."""
    common = {"target_epsilon": 3.0, "target_delta": DELTA, "max_grad_norm": 1.0}
    given = {"dataset": shuffled().dataset, "sampler": poisson(), **common, **options}
    return engine.make_private_with_epsilon(**module_and_optimizer(), **given)


def test_a_plan_shorter_than_one_pass_is_refused() -> None:
    """A loop over the loader took seven steps at the noise for one, without a word."""
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    with pytest.raises(InvalidSetting, match="steps must be at least 7, the batches in one pass"):
        aimed(engine, steps=1)
    with pytest.raises(InvalidSetting, match="steps must be"):
        aimed(engine, steps=7.5)
    aimed(engine, steps=7)


def test_the_first_step_beyond_the_plan_is_warned_of_and_all_are_accounted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = aimed(engine, steps=10)
    train(module, optimizer, loader)
    assert engine.exceeded == ""
    said = "11 steps are taken where the noise was chosen for 10"
    with pytest.warns(PlanExceeded, match=said):
        train(module, optimizer, loader)
    assert said in capsys.readouterr().err
    train(module, optimizer, loader)
    assert capsys.readouterr().err == "", "it is said once"
    assert engine.ledger.steps == 21
    assert engine.get_epsilon(DELTA) > 3.0
    audit = audit_training(engine, delta=DELTA)
    assert audit.finding.notes[0].startswith("21 steps are taken where the noise was chosen for 10")
    assert audit.finding.notes[0] in str(audit)


def test_steps_over_several_draws_are_held_against_the_plan_by_their_draws() -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = aimed(engine, steps=10, sampler=poisson(steps=8))
    module.allow_grad_accumulation()
    train(module, optimizer, loader, accumulate=4)
    assert engine.ledger.steps == 8
    with pytest.warns(PlanExceeded, match="12 steps are taken where the noise was chosen for 10"):
        train(module, optimizer, loader, accumulate=4)
    assert engine.ledger.steps == 16


def test_a_plan_holds_for_steps_that_were_resumed(tmp_path: Path) -> None:
    engine = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = aimed(engine, steps=10)
    train(module, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)
    later = TightropeEngine(relation=tr.ADD_OR_REMOVE)
    module, optimizer, loader = aimed(later, steps=10)
    later.load_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)
    with pytest.warns(PlanExceeded, match="11 steps are taken"):
        train(module, optimizer, loader)


def test_the_engine_goes_on_from_a_checkpoint_with_the_next_batch(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    train(module, optimizer, loader)
    engine.save_checkpoint(
        path=tmp_path / "saved.pt", module=module, optimizer=optimizer, checkpoint_dict={"epoch": 3}
    )

    sampler = poisson()
    later, module, optimizer, loader = engine_and_parts(sampler)
    rest = later.load_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)
    assert rest["epoch"] == 3
    assert later.epsilon(DELTA) == engine.epsilon(DELTA)
    assert sampler.drawn == 7
    assert later.ledger == engine.ledger
    train(module, optimizer, loader)
    assert later.ledger.run == sampler.run(GAUSSIAN)
    assert sampler.drawn == 14

    elsewhere, module, optimizer, _ = engine_and_parts(poisson(), relation=tr.SUBSTITUTE)
    with pytest.raises(InvalidSetting, match="relation must be SUBSTITUTE"):
        elsewhere.load_checkpoint(path=tmp_path / "saved.pt", module=module, optimizer=optimizer)
    with pytest.raises(InvalidSetting, match="Call make_private first"):
        TightropeEngine(relation=tr.ADD_OR_REMOVE).load_checkpoint(
            path=tmp_path / "saved.pt", module=module, optimizer=optimizer
        )
    with pytest.raises(InvalidSetting, match="mechanism must be 'tightrope-ledger'"):
        later.accountant.load_state_dict(create_accountant("tightrope").state_dict())


def test_the_engine_saves_a_ledger_file(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    train(module, optimizer, loader)
    engine.ledger.save(tmp_path / "ledger.json")
    assert tr.Ledger.load(tmp_path / "ledger.json") == engine.ledger
    assert engine.accountant.history == [(NOISE, 0.11, 7)]
    assert len(engine.accountant) == 7


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"poisson_sampling": False}, "poisson_sampling must be left out"),
        ({"data_loader": None}, "data_loader must be left out"),
        ({"rand_on_empty": True}, "rand_on_empty must be left out"),
        ({"clipping": "adaptive"}, "clipping must be"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"loader_options": {"shuffle": True}}, "shuffle must be left out"),
        ({"sampler": None}, "sampler must be"),
    ],
)
def test_the_engine_refuses_by_name_what_its_sampler_decides(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting, match=named):
        engine_and_parts(**{"sampler": poisson(), **options})


def test_the_engine_refuses_before_training_what_no_theorem_covers() -> None:
    with pytest.raises(NoTheorem):
        engine_and_parts(without_replacement(batch=RECORDS), tr.ADD_OR_REMOVE)


def test_a_step_by_rate_alone_is_refused_by_the_engine() -> None:
    with pytest.raises(InvalidSetting, match="does not say how batches are drawn"):
        TightropeEngine(relation=tr.ADD_OR_REMOVE).accountant.step(noise_multiplier=1.0, sample_rate=0.1)


# --- the examples


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_the_example_before_shows_an_epsilon_that_is_too_small(
    example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    assert example("opacus_before").main(SMALL) == 0
    told = capsys.readouterr().out
    assert "Opacus reports epsilon" in told
    assert "shuffles the 300 records" in told
    assert "TOO_SMALL" in told or "NOT_PROVEN" in told


def test_the_example_after_matches_and_is_repeatable(
    example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    assert example("opacus_after").main(SMALL) == 0
    told = capsys.readouterr().out
    assert "MATCHES" in told
    assert "a certified bracket" in told
    assert example("opacus_after").main(SMALL) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("name", ["opacus_before", "opacus_after"])
def test_the_examples_explain_themselves(
    name: str, example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        example(name).main(["--help"])
    assert ended.value.code == 0
    assert "--seed" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        example(name).main(["--batch", "0"])


def test_without_opacus_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        name for name in sys.modules if name.partition(".")[0] == "opacus" or "integrations.opacus" in name
    ]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(ImportError, match=re.escape(advise_install("opacus"))):
        importlib.import_module("tightrope.integrations.opacus")


def test_steps_on_batches_that_the_sampler_did_not_draw_are_refused_before_they_are_taken() -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    before = [parameter.detach().clone() for parameter in module.parameters()]
    with pytest.raises(InvalidSetting, match="no batch of the loader had been handed out for it"):
        train(module, optimizer, shuffled())  # the loader of before, not the one that make_private returned
    assert all(torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))
    assert engine.ledger.steps == 0
    optimizer.zero_grad()
    assert train(module, optimizer, loader) == engine.ledger.steps == 7


def test_two_steps_on_one_batch_are_refused() -> None:
    engine, module, optimizer, loader = engine_and_parts(without_replacement())
    points, labels = next(iter(loader))
    torch.nn.functional.cross_entropy(module(points), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(points), labels).backward()
    with pytest.raises(InvalidSetting, match=r"was stepped on before. .* one step for each of its batches"):
        optimizer.step()
    assert engine.ledger.steps == 1


def test_a_refused_checkpoint_leaves_what_was_spent_on_record(tmp_path: Path) -> None:
    engine, module, optimizer, loader = engine_and_parts(poisson())
    train(module, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "early", module=module, optimizer=optimizer)
    train(module, optimizer, loader)
    spent = engine.epsilon(DELTA)
    with pytest.raises(InvalidSetting, match="drawn in the state must be at least 14"):
        engine.load_checkpoint(path=tmp_path / "early", module=module, optimizer=optimizer)
    assert (engine.ledger.steps, engine.epsilon(DELTA)) == (14, spent)
    assert (engine.steps.records, engine.steps.steps) == (14, 14)


def test_gradients_of_two_batches_are_not_accumulated() -> None:
    _, module, optimizer, loader = engine_and_parts(poisson(rate=0.5))
    with pytest.raises(ValueError, match="accumulat"):
        train(module, optimizer, loader, accumulate=2)


def test_an_optimizer_of_several_count_ranks_wants_a_share() -> None:
    several = types.SimpleNamespace(world_size=2)
    assert _count_ranks(several, poisson().share(rank=0, ranks=2)) == 2
    assert _count_ranks(types.SimpleNamespace(), poisson()) == 1
    for sampler in (poisson(), poisson().share(rank=0, ranks=3)):
        with pytest.raises(InvalidSetting, match="a share for one of 2 ranks"):
            _count_ranks(several, sampler)
