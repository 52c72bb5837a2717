"""Certified privacy accounting for subsampled mechanisms under composition."""
