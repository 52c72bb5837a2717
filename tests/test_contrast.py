"""One run under every sampling and relation, the ratio to what was claimed, and the verdict."""

import json
import math
import re
from typing import Any

import pytest

import tightrope as tr
from shell import Shell
from test_cli import HEADLINE, answered, loaded
from tightrope.answers.contrast import Contrast, judge_claim
from tightrope.report.words import spell

RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
POISSON, FIXED = (tr.Poisson, tr.ADD_OR_REMOVE), (tr.WithoutReplacement, tr.ADD_OR_REMOVE)
TELLS_ALL = tr.RandomizedResponse(truth_probability=1)
pytestmark = pytest.mark.usefixtures("contrasted_once")
ANCHOR = "If batches are drawn without replacement, epsilon is 15.26, not 0.95."


@pytest.fixture
def table() -> Contrast:
    return tr.contrast(RUN, delta=[1e-6, 1e-5])


def none_larger_than(claim: str) -> str:
    larger = f"larger than the claimed {claim}"
    return f"At this rate no other sampling or relation is certified to make epsilon {larger}."


# ratios


def test_the_sampling_of_the_run_under_add_or_remove_is_claimed_by_default(table: Contrast) -> None:
    assert table.claimed == POISSON
    fixed = tr.Step(tr.Gaussian(noise_multiplier=1), tr.WithoutReplacement(batch=1, population=10))
    assert tr.contrast(fixed, delta=1e-6).claimed == FIXED
    assert tr.contrast(fixed + RUN, delta=1e-6, claimed=POISSON).claimed == POISSON


def test_ratios_hold_the_quotients_of_every_pair_of_ends(table: Contrast) -> None:
    claimed = table.row(*POISSON)
    for row in table.rows:
        if row is claimed or row.refusal is not None:
            continue
        assert len(row.ratios) == 2
        for ratio, epsilon, claim in zip(row.ratios, row.epsilons, claimed.epsilons, strict=True):
            assert ratio.lower < epsilon.lower / claim.upper <= epsilon.upper / claim.lower < ratio.upper
            # without replacement the theory of an exchanged record leaves a gap of its own; a pass of bins
            # is a finite pair on either side of the truth
            widest = 0.1 if (row.sampling, row.relation) == (tr.WithoutReplacement, tr.SUBSTITUTE) else 1e-5
            bins = 1e-2 if row.relation is tr.SUBSTITUTE else 1e-3
            assert ratio.relative_width < (bins if row.sampling is tr.BallsInBins else widest)
    first, second = table.row(*FIXED).ratios
    assert 16.101 < first.lower <= first.upper < 16.103
    assert 16.58 < second.lower <= second.upper < 16.59


def test_the_claimed_row_is_exactly_once_itself(table: Contrast) -> None:
    assert table.row(*POISSON).ratios == (tr.Bracket(1, 1), tr.Bracket(1, 1))


REFUSED = tr.Step(tr.Laplace(noise_multiplier=1), tr.Poisson(rate=0.1)) * 3  # under SUBSTITUTE


def test_a_refused_row_has_no_ratio() -> None:
    row = tr.contrast(REFUSED, delta=1e-6).row(tr.Poisson, tr.SUBSTITUTE)
    assert row.refusal
    assert (row.ratios, row.epsilons, row.curve) == ((), (), None)


def test_a_refused_claim_gives_no_ratios() -> None:
    table = tr.contrast(REFUSED, delta=1e-6, claimed=(tr.Poisson, tr.SUBSTITUTE))
    assert all(row.ratios == () for row in table.rows)
    assert table.verdict == (
        "The claim cannot be judged: no epsilon is certified if batches are Poisson sampled "
        "and one record is exchanged for another."
    )
    assert "x)" not in str(table)


