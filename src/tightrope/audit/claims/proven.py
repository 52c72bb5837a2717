"""What is proved about epsilon for the batches that are really drawn, also where the table of theorems has no row for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tightrope.accountants.certified import Certified
from tightrope.answers.spend import BY_DEFAULT, epsilon, privacy_curve
from tightrope.audit.claims.largest_sum import Epochs
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting, NoTheorem, NotPreciseEnough
from tightrope.numerics import check
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling
from tightrope.theorems.evidence import Evidence
from tightrope.theorems.other_batchings import LARGEST_SUM, REVEALED_BATCHES, SPLIT_NOISE

RARELY = 1e-3  # share of delta given to records that come more often than is counted
ROUNDED_DOWN = 1 - 2**-50  # root, quotient and products each round by at most 2^-53


@dataclass(frozen=True, kw_only=True)
class Proven:
    """epsilon at one delta for what is really run: `upper` is infinite where nothing is proved, and `why_not` says why.

    `provided` is what the bound takes for granted and nobody looked at; empty where it rests on theorems and the finding alone.
    """

    epsilon: Bracket
    because: tuple[Evidence, ...] = ()
    provided: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class _Question:
    """One run, the batches it really drew, and what is asked."""

    run: Run
    finding: Finding
    delta: float
    relation: Relation
    by: Certified
    starts: int

    @property
    def directions(self) -> Sequence[Relation]:
        """From which of two neighbours one may look."""
        return (ADD, REMOVE) if self.relation is SUBSTITUTE else self.relation.branches

    @property
    def visits(self) -> int:
        """The most often that a record came in the run, if it comes so often per epoch.

        A run begins with a pass over its loader. Where batches were watched, nobody knows where in an epoch it began.
        """
        epoch, steps = self._epoch, self.run.steps
        begun = -(-steps // epoch) if self.finding.how is How.INSPECTED else 1 + -(-(steps - 1) // epoch)
        return (begun + self.starts - 1) * self.finding.times  # each further start may cut one epoch in two

    @property
    def whole_epochs(self) -> int:
        """How many epochs the run holds for certain, each with an order of its own; 1 where orders may be the same."""
        epoch, steps = self._epoch, self.run.steps
        whole = steps // epoch if self.finding.how is How.INSPECTED else max(steps - epoch + 1, 0) // epoch
        whole = max(whole - (self.starts - 1), 0)
        return whole if self.finding.reshuffles else min(whole, 1)

    @property
    def _epoch(self) -> int:
        if self.finding.epoch is None:
            raise NoTheorem("how many batches make an epoch is not known")
        return self.finding.epoch

    def asked(self, run: Run, relation: Relation | None = None) -> Bracket:
        """What the table of theorems says about a run that bounds this one."""
        return epsilon(
            run,
            delta=self.delta,
            relation=relation or self.relation,
            by=self.by,
        )


def proven(
    run: Run,
    finding: Finding,
    *,
    delta: float,
    relation: Relation,
    by: Certified = BY_DEFAULT,
    starts: int = 1,
) -> Proven:
    """What is proved about `run`'s epsilon if its batches are drawn as found: both ends, with the theorems, or why not.

    The run states mechanism and steps; how it says that batches are drawn is not believed. `starts` is how often training began
    with a new pass over the loader: more than once where it was interrupted and resumed.
    """
    check.open_probability(delta=delta)
    question = _Question(run, finding, delta, relation, by, check.whole(least=1, starts=starts))
    try:
        if finding.sampling is not None:
            return _sampled(question, finding.sampling)
        return _BOUNDS.get(finding.scheme, _nothing)(question)
    except (
        NoTheorem,
        NotPreciseEnough,
        InvalidSetting,
    ) as refusal:  # noise so small that half of it is no setting
        return _unproven(str(refusal))


def split_noise(noise_multiplier: float, draws: int) -> float:
    """The noise of each of `draws` steps that together bound one step over as many draws: s / sqrt(draws), rounded down.

    >>> split_noise(1.5, 1), split_noise(2.0, 4) <= 1.0
    (1.5, True)
    """
    return noise_multiplier if draws == 1 else noise_multiplier / math.sqrt(draws) * ROUNDED_DOWN


def drawn_by(run: Run, sampling: Sampling) -> Run:
    """The same mechanisms on batches drawn in another way."""
    return Run(tuple((Step(step.mechanism, sampling), times) for step, times in run))


def _sampled(question: _Question, sampling: Sampling) -> Proven:
    watched = question.finding.how is How.WATCHED
    ends = tuple(Poisson(rate=rate) for rate in question.finding.rate_range or ()) or (sampling,)
    curves = [
        privacy_curve(
            drawn_by(question.run, drawn),
            relation=question.relation,
            by=question.by,
        )
        for drawn in ends
    ]
    low, high = curves[0].epsilon(question.delta).lower, curves[-1].epsilon(question.delta).upper
    return Proven(
        epsilon=Bracket(low, high),
        because=tuple(one for one in curves[-1].because if isinstance(one, Evidence)),
        provided="all batches are drawn like those that were watched" if watched else "",
    )


def _nothing(question: _Question) -> Proven:
    return _unproven("nothing is known of how its batches are drawn")


def _unproven(why_not: str, lower: float = 0.0) -> Proven:
    because = (LARGEST_SUM,) if lower else ()
    return Proven(epsilon=Bracket(lower, math.inf), because=because, why_not=why_not)


def _shuffled(question: _Question) -> Proven:
    lower = _shuffle_witness(question)
    hardest = _hardest(question.run, question.visits)
    if question.relation is SUBSTITUTE:
        return _between(question, lower, question.asked(hardest).upper)
    if not question.finding.removal_changes_one_slot:
        return _unproven(_another_cut(question), lower)
    return _between(question, lower, question.asked(_full_batches(hardest, moves=2) + hardest).upper)


def _balls_in_bins(question: _Question) -> Proven:
    noise, finding = _largest_noise(question.run), question.finding
    upper = question.asked(_hardest(question.run, question.visits)).upper
    if not (noise and finding.epoch):
        return _between(question, 0.0, upper)
    witness = Epochs(
        epochs=question.whole_epochs,
        batches=finding.epoch,
        weight=1.0,
        with_record=1.0,
        without=-1.0 if question.relation is SUBSTITUTE else 0.0,
        noise=noise,
    )
    return _between(question, witness.epsilon(question.delta, directions=question.directions), upper)


def _fixed_partition(question: _Question) -> Proven:
    finding, run = question.finding, question.run
    if question.relation is SUBSTITUTE:
        once = finding.times == 1
        # wherever the run begins, the records of one batch come in ceil(steps / epoch) steps, and none comes in more
        uncut = once and question.starts == 1
        visits = -(-run.steps // finding.epoch) if uncut and finding.epoch else question.visits
        found = question.asked(_hardest(run, visits))
        return _between(question, found.lower if uncut and len(run.parts) == 1 else 0.0, found.upper, of=())
    if not finding.removal_changes_one_slot:
        return _unproven(_another_cut(question))
    return _between(question, 0.0, question.asked(_full_batches(run, moves=2)).upper)


def _one_by_one(question: _Question) -> Proven:
    finding, run = question.finding, question.run
    if question.relation is not SUBSTITUTE and not finding.removal_changes_one_slot:
        return _unproven(_another_cut(question))
    if not finding.share or finding.batch is None:
        if finding.scheme is Scheme.WITH_REPLACEMENT or not finding.epoch:
            return _unproven("the weights are not known")
        visits = (
            _hardest(run, question.visits) if question.relation is SUBSTITUTE else _full_batches(run, moves=2)
        )
        return _between(question, 0.0, question.asked(visits).upper)
    if not _all_gaussian(run):
        return _unproven("for records that come several times in a batch only Gaussian noise has a theorem")
    most = _most_squares(finding.batch, finding.share, run.steps, RARELY * question.delta)
    least_noise = min(noise for noise, _ in _noises(run))
    nearer = Gaussian(noise_multiplier=least_noise / (2 * math.sqrt(most)) * ROUNDED_DOWN)
    # one full batch that moves by 1 at noise s / (2 sqrt(L)) is the pair 2 sqrt(L) / s apart, whatever the relation was
    bound = epsilon(
        Step(nearer, EveryRecord()),
        delta=question.delta * (1 - RARELY) * ROUNDED_DOWN,
        relation=ADD_OR_REMOVE,
        by=question.by,
    )
    return _between(question, 0.0, bound.upper)


def _several_draws(question: _Question) -> Proven:
    draws, rate = question.finding.draws, question.finding.rate
    if not draws or rate is None:
        return _unproven("how many draws make one step is not known")
    if not _all_gaussian(question.run):
        return _unproven("noise that is shared between several draws has a theorem for Gaussian noise only")
    split = Run(
        tuple(
            (Step(Gaussian(noise_multiplier=split_noise(noise, draws)), Poisson(rate=rate)), times * draws)
            for noise, times in _noises(question.run)
        )
    )
    return Proven(epsilon=Bracket(0.0, question.asked(split).upper), because=(SPLIT_NOISE,))


_BOUNDS: dict[Scheme, Callable[[_Question], Proven]] = {
    Scheme.SHUFFLE: _shuffled,
    Scheme.BALLS_IN_BINS: _balls_in_bins,
    Scheme.FIXED_PARTITION: _fixed_partition,
    Scheme.WITH_REPLACEMENT: _one_by_one,
    Scheme.WEIGHTED: _one_by_one,
    Scheme.SEVERAL_DRAWS: _several_draws,
}


def _between(
    question: _Question, lower: float, upper: float, of: tuple[Evidence, ...] = (LARGEST_SUM,)
) -> Proven:
    finding = question.finding
    assumed = []
    if finding.epoch is not None:
        assumed.append("every pass over the loader is run to its end")
    if finding.scheme is Scheme.WEIGHTED:
        assumed.append("the weights do not depend on the records")
    if finding.how is How.WATCHED:
        assumed.append("the order does not depend on what the records hold")
    because = of * bool(lower) + (REVEALED_BATCHES,)
    return Proven(epsilon=Bracket(lower, upper), because=because, provided=" and ".join(assumed))


def _another_cut(question: _Question) -> str:
    if question.finding.how is How.WATCHED:
        return (
            "batches do not tell how a dataset of one record fewer would be cut, so only SUBSTITUTE has a bound; "
            "inspect_loader may know"
        )
    return "with one record fewer this loader would change more than one place of an epoch. SUBSTITUTE has a bound"


def _shuffle_witness(question: _Question) -> float:
    """What the largest sum of the full batches of each whole epoch tells; 0 where the noise is not Gaussian."""
    noise, finding = _largest_noise(question.run), question.finding
    if not (noise and finding.batch and finding.full and finding.records) or finding.times != 1:
        return 0.0
    if finding.full * finding.batch > finding.records or finding.full > (finding.epoch or 0):
        return 0.0  # numbers that somebody declared and that cannot be: no dataset reaches anything with them
    # one record fewer leaves the first batches full, but perhaps not the last of them
    shrinks = question.relation is not SUBSTITUTE and finding.full * finding.batch > finding.records - 1
    seen = finding.full - shrinks
    begun = (
        finding.how is How.INSPECTED and question.starts == 1 and question.run.steps < (finding.epoch or 0)
    )  # an epoch, from its first batch on
    if begun:
        seen = min(seen, question.run.steps)
    witness = Epochs(
        epochs=1 if begun else question.whole_epochs,
        batches=seen,
        weight=seen * finding.batch / finding.records,
        with_record=2.0,
        without=0.0,
        noise=noise,
    )
    return witness.epsilon(question.delta, directions=question.directions)


def _most_squares(batch: int, share: float, steps: int, beta: float) -> int:
    """L such that the squares of `steps` counts, Binomial(batch, share) each, exceed L in sum with probability at most beta.

    Chernoff: P(sum > L) <= E[e^{theta c^2}]^steps e^{-theta L} for every theta > 0.
    """
    counts = np.arange(batch + 1)
    if share >= 1:
        return batch * batch * steps
    log_masses = gammaln(batch + 1) - gammaln(counts + 1) - gammaln(batch - counts + 1)
    log_masses += counts * math.log(share) + (batch - counts) * math.log1p(-share)
    rounding = 2.0**-50 * float(
        gammaln(batch + 1) + 1
    )  # of each exponent, which the number of steps magnifies
    best = float(batch) ** 2 * steps
    for theta in np.geomspace(1e-6, 30, 300):
        exponents = log_masses + theta * counts.astype(float) ** 2
        top = exponents.max()
        log_moment = top + math.log(np.exp(exponents - top).sum()) + rounding
        best = min(best, (steps * log_moment - math.log(beta)) / theta * (1 + 1e-9))
    return max(math.floor(best), 1)


def _noises(run: Run) -> list[tuple[float, int]]:
    """Noise multipliers with how many steps have them, smallest first."""
    return sorted((mechanism.noise_multiplier, times) for mechanism, times in _additive(run))


def _additive(run: Run) -> list[tuple[Gaussian | Laplace, int]]:
    parts = [(step.mechanism, times) for step, times in run if isinstance(step.mechanism, Gaussian | Laplace)]
    if len(parts) < len(run.parts) or len({type(mechanism) for mechanism, _ in parts}) > 1:
        raise NoTheorem(
            "Batches of this kind are bounded for Gaussian or for Laplace noise, not for others and not for both."
        )
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
