"""A run beside the batches that it really drew: how many epochs it holds, and its noise."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tightrope.audit.finding import Finding, How
from tightrope.curve.bracket import Bracket
from tightrope.errors import NoTheorem
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run

if TYPE_CHECKING:
    from tightrope.accountants.certified import Certified


@dataclass(frozen=True, kw_only=True)
class DrawnClaim:
    """One run, the batches it really drew, and what is asked about them.

    `epochs` says in how many epochs steps were taken, where that was counted. A run that is `planned` takes
    all steps of every epoch before the next, so that only the last may be broken off.
    """

    run: Run
    finding: Finding
    delta: float
    relation: Relation
    by: "Certified"
    epochs: int | None
    planned: bool = False

    @property
    def copies(self) -> int:
        """How often the differing record is in the dataset."""
        return self.finding.copies or 1

    @property
    def visits(self) -> int:
        """The most steps of the run that one record can come in.

        Unless epochs were counted, a run is taken to begin with a pass over its loader and to break off none.
        Batches that were watched may begin anywhere in an epoch.
        """
        epoch, steps = self._epoch, self.run.steps
        if self.epochs is not None:
            return self.epochs * self.finding.times
        begun = -(-steps // epoch) if self.finding.how is How.INSPECTED else 1 + -(-(steps - 1) // epoch)
        return begun * self.finding.times

    @property
    def whole_epochs(self) -> int:
        """How many whole epochs the run surely holds, each in a new order; 1 where orders may repeat."""
        epoch, steps = self._epoch, self.run.steps
        if self._is_in_order:
            whole = steps // epoch
        elif self.epochs is not None:
            missing = self.epochs * epoch - steps  # each missing step cuts at most one epoch
            whole = max(self.epochs - max(missing, 0), 0)
        else:
            whole = max(steps - epoch + 1, 0) // epoch
        return whole if self.finding.reshuffles else min(whole, 1)

    @property
    def steps_begun(self) -> int:
        """The steps of all epochs of which the run may hold a part; of one that was only begun, its own."""
        return self.run.steps if self._is_in_order else self.visits * self._epoch

    @property
    def steps_held(self) -> int:
        """The steps of epochs that the run surely holds from their first batch on, each in a new order."""
        return self.whole_epochs * self._epoch + self.rest

    @property
    def rest(self) -> int:
        """How many batches it surely holds of one more epoch, from the first on and in a new order."""
        epoch, steps = self._epoch, self.run.steps
        if steps < epoch:
            begins = self._is_in_order or (self.finding.how is How.INSPECTED and not self.is_cut)
            return steps if begins else 0
        return steps % epoch if self._is_in_order and self.finding.reshuffles else 0

    @property
    def _is_in_order(self) -> bool:
        """Whether it begins with an epoch and breaks off the last alone, as far as is known or provided."""
        return self.planned or (self.finding.how is How.INSPECTED and self.epochs is None)

    @property
    def _epoch(self) -> int:
        if self.finding.epoch is None:
            raise NoTheorem("how many batches make an epoch is not known")
        return self.finding.epoch

    @property
    def is_cut(self) -> bool:
        """Whether steps were taken in more epochs than they would fill."""
        return self.epochs is not None and self.epochs > -(-self.run.steps // self._epoch)

    @property
    def largest_noise(self) -> Fraction:
        """0 where there is no noise, or not only Gaussian noise: then nothing is known from below."""
        return max(self.noises, default=Fraction(0))

    @property
    def noises(self) -> list[Fraction]:
        """The noise of every kind of step; none where it is not Gaussian."""
        mechanisms = [step.mechanism for step, _ in self.run]
        noises = [each.exact_noise_multiplier for each in mechanisms if isinstance(each, Gaussian)]
        return noises if len(noises) == len(mechanisms) else []

    def bound(self, run: Run) -> Bracket:
        """epsilon of a run that bounds this one."""
        return self.by.curve(run, self.relation).epsilon(self.delta)
