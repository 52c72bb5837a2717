"""Reads the built site: nothing is loaded from another host, and every link within it leads somewhere.

python docs/check_site.py build/site
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser fetches by itself; a link that somebody may click is none of these
LOADED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "use": ("href", "xlink:href"),
}
ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
IGNORED = ("canonical", "search", "index", "next", "prev", "author", "copyright")  # of <link rel=...>


@dataclass
class Page(HTMLParser):
    """What a page loads, where it leads, and the places in it that a link may name."""

    text: str
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element loads, links to and is called."""
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        loaded = [given[name] for name in LOADED.get(tag, ()) if name in given]
        if tag == "link" and given.get("rel") in IGNORED:
            self.links += loaded
        else:
            self.loads += loaded

    def handle_data(self, data: str) -> None:
        """Note what may be a style."""
        if self.lasttag == "style":
            self.styles.append(data)

    handle_startendtag = handle_starttag


def find_faults(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site, in words."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} holds no pages"
    for path, page in pages.items():
        for address in page.loads:
            parts = urlsplit(address)
            if parts.netloc or parts.scheme not in ("", "data"):
                yield f"{path.relative_to(site)} loads {address}"
        for address in [*page.loads, *page.links]:
            yield from (f"{path.relative_to(site)} {fault}" for fault in _follow(address, path, pages))
        if any(ELSEWHERE.search(style) for style in page.styles):
            yield f"{path.relative_to(site)} has a style that loads from elsewhere"
    for sheet in sorted(site.rglob("*.css")):
        if ELSEWHERE.search(sheet.read_text()):
            yield f"{sheet.relative_to(site)} loads from elsewhere"


def _follow(address: str, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """What is wrong with an address within the site."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        yield f"leads to {address}, which does not exist"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
        yield f"leads to {address}, which has no such place"


def main() -> int:
    """Print the faults of a site; 1 if there are any."""
    site = Path(sys.argv[1]).resolve()
    faults = sorted(set(find_faults(site)))
    fine = "pages; every link within the site leads somewhere, and nothing is loaded from elsewhere"
    print("\n".join(faults) or f"{len(list(site.rglob('*.html')))} {fine}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
