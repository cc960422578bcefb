"""Reads windows of the export grid: bands of many sources, each with its validity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import rasterio
from odc.geo.geobox import GeoBox

from patchbeam.buffers import BufferPool
from patchbeam.elements import Array, BandPixels, Mask
from patchbeam.errors import JobError
from patchbeam.patches import Window
from patchbeam.pool import Pool
from patchbeam.rasters.bands import Band
from patchbeam.rasters.cache import cache_size
from patchbeam.rasters.compose import fill
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.handles import Handles, most_open
from patchbeam.rasters.header import GDAL_OPTIONS
from patchbeam.rasters.layers import Layers
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.scenes import Scenes
from patchbeam.rasters.source import Source
from patchbeam.rasters.split import split_window

_KEPT = 64
"""Buffers held at the most: of each group of bands, in the block in use and the next one."""


class ImageReader:
    """Reads windows of the export grid.

    A recipe that pickles: open datasets, threads and the spatial index are made where it is used and
    stay there.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        bands: Sequence[Band],
        grid: GeoBox,
        *,
        threads: int = 1,
        cache_bytes: int | None = None,
    ) -> None:
        """Makes a reader; opens nothing.

        Args:
            sources: those that the bands name.
            bands: what :meth:`read` returns, in order.
            grid: the export grid; windows count its pixels.
            threads: that share a window, each with its own datasets.
            cache_bytes: GDAL's block cache; ``None``: enough for the blocks under one window.

        Raises:
            JobError: a band names a source that is not there.
        """
        self.sources = {source.name: source for source in sources}
        self.bands = tuple(bands)
        self.grid = grid
        self.threads = threads
        self.cache_bytes = cache_bytes
        for band in self.bands:
            if band.source not in self.sources:
                raise JobError(f"bands: {band.name!r} names source {band.source!r}, which is not there")
        self._start()

    def _start(self) -> None:
        self._handles = Handles(most_open(self.threads))
        self._pool = Pool(self.threads)
        self._buffers = BufferPool(_KEPT)
        self._scenes: dict[str, Scenes] = {}
        self._types: dict[str, tuple[tuple[str, ...], ...]] = {}

    def read(self, window: Window, without: Set[str] = frozenset()) -> list[BandPixels]:
        """Returns one :class:`BandPixels` a band.

        Args:
            window: in pixels of the grid; may lie outside it. Pixels outside the grid are read wherever
                a source has them.
            without: paths of files that count as masked everywhere.

        Raises:
            ReadFailed: a file cannot be read, or a value does not fit into the band's type.
        """
        rect = Rect(
            window.col_off, window.row_off, window.col_off + window.width, window.row_off + window.height
        )
        names = dict.fromkeys(band.source for band in self.bands)
        touching = {name: self._index(name).touching(rect) for name in names}
        runs, pixels = self._allocate(rect)
        for layers in runs:
            if not _covered(rect, touching[layers.source.name]):
                layers.values[...] = 0
        parts = split_window(rect, self.threads, [p for found in touching.values() for p in found])
        cache = self.cache_bytes or cache_size(self._together(touching), rect.width, self.threads)

        def work(part: Rect) -> None:
            with rasterio.Env(GDAL_CACHEMAX=cache, **GDAL_OPTIONS):
                for layers in runs:
                    fill(layers.part(rect, part), part, self._index(layers.source.name), without)

        for _ in self._pool.map(work, parts):
            pass
        return [BandPixels(values=values, valid=None if valid.all() else valid) for values, valid in pixels]

    def _allocate(self, rect: Rect) -> tuple[list[Layers], list[tuple[Array, Mask]]]:
        """Returns the reads to be done, and each band's arrays that they fill.

        Bands of one source, type and resampling share one array and one read: a pixel-interleaved file
        is then decoded once.
        """
        pixels: list[tuple[Array, Mask] | None] = [None] * len(self.bands)
        runs: list[Layers] = []
        shared: dict[tuple[Any, ...], list[int]] = {}
        for i, band in enumerate(self.bands):
            if not band.is_array:
                types = tuple(dtypes[band.index - 1] for dtypes in self._dtypes(band.source))
                shared.setdefault((band.source, band.resampling, band.type, types), []).append(i)
                continue
            steps = list(self._steps(band))
            values, valid = self._blank(len(steps), rect, band.type)
            pixels[i] = values, valid
            for step, (number, index) in enumerate(steps):
                at = slice(step, step + 1)
                runs.append(self._run([band], number, (index,), values[at], valid[at]))
        for members in shared.values():
            bands = [self.bands[i] for i in members]
            values, valid = self._blank(len(bands), rect, bands[0].type)
            runs.append(self._run(bands, None, tuple(b.index for b in bands), values, valid))
            for k, i in enumerate(members):
                pixels[i] = values[k], valid[k]
        return runs, [p for p in pixels if p is not None]

    def _blank(self, steps: int, rect: Rect, dtype: str) -> tuple[Array, Mask]:
        """Returns values that are not defined yet, and that none is valid."""
        shape = (steps, rect.height, rect.width)
        kind = np.dtype(dtype)
        count = math.prod(shape)
        values = self._buffers.take(count * kind.itemsize).view(kind).reshape(shape)
        valid = self._buffers.take(count).view(np.bool_).reshape(shape)
        valid[...] = False
        return values, valid

    def _steps(self, band: Band) -> Iterator[tuple[int | None, int]]:
        """Yields the file number (``None``: all files) and the band number of each step."""
        if band.series:
            for number in range(len(self.sources[band.source].files)):
                yield number, band.index
        else:
            for index in band.indexes or ():
                yield None, index

    def _run(
        self, bands: Sequence[Band], number: int | None, indexes: tuple[int, ...], values: Array, valid: Mask
    ) -> Layers:
        return Layers(
            source=self.sources[bands[0].source],
            number=number,
            indexes=indexes,
            names=tuple(band.name for band in bands),
            resampling=bands[0].resampling,
            values=values,
            valid=valid,
        )

    def _together(self, touching: Mapping[str, Sequence[Placement]]) -> Iterator[list[RasterFile]]:
        """Yields the files whose blocks are held at the same time, of each source."""
        for name, placements in touching.items():
            source = self.sources[name]
            files = [p.file for p in placements]
            if source.compose in ("first", "last"):
                files = [max(files, key=lambda file: file.block_shapes[0])] if files else []
            yield files
            if source.quality is not None and placements:
                yield [source.quality.files[placements[0].number]]

    def _index(self, name: str) -> Scenes:
        if name not in self._scenes:
            self._scenes[name] = Scenes(self.sources[name], self.grid, self._handles)
        return self._scenes[name]

    def _dtypes(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Returns the types of a source's bands, each combination that occurs once."""
        if name not in self._types:
            self._types[name] = tuple(sorted({file.dtypes for file in self.sources[name].files}))
        return self._types[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the sources, each said once."""
        return tuple(
            f"sources.{source.name}: {file.path}: band {i} has nodata {value}, which {file.dtypes[i - 1]}"
            " cannot hold: no pixel is masked by it; give the right one with nodata: under the source"
            for source in self.sources.values()
            if source.nodata is None
            for file in source.files
            for i, value in enumerate(file.unusable_nodata, 1)
            if value is not None
        )

    def close(self) -> None:
        """Ends the threads and closes the datasets; the reader can be used again."""
        self._pool.close()
        self._handles.close()

    def __enter__(self) -> ImageReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


def _covered(rect: Rect, placements: Sequence[Placement]) -> bool:
    """Whether one file on the grid's lattice has every pixel of a rectangle."""
    return any(p.offsets is not None and p.rect.meet(rect) == rect for p in placements)
