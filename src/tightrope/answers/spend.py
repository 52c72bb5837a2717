"""How private is this run? One question, and the accountant that answers it."""

from typing import Literal, TypedDict, Unpack, overload

from tightrope.accountants.certified import DEFAULT_ACCURACY, Progress, certified_curve
from tightrope.accountants.names import CERTIFIED, GAUSSIAN_LIMIT, MONTE_CARLO, RENYI, Accountant
from tightrope.curve.bracket import Bracket
from tightrope.curve.limit_curve import Approximation, GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.engines.draws.simulation import Simulation
from tightrope.errors import InvalidSetting
from tightrope.setting.effort import TIGHT, Effort
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.evidence import PROVED, Standing

Curve = PrivacyCurve | RenyiCurve | GaussianLimitCurve | SimulatedCurve
Answer = Bracket | UpperBound | Approximation | Estimate


class Wanted(TypedDict, total=False):
    """What every accountant is told, and those that need it heed: the arguments of `privacy_curve` that may be left out."""

    accuracy: float
    trusting: Standing
    effort: Effort
    simulation: Simulation | None
    progress: Progress | None


@overload
def privacy_curve(
    run: Run | Step,
    *,
    relation: Relation,
    accountant: Literal[Accountant.CERTIFIED] = CERTIFIED,
    **wanted: Unpack[Wanted],
) -> PrivacyCurve: ...
@overload
def privacy_curve(
    run: Run | Step, *, relation: Relation, accountant: Literal[Accountant.RENYI], **wanted: Unpack[Wanted]
) -> RenyiCurve: ...
@overload
def privacy_curve(
    run: Run | Step,
    *,
    relation: Relation,
    accountant: Literal[Accountant.GAUSSIAN_LIMIT],
    **wanted: Unpack[Wanted],
) -> GaussianLimitCurve: ...
@overload
def privacy_curve(
    run: Run | Step,
    *,
    relation: Relation,
    accountant: Literal[Accountant.MONTE_CARLO],
    **wanted: Unpack[Wanted],
) -> SimulatedCurve: ...
@overload
def privacy_curve(
    run: Run | Step, *, relation: Relation, accountant: Accountant, **wanted: Unpack[Wanted]
) -> Curve: ...
def privacy_curve(
    run: Run | Step,
    *,
    relation: Relation,
    accountant: Accountant = CERTIFIED,
    accuracy: float = DEFAULT_ACCURACY,
    trusting: Standing = PROVED,
    effort: Effort = TIGHT,
    simulation: Simulation | None = None,
    progress: Progress | None = None,
) -> Curve:
    """The privacy curve of `run` under `relation`, bracketed to a relative width of `accuracy` in delta.

    For batches without replacement under SUBSTITUTE the theory itself leaves a gap; `effort` says how hard to work to
    close it: QUICK takes milliseconds, TIGHT plays a game for seconds, or a minute or two where there are 10,000 steps.
    Each end is then computed to `accuracy`. `progress(done, steps)` is called after each step of the game; a question
    takes several rounds (from above, from below, at several epsilons), and each counts from 1 to `steps`. The last
    games are kept, so that asking again plays none.

    `accountant` says who answers, and with that what an answer is worth. CERTIFIED gives brackets; RENYI upper bounds, for
    which `accuracy` and `effort` mean nothing; GAUSSIAN_LIMIT approximations; MONTE_CARLO estimates with a confidence level,
    drawn as `simulation` says, whose `progress(done, draws)` counts draws.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    >>> print(tr.privacy_curve(step, relation=tr.REMOVE).epsilon(0.25))
    [0.4246358..., 0.4246358...]
    """
    run = as_run(run)
    if not isinstance(accountant, Accountant):
        raise InvalidSetting(
            f"accountant must be CERTIFIED, RENYI, GAUSSIAN_LIMIT or MONTE_CARLO, got {accountant!r}. "
            "Pass for example accountant=tightrope.RENYI."
        )
    if simulation is not None and accountant is not MONTE_CARLO:
        raise InvalidSetting(
            f"simulation must be left out unless accountant is MONTE_CARLO, got {simulation!r}. "
            f"{accountant.name} draws nothing: leave it out, or pass accountant=MONTE_CARLO."
        )
    if accountant is CERTIFIED:
        return certified_curve(
            run, relation=relation, accuracy=accuracy, trusting=trusting, effort=effort, progress=progress
        )
    from tightrope.accountants import others as accountants  # which most questions do without

    if accountant is RENYI:
        return accountants.renyi_curve(run, relation, trusting)
    if accountant is GAUSSIAN_LIMIT:
        return accountants.gaussian_limit_curve(run, relation, trusting)
    return accountants.simulated_curve(run, relation, trusting, simulation or Simulation(), progress)