def test_a_ratio_to_nothing_is_infinite_and_nothing_to_nothing_is_unknown() -> None:
    table = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=0)) * 5, delta=1e-6)
    assert table.row(*FIXED).ratios == (tr.Bracket(0, math.inf),)
    assert table.row(tr.EveryRecord, tr.ADD).ratios == (tr.Bracket(math.inf, math.inf),)
    assert table.row(*POISSON).ratios == (tr.Bracket(1, 1),)
    assert table.verdict == none_larger_than("0")
    assert str(table).count("(infinitely larger)") == 4


def test_a_ratio_to_infinity_is_zero_and_infinity_to_infinity_is_unknown() -> None:
    table = tr.contrast(tr.Step(TELLS_ALL, tr.Poisson(rate=0.1)), delta=1e-6)
    assert table.row(*POISSON).epsilons == (tr.Bracket(math.inf, math.inf),)
    assert table.row(tr.Poisson, tr.ADD).ratios == (tr.Bracket(0, 0),)
    assert table.row(*FIXED).ratios == (tr.Bracket(0, math.inf),)
    assert table.verdict == none_larger_than("infinity")


# samplings that say more than a rate, and what is no sampling


def test_a_rate_that_no_number_of_bins_has_is_rounded_and_said() -> None:
    table = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=4), tr.Poisson(rate=0.3)) * 3, delta=1e-5)
    assert table.row(tr.BallsInBins, tr.ADD).run.parts[0][0].sampling == tr.BallsInBins(batches=4)
    assert table.rounded == ["In balls in bins each record takes one of 4 batches: 1 / 0.3, rounded up."]
    assert table.rounded[0] in str(table)
    whole = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=4), tr.Poisson(rate=0.1)) * 3, delta=1e-5)
    assert whole.rounded == []


@pytest.mark.parametrize(
    "own",
    [tr.TruncatedPoisson(rate=0.25, at_most=9, population=20), tr.RandomAllocation(batches=8, chosen=2)],
)
def test_capped_and_chosen_batches_have_rows_where_the_run_uses_them(own: Any) -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=4), own) * 3
    table = tr.contrast(run, delta=1e-5)
    kinds = dict.fromkeys(row.sampling for row in table.rows)
    assert next(iter(kinds)) is type(own)
    assert set(kinds) == {type(own), tr.Poisson, tr.WithoutReplacement, tr.BallsInBins, tr.EveryRecord}
    assert table.row(type(own), tr.ADD).run == run
    assert table.row(tr.Poisson, tr.ADD).run.parts[0][0].sampling == tr.Poisson(rate=0.25)
    assert table.row(tr.BallsInBins, tr.ADD).run.parts[0][0].sampling == tr.BallsInBins(batches=4)
    for claimed in (tr.TruncatedPoisson, tr.RandomAllocation):
        if claimed is not type(own):
            with pytest.raises(tr.InvalidSetting, match=r"claimed must be one of .* got .*does not follow"):
                tr.contrast(run, delta=1e-5, claimed=(claimed, tr.ADD))


def test_a_refused_cell_does_not_lose_the_table() -> None:
    for rate in (0, 1e-20):  # no number of bins has this rate, or too many
        table = tr.contrast(tr.Step(tr.Gaussian(noise_multiplier=4), tr.Poisson(rate=rate)) * 3, delta=1e-5)
        row = table.row(tr.BallsInBins, tr.ADD)
        assert "has too many batches" in str(row.refusal)
        assert table.row(*POISSON).epsilons


def test_a_shuffle_has_rows_with_both_proved_ends(shell: Shell) -> None:
    words = "contrast --noise 2 --sampling poisson --records 100 --batch 10 --epochs 3 --delta 1e-5"
    plan = tr.Training(records=100, batch=10, epochs=3, sampling=tr.Poisson)
    rows = {(row["sampling"], row["relation"]): row for row in loaded(shell, words)["rows"]}
    for relation in (tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE):
        proved = tr.epsilon_if_shuffled(plan, noise_multiplier=2, delta=1e-5, relation=relation)
        (shown,) = rows["shuffled", str(relation)]["brackets"]
        assert shown["epsilon"] == {"lower": proved.lower, "upper": proved.upper}
        claim = rows["poisson", "add-or-remove"]["brackets"][0]["epsilon"]
        assert shown["ratio"]["lower"] == pytest.approx(proved.lower / claim["upper"])
    (line,) = [
        line for line in answered(shell, words).splitlines() if line.startswith("shuffled, substitute")
    ]
    (ends,) = re.findall(r"([\d.]+) \(at least ([\d.]+)\)", line)
    at_most, at_least = map(float, ends)
    assert 0 < at_least <= proved.lower < proved.upper <= at_most


