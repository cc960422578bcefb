"""``PREFIX-index.npz``: the gzip members of every shard of an export, so that none has to be walked."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.npy import read_npz

Ints = NDArray[np.int64]

_MOST = 1 << 62


def read_member_index(data: bytes, name: str) -> tuple[Ints, Ints, Ints]:
    """Returns how many members each shard has, and of every member the stored bytes and the records.

    Args:
        data: the file's content.
        name: of the file, for errors.

    Raises:
        CorruptRecord: it cannot be read, or its parts do not agree.
    """
    try:
        shards, sizes, records = (
            _column(data, key) for key in ("shardMembers", "memberBytes", "memberRecords")
        )
    except (ValueError, KeyError) as error:
        raise CorruptRecord(f"this index cannot be read: {error}", file=name) from None
    if not int(shards.sum()) == len(sizes) == len(records):
        raise CorruptRecord(
            f"this index tells of {int(shards.sum())} members, and of the bytes of {len(sizes)} and "
            f"the records of {len(records)}",
            file=name,
        )
    return shards, sizes, records


def _column(data: bytes, key: str) -> Ints:
    values = read_npz(io.BytesIO(data), key)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(
            f"{key} is {values.ndim}-dimensional {values.dtype}, and is no list of whole numbers"
        )
    # added up as Python's integers would be: a sum that overflowed could look right
    if values.size and (int(values.min()) < 0 or int(values.max()) > _MOST // values.size):
        raise ValueError(f"{key} holds {int(values.min())} to {int(values.max())}")
    return values.astype(np.int64)
