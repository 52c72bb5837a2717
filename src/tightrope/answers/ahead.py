"""What a training loop asks next: epsilon after one more step, answered for several rounds at once."""

from dataclasses import dataclass, field

from tightrope.curve.bracket import Bracket
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.setting.run import Step

MOST = 64  # rounds that are answered together


@dataclass
class AnswersAhead:
    """Answers that are known before they are asked for: each is the one that its run gets by itself.

    Where two questions follow the same one, each with one step more, the next two rounds are answered
    together, and then as many as there were so far, which takes a third of the time. Anything else begins
    anew, so that never more is answered in vain than was asked.
    """

    asked: tuple[Step, float, int] | None = None  # last: the step, delta, and how often it had been taken
    followed: int = 0  # how many rounds in a row went on from the last one
    known: dict[int, Bracket] = field(default_factory=dict)

    def look_up(self, step: Step, times: int, delta: float) -> Bracket | None:
        """The answer after so many steps, if it was prepared."""
        if self.asked == (step, delta, times - 1):
            self.followed += 1
        else:
            self.followed, self.known = 0, {}
        self.asked = step, delta, times
        return self.known.pop(times, None)

    def prepare(self, curve: PrivacyCurve) -> None:
        """Answer the next rounds if it seems that they will come; `curve` is that of what was asked last."""
        if self.asked is not None and self.followed > 1:
            _, delta, times = self.asked
            found = curve.epsilons_of_longer(delta, min(self.followed, MOST))
            self.known = dict(enumerate(found, times + 1))
