"""Batches drawn afresh at each step: each record joins by its own coin, or a batch has a fixed size."""

from fractions import Fraction
from typing import final

from scipy import special

from tightrope.samplers.draws import (
    Indices,
    poisson_batch,
    truncated_poisson_batch,
    without_replacement_batch,
)
from tightrope.samplers.sampler import Sampler
from tightrope.setting.sampling import Poisson, TruncatedPoisson, WithoutReplacement


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

    def _draw(self, number: int) -> Indices:
        return poisson_batch(
            records=self.records, rate=self._sampling.exact_rate, draw=self._bytes_of(number)
        )


@final
class TruncatedPoissonSampler(Sampler):
    """Poisson batches of which a uniformly random subset of `at_most` is kept where more records joined.

    No batch is larger, as accelerators want it. The other arguments are those of `PoissonSampler`.

    >>> sampler = TruncatedPoissonSampler(records=1000, rate=0.05, at_most=60, steps=20)
    >>> sampler.sampling, max(len(batch) for batch in sampler) <= 60
    (TruncatedPoisson(rate=0.05, at_most=60, population=1000), True)
    """

    def __init__(
        self,
        *,
        records: int,
        rate: float | Fraction,
        at_most: int,
        steps: int,
        seed: int | None = None,
        drawn: int = 0,
    ) -> None:
        super().__init__(records=records, steps=steps, seed=seed, drawn=drawn)
        self._sampling = TruncatedPoisson(rate=rate, at_most=at_most, population=self.records)

    @property
    def sampling(self) -> TruncatedPoisson:
        """The value the accountant takes; its population is the number of records."""
        return self._sampling

    @property
    def expected_batch(self) -> float:
        """The mean of the smaller of `at_most` and the number that joins, to float precision.

        min(X, m) has the mean n q P(X' < m - 1) + m P(X >= m), where X' has one record fewer to count.
        """
        n, q, most = self.records, self._sampling.rate, self._sampling.at_most
        if most >= n:
            return float(self._sampling.exact_rate * n)
        larger = float(special.bdtrc(most - 1, n, q))
        fewer = float(special.bdtr(most - 2, n - 1, q)) if most > 1 else 0.0
        return n * q * fewer + most * larger

    @property
    def ample_batch(self) -> int:
        """`at_most`, or less where so many hardly ever join."""
        return min(self._sampling.at_most, super().ample_batch)

    def _draw(self, number: int) -> Indices:
        rate, most = self._sampling.exact_rate, self._sampling.at_most
        source = self._bytes_of(number)
        return truncated_poisson_batch(records=self.records, rate=rate, at_most=most, draw=source)


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
    def ample_batch(self) -> int:
        """The batch size."""
        return self._sampling.batch

    @property
    def expected_batch(self) -> float:
        """The batch size: the number to divide the noisy sum of gradients by, on every rank."""
        return self._sampling.batch

    def _draw(self, number: int) -> Indices:
        source = self._bytes_of(number)
        return without_replacement_batch(records=self.records, batch=self._sampling.batch, draw=source)
