"""All 25 types: ranges, casts in three modes, golden bytes, round trips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.data import DTYPES, DType, Tensor, cast, pack, unpack
from patchbeam.data.errors import DataError
from patchbeam.data.packing import packed_nbytes
from patchbeam.errors import JobError

WHOLE = [dtype for dtype in DTYPES.values() if dtype.kind != "float"]
FLOATS = [dtype for dtype in DTYPES.values() if dtype.kind == "float"]
SLOTTED = [dtype for dtype in WHOLE if dtype.bits <= 4]
names = pytest.mark.parametrize("dtype", WHOLE, ids=str)


def test_there_are_25_types_with_ranges_and_containers() -> None:
    assert len(DTYPES) == 25
    assert (DTYPES["int1"].low, DTYPES["int1"].high) == (-1, 0)
    assert (DTYPES["uint1"].low, DTYPES["uint1"].high) == (0, 1)
    assert DTYPES["uint5"].container == np.uint8 and DTYPES["int7"].container == np.int8
    for dtype in WHOLE:
        limits = np.iinfo(dtype.container)
        assert limits.min <= dtype.low <= dtype.high <= limits.max
        assert dtype.high - dtype.low == 2**dtype.bits - 1
        assert dtype.packed_nbytes(13) == -(-13 * dtype.bits // 8)
    assert DType.of(np.float32) is DTYPES["float32"] and DType.of("bool") is DTYPES["uint1"]
    with pytest.raises(JobError, match="did you mean 'uint5'"):
        DType.of("unit5")


@names
def test_whole_numbers_at_the_ends_of_the_range(dtype: DType) -> None:
    low, high = int(dtype.low), int(dtype.high)
    for value in (low, high, 0):
        for mode in ("strict", "saturate", "wrap"):
            made = cast(np.array([value], object), dtype, mode) if abs(value) < 2**53 else None
            assert made is None or (made.tolist() == [value] and made.dtype == dtype.container)
    for value, nearest, wrapped in ((low - 1, low, high), (high + 1, high, low)):
        if -(2**63) <= value < 2**63:
            given = np.array([0, value], np.int64)
        elif 0 <= value < 2**64:
            given = np.array([0, value], np.uint64)
        else:
            given = np.array([0.0, float(value)])
            if float(value) == low:
                continue  # -2**63 - 1 is no float64
        with pytest.raises(DataError, match=rf"{value if given.dtype.kind != 'f' else ''}.*index 1"):
            cast(given, dtype)
        assert cast(given, dtype, "saturate").tolist() == [0, nearest]
        assert cast(given, dtype, "wrap").tolist() == [0, wrapped]


@names
def test_infinities_and_nan(dtype: DType) -> None:
    for value, saturated in ((np.inf, dtype.high), (-np.inf, dtype.low), (np.nan, 0)):
        with pytest.raises(DataError, match=f"{value!r} at index \\(1, 0\\)"):
            cast(np.array([[0.0], [value]]), dtype)
        assert cast(np.array([value]), dtype, "saturate").tolist() == [saturated]
        assert cast(np.array([value]), dtype, "wrap").tolist() == [0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype: DType) -> None:
    for value in (np.inf, np.nan):
        with pytest.raises(DataError, match="index 1"):
            cast(np.array([0.0, value]), dtype)
    if dtype.bits < 64:
        beyond = np.array([float(dtype.high) * 2])
        with pytest.raises(DataError, match="saturate"):
            cast(beyond, dtype)
        assert cast(beyond, dtype, "saturate").tolist() == [dtype.high]
        assert cast(beyond, dtype, "wrap").tolist() == [np.inf]
    assert cast([dtype.low, dtype.high], dtype).tolist() == [dtype.low, dtype.high]


@given(st.data())
def test_wrapping_is_arithmetic_modulo_two_to_the_bits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(WHOLE))
    given = np.array(data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)), np.int64)
    span = 2**dtype.bits
    expected = [(int(v) - int(dtype.low)) % span + int(dtype.low) for v in given]
    assert cast(given, dtype, "wrap").tolist() == expected
    floats = given.astype(np.float64) * 4  # beyond 64 bits too
    expected = [(int(v) - int(dtype.low)) % span + int(dtype.low) for v in floats]
    assert cast(floats, dtype, "wrap").tolist() == expected


def test_halves_go_to_even_and_fractions_are_rounded_before_the_range_is_looked_at() -> None:
    assert cast([0.5, 1.5, 2.5, -0.5], "int8").tolist() == [0, 2, 2, 0]
    assert cast([7.4], "uint3").tolist() == [7]
    with pytest.raises(DataError):
        cast([7.5], "uint3")


def test_golden_bytes() -> None:
    assert pack([1, 2, 31], "uint5").tobytes().hex(" ") == "41 7c"
    assert pack([1, 2, -3, 7, 5], "int4", "slots").tobytes().hex(" ") == "12 d7 50"
    assert pack([1, 2, -3, 3, 1], "int3", "slots").tobytes().hex(" ") == "12 53 10"
    assert pack([1, 0, 1, 1, 0, 0, 0, 0, 1], "uint1").tobytes().hex(" ") == "0d 01"
    assert pack([1, 0, 1, 1, 0, 0, 0, 0, 1], "uint1", "slots").tobytes().hex(" ") == "b0 80"
    assert pack([1, -1], "int16").tobytes().hex(" ") == "01 00 ff ff"


def plain_dense(values: list[int], bits: int) -> bytes:
    stream = sum((value & ((1 << bits) - 1)) << (at * bits) for at, value in enumerate(values))
    return stream.to_bytes(-(-len(values) * bits // 8), "little")


def plain_slots(values: list[int], bits: int) -> bytes:
    width = 8 // (8 // bits)
    each = 8 // width
    out = bytearray(-(-len(values) // each))
    for at, value in enumerate(values):
        out[at // each] |= (value & ((1 << bits) - 1)) << (8 - width * (at % each + 1))
    return bytes(out)


@given(st.data())
def test_packing_equals_a_plain_loop_and_comes_back(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(WHOLE))
    values = data.draw(st.lists(st.integers(int(dtype.low), int(dtype.high)), max_size=150))
    array = np.array(values, dtype.container)
    packed = pack(array, dtype)
    assert packed.tobytes() == plain_dense(values, dtype.bits)
    assert unpack(packed, dtype, len(values)).tolist() == values
    if dtype in SLOTTED:
        packed = pack(array, dtype, "slots")
        assert packed.tobytes() == plain_slots(values, dtype.bits)
        assert unpack(packed.tobytes(), dtype, len(values), "slots").tolist() == values


@pytest.mark.parametrize("dtype", [d for d in WHOLE if d.bits < 8], ids=str)
def test_values_cross_the_borders_of_bytes_and_of_chunks(dtype: DType) -> None:
    rng = np.random.default_rng(dtype.bits)
    for count in (7, 8, 9, 63, 65, 65535, 65536, 65537, 131073 + dtype.bits):
        values = rng.integers(int(dtype.low), int(dtype.high) + 1, count).astype(dtype.container)
        packed = pack(values, dtype)
        assert packed.size == dtype.packed_nbytes(count)
        np.testing.assert_array_equal(unpack(packed, dtype, count), values)
        if count < 100:
            assert packed.tobytes() == plain_dense(values.tolist(), dtype.bits)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_packed_little_endian(dtype: DType) -> None:
    values = np.array([[1.5, -np.inf, np.nan]], dtype.container)
    packed = pack(values, dtype)
    assert packed.tobytes() == values.astype(dtype.container.newbyteorder("<")).tobytes()
    np.testing.assert_array_equal(unpack(packed, dtype, (1, 3)), values)


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(DataError, match="32 at index 1 is not a uint5"):
        pack([0, 32], "uint5")
    with pytest.raises(JobError, match="1 to 4 bits, not uint5"):
        pack([0], "uint5", "slots")
    with pytest.raises(DataError, match="2 bytes for 4 values of uint5"):
        unpack(b"ab", "uint5", 4)
    with pytest.raises(DataError, match="bits after the last"):
        unpack(b"\xff", "uint5", 1)
    with pytest.raises(DataError, match="bits after the last"):
        unpack(b"\x1f", "uint4", 1, "slots")
    assert packed_nbytes(5, "int3", "slots") == 3 and pack([], "uint3").size == 0


def test_a_mask_of_one_bit_takes_a_thirty_second_of_its_size_as_float() -> None:
    mask = np.random.default_rng(0).random((64, 64)) > 0.5
    assert pack(mask, "uint1").nbytes * 32 == mask.astype(np.float32).nbytes


def test_tensor() -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    tensor = Tensor(values, "uint5", layout="CHW")
    assert (tensor.dims, tensor.data_type, tensor.precision, len(tensor)) == ((2, 3, 4), "uint", 5, 2)
    moved = tensor.to_layout("HWC")
    np.testing.assert_array_equal(moved.numpy(), values.transpose(1, 2, 0))
    assert Tensor.from_packed(tensor.packed(), "uint5", (2, 3, 4), layout="CHW") == tensor
    assert tensor.astype("float16").numpy().dtype == np.float16
    with pytest.raises(DataError, match="16 at index"):
        tensor.astype("uint4")
    np.testing.assert_array_equal(np.asarray(tensor), values)
    np.testing.assert_array_equal(np.from_dlpack(tensor), values)
    with pytest.raises(JobError, match="the axes are CHW"):
        tensor.to_layout("NHW")
    batch = Tensor.collate([tensor, tensor])
    assert (batch.layout, batch.dims) == ("NCHW", (2, 2, 3, 4))
