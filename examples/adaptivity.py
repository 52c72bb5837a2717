"""What it costs to choose steps on the way, after looking at outputs.

It writes docs/findings/adaptivity.md: a minute or two. For each menu it makes a filter, sets what fits beside
what would fit if it were fixed in advance, and plays a policy against a filter whose capacity is what each
entry alone would fill. Counts are whole, shares are rounded so that as much is certain.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import tightrope as tr
from tightrope.answers.filter_game import play_policy
from tightrope.answers.filter_rules import FilterRule, MenuQuestion, RuleKind
from tightrope.answers.free_filters import find_renyi_rule
from tightrope.files import write_whole
from tightrope.numerics.text import round_outwards

OPENING = """# What it costs to choose on the way

Made by `make adaptivity` (`examples/adaptivity.py`). A [filter](../filters.md) lets every step be chosen from
a menu after looking at what was released before. "Fixed in advance" is how often an entry fits the budget if
it is all that is ever taken and that is known beforehand; "chosen" is how often it fits a filter over the
whole menu; "by Rényi" is the same for a filter by Rényi divergences at its best order. The price is the
largest share of steps that an entry loses. The last column says what the price pays for: had the filter as
much capacity as each entry alone would fill, a policy that is played here reaches at least so many times the
budget's delta.

"""
CLOSING = """
The price is small where all entries lose little at a time, since sums of small losses are nearly normal, and
normal losses are chosen for free. It is large where one entry loses rarely and much, another often and
little: then it pays to gamble while nothing was lost yet. A policy comes as close to the delta that the game
certifies as the column before the last says, so the price is no artefact of the bound: it buys what the last
column shows.

Not shown: entries with other costs. The costs are such that each entry alone would last about as long as if
it were fixed in advance, so that all of them lose about the same share.
"""


@dataclass(frozen=True)
class Case:
    """A menu and its budget."""

    name: str
    menu: tuple[tr.Step, ...]
    epsilon: float
    relation: tr.Relation = tr.ADD_OR_REMOVE
    delta: float = 1e-5


def gaussian(noise: float, rate: float) -> tr.Step:
    """A step; at rate 1 on a full batch."""
    sampling = tr.Poisson(rate=rate) if rate < 1 else tr.EveryRecord()
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling)


CASES = (
    Case("full batches", (gaussian(40, 1), gaussian(20, 1)), 2),
    Case("two noises", (gaussian(2, 0.05), gaussian(1, 0.05)), 2),
    Case("two noises, exchanged", (gaussian(2, 0.05), gaussian(1, 0.05)), 2, tr.SUBSTITUTE),
    Case("close noises", (gaussian(2, 0.05), gaussian(1.6, 0.05)), 2),
    Case("two rates", (gaussian(2, 0.05), gaussian(2, 0.02)), 2),
    Case("three kinds, 1,000 steps", (gaussian(0.8, 0.01), gaussian(1, 0.01), gaussian(2, 0.05)), 2),
    Case("more to spend", (gaussian(1.5, 0.05), gaussian(1, 0.05)), 8),
    Case("too long for a game", (gaussian(1, 0.01), gaussian(4, 0.01)), 3),
)


def ask(case: Case) -> tuple[tr.Filter, FilterRule | None, float | None]:
    """The filter; the Rényi filter; how many times its delta is reached with all the capacity, at least."""
    budget = {"epsilon": float(case.epsilon), "delta": case.delta, "relation": case.relation}
    made = tr.Filter(menu=case.menu, **budget)  # type: ignore[arg-type]  # each is what it is called
    question = MenuQuestion(
        entries=made.menu,
        epsilon=made.epsilon,
        delta=made.delta,
        relation=made.relation,
        by=tr.Certified(),
        alone=tuple(row.fixed_in_advance for row in made.rows),
    )
    if made.rule.kind is not RuleKind.GAME:
        return made, find_renyi_rule(question), None
    natural = min(cost * row.fixed_in_advance for cost, row in zip(made.rule.costs, made.rows, strict=True))
    reached = play_policy(question, replace(made.rule, capacity=natural), lambda done, of: None)
    return made, find_renyi_rule(question), reached / made.delta


def write_case(case: Case) -> str:
    """Rows of one menu."""
    made, moments, excess = ask(case)
    rows = []
    for i, row in enumerate(made.rows):
        ((step, _),) = row.entry.parts
        by_moments = moments.count_fitting(i, Fraction(0)) if moments else 0
        said = [
            f"{case.name}, epsilon {case.epsilon:g}" if i == 0 else "",
            f"noise {step.mechanism.noise_multiplier:g}, rate {float(step.sampling.exact_rate):g}",  # type: ignore[union-attr]
            f"{row.fixed_in_advance:,}",
            f"{row.fits:,}",
            f"{by_moments:,}",
            f"{math.ceil(1000 * made.price) / 10:g} %" if i == 0 else "",
            made.because.name if i == 0 else "",
            write_width(made) if i == 0 else "",
            ""
            if i
            else f"{round_outwards(excess, 3, up=False)} times"
            if excess and excess > 1
            else "within it",
        ]
        if i == 0 and made.rule.kind is RuleKind.GAUSSIAN:
            said[-1] = "within it: free"
        if i == 0 and made.rule.kind is RuleKind.RENYI:
            said[-1] = "not played"
        rows.append(f"| {' | '.join(said)} |")
    return "\n".join(rows)


def write_width(made: tr.Filter) -> str:
    """How far below the certified delta the policy stays."""
    found = made.worst_delta
    return f"{math.ceil(10_000 * found.relative_width) / 100:g} %"


def write_example() -> str:
    """The counterexample, by the game and by a policy."""
    second = (gaussian(2.668, 1), gaussian(0.267, 1e-4))
    runs = [tr.delta(gaussian(3, 1) + each, epsilon=2, relation=tr.REMOVE).upper for each in second]
    most, note = (
        round_outwards(max(runs), 3, up=True),
        "../../src/tightrope/theorems/proofs/chosen_on_the_way.md",
    )
    return f"""## The counterexample

A full batch at noise 3, then, after its output, a full batch at noise 2.668 or a sample at rate 1e-4 and
noise 0.267. Composed, either run has a delta of at most {most} at epsilon 2; the choice between them reaches
1.86e-05, and has epsilon 2.217 at delta 1e-05 ([proof note]({note}), number 6; `tests/test_filter.py`
computes both by quadrature).
"""


def main(words: Sequence[str]) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/findings"))
    out = parser.parse_args(words).out
    heads = "menu | entry | fixed in advance | chosen | by Rényi | price | certified by | policy below it by"
    lines = [f"| {heads} | with all the capacity |", "|" + " --- |" * 9]
    for case in CASES:
        lines.append(write_case(case))
        print(lines[-1], flush=True)
    page = OPENING + write_example() + "\n## Menus, delta 1e-5\n\n" + "\n".join(lines) + "\n" + CLOSING
    write_whole(out / "adaptivity.md", page.encode(), what="the page")


if __name__ == "__main__":
    main(sys.argv[1:])
