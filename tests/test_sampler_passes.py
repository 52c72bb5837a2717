"""Samplers count, resume, share out and cut their batches, and refuse what would be accounted wrongly."""

import itertools
import json
import os
import pickle
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

import tightrope as tr
from tightrope import Gaussian, InvalidSetting, Poisson, WithoutReplacement
from tightrope.samplers import (
    BallsInBinsSampler,
    Passes,
    PoissonSampler,
    RandomAllocationSampler,
    Sampler,
    TruncatedPoissonSampler,
    WithoutReplacementSampler,
    fresh_seed,
)
from tightrope.samplers.entropy import seeded_bytes

Indices = NDArray[np.int64]


# ---- passes, counts and seeds

SAMPLERS: list[Callable[..., Sampler]] = [
    lambda **options: PoissonSampler(records=50, rate=0.2, steps=10, **options),
    lambda **options: WithoutReplacementSampler(records=50, batch=9, steps=10, **options),
    lambda **options: TruncatedPoissonSampler(records=50, rate=0.2, at_most=11, steps=10, **options),
    lambda **options: BallsInBinsSampler(records=50, batches=10, **options),
    lambda **options: BallsInBinsSampler(records=50, batches=7, steps=10, **options),
    lambda **options: RandomAllocationSampler(records=50, batches=6, chosen=2, steps=10, **options),
]
NAMES = ["poisson", "without_replacement", "truncated", "balls_in_bins", "across_passes", "allocation"]
every_sampler = pytest.mark.parametrize("make", SAMPLERS, ids=NAMES)


def same(one: Iterable[Indices], other: Iterable[Indices]) -> bool:
    return [batch.tolist() for batch in one] == [batch.tolist() for batch in other]


@every_sampler
@pytest.mark.parametrize("seed", [None, 0, 9, 2**128 - 1])
def test_passes_never_replay_and_are_counted(make: Callable[..., Sampler], seed: int | None) -> None:
    sampler = make(seed=seed)
    assert (len(sampler), sampler.drawn) == (10, 0)
    batches = [*sampler, *sampler, *sampler]
    assert sampler.drawn == len(batches) == 30
    assert len({tuple(batch.tolist()) for batch in batches}) == 30
    if seed is not None:
        assert same(batches, map(sampler.batch_at, range(30)))
        assert sampler.drawn == 30


@every_sampler
def test_two_live_iterators_share_one_count(make: Callable[..., Sampler]) -> None:
    sampler = make(seed=1)
    one, other = iter(sampler), iter(sampler)
    taken = [next(one), next(other), next(other), next(one)]
    assert same(taken, map(sampler.batch_at, range(4)))
    assert sampler.drawn == 4


def test_seed_and_number_both_matter_and_do_not_trade_places() -> None:
    streams = {
        bytes(seeded_bytes(seed=s, number=t)(32)) for s in (0, 1, 2, 2**64, 2**127) for t in (0, 1, 2, 2**40)
    }
    assert len(streams) == 20


def test_a_seed_means_the_same_batches_for_ever() -> None:
    assert PoissonSampler(records=100, rate=0.05, steps=1, seed=7).batch_at(3).tolist() == [1, 67, 72]
    assert WithoutReplacementSampler(records=100, batch=5, steps=1, seed=7).batch_at(3).tolist() == [
        7,
        24,
        27,
        66,
        94,
    ]


def test_a_seed_means_the_same_allocations_and_caps_for_ever() -> None:
    bins = BallsInBinsSampler(records=100, batches=20, seed=7)
    chosen = RandomAllocationSampler(records=30, batches=20, chosen=3, seed=7)
    capped = TruncatedPoissonSampler(records=100, rate=0.1, at_most=4, steps=1, seed=7)
    drawn = [sampler.batch_at(23).tolist() for sampler in (bins, chosen, capped)]
    assert drawn == [[18, 35, 51, 53], [9, 11, 14, 28], [22, 33, 34, 35]]


def test_fresh_seeds_differ_and_fit() -> None:
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seed.bit_length() for seed in seeds) in range(110, 129)


def test_without_a_seed_every_byte_is_asked_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", urandom)
    (batch,) = PoissonSampler(records=1000, rate=0.5, steps=1)
    assert (asked, len(batch)) == ([1000], 1000)


@every_sampler
def test_a_resumed_run_goes_on_with_the_next_batch(make: Callable[..., Sampler]) -> None:
    whole = make(seed=11)
    batches = [*whole, *whole]
    first = make(seed=11)
    taken = list(itertools.islice(first, 7))
    state = json.loads(json.dumps(first.state_dict()))
    second = make(seed=11)
    second.load_state_dict(state)
    assert same([*taken, *second], batches[:17])
    assert second.drawn == 17
    assert same(make(seed=11, drawn=4), batches[4:14])
    copy = pickle.loads(pickle.dumps(second))
    assert same(itertools.islice(copy, 3), batches[17:])


