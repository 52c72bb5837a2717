"""What one training run costs under every way to make its batches: the numbers of docs/findings/batching.md.

Each row is written as soon as it is known, and rows that are there already are kept: a run that was stopped
goes on where it was. `--fresh` starts anew. Upper ends are rounded up and lower ends down.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

from scipy.stats import binom

import tightrope as tr
from batching_picture import draw_picture
from tightrope.curve.digits import ends
from tightrope.files import write_whole
from tightrope.numerics.text import round_outwards
from tightrope.setting.sampling import Sampling

DELTA, RECORDS, BATCH = 1e-6, 100_000, 100
BATCHES = RECORDS // BATCH
NOISES, EPOCHS = (0.6, 0.8, 1.0, 2.0), (1, 10, 100)
CAP = 160  # the first multiple of 32 that is six standard deviations above BATCH
CAPS = (112, 128, 144, 160, 176)  # of the one run below
CAPPED_NOISE, CAPPED_EPOCHS = 0.8, 10
COLUMNS = ("sampling", "noise", "epochs", "at_most", "relation", "lower", "upper")
BOTH, ADDED = str(tr.ADD_OR_REMOVE), str(tr.ADD)
NAMES = {
    "balls-in-bins": "balls in bins",
    "poisson": "Poisson",
    "truncated-poisson": f"Poisson, at most {CAP}",
    "without-replacement": "without replacement",
    "shuffle": "shuffle",
    "every-record": "every record",
}


@dataclass(frozen=True, order=True)
class Question:
    """Epsilon at DELTA; `at_most` is 0 where batches have no cap."""

    sampling: str
    noise: float
    epochs: int
    at_most: int = 0
    relation: str = BOTH

    @property
    def command(self) -> str:
        """What answers it."""
        if self.sampling == "every-record":
            size = f"--steps {BATCHES * self.epochs}"
        else:
            size = f"--records {RECORDS} --batch {BATCH} --epochs {self.epochs}"
        cap = f" --at-most {self.at_most}" if self.at_most else ""
        asked = f"{size} --relation {self.relation} --delta 1e-6"
        return f"tightrope epsilon --noise {self.noise:g} --sampling {self.sampling}{cap} {asked}"


Answers = dict[Question, tr.Bracket]


def questions() -> list[Question]:
    """The grid, one run under several caps, and two batchings if a record is only ever added."""
    grid = [
        Question(sampling, noise, epochs, CAP if sampling == "truncated-poisson" else 0)
        for sampling, noise, epochs in product(NAMES, NOISES, EPOCHS)
    ]
    added = [
        Question(sampling, noise, epochs, relation=ADDED)
        for sampling, noise, epochs in product(("balls-in-bins", "poisson"), NOISES, EPOCHS)
    ]
    return list(dict.fromkeys([*grid, *map(capped, CAPS), *added]))


def capped(at_most: int) -> Question:
    """The run that is asked about with several caps."""
    return Question("truncated-poisson", CAPPED_NOISE, CAPPED_EPOCHS, at_most)


def ask(asked: Question) -> tr.Bracket:
    """Both certified ends."""
    if asked.sampling == "shuffle":
        plan = tr.Training(records=RECORDS, batch=BATCH, epochs=asked.epochs, sampling=tr.Poisson)
        return tr.epsilon_if_shuffled(
            plan, noise_multiplier=asked.noise, delta=DELTA, relation=tr.ADD_OR_REMOVE
        )
    rate = Fraction(BATCH, RECORDS)
    samplings: Mapping[str, Callable[[], Sampling]] = {
        "balls-in-bins": lambda: tr.BallsInBins(batches=BATCHES),
        "poisson": lambda: tr.Poisson(rate=rate),
        "truncated-poisson": lambda: tr.TruncatedPoisson(
            rate=rate, at_most=asked.at_most, population=RECORDS
        ),
        "without-replacement": lambda: tr.WithoutReplacement(batch=BATCH, population=RECORDS),
        "every-record": tr.EveryRecord,
    }
    step = tr.Step(tr.Gaussian(noise_multiplier=asked.noise), samplings[asked.sampling]())
    return tr.epsilon(step * (BATCHES * asked.epochs), delta=DELTA, relation=asked.relation)


def read(path: Path) -> Answers:
    """The rows that are known."""
    if not path.exists():
        return {}
    with path.open(newline="") as lines:
        return {
            Question(
                row["sampling"], float(row["noise"]), int(row["epochs"]), int(row["at_most"]), row["relation"]
            ): tr.Bracket(float(row["lower"]), float(row["upper"]))
            for row in csv.DictReader(lines)
        }


def answer_all(path: Path) -> Answers:
    """Every question; what is not in the file yet is added to it."""
    known = read(path)
    if not known:
        path.write_text(",".join(COLUMNS) + "\n")
    for asked in questions():
        if asked in known:
            continue
        found = known[asked] = ask(asked)
        question = (asked.sampling, f"{asked.noise:g}", asked.epochs, asked.at_most, asked.relation)
        with path.open("a", newline="") as lines:
            csv.writer(lines, lineterminator="\n").writerow((*question, found.lower, found.upper))
    return {asked: known[asked] for asked in questions()}


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, ["---"] * len(heading), *rows])


def say(found: tr.Bracket) -> str:
    """The upper end, or both where they differ by more than 0.1 %."""
    if found.lower > 0.999 * found.upper:
        return round_outwards(found.upper, 4, up=True)
    return " to ".join(ends(found, 4))


def grid_table(answers: Answers) -> str:
    """One row for each noise and number of epochs."""
    rows = []
    for noise, epochs in product(NOISES, EPOCHS):
        row = {key.sampling: say(found) for key, found in on_grid(answers, noise, epochs).items()}
        rows.append([f"{noise:g}", str(epochs), *(row[name] for name in NAMES)])
    return table(["noise", "epochs", *NAMES.values()], rows)


def on_grid(answers: Answers, noise: float, epochs: int, relation: str = BOTH) -> Answers:
    """What is answered about one training run; of the caps, CAP alone."""
    return {
        key: found
        for key, found in answers.items()
        if (key.noise, key.epochs, key.relation) == (noise, epochs, relation) and key.at_most in (0, CAP)
    }


def added_table(answers: Answers) -> str:
    """The settings in which an added record costs certainly more in bins than by Poisson sampling."""
    rows = []
    for noise, epochs in product(NOISES, EPOCHS):
        bins, poisson = added_pair(answers, noise, epochs)
        if certainly_above(bins, poisson) > 1:
            rows.append([f"{noise:g}", str(epochs), say(bins), say(poisson)])
    return table(["noise", "epochs", NAMES["balls-in-bins"], NAMES["poisson"]], rows)


def added_pair(answers: Answers, noise: float, epochs: int) -> tuple[tr.Bracket, tr.Bracket]:
    """Balls in bins and Poisson sampling, if a record is only ever added."""
    found = {key.sampling: bracket for key, bracket in on_grid(answers, noise, epochs, ADDED).items()}
    return found["balls-in-bins"], found["poisson"]


def cap_table(answers: Answers) -> str:
    """One run under ever larger caps."""
    rows = []
    for cap in CAPS:
        beyond = float(binom.sf(cap, RECORDS, BATCH / RECORDS))
        rows.append([str(cap), f"{beyond:.1e}", *ends(answers[capped(cap)], 4)])
    return table(["at most", "chance that more are drawn", "lower end", "upper end"], rows)


def range_of(
    answers: Answers, ratio: Callable[[tr.Bracket, tr.Bracket], float], sampling: str
) -> tuple[float, float]:
    """The smallest and the largest ratio of one batching and Poisson's, over the grid."""
    ratios = []
    for noise, epochs in product(NOISES, EPOCHS):
        found = {key.sampling: bracket for key, bracket in on_grid(answers, noise, epochs).items()}
        ratios.append(ratio(found[sampling], found["poisson"]))
    return min(ratios), max(ratios)


