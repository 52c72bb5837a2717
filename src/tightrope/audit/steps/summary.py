"""All steps of a training, counted by what was seen of them, and the finding that this leaves standing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.setting.sampling import Allocated


@dataclass(frozen=True, kw_only=True)
class StepsSummary:
    """How many steps were taken on one fresh draw each, by what was seen of it.

    * `records`: the records that the gradients came from were seen to be those of the draw;
    * `sizes`: only their number was seen;
    * `unseen`: neither was;
    * `unmatched`: they were not those of a fresh draw, the first of them for the reason `why`;
    * `epochs`: in how many epochs of the loader steps were taken; a pass that was broken off is one, too;
    * `unused`: how many batches were accounted besides, on which no step was taken.
    """

    records: int = 0
    sizes: int = 0
    unseen: int = 0
    unmatched: int = 0
    epochs: int = 0
    unused: int = 0
    why: str = ""

    @property
    def steps(self) -> int:
        """All steps."""
        return self.records + self.sizes + self.unseen + self.unmatched

    @property
    def is_proof(self) -> bool:
        """Whether every step was seen to use the records of a fresh draw."""
        return self.records == self.steps > 0

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for an epsilon of these steps and was not seen; none where every step was."""
        unseen = self.sizes + self.unseen
        which = (
            f"{unseen:,} of {self.steps:,} steps, though not seen to be, were taken on one fresh batch each"
        )
        return (which,) if unseen else ()

    @property
    def sentence(self) -> str:
        """What was seen, in one sentence, and in another what is accounted besides."""
        if not self.unused:
            return self._seen
        every = f"{self.steps + self.unused:,} batches are accounted"
        verb, ends = ("was", "completes") if self.unused == 1 else ("were", "complete")
        why = f"drawn and not used, or {ends} a pass that was broken off"
        return f"{self._seen} {every}, of which {self.unused:,} {verb} {why}."

    @property
    def _seen(self) -> str:
        steps = self.steps
        if not steps:
            return "No step was taken."
        if self.unmatched:
            off = "not taken on one fresh batch of the loader"
            if self.unmatched == 1:
                return f"1 of {steps:,} steps was {off}: {self.why}."
            return f"{self.unmatched:,} of {steps:,} steps were {off}. Of the first is known: {self.why}."
        if self.unseen:
            because = f": {self.why}" if self.why else ""
            return f"What {self.unseen:,} of {steps:,} steps were taken on was not seen{because}."
        if self.sizes:
            return (
                f"In {self.sizes:,} of {steps:,} steps the numbers of gradients and of records drawn agree; "
                "which records the gradients came from was not seen."
            )
        each = "The only step" if steps == 1 else f"Each of the {steps:,} steps"
        return f"{each} was seen to use the records of one fresh batch of the loader."

    def __add__(self, other: "StepsSummary") -> "StepsSummary":
        """Both together: of two loaders, or of a training and what it was resumed from."""
        if not isinstance(other, StepsSummary):
            return NotImplemented
        mine, yours = asdict(self), asdict(other)
        first = self if self.unmatched or not other.unmatched else other
        added = {name: mine[name] + yours[name] for name in mine if name != "why"}
        return StepsSummary(**added, why=first.why or self.why or other.why)

    def plain(self) -> dict[str, Any]:
        """Names and numbers only: what checkpoints hold."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "StepsSummary":
        """The summary that `plain` gave. Anything else raises TypeError or ValueError."""
        why = plain.get("why", "")
        counts = {name: int(value) for name, value in plain.items() if name != "why"}
        if min(counts.values(), default=0) < 0:
            raise ValueError(f"counts of steps must be at least 0, got {plain!r}")
        return StepsSummary(**counts, why=str(why))


def apply_steps(finding: Finding, steps: StepsSummary) -> Finding:
    """What is known of the batches that were trained on, from the loader and the steps.

    Only if every step was seen to use a fresh batch of the loader, the finding about the loader is one about
    the training. Otherwise nothing is known: the loader draws as found, but the gradients may come from
    elsewhere.
    """
    if steps.is_proof:
        # steps that were counted say more than the length of a pass, which may have been broken off
        notes = (*finding.notes, steps.sentence)
        return replace(finding, batch_count=None, handed_out=None, begun=0, notes=notes)
    sentence = f"{finding.sentence} {steps.sentence}"
    return Finding(
        scheme=Scheme.UNKNOWN,
        how=How.DECLARED,
        sentence=sentence,
        records=finding.records,
        notes=finding.notes,
    )


def forget_passes(finding: Finding, why: str) -> Finding:
    """The finding where batches that depend on each other within a pass were not followed from its start."""
    if not isinstance(finding.sampling, Allocated):
        return finding
    return Finding(
        scheme=Scheme.UNKNOWN,
        how=finding.how,
        sentence=f"{finding.sentence} {why}",
        records=finding.records,
        notes=finding.notes,
    )