def test_a_rate_alone_is_shuffled_in_batches_of_two_and_with_everybody_there_is_no_shuffle(
    shell: Shell,
) -> None:
    words = "contrast --noise 2 --sampling poisson --rate 0.1 --steps 30 --delta 1e-5"
    plan = tr.Training(records=20, batch=2, epochs=3, sampling=tr.Poisson)
    proved = tr.epsilon_if_shuffled(plan, noise_multiplier=2, delta=1e-5, relation=tr.REMOVE)
    rows = {(row["sampling"], row["relation"]): row for row in loaded(shell, words)["rows"]}
    assert rows["shuffled", "remove"]["brackets"][0]["epsilon"]["upper"] == proved.upper < math.inf
    whole = "contrast --noise 1 --sampling every-record --steps 2 --delta 1e-6"
    assert "shuffled" not in {row["sampling"] for row in loaded(shell, whole)["rows"]}


# the verdict


def test_the_verdict_at_the_anchor(table: Contrast) -> None:
    assert tr.contrast(RUN, delta=1e-6, claimed=POISSON).verdict == ANCHOR
    assert table.verdict == ANCHOR.replace("0.95.", "0.95 (delta 1e-06).")
    assert str(table).startswith(f"{table.verdict}\n\n")


@pytest.mark.parametrize(
    ("claimed", "verdict"),
    [
        ((tr.Poisson, tr.ADD), "If batches are drawn without replacement, epsilon is 3.54, not 0.75."),
        (
            (tr.Poisson, tr.SUBSTITUTE),
            "If batches are drawn without replacement, epsilon is between 15.25 and 16.32, not 1.33.",
        ),
        ((tr.WithoutReplacement, tr.ADD), "If one record is removed, epsilon is 15.26, not 3.54."),
        (FIXED, none_larger_than("15.26")),
        ((tr.WithoutReplacement, tr.SUBSTITUTE), none_larger_than("one, between 15.25 and 16.32")),
        (
            (tr.EveryRecord, tr.ADD_OR_REMOVE),
            "If one record is exchanged for another, epsilon is 32437.37, not 8405.70.",
        ),
        ((tr.EveryRecord, tr.SUBSTITUTE), none_larger_than("32437.37")),
    ],
)
def test_the_verdict_names_what_differs_from_the_claim(claimed: Any, verdict: str) -> None:
    assert tr.contrast(RUN, delta=1e-6, claimed=claimed).verdict == verdict


def test_numbers_in_a_verdict_are_upper_ends_rounded_up() -> None:
    def said(worse: tuple[float, float], claim: tuple[float, float]) -> str:
        verdict = judge_claim(POISSON, {POISSON: tr.Bracket(*claim), FIXED: tr.Bracket(*worse)})
        return verdict.split("epsilon is ")[1]

    assert said((15.2514, 15.2515), (0.947195, 0.947196)) == "15.26, not 0.95."
    # two decimals do not tell them apart
    assert said((1.0041, 1.0042), (1.0011, 1.0012)) == "1.005, not 1.002."
    # nor do they show anything of the claim
    assert said((1.9, 1.9), (0.00123, 0.001231)) == "1.9000, not 0.0013."
    # the ends straddle where two decimals round up
    assert said((1.9999999, 2.0000001), (1.0, 1.0)) == "2.01, not 1.00."
    # two decimals are more than is known
    assert said((30.06, 30.12), (20.0, 20.0)) == "30.2, not 20.0."
    # one number would be a guess
    assert said((2.0, 3.0), (1.0, 1.5)) == "between 2.00 and 3.00, not between 1.00 and 1.50."
    assert said((15.2514, 16.3188), (0.947195, 0.947196)) == "between 15.25 and 16.32, not 0.95."
    assert said((1234.56, 2345.67), (0.0, 0.3)) == "between 1234 and 2346, not between 0.000 and 0.300."
    assert said((4.2087, math.inf), (0.5, 0.5)) == "at least 4.20, not 0.50."
    assert said((math.inf, math.inf), (0.5, 0.5)) == "infinity, not 0.50."
    assert said((0.5, 0.5), (0.0, 0.0)) == "0.50, not 0."


