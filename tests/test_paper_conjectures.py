"""What became of the paper's conjectures and of its remark on the dataset's size: either verdict can come."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import tightrope as tr
from quick_paper import QuickItem, quick
from reproduction.paper import closing_conjecture, conjecture_12, dataset_size
from reproduction.paper.closing_map import MapCell, percent
from reproduction.paper.closing_picture import draw, inches
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, UNDECIDED, Making
from reproduction.paper.pictures import save_picture


def check(name: str) -> QuickItem:
    """The quick version, with everything that is true of every item checked."""
    found = quick(name)
    assert all(path.stat().st_size > 0 for path in found.made.files)
    assert all(what for what, _, _ in found.told)
    assert found.told[-1][1] == found.told[-1][2]
    assert all(claim.why for claim in found.made.claims if claim.verdict is CORRECTED)
    return found


# -- Conjecture 12 -------------------------------------------------------------------------------------------


def test_conjecture_12_is_swept_without_a_contradiction() -> None:
    found = check("conjecture-12")
    assert [claim.verdict for claim in found.made.claims] == [SHARPENED, AGREES]
    table = found.rows("conjecture-12.csv")
    assert sum(int(row["points"]) for row in table) >= 100
    for row in table:
        parts = ("proved", "equal_at_0", "undecided", "refused", "contradicted")
        assert int(row["points"]) == sum(int(row[part]) for part in parts)
        assert (row["equal_at_0"], row["contradicted"]) == ("1", "0")
        assert int(row["proved"]) >= 10
    assert "gaussian_remove_dominates_add.md" in found.made.passage


@dataclass(frozen=True)
class LaplaceSetting(conjecture_12.SweptRun):
    """Laplace noise, for which the statement is false."""

    @property
    def run(self) -> tr.Run:
        """The steps."""
        return tr.Step(tr.Laplace(noise_multiplier=self.noise), self.sampling) * self.steps


def test_a_contradiction_ends_the_sweep_and_names_the_point() -> None:
    false = LaplaceSetting(1.0, tr.Poisson(rate=0.5), 2)
    assert conjecture_12.Directions(false, 1e-4).remove_is_above(0.6)
    with pytest.raises(ArithmeticError, match=r"noise 1, poisson, rate 0\.5, 2 steps, epsilon 0\.25"):
        conjecture_12.Directions(false, 1e-4).remove_is_above(0.25)


def test_curves_that_touch_are_undecided_and_not_proved() -> None:
    same = conjecture_12.Directions(conjecture_12.SweptRun(2.0, tr.Poisson(rate=0.5), 100), 1e-4)
    same.add = same.remove
    assert same.remove_is_above(1.0) is False


def test_where_add_is_out_of_reach_its_last_bound_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    directions = conjecture_12.Directions(conjecture_12.SweptRun(4.0, tr.Poisson(rate=0.2), 2), 1e-4)
    assert directions.remove_is_above(0.3)

    def refuse(self: tr.PrivacyCurve, epsilon: float) -> tr.Bracket:
        if self is directions.add:
            raise tr.NotPreciseEnough("out of reach")
        return asked(self, epsilon)

    asked = tr.PrivacyCurve.log_delta
    monkeypatch.setattr(tr.PrivacyCurve, "log_delta", refuse)
    assert directions.remove_is_above(0.31)
    assert directions.remove_is_above(0.9) is False  # REMOVE has fallen below ADD's bound at 0.3


# -- the closing conjecture ----------------------------------------------------------------------------------


def test_the_closing_conjecture_is_refuted_twice() -> None:
    found = check("closing-conjecture")
    assert [claim.verdict for claim in found.made.claims] == [CORRECTED, CORRECTED, SHARPENED]
    assert [path.suffix for path in found.made.files] == [".png", ".pdf", ".csv"]
    for row in found.rows("closing-conjecture.csv"):
        remove, lower, upper, envelope = (
            float(row[k]) for k in ("remove_upper", "lower", "upper", "envelope_upper")
        )
        assert remove < lower <= upper < envelope
        assert row["certain"] == "yes"


@pytest.mark.parametrize(
    ("epsilon", "exchanged", "removed"),
    [(0.0, 0.29172240248491, 0.29118125934962), (0.02, 0.28466851027214, 0.28447554159320)],
)
def test_the_fixed_counterexample_holds_the_values_of_the_proof_note(
    epsilon: float, exchanged: float, removed: float
) -> None:
    found = closing_conjecture.compute_example(epsilon)
    assert exchanged in found.exchanged
    assert removed in found.remove
    assert found.refutes
    assert found.refutes_adaptively


CELL = MapCell(0.05, 2.0, 100, tr.Bracket(3.5, 3.5021), tr.Bracket(3.5216, 3.5249), tr.Bracket(3.5, 3.849))
DULL = replace(CELL, substitute=tr.Bracket(3.5, 3.51), steps=10)
EXAMPLE = closing_conjecture.FixedExample(
    0.0, tr.Bracket(0.29, 0.291), tr.Bracket(0.2915, 0.2916), tr.Bracket(0.296, 0.298)
)


def test_brackets_that_overlap_refute_nothing() -> None:
    dull = replace(EXAMPLE, exchanged=tr.Bracket(0.29, 0.2916), adaptive=tr.Bracket(0.29, 0.298))
    assert [c.verdict for c in closing_conjecture._claims([EXAMPLE], [CELL])] == [
        CORRECTED,
        CORRECTED,
        SHARPENED,
    ]
    assert [c.verdict for c in closing_conjecture._claims([dull], [DULL])] == [
        UNDECIDED,
        UNDECIDED,
        SHARPENED,
    ]
    assert not DULL.is_certain


def test_the_same_map_gives_the_same_bytes(tmp_path: Path) -> None:
    pictures = []
    for name in ("one", "other"):
        files = save_picture(
            lambda figure: draw(figure, [CELL, DULL]), tmp_path, name, inches=inches([CELL, DULL])
        )
        pictures.append([path.read_bytes() for path in files])
    assert pictures[0] == pictures[1]


def test_percentages_are_rounded_down() -> None:
    assert percent(CELL.gain) == "0.55 %"
    assert [percent(share) for share in (0.0999, 0.00999, 0.9999, 1e-6)] == [
        "9.9 %",
        "0.99 %",
        "99 %",
        "0.000 %",
    ]


# -- dataset size --------------------------------------------------------------------------------------------


def test_the_direction_of_the_bias_is_corrected() -> None:
    found = check("dataset-size")
    assert [claim.verdict for claim in found.made.claims] == [AGREES, CORRECTED, SHARPENED]
    table = found.rows("dataset-size.csv")
    (truth,) = [row for row in table if row["records"] == row["taken_for"]]
    for row in table:
        if int(row["taken_for"]) > int(row["records"]):
            assert float(row["epsilon_upper"]) < float(truth["epsilon_lower"])
        if int(row["taken_for"]) < int(row["records"]):
            assert float(row["epsilon_lower"]) > float(truth["epsilon_upper"])


def test_if_epsilon_grew_with_the_size_the_paper_would_be_right() -> None:
    grown = [dataset_size.SizeReport(size, tr.Bracket(size / 1e4, size / 1e4)) for size in dataset_size.SIZES]
    costs = {0.1: dataset_size.price(0.1)}
    verdicts = [
        claim.verdict for claim in dataset_size._claims(grown, costs, [dataset_size.try_seeded(2000)])
    ]
    assert verdicts == [CORRECTED, AGREES, SHARPENED]


def test_a_law_that_is_too_high_too_often_is_noticed() -> None:
    assert dataset_size.try_seeded(2000).agrees()
    assert not dataset_size.SizeTrial("by nobody", 2000, 400).agrees()
    assert dataset_size.try_seeded(2000) == dataset_size.try_seeded(2000)


# -- pieces --------------------------------------------------------------------------------------------------


def test_pieces_come_in_their_order_and_the_first_failure_ends_the_work(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    making = Making(tmp_path, True, lambda what, done, total: told.append((done, total)))
    assert making.work_through("numbers", abs, [-3, 2, -1]) == [3, 2, 1]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    with pytest.raises(TypeError):
        making.work_through("numbers", abs, [1, "two", 3])  # type: ignore[arg-type]
