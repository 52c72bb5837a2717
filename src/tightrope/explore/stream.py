"""All parts of one question, as they become known: the answer first, what takes long last."""

import asyncio
from typing import Any

from tightrope.explore.questions import PageQuestion, read_state
from tightrope.explore.rows import list_rows, takes_long
from tightrope.explore.workers import GaveUp, Lane, Tell, Workers

QUICK_LIMIT, PART_LIMIT, TIGHT_LIMIT = 15.0, 60.0, 900.0  # seconds of work
END = {"part": "end"}
Line = dict[str, Any]


async def answer_only(workers: Workers, asked: PageQuestion, tell: Tell) -> None:
    """The one line that a slider waits for."""
    if takes_long(asked):
        await _attempt(workers.patient, "answer", asked, tell)
    else:
        await _attempt(workers.quick, "answer", asked, tell, limit=QUICK_LIMIT)


async def answer_all(workers: Workers, asked: PageQuestion, tell: Tell) -> None:
    """Every part: the answer, then charts and bars side by side, and the verdict over the bars so far."""
    answers: list[Line] = []
    await answer_only(workers, asked, answers.append)
    tell(answers[0])
    is_answered = "refusal" not in answers[0]
    if not is_answered and asked.solve:
        return  # there is no run to show
    settled = read_state(answers[0]["settled"]) if is_answered else asked
    await _Parts(workers, settled, tell).ask(_read_ends(answers[0]["epsilon"]) if is_answered else None)


async def work_harder(workers: Workers, asked: PageQuestion, tell: Tell) -> None:
    """The claimed bracket with more effort, and progress meanwhile."""
    await _attempt(workers.tight, "tight", asked, tell, limit=TIGHT_LIMIT)


class _Parts:
    """What follows an answer."""

    def __init__(self, workers: Workers, asked: PageQuestion, tell: Tell) -> None:
        self._workers, self._asked, self._tell = workers, asked, tell
        self._known: list[tuple[str, str, float, float]] = []

    async def ask(self, claimed: tuple[float, float] | None) -> None:
        """Ask for all of them; each lane works in this order."""
        quick, patient = self._workers.quick, self._workers.patient
        async with asyncio.TaskGroup() as group:

            def ask(lane: Lane, part: str, **arguments: Any) -> None:
                group.create_task(_attempt(lane, part, self._asked, self._tell, **arguments))

            ask(patient if takes_long(self._asked) else quick, "curve")
            rows = list_rows(self._asked)
            for row in rows:
                if not row.patience:
                    group.create_task(self._ask_row(quick, row.names, claimed))
            for part in ("epochs", "attack"):
                ask(patient, part)
            ask(patient, "accountants", patiently=False)
            for row in rows:
                if row.patience:
                    group.create_task(self._ask_row(patient, row.names, claimed))
            ask(patient, "accountants", patiently=True)

    async def _ask_row(self, lane: Lane, row: tuple[str, str], claimed: tuple[float, float] | None) -> None:
        """One bar, and what the bars so far say together."""
        found: list[Line] = []
        await _attempt(lane, "bar", self._asked, found.append, row=row, claimed=claimed)
        for line in found:
            self._tell(line)
            if "epsilon" in line:
                self._known.append((*row, *_read_ends(line["epsilon"])))
                await _attempt(self._workers.quick, "verdict", self._asked, self._tell, known=[*self._known])


async def _attempt(
    lane: Lane, part: str, asked: PageQuestion, tell: Tell, *, limit: float = PART_LIMIT, **arguments: Any
) -> None:
    """Tell the lines of one part; a refusal is a line in their place."""
    try:
        await lane.work(part, asked, limit, tell, **arguments)
    except GaveUp as gave_up:
        named = dict(zip(("sampling", "relation"), arguments.get("row", ()), strict=False))
        tell({"part": part, **named, "refusal": str(gave_up)})


def _read_ends(bracket: Line) -> tuple[float, float]:
    return float(bracket["lower"]), float(bracket["upper"])
