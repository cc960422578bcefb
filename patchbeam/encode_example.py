"""Patches to Example records.

Every patch is copied once, from the block's arrays into its place in a buffer that already holds the
framing and the headers of every record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from patchbeam.buffers import BufferPool
from patchbeam.cut import Patch, cut_patch
from patchbeam.elements import Array, Bytes, Ints, PixelBlock
from patchbeam.encode import WIRE_TYPES, BlockEncoder, Encoded, Measured
from patchbeam.features import ImageFeature
from patchbeam.records.example import ExampleLayout, Feature


class ExampleEncoder(BlockEncoder):
    """Encodes one Example a patch; see :class:`patchbeam.encode.BlockEncoder`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._layout = example_layout(self.features)
        self._buffers = BufferPool()

    def encode(self, block: PixelBlock, kept: Ints) -> Encoded:
        """Encodes the kept patches of one run."""
        if not self._layout.fixed:
            return self._encode_varying(block, kept)
        size = self._layout.record_size
        data = self._buffers.take(len(kept) * size)
        self._layout.prepare(data)

        def fill(i: int) -> Measured:
            patch = cut_patch(self.blocks, block, int(kept[i]), self.defaults)
            views = self._layout.slot_views(data, i)
            rounded = self._copy(
                patch, [flat.reshape(f.shape) for f, flat in zip(self.features, views, strict=True)]
            )
            self._layout.seal(data, i)
            return self.measured(patch, rounded)

        return Encoded(data, size, None, list(self.pool.map(fill, range(len(kept)))))

    def _encode_varying(self, block: PixelBlock, kept: Ints) -> Encoded:
        def one(index: int) -> tuple[Bytes, Measured]:
            patch = cut_patch(self.blocks, block, index, self.defaults)
            targets = [np.empty(f.shape, WIRE_TYPES[f.kind]) for f in self.features]
            rounded = self._copy(patch, targets)
            record = self._layout.encode([target.reshape(-1) for target in targets])
            return np.frombuffer(record, np.uint8), self.measured(patch, rounded)

        made = list(self.pool.map(one, kept.tolist()))
        data = np.concatenate([record for record, _ in made]) if made else np.empty(0, np.uint8)
        sizes = np.array([len(record) for record, _ in made], np.int64)
        return Encoded(data, 0, sizes, [measured for _, measured in made])

    def _copy(self, patch: Patch, targets: Sequence[Array]) -> tuple[int, ...]:
        """Copies every band into its feature's array; returns the numbers rounded, one count a band."""
        rounded = [0] * len(self.bands)
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, target in zip(self.features, targets, strict=True):
                for b, part in self._parts(feature, target):
                    if feature.kind == "int64":
                        self.check_int64(patch, b)
                    part[...] = patch.bands[b].values
                    if feature.kind == "float":
                        rounded[b] = self.check_float(patch, b, part)
        return tuple(rounded)

    def _parts(self, feature: ImageFeature, target: Array) -> Iterator[tuple[int, Array]]:
        """Yields each band of a feature with the channels that it fills."""
        if len(feature.bands) == 1:
            # one band fills the whole feature, whether or not that has an axis for channels
            b = feature.bands[0]
            yield (
                b,
                target.reshape(-1, *target.shape[-2:])
                if self.bands[b].array
                else target.reshape(target.shape[-2:]),
            )
            return
        channel = 0
        for b in feature.bands:
            depth = self.bands[b].depth or 0
            yield b, target[channel : channel + depth] if self.bands[b].array else target[channel]
            channel += depth


def example_layout(features: Sequence[ImageFeature]) -> ExampleLayout:
    """Returns the byte layout of an Example with these features."""
    return ExampleLayout([Feature(name=f.name, kind=f.kind, length=f.length) for f in features])
