"""Epochs of shuffled batches, from above."""
