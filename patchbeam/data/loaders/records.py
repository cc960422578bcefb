"""A feature of one record of a TFRecord file."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.data.packing import unpack
from patchbeam.errors import nearest
from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import read_records


def load_record(
    file: BinaryIO,
    *,
    record: int = 0,
    feature: str | None = None,
    dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
) -> NDArray[Any]:
    """Returns the values of a feature.

    The file is read up to the record; for many records of one file a database is faster.

    Args:
        file: plain or gzip.
        record: its number, from 0.
        feature: its name; may be left out where there is only one.
        dtype: of the values; bytes are taken as that type packed densely.
        shape: of the values; default one axis.

    Raises:
        DataError: there is no such record or feature, or the values have not that shape.
        CorruptRecord: the file is damaged.
    """
    data = next((data for at, data in enumerate(read_records(file)) if at == record), None)
    if data is None or record < 0:
        raise DataError(f"there is no record {record}")
    found = parse_example(data)
    name = next(iter(found)) if feature is None and len(found) == 1 else feature
    if name not in found:
        raise DataError(f"no feature {feature!r}{nearest(feature or '', found)}; it has {', '.join(found)}")
    values = found[str(name)]
    if isinstance(values, list):
        raw = np.frombuffer(b"".join(values), np.uint8)
        if dtype is not None:
            kind = DType.of(dtype)
            return unpack(raw, kind, shape if shape is not None else raw.size * 8 // kind.bits)
        values = raw
    elif values is None:
        values = np.empty(0, np.float32)
    elif dtype is not None:
        values = values.astype(DType.of(dtype).container)
    try:
        return values if shape is None else values.reshape(shape)
    except ValueError:
        raise DataError(f"feature {name!r} has {values.size} values, not {shape}") from None