def test_one_mistake_is_named_before_two() -> None:
    found = {
        (tr.Poisson, tr.ADD): tr.Bracket(1, 1),
        (tr.Poisson, tr.REMOVE): tr.Bracket(2, 2),
        (tr.WithoutReplacement, tr.REMOVE): tr.Bracket(5, 5),
    }
    assert judge_claim((tr.Poisson, tr.ADD), found) == "If one record is removed, epsilon is 2.00, not 1.00."


def test_overlapping_brackets_are_no_mismatch() -> None:
    answers = {POISSON: tr.Bracket(1, 1.2), FIXED: tr.Bracket(1.2, 5)}
    assert judge_claim(POISSON, answers) == none_larger_than("one, between 1.000 and 1.200")


def test_of_passes_no_rate_is_said() -> None:
    bins = (tr.BallsInBins, tr.ADD_OR_REMOVE)
    verdict = judge_claim(bins, {bins: tr.Bracket(1.0, 1.1), POISSON: tr.Bracket(1.0, 1.1)})
    assert verdict.startswith("With batches of this size no other sampling or relation is certified to make")


def test_runs_without_a_sampling_of_their_own_claim_nothing_unless_told() -> None:
    mixed = RUN + tr.Step(tr.Gaussian(noise_multiplier=5), tr.WithoutReplacement(batch=1, population=10))
    for run in (RUN * 0, mixed):
        table = tr.contrast(run, delta=1e-6)
        assert table.claimed is None
        assert table.verdict.startswith("Nothing was claimed: the steps do not share one sampling.")
        assert all(row.ratios == () for row in table.rows)
        assert "claimed)" not in str(table)
    assert tr.contrast(RUN * 0, delta=1e-6, claimed=POISSON).verdict == none_larger_than("0")
    assert tr.contrast(mixed, delta=1e-6, claimed=POISSON).verdict.startswith(
        "If batches are drawn without replacement"
    )


@pytest.mark.parametrize(
    "claimed",
    [
        "poisson",
        tr.Poisson,
        (tr.Poisson,),
        (tr.Poisson(rate=0.1), tr.ADD),
        (tr.ADD, tr.Poisson),
        (tr.Poisson, "both"),
        (tr.Gaussian, tr.ADD),
        [tr.Poisson, tr.ADD],
        (tr.Poisson, tr.Relation("ADD", "another meaning", ("ADD",))),
    ],
    ids=repr,
)
def test_what_is_not_a_claim_is_refused(claimed: Any) -> None:
    with pytest.raises(
        tr.InvalidSetting, match="claimed must be a kind of sampling and a relation"
    ) as refusal:
        tr.contrast(RUN, delta=1e-6, claimed=claimed)
    assert repr(claimed) in str(refusal.value)


# the effort, which matters for one row

FEW = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=1, population=20)) * 7
EXCHANGED = tr.WithoutReplacement, tr.SUBSTITUTE


def test_only_the_row_that_could_be_tighter_is_marked(table: Contrast) -> None:
    assert {(row.sampling, row.relation): row.effort for row in table.rows if row.effort} == {
        EXCHANGED: tr.QUICK
    }
    quick = "WithoutReplacement under SUBSTITUTE is quick (what theory gives at once)"
    assert f"{quick}; effort=TIGHT narrows" in str(table)
    one_step = tr.contrast(FEW.parts[0][0], delta=1e-5)
    assert all(row.effort is None for row in one_step.rows)
    assert "quick" not in str(one_step)


