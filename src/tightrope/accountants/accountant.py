"""Who answers: a value that knows which kind of curve it makes and what its answers are worth."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from tightrope.engines.face import Progress
from tightrope.errors import InvalidSetting
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run

CurveT = TypeVar("CurveT", covariant=True)
AnswerT = TypeVar("AnswerT", covariant=True)


class Accountant(ABC, Generic[CurveT, AnswerT]):
    """Makes one kind of curve, whose answers are of one kind. The question stays the same whoever answers.

    `name` is how people write it; `promise` says what an answer is worth.

    >>> import tightrope as tr
    >>> [isinstance(by, tr.Accountant) for by in (tr.Certified(), tr.Renyi())]
    [True, True]
    >>> tr.Renyi().promise
    'a certified upper bound, and no lower one'
    """

    name: ClassVar[str]
    promise: ClassVar[str]

    @abstractmethod
    def curve(self, run: Run, relation: Relation, progress: Progress | None = None) -> CurveT:
        """The privacy curve of `run` under `relation`; `progress(done, of)` is called during long work."""


def check_progress(progress: object) -> None:
    """Refuse what cannot be called."""
    if progress is not None and not callable(progress):
        remedy = "Pass a function of two counts: what is done, and of how much."
        raise InvalidSetting("progress", progress, "be callable", remedy)
