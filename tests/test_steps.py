"""The neutral checks of steps: what a loop is told to have done, and the verdict on each step."""

import itertools

import pytest

import tightrope as tr
from tightrope.audit import Finding, How, Scheme
from tightrope.audit.steps.checks import CheckedStep, StepChecks, StepTally, StepVerdict
from tightrope.audit.steps.draws import Draw, HandedBatch, LoaderPass
from tightrope.audit.steps.summary import StepsSummary, apply_steps

RECORDS, SIZES = StepVerdict.RECORDS_MATCH, StepVerdict.SIZES_MATCH
UNSEEN, UNMATCHED = StepVerdict.UNSEEN, StepVerdict.UNMATCHED


class Loop:
    """A training loop that tells what it does."""

    def __init__(self) -> None:
        self.checks, self.loader_pass = StepChecks(), LoaderPass()

    def draw(self, size: int) -> HandedBatch:
        return Draw(self.loader_pass, size)

    def get(self, size: int) -> HandedBatch:
        batch = self.draw(size)
        self.checks.hand_over(batch)
        return batch

    def compute(self, batch: HandedBatch | None, *gradients: int | None) -> None:
        self.checks.see_inputs(batch)
        self.checks.hold_gradients(*gradients)

    def step(self) -> CheckedStep:
        return self.checks.take_step()


def test_a_step_on_the_batch_at_hand_matches() -> None:
    loop = Loop()
    for size in (3, 0, 5):
        batch = loop.get(size)
        loop.compute(batch, size)
        step = loop.step()
        assert (step.verdict, step.draws) == (RECORDS, (batch.draw,))
    assert loop.checks.summary() == StepsSummary(records=3, epochs=1)
    assert loop.checks.summary().is_proof


def test_a_step_without_a_batch_is_unmatched() -> None:
    loop = Loop()
    loop.compute(None, 3)
    step = loop.step()
    assert step.verdict is UNMATCHED
    assert step.why == "no batch of the loader had been handed out for it"
    assert loop.step().verdict is UNMATCHED, "not even gradients"


def test_a_batch_is_stepped_on_once() -> None:
    loop = Loop()
    batch = loop.get(3)
    loop.compute(batch, 3)
    loop.step()
    loop.compute(batch, 3)
    step = loop.step()
    assert (step.verdict, step.why) == (UNMATCHED, "draw 0 of the loader was stepped on before")
    loop.compute(None, 3)
    assert loop.step().verdict is UNMATCHED


@pytest.mark.parametrize("gradients", [0, 2, 4, 6])
def test_gradients_are_as_many_as_the_records_drawn(gradients: int) -> None:
    loop = Loop()
    loop.compute(loop.get(3), gradients)
    step = loop.step()
    assert step.verdict is UNMATCHED
    assert step.why.startswith(f"it holds {gradients} gradients where the loader drew 3 records")


def test_inputs_that_cannot_be_told_are_presumed_to_be_the_last_batch() -> None:
    loop = Loop()
    loop.get(3)
    loop.compute(None, 3)
    assert loop.step().verdict is SIZES
    loop.get(4)
    loop.checks.hold_gradients(4)  # no forward pass was seen
    assert loop.step().verdict is SIZES
    loop.get(4)
    loop.compute(None, None)
    assert loop.step().verdict is UNSEEN
    assert loop.checks.summary() == StepsSummary(sizes=2, unseen=1, epochs=1)
    assert not loop.checks.summary().is_proof


def test_batches_of_a_validation_pass_give_no_right_to_later_steps() -> None:
    loop = Loop()
    for size in (3, 3, 3):
        loop.get(size)
    loop.checks.end_pass()
    loop.compute(None, 3)
    assert loop.step().verdict is UNMATCHED
    for size in (3, 3, 4):  # broken off: the last one alone may be for training
        loop.get(size)
    loop.compute(None, 3)
    assert loop.step().verdict is UNMATCHED


def test_a_batch_that_was_read_ahead_is_known_by_its_inputs() -> None:
    loop = Loop()
    ahead = [loop.get(3), loop.get(4), loop.get(5)]
    loop.checks.end_pass()
    for batch in ahead:
        loop.compute(batch, batch.records)
        assert loop.step().verdict is RECORDS


