"""Reproducible hypothesis runs: the same examples each time, and no deadline on shared machines."""

from hypothesis import settings

settings.register_profile("tightrope", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("tightrope")
