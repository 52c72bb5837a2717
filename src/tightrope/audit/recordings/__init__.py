"""Batches of indices, recorded and tested."""
