"""One answer for a number, an array of answers for an array of numbers."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidSetting

Answer = TypeVar("Answer")


def elementwise(one: Callable[[float], Answer], values: ArrayLike, name: str) -> Answer | NDArray[np.object_]:
    """`one` of the value, or of each; what are no numbers is refused by `name`."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = np.array(["ragged"])
    if array.ndim == 0:
        return one(values)  # type: ignore[arg-type]
    if array.size and not np.issubdtype(array.dtype, np.number):
        raise InvalidSetting(f"{name} must be a number or an array of numbers, got {values!r}. Pass floats.")
    result = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        result[index] = one(array[index].item())
    return result
