"""Bets at the odds of balls in bins, on what its passes do not do.

Each record goes to one of the T batches of a pass, all equally likely, whatever came before. Whoever bets on
the next batch or pass by what came before it multiplies a capital of 1 by the ratio of two probabilities of
what comes: the one bet on, and the true one. The capital is 1 on average, so 1 / capital is a p-value
(Markov), exactly, for any number of records, batches and passes, and so is that of a capital split among
several bettors. What is bet on, and how much, decides what is found, and never whether p-values are valid.
"""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tightrope.audit.loaders.words import count as tell
from tightrope.audit.recordings.batches import Whole
from tightrope.audit.recordings.clues import (
    DISTANCE_SHARE,
    ORDER_SHARE,
    PLACES_SHARE,
    RECURRING_SHARE,
    TIED_SHARE,
    Clue,
)
from tightrope.audit.recordings.passes import PassTable
from tightrope.numerics.floats import Floats

STRENGTHS = (-1.0, -0.4, 0.4, 1.0)  # 1: deviations come again as large as they were
PASSES_BACK = 4  # besides the mean of all earlier passes
LEAST_WEIGHT = 0.1  # of a place, as a share of the even one: nobody bets that a batch stays empty
MOST_LAGS = 64
MOST_TERMS = 2_000_000  # sizes times lags: a tenth of a second
TILTS = (-0.7, -0.25, 0.25, 0.7)  # standard deviations per standard deviation of the earlier size
MOST_TILT = 1.0
SHARES_TIED = (0.02, 0.1, 0.4, 0.9)  # of the pairs looked at
ANY_SEED = 1  # of an order in which to look for pairs: the same each time, so that findings are
MOST_PLACES = 500_000  # records times passes in which pairs are looked for: some tenths of a second
BLOCK = 16  # neighbouring records that are looked at together
MOST_DISTANCES = 256
NONE_AT_ALL = -math.inf
DISTANCE_TILTS = {NONE_AT_ALL: 0.5, -0.5: 0.2, 0.5: 0.2, 1.5: 0.1}  # and how much is bet on each
SOON = 0.75  # of the capital is bet on short distances, the rest on long ones


def settle(log_capital: Floats, log_stakes: Floats | float) -> float:
    """The p-value of bettors who started with these stakes, which sum to at most 1."""
    return math.exp(min(0.0, -float(special.logsumexp(log_capital + log_stakes))))


def weigh_recurring_places(passes: PassTable) -> Clue:
    """The sizes of a pass do not tell those of the next, place by place.

    Given the records seen of a pass, their places are uniform on those seen. The bet is that places with more
    than their share, in the mean of all earlier passes or in one of the last few, have more again, or fewer.
    """
    even = passes.sizes.sum(axis=1) / np.maximum(passes.seen.sum(axis=1), 1)
    off = np.where(passes.seen, passes.sizes / np.maximum(even, 1e-300)[:, None] - 1, 0.0)
    often: Whole = np.cumsum(passes.seen, axis=0) - passes.seen
    references = [(np.cumsum(off, axis=0) - off) / np.maximum(often, 1)]
    some = range(1, min(PASSES_BACK, passes.count - 1) + 1)
    references += [np.concatenate([np.zeros_like(off[:back]), off[:-back]]) for back in some]
    gains = [_bet_on_places(passes, strength * each) for each in references for strength in STRENGTHS]
    products = (off.sum(axis=0) ** 2 - (off**2).sum(axis=0)).sum()
    largest = (np.maximum(passes.seen.sum(axis=0) - 1, 0) * (off**2).sum(axis=0)).sum()
    alike = float(products / max(largest, 1e-300))
    saw = f"sizes at the same place of different passes have the correlation {alike:.2f}"
    return Clue(p_value=settle(np.array(gains), -math.log(len(gains))), saw=saw, share=PLACES_SHARE)


def _bet_on_places(passes: PassTable, shift: Floats) -> float:
    weights = np.where(passes.seen, np.maximum(1 + shift, LEAST_WEIGHT), 0.0)
    mean = weights.sum(axis=1) / np.maximum(passes.seen.sum(axis=1), 1)
    ratio = np.where(passes.seen, weights / np.maximum(mean, 1e-300)[:, None], 1.0)
    return float((passes.sizes * np.log(ratio)).sum())


