"""Figure 1: sampled Laplace noise, adding against removing a record: where the curves cross and break."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper import figure_1_curves as curves
from reproduction.paper.figure_1_curves import (
    ALPHA,
    BETA,
    DISTANCES,
    POINTS,
    RATE,
    SCALE,
    STEP,
    Panel,
    Workload,
)
from reproduction.paper.figure_1_picture import INCHES, draw
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, Item, Made, Making, PaperClaim
from reproduction.paper.laplace_lattice import Lattice
from reproduction.paper.laplace_lead import Lead
from reproduction.paper.numbers import at_least, at_most, save_rows, show
from reproduction.paper.pictures import save_picture

DIGITS = 12


def list_numbers(values: Sequence[int]) -> str:
    """Whole numbers as text, three neighbours or more joined.

    >>> list_numbers([3, 4, 6, 7, 8])
    '3, 4, 6 to 8'
    """
    stretches: list[list[int]] = []
    for value in values:
        if stretches and value == stretches[-1][-1] + 1:
            stretches[-1].append(value)
        else:
            stretches.append([value])
    return ", ".join(
        f"{each[0]} to {each[-1]}" if len(each) > 2 else ", ".join(map(str, each)) for each in stretches
    )


def claim_crossing(leads: Sequence[Lead]) -> PaperClaim:
    """At two steps."""
    two = leads[1].crossing
    return PaperClaim(
        "Fig. 1",
        "the curves of add and remove cross in ε ≥ 0 for k = 2",
        "no crossing"
        if two is None
        else f"once, at ε in {show(two, DIGITS)}: add is larger before, remove after",
        CORRECTED if two is None else SHARPENED,
        "At the two ends the brackets prove opposite signs of the difference; between them it falls "
        "strictly, and outside of them its sign is certain at every ε > 0. At ε = 0 the curves meet: both "
        "are the total variation distance.",
    )


def claim_not_preserved(leads: Sequence[Lead]) -> PaperClaim:
    """Remove dominates at one step and not at two."""
    one, two = leads[0].crossing, leads[1].crossing
    return PaperClaim(
        "Fig. 1",
        "remove dominates add without composition (ε ≥ 0), and composition does not preserve this",
        "k = 1: remove is larger at every ε > 0 at which it is not 0. "
        + (
            "k = 2: the same."
            if two is None
            else f"k = 2: add is larger for 0 < ε ≤ {at_least(two.lower, DIGITS)}."
        ),
        AGREES if one is None and two is not None else CORRECTED,
    )


def claim_most_apparent(leads: Sequence[Lead]) -> PaperClaim:
    """How far add gets ahead, for every number of steps at which it does."""
    ahead = {
        each.steps: curves.largest_lead(each.steps, each.crossing)
        for each in leads
        if each.crossing is not None
    }
    said = [
        f"k = {steps}: add is ahead by at least {at_least(most, 3)} (at ε = {where:.3f}) of δ"
        for steps, (where, most) in ahead.items()
    ]
    most = max(ahead, key=lambda steps: ahead[steps][1])
    return PaperClaim(
        "Sec. 5",
        "the phenomenon is most apparent for k = 2",
        f"{'; '.join(said)}; nowhere for any other k ≤ {len(leads)}",
        SHARPENED if most == 2 else CORRECTED,
    )


def claim_for_all_steps(leads: Sequence[Lead]) -> PaperClaim:
    """Read for every single k, the proposition does not hold for its illustration."""
    dominated = [each.steps for each in leads if each.crossing is None and each.steps > 1]
    fives = "; ".join(
        f"at ε in {show(each.crossing, DIGITS)} for k = {each.steps}"
        for each in leads
        if each.crossing is not None and each.steps > 2
    )
    return PaperClaim(
        "Prop. 11, with Laplace noise",
        "no pair of datasets realizes the curve of k steps for all k > 1, read as: for every single k",
        f"for k = {list_numbers(dominated)} remove is larger at every ε > 0 at which it is not 0. The curves "
        f"cross again {fives or 'nowhere'}",
        CORRECTED if dominated else AGREES,
        f"The illustration shows the proposition for k = 2. For most k up to {len(leads)} the pair that "
        "removes the record realizes the curve of add or remove at every ε ≥ 0. Read as the section opens, "
        "for some k > 1, or as one pair for all k, the proposition is right, and k = 2 shows it.",
    )


def claim_break(lattice: Lattice) -> PaperClaim:
    """Where the slope jumps, why, and how that fades."""
    clear = curves.clearest_break(2)
    bends = [curves.bend(lattice, clear.epsilon, distance) for distance in DISTANCES]
    certain = clear.jump <= bends[-1].lower and bends[-1].upper <= clear.jump + DISTANCES[-1]
    return PaperClaim(
        "Sec. 5",
        "the remove curve of k = 2 has a clear break",
        f"at ε = ln(1 - g + g e^(1/s)) + ln(1 - g + g e^(-1/s)) = {clear.epsilon:.10f} (scale s, rate g) "
        f"the slope of δ in e^ε jumps by e^(-1/s)/2 = {clear.jump:.10f}; chords to both sides differ by "
        f"{show(bends[-1], 6)} at a distance of {DISTANCES[-1]:g}",
        SHARPENED if certain else CORRECTED,
        "All outputs below both centres have one loss, and all above both centres another: the loss of a "
        "remove step has two atoms. Two steps with one of each have the loss above, which has probability "
        "e^(-1/s)/2 without the record, and that is the jump. Add has its atoms at the negatives: of two "
        "steps it bends on ε ≥ 0 only where it ends.",
    )


def claim_vanishing() -> PaperClaim:
    """The atoms of many steps."""
    clearest = [curves.clearest_break(steps) for steps in curves.SHOWN_TO]
    falling = all(first.jump > second.jump for first, second in pairwise(clearest))
    said = ", ".join(f"{each.jump:.3g} (k = {each.steps}, at ε = {each.epsilon:.4f})" for each in clearest)
    return PaperClaim(
        "Sec. 5",
        "the break vanishes as the number of compositions increases",
        f"the largest jump of the slope is {said}",
        SHARPENED if falling else CORRECTED,
        "A sum of k losses is at an atom only if all k steps are, which has probability "
        f"{sum(STEP.atoms):.4f}^k without the record: the breaks fade geometrically, faster than the sum "
        "gets normal.",
    )


def claim_draws() -> PaperClaim:
    """The paper's formula with the paper's numbers."""
    needed = tr.draws_needed(alpha=ALPHA, beta=BETA, points=POINTS)
    other = tr.draws_needed(alpha=ALPHA, beta=10 * BETA, points=POINTS)
    return PaperClaim(
        "Sec. 5, Monte Carlo",
        f"error {ALPHA:g} except with probability {BETA:g}, at {POINTS} values of ε at once, needs N = "
        f"{curves.PRINTED_DRAWS:,}",
        f"the paper's formula gives {needed:,}",
        AGREES if needed == curves.PRINTED_DRAWS else CORRECTED,
        f"It gives {other:,} where the probability of failure is {10 * BETA:g}"
        + (
            ", and that is what is printed: with so many draws the conclusion holds at 90 %."
            if other == curves.PRINTED_DRAWS
            else "."
        ),
    )


def claim_densities() -> PaperClaim:
    """What the figure's losses would be with the printed densities."""
    gaussian = tr.privacy_curve(
        tr.Step(tr.Gaussian(noise_multiplier=SCALE), tr.Poisson(rate=RATE)) * 2, relation=tr.ADD
    ).delta(0.25)
    laplace = Lattice(STEP, 2, 1 << 14).add(0.25)
    apart = gaussian.upper < laplace.lower or laplace.upper < gaussian.lower
    return PaperClaim(
        "Sec. 5, Monte Carlo",
        "the outputs have normal densities",
        f"Laplace densities: δ of add at ε = 0.25, k = 2 is {show(laplace, 6)}; normal ones of the same "
        f"scale would give {show(gaussian, 6)}",
        CORRECTED if apart else AGREES,
        "The paragraph describes the figure of the Laplace mechanism. With normal noise there is nothing "
        "to see: remove dominates add at any number of steps (Conjecture 12, now a theorem).",
    )


