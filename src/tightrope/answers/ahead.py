"""What a training loop asks next: epsilon after one more step, answered for several rounds at once."""

from dataclasses import dataclass, field

from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.setting.run import Step

FIRST, MOST = 4, 64  # rounds that are answered together: never many more than were asked so far


@dataclass
class AnswersAhead:
    """Answers that are known before they are asked for: each is the one that its run gets by itself.

    Where a question follows the same one with one step less, the next four rounds are answered together, then
    eight, and so on, which takes a third of the time. Anything else begins anew.
    """

    asked: tuple[Step, float, int] | None = None  # last: the step, delta, and how often it had been taken
    rounds: int = FIRST
    known: dict[int, Bracket] = field(default_factory=dict)

    def look_up(self, step: Step, times: int, delta: float) -> Bracket | None:
        """The answer after so many steps, if it was prepared."""
        if not self._goes_on(step, times, delta):
            self.rounds, self.known = FIRST, {}
        return self.known.pop(times, None)

    def prepare(self, curve: PrivacyCurve, step: Step, times: int, delta: float) -> None:
        """Answer the next rounds if it seems that they will come; `curve` is that of the steps so far."""
        if self._goes_on(step, times, delta):
            found = curve.epsilons_of_longer(delta, self.rounds)
            self.known = dict(enumerate(found, times + 1))
            self.rounds = min(2 * self.rounds, MOST)

    def note(self, step: Step, times: int, delta: float) -> None:
        """Remember what was asked, for the next round."""
        self.asked = step, delta, times

    def _goes_on(self, step: Step, times: int, delta: float) -> bool:
        return self.asked == (step, delta, times - 1)