def test_an_unseeded_state_keeps_the_count() -> None:
    sampler = PoissonSampler(records=10, rate=0.5, steps=3)
    list(sampler)
    other = PoissonSampler(records=10, rate=0.5, steps=5)
    other.load_state_dict(sampler.state_dict())
    assert sampler.state_dict() == {
        "kind": "poisson",
        "records": 10,
        "rate": 0.5,
        "steps": 3,
        "seed": None,
        "drawn": 3,
    }
    assert (other.drawn, len(other)) == (3, 5)


def test_states_of_version_0_7_are_read() -> None:
    sampler = WithoutReplacementSampler(records=10, batch=2, steps=3)
    sampler.load_state_dict({**sampler.state_dict(), "kind": "without_replacement", "drawn": 2})
    assert sampler.drawn == 2
    assert sampler.state_dict()["kind"] == "without-replacement"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"kind": "without-replacement"},
            "kind in the state must be 'poisson' as in this sampler, got 'without-replacement'",
        ),
        ({"records": 51}, "records in the state must be 50 as in this sampler, got 51"),
        ({"rate": 0.25}, "rate in the state must be 0.2 as in this sampler, got 0.25"),
        ({"seed": None}, "seed in the state must be the seed of this sampler"),
        ({"seed": 987654321}, "seed in the state must be the seed of this sampler"),
        (
            {"drawn": 1},
            "drawn in the state must be at least 2, the batches this sampler has handed out, got 1",
        ),
        ({"drawn": None}, "drawn must be a whole number, got None"),
        ({"drawn": -1}, "drawn must be at least 0, got -1"),
    ],
)
def test_states_of_other_runs_are_refused_by_name(changed: dict[str, object], message: str) -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=123456789, drawn=2)
    with pytest.raises(InvalidSetting, match=f"^{message}") as refusal:
        sampler.load_state_dict({**sampler.state_dict(), **changed})
    assert "123456789" not in str(refusal.value)
    assert "987654321" not in str(refusal.value)
    assert sampler.drawn == 2


def test_a_state_that_is_none_is_refused() -> None:
    other = WithoutReplacementSampler(records=50, batch=5, steps=1)
    with pytest.raises(InvalidSetting, match="state must be a mapping, got 3"):
        other.load_state_dict(3)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidSetting, match="kind in the state must be 'without-replacement' as in this sampler, got None"
    ):
        other.load_state_dict({})


def test_a_seed_does_not_show_in_a_log() -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=123456789)
    assert repr(sampler) == "PoissonSampler(records=50, rate=0.2, steps=10, seed=..., drawn=0)"
    assert "123456789" not in repr(sampler.share(rank=0, ranks=2))
    assert repr(WithoutReplacementSampler(records=5, batch=2, steps=1)) == (
        "WithoutReplacementSampler(records=5, batch=2, steps=1, drawn=0)"
    )


# ---- ranks and pieces


@every_sampler
@pytest.mark.parametrize("ranks", [1, 2, 3, 60])
def test_the_shares_of_all_ranks_are_the_global_batch(make: Callable[..., Sampler], ranks: int) -> None:
    sampler = make(seed=12, drawn=5)
    shares = [sampler.share(rank=rank, ranks=ranks) for rank in range(ranks)]
    for number, parts in zip(range(5, 15), zip(*shares, strict=True), strict=True):
        assert sorted(np.concatenate(parts).tolist()) == sampler.batch_at(number).tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {share.drawn for share in shares} == {sampler.drawn} == {15}
    for share in shares:
        assert (share.sampling, len(share), share.records) == (sampler.sampling, 10, 50)
        assert share.expected_batch == sampler.expected_batch
        assert share.run(Gaussian(noise_multiplier=1)) == sampler.step(Gaussian(noise_multiplier=1)) * 15


def test_a_divided_sampler_hands_out_each_record_of_a_batch_once() -> None:
    sampler = PoissonSampler(records=50, rate=0.2, steps=10, seed=13)
    live = iter(sampler)
    next(live)
    share = sampler.share(rank=0, ranks=2)
    assert sampler.share(rank=0, ranks=2) is share
    with pytest.raises(InvalidSetting, match=r"divided among ranks=2.*Iterate over the share"):
        next(live)
    with pytest.raises(InvalidSetting, match="ranks must be 2 as in the shares already taken, got 3"):
        sampler.share(rank=2, ranks=3)
    next(iter(share))
    assert (sampler.drawn, share.drawn, sampler.share(rank=1, ranks=2).drawn) == (2, 2, 1)


def test_a_run_can_be_resumed_on_another_number_of_ranks() -> None:
    share = PoissonSampler(records=50, rate=0.2, steps=10, seed=14).share(rank=1, ranks=2)
    list(share)
    resumed = PoissonSampler(records=50, rate=0.2, steps=10, seed=14)
    alone = resumed.share(rank=0, ranks=1)
    alone.load_state_dict(share.state_dict())
    assert resumed.drawn == alone.drawn == 10
    assert same(alone, map(resumed.batch_at, range(10, 20)))


