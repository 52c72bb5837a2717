"""Batches that each record joins by its own coin."""

from typing import final

from tightrope.samplers.draws import Indices, poisson_batch
from tightrope.samplers.entropy import ByteSource
from tightrope.samplers.sampler import Sampler
from tightrope.setting.sampling import Poisson


@final
class PoissonSampler(Sampler):
    """Each of `records` joins each batch independently with probability exactly `rate`; a batch may be empty.

    `steps` is the number of batches in one pass and `drawn` the number handed out before, by a run to go on with.
    Without a seed every bit comes from the operating system. With one, batch t is a pure function of the seed and t,
    by a generator that is no cipher: whoever knows the seed knows the batches, and amplification is void. For a
    release leave it out, or keep a `fresh_seed()` secret and use it for one run only.

    >>> from tightrope import Gaussian
    >>> sampler = PoissonSampler(records=1000, rate=0.01, steps=100)
    >>> batches = list(sampler)
    >>> sampler.run(Gaussian(noise_multiplier=0.8))
    Run(100 x Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.01)))
    """

    def __init__(
        self, *, records: int, rate: float, steps: int, seed: int | None = None, drawn: int = 0
    ) -> None:
        super().__init__(records=records, steps=steps, seed=seed, drawn=drawn)
        self._sampling = Poisson(rate=rate)

    @property
    def sampling(self) -> Poisson:
        """The value the accountant takes; its rate is the rate of the draw, to the last bit."""
        return self._sampling

    @property
    def expected_batch(self) -> float:
        """rate * records: the number to divide the noisy sum of gradients by, whatever the size of the batch drawn."""
        return self._sampling.rate * self.records

    @property
    def _scheme(self) -> dict[str, object]:
        return {"kind": "poisson", "records": self.records, "rate": self._sampling.rate}

    def _draw(self, source: ByteSource) -> Indices:
        return poisson_batch(records=self.records, rate=self._sampling.rate, draw=source)
