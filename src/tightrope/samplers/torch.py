"""A PyTorch loader whose batches are drawn by a sampler that carries its accounting."""

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sized
from typing import Any

import numpy as np

from tightrope.errors import Described, InvalidSetting
from tightrope.extras import MissingExtra
from tightrope.samplers.sampler import Passes
from tightrope.setting.sampling import Sampling

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, default_collate
    from torch.utils.data import Sampler as TorchSampler
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope.samplers.torch", "PyTorch", "torch") from missing

Collate = Callable[[list[Any]], Any]

_DECIDED_BY_THE_SAMPLER = ("batch_size", "shuffle", "batch_sampler", "drop_last", "in_order")


class BatchSampler(TorchSampler[list[int]]):
    """Batches of a sampler, or of one rank's share, as the lists of indices that a `DataLoader` takes.

    With a `dataset`, each pass starts by checking that it still has the number of records that is accounted.
    """

    def __init__(self, sampler: Passes, *, dataset: Sized | None = None) -> None:
        if not isinstance(sampler, Passes):
            must = "be one of tightrope.samplers, such as a PoissonSampler, or a share of one"
            raise InvalidSetting("sampler", sampler, must, "What other samplers draw is not known.")
        super().__init__()
        self._sampler = sampler
        self._dataset = dataset
        self._check_records()

    @property
    def sampler(self) -> Passes:
        """The sampler whose batches these are."""
        return self._sampler

    @property
    def sampling(self) -> Sampling:
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
            kind = Described(type(self._dataset).__name__)
            remedy = "A rate is accounted for a known number of records: give it __len__ and __getitem__."
            raise InvalidSetting("dataset", kind, "have a length", remedy) from None
        if length != self._sampler.records:
            must = f"hold the records={self._sampler.records} of its sampler"
            remedy = (
                "The accounted rate would no longer be the rate run: "
                "build a sampler for the dataset as it is now."
            )
            raise InvalidSetting("dataset", Described(f"{length} records"), must, remedy)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[list[int]]:
        self._check_records()
        return (batch.tolist() for batch in self._sampler)


def data_loader(
    dataset: Any, sampler: Passes, *, collate_fn: Collate | None = None, **loader_options: Any
) -> Any:
    """A `DataLoader` over `dataset` with the batches of `sampler`, the empty ones included.

    An empty batch has the structure of any other, with length 0 along the batch dimension: a step that adds
    noise only. `loader_options` go to the `DataLoader`, except those that would choose the batches. Workers
    fetch ahead: in the middle of a pass `sampler.drawn` may count a few batches that are still to come.
    """
    for name in _DECIDED_BY_THE_SAMPLER:
        if name in loader_options:
            remedy = (
                "The sampler alone decides the batches and their order: others are not what is accounted."
            )
            raise InvalidSetting(name, loader_options[name], "be left out", remedy)
    if isinstance(dataset, IterableDataset):
        kind = Described(f"the iterable {type(dataset).__name__}")
        remedy = "A stream cannot be sampled: give it __len__ and __getitem__."
        raise InvalidSetting("dataset", kind, "give records by index", remedy)
    return DataLoader(
        dataset,
        batch_sampler=BatchSampler(sampler, dataset=dataset),
        collate_fn=CollateWithEmpty(collate_fn=collate_fn, dataset=dataset),
        **loader_options,
    )


class CollateWithEmpty:
    """Collates like `collate_fn`; an empty batch is the first record of `dataset`, collated and cut away.

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
            return _drop_record(one_record, "batch")
        except InvalidSetting as refusal:
            return self._collate_nothing(refusal)

    def _collate_nothing(self, refusal: InvalidSetting) -> Any:
        if self._collate_fn is None:
            raise refusal
        try:
            return self._collate_fn([])
        except Exception as failure:
            raise refusal from failure


def _drop_record(collated: Any, where: str) -> Any:
    """A collated batch of one record, cut to none; `where` names the part of the batch in a refusal."""
    if isinstance(collated, torch.Tensor | np.ndarray):
        if collated.ndim == 0 or collated.shape[0] != 1:
            raise _cannot_cut(f"{where} of shape {tuple(collated.shape)}")
        return collated[:0]
    if isinstance(collated, Mapping):
        entries = {key: _drop_record(value, f"{where}[{key!r}]") for key, value in collated.items()}
        if not isinstance(collated, MutableMapping):
            return entries
        same_type = copy.copy(collated)
        same_type.update(entries)
        return same_type
    if isinstance(collated, list | tuple):
        if len(collated) == 1 and isinstance(collated[0], str | bytes):
            return collated[:0]  # text is collated to a plain list of texts
        parts = [_drop_record(value, f"{where}[{i}]") for i, value in enumerate(collated)]
        return type(collated)(*parts) if hasattr(collated, "_fields") else type(collated)(parts)
    raise _cannot_cut(f"{where} of type {type(collated).__name__}")


def _cannot_cut(what: str) -> InvalidSetting:
    must = "cut a batch of one record to length 0 to make an empty one"
    return InvalidSetting(
        "collate_fn", Described(what), must, "Pass a collate_fn that accepts an empty list."
    )
