"""What fixed-size batches lose when a record is exchanged: the numbers of docs/findings/substitution.md.

Each row of the grid is written as soon as it is known, and rows that are there already are kept: a run that
was stopped goes on where it was. `--fresh` starts anew. Upper ends are rounded up and lower ends down.
"""

import argparse
import csv
import itertools
import math
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path

import tightrope as tr
from tightrope.curve.digits import ends
from tightrope.engines.game.above import Window
from tightrope.engines.game.below import GameBelow, label_law, triangle_law
from tightrope.engines.game.layout import USUAL
from tightrope.engines.game.pooling import cover_triangles, largest_loss
from tightrope.engines.game.substitution import ignore_progress
from tightrope.files import write_whole
from tightrope.numerics.text import round_outwards
from tightrope.pairs.exchange import Exchange
from tightrope.pairs.mixture import Noise

DELTA = 1e-5
TIGHTLY = tr.Certified(effort=tr.TIGHT)
RATES, NOISES, STEPS = (0.001, 0.05, 0.5), (0.8, 2.0, 6.0), (10, 100, 1000)
# a minute or two each
LONG = ((0.001, 0.8, 10_000), (0.05, 2.0, 10_000), (0.05, 4.0, 10_000), (0.5, 6.0, 10_000))
BETWEEN = ((0.001, 0.5), (0.001, 0.8), (0.1, 0.8), (0.5, 0.8), (0.5, 1.0), (0.05, 2.0), (0.05, 4.0))
POPULATION = 1000
WIDE = 0.005  # the width of epsilon, relative to it, above which a case is named
FIGURE_4 = (0.05, 4.0, 1000)


@dataclass(frozen=True)
class Case:
    """One setting at DELTA: REMOVE's epsilon, both ends of the certified bracket, the paper's envelope."""

    rate: float
    noise: float
    steps: int
    remove: float
    lower: float
    upper: float
    envelope: float
    seconds: float

    @property
    def width(self) -> float:
        """Relative to the upper end."""
        return 1 - self.lower / self.upper

    @property
    def gain(self) -> float:
        """By how much the adversary certainly beats REMOVE, relative to it; not certain below 0."""
        return self.lower / self.remove - 1

    @property
    def excess(self) -> float:
        """By how much the envelope exceeds the certified upper end, relative to it."""
        return self.envelope / self.upper - 1


def run_of(rate: float, noise: float, steps: int) -> tr.Run:
    """Batches of a fixed size, out of POPULATION."""
    sampling = tr.WithoutReplacement(batch=round(rate * POPULATION), population=POPULATION)
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling) * steps


def solve(rate: float, noise: float, steps: int) -> Case:
    """One row of the grid."""
    run = run_of(rate, noise, steps)
    remove = tr.epsilon(run, delta=DELTA, relation=tr.REMOVE)
    quick = tr.epsilon(run, delta=DELTA, relation=tr.SUBSTITUTE)
    start = time.process_time()
    tight = tr.epsilon(run, delta=DELTA, relation=tr.SUBSTITUTE, by=TIGHTLY)
    seconds = time.process_time() - start
    return Case(rate, noise, steps, remove.upper, tight.lower, tight.upper, quick.upper, seconds)


