"""Blocks of pixels to runs of encoded records: what Example and SequenceExample encoders share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from patchbeam.blocks import BlockGrid
from patchbeam.cut import Patch, Tallied, Tally, kept_patches, merge_tallied, tally
from patchbeam.elements import Array, Bytes, Ints, Mask, PixelBlock, RecordRun
from patchbeam.errors import EncodeError
from patchbeam.features import ImageFeature, RecordBand
from patchbeam.keep import KeepRule, kept_by_class
from patchbeam.manifest import to_ranges
from patchbeam.pool import Pool
from patchbeam.rounding import rounded_by_float32
from patchbeam.selection import Parts

WIRE_TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype("<f4"),
    "int64": np.dtype("<i8"),
    "bytes": np.dtype("u1"),
}
"""What each kind of feature holds, as NumPy has it."""


class Measured(NamedTuple):
    """What is known of a patch once it is encoded.

    Attributes:
        bands: statistics of each band without the margin.
        rounded: numbers of each band that float32 could not hold exactly.
    """

    bands: tuple[Tallied, ...]
    rounded: tuple[int, ...]


class Encoded(NamedTuple):
    """Encoded patches.

    Attributes:
        data: framed records, uint8.
        record_size: bytes a framed record when all are equal, else 0.
        sizes: bytes of each framed record, or ``None`` when all are equal.
        measured: one entry a patch.
    """

    data: Bytes
    record_size: int
    sizes: Ints | None
    measured: list[Measured]


class BlockEncoder(ABC):
    """Encodes the patches of blocks.

    Args:
        blocks: the read blocks.
        bands: the record's bands, the mask band last.
        features: the record's features, in wire order.
        defaults: what a masked pixel holds, one a band.
        masked_threshold: a patch whose masked share is greater is dropped.
        keep: what classes a patch must hold to be kept; ``None`` when that does not matter.
        tallies: what is counted of each band beside its moments; ``None`` for nothing.
        strict: whether a number that float32 rounds is an error.
        pool: the threads to use.
    """

    def __init__(
        self,
        blocks: BlockGrid,
        bands: Sequence[RecordBand],
        features: Sequence[ImageFeature],
        *,
        defaults: Sequence[float],
        masked_threshold: float,
        strict: bool,
        pool: Pool,
        keep: KeepRule | None = None,
        tallies: Sequence[Tally] | None = None,
    ) -> None:
        self.blocks = blocks
        self.bands = bands
        self.features = features
        self.defaults = defaults
        self.pool = pool
        self._threshold = masked_threshold
        self._strict = strict
        self._keep = keep
        self._tallies = tuple(tallies) if tallies is not None else (Tally(),) * len(bands)

    @abstractmethod
    def encode(self, block: PixelBlock, kept: Ints) -> Encoded:
        """Encodes the kept patches of one run.

        Raises:
            EncodeError: a number that the record type cannot hold; names band and patch.
        """

    def runs(self, block: PixelBlock, drawn: Parts | None = None) -> Iterator[RecordRun]:
        """Yields the runs of a block in patch order; a run whose patches are all dropped is empty.

        Args:
            block: the pixels; without bands when no patch of it is chosen by its place.
            drawn: of each patch its split or -1, after a draw that pixels decide; ``None`` without one.
        """
        # the next run is encoded while the caller compresses and stores the last one
        yield from self.pool.ahead(self._runs(block, drawn))

    def _runs(self, block: PixelBlock, drawn: Parts | None) -> Iterator[RecordRun]:
        worth = self._worth(block)
        for run in self.blocks.runs(block.block):
            indices = self.blocks.chosen(run, drawn)
            kept = kept_patches(self.blocks, block, run, self._threshold) if len(indices) else indices
            kept = np.intersect1d(kept, indices, assume_unique=True)
            if worth is not None and len(kept):
                column, row, _, _ = self.blocks.extent(block.block)
                rows, columns = np.divmod(kept, self.blocks.patches.columns)
                kept = kept[worth[rows - row, columns - column]]
            data, record_size, sizes, measured = self.encode(block, kept)
            yield RecordRun(
                block=block.block,
                first_patch=run.first,
                patches=run.count,
                kept=to_ranges(kept),
                data=data,
                record_size=record_size,
                sizes=sizes,
                moments=tuple(merge_tallied([m.bands[b] for m in measured]) for b in range(len(self.bands))),
                rounded=tuple(sum(m.rounded[b] for m in measured) for b in range(len(self.bands))),
            )

    def _worth(self, block: PixelBlock) -> Mask | None:
        if self._keep is None or not block.bands:
            return None
        names = [band.name for band in self.bands]
        return kept_by_class(self.blocks, block, names.index(self._keep.band), self._keep)

    def measured(self, patch: Patch, rounded: tuple[int, ...]) -> Measured:
        """Returns what is known of a patch once it is encoded."""
        return Measured(tally(patch, self._tallies), rounded)

    def check_int64(self, patch: Patch, band: int) -> None:
        """Refuses numbers that an int64 list cannot hold."""
        values = patch.bands[band].values
        if values.dtype == np.uint64 and values.max(initial=0) > np.uint64(2**63 - 1):
            raise EncodeError(
                f"band {self.bands[band].name}, patch {patch.index}: {values.max()} is above 2**63 - 1, the "
                "largest number of an int64 list; use numbers: float, or give the band a smaller type"
            )

    def check_float(self, patch: Patch, band: int, stored: Array) -> int:
        """Counts the numbers that float32 rounds; refuses those beyond it, and any if strict."""
        source = patch.bands[band].values
        name = self.bands[band].name
        if source.dtype == np.float64:
            overflow = np.isinf(stored) & np.isfinite(source)
            if overflow.any():
                where = tuple(int(n) for n in np.argwhere(overflow)[0])
                raise EncodeError(
                    f"band {name}, patch {patch.index}, pixel (row, col) {where[-2:]} of the stored patch: "
                    f"{source[where]} is beyond float32; scale the band or leave it out"
                )
        count = rounded_by_float32(source, stored, patch.bands[band].valid)
        if count and self._strict:
            raise EncodeError(
                f"band {name}, patch {patch.index}: {count} numbers cannot be held by float32 exactly and "
                "strict is true; use numbers: native, give the band a smaller type, or set strict: false"
            )
        return count