def certainly_above(found: tr.Bracket, other: tr.Bracket) -> float:
    """How many times the other's epsilon is the least that this one can be."""
    return found.lower / other.upper


def at_most_above(found: tr.Bracket, other: tr.Bracket) -> float:
    """How many times the other's epsilon is the most that this one can be."""
    return found.upper / other.lower


def factor(value: float, *, up: bool = False) -> str:
    """To three digits; what is certain is rounded down, what is possible up."""
    return round_outwards(value, 3, up=up)


def percent(share: float, *, up: bool = False) -> str:
    """To two digits."""
    return f"{round_outwards(100 * share, 2, up=up)} %"


PAGE = """# Every way to make batches

One training run: {records:,} records, batches of {batch} (on average), so {batches:,} batches in an
epoch, Gaussian noise, delta 1e-6, one record added or removed. How large epsilon is depends on how the
batches are made. Every number on this page is made by `make batching` (`examples/batching.py`), and one
by one by

    {command}

with another `--noise`, `--epochs` and `--sampling`: {spellings}.
For truncated-poisson add `--at-most {cap}`; every-record takes `--steps` in place of records, batch and
epochs. Upper ends are rounded up and lower ends down. All are proved: a run is as private as the upper end
says, and real neighbouring datasets reach the lower end.

![Epsilon by batching, noise and epochs](../figures/batching.png)

*Above: epsilon. The band is what is proved about shuffles. Below: how far balls in bins and capped
batches lie from Poisson sampling, in percent of its epsilon.* [As a pdf](../figures/batching.pdf).

- **Balls in bins**: in each epoch every record takes one of the {batches:,} batches, by itself.
- **Poisson**: in each step every record joins with probability {rate:g}, by itself.
- **Poisson, at most {cap}**: the same, and a batch keeps {cap} records, chosen at random from those that
  were drawn. The cap is the first multiple of 32 that is at least six standard deviations above the
  average batch.
- **Without replacement**: each batch is {batch} different records, drawn afresh in every step.
- **Shuffle**: in each epoch all records are put into a new order, which is cut into batches of {batch}.
  It is what most data loaders do.
- **Every record** takes part in every step: nothing is gained by sampling.

{grid}

Where a cell holds two numbers, the ends are more than 0.1 % apart; otherwise it holds the upper end.

## What is seen

**Balls in bins costs less than Poisson sampling** in all {count} settings: certainly by {bins_least}
where the two are closest and by {bins_most} where they are furthest apart, with the same noise, and every
record is used exactly once in an epoch. Whoever shuffles today can have it for the same effort
([training](../training.md) has `BallsInBinsSampler`). Why both are known so closely: in both, records
draw their batches by themselves, so that one theorem gives the worst pair
([participation](../../src/tightrope/theorems/proofs/participation.md)); for balls in bins its curve
is an integral in balls ([line_integrals](../../src/tightrope/theorems/proofs/line_integrals.md),
[ratio_moments](../../src/tightrope/theorems/proofs/ratio_moments.md)), or lies between those of two
finite pairs ([balls_in_bins](../../src/tightrope/theorems/proofs/balls_in_bins.md)).

**Of a record that is removed, bins tell less; of one that is added, more.** Epsilon under add-or-remove is
the worse of the two, which for Gaussian noise is always that of the removed record
([gaussian_remove_dominates_add](../theorems.md#gaussian_remove_dominates_add)). Under `--relation add`
alone balls in bins costs certainly more than Poisson sampling in {added_above} of the {count} settings,
by up to {added_most}:

{added}

So neither of the two dominates the other. That balls in bins is never above Poisson sampling at the same
rate is seen for epsilon under add-or-remove; it is not proved, and of one direction alone it is false.

**A shuffle costs more than Poisson sampling.** In all {count} settings the lower end, which real datasets
reach, lies above the epsilon of Poisson sampling: it is at least {shuffle_least} times as large where the
two are closest, and {shuffle_most} times where they are furthest apart. Between its ends lies a factor of
at most {shuffle_wide}. Whichever record is removed, the last batch of every epoch holds one record fewer:
that costs a full batch per epoch, unless an incomplete last batch is dropped and a record is left over
(`--drop-last`, [shuffles](shuffles.md#add-or-remove-the-last-batch)). An epsilon that was computed for
Poisson sampling says nothing about a run that shuffled.

**Batches of a fixed size are the expensive ones.** Sampling without replacement costs {fixed_least} to
{fixed_most} times what Poisson sampling does. Where a batch must be full, a record that is removed lets
another one in, and the sum moves by twice the clipping norm: it is the price of Poisson sampling at half
the noise. In the table, without replacement at noise 2 has the numbers of Poisson sampling at noise 1
([full_batches_push_out](../../src/tightrope/theorems/proofs/full_batches_push_out.md)).

**A cap costs next to nothing, if it is high enough.** With at most {cap} records in a batch of {batch} on
average, epsilon is at most {cap_excess} above that of Poisson sampling in every setting. Noise
{capped_noise:g} and {capped_epochs} epochs under other caps (`{cap_command}`):

{caps}

A batch that overflows pushes records out, which is the same effect as above; it costs nothing as long as
it is unlikely to happen in the whole run, compared with delta
([truncated_poisson](../../src/tightrope/theorems/proofs/truncated_poisson.md)). Whether real datasets
reach the upper end is not known; the lower end is Poisson sampling at the rate at which a record is drawn
and kept. Six standard deviations are enough here, for up to 100,000 steps at delta 1e-6. So take the cap
that the memory of the accelerator sets, and choose the average batch well below it.

**Without sampling there is no privacy here.** If every record takes part in every step, epsilon is
between {every_least} and {every_most}.

## What follows

- Draw by Poisson sampling or by balls in bins. The difference between them is a few percent; the
  difference between either and a shuffle is what decides.
- An epsilon without the way batches were made is half a statement: the same noise and the same number of
  epochs stand for {lowest} and for {highest} in the first row of the table.
- `tightrope audit` tells which of them a loader really does ([audit](../audit.md)).

How long these answers take, and how they compare with the public accountant for random allocation, is in
[benchmarks/](../../benchmarks/README.md#balls-in-bins).
"""


