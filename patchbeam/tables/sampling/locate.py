"""Where features lie on the grid, and their spooling by read block."""

from __future__ import annotations

import numpy as np
import shapely

from patchbeam.elements import Bytes, Ints
from patchbeam.errors import EncodeError
from patchbeam.records.scatter import Pieces
from patchbeam.tables.columns import texts
from patchbeam.tables.encode import FeatureEncoder
from patchbeam.tables.entries import put_ragged
from patchbeam.tables.framing import join_rows
from patchbeam.tables.geometry import Floats, moved, points, shapes, transform
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.sampling.plan import OUTSIDE, SamplePlan
from patchbeam.tables.sampling.spool import FEATURE, Stretches, spool_name, write_spool
from patchbeam.tables.source import FeatureBatch

_POINT, _POLYGON, _MULTIPOLYGON = 0, 3, 6
_FAR = 1 << 40


class Locator:
    """Spools the features of a table by read block, their properties encoded."""

    def __init__(self, plan: TablePlan) -> None:
        assert plan.sample is not None
        self._plan = plan
        self._sample = plan.sample
        self._encoder = FeatureEncoder(plan)

    def spool(self, batch: FeatureBatch) -> Stretches:
        """Writes the features of a batch in block order, and within a block in their own.

        Returns:
            A stretch a block: block, first feature in the file, features, and the pixels that they
            need: left, top, right, bottom.

        Raises:
            EncodeError: a geometry is neither point nor polygon, or under ``strict`` a feature lies
                outside the grid; names the feature.
        """
        entries, rounded = self._encoder.entries(batch)
        encoded, sizes = join_rows(entries, batch.rows)
        table, geometry, geometry_starts = self._place(batch)
        table["feature"] = batch.first + np.arange(batch.rows)
        table["entries"] = sizes
        outside = table["width"] == 0
        blocks = np.where(outside, OUTSIDE, self._sample.blocks_of(table["column"], table["row"]))
        if self._plan.strict and outside.any():
            row = int(outside.argmax())
            raise EncodeError(
                f"feature {batch.first + row}: has no place on the sampled rasters "
                f"({self._sample.grid.width} × "
                f"{self._sample.grid.height} pixels), and strict is set; take it out, or set strict: false "
                "to keep it "
                "without values"
            )
        order = np.argsort(blocks, kind="stable")
        table, blocks = table[order], blocks[order]
        pieces = Pieces(table["entries"] + table["geometry"])
        table["start"] = pieces.starts
        starts = np.cumsum(sizes) - sizes
        put_ragged(pieces, encoded, starts[order], sizes[order], None)
        put_ragged(pieces, geometry, geometry_starts[order], np.ascontiguousarray(table["geometry"]), None)
        path = spool_name(self._plan.temporary_folder, f"features-{batch.first:012d}")
        write_spool(path, table, pieces.buffer)
        return Stretches(
            path=path,
            order=batch.first,
            table=_stretches(table, blocks),
            counts=tuple(rounded),
        )

    def _place(self, batch: FeatureBatch) -> tuple[np.ndarray[tuple[int], np.dtype[np.void]], Bytes, Ints]:
        assert batch.wkb is not None
        crs, target = str(self._plan.source.crs), self._sample.crs
        table = np.zeros(batch.rows, FEATURE)
        nothing = np.zeros(batch.rows, np.int64)
        found = points(batch.wkb)
        if found is not None:
            x, y = transform(*found, crs, target)
            _place_points(table, x, y, self._sample)
            return table, np.empty(0, np.uint8), nothing
        geometries = shapes(batch.wkb)
        kinds = shapely.get_type_id(geometries)
        allowed = (_POINT, -1) if self._sample.patch is not None else (_POINT, _POLYGON, _MULTIPOLYGON, -1)
        wrong = np.flatnonzero(~np.isin(kinds, allowed))
        if wrong.size:
            row = int(wrong[0])
            what = (
                "chips are centred on points"
                if self._sample.patch is not None
                else "points and polygons are sampled"
            )
            raise EncodeError(
                f"feature {batch.first + row}: its geometry is a {geometries[row].geom_type}, and {what}; "
                "take it "
                "out, or make it one of those"
            )
        on_grid = moved(geometries, crs, target)
        is_point = kinds == _POINT
        x, y = shapely.get_x(on_grid), shapely.get_y(on_grid)
        _place_points(table, x, y, self._sample)
        areas = np.flatnonzero((kinds == _POLYGON) | (kinds == _MULTIPOLYGON))
        _place_areas(table, areas, shapely.bounds(on_grid[areas]), self._sample)
        held = np.full(batch.rows, None, object)
        held[areas] = shapely.to_wkb(on_grid[areas], byte_order=1)
        import pyarrow as pa

        data, starts, sizes = texts(pa.array(held.tolist(), pa.binary()))
        table["geometry"] = np.where(is_point | (table["width"] == 0), 0, sizes)
        return table, data, starts


