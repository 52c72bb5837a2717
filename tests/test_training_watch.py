"""A plain torch loop, watched: what its loader hands out, its model sees and its optimizer steps on."""

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="torch is not installed: make training")

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import tightrope as tr
from tightrope.audit import Scheme, Verdict, audit, inspect_loader
from tightrope.audit.steps.checks import CheckedStep, StepVerdict
from tightrope.audit.steps.summary import StepsSummary
from tightrope.errors import InvalidSetting
from tightrope.integrations.torch_inputs import SAMPLE
from tightrope.integrations.training import TrainingWatch, watch_training
from tightrope.samplers import PoissonSampler, WithoutReplacementSampler
from tightrope.samplers.torch import data_loader

RECORDS = 40
DATA = TensorDataset(torch.randn(RECORDS, 3), torch.randint(0, 2, (RECORDS,)))


def poisson(**options: Any) -> PoissonSampler:
    return PoissonSampler(**{"records": RECORDS, "rate": 0.2, "steps": 6, "seed": 4, **options})


class Training(NamedTuple):
    loader: Any
    model: Any
    optimizer: Any
    watch: TrainingWatch

    def step(self, points: Any, labels: Any) -> None:
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(points), labels, reduction="sum").backward()
        self.optimizer.step()

    def train(self, batches: Any = None) -> StepsSummary:
        for points, labels in self.loader if batches is None else batches:
            self.step(points, labels)
        return self.watch.summary


def training(loader: Any = None, model: Any = None, **options: Any) -> Training:
    loader = data_loader(DATA, poisson()) if loader is None else loader
    model = nn.Linear(3, 2) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = watch_training(loader=loader, model=model, optimizer=optimizer, **options)
    return Training(loader, model, optimizer, watch)


# --- what is seen


