"""Modules whose library is not installed have no doctests to collect: they say so when they are imported."""

from importlib.util import find_spec

NEEDS = {
    "src/tightrope/statements/*.py": ("pydantic", "yaml"),
    "src/tightrope/samplers/torch.py": ("torch",),
    "src/tightrope/integrations/opacus/*.py": ("torch", "opacus"),
    "src/tightrope/integrations/dp_*.py": ("dp_accounting",),
    "src/tightrope/integrations/jax_privacy.py": ("jax_privacy", "dp_accounting"),
    "src/tightrope/integrations/flower.py": ("flwr",),
}
collect_ignore_glob = [
    path for path, libraries in NEEDS.items() if not all(find_spec(library) for library in libraries)
]
