"""Records that are not made alike are found, also where only the numbers tell."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.tfrecord import frame
from patchbeam.verify.layout import LayoutCheck, Shape
from patchbeam.verify.shard import check_records


def record(numbers: list[int], name: str = "n") -> bytes:
    layout = ExampleLayout([Feature(name, "int64", len(numbers))])
    return bytes(layout.encode([np.array(numbers, np.int64)]))


@given(st.lists(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=4), min_size=1, max_size=30))
def test_the_number_of_numbers(lists: list[list[int]]) -> None:
    expected = (Shape(name="n", kind="int64", length=2),)
    data = memoryview(b"".join(record(numbers) for numbers in lists))
    count, size, wrong = check_records(data, LayoutCheck(expected, sequence=False))
    assert (count, size) == (len(lists), len(data))
    assert [w.record for w in wrong] == [i for i, numbers in enumerate(lists) if len(numbers) != 2]
    starts = np.cumsum([0, *(len(record(numbers)) for numbers in lists)])
    assert [w.byte for w in wrong] == [int(starts[w.record or 0]) for w in wrong]


def test_as_many_bytes_and_other_numbers() -> None:
    data = memoryview(b"".join(map(record, ([300, 1], [1, 300], [1, 1, 1], [70_000]))))
    _, _, wrong = check_records(data, LayoutCheck(None, sequence=False))
    assert [w.record for w in wrong] == [2, 3]
    assert wrong[0].text == "holds n: 3 of int64; due is n: 2 of int64"


def test_very_many_are_counted() -> None:
    data = memoryview(record([1, 2]) + b"".join(record([1, 2], "m") for _ in range(80)))
    _, _, wrong = check_records(data, LayoutCheck(None, sequence=False))
    assert len(wrong) == 51
    assert wrong[-1].text == "30 more records are wrong from here on" and wrong[-1].record == 51


def test_a_record_that_is_cut() -> None:
    data = memoryview(frame(b"") * 3)[:-2]
    count, size, wrong = check_records(data, LayoutCheck(None, sequence=False))
    assert (count, size) == (2, 32)
    assert [(w.record, w.byte) for w in wrong] == [(2, 32)]
