"""How private is this run? One question, and the accountant that answers it."""

from typing import Any, TypeVar, overload

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import BY_DEFAULT, check_certified
from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.tuned import Tuned

CurveT = TypeVar("CurveT")
AnswerT = TypeVar("AnswerT")


@overload
def privacy_curve(
    run: Run | Step | Tuned, *, relation: Relation | str, progress: Progress | None = None
) -> PrivacyCurve: ...
@overload
def privacy_curve(
    run: Run | Step | Tuned,
    *,
    relation: Relation | str,
    by: Accountant[CurveT, Any],
    progress: Progress | None = None,
) -> CurveT: ...
def privacy_curve(
    run: Run | Step | Tuned,
    *,
    relation: Relation | str,
    by: Accountant[Any, Any] = BY_DEFAULT,
    progress: Progress | None = None,
) -> Any:
    """The privacy curve of `run` under `relation`, as the accountant `by` knows it.

    `by` says who answers, and so what an answer is worth: `Certified(accuracy=, effort=)` gives brackets,
    `Exact(width=)` brackets in exact integers, `Renyi()` upper bounds, `GaussianLimit()` approximations and
    `MonteCarlo(draws=, ...)` estimates with a confidence level. `progress(done, of)` is called during long
    work: after each step of a game or product of polynomials, or with the draws so far. The run may be
    `tuned`; then the accountant is `Certified`.

    >>> import tightrope as tr
    >>> step = tr.Step(tr.Laplace(noise_multiplier=1), tr.EveryRecord())
    >>> print(tr.privacy_curve(step, relation=tr.REMOVE).epsilon(0.25))
    [0.4246358..., 0.4246358...]
    """
    if not isinstance(by, Accountant):
        must = "be an accountant: {Certified}, {Exact}, {Renyi}, {GaussianLimit} or {MonteCarlo}"
        raise InvalidSetting("by", by, must, "Pass for example {by=Certified()}.")
    if isinstance(run, Tuned):
        from tightrope.answers.tuning import tuned_curve  # only where there is a search

        return tuned_curve(run, as_relation(relation), check_certified(by), progress)
    return by.curve(as_run(run), as_relation(relation), progress)


@overload
def epsilon(
    run: Run | Step | Tuned, *, delta: float, relation: Relation | str, progress: Progress | None = None
) -> Bracket: ...
@overload
def epsilon(
    run: Run | Step | Tuned,
    *,
    delta: float,
    relation: Relation | str,
    by: Accountant[Any, AnswerT],
    progress: Progress | None = None,
) -> AnswerT: ...
def epsilon(
    run: Run | Step | Tuned,
    *,
    delta: float,
    relation: Relation | str,
    by: Accountant[Any, Any] = BY_DEFAULT,
    progress: Progress | None = None,
) -> Any:
    """The smallest epsilon >= 0 for which `run` is (epsilon, delta)-private, as the accountant `by` knows it.

    >>> import tightrope as tr
    >>> sampling = tr.WithoutReplacement(batch=1, population=1000)
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), sampling) * 10_000
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE))
    [15.2514..., 15.2514...]
    >>> print(tr.epsilon(run, delta=1e-6, relation=tr.ADD_OR_REMOVE, by=tr.Renyi()))
    at most 17.5...
    """
    return privacy_curve(run, relation=relation, by=by, progress=progress).epsilon(delta)


@overload
def delta(
    run: Run | Step | Tuned, *, epsilon: float, relation: Relation | str, progress: Progress | None = None
) -> Bracket: ...
@overload
def delta(
    run: Run | Step | Tuned,
    *,
    epsilon: float,
    relation: Relation | str,
    by: Accountant[Any, AnswerT],
    progress: Progress | None = None,
) -> AnswerT: ...
def delta(
    run: Run | Step | Tuned,
    *,
    epsilon: float,
    relation: Relation | str,
    by: Accountant[Any, Any] = BY_DEFAULT,
    progress: Progress | None = None,
) -> Any:
    """The smallest delta for which `run` is (epsilon, delta)-private, as the accountant `by` knows it.

    >>> import tightrope as tr
    >>> coin = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5))
    >>> print(tr.delta(coin * 2, epsilon=0.0, relation=tr.ADD_OR_REMOVE))
    [0.31249..., 0.31250...]
    """
    return privacy_curve(run, relation=relation, by=by, progress=progress).delta(epsilon)
