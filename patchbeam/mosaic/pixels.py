"""Per-pixel records, one SequenceExample (or Example of single numbers) a pixel, read many at a time.

Records of one size and with the same bytes between their values are read as columns of one table; nearly
all records of a file are of a few such forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord, nearest
from patchbeam.records.layout import Kind
from patchbeam.records.parse import Spans, as_view
from patchbeam.records.parse_sequence import scan_sequence_example

Array = NDArray[Any]
_DTYPES: dict[Kind, str] = {"float": "<f4", "int64": "<i8", "bytes": "u1"}


class PixelTable:
    """Numbers of many per-pixel records as one array a channel of each feature.

    Args:
        depths: feature → numbers a pixel.
        pixels: how many records there are.
    """

    def __init__(self, depths: Mapping[str, int], pixels: int) -> None:
        self._depths = depths
        self._pixels = pixels
        self._columns: dict[str, Array] = {}
        self._missing: dict[str, NDArray[np.bool_]] = {}

    def fill(self, records: Sequence[memoryview]) -> None:
        """Reads the records, one a pixel in pixel order.

        Raises:
            CorruptRecord: a record is none, or lacks a feature; ``record`` is its place in ``records``.
        """
        sizes = np.array([len(record) for record in records], np.int64)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            joined = b"".join([records[i] for i in rows.tolist()])
            table = np.frombuffer(joined, np.uint8).reshape(len(rows), size)
            while rows.size:
                rows, table = self._take_form(rows, table)

    def columns(self) -> dict[str, Array]:
        """Returns ``(channel, pixel)`` of each feature; NaN where a list was shorter than its depth."""
        columns = dict(self._columns)
        for name, missing in self._missing.items():
            if missing.any():
                values = columns[name]
                columns[name] = np.where(
                    missing, np.nan, values if values.dtype == "f4" else values.astype("f8")
                )
        return columns

    def _take_form(self, rows: NDArray[np.intp], table: Array) -> tuple[NDArray[np.intp], Array]:
        # Reads all rows of the form of the first one; returns the others.
        view = as_view(np.ascontiguousarray(table[0]))
        try:
            found = scan_pixel(view)
        except CorruptRecord as error:
            raise CorruptRecord(error.what, record=int(rows[0])) from None
        gap = np.ones(table.shape[1], np.bool_)
        ends = np.zeros(table.shape[1], np.bool_)
        for values in (values for feature in found.values() for values in feature):
            for start, size in values.spans:
                gap[start : start + size] = False
                # where varints end is part of the form
                ends[start : start + size] = values.kind == "int64"
        alike = (table[:, gap] == table[0, gap]).all(axis=1)
        if ends.any():
            alike &= ((table[:, ends] ^ table[0, ends]) < 0x80).all(axis=1)
        return self._split(rows, table, found, alike)

    def _split(
        self,
        rows: NDArray[np.intp],
        table: Array,
        found: Mapping[str, list[Spans]],
        alike: NDArray[np.bool_],
    ) -> tuple[NDArray[np.intp], Array]:
        mine, own = rows[alike], table[alike]
        for name, depth in self._depths.items():
            values = found.get(name)
            if values is None:
                raise CorruptRecord(
                    f"has no feature {name!r}{nearest(name, found)}; it has {', '.join(found)}",
                    record=int(mine[0]),
                )
            self._put(name, depth, values, mine, own)
        return rows[~alike], table[~alike]

    def _put(self, name: str, depth: int, values: list[Spans], rows: NDArray[np.intp], table: Array) -> None:
        kind: Kind = next((v.kind for v in values if v.kind is not None), "float")
        columns = self._columns.get(name)
        if columns is None:
            columns = self._columns[name] = np.zeros((depth, self._pixels), _DTYPES[kind])
            self._missing[name] = np.zeros((depth, self._pixels), np.bool_)
        channel = 0
        for feature in values:
            for start, size in feature.spans:
                for column in _numbers(table[:, start : start + size], feature.kind):
                    if channel < depth:
                        columns[channel, rows] = column
                    channel += 1
        self._missing[name][channel:, rows] = True


def scan_pixel(view: memoryview) -> dict[str, list[Spans]]:
    """Returns where the values of each context feature (one entry) and feature list (one a step) lie.

    Raises:
        CorruptRecord: the bytes are no SequenceExample or Example.
    """
    context, lists = scan_sequence_example(view)
    return {name: [spans] for name, spans in context.items()} | lists


def pixel_kinds(view: memoryview) -> dict[str, tuple[Kind, int]]:
    """Returns the kind and the count of numbers of each feature of one per-pixel record."""
    kinds: dict[str, tuple[Kind, int]] = {}
    for name, values in scan_pixel(view).items():
        kind = next((v.kind for v in values if v.kind is not None), None)
        if kind is not None:
            count = sum(
                _count(view, start, size, kind) for feature in values for start, size in feature.spans
            )
            kinds[name] = (kind, count)
    return kinds


def _count(view: memoryview, start: int, size: int, kind: Kind) -> int:
    if kind == "int64":
        return int(np.count_nonzero(np.frombuffer(view, np.uint8, size, start) < 0x80))
    return size // 4 if kind == "float" else size


def _numbers(table: Array, kind: Kind | None) -> list[Array]:
    """Returns one array a number of the values in ``table``, (row, byte); ends of varints are all alike."""
    if kind == "float":
        numbers = np.ascontiguousarray(table).view("<f4")
        return [numbers[:, i] for i in range(numbers.shape[1])]
    if kind == "bytes" or table.shape[1] == 0:
        return [table[:, i] for i in range(table.shape[1])]
    found = []
    value = np.zeros(len(table), np.uint64)
    shift = 0
    for i in range(table.shape[1]):
        value |= (table[:, i] & 0x7F).astype(np.uint64) << np.uint64(shift)
        shift += 7
        if table[0, i] < 0x80:
            found.append(value.view(np.int64))
            value, shift = np.zeros(len(table), np.uint64), 0
    return found