def test_a_tight_contrast_narrows_that_row_and_no_other() -> None:
    calls: list[tuple[int, int]] = []
    quick = tr.contrast(FEW, delta=1e-5)
    tight = tr.contrast(
        FEW,
        delta=1e-5,
        by=tr.Certified(effort=tr.TIGHT),
        progress=lambda done, steps: calls.append((done, steps)),
    )
    assert calls[0] == (1, 7)
    assert tight.row(*EXCHANGED).effort is tr.TIGHT
    assert "is tight (besides, the substitution game" in str(tight)
    for loose, narrow in zip(quick.rows, tight.rows, strict=True):
        if (loose.sampling, loose.relation) == EXCHANGED:
            assert (
                loose.epsilons[0].lower
                <= narrow.epsilons[0].lower
                <= narrow.epsilons[0].upper
                < loose.epsilons[0].upper
            )
        else:
            assert loose.epsilons == narrow.epsilons


def test_contrast_on_the_command_line_says_what_is_quick(shell: Shell) -> None:
    words = (
        "contrast --noise 4 --sampling without-replacement --batch 1 --population 20 --steps 7 --delta 1e-5"
    )
    quick, tight = answered(shell, f"{words} --why"), answered(shell, f"{words} --effort tight --why")
    assert "--effort tight plays the substitution game, which narrows the bracket" in answered(shell, words)
    row = "without-replacement, substitute"
    assert f"{row}: quick (what theory gives at once). The ends" in quick
    assert "--effort tight plays the substitution game, which narrows the bracket" in quick
    game = "tight (besides, the substitution game, or a closer look at a shuffle)"
    assert f"{row}: {game}. The ends" in tight
    found = loaded(shell, f"{words} --effort tight")
    assert found["question"]["effort"] == "tight"
    assert [row["effort"] for row in found["rows"]].count("tight") == 1
    assert [row["effort"] for row in found["rows"]].count(None) == 18


# as text and on the command line


def test_the_table_shows_upper_ends_and_ratios(table: Contrast) -> None:
    lines = {tuple(line.split()[:2]): line.split(None, 2)[2] for line in str(table).splitlines()[4:20]}
    assert lines["WithoutReplacement", "ADD_OR_REMOVE"].startswith("15.2515 (16.11x) ")
    assert lines["Poisson", "ADD_OR_REMOVE"].startswith("0.9472 (claimed) ")
    assert lines["EveryRecord", "REMOVE"].startswith("8405.6967 (8,875x) ")
    assert lines["WithoutReplacement", "SUBSTITUTE"].startswith("16.3188 (16.1x to 17.3x) ")


def test_contrast_opens_with_the_verdict_and_prints_ratios(shell: Shell) -> None:
    out = answered(shell, f"contrast {HEADLINE} --delta 1e-6 --why")
    assert out.startswith(f"{ANCHOR}\n\n")
    assert "[15.2514, 15.2515] (16.11x)" in out
    assert "[0.947195, 0.947196] (claimed)" in out
    assert answered(shell, f"contrast {HEADLINE} --delta 1e-6 --brief") == f"{ANCHOR}\n"


def cells(out: str) -> dict[str, list[str]]:
    """The rows of the printed table by name, cell by cell."""
    table = next(part for part in out.split("\n\n") if "---" in part).splitlines()
    return {line[:36].strip(): line[36:].split() for line in (table[0], *table[2:])}


