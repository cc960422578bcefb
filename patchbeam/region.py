"""The region of a grid: GeoJSON or a box, carried to the export CRS.

Edges are straight lines in the region's own CRS (RFC 7946, section 3.1.1). In a geographic CRS an
edge longer than half a turn is taken the short way, across the antimeridian: a ring from 178 to -179
is 3° wide. A box with ``xmin`` greater than ``xmax`` crosses it too; a box is never taken the short way
otherwise, so it can be as wide as the globe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from odc.geo.crs import CRS
from shapely import Geometry

from patchbeam.affines import Coords
from patchbeam.crs import describe, longitude_period, parse_crs
from patchbeam.errors import GridError, nearest, short
from patchbeam.outline import join_shifts, project_path, project_ring, shift_towards

Box = tuple[float, float, float, float]

_DEPTHS = {
    "Point": 0,
    "MultiPoint": 1,
    "LineString": 1,
    "MultiLineString": 2,
    "Polygon": 2,
    "MultiPolygon": 3,
}
_OTHERS = ("Feature", "FeatureCollection", "GeometryCollection")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """A region as it was given.

    Attributes:
        key: where it was given, for errors.
        box: ``(xmin, ymin, xmax, ymax)``, or ``None`` for GeoJSON.
        polygons: of GeoJSON: each a tuple of closed rings, the shell first.
        paths: of GeoJSON: vertices of lines, and points as paths of one vertex.
        crs: what a GeoJSON ``crs`` member says (the 2008 form, which GDAL still writes), else ``None``.
    """

    key: str
    box: Box | None = None
    polygons: tuple[tuple[Coords, ...], ...] = ()
    paths: tuple[Coords, ...] = ()
    crs: CRS | None = None

    def in_crs(self, source: CRS, target: CRS, near: tuple[float, float] | None = None) -> Geometry:
        """Returns the region in a CRS: polygons joined, with vertices added where edges bend.

        Args:
            source: CRS of the region's coordinates.
            target: CRS of the result.
            near: longitudes to move towards by full turns when it does not overlap them (sources from
                0 to 360); only for a geographic ``target``.

        Raises:
            GridError: it has no place in either CRS, or covers nothing.
        """
        period = longitude_period(source)
        turns = longitude_period(target)
        polygons = ((_box_ring(self.box, source, self.key),),) if self.box else self.polygons
        parts: list[Geometry] = []
        for rings in polygons:
            images = []
            for ring in rings:
                _check_latitudes(ring, source, self.key)
                whole = ring if self.box or period is None else _unwrap_ring(ring, period)
                images.append(project_ring(whole, source, target, self.key))
            parts.append(shapely.make_valid(shapely.Polygon(images[0], _with_shell(images, turns))))
        for path in self.paths:
            _check_latitudes(path, source, self.key)
            whole = path if period is None else _unwrap(path, period)
            image = project_path(whole, source, target, self.key)
            parts.append(shapely.LineString(image) if len(image) > 1 else shapely.Point(image[0]))
        if turns is not None:
            spans = [(part.bounds[0], part.bounds[2]) for part in parts]
            parts = [
                _moved(part, n * turns) for part, n in zip(parts, join_shifts(spans, turns), strict=True)
            ]
        geometry = shapely.union_all(parts) if len(parts) > 1 else parts[0]
        if turns is not None and near is not None:
            span = (geometry.bounds[0], geometry.bounds[2])
            geometry = _moved(geometry, shift_towards(span, near, turns) * turns)
        return geometry


def parse_region(value: Any, key: str = "grid.region") -> Region:
    """Reads a GeoJSON geometry, Feature or FeatureCollection, or ``[xmin, ymin, xmax, ymax]``.

    Raises:
        GridError: it is none of them, holds nothing, or a coordinate is not a finite number.
    """
    if isinstance(value, Mapping):
        polygons: list[tuple[Coords, ...]] = []
        paths: list[Coords] = []
        for kind, coordinates, where in _geometries(value, key):
            _collect(kind, coordinates, where, polygons, paths)
        if not polygons and not paths:
            raise GridError(f"{key}: the GeoJSON {value.get('type')} holds no geometry; draw at least one")
        return Region(key=key, polygons=tuple(polygons), paths=tuple(paths), crs=_crs_member(value, key))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 4:
        xmin, ymin, xmax, ymax = (_number(v, f"{key}[{i}]") for i, v in enumerate(value))
        return Region(key=key, box=(xmin, ymin, xmax, ymax))
    shown = list(value) if isinstance(value, tuple) else value
    raise GridError(
        f"{key}: {str(shown)[:80]!r} is neither a GeoJSON geometry, Feature or FeatureCollection nor "
        "[xmin, ymin, xmax, ymax]; give one of these, or the name of a GeoJSON file"
    )


def _geometries(value: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    if not isinstance(value, Mapping):
        raise GridError(
            f"{where}: {str(value)[:80]!r} is not a GeoJSON object; put a geometry or a feature there"
        )
    kind = value.get("type")
    if isinstance(kind, str) and kind in _DEPTHS:
        yield kind, value.get("coordinates"), f"{where}.coordinates"
    elif kind == "Feature":
        if value.get("geometry") is not None:  # RFC 7946 lets a feature have none
            yield from _geometries(value["geometry"], f"{where}.geometry")
    elif kind in ("FeatureCollection", "GeometryCollection"):
        name = "features" if kind == "FeatureCollection" else "geometries"
        members = value.get(name)
        if not isinstance(members, Sequence) or isinstance(members, str):
            raise GridError(
                f"{where}.{name}: the {kind} has no list of {name}; add one, or write the file again"
            )
        for i, member in enumerate(members):
            yield from _geometries(member, f"{where}.{name}[{i}]")
    else:
        known = (*_DEPTHS, *_OTHERS)
        raise GridError(
            f"{where}.type: {short(kind)} is not a GeoJSON type{nearest(str(kind), known)}; give one of "
            + ", ".join(known)
        )


def _collect(
    kind: str, coordinates: Any, where: str, polygons: list[tuple[Coords, ...]], paths: list[Coords]
) -> None:
    """Adds what one geometry holds; MultiX is read as its members one level down."""
    depth = _DEPTHS[kind]
    if kind.startswith("Multi"):
        for i, member in enumerate(_list(coordinates, where)):
            _collect(kind.removeprefix("Multi"), member, f"{where}[{i}]", polygons, paths)
    elif kind == "Polygon":
        rings = [_ring(ring, f"{where}[{i}]") for i, ring in enumerate(_list(coordinates, where))]
        if rings:
            polygons.append(tuple(rings))
    else:
        path = _positions(coordinates if depth else [coordinates], where)
        if len(path):
            paths.append(path)


def _ring(value: Any, where: str) -> Coords:
    ring = _positions(value, where)
    if len(ring) and not np.array_equal(ring[0], ring[-1]):
        ring = np.concatenate([ring, ring[:1]])
    if len(ring) < 4:
        raise GridError(
            f"{where}: a ring needs at least 3 corners, this one has {max(len(ring) - 1, 0)}; add what is "
            "missing, or give a LineString or Point"
        )
    return ring


def _positions(value: Any, where: str) -> Coords:
    out = []
    for i, position in enumerate(_list(value, where)):
        pair = _list(position, f"{where}[{i}]")
        if len(pair) < 2:
            raise GridError(f"{where}[{i}]: {short(list(pair))} is not a position [x, y]; give both numbers")
        out.append((_number(pair[0], f"{where}[{i}][0]"), _number(pair[1], f"{where}[{i}][1]")))
    return np.array(out, dtype=np.float64).reshape(-1, 2)


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise GridError(
            f"{where}: {str(value)[:80]!r} is not a list of coordinates; nest them as GeoJSON does, [x, y] "
            "innermost"
        )
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise GridError(f"{where}: {short(value)} is not a number; give a coordinate in CRS units")
    try:
        number = float(value)
    except OverflowError:
        digits = int(value).bit_length() * 3 // 10
        raise GridError(
            f"{where}: a number of {digits} digits is no coordinate; give one in CRS units"
        ) from None
    if not math.isfinite(number):
        raise GridError(f"{where}: {value} is not finite; give a number")
    return number


def _crs_member(value: Mapping[str, Any], key: str) -> CRS | None:
    member = value.get("crs")
    if member is None:
        return None
    told = member.get("properties") if isinstance(member, Mapping) else None
    name = told.get("name") if isinstance(told, Mapping) else None
    if not isinstance(name, str):
        raise GridError(f"{key}.crs: {short(member)} names no CRS; leave it out and give grid.regionCrs")
    return parse_crs(name, f"{key}.crs")


def _box_ring(box: Box, crs: CRS, key: str) -> Coords:
    xmin, ymin, xmax, ymax = box
    period = longitude_period(crs)
    if xmin > xmax and period is not None:
        xmax += period
    if not (xmin < xmax and ymin < ymax):
        rule = "ymin < ymax" if period is not None else "xmin < xmax and ymin < ymax"
        raise GridError(
            f"{key}: {list(box)} has no area in {describe(crs)}; [xmin, ymin, xmax, ymax] needs {rule}"
        )
    if period is not None and xmax - xmin > period * (1 + 1e-9):
        raise GridError(
            f"{key}: {list(box)} is wider than the globe in {describe(crs)}; give at most {period:g} from "
            "xmin to xmax, or grid.regionCrs if these are coordinates of another CRS"
        )
    return np.array([(xmin, ymax), (xmax, ymax), (xmax, ymin), (xmin, ymin), (xmin, ymax)], dtype=np.float64)


def _check_latitudes(path: Coords, crs: CRS, key: str) -> None:
    period = longitude_period(crs)
    if period is None:
        return
    bad = (np.abs(path[:, 1]) > period / 4 * (1 + 1e-9)) | (np.abs(path[:, 0]) > 1.5 * period)
    if bad.any():
        x, y = path[int(np.argmax(bad))]
        raise GridError(
            f"{key}: ({x:.10g}, {y:.10g}) is no longitude and latitude of {describe(crs)}; give "
            "grid.regionCrs, the CRS that the region's coordinates are in"
        )


def _unwrap_ring(ring: Coords, period: float) -> Coords:
    """Returns a ring with every edge longer than half a turn taken the short way.

    An edge of exactly one turn (the globe drawn from -180 to 180) stays one, unless taking it the short
    way leaves a ring with an area. A ring round a pole ends a turn from where it starts.
    """
    wrapped = _unwrap(ring, period)
    if wrapped[:, 0].min() < -period / 2 and ring[:, 0].min() >= -period / 2:
        wrapped[:, 0] += period
    if np.ptp(wrapped[:, 0]) > 0 and abs(wrapped[-1, 0] - wrapped[0, 0]) < period / 2:
        return wrapped
    steps = np.diff(ring[:, 0])
    turns = np.where(np.abs(steps) >= period * (1 - 1e-12), 0, -np.round(steps / period))
    kept = ring.copy()
    kept[1:, 0] += np.cumsum(turns) * period
    return kept if abs(kept[-1, 0] - kept[0, 0]) < period / 2 else wrapped


def _unwrap(path: Coords, period: float) -> Coords:
    out = path.copy()
    steps = np.diff(path[:, 0])
    out[1:, 0] -= np.cumsum(np.where(np.abs(steps) > period / 2, np.round(steps / period), 0.0)) * period
    return out


def _with_shell(rings: list[Coords], period: float | None) -> list[Coords]:
    """Returns the holes of a polygon, moved by full turns to where its shell is."""
    if period is None:
        return rings[1:]
    middle = (rings[0][:, 0].min() + rings[0][:, 0].max()) / 2
    moved = []
    for hole in rings[1:]:
        turns = np.round((middle - (hole[:, 0].min() + hole[:, 0].max()) / 2) / period)
        moved.append(hole + np.array([turns * period, 0.0]))
    return moved


def _moved(geometry: Geometry, by: float) -> Geometry:
    return shapely.transform(geometry, lambda xy: xy + np.array([by, 0.0])) if by else geometry