def _place_points(
    table: np.ndarray[tuple[int], np.dtype[np.void]], x: Floats, y: Floats, plan: SamplePlan
) -> None:
    columns, rows = _pixels(x, y, plan)
    inside = (columns >= 0) & (columns < plan.grid.width) & (rows >= 0) & (rows < plan.grid.height)
    table["column"] = np.where(inside, columns, 0)
    table["row"] = np.where(inside, rows, 0)
    table["width"] = table["height"] = inside


def _pixels(x: Floats, y: Floats, plan: SamplePlan) -> tuple[Ints, Ints]:
    a, b, c, d, e, f = (~plan.grid.affine)[:6]
    there = np.isfinite(x) & np.isfinite(y)
    x, y = np.where(there, x, 0), np.where(there, y, 0)
    columns = np.clip(np.floor(a * x + b * y + c), -_FAR, _FAR)
    rows = np.clip(np.floor(d * x + e * y + f), -_FAR, _FAR)
    return np.where(there, columns, -1).astype(np.int64), np.where(there, rows, -1).astype(np.int64)


def _place_areas(
    table: np.ndarray[tuple[int], np.dtype[np.void]], at: Ints, bounds: Floats, plan: SamplePlan
) -> None:
    inverse = ~plan.grid.affine
    xs, ys = bounds[:, [0, 0, 2, 2]], bounds[:, [1, 3, 1, 3]]
    columns = inverse.a * xs + inverse.b * ys + inverse.c
    rows = inverse.d * xs + inverse.e * ys + inverse.f
    with np.errstate(invalid="ignore"):
        left = np.clip(np.floor(columns.min(axis=1)), 0, plan.grid.width)
        right = np.clip(np.ceil(columns.max(axis=1)), 0, plan.grid.width)
        top = np.clip(np.floor(rows.min(axis=1)), 0, plan.grid.height)
        bottom = np.clip(np.ceil(rows.max(axis=1)), 0, plan.grid.height)
        there = (right > left) & (bottom > top)
    for name, values in (("column", left), ("row", top), ("width", right - left), ("height", bottom - top)):
        table[name][at] = np.where(there, values, 0).astype(np.int64)


def _stretches(table: np.ndarray[tuple[int], np.dtype[np.void]], blocks: Ints) -> Ints:
    first = np.flatnonzero(np.concatenate([[True], blocks[1:] != blocks[:-1]]))
    ends = np.append(first[1:], len(blocks))
    left = np.minimum.reduceat(table["column"], first)
    top = np.minimum.reduceat(table["row"], first)
    right = np.maximum.reduceat(table["column"] + table["width"], first)
    bottom = np.maximum.reduceat(table["row"] + table["height"], first)
    return np.stack([blocks[first], first, ends - first, left, top, right, bottom], axis=1).astype(np.int64)