def make_page(answers: Answers) -> str:
    """The page that these answers make."""
    below = range_of(answers, at_most_above, "balls-in-bins")
    shuffled = range_of(answers, certainly_above, "shuffle")
    fixed = range_of(answers, certainly_above, "without-replacement")
    open_gaps = [found.upper / found.lower for key, found in answers.items() if key.sampling == "shuffle"]
    added = [added_pair(answers, noise, epochs) for noise, epochs in product(NOISES, EPOCHS)]
    every = [found.upper for key, found in answers.items() if key.sampling == "every-record"]
    first = {key.sampling: found for key, found in on_grid(answers, NOISES[0], EPOCHS[0]).items()}
    return PAGE.format(
        records=RECORDS,
        batch=BATCH,
        batches=BATCHES,
        rate=BATCH / RECORDS,
        cap=CAP,
        command=Question("balls-in-bins", 0.8, 10).command,
        cap_command=capped(CAPS[1]).command,
        spellings=", ".join(NAMES),
        grid=grid_table(answers),
        count=len(NOISES) * len(EPOCHS),
        bins_least=percent(1 - below[1]),
        bins_most=percent(1 - below[0]),
        added=added_table(answers),
        added_above=sum(certainly_above(bins, poisson) > 1 for bins, poisson in added),
        added_most=percent(max(certainly_above(*pair) for pair in added) - 1),
        shuffle_least=factor(shuffled[0]),
        shuffle_most=factor(shuffled[1]),
        shuffle_wide=factor(max(open_gaps), up=True),
        fixed_least=factor(fixed[0]),
        fixed_most=factor(fixed[1]),
        cap_excess=percent(range_of(answers, at_most_above, "truncated-poisson")[1] - 1, up=True),
        capped_noise=CAPPED_NOISE,
        capped_epochs=CAPPED_EPOCHS,
        caps=cap_table(answers),
        every_least=factor(min(every)),
        every_most=factor(max(every), up=True),
        lowest=say(first["balls-in-bins"]),
        highest=say(first["every-record"]),
    )


def main(words: Sequence[str]) -> None:
    """Answer what is missing, write the page and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("docs/findings"), help="folder for the page and its rows"
    )
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"), help="folder for the picture")
    parser.add_argument("--fresh", action="store_true", help="ask everything anew")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = options.out / "batching.csv"
    if options.fresh:
        rows.unlink(missing_ok=True)
    answers = answer_all(rows)
    lines = {
        (key.sampling, key.noise, key.epochs): (found.lower, found.upper)
        for noise, epochs in product(NOISES, EPOCHS)
        for key, found in on_grid(answers, noise, epochs).items()
    }
    draw_picture(lines, names=NAMES, noises=NOISES, epochs=EPOCHS, folder=options.figures)
    write_whole(options.out / "batching.md", make_page(answers).encode(), what="page")
    print(options.out / "batching.md")


if __name__ == "__main__":
    main(sys.argv[1:])
