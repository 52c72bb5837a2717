"""A search: the same run several times, of which the best is published."""

from dataclasses import dataclass

from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.trials import TrialLaw, as_trials

SEARCHED = (
    "each run draws its candidate anew, their number is drawn as stated, both without the data, and only the "
    "best run is published, chosen by what runs release with ties broken at random, and not how many there "
    "were"
)  # which a run cannot show


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """`run` as often as `trials` says, and the run of the best score published. `tuned` makes it.

    >>> import tightrope as tr
    >>> search = tr.tuned(tr.Step(tr.Gaussian(noise_multiplier=2), tr.EveryRecord()), trials="geometric:20")
    >>> isinstance(search, tr.Tuned), search.run.steps, str(search.trials)
    (True, 1, 'geometric:20')
    """

    run: Run
    trials: TrialLaw

    def __repr__(self) -> str:
        return f"tuned({self.run!r}, trials={str(self.trials)!r})"


def tuned(run: Run | Step, *, trials: TrialLaw | str | int) -> Tuned:
    """The best of several runs, a question like a run.

    Each run draws its candidate (its hyper-parameters) anew from one law that does not depend on the data,
    and `trials` is the law of how many runs there are: `GeometricTrials(mean=20)`,
    `NegativeBinomialTrials(eta=0.5, mean=20)`, `LogarithmicTrials(mean=20)`, `PoissonTrials(mean=20)` or a
    text like "geometric:20". A whole number is one that is fixed: those runs are composed.
    No game is played for a search, whatever the effort.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> search = tr.tuned(run, trials="geometric:20")
    >>> search
    tuned(Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001)) * 10000, trials='geometric:20')
    """
    return Tuned(run=as_run(run), trials=as_trials(trials))
