"""From a library that is missing to the command that installs it, for this copy of Tightrope."""

import os
import shlex
import shutil
import sys
from pathlib import Path

PACKAGE = "tightrope"


class MissingExtra(ImportError):
    """A library that is not installed, with the command that installs it.

    `by` are our extras that bring it, separated by commas.
    """

    def __init__(self, what: str, needs: str, by: str) -> None:
        super().__init__(f"{what} needs {needs}. {advise_install(by)}")


def advise_install(extras: str) -> str:
    """Say how to install extras of this copy; it ends with the command, so that one can copy it.

    >>> advise_install("plot").startswith("Install it with: ")
    True
    """
    return f"Install it with: {install_command(extras)}"


def install_command(extras: str) -> str:
    """The command that adds these extras to the environment that runs this, from where this copy came.

    An index is named only to those who installed from one.
    """
    installer, direct_url = _read_metadata()
    words = [*_install_words(installer), *_requirement(extras, direct_url)]
    return " ".join(map(_quote, words))


def _read_metadata() -> tuple[str, str]:
    """What installed this copy, and the record of where it came from; empty where nobody wrote that down."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        own = distribution(PACKAGE)
    except PackageNotFoundError:
        return "", ""
    return (own.read_text("INSTALLER") or "").strip(), own.read_text("direct_url.json") or ""


def _install_words(installer: str) -> list[str]:
    """What installs: in short where that reaches this environment, and with its path elsewhere."""
    from importlib.util import find_spec

    if installer == "uv" or find_spec("pip") is None:
        is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
        return ["uv", "pip", "install", *([] if is_active else ["--python", sys.executable])]
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return ["pip", "install"]
    return [sys.executable, "-m", "pip", "install"]


def _requirement(extras: str, direct_url: str) -> list[str]:
    """What to install: a source tree that runs in place, a path, an address, or a name for the index."""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    room = Path(__file__).absolute().parents[1]
    if room.name == "src" and (room.parent / "pyproject.toml").is_file():
        return ["-e", f"{room.parent}[{extras}]"]
    if not direct_url:
        return [f"{PACKAGE}[{extras}]"]
    origin = json.loads(direct_url)  # PEP 610
    url = origin["url"]
    if url.startswith("file:") and "vcs_info" not in origin:
        editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
        return [*editable, f"{url2pathname(urlsplit(url).path)}[{extras}]"]
    if "vcs_info" in origin:
        version = origin["vcs_info"].get("requested_revision") or origin["vcs_info"]["commit_id"]
        url = f"{origin['vcs_info']['vcs']}+{url}@{version}"
    return [f"{PACKAGE}[{extras}] @ {url}"]


def _quote(word: str) -> str:
    if os.name == "nt":  # where single quotes are ordinary letters
        return f'"{word}"' if set(word) & set(" []&^@") else word
    return shlex.quote(word)
