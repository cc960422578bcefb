"""From the type of a file to the type of a band: round half to even, refuse what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.errors import SourceUnreadable

Place = Callable[[int, int], str]
"""Says where the pixel at a row and a column of an array is, for a message."""


def fits_always(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether every number of one type has a place in the other: then no value has to be looked at."""
    if target.kind == "f":
        return source.kind != "f" or source.itemsize <= target.itemsize
    return bool(np.can_cast(source, target, "safe"))


def convert(values: Array, valid: Mask | None, dtype: np.dtype[Any], place: Place) -> Array:
    """Returns ``values`` in another type.

    Args:
        values: ``(row, col)``.
        valid: the same shape; masked pixels are not looked at and come out undefined.
        dtype: the type wanted.
        place: says where a pixel is.

    Raises:
        SourceUnreadable: a valid pixel is outside the range of the type, or NaN where the type is an integer.
    """
    if values.dtype == dtype:
        return values
    if fits_always(values.dtype, dtype):
        return values.astype(dtype)
    rounded = np.rint(values) if values.dtype.kind == "f" and dtype.kind != "f" else values
    with np.errstate(invalid="ignore", over="ignore"):
        fits = _fits(rounded, dtype)
        if valid is not None:
            fits |= ~valid
        if not fits.all():
            row, col = (int(i) for i in np.argwhere(~fits)[0])
            raise SourceUnreadable(
                f"{place(row, col)}: the value {values[row, col]} does not fit into {dtype.name}"
                f" ({_range(dtype)}); give the band a wider type:"
            )
        return rounded.astype(dtype)


def _fits(values: Array, dtype: np.dtype[Any]) -> Mask:
    if dtype.kind == "f":
        # infinity stays infinity; only a finite number that overflows is out of range
        return np.asarray(np.isfinite(values.astype(dtype)) | ~np.isfinite(values))
    limits = np.iinfo(dtype)
    if values.dtype.kind == "f":
        # the upper limit plus one is a power of two, which floating point holds exactly
        low, high = float(limits.min), float(int(limits.max) + 1)
        return np.asarray((values >= low) & (values < high))
    own = np.iinfo(values.dtype)
    low_int, high_int = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
    return np.asarray((values >= low_int) & (values <= high_int))


def _range(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return f"up to {np.finfo(dtype).max}"
    limits = np.iinfo(dtype)
    return f"{limits.min} to {limits.max}"
