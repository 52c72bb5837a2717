"""One question, four accountants: what they return, how they compare, the numbers of the Gaussian limit."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import tightrope as tr
from catalogue import ALL_GAUSSIAN, CATALOGUE, EVERY, Entry, batch, gaussian, laplace, over, poisson, response
from tightrope.engines.gaussian_limit import limiting_mu
from tightrope.theorems.lookup import analyse

ANCHOR = gaussian(0.8, poisson(1e-3), 10_000)
FEW = tr.MonteCarlo(draws=20_000)


def limit(run: tr.Run, relation: tr.Relation = tr.ADD_OR_REMOVE) -> tr.GaussianLimitCurve:
    return tr.privacy_curve(run, relation=relation, by=tr.GaussianLimit())


# -- one argument --------------------------------------------------------------------------------------------


EVERY_ACCOUNTANT: tuple[tr.Accountant[Any, Any], ...] = (
    tr.Certified(),
    tr.Renyi(),
    tr.GaussianLimit(),
    tr.MonteCarlo(),
)
each_accountant = pytest.mark.parametrize("by", EVERY_ACCOUNTANT, ids=lambda by: by.name)


def test_the_accountant_decides_the_kind_of_answer_and_never_the_question() -> None:
    kinds = dict(
        zip(EVERY_ACCOUNTANT, (tr.Bracket, tr.UpperBound, tr.Approximation, tr.Estimate), strict=True)
    )
    run = gaussian(2, poisson(0.1), 10)
    questions: set[str] = set()
    for accountant, kind in kinds.items():
        curve = tr.privacy_curve(run, relation=tr.REMOVE, by=accountant)
        assert type(curve.epsilon(1e-3)) is kind
        assert type(curve.delta(0.5)) is kind
        assert curve.because
        questions.add(curve.question)
    assert len(questions) == 1


@each_accountant
def test_epsilon_and_delta_are_what_the_curve_says(by: tr.Accountant[Any, Any]) -> None:
    run = laplace(2, poisson(0.3), 5)
    curve = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE, by=by)
    assert tr.epsilon(run, delta=1e-2, relation=tr.ADD_OR_REMOVE, by=by) == curve.epsilon(1e-2)
    assert tr.delta(run, epsilon=0.3, relation=tr.ADD_OR_REMOVE, by=by) == curve.delta(0.3)


def test_only_a_bracket_is_certified_and_no_other_answer_turns_into_a_number() -> None:
    for accountant in EVERY_ACCOUNTANT[1:]:
        answer = tr.epsilon(gaussian(2, EVERY, 3), delta=1e-3, relation=tr.REMOVE, by=accountant)
        assert not isinstance(answer, tr.Bracket)
        with pytest.raises(TypeError):
            float(answer)


@pytest.mark.parametrize("accountant", ["renyi", None, 1, tr.QUICK, tr.Renyi])
def test_what_is_no_accountant_is_refused(accountant: Any) -> None:
    with pytest.raises(tr.InvalidSetting, match="by must be an accountant: Certified, Exact, Renyi"):
        tr.privacy_curve(ANCHOR, relation=tr.REMOVE, by=accountant)


@pytest.mark.parametrize("accountant", EVERY_ACCOUNTANT[1:], ids=lambda by: by.name)
def test_only_brackets_calibrate_contrast_and_keep_budgets(accountant: Any) -> None:
    step = tr.Step(tr.Gaussian(noise_multiplier=1), poisson(0.1))
    for ask in (
        lambda: tr.most_steps(step, epsilon=1, delta=1e-6, relation=tr.ADD, by=accountant),
        lambda: tr.contrast(step, delta=1e-6, by=accountant),
        lambda: tr.Ledger(relation=tr.ADD, by=accountant),
    ):
        with pytest.raises(tr.InvalidSetting, match="by must be Certified"):
            ask()


@each_accountant
def test_a_question_without_a_theorem_is_refused_by_all(by: tr.Accountant[Any, Any]) -> None:
    with pytest.raises(tr.NoTheorem):
        tr.epsilon(laplace(1, poisson(0.1), 3), delta=1e-5, relation=tr.SUBSTITUTE, by=by)


# -- the Gaussian limit --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.0, 1000), (1e-3, 0.8, 10_000), (0.3, 5.0, 40)])
def test_mu_is_the_one_in_the_literature(rate: float, noise: float, steps: int) -> None:
    run = gaussian(noise, poisson(rate), steps)
    assert limit(run).mu == pytest.approx(rate * math.sqrt(steps * math.expm1(1 / noise**2)), rel=1e-9)
    fixed = gaussian(noise, batch(1, round(1 / rate)), steps)
    d, rate = 2 / noise, 1 / round(1 / rate)
    share = math.exp(d * d) * special.ndtr(1.5 * d) + 3 * special.ndtr(-0.5 * d) - 2
    assert limit(fixed, tr.SUBSTITUTE).mu == pytest.approx(rate * math.sqrt(2 * steps * share), rel=1e-9)


def test_unsampled_gaussians_are_their_own_limit() -> None:
    run = gaussian(3, EVERY, 7) + gaussian(2, EVERY, 2)
    exact, curve = tr.privacy_curve(run, relation=tr.REMOVE), limit(run, tr.REMOVE)
    assert curve.mu == pytest.approx(math.sqrt(7 / 9 + 2 / 4))
    for epsilon in (-0.5, 0.0, 1.0, 9.0):
        assert curve.delta(epsilon).value == pytest.approx(exact.delta(epsilon).upper, rel=1e-5)
    assert curve.epsilon(1e-7).value == pytest.approx(exact.epsilon(1e-7).upper, rel=1e-6)


def test_the_envelope_of_normals_shares_what_its_chi_squared_divergence_tends_to() -> None:
    """The published formula and twice the half of chi squared agree to leading order in the rate."""
    run = gaussian(2, batch(1, 100_000), 1)
    (analysis,) = analyse(run, tr.SUBSTITUTE, tr.TIGHT)
    mu = limiting_mu(analysis.covers[0].schedules[0])  # type: ignore[arg-type]
    from tightrope.engines.moments.step import log_moment_above

    (pair, _), *_ = analysis.covers[0].schedules[0].parts  # type: ignore[union-attr]
    assert mu**2 == pytest.approx(math.expm1(log_moment_above(pair, 1.0)), rel=1e-4)


def test_the_limit_is_reached_by_many_small_steps() -> None:
    errors = []
    for steps in (100, 10_000, 1_000_000):
        run = gaussian(1, poisson(1 / math.sqrt(steps)), steps)
        errors.append(
            abs(
                limit(run).epsilon(1e-3).value / tr.epsilon(run, delta=1e-3, relation=tr.ADD_OR_REMOVE).upper
                - 1
            )
        )
    assert errors[0] > 4 * errors[1] > 16 * errors[2]


def test_the_limit_is_too_small_where_few_batches_hold_the_record() -> None:
    """The reason why it never is part of a bracket."""
    certain = tr.epsilon(ANCHOR, delta=1e-6, relation=tr.ADD_OR_REMOVE)
    assert limit(ANCHOR).epsilon(1e-6).value < 0.86 * certain.lower


def test_a_limit_that_says_nothing_is_infinite() -> None:
    curve = limit(gaussian(0.02, poisson(0.1), 5))
    assert curve.mu == math.inf
    assert curve.epsilon(1e-5).value == math.inf
    assert curve.delta(3.0).value == 1


@over(CATALOGUE)
def test_every_run_with_a_theorem_has_a_limit(entry: Entry) -> None:
    curve = limit(entry.run)
    assert curve.mu >= 0
    values = [curve.delta(epsilon).value for epsilon in entry.epsilons]
    assert all(0 <= value <= 1 for value in values)
    assert values == sorted(values, reverse=True)


def test_bad_input_to_the_limit() -> None:
    with pytest.raises(tr.InvalidSetting, match="delta must be"):
        limit(ANCHOR).epsilon(2.0)
    with pytest.raises(tr.InvalidSetting, match="epsilon must be"):
        limit(ANCHOR).delta(math.nan)
    assert limit(ANCHOR).log_delta(np.array([0.5, 1.0])).shape == (2,)


# -- side by side --------------------------------------------------------------------------------------------


def test_all_accountants_on_one_run() -> None:
    table = tr.compare(
        gaussian(1, poisson(0.01), 1000),
        relation=tr.ADD_OR_REMOVE,
        delta=[1e-6, 1e-3],
        by=(*EVERY_ACCOUNTANT[:3], FEW),
    )
    assert [row.name for row in table.rows] == ["certified", "renyi", "gaussian-limit", "monte-carlo"]
    certified, renyi, approximate, estimated = (row.epsilons[0] for row in table.rows)
    assert isinstance(certified, tr.Bracket)
    assert isinstance(renyi, tr.UpperBound)
    assert isinstance(approximate, tr.Approximation)
    assert isinstance(estimated, tr.Estimate)
    assert certified.upper < renyi.upper
    assert certified.lower in estimated
    assert approximate.value < certified.lower
    assert table.locate(table.rows[2], 0).endswith("too small")
    assert table.locate(table.rows[3], 0) == "holds the bracket"
    assert "renyi" in str(table)
    assert "holds the bracket" in str(table)


def test_published_bounds_for_exchanged_records_have_rows_of_their_own() -> None:
    table = tr.compare(
        gaussian(4, batch(50, 1000), 1000),
        relation=tr.SUBSTITUTE,
        delta=1e-5,
        by=(*EVERY_ACCOUNTANT[:3], FEW),
    )
    names = [row.name for row in table.rows]
    assert [name for name in names if "Wang" in name] == [
        "renyi (Wang, Balle, Kasiviswanathan 2020, Thm 27)",
        "renyi (Wang, Balle, Kasiviswanathan 2020, Thm 9 and Cor. 10)",
    ]
    bounds = [row.epsilons[0].upper for row in table.rows if isinstance(row.epsilons[0], tr.UpperBound)]
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.52 * bounds[1]  # the envelope's own moments halve the published epsilon
    assert bounds[2] == pytest.approx(9.3063, abs=2e-4)


def test_who_cannot_answer_is_a_row_with_a_reason() -> None:
    table = tr.compare(gaussian(1, poisson(1e-3), 10**7), relation=tr.REMOVE, delta=1e-6)
    (row,) = [row for row in table.rows if isinstance(row.by, tr.MonteCarlo)]
    assert row.epsilons == ()
    assert row.refusal is not None
    assert "draws" in str(row.refusal)
    assert "refused" in str(table)
    assert len(table.rows) == 5


def test_nothing_to_compare() -> None:
    with pytest.raises(tr.InvalidSetting, match="at least one value"):
        tr.compare(ANCHOR, relation=tr.REMOVE, delta=[])
    table = tr.compare(response(0.5, EVERY, 3), relation=tr.REMOVE, delta=1e-3)
    assert [
        getattr(row.epsilons[0], "upper", getattr(row.epsilons[0], "value", None)) for row in table.rows
    ] == [0, 0, 0, 0, 0]


@over(ALL_GAUSSIAN)
def test_the_limit_and_the_bound_enclose_nothing_by_themselves(entry: Entry) -> None:
    """Needs no trust in either: Rényi is above the certified lower end, the limit may lie on either side."""
    bracket = tr.epsilon(entry.run, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert tr.epsilon(entry.run, delta=1e-5, relation=tr.ADD_OR_REMOVE, by=tr.Renyi()).upper >= bracket.lower