def weigh_recurring_sizes(passes: PassTable) -> Clue:
    """The sizes of a pass are not those of an earlier one, in the same or another order.

    Half of the capital is bet on one of the different lists of sizes seen so far, all equally likely.
    """
    so_far: set[tuple[int, ...]] = set()
    gain, again = 0.0, 0
    for sizes in np.sort(passes.whole_sizes, axis=1):
        listed = tuple(sizes.tolist())
        if so_far:
            known = listed in so_far
            won = np.logaddexp(0.0, -log_chance_of_sizes(sizes) - math.log(len(so_far))) if known else 0.0
            gain += float(won) - math.log(2)
            again += known
        so_far.add(listed)
    held = "pass has" if again == 1 else "passes have"
    of = len(passes.whole_sizes)
    saw = f"{again:,} of {of:,} {held} the sizes of an earlier one, in the same or another order"
    return Clue(p_value=settle(np.array([gain]), 0.0), saw=saw, share=RECURRING_SHARE)


def log_chance_of_sizes(sizes: Whole) -> float:
    """The probability that a pass has these sizes in any order: multinomial, times the orders there are."""
    records, bins = int(sizes.sum()), len(sizes)
    alike = np.array(list(Counter(sizes.tolist()).values()))
    orders = math.lgamma(bins + 1) - float(special.gammaln(alike + 1.0).sum())
    in_one = math.lgamma(records + 1) - float(special.gammaln(sizes + 1.0).sum()) - records * math.log(bins)
    return orders + in_one


