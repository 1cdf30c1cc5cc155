"""The arrays that every room computes with, and the callback that work reports its progress to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]  # places, and codes of labels; −1 where there is none
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]  # of random bits
Progress = Callable[[float], None]  # called with the share of the work that is done
