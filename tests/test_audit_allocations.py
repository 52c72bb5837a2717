"""Samplers in which records choose their batches, and capped ones: read, watched, and held beside a claim."""

import itertools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from shell import Shell
from tightrope.audit import Audit, Finding, Scheme, Verdict, audit, inspect_loader, watch
from tightrope.audit.loaders.inspect import skip
from tightrope.samplers import (
    BallsInBinsSampler,
    PoissonSampler,
    RandomAllocationSampler,
    Sampler,
    TruncatedPoissonSampler,
)

GAUSSIAN = tr.Gaussian(noise_multiplier=2)
RECORDS = 300


def bins(**options: Any) -> BallsInBinsSampler:
    return BallsInBinsSampler(**{"records": RECORDS, "batches": 20, **options})


def judge(what: object, sampling: Any, steps: int = 20, relation: tr.Relation = tr.ADD_OR_REMOVE) -> Audit:
    return audit(what, tr.Step(GAUSSIAN, sampling) * steps, delta=1e-5, relation=relation)


# read


@pytest.mark.parametrize(
    ("sampler", "scheme", "sentence"),
    [
        (
            bins(),
            Scheme.BALLS_IN_BINS,
            "This sampler puts each of the 300 records into one of 20 batches by chance, anew in every pass.",
        ),
        (
            RandomAllocationSampler(records=RECORDS, batches=20, chosen=3),
            Scheme.RANDOM_ALLOCATION,
            "This sampler puts each of the 300 records into 3 of 20 batches by chance, anew in every pass.",
        ),
        (
            TruncatedPoissonSampler(records=RECORDS, rate=0.05, at_most=20, steps=20),
            Scheme.TRUNCATED_POISSON,
            "This sampler draws Poisson batches of the 300 records at rate 0.05, and keeps a random 20 of "
            "those that have more.",
        ),
    ],
    ids=["bins", "allocation", "truncated"],
)
def test_our_samplers_are_read_for_what_they_say(sampler: Sampler, scheme: Scheme, sentence: str) -> None:
    finding = inspect_loader(sampler)
    assert (finding.scheme, finding.sampling, finding.sentence) == (scheme, sampler.sampling, sentence)
    assert (finding.records, finding.batch_count) == (RECORDS, 20)
    assert Finding.from_plain(finding.plain()) == finding


def test_a_share_is_read_as_the_whole() -> None:
    finding = inspect_loader(bins(seed=1).share(rank=0, ranks=2))
    assert finding.sampling == tr.BallsInBins(batches=20)
    assert "Of 2 ranks each takes its part of every batch." in finding.notes


def test_a_loader_that_skips_batches_of_each_pass_has_no_such_sampling_any_more() -> None:
    for sampler in (bins(), RandomAllocationSampler(records=RECORDS, batches=20, chosen=3)):
        assert skip(inspect_loader(sampler), 5, of=20).sampling is None
    poisson = PoissonSampler(records=RECORDS, rate=0.05, steps=20)
    assert skip(inspect_loader(poisson), 5, of=20).sampling == poisson.sampling


def test_a_loader_over_bins_matches_what_was_accounted() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make training")
    from tightrope.samplers.torch import data_loader

    dataset = torch.utils.data.TensorDataset(torch.arange(RECORDS))
    finding = inspect_loader(data_loader(dataset, bins()))
    assert (finding.scheme, finding.sampling) == (Scheme.BALLS_IN_BINS, tr.BallsInBins(batches=20))


# judged


def test_bins_match_a_claim_of_as_many_and_no_other() -> None:
    for steps in (20, 60):
        result = judge(bins(), tr.BallsInBins(batches=20), steps)
        assert result.verdict is Verdict.MATCHES
        assert (result.proved.lower, result.proved.upper) == (result.claimed.lower, result.claimed.upper)
        assert "Accounted as balls in 20 bins" in result.sentence
    assert judge(bins(), tr.BallsInBins(batches=19)).verdict is not Verdict.MATCHES
    assert judge(bins(), tr.BallsInBins(batches=40)).verdict is Verdict.TOO_SMALL
    assert judge(bins(), tr.BallsInBins(batches=20), 10).verdict is Verdict.TOO_SMALL  # half of a pass


def test_batches_that_begin_within_a_pass_are_accounted_with_those_before_them() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make training")
    from tightrope.samplers.torch import data_loader

    dataset = torch.utils.data.TensorDataset(torch.arange(RECORDS))
    late = bins(seed=3, drawn=25)
    allocated = RandomAllocationSampler(records=RECORDS, batches=20, chosen=3, seed=3, drawn=5)
    for what in (late, data_loader(dataset, late), late.share(rank=0, ranks=2), allocated):
        finding = inspect_loader(what)
        assert finding.batch_count == 25
        told = "Of the present pass 5 batches were drawn before: account them with those to come."
        assert told in finding.notes
    # 15 batches of one pass and 5 of the next are no whole pass
    assert judge(late, tr.BallsInBins(batches=20), 20).verdict is Verdict.TOO_SMALL
    assert judge(late, tr.BallsInBins(batches=20), 25).verdict is Verdict.MATCHES
    whole = bins(seed=3, drawn=40)
    assert judge(whole, tr.BallsInBins(batches=20), 20).verdict is Verdict.MATCHES


def test_bins_are_no_poisson_batches_and_poisson_batches_no_bins() -> None:
    assert judge(bins(), tr.Poisson(rate=0.05)).verdict is Verdict.COVERED  # 0.43 where 0.52 was claimed
    poisson = PoissonSampler(records=RECORDS, rate=0.05, steps=20)
    assert judge(poisson, tr.BallsInBins(batches=20)).verdict is Verdict.TOO_SMALL


# watched


def test_recorded_bins_match_a_claim_of_as_many() -> None:
    sampler = bins(steps=100, seed=3)
    seen = watch(list(sampler), records=RECORDS)
    assert (seen.scheme, seen.sampling) == (Scheme.BALLS_IN_BINS, tr.BallsInBins(batches=20))
    assert judge(seen, tr.BallsInBins(batches=20), 100).verdict is Verdict.MATCHES
    assert judge(seen, tr.BallsInBins(batches=25), 100).verdict is not Verdict.MATCHES
    part = judge(seen, tr.BallsInBins(batches=20), 140)
    assert part.verdict is Verdict.COVERED
    assert "provided that all batches are drawn like those that were watched" in part.sentence


def test_a_recording_that_begins_within_a_pass_holds_parts_of_more_passes_than_it_fills() -> None:
    late = list(itertools.islice(bins(steps=107, seed=3), 7, None))
    seen = watch(late, records=RECORDS)
    assert (seen.scheme, seen.epoch, seen.sampling) == (Scheme.BALLS_IN_BINS, 20, None)
    assert judge(seen, tr.BallsInBins(batches=20), 100).verdict is not Verdict.MATCHES


@pytest.mark.parametrize("claimed", ["balls-in-bins", "random-allocation --chosen 2"])
def test_the_command_line_holds_passes_of_so_many_batches_beside_a_recording(
    shell: Shell, claimed: str
) -> None:
    """The recording was called --batches as well, so that no such claim could be typed."""
    recording = shlex.quote(str(Path(__file__).parent.parent / "examples/shuffled.jsonl"))
    asked = f"--noise 2 --sampling {claimed} --batches 50 --steps 200 --relation add --delta 1e-6"
    code, out, err = shell(f"audit {recording} {asked} --json")
    assert (code, err) == (3, "")
    assert json.loads(out)["question"]["sampling"]["batches"] == 50
