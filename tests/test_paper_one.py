"""Fig. 1, the randomized response and Table 1, made quickly and checked against what is known otherwise."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope as tr
from precise import laplace_step_delta, mp, mpf, two_step_delta
from quick_paper import make_quickly, quick
from reproduction.paper import figure_1_curves, randomized_response, table_1
from reproduction.paper.exact_lines import ExactCurve, exceeds_somewhere, find_crossings, repeat
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, UNDECIDED, UPPER_BOUND, Made, PaperClaim
from reproduction.paper.laplace_lattice import LaplaceStep, Lattice
from reproduction.paper.laplace_lead import find_lead, lead_falls, leads, leads_from_0
from tightrope.engines.outcomes import exact_delta
from tightrope.pairs.schedule import Schedule
from tightrope.theorems.worst_pairs import step_laws

STEP = LaplaceStep(shift=1.0, rate=0.5)


@pytest.fixture
def made() -> dict[str, Made]:
    return {name: quick(name).made for name in ("figure-1", "randomized-response", "table-1")}


def claim(made: Made, words: str) -> PaperClaim:
    (found,) = [each for each in made.claims if words in each.printed]
    return found


# -- the lattice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1 << 6, 1 << 10, 1 << 16])
@pytest.mark.parametrize("epsilon", [0.1, 0.25, 0.3712791827, 0.6])
def test_two_steps_on_the_lattice_enclose_the_integral(epsilon: float, cells: int) -> None:
    lattice = Lattice(STEP, 2, cells)
    for name, bracket in (("ADD", lattice.add(epsilon)), ("REMOVE", lattice.remove(epsilon))):
        truth = two_step_delta("laplace", name, mpf(0.5), mpf(1), mpf(epsilon))
        assert mpf(bracket.lower) - mpf("1e-15") <= truth <= mpf(bracket.upper) + mpf("1e-15")
        assert bracket.width < 1 / cells**2 + 1e-12


@pytest.mark.parametrize("step", [STEP, LaplaceStep(shift=2.0, rate=0.1), LaplaceStep(shift=0.25, rate=0.9)])
@pytest.mark.parametrize("epsilon", [-0.3, -0.01, 0.0, 0.02, 0.1, 0.5])
def test_one_step_on_the_lattice_encloses_the_formula(step: LaplaceStep, epsilon: float) -> None:
    for cells in (1, 3, 64, 4096):
        lattice = Lattice(step, 1, cells)
        for name, bracket in (("ADD", lattice.add(epsilon)), ("REMOVE", lattice.remove(epsilon))):
            truth = laplace_step_delta(name, mpf(step.rate), mpf(step.shift), mpf(epsilon))
            assert mpf(bracket.lower) <= truth <= mpf(bracket.upper)


@pytest.mark.parametrize("steps", [3, 5, 12])
def test_the_lattice_agrees_with_the_engines(steps: int) -> None:
    lattice = Lattice(STEP, steps, 1 << 12)
    for relation, curve in ((tr.ADD, lattice.add), (tr.REMOVE, lattice.remove)):
        engines = tr.privacy_curve(
            figure_1_curves.run_of(steps), relation=relation, by=tr.Certified(accuracy=1e-6)
        )
        for epsilon in (0.0, 0.2, 0.9):
            here, there = curve(epsilon), engines.delta(epsilon)
            assert here.lower <= there.upper
            assert there.lower <= here.upper
            assert here.width < 1e-6


def test_spreading_keeps_mass_and_mean() -> None:
    for cells in (1, 7, 1000):
        masses = STEP.spread(cells)
        points = [STEP.least * math.exp(j * STEP.span / cells) for j in range(cells + 1)]
        low, high = STEP.atoms
        assert masses.sum() + low + high == pytest.approx(1, abs=1e-14)
        mean = (
            sum(mass * ratio for mass, ratio in zip(masses, points, strict=True))
            + low * STEP.least
            + high * STEP.most
        )
        assert mean == pytest.approx(1, abs=1e-14)


# -- Fig. 1 --------------------------------------------------------------------------------------------------


def test_add_and_remove_cross_at_two_steps_where_the_integrals_do() -> None:
    found = find_lead(STEP, 2, 1 << 16).crossing
    assert found is not None

    def ahead(epsilon: float) -> mpf:
        add, remove = (
            two_step_delta("laplace", name, mpf(0.5), mpf(1), mpf(epsilon)) for name in ("ADD", "REMOVE")
        )
        return add - remove

    assert ahead(found.lower) > 0 > ahead(found.upper)
    assert found.width < 1e-8
    # ten digits, from the secant of the two integrals: they are linear to 1e-16 over so short a stretch
    low, high = 0.37127, 0.37129
    for _ in range(3):
        left, right = ahead(low), ahead(high)
        zero = float(low + (high - low) * left / (left - right))
        low, high = zero - 1e-7, zero + 1e-7
    assert zero in found
    assert zero == pytest.approx(0.3712791827, abs=6e-11)


def test_five_steps_cross_once_and_three_and_four_never() -> None:
    assert find_lead(STEP, 5, 1 << 15).crossing is not None
    assert [find_lead(STEP, steps, 1 << 13).crossing for steps in (1, 3, 4)] == [None] * 3
    add, remove = (
        tr.privacy_curve(figure_1_curves.run_of(5), relation=each, by=tr.Certified(accuracy=1e-6))
        for each in (tr.ADD, tr.REMOVE)
    )
    assert add.delta(0.19).lower > remove.delta(0.19).upper
    assert remove.delta(0.196).lower > add.delta(0.196).upper


def test_a_lead_that_is_none_is_not_certified() -> None:
    two, four = Lattice(STEP, 2, 1 << 12), Lattice(STEP, 4, 1 << 12)
    assert not leads(two.add, two.remove, 0.01, 0.38)
    assert not leads_from_0(two.remove, two.add)
    assert not leads(four.add, four.remove, 0.01, 0.02)
    assert not leads_from_0(four.add, four.remove)
    assert not lead_falls(two, 0.1, 0.2)  # there it still grows
    assert lead_falls(two, 0.369, 0.373)


def test_the_quick_figure_says_what_the_whole_one_says(made: dict[str, Made]) -> None:
    found = made["figure-1"]
    verdicts = {
        words: claim(found, words).verdict
        for words in ("cross in", "preserve", "most apparent", "clear break", "vanishes")
    }
    assert list(verdicts.values()) == [SHARPENED, AGREES, SHARPENED, SHARPENED, SHARPENED]
    assert "0.37127918" in claim(found, "cross in").certified
    assert "for k = 3, 4, 6 " in claim(found, "for all k > 1").certified
    assert claim(found, "normal densities").verdict is CORRECTED
    assert claim(found, "within 0.001").verdict is AGREES


def test_the_printed_number_of_draws_is_the_one_of_ninety_percent(made: dict[str, Made]) -> None:
    assert math.ceil(math.log(80 / 0.01) / 2e-6) == 4_493_599
    assert math.ceil(math.log(80 / 0.1) / 2e-6) == 3_342_306
    draws = claim(made["figure-1"], "needs N")
    assert draws.verdict is CORRECTED
    assert "4,493,599" in draws.certified
    assert "90 %" in draws.why


def test_the_break_is_where_one_step_is_above_and_one_below_both_centres() -> None:
    clear = figure_1_curves.clearest_break(2)
    assert clear.epsilon == pytest.approx(math.log((1 + math.e) * (1 + 1 / math.e) / 4), abs=1e-15)
    assert clear.jump == pytest.approx(math.exp(-1) / 2, abs=1e-16)

    def slope(low: float, high: float) -> float:
        left, right = (
            two_step_delta("laplace", "REMOVE", mpf(0.5), mpf(1), mpf(each)) for each in (low, high)
        )
        return float((right - left) / (mp.exp(high) - mp.exp(low)))

    for distance in (1e-3, 1e-4):
        jump = slope(clear.epsilon, clear.epsilon + distance) - slope(clear.epsilon - distance, clear.epsilon)
        assert jump in figure_1_curves.bend(Lattice(STEP, 2, 1 << 16), clear.epsilon, distance)
        assert clear.jump < jump < clear.jump + distance
    elsewhere = figure_1_curves.bend(Lattice(STEP, 2, 1 << 16), 0.5, 1e-3)
    assert elsewhere.upper < 2e-3


def test_the_numbers_of_the_figure_are_in_its_table(made: dict[str, Made]) -> None:
    (numbers,) = [path for path in made["figure-1"].files if path.suffix == ".csv"]
    with numbers.open(newline="") as file:
        rows = list(csv.DictReader(file))
    simulated = [row for row in rows if row["simulated"]]
    assert len(simulated) == 2 * 4 * 40
    assert all(float(row["simulated_lower"]) <= float(row["delta_lower"]) for row in simulated)
    assert all(float(row["delta_upper"]) <= float(row["simulated_upper"]) for row in simulated)
    for row in rows[:: len(rows) // 40]:
        if row["steps"] == "2":
            truth = two_step_delta(
                "laplace", row["direction"].upper(), mpf(0.5), mpf(1), mpf(float(row["epsilon"]))
            )
            assert mpf(row["delta_lower"]) - mpf("1e-14") <= truth <= mpf(row["delta_upper"]) + mpf("1e-14")


def test_pictures_are_written_and_the_same_every_time(made: dict[str, Made], tmp_path: Path) -> None:
    again = make_quickly(randomized_response.ITEM, tmp_path).made
    assert [path.suffix for path in again.files[:2]] == [".png", ".pdf"]
    for first, second in zip(made["randomized-response"].files, again.files, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert [path.suffix for path in made["figure-1"].files] == [".png", ".pdf", ".csv"]


# -- randomized response -------------------------------------------------------------------------------------


def test_the_four_printed_fractions_are_exact(made: dict[str, Made]) -> None:
    found = [
        each for each in made["randomized-response"].claims if each.printed.startswith("the divergence of")
    ]
    assert [each.certified for each in found] == [
        "11/48, exactly",
        "1/6, exactly",
        "1/16, exactly",
        "1/8, exactly",
    ]
    assert all(each.verdict is AGREES for each in found)
    wrong = randomized_response.claim_printed(tr.ADD, Fraction(2), Fraction(1, 8))
    assert wrong.verdict is CORRECTED


@pytest.mark.parametrize("relation", [tr.ADD, tr.REMOVE])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_pieces_are_the_exact_divergence(relation: tr.Relation, steps: int) -> None:
    laws = step_laws(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5), relation)
    schedule = Schedule([(laws.add() if relation is tr.ADD else laws.remove(), steps)])
    pieces = randomized_response.exact_curve(relation, steps).pieces()
    assert pieces[0].low == 1
    for piece in pieces:
        high = piece.low + 1 if piece.high is None else piece.high
        for t in (piece.low, (2 * piece.low + high) / 3, high):
            assert exact_delta(schedule, t) == piece.constant - piece.fall * t


def test_the_two_directions_cross_at_five_thirds() -> None:
    add, remove = (randomized_response.exact_curve(relation, 2) for relation in (tr.ADD, tr.REMOVE))
    assert find_crossings(add, remove) == (Fraction(5, 3),)
    assert add.delta(Fraction(5, 3)) == remove.delta(Fraction(5, 3)) == Fraction(7, 48)


def test_every_change_of_the_lead_is_found() -> None:
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    coin = ((3 * quarter, half), (quarter, half))
    for steps, changes in ((3, 2), (4, 0), (10, 3)):
        add = ExactCurve(repeat(coin, steps))
        remove = ExactCurve(tuple((q, p) for p, q in add.outcomes))
        found = find_crossings(add, remove)
        assert len(found) == changes
        for t in found:
            near = Fraction(1, 10**9)
            before, after = (add.delta(each) - remove.delta(each) for each in (t - near, t + near))
            assert add.delta(t) == remove.delta(t)
            assert before * after < 0


def test_remove_dominates_at_some_numbers_of_steps(made: dict[str, Made]) -> None:
    found = claim(made["randomized-response"], "for all k > 1")
    assert found.verdict is CORRECTED
    assert "k = 4, 11, 15, and only for these" in found.certified
    for steps in range(2, 16):
        add, remove = (randomized_response.exact_curve(relation, steps) for relation in (tr.ADD, tr.REMOVE))
        run = tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.Poisson(rate=0.5)) * steps
        grid = [math.log(t) for t in sorted({*add.kinks, *remove.kinks})][: steps + 2]
        brackets = [
            (tr.delta(run, epsilon=at, relation=tr.ADD), tr.delta(run, epsilon=at, relation=tr.REMOVE))
            for at in grid
        ]
        certain = any(first.lower > second.upper for first, second in brackets)
        assert certain is (steps not in (4, 11, 15)) is exceeds_somewhere(add, remove)


# -- Table 1 -------------------------------------------------------------------------------------------------


def test_two_entries_of_table_1_are_exact_and_six_are_upper_bounds(made: dict[str, Made]) -> None:
    found = [each for each in made["table-1"].claims if "δ = " in each.where]
    assert [each.printed for each in found if each.verdict is AGREES] == ["12.98", "10.62"]
    bounds = [each for each in found if each.verdict is UPPER_BOUND]
    assert len(bounds) == 6
    assert all("valid, at least 0.0" in each.certified for each in bounds)
    together = claim(made["table-1"], "eight epsilons")
    assert together.verdict is UPPER_BOUND
    assert together.certified.startswith("8 of 8 are valid upper bounds, 0.0030 to 0.0193 above")
    assert "2 are also that value" in together.certified


def test_a_table_with_a_number_that_is_too_low_is_corrected() -> None:
    above = table_1.TableEntry("Poisson", 1e-6, "0.96", tr.Bracket(0.94719, 0.9472))
    below = table_1.TableEntry("Poisson", 1e-6, "0.93", tr.Bracket(0.94719, 0.9472))
    assert table_1.claim_digits([above]).verdict is UPPER_BOUND
    assert "promises what holds" in table_1.claim_digits([above]).why
    assert table_1.claim_digits([above, below]).verdict is CORRECTED
    assert table_1.claim_digits([above, below]).why == ""


@pytest.mark.parametrize(
    ("printed", "low", "high", "verdict", "words"),
    [
        ("0.96", 0.94719, 0.9472, UPPER_BOUND, "valid, at least 0.012 above the exact value"),
        ("0.96", 0.9551, 0.9552, AGREES, "agrees"),
        ("0.96", 0.9549, 0.9551, UNDECIDED, "undecided"),
        ("0.96", 0.9649, 0.9651, UNDECIDED, "undecided"),
        ("0.96", 0.96515, 0.9652, CORRECTED, "too low by at least 0.0051"),
        ("0.96", 0.93, 0.99, UNDECIDED, "undecided"),
        ("0.80", 0.8, 0.804, AGREES, "agrees"),
    ],
)
def test_a_cell_is_judged_by_its_bracket(
    printed: str, low: float, high: float, verdict: object, words: str
) -> None:
    cell = table_1.TableEntry("Poisson", 1e-6, printed, tr.Bracket(low, high))
    assert cell.verdict is verdict
    assert cell.words == words
