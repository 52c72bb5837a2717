"""Which pair is played how often."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tightrope.pairs.pair import Pair


@dataclass(frozen=True, init=False)
class Schedule:
    """Pairs with multiplicity; pairs that lose nothing are left out, equal ones merged.

    They are kept in an order of their own, so that runs that do the same steps get the same answer to the last bit.
    """

    parts: tuple[tuple[Pair, int], ...]

    def __init__(self, parts: Iterable[tuple[Pair, int]]) -> None:
        merged: dict[Pair, int] = {}
        for pair, times in parts:
            if times and not pair.is_trivial:
                merged[pair] = merged.get(pair, 0) + times
        parts_in_order = (
            sorted(merged.items(), key=lambda part: part[0].sort_key) if len(merged) > 1 else merged.items()
        )
        object.__setattr__(self, "parts", tuple(parts_in_order))

    def __iter__(self) -> Iterator[tuple[Pair, int]]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    @property
    def steps(self) -> int:
        """How many pairs are played in all."""
        return sum(times for _, times in self.parts)

    @property
    def reverse(self) -> "Schedule":
        """Every pair reversed."""
        return Schedule((pair.reverse, times) for pair, times in self.parts)

    @property
    def loss_range(self) -> tuple[float, float]:
        """The smallest and the largest total loss."""
        low = sum(times * pair.loss_range[0] for pair, times in self.parts)
        high = sum(times * pair.loss_range[1] for pair, times in self.parts)
        return low, high