def test_parts_of_a_draw_make_a_step_together() -> None:
    loop = Loop()
    whole = loop.draw(5)
    for start, records in ((0, 2), (2, 2), (4, 1)):
        part = whole.cut(start, records)
        loop.checks.hand_over(part)
        loop.compute(part, records)
    step = loop.step()
    assert (step.verdict, step.draws) == (RECORDS, (whole.draw,))


def test_a_part_alone_or_twice_does_not_match() -> None:
    loop = Loop()
    for starts in ((0,), (0, 0), (0, 2, 2)):
        whole = loop.draw(4)
        for start in starts:
            part = whole.cut(start, 2)
            loop.checks.hand_over(part)
            loop.compute(part, 2)
        assert loop.step().verdict is UNMATCHED


def test_as_many_gradients_from_one_half_taken_twice_are_noticed() -> None:
    loop = Loop()
    whole = loop.get(4)
    loop.checks.see_inputs(whole.cut(0, 2))
    loop.checks.see_inputs(whole.cut(1, 2))
    loop.checks.hold_gradients(4)
    assert loop.step().why == "1 record of the draw never reached the model"


def test_draws_are_accumulated_and_counted() -> None:
    loop = Loop()
    batches = [loop.get(3), loop.get(4)]
    for batch in batches:
        loop.checks.see_inputs(batch)
    loop.checks.hold_gradients(3, 4)
    step = loop.step()
    assert (step.verdict, step.draws) == (RECORDS, tuple(batch.draw for batch in batches))
    loop.get(3)
    loop.get(4)
    loop.checks.hold_gradients(3, 4)
    assert len(loop.step().draws) == 2


def test_gradients_that_were_thrown_away_do_not_count() -> None:
    loop = Loop()
    loop.compute(loop.get(3), 3)
    loop.checks.forget_gradients()
    loop.checks.see_inputs(loop.get(7))
    loop.checks.forget_inputs()
    loop.compute(loop.get(4), 4)
    assert loop.step().verdict is RECORDS


def test_one_input_of_two_that_is_not_seen_leaves_sizes_only() -> None:
    loop = Loop()
    batch = loop.get(3)
    loop.checks.see_inputs(batch)
    loop.checks.see_inputs(None)
    loop.checks.hold_gradients(3)
    assert loop.step().verdict is SIZES


def test_without_a_count_of_gradients_that_of_the_inputs_is_taken() -> None:
    loop = Loop()
    for records, verdict in ((3, SIZES), (2, UNMATCHED)):
        loop.get(3)
        loop.checks.see_inputs(None, records=records)
        loop.checks.hold_gradients()
        assert loop.step().verdict is verdict


def test_the_quick_way_of_a_usual_step_says_the_same() -> None:
    """Over every way in which a step is not the usual one."""
    for gradients, before, is_used, blind, caveat in itertools.product(
        (2, 3, 4), ("", "inputs", "gradients", "part"), (False, True), ("", "dark"), ("", "alone")
    ):
        steps = []
        for quickly in (False, True):
            loop = Loop()
            loop.checks.blind, loop.checks.caveat = blind, caveat
            first, batch = loop.get(3), loop.get(3)
            batch.draw.is_used = is_used
            if before == "inputs":
                loop.checks.see_inputs(first)
            elif before == "gradients":
                loop.compute(first, 3)
            elif before == "part":
                batch = batch.cut(1, 2)
            if quickly:
                if not loop.checks.match_usual(batch, gradients):
                    loop.compute(batch, gradients)
            else:
                loop.compute(batch, gradients)
            step = loop.checks.judge()
            loop.checks.take_usual_step()
            assert (loop.checks.usual, loop.checks.judge().draws) == (None, ())
            assert all(draw.is_used for draw in step.draws)
            numbers = [draw.number for draw in step.draws]
            steps.append((step.verdict, numbers, step.why, loop.checks.summary()))
        assert steps[0] == steps[1]


def test_to_judge_changes_nothing() -> None:
    loop = Loop()
    loop.compute(loop.get(3), 3)
    assert loop.checks.judge().verdict is loop.checks.judge().verdict is RECORDS
    assert loop.checks.summary().steps == 0
    assert loop.step().verdict is RECORDS


