"""The ``grid`` part of a job: its keys, and which of them go together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from patchbeam.affines import Affine6
from patchbeam.errors import GridError
from patchbeam.lattice import check_size
from patchbeam.region import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """The ``grid`` part of a job; every key may be absent.

    Attributes:
        crs: CRS of the export, any text that PROJ takes; without it, the first file's.
        scale: pixel size in metres.
        crs_transform: ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``.
        dimensions: width and height in pixels.
        region: a parsed GeoJSON object, or ``(xmin, ymin, xmax, ymax)``.
        region_crs: CRS of ``region``; without it, EPSG:4326 for GeoJSON and the export CRS for a box.
        clip: mask the pixels whose centre lies outside ``region``.
    """

    crs: str | None = None
    scale: float | None = None
    crs_transform: Affine6 | None = None
    dimensions: tuple[int, int] | None = None
    region: dict[str, Any] | Box | None = None
    region_crs: str | None = None
    clip: bool = False


def check_options(options: GridOptions) -> None:
    """Refuses keys that contradict or miss each other.

    Raises:
        GridError: names the pair of keys, or the key whose value is impossible.
    """
    region, scale = options.region is not None, options.scale is not None
    transform, dimensions = options.crs_transform is not None, options.dimensions is not None
    rules = (
        (scale and transform, "grid.scale and grid.crsTransform", "both give the pixel size; keep one"),
        (
            scale and dimensions,
            "grid.scale and grid.dimensions",
            "both give the pixel size; keep grid.scale with grid.region, or grid.dimensions with grid.region "
            "or grid.crsTransform",
        ),
        (
            transform and dimensions and region,
            "grid.region and grid.dimensions",
            "with grid.crsTransform each gives the extent; keep one",
        ),
        (
            transform and not (dimensions or region),
            "grid.crsTransform",
            "gives no extent; add grid.region or grid.dimensions",
        ),
        (
            dimensions and not (transform or region),
            "grid.dimensions",
            "gives no place; add grid.region or grid.crsTransform",
        ),
        (
            options.region_crs is not None and not region,
            "grid.regionCrs and grid.region",
            "the first needs the second; add grid.region",
        ),
        (
            options.clip and not region,
            "grid.clip and grid.region",
            "the first needs the second; add grid.region",
        ),
    )
    for wrong, keys, why in rules:
        if wrong:
            raise GridError(f"{keys}: {why}")
    if scale:
        value = options.scale
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise GridError(f"grid.scale: {value!r} is not a finite number of metres")
        if value <= 0:
            raise GridError(f"grid.scale: {value} must be greater than 0 metres")


def check_dimensions(dimensions: tuple[int, int]) -> tuple[int, int]:
    """Returns width and height when they are possible sizes of a grid.

    Raises:
        GridError: they are not.
    """
    if len(dimensions) != 2:
        raise GridError(f"grid.dimensions: {list(dimensions)} is not [width, height]")
    for value in dimensions:
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise GridError(f"grid.dimensions: {value!r} is not a number of pixels greater than 0")
    check_size(*dimensions, "grid.dimensions")
    return dimensions
