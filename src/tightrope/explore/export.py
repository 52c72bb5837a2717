"""One question as one file: the page with its numbers baked in, which asks nobody anything."""

import asyncio
import base64
import hashlib
import json
import re
from typing import Any

from tightrope import __version__
from tightrope.explore.places import FILES, PROOFS
from tightrope.explore.questions import PageQuestion
from tightrope.explore.stream import END, answer_all
from tightrope.explore.workers import Workers

_SCRIPT = re.compile(r'<script src="page/([\w./]+)" defer></script>')
_STYLE = re.compile(r'<link rel="stylesheet" href="page/([\w./]+)">')
_NEVER_FETCHED = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src"


def export_page(asked: PageQuestion) -> str:
    """The page as one HTML file."""
    return bake(asked, asyncio.run(collect(asked)))


async def collect(asked: PageQuestion) -> list[dict[str, Any]]:
    """Every line of the answer."""
    workers = Workers()
    lines: list[dict[str, Any]] = []
    await workers.open()
    try:
        await answer_all(workers, asked, lines.append)
    finally:
        await workers.close()
    return [*lines, END]


def bake(asked: PageQuestion, lines: list[dict[str, Any]]) -> str:
    """The page with these lines and everything it would fetch."""
    page = (FILES / "index.html").read_text("utf-8")
    scripts = [_as_inline((FILES / name).read_text("utf-8")) for name in _SCRIPT.findall(page)]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_NEVER_FETCHED} {hashes}">'
    baked = {"state": asked.state, "version": __version__, "lines": lines, "proofs": _read_proofs(lines)}
    data = json.dumps(baked, allow_nan=False).replace("<", "\\u003c")
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1)
    page = _STYLE.sub(lambda m: f"<style>{(FILES / m[1]).read_text('utf-8')}</style>", page)
    page = _SCRIPT.sub("", page)
    inlined = "\n".join(f"<script>{script}</script>" for script in scripts)
    baked_in = f'<script type="application/json" id="baked">{data}</script>'
    return page.replace("</body>", f"{baked_in}\n{inlined}\n</body>", 1)


def _read_proofs(lines: list[dict[str, Any]]) -> dict[str, str]:
    """The proof notes that the answer links to."""
    names = {each["proof"] for line in lines for each in line.get("why", {}).get("theorems", ())}
    return {name: (PROOFS / name).read_text("utf-8") for name in sorted(names)}


def _as_inline(script: str) -> str:
    """A script whose text does not end its own element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
