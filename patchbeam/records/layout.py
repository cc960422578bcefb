"""``tf.train.Example`` written straight from NumPy arrays, in the order of the bands.

The wire (tensorflow/core/example/example.proto and feature.proto): an Example holds Features
(field 1), which holds map entries (field 1) of a key (1) and a Feature (2); a Feature is one of
bytes_list (1), float_list (2), int64_list (3), each with a repeated ``value`` (1). Numbers are
written packed, as the service writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import EncodeError
from patchbeam.records.crc import masked_crc, masked_crc_of_parts
from patchbeam.records.wire import MAX_VARINT_BYTES, Bytes, encode_varints, varint

Kind = Literal["float", "int64", "bytes"]
KIND_FIELDS: dict[Kind, int] = {"bytes": 1, "float": 2, "int64": 3}
"""Field number of each list in Feature."""

FRAME_BYTES = 16
"""Bytes that framing adds to a record: u64 length, u32 CRC, data, u32 CRC."""

MAX_MESSAGE_BYTES = 2**31 - 1
"""The largest message that protobuf runtimes read."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of an Example.

    Attributes:
        name: the key.
        kind: ``float`` (packed float32), ``int64`` (packed varints) or ``bytes`` (one value).
        length: number of numbers; for ``bytes`` the number of bytes in the one value.
    """

    name: str
    kind: Kind
    length: int

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise EncodeError(f"feature {self.name!r}: kind {self.kind!r} is none of float, int64, bytes")
        if self.length < 0:
            raise EncodeError(f"feature {self.name!r}: length {self.length} is negative")

    @property
    def payload_range(self) -> tuple[int, int]:
        """Fewest and most bytes of the values."""
        if self.kind == "int64":
            return self.length, self.length * MAX_VARINT_BYTES
        size = self.length * (4 if self.kind == "float" else 1)
        return size, size


def field(number: int, size: int) -> bytes:
    """Returns the head of a length-delimited protobuf field of ``size`` bytes."""
    return varint(number << 3 | 2) + varint(size)


def feature_head(kind: Kind, payload_size: int) -> bytes:
    """Returns what stands before the values in a Feature message.

    A list without numbers is an empty message; a bytes value is always written, even when empty.
    """
    inner = field(1, payload_size) if payload_size or kind == "bytes" else b""
    return field(KIND_FIELDS[kind], len(inner) + payload_size) + inner


def entry_head(name: str, kind: Kind, payload_size: int) -> bytes:
    """Returns what stands before the values in a map entry, the entry's own tag and length included."""
    key = name.encode()
    head = feature_head(kind, payload_size)
    inner = field(1, len(key)) + key + field(2, len(head) + payload_size) + head
    return field(1, len(inner) + payload_size) + inner


