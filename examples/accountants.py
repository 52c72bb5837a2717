"""How much looser Rényi accounting is, and where the Gaussian limit is too small.

It writes docs/findings/accountants.md. The runs are those of accountants.toml; their rows are kept in
accountants.csv, so that work that was stopped goes on. Bounds are rounded up, and what an accountant is off
by is rounded towards 0.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tightrope as tr
from tightrope.curve.digits import ends
from tightrope.files import write_whole
from tightrope.numerics.text import round_outwards
from tightrope.sweeps.sweep import SweepProgress

HERE = Path(__file__).parent
Cell = tuple[tuple[str, object], ...]
Questions = dict[Cell, dict[str, Mapping[str, object]]]
WANG = tr.Step(tr.Gaussian(noise_multiplier=4), tr.WithoutReplacement(batch=50, population=1000)) * 1000
HIDDEN = (
    "accountant",
    "effort",
    "accuracy",
    "lower",
    "upper",
    "value",
    "order",
    "confidence",
    "because",
    "seconds",
    "error",
    "version",
)


def by_question(rows: Sequence[Mapping[str, object]]) -> Questions:
    """The rows of each question, by accountant."""
    questions: Questions = {}
    for row in rows:
        key = tuple((name, value) for name, value in row.items() if name not in HIDDEN)
        questions.setdefault(key, {})[str(row["accountant"])] = row
    return questions


def number(value: object) -> float:
    """A cell that holds a number."""
    assert isinstance(value, int | float)
    return float(value)


def excess(answers: Mapping[str, Mapping[str, object]]) -> tuple[float, float, float, float, float]:
    """Both certified ends, how far the Rényi bound exceeds them, the limit, how far it misses them."""
    lower, upper = number(answers["certified"]["lower"]), number(answers["certified"]["upper"])
    bound, limit = number(answers["renyi"]["upper"]), number(answers["gaussian-limit"]["value"])
    off = limit / lower - 1 if limit < lower else limit / upper - 1 if limit > upper else 0.0
    return lower, upper, bound / upper - 1, limit, off


def percent(share: float) -> str:
    """To three digits, towards 0: so much is certain. What is many times too large, as a factor."""
    if share > 10:
        return f"{round_outwards(1 + share, 3, up=False)} times"
    return f"{round_outwards(100 * share, 3, up=share < 0)} %"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, ["---"] * len(heading), *rows])


def shown(questions: Questions, columns: Sequence[str]) -> str:
    """One row per question: its parameters, the bracket, and how far the others are off."""
    body = []
    for key, answers in questions.items():
        cell = dict(key)
        lower, upper, above, limit, off = excess(answers)
        is_narrow = lower > 0.999 * upper
        bracket = at_most(upper, 5) if is_narrow else " to ".join(ends(tr.Bracket(lower, upper), 4))
        stated = [
            f"{cell[name]:,}"
            if name == "steps"
            else f"{cell[name]:g}"
            if isinstance(cell[name], float | int)
            else ""
            for name in columns
        ]
        body.append([*stated, bracket, percent(above), f"{limit:.4g}", percent(off)])
    return table([*columns, "certified epsilon", "Rényi, above it", "Gaussian limit", "off by"], body)


def at_most(value: float, digits: int) -> str:
    """Rounded up."""
    return round_outwards(value, digits, up=True)


def wang() -> str:
    """Three Rényi bounds on the paper's Fig. 4, beside the certified ends."""
    bracket = tr.epsilon(WANG, delta=1e-5, relation=tr.SUBSTITUTE, by=tr.Certified(effort=tr.QUICK))
    (bounds,) = tr.privacy_curve(WANG, relation=tr.SUBSTITUTE, by=tr.Renyi()).bounds(1e-5)
    names = [
        "the envelope's own moments",
        "Wang, Balle, Kasiviswanathan 2020, Thm 27",
        "Wang, Balle, Kasiviswanathan 2020, Thm 9",
    ]
    lower, upper = ends(bracket, 5)
    rows = [["certified, quick: lower end", lower, ""], ["certified, quick: upper end", upper, ""]]
    rows += [
        [f"Rényi: {name}", at_most(bound.upper, 5), f"{bound.order:.3g}"]
        for name, bound in zip(names, bounds, strict=True)
    ]
    return table(["bound", "epsilon at delta 1e-5", "order"], rows)


