"""The files of one source on the export grid: which of them a window touches, and their pixels there."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.elements import Mask
from patchbeam.errors import ReadFailed, SourceError, SourceUnreadable
from patchbeam.rasters.burning import Burner
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.footprints import Footprints, Placement
from patchbeam.rasters.gather import Piece
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.header import read_header
from patchbeam.rasters.pieces import Rect, read_piece
from patchbeam.rasters.quality import plain
from patchbeam.rasters.source import Source
from patchbeam.rasters.warped import Warp


class Scenes:
    """A source's files on the grid.

    Args:
        source: the source.
        grid: the export grid.
        handles: open datasets.
    """

    def __init__(self, source: Source, grid: GeoBox, handles: Handles) -> None:
        self.source, self.grid, self.handles = source, grid, handles
        self._footprints = Footprints(source.files, grid)
        self._quality = None if source.quality is None else Footprints(source.quality.files, grid)
        self.burner = None if source.vector is None else Burner(source.vector, grid)
        self._headers: dict[str, RasterFile] = {}

    def touching(self, rect: Rect) -> list[Placement]:
        """Returns the files that may hold a pixel of ``rect``, in list order."""
        return self._footprints.touching(rect)

    def readable(self, rect: Rect, without: Set[str]) -> list[Placement]:
        """Returns the files that may hold a pixel of ``rect``, but for some.

        Args:
            rect: in pixels of the grid.
            without: paths of files that count as masked everywhere; so do those whose quality band is in one.
        """
        found = self.touching(rect)
        if not without:
            return found
        quality = self.source.quality
        return [
            p
            for p in found
            if p.file.path not in without and (quality is None or quality.files[p.number].path not in without)
        ]

    def known(self, placement: Placement) -> Placement:
        """Returns the placement with a header that was read from the file.

        Raises:
            ReadFailed: the header came from a catalogue, and the file is another.
        """
        file = placement.file
        if not file.assumed:
            return placement
        if file.path not in self._headers:
            self._headers[file.path] = _checked(file, self.source.name)
        return replace(placement, file=self._headers[file.path])

    def good(self, number: int, at: Rect) -> Mask | None:
        """Returns ``(row, col)``: where the quality band of a file lets its pixels count.

        Returns:
            ``None`` when there is no quality band.

        Raises:
            ReadFailed: it cannot be read.
        """
        if self._quality is None or self.source.quality is None:
            return None
        quality = self.source.quality
        good = np.zeros((at.height, at.width), np.bool_)
        for placement in self._quality.of(number):
            known = self.known(placement)
            known = replace(known, file=plain(known.file))
            dtype = np.dtype(known.file.dtypes[quality.index - 1])
            for part, values, valid in placed(
                known, self.grid, self.handles, (quality.index,), at, "nearest", None, dtype, False
            ):
                fine = quality.good(values[0])
                _, rows, cols = part.slices(at)
                good[rows, cols] |= fine if valid is None else fine & valid[0]
        return good


def placed(
    placement: Placement,
    grid: GeoBox,
    handles: Handles,
    indexes: Sequence[int],
    rect: Rect,
    resampling: str,
    nodata: float | None,
    dtype: np.dtype[Any],
    scaled: bool,
) -> Iterator[Piece]:
    """Yields the pixels of one file in a rectangle of the grid, in the file's type or a wider one.

    Args:
        placement: the file.
        grid: the export grid.
        handles: open datasets.
        indexes: band numbers, all of one type.
        rect: pixels of the grid.
        resampling: used when the file is off the grid's lattice.
        nodata: takes the place of the file's own; ``None`` leaves it.
        dtype: the type that the values go to.
        scaled: whether a warped file's values come with scale and offset applied.

    Raises:
        ReadFailed: the file cannot be read.
    """
    if placement.offsets is None:
        warp = Warp(placement, grid, resampling, handles, nodata, dtype, scaled)
        yield from warp.read(indexes, rect)
        return
    at = rect.meet(placement.rect)
    if at.empty:
        return
    inside = at.moved(-placement.offsets[0], -placement.offsets[1])
    values, valid = read_piece(
        handles.get(placement.file.path), placement.file, indexes, inside, nodata=nodata
    )
    yield at, values, valid


def _checked(file: RasterFile, name: str) -> RasterFile:
    """Returns the file's own header, with what the catalogue says of nodata, scale and offset."""
    try:
        own = read_header(file.path, f"sources.{name}", crs=file.crs_wkt)
    except SourceError as error:
        # a local file that was not there at first will not come; a server may answer the next time
        remote = "://" in file.path or file.path.startswith("/vsi")
        failure = (ReadFailed if remote else SourceUnreadable)(str(error))
        failure.errno = errno.EIO if remote else None
        failure.source = file.path
        raise failure from error
    for what, said, found in (
        ("size", (file.width, file.height), (own.width, own.height)),
        ("types", file.dtypes, own.dtypes),
        ("transform", _rounded(file), _rounded(own)),
    ):
        if said != found:
            raise SourceUnreadable(
                f"{file.path}: the catalogue says that its {what} is {said}, and it is {found}; correct the"
                " item, or take proj: and raster: out of it so that the file is asked"
            )
    return replace(
        own,
        nodata=tuple(a if a is not None else b for a, b in zip(file.nodata, own.nodata, strict=True)),
        scales=file.scales if file.scaled else own.scales,
        offsets=file.offsets if file.scaled else own.offsets,
        transform=file.transform,
        descriptions=file.descriptions,
    )


def _rounded(file: RasterFile) -> tuple[float, ...]:
    """The transform, as far as it moves the far corner by a thousandth of a pixel."""
    a, b, c, d, e, f = file.transform
    size = max(abs(a), abs(b), abs(d), abs(e)) / 1000
    far = a * file.width + b * file.height + c, d * file.width + e * file.height + f
    return tuple(round(v / size) / 1000 * 1.0 for v in (c, f, *far))
