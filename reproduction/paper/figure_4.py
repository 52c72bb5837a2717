"""Figure 4: the envelope of one step, what composing it costs, and where the truth lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tightrope as tr
from reproduction.paper import figure_4_curves as curves
from reproduction.paper.figure_4_curves import DELTA, RATE, Answer, Misprint, OneStep
from reproduction.paper.figure_4_picture import INCHES, drawing
from reproduction.paper.item import (
    AGREES,
    CORRECTED,
    SHARPENED,
    UNDECIDED,
    Claim,
    Item,
    Made,
    Making,
    markdown_table,
)
from reproduction.paper.number_files import at_least, at_most, save_rows, shown
from reproduction.paper.pictures import save_picture

WIDE, LAST = 0.12, 6.0  # the figure's epsilons of one step, either side of 0, and of all steps
MISPRINT_AT = 0.1


@dataclass(frozen=True)
class Numbers:
    """Everything the figure and its claims rest on."""

    one: list[OneStep]
    remove: Answer
    envelope: Answer
    renyi: list[Answer]
    game: Answer
    misprint: Misprint
    twin: tr.Bracket

    @property
    def answers(self) -> list[Answer]:
        """From the smallest to the largest in the end."""
        return [self.remove, self.game, self.envelope, *self.renyi]


def computed(making: Making) -> Numbers:
    """All curves; the games take a minute or two, which a quick making does without."""
    making.progress("curves", 0, 1)
    one = curves.one_step(curves.evenly(-WIDE, WIDE, 61 if making.quick else 241))
    every = curves.evenly(0, LAST, 25 if making.quick else 97)
    whole = [float(at) for at in range(round(LAST) + 1)]
    return Numbers(
        one,
        curves.remove_curve(every),
        curves.envelope_curve(every),
        curves.renyi_curves(every),
        curves.game(whole, tr.QUICK if making.quick else tr.TIGHT, making.progress),
        curves.misprint(MISPRINT_AT),
        curves.poisson_twin(),
    )


def directions(one: Sequence[OneStep]) -> Claim:
    """Which one is larger, at every epsilon of the left panel."""
    good = [each for each in one if each.larger_as_printed]
    return Claim(
        "Fig. 4, left",
        "one step: REMOVE has the larger divergence for ε > 0 and ADD for ε < 0; the pointwise maximum "
        "dominates",
        f"certainly so at {len(good)} of {len(one)} epsilons from {one[0].epsilon:g} to {one[-1].epsilon:g} "
        "(equal at 0)",
        AGREES if len(good) == len(one) else CORRECTED,
    )


def misprint_claim(found: Misprint) -> Claim:
    """The printed inequality is false at high rates and says nothing at low ones."""
    wrong = found.printed.lower > found.right.upper
    return Claim(
        "Thm. 15",
        "for e^ε ≥ 1, δ(ε) is at most the divergence of (1-g)Q + gP from P, g the rate",
        f"from Q: at ε = {found.epsilon:g} and rate {RATE:g} that is {shown(found.right, 6)}; the printed "
        f"pair has {shown(found.printed, 6)}",
        CORRECTED if wrong else AGREES,
        _misprint_argument(found) if wrong else "",
    )


def _misprint_argument(found: Misprint) -> str:
    return (
        "P and Q are mirror images, so the printed pair at rate g is the right pair at rate 1 - g. At rate "
        f"{RATE:g} the printed bound is at least {at_least(found.printed.lower / found.right.upper, 3)} "
        f"times too large: sampling would not amplify (after {curves.STEPS:,} steps ε would be "
        f"{shown(found.composed_printed, 6)}, not {shown(found.composed_right, 6)}, at δ = 1e-5). At rate "
        f"{1 - RATE:g} it is false: it allows {at_most(found.right.upper, 4)}, and D = (-1, ..., -1, 1), D' "
        f"= (-1, ..., -1, -1) reach {at_least(found.printed.lower, 4)}. The text after the theorem uses the "
        "right pair."
    )


def bounds(numbers: Numbers) -> Claim:
    """The blue and the orange line."""
    lower, upper, truth = numbers.remove.epsilon, numbers.envelope.epsilon, numbers.game.epsilon
    apart = lower.upper < upper.lower and lower.lower <= truth.upper and truth.lower <= upper.upper
    return Claim(
        "Fig. 4, right",
        "REMOVE is a lower bound, the composed envelope an upper bound, and a gap is left",
        f"ε at δ = 1e-5: REMOVE {shown(lower, 7)}, envelope {shown(upper, 7)}",
        AGREES if apart else CORRECTED,
    )


def gap(numbers: Numbers) -> Claim:
    """Where the truth lies."""
    lower, upper, truth = numbers.remove.epsilon, numbers.envelope.epsilon, numbers.game.epsilon
    closed = truth.upper < upper.lower
    share = at_most(100 * truth.width / (upper.lower - lower.upper), 2)
    more = "certainly more than REMOVE" if truth.lower > lower.upper else "REMOVE's or more"
    left = f", and what is left of the gap is at most {share} % of it" if closed else ""
    return Claim(
        "Sec. 8",
        "the gap motivates future work for understanding the worst-case datasets",
        f"the worst adaptive adversary's ε at δ = 1e-5 lies in {shown(truth, 5)}: {more}{left}",
        SHARPENED if closed else AGREES,
        "The adversary may choose every record after seeing all earlier outputs: bounded from above over a "
        "finite list that dominates every choice, and from below by a policy that is actually played."
        if closed
        else "",
    )


def reference(numbers: Numbers) -> Claim:
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
    return Claim(
        "Fig. 4, right",
        "REMOVE against the dotted Rényi line is PLD against RDP for Poisson sampling under add or remove",
        f"the exact curves coincide (ε = {shown(numbers.twin, 7)} for Poisson sampling at half the noise); "
        f"Rényi: at most {at_most(removing.epsilon.upper, 5)} from REMOVE's moments; under substitution "
        f"{rest}",
        AGREES if same else CORRECTED,
    )


def against_renyi(numbers: Numbers) -> Claim:
    """The accountant that composes the envelope, beside Rényi accounting."""
    envelope, (removing, *proved) = numbers.envelope.epsilon, numbers.renyi
    best = min(proved, key=lambda each: each.epsilon.upper)
    beats_proved = all(envelope.upper < each.epsilon.upper for each in proved)
    loses = removing.epsilon.upper < envelope.lower
    return Claim(
        "Sec. 1",
        "the accountant that composes the envelope does not generally outperform the RDP accountant",
        f"ε at δ = 1e-5: envelope {shown(envelope, 5)}; Rényi from REMOVE's moments "
        f"{at_most(removing.epsilon.upper, 5)}, and the best Rényi bound proved for an exchange "
        f"{at_most(best.epsilon.upper, 5)}",
        SHARPENED if beats_proved and loses else UNDECIDED,
        "The line it does not beat rests on REMOVE's moments, which bound an exchanged record only if no "
        "exchange has larger ones, and that is open. Every Rényi bound that is proved for an exchange is "
        "looser than the composed envelope here.",
    )


def claims(numbers: Numbers) -> tuple[Claim, ...]:
    """In the order of the text."""
    one = directions(numbers.one), misprint_claim(numbers.misprint)
    return *one, bounds(numbers), gap(numbers), reference(numbers), against_renyi(numbers)


def passage(numbers: Numbers) -> str:
    """Both tables."""
    epsilons = [["accountant", "ε at δ = 1e-5"]]
    for each in numbers.answers:
        known = each.epsilon.lower > 0
        epsilons.append(
            [each.name, shown(each.epsilon, 6) if known else f"at most {at_most(each.epsilon.upper, 6)}"]
        )
    deltas = [["ε", "REMOVE", "certified", "envelope", "envelope / certified"]]
    for at, truth in zip(numbers.game.epsilons, numbers.game.deltas, strict=True):
        under, over = (each.deltas[each.epsilons.index(at)] for each in (numbers.remove, numbers.envelope))
        ratio = at_least(over.lower / truth.upper, 3)
        deltas.append([f"{at:g}", shown(under, 5), shown(truth, 5), shown(over, 5), f"at least {ratio}"])
    return f"{markdown_table(epsilons)}\n\n{markdown_table(deltas)}"


def tables(numbers: Numbers, folder: Path) -> tuple[Path, ...]:
    """One step, the curves, the games, and epsilon at DELTA."""
    one = save_rows(
        folder / "figure-4-one-step.csv",
        [
            "epsilon",
            *(f"{name}_{end}" for name in ("remove", "add", "envelope") for end in ("lower", "upper")),
        ],
        (
            [at.epsilon, *(e for b in (at.remove, at.add, at.envelope) for e in (b.lower, b.upper))]
            for at in numbers.one
        ),
    )
    composed = save_rows(
        folder / "figure-4.csv",
        ("accountant", "epsilon", "delta_lower", "delta_upper"),
        (
            (each.name, at, found.lower, found.upper)
            for each in numbers.answers
            for at, found in zip(each.epsilons, each.deltas, strict=True)
        ),
    )
    at_delta = save_rows(
        folder / "figure-4-epsilons.csv",
        ("accountant", "delta", "epsilon_lower", "epsilon_upper"),
        ((each.name, DELTA, each.epsilon.lower, each.epsilon.upper) for each in numbers.answers),
    )
    return one, composed, at_delta


def make(making: Making) -> Made:
    """Picture, tables and claims."""
    numbers = computed(making)
    draw = drawing(numbers.one, numbers.remove, [numbers.envelope, *numbers.renyi], numbers.game)
    pictures = save_picture(draw, making.folder, "figure-4", inches=INCHES)
    caption = (
        "Left: both directions of one step and their pointwise maximum; below, less what every pair of "
        "distributions has. Right: 1,000 steps by every accountant (REMOVE's Rényi curve for reference, as "
        "in the paper: no bound for an exchange); below, how far delta lies above REMOVE's."
    )
    return Made(claims(numbers), (*pictures, *tables(numbers, making.folder)), (caption,), passage(numbers))


ITEM = Item("figure-4", "Fig. 4: one record exchanged, batches of a fixed size", make)
