"""How long the substitution game takes, beside what `seconds_to_play` says it takes.

Each line is measured in a process of its own, so that nothing is kept from the line before. The CPU time of
all threads is what the constants in engines/game/layout.py are taken from; nothing here is a test.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context

from tightrope.engines.game.layout import seconds_to_play
from tightrope.engines.game.pooling import cover_triangles
from tightrope.engines.game.substitution import PlayedGame
from tightrope.pairs.exchange import Exchange, Game
from tightrope.pairs.mixture import Noise
from tightrope.pairs.schedule import Schedule

DELTA = 1e-5
SETTINGS = ((0.05, 2.0, 30), (0.5, 1.0, 10), (0.05, 4.0, 1000), (0.001, 0.8, 1000), (0.5, 6.0, 1000))
LONG = ((0.05, 4.0, 10_000), (0.001, 0.8, 10_000))
ACCURACIES = (0.1, 0.01, 1e-3, 1e-5)


def measure(rate: float, noise: float, steps: int, accuracy: float) -> str:
    """One line: the estimate, the CPU and wall time of one epsilon, and the width that was reached."""
    exchange = Exchange(Noise.NORMAL, Fraction(rate), Fraction(2 / noise))
    game = Game(exchange, steps, Schedule([]))
    expected = seconds_to_play(game, accuracy=accuracy, delta=DELTA)
    substitution = PlayedGame(game)
    wall, cpu = time.perf_counter(), time.process_time()
    lower, upper = substitution.epsilon_bounds(DELTA, accuracy)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    layout = substitution.play(-12, accuracy).layout
    curves = cover_triangles(exchange, layout.quality).size
    return (
        f"{rate:6g} {noise:6g} {steps:7,} {accuracy:8g}  {expected:8.1f} {cpu:8.1f} {wall:8.1f}"
        f" {expected / cpu:6.2f}  {1 - lower / upper:8.5f}  {layout.points:8.0f} {curves:6d}"
        f" {layout.block:7,}"
    )


def main(words: Sequence[str]) -> None:
    """Print a line per setting and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="also runs of 10,000 steps, some minutes each")
    parser.add_argument("--quick", action="store_true", help="the two shortest settings, a minute or two")
    options = parser.parse_args(words)
    settings = SETTINGS[:2] if options.quick else SETTINGS + LONG if options.long else SETTINGS
    print(
        "  rate  noise   steps accuracy  expected      CPU     wall  ratio     width    points curves  block"
    )
    for setting in settings:
        for accuracy in ACCURACIES:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                print(pool.submit(measure, *setting, accuracy).result(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
