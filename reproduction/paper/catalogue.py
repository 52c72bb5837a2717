"""Everything in the paper that has a number in it, in the order of the paper."""

from importlib import import_module

from reproduction.paper.item import Item

_MODULES = (
    "figure_1",
    "randomized_response",
    "figure_2",
    "table_1",
    "figure_3",
    "figure_4",
    "conjecture_12",
    "closing_conjecture",
    "dataset_size",
)


def items() -> tuple[Item, ...]:
    """One item per module, which calls it ITEM."""
    found = [import_module(f"reproduction.paper.{name}").ITEM for name in _MODULES]
    assert all(isinstance(item, Item) for item in found)
    return tuple(found)
