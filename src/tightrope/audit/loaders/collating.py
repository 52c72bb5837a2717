"""What a loader makes of the records of a batch, as far as that can be seen."""

import sys
from typing import Any

from tightrope.audit.loaders.words import kind_of, name_class

# what they hold is called for every batch that is not empty
AROUND = {
    "tightrope.samplers.torch.CollateWithEmpty": "_collate_fn",
    "opacus.data_loader.CollateFnWithEmpty": "wrapped_collator_fn",
}
STACKING = ("default_collate", "default_convert")  # of torch: they put records side by side


def tell_collate(collate_fn: Any) -> str | None:
    """A note about a function that may mix records; None about those that are known to leave them apart."""
    kind = kind_of(collate_fn)
    if kind in AROUND:
        return tell_collate(getattr(collate_fn, AROUND[kind]))
    torch_data = sys.modules.get("torch.utils.data")
    if collate_fn is None or any(collate_fn is getattr(torch_data, name, ()) for name in STACKING):
        return None
    name = getattr(collate_fn, "__qualname__", "").split(".")[-1] or name_class(collate_fn)
    return (
        f"Cannot be seen: whether the collate_fn, {name}, mixes records, as mixup and cutmix do. Then a "
        "record moves more gradients than its own, and what is clipped is not its share."
    )