def read(path: Path) -> dict[tuple[float, float, int], Case]:
    """The rows that are known already."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [_case(row) for row in csv.DictReader(file)]
    return {(row.rate, row.noise, row.steps): row for row in rows}


def _case(row: dict[str, str]) -> Case:
    numbers = {name: float(text) for name, text in row.items() if name != "steps"}
    return Case(steps=int(row["steps"]), **numbers)


def grid(path: Path) -> list[Case]:
    """All rows, those that are missing solved and appended."""
    known = read(path)
    wanted = sorted([*itertools.product(RATES, NOISES, STEPS), *LONG])
    if not known:
        write_whole(path, (",".join(f.name for f in fields(Case)) + "\n").encode(), what="rows")
    missing = sorted(
        (key for key in wanted if key not in known), key=lambda key: key[2]
    )  # the quick ones first
    for number, key in enumerate(missing, start=1):
        print(f"{number} of {len(missing)}: {key}", file=sys.stderr)
        known[key] = solve(*key)
        with path.open("a", newline="") as file:
            csv.writer(file).writerow(asdict(known[key]).values())
    return [known[key] for key in wanted]


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def at_least(value: float, digits: int) -> str:
    """Rounded down."""
    return round_outwards(value, digits, up=False)


def at_most(value: float, digits: int) -> str:
    """Rounded up."""
    return round_outwards(value, digits, up=True)


def gain_in_words(gain: float) -> str:
    """What is certainly gained."""
    return f"{at_least(100 * gain, 2)} %" if gain > 0 else "not certain"


def figure_4() -> str:
    """The paper's Fig. 4."""
    run = run_of(*FIGURE_4)
    remove, quick, tight = (
        tr.privacy_curve(run, relation=relation, by=tr.Certified(effort=effort))
        for relation, effort in ((tr.REMOVE, tr.QUICK), (tr.SUBSTITUTE, tr.QUICK), (tr.SUBSTITUTE, tr.TIGHT))
    )
    found = tight.epsilon(DELTA)
    ((ours, central, plain),) = tr.privacy_curve(run, relation=tr.SUBSTITUTE, by=tr.Renyi()).bounds(DELTA)
    epsilons = table(
        ["accountant", "epsilon at delta 1e-5"],
        [
            ["REMOVE, the paper's conjectured answer", at_most(remove.epsilon(DELTA).upper, 5)],
            ["certified, lower end: one adaptive adversary", at_least(found.lower, 5)],
            ["certified, upper end: every adaptive adversary", at_most(found.upper, 5)],
            ["the paper's envelope", at_most(quick.epsilon(DELTA).upper, 5)],
            ["Rényi, from the envelope's moments", at_most(ours.upper, 5)],
            ["Rényi, Wang et al. Thm 27", at_most(central.upper, 5)],
            ["Rényi, Wang et al. Thm 9", at_most(plain.upper, 5)],
        ],
    )
    rows = []
    for epsilon in range(7):
        removed, loose, bracket = (curve.delta(float(epsilon)) for curve in (remove, quick, tight))
        rows.append(
            [
                str(epsilon),
                at_most(removed.upper, 4),
                *ends(bracket, 4),
                f"{at_most(100 * bracket.relative_width, 2)} %",
                at_most(loose.upper, 4),
                at_least(loose.upper / bracket.upper, 3),
                gain_in_words(bracket.lower / removed.upper - 1),
            ]
        )
    heading = ["epsilon", "REMOVE", "lower end", "upper end", "width", "envelope"]
    heading += ["envelope / upper end", "adaptive gain"]
    return f"{epsilons}\n\n{table(heading, rows)}"


def grid_table(cases: Sequence[Case]) -> str:
    """All settings."""
    rows = [
        [
            f"{case.rate:g}",
            f"{case.noise:g}",
            f"{case.steps:,}",
            at_most(case.remove, 5),
            at_least(case.lower, 5),
            at_most(case.upper, 5),
            f"{at_most(100 * case.width, 2)} %",
            at_most(case.envelope, 5),
            gain_in_words(case.gain),
            f"{case.seconds:.0f}",
        ]
        for case in cases
    ]
    heading = [
        "rate",
        "noise",
        "steps",
        "REMOVE",
        "lower",
        "upper",
        "width",
        "envelope",
        "adaptive gain",
        "CPU seconds",
    ]
    return table(heading, rows)


def wide_ones(cases: Sequence[Case]) -> str:
    """The cases above the target width, each by name."""
    wide = [case for case in cases if case.width > WIDE]
    named = "; ".join(
        f"rate {c.rate:g}, noise {c.noise:g}, {c.steps:,} steps ({at_most(100 * c.width, 2)} %)" for c in wide
    )
    return f"Wider than {100 * WIDE:g} %: {named or 'none'}."


def grid_section(cases: Sequence[Case]) -> str:
    """What all settings say together, and the settings."""
    return GRID.format(
        median=at_most(100 * statistics.median(case.width for case in cases), 2),
        wide=wide_ones(cases),
        beaten=sum(case.gain > 0 for case in cases),
        count=len(cases),
        gain=at_least(100 * max(case.gain for case in cases), 2),
        loose=at_least(100 * statistics.median(case.excess for case in cases), 2),
        loosest=at_least(100 * max(case.excess for case in cases), 2),
        grid=grid_table(cases),
    )


def counterexample() -> str:
    """Two steps of 5 records with batches of 4: fixed datasets beat REMOVE."""
    fixed = tr.Step(tr.Gaussian(noise_multiplier=3), tr.Poisson(rate=0.8)) * 2
    run = tr.Step(tr.Gaussian(noise_multiplier=3), tr.WithoutReplacement(batch=4, population=5)) * 2
    rows = []
    for epsilon in (0.0, 0.02):
        brackets = [
            tr.delta(run, epsilon=epsilon, relation=tr.REMOVE, by=tr.Certified(accuracy=1e-8)),
            tr.delta(fixed, epsilon=epsilon, relation=tr.SUBSTITUTE, by=tr.Certified(accuracy=1e-8)),
            tr.delta(run, epsilon=epsilon, relation=tr.SUBSTITUTE, by=TIGHTLY),
        ]
        digits = zip(brackets, (10, 10, 5), strict=True)
        rows.append([f"{epsilon:g}", *(f"[{', '.join(ends(each, count))}]" for each, count in digits)])
    return table(
        ["epsilon", "REMOVE", "(0,0,0,0,1) against (0,0,0,0,-1), fixed", "adaptive, certified"], rows
    )


