"""The tiles of an import as plain functions; the Beam transforms call these."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.lattice import padded
from patchbeam.mosaic.assemble import Assembler
from patchbeam.mosaic.convert import Converter
from patchbeam.mosaic.decode import PatchSource
from patchbeam.mosaic.finished import TileDone, finished_tile, mark_finished, tile_paths
from patchbeam.mosaic.geotiff import write_cog
from patchbeam.mosaic.layout import Ints
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.mosaic.schema import RecordSchema
from patchbeam.pool import Pool
from patchbeam.records.files import RecordFiles
from patchbeam.retry import retrying

AHEAD_BYTES = 256 << 20
"""A tile of more bytes is written before the next one is read: two would be in memory."""

Array = NDArray[Any]


@dataclass(slots=True, kw_only=True, eq=False)
class TileRead:
    """A tile that is to be written.

    Attributes:
        tile: its number.
        pixels: ``(band, row, col)``; ``None`` once it has been taken to be written.
        patches: patches that begin in it.
    """

    tile: int
    pixels: Array | None
    patches: int

    def take(self) -> Array:
        """Hands the pixels out, so that they go as soon as they are written."""
        pixels, self.pixels = self.pixels, None
        if pixels is None:
            raise ValueError(f"tile {self.tile} has been written already")
        return pixels


class TileMaker:
    """Makes the tiles of an import.

    Args:
        plan: the import.
        files: the records.
        schema: what is read of them.
        threads: threads inside one tile.
        order: as in :class:`~patchbeam.mosaic.decode.PatchSource`.
    """

    def __init__(
        self,
        plan: ImportPlan,
        files: RecordFiles,
        schema: RecordSchema,
        *,
        threads: int,
        order: Ints | None = None,
    ) -> None:
        self._plan = plan
        self._files = files
        self._threads = threads
        self._profile = plan.profile(schema)
        self._pool = Pool(threads)
        tile_bytes = plan.options.tile_size**2 * len(schema.names) * np.dtype(schema.type).itemsize
        self._reads_ahead = tile_bytes <= AHEAD_BYTES
        self._mask = None if plan.source_mask is None else plan.source_mask.reader(threads)
        self._assembler = Assembler(
            PatchSource(files, plan.layout, schema, order),
            plan.layout,
            Converter(schema, plan.options),
            bands=len(schema.names),
            overlap=plan.options.overlap,
            pool=self._pool,
            valid_at=self._mask,
        )

    def make_all(self, tiles: Iterable[int]) -> Iterator[TileDone]:
        """Makes tiles one after the other; the next one is read while the last one is written.

        Args:
            tiles: their numbers.

        Raises:
            PatchbeamError: as :meth:`make`.
        """
        reads = (self.read(tile) for tile in tiles)
        for read in self._pool.ahead(reads) if self._reads_ahead else reads:
            yield self.make(read)

    def make(self, tile: int | TileRead | TileDone) -> TileDone:
        """Makes a tile, unless an earlier attempt of the same import has.

        Args:
            tile: its number, or what :meth:`read` has returned of it.

        Raises:
            CorruptRecord: a record that it needs is damaged or of another form.
            EncodeError: a value does not fit the map's type.
            WriteFailed: the file cannot be written.
        """
        read = self.read(tile) if isinstance(tile, int) else tile
        return read if isinstance(read, TileDone) else self._write(read)

    def read(self, tile: int) -> TileRead | TileDone:
        """Reads the pixels of a tile, unless an earlier attempt of the same import has finished it.

        Raises:
            CorruptRecord: a record that it needs is damaged or of another form.
            EncodeError: a value does not fit the map's type.
        """
        done = finished_tile(self._plan, tile)
        if done is not None:
            return done
        pixels, patches = self._assembler.tile(self._plan.tiles.window(tile))
        self._files.release()
        return TileRead(tile=tile, pixels=pixels, patches=patches)

    def _write(self, read: TileRead) -> TileDone:
        tile, pixels = read.tile, read.take()
        path, _ = tile_paths(self._plan, tile)
        grid = padded(self._plan.layout.grid, self._plan.tiles.window(tile))
        if storage.is_remote(path):
            with tempfile.TemporaryDirectory(prefix="patchbeam-") as folder:
                local = os.path.join(folder, "tile.tif")
                size = write_cog(local, pixels, grid, self._profile, threads=self._threads)
                del pixels
                retrying(lambda: storage.concat([local], path))
        else:
            size = retrying(lambda: write_cog(path, pixels, grid, self._profile, threads=self._threads))
        done = TileDone(tile=tile, path=path, size_bytes=size, patches=read.patches)
        mark_finished(self._plan, done)
        return done

    def close(self) -> None:
        """Ends threads and closes files."""
        self._pool.close()
        if self._mask is not None:
            self._mask.close()
