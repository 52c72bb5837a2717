"""How the documentation site is built: `make docs` writes it to build/site.

The repository itself is the source folder: a link between two pages is the same here and on a code host.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs" / "_extensions")]

import tightrope  # noqa: E402 the one beside this page, whichever is installed
from house import EXPLORER  # noqa: E402

project = "Tightrope"
author = "The Tightrope developers"
project_copyright = "The Tightrope developers"
release = version = tightrope.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "plain_mathematics", "house"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "src/tightrope/theorems/proofs/*",
    "benchmarks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".*", "build", "dist", "**/__pycache__", "docs/_*"]
nitpicky = True
smartquotes = False  # D' is a dataset, and code is quoted

myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 4
myst_heading_slug_func = "house.spell_anchor"
suppress_warnings = ["myst.xref_ambiguous"]

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Tightrope {release}"
html_static_path = ["_static"]
html_extra_path = ["_root"]
if EXPLORER.exists():
    html_extra_path.append(str(EXPLORER.parent))
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e79", "color-brand-content": "#1f4e79"},
    "dark_css_variables": {"color-brand-primary": "#8fc1ee", "color-brand-content": "#8fc1ee"},
}
