"""Losses on a lattice, composed by FFT, with an error on a known side."""
