"""Several files of one source become one image: which file's pixel wins.

Files are met in the order of their claim; a pixel is taken from the first one that has a valid one, per
band. ``first`` and ``last`` differ only in that order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.elements import Array, Mask
from patchbeam.rasters.convert import convert
from patchbeam.rasters.footprints import Footprints, Placement
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.pieces import Rect, read_piece, unscaled
from patchbeam.rasters.source import Source
from patchbeam.rasters.warped import Warp


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """Bands of one source that are read together, and where they go.

    Attributes:
        source: their source.
        number: of the one file that they come from, for a step of a series; ``None``: all files.
        indexes: band numbers, all of one type in each file.
        names: of the output bands, one an index.
        resampling: see :data:`patchbeam.rasters.source.RESAMPLINGS`.
        values: ``(band, row, col)`` in the output's type.
        valid: the same shape, false at first.
    """

    source: Source
    number: int | None
    indexes: tuple[int, ...]
    names: tuple[str, ...]
    resampling: str
    values: Array
    valid: Mask

    def part(self, whole: Rect, part: Rect) -> Layers:
        """Returns the layers over a part of the rectangle that they cover."""
        at = part.slices(whole)
        return replace(self, values=self.values[at], valid=self.valid[at])


def fill(layers: Layers, grid: GeoBox, rect: Rect, footprints: Footprints, handles: Handles) -> None:
    """Reads a rectangle of the grid into ``layers``.

    Raises:
        ReadFailed: a file cannot be read, or a value does not fit into the band's type.
    """
    placements = footprints.touching(rect)
    if layers.number is not None:
        placements = [p for p in placements if p.number == layers.number]
    if layers.source.compose == "last":
        placements.reverse()
    for placement in placements:
        _add(layers, grid, rect, placement, handles)
        if placement is not placements[-1] and layers.valid.all():
            return


def _add(layers: Layers, grid: GeoBox, rect: Rect, placement: Placement, handles: Handles) -> None:
    source, file, indexes = layers.source, placement.file, layers.indexes
    scaled = source.unscale and any(file.scales[i - 1] != 1 or file.offsets[i - 1] != 0 for i in indexes)
    own = np.dtype(file.dtypes[indexes[0] - 1])
    if placement.offsets is None:
        warp = Warp(placement, grid, layers.resampling, handles, source.nodata, layers.values.dtype, scaled)
        for at, values, valid in warp.read(indexes, rect):
            _merge(layers, placement, rect, at, values, valid)
        return
    at = rect.meet(placement.rect)
    if at.empty:
        return
    inside = at.moved(-placement.offsets[0], -placement.offsets[1])
    where = at.slices(rect)
    dataset = handles.get(file.path)
    # the usual case, one file and its own type: read in place, no copy
    if own == layers.values.dtype and not scaled and not layers.valid[where].any():
        out = layers.values[where]
        _, good = read_piece(dataset, file, indexes, inside, nodata=source.nodata, out=out)
        layers.valid[where] = True if good is None else good
        return
    values, good = read_piece(dataset, file, indexes, inside, nodata=source.nodata)
    if scaled:
        values = unscaled(values, file, indexes, np.dtype(np.float64))
    _merge(layers, placement, rect, at, values, good)


def _merge(
    layers: Layers, placement: Placement, rect: Rect, at: Rect, values: Array, valid: Mask | None
) -> None:
    """Takes the valid pixels where no file with a better claim has one."""
    where = at.slices(rect)
    for i, (name, index) in enumerate(zip(layers.names, layers.indexes, strict=True)):
        have = layers.valid[where][i]
        take = ~have if valid is None else valid[i] & ~have
        if not take.any():
            continue

        def place(row: int, col: int, name: str = name, index: int = index) -> str:
            return (
                f"band {name!r}, {placement.file.path} band {index}, pixel at column {at.left + col},"
                f" row {at.top + row} of the grid"
            )

        whole = bool(take.all())
        converted = convert(values[i], None if whole else take, layers.values.dtype, place)
        if whole:
            layers.values[where][i] = converted
        else:
            np.copyto(layers.values[where][i], converted, where=take)
        have |= take
