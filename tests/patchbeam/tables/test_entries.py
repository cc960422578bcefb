"""Rows encoded all at once are what TensorFlow's own protobuf parses, CRC and all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.records.crc import masked_crc
from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import record_offsets
from patchbeam.tables import framing
from patchbeam.tables.entries import (
    BlockEntries,
    RaggedEntries,
    RawEntries,
    ScalarEntries,
)
from patchbeam.tables.framing import frame_rows, join_rows

texts = st.lists(st.one_of(st.none(), st.text(max_size=300)), min_size=1, max_size=12)


def ragged(name: str, values: list[bytes | None]) -> RaggedEntries:
    sizes = np.array([len(v or b"") for v in values], np.int64)
    rows = np.flatnonzero([v is not None for v in values]).astype(np.int64)
    data = np.frombuffer(b"".join(v or b"" for v in values), np.uint8)
    return RaggedEntries(
        name, "bytes", data, np.cumsum(sizes) - sizes, sizes, None if len(rows) == len(values) else rows
    )


def datas(buffer: np.ndarray, sizes: np.ndarray) -> list[bytes]:
    """The data of each record, its framing checked."""
    offsets = record_offsets(buffer.tobytes())
    assert np.array_equal(np.diff(offsets), sizes)
    found = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        data = buffer[start + 12 : end - 4].tobytes()
        assert int.from_bytes(buffer[end - 4 : end].tobytes(), "little") == masked_crc(data)
        found.append(data)
    return found


@given(texts, st.data())
def test_rows_are_examples(values: list[str | None], data: st.DataObject) -> None:
    from tensorflow.core.example.example_pb2 import Example

    count = len(values)
    numbers = np.array(data.draw(st.lists(st.floats(width=32), min_size=count, max_size=count)), np.float32)
    present = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    rows = np.flatnonzero(present).astype(np.int64)
    block = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    columns = [
        ragged("ünï", [None if v is None else v.encode() for v in values]),
        ScalarEntries("number", numbers, rows),
        BlockEntries("block", block),
    ]
    buffer, sizes = frame_rows(columns, count)
    for i, record in enumerate(datas(buffer, sizes)):
        example = Example.FromString(record)
        keys = [*(["ünï"] if values[i] is not None else []), *(["number"] if present[i] else []), "block"]
        assert list(parse_example(record)) == keys
        if values[i] is not None:
            assert example.features.feature["ünï"].bytes_list.value[0].decode() == values[i]
        if present[i]:
            assert np.array_equal(
                example.features.feature["number"].float_list.value, numbers[[i]], equal_nan=True
            )
        assert list(example.features.feature["block"].float_list.value) == block[i].tolist()


@given(st.integers(1, 6), st.integers(1, 60), st.data())
def test_every_way_of_encoding_numbers_gives_the_same_bytes(
    width: int, count: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    share = data.draw(st.sampled_from([0.0, 0.2, 1.0]))
    columns = []
    for i in range(width):
        rows = np.flatnonzero(random.random(count) >= share).astype(np.int64) if i % 2 else None
        columns.append(ScalarEntries(f"p{i}", random.random(count).astype(np.float32), rows))
    alike = frame_rows(columns, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_PATTERNS", 0)
        apart = frame_rows(columns, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_TABLE_ROWS", 0)
        by_table = frame_rows(columns, count)
    for other in (apart, by_table):
        assert np.array_equal(alike[0], other[0]) and np.array_equal(alike[1], other[1])
    datas(*alike)


def test_tables_of_crcs_agree_with_the_crc_of_each_record() -> None:
    random = np.random.default_rng(5)
    count = 5000
    bits = random.integers(0, 2**32, (3, count), np.uint32)
    columns = [ScalarEntries(f"p{i}", bits[i].view(np.float32)) for i in range(3)]
    buffer, sizes = frame_rows(columns, count)
    assert count >= framing._TABLE_ROWS
    datas(buffer, sizes)


def test_entries_encoded_before_are_framed_later() -> None:
    values = [b"a", None, b"", b"ccc"]
    number = ScalarEntries("n", np.arange(4, dtype=np.float32))
    encoded, sizes = join_rows([ragged("t", values), number], 4)
    raw = RawEntries(encoded, np.cumsum(sizes) - sizes, sizes)
    more = ScalarEntries("m", np.arange(4, dtype=np.float32) * 2)
    apart = frame_rows([raw, more], 4)
    together = frame_rows([ragged("t", values), number, more], 4)
    assert apart[0].tobytes() == together[0].tobytes()


def test_a_row_of_nulls_is_an_empty_example() -> None:
    nothing = np.empty(0, np.int64)
    buffer, sizes = frame_rows([ScalarEntries("n", np.zeros(2, np.float32), nothing)], 2)
    assert [parse_example(data) for data in datas(buffer, sizes)] == [{}, {}]


def test_long_texts_are_copied_whole() -> None:
    values = [bytes([i]) * (5000 + i) for i in range(5)]
    buffer, sizes = frame_rows([ragged("t", list(values))], 5)
    assert [parse_example(data)["t"] for data in datas(buffer, sizes)] == [[v] for v in values]
