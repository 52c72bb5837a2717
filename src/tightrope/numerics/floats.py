"""What every file says about floats: the unit roundoff, and arrays of them."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
UNIT_ROUNDOFF = 2.0**-53  # of double precision: a rounded result is off by at most this, relative to itself
