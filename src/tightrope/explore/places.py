"""Where the files of the page are, and the proof notes it links to."""

from pathlib import Path

import tightrope

FILES = Path(__file__).parent / "page"
PROOFS = Path(tightrope.__file__).parent / "theorems" / "proofs"
