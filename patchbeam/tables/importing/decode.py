"""Records to columns, many at once: those whose headers are the same bytes are read as one matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.records.layout import Kind
from patchbeam.records.parse import Spans, parse_example, scan_example
from patchbeam.records.wire import Ints, decode_varints

Numbers = NDArray[Any]
Texts = list[list[bytes]]

_TEMPLATES = 8
"""Headers tried for records of one size before they are parsed one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One feature of records that have it.

    Attributes:
        kind: of its list.
        numbers: float32 or int64 ``(row, value)``; ``None`` for ``bytes``.
        texts: the values of each row; empty for numbers.
    """

    kind: Kind
    numbers: Numbers | None
    texts: Texts

    @property
    def length(self) -> int:
        """Numbers a row."""
        return 0 if self.numbers is None else int(self.numbers.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Records that have the same features.

    Attributes:
        rows: which records of the batch, ascending.
        values: of each feature that holds a list, in wire order.
    """

    rows: Ints
    values: dict[str, Values]


def decode_records(datas: Sequence[bytes | memoryview]) -> list[Part]:
    """Returns the values of every record, as few parts as their headers allow.

    Raises:
        CorruptRecord: the data of a record is no Example.
    """
    sizes = np.array([len(data) for data in datas], np.int64)
    parts: list[Part] = []
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size).astype(np.int64)
        joined = np.frombuffer(b"".join([datas[row] for row in rows.tolist()]), np.uint8)
        parts += _same_size(rows, joined.reshape(len(rows), size))
    return parts


def _same_size(rows: Ints, matrix: NDArray[np.uint8]) -> Iterable[Part]:
    tried = 0
    while len(rows) and tried < _TEMPLATES:
        spans = scan_example(memoryview(matrix[0].tobytes()))
        head = np.ones(matrix.shape[1], np.bool_)
        for one in spans.values():
            for start, size in one.spans:
                head[start : start + size] = False
        same = (matrix[:, head] == matrix[0, head]).all(axis=1)
        values = _by_template(matrix[same], spans)
        if values is None:
            for row, record in zip(rows[same].tolist(), matrix[same], strict=True):
                yield Part(np.array([row], np.int64), _alone(record.tobytes()))
        else:
            yield Part(rows[same], values)
        rows, matrix = rows[~same], matrix[~same]
        tried += 1
    for row, record in zip(rows.tolist(), matrix, strict=True):
        yield Part(np.array([row], np.int64), _alone(record.tobytes()))


def _by_template(matrix: NDArray[np.uint8], spans: dict[str, Spans]) -> dict[str, Values] | None:
    # None where rows of one size and header have varint lists of different lengths: no matrix
    found: dict[str, Values] = {}
    for name, one in spans.items():
        if one.kind is None:
            continue
        chunks = [matrix[:, start : start + size] for start, size in one.spans]
        if one.kind == "bytes":
            columns = [_bytes(chunk) for chunk in chunks]
            texts: Texts = (
                [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in matrix]
            )
            found[name] = Values("bytes", None, texts)
            continue
        joined = np.ascontiguousarray(np.concatenate(chunks, axis=1) if chunks else matrix[:, :0])
        if one.kind == "float":
            found[name] = Values("float", joined.view("<f4"), [])
            continue
        lists = [decode_varints(row) for row in joined]
        if len({len(numbers) for numbers in lists}) > 1:
            return None
        found[name] = Values("int64", np.stack(lists), [])
    return found


def _bytes(chunk: NDArray[np.uint8]) -> list[bytes]:
    if not chunk.shape[1]:
        return [b""] * len(chunk)
    whole: list[bytes] = np.ascontiguousarray(chunk).view(f"V{chunk.shape[1]}")[:, 0].tolist()
    return whole


def _alone(data: bytes) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for name, values in parse_example(data).items():
        if values is None:
            continue
        if isinstance(values, list):
            found[name] = Values("bytes", None, [values])
        else:
            found[name] = Values("int64" if values.dtype.kind == "i" else "float", values[None], [])
    return found
