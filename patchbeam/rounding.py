"""Which numbers float32 cannot hold: its significand has 24 bits (IEEE 754 binary32)."""

from __future__ import annotations

import numpy as np

from patchbeam.elements import Array, Mask

_EXACT = 1 << 24
_NEVER = frozenset(np.dtype(t) for t in ("u1", "i1", "u2", "i2", "f4", "f2"))


def rounded_by_float32(values: Array, stored: Array, valid: Mask | None = None) -> int:
    """Counts the valid numbers that changed when they became float32.

    Args:
        values: the numbers as they were, any type and shape.
        stored: the same as float32.
        valid: the same shape, false where a number does not count; ``None`` when all count.
    """
    if values.dtype in _NEVER or not values.size:
        return 0
    if values.dtype.kind == "f":
        # NaN stays NaN: not a loss
        changed = (stored.astype(np.float64) != values) & ~np.isnan(values)
    else:
        if int(values.min()) >= -_EXACT and int(values.max()) <= _EXACT:
            return 0
        negative = values < 0
        magnitude = values.astype(np.uint64)
        magnitude[negative] = ~magnitude[negative] + np.uint64(1)
        lowest = magnitude & (~magnitude + np.uint64(1))
        # exact when the bits between the highest and the lowest one set are at most 24
        changed = magnitude // np.maximum(lowest, np.uint64(1)) >= np.uint64(_EXACT)
    if valid is not None:
        changed &= valid
    return int(np.count_nonzero(changed))
