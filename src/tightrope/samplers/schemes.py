"""The two schemes: batches that each record joins by its own coin, and batches of a fixed size."""

from fractions import Fraction
from typing import final

from tightrope.samplers.draws import Indices, poisson_batch, without_replacement_batch
from tightrope.samplers.entropy import ByteSource
from tightrope.samplers.sampler import Sampler
from tightrope.setting.sampling import Poisson, WithoutReplacement


@final
class PoissonSampler(Sampler):
    """Each of `records` joins each batch independently with probability exactly `rate`; a batch may be empty.

    `steps` is the number of batches in one pass and `drawn` the number handed out before, by a run to resume.
    Without a seed every bit comes from the operating system. With one, batch t is a pure function of the seed
    and t, by a generator that is no cipher: anyone who knows the seed knows the batches, and amplification
    is void. For a release leave it out, or keep a `fresh_seed()` secret and use it for one run only.

    >>> from tightrope import Gaussian
    >>> sampler = PoissonSampler(records=1000, rate=0.01, steps=100)
    >>> batches = list(sampler)
    >>> sampler.run(Gaussian(noise_multiplier=0.8))
    Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.01)) * 100
    """

    def __init__(
        self, *, records: int, rate: float | Fraction, steps: int, seed: int | None = None, drawn: int = 0
    ) -> None:
        super().__init__(records=records, steps=steps, seed=seed, drawn=drawn)
        self._sampling = Poisson(rate=rate)

    @property
    def sampling(self) -> Poisson:
        """The value the accountant takes; its exact rate is the rate of the draw."""
        return self._sampling

    @property
    def expected_batch(self) -> float:
        """rate * records: divide the noisy sum of gradients by it, whatever the size of the batch drawn."""
        return float(self._sampling.exact_rate * self.records)

    def _draw(self, source: ByteSource) -> Indices:
        return poisson_batch(records=self.records, rate=self._sampling.exact_rate, draw=source)


@final
class WithoutReplacementSampler(Sampler):
    """Exactly `batch` of `records` per batch, a fresh uniform subset each step: not a shuffle that is cut.

    The other arguments are those of `PoissonSampler`.

    >>> sampler = WithoutReplacementSampler(records=1000, batch=50, steps=20)
    >>> sampler.sampling, [len(batch) for batch in sampler] == 20 * [50]
    (WithoutReplacement(batch=50, population=1000), True)
    """

    def __init__(
        self, *, records: int, batch: int, steps: int, seed: int | None = None, drawn: int = 0
    ) -> None:
        super().__init__(records=records, steps=steps, seed=seed, drawn=drawn)
        self._sampling = WithoutReplacement(batch=batch, population=self.records)

    @property
    def sampling(self) -> WithoutReplacement:
        """The value the accountant takes: `batch` out of `population` records."""
        return self._sampling

    @property
    def expected_batch(self) -> float:
        """The batch size: the number to divide the noisy sum of gradients by, on every rank."""
        return self._sampling.batch

    def _draw(self, source: ByteSource) -> Indices:
        return without_replacement_batch(records=self.records, batch=self._sampling.batch, draw=source)
