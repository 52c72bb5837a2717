"""The number of records, released privately and biased down, so that no epsilon that uses it is too small."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.spend import epsilon as spend
from tightrope.curve.curve import check_delta
from tightrope.errors import InvalidSetting, TightropeError
from tightrope.extras import advise_install
from tightrope.numerics import check
from tightrope.numerics.text import round_outwards
from tightrope.setting.mechanism import Mechanism, RandomizedResponse
from tightrope.setting.relation import ADD_OR_REMOVE, SUBSTITUTE, Relation, as_relation, need_one_record
from tightrope.setting.run import Step
from tightrope.setting.sampling import EveryRecord, WithoutReplacement
from tightrope.theorems.composition import BIASED_DOWN
from tightrope.theorems.evidence import Evidence

LEAST_EPSILON, MOST_EPSILON = 1e-9, 30.0  # noise of a billion records; noise that nobody would notice
MOST_COUNTED = 10**15  # with any noise it fits into 64 bits
# How much larger than 1 / epsilon the scale of the noise may be: it is rounded up until the noise costs at
# most epsilon. Checked where the noise is added.
_SCALE_REL_ERROR = Fraction(1, 2**50)
_EPSILON = "It is what releasing the size costs: pass for example 0.1."
_BETA = "It is the probability that the estimate is too high, and part of delta: pass for example delta / 10."
_BATCH = "It is how many records every batch holds: pass a whole number of at least 1."


@dataclass(frozen=True, kw_only=True)
class PrivateSize:
    """A released size: the number of records plus two-sided geometric noise minus `shift`, at least 0.

    Its release alone is (`epsilon`, 0)-private under ADD and REMOVE. `estimate` exceeds the true number of
    records with probability at most `beta`. Nobody needs this under SUBSTITUTE, where the size is public, nor
    with Poisson sampling, where only the rate counts.

    >>> size = PrivateSize(estimate=49_870, epsilon=0.1, beta=1e-6, shift=132)
    >>> size.sampling(batch=50)
    WithoutReplacement(batch=50, population=49870)
    """

    estimate: int
    epsilon: float
    beta: float
    shift: int

    def __post_init__(self) -> None:
        check.whole(remedy="It is the size that was released.", estimate=self.estimate)
        check.whole(remedy="It is by how much the estimate was biased down.", shift=self.shift)
        object.__setattr__(self, "epsilon", _check_epsilon(self.epsilon))
        object.__setattr__(self, "beta", _check_beta(self.beta))
        if self.shift < (needed := least_shift(epsilon=self.epsilon, beta=self.beta)):
            must = f"be at least {needed} for {{epsilon={self.epsilon!r}}} and {{beta={self.beta!r}}}"
            remedy = "With less, the estimate exceeds the true size more often than beta says."
            raise InvalidSetting("shift", self.shift, must, remedy)

    @property
    def chance_above(self) -> float:
        """The probability that the noise exceeds `shift`: e^(-epsilon (shift + 1)) / (1 + e^-epsilon)."""
        return _chance_above(self.epsilon, self.shift)

    def sampling(self, batch: int) -> WithoutReplacement:
        """Batches out of `estimate` records: what to account for. Draw the batches from the data itself.

        An estimate of at most `batch` is refused; stopping then is part of the procedure and costs no more.
        """
        size = check.whole(least=1, remedy=_BATCH, batch=batch)
        if self.estimate <= size:
            must = f"be below the private estimate of the size, {self.estimate}"
            remedy = "Take smaller batches with this estimate (another one costs {epsilon} again), or stop."
            raise InvalidSetting("batch", size, must, remedy)
        return WithoutReplacement(batch=size, population=self.estimate)

    def epsilon_with(
        self,
        mechanism: Mechanism,
        *,
        batch: int,
        steps: int,
        delta: float,
        relation: Relation | str = ADD_OR_REMOVE,
        by: Certified = BY_DEFAULT,
    ) -> "WholeEpsilon":
        """What the size and `steps` steps on batches without replacement cost together, at `delta`.

        Except with probability beta the estimate is at most the true size. The cost falls as the size grows,
        so the curve at the estimate bounds the true one. Randomized response on all records dominates the
        release of the size and is composed with the steps. beta is taken off delta.

        >>> import tightrope as tr
        >>> size = PrivateSize(estimate=49_870, epsilon=0.1, beta=1e-7, shift=154)
        >>> print(size.epsilon_with(tr.Gaussian(noise_multiplier=2), batch=50, steps=10_000, delta=1e-6))
        at most 0.63881... (at most 0.66014... if chosen after seeing the estimate)
        """
        if need_one_record(as_relation(relation), "private sizes") is SUBSTITUTE:
            remedy = "Under {SUBSTITUTE} the size is public: account for the true one."
            raise InvalidSetting("relation", relation, "be {ADD}, {REMOVE} or {ADD_OR_REMOVE}", remedy)
        wanted = check_delta(delta)
        if wanted <= self.beta:
            remedy = "beta, the chance that the estimate is too high, is part of delta: release it with less."
            raise InvalidSetting("delta", wanted, f"be above beta, {self.beta!r}", remedy)
        training = Step(mechanism, self.sampling(batch)) * steps
        rest = math.nextafter(wanted - self.beta, 0.0)
        alone = spend(training, delta=rest, relation=relation, by=by).upper
        added = math.nextafter(self.epsilon + alone, math.inf)
        composed = spend(training + self.as_step, delta=rest, relation=relation, by=by).upper
        upper = min(composed, added)
        return WholeEpsilon(upper=upper, chosen_after=added, delta=wanted, because=(BIASED_DOWN,))

    @property
    def as_step(self) -> Step:
        """What dominates the release: randomized response that is true with odds of e^epsilon."""
        from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

        truth = ceil_float(enclose(lambda: 1 / (1 + ball(-self.epsilon).exp())))
        return Step(RandomizedResponse(truth_probability=truth), EveryRecord())


@dataclass(frozen=True, kw_only=True)
class WholeEpsilon:
    """A private size and the steps that use it are together (`upper`, `delta`)-private. It has no lower end.

    `upper` holds if mechanism, batch and steps were fixed before the size was known: planned for this
    estimate and run only if the released one is at least as large, or run in any case, for the outcomes whose
    report is at most `upper`. If they were chosen after seeing the estimate, so that the cost is at most the
    same whatever it is, `chosen_after` holds, which adds the epsilons. See proofs/dataset_size.md, numbers 3,
    4 and 5.
    """

    upper: float
    chosen_after: float
    delta: float
    because: tuple[Evidence, ...] = field(default=(), repr=False)

    def __float__(self) -> float:
        raise TypeError("an upper bound: use .upper, or .chosen_after if the estimate was looked at first")

    def __str__(self) -> str:
        upper, after = round_outwards(self.upper, 9, up=True), round_outwards(self.chosen_after, 9, up=True)
        return f"at most {upper} (at most {after} if chosen after seeing the estimate)"


def private_size(records: int, *, epsilon: float, beta: float, batch: int | None = None) -> PrivateSize:
    """Release the number of records with privacy cost `epsilon`, too high with probability at most `beta`.

    Each call releases anew and costs `epsilon` again: keep what it returns. If `batch` is given, an estimate
    that is not above it is refused at once. The noise is OpenDP's discrete Laplace, from the operating
    system's entropy. It takes no seed, because noise that can be repeated hides nothing.

    >>> size = private_size(60_000, epsilon=0.1, beta=1e-6)
    >>> 59_000 < size.estimate <= 60_000
    True
    """
    count = check.whole(remedy="It is how many records the dataset has.", records=records)
    if count > MOST_COUNTED:
        raise InvalidSetting("records", count, f"be at most {MOST_COUNTED:g}", "Nobody has more records.")
    cost = _check_epsilon(epsilon)
    wrong = _check_beta(beta)
    if batch is not None:
        check.whole(least=1, remedy=_BATCH, batch=batch)
    shift = least_shift(epsilon=cost, beta=wrong)
    estimate = max(0, _add_noise(count, cost) - shift)
    size = PrivateSize(estimate=estimate, epsilon=cost, beta=wrong, shift=shift)
    if batch is not None:
        size.sampling(batch)
    return size


def least_shift(*, epsilon: float, beta: float) -> int:
    """The smallest shift >= 0 that two-sided geometric noise exceeds with probability at most `beta`.

    >>> least_shift(epsilon=0.1, beta=0.05)
    23
    """
    cost = _check_epsilon(epsilon)
    wrong = _check_beta(beta)
    about = math.ceil((-math.log(wrong) - math.log1p(math.exp(-cost))) / cost)
    shift = max(0, about - 3)  # a float of this size is right to far less than 1
    while not _chance_above(cost, shift) <= wrong:
        shift += 1
    return shift


def _chance_above(epsilon: float, shift: int) -> float:
    """P(Z > shift), rounded up, where P(Z = z) is proportional to e^(-r |z|) and shift >= 0.

    It falls in r, which is the inverse of the scale: at least epsilon / (1 + `_SCALE_REL_ERROR`).
    """
    from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

    least = Fraction(epsilon) / (1 + _SCALE_REL_ERROR)
    return ceil_float(enclose(lambda: ball(-least * (shift + 1)).exp() / (1 + ball(-least).exp())))


def _check_epsilon(epsilon: object) -> float:
    check.positive(remedy=_EPSILON, epsilon=epsilon)
    value = check.exact_float(remedy=_EPSILON, epsilon=epsilon)
    if not LEAST_EPSILON <= value <= MOST_EPSILON:
        raise InvalidSetting("epsilon", epsilon, f"be from {LEAST_EPSILON:g} to {MOST_EPSILON:g}", _EPSILON)
    return value


def _check_beta(beta: object) -> float:
    check.open_probability(remedy=_BETA, beta=beta)
    return check.exact_float(remedy=_BETA, beta=beta)


def _add_noise(count: int, epsilon: float) -> int:
    """The count with noise, by a measurement of OpenDP whose own privacy map says at most `epsilon`."""
    try:
        import opendp.prelude as dp
        from opendp.mod import GLOBAL_FEATURES
    except ModuleNotFoundError:
        what = "private_size needs OpenDP, which is not installed"
        raise TightropeError(what, advise_install("opendp")) from None
    # OpenDP wants its contributed parts allowed, and only for the whole process: allow them while it takes
    allowed = "contrib" in GLOBAL_FEATURES
    dp.enable_features("contrib")
    try:
        space, scale = (dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")), 1 / epsilon
        measurement = dp.m.make_laplace(*space, scale=scale)
        # the map has no types; it says more than epsilon if 1 / epsilon was rounded down
        while measurement.map(1) > epsilon:  # type: ignore[no-untyped-call, unused-ignore]
            scale = math.nextafter(scale, math.inf)
            measurement = dp.m.make_laplace(*space, scale=scale)
        if Fraction(scale) * Fraction(epsilon) > 1 + _SCALE_REL_ERROR:
            raise ArithmeticError(f"noise that costs {epsilon!r} should not need a scale of {scale!r}")
        return int(measurement(count))
    finally:
        if not allowed:
            dp.disable_features("contrib")
