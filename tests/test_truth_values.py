"""Results that say yes or no in a property are not true by merely being there."""

import pytest

import tightrope as tr
from tightrope.audit import Finding, How, Scheme, Verdict, audit, prove_bound

STEP = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.02))
SHUFFLED = Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", epoch=50)


def test_an_audit_is_asked_whether_it_holds() -> None:
    found = audit(SHUFFLED, STEP * 50, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert not found.holds
    with pytest.raises(tr.UncertainComparison, match=r"an audit is neither true nor false. Ask \.holds"):
        bool(found)
    with pytest.raises(tr.UncertainComparison, match=r"verdict NOT_PROVEN is neither .* Ask \.holds"):
        assert found.verdict


@pytest.mark.parametrize("verdict", Verdict)
def test_no_verdict_is_true_by_being_one(verdict: Verdict) -> None:
    with pytest.raises(tr.UncertainComparison, match=r"compare it: verdict is Verdict\.MATCHES"):
        bool(verdict)


def test_a_bound_is_asked_for_its_upper_end() -> None:
    bound = prove_bound(STEP * 50, SHUFFLED, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    with pytest.raises(tr.UncertainComparison, match=r"Ask \.epsilon\.upper"):
        bool(bound)


def test_a_verification_is_asked_whether_it_holds() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed: make statements")
    facts = tr.Facts(
        name="a model", setting="central", unit="record", data_accesses="all", tuning="none", outputs="all"
    )
    false = tr.statement(STEP * 500, delta=1e-5, relation="add-or-remove", facts=facts, epsilon=0.01)
    found = tr.verify(false)
    assert not found.holds
    with pytest.raises(tr.UncertainComparison, match=r"a verification is neither .* Ask \.holds"):
        bool(found)
    with pytest.raises(tr.UncertainComparison, match="outcome DOES_NOT_HOLD is neither"):
        bool(found.outcome)
