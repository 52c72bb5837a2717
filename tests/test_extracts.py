"""What README.md and docs/ quote of commands is what the commands print.

Whoever changes an output changes the pages that quote it.
"""

import re
import tempfile
from functools import cache
from pathlib import Path

import pytest

from extracts import ROOT, Extract, find_blocks, read_block, recipe_of, run_command

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOUND = [(page, *block) for page in PAGES for block in find_blocks(page.read_text())]
COMMANDS = {extract.command for _, _, extracts in FOUND for extract in extracts}
# commands that tests do not run, each with the reason; what a page quotes of them is not compared
NOT_RUN: dict[str, str] = {}
NEEDS = {"examples/opacus_": ("torch", "opacus")}

# what several pages quote is run once, and seconds of work may take minutes beside other work
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("contrasted_once")]


@cache
def outputs_of(commands: tuple[str, ...]) -> tuple[str, ...]:
    """What the commands of one block print; a later one finds the files of the earlier ones."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(run_command(command, Path(folder)) for command in commands)


@pytest.mark.parametrize(
    "block", [pytest.param(found[2], id=f"{found[0].relative_to(ROOT)}:{found[1]}") for found in FOUND]
)
def test_every_quoted_line_is_printed_by_its_command(block: list[Extract]) -> None:
    run = [extract for extract in block if extract.command not in NOT_RUN]
    commands = tuple(extract.command for extract in run)
    if any(command.startswith("make ") for command in commands):
        need_the_makefile()
    for part, libraries in NEEDS.items():
        for library in libraries if any(part in command for command in commands) else ():
            pytest.importorskip(library, reason=f"{library} is not installed: make training")
    for extract, output in zip(run, outputs_of(commands), strict=True):
        assert extract.missing_from(output) == [], f"{extract.command}\nprints\n{output}"


def need_the_makefile() -> None:
    if not (ROOT / "Makefile").exists():
        pytest.skip("there is no Makefile outside the source tree")


def test_there_are_extracts_and_what_is_not_run_is_one_of_them() -> None:
    assert len(COMMANDS) >= 5
    assert set(NOT_RUN) <= COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_quoted_command_is_one_that_can_be_run_here(command: str) -> None:
    assert command.split()[0] in ("tightrope", "python", "make") or command in NOT_RUN


# -- the reader of the pages itself --------------------------------------------------------------------------

PAGE = """
```
$ tightrope epsilon --noise 1 \\
      --delta 1e-6      # a remark
delta   epsilon
------  -------
1e-06   0.9472
...
The ends are ... apart.

$ tightrope epsilon ... --effort tight
1e-06   0.9471
```

```python
$ not an extract
```
words
```toml
$ neither = "this"
```
"""
PRINTED = "  delta    epsilon\n-----  ---\n1e-06    0.9472\n\nThe ends\nare 13 % apart.\n"


def test_commands_and_quotes_are_told_apart() -> None:
    ((line, (first, second)),) = find_blocks(PAGE)
    assert line == 3
    assert first.command == "tightrope epsilon --noise 1 --delta 1e-6"
    assert second.command == "tightrope epsilon --noise 1 --delta 1e-6 --effort tight"
    assert second.quoted == ("1e-06   0.9471",)


def test_a_wrong_number_would_be_noticed() -> None:
    ((_, (first, second)),) = find_blocks(PAGE)
    assert first.missing_from(PRINTED) == []
    assert first.missing_from(PRINTED.replace("0.9472", "0.9473")) == ["1e-06   0.9472"]
    assert first.missing_from(PRINTED.replace("0.9472", "0.94721")) == ["1e-06   0.9472"]
    assert second.missing_from(PRINTED) == ["1e-06   0.9471"]


def test_words_that_are_left_out_may_be_any() -> None:
    (extract,) = read_block("$ x\nabout ... s, at the\nend of it. ...\n... it all.")
    assert extract.missing_from("It takes about 30 s, at\nthe end of it. And that is it all.") == []
    assert extract.missing_from("It takes about 30 min, at the end of it. And that is it all.") == [
        "about ... s, at the"
    ]


def test_make_targets_stand_for_their_recipe() -> None:
    need_the_makefile()
    assert re.match(r"tightrope contrast .*--delta 1e-6", recipe_of("make run"))
