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
from typing import Any

import numpy as np

from patchbeam.blocks import BlockGrid, layout_blocks
from patchbeam.grid import offsets_on
from patchbeam.image_records import ImageRecords
from patchbeam.plan_json import plan_to_json
from patchbeam.rasters.digest import sources_digest
from patchbeam.selection import Parts
from patchbeam.shards import ShardBounds, shard_bounds
from patchbeam.software import software_versions
from patchbeam.storage import is_remote
from patchbeam.together import refuse_contradictions


@dataclass(frozen=True, kw_only=True)
class ExportPlan(ImageRecords):
    """One image export, resolved and checked: its records, and how they are read and written.

    Attributes are those of :class:`~patchbeam.image_records.ImageRecords`.

    Raises:
        JobError: options contradict each other or the bands.
    """

    def __post_init__(self) -> None:
        # everything that can be refused is refused here, before work starts
        refuse_contradictions(self)

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
    def records_per_shard(self) -> int | None:
        """Records of a full shard where that is certain, else ``None``."""
        return self.options.max_file_size_bytes // self.record_size[0] if self.bounds.exact else None

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
    def can_lay(self) -> bool:
        """Whether records can be written straight to their places in shards, if one machine does all."""
        local = not is_remote(self.output)
        return local and not self.options.compressed and self.records_per_shard is not None

    @property
    def space_bytes(self) -> tuple[int, int]:
        """Least and most bytes that the destination must have free: most often pieces and shards together.

        Compressed, the least supposes that data shrink to a twentieth; where nothing need be copied, that
        nothing is.
        """
        least, most = self.bounds.total_bytes
        if self.options.compressed:
            return 2 * least // 20, 2 * most
        return (least if self.can_lay else 2 * least), 2 * most

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
