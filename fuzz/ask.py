"""One question, drawn from a seed and an index, asked and judged within a time limit."""

import signal
import time
import traceback
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Any

import tightrope as tr
from fuzz.known import KNOWN
from fuzz.laws import LAWS
from fuzz.truth import NoReference
from fuzz.verdict import CRASHED, REFUSED, TOO_SLOW, Kind, Plain, Verdict

KINDS: dict[str, Kind] = {**KNOWN, **LAWS}
LIMIT = 20.0  # seconds of CPU for one question, its judgement included


@dataclass(frozen=True)
class Result:
    """A question with its verdict: what a line of the report holds."""

    seed: int
    index: int
    kind: str
    question: Plain
    verdict: Verdict
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "seed": self.seed,
            "index": self.index,
            "kind": self.kind,
            "status": self.verdict.status,
            "question": self.question,
            "answer": self.verdict.answer,
            "reference": self.verdict.reference,
            "seconds": round(self.seconds, 3),
        }


def draw_question(seed: int, index: int, kinds: tuple[str, ...]) -> tuple[str, Plain]:
    """The question with this index: the same for the same seed, kinds and draws, whoever asks."""
    rng = Random(f"{seed}:{index}")
    while True:
        name = rng.choices(kinds, [KINDS[kind].weight for kind in kinds])[0]
        try:
            return name, KINDS[name].draw(rng)
        except NoReference:
            continue


class OutOfTime(BaseException):
    """The question has used its time. Not an Exception, so that no handler of the library swallows it."""


class _Clock:
    """Stops a question that has used its time, and remembers it: flint hides what its callbacks raise."""

    def __init__(self) -> None:
        self.has_rung = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.has_rung = True
        raise OutOfTime


def judge(kind: str, question: Plain, limit: float = LIMIT) -> Verdict:
    """The verdict on Tightrope's answer. A refusal is fine; any other exception is a crash."""
    clock = _Clock()
    before = signal.signal(signal.SIGPROF, clock.stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        verdict = KINDS[kind].judge(question)
        return Verdict(TOO_SLOW) if clock.has_rung else verdict
    except tr.TightropeError as refusal:
        return Verdict(REFUSED, {"refusal": type(refusal).__name__}, str(refusal))
    except (OutOfTime, Exception) as crash:
        if clock.has_rung:
            return Verdict(TOO_SLOW, {}, traceback.format_exc(limit=-4))
        return Verdict(CRASHED, {"crash": repr(crash)}, traceback.format_exc(limit=-6))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ask(seed: int, index: int, kinds: tuple[str, ...], limit: float = LIMIT) -> Result:
    """Draw, ask and judge."""
    kind, question = draw_question(seed, index, kinds)
    start = time.process_time()
    verdict = judge(kind, question, limit)
    return Result(seed, index, kind, question, verdict, time.process_time() - start)
