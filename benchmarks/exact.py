"""How long exact integers take, and whether they agree with the certified brackets and the oracle.

`--oracle` asks every published reference value instead, to a width of 0.01 in epsilon. Random settings are
asked by `python -m fuzz --kind exact`.
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import tightrope as tr
from measuring import aligned, progress
from oracle_cases import Case, load
from precise import mp

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
MARGIN = 1e-12  # relative, of the oracle's epsilon and delta as floats


def measure(name: str, run: tr.Run, relation: tr.Relation, width: float) -> list[str]:
    """One row: seconds of CPU, the bracket at delta 1e-6, and how far its ends are from certified ones."""
    start = time.process_time()
    found = tr.epsilon(run, delta=1e-6, relation=relation, by=tr.Exact(width=width))
    seconds = time.process_time() - start
    certified = tr.epsilon(run, delta=1e-6, relation=relation)
    apart = max(abs(found.lower - certified.lower), abs(found.upper - certified.upper))
    agree = "yes" if found.lower <= certified.upper and certified.lower <= found.upper else "NO"
    ends = f"[{found.lower:.7f}, {found.upper:.7f}]"
    return [name, str(relation), f"{width:g}", f"{seconds:.1f}", ends, f"{apart:.1e}", agree]


def agrees(case: Case) -> bool:
    """Whether both brackets hold the published value and overlap."""
    epsilon, truth = float(case.epsilon), float(mp.log(case.delta))
    curves = (
        tr.privacy_curve(case.run, relation=case.relation, by=by)
        for by in (tr.Exact(width=0.01), tr.Certified())
    )
    exact, certified = (curve.log_delta(epsilon) for curve in curves)
    margin = MARGIN * (1 + abs(truth)) if math.isfinite(truth) else 0.0
    # under SUBSTITUTE the published value is that of one adversary: no upper end lies below it
    holds = truth <= exact.upper + margin and (case.witness is not None or exact.lower - margin <= truth)
    return holds and exact.lower <= certified.upper and certified.lower <= exact.upper


def ask_oracle() -> int:
    """Ask every reference value; 1 if any disagrees."""
    cases, seconds, wrong = load(), [], []
    for place, case in enumerate(cases):
        progress(place, len(cases), case.id)
        start = time.process_time()
        if not agrees(case):
            wrong.append(case.id)
        seconds.append(time.process_time() - start)
    progress(len(cases), len(cases), "")
    slowest = f"{math.fsum(seconds):.0f} s of CPU, the slowest {max(seconds):.1f} s"
    print(f"{len(cases) - len(wrong)} of {len(cases)} reference values agree ({slowest}).")
    print("\n".join(f"disagrees: {case}" for case in wrong), end="\n" if wrong else "")
    return int(bool(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or ask the oracle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", action="store_true", help="ask every published reference value")
    if parser.parse_args(arguments).oracle:
        return ask_oracle()
    heading = ["run", "relation", "width", "CPU s", "epsilon at delta 1e-6", "from certified", "overlap"]
    print(aligned([heading, *(measure(*question) for question in QUESTIONS)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
