"""Figure 3: each split is the worst somewhere, and the crossings are those of closed forms in 40 digits."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import oracle_cases
import tightrope as tr
from precise import mp, mpf
from reproduction.paper import figure_3
from reproduction.paper import figure_3_splits as splits

CASES = [case for case in oracle_cases.load() if case.id.startswith("lap-wor-substitution-b2-g0.5-k2-")]
SPLITS = {split.removes: split for split in splits.SPLITS}


@cache
def largest() -> tuple[tuple[int, float, float], ...]:
    """How often the largest split removes, and the certified ends of its interval."""
    return tuple(
        (interval.split.removes, interval.low, interval.high) for interval in splits.find_intervals()
    )


# The closed forms of theorems/proofs/refuted_beliefs.md, entry 3.


def elliptic(b: mpf, v: mpf) -> mpf:
    """The integral of sqrt((1+x)(b-x)) x^(-3/2) from v to b."""
    angle, m = mp.acos(mp.sqrt(v / b)), b / (1 + b)
    return 2 * mp.sqrt((1 + v) * (b - v) / v) + 2 * mp.sqrt(1 + b) * (
        mp.ellipf(angle, m) - 2 * mp.ellipe(angle, m)
    )


def remove_twice(t: mpf) -> mpf:
    u, v, b = (1 + mp.e) / 2, 4 * t / (1 + mp.e) - 1, 4 * t - 1

    def area(x: mpf) -> mpf:
        return 2 * mp.sqrt(x) - 2 / mp.sqrt(x) + elliptic(b, x) / mp.sqrt(mp.e)

    return (u - mp.sqrt(u * (2 * t - u) / mp.e)) / (4 * mp.e) + (area(mp.e) - area(v)) / (16 * mp.sqrt(mp.e))


def add_twice(t: mpf) -> mpf:
    low = (1 + 1 / mp.e) / 2
    v, b = 2 / (t * low) - 1, 4 / t - 1

    def area(x: mpf) -> mpf:
        return (t / 2 - 2) / mp.sqrt(x) - t / 2 * mp.sqrt(x) + t / (4 * mp.sqrt(mp.e)) * elliptic(b, x)

    tail = 1 - t * low / 2 - mp.sqrt(t * low * (2 - t * low) / mp.e) / 2
    return tail / 2 + (area(v) - area(1 / mp.e)) / (4 * mp.sqrt(mp.e))


def one_of_each(t: mpf) -> mpf:
    c, v = t - 1, t * (1 + 1 / mp.e) - 1

    def area(x: mpf) -> mpf:
        root = mp.log(mp.sqrt(x) + mp.sqrt(x - c)) - mp.sqrt(1 - c / x)
        return 2 * mp.sqrt(x) + 2 * c / mp.sqrt(x) - 2 * mp.sqrt(t / mp.e) * root

    return (1 + mp.e - t - mp.sqrt(t * (1 + mp.e - t) / mp.e)) / (4 * mp.e) + (area(mp.e) - area(v)) / (
        8 * mp.sqrt(mp.e)
    )


CLOSED: dict[int, Callable[[mpf], mpf]] = {2: remove_twice, 0: add_twice, 1: one_of_each}
# the orders t for which the closed forms hold
LEAST, MOST = (1 + mp.exp(-1)) / 2, (1 + mp.e) / 2
VALID = {2: (LEAST * MOST, MOST**2), 0: (1 / (LEAST * MOST), 1 / LEAST**2), 1: (mpf(1), mp.e)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_published_values_are_enclosed(case: oracle_cases.Case) -> None:
    assert case.witness is not None
    removes = case.witness[0]
    found = SPLITS[removes].delta(float(case.epsilon))
    slack = mpf(2) ** -52  # a published epsilon is a decimal, not a float
    assert found.lower - slack <= case.delta <= found.upper + slack
    assert found.upper - found.lower < 2e-11
    t = mp.exp(case.epsilon)
    if VALID[removes][0] <= t <= VALID[removes][1]:
        assert abs(CLOSED[removes](t) - case.delta) < mpf(10) ** -29


def test_every_split_is_published() -> None:
    assert {case.witness for case in CASES} == {(2, 0), (1, 1), (0, 2)}


@pytest.mark.parametrize("cells", [1 << 8, 1 << 16])
@pytest.mark.parametrize("removes", [0, 1, 2])
def test_the_closed_forms_are_enclosed_at_exact_epsilons(removes: int, cells: int) -> None:
    low, high = VALID[removes]
    for epsilon in map(
        float, np.linspace(max(float(mp.log(low)), 0.0) + 1e-3, float(mp.log(high)) - 1e-3, 25)
    ):
        found = SPLITS[removes].delta(epsilon, cells)
        assert found.lower <= CLOSED[removes](mp.exp(mpf(epsilon))) <= found.upper


def test_each_split_is_the_largest_on_one_interval() -> None:
    assert [removes for removes, _, _ in largest()] == [0, 1, 2]
    assert largest()[0][1] == 0
    assert largest()[2][2] == pytest.approx(2 * math.log((1 + math.e) / 2), rel=1e-15)
    for removes, low, high in largest():
        for share in (1e-6, 0.1, 0.5, 0.9, 1 - 1e-6):
            at = low + share * (high - low)
            others = [split.delta(at).upper for other, split in SPLITS.items() if other != removes]
            assert SPLITS[removes].delta(at).lower > max(others), (removes, at)


@pytest.mark.parametrize(
    ("left", "right", "digits"),
    [(0, 1, "0.304836758787982271155668939396"), (1, 2, "0.518994132844883113727090506855")],
    ids=["add-mixed", "mixed-remove"],
)
def test_the_crossings_are_enclosed(left: int, right: int, digits: str) -> None:
    crossing = mp.findroot(lambda x: CLOSED[left](mp.exp(x)) - CLOSED[right](mp.exp(x)), mpf(digits))
    assert abs(crossing - mpf(digits)) < mpf(10) ** -29
    low, high = largest()[left][2], largest()[right][1]
    assert low < crossing < high < low + 1e-9
    # beyond the certified ends the order is the one claimed, in 40 digits
    assert CLOSED[left](mp.exp(mpf(low))) > CLOSED[right](mp.exp(mpf(low)))
    assert CLOSED[left](mp.exp(mpf(high))) < CLOSED[right](mp.exp(mpf(high)))


def test_a_lead_that_is_not_there_is_not_certified() -> None:
    add, mixed, remove = SPLITS[0], SPLITS[1], SPLITS[2]
    crossing = 0.30483675878798226
    assert splits.reach(add, (mixed,), 0.1, 0.5) < crossing
    assert splits.reach(mixed, (add,), 0.4, 0.1) > crossing
    assert splits.reach(remove, (add,), 0.2, 0.3) == 0.2  # behind from the start
    assert splits.reach(add, (remove,), 0.2, 0.0) > 0  # they meet at 0, which only the slopes can tell
    assert splits.add_leads_from_0()


RUN = tr.Step(tr.Laplace(noise_multiplier=2), tr.WithoutReplacement(batch=1, population=2)) * 2


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3, 0.45, 0.6])
def test_adaptive_choices_beat_every_split_and_stay_below_the_envelope(epsilon: float) -> None:
    reached = splits.adaptive(epsilon, 1 << 16)
    assert reached.lower > max(split.delta(epsilon).upper for split in SPLITS.values())
    found = tr.delta(RUN, epsilon=epsilon, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT))
    assert found.lower <= reached.upper
    assert reached.lower <= found.upper


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3, 0.4, 0.45, 0.5, 0.6, 0.65, 0.9])
def test_the_game_from_below_is_the_best_adaptive_choice(epsilon: float) -> None:
    found = tr.delta(RUN, epsilon=epsilon, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT))
    assert found.lower >= splits.adaptive(epsilon, 1 << 16).upper * (1 - 1e-3)


def test_remove_twice_is_the_whole_curve_once_epsilon_exceeds_the_loss_of_one_step() -> None:
    curve = tr.privacy_curve(RUN, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT))
    for epsilon in (splits.SETTLED + 1e-12, 0.7, 1.0, 1.2):
        found, split = curve.delta(epsilon), SPLITS[2].delta(epsilon)
        assert split.lower <= found.upper <= split.upper * (1 + 1e-3)
        assert found.lower <= split.upper
    below = splits.SETTLED - 0.01
    assert splits.adaptive(below, 1 << 16).lower > SPLITS[2].delta(below).upper


def test_the_proof_page_states_the_certified_ends() -> None:
    page = (Path(tr.__file__).parent / "theorems" / "proofs" / "refuted_beliefs.md").read_text()
    for _, low, high in largest():
        for end, way in ((low, "ROUND_CEILING"), (high, "ROUND_FLOOR")):
            assert end == 0 or figure_3.write_decimal(end, way, places=9) in page
