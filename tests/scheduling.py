"""Which tests share a process when several run them: what a file computes once is computed once."""

from typing import Any

import pytest

PAPER = "tests/test_paper"  # these files look at the same items, which take a minute to make


def find_scope(test: str) -> str:
    """What a test is scheduled with: its file, and files about the paper with each other.

    >>> find_scope("tests/test_game.py::test_figure_4")
    'tests/test_game.py'
    >>> find_scope("tests/test_paper_one.py::test_a") == find_scope("tests/test_paper_figures.py::test_b")
    True
    """
    file, _, _ = test.partition("::")
    return PAPER if file.startswith(PAPER) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`, files together with what they share.

    Marks of `--dist loadgroup` would say the same, but pytest 9.2 and xdist 3.8 ignore them without a word.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # absent where nobody could ask for it

    scheduler: Any = LoadFileScheduling(config, log)
    scheduler._split_scope = find_scope
    return scheduler
