"""``PREFIX-index.npz``: the gzip members of every shard of an export, so that none has to be walked."""

from __future__ import annotations

import io
import zipfile
import zlib

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord

Ints = NDArray[np.int64]


def read_member_index(data: bytes, name: str) -> tuple[Ints, Ints, Ints]:
    """Returns how many members each shard has, and of every member the stored bytes and the records.

    Args:
        data: the file's content.
        name: of the file, for errors.

    Raises:
        CorruptRecord: it cannot be read, or its parts do not agree.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as table:
            shards, sizes, records = (
                table[key].astype(np.int64) for key in ("shardMembers", "memberBytes", "memberRecords")
            )
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptRecord(f"this index cannot be read: {error}", file=name) from None
    if not int(shards.sum()) == len(sizes) == len(records):
        raise CorruptRecord(
            f"this index tells of {int(shards.sum())} members, and of the bytes of {len(sizes)} and "
            f"the records of {len(records)}",
            file=name,
        )
    return shards, sizes, records
