"""Each property type becomes the feature that the format contract says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_jobs import f32, plain

from patchbeam.errors import EncodeError, JobError
from patchbeam.records.parse import parse_example
from patchbeam.tables.columns import column_entries, column_of
from patchbeam.tables.framing import frame_rows
from tests.patchbeam.tables.test_entries import datas


def encoded(values: pa.Array) -> tuple[list[Any], int]:
    column = column_of(pa.field("p", values.type))
    assert column is not None
    entries, rounded = column_entries(column, values, "feature {}".format)
    buffer, sizes = frame_rows([entries], len(values))
    return [plain(parse_example(data)).get("p") for data in datas(buffer, sizes)], rounded


UTC = dt.UTC


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([True, False, None]), [[1.0], [0.0], None]),
        (pa.array([1, -2, None], pa.int16()), [[1.0], [-2.0], None]),
        (pa.array([0.5, None, float("inf")]), [[0.5], None, [float("inf")]]),
        (pa.array([Decimal("1.25"), None], pa.decimal128(8, 2)), [[1.25], None]),
        (pa.array(["é", "", None, "日本"]), [["é"], [""], None, ["日本"]]),
        (pa.array(["a", None, "a"]).dictionary_encode(), [["a"], None, ["a"]]),
        (pa.array([1, None, 1]).dictionary_encode(), [[1.0], None, [1.0]]),
        (pa.array([b"\x00x", None]), [["\x00x"], None]),
        (pa.array([dt.date(2020, 2, 29), None]), [["2020-02-29"], None]),
        (
            pa.array([dt.datetime(2020, 1, 2, 3, 4, 50), None], pa.timestamp("ms")),
            [["2020-01-02T03:04:50"], None],
        ),
        (
            pa.array([dt.datetime(2020, 1, 2, 3, 4, 5, 120000)], pa.timestamp("us")),
            [["2020-01-02T03:04:05.12"]],
        ),
        (pa.array([dt.datetime(2020, 1, 2, 3, 0, 0)], pa.timestamp("s")), [["2020-01-02T03:00:00"]]),
        (
            pa.array([dt.datetime(2020, 1, 2, 3, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
            [["2020-01-02T03:00:00Z"]],
        ),
        (pa.array([dt.time(7, 8, 9)], pa.time32("s")), [["07:08:09"]]),
        (pa.array([[1.5, 2], [], None, [3]]), [[1.5, 2.0], [], None, [3.0]]),
        (pa.array([[[1, 2], [3]], None, [[]]], pa.list_(pa.list_(pa.int32()))), [[1.0, 2.0, 3.0], None, []]),
        (pa.array([[True, False]], pa.list_(pa.bool_())), [[1.0, 0.0]]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), [[1.0, 2.0], None, [3.0, 4.0]]),
        (pa.array([["a", "é" * 200], [], None]), [["a", "é" * 200], [], None]),
        (pa.nulls(2), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_types(values: pa.Array, expected: list[Any]) -> None:
    assert encoded(values) == (expected, 0)
    # a slice's offsets count from elsewhere
    longer = pa.concat_arrays([values, values])
    assert encoded(longer[1 : len(values) + 1])[0] == expected[1:] + expected[:1]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30))
def test_integers_that_float32_rounds_are_counted(values: list[int | None]) -> None:
    found, rounded = encoded(pa.array(values, pa.int64()))
    there = [v for v in values if v is not None]
    assert [f[0] for f in found if f is not None] == f32(np.array(there, np.int64))
    assert rounded == sum(int(np.float32(v)) != v for v in there)


def test_a_number_beyond_float32_is_refused_with_its_place() -> None:
    with pytest.raises(EncodeError, match=r"property 'p' of feature 1: 1e\+39 is too large"):
        encoded(pa.array([1.0, 1e39]))


@pytest.mark.parametrize("values", [[[1.0], [2.0, None]], [None, [None]]])
def test_a_null_inside_an_array_is_refused(values: list[Any]) -> None:
    with pytest.raises(EncodeError, match="feature 1: a null inside an array"):
        encoded(pa.array(values, pa.list_(pa.float64())))


def nested(*texts: str | None) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


def test_nested_arrays_are_flattened_and_maps_stay_text() -> None:
    assert encoded(nested("[[1, 2], [3, 4]]", None, "[5]"))[0] == [[1.0, 2.0, 3.0, 4.0], None, [5.0]]
    assert encoded(nested('{"a": 1}', None))[0] == [['{"a": 1}'], None]


def test_mixed_values_are_refused() -> None:
    with pytest.raises(
        JobError, match="property 'p' holds values of several types: '1', and 'x' in feature 1"
    ):
        encoded(nested("1", "x"))


@pytest.mark.parametrize(
    "of", [pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.duration("s")]
)
def test_types_without_a_feature(of: pa.DataType) -> None:
    assert column_of(pa.field("p", of)) is None
