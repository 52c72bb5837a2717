"""tightrope statement, verify and schema: say it so that others can check it."""

import json as plain_json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tightrope.cli.machine import bracket_object, print_json
from tightrope.cli.options import ANSWER, QUESTION, Json
from tightrope.errors import InvalidSetting
from tightrope.files import as_path, read_text

EXAMPLE = """\
tightrope statement examples/statement.toml --format md"""
VERIFY_EXAMPLE = """\
tightrope verify statement.json"""
SCHEMA_EXAMPLE = """\
tightrope schema > tightrope-statement.schema.json"""

FINE, NOT_MET = 0, 3

Asked = Annotated[
    Path, Parameter(group=QUESTION, help="The facts and the run, a TOML file: docs/statements.md says how.")
]
Stated = Annotated[
    Path,
    Parameter(group=QUESTION, help="A statement in JSON, as tightrope statement --format json writes it."),
]
Format = Annotated[
    Literal["json", "md", "latex", "registry"],
    Parameter(
        name="--format",
        group=ANSWER,
        help="json to verify, md for a model card, latex for an appendix, or registry.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(group=ANSWER, help="A new file to write; without it, standard output."),
]


def statement(file: Asked, *, format: Format = "json", out: Out = None) -> None:
    """Make a privacy statement from a run, what is known of its batches and a few facts."""
    from tightrope.statements import render
    from tightrope.statements.file import read_registry_facts, read_statement

    made = read_statement(file)
    if format == "json":
        text = made.write_json()
    elif format == "md":
        text = render.render_markdown(made)
    elif format == "latex":
        text = render.render_latex(made)
    else:
        text = render.render_registry(made, read_registry_facts(file))
    _written(text, out)


def verify(file: Stated, *, json: Json = False) -> int:
    """Compute a statement anew; exit code 0 if it is proved for what runs and its numbers are right, else 3."""
    from tightrope.statements.checks import parse_statement
    from tightrope.statements.make import verify as compute_anew

    found = compute_anew(parse_statement(read_text(as_path(file)), where=str(file)))
    if json:
        print_json(
            {
                "holds": found.holds,
                "problems": list(found.problems),
                "claim": {"epsilon": found.statement.claim.epsilon, "delta": found.statement.claim.delta},
                "accounted": bracket_object(found.audit.claimed),
                "runs": bracket_object(found.audit.truly),
                "verdict": found.audit.verdict.name.lower(),
                "evidence": found.statement.implemented.evidence,
            }
        )
    else:
        print(found)
    return FINE if found.holds else NOT_MET


def schema() -> None:
    """Print the JSON Schema of a statement."""
    from tightrope.statements.model import build_schema

    print(plain_json.dumps(build_schema(), indent=2))


def _written(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidSetting(
            f"--out must name a new file, got {str(out)!r}, which exists. Choose another name."
        ) from None
    except OSError as problem:
        raise InvalidSetting(
            f"{str(out)!r} could not be written: {problem.strerror}. Choose another place."
        ) from None
