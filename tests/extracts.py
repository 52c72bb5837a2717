"""What the pages quote of commands: blocks of `$ command` with lines of its output below."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# every fenced block, so that the end of one is not taken for the start of the next
BLOCK = re.compile(r"^(```|~~~)([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
SHELLS = ("", "text", "console", "sh", "shell", "bash")
PROMPT = "$ "
SPECIAL = "|&;<>()$`\\\"'*?[]#~\n"  # to a shell: a line without them is words
RAN = (0, 3, 4)  # exit codes of commands that answer; 1 is a bug and 2 a refusal
PROGRAMS = {
    "tightrope": "from tightrope.cli.entry import main; main()",
    "python": "",
}


@dataclass(frozen=True)
class Extract:
    """A command as a page shows it, and what the page quotes of its output."""

    command: str
    quoted: tuple[str, ...]

    def missing_from(self, output: str) -> list[str]:
        """The quoted lines that the output does not hold, wherever it breaks its own lines.

        A line of `...` stands for lines that are left out, and `...` in a line for words. Rules under
        headings are as wide as their table, so they are not compared.
        """
        said = " ".join(output.split())
        return [line for line in self.quoted if re.search(r"\w", line) and not _pattern(line).search(said)]


def _pattern(line: str) -> re.Pattern[str]:
    words = " ".join(line.split())
    parts = [re.escape(part.strip()) for part in words.split("...")]
    start, end = "" if words.startswith("...") else r"(?<!\S)", "" if words.endswith("...") else r"(?!\S)"
    return re.compile(start + ".*?".join(parts) + end)


def find_blocks(page: str) -> list[tuple[int, list[Extract]]]:
    """The blocks of a page that show commands, each with the number of its first line."""
    found = []
    for block in BLOCK.finditer(page):
        extracts = list(read_block(block[3])) if block[2].strip() in SHELLS else []
        if extracts:
            found.append((page.count("\n", 0, block.start(3)) + 1, extracts))
    return found


def read_block(block: str) -> Iterator[Extract]:
    """The commands of a block in order; `...` in a command stands for the words of the one before."""
    command, quoted = "", list[str]()
    for line in block.replace("\\\n", " ").splitlines():
        if not line.startswith(PROMPT):
            quoted.append(line)
            continue
        if command:
            yield Extract(command, tuple(quoted))
        words = re.sub(r"\s# .*", "", line.removeprefix(PROMPT)).split()
        before = command.split()[2:]
        command = " ".join(word for each in words for word in (before if each == "..." else [each]))
        quoted = []
    if command:
        yield Extract(command, tuple(quoted))


def run_command(command: str, folder: Path) -> str:
    """What a command prints, on both outputs, when it is typed in this folder; examples/ is there."""
    if not (folder / "bin").exists():
        _furnish(folder)
    if command.startswith("python examples/opacus_"):
        return _run_here(command.split()[1:], folder)
    recipe = recipe_of(command).strip()
    if recipe.startswith("tightrope ") and not set(recipe) & set(SPECIAL):
        return _type_here(recipe.split()[1:], folder)
    known = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(known),
    }
    done = subprocess.run(
        ["sh", "-c", recipe],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode in RAN, f"{command}\nends with {done.returncode}\n{done.stdout}"
    return done.stdout


def _type_here(words: list[str], folder: Path) -> str:
    """What `tightrope WORDS` prints in this process, where pages that ask the same share the answer."""
    from tightrope.cli.entry import main

    said, code = io.StringIO(), None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.chdir(folder):
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    assert code in RAN, f"{words}\nends with {code}\n{said.getvalue()}"
    return said.getvalue()


def _run_here(words: list[str], folder: Path) -> str:
    """What an example prints in this process, which has loaded torch and Opacus: that takes 5 s each time."""
    import torch

    said, code, before = io.StringIO(), None, (sys.argv, list(sys.path))
    with contextlib.ExitStack() as stack:
        for each in (contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)):
            stack.enter_context(each)
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(torch.random.fork_rng())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        sys.argv, sys.path[:0] = words, [str(ROOT / "examples")]
        try:
            runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv, sys.path[:] = before
    assert code in (None, *RAN), f"{words}\nends with {code}\n{said.getvalue()}"
    return said.getvalue()


def _furnish(folder: Path) -> None:
    """Make the programs that pages name start this Python."""
    (folder / "bin").mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    for name, start in PROGRAMS.items():
        program = folder / "bin" / name
        options = f" -c '{start}'" if start else ""
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{options} "$@"\n')
        program.chmod(0o755)


def recipe_of(command: str) -> str:
    """What `make TARGET` runs once everything is set up; any other command as it is."""
    words = command.split()
    if words[0] != "make":
        return command
    rule = re.compile(rf"^{re.escape(words[1])}:.*\n((?:\t.*\n)+)", re.MULTILINE)
    (recipe,) = rule.findall((ROOT / "Makefile").read_text())
    return str(recipe).replace("\t@", "").replace("$(BIN)/", "").replace("$$", "$")
