"""From a privacy curve to attacks: how often a test is right, for how many false alarms."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tightrope.curve.bracket import Bracket
from tightrope.curve.convex_bounds import Known, Objective, certify, guess
from tightrope.curve.curve import Answers, elementwise
from tightrope.errors import NotPreciseEnough
from tightrope.numerics import check, html
from tightrope.numerics.floats import Floats, ceil_fraction, floor_fraction
from tightrope.numerics.text import align, round_outwards
from tightrope.setting.given import exactly
from tightrope.theorems.evidence import Evidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FARTHEST = 700.0  # the search looks no farther: e^700 and e^-700 are floats
MOST_LOOKS = 100  # 10 to 60 are usual
FINE_ENOUGH = 1e-5  # of the accuracy: what the search may leave open where the curve is known exactly
PRINTED_RATES = (1e-4, 1e-3, 0.01, 0.05, 0.1)


class BracketedCurve(Protocol):
    """The curve that a trade-off is made of."""

    @property
    def question(self) -> str:
        """Of what it is the curve, under which relation."""

    @property
    def because(self) -> tuple[Evidence, ...]:
        """Every theorem that an upper end may rest on."""

    @property
    def accuracy(self) -> float:
        """The relative width in delta that a bracket may have."""

    @property
    def leaves_a_gap(self) -> bool:
        """Whether theory, and not only arithmetic, may keep the two ends apart."""

    @property
    def infinite_mass(self) -> Bracket:
        """delta(infinity): the chance of an output that one neighbour produces and the other cannot."""

    @property
    def reverse(self) -> "Callable[[], BracketedCurve]":
        """Makes the curve of reversed neighbours."""

    def delta(self, epsilon: float, /) -> Bracket:
        """The smallest delta at epsilon."""

    def to_accuracy(self, accuracy: float) -> "BracketedCurve":
        """The same curve at another accuracy."""


@dataclass(frozen=True)
class TradeOff:
    """What the best attack on a run achieves: the trade-off function f of f-DP, as brackets.

    An attack looks at the output and says D or D'. Its false positive rate is how often it says D when D' was
    used, its true positive rate how often it says D when D was used. Under REMOVE, D has the record; under
    ADD, D' has it; under symmetric relations either reading holds. Upper ends of true positive rates,
    advantages, successes and posteriors are guarantees against every attack. So is the lower end of a false
    negative rate.

    With D(t) = delta(ln t) for odds t > 0, a test of false positive rate a has a true positive rate of at
    most T(a) = inf over t of D(t) + t a. f(a) = 1 - T(a) is the largest convex function that says as much as
    the curve. The best test on one pair of neighbours reaches T, except where two pairs (say one record added
    and one removed) touch T at different rates. On the line between those, T is reached on average over the
    pairs.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
    >>> attack = tr.privacy_curve(run, relation=tr.ADD_OR_REMOVE).trade_off()
    >>> print(attack.true_positive_rate(0.01))
    [0.016848..., 0.016848...]
    >>> print(attack.attack_success())
    [0.53838..., 0.53838...]
    """

    curve: BracketedCurve
    _seen: dict[float, Bracket] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[Fraction, tuple[Bracket, Bracket]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @overload
    def true_positive_rate(self, false_positive_rate: float | Fraction) -> Bracket: ...
    @overload
    def true_positive_rate(self, false_positive_rate: list[float] | Floats) -> Answers: ...
    def true_positive_rate(self, false_positive_rate: ArrayLike | Fraction) -> Bracket | Answers:
        """The largest chance to say D when it is D, for tests that say D wrongly at the given rate."""
        return elementwise(lambda rate: self._rates(rate)[0], false_positive_rate, "false_positive_rate")

    @overload
    def false_negative_rate(self, false_positive_rate: float | Fraction) -> Bracket: ...
    @overload
    def false_negative_rate(self, false_positive_rate: list[float] | Floats) -> Answers: ...
    def false_negative_rate(self, false_positive_rate: ArrayLike | Fraction) -> Bracket | Answers:
        """f: the smallest chance to miss D. The lower end is the guarantee; attacks reach the upper end."""
        return elementwise(lambda rate: self._rates(rate)[1], false_positive_rate, "false_positive_rate")

    @property
    def advantage(self) -> Bracket:
        """The largest true minus false positive rate of any test: delta(0), the total variation."""
        return self.curve.delta(0.0)

    def attack_success(self, prior: float | Fraction = 0.5) -> Bracket:
        """The largest chance that a guess is right if D was used with probability `prior` and D' otherwise.

        It is (1 - p) + p delta(ln((1 - p) / p)); for even odds that is 1/2 + advantage / 2. A blind guess is
        right with probability max(p, 1 - p).
        """
        p = _check_prior(prior)
        # guess the likelier dataset; a look at the output adds the rarer one's delta at the odds against it
        likelier, rarer, curve = (1 - p, p, self.curve) if p <= 1 - p else (p, 1 - p, self._reverse)
        epsilon, error = _log_odds(likelier, rarer)
        delta = curve.delta(epsilon)
        # |d delta / d epsilon| = e^epsilon Q(S) <= P(S) <= 1 for the best test S, which has P >= e^epsilon Q
        lower, upper = Fraction(delta.lower) - error, Fraction(delta.upper) + error
        found = Bracket(floor_fraction(likelier + rarer * lower), ceil_fraction(likelier + rarer * upper))
        return _common(found, Bracket(floor_fraction(likelier), 1.0))

    def posterior(self, prior: float | Fraction, false_positive_rate: float | Fraction) -> Bracket:
        """The largest chance that it is D, after a test of that false positive rate has said so.

        `prior` is the chance p before the test. The chance after it is p T / (p T + (1 - p) a), with the true
        positive rate T of the false positive rate a.
        """
        p = _check_prior(prior)
        remedy = "Pass how often the test may be wrong; one that is never wrong may never say anything."
        check.positive(remedy=remedy, false_positive_rate=false_positive_rate)
        found, false_alarms = self._rates(false_positive_rate)[0], (1 - p) * exactly(false_positive_rate)
        true_alarms = (p * Fraction(found.lower), p * Fraction(found.upper))
        lower, upper = (alarms / (alarms + false_alarms) for alarms in true_alarms)
        return Bracket(floor_fraction(lower), ceil_fraction(upper))

    def points(self, count: int = 33) -> tuple[Floats, Answers]:
        """False positive rates from 0 to 1, densest at both ends, and the false negative rates there."""
        check.whole(least=2, count=count)
        rates = np.sin(np.linspace(0, np.pi / 2, count)) ** 2
        return rates, self.false_negative_rate(rates)

    def plot(self, count: int = 33, *, ax: "Axes | None" = None, label: str | None = None) -> "Axes":
        """Draw f, the false negative rate over the false positive rate, at so many points; needs matplotlib.

        The line is the lower end, which every attack stays above; the band reaches to the upper end. What is
        drawn on is `ax`, or new axes; they are returned.
        """
        from tightrope.curve.pictures import draw_rates  # only where something is drawn

        return draw_rates(self, count, ax, label)

    def __str__(self) -> str:
        """A short table of the rates attacks are usually judged by."""
        return align(self._table())

    def _repr_html_(self) -> str:
        table = ""
        if not self.curve.leaves_a_gap:  # there a rate may take minutes
            with suppress(NotPreciseEnough):
                table = html.write_table(self._table())
        question = self.curve.question
        why = html.fold("why", (theorem.in_full for theorem in self.curve.because))
        return html.join(html.write_text(f"The best attack on {question}", strong=question), table, why)

    def _table(self) -> list[list[str]]:
        rows = [[f"{rate:g}", str(self.true_positive_rate(rate))] for rate in PRINTED_RATES]
        return [["false positive rate", "true positive rate"], *rows]

    def _rates(self, false_positive_rate: float | Fraction) -> tuple[Bracket, Bracket]:
        """True positive and false negative rate: complements, each computed where it can be small."""
        remedy = "Pass the share of false alarms, from 0 to 1, for example 0.01."
        check.probability(remedy=remedy, false_positive_rate=false_positive_rate)
        rate = exactly(false_positive_rate)
        if rate == 0:  # the infimum is the limit at large odds
            hits, misses = self._infinite, Bracket(0.0, 1.0)
        elif rate == 1:
            hits, misses = Bracket(1.0, 1.0), Bracket(0.0, 0.0)
        else:
            if rate not in self._found:  # who asks for one of both often asks for the other
                self._found[rate] = self._search(rate)
            hits, misses = self._found[rate]
        hits = _common(hits, Bracket(floor_fraction(rate), 1.0), _complement(misses))
        if hits.relative_width > 4 * self.curve.accuracy and not self.curve.leaves_a_gap:
            raise NotPreciseEnough(
                f"the true positive rate at {{false_positive_rate={float(rate):g}}} could not be certified "
                f"to {{accuracy={self.curve.accuracy:g}}}, "
                f"only to {round_outwards(hits.relative_width, 2, up=True)}",
                "Ask for a coarser {accuracy} or another rate.",
            )
        return hits, _common(misses, Bracket(0.0, ceil_fraction(1 - rate)), _complement(hits))

    def _search(self, rate: Fraction) -> tuple[Bracket, Bracket]:
        """T(a) = inf D(t) + a t, and f(a) = sup (1 - a) t - X(t) with the excess X(t) = D(t) - (1 - t).

        The second is 1 minus the first, but where T is close to 1 floats do not tell how close.
        """
        self._look(0.0)
        # where the infimum would be if the loss were normal
        self._look(float(self._scale * -special.ndtri(float(rate)) - self._scale**2 / 2))
        enough = FINE_ENOUGH * self.curve.accuracy
        of_hits, of_misses = Objective(rate, excess=False), Objective(rate, excess=True)
        for _ in range(MOST_LOOKS):
            known = self._known()
            # doubles the range that is known
            stride = max(known.epsilons[-1] - known.epsilons[0], self._scale)
            guesses = (guess(known, objective, stride) for objective in (of_hits, of_misses))
            coarse = next((found for found in guesses if not found.is_fine(enough)), None)
            if coarse is None or not self._look(coarse.look_at):
                break
        hits, misses = guess(known, of_hits, stride), guess(known, of_misses, stride)
        least_hits, most_hits = certify(known, of_hits, hits.chords)
        least_misses, most_misses = (-end for end in reversed(certify(known, of_misses, misses.chords)))
        return Bracket(max(least_hits, 0.0), most_hits), Bracket(max(least_misses, 0.0), most_misses)

    def _known(self) -> Known:
        epsilons = tuple(sorted(self._seen))
        found = tuple(self._seen[epsilon] for epsilon in epsilons)
        return Known(epsilons, found, self._infinite.lower, self._flattest)

    def _look(self, epsilon: float) -> bool:
        """Ask the curve about one more epsilon; False if it is known already."""
        epsilon = min(max(epsilon, -FARTHEST), FARTHEST)
        if epsilon in self._seen:
            return False
        self._seen[epsilon] = _best_known(self.curve if epsilon >= 0 else self._reverse, abs(epsilon))
        return True

    @cached_property
    def _scale(self) -> float:
        """The mu of the Gaussian mechanism with this advantage, and above 0."""
        return max(2 * float(special.ndtri((1 + min(self.advantage.upper, 1 - 1e-15)) / 2)), 1e-12)

    @cached_property
    def _reverse(self) -> BracketedCurve:
        return self.curve.reverse()

    @cached_property
    def _flattest(self) -> float:
        return self._reverse.infinite_mass.lower

    @cached_property
    def _infinite(self) -> Bracket:
        return self.curve.infinite_mass


def _best_known(curve: BracketedCurve, epsilon: float) -> Bracket:
    """delta(epsilon) as accurately as possible; close to the largest loss relative accuracy is lost."""
    for asked in (curve, curve.to_accuracy(1.0)):
        with suppress(NotPreciseEnough):
            return asked.delta(epsilon)
    return Bracket(0.0, 1.0)


def _check_prior(prior: float | Fraction) -> Fraction:
    remedy = "Pass the chance of D before anything is seen, strictly between 0 and 1; 0.5 is a fair coin."
    check.open_probability(remedy=remedy, prior=prior)
    return exactly(prior)


def _log_odds(likelier: Fraction, rarer: Fraction) -> tuple[float, Fraction]:
    """The float nearest ln(likelier / rarer), and how far it is off at most."""
    if likelier == rarer:
        return 0.0, Fraction(0)
    from tightrope.numerics.balls import ball, ceil_float, enclose  # loads flint

    exact = enclose(lambda: ball(likelier / rarer).log())
    nearest = float(exact)
    return nearest, Fraction(ceil_float(abs(exact - ball(nearest))))


def _complement(bracket: Bracket) -> Bracket:
    """1 - bracket, rounded outwards."""
    lower, upper = 1 - Fraction(bracket.upper), 1 - Fraction(bracket.lower)
    return Bracket(floor_fraction(lower), ceil_fraction(upper))


def _common(*brackets: Bracket) -> Bracket:
    """What all brackets allow."""
    lower, upper = max(bracket.lower for bracket in brackets), min(bracket.upper for bracket in brackets)
    return Bracket(lower + 0.0, upper + 0.0)  # no -0.0