def claim_simulation(found: Sequence[Panel], workload: Workload) -> PaperClaim:
    """The simulation beside the brackets."""
    curves = [curve for panel in found for curve in (panel.add, panel.remove)]
    held, asked = sum(curve.held for curve in curves), sum(len(curve.estimates) for curve in curves)
    error = max(curve.largest_error for curve in curves)
    margin = max(
        max(each.upper - each.value, each.value - each.lower) for curve in curves for each in curve.estimates
    )
    return PaperClaim(
        "Fig. 1, Monte Carlo",
        f"estimates are within 0.001 of the truth at all {POINTS} values of ε, with probability 99 %",
        f"{held} of {asked} intervals contain the whole certified bracket; the largest error is "
        f"{at_most(error, 3)}, allowed are {at_most(margin, 3)} with {workload.draws:,} draws",
        AGREES if held == asked else CORRECTED,
    )


def save_table(found: Sequence[Panel], folder: Path) -> Path:
    """All numbers of the picture: lines have no simulation."""
    rows: list[list[object]] = []
    for panel in found:
        for name, curve in panel.curves:
            lines = zip(curve.epsilons, curve.brackets, strict=True)
            rows += [[panel.steps, name, at, b.lower, b.upper, None, None, None, None] for at, b in lines]
            points = zip(curve.simulated_at, curve.certified, curve.estimates, strict=True)
            rows += [
                [panel.steps, name, at, b.lower, b.upper, e.value, e.lower, e.upper, e.draws]
                for at, b, e in points
            ]
    heading = ("steps", "direction", "epsilon", "delta_lower", "delta_upper", "simulated")
    return save_rows(folder / "figure-1.csv", (*heading, "simulated_lower", "simulated_upper", "draws"), rows)


