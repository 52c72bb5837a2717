"""Published claims accounted again: files read to the last key, rows that hold, a page that is current."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import tightrope as tr
from reproduction.published.batches import finding_of
from reproduction.published.page import table, text_table
from reproduction.published.recheck import ClaimStanding, RecheckedRun, recheck, standing_of
from reproduction.published.runs_file import Printed, PublishedRun, read_papers
from shell import Shell
from tightrope.audit.claims.reach import bound_below
from tightrope.audit.finding import Finding
from tightrope.errors import InvalidSetting
from tightrope.theorems.other_batchings import LargestSum

ROOT = Path(__file__).parent.parent
PAPERS = ROOT / "examples" / "papers.toml"
PAGE = ROOT / "docs" / "findings" / "published.md"

STATED = {
    "id": '"one"',
    "title": '"One run"',
    "citation": '"Somebody 2020"',
    "source": '"Table 1"',
    "dataset": '"digits"',
    "claimed_epsilon": "3.01",
    "delta": "1e-5",
    "noise_multiplier": "1.1",
    "batch": "256",
    "records": "60000",
    "steps": "14040",
    "relation": '"add-or-remove"',
    "accounted": '"poisson"',
    "implemented": '"poisson"',
    "implemented_source": '"train.py"',
    "accountant": '"moments"',
    "unit": '"one example"',
}
SHUFFLED = {"implemented": '"shuffle"', "reshuffled": "true", "last_batch": '"dropped"'}


def entry(**changed: str | None) -> str:
    lines = {**STATED, **changed}
    return (
        "\n".join(["[[setting]]", *(f"{key} = {value}" for key, value in lines.items() if value is not None)])
        + "\n"
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "papers.toml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def read(write: Callable[[str], Path]) -> Callable[..., PublishedRun]:
    def one(**changed: str | None) -> PublishedRun:
        (run,) = read_papers(write(entry(**changed))).runs
        return run

    return one


@pytest.fixture(scope="module")
def shipped() -> tuple[RecheckedRun, ...]:
    return recheck(read_papers(PAPERS))


# what is read


def test_a_number_keeps_the_digits_it_was_printed_with(read: Callable[..., PublishedRun]) -> None:
    claim = read(claimed_epsilon="7.10").claimed_epsilon
    assert (claim, claim.text, claim.half_a_digit) == (7.1, "7.10", 0.005)
    assert read(claimed_epsilon="8").claimed_epsilon.half_a_digit == 0


def test_the_rate_is_the_exact_quotient_or_the_printed_decimal(read: Callable[..., PublishedRun]) -> None:
    assert read().rate == Fraction(256, 60000)
    assert read(rate="0.00427").rate == Fraction(256, 60000)
    assert read(rate="0.004", batch=None, records='"not stated"').rate == Fraction(1, 250)


@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        ("floor", 14040, 14040),
        ("ceil", 14100, 14100),
        ("unrounded", 14063, 14063),
        ("one over rate", 14040, 14040),
        ("not stated", 14040, 14100),
    ],
)
def test_steps_follow_from_epochs_by_the_rule_of_the_source(
    read: Callable[..., PublishedRun], rule: str, least: int, most: int
) -> None:
    steps = read(steps=None, epochs="60", steps_per_epoch=f'"{rule}"').steps
    assert steps is not None
    assert (steps.least, steps.most) == (least, most)
    assert "60 epochs" in steps.how


def test_steps_may_be_a_range_and_agree_with_epochs(read: Callable[..., PublishedRun]) -> None:
    both = read(steps="[14040, 14063]", epochs="60", steps_per_epoch='"not stated"').steps
    assert both is not None
    assert (both.least, both.most) == (14040, 14063)


def test_what_is_not_stated_is_none(read: Callable[..., PublishedRun]) -> None:
    unknown = dict.fromkeys(
        ("delta", "noise_multiplier", "batch", "records", "steps", "relation", "accounted"), '"not stated"'
    )
    setting = read(**unknown, implemented='"not stated"', implemented_source=None)
    assert [getattr(setting, key) for key in (*unknown, "rate", "implemented")] == [None] * 9


REFUSED: dict[str, tuple[dict[str, str | None], str]] = {
    "unknown key": ({"nois": "1"}, "nois = 1 is not a known key"),
    "missing": ({"delta": None}, "delta is missing"),
    "no batch": ({"batch": None}, "batch is missing"),
    "no steps": ({"steps": None}, "steps is missing"),
    "no rule": ({"epochs": "60"}, "steps_per_epoch is missing"),
    "rule alone": ({"steps_per_epoch": '"floor"'}, "steps_per_epoch contradicts the rest"),
    "no source": ({"implemented_source": None}, "implemented_source is missing"),
    "negative noise": ({"noise_multiplier": "-1.0"}, "noise_multiplier must be greater than 0, got -1.0"),
    "text for a number": ({"delta": '"small"'}, "delta must be a valid number, got 'small'"),
    "infinite claim": ({"claimed_epsilon": "inf"}, "claimed_epsilon must be a finite number, got inf"),
    "claim not stated": (
        {"claimed_epsilon": '"not stated"'},
        "claimed_epsilon must be a finite number, got 'not stated'",
    ),
    "part of a record": ({"records": "60000.5"}, "records must be a valid integer"),
    "too many steps": ({"steps": str(10**16)}, "steps must be from 1 to 1e+15"),
    "no step": (
        {"steps": None, "epochs": "0.001", "steps_per_epoch": '"not stated"'},
        "steps must be from 1",
    ),
    "three steps": ({"steps": "[1, 2, 3]"}, "steps must be one whole number, or the fewest and the most"),
    "most before fewest": ({"steps": "[2, 1]"}, "steps must be the fewest before the most"),
    "rate against batch": (
        {"rate": "0.005"},
        "rate = 0.005 contradicts batch / records = 256 / 60000 = 0.00426667",
    ),
    "batch above records": ({"records": "100"}, "batch = 256 contradicts 100 records"),
    "steps against epochs": (
        {"epochs": "60", "steps_per_epoch": '"ceil"'},
        "steps = 14040 contradicts epochs: 14,100 steps = 60 epochs of ceil(60,000 / 256) = 235 steps",
    ),
    "foreign key": ({"draws": "4"}, "draws = 4 contradicts implemented: it describes several draws"),
    "half a shuffle": ({"implemented": '"shuffle"', "reshuffled": "true"}, "last_batch is missing"),
    "shuffled perhaps": ({**SHUFFLED, "reshuffled": '"perhaps"'}, "reshuffled must be a valid boolean"),
    "another relation": (
        {"relation": '"subsitute"'},
        "relation must be a known name, got 'subsitute'. Did you mean substitute?",
    ),
    "empty text": ({"title": '""'}, "title must be one line of text"),
    "notes": ({"notes": '"one"'}, "notes must be a valid list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_setting_and_the_key(write: Callable[[str], Path], case: str) -> None:
    changed, said = REFUSED[case]
    path = write(entry(**changed))
    with pytest.raises(InvalidSetting) as refused:
        read_papers(path)
    assert str(refused.value).startswith(f"{path}: setting[0] (one).{said}")


def test_all_problems_of_all_settings_are_listed_at_once(write: Callable[[str], Path]) -> None:
    first = entry(nois="1", tilte='"x"', delta=None, rate="0.005")
    path = write(
        first
        + entry(id='"two"', noise_multiplier="0", relation='"any"')
        + entry(id='"two"')
        + entry(id='"two"')
    )
    path.write_text("settings = 1\n" + path.read_text())
    with pytest.raises(InvalidSetting) as refused:
        read_papers(path)
    problems = str(refused.value).splitlines()
    assert problems[0] == f"{path} has 8 problems:"
    for part in (
        ": settings = 1",
        "(one).nois",
        "(one).tilte",
        "(one).delta",
        "(one).rate",
        "(two).noise",
        "(two).relation",
    ):
        assert sum(part in line for line in problems) == 1, part
    assert "setting[3] (two).id must be new" in problems[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "setting is missing"),
        ("setting = 5", "setting must be a valid list"),
        ("setting = [5]", "setting[0] must be a valid dictionary"),
        ("setting = []", "at least 1 item"),
        ("[[setting", "must be a TOML file"),
    ],
)
def test_files_without_settings_are_refused(write: Callable[[str], Path], text: str, said: str) -> None:
    with pytest.raises(InvalidSetting, match=r"papers\.toml") as refused:
        read_papers(write(text))
    assert said in str(refused.value)


# how a claim stands


def test_half_of_the_last_printed_decimal_is_left_to_rounding() -> None:
    narrow = tr.Bracket(1.2040, 1.2041)
    assert [standing_of(Printed(text), [narrow]) for text in ("1.19", "1.20", "1.204", "1.21", "1")] == [
        ClaimStanding.TOO_SMALL,
        ClaimStanding.AGREES,
        ClaimStanding.AGREES,
        ClaimStanding.ABOVE,
        ClaimStanding.TOO_SMALL,
    ]


def test_without_a_relation_a_claim_is_too_small_only_under_all_of_them() -> None:
    brackets = [tr.Bracket(2.0, 2.1), tr.Bracket(4.0, 4.1)]
    assert [standing_of(Printed(text), brackets) for text in ("1.00", "3.00", "5.00")] == [
        ClaimStanding.TOO_SMALL,
        ClaimStanding.ABOVE,
        ClaimStanding.ABOVE,
    ]


def test_a_wide_bracket_decides_nothing_and_no_bracket_knows_nothing() -> None:
    assert standing_of(Printed("3.00"), [tr.Bracket(1.0, 9.0)]) is ClaimStanding.UNDECIDED
    assert standing_of(Printed("3.00"), [tr.Bracket(0.0, math.inf)]) is ClaimStanding.UNKNOWN


# what is computed


def test_a_claim_that_is_too_small_is_called_so(write: Callable[[str], Path]) -> None:
    found = recheck(read_papers(write(entry(claimed_epsilon="2.30"))))
    assert found[0].standing is ClaimStanding.TOO_SMALL
    assert table(found)[1][4] == "claim too small"
    assert "the claim is too small in: one." in text_table(found)


def test_a_range_of_steps_widens_the_bracket_at_both_ends(write: Callable[[str], Path]) -> None:
    text = "".join(
        entry(id=f'"{i}"', steps=steps) for i, steps in enumerate(("[14040, 14100]", "14040", "14100"))
    )
    both, fewest, most = (row.accounted[tr.ADD_OR_REMOVE] for row in recheck(read_papers(write(text))))
    assert (both.lower, both.upper) == (fewest.lower, most.upper)


def test_a_refusal_of_the_accountant_is_told_and_drops_no_row(write: Callable[[str], Path]) -> None:
    (row,) = recheck(read_papers(write(entry(noise_multiplier="1e-12"))))
    assert not row.accounted
    assert row.missing["answer under ADD_OR_REMOVE"]
    assert row.standing is ClaimStanding.UNKNOWN


def test_progress_counts_the_settings(write: Callable[[str], Path]) -> None:
    told: list[tuple[int, int]] = []
    recheck(read_papers(write(entry() + entry(id='"two"'))), lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]


def test_joined_batches_have_a_lower_end_below_that_of_dropped_ones_and_no_upper_end(
    write: Callable[[str], Path],
) -> None:
    text = "".join(
        entry(id=f'"{i}"', **{**SHUFFLED, "last_batch": f'"{last}"'})
        for i, last in enumerate(("dropped", "joined", "not stated"))
    )
    dropped, joined, unstated = (
        row.implemented[tr.ADD_OR_REMOVE] for row in recheck(read_papers(write(text)))
    )
    assert 0 < joined.epsilon.lower <= dropped.epsilon.lower
    assert math.isfinite(dropped.epsilon.upper)
    assert math.isinf(joined.epsilon.upper)
    assert "twice" in joined.why_not
    assert unstated.epsilon == joined.epsilon
    assert "not stated" in unstated.why_not


@pytest.mark.parametrize(
    ("records", "batch", "steps"), [(50, 16, 60), (50, 17, 40), (7, 3, 30), (100, 10, 77), (9, 8, 20)]
)
def test_joined_epochs_hold_the_full_batches_that_are_counted(
    read: Callable[..., PublishedRun], records: int, batch: int, steps: int
) -> None:
    """Cut both neighbours and count the batches that lie within one epoch of each."""
    changed = {
        **SHUFFLED,
        "last_batch": '"joined"',
        "records": str(records),
        "batch": str(batch),
        "steps": str(steps),
    }
    finding = finding_of(read(**changed))
    assert isinstance(finding, Finding)
    assert finding.epoch is not None
    assert finding.full is not None
    for epoch in range(steps // finding.epoch):
        whole = [
            step
            for step in range(steps)
            if all(
                epoch * size <= step * batch and (step + 1) * batch <= (epoch + 1) * size
                for size in (records, records - 1)
            )
        ]
        assert len(whole) >= finding.full


def test_the_joined_lower_end_is_that_of_the_largest_sum(shipped: tuple[RecheckedRun, ...]) -> None:
    (row,) = (row for row in shipped if row.run.id == "de-cifar100-1")
    witness = LargestSum(
        epochs=62, batches=2, weight=Fraction(2 * 16384, 50000), with_record=2.0, without=0.0, noise=21.1
    )
    assert row.implemented[tr.ADD_OR_REMOVE].epsilon.lower == bound_below(
        witness, delta=1e-5, directions=tr.ADD_OR_REMOVE.branches
    )


# the settings that are shipped


def test_every_shipped_setting_has_a_row_that_is_answered_or_says_what_is_missing(
    shipped: tuple[RecheckedRun, ...],
) -> None:
    assert len(shipped) == len(read_papers(PAPERS).runs) >= 10
    for row in shipped:
        assert row.accounted or {"noise_multiplier", "steps", "rate"} & set(row.missing)
        assert row.run.source
        expected = {tr.ADD_OR_REMOVE, tr.SUBSTITUTE} if row.run.relation is None else {row.run.relation}
        assert set(row.implemented) == expected
        assert set(row.accounted) in (expected, set())


def test_shipped_brackets_hold_what_the_accountant_says(shipped: tuple[RecheckedRun, ...]) -> None:
    for row in shipped:
        setting = row.run
        if not row.accounted or setting.accounted != "poisson":
            continue
        assert setting.steps is not None
        assert setting.noise_multiplier is not None
        assert setting.rate is not None
        assert setting.delta is not None
        step = tr.Step(
            tr.Gaussian(noise_multiplier=setting.noise_multiplier), tr.Poisson(rate=float(setting.rate))
        )
        for relation, found in row.accounted.items():
            for steps in (setting.steps.least, setting.steps.most):
                asked = tr.epsilon(step * steps, delta=setting.delta, relation=relation)
                assert found.lower <= asked.lower <= asked.upper <= found.upper


def test_no_shipped_claim_is_below_what_is_certified_as_accounted(shipped: tuple[RecheckedRun, ...]) -> None:
    assert {row.standing for row in shipped} == {
        ClaimStanding.ABOVE,
        ClaimStanding.AGREES,
        ClaimStanding.UNKNOWN,
    }
    assert {row.run.id for row in shipped if row.standing is ClaimStanding.AGREES} == {
        "tfp-statement-pld",
        "tfp-statement-once-per-epoch",
    }


def test_poisson_as_accounted_is_proved_as_accounted(shipped: tuple[RecheckedRun, ...]) -> None:
    for row in shipped:
        if row.is_as_accounted and row.accounted:
            assert {relation: found.epsilon for relation, found in row.implemented.items()} == dict(
                row.accounted
            )
            assert row.standing_as_implemented is row.standing


def test_windowed_shuffles_and_unstated_batches_are_unknown(shipped: tuple[RecheckedRun, ...]) -> None:
    for row in shipped:
        if row.run.implemented in (None, "windowed shuffle"):
            assert row.standing_as_implemented is ClaimStanding.UNKNOWN
            assert all(found.why_not for found in row.implemented.values())


def test_the_two_claims_for_one_command_of_opacus_are_held_against_one_bracket(
    shipped: tuple[RecheckedRun, ...],
) -> None:
    rows = {row.run.id: row for row in shipped}
    for earlier, later in (("7.10", "6.86"), ("3.01", "2.91"), ("1.19", "1.16")):
        before, after = rows[f"opacus-mnist-{earlier}"], rows[f"opacus-mnist-{later}"]
        assert before.accounted == after.accounted
        assert before.excess is not None
        assert after.excess is not None
        assert before.excess > after.excess > 0


# the command


def test_no_claim_is_called_looser_than_it_certainly_is(shipped: tuple[RecheckedRun, ...]) -> None:
    said = {row[0]: row[4] for row in table(shipped)}
    above = [each for each in shipped if said[each.run.id].endswith(" % above")]
    assert len(above) > 20
    for each in above:
        assert each.excess is not None
        assert 0 <= 100 * each.excess - int(said[each.run.id].removesuffix(" % above")) < 1


def test_the_page_is_what_the_command_prints(reproduce: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = reproduce("published examples/papers.toml --markdown")
    assert (code, err) == (0, "")
    assert out == PAGE.read_text(encoding="utf-8"), "run: make published"


def test_the_command_prints_a_table_and_what_it_says_together(
    reproduce: Shell, write: Callable[[str], Path]
) -> None:
    path = write(entry() + entry(id='"two"', noise_multiplier='"not stated"'))
    code, out, err = reproduce(f"published {path}")
    assert (code, err) == (0, "")
    assert "26 % above" in out
    assert "2 settings, of which 1 state enough to be accounted again." in out


def test_json_holds_every_setting(reproduce: Shell, write: Callable[[str], Path]) -> None:
    path = write(entry(**{**SHUFFLED, "relation": '"not stated"', "last_batch": '"joined"'}))
    code, out, err = reproduce(f"published {path} --json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)["settings"]
    assert (row["id"], row["claimed_as_printed"], row["standing"]) == ("one", "3.01", "above")
    assert 2.37 < row["certified_as_accounted"]["add-or-remove"]["lower"] < 2.39
    assert row["proved_as_implemented"]["substitute"]["epsilon"]["upper"] == "infinity"
    assert row["standing_as_implemented"] == "too_small"
    assert row["steps"] == {"least": 14040, "most": 14040, "how": "14,040 steps"}
    assert row["relation"] is None
    assert "relation" in row["missing"]


def test_bad_files_and_words_exit_with_two(
    reproduce: Shell, write: Callable[[str], Path], tmp_path: Path
) -> None:
    path = write(entry(nois="1"))
    before = path.read_bytes()
    for words, said in (
        (f"published {path}", "nois = 1 is not a known key"),
        (f"published {tmp_path / 'none.toml'}", "could not be read"),
        (f"published {path} --json --markdown", "exclude each other"),
        ("published", "--papers requires an argument"),
    ):
        code, out, err = reproduce(words)
        assert (code, out) == (2, "")
        assert said in err
    assert path.read_bytes() == before
