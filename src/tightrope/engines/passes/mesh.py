"""How fine the lattices of a pass are, by the accuracy that is asked for."""

import math
from dataclasses import dataclass

USUAL_ACCURACY = 1e-3
FINEST, COARSEST = 4.0, 0.5


@dataclass(frozen=True)
class Mesh:
    """How many times finer than usual; the gap between both sides of a pass shrinks with its square."""

    fineness: float = 1.0

    @classmethod
    def of(cls, accuracy: float) -> "Mesh":
        """For a width of this much relative to delta, in steps of sqrt(2), within what takes seconds.

        >>> Mesh.of(1e-3), Mesh.of(0.9e-3), Mesh.of(2.5e-4)
        (Mesh(fineness=1.0), Mesh(fineness=1.0), Mesh(fineness=2.0))
        """
        steps = round(math.log2(USUAL_ACCURACY / accuracy))
        return cls(min(max(2.0 ** (steps / 2), COARSEST), FINEST))

    def scale(self, count: float) -> int:
        """So many, of those that finer lattices need more of."""
        return math.ceil(count * self.fineness)


USUAL = Mesh()
