"""What is proved about epsilon for the batches that are really drawn, also where the table of theorems has no row for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tightrope.answers.certified import DEFAULT_ACCURACY
from tightrope.answers.spend import epsilon
from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.largest_sum import Epochs
from tightrope.curve.bracket import Bracket
from tightrope.errors import NoTheorem, NotPreciseEnough
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.other_batchings import LARGEST_SUM, REVEALED_BATCHES, SPLIT_NOISE

RARELY = 1e-3  # share of delta given to records that come more often than is counted


@dataclass(frozen=True, kw_only=True)
class Proven:
    """epsilon at one delta for what is really run: `upper` is infinite where nothing is proved, and `why_not` says why."""

    epsilon: Bracket
    because: tuple[Evidence, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class _Question:
    """One run, the batches it really drew, and what is asked."""

    run: Run
    finding: Finding
    delta: float
    relation: Relation
    accuracy: float

    @property
    def epochs(self) -> int:
        """Epochs begun: the most often that a record came, if it comes once per epoch."""
        return -(-self.run.steps // self.finding.epoch) if self.finding.epoch else 0

    @property
    def directions(self) -> Sequence[Relation]:
        """From which of two neighbours one may look."""
        return (ADD, REMOVE) if self.relation is SUBSTITUTE else self.relation.branches

    def asked(self, run: Run, relation: Relation | None = None) -> Bracket:
        """What the table of theorems says about a run that bounds this one."""
        return epsilon(run, delta=self.delta, relation=relation or self.relation, accuracy=self.accuracy)


def proven(run: Run, finding: Finding, *, delta: float, relation: Relation, accuracy: float = DEFAULT_ACCURACY) -> Proven:
    """What is proved about `run`'s epsilon if its batches are drawn as found: both ends, with the theorems, or why not.

    The run states mechanism and steps; how it says that batches are drawn is not believed.
    """
    question = _Question(run, finding, delta, relation, accuracy)
    try:
        if finding.sampling is not None:
            truly = Run(tuple((Step(step.mechanism, finding.sampling), times) for step, times in run))
            return Proven(epsilon=question.asked(truly))
        return _BOUNDS.get(finding.scheme, _nothing)(question)
    except (NoTheorem, NotPreciseEnough) as refusal:
        return Proven(epsilon=Bracket(0.0, math.inf), why_not=str(refusal))


def _nothing(question: _Question) -> Proven:
    return _unproven("nothing is known of how its batches are drawn")


def _unproven(why_not: str, lower: float = 0.0) -> Proven:
    because = (LARGEST_SUM,) if lower else ()
    return Proven(epsilon=Bracket(lower, math.inf), because=because, why_not=why_not)


def _shuffled(question: _Question) -> Proven:
    lower = _shuffle_witness(question)
    once = question.finding.times == 1
    if question.relation is SUBSTITUTE:
        upper = question.asked(_hardest(question.run, question.epochs * question.finding.times)).upper
    elif not once:
        return _unproven("under ADD and REMOVE a loader that pads its epochs with repeated records has no theorem", lower)
    elif not _equally_many_batches(question.finding):
        return _unproven(_ANOTHER_COUNT, lower)
    else:
        hardest = _hardest(question.run, question.epochs)
        upper = question.asked(_full_batches(hardest, moves=2) + hardest).upper
    return _between(lower, upper)


def _balls_in_bins(question: _Question) -> Proven:
    noise, finding = _largest_noise(question.run), question.finding
    lower = 0.0
    if noise and finding.epoch:
        witness = Epochs(
            epochs=question.run.steps // finding.epoch,
            batches=finding.epoch,
            weight=1.0,
            with_record=1.0,
            without=-1.0 if question.relation is SUBSTITUTE else 0.0,
            noise=noise,
        )
        lower = witness.epsilon(question.delta, directions=question.directions)
    return _between(lower, question.asked(_hardest(question.run, question.epochs)).upper)


def _fixed_partition(question: _Question) -> Proven:
    if question.relation is SUBSTITUTE:
        found = question.asked(_hardest(question.run, question.epochs * question.finding.times))
        # the record of the first batch comes in every epoch begun: with one noise the bound is reached
        lower = found.lower if len(question.run.parts) == 1 and question.finding.times == 1 else 0.0
        return Proven(epsilon=Bracket(lower, found.upper), because=(REVEALED_BATCHES,))
    if not _equally_many_batches(question.finding):
        return _unproven(_ANOTHER_COUNT)
    return _between(0.0, question.asked(_full_batches(question.run, moves=2)).upper)


def _with_replacement(question: _Question) -> Proven:
    finding, run = question.finding, question.run
    if finding.share is None or finding.batch is None:
        return _weighted_once(question)
    if not _all_gaussian(run):
        return _unproven("for records that come several times in a batch only Gaussian noise has a theorem")
    most = _most_squares(finding.batch, finding.share, run.steps, RARELY * question.delta)
    least_noise = min(noise for noise, _ in _noises(run))
    nearer = Gaussian(noise_multiplier=least_noise / (2 * math.sqrt(most)))
    # one full batch that moves by 1 at noise s / (2 sqrt(L)) is the pair 2 sqrt(L) / s apart, whatever the relation was
    bound = epsilon(
        Step(nearer, EveryRecord()), delta=question.delta * (1 - RARELY), relation=ADD_OR_REMOVE, accuracy=question.accuracy
    )
    return _between(0.0, bound.upper)


def _weighted_once(question: _Question) -> Proven:
    if not question.finding.epoch:
        return _unproven("the weights are not known")
    if question.relation is SUBSTITUTE:
        return _between(0.0, question.asked(_hardest(question.run, question.epochs)).upper)
    return _between(0.0, question.asked(_full_batches(question.run, moves=2)).upper)


def _several_draws(question: _Question) -> Proven:
    draws, rate = question.finding.draws, question.finding.rate
    if not draws or rate is None:
        return _unproven("how many draws make one step is not known")
    if not _all_gaussian(question.run):
        return _unproven("noise that is shared between several draws has a theorem for Gaussian noise only")
    split = Run(
        tuple(
            (Step(Gaussian(noise_multiplier=noise / math.sqrt(draws)), Poisson(rate=rate)), times * draws)
            for noise, times in _noises(question.run)
        )
    )
    return Proven(epsilon=Bracket(0.0, question.asked(split).upper), because=(SPLIT_NOISE,))


_BOUNDS: dict[Scheme, Callable[[_Question], Proven]] = {
    Scheme.SHUFFLE: _shuffled,
    Scheme.BALLS_IN_BINS: _balls_in_bins,
    Scheme.FIXED_PARTITION: _fixed_partition,
    Scheme.WITH_REPLACEMENT: _with_replacement,
    Scheme.WEIGHTED: _with_replacement,
    Scheme.SEVERAL_DRAWS: _several_draws,
}
_ANOTHER_COUNT = (
    "one record fewer, and an epoch has another number of batches: neighbours can be told apart by counting. "
    "SUBSTITUTE has a bound; so has a dataset of another size"
)


def _between(lower: float, upper: float) -> Proven:
    because = (LARGEST_SUM,) * bool(lower) + (REVEALED_BATCHES,)
    return Proven(epsilon=Bracket(min(lower, upper), upper), because=because)


def _shuffle_witness(question: _Question) -> float:
    """What the largest sum of the full batches of each whole epoch tells; 0 where the noise is not Gaussian."""
    noise, finding = _largest_noise(question.run), question.finding
    if not (noise and finding.batch and finding.epoch and finding.records) or finding.times != 1:
        return 0.0
    shared = finding.records if question.relation is SUBSTITUTE else finding.records - 1
    whole_epochs = question.run.steps // finding.epoch
    seen = min(shared // finding.batch, finding.epoch, question.run.steps)
    if not seen:
        return 0.0
    witness = Epochs(
        epochs=max(whole_epochs, 1) if finding.reshuffles else 1,  # epochs that share one order are not independent
        batches=seen,
        weight=seen * finding.batch / finding.records,
        with_record=2.0,
        without=0.0,
        noise=noise,
    )
    return witness.epsilon(question.delta, directions=question.directions)


def _equally_many_batches(finding: Finding) -> bool:
    """Whether one record fewer leaves the number of batches per epoch as it is."""
    records, batch, epoch = finding.records, finding.batch, finding.epoch
    if records is None or batch is None or epoch is None or records < 2:
        return False
    if (epoch + 1) * batch <= records:  # an epoch is a part of a random order, of a size that is set
        return True
    if finding.drops_last is None:  # either could be: both must agree
        return -(-records // batch) == -(-(records - 1) // batch) and records // batch == (records - 1) // batch
    if finding.drops_last:
        return records // batch == (records - 1) // batch
    return -(-records // batch) == -(-(records - 1) // batch)


def _most_squares(batch: int, share: float, steps: int, beta: float) -> int:
    """L such that the squares of `steps` counts, Binomial(batch, share) each, exceed L in sum with probability at most beta.

    Chernoff: P(sum > L) <= E[e^{theta c^2}]^steps e^{-theta L} for every theta > 0.
    """
    counts = np.arange(batch + 1)
    if share >= 1:
        return batch * batch * steps
    log_masses = gammaln(batch + 1) - gammaln(counts + 1) - gammaln(batch - counts + 1)
    log_masses += counts * math.log(share) + (batch - counts) * math.log1p(-share)
    best = float(batch) ** 2 * steps
    for theta in np.geomspace(1e-6, 30, 300):
        exponents = log_masses + theta * counts.astype(float) ** 2
        top = exponents.max()
        log_moment = top + math.log(np.exp(exponents - top).sum())
        best = min(best, (steps * log_moment - math.log(beta)) / theta * (1 + 1e-9))
    return max(math.floor(best), 1)


def _noises(run: Run) -> list[tuple[float, int]]:
    """Noise multipliers with how many steps have them, smallest first."""
    return sorted((mechanism.noise_multiplier, times) for mechanism, times in _additive(run))


def _additive(run: Run) -> list[tuple[Gaussian | Laplace, int]]:
    parts = [(step.mechanism, times) for step, times in run if isinstance(step.mechanism, Gaussian | Laplace)]
    if len(parts) < len(run.parts) or len({type(mechanism) for mechanism, _ in parts}) > 1:
        raise NoTheorem("Batches of this kind are bounded for Gaussian or for Laplace noise, not for others and not for both.")
    return parts


def _largest_noise(run: Run) -> float:
    return max(noise for noise, _ in _noises(run)) if run and _all_gaussian(run) else 0.0


def _all_gaussian(run: Run) -> bool:
    return all(isinstance(step.mechanism, Gaussian) for step, _ in run)


def _full_batches(run: Run, *, moves: int = 1) -> Run:
    """Full batches whose sums move so many times as far: the same as noise that is so much smaller."""
    return Run(
        tuple(
            (Step(type(mechanism)(noise_multiplier=mechanism.noise_multiplier / moves), EveryRecord()), times)
            for mechanism, times in _additive(run)
        )
    )


def _hardest(run: Run, count: int) -> Run:
    """The `count` steps of smallest noise."""
    parts, left = [], count
    for mechanism, times in sorted(_additive(run), key=lambda part: part[0].noise_multiplier):
        parts.append((Step(mechanism, EveryRecord()), min(times, left)))
        left -= min(times, left)
    return Run(tuple(parts))
