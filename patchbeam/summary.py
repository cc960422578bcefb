"""What all pieces together say: counts against the plan, statistics in patch order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import Ints, Piece
from patchbeam.errors import CountMismatch
from patchbeam.selection import Parts
from patchbeam.statistics import Moments, merge_all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """The sum of the pieces of an export.

    Attributes:
        patches: patches looked at.
        records: records written.
        size_bytes: uncompressed bytes written.
        shards: shards that the records make.
        kept: ``(range, [first, count])`` of the patches that have records, in order.
        moments: statistics of each band over the kept patches without their margins.
        rounded: numbers of each band that float32 could not hold exactly.
        split_moments: those of each split, when there are splits.
    """

    patches: int
    records: int
    size_bytes: int
    shards: int
    kept: Ints
    moments: tuple[Moments, ...]
    rounded: tuple[int, ...]
    split_moments: tuple[tuple[Moments, ...], ...] = ()

    @property
    def kept_patches(self) -> int:
        """Number of patches that have records."""
        return int(self.kept[:, 1].sum())


def in_order(pieces: Sequence[Piece], patches: int) -> list[Piece]:
    """Returns the pieces in patch order, after counting them.

    Args:
        pieces: as they were gathered, in any order.
        patches: patches that the plan has.

    Raises:
        CountMismatch: a run is missing or came twice. A runner that loses elements and still reports
            success is found here.
    """
    ordered = sorted(pieces, key=lambda piece: piece.order)
    expected = {len(piece.rounded) for piece in ordered if piece.order[1] == 0}
    looked = sum(piece.patches for piece in ordered)
    orders = [piece.order for piece in ordered]
    gap = next(
        (
            i
            for i, order in enumerate(orders)
            if order[1] and (i == 0 or orders[i - 1] != (order[0], order[1] - 1))
        ),
        None,
    )
    if looked != patches or len(set(orders)) != len(orders) or gap is not None or len(expected) > 1:
        raise CountMismatch(
            f"pieces of {looked} patches came out of the pipeline and the plan has {patches}: the runner "
            "lost or repeated work; nothing has been published. Run the job again, on another runner if it "
            "happens again"
        )
    return ordered


def by_split(ordered: Sequence[Piece], parts: Parts | None) -> list[list[Piece]]:
    """Sorts pieces by the split of their patches, of which a piece has but one; every split is there.

    Args:
        ordered: from :func:`in_order`.
        parts: the split of each patch; ``None`` without splits.
    """
    if parts is None:
        return [list(ordered)]
    found: list[list[Piece]] = [[] for _ in range(int(parts.max()) + 1)]
    for piece in ordered:
        if len(piece.kept):
            found[int(parts[piece.kept[0, 0]])].append(piece)
    return found


def summarize(ordered: Sequence[Piece], bands: int, shards: int, parts: Parts | None = None) -> Summary:
    """Adds up pieces that are in order.

    Args:
        ordered: from :func:`in_order`.
        bands: number of bands in a record.
        shards: shards that the records make.
        parts: the split of each patch; ``None`` without splits.
    """
    firsts = [piece for piece in ordered if piece.order[1] == 0]
    kept = [piece.kept for piece in firsts if len(piece.kept)]
    return Summary(
        patches=sum(piece.patches for piece in ordered),
        records=sum(piece.records for piece in ordered),
        size_bytes=sum(int(piece.members[:, 1].sum()) for piece in ordered),
        shards=shards,
        kept=_joined(np.concatenate(kept)) if kept else np.empty((0, 2), np.int64),
        moments=_merged(firsts, bands),
        rounded=tuple(sum(piece.rounded[b] for piece in firsts) for b in range(bands)),
        split_moments=()
        if parts is None
        else tuple(_merged(pieces, bands) for pieces in by_split(ordered, parts)),
    )


def _merged(pieces: Sequence[Piece], bands: int) -> tuple[Moments, ...]:
    return tuple(merge_all([piece.moments[b] for piece in pieces]) for b in range(bands))


def _joined(ranges: Ints) -> Ints:
    """Joins ranges that touch; they are in order and do not overlap."""
    starts = np.flatnonzero(np.concatenate([[True], ranges[1:, 0] != ranges[:-1].sum(axis=1)]))
    counts = np.add.reduceat(ranges[:, 1], starts)
    return np.stack([ranges[starts, 0], counts], axis=1)
