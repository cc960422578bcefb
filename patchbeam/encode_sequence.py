"""Pixels to SequenceExample records: one a pixel, row-major within the patch, encoded a patch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from patchbeam.cut import Patch, cut_patch
from patchbeam.elements import Array, Ints, PixelBlock
from patchbeam.encode import WIRE_TYPES, BlockEncoder, Encoded, Measured
from patchbeam.features import ImageFeature, Kind, RecordBand
from patchbeam.pixels import default_for
from patchbeam.records.example import Feature
from patchbeam.records.sequence import SequenceLayout, SequenceRecords, Steps


class SequenceEncoder(BlockEncoder):
    """Encodes one SequenceExample a pixel; see :class:`patchbeam.encode.BlockEncoder`.

    Scalar bands stand in the context, array bands in feature lists of each pixel's own length, or of
    their depth where ``tensorDepths`` gives one. With ``collapseBands`` there is one feature list whose
    steps hold a number of every band.

    Args:
        compact: for each band but the mask band, whether masked observations drop out of its arrays, so
            that a pixel's own length is the number of its valid observations.
    """

    def __init__(self, *args: Any, compact: Sequence[bool], **options: Any) -> None:
        super().__init__(*args, **options)
        self._compact = (*compact, *([False] * (len(self.bands) - len(compact))))
        self._collapse = (
            len(self.features) == 1 and not self.features[0].context and len(self.features[0].shape) == 2
        )
        self._layout = sequence_layout(self.features)

    def encode(self, block: PixelBlock, kept: Ints) -> Encoded:
        """Encodes the pixels of the kept patches of one run."""

        def one(index: int) -> tuple[SequenceRecords, Measured]:
            patch = cut_patch(self.blocks, block, index, self.defaults)
            rounded = [0] * len(self.bands)
            with np.errstate(over="ignore", invalid="ignore"):
                if self._collapse:
                    records = self._layout.encode([], [self._collapsed(patch, rounded)])
                else:
                    context = [
                        self._numbers(patch, f, rounded).reshape(-1) for f in self.features if f.context
                    ]
                    lists = [self._steps(patch, f, rounded) for f in self.features if not f.context]
                    records = self._layout.encode(context, lists)
            return records, self.measured(patch, tuple(rounded))

        made = list(self.pool.map(one, kept.tolist()))
        measured = [m for _, m in made]
        if not made:
            return Encoded(np.empty(0, np.uint8), 0, np.empty(0, np.int64), measured)
        data = np.concatenate([records.data for records, _ in made])
        sizes = np.concatenate([records.sizes for records, _ in made])
        if (sizes == sizes[0]).all():
            return Encoded(data, int(sizes[0]), None, measured)
        return Encoded(data, 0, sizes, measured)

    def _numbers(self, patch: Patch, feature: ImageFeature, rounded: list[int]) -> Array:
        """Returns a band in its wire type, ``(row, col)`` or ``(step, row, col)``."""
        b = feature.bands[0]
        return self._cast(patch, b, feature.kind, rounded)

    def _cast(self, patch: Patch, b: int, kind: Kind, rounded: list[int]) -> Array:
        values = patch.bands[b].values
        if kind == "int64":
            self.check_int64(patch, b)
        stored: Array = values.astype(WIRE_TYPES[kind])
        if kind == "float":
            rounded[b] = self.check_float(patch, b, stored)
        return stored

    def _steps(self, patch: Patch, feature: ImageFeature, rounded: list[int]) -> Steps:
        values = self._numbers(patch, feature, rounded)
        return Steps(values.reshape(len(values), -1), self._lengths(patch, feature.bands[0]))

    def _lengths(self, patch: Patch, b: int) -> Ints | None:
        """Returns the steps of each pixel, or ``None`` when all have them all."""
        valid = patch.bands[b].valid
        if self.bands[b].depth is not None or valid is None or not self._compact[b]:
            return None
        lengths: Ints = valid.sum(axis=0, dtype=np.int64).reshape(-1)
        return lengths

    def _collapsed(self, patch: Patch, rounded: list[int]) -> Steps:
        """Returns steps that hold a number of every band: scalars repeated, short arrays padded."""
        feature = self.features[0]
        arrays = [b for b in feature.bands if self.bands[b].array]
        steps = max((len(patch.bands[b].values) for b in arrays), default=1)
        pixels = patch.bands[0].values.shape[-2] * patch.bands[0].values.shape[-1]
        values = np.empty((steps, pixels, len(feature.bands)), WIRE_TYPES[feature.kind])
        for channel, b in enumerate(feature.bands):
            numbers = self._cast(patch, b, feature.kind, rounded)
            if not self.bands[b].array:
                values[:, :, channel] = numbers.reshape(-1)
                continue
            values[: len(numbers), :, channel] = numbers.reshape(len(numbers), -1)
            # padding is what a masked number of the band would hold
            values[len(numbers) :, :, channel] = default_for(patch.bands[b].values.dtype, self.defaults[b])
        own = [self._lengths(patch, b) for b in arrays]
        if all(n is None and len(patch.bands[b].values) == steps for n, b in zip(own, arrays, strict=True)):
            return Steps(values, None)
        longest = np.zeros(pixels, np.int64)
        for n, b in zip(own, arrays, strict=True):
            np.maximum(longest, len(patch.bands[b].values) if n is None else n, out=longest)
        # scalar bands would be lost with a pixel that has no observation: it keeps one step
        return Steps(values, longest if len(arrays) == len(feature.bands) else np.maximum(longest, 1))


def sequence_layout(features: Sequence[ImageFeature]) -> SequenceLayout:
    """Returns the byte layout of a SequenceExample with these features."""

    def step(feature: ImageFeature) -> Feature:
        numbers = feature.shape[1] if len(feature.shape) == 2 else 1
        return Feature(name=feature.name, kind=feature.kind, length=numbers)

    return SequenceLayout(
        [step(feature) for feature in features if feature.context],
        [step(feature) for feature in features if not feature.context],
    )


def list_steps(
    features: Sequence[ImageFeature],
    bands: Sequence[RecordBand],
    observations: Sequence[int],
    compact: Sequence[bool],
) -> list[tuple[int, int]]:
    """Returns the fewest and the most steps of each feature list, for bounds on record sizes.

    Args:
        features: the record's features.
        bands: the record's bands.
        observations: numbers a pixel of each band has as read.
        compact: for each band, whether masked observations drop out.
    """
    bounds = []
    for feature in features:
        if feature.context:
            continue
        arrays = [b for b in feature.bands if bands[b].array]
        least, most = [], []
        for b in arrays:
            depth = bands[b].depth
            most.append(observations[b] if depth is None else depth)
            least.append(0 if depth is None and compact[b] else most[-1])
        scalar = len(arrays) < len(feature.bands)
        bounds.append((max([*least, int(scalar)]), max([*most, int(scalar)])))
    return bounds
