"""Blocks of pixels to runs of Example records.

Every patch is copied once, from the block's arrays into its place in a buffer that already holds the
framing and the headers of every record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from patchbeam.blocks import BlockGrid, Run
from patchbeam.buffers import BufferPool
from patchbeam.elements import Array, Bytes, Ints, PixelBlock, RecordRun
from patchbeam.errors import EncodeError
from patchbeam.features import ImageFeature, RecordBand
from patchbeam.manifest import to_ranges
from patchbeam.pool import Pool
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.rounding import rounded_by_float32
from patchbeam.statistics import Moments, measure, merge_all


class Place(NamedTuple):
    """Where a patch lies in the arrays of its block, as slices ``(row, col)``."""

    stored: tuple[slice, slice]
    inner: tuple[slice, slice]


class _Measured(NamedTuple):
    moments: tuple[Moments, ...]
    rounded: tuple[int, ...]


class ExampleEncoder:
    """Encodes the patches of blocks, one Example each.

    Args:
        blocks: the read blocks.
        bands: the record's bands, the mask band last.
        features: the record's features, in wire order.
        masked_threshold: a patch whose masked share is greater is dropped.
        strict: whether a number that float32 rounds is an error.
        pool: the threads to use.

    Raises:
        EncodeError: from :meth:`runs`, a number that the record type cannot hold.
    """

    def __init__(
        self,
        blocks: BlockGrid,
        bands: Sequence[RecordBand],
        features: Sequence[ImageFeature],
        *,
        masked_threshold: float,
        strict: bool,
        pool: Pool,
    ) -> None:
        self._blocks = blocks
        self._bands = bands
        self._features = features
        self._threshold = masked_threshold
        self._strict = strict
        self._pool = pool
        self._buffers = BufferPool()
        self._layout = example_layout(features)

    def runs(self, block: PixelBlock) -> Iterator[RecordRun]:
        """Yields the runs of a block in patch order; a run whose patches are all dropped is empty."""
        for run in self._blocks.runs(block.block):
            kept = kept_patches(self._blocks, block, run, self._threshold)
            places = [self._place(block.block, patch) for patch in kept]
            if self._layout.fixed:
                size = self._layout.record_size
                data = self._buffers.take(len(kept) * size)
                self._layout.prepare(data)
                sizes = None

                def fill(i: int, data: Bytes = data, kept: Ints = kept, places: list[Place] = places) -> _Measured:
                    return self._fill(block, data, i, int(kept[i]), places[i])

                measured = list(self._pool.map(fill, range(len(kept))))
            else:
                size = 0

                def encode(
                    i: int, kept: Ints = kept, places: list[Place] = places
                ) -> tuple[bytes | bytearray, _Measured]:
                    return self._encode(block, int(kept[i]), places[i])

                encoded = list(self._pool.map(encode, range(len(kept))))
                sizes = np.array([len(record) for record, _ in encoded], np.int64)
                data = np.frombuffer(b"".join(record for record, _ in encoded), np.uint8)
                measured = [m for _, m in encoded]
            yield RecordRun(
                block=block.block,
                first_patch=run.first,
                patches=run.count,
                kept=to_ranges(kept),
                data=data,
                record_size=size,
                sizes=sizes,
                moments=tuple(merge_all([m.moments[b] for m in measured]) for b in range(len(self._bands))),
                rounded=tuple(sum(m.rounded[b] for m in measured) for b in range(len(self._bands))),
            )

    def _place(self, block: int, patch: int) -> Place:
        return place(self._blocks, block, patch)

    def _fill(self, block: PixelBlock, data: Bytes, record: int, patch: int, at: Place) -> _Measured:
        views = self._layout.slot_views(data, record)
        rounded = [0] * len(self._bands)
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, flat in zip(self._features, views, strict=True):
                target = flat.reshape(feature.shape)
                for b, part in self._parts(feature, target):
                    source = block.bands[b].values[(..., *at.stored)]
                    part[...] = source
                    if feature.kind == "float":
                        rounded[b] = self._check_rounding(block, b, patch, at, source, part)
        self._layout.seal(data, record)
        return _Measured(self._moments(block, at), tuple(rounded))

    def _encode(self, block: PixelBlock, patch: int, at: Place) -> tuple[bytes | bytearray, _Measured]:
        rounded = [0] * len(self._bands)
        values: list[Array] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for feature in self._features:
                target = np.empty(feature.shape, _ARRAY_TYPES[feature.kind])
                for b, part in self._parts(feature, target):
                    source = block.bands[b].values[(..., *at.stored)]
                    if feature.kind == "int64":
                        self._check_int64(b, patch, source)
                    part[...] = source
                    if feature.kind == "float":
                        rounded[b] = self._check_rounding(block, b, patch, at, source, part)
                values.append(target.reshape(-1))
        return self._layout.encode(values), _Measured(self._moments(block, at), tuple(rounded))

    def _parts(self, feature: ImageFeature, target: Array) -> Iterator[tuple[int, Array]]:
        """Yields each band of a feature with the channels that it fills."""
        if len(feature.bands) == 1:
            yield feature.bands[0], target
            return
        channel = 0
        for b in feature.bands:
            depth = self._bands[b].depth or 0
            yield b, target[channel : channel + depth] if self._bands[b].array else target[channel]
            channel += depth

    def _moments(self, block: PixelBlock, at: Place) -> tuple[Moments, ...]:
        return tuple(
            measure(
                pixels.values[(..., *at.inner)],
                None if pixels.valid is None else pixels.valid[(..., *at.inner)],
            )
            for pixels in block.bands
        )

    def _check_int64(self, band: int, patch: int, values: Array) -> None:
        if values.dtype == np.uint64 and values.max(initial=0) > np.uint64(2**63 - 1):
            raise EncodeError(
                f"band {self._bands[band].name}, patch {patch}: {values.max()} is above 2**63 - 1, the largest number "
                "of an int64 list; use numbers: float, or give the band a smaller type"
            )

    def _check_rounding(
        self, block: PixelBlock, band: int, patch: int, at: Place, source: Array, stored: Array
    ) -> int:
        valid = block.bands[band].valid
        mask = None if valid is None else valid[(..., *at.stored)]
        name = self._bands[band].name
        if source.dtype == np.float64:
            overflow = np.isinf(stored) & np.isfinite(source)
            if overflow.any():
                where = tuple(int(n) for n in np.argwhere(overflow)[0])
                raise EncodeError(
                    f"band {name}, patch {patch}, pixel (row, col) {where[-2:]} of the stored patch: "
                    f"{source[where]} is beyond float32; scale the band or leave it out"
                )
        count = rounded_by_float32(source, stored, mask)
        if count and self._strict:
            raise EncodeError(
                f"band {name}, patch {patch}: {count} numbers cannot be held by float32 exactly and strict is true; "
                "use numbers: native, give the band a smaller type, or set strict: false to round them"
            )
        return count


_ARRAY_TYPES = {"float": np.dtype("<f4"), "int64": np.dtype("<i8"), "bytes": np.dtype("u1")}


def example_layout(features: Sequence[ImageFeature]) -> ExampleLayout:
    """Returns the byte layout of an Example with these features."""
    return ExampleLayout([Feature(name=f.name, kind=f.kind, length=f.length) for f in features])


def place(blocks: BlockGrid, block: int, patch: int) -> Place:
    """Returns where a patch lies in its block's arrays."""
    patches = blocks.patches
    first_column, first_row, _, _ = blocks.extent(block)
    row, column = divmod(patch, patches.columns)
    width, height = patches.patch_width_height
    x, y = patches.margin_width_height
    left, top = (column - first_column) * width, (row - first_row) * height
    return Place(
        (slice(top, top + height + 2 * y), slice(left, left + width + 2 * x)),
        (slice(top + y, top + y + height), slice(left + x, left + x + width)),
    )


def kept_patches(blocks: BlockGrid, block: PixelBlock, run: Run, threshold: float) -> Ints:
    """Returns the patches of a run whose masked share, without margins, is at or under the threshold."""
    patches = np.arange(run.first, run.first + run.count, dtype=np.int64)
    if block.valid is None or threshold >= 1:
        return patches
    width, height = blocks.patches.patch_width_height
    total = width * height
    masked = [
        total - np.count_nonzero(block.valid[place(blocks, block.block, int(patch)).inner]) for patch in patches
    ]
    return patches[np.array(masked, np.int64) / total <= threshold]
