"""Pictures of the explorer's main views, made by a real browser: examples/explore_views.py --out DIR."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EXCHANGED = (
    "records=1000&batch=50&epochs=50&mechanism=gaussian&noise=4&sampling=without-replacement"
    "&relation=substitute&delta=1e-06&epsilon=3"
)
SOLVED = (
    "records=60000&batch=256&epochs=30&mechanism=gaussian&sampling=poisson&relation=add-or-remove"
    "&delta=1e-05&epsilon=3&solve=noise"
)
REFUSED = (
    "records=60000&batch=256&epochs=30&mechanism=laplace&noise=4&sampling=poisson&relation=substitute"
    "&delta=1e-05&epsilon=3"
)
VIEWS: dict[str, dict[str, Any]] = {
    "explore": {"width": 1100, "until": "#bars-note"},  # for docs/figures
    "wide-light": {"width": 1200},
    "wide-dark": {"width": 1200, "dark": True},
    "narrow-light": {"width": 360},
    "narrow-dark": {"width": 360, "dark": True},
    "print": {"width": 794, "print": True},
    "grey": {"width": 1200, "grey": True},
    "solved": {"width": 1200, "state": SOLVED},
    "exchanged": {"width": 1200, "state": EXCHANGED},
    "refused": {"width": 1200, "state": REFUSED},
}


@contextmanager
def serve(*words: str) -> Iterator[str]:
    """Run `tightrope explore` and yield its address."""
    command = [sys.executable, "-m", "tightrope", "explore", "--no-browser", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=20)


def complain(said: Any) -> None:
    """Show what a page complains about."""
    print(said.text, file=sys.stderr)


def main() -> None:
    """Take the pictures that were asked for."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the pictures")
    parser.add_argument("--view", choices=VIEWS, action="append", help="only these")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with serve() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in asked.view or VIEWS:
            view = VIEWS[name]
            page = browser.new_page(
                viewport={"width": view["width"], "height": 900},
                color_scheme="dark" if view.get("dark") else "light",
                device_scale_factor=1 if view["width"] > 400 else 2,
            )
            page.on("console", complain)
            page.goto(address + (f"?{view['state']}" if "state" in view else ""))
            page.wait_for_selector("body[data-busy=true]")
            page.wait_for_selector("body[data-busy=false]", timeout=240_000)
            page.wait_for_timeout(400)
            if view.get("grey"):
                page.add_style_tag(content="html { filter: grayscale(1); }")
            if view.get("print"):
                page.pdf(path=asked.out / f"{name}.pdf", format="A4")
                page.emulate_media(media="print")
            clip = None
            if "until" in view:
                box = page.locator(view["until"]).bounding_box()
                assert box is not None
                clip = {"x": 0, "y": 0, "width": view["width"], "height": box["y"] + box["height"] + 16}
            page.screenshot(path=asked.out / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]
            page.close()
            print(re.sub(r"^.*/", "", f"{asked.out / name}.png"), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
