"""Samplers of ours are read without a loader around them."""

from fractions import Fraction

import pytest

import tightrope as tr
from tightrope.audit import Scheme, Verdict, audit, inspect_loader
from tightrope.samplers import PoissonSampler, WithoutReplacementSampler, sampler_of


@pytest.mark.parametrize("sampling", [tr.Poisson, tr.WithoutReplacement])
def test_the_sampler_of_a_plan_matches_the_plan_and_no_shorter_one(
    sampling: type[tr.Poisson] | type[tr.WithoutReplacement],
) -> None:
    plan = tr.Training(records=990, batch=20, epochs=3, sampling=sampling)
    run = plan.run(noise_multiplier=1)
    result = audit(sampler_of(plan), run, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert result.verdict is Verdict.MATCHES
    assert result.sentence.endswith("That is what was accounted.")
    assert (result.proved, result.finding.batch_count) == (result.claimed, plan.steps)
    assert result.finding.sentence.startswith("This sampler draws ")
    shorter = tr.Run(((run.parts[0][0], 10),))
    assert not audit(sampler_of(plan), shorter, delta=1e-5, relation=tr.ADD_OR_REMOVE).holds


def test_the_dataset_behind_a_sampler_is_said_not_to_be_seen() -> None:
    sampler = PoissonSampler(records=1000, rate=Fraction(1, 50), steps=7)
    finding = inspect_loader(sampler)
    assert (finding.scheme, finding.copies, finding.records) == (Scheme.POISSON, None, 1000)
    assert finding.sampling == tr.Poisson(rate=Fraction(1, 50))
    assert any(note.startswith("Cannot be seen: the dataset") for note in finding.notes)
    assert sampler.drawn == 0  # nothing is drawn to find out


def test_a_share_stands_for_the_global_batch() -> None:
    share = WithoutReplacementSampler(records=1000, batch=20, steps=7, seed=5).share(rank=1, ranks=4)
    finding = inspect_loader(share)
    assert finding.sampling == tr.WithoutReplacement(batch=20, population=1000)
    assert finding.batch_count == 7
    assert "Of 4 ranks each takes its part of every batch." in finding.notes


def test_a_sampler_says_by_itself_from_how_many_records_it_draws() -> None:
    sampler = PoissonSampler(records=1000, rate=0.02, steps=7)
    with pytest.raises(tr.InvalidSetting, match="records must be left out, got 1000"):
        inspect_loader(sampler, records=1000)


@pytest.mark.parametrize("method", ["_draw", "_hand_out"])
def test_a_sampler_whose_method_was_replaced_is_not_known_by_its_class(method: str) -> None:
    sampler = PoissonSampler(records=1000, rate=0.02, steps=7)
    setattr(sampler, method, lambda *_: [1, 2, 3])
    finding = inspect_loader(sampler)
    assert (finding.scheme, finding.sampling) == (Scheme.UNKNOWN, None)
    assert f"a PoissonSampler whose {method} was replaced" in finding.sentence


def test_a_share_of_a_sampler_whose_method_was_replaced_is_not_known_either() -> None:
    sampler = PoissonSampler(records=1000, rate=0.02, steps=7, seed=1)
    share = sampler.share(rank=0, ranks=2)
    sampler._draw = lambda _: None  # type: ignore
    assert inspect_loader(share).scheme is Scheme.UNKNOWN


def test_a_seed_is_said() -> None:
    seeded = inspect_loader(PoissonSampler(records=1000, rate=0.02, steps=7, seed=1))
    fresh = inspect_loader(PoissonSampler(records=1000, rate=0.02, steps=7))
    assert [any("follow from a seed" in note for note in one.notes) for one in (seeded, fresh)] == [
        True,
        False,
    ]


def test_what_looks_like_one_of_our_samplers_is_not_taken_for_one() -> None:
    class Quiet:
        records, steps, sampling = 1000, 7, tr.Poisson(rate=0.02)

    with pytest.raises(tr.InvalidSetting, match=r"a sampler of tightrope\.samplers"):
        inspect_loader(Quiet())
