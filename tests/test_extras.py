"""What is missing is named with the command that installs it, for how this copy was installed."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tightrope
from shell import absent
from tightrope.extras import install_command

PACKAGE = Path(tightrope.__file__).parent
EXAMPLES = Path(__file__).parent.parent / "examples"
SOURCES = sorted(PACKAGE.rglob("*.py"))
RUN = "--noise 0.8 --sampling poisson --rate 0.001 --steps 100 --relation add-or-remove"


def installed(site: Path, direct_url: object = None, installer: str = "pip", **environment: str) -> str:
    """The command for the extra `cli` where this package is installed so."""
    site.mkdir()
    (site / "tightrope").symlink_to(PACKAGE)
    metadata = site / f"tightrope-{tightrope.__version__}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: tightrope\nVersion: {tightrope.__version__}\n"
    )
    (metadata / "INSTALLER").write_text(f"{installer}\n")
    if direct_url is not None:
        (metadata / "direct_url.json").write_text(json.dumps(direct_url))
    script = "from tightrope.extras import install_command; print(install_command('cli'))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(site), **environment},
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("direct_url", "requirement"),
    [
        (None, "'tightrope[cli]'"),
        ({"url": "file:///home/me/tightrope", "dir_info": {}}, "'/home/me/tightrope[cli]'"),
        (
            {"url": "file:///home/me/my%20tightrope", "dir_info": {"editable": True}},
            "-e '/home/me/my tightrope[cli]'",
        ),
        (
            {"url": "file:///dist/t-1-py3-none-any.whl", "archive_info": {}},
            "'/dist/t-1-py3-none-any.whl[cli]'",
        ),
        (
            {
                "url": "https://example.org/t.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "12ab"},
            },
            "'tightrope[cli] @ git+https://example.org/t.git@main'",
        ),
        (
            {"url": "file:///home/me/t", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "'tightrope[cli] @ git+file:///home/me/t@12ab'",
        ),
        (
            {"url": "https://example.org/t.whl", "archive_info": {}},
            "'tightrope[cli] @ https://example.org/t.whl'",
        ),
    ],
)
def test_the_command_installs_from_where_this_copy_came(
    tmp_path: Path, direct_url: object, requirement: str
) -> None:
    assert installed(tmp_path / "site", direct_url) == f"pip install {requirement}"


def test_another_environment_than_that_of_pip_is_named(tmp_path: Path) -> None:
    python = shlex.quote(sys.executable)
    assert installed(tmp_path / "site", PATH=str(tmp_path)) == f"{python} -m pip install 'tightrope[cli]'"


def test_what_uv_installed_is_installed_by_uv(tmp_path: Path) -> None:
    python = shlex.quote(sys.executable)
    said = installed(tmp_path / "elsewhere", installer="uv", VIRTUAL_ENV="")
    assert said == f"uv pip install --python {python} 'tightrope[cli]'"
    said = installed(tmp_path / "active", installer="uv", VIRTUAL_ENV=sys.prefix)
    assert said == "uv pip install 'tightrope[cli]'"


@pytest.mark.skipif(PACKAGE.parent.name != "src", reason="this copy is installed, and not a source tree")
def test_a_source_tree_is_installed_in_place() -> None:
    assert install_command("cli").endswith(f"install -e {shlex.quote(f'{PACKAGE.parent.parent}[cli]')}")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_text_names_an_index_by_itself(path: Path) -> None:
    assert re.findall(r"tightrope\[\w", path.read_text()) == []


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        ("schema", "pydantic", "statement"),
        ("verify statement.json", "pydantic", "statement"),
        ("statement facts.toml", "pydantic", "statement"),
        ("statement facts.toml", "yaml", "statement"),
        (f"curve {RUN} --plot curve.svg", "matplotlib", "plot"),
        ("sweep grid.toml --out rows.csv", "joblib", "dist"),
        ("sweep grid.toml --out rows.parquet --workers 1", "pyarrow", "parquet"),
        ("sweep grid.toml --out rows.csv --dask tcp://127.0.0.1:1", "distributed", "dist"),
    ],
)
def test_a_command_without_its_library_is_refused_with_the_command_that_installs_it(
    tmp_path: Path, words: str, library: str, extra: str
) -> None:
    for name, copy in (("grid.toml", "grid.toml"), ("statement.toml", "facts.toml")):
        (tmp_path / copy).write_text((EXAMPLES / name).read_text())
    script = f"{absent(library)}\nfrom tightrope.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"nstall it with: {install_command(extra)}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_version_needs_no_library_and_help_says_which_is_missing() -> None:
    script = f"{absent('cyclopts', 'rich')}\nfrom tightrope.cli.entry import main; main()"

    def ask(word: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-c", script, word], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    assert ask("--version") == (0, f"{tightrope.__version__}\n", "")
    lacks = "the command line needs cyclopts, which is not installed"
    assert ask("--help") == (2, "", f"tightrope: {lacks}. Install it with: {install_command('cli')}\n")