@every_sampler
@pytest.mark.parametrize("most", [1, 4, 9, 100])
def test_pieces_make_up_the_logical_batches(make: Callable[..., Sampler], most: int) -> None:
    whole: Passes = make(seed=15)
    for passes, expected in ((make(seed=15), list(whole)), (make(seed=15).share(rank=1, ranks=9), None)):
        batches: list[list[int]] = [[]]
        for piece in passes.pieces(most=most):
            assert len(piece.indices) <= most
            assert len(piece.indices) or (piece.ends_step and not batches[-1])
            assert passes.drawn == len(batches)
            batches[-1] += piece.indices.tolist()
            batches += [[]] if piece.ends_step else []
        assert batches.pop() == []
        expected = expected or [passes.batch_at(number) for number in range(10)]
        assert batches == [batch.tolist() for batch in expected]


def test_empty_batches_are_batches() -> None:
    for sampler in (
        PoissonSampler(records=5, rate=0, steps=3),
        WithoutReplacementSampler(records=5, batch=0, steps=3),
        PoissonSampler(records=5, rate=1e-299, steps=3, seed=0),
        PoissonSampler(records=5, rate=0, steps=3, seed=1).share(rank=1, ranks=2),
    ):
        assert [batch.tolist() for batch in sampler] == [[], [], []]
        assert [(piece.indices.tolist(), piece.ends_step) for piece in sampler.pieces(most=2)] == [
            ([], True)
        ] * 3
        assert sampler.drawn == 6


def test_rate_one_and_the_full_batch_are_everybody() -> None:
    for sampler in (
        PoissonSampler(records=5, rate=1, steps=2),
        WithoutReplacementSampler(records=5, batch=5, steps=2),
    ):
        assert [batch.tolist() for batch in sampler] == [[0, 1, 2, 3, 4]] * 2


# ---- accounting


def test_the_sampling_is_the_value_the_accountant_takes() -> None:
    poisson = PoissonSampler(records=1000, rate=0.01, steps=50, seed=16)
    fixed = WithoutReplacementSampler(records=1000, batch=10, steps=50, seed=16)
    assert (poisson.sampling, poisson.expected_batch) == (Poisson(rate=0.01), 10)
    assert (fixed.sampling, fixed.expected_batch) == (WithoutReplacement(batch=10, population=1000), 10)
    noise = Gaussian(noise_multiplier=1.0)
    assert poisson.run(noise) == tr.Run()
    list(poisson)
    list(fixed)
    assert poisson.run(noise) == tr.Step(noise, Poisson(rate=0.01)) * 50
    by_hand = tr.epsilon(tr.Step(noise, Poisson(rate=0.01)) * 50, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert tr.epsilon(poisson.run(noise), delta=1e-5, relation=tr.ADD_OR_REMOVE) == by_hand
    assert tr.epsilon(fixed.run(noise), delta=1e-5, relation=tr.SUBSTITUTE).upper > by_hand.upper


# ---- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": 0}, r"records must be at least 1, got 0\. It is the size of the dataset"),
        ({"records": 5.0}, r"records must be a whole number, got 5\.0"),
        ({"records": 2**63}, r"records must be at most 2\^62"),
        ({"rate": 1.5}, r"rate must be in \[0, 1\], got 1\.5"),
        ({"rate": float("nan")}, "rate must be finite"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"seed": -1}, r"seed must be at least 0, got -1\. Use fresh_seed"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"seed": 2**128}, r"seed must be below 2\^128, got a number of 129 bits"),
        ({"drawn": -1}, "drawn must be at least 0"),
        ({"drawn": 10**16}, r"drawn must be at most 1e\+15"),
    ],
)
def test_bad_arguments_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        PoissonSampler(**{"records": 10, "rate": 0.5, "steps": 1, **options})  # type: ignore[arg-type]


def test_other_bad_questions_are_refused_by_name() -> None:
    with pytest.raises(InvalidSetting, match="batch must be at most population=10, got 11"):
        WithoutReplacementSampler(records=10, batch=11, steps=1)
    unseeded = PoissonSampler(records=10, rate=0.5, steps=1)
    with pytest.raises(InvalidSetting, match=r"seed must be given for batch_at\(0\), got None.*fresh_seed"):
        unseeded.batch_at(0)
    with pytest.raises(InvalidSetting, match=r"call fresh_seed\(\) on one rank, broadcast it"):
        unseeded.share(rank=0, ranks=2)
    with pytest.raises(InvalidSetting, match="most must be at least 1, got 0"):
        unseeded.pieces(most=0)
    seeded = PoissonSampler(records=10, rate=0.5, steps=1, seed=1)
    with pytest.raises(InvalidSetting, match="rank must be below ranks=2, got 2"):
        seeded.share(rank=2, ranks=2)
    with pytest.raises(InvalidSetting, match="number must be at least 0, got -1"):
        seeded.batch_at(-1)
    with pytest.raises(InvalidSetting, match=r"number must be below 1e\+15"):
        seeded.batch_at(10**15)
    with pytest.raises(InvalidSetting, match="mechanism must be one of"):
        seeded.step(3)  # type: ignore[arg-type]
