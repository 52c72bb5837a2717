"""What a training loop has spent so far: recorded step by step, answered like one run, kept in a file."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.answers.calibrate import most_steps
from tightrope.answers.sealed_json import SealedJson
from tightrope.curve.bracket import Bracket
from tightrope.curve.curve import check_delta, check_epsilon
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.errors import InvalidSetting, NoSuchValue, UnusableFile
from tightrope.files import as_path, write_whole
from tightrope.numerics import check
from tightrope.setting.effort import Effort
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.plain import Plain, plain_run, run_of, spell
from tightrope.setting.relation import RELATION_SPELLINGS, Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.setting.sampling import Sampling
from tightrope.setting.tables import Table, place_refusals

LEDGER_FILE = SealedJson(format="tightrope-ledger", version=2)

_EFFORTS = {effort.value: effort for effort in Effort}
_KEYS = ("relation", "accuracy", "effort", "parts", "last")


class Ledger:
    """Records what is released and says at any time what it cost, to the last bit as `tr.epsilon` does.

    Recording takes microseconds however many steps there are. Answers are kept until the next step is
    recorded. A ledger records even steps that no theorem covers; only the question is refused then, so ask
    once before training.

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

    def __init__(self, *, relation: Relation | str, by: Certified = BY_DEFAULT) -> None:
        self._relation, self._by = as_relation(relation), check_certified(by)
        self._times: dict[Step, int] = {}
        self._last: Step | None = None
        self._answers: dict[tuple[str, float], Bracket] = {}

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
        self.record(Step(mechanism(noise_multiplier=noise_multiplier), sampling) * count)

    def record(self, run: Run | Step) -> None:
        """Record any step or run; a refused one leaves the ledger as it was.

        >>> import tightrope as tr
        >>> ledger = Ledger(relation=tr.ADD)
        >>> ledger.record(tr.Step(tr.RandomizedResponse(truth_probability=0.75), tr.EveryRecord()))
        >>> print(ledger.epsilon(1e-6))
        [1.098..., 1.098...]
        """
        # a Run refuses more steps than it can count
        grown = Run(tuple((step, times + self._times.get(step, 0)) for step, times in as_run(run)))
        if grown:
            self._times.update(grown.parts)
            self._last = grown.parts[-1][0]
            self._answers.clear()

    def count(self, step: Step, times: int) -> None:
        """Record a step that was checked when it was made, for a training loop that takes it again and again.

        `record` checks a run as a whole. With cold caches, as after a training step, that takes 30
        microseconds.
        """
        self._times[step] = self._times.get(step, 0) + times
        self._last = step
        self._answers.clear()

    @property
    def run(self) -> Run:
        """Everything recorded, in the order first met."""
        return Run(tuple(self._times.items()))

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

    def curve(self) -> PrivacyCurve:
        """The privacy curve of everything recorded so far."""
        return self._by.curve(self.run, self._relation)

    def epsilon(self, delta: float) -> Bracket:
        """The smallest epsilon >= 0 for which everything recorded is (epsilon, delta)-private."""
        return self._answer("epsilon", check_delta(delta), lambda curve, at: curve.epsilon(at))

    def delta(self, epsilon: float) -> Bracket:
        """The smallest delta for which everything recorded is (epsilon, delta)-private."""
        return self._answer("delta", check_epsilon(epsilon), lambda curve, at: curve.delta(at))

    def _answer(self, of: str, at: float, ask: Callable[[PrivacyCurve, float], Bracket]) -> Bracket:
        # Each question gets a new curve: a curve refines itself when asked, so that its last digits depend on
        # what it was asked before.
        if (of, at) not in self._answers:
            self._answers[of, at] = ask(self.curve(), at)
        return self._answers[of, at]

    def remaining(self, epsilon: float, delta: float, step: Step | None = None) -> int:
        """How many more times `step` fits into the budget; by default the step recorded last."""
        step = self._last if step is None else step
        if step is None:
            must = "be given while nothing is recorded"
            raise InvalidSetting("step", step, must, "Pass the Step you plan to take.")
        try:
            found = most_steps(
                step, epsilon=epsilon, delta=delta, relation=self._relation, besides=self.run, by=self._by
            )
            return found.value
        except NoSuchValue as refusal:
            if refusal.limit == math.inf:
                raise
            return 0

    def save(self, path: str | Path) -> None:
        """Write a small JSON file. Whatever goes wrong, the old file or the new one is there, whole."""
        write_whole(as_path(path), LEDGER_FILE.seal(self._content()), what="the ledger")

    @staticmethod
    def load(path: str | Path) -> "Ledger":
        """The ledger saved there. A file that is damaged, or has a key nobody knows, is refused."""
        table = _read(as_path(path))
        table.keep_to(_KEYS)
        relation, effort = table.choice("relation", RELATION_SPELLINGS), table.choice("effort", _EFFORTS)
        accuracy: Any = table.need("accuracy", "It is the relative width in delta, for example 0.001.")
        with place_refusals(table.where):
            ledger = Ledger(relation=relation, by=Certified(accuracy=accuracy, effort=effort))
        ledger.record(run_of(table, "parts"))
        ledger._last = _find_last(table, list(ledger._times))
        if ledger._content() != table.entries:
            problem = "must list each step once, with steps of at least 1"
            raise UnusableFile(f"{path}: parts", problem, "Merge equal parts.")
        return ledger

    def _content(self) -> Plain:
        return {
            "relation": spell(self._relation),
            "accuracy": self._by.accuracy,
            "effort": self._by.effort.value,
            "parts": plain_run(self.run),
            "last": None if self._last is None else list(self._times).index(self._last),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        return self._state() == other._state()

    def _state(self) -> tuple[object, ...]:
        return self._relation, self._by, self._times, self._last

    def __repr__(self) -> str:
        return f"<Ledger: {self.run!r} under {self._relation.name}>"

    def __str__(self) -> str:
        parts = [f"\n  {times} x {step!r}" for step, times in self._times.items()]
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        return f"Ledger under {self._relation.name}: {steps}{''.join(parts)}"


def _read(path: Path) -> Table:
    """The content of a ledger's file. Version 1 named a standing of theorems instead of an effort."""
    table, version = LEDGER_FILE.unseal(path)
    if version > 1:
        return table
    table.choice("trusting", {"proved": None})
    kept = {key: value for key, value in table.entries.items() if key != "trusting"}
    return Table({**kept, "effort": "quick"}, table.where)


def _find_last(table: Table, steps: list[Step]) -> Step | None:
    """The step recorded last, or None if nothing is recorded."""
    remedy = "It is the place in parts, from 0, of the step recorded last; null without parts."
    index = table.need("last", remedy)
    if not steps and index is None:
        return None
    if type(index) is not int or not 0 <= index < len(steps):
        raise table.refusal("last", f"a whole number below {len(steps)}" if steps else "null", remedy)
    return steps[index]
