"""What comes close to balls in bins and is not it is no match; what may be hidden is said."""

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

import tightrope as tr
from nearly_bins import NEARLY_BALLS_IN_BINS
from tightrope.audit import audit
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Scheme
from tightrope.audit.recordings import bets, bins
from tightrope.audit.recordings.batches import join
from tightrope.audit.recordings.clues import DISTANCE_SHARE, KEPT_SHARE, LEVEL, TIED_SHARE, Clue
from tightrope.audit.recordings.epochs import EpochCut
from tightrope.audit.recordings.hypotheses import BatchStatistics
from tightrope.audit.recordings.passes import PassTable, cut_into_passes
from tightrope.audit.recordings.unnoticed import tell_unnoticed_in_passes
from tightrope.audit.recordings.watch import watch

N, B, COUNT = 2000, 50, 400  # ten passes of 40 batches
RUN = tr.Step(tr.Gaussian(noise_multiplier=1), tr.BallsInBins(batches=40)) * COUNT
MOSTLY_FOUND = {"never in the next batch": 8}  # of ten: some eleven visits are missing, which chance may do


def throw(rng: np.random.Generator, records: int, batches: int) -> NDArray[np.int64]:
    return rng.integers(batches, size=records)


def collect(place: NDArray[np.int64], batches: int) -> list[NDArray[np.int64]]:
    return [np.flatnonzero(place == batch) for batch in range(batches)]


def throw_passes(
    seed: int, *, records: int = N, batches: int = 40, passes: int = 10
) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng([seed, records, batches])
    return [batch for _ in range(passes) for batch in collect(throw(rng, records, batches), batches)]


def cut(recorded: list[NDArray[np.int64]], records: int, batches: int, offset: int = 0) -> PassTable:
    epochs = EpochCut(offset=offset, length=batches, log_chance=-1.0, first=records)
    return cut_into_passes(join(recorded, records), epochs)


@pytest.mark.parametrize("name", NEARLY_BALLS_IN_BINS)
def test_what_only_looks_like_balls_in_bins_is_no_match(name: str) -> None:
    missed = 0
    for seed in range(10):
        recorded = NEARLY_BALLS_IN_BINS[name](np.random.default_rng([seed, 17]), N, B, COUNT)
        missed += watch(recorded, records=N).sampling is not None
    assert 10 - missed >= MOSTLY_FOUND.get(name, 10)


