"""The items of the paper, each made quickly once for all tests that look at it, in one process."""

import atexit
import csv
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from reproduction.paper.item import Item, Made, Making, load_items

ITEMS = {item.name: item for item in load_items()}


@dataclass(frozen=True)
class QuickItem:
    """What a quick making made, and what it told meanwhile."""

    made: Made
    told: list[tuple[str, int, int]]

    def rows(self, name: str) -> list[dict[str, str]]:
        (path,) = (file for file in self.made.files if file.name == name)
        with path.open(newline="") as file:
            return list(csv.DictReader(file))


def make_quickly(item: Item, folder: Path) -> QuickItem:
    told: list[tuple[str, int, int]] = []
    return QuickItem(item.make(Making(folder, True, lambda *words: told.append(words))), told)


@cache
def quick(name: str) -> QuickItem:
    """The item of this name; its files are gone when Python ends."""
    folder = tempfile.mkdtemp(prefix="tightrope-paper-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_quickly(ITEMS[name], Path(folder))
