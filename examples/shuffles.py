"""What shuffled batches cost, from below and above: the numbers of docs/findings/shuffles.md.

Each row is written as soon as it is known, and rows that are there already are kept: a run that was stopped
goes on where it was. `--fresh` starts anew. Upper ends are rounded up and lower ends down.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from shuffles_asked import BATCHES, EPOCHS, NAMES, NOISES, Answers, answer_all, lower, no_gain, upper
from shuffles_page import make_page
from shuffles_picture import Lines, draw_picture
from tightrope.files import write_whole


def list_lines(answers: Answers) -> Lines:
    """What the picture shows: upper ends that are lower than no amplification, and the lower end."""
    lines: dict[tuple[str, int, int], dict[float, float]] = {}
    for size in product(BATCHES, EPOCHS[:2]):
        lines["lower", *size] = {noise: lower(answers, noise, *size) for noise in NOISES}
        for batching in NAMES:
            is_whole = batching in ("told", "thousand")
            lines[batching, *size] = {
                noise: upper(answers, batching, noise, *size)
                for noise in NOISES
                if is_whole or not no_gain(answers, batching, noise, *size)
            }
    return lines


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
    rows = options.out / "shuffles.csv"
    if options.fresh:
        rows.unlink(missing_ok=True)
    answers = answer_all(rows)
    draw_picture(list_lines(answers), batches=BATCHES, epochs=EPOCHS[:2], folder=options.figures)
    write_whole(options.out / "shuffles.md", make_page(answers).encode(), what="page")
    print(options.out / "shuffles.md")


if __name__ == "__main__":
    main(sys.argv[1:])