class ExampleLayout:
    """The bytes round the values of Examples that all have the same features.

    Attributes:
        features: in wire order.
        fixed: whether every record has the same size: no int64 feature.
        min_size: fewest bytes of a framed record.
        max_size: most bytes of a framed record; ``record_size`` when ``fixed``.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        """Lays out Examples with ``features``, in that order.

        Raises:
            EncodeError: two features share a name, or the smallest record is larger than any
                protobuf runtime reads.
        """
        self.features = tuple(features)
        names = [feature.name for feature in self.features]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise EncodeError(f"features share the name {', '.join(map(repr, twice))}; rename one of each")
        self.fixed: bool = all(feature.kind != "int64" for feature in self.features)
        self.min_size: int = self._framed_size([feature.payload_range[0] for feature in self.features])
        self.max_size: int = self._framed_size([feature.payload_range[1] for feature in self.features])
        self._refuse_beyond_protobuf(self.min_size)
        # (offset, bytes) of what stands between the slots, and where each slot starts, in a framed record.
        self._gaps: list[tuple[int, bytes]] = []
        self._slots: list[tuple[int, int, str]] = []
        if self.fixed:
            self._lay_out()

    @property
    def record_size(self) -> int:
        """Bytes of every framed record.

        Raises:
            EncodeError: sizes vary, because there is an int64 feature.
        """
        self._require_fixed()
        return self.max_size

    def prepare(self, buffer: Bytes) -> None:
        """Writes framing and headers of the records of ``buffer``: all but the values and the data CRCs.

        Args:
            buffer: uint8 ``(records * record_size,)``, contiguous; changed in place.
        """
        self._require_fixed()
        if buffer.size % self.record_size or buffer.ndim != 1:
            raise EncodeError(
                f"a buffer of shape {buffer.shape} is no whole number of records of {self.record_size} bytes"
            )
        records = buffer.reshape(-1, self.record_size)
        for offset, head in self._gaps:
            records[:, offset : offset + len(head)] = np.frombuffer(head, np.uint8)

    def slot_views(self, buffer: Bytes, record: int) -> list[NDArray[Any]]:
        """Returns writable views of the values of one prepared record, a view a feature.

        Args:
            buffer: what ``prepare`` has written.
            record: number of the record in the buffer.

        Returns:
            Little-endian float32 ``(length,)``, seldom aligned, or uint8 ``(length,)``.
        """
        base = record * self.max_size
        return [np.ndarray((length,), dtype, buffer, base + at) for at, length, dtype in self._slots]

    def seal(self, buffer: Bytes, record: int) -> None:
        """Writes the data CRC of one record whose values are all there."""
        end = (record + 1) * self.max_size
        data = buffer[end - self.max_size + 12 : end - 4]
        buffer[end - 4 : end] = np.frombuffer(struct.pack("<I", masked_crc(data)), np.uint8)

    def encode(self, values: Sequence[NDArray[Any]]) -> bytes:
        """Returns one framed record.

        Args:
            values: one array a feature, of its length in whatever shape; taken in row-major order
                as float32, int64 or uint8.

        Raises:
            EncodeError: the number or a length of the arrays is not the layout's, or the record is
                larger than protobuf runtimes read.
        """
        if len(values) != len(self.features):
            raise EncodeError(f"{len(values)} arrays for {len(self.features)} features")
        payloads = [_payload(f, v) for f, v in zip(self.features, values, strict=True)]
        heads = self._heads([len(payload) for payload in payloads])
        size = sum(map(len, heads)) + sum(map(len, payloads))
        self._refuse_beyond_protobuf(size + FRAME_BYTES)
        length = struct.pack("<Q", size)
        data: list[bytes | Bytes] = [heads[0]]
        for head, payload in zip(heads[1:], payloads, strict=True):
            data += (head, payload)
        return b"".join(
            (
                length,
                struct.pack("<I", masked_crc(length)),
                *(part if isinstance(part, bytes) else part.data for part in data),
                struct.pack("<I", masked_crc_of_parts(data)),
            )
        )

    def _framed_size(self, payload_sizes: Sequence[int]) -> int:
        return FRAME_BYTES + sum(map(len, self._heads(payload_sizes))) + sum(payload_sizes)

    def _heads(self, payload_sizes: Sequence[int]) -> list[bytes]:
        # The head of Features, then one a feature.
        heads = [entry_head(f.name, f.kind, n) for f, n in zip(self.features, payload_sizes, strict=True)]
        return [field(1, sum(map(len, heads)) + sum(payload_sizes)), *heads]

    def _lay_out(self) -> None:
        sizes = [feature.payload_range[0] for feature in self.features]
        heads = self._heads(sizes)
        length = struct.pack("<Q", self.max_size - FRAME_BYTES)
        offset, head = 0, length + struct.pack("<I", masked_crc(length)) + heads[0]
        for feature, size, own in zip(self.features, sizes, heads[1:], strict=True):
            head += own
            self._gaps.append((offset, head))
            offset += len(head)
            self._slots.append((offset, feature.length, "<f4" if feature.kind == "float" else "u1"))
            offset += size
            head = b""
        if head:
            self._gaps.append((offset, head))

    def _require_fixed(self) -> None:
        if not self.fixed:
            names = ", ".join(repr(f.name) for f in self.features if f.kind == "int64")
            raise EncodeError(f"records have no fixed size because of the int64 features {names}; use encode")

    @staticmethod
    def _refuse_beyond_protobuf(size: int) -> None:
        if size - FRAME_BYTES > MAX_MESSAGE_BYTES:
            raise EncodeError(
                f"a record of {size} bytes is more than protobuf reads ({MAX_MESSAGE_BYTES}); "
                "use smaller patches or fewer bands"
            )


def _payload(feature: Feature, values: NDArray[Any]) -> Bytes:
    if values.size != feature.length:
        raise EncodeError(f"feature {feature.name!r}: {values.size} values where {feature.length} belong")
    if feature.kind == "int64":
        return encode_varints(values)
    flat = np.ascontiguousarray(values, "<f4" if feature.kind == "float" else np.uint8).ravel()
    return flat.view(np.uint8)
