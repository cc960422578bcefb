"""Which pixels a file itself calls valid: nodata, mask and alpha, joined by OR of what they mask.

GDAL picks one of the three and drops the others (a mask over nodata, nodata over alpha); here each
is read by itself. The fourth, lying outside the footprint, is the reader's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.rasters.files import RasterFile


def usable_nodata(nodata: float | None, dtype: np.dtype[Any]) -> bool:
    """Whether a pixel of this type can ever equal ``nodata``; true when there is none."""
    if nodata is None:
        return True
    if dtype.kind == "f":
        if not math.isfinite(nodata):
            return True
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.asarray(nodata).astype(dtype)))
    if not math.isfinite(nodata) or nodata != int(nodata):
        return False
    limits = np.iinfo(dtype)
    return bool(int(limits.min) <= int(nodata) <= int(limits.max))


def nodata_mask(values: Array, nodata: float | None, out: Mask | None = None) -> Mask | None:
    """Returns where ``values`` are not nodata; ``None`` when nodata cannot occur.

    Args:
        values: numbers of any shape.
        nodata: the number that masks; ``None`` for none.
        out: of the same shape, written to when given and nodata can occur.
    """
    if nodata is None or not usable_nodata(nodata, values.dtype):
        return None
    if values.dtype.kind == "f" and math.isnan(nodata):
        missing = np.isnan(values, out=out)
        return np.logical_not(missing, out=missing)
    number = nodata if values.dtype.kind == "f" else int(nodata)
    return np.asarray(np.not_equal(values, values.dtype.type(number), out=out))


def nodata_valid(
    values: Array,
    header: RasterFile,
    indexes: Sequence[int],
    nodata: float | None,
    out: Mask | None = None,
) -> Mask | None:
    """Returns which pixels of a file are not nodata; arguments and result as of :func:`file_valid`."""
    valid = out
    for i, index in enumerate(indexes):
        own = header.nodata[index - 1] if nodata is None else nodata
        if out is not None:
            if nodata_mask(values[i], own, out[i]) is None:
                out[i] = True
            continue
        mask = nodata_mask(values[i], own)
        if mask is not None and not mask.all():
            if valid is None:
                valid = np.ones(values.shape, np.bool_)
            valid[i] = mask
    return valid


def file_valid(
    dataset: Any,
    header: RasterFile,
    indexes: Sequence[int],
    window: Any,
    values: Array,
    nodata: float | None,
    out: Mask | None = None,
) -> Mask | None:
    """Returns which of the pixels just read the file calls valid.

    Args:
        dataset: the open file.
        header: its header.
        indexes: band numbers.
        window: ``rasterio.windows.Window`` inside the file.
        values: those bands, ``(band, row, col)``, in the file's own types.
        nodata: takes the place of the file's own; ``None`` leaves it.
        out: written to and returned when given: ``(band, row, col)``.

    Returns:
        ``(band, row, col)``, or ``None`` when every pixel is valid and ``out`` is not given.
    """
    valid = nodata_valid(values, header, indexes, nodata, out)

    def join(band: int | slice, mask: Mask | None) -> None:
        nonlocal valid
        if mask is None or mask.all():
            return
        if valid is None:
            valid = np.ones(values.shape, np.bool_)
        valid[band] &= mask

    masked = [i for i, index in enumerate(indexes) if header.has_mask[index - 1]]
    if masked:
        read = dataset.read_masks([indexes[i] for i in masked], window=window)
        for i, mask in zip(masked, read, strict=True):
            # 255 is full; anything less is partly masked, hence masked
            join(i, mask == 255)
    if header.alpha is not None:
        join(slice(None), opaque(dataset.read(header.alpha, window=window)))
    return valid


def opaque(alpha: Array) -> Mask:
    """Returns where alpha is full, so that the pixel is wholly there.

    Full is the largest number of an integer type and 1 of a floating point one. In types other than 8
    bits, 255 is full too: files that were widened from 8 bits keep it, and warpers write it.
    """
    if alpha.dtype.kind == "f":
        return np.asarray((alpha == 1) | (alpha == 255))
    full: Mask = alpha == np.iinfo(alpha.dtype).max
    return full if alpha.dtype.itemsize == 1 else full | (alpha == 255)