PAGE = """# Other accountants beside the certified one

These are accountants of this package: the Rényi bound and the Gaussian limit beside the certified bracket
([what each is worth](../accountants.md)). Other libraries are measured in
[benchmarks/](../../benchmarks/README.md). Every number on this page is made by `make accountants`
(`examples/accountants.py`); the runs are those of `examples/accountants.toml`.

"Certified epsilon" is the upper end, rounded up, or both ends where they differ by more than 0.1 %. "Above
it" is the Rényi bound over the upper end of the certified bracket, less 1: what the conversion from moments
costs. "Off by" is the Gaussian limit over the nearer end of the bracket, less 1: **where it is negative, the
limit promises more privacy than there is.** Both are rounded towards 0, so that as much is certain.

## Poisson sampling, Gaussian noise, ADD_OR_REMOVE

The Rényi bound is {poisson_median} above the certified epsilon in the median and {poisson_least} where it is
closest; where it is furthest, it is {poisson_most} the certified epsilon. The Gaussian limit is too small in
{small} of {count} settings, most of all ({smallest}) at low rates and small deltas, where single batches that
hold the record decide and no limit has set in.

{poisson}

## Batches without replacement, one record exchanged

The certified bracket is the quick one, whose upper end is the envelope. The Rényi bound is that of the
envelope's own moments, {exchanged_median} above it in the median. The published bounds start from the moments
of the unsampled step, which costs them a factor: noise 4, batches of 50 out of 1,000, 1,000 steps,

{wang}

{exchanged}

## Other noise, Poisson sampling and none, ADD_OR_REMOVE

Without a rate every record takes part.

{laplace}

Randomized response, rate 0.05:

{response}
"""


def main(words: Sequence[str]) -> None:
    """Answer what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("docs/findings"), help="folder for the page and its rows"
    )
    parser.add_argument("--fresh", action="store_true", help="ask everything anew")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "accountants.csv"
    if options.fresh:
        kept.unlink(missing_ok=True)

    def tell(tally: SweepProgress) -> None:
        if sys.stderr.isatty():
            print(
                f"\r{tally.done} of {tally.cells} cells",
                end="" if tally.done < tally.cells else "\n",
                file=sys.stderr,
            )

    rows = tr.sweep(HERE / "accountants.toml", out=kept, resume=kept.exists(), workers=1, progress=tell)
    errors = [row for row in rows if row["error"]]
    if errors:
        raise SystemExit(f"{len(errors)} cells have no answer, the first: {errors[0]['error']}")
    questions = by_question(rows)
    blocks = {
        name: {key: answers for key, answers in questions.items() if wanted.items() <= dict(key).items()}
        for name, wanted in {
            "poisson": {"mechanism": "gaussian", "sampling": "poisson"},
            "exchanged": {"mechanism": "gaussian", "sampling": "without-replacement"},
            "laplace": {"mechanism": "laplace"},
            "response": {"mechanism": "randomized-response"},
        }.items()
    }
    above = {name: sorted(excess(answers)[2] for answers in block.values()) for name, block in blocks.items()}
    off = [excess(answers)[4] for answers in blocks["poisson"].values()]
    page = PAGE.format(
        poisson=shown(blocks["poisson"], ["rate", "noise_multiplier", "steps", "delta"]),
        poisson_median=percent(statistics.median(above["poisson"])),
        poisson_least=percent(above["poisson"][0]),
        poisson_most=percent(above["poisson"][-1]),
        small=sum(value < 0 for value in off),
        count=len(off),
        smallest=percent(min(off)),
        exchanged=shown(blocks["exchanged"], ["batch", "noise_multiplier", "steps", "delta"]),
        exchanged_median=percent(statistics.median(above["exchanged"])),
        wang=wang(),
        laplace=shown(blocks["laplace"], ["rate", "noise_multiplier", "steps", "delta"]),
        response=shown(blocks["response"], ["truth_probability", "steps", "delta"]),
    )
    write_whole(options.out / "accountants.md", page.encode(), what="page")
    print(options.out / "accountants.md")


if __name__ == "__main__":
    main(sys.argv[1:])