def test_deltas_are_printed_from_the_largest_down_and_upper_ends_are_rounded_up(
    shell: Shell, table: Contrast
) -> None:
    out = answered(shell, f"contrast {HEADLINE} --delta 1e-6 1e-5")
    assert out.startswith(ANCHOR.replace("0.95.", "0.95 (delta 1e-06)."))
    found = cells(out)
    assert found.pop("epsilon at most, at delta") == ["1e-05", "1e-06", "ratio,", "1e-06"]
    assert found["poisson, add-or-remove"][2:] == ["claimed"]
    assert found["without-replacement, add-or-remove"][2:] == ["16.11x"]
    assert found["without-replacement, substitute"][2:] == ["up", "to", "17.3x"]
    for row in table.rows:
        printed = found.get(f"{spell(row.sampling)}, {row.relation}")
        if printed is not None and row.refusal is None:
            for number, epsilon in zip(printed[1::-1], row.epsilons, strict=True):
                assert epsilon.upper <= float(number) <= epsilon.upper * 1.001


def test_rows_come_with_the_claimed_sampling_first_and_full_batches_last_or_not_at_all(
    shell: Shell, table: Contrast
) -> None:
    kinds = list(dict.fromkeys(row.sampling for row in table.rows))
    assert kinds == [tr.Poisson, tr.WithoutReplacement, tr.BallsInBins, tr.EveryRecord]
    fixed = tr.contrast(RUN, delta=1e-6, claimed=FIXED)
    kinds = list(dict.fromkeys(row.sampling for row in fixed.rows))
    assert kinds == [tr.WithoutReplacement, tr.Poisson, tr.BallsInBins, tr.EveryRecord]
    _, *names = cells(answered(shell, f"contrast {HEADLINE} --delta 1e-6"))
    exchanged = ("add-or-remove", "substitute")
    drawn = ("poisson", "without-replacement", "balls-in-bins", "shuffled")
    shown = [f"{kind}, {each}" for kind in drawn for each in exchanged]
    assert names == [name for name in shown if name != "balls-in-bins, substitute"]  # which takes long
    whole = "contrast --noise 1 --sampling every-record --steps 2 --delta 1e-6"
    _, *names = cells(answered(shell, whole))
    assert names[:2] == ["every-record, add-or-remove", "every-record, substitute"]


def test_another_claim_can_be_stated(shell: Shell) -> None:
    out = answered(
        shell,
        f"contrast {HEADLINE} --delta 1e-6 --claimed-sampling without-replacement --claimed-relation add",
    )
    assert out.startswith("If one record is removed, epsilon is 15.26, not 3.54.\n")
    found = cells(out)
    assert found["without-replacement, add"] == ["3.537", "claimed"]
    assert found["without-replacement, remove"][0] == "15.26"


def test_contrast_as_json_has_claim_ratios_and_verdict(shell: Shell) -> None:
    found = loaded(shell, f"contrast {HEADLINE} --delta 1e-6")
    assert found["claimed"] == {"sampling": "poisson", "relation": "add-or-remove"}
    assert found["verdict"] == ANCHOR
    rows = {(row["sampling"], row["relation"]): row for row in found["rows"]}
    assert rows["poisson", "add-or-remove"]["brackets"][0]["ratio"] == {"lower": 1, "upper": 1}
    assert 16.101 < rows["without-replacement", "add-or-remove"]["brackets"][0]["ratio"]["lower"] < 16.103
    laplace = "--mechanism laplace --noise 1 --sampling poisson --rate 0.1 --steps 3"
    refused = loaded(
        shell, f"contrast {laplace} --delta 1e-6 --claimed-sampling poisson --claimed-relation substitute"
    )
    assert all(at["ratio"] is None for row in refused["rows"] for at in row["brackets"])


def test_unknown_ratios_are_valid_json(shell: Shell) -> None:
    found = loaded(shell, "contrast --noise 1 --sampling poisson --rate 0 --steps 5 --delta 1e-6")
    assert {"lower": 0, "upper": "infinity"} in [
        at["ratio"] for row in found["rows"] for at in row["brackets"]
    ]
    assert "NaN" not in json.dumps(found)


@pytest.mark.parametrize("words", ["--claimed-sampling binomial", "--claimed-relation sideways", "--claimed"])
def test_an_unknown_claim_is_one_line_and_exit_code_2(shell: Shell, words: str) -> None:
    code, out, err = shell(f"contrast {HEADLINE} --delta 1e-6 {words}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words.split()[-1] in err
