"""The export grid: from job options to one frozen grid, odc-geo's ``GeoBox``.

The ways to give a grid and the rules for snapping are those of the format contract: with a scale,
pixel edges are multiples of the pixel size counted from (0, 0), as real exported files have them; on a
lattice (the first file's, or ``crsTransform``), the region is snapped outward to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import shapely
from affine import Affine
from odc.geo.crs import CRS
from odc.geo.geobox import GeoBox
from shapely import Geometry

from patchbeam.affines import Affine6, Coords, affine6, from_affine6
from patchbeam.clip import ClipRegion, clip_mask
from patchbeam.crs import check_scale, describe, longitude_period, parse_crs, pixel_size, same_crs
from patchbeam.errors import GridError
from patchbeam.grid_options import GridOptions, check_dimensions, check_options
from patchbeam.lattice import (
    appearances,
    check_size,
    meets_any,
    offsets_on,
    padded,
    require_overlap,
    snap_out,
    turned,
    window_on,
)
from patchbeam.outline import grid_outline, grid_ring, join_shifts
from patchbeam.patches import Window
from patchbeam.region import Box, parse_region

__all__ = [
    "Affine6",
    "ClipRegion",
    "GridOptions",
    "affine6",
    "appearances",
    "clip_mask",
    "clip_region",
    "from_affine6",
    "meets_any",
    "offsets_on",
    "padded",
    "parse_crs",
    "parse_region",
    "region_in",
    "require_overlap",
    "resolve_grid",
    "same_crs",
]


def resolve_grid(options: GridOptions, source_grids: Sequence[GeoBox]) -> GeoBox:
    """Returns the export grid.

    Args:
        options: the job's ``grid`` part.
        source_grids: grids of the files of the first source, in list order. May be empty where the
            options need none.

    Raises:
        GridError: the options contradict each other, give no grid, or one without pixels or with more
            than 2**31 - 1 a side. The message names the keys.
    """
    check_options(options)
    crs = _export_crs(options, source_grids)
    if options.crs_transform is not None:
        affine = from_affine6(options.crs_transform)
        if options.dimensions is not None:
            width, height = check_dimensions(options.dimensions)
            return GeoBox((height, width), affine, crs)
        return _on_lattice(affine, crs, _corners(options, crs, source_grids), "grid.crsTransform")
    if options.scale is not None:
        return _by_scale(options, crs, source_grids)
    if options.dimensions is not None:
        width, height = check_dimensions(options.dimensions)
        xmin, ymin, xmax, ymax = _bounds(_corners(options, crs, source_grids))
        size = ((xmax - xmin) / width, (ymin - ymax) / height)
        if not (size[0] > 0 > size[1]):
            raise GridError(
                "grid.region: has no area, so grid.dimensions gives no pixel size; give a larger region"
            )
        return GeoBox((height, width), Affine(size[0], 0.0, xmin, 0.0, size[1], ymax), crs)
    first = source_grids[0]
    if options.region is not None:
        return _on_lattice(first.affine, crs, _corners(options, crs, source_grids), "grid.region")
    return _union(source_grids)


def region_in(options: GridOptions, crs: CRS | str, near: tuple[float, float] | None = None) -> Geometry:
    """Returns the job's region in a CRS, with vertices added where edges bend.

    Args:
        options: the job's ``grid`` part; ``region`` must be there.
        crs: the CRS wanted: the export CRS.
        near: longitudes of the grid, for a region that must be moved by full turns to lie on it (see
            :meth:`patchbeam.region.Region.in_crs`).

    Raises:
        GridError: there is no region, or it has no place in ``crs``.
    """
    if options.region is None:
        raise GridError("grid.region: this key is missing; give the region, or leave out what needs it")
    target = crs if isinstance(crs, CRS) else parse_crs(crs)
    region = parse_region(options.region)
    if options.region_crs is not None:
        source = parse_crs(options.region_crs, "grid.regionCrs")
    elif region.box is not None:
        source = target
    else:
        source = region.crs or CRS("EPSG:4326")
    return region.in_crs(source, target, near)


def clip_region(options: GridOptions, grid: GeoBox) -> ClipRegion | None:
    """Returns the region laid on the export grid, to mask what is outside; ``None`` without ``clip``.

    Raises:
        GridError: the region has no polygon.
    """
    if not options.clip:
        return None
    xs = grid_ring(grid)[:, 0]
    return ClipRegion.on(region_in(options, CRS(grid.crs), (float(xs.min()), float(xs.max()))), grid)


def _export_crs(options: GridOptions, source_grids: Sequence[GeoBox]) -> CRS:
    own_pixels = (options.crs_transform, options.scale, options.dimensions) != (None, None, None)
    if options.crs is not None and own_pixels:
        return parse_crs(options.crs)
    if not source_grids:
        raise GridError("grid: no source gives the grid; give grid.crs, grid.scale and grid.region")
    for i, grid in enumerate(source_grids):
        if grid.crs is None:
            raise GridError(
                f"grid: file {i + 1} of the first source has no CRS; give grid.crs and grid.scale"
            )
    crs = CRS(source_grids[0].crs)
    if options.crs is not None and not same_crs(parse_crs(options.crs), crs):
        raise GridError(
            f"grid.crs: {options.crs!r} is not the first source's {describe(crs)}, so its own pixels cannot "
            "be kept; add grid.scale, grid.crsTransform or grid.dimensions"
        )
    return crs


def _corners(options: GridOptions, crs: CRS, source_grids: Sequence[GeoBox]) -> Coords:
    """Vertices of the region in the export CRS; without a region, of the first source's files."""
    if options.region is None:
        rings = [
            np.asarray(grid_outline(g, crs, f"file {i + 1} of the first source").exterior.coords)
            for i, g in enumerate(source_grids)
        ]
        if (period := longitude_period(crs)) is not None:
            spans = [(float(r[:, 0].min()), float(r[:, 0].max())) for r in rings]
            shifts = join_shifts(spans, period)
            rings = [r + np.array([n * period, 0.0]) for r, n in zip(rings, shifts, strict=True)]
        return np.concatenate(rings)
    near = None
    same = [grid_ring(g)[:, 0] for g in source_grids if same_crs(g.crs, crs)]
    if same:
        near = (min(float(x.min()) for x in same), max(float(x.max()) for x in same))
    return np.asarray(shapely.get_coordinates(region_in(options, crs, near)), dtype=np.float64)


