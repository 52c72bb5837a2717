"""Audits of loaders that shuffle: what a claim of shuffled batches needs, and what else is proved."""

from dataclasses import replace
from typing import Any

import pytest

import tightrope as tr
from tightrope.audit.claims.prove import prove_bound
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Finding, How, Scheme

NOISE = tr.Gaussian(noise_multiplier=4)
CUT = tr.Shuffled.cut(records=100, batch=10)
RUN = tr.Step(NOISE, CUT) * 20
SEEN = Finding(
    scheme=Scheme.SHUFFLE,
    how=How.INSPECTED,
    sentence="Shuffled.",
    records=100,
    batch=10,
    epoch=10,
    full=10,
    removal_changes_one_slot=True,
    reshuffles=True,
    batch_count=10,
)


def judged(finding: Finding, relation: str = "remove", run: tr.Run = RUN) -> Any:
    return tr.audit(finding, run, delta=1e-5, relation=relation)


@pytest.mark.parametrize("relation", ["remove", "substitute"])
def test_a_claim_of_shuffled_batches_matches_the_loader_that_is_cut_so(relation: str) -> None:
    result = judged(SEEN, relation)
    assert result.verdict is Verdict.MATCHES
    assert result.proved.upper == result.claimed.upper
    assert judged(replace(SEEN, how=How.DECLARED), relation).verdict is Verdict.DECLARED


def test_a_match_says_what_it_takes_for_granted() -> None:
    assert "to its end and no sum is divided by the size of a last batch" in judged(SEEN).sentence
    assert judged(SEEN, "substitute").sentence.endswith(
        "provided that every pass over the loader is run to its end."
    )


def test_one_batch_of_all_records_costs_what_was_accounted_and_nothing_else() -> None:
    whole = Finding(
        scheme=Scheme.EVERY_RECORD, how=How.INSPECTED, sentence="All.", sampling=tr.EveryRecord(), records=100
    )
    result = judged(whole, run=tr.Step(NOISE, tr.Shuffled.cut(records=100, batch=100)) * 4)
    assert result.verdict is Verdict.COVERED
    assert "Accounted as shuffled epochs of 1 batch," in result.sentence
    assert "What runs costs no more: epsilon is at most " in result.sentence


@pytest.mark.parametrize(
    "changed",
    [
        {"reshuffles": None},
        {"reshuffles": False},
        {"records": 99, "full": 9},
        {"records": 105},
        {"times": 2},
        {"copies": 2},
        {"how": How.WATCHED},
        {"removal_changes_one_slot": False},
        {"batch_count": 30},
        {"scheme": Scheme.FIXED_PARTITION},
    ],
    ids=str,
)
def test_nothing_else_matches(changed: dict[str, Any]) -> None:
    assert judged(replace(SEEN, **changed)).verdict not in (Verdict.MATCHES, Verdict.DECLARED)


def test_where_the_order_may_be_known_nothing_is_gained_by_the_shuffle() -> None:
    seen = replace(SEEN, records=1000, batch=50, epoch=20, full=20)
    run = tr.Step(NOISE, tr.Poisson(rate=0.05)) * 40
    known = prove_bound(run, replace(seen, reshuffles=None), delta=1e-5, relation="substitute")
    fresh = prove_bound(run, seen, delta=1e-5, relation="substitute")
    full = tr.epsilon(tr.Step(NOISE, tr.EveryRecord()) * 2, delta=1e-5, relation="substitute")
    assert known.epsilon.upper == full.upper
    assert fresh.epsilon.upper < 0.75 * full.upper
    assert known.because[-1].name == "revealed_batches"
    assert fresh.because[0].name == "shuffled_substitute"


@pytest.mark.parametrize("relation", ["add", "remove", "substitute"])
def test_a_claim_of_poisson_batches_gets_the_numbers_of_the_shuffle(relation: str) -> None:
    claim = tr.Step(NOISE, tr.Poisson(rate=0.1)) * 20
    result = judged(SEEN, relation, claim)
    shuffled = tr.epsilon(RUN, delta=1e-5, relation=relation)
    assert (result.proved.lower, result.proved.upper) == (shuffled.lower, shuffled.upper)
    assert result.verdict in (Verdict.TOO_SMALL, Verdict.NOT_PROVEN)


def test_under_add_and_remove_the_division_by_a_smaller_batch_is_taken_for_granted_aloud() -> None:
    condition = "no sum is divided by the size of a last batch"
    assert condition in prove_bound(RUN, SEEN, delta=1e-5, relation="remove").provided
    assert condition not in prove_bound(RUN, SEEN, delta=1e-5, relation="substitute").provided
    dropped = replace(SEEN, records=105)
    assert condition not in prove_bound(RUN, dropped, delta=1e-5, relation="remove").provided


def test_records_that_are_left_over_spare_add_and_remove_the_full_batch() -> None:
    dropped = prove_bound(RUN, replace(SEEN, records=105), delta=1e-5, relation="remove").epsilon
    kept = prove_bound(RUN, SEEN, delta=1e-5, relation="remove").epsilon
    assert dropped.upper < kept.lower


def test_broken_off_epochs_count_as_whole_ones_and_several_noises_as_the_smallest() -> None:
    broken = prove_bound(RUN, SEEN, delta=1e-5, relation="remove", epochs=3)
    three = tr.epsilon(tr.Step(NOISE, CUT) * 30, delta=1e-5, relation="remove")
    assert broken.epsilon.upper == three.upper
    less = tr.Step(tr.Gaussian(noise_multiplier=3), CUT)
    mixed = prove_bound(tr.Step(NOISE, CUT) * 10 + less * 10, SEEN, delta=1e-5, relation="remove")
    worst = tr.epsilon(less * 20, delta=1e-5, relation="remove")
    best = tr.epsilon(RUN, delta=1e-5, relation="remove")
    assert best.lower <= mixed.epsilon.upper <= worst.upper
    assert mixed.epsilon.lower <= best.upper


def test_a_generator_that_was_given_is_no_fresh_order() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(100.0).reshape(100, 1))

    def load(**more: Any) -> Any:
        return torch.utils.data.DataLoader(data, batch_size=10, shuffle=True, **more)

    assert judged(load()).verdict is Verdict.MATCHES
    assert judged(load(), "substitute").verdict is Verdict.MATCHES
    assert judged(load(drop_last=True)).verdict is not Verdict.MATCHES  # a record fewer, a batch fewer
    assert judged(load(drop_last=True), "substitute").verdict is Verdict.MATCHES
    seeded = judged(load(generator=torch.Generator().manual_seed(1)))
    assert seeded.verdict is not Verdict.MATCHES
    assert "whoever knows its seed knows the order" in str(seeded)
