"""The house stays habitable: short files, simple functions, one meaning per class name, shallow imports."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import tightrope

ROOT = Path(tightrope.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES, MOST_BRANCHES, MOST_DEPTH = 400, 12, 14

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def branches(function: ast.AST) -> int:
    """How many ways a function can go: conditions, loops, handlers, cases, comprehensions, connectives."""
    simple = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.match_case)
    total = sum(isinstance(node, simple) for node in ast.walk(function))
    return total + sum(len(node.values) - 1 for node in ast.walk(function) if isinstance(node, ast.BoolOp))


@each_file
def test_a_file_is_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@each_file
def test_a_function_goes_few_ways(path: Path) -> None:
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    tangled = {f.name: branches(f) for f in functions if branches(f) > MOST_BRANCHES}
    assert tangled == {}


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def module_of(path: Path) -> str:
    parts = ("tightrope", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def imports_of(module: str, *, local: bool) -> frozenset[str]:
    """The modules of this package that a module imports when it is loaded and, if asked, in its functions.

    What is imported for types alone does not count.
    """
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
        if isinstance(node, ast.FunctionDef) and not local:
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (
                {node.module} if any(f"{node.module}.{a.name}" not in MODULES for a in node.names) else set()
            )
    return frozenset(name for name in found if name in MODULES and name not in (module, *FACES))


FACES = ("tightrope", "tightrope.public", "tightrope.integrations.opacus")  # which only hand on names


def longest_chain(module: str, above: tuple[str, ...] = (), *, local: bool) -> tuple[str, ...]:
    """The longest chain of imports below a module; a cycle is an error."""
    assert module not in above, " -> ".join((*above, module))
    if (module, local) not in _CHAINS:
        below = [
            longest_chain(n, (*above, module), local=local) for n in sorted(imports_of(module, local=local))
        ]
        _CHAINS[module, local] = (module, *max(below, key=len, default=()))
    return _CHAINS[module, local]


_CHAINS: dict[tuple[str, bool], tuple[str, ...]] = {}


def test_imports_have_no_cycle_even_through_local_imports() -> None:
    for module in MODULES:
        longest_chain(module, local=True)


def test_chains_of_imports_are_short() -> None:
    chains = [longest_chain(module, local=False) for module in MODULES if module not in FACES]
    assert max(chains, key=len)[MOST_DEPTH:] == ()
