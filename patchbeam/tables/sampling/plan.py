"""What ``sample:`` asks for, resolved: the grid, the bands, and the blocks in which features are grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.clip import ClipRegion
from patchbeam.elements import Ints
from patchbeam.errors import JobError, nearest
from patchbeam.features import RecordBand
from patchbeam.grid import offsets_on
from patchbeam.options import GIB
from patchbeam.patches import Window
from patchbeam.rasters.bands import Band
from patchbeam.rasters.source import Source

Order = Literal["source", "block"]
Reduce = Literal["mean", "median"]

OUTSIDE = -1
"""Block of the features that lie outside the grid."""

_BLOCK_PIXELS = 1 << 20
_BUCKET_ROWS = 1 << 16
_BUCKET_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawPlan:
    """Points to be drawn from a class band.

    Attributes:
        band: the class band.
        per_class: points of each class.
        seed: decides which pixels; a pure function of it and of the pixel's number.
        classes: classes wanted; ``None`` for every one that occurs.
        clip: region outside of which no point is drawn, or ``None``.
    """

    band: Band
    per_class: int
    seed: int
    classes: tuple[int, ...] | None = None
    clip: ClipRegion | None = None


@dataclass(frozen=True, kw_only=True)
class SamplePlan:
    """Raster values to be added to features.

    Attributes:
        grid: whose pixels are sampled.
        sources: the rasters, headers only.
        bands: what is sampled, in order.
        depths: array band → values stored; arrays of others keep each pixel's own length.
        reduce: what a polygon's pixels become.
        patch: width and height of the chip centred on each point, in pixels; ``None``: one pixel.
        order: of chips: that of the source, or of the read blocks, which saves putting them in order.
        max_file_size_bytes: limit of one uncompressed shard of chips.
        default_value: written where a chip's pixel is masked and as padding of arrays.
        fill: names of sources whose masked observations stay in place.
        block_bytes: what a read block may take.
        draw: how points are drawn; ``None`` when a table gives them.
    """

    grid: GeoBox
    sources: tuple[Source, ...]
    bands: tuple[Band, ...]
    depths: tuple[tuple[str, int], ...] = ()
    reduce: Reduce = "mean"
    patch: tuple[int, int] | None = None
    order: Order = "source"
    max_file_size_bytes: int = GIB
    default_value: float = 0.0
    fill: frozenset[str] = frozenset()
    block_bytes: int = 64 << 20
    draw: DrawPlan | None = None

    def __post_init__(self) -> None:
        arrays = [band.name for band in self.bands if band.is_array]
        depths = dict(self.depths)
        for name in depths:
            if name not in arrays:
                raise JobError(
                    f"sample.tensorDepths.{name}: is not an array band; array bands are "
                    f"{', '.join(arrays) or 'none'}{nearest(name, arrays)}"
                )
        missing = [name for name in arrays if name not in depths]
        if self.patch is not None and missing:
            raise JobError(
                "sample.tensorDepths: chips need a depth for every array band; missing: "
                f"{', '.join(missing)} (for "
                f"instance {{{missing[0]}: 12}})"
            )
        if self.patch is None and self.order == "block":
            raise JobError(
                "sample.order: block is for chips; give patch: [width, height], or leave order out"
            )
        if self.patch is not None and self.chip_bytes > self.max_file_size_bytes:
            raise JobError(
                f"sample.maxFileSize: {self.max_file_size_bytes} bytes do not hold one chip, which takes "
                "at least "
                f"{self.chip_bytes}; raise it, or make sample.patch smaller"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Features that hold the sampled values."""
        return tuple(band.name for band in self.bands)

    @property
    def crs(self) -> str:
        """The grid's CRS: ``EPSG:n`` or WKT."""
        crs = self.grid.crs
        assert crs is not None  # sources without one are refused
        return str(crs.to_wkt()) if crs.epsg is None else f"EPSG:{crs.epsg}"

    @property
    def record_bands(self) -> tuple[RecordBand, ...]:
        """The bands as records see them."""
        depths: Mapping[str, int] = dict(self.depths)
        return tuple(
            RecordBand(
                name=band.name,
                type=band.type,
                array=band.is_array,
                depth=depths.get(band.name) if band.is_array else 1,
            )
            for band in self.bands
        )

    @property
    def compact(self) -> tuple[bool, ...]:
        """For each band, whether masked observations drop out of its arrays."""
        return tuple(band.source not in self.fill for band in self.bands)

    @property
    def chip_bytes(self) -> int:
        """Bytes of one record's sampled values, at the least for arrays of their own length."""
        width, height = self.patch or (1, 1)
        return sum(4 * (band.depth or 1) * width * height for band in self.record_bands)

    @property
    def bucket_rows(self) -> int:
        """Consecutive features whose records are put in order together."""
        return max(1, min(_BUCKET_ROWS, _BUCKET_BYTES // max(64, self.chip_bytes)))

    @cached_property
    def pixel_bytes(self) -> int:
        """Bytes of all bands of one pixel as read, masks included."""
        total = 0
        for band in self.bands:
            source = next(s for s in self.sources if s.name == band.source)
            steps = len(source.files) if band.series else len(band.indexes or (0,))
            total += steps * (np.dtype(band.type).itemsize + 1)
        return total

    @cached_property
    def block_width_height(self) -> tuple[int, int]:
        """Pixels of a read block: whole blocks of the first source's files where these lie on the grid."""
        width, height = self._source_block[:2]
        limit = max(1, self.block_bytes // self.pixel_bytes)
        while width * height * 2 <= min(_BLOCK_PIXELS, limit):
            if height <= width and height < self.grid.height:
                height *= 2
            elif width < self.grid.width:
                width *= 2
            else:
                break
        while width * height > limit and (width, height) != (1, 1):
            width, height = (max(1, width // 2), height) if width >= height else (width, max(1, height // 2))
        return width, height

    @cached_property
    def _source_block(self) -> tuple[int, int, int, int]:
        # width, height, and where a block of the first file starts on the grid
        file = self.sources[0].files[0]
        offsets = offsets_on(self.grid, file.grid)
        if offsets is None:
            return 256, 256, 0, 0
        height, width = file.block_shapes[0]
        width, height = min(width, self.grid.width), min(height, self.grid.height)
        return width, height, offsets[0], offsets[1]

    @property
    def _origin(self) -> tuple[int, int]:
        # blocks start at or before the grid's first pixel
        width, height = self.block_width_height
        _, _, column, row = self._source_block
        return column % width - width, row % height - height

    @property
    def across(self) -> int:
        """Blocks a row."""
        return -(-(self.grid.width - self._origin[0]) // self.block_width_height[0])

    @property
    def down(self) -> int:
        """Rows of blocks."""
        return -(-(self.grid.height - self._origin[1]) // self.block_width_height[1])

    def blocks_of(self, columns: Ints, rows: Ints) -> Ints:
        """Returns the block of each pixel of the grid."""
        left, top = self._origin
        width, height = self.block_width_height
        return (rows - top) // height * self.across + (columns - left) // width

    def window(self, block: int) -> Window | None:
        """Returns the pixels of the grid in a block; ``None`` when there are none."""
        row, column = divmod(block, self.across)
        left = self._origin[0] + column * self.block_width_height[0]
        top = self._origin[1] + row * self.block_width_height[1]
        right = min(left + self.block_width_height[0], self.grid.width)
        bottom = min(top + self.block_width_height[1], self.grid.height)
        left, top = max(left, 0), max(top, 0)
        if right <= left or bottom <= top:
            return None
        return Window(left, top, right - left, bottom - top)
