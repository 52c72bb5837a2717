"""The number of batches that were seen, against the number of steps that were accounted."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tightrope as tr
from shell import Shell
from tightrope.audit import Audit, Finding, How, Scheme, Verdict, audit, inspect_loader, record, watch
from tightrope.audit.claims.counted import count_batches
from tightrope.audit.steps.summary import StepsSummary, apply_steps
from tightrope.samplers import BallsInBinsSampler, PoissonSampler, WithoutReplacementSampler
from tightrope.statements.make import state_audit
from tightrope.statements.verify import verify

STEP = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.02))
WATCHED = watch(PoissonSampler(records=1000, rate=0.02, steps=600, seed=3), records=1000)
READ = Finding(
    scheme=Scheme.POISSON,
    how=How.INSPECTED,
    sentence="This loader draws Poisson batches.",
    sampling=STEP.sampling,
    records=1000,
    rate=0.02,
    batch_count=20,
)


def judge(finding: Finding, run: tr.Run | tr.Step) -> Audit:
    return audit(finding, run, delta=1e-5, relation=tr.ADD_OR_REMOVE)


def test_600_recorded_batches_are_not_the_5_steps_that_were_accounted() -> None:
    """This was a match: epsilon 0.65 where 600 steps cost 3.03."""
    result = judge(WATCHED, STEP * 5)
    assert result.verdict is Verdict.TOO_SMALL
    assert "The recording holds 600 batches, but only 5 steps were accounted." in result.sentence
    assert result.proved == judge(WATCHED, STEP * 600).proved
    assert judge(WATCHED, STEP * 599).verdict is not Verdict.MATCHES
    assert judge(WATCHED, STEP * 600).verdict is Verdict.MATCHES


def test_one_step_that_was_not_accounted_is_no_match_whatever_it_costs() -> None:
    assert judge(WATCHED, STEP * 599).verdict is Verdict.NOT_PROVEN
    assert not judge(WATCHED, STEP * 599).verdict.holds


def test_a_recording_of_a_part_covers_and_says_that_it_is_a_part() -> None:
    result = judge(WATCHED, STEP * 10_000)
    assert result.verdict is Verdict.COVERED
    said = "The recording shows part of the run only, 600 batches of the 10,000 steps that were accounted: "
    assert f"{said}the others are taken to be drawn alike." in result.sentence
    assert "That agrees with what was accounted, as far as the batches tell" in result.sentence
    assert result.sentence.endswith(", provided that all batches are drawn like those that were watched.")
    assert result.provided == "all batches are drawn like those that were watched"


def test_a_part_of_batches_without_a_rate_to_estimate_is_covered_alike() -> None:
    sampler = WithoutReplacementSampler(records=400, batch=20, steps=400, seed=1)
    step = tr.Step(tr.Gaussian(noise_multiplier=1), sampler.sampling)
    finding = watch(sampler, records=400)
    whole, part = judge(finding, step * 400), judge(finding, step * 500)
    assert (whole.verdict, part.verdict) == (Verdict.MATCHES, Verdict.COVERED)
    assert whole.sentence.endswith("That is what was accounted.")
    assert part.sentence.endswith(
        "That is what was accounted, provided that all batches are drawn like those that were watched."
    )


def test_more_batches_at_a_smaller_rate_may_still_be_covered() -> None:
    dear = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.2))
    result = judge(WATCHED, dear * 500)
    assert result.verdict is Verdict.COVERED
    assert result.proved == judge(WATCHED, STEP * 600).proved


def test_a_pass_that_is_longer_than_the_accounted_run_is_no_match() -> None:
    result = judge(READ, STEP * 2)
    assert result.verdict is Verdict.TOO_SMALL
    assert "One pass is 20 batches, but only 2 steps were accounted. So epsilon is" in result.sentence
    assert result.sentence.endswith(", provided that every pass over the loader is run to its end.")
    assert result.proved == tr.epsilon(STEP * 20, delta=1e-5, relation=tr.ADD_OR_REMOVE)


@pytest.mark.parametrize("steps", [20, 21, 200])
def test_several_passes_match(steps: int) -> None:
    result = judge(READ, STEP * steps)
    assert result.verdict is Verdict.MATCHES
    assert result.sentence.endswith("That is what was accounted.")


@pytest.mark.parametrize("kind", [PoissonSampler, BallsInBinsSampler])
def test_a_sampler_that_has_handed_out_more_than_was_accounted_is_no_match(kind: type) -> None:
    is_poisson = kind is PoissonSampler
    sampler = kind(records=200, steps=60, **({"rate": 0.1} if is_poisson else {"batches": 60}))
    step = tr.Step(tr.Gaussian(noise_multiplier=2), sampler.sampling)
    for _ in range(2):
        list(sampler)
    result = tr.audit(sampler, step * 60, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    assert result.verdict is Verdict.TOO_SMALL
    assert "The sampler has handed out 120 batches, but only 60 steps were accounted." in result.sentence
    assert result.sentence.endswith("provided that every batch that was handed out was trained on.")
    assert tr.audit(sampler, step * 120, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict is Verdict.MATCHES


def test_one_step_is_not_many() -> None:
    assert "One pass is 20 batches, but only 1 step was accounted." in judge(READ, STEP).sentence


def test_which_mechanism_the_other_batches_used_is_not_guessed() -> None:
    other = tr.Step(tr.Gaussian(noise_multiplier=2), STEP.sampling)
    result = judge(READ, STEP * 2 + other * 3)
    assert result.verdict is Verdict.NOT_PROVEN
    assert result.why_not == (
        "only 5 of the 20 batches were accounted, and which of the mechanisms the others used is not known"
    )
    assert result.proved.lower == pytest.approx(result.claimed.lower)
    assert judge(READ, STEP * 17 + other * 3).verdict is Verdict.MATCHES


def test_a_pass_of_more_steps_than_anyone_runs_is_refused_in_words() -> None:
    assert judge(replace(READ, batch_count=10**18), STEP * 2).verdict is Verdict.NOT_PROVEN


def test_where_nothing_is_known_numbers_are_not_compared() -> None:
    unknown = Finding(scheme=Scheme.UNKNOWN, how=How.WATCHED, sentence="Too few.", batch_count=600)
    result = judge(unknown, STEP * 5)
    assert (result.verdict, "recording" in result.sentence) == (Verdict.UNKNOWN, False)


def test_steps_that_were_all_seen_need_no_whole_pass() -> None:
    seen = apply_steps(READ, StepsSummary(records=2))
    assert judge(seen, STEP * 2).verdict is Verdict.MATCHES


def test_a_shuffled_pass_is_run_to_its_end_before_it_is_called_covered() -> None:
    shuffled = Finding(
        scheme=Scheme.SHUFFLE,
        how=How.INSPECTED,
        sentence="This loader shuffles.",
        records=1000,
        batch=20,
        epoch=50,
        full=50,
        reshuffles=True,
        batch_count=50,
    )
    result = judge(shuffled, STEP * 2)
    assert "One pass is 50 batches, but only 2 steps were accounted." in result.sentence
    assert not result.verdict.holds


def test_a_loader_tells_how_many_batches_a_pass_has() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make training")
    from tightrope.samplers.torch import data_loader

    records = torch.utils.data.TensorDataset(torch.zeros(1000, 2))
    loader = data_loader(records, PoissonSampler(records=1000, rate=0.02, steps=20))
    assert inspect_loader(loader).batch_count == 20
    assert audit(loader, STEP * 2, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict is Verdict.TOO_SMALL
    assert audit(loader, STEP * 20, delta=1e-5, relation=tr.ADD_OR_REMOVE).verdict is Verdict.MATCHES


def test_a_statement_keeps_the_number_and_is_verified_with_it() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed: make statements")
    facts = tr.Facts(
        name="a model", setting="central", unit="record", data_accesses="all", tuning="none", outputs="all"
    )
    part = tr.statement(STEP * 10_000, delta=1e-5, relation="add-or-remove", facts=facts, implemented=WATCHED)
    assert (part.implemented.batch_count, part.certified.sampling_verdict) == (600, "covered")
    assert tr.verify(part).holds
    short = tr.statement(
        STEP * 5, delta=1e-5, relation="add-or-remove", facts=facts, implemented=WATCHED, epsilon=1
    )
    assert short.claim.standing == "refuted"
    assert not tr.verify(short).holds


QUESTION = "--noise 1 --sampling poisson --rate 0.02 --delta 1e-5 --relation add-or-remove"


def test_the_command_counts_too(tmp_path: Path, shell: Shell) -> None:
    file = tmp_path / "batches.jsonl"
    for _ in record(PoissonSampler(records=1000, rate=0.02, steps=600, seed=3), file, records=1000):
        pass
    code, out, _ = shell(f"audit {file} {QUESTION} --steps 5")
    assert (code, out.startswith("Too small: ")) == (3, True)
    assert "The recording holds 600 batches, but only 5 steps were accounted." in " ".join(out.split())
    code, out, _ = shell(f"audit {file} {QUESTION} --steps 10000")
    assert (code, out.startswith("Covered: ")) == (0, True)
    assert "part of the run only, 600 batches of the 10,000 steps" in " ".join(out.split())
    code, out, _ = shell(f"audit {file} {QUESTION} --steps 600 --json")
    answer = json.loads(out)
    assert (code, answer["verdict"], answer["finding"]["batch_count"]) == (0, "matches", 600)


@pytest.mark.parametrize(
    ("sampler", "at_most"),
    [
        (
            lambda: BallsInBinsSampler(records=100, batches=10),
            "If the batches that a pass still holds are used, they are 13",
        ),
        (
            lambda: PoissonSampler(records=100, rate=0.1, steps=10),
            "If the batches that a pass still holds are used, they are 10",
        ),
    ],
    ids=["BallsInBinsSampler", "PoissonSampler"],
)
def test_steps_that_are_all_that_were_handed_out_are_not_called_certainly_too_few(
    sampler: Callable[[], BallsInBinsSampler | PoissonSampler], at_most: str
) -> None:
    drawn = sampler()
    for _ in range(3):
        next(iter(drawn))
    step = tr.Step(tr.Gaussian(noise_multiplier=1), drawn.sampling)
    finding = inspect_loader(drawn)
    result = judge(finding, step * 3)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "As many steps were accounted as batches were handed out, 3." in result.sentence
    assert at_most in result.sentence
    assert result.proved.lower == result.claimed.lower
    assert result.proved.upper == judge(finding, step * count_batches(finding)).proved.upper
    assert judge(finding, step * 2).verdict is Verdict.TOO_SMALL
    assert judge(finding, step * 4).verdict is Verdict.TOO_SMALL


def test_a_pass_that_was_begun_is_not_called_longer_than_it_is() -> None:
    """This was 'One pass is 13 batches' of a pass of ten."""
    drawn = BallsInBinsSampler(records=100, batches=10)
    for begun, said in (
        (1, "With the one that was drawn of the pass before, another pass makes 11 batches, but only"),
        (2, "With the 2 that were drawn of the pass before, another pass makes 12 batches, but only"),
    ):
        next(iter(drawn))
        assert drawn.drawn == begun
        sentence = judge(
            inspect_loader(drawn), tr.Step(tr.Gaussian(noise_multiplier=1), drawn.sampling) * 8
        ).sentence
        assert said in sentence
        assert "One pass is" not in sentence


def test_a_statement_about_steps_handed_out_is_confirmed_by_who_reads_it() -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed: make statements")
    drawn = PoissonSampler(records=100, rate=0.1, steps=10)
    for _ in range(3):
        next(iter(drawn))
    step = tr.Step(tr.Gaussian(noise_multiplier=1), drawn.sampling)
    facts = tr.Facts(
        name="x", setting="central", unit="record", data_accesses="all", tuning="none", outputs="all"
    )
    stated = state_audit(judge(inspect_loader(drawn), step * 3), facts=facts)
    assert stated.certified.sampling_verdict == "too_small"  # files do not hold how far a sampler has come
    assert verify(stated).problems == ()
