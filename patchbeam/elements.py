"""The values that travel between the stages of an export.

In order: a block number, :class:`PixelBlock` (its pixels), :class:`RecordRun` (encoded records of
consecutive patches), :class:`Piece` (where a run's bytes lie). Only pieces are ever gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BandPixels:
    """One band of one window.

    Attributes:
        values: in the band's type, ``(row, col)``; for an array band ``(step, row, col)``.
        valid: the same shape, true where a pixel is not masked; ``None`` when every pixel is valid.
            What ``values`` holds where ``valid`` is false is not defined.
    """

    values: Array
    valid: Mask | None = None
