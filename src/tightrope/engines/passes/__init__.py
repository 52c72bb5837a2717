"""Passes, in which a record is in one batch or in several: curves, and finite pairs on both sides of them."""
