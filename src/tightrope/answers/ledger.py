"""What a training loop has spent so far: recorded step by step, answered like one run, kept in a file."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.answers.ahead import AnswersAhead
from tightrope.answers.ledger_file import (
    SavedLedger,
    collect_later,
    make_id,
    refuse_deleted,
    refuse_unknown,
    subtract,
)
from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import check_delta, check_epsilon
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting, NoSuchValue, NoTheorem, UnusableFile
from tightrope.files import as_path, write_alone
from tightrope.numerics import check, html
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import (
    CHOSEN_ON_THE_WAY,
    FIXED_IN_ADVANCE,
    MOST_STEPS,
    PLANNED,
    UNBROKEN,
    Run,
    Step,
    as_run,
    check_schedule,
    may_hide_broken_passes,
)
from tightrope.setting.sampling import Sampling
from tightrope.theorems.groups import refuse_turns
from tightrope.theorems.lookup import repeats_one_step

MOST_SHOWN = 20  # kinds of steps in a notebook


class Ledger:
    """Records what is released and says at any time what it cost, to the last bit as `tr.epsilon` does.

    Recording takes microseconds however many steps there are. Answers are kept until the next step is
    recorded. A ledger records even steps that no theorem covers; only the question is refused then, so ask
    once before training. Answers hold only if later steps were not chosen after looking at the outputs of
    earlier ones. Say so: `schedule="fixed in advance"` goes into the file and into statements. Where it is
    not said, `conditions` names it for more than one kind of step, and every answer prints it. A ledger of
    steps "chosen on the way" records them and refuses to answer: `Filter` bounds them. Steps on
    batches of passes, as of `BallsInBins`, go on with the pass that was begun: before a new sampler begins
    another, record the rest of it. A ledger belongs to one thread: two that record at once may lose steps.

    >>> import tightrope as tr
    >>> ledger = Ledger(relation=tr.ADD_OR_REMOVE)
    >>> for batch in range(300):  # train on the batch, then
    ...     ledger.step(noise_multiplier=0.8, sampling=tr.Poisson(rate=1e-3))
    ...     if batch % 100 == 0 and ledger.epsilon(1e-6).upper > 1:
    ...         break
    >>> print(ledger)
    Ledger under ADD_OR_REMOVE: 300 steps
      300 x Step(Gaussian(noise_multiplier=0.8), Poisson(rate=0.001))
    >>> ledger.remaining(epsilon=1, delta=1e-6)
    11097
    """

    def __init__(
        self, *, relation: Relation | str, by: Certified = BY_DEFAULT, schedule: str | None = None
    ) -> None:
        self._relation, self._by = as_relation(relation), check_certified(by)
        self._schedule = check_schedule(schedule)
        self._times: dict[Step, int] = {}
        self._last: Step | None = None
        self._made: tuple[tuple[object, ...], Step] | None = None  # by `step`, from what it was given
        self._run: Run | None = None  # everything recorded, until more is
        self._answers: dict[tuple[str, float], Bracket] = {}
        self._ahead = AnswersAhead()
        self._id = make_id()
        self._saved: dict[Path, SavedLedger] = {}  # what each file held when it was loaded or saved
        self._kept_at: Path | None = None  # where every step is saved at once

    def step(
        self,
        *,
        noise_multiplier: float,
        sampling: Sampling,
        mechanism: type[Gaussian] | type[Laplace] = Gaussian,
        times: int = 1,
    ) -> None:
        """Record `times` steps of additive noise, each on a freshly drawn batch."""
        if mechanism not in (Gaussian, Laplace):
            remedy = "Only these have a noise multiplier: for others use record(Step(mechanism, sampling))."
            raise InvalidSetting("mechanism", mechanism, "be {Gaussian} or {Laplace}", remedy)
        count = check.whole(remedy="It is how often the step was taken, 0 or more.", times=times)
        given = mechanism, noise_multiplier, sampling
        # a training loop takes the same step again, and passes the same objects
        if self._made is None or any(old is not new for old, new in zip(self._made[0], given, strict=True)):
            self._made = given, Step(mechanism(noise_multiplier=noise_multiplier), sampling)
        self.count(self._made[1], count)

    def record(self, run: Run | Step) -> None:
        """Record any step or run; a refused one leaves the ledger as it was.

        What an opened ledger could not save is recorded all the same, and saved with the next step.

        >>> import tightrope as tr
        >>> ledger = Ledger(relation=tr.ADD)
        >>> ledger.record(tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()))
        >>> print(ledger.epsilon(1e-6))
        [1.098..., 1.098...]
        """
        recorded = as_run(run)
        refuse_turns(recorded, self._relation)  # which the steps alone no longer show
        # a Run refuses more steps than it can count
        grown = Run(tuple((step, times + self._times.get(step, 0)) for step, times in recorded))
        if grown:
            self._forget()
            self._times.update(grown.parts)
            self._last = grown.parts[-1][0]
            self._keep()

    def count(self, step: Step, times: int) -> None:
        """Record a step that was checked when it was made, for a training loop that takes it again and again.

        `record` checks a run as a whole. With cold caches, as after a training step, that takes 30
        microseconds. What is unusual goes there.
        """
        known = self._times.get(step, 0) if isinstance(step, Step) else 0
        if not (known and type(times) is int and 0 < times <= MOST_STEPS - known):
            self.record(as_run(step) * times)
            return
        self._forget()
        self._times[step] = known + times
        self._last = step
        self._keep()

    def _forget(self) -> None:
        """What was true of fewer steps: before there are more, because an interrupt may come in between."""
        self._run = None
        self._answers.clear()

    def _keep(self) -> None:
        if self._kept_at is not None:
            self.save(self._kept_at)

    @property
    def run(self) -> Run:
        """Everything recorded, in the order first met."""
        if self._run is None:
            self._run = Run.of_checked(part for part in self._times.items() if part[1])
        return self._run

    @property
    def steps(self) -> int:
        """The number of steps recorded."""
        return sum(self._times.values())

    @property
    def relation(self) -> Relation:
        """Who counts as a neighbour."""
        return self._relation

    @property
    def by(self) -> Certified:
        """Who answers."""
        return self._by

    @property
    def schedule(self) -> str | None:
        """How the steps came to be chosen, as stated: "fixed in advance", "chosen on the way", or None."""
        return self._schedule

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must be true for the answers to hold, and is not in the ledger."""
        broken = may_hide_broken_passes(self.run)
        unsaid = self._schedule != FIXED_IN_ADVANCE and len(self._times) > 1
        return (*((PLANNED,) if unsaid else ()), *((UNBROKEN,) if broken else ()))

    def curve(self, progress: Progress | None = None) -> PrivacyCurve:
        """The privacy curve of everything recorded so far; `progress` is called during long work."""
        self._refuse_choices()
        curve, conditions = self._by.curve(self.run, self._relation, progress), self.conditions
        return replace(curve, conditions=conditions) if conditions else curve

    def epsilon(self, delta: float, progress: Progress | None = None) -> Bracket:
        """The smallest epsilon >= 0 for which everything recorded is (epsilon, delta)-private."""
        return self._answer("epsilon", check_delta(delta), lambda at: self._ask_ahead(at, progress))

    def delta(self, epsilon: float, progress: Progress | None = None) -> Bracket:
        """The smallest delta for which everything recorded is (epsilon, delta)-private."""
        return self._answer("delta", check_epsilon(epsilon), lambda at: self.curve(progress).delta(at))

    def _answer(self, of: str, at: float, ask: Callable[[float], Bracket]) -> Bracket:
        # Each question gets a new curve: a curve refines itself when asked, so that its last digits depend on
        # what it was asked before.
        if (of, at) in self._answers:
            return self._answers[of, at]
        found = ask(at)
        if not found.interrupted:
            self._answers[of, at] = found
        return found

    def _ask_ahead(self, delta: float, progress: Progress | None) -> Bracket:
        """Epsilon, and that of the next rounds of a loop that asks after every step."""
        if len(self._times) != 1:
            return self.curve(progress).epsilon(delta)
        ((step, times),) = self._times.items()
        found = self._ahead.look_up(step, times, delta)
        if found is None:
            curve = self.curve(progress)
            found = curve.epsilon(delta)
            if repeats_one_step(self.run, self._relation):
                self._ahead.prepare(curve)
        return found

    def remaining(self, epsilon: float, delta: float, step: Step | None = None) -> int:
        """How many more times `step` fits into the budget; by default the step recorded last."""
        self._refuse_choices()
        step = self._last if step is None else step
        if step is None:
            must = "be given while nothing is recorded"
            raise InvalidSetting("step", step, must, "Pass the Step you plan to take.")
        from tightrope.answers.calibrate import most_steps  # a ledger that is only written needs no search

        try:
            found = most_steps(
                step, epsilon=epsilon, delta=delta, relation=self._relation, besides=self.run, by=self._by
            )
            return found.value
        except NoSuchValue as refusal:
            if refusal.limit == math.inf:
                raise
            return 0

    def _refuse_choices(self) -> None:
        if self._schedule == CHOSEN_ON_THE_WAY:
            raise NoTheorem(
                "Composing recorded steps that were chosen on the way bounds nothing",
                "Declare what may be chosen, and how much of it, before the first output: "
                "Filter(menu=[...], epsilon=..., delta=..., relation=...).",
            )

    @collect_later()
    def save(self, path: str | Path) -> None:
        """Bring the file up to date, and this ledger with it: whatever either recorded, both hold afterwards.

        A new file is made whole. To a file that was loaded or saved before, what this ledger recorded since
        is added, and what others saved there meanwhile is added to this ledger, so that no step is lost or
        counted twice. Any other file is refused, as are files that are damaged, gone or cut back. Whatever
        goes wrong, the old file or the new one is there, whole; when this returns, the new one is on disk.
        """
        given = as_path(path)
        with write_alone(given, what="the ledger") as draft:
            merged, news = self._merge(draft.target, given)
            try:
                draft.put_in_place(merged.seal())
            finally:
                if draft.is_in_place:  # an interrupt may come right after; saving again must not add twice
                    self._adopt(draft.target, merged, news)

    def _merge(self, target: Path, given: Path) -> tuple[SavedLedger, Run]:
        """What the file is to hold, and what of it others recorded."""
        known = self._saved.get(target)
        if not target.exists():
            if known is not None:
                raise refuse_deleted(given)
            return self._content(), Run()
        found = SavedLedger.read(given)
        if known is None:
            raise refuse_unknown(given)
        found.check_descent(known, given)
        before = dict(known.run)
        return found.add(subtract(self._times, before), self._last), subtract(dict(found.run), before)

    def _adopt(self, target: Path, merged: SavedLedger, news: Run) -> None:
        if news:
            self._forget()
        for step, times in news:
            self._times[step] = self._times.get(step, 0) + times
        self._saved[target], self._id, self._last = merged, merged.id, merged.last

    @staticmethod
    @collect_later()
    def load(path: str | Path) -> "Ledger":
        """The ledger saved there. A file that is damaged, or has a key nobody knows, is refused."""
        given = as_path(path)
        found = SavedLedger.read(given)
        ledger = Ledger(relation=found.relation, by=found.by, schedule=found.schedule)
        ledger._times = dict(found.run)
        ledger._adopt(given.resolve(), found, Run())
        return ledger

    @staticmethod
    def open(
        path: str | Path, *, relation: Relation | str, by: Certified = BY_DEFAULT, schedule: str | None = None
    ) -> "Ledger":
        """The ledger kept there, or a new one; every step is on disk when recording it returns.

        Record a step before its output is seen: a crash in between then counts one step too many, and never
        one too few. Several processes may keep one ledger; each sees the others' steps when it records.

        >>> import tempfile, tightrope as tr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept = Ledger.open(f"{folder}/ledger.json", relation=tr.ADD_OR_REMOVE)
        ...     kept.step(noise_multiplier=0.8, sampling=tr.Poisson(rate=1e-3))
        ...     Ledger.load(f"{folder}/ledger.json").steps
        1
        """
        given, made = as_path(path), Ledger(relation=relation, by=by, schedule=schedule)
        if not given.exists():
            try:
                made.save(given)
            except UnusableFile:
                if not given.exists():  # else another process made it first
                    raise
        ledger = Ledger.load(given)
        if (ledger.relation, ledger.by) != (made.relation, made.by):
            kept = f"is kept under {ledger.relation.name} by {ledger.by!r}"
            raise UnusableFile(given, kept, "Open it with these, or choose another place.")
        if ledger.schedule != made.schedule:
            kept = f"is kept with the schedule {ledger.schedule or 'not stated'}"
            raise UnusableFile(given, kept, "Open it with this one, or choose another place.")
        ledger._kept_at = given.resolve()  # also after the process moved to another folder
        return ledger

    def _content(self) -> SavedLedger:
        return SavedLedger(
            id=self._id,
            relation=self._relation,
            by=self._by,
            schedule=self._schedule,
            run=self.run,
            last=self._last,
        )

    def __copy__(self) -> "Ledger":
        return deepcopy(self)  # two ledgers must not share what they recorded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        return self._state() == other._state()

    def _state(self) -> tuple[object, ...]:
        return self._relation, self._by, self._schedule, self._times, self._last

    def __repr__(self) -> str:
        return f"<Ledger: {self.run!r} under {self._relation.name}>"

    def __str__(self) -> str:
        parts = [f"\n  {times} x {step!r}" for step, times in self._times.items()]
        provided = [f"\n  Answers hold if {condition}." for condition in self.conditions]
        return f"{self._heading}{''.join(parts + provided)}"

    def _repr_html_(self) -> str:
        steps = [[f"{times:,}", repr(step)] for step, times in islice(self._times.items(), MOST_SHOWN)]
        if (more := len(self._times) - MOST_SHOWN) > 0:
            steps.append(["", f"and {more:,} more kinds of steps"])
        provided = [html.write_text(f"Answers hold if {condition}.") for condition in self.conditions]
        table = html.write_table([["times", "step"], *steps]) if steps else ""
        who = html.fold(
            "why", [f"{self._relation.name}: {self._relation.meaning}", f"answers by {self._by!r}"]
        )
        return html.join(html.write_text(self._heading, strong=self._heading), table, *provided, who)

    @property
    def _heading(self) -> str:
        said = f", {self._schedule}" if self._schedule else ""
        return f"Ledger under {self._relation.name}: {self.steps} step{'s' * (self.steps != 1)}{said}"
