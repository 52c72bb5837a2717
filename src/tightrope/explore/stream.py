"""All parts of one question, as they become known: the answer first, what takes long last."""

import asyncio
from typing import Any

from tightrope.explore.questions import PageQuestion, read_state
from tightrope.explore.rows import BarRow, KnownBars, takes_long
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
    (answer,) = answers
    tell(answer)
    is_answered = "refusal" not in answer
    if not is_answered and asked.solve:
        return  # there is no run to show
    settled = read_state(answer["settled"]) if is_answered else asked
    bars = KnownBars(settled)
    if is_answered:
        bars.claim(_read_ends(answer["epsilon"]))
    else:
        bars.refusal = answer["refusal"]
    workers.bars.keep(bars)
    await _Parts(workers, bars, tell).ask()


async def work_harder(workers: Workers, asked: PageQuestion, tell: Tell) -> None:
    """The claimed bracket with more effort, and progress meanwhile; then the bars beside it."""
    found: list[Line] = []

    def hear(line: Line) -> None:
        tell(line)
        if line["part"] == "tight" and "epsilon" in line:
            found.append(line)

    await _attempt(workers.tight, "tight", asked, hear, limit=TIGHT_LIMIT)
    bars = workers.bars.find(asked)
    if found and bars is not None:
        bars.claim(_read_ends(found[0]["epsilon"]))
        await _Parts(workers, bars, tell).compare_anew()


class _Parts:
    """What follows an answer."""

    def __init__(self, workers: Workers, bars: KnownBars, tell: Tell) -> None:
        self._workers, self._asked, self._bars, self._tell = workers, bars.asked, bars, tell

    async def ask(self) -> None:
        """Ask for all of them; each lane works in this order, and what is claimed comes first."""
        quick, patient = self._workers.quick, self._workers.patient
        rows = [row for row in self._bars.missing if row != self._bars.own]
        async with asyncio.TaskGroup() as group:

            def ask(lane: Lane, part: str, **arguments: Any) -> None:
                group.create_task(_attempt(lane, part, self._asked, self._tell, **arguments))

            group.create_task(self._ask_row(quick, self._bars.own))
            ask(patient if takes_long(self._asked) else quick, "curve")
            for row in rows:
                if not row.patience:
                    group.create_task(self._ask_row(quick, row))
            for part in ("epochs", "attack"):
                ask(patient, part)
            ask(patient, "accountants", patiently=False)
            for row in rows:
                if row.patience:
                    group.create_task(self._ask_row(patient, row))
            ask(patient, "accountants", patiently=True)

    async def compare_anew(self) -> None:
        """The bars that are known and what they say together, beside a claim that has changed."""
        for row in [*self._bars.found]:
            await self._tell_row(self._workers.quick, row)
        await self._judge()

    async def _ask_row(self, lane: Lane, row: BarRow) -> None:
        """One bar, and what the bars so far say together."""
        await self._tell_row(lane, row)
        self._bars.missing.remove(row)
        await self._judge()

    async def _tell_row(self, lane: Lane, row: BarRow) -> None:
        """One bar; what is known already is not computed again."""
        if row == self._bars.own and self._bars.refusal:
            sampling, relation = row.names
            named = {"sampling": sampling, "relation": relation, "claimed": True}
            self._tell({"part": "bar", **named, "refusal": self._bars.refusal})
            return
        lines: list[Line] = []
        claimed = self._bars.claimed
        how: dict[str, Any] = {"claimed": claimed, "found": self._bars.found.get(row)}
        await _attempt(lane, "bar", self._asked, lines.append, row=row.names, **how)
        for line in lines:
            if "epsilon" in line:
                self._bars.found.setdefault(row, _read_ends(line["epsilon"]))
        if row in self._bars.found and claimed != self._bars.claimed:  # somebody worked harder meanwhile
            await self._tell_row(self._workers.quick, row)
            return
        for line in lines:
            self._tell(line)

    async def _judge(self) -> None:
        """The verdict; where another was asked for meanwhile, that one knows more."""
        self._bars.verdicts += 1
        mine = self._bars.verdicts
        known = [(*row.names, *ends) for row, ends in self._bars.found.items()]
        lines: list[Line] = []
        how: dict[str, Any] = {"known": known, "is_complete": not self._bars.missing}
        await _attempt(self._workers.quick, "verdict", self._asked, lines.append, **how)
        if mine == self._bars.verdicts:
            for line in lines:
                self._tell(line)


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