def passage(found: Sequence[Panel], leads: Sequence[Lead], lattice: Lattice, workload: Workload) -> str:
    """The setting, the crossings, the bends."""
    widest = max(
        each.width for panel in found for curve in (panel.add, panel.remove) for each in curve.brackets
    )
    agreed, asked = curves.count_agreeing(found)
    crossing_rows = [["k", "crossing, certified", "interval's width"]]
    crossing_rows += [
        [str(each.steps), show(each.crossing, DIGITS), at_most(each.crossing.width, 2)]
        for each in leads
        if each.crossing is not None
    ]
    bend_rows = [["distance in ε", "difference of the slopes left and right, k = 2"]]
    bend_rows += [
        [f"{distance:g}", show(curves.bend(lattice, curves.clearest_break(2).epsilon, distance), 7)]
        for distance in DISTANCES
    ]
    return (
        f"Laplace noise of scale {SCALE:g}, Poisson sampling at rate {RATE:g}; the paper prints neither, and "
        "names ε = 0.25 and 1.5 as telling points, of which the second lies beyond all losses of two such "
        f"steps. Lines are certified brackets, drawn with both ends: the widest is {at_most(widest, 2)} "
        f"wide, which no eye can see. The simulation is the paper's, with {workload.draws:,} plain draws for "
        f"each curve and Hoeffding intervals.\n\n{markdown_table(crossing_rows)}\n\nThe crossings rest on a "
        "second computation, a lattice of likelihood ratios with an explicit bound on what it adds "
        f"({lattice.cells:,} cells a step); its brackets overlap those of the engines at {agreed} of {asked} "
        f"points of the lines. At every other k up to {len(leads)} remove is larger at every ε > 0 at which "
        f"it is not 0.\n\n{markdown_table(bend_rows)}"
    )


def make(making: Making) -> Made:
    """Pictures, numbers and claims."""
    workload = curves.QUICK if making.quick else curves.WHOLE
    found = curves.make_panels(workload, making)
    leads = curves.find_leads(workload, making)
    lattice = Lattice(STEP, 2, workload.cells)
    crossings = {each.steps: each.crossing for each in leads if each.crossing is not None}
    pictures = save_picture(
        lambda figure: draw(figure, found, crossings), making.folder, "figure-1", inches=INCHES
    )
    claims = (
        claim_crossing(leads),
        claim_not_preserved(leads),
        claim_most_apparent(leads),
        claim_for_all_steps(leads),
        claim_break(lattice),
        claim_vanishing(),
        claim_draws(),
        claim_densities(),
        claim_simulation(found, workload),
    )
    caption = (
        "Above: the privacy curves, lines certified, points simulated. Below: add minus remove, positive "
        "where remove does not dominate. Bars are what the simulation allows at 99 %, for all points of a "
        "curve together."
    )
    files = (*pictures, save_table(found, making.folder))
    return Made(claims, files, (caption,), passage(found, leads, lattice, workload))


ITEM = Item("figure-1", "Fig. 1: Laplace noise, add against remove", make)
