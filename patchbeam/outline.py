"""Outlines carried from one CRS to another without losing what lies between their corners.

A straight edge in one CRS is curved in another, so an outline gets more vertices where, and only
where, its projection bends. Longitudes are kept continuous: an outline across the antimeridian runs
past 180° (say 177 to 185) instead of jumping to -175.
"""

from __future__ import annotations

import numpy as np
import shapely
from odc.geo.crs import CRS
from odc.geo.geobox import GeoBox
from shapely import Polygon

from patchbeam.affines import Coords, to_xy
from patchbeam.crs import describe, longitude_period, same_crs
from patchbeam.errors import GridError

FLATNESS = 1e-7
"""How far a projected edge may bend away from straight, as a share of the outline's own size."""

_FIRST_EDGES = 64
_HALVINGS = 28
_INSIDE_STEPS = 15


class Unprojectable(GridError):
    """An outline has no image in the other CRS, or one that is torn apart."""


def project_path(path: Coords, source: CRS, target: CRS, what: str) -> Coords:
    """Returns a path in another CRS, with as many more vertices as its bends need.

    Args:
        path: vertices in ``source``; longitudes already continuous. Edges are straight in ``source``.
        source: CRS of ``path``.
        target: CRS of the result.
        what: what the path is, for the error.

    Raises:
        Unprojectable: part of it has no coordinates in ``target``, or ``target`` cuts it.
    """
    if same_crs(source, target):
        return path
    path = _split_evenly(path)
    transform = source.transformer_to_crs(target)
    period = longitude_period(target)

    def project(points: Coords) -> Coords:
        x, y = transform(points[:, 0].copy(), points[:, 1].copy())
        out: Coords = np.stack([np.asarray(x), np.asarray(y)], axis=1).astype(np.float64)
        bad = ~np.isfinite(out).all(axis=1)
        if bad.any():
            x0, y0 = points[int(np.argmax(bad))]
            raise Unprojectable(
                f"{what}: ({x0:.10g}, {y0:.10g}) in {describe(source)} has no coordinates in "
                f"{describe(target)}; choose a CRS made for this place, or a smaller region"
            )
        return out

    image = project(path)
    for _ in range(_HALVINGS):
        between = (path[:-1] + path[1:]) / 2
        middle = project(between)
        if period is not None:
            image[:, 0] = np.unwrap(image[:, 0], period=period)
            nearest = np.round((image[:-1, 0] - middle[:, 0]) / period)
            middle[:, 0] += nearest * period
        bend = np.abs(middle - (image[:-1] + image[1:]) / 2)
        size = np.ptp(image, axis=0).max()
        bent = bend.max(axis=1) > max(FLATNESS * size, 1e-11 * np.abs(image).max())
        if not bent.any():
            return image
        at = np.flatnonzero(bent) + 1
        path, image = np.insert(path, at, between[bent], axis=0), np.insert(image, at, middle[bent], axis=0)
    x0, y0 = between[int(np.argmax(bent))]
    raise Unprojectable(
        f"{what}: {describe(target)} is cut at ({x0:.6g}, {y0:.6g}) of {describe(source)}, inside the "
        "outline; choose a CRS that is not cut there"
    )


def _split_evenly(path: Coords) -> Coords:
    """Returns a path of at least 64 edges or so, long edges split most: bends cannot hide between them."""
    steps = np.diff(path, axis=0)
    lengths = np.hypot(steps[:, 0], steps[:, 1])
    total = lengths.sum()
    if not total > 0:
        return path
    parts = np.maximum(1, np.ceil(lengths / total * _FIRST_EDGES)).astype(np.int64)
    edge = np.repeat(np.arange(len(parts)), parts)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[edge]
    return np.concatenate([path[edge] + steps[edge] * share[:, None], path[-1:]])


def project_ring(ring: Coords, source: CRS, target: CRS, what: str) -> Coords:
    """Returns a closed ring in another CRS; longitudes continuous, starting within one turn of 0.

    Raises:
        Unprojectable: as :func:`project_path`, or a geographic ``target`` cannot hold it because it
            runs round a pole.
    """
    image = project_path(ring, source, target, what)
    period = longitude_period(target)
    if period is None:
        _check_inside(ring, image, source, target, what)
        return image
    if abs(image[-1, 0] - image[0, 0]) > period / 2:
        raise Unprojectable(
            f"{what}: its outline runs round a pole, which {describe(target)} cannot draw; give a box in "
            f"{describe(target)}, or a polar grid.crs"
        )
    if not same_crs(source, target):
        # Where it lies is known up to full turns: as its source said, else it starts within ±180.
        if longitude_period(source) == period:
            turns = np.round((ring[0, 0] - image[0, 0]) / period)
        else:
            turns = -np.floor((image[:, 0].min() + period / 2) / period + 1e-9)
        image[:, 0] += turns * period
    return image


