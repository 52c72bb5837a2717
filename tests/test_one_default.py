"""One default for every question, and what answers carry: the gap, what decided, refusals that travel."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from catalogue import BRANCHES, CATALOGUE, EVERY, Entry, batch, curve, gaussian, laplace, over, poisson
from shell import Shell
from test_cli import loaded
from tightrope.audit import audit, prove_bound
from tightrope.errors import Infeasible, RefutedClaim, SeveralProblems, UnusableFile, UnwrittenFile
from tightrope.setting.sampling import Sampling
from tightrope.statements.make import declare_as_accounted

# -- one default ---------------------------------------------------------------------------------------------

DELTA = 1e-5
ASKED: dict[str, tuple[tr.Run, tr.Relation, str]] = {
    "poisson": (
        gaussian(0.8, poisson(0.001), 1000),
        tr.ADD_OR_REMOVE,
        "--noise 0.8 --sampling poisson --rate 0.001 --steps 1000",
    ),
    "full batches": (
        laplace(4, EVERY, 3),
        tr.REMOVE,
        "--mechanism laplace --noise 4 --sampling every-record --steps 3",
    ),
    "one batch exchanged": (
        gaussian(4, batch(1, 20), 1),
        tr.SUBSTITUTE,
        "--noise 4 --sampling without-replacement --batch 1 --population 20 --steps 1",
    ),
    "a game": (
        gaussian(4, batch(1, 20), 7),
        tr.SUBSTITUTE,
        "--noise 4 --sampling without-replacement --batch 1 --population 20 --steps 7",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_door_gives_the_same_answer_to_the_last_bit(name: str, shell: Shell) -> None:
    run, relation, words = ASKED[name]
    ledger = tr.Ledger(relation=relation)
    ledger.record(run)
    (step, _), *_ = run.parts
    (certified, *_) = tr.compare(run, delta=DELTA, relation=relation, by=[tr.Certified()]).rows
    (said,) = loaded(shell, f"epsilon {words} --relation {relation} --delta {DELTA}")["brackets"]
    answers = {
        "epsilon": tr.epsilon(run, delta=DELTA, relation=relation),
        "privacy_curve": tr.privacy_curve(run, relation=relation).epsilon(DELTA),
        "certified": tr.epsilon(
            run, delta=DELTA, relation=relation, by=tr.Certified(accuracy=1e-3, effort=tr.QUICK)
        ),
        "ledger": ledger.epsilon(DELTA),
        "contrast": tr.contrast(run, delta=DELTA).row(type(step.sampling), relation).epsilons[0],
        "compare": certified.epsilons[0],
        "command line": tr.Bracket(said["epsilon"]["lower"], said["epsilon"]["upper"]),
    }
    assert set(answers.values()) == {answers["epsilon"]}, answers


@pytest.mark.parametrize(
    ("sampling", "relation"), [(poisson(0.01), tr.ADD_OR_REMOVE), (batch(1, 20), tr.SUBSTITUTE)]
)
def test_a_calibrated_run_spends_what_the_answer_about_it_says(
    sampling: Sampling, relation: tr.Relation
) -> None:
    found = tr.smallest_noise(sampling, steps=7, epsilon=0.5, delta=DELTA, relation=relation)
    assert found.epsilon == tr.epsilon(found.run, delta=DELTA, relation=relation)


# -- the gap -------------------------------------------------------------------------------------------------


def check_gap(said: tr.Bracket, relative_width: float, accuracy: float) -> None:
    if relative_width <= accuracy:
        assert said.gap is None
        return
    assert said.gap is not None, said
    assert said.gap.relative_width == relative_width
    assert said.gap.accuracy == accuracy
    assert said.gap.why
    assert str(said.gap).startswith("The ends are ")


def check_gaps(asked: tr.PrivacyCurve, epsilons: tuple[float, ...]) -> None:
    for delta in (0.9, 1e-2, 1e-9):
        found = asked.epsilon(delta)
        check_gap(found, found.relative_width, asked.accuracy)
    for epsilon in epsilons:
        share, log = asked.delta(epsilon), asked.log_delta(epsilon)
        check_gap(share, share.relative_width, asked.accuracy)
        check_gap(log, -math.expm1(log.lower - log.upper) if log.width else 0.0, asked.accuracy)


@over(CATALOGUE)
@pytest.mark.parametrize("relation", BRANCHES, ids=repr)
def test_a_bracket_wider_than_its_accuracy_says_so_and_no_other_does(
    entry: Entry, relation: tr.Relation
) -> None:
    far = 1.5 * entry.epsilons[-1]
    check_gaps(curve(entry.run, relation), (*entry.epsilons, far))


EXCHANGED = (
    gaussian(4, batch(1, 20), 7),
    gaussian(2, batch(1, 100), 30),
    laplace(2, batch(1, 20), 3),
    gaussian(4, batch(1, 20), 7) + gaussian(5, EVERY, 2),
)


@pytest.mark.parametrize("run", EXCHANGED, ids=repr)
def test_a_gap_that_theory_leaves_is_named_with_what_narrows_it(run: tr.Run) -> None:
    asked = tr.privacy_curve(run, relation=tr.SUBSTITUTE)
    check_gaps(asked, (0.0, 0.2, 1.0))
    gap = asked.epsilon(1e-2).gap
    assert gap is not None
    assert "effort=TIGHT" in gap.remedy or "no tighter upper bound" in gap.why


# -- what decided --------------------------------------------------------------------------------------------


def check_decision(asked: tr.PrivacyCurve, epsilon: float) -> None:
    decision = asked.decided_by(epsilon=epsilon)
    assert decision.because
    assert set(decision.because) <= set(asked.because)
    assert all(evidence.standing is tr.PROVED for evidence in decision.because)
    assert decision.branch in {branch.name for branch in asked.branches}
    datasets = {witness.datasets for branch in asked.branches for witness in branch.witnesses}
    assert decision.reached_by in datasets or (
        decision.reached_by == "" and asked.log_delta(epsilon).lower == -math.inf
    )


@over(CATALOGUE)
@pytest.mark.parametrize("relation", BRANCHES, ids=repr)
def test_what_decided_is_among_what_was_tried_and_proved(entry: Entry, relation: tr.Relation) -> None:
    for epsilon in entry.epsilons:
        check_decision(curve(entry.run, relation), epsilon)


@pytest.mark.parametrize("run", EXCHANGED, ids=repr)
def test_what_decided_an_exchange_is_among_what_was_tried_and_proved(run: tr.Run) -> None:
    for epsilon in (0.0, 0.2, 1.0):
        check_decision(tr.privacy_curve(run, relation=tr.SUBSTITUTE), epsilon)


# -- refusals travel -----------------------------------------------------------------------------------------

REFUSALS = (
    tr.TightropeError("{delta} is out of reach", "Ask for {accuracy=0.01}."),
    tr.InvalidSetting("rate", 7, "be in [0, 1]", "Pass a probability.", where="runs.toml, line 3: "),
    UnusableFile("runs.toml", "could not be read: no such file", "Pass a file that exists."),
    UnwrittenFile("curve.png", "could not be written: no space left", "Free some space."),
    tr.UnwrittenRows("out.csv", "could not be written: no space left", rows=[{"epsilon": 1.0}]),
    SeveralProblems(
        "runs.toml", (tr.InvalidSetting("rate", 7, "be in [0, 1]"), UnusableFile("steps", "is missing"))
    ),
    tr.NoTheorem("Laplace under {SUBSTITUTE}", "Ask under {ADD_OR_REMOVE}."),
    tr.NoSuchValue("every noise is enough", "Ask for less {epsilon}.", limit=0.0),
    Infeasible("no noise is enough", "Ask for more {epsilon}.", limit=math.inf),
    tr.NotPreciseEnough("{delta} is too small", "Ask for a larger one."),
    tr.UncertainComparison("whether it is below 1 is not certain", "Compare .upper."),
    tr.StopWork("the deadline has passed"),
    RefutedClaim("the claim is refuted", "Claim more."),
    tr.WorkerDied("the piece was killed", "Run it alone."),
)


def data(refusal: object) -> object:
    """All that a refusal knows, in what can be compared."""
    if isinstance(refusal, tr.TightropeError):
        return type(refusal), data(refusal.args), {name: data(value) for name, value in vars(refusal).items()}
    return tuple(map(data, refusal)) if isinstance(refusal, tuple) else refusal


def subclasses(kind: type[tr.TightropeError]) -> set[type[tr.TightropeError]]:
    inner = {sub for sub in kind.__subclasses__() if sub.__module__ == "tightrope.errors"}
    return {kind}.union(*map(subclasses, inner))


def test_every_refusal_is_tried_here() -> None:
    assert {type(refusal) for refusal in REFUSALS} == subclasses(tr.TightropeError)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_a_refusal_comes_home_from_a_worker_with_all_it_knows(refusal: tr.TightropeError) -> None:
    for again in (pickle.loads(pickle.dumps(refusal)), copy.copy(refusal), copy.deepcopy(refusal)):
        assert str(again) == str(refusal)
        assert data(again) == data(refusal)


def test_a_delta_too_small_for_floats_says_so_and_nothing_of_effort() -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000))
    curve = tr.privacy_curve(step * 10, relation=tr.SUBSTITUTE)
    assert curve.log_delta(50).gap is None
    assert "floats cannot tell so small a delta more closely" in str(curve.delta(50).gap)
    assert "TIGHT" not in str(curve.delta(50).gap)


@pytest.mark.parametrize(
    ("effort", "says"), [(tr.QUICK, "raises the lower end"), (tr.TIGHT, "no tighter bound")]
)
def test_for_laplace_noise_the_gap_is_the_envelopes(effort: tr.Effort, says: str) -> None:
    step = tr.Step(tr.Laplace(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000))
    by = tr.Certified(effort=effort)
    found = tr.epsilon(step * 50, delta=1e-5, relation=tr.SUBSTITUTE, by=by)
    assert "the upper end is the envelope" in str(found.gap)
    assert says in str(found.gap)


def test_comparisons_and_audits_refuse_what_is_no_accountant_by_name() -> None:
    run: Any = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.1)) * 3
    unusable: tuple[Any, ...] = (tr.Renyi(), "renyi", [], None)
    for wrong in unusable:
        with pytest.raises(tr.InvalidSetting, match="by must be Certified, or a list of accountants"):
            tr.compare(run, relation=tr.ADD, delta=1e-6, by=wrong)
    deltas: Any = np.array([1e-6, 1e-5])
    table = tr.compare(run, relation=tr.ADD, delta=deltas, by=[tr.Certified()])
    assert "1e-05" in str(table)
    finding = declare_as_accounted(run)
    uncertain: tuple[Any, ...] = (tr.Renyi(), tr.GaussianLimit(), tr.Certified)
    for wrong in uncertain:
        with pytest.raises(tr.InvalidSetting, match="by must be Certified"):
            audit(finding, run, delta=1e-6, relation=tr.ADD, by=wrong)
        with pytest.raises(tr.InvalidSetting, match="by must be Certified"):
            prove_bound(run, finding, delta=1e-6, relation=tr.ADD, by=wrong)
