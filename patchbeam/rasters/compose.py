"""Reads a rectangle of the grid: file after file of a source, until the composite has what it needs."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.rasters.burning import burn_into
from patchbeam.rasters.composites import COMPOSITES, Composite, First
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.layers import Layers, tiles, work_type
from patchbeam.rasters.pieces import Rect, read_piece, unscaled
from patchbeam.rasters.scenes import Scenes
from patchbeam.rasters.warped import Warp

MOST_BYTES = 64 << 20
"""What a composite may hold of one thread's part beside its result; larger parts are done tile by tile."""


def fill(layers: Layers, rect: Rect, scenes: Scenes, without: Set[str] = frozenset()) -> None:
    """Reads a rectangle of the grid into ``layers``.

    Args:
        layers: what is read, and where it goes.
        rect: in pixels of the grid.
        scenes: the source's files.
        without: paths of files that count as masked everywhere.

    Raises:
        ReadFailed: a file cannot be read, or a value does not fit into the band's type.
    """
    if scenes.burner is not None:
        if scenes.burner.burn_.path not in without:
            burn_into(layers, rect, scenes.burner)
        return
    placements = _claims(layers, rect, scenes, without)
    kind = COMPOSITES[layers.compose]
    work = work_type(layers, [p.file for p in placements]) if placements else layers.values.dtype
    # a median holds every file's values twice, in the order read and sorted, and their validity
    held = kind.bytes_per_pixel or 2 * len(placements) * (work.itemsize + 1)
    parts = [rect]
    if kind is not First:
        parts = list(tiles(rect, placements, max(1, MOST_BYTES // max(1, held * len(layers.names)))))
    for part in parts:
        composite = kind(layers.part(rect, part), part, work)
        for placement in placements if part == rect else _claims(layers, part, scenes, without):
            if composite.full:
                break
            composite.begin()
            _add(composite, scenes.known(placement), scenes)
        composite.finish()


def _claims(layers: Layers, rect: Rect, scenes: Scenes, without: Set[str]) -> list[Placement]:
    """Returns the files to be read in the order of their claim."""
    placements = scenes.readable(rect, without)
    if layers.number is not None:
        placements = [p for p in placements if p.number == layers.number]
    if layers.compose == "last":
        placements.reverse()
    return placements


def _add(composite: Composite, placement: Placement, scenes: Scenes) -> None:
    layers, rect = composite.layers, composite.rect
    source, file, indexes = layers.source, placement.file, layers.indexes
    scaled = layers.scaled(file)
    if placement.offsets is None:
        dtype = layers.values.dtype if isinstance(composite, First) else composite.work
        warp = Warp(placement, scenes.grid, layers.resampling, scenes.handles, source.nodata, dtype, scaled)
        good: Mask | None = None
        for number, (at, values, valid) in enumerate(warp.read(indexes, rect)):
            if not number:  # at once: pieces are many and small
                good = scenes.good(placement.number, rect)
            _add_good(composite, file, at, values, valid, None if good is None else good[at.slices(rect)[1:]])
        return
    at = rect.meet(placement.rect)
    if at.empty:
        return
    inside = at.moved(-placement.offsets[0], -placement.offsets[1])
    where = at.slices(rect)
    dataset = scenes.handles.get(file.path)
    own = np.dtype(file.dtypes[indexes[0] - 1])
    straight = isinstance(composite, First) and source.quality is None
    # the usual case, one file and its own type: read in place, no copy
    if straight and own == layers.values.dtype and not scaled and not layers.valid[where].any():
        out, valid = layers.values[where], layers.valid[where]
        read_piece(dataset, file, indexes, inside, nodata=source.nodata, out=out, valid=valid)
        return
    values, valid = read_piece(dataset, file, indexes, inside, nodata=source.nodata)
    if scaled:
        values = unscaled(values, file, indexes, np.dtype(np.float64))
    _add_good(composite, file, at, values, valid, scenes.good(placement.number, at))


def _add_good(
    composite: Composite, file: RasterFile, at: Rect, values: Array, valid: Mask | None, good: Mask | None
) -> None:
    """Adds pixels of a file where its quality band, ``(row, col)``, lets them count."""
    if good is not None and not good.all():
        if not good.any():
            return
        valid = np.broadcast_to(good, values.shape) if valid is None else valid & good
    composite.add(file, at, values, valid)
