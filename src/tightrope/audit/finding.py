"""What a loader was found to run: a scheme, how that is known, and the value the accountant takes."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, assert_never

from tightrope.errors import Described, InvalidSetting
from tightrope.setting.plain import plain_setting, sampling_of
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Sampling,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)

# Files that already exist use these names: format 1 of statements.
_NAMES_IN_FILES = {"how": "evidence", "removal_changes_one_slot": "alike"}
_FIELDS_OF_FILES = {in_files: name for name, in_files in _NAMES_IN_FILES.items()}


class Scheme(Enum):
    """How batches are really drawn. The accountant takes those of `scheme_of`, others have weaker bounds."""

    POISSON = "Poisson sampling"
    WITHOUT_REPLACEMENT = "batches of fixed size without replacement"
    EVERY_RECORD = "every record in every batch"
    SHUFFLE = "shuffled and cut into batches"
    BALLS_IN_BINS = "each record in one random batch of each epoch"
    FIXED_PARTITION = "the same batches in the same order every epoch"
    WITH_REPLACEMENT = "drawn with replacement"
    WEIGHTED = "drawn with weights"
    SEVERAL_DRAWS = "several Poisson draws in one step"
    TRUNCATED_POISSON = "Poisson sampling, cut to a largest batch"
    RANDOM_ALLOCATION = "each record in several random batches of each epoch"
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return self.name


def scheme_of(sampling: Sampling) -> Scheme:
    """The scheme that draws as an accounted sampling says.

    >>> scheme_of(EveryRecord())
    EVERY_RECORD
    """
    match sampling:
        case EveryRecord():
            return Scheme.EVERY_RECORD
        case Poisson():
            return Scheme.POISSON
        case WithoutReplacement():
            return Scheme.WITHOUT_REPLACEMENT
        case TruncatedPoisson():
            return Scheme.TRUNCATED_POISSON
        case BallsInBins():
            return Scheme.BALLS_IN_BINS
        case RandomAllocation():
            return Scheme.RANDOM_ALLOCATION
        case Shuffled():
            return Scheme.SHUFFLE
    assert_never(sampling)


def check_finding(finding: "Finding") -> "Finding":
    """The finding, unless it says two things about how batches are drawn."""
    sampling, rates, remedy = finding.sampling, finding.rate_range, "Pass what inspect_loader or watch found."
    if sampling is not None and scheme_of(sampling) is not finding.scheme:
        said = Described(f"the scheme {finding.scheme.name} beside {sampling!r}")
        raise InvalidSetting("finding", said, "name one way to draw batches", remedy)
    if rates is None:
        return finding
    if not isinstance(sampling, Poisson) or not rates[0] <= sampling.rate <= rates[1]:
        said = Described(f"rates from {rates[0]} to {rates[1]} beside {sampling!r}")
        raise InvalidSetting("finding", said, "have a range of rates that holds its rate", remedy)
    return finding


class How(Enum):
    """What a finding rests on."""

    DECLARED = "declared"  # a person says so
    INSPECTED = "inspected"  # the structure of the loader was read
    WATCHED = "watched"  # batches of indices were tested

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class HypothesisTest:
    """One hypothesis, and the probability of data at least this unlikely if it is true."""

    hypothesis: str
    p_value: float
    saw: str

    def __str__(self) -> str:
        return f"{self.hypothesis}: p = {self.p_value:.2g} ({self.saw})"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Which scheme is run, as far as it can be known, in one `sentence` and in numbers.

    `sampling` is the very value the accountant takes, where the scheme is one of those that have one; none
    where a record is there more than once. Numbers that were not found, or mean nothing here, are None:

    * `records`: the size of the dataset that is drawn from;
    * `copies`: how often the most frequent record is among them, as far as the dataset's structure tells.
      Where it is above 1, that many records are the group that must be accounted;
    * `batch`: the size of one logical, global batch where it is fixed (the last one may be smaller);
    * `epoch`: batches per epoch, in which a record comes at most `times` times (once, unless it is padded);
    * `reshuffles`: whether every epoch is known to draw a new order;
    * `full`: how many batches at the start of an epoch are known to have the full size;
    * `removal_changes_one_slot`: whether removing a record is known to change one slot of an epoch and no
      other. Bounds under ADD and REMOVE need that wherever batches share an order or a number of draws;
    * `share`: the largest probability that one draw takes a given record (with replacement, with weights);
    * `draws`: how many Poisson draws make one step, each at `rate`;
    * `rate_range`: the rates that agree with the batches watched (confidence 0.999);
    * `batch_count`: how many batches were watched, or come in one pass over the loader. It is no part of how
      batches are drawn, so that findings may be equal without it;
    * `handed_out`: how many batches a sampler of ours has handed out so far. It is no part of that either;
    * `begun`: how many batches of a pass that was begun are among `batch_count`, besides those of one pass
      more. No part of it, and not in files.
    """

    scheme: Scheme
    how: How
    sentence: str
    sampling: Sampling | None = None
    records: int | None = None
    copies: int | None = None
    batch: int | None = None
    epoch: int | None = None
    times: int = 1
    full: int | None = None
    removal_changes_one_slot: bool = False
    reshuffles: bool | None = None
    share: float | None = None
    draws: int | None = None
    rate: float | None = None
    rate_range: tuple[float, float] | None = None
    batch_count: int | None = field(default=None, compare=False)
    handed_out: int | None = field(default=None, compare=False)
    begun: int = field(default=0, compare=False)
    tests: tuple[HypothesisTest, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def shuffled(self) -> Shuffled | None:
        """The epochs of a shuffle as a sampling, where each is known to be cut so and from a new order.

        >>> known = {"records": 100, "batch": 30, "epoch": 4, "full": 3, "reshuffles": True}
        >>> Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", **known).shuffled
        Shuffled(batches=4, batch=30, last=10, left_over=0)
        """
        records, batch, batches, full = self.records, self.batch, self.epoch, self.full
        is_fresh = self.scheme is Scheme.SHUFFLE and self.reshuffles is True
        comes_once = self.times == 1 and self.copies in (None, 1)
        if not (is_fresh and comes_once and records and batch and batches) or full is None:
            return None
        return _cut_shuffle(self, records=records, batch=batch, batches=batches)

    def __str__(self) -> str:
        notes = (f"Note: {note}" for note in self.notes)
        return "\n  ".join([self.sentence, *map(str, self.tests), *notes])

    def plain(self) -> dict[str, Any]:
        """The finding as names and numbers only: what checkpoints and statements hold.

        >>> finding = Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", epoch=10)
        >>> finding.plain()["scheme"], finding.plain()["evidence"]
        ('shuffle', 'inspected')
        """
        plain = {_NAMES_IN_FILES.get(name, name): value for name, value in dataclasses.asdict(self).items()}
        if self.sampling is not None:
            plain["sampling"] = plain_setting(self.sampling)
        del plain["begun"]
        if (handed_out := plain.pop("handed_out")) is not None:  # a file holds the larger number
            plain["batch_count"] = max(handed_out, self.batch_count or 0)
        return plain | {"scheme": self.scheme.name.lower(), "evidence": self.how.value}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Finding":
        """The finding that `plain` gave. Anything else raises KeyError, TypeError or ValueError.

        >>> finding = Finding(scheme=Scheme.SHUFFLE, how=How.INSPECTED, sentence="Shuffled.", epoch=10)
        >>> Finding.from_plain(finding.plain()) == finding
        True
        """
        known = {_FIELDS_OF_FILES.get(name, name): value for name, value in plain.items()}
        sampling, rates = known.get("sampling"), known.get("rate_range")
        known |= {
            "scheme": Scheme[known["scheme"].upper()],
            "how": How(known["how"]),
            "sampling": None if sampling is None else sampling_of(sampling),
            "rate_range": None if rates is None else tuple(rates),
            "tests": tuple(HypothesisTest(**test) for test in known.get("tests", ())),
            "notes": tuple(known.get("notes", ())),
        }
        return Finding(**known)


def _cut_shuffle(finding: Finding, *, records: int, batch: int, batches: int) -> Shuffled | None:
    """The batches that so many records are cut into; None where no dataset has these numbers."""
    full, last = finding.full or 0, min(records - (batches - 1) * batch, batch)
    if last < 1 or not batches - 1 <= full <= min(batches, records // batch):
        return None
    left_over = max(records - batches * batch, 0)
    if left_over and full < batches and finding.how is How.INSPECTED:
        return None  # a smaller last batch beside records in none
    return Shuffled(batches=batches, batch=batch, last=last, left_over=left_over)