def test_a_plain_loop_is_seen_and_audited() -> None:
    one = training()
    assert one.train() == StepsSummary(records=6, epochs=1)
    run = poisson(drawn=6).run(tr.Gaussian(noise_multiplier=1.0))
    found = audit(one.watch.finding, run, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert found.verdict is Verdict.MATCHES
    assert "Each of the 6 steps was seen" in str(found)


def test_another_loader_is_refused_or_told() -> None:
    other = DataLoader(DATA, batch_size=8, shuffle=True)
    with pytest.raises(InvalidSetting, match="step must be taken on one fresh batch of the loader"):
        training().train(other)
    told: list[CheckedStep] = []
    one = training(refuses=False, on_step=told.append)
    assert one.train(other).unmatched == 5
    assert [step.verdict for step in told] == 5 * [StepVerdict.UNMATCHED]
    assert one.watch.finding.scheme is Scheme.UNKNOWN
    with pytest.raises(InvalidSetting, match="loader must be watched"):
        _ = TrainingWatch().finding


def test_without_a_loader_of_ours_passes_are_counted_too() -> None:
    one = training(DataLoader(DATA, batch_size=10, shuffle=True))
    for _ in range(3):
        one.train([next(iter(one.loader))])
    assert one.watch.summary == StepsSummary(records=3, epochs=3)
    assert one.train() == StepsSummary(records=7, epochs=4)
    assert one.watch.finding.scheme is Scheme.SHUFFLE


def test_what_is_no_longer_watched_is_unseen() -> None:
    one = training()
    batches = iter(one.loader)
    one.step(*next(batches))
    one.watch.close()
    one.step(*next(batches))
    assert one.watch.summary == StepsSummary(records=1, epochs=1)
    one.watch.checks.hold_gradients()
    assert one.watch.checks.take_step().why == "it was no longer watched"


# --- batches and inputs of many shapes


class TwoInputs(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, points: Any, *, mask: Any) -> Any:
        return self.inner(points * mask)


def collate_named(records: list[Any]) -> dict[str, Any]:
    points, labels = torch.utils.data.default_collate(records)
    return {"inputs": {"points": points, "mask": torch.ones_like(points)}, "labels": labels}


def test_named_inputs_in_nested_batches_are_seen() -> None:
    one = training(data_loader(DATA, poisson(), collate_fn=collate_named), TwoInputs())
    for batch in one.loader:
        one.optimizer.zero_grad()
        nn.functional.cross_entropy(one.model(**batch["inputs"]), batch["labels"]).backward()
        one.optimizer.step()
    assert one.watch.summary.records == 6


def test_one_input_that_is_not_of_the_batch_leaves_sizes() -> None:
    one = training(data_loader(DATA, poisson(), collate_fn=collate_named), TwoInputs())
    for batch in one.loader:
        one.optimizer.zero_grad()
        points = batch["inputs"]["points"]
        one.model(points, mask=torch.rand_like(points)).sum().backward()
        one.optimizer.step()
    assert one.watch.summary.sizes == 6


def test_a_mask_that_is_the_same_for_all_batches_tells_none_apart() -> None:
    one = training(data_loader(DATA, poisson(), collate_fn=collate_named), TwoInputs())
    for batch in one.loader:
        one.optimizer.zero_grad()
        mask = batch["inputs"]["mask"]
        one.model(torch.randn_like(mask), mask=mask.clone()).sum().backward()
        one.optimizer.step()
    assert one.watch.summary.sizes == 6


def test_slices_of_a_batch_make_it_up_together() -> None:
    one = training(data_loader(DATA, WithoutReplacementSampler(records=RECORDS, batch=8, steps=5)))
    for points, labels in one.loader:
        one.optimizer.zero_grad()
        for part, target in zip(points.split(3), labels.split(3), strict=True):
            nn.functional.cross_entropy(one.model(part), target).backward()
        one.optimizer.step()
    assert one.watch.summary.records == 5
    points, labels = next(iter(one.loader))
    one.optimizer.zero_grad()
    one.model(points[:3]).sum().backward()
    one.model(points[2:]).sum().backward()
    one.optimizer.step()  # 3 and 6 records of 8: one of them twice, but each of them seen
    assert one.watch.summary.records == 6
    points, labels = next(iter(one.loader))
    one.model(points[:3]).sum().backward()
    with pytest.raises(InvalidSetting, match="it holds 3 gradients where the loader drew 8 records"):
        one.optimizer.step()


@pytest.mark.parametrize("rows", [8, SAMPLE])
@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        (lambda points: points.to(torch.float64), True),
        (lambda points: points.to(memory_format=torch.channels_last).clone(), True),
        (lambda points: points.permute(0, 2, 3, 1), True),
        (lambda points: points.permute(0, 2, 3, 1).contiguous(), False),
        (lambda points: points.flatten(1).clone(), True),
        (lambda points: points.half().float(), False),
        (lambda points: points + 1e-3, False),
        (lambda points: points.roll(1, 0), False),
        (lambda points: points[1:], None),
        (lambda points: torch.randn_like(points), False),
    ],
)
def test_copies_are_known_by_their_values(
    change: Callable[[Any], Any], is_known: bool | None, rows: int
) -> None:
    watch = TrainingWatch()
    loader = DataLoader(TensorDataset(torch.randn(rows, 2, 3, 3)), batch_size=rows)
    watch.watch_loader(loader)
    (points,) = next(iter(loader))
    batch, records = watch._tensors.find(change(points))
    if is_known is None:
        assert batch is not None
        assert (batch.start, batch.records, records) == (1, rows - 1, rows - 1)
    else:
        assert (batch is not None, records) == (is_known, rows)


def test_a_batch_that_was_written_to_is_another_one() -> None:
    one = training()
    batches = iter(one.loader)
    points, labels = next(batches)
    points += 1
    one.step(points, labels)
    assert one.watch.summary.sizes == 1
    points, labels = next(batches)
    view = points[:]
    points += 1
    one.step(view, labels)
    assert one.watch.summary.sizes == 2
    points, labels = next(batches)
    with torch.inference_mode():
        frozen = points.clone()
    one.step(frozen.clone(), labels)
    assert one.watch.summary.records == 1


