"""``tf.train.SequenceExample``: one record a pixel, encoded many pixels at a time.

The wire (tensorflow/core/example/example.proto): a SequenceExample holds Features ``context``
(field 1) and FeatureLists ``feature_lists`` (2); the latter map entries (1) of a key (1) and a
FeatureList (2), which repeats Feature (1), one a step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import EncodeError
from patchbeam.records.crc import masked_crc, masked_crcs
from patchbeam.records.layout import FRAME_BYTES, MAX_MESSAGE_BYTES, Feature, entry_head, feature_head, field
from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.records.scatter import Pieces, SizeClasses
from patchbeam.records.wire import Bytes, Ints, varint_lengths

__all__ = ["SequenceLayout", "SequenceRecords", "Steps", "parse_sequence_example"]

# Records encoded at once: their cursors and pieces stay in the second-level cache.
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The values of one feature list for many pixels.

    Attributes:
        values: ``(step, pixel)``, or ``(step, pixel, number)`` where a step holds several numbers.
        lengths: how many steps, from the first, each pixel has: integers ``(pixel,)``; ``None`` for all.
    """

    values: NDArray[Any]
    lengths: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SequenceRecords:
    """Framed records.

    Attributes:
        data: uint8, one record after the other.
        sizes: bytes of each, int64 ``(pixel,)``.
    """

    data: Bytes
    sizes: Ints


