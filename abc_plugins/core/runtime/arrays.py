"""Names for the array types used in annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]
Bins = NDArray[np.uint8]
Booleans = NDArray[np.bool_]
AnyArray = NDArray[Any]

DERIVATIVE = np.float32
"""Type of derivatives along directions: histograms keep fewer digits of each, and memory is half of that of float64."""

Derivatives = NDArray[np.float32]
