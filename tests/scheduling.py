"""Which tests share a process when several run them, and which begin: no process waits long for the last."""

from typing import Any

import pytest

PAPER = "tests/test_paper"  # these files look at the same items, which take a minute to make
# Six seconds of work and more each, the slowest first: whichever begins late keeps one process busy alone.
SLOW = (
    "tests/test_game.py",
    "tests/test_laws.py",
    "tests/test_cli_environment.py",
    "tests/test_docs.py",
    PAPER,
    "tests/test_shuffles.py",
    "tests/test_groups.py",
    "tests/test_passes.py",
    "tests/test_monte_carlo.py",
    "tests/test_long_work.py",
    "tests/test_calibrate.py",
    "tests/test_trade_off.py",
    "tests/test_cli_width.py",
    "tests/test_line_integrals.py",
    "tests/test_recheck.py",
    "tests/test_renyi.py",
    "tests/test_sweep.py",
    "tests/test_cli.py",
    "tests/test_proven.py",
    "tests/test_shuffled_plans.py",
    "tests/test_huggingface.py",
    "tests/test_tuning.py",
    "tests/test_watched_laws.py",
    "tests/test_shuffled_lower_end.py",
    "tests/test_turned_curve.py",
    "tests/test_ratio_moments.py",
    "tests/test_watch.py",
    "tests/test_lattice_rigour.py",
    "tests/test_extracts.py",
    "tests/test_cli_accountants.py",
    "tests/test_opacus_steps.py",
    "tests/test_samplers.py",
    "tests/test_lightning.py",
    "tests/test_fuzz.py",
    "tests/test_group_passes.py",
    "tests/test_walked_passes.py",
    "tests/test_cli_effort.py",
    "tests/test_engines.py",
    "tests/test_training_plan.py",
    "tests/test_exchanged_moments.py",
    "tests/test_made_pages.py",
    "tests/test_allocating_samplers.py",
    "tests/test_explore_server.py",
    "tests/test_filter.py",
    "tests/test_contrast.py",
    "tests/test_opacus_misuse.py",
    "tests/test_truncated_poisson.py",
    "tests/test_shuffled_audits.py",
    "tests/test_ray.py",
    "tests/test_audit_allocations.py",
    "tests/test_fewest_batches.py",
    "tests/test_cli_calibrate.py",
    "tests/test_dp_accounting_adapter.py",
    "tests/test_certificates.py",
    "tests/test_exact.py",
    "tests/test_capped.py",
    "tests/test_compare.py",
    "tests/test_envelope.py",
    "tests/test_first_contact.py",
    "tests/test_answer.py",
    "tests/test_audit.py",
    "tests/test_reach.py",
    "tests/test_ranks.py",
    "tests/test_contour_rigour.py",
    "tests/test_proven_loaders.py",
    "tests/test_one_default.py",
    "tests/test_house.py",
    "tests/test_shuffled_orders.py",
    "tests/test_extras.py",
    "tests/test_limit_of_passes.py",
    "tests/test_bad_input.py",
    "tests/test_explore_browser.py",
)
DOCTESTS = ("src/", "reproduction/")  # milliseconds each: they fill the end


def find_scope(test: str) -> str:
    """What a test is scheduled with: its file, and files about the paper with each other.

    >>> find_scope("tests/test_game.py::test_figure_4")
    'tests/test_game.py'
    >>> find_scope("tests/test_paper_one.py::test_a") == find_scope("tests/test_paper_figures.py::test_b")
    True
    """
    file, _, _ = test.partition("::")
    return PAPER if file.startswith(PAPER) else file


def find_turn(test: str) -> int:
    """When a test begins: slow files first, doctests last.

    >>> find_turn("tests/test_paper_one.py::test_a") < find_turn("tests/test_glossary.py::test_b")
    True
    >>> find_turn("tests/test_glossary.py::test_b") < find_turn("src/tightrope/answers/answer.py::doctest")
    True
    """
    scope = find_scope(test)
    if scope in SLOW:
        return SLOW.index(scope)
    return len(SLOW) + scope.startswith(DOCTESTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order of their turns, tests of a file as they stand."""
    items.sort(key=lambda item: find_turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`, files together with what they share, in the order of their turns.

    Marks of `--dist loadgroup` would say the same, but pytest 9.2 and xdist 3.8 ignore them without a word.
    By itself xdist begins with the files of the most tests, which are not those that take longest.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # absent where nobody could ask for it

    config.option.loadscopereorder = False
    scheduler: Any = LoadFileScheduling(config, log)
    scheduler._split_scope = find_scope
    return scheduler
