"""How far SciPy's real FFTs, and convolutions by them, can be off: a theorem, not a measurement.

SciPy's real transforms (pocketfft) of a length without prime factors above 5 are passes of radix 4, as many
as there are, 2, 3 and 5. A pass multiplies by twiddle factors, which are products of two sines and cosines
and good to 9u (three for each factor, three for the product), and a complex product adds 3u. Then each
butterfly adds up r numbers: an output is off by at most b u times the sum of their sizes, b = 1, 5, 2, 8
for r = 2, 3, 4, 5 (count the roundings along each path, each times the size of its constant). So a pass is
off by (12.1 + b) u relative to the sum of sizes, and by (12.1 + b sqrt r) u in the 2-norm, in which it is
sqrt(r) times unitary.

As every output of the transform depends on every input along exactly one path, sizes add up to sums of
sizes and the passes' errors to their total: Higham, Accuracy and Stability, 2nd ed., Theorem 24.2, for
mixed radices.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import fft

from tightrope.numerics.floats import UNIT_ROUNDOFF, Floats

PASSES = {4: 16.2, 2: 13.6, 3: 20.8, 5: 30.0}  # 12.1 + b sqrt r, in units of roundoff
WORTH_THREADS = 16_000  # points of an FFT; for 9,000 threads cost a fifth more CPU time on a busy machine


def fast_size(least: int) -> int:
    """A length of at least `least` whose prime factors are 2, 3 and 5: what the theorem is about."""
    return fft.next_fast_len(least, real=True)


def threads_for(size: int) -> int:
    """SciPy's `workers` for a few FFTs of this length: 1, or -1, which stands for every processor."""
    return -1 if size >= WORTH_THREADS else 1


@lru_cache(maxsize=1000)
def fft_rel_error(size: int) -> float:
    """Of every coefficient relative to the sum of the input's sizes, and of all in the 2-norm relative to it.

    An inverse transform divides by the size too: two roundings more.
    """
    units, rest = 0.0, size
    for radix, of_pass in PASSES.items():
        while rest % radix == 0:
            units, rest = units + of_pass, rest // radix
    if rest != 1:
        raise ArithmeticError(f"no theorem bounds the rounding of an FFT of length {size}")
    error = units * UNIT_ROUNDOFF
    return error / (1 - error)


def convolution_rel_error(size: int) -> float:
    """Of each entry of a circular convolution, relative to (sum of the kernel) (2-norm of the values).

    The kernel, whose entries are not negative, has a spectrum of at most its sum S, off by x S. That of the
    values and the inverse transform are off by x in the 2-norm, a product by 3u, the division by 2u: together
    (1 + x)^3 (1 + 3u) (1 + 2u) - 1.
    """
    return 3 * fft_rel_error(size) + 8 * UNIT_ROUNDOFF


def two_norm(values: Floats) -> float:
    """The root of the sum of squares, within the roundings of a sum of so many terms.

    BLAS would share a sum of 10,000 terms among threads that wait for each other: 2 us of work took 18 ms on
    a machine whose other core was busy. Squares that overflow make it infinite.
    """
    return math.sqrt(float(np.einsum("i,i->", values, values)))