class SequenceLayout:
    """The features of SequenceExamples that are all made alike.

    Attributes:
        context: features of the pixel; ``length`` numbers each (for ``bytes``: bytes).
        lists: feature lists; ``length`` numbers in each step.
    """

    def __init__(self, context: Sequence[Feature], lists: Sequence[Feature]) -> None:
        """Lays out records with ``context`` and ``lists``, in those orders.

        Raises:
            EncodeError: two features share a name, a feature has no numbers, or there is none.
        """
        self.context = tuple(context)
        self.lists = tuple(lists)
        names = [feature.name for feature in (*self.context, *self.lists)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise EncodeError(f"features share the name {', '.join(map(repr, twice))}; rename one of each")
        if not names:
            raise EncodeError("a SequenceExample needs at least one context feature or feature list")
        empty = [f.name for f in (*self.context, *self.lists) if f.length == 0]
        if empty:
            raise EncodeError(f"features without numbers: {', '.join(map(repr, empty))}")

    def size_bounds(self, steps: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Returns the fewest and the most bytes of a framed record.

        Args:
            steps: of each list the fewest and the most steps.
        """
        bounds = []
        for which in (0, 1):
            context = sum(
                len(entry_head(f.name, f.kind, f.payload_range[which])) + f.payload_range[which]
                for f in self.context
            )
            lists = 0
            for f, counts in zip(self.lists, steps, strict=True):
                payload = f.payload_range[which]
                size = counts[which] * (len(_step_head(f, payload)) + payload)
                lists += len(_list_head(f.name, size)) + size
            size = FRAME_BYTES
            for number, features, part in ((1, self.context, context), (2, self.lists, lists)):
                size += len(field(number, part)) + part if features else 0
            bounds.append(size)
        return bounds[0], bounds[1]

    def encode(self, context: Sequence[NDArray[Any]], lists: Sequence[Steps]) -> SequenceRecords:
        """Encodes one record a pixel.

        Args:
            context: an array a context feature: ``(pixel,)``, or ``(pixel, number)``.
            lists: the steps of each feature list.

        Raises:
            EncodeError: arrays that do not fit the layout or each other.
        """
        scalars = [_numbers(f, v, 1) for f, v in zip(self.context, context, strict=True)]
        steps = [_numbers(f, s.values, 2) for f, s in zip(self.lists, lists, strict=True)]
        counts = {v.shape[0] for v in scalars} | {v.shape[1] for v in steps}
        if len(counts) != 1:
            raise EncodeError(f"the arrays of one call have different numbers of pixels: {sorted(counts)}")
        (pixels,) = counts
        lengths = [_lengths(f, s, pixels) for f, s in zip(self.lists, lists, strict=True)]
        data, sizes = [], []
        for start in range(0, pixels, _CHUNK):
            part = slice(start, start + _CHUNK)
            piece = self._encode_chunk(
                [v[part] for v in scalars],
                [v[:, part] for v in steps],
                [n if n is None else n[part] for n in lengths],
                min(_CHUNK, pixels - start),
            )
            data.append(piece.data)
            sizes.append(piece.sizes)
        if len(data) == 1:
            return SequenceRecords(data[0], sizes[0])
        empty = ([np.empty(0, np.uint8)], [np.empty(0, np.int64)])
        return SequenceRecords(np.concatenate(data or empty[0]), np.concatenate(sizes or empty[1]))

    def _encode_chunk(
        self,
        scalars: list[NDArray[Any]],
        steps: list[NDArray[Any]],
        lengths: list[Ints | None],
        pixels: int,
    ) -> SequenceRecords:
        # Sizes from the inside out, then bytes from the front to the back.
        entries: list[_Entry | _Series] = [_Entry(f, v) for f, v in zip(self.context, scalars, strict=True)]
        series: list[_Entry | _Series] = [
            _Series(f, v, n) for f, v, n in zip(self.lists, steps, lengths, strict=True)
        ]
        parts: list[tuple[SizeClasses, list[_Entry | _Series]]] = []
        sizes = np.zeros(pixels, np.int64)
        for number, members in ((1, entries), (2, series)):
            if members:
                inner = np.zeros(pixels, np.int64)
                for member in members:
                    inner += member.sizes
                head = SizeClasses(inner, partial(field, number))
                parts.append((head, members))
                sizes += inner + head.lengths
        if pixels and int(sizes.max()) > MAX_MESSAGE_BYTES:
            raise EncodeError(f"a record of {int(sizes.max())} bytes is more than protobuf reads")
        frame = SizeClasses(sizes, _frame_head)
        sizes += FRAME_BYTES
        pieces = Pieces(sizes)
        frame.put(pieces)
        for head, members in parts:
            head.put(pieces)
            for member in members:
                member.put(pieces)
        crcs = masked_crcs(_payloads(pieces), pixels)
        pieces.put(crcs.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4))
        return SequenceRecords(pieces.buffer, sizes)


class _Entry:
    """One context feature of many pixels."""

    def __init__(self, feature: Feature, values: NDArray[Any]) -> None:
        self._values = values
        payload = _payload_sizes(feature, values)
        self._head = SizeClasses(payload, partial(entry_head, feature.name, feature.kind))
        self.sizes = payload + self._head.lengths

    def put(self, pieces: Pieces) -> None:
        self._head.put(pieces)
        _put_numbers(pieces, self._values, None)


class _Series:
    """One feature list of many pixels."""

    def __init__(self, feature: Feature, values: NDArray[Any], lengths: Ints | None) -> None:
        self._values = values
        self._lengths = lengths
        payload = _payload_sizes(feature, values)
        self._heads = SizeClasses(payload, partial(_step_head, feature))
        steps = payload + self._heads.lengths
        if lengths is not None:
            steps[np.arange(len(values))[:, None] >= lengths] = 0
        inner = steps.sum(axis=0, dtype=np.int64)
        self._list = SizeClasses(inner, partial(_list_head, feature.name))
        self.sizes = inner + self._list.lengths

    def put(self, pieces: Pieces) -> None:
        self._list.put(pieces)
        for step, values in enumerate(self._values):
            rows = None if self._lengths is None else np.flatnonzero(self._lengths > step)
            if rows is not None and rows.size == len(values):
                rows = None
            self._heads.put(pieces, rows, at=step)
            _put_numbers(pieces, values, rows)


def _payloads(pieces: Pieces) -> Iterable[bytes]:
    # The data of each record, between the 12 bytes before and the 4 after it.
    if pieces.record_size is not None:
        records = np.ascontiguousarray(pieces.buffer.reshape(-1, pieces.record_size)[:, 12:-4])
        payloads: list[bytes] = records.view(f"V{records.shape[1]}")[:, 0].tolist()
        return payloads
    data = pieces.buffer.tobytes()
    bounds = zip((pieces.starts + 12).tolist(), (pieces.ends - 4).tolist(), strict=True)
    return (data[start:end] for start, end in bounds)


def _frame_head(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", masked_crc(length))


def _step_head(feature: Feature, payload_size: int) -> bytes:
    head = feature_head(feature.kind, payload_size)
    return field(1, len(head) + payload_size) + head


def _list_head(name: str, size: int) -> bytes:
    key = name.encode()
    inner = field(1, len(key)) + key + field(2, size)
    return field(1, len(inner) + size) + inner


def _numbers(feature: Feature, values: NDArray[Any], axes: int) -> NDArray[Any]:
    """Returns the values in their wire type, with an axis for the numbers of one Feature."""
    if values.ndim == axes:
        values = values[..., None]
    if values.ndim != axes + 1 or values.shape[-1] != feature.length:
        raise EncodeError(
            f"feature {feature.name!r}: an array of shape {values.shape} for {feature.length} numbers"
        )
    dtype = {"float": "<f4", "int64": "<i8", "bytes": "u1"}[feature.kind]
    return np.ascontiguousarray(values, dtype)


def _lengths(feature: Feature, steps: Steps, pixels: int) -> Ints | None:
    if steps.lengths is None:
        return None
    lengths = np.asarray(steps.lengths, np.int64)
    if lengths.shape != (pixels,):
        raise EncodeError(f"feature {feature.name!r}: lengths of shape {lengths.shape} for {pixels} pixels")
    if pixels and not 0 <= int(lengths.min()) <= int(lengths.max()) <= len(steps.values):
        raise EncodeError(
            f"feature {feature.name!r}: lengths from {int(lengths.min())} to {int(lengths.max())} "
            f"for {len(steps.values)} steps"
        )
    return lengths


def _payload_sizes(feature: Feature, values: NDArray[Any]) -> Ints:
    if feature.kind == "int64":
        sizes: Ints = varint_lengths(values).sum(axis=-1, dtype=np.int64)
        return sizes
    return np.full(values.shape[:-1], feature.payload_range[0], np.int64)


def _put_numbers(pieces: Pieces, values: NDArray[Any], rows: Ints | None) -> None:
    # values (pixel, number) in their wire type
    chosen = values if rows is None else values[rows]
    if values.dtype.kind == "i":
        for number in range(values.shape[-1]):
            pieces.put_varints(chosen[:, number], rows)
    else:
        pieces.put(np.ascontiguousarray(chosen).view(np.uint8), rows)