@overload
def epsilon(
    run: Run | Step,
    *,
    delta: float,
    relation: Relation,
    accountant: Literal[Accountant.CERTIFIED] = CERTIFIED,
    **wanted: Unpack[Wanted],
) -> Bracket: ...
@overload
def epsilon(
    run: Run | Step,
    *,
    delta: float,
    relation: Relation,
    accountant: Literal[Accountant.RENYI],
    **wanted: Unpack[Wanted],
) -> UpperBound: ...
@overload
def epsilon(
    run: Run | Step,
    *,
    delta: float,
    relation: Relation,
    accountant: Literal[Accountant.GAUSSIAN_LIMIT],
    **wanted: Unpack[Wanted],
) -> Approximation: ...
@overload
def epsilon(
    run: Run | Step,
    *,
    delta: float,
    relation: Relation,
    accountant: Literal[Accountant.MONTE_CARLO],
    **wanted: Unpack[Wanted],
) -> Estimate: ...
@overload
def epsilon(
    run: Run | Step, *, delta: float, relation: Relation, accountant: Accountant, **wanted: Unpack[Wanted]
) -> Answer: ...
def epsilon(
    run: Run | Step,
    *,
    delta: float,
    relation: Relation,
    accountant: Accountant = CERTIFIED,
    **wanted: Unpack[Wanted],
) -> Answer:
    """The smallest epsilon >= 0 for which `run` is (epsilon, delta)-private, as `accountant` knows it.

    Other arguments are those of `privacy_curve`.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.WithoutReplacement(batch=1, population=1000)) * 10_000
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE))
    [15.2514..., 15.2514...]
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE, accountant=tr.RENYI))
    at most 17.5...
    """
    return privacy_curve(run, relation=relation, accountant=accountant, **wanted).epsilon(delta)


@overload
def delta(
    run: Run | Step,
    *,
    epsilon: float,
    relation: Relation,
    accountant: Literal[Accountant.CERTIFIED] = CERTIFIED,
    **wanted: Unpack[Wanted],
) -> Bracket: ...
@overload
def delta(
    run: Run | Step,
    *,
    epsilon: float,
    relation: Relation,
    accountant: Literal[Accountant.RENYI],
    **wanted: Unpack[Wanted],
) -> UpperBound: ...
@overload
def delta(
    run: Run | Step,
    *,
    epsilon: float,
    relation: Relation,
    accountant: Literal[Accountant.GAUSSIAN_LIMIT],
    **wanted: Unpack[Wanted],
) -> Approximation: ...
@overload
def delta(
    run: Run | Step,
    *,
    epsilon: float,
    relation: Relation,
    accountant: Literal[Accountant.MONTE_CARLO],
    **wanted: Unpack[Wanted],
) -> Estimate: ...
@overload
def delta(
    run: Run | Step, *, epsilon: float, relation: Relation, accountant: Accountant, **wanted: Unpack[Wanted]
) -> Answer: ...
def delta(
    run: Run | Step,
    *,
    epsilon: float,
    relation: Relation,
    accountant: Accountant = CERTIFIED,
    **wanted: Unpack[Wanted],
) -> Answer:
    """The smallest delta for which `run` is (epsilon, delta)-private, as `accountant` knows it.

    Other arguments are those of `privacy_curve`.
    """
    return privacy_curve(run, relation=relation, accountant=accountant, **wanted).delta(epsilon)
