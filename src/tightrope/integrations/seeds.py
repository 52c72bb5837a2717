"""The randomness behind the batches of one accountant, none of which may be used twice."""

from typing import Any

from tightrope.errors import Described, InvalidSetting
from tightrope.samplers.sampler import Passes, Share


class UsedSeeds:
    """Which samplers drew for one accountant, and how the passes over its loaders opened.

    Two samplers with one seed draw the same batches, or related ones. An accountant adds steps up as if each
    batch were drawn afresh: the cost of two related ones is larger.

    >>> from tightrope.samplers import PoissonSampler
    >>> used = UsedSeeds()
    >>> used.claim(PoissonSampler(records=100, rate=0.1, steps=5, seed=7))
    >>> used.claim(PoissonSampler(records=100, rate=0.2, steps=5, seed=7))
    Traceback (most recent call last):
        ...
    tightrope.errors.InvalidSetting: seed must be another one for each sampler of a training, got that of an \
earlier sampler. Batches of one seed are not independent. Pass the earlier sampler, which goes on with new \
batches, or a seed of its own: fresh_seed().
    """

    def __init__(self) -> None:
        self.openings: set[int] = set()
        self._samplers: dict[str, Passes] = {}

    def claim(self, sampler: Passes) -> None:
        """Refuse a sampler that has the seed of another one; the same one again goes on with new batches."""
        whole = sampler.sampler if isinstance(sampler, Share) else sampler
        seed = whole.fingerprint().seed
        if seed and self._samplers.setdefault(seed, whole) is not whole:
            remedy = (
                "Batches of one seed are not independent. Pass the earlier sampler, which goes on with new "
                "batches, or a seed of its own: fresh_seed()."
            )
            got = Described("that of an earlier sampler")
            raise InvalidSetting("seed", got, "be another one for each sampler of a training", remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return UsedSeeds, ()  # a seed is a secret, and a copy of an accountant draws by itself
