"""From a target (epsilon, delta) to the noise, the steps or the rate that just meets it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.frontier import Frontier, V
from tightrope.answers.search import (
    CLOSE,
    Trials,
    improve_start,
    narrow,
    search_a_gap,
)
from tightrope.answers.target import NOTHING, Target
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import Infeasible, InvalidSetting, NoSuchValue, NoTheorem, NotPreciseEnough
from tightrope.numerics import html
from tightrope.numerics.floats import ceil_fraction
from tightrope.numerics.text import Flat
from tightrope.setting.mechanism import LEAST_NOISE, MOST_NOISE, Finite, Gaussian, Laplace, Mechanism
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS, Run, Step, check_steps
from tightrope.setting.sampling import LEAST_RATE, Poisson, Sampling
from tightrope.setting.training import Training
from tightrope.setting.trials import TrialLaw
from tightrope.theorems.worst_pairs import sum_moves_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Calibration(Generic[V]):
    """The best value that certainly meets a target, and the nearest one found that certainly misses it.

    `beyond` is None where `value` is the limit of what can be set. `curve` is the certified curve of `run`,
    the run at `value`: its epsilon at the target's delta is at most the target's. For short runs a finer
    accuracy brings `value` closer to `beyond`. For batches without replacement under SUBSTITUTE theory leaves
    a gap: both values are as certain as ever but further apart, less so with effort=TIGHT. They are also
    further apart if the search was `interrupted` by `StopWork`.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=8), tr.EveryRecord())
    >>> found = tr.most_steps(step, epsilon=3, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    >>> found.value, found.beyond, found.epsilon.upper <= 3
    (26, 27, True)
    """

    parameter: str
    value: V
    beyond: V | None
    target: Target
    run: Run
    curve: PrivacyCurve
    interrupted: bool = False
    run_at: Callable[[V], Run] | None = field(default=None, repr=False, compare=False)

    @property
    def rounds_up(self) -> bool:
        """Whether a larger value is the safer one."""
        return self.parameter in ("noise_multiplier", "batches")

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw what other values spend, with both ends, and mark this one; needs matplotlib.

        What is drawn on is `ax`, or new axes; they are returned. Other values are judged with effort=QUICK.
        """
        from tightrope.answers.pictures import draw_values  # only where something is drawn

        return draw_values(self, ax)

    @property
    def gap(self) -> float:
        """How far away, relative to `value`, the best possible value can be; 0 where `value` is the limit."""
        if self.beyond is None:
            return 0.0
        return abs(self.beyond - self.value) / self.value if self.value else math.inf

    @property
    def epsilon(self) -> Bracket:
        """What the run at `value` spends at the target's delta."""
        return self.curve.epsilon(self.target.delta)

    def to_dict(self) -> Flat:
        """The values, the target and what is spent, as one flat row."""
        target, spent = self.target, self.epsilon
        return {
            **{"parameter": self.parameter, "value": self.value, "beyond": self.beyond, "gap": self.gap},
            **{"epsilon": target.epsilon, "delta": target.delta, "relation": str(target.relation)},
            **{"spent_lower": spent.lower, "spent_upper": spent.upper},
        }

    def to_dicts(self) -> list[Flat]:
        """The one row: pandas.DataFrame(found.to_dicts())."""
        return [self.to_dict()]

    def __str__(self) -> str:
        return f"{self.parameter} {self.value!r} ({self._missed}): {self.target}, spends {self.epsilon}"

    def _repr_html_(self) -> str:
        found = html.write_text(f"{self.parameter} {self.value!r} is safe", strong=repr(self.value))
        row = [str(self.target), f"epsilon {self.epsilon}", self._missed]
        why = [self.curve.question, *(theorem.in_full for theorem in self.curve.because)]
        return html.join(
            found, html.write_table([["target", "spends", "beyond"], row]), html.fold("why", why)
        )

    @property
    def _missed(self) -> str:
        return "the limit" if self.beyond is None else f"{self.beyond!r} misses the target"


def smallest_noise(
    sampling: Sampling | Training,
    *,
    steps: int | None = None,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    mechanism: type[Gaussian] | type[Laplace] = Gaussian,
    besides: Run | Step = NOTHING,
    trials: TrialLaw | str | int | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[float]:
    """The smallest noise multiplier with which `steps` steps and `besides` are (epsilon, delta)-private.

    A `Training` in place of the sampling says how many steps there are. With `trials`, the best of so many
    runs is published, as by `tuned`, and the whole search is (epsilon, delta)-private.

    For batches without replacement under SUBSTITUTE, by=Certified(effort=TIGHT) plays games in each of a few
    trials. That takes up to minutes and brings `value` and `beyond` closer together. `progress` is called as
    by `privacy_curve`; if it raises `StopWork`, the best value so far is verified without a further game.

    >>> import tightrope as tr
    >>> target = {"epsilon": 1, "delta": 1e-6, "relation": tr.ADD_OR_REMOVE}
    >>> found = tr.smallest_noise(tr.Poisson(rate=1e-3), steps=10_000, **target)
    >>> round(found.value, 4), found.epsilon.upper <= 1, found.gap < 1e-4
    (0.7876, True, True)
    >>> plan = tr.Training(records=60_000, batch=256, epochs=30, sampling=tr.Poisson)
    >>> round(tr.smallest_noise(plan, epsilon=3, delta=1e-5, relation=tr.ADD_OR_REMOVE).value, 4)
    0.8176
    """
    if mechanism not in (Gaussian, Laplace):
        remedy = "Only these have a noise multiplier."
        raise InvalidSetting("mechanism", mechanism, "be {Gaussian} or {Laplace}", remedy)
    sampling, steps = _expand(sampling, steps)
    count = check_steps(steps, least=1, remedy="Without steps nothing is released and no noise is needed.")
    target = Target.check(epsilon, delta, relation, besides, by, progress, trials)

    def run(noise: float) -> Run:
        return Step(mechanism(noise_multiplier=noise), sampling) * count

    first = run(1.0).parts[0][0]  # refuses what is not a sampling
    if first.sampling.rate < 1:
        _refuse_needless_noise(first.sampling, count, target)
    # what full batches would need, thinned by the sampling: a start that the search corrects
    spread = sampling.rate * math.sqrt(2 * count * math.log(1.25 / target.delta)) / max(target.epsilon, 1e-3)
    start = min(max(sum_moves_by(sampling, target.relation) * (spread + 0.3), LEAST_NOISE), MOST_NOISE)
    found = find_best("noise_multiplier", target, run, start, safest=MOST_NOISE, riskiest=LEAST_NOISE)
    remedy = "Accept a larger {epsilon} or {delta}, or take fewer steps."
    return need_value(found, target, f"{{noise_multiplier}} {MOST_NOISE:g}", remedy, limit=math.inf)


def most_steps(
    step: Step,
    *,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    trials: TrialLaw | str | int | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[int]:
    """How many times `step` can be taken, with `besides`, within (epsilon, delta); 0 if not even once.

    With `trials`, that is how many steps each run of a search can take, as in `smallest_noise`.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3))
    >>> found = tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    >>> found.value, found.beyond
    (11397, 11398)
    """
    if not isinstance(step, Step):
        raise InvalidSetting("step", step, "be a Step", "Write Step(mechanism, sampling).")
    target = Target.check(epsilon, delta, relation, besides, by, progress, trials)
    most = MOST_STEPS - dict(target.besides).get(step, 0)
    found = find_best("steps", target, lambda times: step * times, 1000, safest=1, riskiest=most)
    if found is None:
        return Calibration("steps", 0, 1, target, target.besides, target.curve(NOTHING))
    if found.beyond is None:
        raise NoSuchValue(
            f"there is no largest number of steps: even {MOST_STEPS:.0e} steps meet {target.named}",
            "Any number you can run does.",
            limit=math.inf,
        )
    return found


def largest_rate(
    mechanism: Mechanism,
    *,
    steps: int,
    epsilon: float,
    delta: float,
    relation: Relation | str,
    besides: Run | Step = NOTHING,
    trials: TrialLaw | str | int | None = None,
    by: Certified = BY_DEFAULT,
    progress: Progress | None = None,
) -> Calibration[float]:
    """The largest Poisson sampling rate with which `steps` steps and `besides` are (epsilon, delta)-private.

    It is 1 if every record may join every batch. For balls in bins ask for `fewest_batches`, T: the rate
    is 1 / T. `trials` are those of `smallest_noise`.

    >>> import tightrope as tr
    >>> noise = tr.Gaussian(noise_multiplier=0.8)
    >>> found = tr.largest_rate(noise, steps=10_000, epsilon=1, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    >>> round(found.value, 6)
    0.001054
    """
    count = check_steps(steps, least=1, remedy="Without steps every rate is fine.")
    target = Target.check(epsilon, delta, relation, besides, by, progress, trials)

    def run(rate: float) -> Run:
        return Step(mechanism, Poisson(rate=rate)) * count

    everybody = target.verify(run(1.0), target.by.accuracy)
    if everybody is not None:
        return Calibration("rate", 1.0, None, target, run(1.0) + target.besides, everybody)
    least = ceil_fraction(LEAST_RATE)
    found = find_best("rate", target, run, min(1.0, 10 / count), safest=least, riskiest=1.0)
    return need_value(found, target, f"{{rate}} {least:g}", "Accept a larger {delta}.", limit=0.0)


def _expand(sampling: Sampling | Training, steps: int | None) -> tuple[Sampling, int]:
    """The sampling and the steps of a plan; steps must be stated once."""
    if isinstance(sampling, Training):
        if steps is not None:
            remedy = "Leave it out, or pass the sampling of the plan."
            raise InvalidSetting("steps", steps, f"be left out beside a plan of {sampling.steps}", remedy)
        return sampling.sampling, sampling.steps
    if steps is None:
        remedy = "Pass how many steps are taken, or a Training in place of the sampling, which knows."
        raise InvalidSetting("steps", None, "be stated", remedy)
    return sampling, steps


def need_value(
    found: Calibration[V] | None, target: Target, safest: str, remedy: str, *, limit: float
) -> Calibration[V]:
    """What was found, or the refusal of a target that even the safest value misses."""
    if found is None:
        raise Infeasible(f"{target.named} is out of reach: even {safest} misses it", remedy, limit=limit)
    return found


def find_best(
    parameter: str, target: Target, run: Callable[[V], Run], start: V, *, safest: V, riskiest: V
) -> Calibration[V] | None:
    """The best value, verified by a curve of its own; None if even the safest value misses the target."""
    start, slope = improve_start(target, run, start, safest=safest, riskiest=riskiest)
    trials = Trials(parameter, target, run)
    if target.leaves_a_gap(run(start)):
        frontier = search_a_gap(trials, start, safest=safest, riskiest=riskiest, slope=slope)
    else:
        frontier = Frontier(trials.excess, safest=safest, riskiest=riskiest, close=CLOSE, slope=slope)
        frontier.search(start)
        narrow(trials, frontier)
    if frontier.beyond == safest:
        return None
    # First at the accuracy asked for, so that whoever asks again finds the target met; else at the finer one.
    for accuracy in dict.fromkeys((target.by.accuracy, trials.accuracy)):
        found = trials.verify(frontier, accuracy)
        if found is not None:
            value, curve = found
            if frontier.beyond is None and value != riskiest:
                break  # it is safe, but nobody knows how far from the best
            best = parameter, value, frontier.beyond, target, run(value) + target.besides, curve
            return Calibration(*best, trials.interrupted or trials.is_cut_short, run)
    raise trials.refusal


def _refuse_needless_noise(sampling: Sampling, steps: int, target: Target) -> None:
    """Without noise a step tells at most whether the record was drawn: a mechanism with two outputs."""
    revealing = Step(Finite(observed=[1.0, 0.0], alternative=[0.0, 1.0]), sampling) * steps
    try:
        found = target.curve(revealing).delta(target.epsilon)
    except (NoTheorem, NotPreciseEnough):
        return  # then the search finds out
    if found.upper <= target.delta:
        raise NoSuchValue(
            f"no noise is needed for {target.named}: even if every drawn record were published, "
            f"delta would be {found}",
            "Such a guarantee is empty; choose a smaller {delta}, well below 1 / population.",
            limit=0.0,
        )
