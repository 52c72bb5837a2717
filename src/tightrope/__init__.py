"""Certified privacy accounting for subsampled mechanisms under composition.

State what is run (mechanism, sampling, steps) and who counts as a neighbour (relation). Get a certified bracket
and the theorem behind it, or a refusal that says what is known.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.7.0"

if TYPE_CHECKING:
    from tightrope.public import *  # noqa: F403
    from tightrope.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """Import all public names when one of them is first used: `tightrope --version` needs none."""
        if not name.startswith("__") or name == "__all__":
            public = importlib.import_module("tightrope.public")
            names = {each: getattr(public, each) for each in public.__all__}
            globals().update(names, __all__=public.__all__)
            if name in globals():  # a public name, or a package that is loaded by now
                return globals()[name]
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
