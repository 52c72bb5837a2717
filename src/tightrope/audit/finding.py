"""What a loader was found to run: a scheme, how that is known, and the value the accountant would take."""

from dataclasses import dataclass
from enum import Enum

from tightrope.setting.sampling import Sampling


class Scheme(Enum):
    """How batches are really drawn. The first three are what the accountant takes; the others have names and weaker theorems."""

    POISSON = "Poisson sampling"
    WITHOUT_REPLACEMENT = "batches of fixed size without replacement"
    EVERY_RECORD = "every record in every batch"
    SHUFFLE = "shuffled and cut into batches"
    BALLS_IN_BINS = "each record in one random batch of each epoch"
    FIXED_PARTITION = "the same batches in the same order every epoch"
    WITH_REPLACEMENT = "drawn with replacement"
    WEIGHTED = "drawn with weights"
    SEVERAL_DRAWS = "several Poisson draws in one step"
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return self.name


class How(Enum):
    """What a finding rests on."""

    DECLARED = "declared"  # somebody says so
    INSPECTED = "inspected"  # the structure of the loader was read
    WATCHED = "watched"  # index batches were tested

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class Test:
    """One hypothesis and the probability that data as unlikely as these come from it."""

    __test__ = False  # not for pytest to collect

    hypothesis: str
    p_value: float
    saw: str

    def __str__(self) -> str:
        return f"{self.hypothesis}: p = {self.p_value:.2g} ({self.saw})"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Which scheme is run, as far as it can be known, in one `sentence` and in numbers.

    `sampling` is the very value the accountant takes, there for the first three schemes only. Numbers that were not found, or
    have no meaning for the scheme, are None:

    * `records`: the size of the dataset that is drawn from;
    * `batch`: the size of one logical, global batch where it is fixed (a last one may be smaller);
    * `epoch`: batches per epoch, where each record comes at most `times` times per epoch (once, unless epochs are padded);
    * `reshuffles`: whether every epoch is known to draw a new order;
    * `full`: how many batches at the start of an epoch are known to have the full size;
    * `alike`: whether one record fewer is known to change one place of an epoch and no other. Bounds under ADD and REMOVE need
      that wherever batches share an order or a number of draws;
    * `share`: the largest probability that one draw takes a given record, for draws with replacement or with weights;
    * `draws`: how many Poisson draws make one step, each at `rate`;
    * `rate_range`: rates that agree with what was watched (confidence 0.999), where the rate was estimated.
    """

    scheme: Scheme
    how: How
    sentence: str
    sampling: Sampling | None = None
    records: int | None = None
    batch: int | None = None
    epoch: int | None = None
    times: int = 1
    full: int | None = None
    alike: bool = False
    reshuffles: bool | None = None
    share: float | None = None
    draws: int | None = None
    rate: float | None = None
    rate_range: tuple[float, float] | None = None
    tests: tuple[Test, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(
            [
                self.sentence,
                *(f"  {test}" for test in self.tests),
                *(f"  Note: {note}" for note in self.notes),
            ]
        )
