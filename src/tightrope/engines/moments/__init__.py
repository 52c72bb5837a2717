"""Rényi divergences: moments of the loss that are never too small."""
