"""Ledgers that the tests share."""

from typing import Any

import tightrope as tr
from tightrope.answers.ledger import Ledger

POISSON = tr.Poisson(rate=1e-3)
STEP = tr.Step(tr.Gaussian(noise_multiplier=0.8), POISSON)
RELEASE = tr.Step(tr.Laplace(noise_multiplier=4), tr.EveryRecord())
TABLE = tr.Step(
    tr.Finite(observed=[0.75, 0.25], alternative=[0.25, 0.75]), tr.WithoutReplacement(batch=1, population=9)
)


def ledger(*runs: tr.Run | tr.Step, **options: Any) -> Ledger:
    made = Ledger(**{"relation": tr.ADD_OR_REMOVE, **options})
    for run in runs:
        made.record(run)
    return made


def mixed() -> Ledger:
    return ledger(STEP * 9_000, RELEASE * 5, TABLE, STEP * 7)


def small() -> Ledger:
    return ledger(STEP * 3, RELEASE)
