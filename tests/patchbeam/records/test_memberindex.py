"""The index of gzip members is read, or refused with its name."""

from __future__ import annotations

import io

import numpy as np
import pytest

from patchbeam.errors import CorruptRecord
from patchbeam.records.memberindex import read_member_index


def index_of(**arrays: list[int]) -> bytes:
    target = io.BytesIO()
    np.savez_compressed(target, **{name: np.array(values) for name, values in arrays.items()})
    return target.getvalue()


def test_columns() -> None:
    data = index_of(shardMembers=[2, 1], memberBytes=[50, 60, 70], memberRecords=[1, 2, 3])
    shards, sizes, records = read_member_index(data, "x-index.npz")
    assert (shards.tolist(), sizes.tolist(), records.tolist()) == ([2, 1], [50, 60, 70], [1, 2, 3])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 no archive", "cannot be read"),
        (index_of(shardMembers=[1]), "memberBytes"),
        (index_of(shardMembers=[2], memberBytes=[50, 60, 70], memberRecords=[1, 2, 3]), "tells of 2 members"),
        (index_of(shardMembers=[2], memberBytes=[50, 60], memberRecords=[1]), "the records of 1"),
    ],
)
def test_a_damaged_one_is_named(data: bytes, text: str) -> None:
    with pytest.raises(CorruptRecord, match=text) as caught:
        read_member_index(data, "x-index.npz")
    assert caught.value.file == "x-index.npz"
