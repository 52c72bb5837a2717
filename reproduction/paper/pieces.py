"""The same work on many pieces, on all cores where joblib is installed, in the order of the pieces."""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TypeVar

from reproduction.paper.item import Making
from tightrope.parallel import in_parallel

P = TypeVar("P")
R = TypeVar("R")


def worked_through(work: Callable[[P], R], pieces: Sequence[P], *, what: str, making: Making) -> list[R]:
    """What `work` makes of each piece; the first piece that fails ends everything.

    A quick making stays in this process: starting others takes longer than its pieces do.
    """
    workers = None if find_spec("joblib") and not making.quick else 1
    found: dict[int, R] = {}
    making.progress(what, 0, len(pieces))
    with warnings.catch_warnings():
        # joblib replaces workers that have grown large, and says so each time
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        for place, outcome in in_parallel(work, pieces, workers=workers):
            if isinstance(outcome, Exception):
                raise outcome
            found[place] = outcome
            making.progress(what, len(found), len(pieces))
    return [found[place] for place in range(len(pieces))]
