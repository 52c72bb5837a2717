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


# What 0.7 and 0.8 wrote for the small ledger.
PARTS = """[
    {
      "mechanism": "gaussian",
      "noise_multiplier": 0.8,
      "sampling": "poisson",
      "rate": 0.001,
      "steps": 3
    },
    {
      "mechanism": "laplace",
      "noise_multiplier": 4.0,
      "sampling": "every-record",
      "steps": 1
    }
  ]"""
SAVED_BY_07 = f"""{{
  "format": "tightrope-ledger",
  "version": 1,
  "relation": "add-or-remove",
  "accuracy": 0.001,
  "trusting": "proved",
  "parts": {PARTS},
  "last": 1,
  "sha256": "260493f210f01b18b5b732c10aaf5432af4e3dd400f4bcc682e6c070994e88a5"
}}
"""
SAVED_BY_08 = f"""{{
  "format": "tightrope-ledger",
  "version": 2,
  "relation": "add-or-remove",
  "accuracy": 0.001,
  "effort": "quick",
  "parts": {PARTS},
  "last": 1,
  "sha256": "52518a862e18274c94a2dc4a970c9b5e127f6c3915241ed6bf86c87b1639a871"
}}
"""
