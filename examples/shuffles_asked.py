"""The questions of docs/findings/shuffles.md and their answers, each written down as soon as it is known."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import tightrope as tr
from shuffles_clones import bound_by_clones
from tightrope.setting.effort import QUICK, TIGHT
from tightrope.setting.sampling import Sampling

DELTA, BATCH = 1e-6, 1000
NOISES, BATCHES, EPOCHS = (0.5, 1.0, 2.0, 4.0, 8.0, 10.0), (50, 1000, 10_000, 100_000), (1, 10, 100)
LEAST_FOR_LEVELS = 1.6  # with less noise a bound for any batch size is no amplification
LEAST_FOR_SPARE = 1.0  # likewise where the size is known, or a place is spare
# What keeps the command short: below noise 2 lattices are long
MOST_FOR_LEVELS, LEAST_IN_TIME = 10_000, 2.0
BINS_NOISES, BINS_BATCHES = (1.0, 2.0, 4.0), 1000
PROTOTYPE = {  # upper ends of an earlier, unrounded computation of theorem 3: one epoch and ten
    (2.0, 100): (4.30, 7.47),
    (2.0, 1000): (0.85, 1.585),
    (2.0, 10_000): (0.235, 0.392),
    (4.0, 100): (0.355, 1.062),
    (4.0, 1000): (0.0925, 0.285),
    (4.0, 10_000): (0.034, 0.0816),
    (8.0, 100): (0.137, 0.494),
    (8.0, 1000): (0.037, 0.123),
}
ADDED_NOISES, ADDED_BATCHINGS = (1.0, 2.0, 4.0), ("thousand", "spare-place")
AS_GOOD_AS_NONE = 0.999  # of no amplification, from which on a bound is not shown
COLUMNS = ("batching", "noise", "batches", "epochs", "relation", "lower", "upper")
EXCHANGED, BOTH = str(tr.SUBSTITUTE), str(tr.ADD_OR_REMOVE)
NAMES = {
    "any-size": "any batch size",
    "thousand": f"batches of {BATCH:,}",
    "spare-place": "a spare place",
    "poisson": "Poisson",
    "balls-in-bins": "balls in bins",
    "told": "no amplification",
    "clones": "clones",
}


@dataclass(frozen=True, order=True)
class Question:
    """Epsilon at DELTA; `batches` is 1 where it does not matter."""

    batching: str
    noise: float
    batches: int
    epochs: int
    relation: str = EXCHANGED


Answers = dict[Question, tr.Bracket]


def questions() -> list[Question]:
    """The grid, the entries of the prototype, and the last batch under add-or-remove."""
    grid = [
        Question(batching, noise, 1 if batching == "told" else batches, epochs)
        for noise, batches, batching, epochs in product(NOISES, BATCHES, NAMES, EPOCHS)
        if is_asked(batching, noise, batches, epochs)
    ]
    earlier = [
        Question("any-size", noise, batches, epochs)
        for (noise, batches), epochs in product(PROTOTYPE, EPOCHS[:2])
        if not is_too_long("any-size", noise, batches)
    ]
    added = [
        Question(batching, noise, BATCH, epochs, BOTH)
        for noise, epochs, batching in product(ADDED_NOISES, EPOCHS, ADDED_BATCHINGS)
    ]
    return list(dict.fromkeys([*grid, *earlier, *added]))


def is_asked(batching: str, noise: float, batches: int, epochs: int) -> bool:
    """Whether an answer adds anything, and in time."""
    if batching == "clones":  # a composition would have to share delta among epochs
        return epochs == 1
    if is_too_long(batching, noise, batches):
        return False
    least = {"any-size": LEAST_FOR_LEVELS, "spare-place": LEAST_FOR_SPARE}
    return noise >= least.get(batching, 0)


def is_too_long(batching: str, noise: float, batches: int) -> bool:
    """Whether it is left out to keep the command short."""
    if batching == "any-size":
        return batches > MOST_FOR_LEVELS or LEAST_FOR_LEVELS <= noise < LEAST_IN_TIME
    return batching == "balls-in-bins" and (noise not in BINS_NOISES or batches != BINS_BATCHES)


def ask(asked: Question) -> tr.Bracket:
    """Both certified ends; of the clones, which have an upper end only, what the formula gives."""
    if asked.batching == "clones":
        found = bound_by_clones(noise=asked.noise, batches=asked.batches, delta=DELTA)
        return tr.Bracket(0.0, found)
    effort = TIGHT if asked.batching == "any-size" else QUICK
    return tr.epsilon(make_run(asked), delta=DELTA, relation=asked.relation, by=tr.Certified(effort=effort))


def make_run(asked: Question) -> tr.Run:
    """So many epochs of the batching."""
    samplings: Mapping[str, Callable[[], Sampling]] = {
        "any-size": lambda: tr.Shuffled(batches=asked.batches),
        "thousand": lambda: tr.Shuffled(batches=asked.batches, batch=BATCH),
        "spare-place": lambda: tr.Shuffled(batches=asked.batches, batch=BATCH, left_over=1),
        "poisson": lambda: tr.Poisson(rate=Fraction(1, asked.batches)),
        "balls-in-bins": lambda: tr.BallsInBins(batches=asked.batches),
        "told": tr.EveryRecord,
    }
    step = tr.Step(tr.Gaussian(noise_multiplier=asked.noise), samplings[asked.batching]())
    return step * (asked.batches * asked.epochs)


def read(path: Path) -> Answers:
    """The rows that are known."""
    if not path.exists():
        return {}
    with path.open(newline="") as lines:
        return {
            Question(
                row["batching"], float(row["noise"]), int(row["batches"]), int(row["epochs"]), row["relation"]
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
        question = (asked.batching, f"{asked.noise:g}", asked.batches, asked.epochs, asked.relation)
        with path.open("a", newline="") as lines:
            csv.writer(lines, lineterminator="\n").writerow((*question, found.lower, found.upper))
    return {asked: known[asked] for asked in questions()}


def told(answers: Answers, noise: float, epochs: int) -> tr.Bracket:
    """No amplification: an epoch is one step with every record."""
    return answers[Question("told", noise, 1, epochs)]


def upper(answers: Answers, batching: str, noise: float, batches: int, epochs: int) -> float:
    """The upper end; no amplification where that is all that is known."""
    found = answers.get(Question(batching, noise, batches, epochs))
    most = told(answers, noise, epochs).upper
    return most if found is None else min(found.upper, most)


def no_gain(answers: Answers, batching: str, noise: float, batches: int, epochs: int) -> bool:
    """Whether its upper end is that of no amplification."""
    found = upper(answers, batching, noise, batches, epochs)
    return found > AS_GOOD_AS_NONE * told(answers, noise, epochs).upper


def lower(answers: Answers, noise: float, batches: int, epochs: int) -> float:
    """What fixed queries reach, whatever the batches hold."""
    return answers[Question("thousand", noise, batches, epochs)].lower