def weigh_order_in_passes(passes: PassTable) -> Clue:
    """A size tells nothing of the next ones but what is left for them.

    Given the batches of a pass before it, a size is binomial: of the records left, each comes in this batch
    with probability one in the batches left. The bet is that sizes lie above that, or below, where an earlier
    one did; or all above, as in falling order, or all below.
    """
    left = np.cumsum(passes.seen[:, ::-1], axis=1)[:, ::-1][passes.seen].astype(float)
    rest = np.cumsum(passes.sizes[:, ::-1], axis=1)[:, ::-1][passes.seen].astype(float)
    sizes, rate = passes.sizes[passes.seen].astype(float), 1 / left
    deviation = np.sqrt(rest * rate * (1 - rate))
    off = (sizes - rest * rate) / np.where(deviation > 0, deviation, np.inf)
    steps = 1 / np.maximum(deviation, 0.5)
    lags = min(MOST_LAGS, len(sizes) - 1, max(1, MOST_TERMS // len(sizes)))
    gains = np.empty((lags + 1, len(TILTS)))
    for lag in range(lags + 1):
        earlier = np.concatenate([np.zeros(lag), off[:-lag]]) if lag else np.ones_like(off)
        for number, tilt in enumerate(TILTS):
            turned = np.clip(tilt * earlier * steps, -MOST_TILT, MOST_TILT)
            gain = turned * sizes - rest * np.log1p(rate * np.expm1(turned))
            gains[lag, number] = gain.sum()
    shares = 1 / (np.arange(1.0, lags + 2) * np.arange(2.0, lags + 3))  # those near by matter most
    log_stakes = np.log(shares / len(TILTS))[:, None]
    saw = _tell_order(int(np.unravel_index(np.argmax(gains + log_stakes), gains.shape)[0]), off)
    return Clue(p_value=settle(gains, log_stakes), saw=saw, share=ORDER_SHARE)


def _tell_order(lag: int, off: Floats) -> str:
    share = "an even share of what is left of its pass"
    if not lag:
        return f"{int((off < 0).sum()):,} of {len(off):,} batches hold fewer records than {share}"
    alike = float((off[lag:] * off[:-lag]).sum() / max((off**2).sum(), 1e-300))
    apart = f"{lag} batches apart" if lag > 1 else "of neighbouring batches"
    return f"sizes {apart}, each against {share}, have the correlation {alike:.2f}"


def weigh_ties_in_passes(passes: PassTable) -> Clue:
    """Records that shared their batch in earlier passes share the next one no more often than others.

    The pairs are picked by earlier passes so that none close a ring: then each of them comes together, one in
    T times, independently of the others. The bet is that a part of them is tied.
    """
    places, where = _keep_some(passes)
    bins, best, gains = passes.batches, (-math.inf, ""), []
    # neighbours in the dataset are found in its order, and others in one that is no order of anybody's
    mixed = places[:, np.random.default_rng(ANY_SEED).permutation(places.shape[1])]
    for first, reach in _list_reaches(len(places), places.shape[1], bins):
        for ordered in (places, mixed):
            log_capital, looked_at, together = _bet_on_ties(ordered, first, reach, bins)
            gains.append(log_capital)
            saw = _tell_ties(reach, looked_at, together, bins)
            best = max(best, (float(log_capital.max()), f"{where}{saw}"))
    if not gains:
        return Clue(p_value=1.0, saw="passes are too few to look for records that come together")
    stakes = -math.log(len(gains) * len(SHARES_TIED))
    return Clue(p_value=settle(np.array(gains), stakes), saw=best[1], share=TIED_SHARE)


def _bet_on_ties(places: Whole, first: int, reach: int, bins: int) -> tuple[Floats, int, int]:
    """What is won by each bet, on how many pairs, and how many of these came together again."""
    wins, losses = _list_odds(bins)
    log_capital, looked_at, together = np.zeros(len(SHARES_TIED)), 0, 0
    so_far = _label(places[:first], bins)
    for number in range(first, len(places)):
        labels = _label(places[number - reach : number], bins) if reach else so_far
        pairs, met = _count_pairs(labels, places[number])
        log_capital = log_capital + met * wins + (pairs - met) * losses
        looked_at, together = looked_at + pairs, together + met
        if not reach:
            so_far = np.unique(so_far * bins + places[number], return_inverse=True)[1]
    return log_capital, looked_at, together


def _keep_some(passes: PassTable) -> tuple[Whole, str]:
    """The places of as many records as MOST_PLACES allows, in blocks from all over, and how this is said."""
    every = -(-passes.places.size // MOST_PLACES)
    if every <= 1:
        return passes.places, ""
    kept = np.arange(passes.records) % (every * BLOCK) < BLOCK
    return passes.places[:, kept], f"among {int(kept.sum()):,} of the records, "


def _list_reaches(passes: int, records: int, bins: int) -> list[tuple[int, int]]:
    """From which pass on to bet on pairs, and how many passes they shared before; 0 is all of them.

    So many that chance leaves at most one such pair for two records; and one fewer, where passes are few.
    """
    enough = math.ceil(math.log(max(records, 2)) / math.log(bins))
    reaches = [(max(enough - 1, 1), max(enough - 1, 1)), (enough, enough), (enough, 0)]
    return [(first, reach) for first, reach in dict.fromkeys(reaches) if first < passes]


def _list_odds(bins: int) -> tuple[Floats, Floats]:
    chances = 1 / bins + (1 - 1 / bins) * np.array(SHARES_TIED)
    return np.log(chances * bins), np.log((1 - chances) / (1 - 1 / bins))


def _label(places: Whole, bins: int) -> Whole:
    """A number for each record, the same for those that shared all these batches."""
    labels = places[0]
    for row in places[1:]:  # no overflow: bins ** reach is at most records * bins
        labels = labels * bins + row
    return np.asarray(labels)


def _count_pairs(labels: Whole, places: Whole) -> tuple[int, int]:
    """Neighbours in the order of their labels that have the same one, and how many of them meet again."""
    order = np.argsort(labels, kind="stable")
    alike = np.diff(labels[order]) == 0
    again = np.diff(places[order]) == 0
    return int(alike.sum()), int((alike & again).sum())


def find_fewest_tied(passes: PassTable, p_value: float) -> tuple[int | None, str]:
    """About how many pairs that always come together are mostly found, and among which records.

    None if even half of the records in pairs may not be. Where chance brings others together, luck decides
    about the last few: a quarter more are mostly enough. What the last pass alone brought together is too
    much to be looked at pair by pair.
    """
    places, where = _keep_some(passes)
    (count, records), bins = places.shape, passes.batches
    tied = np.unique(np.geomspace(1, max(records // 2, 1), 400).astype(np.int64))
    wins, losses = _list_odds(bins)
    reaches = _list_reaches(count, records, bins)
    wanted = math.log(2 * max(len(reaches), 1) * len(SHARES_TIED)) - math.log(p_value)
    noticed = np.zeros(len(tied), dtype=bool)
    for first, reach in reaches:
        log_capital = np.zeros((len(tied), len(wins)))
        for number in range(first, count):
            by_chance = min(float(records), records**2 / 2 / float(bins) ** (reach or number))
            # others with the same history come between two of a pair
            apart = records / float(bins) ** (reach or number)
            met = tied[:, None] * 2 / (2 + apart) + by_chance / bins
            log_capital += met * wins + by_chance * (1 - 1 / bins) * losses
        noticed |= log_capital.max(axis=1) > wanted
    if not noticed.any():
        return None, where
    return math.ceil(1.25 * int(tied[np.argmax(noticed)])), where


def _tell_ties(reach: int, pairs: int, together: int, bins: int) -> str:
    passes = f"in the last {reach:,} passes" if reach > 1 else "in the last pass" if reach else "so far"
    expected = f"where {pairs / bins:.2g} are expected"
    shared = f"of {pairs:,} pairs of records that shared every batch {passes}"
    return f"{shared}, {together:,} shared the next {expected}"


def weigh_distances(passes: PassTable) -> Clue:
    """A record comes no later, and no sooner, for having come shortly before.

    Given its place j in one pass, its place in the next is uniform: within the distance d with probability
    (j + d + 1 - T) / T. The bet is that fewer do, or none, or more; and the same of the longest distances.
    """
    bins, places = passes.batches, passes.places
    if len(places) < 2:
        return Clue(p_value=1.0, saw="passes are too few to look at distances between visits")
    apart = np.bincount((bins + places[1:] - places[:-1]).ravel(), minlength=2 * bins)[1:]
    before = _count_before(passes)
    soon, late = _bet_on_distances(apart, before), _bet_on_distances(apart[::-1], before[::-1])
    found = np.concatenate([soon + math.log(SOON), late + math.log1p(-SOON)])
    worst = int(np.argmax(found))
    is_late, distance = worst >= len(soon), worst % len(soon) + 1
    met = int(apart[::-1][:distance].sum() if is_late else apart[:distance].sum())
    expected = float(_chances_within(distance, bins) @ (before[::-1] if is_late else before))
    far = f"{2 * bins - distance:,} batches or more" if is_late else f"at most {tell(distance, 'batch')}"
    comes = "1 visit comes" if met == 1 else f"{met:,} visits come"
    saw = f"{comes} {far} after the last where {expected:,.3g} are expected"
    return Clue(p_value=settle(found, 0.0), saw=saw, share=DISTANCE_SHARE)


def _count_before(passes: PassTable) -> Whole:
    """How many records are at each place of the whole passes that another follows."""
    return np.asarray(passes.whole_sizes[:-1].sum(axis=0))


def _chances_within(distance: int, bins: int) -> Floats:
    return np.asarray(np.maximum(np.arange(bins) + distance + 1 - bins, 0) / bins)


def _bet_on_distances(apart: Whole, before: Whole) -> Floats:
    """The logarithm of the capital of who bets on each distance, its stake included."""
    bins = len(before)
    most = min(bins - 1, MOST_DISTANCES)
    within = np.cumsum(apart[:most])
    chances = np.array([_chances_within(distance, bins) for distance in range(1, most + 1)])
    each = []
    for tilt, share in DISTANCE_TILTS.items():
        won = np.where(within > 0, -np.inf, 0.0) if tilt == NONE_AT_ALL else tilt * within
        each.append(won - np.log1p(chances * np.expm1(tilt)) @ before + math.log(share))
    distances = np.arange(1.0, most + 1)
    return np.asarray(special.logsumexp(each, axis=0) - np.log(distances * (distances + 1)))


def find_shortest_noticed(passes: PassTable, p_value: float) -> int | None:
    """The smallest distance whose absence would be found; None where none would, among those tried."""
    bins = passes.batches
    none = _bet_on_distances(np.zeros(2 * bins - 1, dtype=np.int64), _count_before(passes))
    found: NDArray[np.intp] = np.flatnonzero(none + math.log(SOON) > -math.log(p_value))
    return int(found[0]) + 1 if len(found) else None
