"""What a training loop does, told as it happens, as a verdict on each step."""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from tightrope.audit.steps.draws import Draw, HandedBatch, LoaderPass
from tightrope.audit.steps.summary import StepsSummary

MOST_AT_HAND = 1024  # batches between two steps that gradients may be accumulated over


class StepVerdict(Enum):
    """How a step stands against the draws of the loader that is accounted."""

    RECORDS_MATCH = "its gradients were seen to come from the records of fresh draws"
    SIZES_MATCH = "it holds as many gradients as fresh draws have records; which records was not seen"
    UNSEEN = "what its gradients came from could not be seen"
    UNMATCHED = "its gradients did not come from the records of fresh draws"

    def __repr__(self) -> str:
        return self.name


class CheckedStep(NamedTuple):
    """The verdict on one step, the draws it used, and in one clause why it does not match, if it does not.

    A step usually uses one draw; over several the gradients were accumulated.
    """

    verdict: StepVerdict
    draws: tuple[Draw, ...] = ()
    why: str = ""


class StepTally:
    """Steps counted by their verdicts. `epoch` is the number of draws in an epoch, if a pass is not one."""

    def __init__(self, epoch: int | None = None) -> None:
        self.epoch = epoch
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.matches = 0  # steps on the records of one draw, the usual ones
        self._counts = {verdict.name: 0 for verdict in StepVerdict}
        self._epochs: set[tuple[LoaderPass, int]] = set()
        self.latest_pass: LoaderPass | None = None  # where it is one epoch, which was noted
        self._why = ""

    def count(self, step: CheckedStep) -> None:
        """One more step."""
        for draw in step.draws:
            self.note_epoch(draw)
        self._counts[step.verdict.name] += 1
        is_first = step.verdict is StepVerdict.UNMATCHED and self._counts["UNMATCHED"] == 1
        if is_first or not self._why:
            self._why = step.why

    def note_epoch(self, draw: Draw) -> None:
        """A step used this draw."""
        self.latest_pass = None if self.epoch else draw.loader_pass
        self._epochs.add((draw.loader_pass, draw.place // self.epoch if self.epoch else 0))

    def summary(self) -> StepsSummary:
        """All steps counted so far."""
        return StepsSummary(
            records=self.matches + self._counts["RECORDS_MATCH"],
            sizes=self._counts["SIZES_MATCH"],
            unseen=self._counts["UNSEEN"],
            unmatched=self._counts["UNMATCHED"],
            epochs=len(self._epochs),
            why=self._why,
        )


class _Inputs(NamedTuple):
    """One forward pass: the batch it was on, and whether that was seen or is only presumed."""

    batch: HandedBatch | None
    seen: bool
    records: int | None


class _Gradients(NamedTuple):
    """Gradients that the next step will hold, and the forward passes that they came from."""

    inputs: tuple[_Inputs, ...]
    records: int | None


class StepChecks:
    """Told what a training loop does, it says of each step whether its gradients are those of fresh draws.

    Four things are told, in the order they happen: a batch is handed to the loop, the model sees inputs,
    gradients are held for the next step, a step is taken. A batch that is handed over and not stepped on
    gives no right to a step later: inputs that are not seen to be some batch are presumed to be the one that
    was handed over last.

    >>> from tightrope.audit.steps.draws import Draw, LoaderPass
    >>> batch, checks = Draw(LoaderPass(), 3), StepChecks()
    >>> checks.hand_over(batch)
    >>> checks.see_inputs(batch)
    >>> checks.hold_gradients(3)
    >>> checks.take_step()
    CheckedStep(verdict=RECORDS_MATCH, draws=(Draw(number=0, size=3, used),), why='')
    >>> checks.see_inputs(batch)
    >>> checks.hold_gradients(3)
    >>> checks.take_step().why
    'draw 0 of the loader was stepped on before'
    """

    def __init__(self) -> None:
        self.blind = ""  # why nothing of the loader's batches can be seen, where that is so
        self.caveat = ""  # why steps that match as far as they are seen prove nothing, where that is so
        self.fault = ""  # why no step matches from now on: the loader no longer draws as was found
        # handed over since the last step, the latest last
        self.at_hand: deque[HandedBatch] = deque(maxlen=MOST_AT_HAND)
        self.inputs: list[_Inputs] = []  # forward passes of which no gradients are held yet
        self._held: list[_Gradients] = []
        self._judged: CheckedStep | None = None
        self.usual: Draw | None = None  # the draw of a step that is known to match, where it is the usual one
        self.tally = StepTally()

    def hand_over(self, batch: HandedBatch) -> None:
        """The training loop gets this batch."""
        self.at_hand.append(batch)

    def end_pass(self) -> None:
        """The loop asked for more batches than there are: what it has not stepped on was not for training."""
        self.at_hand.clear()

    def see_inputs(self, batch: HandedBatch | None, *, records: int | None = None) -> None:
        """A forward pass that may lead to gradients, on a batch that was handed over.

        None says that it could not be told which; `records` is how many records it was on, where known.
        """
        seen = batch is not None
        if batch is None and self.at_hand:
            batch = self.at_hand[-1]
        self.inputs.append(_Inputs(batch, seen, batch.records if batch is not None and seen else records))

    def forget_inputs(self) -> None:
        """The forward passes since gradients were last held have led to no gradients."""
        self.inputs.clear()

    def hold_gradients(self, *records: int | None) -> None:
        """The forward passes so far have led to gradients, which will go into the next step.

        `records` says of how many records, one number for each batch where batches were accumulated; None or
        nothing where that is not known.
        """
        inputs = tuple(self.inputs) or self._presume(max(len(records), 1))
        total = _add(records) if records else None
        if total is None and len(inputs) == 1:
            total = inputs[0].records
        self._held.append(_Gradients(inputs, total))
        self.inputs.clear()
        self._judged = self.usual = None

    def forget_gradients(self) -> None:
        """The gradients held so far were thrown away."""
        self._held.clear()
        self._judged = self.usual = None

    def fail(self, why: str) -> None:
        """The next step cannot match, whatever gradients are held."""
        self.usual = None
        self._judged = CheckedStep(verdict=StepVerdict.UNMATCHED, why=why)

    def judge(self) -> CheckedStep:
        """The verdict on a step with the gradients held now; nothing changes."""
        if self._judged is None:
            self._judged = self._judge() if self.usual is None else _match(self.usual)
        return self._judged

    def take_step(self) -> CheckedStep:
        """The verdict on the step that is taken now; its draws are used."""
        step = self.judge()
        for draw in step.draws:
            draw.is_used = True
        self.tally.count(step)
        self.at_hand.clear()
        self.inputs.clear()
        self.forget_gradients()
        return step

    # The usual step, on one whole batch that was seen. A training loop comes here with cold caches, and finds
    # out in a fifth of the time what the above would say.

    def match_usual(self, batch: HandedBatch, gradients: int) -> bool:
        """Hold the gradients of one forward pass if that makes a step on one whole fresh draw, and say so."""
        if type(batch) is not Draw or gradients != batch.size or batch.is_used:
            return False
        if self._held or self.inputs or self.blind or self.caveat or self.fault:
            return False
        self._judged = None
        self.usual = batch
        return True

    def take_usual_step(self) -> None:
        """`take_step`, if the usual one was matched."""
        draw = self.usual
        if draw is None:
            self.take_step()
            return
        draw.is_used = True
        tally = self.tally
        if draw.loader_pass is not tally.latest_pass:
            tally.note_epoch(draw)
        tally.matches += 1
        self.at_hand.clear()
        self._judged = self.usual = None

    def summary(self) -> StepsSummary:
        """All steps taken so far."""
        return self.tally.summary()

    def _presume(self, batches: int) -> tuple[_Inputs, ...]:
        """The inputs of gradients whose forward passes were not seen: the batches handed over last."""
        behind: list[HandedBatch | None] = [*self.at_hand]
        behind = behind[-batches:] or [None]
        return tuple(_Inputs(batch, seen=False, records=None) for batch in behind)

    def _judge(self) -> CheckedStep:
        if self.blind:
            return CheckedStep(verdict=StepVerdict.UNSEEN, why=self.blind)
        inputs = [one for held in self._held for one in held.inputs]
        draws = tuple(dict.fromkeys([one.batch.draw for one in inputs if one.batch is not None]))
        gradients = _add([held.records for held in self._held])
        is_seen = False not in [one.seen for one in inputs]
        why = self.fault or _find_fault(inputs, draws, gradients, is_seen)
        if why:
            return CheckedStep(StepVerdict.UNMATCHED, draws, why)
        if self.caveat:
            return CheckedStep(StepVerdict.UNSEEN, draws, self.caveat)
        if is_seen:
            return CheckedStep(StepVerdict.RECORDS_MATCH, draws)
        verdict = StepVerdict.UNSEEN if gradients is None else StepVerdict.SIZES_MATCH
        return CheckedStep(verdict, draws)


def _match(draw: Draw) -> CheckedStep:
    return CheckedStep(StepVerdict.RECORDS_MATCH, (draw,))


def _find_fault(inputs: list[_Inputs], draws: tuple[Draw, ...], gradients: int | None, is_seen: bool) -> str:
    """Why gradients are not those of fresh draws; empty if nothing speaks against it."""
    if not inputs or None in [one.batch for one in inputs]:
        return "no batch of the loader had been handed out for it"
    size = 0
    for draw in draws:
        if draw.is_used:
            return f"draw {draw.number} of the loader was stepped on before"
        size += draw.size
    if gradients is not None and gradients != size:
        return f"it holds {_count(gradients, 'gradient')} where the loader drew {_count(size, 'record')}"
    if is_seen and (missing := size - _count_records(inputs)):
        return f"{_count(missing, 'record')} of the draw never reached the model"
    return ""


def _count_records(inputs: list[_Inputs]) -> int:
    """How many records of their draws the forward passes were on, each counted once."""
    places = [(b.draw.number, b.start, b.records) for one in inputs if (b := one.batch) is not None]
    total, draw, end = 0, -1, 0
    for number, start, records in sorted(places):
        end = end if number == draw else 0
        total += max(0, start + records - max(start, end))
        draw, end = number, max(end, start + records)
    return total


def _add(counts: Sequence[int | None]) -> int | None:
    """The sum, if all are known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
