"""tightrope --install-completion: commands and options completed by the Tab key."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts.completion.detect import ShellDetectionError, detect_shell

from tightrope.cli.app import build_app
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.misused import Misused
from tightrope.errors import UnwrittenFile
from tightrope.files import write_whole

_ELSEWHERE = "Print it with --show, and save it where your shell looks for completions."


@dataclass(frozen=True, kw_only=True)
class ShellFile:
    """Where a shell looks for completions, below a folder that a variable may name, and how it loads them."""

    variable: str
    folder: str
    file: str
    loading: str

    @property
    def path(self) -> Path:
        """The file, which need not exist."""
        named = os.environ.get(self.variable)
        try:
            return Path(named or Path.home() / self.folder) / self.file
        except RuntimeError:  # a user without an entry in the system's list, and without HOME
            raise UnwrittenFile(
                "the completion script", "has no home directory to go to", _ELSEWHERE
            ) from None


SHELLS = {
    "bash": ShellFile(
        variable="XDG_DATA_HOME",
        folder=".local/share",
        file="bash-completion/completions/tightrope",
        loading="New shells with bash-completion load it. In others, add to your .bashrc:\n    . {file}",
    ),
    "zsh": ShellFile(
        variable="ZDOTDIR",
        folder="",
        file=".zsh/completions/_cyclopts_tightrope",
        loading="To load it, add to your .zshrc, before compinit:\n    fpath=({folder} $fpath)",
    ),
    "fish": ShellFile(
        variable="XDG_CONFIG_HOME",
        folder=".config",
        file="fish/completions/tightrope.fish",
        loading="New shells load it.",
    ),
}
ShellName = Annotated[
    Literal["bash", "zsh", "fish"] | None,
    opt.about("The shell; by default the one that this is typed into.", opt.ANSWER),
]
Show = Annotated[bool, opt.flag("Print the script instead of writing it into your home directory.")]


def install_completion(*, shell: ShellName = None, show: Show = False) -> None:
    """Let the Tab key complete commands and options: write a script to where your shell looks for it."""
    name = shell or _detect_shell()
    script = build_app().generate_completion(shell=name)
    if show:
        print(script)
        return
    path = SHELLS[name].path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{script}\n".encode(), what="the completion script")
    except OSError as problem:
        why = f"could not be made: {problem.strerror}"
        raise UnwrittenFile(f"the folder {str(path.parent)!r}", why, _ELSEWHERE) from None
    except UnwrittenFile as refused:
        raise UnwrittenFile(refused.path, refused.problem, _ELSEWHERE) from None
    places = {"file": shlex.quote(str(path)), "folder": shlex.quote(str(path.parent))}
    print(f"Wrote {path}. Run this again after an upgrade.")
    print(SHELLS[name].loading.format(**places))


def _detect_shell() -> Literal["bash", "zsh", "fish"]:
    try:
        found = detect_shell()
    except ShellDetectionError:
        found = None
    if found is None or found == "powershell":
        raise Misused("--shell is missing: your shell could not be told; pass bash, zsh or fish")
    return found
