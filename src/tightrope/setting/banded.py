"""Banded noise and groups that take turns: the run that accounts for them."""

from fractions import Fraction

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.run import Run, Step, check_steps
from tightrope.setting.sampling import Poisson, TruncatedPoisson


class BandedRun(Run):
    """A run that stands for banded noise: what it bounds is one record, which is in one of the turns."""

    is_about_one_record = True


def banded_run(
    *, noise_multiplier: float | Fraction, sampling: Poisson | TruncatedPoisson, bands: int, steps: int
) -> Run:
    """The run that bounds `steps` releases with banded noise, whose batches come from groups in turn.

    Each record is in one of `bands` groups, chosen for it alone before the run, and step i draws its batch
    from group i mod `bands`. `sampling` is that of one group: its rate is the chance that a record of the
    group whose turn it is joins, so batches are smaller than at the same rate by a factor of `bands`, and the
    population of a truncated one is the size of the largest group. The noise is correlated by a lower
    triangular strategy matrix of that many bands; `noise_multiplier` is its standard deviation per clipping
    norm and per largest column norm. A record takes part in every `bands`-th step, and different ones of
    these share no noise: proofs/banded_cyclic.md. That is about one record: those of one user in different
    groups share noise, so the run is refused under relations of several records.

    >>> banded_run(noise_multiplier=1.5, sampling=Poisson(rate=0.02), bands=16, steps=2000)
    Step(Gaussian(noise_multiplier=1.5), Poisson(rate=0.02)) * 125
    """
    remedy = "It is the number of bands of the strategy matrix, and of groups; 1 is independent noise."
    turns = check.whole(least=1, remedy=remedy, bands=bands)
    count = check_steps(steps, remedy="It is how many releases there are in all.")
    if not isinstance(sampling, Poisson | TruncatedPoisson):
        must = "be {Poisson} or {TruncatedPoisson}"
        raise InvalidSetting("sampling", sampling, must, "It is how one group's batch is drawn.")
    step = Step(Gaussian(noise_multiplier=noise_multiplier), sampling)
    return BandedRun(((step, -(-count // turns)),)) if turns > 1 else step * count
