"""How fast this machine is at this moment, beside the one on which costs were measured."""

import time

import numpy as np
from scipy import fft

ROWS, SIZE, REPEATS = 8, 16_384, 100  # Fourier transforms, as most long work makes: some 40 ms
USUAL_SECONDS = 4e-4  # that one repeat took where costs were measured, with nothing else to do


def measure_slowness() -> float:
    """How many times longer than there one thread takes here and now; other programs count."""
    spectra = np.ones((ROWS, SIZE // 2 + 1), dtype=complex)
    fft.irfft(spectra, SIZE, axis=1)  # which makes the tables
    began = time.perf_counter()
    for _ in range(REPEATS):
        fft.irfft(spectra, SIZE, axis=1)
    return (time.perf_counter() - began) / (REPEATS * USUAL_SECONDS)
