"""The commands and their help; a command is imported when it is asked for."""

from dataclasses import dataclass

from cyclopts import App, CycloptsError

from tightrope import __version__
from tightrope.cli.printed.terminal import StandardOutput, say
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.typed.misused import Misused
from tightrope.cli.typed.slips import in_one_line, tell_unstated
from tightrope.cli.typed.vocabulary import find_missing, understand

_ABOUT = """\
How private is this training run? A certified bracket and the theorem behind it, or a refusal.

The upper end of a bracket is guaranteed; the lower end is reached by real neighbouring datasets."""
_EXIT_CODES = "Exit codes:\n\n" + "\n".join(f"{code:>4}  {code.meaning}" for code in ExitCode)
_WIDTH = 110  # of help that is piped; examples fit


@dataclass(frozen=True)
class Command:
    """Where a command is, the sentence that introduces it, and an example that runs."""

    path: str
    help: str
    example: str

    @property
    def full_path(self) -> str:
        """With the module's full name: most are in `commands`."""
        return self.path if self.path.startswith("tightrope.") else f"tightrope.cli.commands.{self.path}"


_POISSON = "--noise 0.8 --sampling poisson --rate 0.001"
_TRAINED = "--sampling poisson --records 60000 --batch 256 --epochs 30"
_TARGET = "    --relation add-or-remove --epsilon 1 --delta 1e-6"
COMMANDS = (
    Command(
        "curves:epsilon",
        "Bracket the smallest epsilon >= 0 for which the run is (epsilon, delta)-private.",
        f"tightrope epsilon --noise 1.1 {_TRAINED} \\\n    --relation add-or-remove --delta 1e-5",
    ),
    Command(
        "curves:delta",
        "Bracket the smallest delta for which the run is (epsilon, delta)-private.",
        "tightrope delta --noise 0.8 --sampling without-replacement --batch 1 \\\n"
        "    --records 1000 --steps 10000 --relation add-or-remove --epsilon 1 15",
    ),
    Command(
        "curves:curve",
        "Bracket delta over a range of epsilons, for one run or for several from a file.",
        f"tightrope curve {_POISSON} \\\n"
        "    --steps 10000 --relation add-or-remove --epsilons 0:2:5 --plot curve.png",
    ),
    Command(
        "risk:risk",
        "Bracket what the best attack achieves: true positive rates, success and posteriors.",
        f"tightrope risk {_POISSON} \\\n"
        "    --steps 10000 --relation add-or-remove --fpr 0.001 0.01 --prior 0.5",
    ),
    Command(
        "contrast:contrast",
        "Bracket epsilon for the same run under every sampling and relation, and compare with a claim.",
        f"tightrope contrast {_POISSON} \\\n    --steps 10000 --delta 1e-6 --plot bars.png",
    ),
    Command(
        "tightrope.explore.command:explore",
        "Look at a training run in the browser: the answer, the pitfalls, the curves, the reasons.\n\n"
        "The page is on this machine only, and nothing leaves it.",
        "tightrope explore --no-browser",
    ),
    Command(
        "audit:audit",
        "Tell from recorded batches what really runs, and set it against what was accounted.\n\n"
        "Exit code 0 if the accounted epsilon holds for what runs, 3 if it does not, 4 if that is not known.",
        "tightrope audit examples/shuffled.jsonl --noise 0.8 --sampling poisson --rate 0.02 \\\n"
        "    --steps 500 --delta 1e-6 --relation add-or-remove",
    ),
    Command(
        "tables:compare",
        "Set the certified bracket beside the exact one, Rényi's bound, the Gaussian limit and Monte Carlo.",
        f"tightrope compare {_POISSON} \\\n"
        "    --steps 10000 --relation add-or-remove --delta 1e-6 --plot accountants.png",
    ),
    Command(
        "calibrate:noise",
        "Find the smallest noise multiplier with which the run is (epsilon, delta)-private.",
        f"tightrope noise {_TRAINED} \\\n    --relation add-or-remove --epsilon 3 --delta 1e-5",
    ),
    Command(
        "calibrate:steps",
        "Find how many steps are (epsilon, delta)-private together.",
        f"tightrope steps {_POISSON} \\\n{_TARGET}",
    ),
    Command(
        "calibrate:rate",
        "Find the largest sampling rate, or batch, with which the run is (epsilon, delta)-private.",
        f"tightrope rate --noise 0.8 --sampling poisson --steps 10000 \\\n{_TARGET}",
    ),
    Command(
        "spent:spent",
        "Bracket the epsilon of everything that a ledger has recorded so far.",
        "tightrope spent ledger.json --delta 1e-6",
    ),
    Command(
        "filter:filter",
        "Tell how often each entry of a menu fits a budget if it is chosen on the way, and keep account.",
        "tightrope filter examples/menu.toml --epsilon 2 --delta 1e-5 --out budget.json",
    ),
    Command(
        "sweep:sweep",
        "Answer every cell of a grid into a file; a cell without an answer gets its error there.\n\n"
        "Exit code 2 if every cell is an error.",
        "tightrope sweep examples/grid.toml --out results.csv",
    ),
    Command(
        "tables:theorems",
        "Print which questions have a theorem, every theorem, and the refuted beliefs.",
        "tightrope theorems",
    ),
    Command(
        "audit:statement",
        "Make a privacy statement from a run, what is known of its batches and a few facts.\n\n"
        "Exit code 3, and no statement, if its claim is certainly false.",
        "tightrope statement examples/statement.toml --format md",
    ),
    Command(
        "audit:verify",
        "Compute a statement anew, and compare.\n\n"
        "Exit code 0 if its claim is proved for what is said to run and its numbers are right, 3 if not, "
        "4 if it does not tell enough.",
        "tightrope verify statement.json",
    ),
    Command(
        "audit:schema",
        "Print the JSON Schema of a statement.",
        "tightrope schema > tightrope-statement.schema.json",
    ),
)


_COMPLETION = (
    "Let the Tab key complete commands and options: write a script to where your shell looks for it."
)


def build_app() -> App:
    """Every command with its help; none is imported yet."""
    app = App(
        name="tightrope",
        help=_ABOUT,
        help_format="plaintext",
        version=__version__,
        help_epilogue=f"{_EXIT_CODES}\n\nExample:\n\n{COMMANDS[0].example}",
        suppress_keyboard_interrupt=False,  # the caller reports it
    )
    for place, command in enumerate(COMMANDS):
        epilogue = f"Example:\n\n{command.example}"
        app.command(command.full_path, help=command.help, sort_key=place, help_epilogue=epilogue)
    app.command(
        "tightrope.cli.completion:install_completion",
        name="--install-completion",
        help=_COMPLETION,
        group="Your shell",  # in a table of its own: its long name would narrow that of the commands
        help_epilogue="Example:\n\ntightrope --install-completion --shell bash",
    )
    return app


def run(words: list[str]) -> int:
    """Parse the words, run the command they name and return its exit code. Refusals are exceptions."""
    understood, notes = understand(words)
    if missing := find_missing(understood):
        options = build_app()[understood[0]].assemble_argument_collection()
        raise Misused(tell_unstated(understood, missing, {name for each in options for name in each.names}))
    for note in notes:
        say(note)
    try:
        code = build_app()(
            understood,
            console=StandardOutput(_WIDTH),
            print_error=False,
            exit_on_error=False,
            result_action="return_value",
        )
    except CycloptsError as wrong:
        names = [command.path.partition(":")[2] for command in COMMANDS]
        raise Misused(in_one_line(wrong, names)) from wrong
    return code if isinstance(code, int) else 0
