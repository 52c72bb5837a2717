"""The passes of several samplers in one ledger, of which none hides that another was broken off."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tightrope.audit.steps.checks import CheckedStep
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.passes import PassCount, Restore, SavedPasses, count_begun
from tightrope.integrations.opacus.shared_noise import count_draws
from tightrope.samplers.sampler import Passes
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import Allocated, InPasses

ONE_BATCH = "Draws that share their noise are known for Poisson sampling: take a step on each batch."


class PassCounts:
    """How many batches of each sampler a ledger holds, where a pass that is broken off counts as a whole one.

    A ledger counts steps, and so the begun passes of two samplers would make a whole one together. Of each
    kind of step it holds one begun pass at most, and it is known whose. Before another sampler begins one,
    the rest of it is recorded. Should its own sampler go on, that rest is paid for.
    """

    def __init__(self, *, read: Callable[[], Run], record: Callable[[Step, int], None]) -> None:
        self._read, self._record_in_ledger = read, record
        self._counts: list[PassCount] = []
        self._latest: PassCount | None = None
        self._owners: dict[Step, PassCount] = {}  # whose pass the ledger holds a part of
        self._recorded: Counter[Step] = Counter()
        self._saved: SavedPasses | None = None  # of a checkpoint that is loaded before there is a sampler
        self.unused = 0  # batches recorded here on which no step was taken

    def hook(
        self,
        sampler: Passes,
        sampling: Allocated,
        *,
        numbers: Iterator[int],
        judge: Callable[[], CheckedStep],
    ) -> Callable[[Any], None]:
        """What an optimizer calls before each update; `numbers` are those of the draws of its loader."""
        count = self._find(sampler)
        if count is None:
            count = PassCount(sampler, sampling)
            self._counts.append(count)
            self._go_on_with(count)
        self._latest = count
        self._complete_others(sampler)
        draws = count.add_loader(numbers)

        def take(optimizer: Any) -> None:
            step = judge()
            together = count_draws(optimizer, step)
            if together != 1:
                must = f"be 1 in a step on {sampling!r}"
                raise InvalidSetting("draws", together, must, ONE_BATCH)
            if not count.settle_load():
                self._owners = {kind: owner for kind, owner in self._owners.items() if owner is not count}
            number = draws.number(step.draws[-1:])
            self._take_step(count, count.begin_step(float(optimizer.noise_multiplier), number))

        return take

    def _take_step(self, count: PassCount, step: Step) -> None:
        news = count.news
        if news:
            held = dict(self._read()).get(step, 0)
            if not self._owns(count, step, held):
                self._complete(step, held)
                self._record(step, count.place)  # begun for a ledger that is no longer there
                self._owners[step] = count
            self._record(step, news)
            count.counted += news
        self.unused -= 1

    def _record(self, step: Step, times: int) -> None:
        if times:
            self._record_in_ledger(step, times)
            self._recorded[step] += times
            self.unused += times

    def _complete(self, step: Step, held: int) -> None:
        """Record the rest of the pass that was begun by the last of the steps that the ledger holds."""
        owner, rest = self._owners.get(step), -held % _count_batches(step)
        is_paid = owner is not None and self._owns(owner, step, held)
        self._record(step, rest)
        self._owners.pop(step, None)
        if owner is not None and is_paid:
            owner.counted += rest

    def _owns(self, count: PassCount | None, step: Step, held: int) -> bool:
        """Whether the begun pass among the steps that a ledger holds is the one of this sampler."""
        if count is None or self._owners.get(step) is not count:
            return False
        return held % _count_batches(step) == count.place  # else others were recorded by hand meanwhile

    def _find(self, sampler: Passes) -> PassCount | None:
        return next((count for count in self._counts if count.sampler is sampler), None)

    # before a sampler begins

    def list_rests(self, sampler: Passes) -> Run:
        """What makes whole ones of the passes that others broke off, before this sampler begins its own."""
        count, sampling = self._find(sampler), sampler.sampling
        if not isinstance(sampling, Allocated):
            return Run()
        broken = ((step, held) for step, held in self._read() if step.sampling == sampling)
        return Run(
            tuple(
                (step, -held % sampling.batches) for step, held in broken if not self._owns(count, step, held)
            )
        )

    def _complete_others(self, sampler: Passes) -> None:
        held = dict(self._read())
        for step, _ in self.list_rests(sampler):
            self._complete(step, held[step])

    def count_begun(self, sampler: Passes) -> int:
        """How many batches were drawn before of the pass to come: they count with the others of it."""
        count = self._find(sampler)
        return count_begun(sampler) if count is None else count.news

    # what is known

    @property
    def are_whole(self) -> bool:
        """Whether no pass in the ledger was broken off unseen: all were recorded here."""
        parts = self._read()
        return all(
            self._recorded[step] == held for step, held in parts if isinstance(step.sampling, InPasses)
        )

    def save(self) -> dict[str, Any] | None:
        """What checkpoints hold of the last sampler, whose state they hold, too."""
        count = self._latest
        if count is None:
            return None if self._saved is None else self._saved._asdict()
        step, held = count.step, dict(self._read())
        begun = step is not None and self._owns(count, step, held.get(step, 0))
        return count.save(begun=begun)._asdict()

    def go_on(self, saved: SavedPasses | None, *, are_whole: bool) -> None:
        """Count on from what a checkpoint held, whose ledger is there already."""
        self._owners, self.unused = {}, 0
        self._recorded = Counter(dict(self._read()) if are_whole else {})
        self._saved = saved
        if self._latest is not None:
            self._go_on_with(self._latest)

    def _go_on_with(self, count: PassCount) -> None:
        """The sampler of a checkpoint, or another one, which is found out at its first step."""
        saved, self._saved = self._saved, None
        if saved is not None:
            count.go_on(saved)
            if saved.begun and count.step is not None:
                self._owners[count.step] = count

    def remember(self) -> Restore:
        """What undoes a load that is refused."""
        kept = {**vars(self), "_owners": dict(self._owners), "_recorded": Counter(self._recorded)}
        counts = [count.remember() for count in self._counts]

        def restore() -> None:
            vars(self).update(kept)
            for count in counts:
                count()

        return restore


def _count_batches(step: Step) -> int:
    """How many batches a pass of such steps has."""
    sampling = step.sampling
    return sampling.batches if isinstance(sampling, Allocated) else 1
