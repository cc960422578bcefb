"""GDAL's resampling kernels on arrays, without any of its ideas about masks.

GDAL is handed values alone: no nodata, no alpha, no mask. Validity is resampled apart, with the same
kernel, beside an array of ones: where the two come out equal, every pixel that went into a value was
valid, and elsewhere the pixel is masked. Weights may be negative or not sum to one; the comparison
does not care.
"""

from __future__ import annotations

import threading

import numpy as np
from affine import Affine
from odc.geo.geobox import GeoBox
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.io import MemoryFile
from rasterio.vrt import WarpedVRT

from patchbeam.elements import Array, Mask
from patchbeam.errors import ReadFailed

RADIUS = {"bilinear": 1, "cubic": 2, "cubic_spline": 2, "lanczos": 3}
"""Pixels on either side that a kernel reaches when it does not shrink; others reach one."""

_EXACT = 1e-9
"""Pixels of error allowed to GDAL's approximate transformer, which then asks PROJ for every pixel."""

_CLOSE = 1e-4
"""The same for kernels that weight pixels: PROJ is asked for one pixel in twenty or so. Those that choose
one of the pixels could choose another."""

_ALONE = threading.Lock()
"""One view of GDAL at a time. One that is made while another thread warps often has PROJ's database searched,
for three times as long as the warp takes, and Python waits meanwhile: two threads were no faster than one."""

_COUNTING = frozenset({"mode", "min", "max", "med", "q1", "q3", "rms"})
"""Kernels whose contributors are those of ``average``, which shows if one of them is masked."""


def resample(
    values: Array,
    valid: Mask | None,
    source: GeoBox,
    target: GeoBox,
    resampling: str,
    shrink: tuple[float, float],
    *,
    covered: bool,
) -> tuple[Array, Mask]:
    """Brings bands from one grid onto another.

    Args:
        values: ``(band, row, col)`` on ``source``.
        valid: the same shape; ``None`` when all are valid.
        source: must reach beyond what the target needs, or end where the file ends.
        target: the grid wanted.
        resampling: GDAL's name of the kernel, ``nearest`` excepted.
        shrink: pixels of the source a pixel of the target, across and down. Given to GDAL, which would
            else estimate it anew for each piece of work and so return values that depend on the piece.
        covered: whether every pixel of the target has its centre in the file: then each has a contributor.

    Returns:
        Values in the same type, and validity: false also where no pixel of the source contributes.

    Raises:
        ReadFailed: GDAL cannot compute it.
    """
    if valid is None:
        warped = _warp(values, source, target, resampling, shrink)
        if covered or resampling in RADIUS:
            return warped, np.ones(warped.shape, np.bool_)
        ones = np.ones((1, *values.shape[1:]), np.float32)
        present = _warp(ones, source, target, resampling, shrink, contributors=True)
        return warped, np.broadcast_to(present != 0, warped.shape)
    warped = _warp(np.where(valid, values, np.zeros((), values.dtype)), source, target, resampling, shrink)
    same = bool((valid == valid[:1]).all())
    kinds = valid[:1] if same else valid
    indicators = np.concatenate([np.ones((1, *valid.shape[1:]), np.bool_), kinds]).astype(np.float32)
    present = _warp(indicators, source, target, resampling, shrink, contributors=True)
    good = (present[1:] == present[:1]) & (present[:1] != 0)
    return warped, np.broadcast_to(good, warped.shape)


def snapped(shrink: float) -> float:
    """Returns a shrink factor as GDAL uses it: whole where it is within 0.05 of a whole number."""
    whole = round(shrink)
    return float(whole) if whole >= 1 and abs(shrink - whole) < 0.05 else shrink


def _warp(
    values: Array,
    source: GeoBox,
    target: GeoBox,
    resampling: str,
    shrink: tuple[float, float],
    *,
    contributors: bool = False,
) -> Array:
    """Has GDAL resample values; with ``contributors`` by the kernel that shows which of them count."""
    count, height, width = values.shape
    choosing = resampling in _COUNTING
    kernel = "average" if choosing and contributors else resampling
    try:
        with MemoryFile() as memory:
            with memory.open(
                driver="GTiff",
                width=width,
                height=height,
                count=count,
                dtype=values.dtype.name,
                crs=_crs(source),
                transform=Affine(*tuple(source.affine)[:6]),
                # four bytes bands would else be taken for red, green, blue and alpha
                photometric="MINISBLACK",
                alpha="UNSPECIFIED",
            ) as dataset:
                dataset.write(values)
            with (
                memory.open() as dataset,
                _ALONE,
                WarpedVRT(
                    dataset,
                    crs=_crs(target),
                    transform=Affine(*tuple(target.affine)[:6]),
                    width=target.width,
                    height=target.height,
                    resampling=Resampling[kernel],
                    # both ways at the same positions: else a masked pixel could count in one alone
                    tolerance=_EXACT if choosing else _CLOSE,
                    XSCALE=1 / shrink[0],
                    YSCALE=1 / shrink[1],
                    # all of the source is at hand: no guessing which part is needed
                    SOURCE_EXTRA=max(width, height),
                ) as view,
            ):
                result: Array = view.read()
                return result
    except RasterioError as e:
        raise ReadFailed(f"{resampling} resampling of {width} x {height} pixels failed: {e}") from e


def _crs(grid: GeoBox) -> CRS:
    assert grid.crs is not None
    return CRS.from_wkt(grid.crs.to_wkt())