def test_who_is_blind_says_why() -> None:
    loop = Loop()
    loop.checks.blind = "batches come in another order"
    loop.compute(loop.get(3), 3)
    step = loop.step()
    assert (step.verdict, step.why) == (UNSEEN, "batches come in another order")
    assert loop.checks.summary().sentence == (
        "What 1 of 1 steps were taken on was not seen: batches come in another order."
    )


def test_a_caveat_takes_the_proof_but_not_the_faults() -> None:
    loop = Loop()
    loop.checks.caveat = "the other rank was not seen"
    batch = loop.get(3)
    loop.compute(batch, 3)
    step = loop.step()
    assert (step.verdict, step.draws, step.why) == (UNSEEN, (batch.draw,), "the other rank was not seen")
    loop.compute(batch, 3)
    assert loop.step().verdict is UNMATCHED


def test_passes_are_counted_where_steps_were_taken() -> None:
    loop = Loop()
    for _ in range(3):
        loop.loader_pass = LoaderPass(loop.loader_pass.numbers)
        loop.compute(loop.get(2), 2)
        loop.step()
        loop.get(2)
    loop.loader_pass = LoaderPass(loop.loader_pass.numbers)
    loop.get(2)
    assert loop.checks.summary().epochs == 3


def test_a_pass_of_several_epochs_is_counted_as_such() -> None:
    loop, tally = Loop(), StepTally(epoch=2)
    for place in range(7):
        batch = loop.get(2)
        if place != 3:
            loop.compute(batch, 2)
            tally.count(loop.step())
    assert tally.summary().epochs == 4


# --- summaries


def test_summaries_add_up_and_keep_the_first_reason() -> None:
    good, bad = StepsSummary(records=3, epochs=1), StepsSummary(unmatched=2, why="first")
    assert good + bad == StepsSummary(records=3, unmatched=2, epochs=1, why="first")
    assert (bad + StepsSummary(unmatched=1, why="second")).why == "first"
    assert (StepsSummary(unseen=1, why="dark") + bad).why == "first"
    assert StepsSummary.from_plain((good + bad).plain()) == good + bad
    for damaged in ({"records": -1}, {"record": 1}, {"records": "many"}):
        with pytest.raises((TypeError, ValueError)):
            StepsSummary.from_plain(damaged)


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (StepsSummary(), "No step was taken."),
        (StepsSummary(records=2), "Each of the 2 steps was seen to use the records of one fresh batch"),
        (StepsSummary(records=1), "The only step was seen to use the records of one fresh batch"),
        (StepsSummary(records=2, unused=1), "3 batches are accounted, of which 1 was drawn and not used, or"),
        (StepsSummary(unused=3), "No step was taken. 3 batches are accounted, of which 3 were drawn and not"),
        (StepsSummary(records=2, sizes=1), "In 1 of 3 steps the numbers of gradients and of records"),
        (StepsSummary(sizes=1, unseen=4), "What 4 of 5 steps were taken on was not seen."),
        (StepsSummary(records=1, unmatched=1, why="x"), "1 of 2 steps was not taken on one fresh batch"),
        (StepsSummary(unmatched=2, why="it was used"), "the loader. Of the first is known: it was used."),
    ],
)
def test_a_summary_says_what_was_seen(summary: StepsSummary, said: str) -> None:
    assert said in summary.sentence


def test_only_steps_that_were_all_seen_leave_a_finding_standing() -> None:
    drawn = Finding(
        scheme=Scheme.POISSON,
        how=How.INSPECTED,
        sentence="Poisson.",
        sampling=tr.Poisson(rate=0.1),
        records=9,
    )
    matched = apply_steps(drawn, StepsSummary(records=4))
    assert (matched.sampling, matched.how) == (drawn.sampling, How.INSPECTED)
    assert "Each of the 4 steps" in matched.notes[-1]
    for summary in (StepsSummary(), StepsSummary(records=9, sizes=1), StepsSummary(records=9, unmatched=1)):
        found = apply_steps(drawn, summary)
        assert (found.scheme, found.how, found.sampling) == (Scheme.UNKNOWN, How.DECLARED, None)
        assert found.sentence == f"Poisson. {summary.sentence}"
