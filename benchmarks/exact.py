"""How long exact integers take, and whether they agree with the certified brackets and the oracle.

`--oracle` asks every published reference value instead, and `--random 300` so many random settings as people
use them, both to a width of 0.01 in epsilon. `python -m fuzz --kind exact` draws from every corner.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import tightrope as tr
from measuring import aligned, progress
from oracle_cases import Case, load
from precise import mp
from tightrope.curve.digits import ends

NOISY = tr.Gaussian(noise_multiplier=0.8)
TRAINING = tr.Step(NOISY, tr.Poisson(rate=0.001)) * 10_000
BATCHES = tr.Step(NOISY, tr.WithoutReplacement(batch=50, population=50_000)) * 10_000
LAPLACE = tr.Laplace(noise_multiplier=1)
RESPONSE = tr.RandomizedResponse(truth_probability=0.75)
MIXED = (
    TRAINING + tr.Step(LAPLACE, tr.Poisson(rate=0.01)) * 100 + tr.Step(RESPONSE, tr.Poisson(rate=0.1)) * 10
)
QUESTIONS = (
    ("poisson", TRAINING, tr.ADD_OR_REMOVE, 1e-3),
    ("poisson", TRAINING, tr.SUBSTITUTE, 1e-3),
    ("50 of 50,000", BATCHES, tr.ADD_OR_REMOVE, 1e-3),
    ("50 of 50,000", BATCHES, tr.SUBSTITUTE, 1e-3),
    ("two Laplace steps", tr.Step(LAPLACE, tr.EveryRecord()) * 2, tr.ADD_OR_REMOVE, 1e-6),
    ("two sampled Laplace steps", tr.Step(LAPLACE, tr.Poisson(rate=0.5)) * 2, tr.ADD_OR_REMOVE, 1e-6),
    ("a mixed run", MIXED, tr.ADD_OR_REMOVE, 1e-3),
    ("a million steps", tr.Step(NOISY, tr.Poisson(rate=1e-4)) * 10**6, tr.ADD_OR_REMOVE, 1e-3),
)
BRIEFLY = tr.Exact(width=0.01)
MARGIN = 1e-12  # relative, of the oracle's epsilon and delta as floats


def measure(name: str, run: tr.Run, relation: tr.Relation, width: float) -> list[str]:
    """One row: seconds of CPU, the bracket at delta 1e-6, and how far its ends are from certified ones."""
    start = time.process_time()
    found = tr.epsilon(run, delta=1e-6, relation=relation, by=tr.Exact(width=width))
    seconds = time.process_time() - start
    certified = tr.epsilon(run, delta=1e-6, relation=relation)
    apart = max(abs(found.lower - certified.lower), abs(found.upper - certified.upper))
    agree = "yes" if found.lower <= certified.upper and certified.lower <= found.upper else "NO"
    shown = f"[{', '.join(ends(found, 8))}]"
    return [name, str(relation), f"{width:g}", f"{seconds:.1f}", shown, f"{apart:.1e}", agree]


def overlap(one: tr.Bracket, other: tr.Bracket) -> bool:
    """Whether both can hold the truth."""
    return one.lower <= other.upper and other.lower <= one.upper


def agrees(case: Case) -> bool:
    """Whether both brackets hold the published value and overlap."""
    epsilon, truth = float(case.epsilon), float(mp.log(case.delta))
    exact, certified = (
        tr.privacy_curve(case.run, relation=case.relation, by=by).log_delta(epsilon)
        for by in (BRIEFLY, tr.Certified())
    )
    margin = MARGIN * (1 + abs(truth)) if math.isfinite(truth) else 0.0
    # under SUBSTITUTE the published value is that of one adversary: no upper end lies below it
    holds = truth <= exact.upper + margin and (case.witness is not None or exact.lower - margin <= truth)
    return holds and overlap(exact, certified)


def draw_step(rng: Random) -> tr.Step:
    """A step of any mechanism and sampling, with noise, rates and batches as people use them."""
    truth, population = rng.uniform(0.55, 0.95), rng.choice((100, 10_000, 60_000))
    mechanisms: tuple[Callable[[], object], ...] = (
        lambda: tr.Gaussian(noise_multiplier=10 ** rng.uniform(-0.3, 1)),
        lambda: tr.Laplace(noise_multiplier=10 ** rng.uniform(-0.3, 1)),
        lambda: tr.RandomizedResponse(truth_probability=truth),
        lambda: tr.Finite(
            observed=[truth, 0.75 - truth * 0.75, 0.25 - truth * 0.25], alternative=[0.25, 0.25, 0.5]
        ),
    )
    samplings: tuple[Callable[[], object], ...] = (
        lambda: tr.Poisson(rate=10 ** rng.uniform(-4, -0.3)),
        lambda: tr.WithoutReplacement(batch=rng.randint(1, population // 10), population=population),
        tr.EveryRecord,
    )
    return tr.Step(rng.choice(mechanisms)(), rng.choice(samplings)())  # type: ignore[arg-type]


def draw_agreement(place: int) -> bool | None:
    """Whether both brackets of epsilon overlap for one random run with a theorem; None if one is refused."""
    rng = Random(f"exact:{place}")
    while True:
        kinds = rng.choice((1, 1, 1, 2, 3))
        run = sum((draw_step(rng) * int(10 ** rng.uniform(0, 4)) for _ in range(kinds)), tr.Run())
        relation = rng.choice((tr.ADD, tr.REMOVE, tr.ADD_OR_REMOVE, tr.SUBSTITUTE))
        delta = 10 ** rng.uniform(-10, -2)
        try:
            certified = tr.epsilon(run, delta=delta, relation=relation)
            return overlap(certified, tr.epsilon(run, delta=delta, relation=relation, by=BRIEFLY))
        except tr.NoTheorem:
            continue
        except tr.NotPreciseEnough:
            return None


def ask_all(names: Sequence[str], agree: Callable[[int], bool | None]) -> int:
    """Ask every question by its place, and print how many agree; 1 if any does not."""
    found: list[bool | None] = []
    seconds = []
    for place, name in enumerate(names):
        progress(place, len(names), name)
        start = time.process_time()
        found.append(agree(place))
        seconds.append(time.process_time() - start)
    progress(len(names), len(names), "")
    spent = f"{math.fsum(seconds):.0f} s of CPU, the slowest {max(seconds):.1f} s"
    refused = found.count(None)
    print(f"{found.count(True)} of {len(found) - refused} agree, {refused} refused ({spent}).")
    for name, is_right in zip(names, found, strict=True):
        if is_right is False:
            print(f"disagrees: {name}")
    return int(False in found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or ask the oracle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", action="store_true", help="ask every published reference value")
    parser.add_argument("--random", type=int, metavar="N", help="ask about N random settings")
    asked = parser.parse_args(arguments)
    if asked.oracle:
        cases = load()
        return ask_all([case.id for case in cases], lambda place: agrees(cases[place]))
    if asked.random:
        return ask_all([f"setting {place}" for place in range(asked.random)], draw_agreement)
    heading = ["run", "relation", "width", "CPU s", "epsilon at delta 1e-6", "from certified", "overlap"]
    print(aligned([heading, *(measure(*question) for question in QUESTIONS)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
