"""The accountants by the names people write; each is loaded when it is asked for."""

import importlib
from typing import Any

from tightrope.accountants.accountant import Accountant

ACCOUNTANTS = {
    "certified": "Certified",
    "exact": "Exact",
    "renyi": "Renyi",
    "gaussian-limit": "GaussianLimit",
    "monte-carlo": "MonteCarlo",
}


def find_accountant(name: str) -> type[Accountant[Any, Any]]:
    """The kind of accountant with this name.

    >>> find_accountant("gaussian-limit")()
    GaussianLimit()
    """
    module = importlib.import_module(f"tightrope.accountants.{name.replace('-', '_')}")
    kind: type[Accountant[Any, Any]] = getattr(module, ACCOUNTANTS[name])
    return kind
