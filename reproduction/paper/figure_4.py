"""Figure 4: the envelope of one step, what composing it costs, and where the truth lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper import figure_4_curves as curves
from reproduction.paper.figure_4_curves import DELTA, RATE, AccountantLine, Misprint, OneStep
from reproduction.paper.figure_4_picture import INCHES, draw
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, UNDECIDED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import at_least, at_most, flatten, name_ends, save_rows, show
from reproduction.paper.pictures import save_picture

WIDE, LAST = 0.12, 6.0  # the figure's epsilons of one step, either side of 0, and of all steps
MISPRINT_AT = 0.1


@dataclass(frozen=True)
class EnvelopeNumbers:
    """Everything the figure and its claims rest on."""

    one: list[OneStep]
    remove: AccountantLine
    envelope: AccountantLine
    renyi: list[AccountantLine]
    game: AccountantLine
    misprint: Misprint
    twin: tr.Bracket

    @property
    def lines(self) -> list[AccountantLine]:
        """From the smallest to the largest in the end."""
        return [self.remove, self.game, self.envelope, *self.renyi]


def compute(making: Making) -> EnvelopeNumbers:
    """All curves; the games take a minute or two, which a quick making does without."""
    making.progress("curves", 0, 1)
    one = curves.take_one_step(curves.space_evenly(-WIDE, WIDE, 61 if making.quick else 241))
    every = curves.space_evenly(0, LAST, 25 if making.quick else 97)
    whole = [float(at) for at in range(round(LAST) + 1)]
    return EnvelopeNumbers(
        one,
        curves.compose_remove(every),
        curves.compose_envelope(every),
        curves.bound_by_moments(every),
        curves.play(whole, tr.QUICK if making.quick else tr.TIGHT, making),
        curves.read_both_ways(MISPRINT_AT),
        curves.ask_poisson_twin(),
    )


def claim_directions(one: Sequence[OneStep]) -> PaperClaim:
    """Which one is larger, at every epsilon of the left panel."""
    good = [each for each in one if each.is_as_printed]
    return PaperClaim(
        "Fig. 4, left",
        "one step: REMOVE has the larger divergence for ε > 0 and ADD for ε < 0; the pointwise maximum "
        "dominates",
        f"certainly so at {len(good)} of {len(one)} epsilons from {one[0].epsilon:g} to {one[-1].epsilon:g} "
        "(equal at 0)",
        AGREES if len(good) == len(one) else CORRECTED,
    )


def claim_misprint(found: Misprint) -> PaperClaim:
    """The printed inequality is false at high rates and says nothing at low ones."""
    wrong = found.printed.lower > found.right.upper
    return PaperClaim(
        "Thm. 15",
        "for e^ε ≥ 1, δ(ε) is at most the divergence of (1-g)Q + gP from P, g the rate",
        f"from Q: at ε = {found.epsilon:g} and rate {RATE:g} that is {show(found.right, 6)}; the printed "
        f"pair has {show(found.printed, 6)}",
        CORRECTED if wrong else AGREES,
        _misprint_argument(found) if wrong else "",
    )


def _misprint_argument(found: Misprint) -> str:
    return (
        "P and Q are mirror images, so the printed pair at rate g is the right pair at rate 1 - g. At rate "
        f"{RATE:g} the printed bound is at least {at_least(found.printed.lower / found.right.upper, 3)} "
        f"times too large: sampling would not amplify (after {curves.STEPS:,} steps ε would be "
        f"{show(found.composed_printed, 6)}, not {show(found.composed_right, 6)}, at δ = 1e-5). At rate "
        f"{1 - RATE:g} it is false: it allows {at_most(found.right.upper, 4)}, and D = (-1, ..., -1, 1), D' "
        f"= (-1, ..., -1, -1) reach {at_least(found.printed.lower, 4)}. The text after the theorem uses the "
        "right pair."
    )


def claim_bounds(numbers: EnvelopeNumbers) -> PaperClaim:
    """The blue and the orange line."""
    lower, upper, truth = numbers.remove.epsilon, numbers.envelope.epsilon, numbers.game.epsilon
    apart = lower.upper < upper.lower and lower.lower <= truth.upper and truth.lower <= upper.upper
    return PaperClaim(
        "Fig. 4, right",
        "REMOVE is a lower bound, the composed envelope an upper bound, and a gap is left",
        f"ε at δ = 1e-5: REMOVE {show(lower, 7)}, envelope {show(upper, 7)}",
        AGREES if apart else CORRECTED,
    )


def claim_gap(numbers: EnvelopeNumbers) -> PaperClaim:
    """Where the truth lies."""
    lower, upper, truth = numbers.remove.epsilon, numbers.envelope.epsilon, numbers.game.epsilon
    closed = truth.upper < upper.lower
    share = at_most(100 * truth.width / (upper.lower - lower.upper), 2)
    more = "certainly more than REMOVE" if truth.lower > lower.upper else "REMOVE's or more"
    left = f", and what is left of the gap is at most {share} % of it" if closed else ""
    return PaperClaim(
        "Sec. 8",
        "the gap motivates future work for understanding the worst-case datasets",
        f"the worst adaptive adversary's ε at δ = 1e-5 lies in {show(truth, 5)}: {more}{left}",
        SHARPENED if closed else AGREES,
        "The adversary may choose every record after seeing all earlier outputs: bounded from above over a "
        "finite list that dominates every choice, and from below by a policy that is actually played."
        if closed
        else "",
    )


def claim_reference(numbers: EnvelopeNumbers) -> PaperClaim:
    """The dotted line."""
    removing = numbers.renyi[0]
    same = (
        abs(numbers.twin.upper - numbers.remove.epsilon.upper)
        <= numbers.twin.width + numbers.remove.epsilon.width
    )
    rest = ", ".join(
        f"{at_most(each.epsilon.upper, 5)} ({each.name.removeprefix('Rényi, ')})"
        for each in numbers.renyi[1:]
    )
    return PaperClaim(
        "Fig. 4, right",
        "REMOVE against the dotted Rényi line is PLD against RDP for Poisson sampling under add or remove",
        f"the exact curves coincide (ε = {show(numbers.twin, 7)} for Poisson sampling at half the noise); "
        f"Rényi: at most {at_most(removing.epsilon.upper, 5)} from REMOVE's moments; under substitution "
        f"{rest}",
        AGREES if same else CORRECTED,
    )


def claim_against_renyi(numbers: EnvelopeNumbers) -> PaperClaim:
    """The accountant that composes the envelope, beside Rényi accounting."""
    envelope, (removing, *proved) = numbers.envelope.epsilon, numbers.renyi
    best = min(proved, key=lambda each: each.epsilon.upper)
    beats_proved = all(envelope.upper < each.epsilon.upper for each in proved)
    loses = removing.epsilon.upper < envelope.lower
    return PaperClaim(
        "Sec. 1",
        "the accountant that composes the envelope does not generally outperform the RDP accountant",
        f"ε at δ = 1e-5: envelope {show(envelope, 5)}; Rényi from REMOVE's moments "
        f"{at_most(removing.epsilon.upper, 5)}, and the best Rényi bound proved for an exchange "
        f"{at_most(best.epsilon.upper, 5)}",
        SHARPENED if beats_proved and loses else UNDECIDED,
        "The line it does not beat rests on REMOVE's moments, which bound an exchanged record only if no "
        "exchange has larger ones, and that is open. Every Rényi bound that is proved for an exchange is "
        "looser than the composed envelope here.",
    )


def make_claims(numbers: EnvelopeNumbers) -> tuple[PaperClaim, ...]:
    """In the order of the text."""
    return (
        claim_directions(numbers.one),
        claim_misprint(numbers.misprint),
        claim_bounds(numbers),
        claim_gap(numbers),
        claim_reference(numbers),
        claim_against_renyi(numbers),
    )


def write_passage(numbers: EnvelopeNumbers) -> str:
    """Both tables."""
    epsilons = [["accountant", "ε at δ = 1e-5"]]
    for each in numbers.lines:
        known = each.epsilon.lower > 0
        epsilons.append(
            [each.name, show(each.epsilon, 6) if known else f"at most {at_most(each.epsilon.upper, 6)}"]
        )
    deltas = [["ε", "REMOVE", "certified", "envelope", "envelope / certified"]]
    for at, truth in zip(numbers.game.epsilons, numbers.game.deltas, strict=True):
        under, over = (each.deltas[each.epsilons.index(at)] for each in (numbers.remove, numbers.envelope))
        ratio = at_least(over.lower / truth.upper, 3)
        deltas.append([f"{at:g}", show(under, 5), show(truth, 5), show(over, 5), f"at least {ratio}"])
    return f"{markdown_table(epsilons)}\n\n{markdown_table(deltas)}"


def save_tables(numbers: EnvelopeNumbers, folder: Path) -> tuple[Path, ...]:
    """One step, the curves, the games, and epsilon at DELTA."""
    one = save_rows(
        folder / "figure-4-one-step.csv",
        ("epsilon", *name_ends(["remove", "add", "envelope"])),
        ([at.epsilon, *flatten([at.remove, at.add, at.envelope])] for at in numbers.one),
    )
    composed = save_rows(
        folder / "figure-4.csv",
        ("accountant", "epsilon", *name_ends(["delta"])),
        (
            (each.name, at, *flatten([found]))
            for each in numbers.lines
            for at, found in zip(each.epsilons, each.deltas, strict=True)
        ),
    )
    at_delta = save_rows(
        folder / "figure-4-epsilons.csv",
        ("accountant", "delta", *name_ends(["epsilon"])),
        ((each.name, DELTA, *flatten([each.epsilon])) for each in numbers.lines),
    )
    return one, composed, at_delta


def make(making: Making) -> Made:
    """Picture, tables and claims."""
    numbers = compute(making)
    shown = (numbers.one, numbers.remove, [numbers.envelope, *numbers.renyi], numbers.game)
    pictures = save_picture(lambda figure: draw(figure, *shown), making.folder, "figure-4", inches=INCHES)
    caption = (
        "Left: both directions of one step and their pointwise maximum; below, less what every pair of "
        "distributions has. Right: 1,000 steps by every accountant (REMOVE's Rényi curve for reference, as "
        "in the paper: no bound for an exchange); below, how far delta lies above REMOVE's."
    )
    files = (*pictures, *save_tables(numbers, making.folder))
    return Made(make_claims(numbers), files, (caption,), write_passage(numbers))


ITEM = Item("figure-4", "Fig. 4: one record exchanged, batches of a fixed size", make)
