"""The values that travel between the stages of an export.

In order: a block number, :class:`PixelBlock` (its pixels), :class:`RecordRun` (encoded records of
consecutive patches), :class:`Piece` (where a run's bytes lie). Only pieces are ever gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.statistics import Moments

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BandPixels:
    """One band of one window.

    Attributes:
        values: in the band's type, ``(row, col)``; for an array band ``(step, row, col)``.
        valid: the same shape, true where a pixel is not masked; ``None`` when every pixel is valid.
            What ``values`` holds where ``valid`` is false is not defined.
    """

    values: Array
    valid: Mask | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelBlock:
    """The pixels of one read block, margins included.

    Attributes:
        block: number of the block in the plan's block grid.
        bands: one entry a band of the export, the mask band last; masked values already hold
            ``defaultValue`` and array bands have their depth.
        valid: ``(row, col)``, true where every band is valid; ``None`` when all are.
    """

    block: int
    bands: tuple[BandPixels, ...]
    valid: Mask | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordRun:
    """The encoded records of consecutive patches.

    Attributes:
        block: the block they come from.
        first_patch: index of the first patch looked at.
        patches: number of patches looked at, dropped ones included.
        kept: ``(range, [first, count])`` of the patches that have records here.
        data: framed records, one after the other, uint8.
        record_size: bytes a framed record when all are equal, else 0.
        sizes: bytes of each framed record; ``None`` when all are equal.
        moments: statistics of each band over the kept patches without their margins.
        rounded: numbers of each band that float32 could not hold exactly.
    """

    block: int
    first_patch: int
    patches: int
    kept: Ints
    data: Bytes
    record_size: int
    sizes: Ints | None
    moments: tuple[Moments, ...]
    rounded: tuple[int, ...]

    @property
    def records(self) -> int:
        """Number of records."""
        if self.sizes is not None:
            return len(self.sizes)
        return len(self.data) // self.record_size if self.record_size else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Where the bytes of a run, or of the part of it that belongs to one shard, lie.

    Attributes:
        path: the piece file; empty when there are no records.
        order: position among all pieces: (first patch, number of the part within the run).
        patches: patches looked at, counted on a run's first part only.
        kept: as in :class:`RecordRun`, on a run's first part only.
        record_size: bytes a framed record when all are equal, else 0.
        members: ``(member, [records, uncompressed bytes, stored bytes])`` in file order.
        sums: for each member, the CRC-32C of the stored bytes from the piece's first to the member's end.
        moments: as in :class:`RecordRun`, on a run's first part only.
        rounded: as in :class:`RecordRun`, on a run's first part only.
        start: first byte in a file that the pieces of a shard share; ``None`` in a file of its own.
    """

    path: str
    order: tuple[int, int]
    patches: int
    kept: Ints
    record_size: int
    members: Ints
    sums: Ints
    moments: tuple[Moments, ...]
    rounded: tuple[int, ...]
    start: int | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self.members[:, 0].sum())