def in_between() -> str:
    """delta(0) of 20 steps with and without the best triangle between remove and add."""
    rows = []
    for rate, noise in BETWEEN:
        square = 1 / noise**2
        exchange = Exchange(Noise.NORMAL, Fraction(rate), Fraction(2 / noise))
        between = cover_triangles(exchange, USUAL.quality).best_between
        top = largest_loss(rate, square, 5.5)
        spacing = min(rate * math.sqrt(math.expm1(min(4 * square, 20.0))) / 10, top / 400)
        reach = math.ceil(top / spacing)
        window = Window(spacing=spacing, below=2 * reach, last=2 * reach, reach=reach, tilt=0.2)
        laws = [label_law(pair, spacing, reach) for pair in (exchange.remove, exchange.add)]
        two = math.exp(GameBelow(laws, window).play(20, ignore_progress).log_lower(0.0))
        if between is None:
            rows.append([f"{rate:g}", f"{noise:g}", "none gains", at_least(two, 5), "", ""])
            continue
        law = triangle_law(between, exchange, spacing)
        assert law is not None
        laws.append(law)
        three = math.exp(GameBelow(laws, window).play(20, ignore_progress).log_lower(0.0))
        sides = [math.sqrt(x) for x in (between.u, between.w, between.u + between.w - 2 * between.c)]
        shape = ", ".join(f"{side:.2f}" for side in sides)
        gain = f"{at_least(100 * (three / two - 1), 2)} %" if three > two else "none"
        rows.append([f"{rate:g}", f"{noise:g}", shape, at_least(two, 5), at_least(three, 5), gain])
    heading = [
        "rate",
        "noise",
        "sides x-a, x-a', a-a'",
        "delta(0), remove and add",
        "with the triangle",
        "gain",
    ]
    return table(heading, rows)


GRID = """## On a grid, delta 1e-5

The median width of epsilon is {median} %. {wide}

An adaptive adversary certainly beats REMOVE in {beaten} of {count} settings. The largest certain gain in
epsilon is {gain} %. The envelope exceeds the certified upper end by at least {loose} % in the median and by
at least {loosest} % where it is loosest. So the paper's closing conjecture is wrong, and numerically it is a
very good approximation.

{grid}"""
PAGE = """# Substitution without replacement

Batches of a fixed size, one record exchanged. Every number on this page is made by `make findings`
(`examples/substitution.py`). Upper ends, widths, REMOVE and the envelope are rounded up; lower ends, gains
and ratios are rounded down. The theory is in `theorems/proofs/substitution_game.md` and
`substitution_triangles.md`.

The lower end is reached by one adversary who chooses after seeing the earlier outputs. "Adaptive gain" is how
far it lies above the upper end of REMOVE. Where a gain is given, this adversary provably beats every run of
removals.

## The paper's Fig. 4: noise 4, batches of 50 out of 1,000, 1,000 steps

{figure_4}

{grid}

## Two counterexamples to the paper's closing conjecture

The conjecture: for Gaussian noise the curve under SUBSTITUTE is REMOVE's for epsilon >= 0.

Fixed datasets: 5 records, batches of 4, noise 3, two steps. The shared records are 0 and the exchanged one is
1 or -1, so a step is the pair of Poisson sampling at rate 4/5 under SUBSTITUTE, which is composed here to an
accuracy of 1e-8.

{counterexample}

Adaptive queries: every gain in the tables above. After a removal that lost more than the whole epsilon, what
remains is an order below 1, where an addition loses strictly more, so the adversary switches.

## Where triangles in between win

Twenty steps at epsilon 0. Both deltas are certified from below, and the gain compares the two. Near epsilon 0
and at low noise a record that is neither opposite nor equal to the others gains; at the epsilons of common
deltas it does not matter.

{in_between}
"""


def main(words: Sequence[str]) -> None:
    """Solve what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("docs/findings"), help="folder for the page and the grid's rows"
    )
    parser.add_argument("--fresh", action="store_true", help="solve every row of the grid anew")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = options.out / "substitution.csv"
    if options.fresh:
        rows.unlink(missing_ok=True)
    cases = grid(rows)
    page = PAGE.format(
        figure_4=figure_4(),
        grid=grid_section(cases),
        counterexample=counterexample(),
        in_between=in_between(),
    )
    write_whole(options.out / "substitution.md", page.encode(), what="page")
    print(options.out / "substitution.md")


if __name__ == "__main__":
    main(sys.argv[1:])