def _bounds(points: Coords) -> Box:
    (xmin, ymin), (xmax, ymax) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return xmin, ymin, xmax, ymax


def _by_scale(options: GridOptions, crs: CRS, source_grids: Sequence[GeoBox]) -> GeoBox:
    if options.region is None and not source_grids:
        raise GridError("grid.scale: gives no extent; add grid.region")
    check_scale(float(options.scale or 0), crs)
    size = pixel_size(float(options.scale or 0), crs)
    xmin, ymin, xmax, ymax = _bounds(_corners(options, crs, source_grids))
    edges = [value / size if size > 0 else math.inf for value in (xmin, xmax, ymin, ymax)]
    if not all(math.isfinite(edge) for edge in edges):
        raise GridError(
            f"grid.scale: {options.scale} m gives more than 2147483647 pixels a side; give larger pixels"
        )
    left, right = snap_out(edges[0], edges[1])
    bottom, top = snap_out(edges[2], edges[3])
    check_size(right - left, top - bottom, "grid.scale with grid.region")
    # One product an edge, as the service does it: a sum of steps has other last digits.
    affine = Affine(size, 0.0, left * size, 0.0, -size, top * size)
    return GeoBox((top - bottom, right - left), affine, crs)


def _on_lattice(affine: Affine, crs: CRS, points: Coords, what: str) -> GeoBox:
    window = window_on(affine, points)
    check_size(window.width, window.height, what)
    return padded(GeoBox((1, 1), affine, crs), window)


def _union(grids: Sequence[GeoBox]) -> GeoBox:
    """The first file's lattice over all files, snapped outward."""
    first = grids[0]
    check_size(first.width, first.height, "the first file of the first source")
    if len(grids) == 1:
        return first
    period = longitude_period(first.crs)
    if period is not None and all(same_crs(g.crs, first.crs) for g in grids):
        spans = [(float(grid_ring(g)[:, 0].min()), float(grid_ring(g)[:, 0].max())) for g in grids]
        grids = [turned(g, n) for g, n in zip(grids, join_shifts(spans, period), strict=True)]
        first = grids[0]
    windows = []
    for i, grid in enumerate(grids):
        # A neighbour whose corner is off by a rounded digit must not add a row that holds nothing.
        at = offsets_on(first, grid)
        if at is not None:
            windows.append(Window(*at, grid.width, grid.height))
        else:
            outline = grid_outline(grid, CRS(first.crs), f"file {i + 1} of the first source")
            windows.append(window_on(first.affine, np.asarray(outline.exterior.coords, dtype=np.float64)))
    col, row = min(w.col_off for w in windows), min(w.row_off for w in windows)
    width = max(w.col_stop for w in windows) - col
    height = max(w.row_stop for w in windows) - row
    check_size(width, height, "the files of the first source together")
    return padded(first, Window(col, row, width, height))
