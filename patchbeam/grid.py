"""The export grid: from job options to one frozen grid, odc-geo's ``GeoBox``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.errors import GridError
from patchbeam.patches import Window

Affine6 = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """The ``grid`` part of a job; every key may be absent.

    Attributes:
        crs: CRS of the export, any text that PROJ takes.
        scale: pixel size in metres.
        crs_transform: ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``.
        dimensions: width and height in pixels.
        region: a parsed GeoJSON object, or ``(xmin, ymin, xmax, ymax)``.
        region_crs: CRS of ``region``; EPSG:4326 for GeoJSON and the export CRS for a box when absent.
        clip: mask the pixels whose centre lies outside ``region``.
    """

    crs: str | None = None
    scale: float | None = None
    crs_transform: Affine6 | None = None
    dimensions: tuple[int, int] | None = None
    region: dict[str, Any] | tuple[float, float, float, float] | None = None
    region_crs: str | None = None
    clip: bool = False


def resolve_grid(options: GridOptions, source_grids: Sequence[GeoBox]) -> GeoBox:
    """Returns the export grid.

    Args:
        options: the job's ``grid`` part.
        source_grids: grids of the files of the first source, in list order.

    Raises:
        GridError: the options contradict each other or give no grid.
    """
    if not source_grids:
        raise GridError("grid: the first source has no files")
    return source_grids[0]


def affine6(grid: GeoBox) -> Affine6:
    """Returns a grid's affine as ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``."""
    a, b, c, d, e, f = grid.affine[:6]
    return a, b, c, d, e, f


def from_affine6(numbers: Sequence[float]) -> Affine:
    """Returns the affine of ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``."""
    return Affine(*numbers)


def padded(grid: GeoBox, window: Window) -> GeoBox:
    """Returns the grid of a window of another grid; the window may reach outside it."""
    affine = grid.affine * Affine.translation(window.col_off, window.row_off)
    return GeoBox((window.height, window.width), affine, grid.crs)


def offsets_on(grid: GeoBox, other: GeoBox, tolerance: float = 1e-3) -> tuple[int, int] | None:
    """Returns the column and row of ``grid`` where ``other`` starts, or ``None`` off its lattice."""
    if grid.crs != other.crs:
        return None
    to_pixel = ~grid.affine
    col, row = (round(v) for v in to_pixel * (other.affine * (0, 0)))
    for corner in ((0, 0), (other.width, 0), (0, other.height), (other.width, other.height)):
        x, y = to_pixel * (other.affine * corner)
        if abs(x - col - corner[0]) > tolerance or abs(y - row - corner[1]) > tolerance:
            return None
    return col, row
