"""A claim against what is run: verdicts, sentences, exit codes."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from shell import Shell
from tightrope.audit import Audit, Finding, How, Scheme, Verdict, audit, record, watch
from tightrope.audit.loaders.samplers import float32_rate
from tightrope.numerics.text import round_outwards
from tightrope.samplers import PoissonSampler, WithoutReplacementSampler

ANCHOR = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
SHUFFLED = Finding(
    scheme=Scheme.SHUFFLE,
    how=How.INSPECTED,
    sentence="This loader shuffles.",
    records=63_990,
    batch=64,
    epoch=1000,
    full=999,
    removal_changes_one_slot=True,
    reshuffles=True,
)


def found(**numbers: object) -> Finding:
    return replace(SHUFFLED, **numbers)  # type: ignore[arg-type]


def judged(finding: Finding, run: tr.Run = ANCHOR, relation: tr.Relation = tr.ADD_OR_REMOVE) -> Audit:
    return audit(finding, run, delta=1e-6, relation=relation)


def test_the_pitfall_of_the_paper_is_certain_and_said_in_numbers() -> None:
    result = judged(SHUFFLED)
    assert result.verdict is Verdict.TOO_SMALL
    assert not result.verdict.holds
    assert result.claimed.upper < 0.95
    assert result.proved.lower > 29.9
    assert result.without_replacement is not None
    assert result.without_replacement.lower > 15.2
    claim = (
        "Accounted as Poisson sampling at rate 0.001, epsilon 0.95 at delta 1e-06 under ADD_OR_REMOVE. "
        "This loader shuffles."
    )
    assert result.sentence.startswith(claim)
    assert (
        f"Epsilon is certainly at least {round_outwards(result.proved.lower, 4, up=False)}; "
        in result.sentence
    )
    assert (
        f"no bound better than {round_outwards(result.proved.upper, 4, up=True)} is proved, "
        "provided that every pass over the loader is run to its end "
        "and no sum is divided by the size of a last batch that a record fewer makes smaller"
        in result.sentence
    )
    assert result.sentence.endswith("If it were without replacement, epsilon would be 15.26.")
    assert "shuffled_remove" in {evidence.name for evidence in result.because}


@pytest.mark.parametrize(
    ("sampling", "verdict"),
    [
        (tr.Poisson(rate=1e-3), Verdict.MATCHES),
        (tr.Poisson(rate=0.9e-3), Verdict.COVERED),
        (tr.Poisson(rate=1.0001e-3), Verdict.TOO_SMALL),
        (tr.WithoutReplacement(batch=64, population=64_000), Verdict.TOO_SMALL),
        (tr.EveryRecord(), Verdict.TOO_SMALL),
    ],
)
def test_what_the_accountant_takes_is_judged_by_its_epsilon(
    sampling: tr.Poisson | tr.WithoutReplacement | tr.EveryRecord, verdict: Verdict
) -> None:
    schemes = {
        tr.Poisson: Scheme.POISSON,
        tr.WithoutReplacement: Scheme.WITHOUT_REPLACEMENT,
        tr.EveryRecord: Scheme.EVERY_RECORD,
    }
    result = judged(found(scheme=schemes[type(sampling)], sampling=sampling))
    assert result.verdict is verdict
    assert result.without_replacement is None
    truly = tr.Step(tr.Gaussian(noise_multiplier=0.8), sampling) * 10_000
    assert result.proved == tr.epsilon(truly, delta=1e-6, relation=tr.ADD_OR_REMOVE)


def test_the_rate_decides_for_batches_without_replacement_and_not_the_numbers_behind_it() -> None:
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.WithoutReplacement(batch=1, population=1000)) * 100
    same = found(
        scheme=Scheme.WITHOUT_REPLACEMENT, sampling=tr.WithoutReplacement(batch=64, population=64_000)
    )
    assert judged(same, run).verdict is Verdict.MATCHES


def test_what_is_not_known_is_not_guessed() -> None:
    result = judged(
        Finding(scheme=Scheme.UNKNOWN, how=How.INSPECTED, sentence="A class of your own draws the batches.")
    )
    assert result.verdict is Verdict.UNKNOWN
    assert result.proved == tr.Bracket(0.0, math.inf)
    assert "no bound is proved" in result.sentence.lower()


def test_a_claim_without_a_proof_is_not_called_false() -> None:
    result = judged(found(scheme=Scheme.WITH_REPLACEMENT, share=1 / 64_000, epoch=None))
    assert result.verdict is Verdict.NOT_PROVEN
    assert result.proved.lower == 0
    assert "No bound better than" in result.sentence


def test_a_claim_without_amplification_covers_shuffled_batches() -> None:
    full = tr.Step(tr.Gaussian(noise_multiplier=8), tr.EveryRecord()) * 10
    few = replace(SHUFFLED, records=350, epoch=6, full=5)  # two epochs, the last smaller as well
    result = judged(few, full, tr.SUBSTITUTE)
    assert result.verdict is Verdict.COVERED
    assert "costs no more" in result.sentence


def test_two_poisson_draws_in_a_step_cost_more_than_one() -> None:
    result = judged(found(scheme=Scheme.SEVERAL_DRAWS, draws=2, rate=5e-4))
    assert result.verdict is Verdict.NOT_PROVEN
    assert [evidence.name for evidence in result.because] == ["split_noise"]


def test_a_watched_rate_agrees_with_every_rate_it_cannot_exclude() -> None:
    sampler = PoissonSampler(records=2000, rate=0.01, steps=2000, seed=5)
    finding = watch(sampler, records=2000)
    assert finding.rate_range is not None
    low, high = finding.rate_range
    assert low < 0.01 < high

    def claimed(rate: float) -> Audit:
        return judged(finding, tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=rate)) * 2000)

    assert claimed(0.01).verdict is Verdict.MATCHES
    assert claimed(0.02).verdict is Verdict.COVERED
    assert claimed(0.005).verdict is Verdict.TOO_SMALL
    assert "confidence" in claimed(0.005).sentence


@pytest.mark.parametrize("scheme", [Scheme.UNKNOWN, Scheme.SHUFFLE, Scheme.WITHOUT_REPLACEMENT])
def test_a_finding_that_names_two_ways_to_draw_is_no_match(scheme: Scheme) -> None:
    """A shuffle, or nothing known at all, matched for the sampling beside it."""
    with pytest.raises(tr.InvalidSetting, match=f"name one way .* the scheme {scheme.name} beside"):
        judged(found(scheme=scheme, sampling=tr.Poisson(rate=1e-3)))


@pytest.mark.parametrize("rates", [(1e-9, 1e-8), (0.9, 1e-8)])
def test_a_range_that_does_not_hold_its_rate_covers_nothing(rates: tuple[float, float]) -> None:
    elsewhere = found(
        scheme=Scheme.POISSON, how=How.WATCHED, sampling=tr.Poisson(rate=1e-3), rate_range=rates
    )
    with pytest.raises(tr.InvalidSetting, match="finding must have a range of rates that holds its rate"):
        judged(elsewhere)


def test_relation_and_run_are_wanted() -> None:
    with pytest.raises(TypeError, match="relation"):
        audit(SHUFFLED, ANCHOR, delta=1e-6)  # type: ignore[call-arg]
    with pytest.raises(tr.InvalidSetting, match="run must hold at least one step"):
        audit(SHUFFLED, tr.Run(), delta=1e-6, relation=tr.ADD)
    with pytest.raises(tr.InvalidSetting, match="loader must be a torch DataLoader, got"):
        audit([[1, 2], [3]], ANCHOR, delta=1e-6, relation=tr.ADD)
    with pytest.raises(tr.InvalidSetting, match="delta must be in"):
        audit(SHUFFLED, ANCHOR, delta=2, relation=tr.ADD)


def shuffled(records: int, batch: int, epochs: int) -> Iterator[list[int]]:
    rng = np.random.default_rng(1)
    for _ in range(epochs):
        order = rng.permutation(records)
        yield from (order[start : start + batch].tolist() for start in range(0, records, batch))


CLAIM = "--noise 0.8 --sampling poisson --rate 0.02 --steps 500 --delta 1e-6 --relation add-or-remove"


def recorded(
    path: Path, batches: Iterator[object] | PoissonSampler | WithoutReplacementSampler, records: int
) -> Path:
    for _ in record(batches, path, records=records):
        pass
    return path


def test_a_recording_of_another_scheme_exits_with_3(tmp_path: Path, shell: Shell) -> None:
    path = recorded(tmp_path / "batches.jsonl", shuffled(990, 20, 4), 990)
    code, out, err = shell(f"audit {path} {CLAIM}")
    assert (code, err) == (3, "")
    assert "Too small: the accounted epsilon is certainly too small" in out
    assert "shuffled and cut" in out
    code, out, _ = shell(f"audit {path} {CLAIM} --json")
    answer = json.loads(out)
    assert code == 3
    assert answer["verdict"] == "too_small"
    assert answer["finding"]["scheme"] == "shuffle"
    assert answer["proved"]["lower"] > answer["claimed"]["upper"]
    assert answer["if_without_replacement"]["lower"] > 30


def test_a_recording_of_what_was_accounted_exits_with_0(tmp_path: Path, shell: Shell) -> None:
    sampler = PoissonSampler(records=1000, rate=0.02, steps=500, seed=3)
    code, out, err = shell(f"audit {recorded(tmp_path / 'batches.jsonl', sampler, 1000)} {CLAIM}")
    assert (code, err) == (0, "")
    assert "Matches: what runs is what was accounted" in out


def test_a_recording_too_short_to_tell_exits_with_4(tmp_path: Path, shell: Shell) -> None:
    sampler = PoissonSampler(records=1000, rate=0.02, steps=4, seed=3)
    code, out, err = shell(f"audit {recorded(tmp_path / 'batches.jsonl', sampler, 1000)} {CLAIM}")
    assert (code, err) == (4, "")
    assert "too few" in out


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"format": "tightrope-batches", "version": 1, "records": 5}', "[1, 7]"], "7"),
        (['{"format": "tightrope-batches", "version": 1, "records": 5}', "[1, 1]"], "repeats"),
        (['{"format": "tightrope-batches", "version": 2, "records": 5}', "[1]"], "version"),
        (["[1]", "[2]"], "no recording"),
    ],
)
def test_a_wrong_recording_is_refused_and_left_alone(
    tmp_path: Path, shell: Shell, lines: list[str], said: str
) -> None:
    path = tmp_path / "batches.jsonl"
    path.write_text("\n".join(lines) + "\n")
    before = path.read_bytes()
    code, out, err = shell(f"audit {path} {CLAIM}")
    assert (code, out) == (2, "")
    assert said in err
    assert path.read_bytes() == before


def test_a_file_as_help_describes_it_is_read(tmp_path: Path, shell: Shell) -> None:
    _, told, _ = shell("audit --help")
    assert "a header, then one JSON list per line" in (flat := " ".join(told.replace("│", " ").split()))
    assert "The header may be missing where --records is given." in flat
    path = tmp_path / "batches.jsonl"
    sampler = PoissonSampler(records=1000, rate=0.02, steps=500, seed=3)
    path.write_text("".join(f"{batch.tolist()}\n" for batch in sampler))
    sized = CLAIM.replace("--rate 0.02", "--records 1000 --batch 20")
    code, out, err = shell(f"audit {path} {sized}")
    assert (code, err, out.startswith("Matches: ")) == (0, "", True)
    code, _, err = shell(f"audit {path} {CLAIM}")
    assert (code, "Bare lists of indices are read with --records 60000." in err) == (2, True)


def test_a_missing_recording_is_refused(tmp_path: Path, shell: Shell) -> None:
    code, out, err = shell(f"audit {tmp_path / 'nothing.jsonl'} {CLAIM}")
    assert (code, out) == (2, "")
    assert "could not be read" in err


def test_a_rate_that_torch_rounds_up_by_little_is_the_rate_that_was_meant() -> None:
    rounded_up = found(scheme=Scheme.POISSON, sampling=tr.Poisson(rate=float32_rate(1e-3)))
    result = judged(rounded_up)
    assert result.verdict is Verdict.MATCHES
    assert result.proved.upper > result.claimed.upper
    assert "state epsilon 0.9472" in result.sentence
    far_up = found(scheme=Scheme.POISSON, sampling=tr.Poisson(rate=float32_rate(1e-7)))
    run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-7)) * 10_000
    assert judged(far_up, run).verdict is Verdict.TOO_SMALL


def test_a_watched_match_says_what_the_batches_leave_open() -> None:
    finding = watch(PoissonSampler(records=2000, rate=0.01, steps=2000, seed=5), records=2000)
    result = judged(finding, tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.01)) * 2000)
    assert result.verdict is Verdict.MATCHES
    assert result.proved.lower < result.claimed.lower < result.claimed.upper < result.proved.upper
    assert "as far as the batches tell: with confidence 0.999 the rate lies between" in result.sentence


def test_a_recording_can_be_audited_by_its_path(tmp_path: Path) -> None:
    path = recorded(tmp_path / "batches.jsonl", shuffled(990, 20, 4), 990)
    assert audit(str(path), ANCHOR, delta=1e-6, relation=tr.ADD).finding == watch(path)
