"""How many questions of each kind were asked, and how they fared."""

from collections import Counter, defaultdict

from fuzz.ask import Result
from fuzz.verdict import CRASHED, DISAGREES, REFUSED, STATUSES
from tightrope.numerics.text import align


class Summary:
    """Counts by kind and status, with the refusals by name."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def count(self, result: Result) -> None:
        """One more result."""
        self.counts[result.kind][result.verdict.status] += 1
        self.seconds[result.kind] += result.seconds  # type: ignore[assignment] # seconds are not whole
        if result.verdict.status == REFUSED:
            self.refusals[result.verdict.answer["refusal"]] += 1

    @property
    def disagrees(self) -> bool:
        """Whether anything contradicts an answer."""
        return any(counts[DISAGREES] or counts[CRASHED] for counts in self.counts.values())

    def in_one_line(self, seconds: float) -> str:
        """Progress."""
        total = sum(self.counts.values(), Counter[str]())
        parts = ", ".join(f"{total[status]} {status}" for status in STATUSES if total[status])
        return f"{sum(total.values())} questions in {seconds:.0f} s: {parts}"

    def table(self, seconds: float) -> str:
        """One row per kind, the refusals by name and the rate."""
        rows = [["kind", "asked", *STATUSES, "mean ms"]]
        for kind, counts in sorted(self.counts.items()):
            asked = sum(counts.values())
            mean = 1000 * self.seconds[kind] / asked
            rows.append([kind, str(asked), *(str(counts[status]) for status in STATUSES), f"{mean:.0f}"])
        refused = ", ".join(f"{name} {times}" for name, times in self.refusals.most_common()) or "none"
        return f"{align(rows)}\nrefusals: {refused}\n{self.in_one_line(seconds)}"
