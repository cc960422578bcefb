"""``tf.train.Example`` read straight into NumPy arrays.

The reader takes whatever protobuf takes: packed and unpacked numbers, lists in several chunks,
fields in any order, unknown fields, padded varints. Of entries with one key the last counts, as in
every protobuf map; chunks of one list are joined; of two lists of different kinds in one Feature
the last counts (oneof).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.records.crc import Buffer
from patchbeam.records.layout import Feature, Kind
from patchbeam.records.wire import decode_varints, read_varint

Values = NDArray[Any] | list[bytes] | None
"""Of a feature: float32 or int64 ``(value,)``, a list of bytes, or ``None`` where there is no list."""

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}
_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)
# As deep as protobuf runtimes go.
_MAX_DEPTH = 100


@dataclass(slots=True)
class Spans:
    """Where the values of one Feature lie.

    Attributes:
        kind: of the list, or ``None`` when the Feature holds none.
        spans: ``(first byte, size)`` of each chunk, or of each value for ``bytes``.
    """

    kind: Kind | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)


def parse_example(data: Buffer) -> dict[str, Values]:
    """Reads one serialized Example.

    Args:
        data: the message, without framing. Float values are views of it where they lie in one
            chunk, so it must not change afterwards.

    Returns:
        The values of each feature, in wire order.

    Raises:
        CorruptRecord: the bytes are no Example.
    """
    view = as_view(data)
    return {name: take(view, spans) for name, spans in scan_example(view).items()}


def feature_kinds(data: Buffer) -> tuple[Feature, ...]:
    """Returns name, kind and length of each feature that holds a list, in wire order.

    Nothing is decoded. The length of a ``bytes`` feature is the total size of its values.

    Raises:
        CorruptRecord: the bytes are no Example.
    """
    view = as_view(data)
    features = []
    for name, spans in scan_example(view).items():
        if spans.kind is None:
            continue
        size = sum(size for _, size in spans.spans)
        if spans.kind == "float":
            size //= 4
        elif spans.kind == "int64":
            size = sum(_varint_count(view[at : at + n]) for at, n in spans.spans)
        features.append(Feature(name, spans.kind, size))
    return tuple(features)


class ExampleDecoder:
    """Decodes the Examples of one series, whose headers are nearly always the same bytes.

    The first record is parsed; of a later one of the same size the bytes between the values are
    compared with it, and when they are equal its values are where they were. (Not so where an int64 list
    lies in several places: written one by one, its varints end where the values say, not the headers.)
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        """Decodes the features ``names`` alone, or all of them."""
        self._names = None if names is None else frozenset(names)
        self._size = -1
        self._gaps: list[tuple[int, int, bytes]] = []
        self._spans: dict[str, Spans] = {}

    def decode(self, data: Buffer) -> dict[str, Values]:
        """Returns what :func:`parse_example` returns, for the features asked for."""
        view = as_view(data)
        if len(view) != self._size or any(view[start:end] != gap for start, end, gap in self._gaps):
            self._learn(view)
        names = self._names
        return {
            name: take(view, spans) for name, spans in self._spans.items() if names is None or name in names
        }

    def _learn(self, view: memoryview) -> None:
        self._size = -1  # stays when the record is corrupt, or says nothing of the next one
        spans = scan_example(view)
        gaps = []
        position = 0
        for start, size in sorted(span for feature in spans.values() for span in feature.spans):
            if start > position:
                gaps.append((position, start, bytes(view[position:start])))
            position = start + size
        if position < len(view):
            gaps.append((position, len(view), bytes(view[position:])))
        self._gaps, self._spans = gaps, spans
        if not any(feature.kind == "int64" and len(feature.spans) > 1 for feature in spans.values()):
            self._size = len(view)


def as_view(data: Buffer) -> memoryview:
    """Returns ``data`` as a flat view of bytes."""
    view = data.data if isinstance(data, np.ndarray) else memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def scan_example(view: memoryview) -> dict[str, Spans]:
    """Returns where the values of each feature lie.

    Raises:
        CorruptRecord: the bytes are no Example.
    """
    found: dict[str, Spans] = {}
    for number, wire_type, start, end in fields(view, 0, len(view)):
        if number == 1 and wire_type == _LENGTH:
            scan_features(view, start, end, found)
    return found


