"""A PyTorch loader whose batches are drawn by a sampler that carries its accounting."""

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sized
from typing import Any

import numpy as np

from tightrope.errors import InvalidSetting
from tightrope.samplers.passes import Passes
from tightrope.setting.sampling import Poisson, WithoutReplacement

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, default_collate
    from torch.utils.data import Sampler as TorchSampler
except ModuleNotFoundError as missing:
    raise ImportError(
        "tightrope.samplers.torch needs PyTorch. Install it with: pip install 'tightrope[torch]'"
    ) from missing

Collate = Callable[[list[Any]], Any]

_DECIDED_BY_THE_SAMPLER = (
    "batch_size",
    "shuffle",
    "batch_sampler",
    "drop_last",
)  # `sampler` is our own argument


class BatchSampler(TorchSampler[list[int]]):
    """Batches of a sampler, or of one rank's share, as the lists of indices that a `DataLoader` takes.

    With a `dataset`, each pass starts by checking that it still has the number of records that is accounted.
    """

    def __init__(self, sampler: Passes, *, dataset: Sized | None = None) -> None:
        if not isinstance(sampler, Passes):
            raise InvalidSetting(
                f"sampler must be a PoissonSampler, a WithoutReplacementSampler or a share of one, got {sampler!r}. "
                "Of other samplers nobody knows what to account."
            )
        super().__init__()
        self._sampler = sampler
        self._dataset = dataset
        self._check_records()

    @property
    def sampler(self) -> Passes:
        """The sampler whose batches these are."""
        return self._sampler

    @property
    def sampling(self) -> Poisson | WithoutReplacement:
        """How the global batch of one step is drawn: the value the accountant takes."""
        return self._sampler.sampling

    def state_dict(self) -> dict[str, object]:
        """The state of the sampler. With a seed it is a secret."""
        return self._sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where the sampler that gave `state` stopped."""
        self._sampler.load_state_dict(state)

    def _check_records(self) -> None:
        if self._dataset is None:
            return
        try:
            length = len(self._dataset)
        except (TypeError, NotImplementedError):
            raise InvalidSetting(
                f"dataset must have a length, got {type(self._dataset).__name__}. "
                "The sampling rate is accounted for a known number of records: give it __len__ and __getitem__."
            ) from None
        if length != self._sampler.records:
            raise InvalidSetting(
                f"dataset must hold the records={self._sampler.records} of its sampler, got {length} records. "
                "The accounted rate would no longer be the rate run: build a sampler for the dataset as it is now."
            )

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[list[int]]:
        self._check_records()
        return (batch.tolist() for batch in self._sampler)


def data_loader(
    dataset: Any, sampler: Passes, *, collate_fn: Collate | None = None, **loader_options: Any
) -> Any:
    """A `DataLoader` over `dataset` with the batches of `sampler`, the empty ones included.

    An empty batch has the structure of any other, with length 0 along the batch dimension: a step that adds noise
    only. `loader_options` go to the `DataLoader`, except those that would choose the batches. Workers fetch ahead: in
    the middle of a pass `sampler.drawn` may count a few batches that are still to come.
    """
    for name in _DECIDED_BY_THE_SAMPLER:
        if name in loader_options:
            raise InvalidSetting(
                f"{name} must be left out, got {name}={loader_options[name]!r}. "
                "The sampler alone decides the batches, or the accounted rate would not be the rate run."
            )
    if isinstance(dataset, IterableDataset):
        raise InvalidSetting(
            f"dataset must give records by index, got the iterable {type(dataset).__name__}. "
            "A stream cannot be sampled: give it __len__ and __getitem__."
        )
    return DataLoader(
        dataset,
        batch_sampler=BatchSampler(sampler, dataset=dataset),
        collate_fn=CollateWithEmpty(collate_fn=collate_fn, dataset=dataset),
        **loader_options,
    )


class CollateWithEmpty:
    """Collates like `collate_fn`, and an empty batch as the first record of `dataset` with that record cut away.

    A class and not a closure, so that it can be sent to worker processes.
    """

    def __init__(self, *, collate_fn: Collate | None, dataset: Any) -> None:
        self._collate_fn = collate_fn
        self._dataset = dataset

    def __call__(self, records: list[Any]) -> Any:
        """The batch of these records, which may be none."""
        collate: Collate = self._collate_fn or default_collate
        if len(records):
            return collate(records)
        one_record = collate([self._dataset[0]])
        try:
            return _without_its_record(one_record, "batch")
        except InvalidSetting as refusal:
            return self._of_no_records(refusal)

    def _of_no_records(self, refusal: InvalidSetting) -> Any:
        if self._collate_fn is None:
            raise refusal
        try:
            return self._collate_fn([])
        except Exception as failure:
            raise refusal from failure


def _without_its_record(collated: Any, where: str) -> Any:
    """A collated batch of one record, cut to none; `where` names the part of the batch in a refusal."""
    if isinstance(collated, torch.Tensor | np.ndarray):
        if collated.ndim == 0 or collated.shape[0] != 1:
            raise _cannot_cut(f"{where} of shape {tuple(collated.shape)}")
        return collated[:0]
    if isinstance(collated, Mapping):
        entries = {key: _without_its_record(value, f"{where}[{key!r}]") for key, value in collated.items()}
        if not isinstance(collated, MutableMapping):
            return entries
        same_type = copy.copy(collated)
        same_type.update(entries)
        return same_type
    if isinstance(collated, list | tuple):
        if len(collated) == 1 and isinstance(
            collated[0], str | bytes
        ):  # text is collated to a plain list of texts
            return collated[:0]
        parts = [_without_its_record(value, f"{where}[{i}]") for i, value in enumerate(collated)]
        return type(collated)(*parts) if hasattr(collated, "_fields") else type(collated)(parts)
    raise _cannot_cut(f"{where} of type {type(collated).__name__}")


def _cannot_cut(what: str) -> InvalidSetting:
    return InvalidSetting(
        f"an empty batch must be a batch of one record cut to length 0, which is unknown for {what}. "
        "Pass a collate_fn that accepts an empty list."
    )
