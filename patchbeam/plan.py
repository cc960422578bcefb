"""The plan of an image export: everything that follows from the job and the sources' headers.

Pure: no pixel is read. What it says of patches, shards and sizes is what the export then does, and the
last step of the export compares.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from odc.geo.geobox import GeoBox
from pyproj import CRS

from patchbeam.blocks import BlockGrid, layout_blocks
from patchbeam.clip import ClipRegion
from patchbeam.cut import Tally
from patchbeam.encode_example import example_layout
from patchbeam.encode_sequence import list_steps, sequence_layout
from patchbeam.features import ImageFeature, Numbers, RecordBand, image_features, record_bands
from patchbeam.grid import offsets_on
from patchbeam.keep import KeepRule
from patchbeam.options import FormatOptions
from patchbeam.patches import Edge, PatchGrid
from patchbeam.plan_json import plan_to_json
from patchbeam.rasters.bands import Band
from patchbeam.rasters.digest import sources_digest
from patchbeam.rasters.source import Source
from patchbeam.selection import Parts, SampleRule, SplitRule
from patchbeam.shards import ShardBounds, shard_bounds
from patchbeam.software import software_versions
from patchbeam.together import refuse_contradictions

Gzip = Literal["indexed", "zlib6"]
Naming = Literal["drive", "gcs"]
Statistics = Literal["basic", "full"]

BLOCK_BYTES = 64 << 20
"""Default of ``blockBytes``."""


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """One image export, resolved and checked.

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

    def __post_init__(self) -> None:
        # everything that can be refused is refused here, before work starts
        refuse_contradictions(self)

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

    @cached_property
    def part_counts(self) -> tuple[int, ...]:
        """Patches of each split, or of the only part, as far as their place decides."""
        parts = self.blocks.parts
        if parts is None:
            return (self.patches.count,)
        splits = 1 if self.split is None else len(self.split.names)
        return tuple(np.bincount(parts[parts >= 0], minlength=splits).tolist())

    @property
    def split_parts(self) -> Parts | None:
        """The split of each patch, -1 for none; ``None`` without splits."""
        return None if self.split is None else self.blocks.parts

    @cached_property
    def part_bounds(self) -> tuple[ShardBounds, ...]:
        """What can be said of the shards of each split."""
        return tuple(
            shard_bounds(
                count * self.records_per_patch,
                self.record_size,
                self.options.max_file_size_bytes,
                may_drop=self.pixels_decide,
            )
            for count in self.part_counts
        )

    @cached_property
    def bounds(self) -> ShardBounds:
        """What can be said of the shards."""
        bounds = self.part_bounds
        if not self.may_drop:
            return bounds[0]
        return ShardBounds(
            exact=False,
            records=_added([part.records for part in bounds]),
            shards=_added([part.shards for part in bounds]),
            total_bytes=_added([part.total_bytes for part in bounds]),
        )

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
    def records_per_shard(self) -> int | None:
        """Records of a full shard where that is certain, else ``None``."""
        return self.options.max_file_size_bytes // self.record_size[0] if self.bounds.exact else None

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

    @cached_property
    def aligned(self) -> tuple[bool, ...]:
        """For each source, whether all its files lie on the export grid, so that nothing is resampled."""
        return tuple(
            all(offsets_on(self.grid, file.grid) is not None for file in source.files)
            for source in self.sources
        )

    @cached_property
    def blocks(self) -> BlockGrid:
        """The read blocks."""
        shapes = [
            source.files[0].block_shapes[0]
            for source, aligned in zip(self.sources, self.aligned, strict=True)
            if aligned and source.files
        ]
        largest = max(shapes, key=lambda shape: shape[0] * shape[1], default=None)
        return layout_blocks(
            self.patches,
            pixel_bytes=self.pixel_bytes,
            patch_record_bytes=self.record_size[1] * self.records_per_patch,
            budget_bytes=self.block_bytes,
            source_block_width_height=None if largest is None else (largest[1], largest[0]),
            split=self.split,
            sample=self.sample,
        )

    @property
    def piece_gzip(self) -> bool:
        """Whether pieces are compressed where they are made; ``zlib6`` compresses whole shards."""
        return self.options.compressed and self.gzip == "indexed"

    @property
    def memory_bytes(self) -> int:
        """About what a worker process needs for the largest block, above the interpreter and libraries."""
        window = self.blocks.window(0)
        pixels = window.width * window.height
        block = pixels * (self.pixel_bytes + len(self.record_bands) + 1)
        run = self.record_size[1] * self.records_per_patch * self.blocks.run_patches
        return 2 * block + 2 * run

    @property
    def space_bytes(self) -> tuple[int, int]:
        """Least and most bytes that the destination must have free: pieces and shards exist together.

        Compressed, the least supposes that data shrink to a twentieth.
        """
        least, most = self.bounds.total_bytes
        return (2 * least // 20 if self.options.compressed else 2 * least), 2 * most

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that decides a byte of the output: the plan, the sources, the encoders."""
        state = {
            "plan": self.to_json(),
            "sources": sources_digest(self.sources),
            "block": [*self.blocks.columns_rows, self.blocks.run_patches],
            "clip": None if self.clip is None else hashlib.sha256(self.clip.edges.tobytes()).hexdigest(),
            "software": software_versions(),
        }
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()

    def _repr_html_(self) -> str:
        from patchbeam.repr import plan_html

        return plan_html(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the plan as ``patchbeam plan --json`` prints it."""
        return plan_to_json(self)


def _added(ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(least for least, _ in ranges), sum(most for _, most in ranges)
