"""The records of an image export: what the job and the headers of its sources say of each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from odc.geo.geobox import GeoBox
from pyproj import CRS

from patchbeam.clip import ClipRegion
from patchbeam.cut import Tally
from patchbeam.encode_example import example_layout
from patchbeam.encode_sequence import list_steps, sequence_layout
from patchbeam.features import ImageFeature, Numbers, RecordBand, image_features, record_bands
from patchbeam.keep import KeepRule
from patchbeam.options import FormatOptions
from patchbeam.patches import Edge, PatchGrid
from patchbeam.rasters.bands import Band
from patchbeam.rasters.source import Source
from patchbeam.selection import SampleRule, SplitRule

Gzip = Literal["indexed", "zlib6"]
Naming = Literal["drive", "gcs"]
Statistics = Literal["basic", "full"]

BLOCK_BYTES = 64 << 20
"""Default of ``blockBytes``."""


@dataclass(frozen=True, kw_only=True)
class ImageRecords:
    """What is asked of an image export, resolved, and what follows of its records.

    Attributes:
        grid: the export grid.
        sources: the rasters, headers only.
        bands: the bands to export, in order, without the mask band.
        options: format options.
        output: prefix of every file written, local or ``gs://``.
        edge: what becomes of the pixels that do not fill a patch.
        numbers: ``float`` (every number float32) or ``native``.
        gzip: how shards are compressed when they are.
        naming: how files are named.
        mask_band: name of the mask band, or ``None``.
        strict: whether numbers that float32 rounds are an error.
        on_missing: whether a source that cannot be read is an error, or masked and listed in the manifest.
        block_bytes: what a read block may take.
        fill: names of the sources whose masked observations stay in place, holding ``defaultValue``, instead
            of dropping out of their arrays.
        clip: the region outside of which pixels are masked, or ``None``.
        split: how patches are split by blocks, or ``None``.
        keep: what classes a patch must hold to be written, or ``None``.
        sample: how patches are drawn, or ``None`` for all.
        statistics: ``basic``, or ``full`` for percentiles besides.
        class_maps: names of the uint16 bands that hold classes.
    """

    grid: GeoBox
    sources: tuple[Source, ...]
    bands: tuple[Band, ...]
    options: FormatOptions
    output: str
    edge: Edge = "drop"
    numbers: Numbers = "float"
    gzip: Gzip = "indexed"
    naming: Naming = "drive"
    mask_band: str | None = None
    strict: bool = False
    on_missing: Literal["error", "mask"] = "error"
    block_bytes: int = BLOCK_BYTES
    fill: frozenset[str] = frozenset()
    clip: ClipRegion | None = None
    split: SplitRule | None = None
    keep: KeepRule | None = None
    sample: SampleRule | None = None
    statistics: Statistics = "basic"
    class_maps: frozenset[str] = frozenset()

    @property
    def crs(self) -> CRS:
        """The grid's CRS."""
        assert self.grid.crs is not None  # sources without one are refused
        return self.grid.crs.proj

    @cached_property
    def patches(self) -> PatchGrid:
        """The patch grid."""
        width, height = self.grid.shape.x, self.grid.shape.y
        return PatchGrid(
            width=width,
            height=height,
            patch_width_height=self.options.patch_width_height,
            kernel_width_height=self.options.kernel_width_height,
            edge=self.edge,
        )

    @cached_property
    def record_bands(self) -> tuple[RecordBand, ...]:
        """The bands as records see them, the mask band last."""
        return record_bands(
            [(band.name, band.type, band.is_array) for band in self.bands], self.options, self.mask_band
        )

    @cached_property
    def features(self) -> tuple[ImageFeature, ...]:
        """The features of a record, in wire order."""
        return image_features(self.record_bands, self.options, self.numbers, self.patches.stored_width_height)

    @property
    def compact(self) -> tuple[bool, ...]:
        """For each band, whether masked observations drop out of its arrays."""
        return tuple(band.source not in self.fill for band in self.bands)

    @property
    def defaults(self) -> tuple[float, ...]:
        """What a masked pixel of each record band holds; 0 in the mask band."""
        bands = [self.options.default_value] * len(self.bands)
        return tuple(bands if self.mask_band is None else [*bands, 0.0])

    @cached_property
    def record_size(self) -> tuple[int, int]:
        """Least and greatest bytes of a framed record."""
        if self.options.sequence_data:
            observations = [*(self.steps(band) for band in self.bands), 1]
            steps = list_steps(self.features, self.record_bands, observations, (*self.compact, False))
            return sequence_layout(self.features).size_bounds(steps)
        layout = example_layout(self.features)
        return layout.min_size, layout.max_size

    @property
    def record_kind(self) -> str:
        """What one record holds, for messages."""
        if self.options.sequence_data:
            return f"one pixel and {len(self.record_bands)} bands"
        width, height = self.patches.stored_width_height
        return f"{width} × {height} pixels and {len(self.record_bands)} bands"

    @property
    def records_per_patch(self) -> int:
        """Records a patch: one, or one a pixel."""
        width, height = self.options.patch_width_height
        return width * height if self.options.sequence_data else 1

    @property
    def may_drop(self) -> bool:
        """Whether not every patch may be written, in the order of the grid; then there is no mixer."""
        return self.pixels_decide or self.split is not None or self.sample is not None

    @property
    def pixels_decide(self) -> bool:
        """Whether it takes pixels to know which patches are written."""
        drawn = self.sample is not None and self.sample.per_class is not None
        return self.options.masked_threshold < 1 or self.keep is not None or drawn

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What is counted of each record band beside its moments."""
        return tuple(
            Tally(
                classes=band.type == "uint8" or band.name in self.class_maps,
                buckets=self.statistics == "full" and band.type != "uint8",
            )
            for band in self.record_bands
        )

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel of all bands, as read or, where ``tensorDepths`` pads arrays, as stored."""
        depths = self.options.tensor_depths or {}
        return sum(
            np.dtype(band.type).itemsize * max(self.steps(band), depths.get(band.name, 0))
            for band in self.bands
        )

    def steps(self, band: Band) -> int:
        """Returns the numbers a pixel of a band has as read; 1 for a scalar band."""
        if band.series:
            return len(next(source for source in self.sources if source.name == band.source).files)
        return 1 if band.indexes is None else len(band.indexes)
