"""Privacy statements: make, check, render and verify them."""

from tightrope.extras import MissingExtra

try:
    import pydantic  # noqa: F401 # here, so that whichever part is loaded first says what to install
except ModuleNotFoundError as missing:
    raise MissingExtra("a privacy statement", "pydantic", "statement") from missing
