"""Do records follow each other as the patches do?

Patches with a margin share pixels with their neighbours: the last columns of one are the first of the next.
Where they are not the same pixels, records are not where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import Array, Ints
from patchbeam.patch_values import PatchValues
from patchbeam.patches import PatchGrid
from patchbeam.pool import Pool
from patchbeam.records.files import RecordFiles
from patchbeam.verify.report import Finding

MOST_RECORDS = (64, 16)
"""Records that are compared with their neighbours: beside the limits between shards, and random ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two neighbours, as (patch, record); the second lies to the right of the first, or below it."""

    first: tuple[int, int]
    second: tuple[int, int]
    beside: bool


def check_order(
    records: RecordFiles, kept: Ints, patches: PatchGrid, values: PatchValues, *, seed: int, threads: int
) -> tuple[int, list[Finding]]:
    """Compares the pixels that neighbours share.

    Args:
        records: all of them, one a patch.
        kept: patch number of each record, rising.
        patches: the patch grid; it has a margin.
        values: how records become arrays.
        seed: of the choice.
        threads: that work side by side.

    Returns:
        How many pairs were compared, and what is wrong.
    """
    pairs = list(_pairs(records, kept, patches, seed))
    by_record: dict[int, list[tuple[int, int]]] = {}
    for number, pair in enumerate(pairs):
        for which, (_, record) in enumerate((pair.first, pair.second)):
            by_record.setdefault(record, []).append((number, which))

    def strips(record: int) -> list[list[Array]]:
        bands = values.decoder().decode(iter([records[record]]))
        return [
            [_shared(band, pairs[number], which, patches).copy() for band in bands]
            for number, which in by_record[record]
        ]

    shared: list[list[list[Array]]] = [[] for _ in pairs]
    order = sorted(by_record)  # the first of a pair comes first
    with Pool(threads) as pool:
        for record, found in zip(order, pool.map(strips, order), strict=True):
            for (number, _), strip in zip(by_record[record], found, strict=True):
                shared[number].append(strip)
    findings = []
    for pair, (one, two) in zip(pairs, shared, strict=True):
        for name, a, b in zip(values.bands, one, two, strict=True):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                findings.append(_misplaced(name, pair, records))
                break
    return len(pairs), findings


def _misplaced(band: str, pair: _Pair, records: RecordFiles) -> Finding:
    number, at = records.locate(pair.second[1])
    side = "to the left" if pair.beside else "above"
    return Finding(
        about="order",
        file=records.files[number].name,
        record=at,
        patch=pair.second[0],
        text=f"band {band!r}: the pixels shared with patch {pair.first[0]} ({side}) are not the same in "
        "both: one of the two records is not in its place",
    )


def _pairs(records: RecordFiles, kept: Ints, patches: PatchGrid, seed: int) -> Iterator[_Pair]:
    across, down = patches.margin_width_height
    generator = np.random.default_rng(seed)
    limits = records.starts[1:-1]
    limits = limits[(limits > 0) & (limits < len(kept))]
    near = np.unique(np.concatenate([limits - 1, limits]))
    if near.size > MOST_RECORDS[0]:
        near = generator.choice(near, MOST_RECORDS[0], replace=False)
    chosen = generator.choice(len(kept), min(len(kept), MOST_RECORDS[1]), replace=False)
    seen: set[tuple[int, int]] = set()
    for record in sorted({*near.tolist(), *chosen.tolist()}):
        row, col = patches.row_col(int(kept[record]))
        for rows, cols, margin in ((0, -1, across), (0, 1, across), (-1, 0, down), (1, 0, down)):
            if not margin or not (0 <= row + rows < patches.rows and 0 <= col + cols < patches.columns):
                continue
            patch = patches.index(row + rows, col + cols)
            other = int(np.searchsorted(kept, patch))
            pair = (min(record, other), max(record, other))
            if other == len(kept) or kept[other] != patch or pair in seen:
                continue
            seen.add(pair)
            first, second = ((int(kept[n]), n) for n in pair)
            yield _Pair(first=first, second=second, beside=rows == 0)


def _shared(band: Array, pair: _Pair, which: int, patches: PatchGrid) -> Array:
    """The pixels of one of two neighbours that both have; with ``edge: pad`` only those inside the grid.

    What lies outside the grid is masked in the patch that it belongs to, and real in the other's margin.
    """
    own = patches.stored_window(pair.second[0] if which else pair.first[0])
    common = patches.stored_window(pair.first[0]).intersection(patches.stored_window(pair.second[0]))
    assert common is not None  # the margin is not 0
    stop_col, stop_row = common.col_stop, common.row_stop
    if patches.edge == "pad":
        stop_col, stop_row = min(stop_col, patches.width), min(stop_row, patches.height)
    return band[
        common.row_off - own.row_off : max(stop_row, common.row_off) - own.row_off,
        common.col_off - own.col_off : max(stop_col, common.col_off) - own.col_off,
    ]
