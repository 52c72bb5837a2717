"""The closing conjecture, that under SUBSTITUTE the Gaussian curve is REMOVE's: false, and by how little."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import tightrope as tr
from reproduction.markdown import markdown_table
from reproduction.paper.closing_map import AT_DELTA, MapCell, Place, percent, solve
from reproduction.paper.closing_picture import draw, inches
from reproduction.paper.item import AGREES, CORRECTED, SHARPENED, UNDECIDED, Item, Made, Making, PaperClaim
from reproduction.paper.numbers import at_least, at_most, save_rows, show
from reproduction.paper.pictures import save_picture
from tightrope.curve.digits import ends

RATES, NOISES, STEPS = (0.001, 0.05, 0.5), (0.8, 2.0, 6.0), (10, 100, 1000)
CHEAP: tuple[Place, ...] = ((0.5, 2.0, 10), (0.5, 6.0, 10))
NAME = "closing-conjecture"
COLUMNS = "rate,noise,steps,delta,remove_upper,lower,upper,envelope_upper,adaptive_gain,envelope_gap,certain"
EPSILONS = (0.0, 0.02)
PROOF = "../src/tightrope/theorems/proofs/refuted_beliefs.md"
GAME = "../src/tightrope/theorems/proofs/substitution_game.md"


@dataclass(frozen=True)
class FixedExample:
    """delta at one epsilon: two steps of 5 records in batches of 4 with noise 3.

    `exchanged` is the divergence of the datasets (0,0,0,0,1) and (0,0,0,0,-1); `adaptive` brackets the whole
    SUBSTITUTE curve.
    """

    epsilon: float
    remove: tr.Bracket
    exchanged: tr.Bracket
    adaptive: tr.Bracket

    @property
    def refutes(self) -> bool:
        """Whether these datasets, without any adaptivity, certainly lose more than REMOVE."""
        return self.exchanged.lower > self.remove.upper

    @property
    def refutes_adaptively(self) -> bool:
        """Whether an adversary who sees the first output certainly does."""
        return self.adaptive.lower > self.remove.upper


def compute_example(epsilon: float) -> FixedExample:
    """The first counterexample at one epsilon.

    A batch of 4 holds the last of 5 records with probability 4/5 and else sums to 0, so each step of these
    datasets has the law of Poisson sampling at rate 4/5 under SUBSTITUTE, which is attained by the same
    records.
    """
    noise = tr.Gaussian(noise_multiplier=3)
    run = tr.Step(noise, tr.WithoutReplacement(batch=4, population=5)) * 2
    alike = tr.Step(noise, tr.Poisson(rate=0.8)) * 2
    return FixedExample(
        epsilon,
        tr.delta(run, epsilon=epsilon, relation=tr.REMOVE, by=tr.Certified(accuracy=1e-8)),
        tr.delta(alike, epsilon=epsilon, relation=tr.SUBSTITUTE, by=tr.Certified(accuracy=1e-8)),
        tr.delta(run, epsilon=epsilon, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.TIGHT)),
    )


def make(making: Making) -> Made:
    """Both counterexamples, and the map of how much an adaptive adversary gains."""
    examples = [compute_example(epsilon) for epsilon in EPSILONS]
    places = CHEAP if making.quick else tuple(itertools.product(RATES, NOISES, STEPS))
    cells = making.work_through("cells", solve, places)
    pictures = save_picture(lambda figure: draw(figure, cells), making.folder, NAME, inches=inches(cells))
    table = save_rows(making.folder / f"{NAME}.csv", COLUMNS.split(","), map(_row, cells))
    return Made(_claims(examples, cells), (*pictures, table), (CAPTION,), _passage(examples, cells))


def _row(cell: MapCell) -> list[str]:
    epsilons = [ends(cell.remove)[1], *ends(cell.substitute), ends(cell.envelope)[1]]
    certain = "yes" if cell.is_certain else "no"
    place = [f"{cell.rate:g}", f"{cell.noise:g}", str(cell.steps), AT_DELTA]
    return [*place, *epsilons, at_least(cell.gain, 4), at_least(cell.gap, 4), certain]


def _claims(examples: Sequence[FixedExample], cells: Sequence[MapCell]) -> tuple[PaperClaim, ...]:
    first = examples[0]
    beaten = [cell for cell in cells if cell.is_certain]
    most = max(cells, key=lambda cell: cell.gain)
    worst_gap = max(cells, key=lambda cell: cell.gap)
    widths = [cell.substitute.relative_width for cell in cells]
    closed = all(cell.substitute.upper < cell.envelope.upper for cell in cells)
    statement = "for Gaussian noise without replacement the SUBSTITUTE curve is REMOVE's for epsilon >= 0"
    return (
        PaperClaim(
            "Sec. 8, closing conjecture: datasets fixed in advance",
            statement,
            f"delta({first.epsilon:g}) of (0,0,0,0,1) and (0,0,0,0,-1), batches of 4, noise 3, two steps, "
            f"is in {show(first.exchanged)}, and REMOVE's in {show(first.remove)}",
            CORRECTED if any(example.refutes for example in examples) else UNDECIDED,
            "The lower end of one is above the upper end of the other: at a high rate, shared records of 0 "
            "beat shared records opposite to the differing one once two steps are composed.",
        ),
        PaperClaim(
            "Sec. 8, closing conjecture: adaptive queries",
            statement,
            f"an adaptive adversary certainly beats REMOVE in {len(beaten)} of {len(cells)} settings at "
            f"delta {AT_DELTA}; the largest certain gain in epsilon is {percent(most.gain)} ({most})",
            CORRECTED if beaten or any(example.refutes_adaptively for example in examples) else UNDECIDED,
            "After removals that lost more than the whole epsilon, what remains is an order below 1, where "
            "an addition loses strictly more than a removal: the adversary switches. So the conjecture "
            "fails for every rate strictly between 0 and 1, every noise, two or more steps and every "
            "epsilon >= 0; as an approximation it is very good. For queries that are fixed in advance and "
            "rates up to 1/2 it is open.",
        ),
        PaperClaim(
            "Sec. 8, after Fig. 4",
            "the gap between REMOVE and the composed envelope motivates future work",
            f"the certified bracket is at most {at_most(100 * statistics.median(widths), 2)} % wide in the "
            f"median and {at_most(100 * max(widths), 3)} % anywhere. The envelope is furthest above its "
            f"upper end, by at least {percent(worst_gap.gap)}, at {worst_gap}",
            SHARPENED if closed else AGREES,
        ),
    )


def _passage(examples: Sequence[FixedExample], cells: Sequence[MapCell]) -> str:
    rows = [["epsilon", "REMOVE", "(0,0,0,0,1) against (0,0,0,0,-1), fixed", "SUBSTITUTE, adaptive"]]
    rows += [[f"{e.epsilon:g}", show(e.remove), show(e.exchanged), show(e.adaptive)] for e in examples]
    gains = [cell.gain for cell in cells]
    gaps = [cell.gap for cell in cells]
    return "\n\n".join(
        [
            f"Two counterexamples ([proofs]({PROOF})). *Fixed datasets:* 5 records, batches of 4, noise 3, "
            "two steps; delta, certified:",
            markdown_table(rows),
            f"*Adaptive queries:* SUBSTITUTE is played as a game ([why it is exact]({GAME})), from below "
            f"with one adversary's actual policy. At delta {AT_DELTA} its certified lower end is above "
            f"REMOVE's upper end in {sum(cell.is_certain for cell in cells)} of {len(cells)} settings; the "
            f"certain gain in epsilon, rounded down, is {percent(statistics.median(gains))} in the median "
            f"and {percent(max(gains))} at its largest. The paper's envelope, valid and composed, is at "
            f"least {percent(statistics.median(gaps))} above the certified upper end in the median and at "
            f"least {percent(max(gaps))} where it is loosest.",
            _list_cells(cells),
        ]
    )


def _list_cells(cells: Sequence[MapCell]) -> str:
    names = ("REMOVE", "SUBSTITUTE, certified", "envelope", "adaptive gain", "envelope above")
    rows = [["rate", "noise", "steps", *names]]
    for cell in cells:
        gain = percent(cell.gain) if cell.is_certain else "not certain"
        remove, envelope = at_most(cell.remove.upper, 6), at_most(cell.envelope.upper, 6)
        numbers = [remove, show(cell.substitute), envelope, gain, percent(cell.gap)]
        rows.append([f"{cell.rate:g}", f"{cell.noise:g}", f"{cell.steps:,}", *numbers])
    return markdown_table(rows)


CAPTION = (
    f"How wrong the closing conjecture is, in epsilon at delta {AT_DELTA}. Above: by how much an adaptive "
    "adversary certainly beats REMOVE. Below: by how much the paper's envelope exceeds the certified upper "
    "end. Darker is more."
)
ITEM = Item(NAME, "The closing conjecture: substitution without replacement is not REMOVE", make)
