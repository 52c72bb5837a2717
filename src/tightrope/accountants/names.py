"""The accountants by the names people write."""

from typing import Any

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.renyi import Renyi

ACCOUNTANTS: dict[str, type[Accountant[Any, Any]]] = {
    kind.name: kind for kind in (Certified, Renyi, GaussianLimit, MonteCarlo)
}
