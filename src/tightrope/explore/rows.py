"""Which bars a question has, and what takes long."""

from collections import OrderedDict
from dataclasses import dataclass

from tightrope.explore.questions import SAMPLINGS, PageQuestion
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, RELATIONS, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.sampling import EveryRecord, InPasses, Sampling, Shuffled

Ends = tuple[float, float]
_MOST_KEPT = 100  # questions: as many as may be asked at once


@dataclass(frozen=True)
class BarRow:
    """One sampling x relation; `patience` is 0 for what takes milliseconds."""

    sampling: type[Sampling]
    relation: Relation

    @property
    def patience(self) -> int:
        """In which order to ask: passes take seconds, exchanges longer, and shuffles longest."""
        if not issubclass(self.sampling, InPasses):
            return 0
        return 1 + 2 * (self.relation is SUBSTITUTE) + (self.sampling is Shuffled)

    @property
    def names(self) -> tuple[str, str]:
        """The printed names of both."""
        return self.sampling.spelling, str(self.relation)


def list_rows(asked: PageQuestion) -> list[BarRow]:
    """The bars, those that take longest last.

    Add and remove have rows of their own if one of them is claimed, full batches if they are; or if all rows
    are asked for.

    >>> from tightrope.explore.questions import EXAMPLE, read_state
    >>> [row.names[0] for row in list_rows(read_state(EXAMPLE))][-1]
    'shuffled'
    """
    alone = asked.relation in (ADD, REMOVE) or asked.rows == "all"
    relations = RELATIONS.values() if alone else (ADD_OR_REMOVE, SUBSTITUTE)
    with_full = asked.sampling is EveryRecord or asked.rows == "all"
    kinds = [kind for kind in SAMPLINGS.values() if kind is not EveryRecord or with_full]
    rows = [BarRow(kind, relation) for kind in kinds for relation in relations]
    return sorted(rows, key=lambda row: row.patience)


def takes_long(asked: PageQuestion) -> bool:
    """Whether the answer takes seconds, as for everything that is drawn in passes."""
    return issubclass(asked.sampling, InPasses)


class KnownBars:
    """What is known of the bars of one question, and the answer that they are compared with."""

    def __init__(self, asked: PageQuestion) -> None:
        self.asked = asked
        self.own = BarRow(asked.sampling, asked.relation)
        self.missing = list_rows(asked)
        self.found: dict[BarRow, Ends] = {}
        self.claimed: Ends | None = None
        self.refusal = ""
        self.verdicts = 0  # asked for

    def claim(self, ends: Ends) -> None:
        """Take these for the answer: its own bar, and what the others are compared with."""
        self.claimed = self.found[self.own] = ends


class LastBars:
    """The bars of the last questions, for who works harder on one of them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KnownBars] = OrderedDict()

    def keep(self, bars: KnownBars) -> None:
        """Remember these, and forget the oldest."""
        self._kept.pop(bars.asked.state, None)
        self._kept[bars.asked.state] = bars
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def find(self, asked: PageQuestion) -> KnownBars | None:
        """The bars of this question, if they are among the last."""
        return self._kept.get(asked.state)
