"""How long it takes to make a filter, and to play the policy below it; nothing here is a test.

Each line is measured in a process of its own. CPU time is that of all threads.
"""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import tightrope as tr

Menu = tuple[tuple[float, float], ...]  # noise and Poisson rate of each entry
MENUS: tuple[tuple[Menu, float, int | None], ...] = (
    (((2.0, 0.05), (1.0, 0.05)), 2.0, None),
    (((1.0, 0.01), (1.5, 0.01), (2.0, 0.02)), 2.0, 1000),
    (((0.8, 0.01), (1.0, 0.01), (2.0, 0.05)), 2.0, None),
)


def measure(menu: Menu, epsilon: float, steps: int | None) -> str:
    """One line: how many steps fit, the CPU seconds of both sides, and how far apart they are."""
    entries = [tr.Step(tr.Gaussian(noise_multiplier=noise), tr.Poisson(rate=rate)) for noise, rate in menu]
    start = time.process_time()
    made = tr.Filter(menu=entries, epsilon=epsilon, delta=1e-5, relation=tr.ADD_OR_REMOVE, steps=steps)
    above = time.process_time() - start
    found = made.worst_delta
    below = time.process_time() - start - above
    fits = "/".join(f"{row.fits:,}" for row in made.rows)
    return f"{menu!s:50} {fits:>18}  {above:8.1f} {below:8.1f}  {found.relative_width:8.5f}"


def main(words: Sequence[str]) -> None:
    """Print a line per menu."""
    print(f"{'menu':50} {'fits':>18}  {'CPU':>8} {'policy':>8}  {'width':>8}")
    for setting in MENUS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(measure, *setting).result(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