def train_per_sample(one: Training, change: Callable[[Any], Any]) -> StepsSummary:
    """DP-SGD by hand: gradients by vmap, clipped and summed; noise is left out."""

    def loss_of(weights: Any, point: Any, label: Any) -> Any:
        guess = torch.func.functional_call(one.model, weights, (change(point).unsqueeze(0),))
        return nn.functional.cross_entropy(guess, label.unsqueeze(0))

    compute = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))
    for points, labels in one.loader:
        weights = {name: weight.detach() for name, weight in one.model.named_parameters()}
        for name, gradients in compute(weights, points, labels).items():
            one.model.get_parameter(name).grad = gradients.clamp(-1, 1).sum(0)
        one.optimizer.step()
    return one.watch.summary


def test_per_sample_gradients_by_vmap_are_seen() -> None:
    sampler = WithoutReplacementSampler(records=RECORDS, batch=8, steps=5)
    assert train_per_sample(training(data_loader(DATA, sampler)), lambda point: point).records == 5
    changed = train_per_sample(training(data_loader(DATA, sampler)), lambda point: point + 1)
    assert (changed.unseen, changed.steps) == (5, 5)


# --- loaders


def test_a_watched_loader_is_inspected_as_before() -> None:
    loader = data_loader(DATA, poisson())
    before = inspect_loader(loader)
    one = training(loader)
    assert inspect_loader(loader) == before
    batches = iter(loader)
    next(batches)
    assert inspect_loader(loader) == before
    assert len(batches) == len(loader) == 6
    assert one.loader is loader


def test_two_passes_at_once_keep_their_own_draws() -> None:
    one = training()
    for mine, yours in zip(one.loader, one.loader, strict=True):
        one.step(*yours)
        one.step(*mine)
    assert one.watch.summary == StepsSummary(records=12, epochs=2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_nobody_listens_to_a_copy_of_a_loader(copied: Callable[[Any], Any]) -> None:
    one = training(refuses=False)
    again = copied(one.loader)
    assert again is not one.loader
    assert one.train(again).unmatched == 6
    assert one.train().records == 6


def test_a_loader_does_not_keep_trainings_alive() -> None:
    loader = data_loader(DATA, poisson())
    for _ in range(3):
        one = training(loader)
        one.train()
    watched = loader.__dict__["_get_iterator"]
    assert watched.listeners[-1] is one.watch
    del one
    gc.collect()
    assert watched.listeners == []
    assert len(list(loader)) == 6


def test_a_training_that_begins_in_the_middle_of_a_pass_hears_the_rest() -> None:
    first = training()
    batches = iter(first.loader)
    first.step(*next(batches))
    second = training(first.loader)
    second.step(*next(batches))
    assert first.watch.summary.records == second.watch.summary.records == 1


class Stream(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        return iter(DATA)


class OwnLoader(DataLoader):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (lambda: OwnLoader(DATA, batch_size=8), "an OwnLoader hands out its batches in a way of its own"),
        (lambda: DataLoader(Stream(), batch_size=8), "the dataset makes the batches"),
        (lambda: DataLoader(DATA, batch_size=None), "the dataset makes the batches"),
        (lambda: DataLoader(DATA, batch_size=8, in_order=False), "with in_order=False"),
    ],
)
def test_loaders_whose_batches_cannot_be_tied_to_draws_are_unseen(
    loader: Callable[[], Any], why: str
) -> None:
    one = training(loader())
    points, labels = next(iter(DataLoader(DATA, batch_size=8)))
    one.step(points, labels)
    assert (one.watch.summary.unseen, one.watch.summary.steps) == (1, 1)
    assert why in one.watch.summary.sentence
    assert one.watch.finding.scheme is Scheme.UNKNOWN