def _check_inside(ring: Coords, image: Coords, source: CRS, target: CRS, what: str) -> None:
    """Refuses a ring whose inside does not land inside its image.

    The outline of the globe, say, closes on itself along ±180 and shows nothing of what it holds.
    """
    if same_crs(source, target):
        return
    low, high = ring.min(axis=0), ring.max(axis=0)
    shares = (np.arange(_INSIDE_STEPS) + 0.5) / _INSIDE_STEPS
    x, y = (low[i] + (high[i] - low[i]) * shares for i in (0, 1))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    points = points[shapely.contains_xy(shapely.make_valid(Polygon(ring)), points)]
    if not len(points):
        return
    inner = np.stack(source.transformer_to_crs(target)(points[:, 0].copy(), points[:, 1].copy()), axis=1)
    slack = 1e-3 * np.ptp(image, axis=0).max()
    inside = (inner >= image.min(axis=0) - slack) & (inner <= image.max(axis=0) + slack)  # false for inf
    bad = ~inside.all(axis=1)
    if bad.any():
        x0, y0 = points[int(np.argmax(bad))]
        raise Unprojectable(
            f"{what}: {describe(target)} tears it apart near ({x0:.6g}, {y0:.6g}) of {describe(source)}; "
            "choose a CRS made for this place, or a smaller region"
        )


def grid_ring(grid: GeoBox) -> Coords:
    """Returns the corners of a grid's extent, closed, from pixel (0, 0) along its first row."""
    width, height = grid.width, grid.height
    return to_xy(grid.affine, ((0, 0), (width, 0), (width, height), (0, height), (0, 0)))


def grid_outline(grid: GeoBox, target: CRS, what: str) -> Polygon:
    """Returns a grid's extent in another CRS.

    Raises:
        Unprojectable: as :func:`project_ring`.
    """
    ring = grid_ring(grid)
    if grid.crs is None:
        raise Unprojectable(f"{what}: it has no CRS")
    if (period := longitude_period(grid.crs)) is not None and not same_crs(grid.crs, target):
        # Global grids whose pixel centres lie on the poles reach half a pixel past them.
        ring[:, 1] = ring[:, 1].clip(-period / 4, period / 4)
    return Polygon(project_ring(ring, grid.crs, target, what))


def join_shifts(spans: list[tuple[float, float]], period: float) -> list[int]:
    """Returns by how many full turns each span of longitudes moves so that all lie together.

    Spans that meet at the antimeridian (RFC 7946 asks for polygons to be cut there) are put side by
    side: those on the west of the widest gap move by one turn. Spans that do not meet there stay,
    and so do spans that would still be wider than half the globe.
    """
    still = [0] * len(spans)
    half, close = period / 2, 1e-6
    inside = all(low >= -half - close and high <= half + close for low, high in spans)
    meet = any(high >= half - close for _, high in spans) and any(low <= -half + close for low, _ in spans)
    if len(spans) < 2 or (inside and not meet):
        return still
    ordered = sorted(spans)
    reach, gap, start = ordered[0][1], 0.0, None
    for low, high in ordered[1:]:
        if low - reach > gap:
            gap, start = low - reach, low
        reach = max(reach, high)
    if start is None:
        return still
    shifts = [1 if low < start else 0 for low, _ in spans]
    low = min(s[0] + period * k for s, k in zip(spans, shifts, strict=True))
    high = max(s[1] + period * k for s, k in zip(spans, shifts, strict=True))
    width_before = reach - ordered[0][0]
    return shifts if high - low < width_before and (not inside or high - low <= half) else still


def shift_towards(span: tuple[float, float], near: tuple[float, float], period: float) -> int:
    """Returns by how many full turns a span of longitudes moves to overlap another; 0 if it does or never."""
    low, high = span
    for turns in (0, 1, -1):
        if low + turns * period < near[1] and high + turns * period > near[0]:
            return turns
    return 0
