"""What it costs to tune: the table of docs/tuning.md.

One run, the best of a random number of runs by Tightrope, by the formula of Koskela, Redberg and Wang 2024 on
the same certified curve, and by the Rényi bounds of Papernot and Steinke 2022, and composing them all. Upper
ends are rounded up, lower ends down.
"""

import math
from typing import Any

import numpy as np

import tightrope as tr
from tightrope.numerics.text import round_outwards
from tightrope.setting.trials import TruncatedNegativeBinomial, as_trials

RUN = tr.Step(tr.Gaussian(noise_multiplier=0.8), tr.Poisson(rate=1e-3)) * 10_000
DELTA, RELATION = 1e-6, tr.ADD_OR_REMOVE
LAWS = (
    "geometric:20",
    "negative-binomial:0.5:20",
    "logarithmic:20",
    "negative-binomial:-0.5:20",
    "poisson:20",
)
ORDERS = 1 + np.geomspace(0.05, 200, 200)
PLACES = np.linspace(0, 3, 301)


def published_epsilon(law: tr.TrialLaw) -> float:
    """The least epsilon with E[K] delta(epsilon - ln C) <= DELTA, both directions covered by one curve."""
    curve = tr.privacy_curve(RUN, relation=RELATION)
    needed = curve.epsilon(DELTA / law.expected).upper
    if isinstance(law, TruncatedNegativeBinomial):
        eta, weigh = float(law.exact_shape), (1 - law.gamma) / law.gamma
        ratios = [(1 + eta) * math.log(math.exp(x) + weigh * curve.delta(float(x)).upper) for x in PLACES]
        return needed + min(ratios)
    return needed + law.expected * curve.delta(0.0).upper


def renyi_epsilon(law: tr.TrialLaw) -> float:
    """Theorems 2 and 6 of Papernot and Steinke, turned into epsilon at DELTA at the best orders of many."""
    curve = tr.privacy_curve(RUN, relation=RELATION, by=tr.Renyi())
    spent = np.array([curve.divergence(float(order)).upper for order in ORDERS])
    more = math.log(law.expected) / (ORDERS - 1)
    if isinstance(law, TruncatedNegativeBinomial):
        n = 1 + float(law.exact_shape)
        total = spent + more + (n * ((1 - 1 / ORDERS) * spent + math.log(1 / law.gamma) / ORDERS)).min()
    else:  # at order 1 + 1 / (e^e - 1), delta(e) of one run
        certified = tr.privacy_curve(RUN, relation=RELATION)
        places = np.log1p(1 / (ORDERS - 1))
        total = spent + more + law.expected * np.array([certified.delta(float(x)).upper for x in places])
    return float((total + np.log1p(-1 / ORDERS) - (math.log(DELTA) + np.log(ORDERS)) / (ORDERS - 1)).min())


def write_row(law: str) -> str:
    """One law of the number of runs."""
    trials = as_trials(law)
    found = tr.epsilon(tr.tuned(RUN, trials=trials), delta=DELTA, relation=RELATION)
    ends = f"[{round_outwards(found.lower, 4, up=False)}, {round_outwards(found.upper, 4, up=True)}]"
    others = (round_outwards(bound(trials), 4, up=True) for bound in (published_epsilon, renyi_epsilon))
    return f"| {law} | {ends} | {' | '.join(others)} |"


def main() -> None:
    """Print the table and what it stands beside."""
    print("| law of the number of runs | Tightrope | Koskela, Redberg, Wang 2024 | Papernot, Steinke 2022 |")
    print("|---|---|---|---|")
    print("\n".join(map(write_row, LAWS)))
    one = tr.epsilon(RUN, delta=DELTA, relation=RELATION).upper
    all_runs = tr.epsilon(RUN * 20, delta=DELTA, relation=RELATION).upper
    one_run, composed_runs = (round_outwards(end, 4, up=True) for end in (one, all_runs))
    print(f"\nOne run: {one_run}. 20 runs composed: {composed_runs}.")
    target: Any = {"steps": 10_000, "epsilon": 1.0, "delta": DELTA, "relation": RELATION}
    noises = [
        tr.smallest_noise(tr.Poisson(rate=1e-3), trials=law, **target) for law in (None, "geometric:20")
    ]
    composed = tr.smallest_noise(tr.Poisson(rate=1e-3), **{**target, "steps": 200_000})
    alone, searched, together = (round_outwards(n.value, 4, up=True) for n in (*noises, composed))
    print(f"Noise for epsilon 1: {alone} for one run, {searched} for geometric:20, {together} for 20 runs.")


if __name__ == "__main__":
    main()