def test_a_shuffle_that_is_cut_at_the_same_sizes_in_every_pass_is_unknown_and_not_a_match() -> None:
    recorded = NEARLY_BALLS_IN_BINS["sizes drawn once"](np.random.default_rng(1), N, B, COUNT)
    result = audit(watch(recorded, records=N), RUN, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert result.verdict is Verdict.UNKNOWN
    assert "9 of 10 passes have the sizes of an earlier one" in result.sentence


def test_balls_in_bins_still_match() -> None:
    for seed in range(20):
        result = audit(watch(throw_passes(seed), records=N), RUN, delta=1e-5, relation=tr.ADD_OR_REMOVE)
        assert result.verdict is Verdict.MATCHES


# p-values


def every_recording(records: int, batches: int, passes: int) -> Iterator[NDArray[np.int64]]:
    for places in product(range(batches), repeat=records * passes):
        yield np.array(places).reshape(passes, records)


BETS: dict[str, Callable[[PassTable], Clue]] = {
    "places": bets.weigh_recurring_places,
    "sizes": bets.weigh_recurring_sizes,
    "order": bets.weigh_order_in_passes,
    "ties": bets.weigh_ties_in_passes,
    "distances": bets.weigh_distances,
}


@pytest.mark.parametrize(("records", "batches", "passes"), [(3, 2, 3), (2, 3, 3), (4, 2, 2)])
@pytest.mark.parametrize("name", BETS)
def test_the_capital_of_a_bet_is_one_on_average_over_all_recordings(
    name: str, records: int, batches: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that 1 / capital is a p-value, whatever is bet on: the one thing that must be true of a bet."""
    capital: list[float] = []

    def keep(log_capital: NDArray[np.float64], log_stakes: NDArray[np.float64] | float) -> float:
        capital.append(math.exp(special.logsumexp(log_capital + log_stakes)))
        return 1.0

    monkeypatch.setattr(bets, "settle", keep)
    for places in every_recording(records, batches, passes):
        recorded = [batch for row in places for batch in collect(row, batches)]
        BETS[name](cut(recorded, records, batches))
    # of lags and distances, the stakes on those beyond the last that is tried are kept out of the game
    left_over = {"order": 1 / (passes * batches + 1), "distances": 1 / batches}.get(name, 0.0)
    assert np.mean(capital) == pytest.approx(1 - left_over, abs=1e-9)


@pytest.mark.parametrize("name", ["places", "order"])
def test_so_is_it_of_passes_that_were_recorded_in_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    capital: list[float] = []

    def keep(log_capital: NDArray[np.float64], log_stakes: NDArray[np.float64] | float) -> float:
        capital.append(math.exp(special.logsumexp(log_capital + log_stakes)))
        return 1.0

    monkeypatch.setattr(bets, "settle", keep)
    for places in every_recording(2, 3, 3):
        recorded = [batch for row in places for batch in collect(row, 3)][
            1:8
        ]  # without the first and the last
        BETS[name](cut(recorded, 2, 3, offset=2))
    assert 0.5 < np.mean(capital) <= 1 + 1e-12


COUNTED: dict[str, Callable[[PassTable, BatchStatistics], list[Clue]]] = {
    "ends": lambda passes, _: bins.weigh_ends_of_bins(passes),
    "closest": lambda passes, stats: [bins.weigh_closest_in_passes(passes, stats.shared)],
    "kept": lambda passes, _: [bins.weigh_kept_places(passes)],
}


@pytest.mark.parametrize(
    ("records", "batches", "passes"), [(30, 3, 4), (100, 50, 3), (50, 2, 30), (300, 10, 12)]
)
@pytest.mark.parametrize("name", COUNTED)
def test_p_values_of_true_passes_are_small_as_rarely_as_they_say(
    name: str, records: int, batches: int, passes: int
) -> None:
    values = []
    for seed in range(200):
        recorded = throw_passes(seed, records=records, batches=batches, passes=passes)
        stats = BatchStatistics(join(recorded, records))
        values.append([clue.p_value for clue in COUNTED[name](cut(recorded, records, batches), stats)])
    assert (np.mean(np.array(values) < 0.01, axis=0) <= 0.01 + 0.4 / 200**0.5).all()


def test_the_chance_of_sizes_in_any_order_is_counted() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for places in product(range(3), repeat=4):
        sizes = tuple(sorted(np.bincount(places, minlength=3).tolist()))
        seen[sizes] = seen.get(sizes, 0) + 1
    for sizes, times in seen.items():
        assert math.exp(bets.log_chance_of_sizes(np.array(sizes))) == pytest.approx(times / 3**4, rel=1e-12)


# what may go unnoticed is said


def notes_of(passes: int, *, records: int = N, batches: int = 40) -> str:
    finding = watch(throw_passes(1, records=records, batches=batches, passes=passes), records=records)
    assert finding.scheme is Scheme.BALLS_IN_BINS
    return " ".join(finding.notes)


def test_what_was_tested_of_passes_and_what_may_go_unnoticed_is_said() -> None:
    notes = notes_of(10)
    for said in (
        "Tested: whether sizes are too even, too uneven, cut off, in some order, or those of another pass;",
        "All tests share an error level of 0.0007.",
        "Two records that come together in fewer than 8 of the 10 passes may go unnoticed.",
        "A record that comes at the same place in fewer than 8 of the 10 passes may go unnoticed.",
        "A cap or a floor that at most 2.6% of the sizes would lie beyond may go unnoticed",
    ):
        assert said in notes


def test_of_few_passes_more_is_said_to_go_unnoticed() -> None:
    assert "Fewer than about 13 pairs of records that always come together may go unnoticed." in notes_of(4)
    assert "Fewer than 3 records that keep their places in all passes may go unnoticed." in notes_of(4)
    assert "A least distance of up to 3 batches between two visits of a record may go unnoticed." in notes_of(
        4
    )
    assert "Records that always come together may go unnoticed." in notes_of(2)


def test_sizes_that_come_again_are_said_to_go_unnoticed_where_they_would() -> None:
    for batches, passes, is_said in ((2, 2, True), (40, 2, False), (40, 10, False)):
        recorded = throw_passes(1, batches=batches, passes=passes)
        notes = tell_unnoticed_in_passes(cut(recorded, N, batches), BatchStatistics(join(recorded, N)).shared)
        said = "Sizes that are drawn once, and are the same in every pass, may go unnoticed." in notes
        assert said is is_said
        again = cut(recorded[:batches] * passes, N, batches)
        assert (bets.weigh_recurring_sizes(again).weighed < LEVEL) is not is_said


def tie(recorded: list[NDArray[np.int64]], pairs: int, passes: int) -> list[NDArray[np.int64]]:
    """The first records each come with one of the last in so many passes."""
    places = np.zeros((len(recorded) // 40, N), dtype=np.int64)
    for number, batch in enumerate(recorded):
        places[number // 40, batch] = number % 40
    places[:passes, N - pairs :] = places[:passes, :pairs]
    return [batch for row in places for batch in collect(row, 40)]


def test_records_that_come_together_as_often_as_is_said_are_noticed() -> None:
    for passes, pairs, often in ((10, 1, 8), (4, 13, 4), (3, 65, 3)):
        found = 0
        for seed in range(10):
            recorded = tie(throw_passes(seed, passes=passes), pairs, often)
            stats, seen = BatchStatistics(join(recorded, N)), cut(recorded, N, 40)
            clues = [bets.weigh_ties_in_passes(seen), bins.weigh_closest_in_passes(seen, stats.shared)]
            found += any(clue.weighed < LEVEL for clue in clues)
        assert found >= 8  # "about" so many


def test_records_that_keep_their_places_as_often_as_is_said_are_noticed() -> None:
    for passes, records, often in ((10, 1, 8), (4, 3, 4)):
        recorded = throw_passes(1, passes=passes)
        places = np.zeros((passes, N), dtype=np.int64)
        for number, batch in enumerate(recorded):
            places[number // 40, batch] = number % 40
        places[:often, :records] = places[0, :records]
        kept = cut([batch for row in places for batch in collect(row, 40)], N, 40)
        assert bins.weigh_kept_places(kept).weighed < LEVEL
        places[0, :records] = (places[0, :records] + 1) % 40
        fewer = cut([batch for row in places for batch in collect(row, 40)], N, 40)
        assert bins.weigh_kept_places(fewer).weighed >= LEVEL


def test_a_least_distance_above_what_is_said_is_noticed() -> None:
    rng, last = np.random.default_rng(1), throw(np.random.default_rng(2), N, 40)
    rows = [last]
    for _ in range(3):
        drawn = throw(rng, N, 40)
        while (close := 40 + drawn - last < 3).any():  # a least distance of three
            drawn[close] = throw(rng, int(close.sum()), 40)
        rows.append(last := drawn)
    seen = cut([batch for row in rows for batch in collect(row, 40)], N, 40)
    clue = bets.weigh_distances(seen)
    assert clue.weighed < LEVEL
    assert clue.saw.startswith("0 visits come at most 2 batches after the last where ")
    assert bets.find_shortest_noticed(seen, LEVEL * DISTANCE_SHARE) == 2


def test_many_records_are_looked_at_in_part_and_this_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bets, "MOST_PLACES", 10_000)
    recorded = tie(throw_passes(1, passes=8), 200, 8)
    clue = bets.weigh_ties_in_passes(cut(recorded, N, 40))
    assert clue.saw.startswith("among 1,008 of the records, of ")
    assert (
        bets.find_fewest_tied(cut(recorded, N, 40), LEVEL * TIED_SHARE)[1] == "among 1,008 of the records, "
    )


def test_one_pass_has_nothing_to_be_compared_with() -> None:
    one = cut(throw_passes(1, passes=1), N, 40)
    for weigh in (*BETS.values(), bins.weigh_kept_places):
        assert weigh(one).p_value > LEVEL * KEPT_SHARE


def test_correlations_and_counts_are_told_as_they_are() -> None:
    rows = np.array([[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]])
    seen = cut([batch for row in rows for batch in collect(row, 2)], 4, 2)
    assert bets.weigh_recurring_places(seen).saw == (
        "sizes at the same place of different passes have the correlation -0.33"
    )
    assert bets.weigh_recurring_sizes(seen).saw.startswith("2 of 3 passes have the sizes of an earlier one")
    assert bins.weigh_kept_places(seen).saw.startswith("4 records came 2 times or more at one place")
