"""Imports point one way: numerics < setting < theorems < curve < accountants < answers < outer rooms."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tightrope

ROOT = Path(tightrope.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LAYERS = (
    ("files", "numerics", "extras", "helpers"),
    ("parallel", "setting", "pairs"),
    ("theorems", "engines", "samplers"),
    ("curve",),
    ("accountants",),
    ("answers",),
    ("sweeps", "audit"),
    ("report",),
    ("statements",),
    ("integrations",),
    ("cli",),
    ("explore",),
)
HEIGHT = {package: height for height, layer in enumerate(LAYERS) for package in layer}
ROOMS_OF_CLI = ("typed", "printed", "process", "commands", "app", "completion", "session", "entry")
# what lies in none of them holds what they share, and chooses among them
ROOMS_OF_ENGINES = (
    ("integers", "lines", "one_step", "shuffles"),
    ("transforms", "lattice"),
    ("contour", "moments", "game"),
    ("passes", "draws", "menu"),
)
OUTERMOST = ("sweeps", "audit", "report", "statements", "integrations", "cli", "explore")


def package_of(path: Path) -> str:
    """The layer a file belongs to: its room, or its own name at the root; empty for the public face."""
    relative = path.relative_to(ROOT)
    name = relative.parts[0] if len(relative.parts) > 1 else relative.stem
    return "" if name in ("__init__", "__main__", "public") else name


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """The dotted names a file imports from this package, wherever in the file it does so."""
    module = ["tightrope", *path.relative_to(ROOT).with_suffix("").parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module[: -node.level]) if node.level else ""
            source = ".".join(part for part in (base, node.module or "") if part)
            # `from tightrope import errors` names a module, `from tightrope import Step` the public face
            opened = source in ("tightrope", "tightrope.cli")
            names = [f"{source}.{alias.name}" for alias in node.names] if opened else [source]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "tightrope")


def wrong_arrows(tree: ast.AST, path: Path) -> list[str]:
    """The imports of a file that point the wrong way."""
    package = package_of(path)
    wrong = []
    for name in imported(tree, path):
        target = name.split(".")[1] if "." in name else ""
        if target in (package, "errors") or package == "":
            continue
        public_face = target not in HEIGHT  # which holds everything below the outer layers
        inwards = target in HEIGHT and package in HEIGHT and HEIGHT[target] < HEIGHT[package]
        if not inwards and not (public_face and package in OUTERMOST):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_inwards(path: Path) -> None:
    assert wrong_arrows(ast.parse(path.read_text()), path) == []


def wrong_rooms(tree: ast.AST, path: Path) -> list[str]:
    """The imports of a file of the command line that point outwards within it."""
    height = ROOMS_OF_CLI.index(path.relative_to(ROOT / "cli").with_suffix("").parts[0])
    inside = [name for name in imported(tree, path) if name.startswith("tightrope.cli.")]
    return [name for name in inside if ROOMS_OF_CLI.index(name.split(".")[2]) > height]


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.is_relative_to(ROOT / "cli") and path != ROOT / "cli" / "__init__.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_rooms_of_the_command_line_have_an_order(path: Path) -> None:
    assert wrong_rooms(ast.parse(path.read_text()), path) == []


def wrong_engines(tree: ast.AST, path: Path) -> list[str]:
    """The imports of a file of one engine's room from rooms beside it or further out."""
    height = {room: i for i, rooms in enumerate(ROOMS_OF_ENGINES) for room in rooms}
    own = path.relative_to(ROOT / "engines").parts[0]
    rooms = [(name, name.split(".")[2]) for name in imported(tree, path) if name.count(".") > 2]
    return [
        name
        for name, room in rooms
        if name.startswith("tightrope.engines.") and room != own and height[room] >= height[own]
    ]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "engines").glob("*/*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_rooms_of_engines_have_an_order(path: Path) -> None:
    assert wrong_engines(ast.parse(path.read_text()), path) == []


def late_imports_without_a_reason(source: str) -> list[str]:
    """Imports within functions, of this package, that no comment gives a reason for: there or just above.

    Imports that follow each other share one.
    """
    lines = ["", *source.splitlines()]
    late: dict[int, ast.ImportFrom] = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found = (node for node in ast.walk(function) if isinstance(node, ast.ImportFrom))
            late |= {node.lineno: node for node in found if (node.module or "").startswith("tightrope")}
    told: set[int] = set()
    bare: list[str] = []
    for start, node in sorted(late.items()):
        end = node.end_lineno or start
        own = any("  # " in line for line in lines[start : end + 1])
        if own or lines[start - 1].lstrip().startswith("#") or start - 1 in told:
            told.add(end)
        else:
            bare.append(str(node.module))
    return bare


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_within_a_function_says_why(path: Path) -> None:
    assert late_imports_without_a_reason(path.read_text()) == []


def test_a_late_import_without_a_reason_would_be_noticed() -> None:
    source = "def f():\n    from tightrope.numerics.balls import ball{}\n\n    return ball(1)"
    assert late_imports_without_a_reason(source.format("")) == ["tightrope.numerics.balls"]
    assert late_imports_without_a_reason(source.format("  # loads flint")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_belongs_to_a_layer(path: Path) -> None:
    at_the_top = path.parent == ROOT and path.name in ("__init__.py", "__main__.py", "errors.py", "public.py")
    assert at_the_top or package_of(path) in HEIGHT


@pytest.mark.parametrize(
    ("source", "where", "wrong"),
    [
        (
            "from tightrope.engines.one_step.cells import ABOVE",
            "theorems/lookup.py",
            ["tightrope.engines.one_step.cells"],
        ),
        ("import tightrope.theorems.lookup", "engines/one_step/cells.py", ["tightrope.theorems.lookup"]),
        ("from ..compose import engine", "pairs/pair.py", ["tightrope.compose"]),
        (
            "def f():\n    from tightrope.answers.spend import delta",
            "engines/choose.py",
            ["tightrope.answers.spend"],
        ),
        ("from tightrope.cli.app import app", "answers/spend.py", ["tightrope.cli.app"]),
        ("from tightrope import Step", "engines/choose.py", ["tightrope.Step"]),
        ("import tightrope", "curve/bracket.py", ["tightrope"]),
        ("from tightrope.pairs.pair import Pair", "setting/run.py", ["tightrope.pairs.pair"]),
        ("from tightrope.setting.run import Run", "errors.py", ["tightrope.setting.run"]),
        ("from tightrope import errors\nfrom .pair import Pair\nimport numpy", "pairs/schedule.py", []),
        ("import tightrope as tr\nfrom tightrope.report.words import said", "cli/app.py", []),
    ],
)
def test_a_wrong_arrow_would_be_noticed(source: str, where: str, wrong: list[str]) -> None:
    assert wrong_arrows(ast.parse(source), ROOT / where) == wrong


@pytest.mark.parametrize(
    ("source", "where", "wrong"),
    [
        (
            "from tightrope.cli.printed.terminal import say",
            "cli/typed/options.py",
            ["tightrope.cli.printed.terminal"],
        ),
        ("def f():\n    from tightrope.cli import app", "cli/process/signals.py", ["tightrope.cli.app"]),
        ("from .commands import sweep", "cli/printed.py", ["tightrope.cli.commands"]),
        ("from tightrope.cli.typed.form import Form\nimport rich", "cli/printed/show.py", []),
        ("from tightrope.cli import app", "cli/session.py", []),
    ],
)
def test_a_wrong_room_would_be_noticed(source: str, where: str, wrong: list[str]) -> None:
    assert wrong_rooms(ast.parse(source), ROOT / where) == wrong


@pytest.mark.parametrize(
    ("source", "where", "wrong"),
    [
        (
            "from tightrope.engines.passes.cells import collect",
            "engines/transforms/spread.py",
            ["tightrope.engines.passes.cells"],
        ),
        ("from tightrope.engines.lines.plan import plan_line", "engines/transforms/spread.py", []),
        ("from tightrope.engines.face import Side", "engines/lines/plan.py", []),
        ("from tightrope.engines.contour.rows import Rows", "engines/contour/engine.py", []),
    ],
)
def test_a_wrong_engine_would_be_noticed(source: str, where: str, wrong: list[str]) -> None:
    assert wrong_engines(ast.parse(source), ROOT / where) == wrong


def test_importing_tightrope_loads_no_outer_library() -> None:
    outer = (
        "matplotlib",
        "cyclopts",
        "rich",
        "joblib",
        "distributed",
        "ray",
        "pyarrow",
        "torch",
        "scipy.stats",
        "scipy.optimize",
        "flint",
    )
    heavy = (*outer, "tightrope.cli", "tightrope.report", "tightrope.audit", "tightrope.samplers")
    loaded = f"[name for name in {heavy!r} if name in sys.modules]"
    script = f"import sys, tightrope; tightrope.epsilon; print({loaded})"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_every_public_name_exists_and_every_test_can_reach_it() -> None:
    assert len(set(tightrope.__all__)) == len(tightrope.__all__)
    for name in tightrope.__all__:
        assert getattr(tightrope, name) is not None
    promised = (
        "Step Run Gaussian Laplace RandomizedResponse Finite EveryRecord Poisson WithoutReplacement "
        "ADD REMOVE ADD_OR_REMOVE SUBSTITUTE epsilon delta privacy_curve contrast support_matrix "
        "Bracket PrivacyCurve TightropeError InvalidSetting NoTheorem NotPreciseEnough"
    )
    assert set(promised.split()) <= set(tightrope.__all__)


def test_what_type_checkers_see_is_what_users_get() -> None:
    from tightrope import public

    assert sorted(public.__all__) == sorted(tightrope.__all__)
    for name in tightrope.__all__:
        assert getattr(public, name) is getattr(tightrope, name)
    with pytest.raises(AttributeError, match="has no attribute 'epsilom'"):
        _ = tightrope.epsilom  # type: ignore[attr-defined]
