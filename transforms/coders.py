"""Deterministic coders for the values that cross stages: equal values, equal bytes."""

from __future__ import annotations

import dataclasses
import marshal
from typing import Any

import apache_beam as beam
import numpy as np

from patchbeam.assemble import AssembledShard
from patchbeam.draw import Drawn, Holding
from patchbeam.elements import BandPixels, Piece, PixelBlock, RecordRun
from patchbeam.shards import Shard, Span
from patchbeam.statistics import Moments
from patchbeam.summary import Summary

VALUES: tuple[type[Any], ...] = (
    BandPixels,
    PixelBlock,
    Moments,
    RecordRun,
    Piece,
    Span,
    Shard,
    AssembledShard,
    Summary,
    Holding,
    Drawn,
)
# Version 2 writes no back references, which would tell the same object from an equal one.
_MARSHAL_VERSION = 2


def pack(value: Any) -> Any:
    """Turns a value into tuples of plain values, tagged where plain values would be ambiguous."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
    if isinstance(value, tuple | list):
        return ("tuple", tuple(pack(item) for item in value))
    if dataclasses.is_dataclass(value):
        number = VALUES.index(type(value))
        return ("value", number, tuple(pack(getattr(value, f.name)) for f in dataclasses.fields(value)))
    if isinstance(value, np.generic):
        return pack(value.item())
    return value


def unpack(packed: Any) -> Any:
    """Turns back what :func:`pack` made; lists come back as tuples."""
    if not isinstance(packed, tuple):
        return packed
    match packed[0]:
        case "array":
            return np.frombuffer(packed[3], np.dtype(packed[1])).reshape(packed[2])
        case "tuple":
            return tuple(unpack(item) for item in packed[1])
        case _:
            kind = VALUES[packed[1]]
            names = [f.name for f in dataclasses.fields(kind)]
            return kind(**dict(zip(names, map(unpack, packed[2]), strict=True)))


def size_of(value: Any) -> int:
    """Returns about how many bytes a value takes."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    if dataclasses.is_dataclass(value):
        return sum(size_of(getattr(value, f.name)) for f in dataclasses.fields(value))
    return 8


class ValueCoder(beam.coders.Coder):
    """Coder of every dataclass that crosses a stage."""

    def encode(self, value: Any) -> bytes:
        """Returns one byte text for equal values."""
        return marshal.dumps(pack(value), _MARSHAL_VERSION)

    def decode(self, encoded: bytes) -> Any:
        """Returns the value."""
        return unpack(marshal.loads(encoded))

    def estimate_size(self, value: Any) -> int:
        """Returns about the bytes of ``encode``, without encoding: Beam asks of elements that it samples."""
        return size_of(value)

    def is_deterministic(self) -> bool:
        """Always."""
        return True


for _kind in VALUES:
    beam.coders.registry.register_coder(_kind, ValueCoder)
