"""A table to export, looked at once before any work: its layer, properties, ids, geometry, size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from patchbeam.tables.columns import Column

Format = Literal["ogr", "parquet", "csv"]
"""How a table is read: by GDAL (through pyogrio) or by Arrow."""

INDEX = "system:index"
"""The feature id's key, as Earth Engine calls it."""

RANGE_ROWS = 1 << 20
"""Rows that one task reads, where a format lets readers start anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table, from its header.

    Attributes:
        path: of the file.
        format: how it is read.
        driver: what the file is, for people.
        layer: name of the layer; ``None`` where there is only one.
        columns: the properties that a feature can hold, in source order.
        unheld: properties of types that none can hold, with their types.
        rows: number of features.
        geometry: name of the geometry column, or ``None``; with ``xy`` there is none.
        geometry_type: as the file says it, ``Unknown`` when it does not.
        xy: columns of x and y that make the points of a table without geometry.
        crs: of the geometry: ``EPSG:n`` or WKT; ``None`` when the file says none.
        id_column: property that holds the feature id; ``None``: the format's own number.
        seekable: whether reading can start at any row without reading those before it.
        options: what the reader needs besides: for CSV the types as read.
    """

    path: str
    format: Format
    driver: str
    layer: str | None
    columns: tuple[Column, ...]
    unheld: tuple[tuple[str, str], ...] = ()
    rows: int
    geometry: str | None = None
    geometry_type: str = "Unknown"
    xy: tuple[str, str] | None = None
    crs: str | None = None
    id_column: str | None = None
    seekable: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def has_geometry(self) -> bool:
        """Whether features have a place."""
        return self.geometry is not None or self.xy is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the properties."""
        return tuple(column.name for column in self.columns)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yields ``(first row, rows)`` of each reading task: a function of the table alone."""
        step = RANGE_ROWS if self.seekable else max(1, self.rows)
        for first in range(0, self.rows, step):
            yield first, min(step, self.rows - first)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureBatch:
    """Consecutive features.

    Attributes:
        first: number of the first one in the table.
        values: the properties asked for, in the order asked for.
        ids: texts; ``None`` when not asked for.
        wkb: geometries in the source's CRS; ``None`` when not asked for.
    """

    first: int
    values: pa.RecordBatch
    ids: pa.Array | None
    wkb: pa.Array | None

    @property
    def rows(self) -> int:
        """Number of features."""
        return int(self.values.num_rows)
