"""The commands and their help."""

from collections.abc import Callable

from cyclopts import App

from tightrope import __version__
from tightrope.cli.audit import EXAMPLE as AUDIT
from tightrope.cli.audit import audit
from tightrope.cli.compare import EXAMPLE as COMPARE
from tightrope.cli.compare import compare
from tightrope.cli.contrast import EXAMPLE as CONTRAST
from tightrope.cli.contrast import contrast
from tightrope.cli.curve import EXAMPLE as CURVE
from tightrope.cli.curve import curve
from tightrope.cli.delta import EXAMPLE as DELTA
from tightrope.cli.delta import delta
from tightrope.cli.epsilon import EXAMPLE as EPSILON
from tightrope.cli.epsilon import epsilon
from tightrope.cli.noise import EXAMPLE as NOISE
from tightrope.cli.noise import noise
from tightrope.cli.page import StandardOutput
from tightrope.cli.rate import EXAMPLE as RATE
from tightrope.cli.rate import rate
from tightrope.cli.risk import EXAMPLE as RISK
from tightrope.cli.risk import risk
from tightrope.cli.statement import EXAMPLE as STATEMENT
from tightrope.cli.statement import SCHEMA_EXAMPLE, VERIFY_EXAMPLE, schema, statement, verify
from tightrope.cli.steps import EXAMPLE as STEPS
from tightrope.cli.steps import steps
from tightrope.cli.sweep import EXAMPLE as SWEEP
from tightrope.cli.sweep import sweep
from tightrope.cli.theorems import EXAMPLE as THEOREMS
from tightrope.cli.theorems import theorems

COMMANDS: tuple[tuple[Callable[..., int | None], str], ...] = (
    (epsilon, EPSILON),
    (delta, DELTA),
    (curve, CURVE),
    (risk, RISK),
    (contrast, CONTRAST),
    (audit, AUDIT),
    (compare, COMPARE),
    (noise, NOISE),
    (steps, STEPS),
    (rate, RATE),
    (sweep, SWEEP),
    (theorems, THEOREMS),
    (statement, STATEMENT),
    (verify, VERIFY_EXAMPLE),
    (schema, SCHEMA_EXAMPLE),
)

_ABOUT = """\
How private is this training run? A certified bracket and the theorem behind it, or a refusal.

The upper end of a bracket is guaranteed; the lower end is reached by real neighbouring datasets."""
_WIDTH = 110  # of help that is piped; examples fit


def run(words: list[str]) -> int:
    """Parse the words and run the command they name; its exit code, where it has one of its own. Refusals are exceptions."""
    app = App(
        name="tightrope",
        help=_ABOUT,
        help_format="plaintext",
        version=__version__,
        help_epilogue=f"Example:\n\n{EPSILON}",
        suppress_keyboard_interrupt=False,  # whoever calls says so
    )
    for place, (command, example) in enumerate(COMMANDS):
        app.command(command, sort_key=place, help_epilogue=f"Example:\n\n{example}")
    code = app(
        words,
        console=StandardOutput(_WIDTH),
        print_error=False,
        exit_on_error=False,
        result_action="return_value",
    )
    return code if isinstance(code, int) else 0
