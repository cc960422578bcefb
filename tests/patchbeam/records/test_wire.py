"""Varints: minimal, equal to protobuf's, and read back whatever their length."""

import numpy as np
import pytest
from google.protobuf.internal import encoder
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from patchbeam.errors import CorruptRecord
from patchbeam.records.wire import (
    decode_varints,
    encode_varints,
    read_varint,
    varint,
    varint_lengths,
    varint_size,
    varint_sizes,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
# Every byte length is as likely as another.
BY_LENGTH = st.integers(0, 63).flatmap(lambda bits: st.integers(-1, 2**bits - 1))


def reference(values):
    out = []
    for value in values:
        encoder._VarintEncoder()(out.append, int(value) & (2**64 - 1))
    return b"".join(out)


@given(st.integers(0, 2**64 - 1))
def test_one_varint_is_protobufs(value):
    data = varint(value)
    assert data == reference([value])
    assert len(data) == varint_size(value)
    assert read_varint(b"\xff" + data, 1) == (value, 1 + len(data))


@given(hnp.arrays(np.int64, st.integers(0, 40), elements=st.one_of(INT64, BY_LENGTH)))
def test_arrays_are_protobufs(values):
    data = encode_varints(values)
    assert data.tobytes() == reference(values)
    assert varint_sizes(values) == data.size
    assert varint_lengths(values).tolist() == [len(reference([v])) for v in values]
    np.testing.assert_array_equal(decode_varints(data), values)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 128), (128, 16384), (0, 300), (0, 65536), (-5, 200), (-(2**63), 2**63 - 1), (-9, 0), (2**55, 2**57)],
)
def test_many_values(low, high):
    values = np.random.default_rng(1).integers(low, high, 70_001)
    data = encode_varints(values)
    assert data.tobytes() == reference(values)
    np.testing.assert_array_equal(decode_varints(data), values)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8", ">i4", "?"])
def test_every_integer_type(dtype):
    values = np.array([0, 1, 100, 127], "i8").astype(dtype)
    if np.dtype(dtype).itemsize > 1:
        values = np.concatenate((values, np.array([128, 300, 16383, 16384, 32767], dtype)))
    assert encode_varints(values).tobytes() == reference(values.astype("i8"))
    pairs = values[(values >= 128)]
    assert encode_varints(pairs).tobytes() == reference(pairs.astype("i8"))


def test_two_dimensions_go_row_by_row():
    values = np.arange(300, dtype="u2").reshape(10, 30).T
    assert encode_varints(values).tobytes() == reference(values.ravel())


@given(st.lists(INT64, min_size=1, max_size=8), st.data())
def test_padded_varints_are_read(values, data):
    out = bytearray()
    for value in values:
        minimal = bytearray(reference([value]))
        length = data.draw(st.integers(len(minimal), 10))
        while len(minimal) < length:
            minimal[-1] |= 0x80
            minimal.append(0)
        out += minimal
    np.testing.assert_array_equal(decode_varints(np.frombuffer(bytes(out), "u1")), values)


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x01\xff", b"\xff" * 10 + b"\x01", b"\x01" + b"\x80" * 10 + b"\x00"]
)
def test_damaged_varints_are_refused(data):
    with pytest.raises(CorruptRecord):
        decode_varints(np.frombuffer(data, "u1"))
    with pytest.raises(CorruptRecord):
        position = 0
        while position < len(data):
            _, position = read_varint(data, position)
