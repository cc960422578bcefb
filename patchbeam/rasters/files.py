"""The header of one raster, as a value that travels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from affine import Affine
from odc.geo.geobox import GeoBox

Transform = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RasterFile:
    """One raster's header. Tuples over bands count from band 1.

    Attributes:
        path: as given: a local path, a URL, or a GDAL dataset name.
        driver: GDAL's short name of the format.
        width: columns.
        height: rows.
        crs_wkt: the CRS as WKT; from the source's ``crs`` option where the file has none.
        transform: (a, b, c, d, e, f): x = a·col + b·row + c, y = d·col + e·row + f.
        dtypes: NumPy names of the types.
        nodata: value that marks a masked pixel, ``None`` where there is none that the type can hold.
        unusable_nodata: nodata that the type cannot hold, so that no pixel ever matches; else ``None``.
        descriptions: band names, ``None`` where a band has none.
        alpha: number of the alpha band, ``None`` when there is none.
        has_mask: whether a mask beside nodata and alpha exists: internal, ``.msk`` or the format's own.
        scales: per band; 1 where there is none.
        offsets: per band; 0 where there is none.
        block_shapes: (rows, columns) per band.
        overviews: decimation factors of band 1, ascending.
        compression: as GDAL names it, in upper case; ``None`` when not compressed.
        interleave: ``"pixel"``, ``"band"`` or ``"line"``.
        date: the TIFF date tag, ``YYYY:MM:DD HH:MM:SS``, ``None`` when absent.
        size_bytes: length of the file; ``None`` when unknown (a server that does not tell, a set of files).
        modified: time of last change in UTC, ISO 8601, or the etag of a URL; ``None`` when unknown.
        assumed: whether this comes from a catalogue and the file has not been opened: what stands above of
            masks, blocks and overviews is then a guess, and the file is asked before its first pixel is read.
        scaled: whether scales and offsets come from the catalogue, in the place of the file's own.
        crs_given: whether the CRS comes from the source's ``crs`` option, in the place of the file's own.
    """

    path: str
    driver: str
    width: int
    height: int
    crs_wkt: str
    transform: Transform
    dtypes: tuple[str, ...]
    nodata: tuple[float | None, ...]
    unusable_nodata: tuple[float | None, ...]
    descriptions: tuple[str | None, ...]
    alpha: int | None
    has_mask: tuple[bool, ...]
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    block_shapes: tuple[tuple[int, int], ...]
    overviews: tuple[int, ...] = ()
    compression: str | None = None
    interleave: str = "band"
    date: str | None = None
    size_bytes: int | None = None
    modified: str | None = None
    assumed: bool = False
    scaled: bool = False
    crs_given: bool = False

    @property
    def count(self) -> int:
        """Number of bands, alpha included."""
        return len(self.dtypes)

    @property
    def grid(self) -> GeoBox:
        """The file's own pixel grid."""
        return GeoBox((self.height, self.width), Affine(*self.transform), self.crs_wkt)


def size_and_time(path: str) -> tuple[int | None, str | None]:
    """Returns size and time of the last change of a local file, ``None`` twice where it is none."""
    if not os.path.isfile(path):
        return None, None
    stat = os.stat(path)
    return stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC).isoformat()