def scan_features(view: memoryview, start: int, end: int, found: dict[str, Spans]) -> None:
    """Adds the entries of the Features message in ``view[start:end]`` to ``found``."""
    for number, wire_type, first, last in fields(view, start, end):
        if number == 1 and wire_type == _LENGTH:
            spans = Spans()
            name = ""
            for part, part_type, a, b in fields(view, first, last):
                if part_type != _LENGTH:
                    continue
                if part == 1:
                    name = text(view, a, b)
                elif part == 2:
                    scan_feature(view, a, b, spans)
            found[name] = spans


def scan_feature(view: memoryview, start: int, end: int, spans: Spans) -> None:
    """Adds the list in the Feature message ``view[start:end]`` to ``spans``."""
    for number, wire_type, first, last in fields(view, start, end):
        kind = _KINDS.get(number)
        if kind is None or wire_type != _LENGTH:
            continue
        if spans.kind != kind:
            spans.kind = kind
            spans.spans = []
        for part, part_type, a, b in fields(view, first, last):
            if part != 1:
                continue
            if part_type == _LENGTH:
                if kind == "float" and (b - a) % 4:
                    raise CorruptRecord(
                        f"the float list at byte {a} of the data has {b - a} bytes: no whole floats"
                    )
                if kind == "int64" and b > a and view[b - 1] > 0x7F:
                    raise CorruptRecord(f"the int64 list at byte {a} of the data ends inside a varint")
                spans.spans.append((a, b - a))
            elif (part_type == _FIXED32 and kind == "float") or (part_type == _VARINT and kind == "int64"):
                spans.spans.append((a, b - a))


def fields(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the fields of the message ``view[start:end]``.

    Yields:
        Field number, wire type, and the first byte and the byte after the value; of a
        length-delimited field without its length. Groups, which proto3 does not have, are skipped.

    Raises:
        CorruptRecord: the bytes are no protobuf message.
    """
    position = start
    groups: list[int] = []
    while position < end:
        at = position
        tag = view[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = read_varint(view, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >= 1 << 32:
            raise CorruptRecord(f"field number {number} at byte {at} of the data is none that protobuf has")
        first = position
        if wire_type == _LENGTH:
            size, first = read_varint(view, position)
            position = first + size
        elif wire_type == _VARINT:
            _, position = read_varint(view, position)
        elif wire_type == _FIXED32:
            position += 4
        elif wire_type == _FIXED64:
            position += 8
        elif wire_type == _GROUP:
            groups.append(number)
            if len(groups) > _MAX_DEPTH:
                raise CorruptRecord(f"groups nest deeper than {_MAX_DEPTH} at byte {at} of the data")
            continue
        elif wire_type == _GROUP_END and groups and groups[-1] == number:
            groups.pop()
            continue
        else:
            raise CorruptRecord(f"wire type {wire_type} at byte {at} of the data cannot stand there")
        if position > end:
            raise CorruptRecord(
                f"field {number} at byte {at} of the data ends at {position}, its message at {end}"
            )
        if not groups:
            yield number, wire_type, first, position
    if groups:
        raise CorruptRecord(f"the message that ends at byte {end} of the data ends inside a group")
    if position > end:
        raise CorruptRecord(f"a field crosses the end of its message at byte {end} of the data")


def text(view: memoryview, start: int, end: int) -> str:
    """Returns a string field's value.

    Raises:
        CorruptRecord: it is not UTF-8.
    """
    try:
        return str(view[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"the key at byte {start} of the data is not UTF-8: {error}") from None


def take(view: memoryview, spans: Spans) -> Values:
    """Returns the values that lie at ``spans`` of ``view``."""
    if spans.kind is None:
        return None
    if spans.kind == "bytes":
        return [bytes(view[start : start + size]) for start, size in spans.spans]
    if len(spans.spans) == 1:
        start, size = spans.spans[0]
        if spans.kind == "float":
            return np.frombuffer(view, "<f4", size // 4, start)
        joined = np.frombuffer(view, np.uint8, size, start)
    else:
        whole = np.frombuffer(view, np.uint8)
        chunks = [whole[start : start + size] for start, size in spans.spans]
        joined = np.concatenate(chunks) if chunks else np.empty(0, np.uint8)
    return joined.view("<f4") if spans.kind == "float" else decode_varints(joined)


def _varint_count(chunk: memoryview) -> int:
    return int(np.count_nonzero(np.frombuffer(chunk, np.uint8) < 0x80))
