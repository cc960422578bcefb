"""Values that cross stages: equal values have equal bytes, and come back as they were."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import ROOT

from patchbeam.assemble import AssembledShard
from patchbeam.draw import Drawn, Holding
from patchbeam.elements import BandPixels, Piece, PixelBlock, RecordRun
from patchbeam.shards import Shard, Span
from patchbeam.statistics import Moments
from patchbeam.summary import Summary
from transforms.coders import VALUES, ValueCoder, pack, unpack

CODER = ValueCoder()

whole = st.integers(-(2**70), 2**70)
small = st.integers(0, 2**40)
real = st.floats(allow_nan=False)
text = st.text(max_size=20)
types = st.sampled_from(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])


def table(columns: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.int64, st.tuples(st.integers(0, 4), st.just(columns)), elements=small)


def pixels() -> st.SearchStrategy[BandPixels]:
    shapes = hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=4)

    @st.composite
    def make(draw: st.DrawFn) -> BandPixels:
        values = draw(types.flatmap(lambda t: hnp.arrays(t, draw(shapes))))
        valid = draw(st.none() | hnp.arrays(np.bool_, values.shape))
        return BandPixels(values=values, valid=valid)

    return make()


def moments() -> st.SearchStrategy[Moments]:
    kinds = {"count": small, "classes": st.none() | text, "buckets": st.none() | text}
    fields = {f.name: kinds.get(f.name, real) for f in dataclasses.fields(Moments)}
    return st.builds(Moments, **fields)


def many(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=3).map(tuple)


numbers = hnp.arrays(np.int64, st.integers(0, 4), elements=small)
spans = st.builds(Span, text, small, small, small, st.integers(-1, 99), table(3), small)
STRATEGIES: dict[type[Any], st.SearchStrategy[Any]] = {
    BandPixels: pixels(),
    PixelBlock: st.builds(
        PixelBlock, block=small, bands=many(pixels()), valid=st.none() | hnp.arrays(np.bool_, (2, 3))
    ),
    Moments: moments(),
    RecordRun: st.builds(
        RecordRun,
        block=small,
        first_patch=small,
        patches=small,
        kept=table(2),
        data=hnp.arrays(np.uint8, st.integers(0, 40)),
        record_size=small,
        sizes=st.none() | hnp.arrays(np.int64, st.integers(0, 4), elements=small),
        moments=many(moments()),
        rounded=many(small),
    ),
    Piece: st.builds(
        Piece,
        path=text,
        order=st.tuples(small, small),
        patches=small,
        kept=table(2),
        record_size=small,
        members=table(3),
        sums=hnp.arrays(np.int64, st.integers(0, 4), elements=small),
        moments=many(moments()),
        rounded=many(small),
    ),
    Span: spans,
    Shard: st.builds(Shard, small, small, small, small, many(spans)),
    AssembledShard: st.builds(
        AssembledShard,
        number=small,
        path=text,
        first_record=small,
        records=small,
        size_bytes=small,
        stored_bytes=small,
        crc32c=text,
        members=table(2),
    ),
    Summary: st.builds(
        Summary,
        patches=small,
        records=small,
        size_bytes=small,
        shards=small,
        kept=table(2),
        moments=many(moments()),
        rounded=many(small),
        split_moments=many(many(moments())),
    ),
    Holding: st.builds(Holding, patches=numbers, classes=numbers),
    Drawn: st.builds(Drawn, patches=numbers),
}
anything = st.one_of(*STRATEGIES.values())


def same(first: Any, second: Any) -> bool:
    """Equal in type, shape and bits."""
    if isinstance(first, np.ndarray):
        return (
            isinstance(second, np.ndarray)
            and (first.dtype, first.shape) == (second.dtype, second.shape)
            and first.tobytes() == second.tobytes()
        )
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if dataclasses.is_dataclass(first):
        names = [f.name for f in dataclasses.fields(first)]
        return type(first) is type(second) and all(same(getattr(first, n), getattr(second, n)) for n in names)
    return bool(first == second) and type(first) is type(second)


def test_every_value_that_crosses_a_stage_is_tried() -> None:
    assert set(STRATEGIES) == set(VALUES)


@given(anything)
def test_values_come_back(value: Any) -> None:
    back = CODER.decode(CODER.encode(value))
    assert same(value, back)
    assert CODER.encode(back) == CODER.encode(value)


@given(st.tuples(anything, small, st.none(), text, st.booleans(), real, many(anything), whole))
def test_values_inside_tuples_come_back(value: Any) -> None:
    assert same(value, unpack(pack(value)))
    assert same(value, CODER.decode(CODER.encode(value)))


def test_arrays_that_are_views_are_coded_as_what_they_show() -> None:
    whole_array = np.arange(24, dtype=np.int16).reshape(4, 6)
    for view in (whole_array[::2, ::-1], whole_array.T, np.asfortranarray(whole_array), whole_array[1:1]):
        value = BandPixels(values=view)
        copy = BandPixels(values=view.copy(order="C"))
        assert CODER.encode(value) == CODER.encode(copy)
        assert same(CODER.decode(CODER.encode(value)), copy)


def test_equal_values_are_equal_bytes_however_they_were_made() -> None:
    """The same text twice or two equal ones, numbers of NumPy or of Python."""
    name = "".join(["pie", "ce"])
    first = Span("piece", 1, 2, 0, -1, np.zeros((0, 3), np.int64), 7, 4)
    second = Span(name, int(np.int64(1)), 2, 0, -1, np.zeros((0, 3), np.int64), 7, 4)
    third = Span(name, np.int64(1), 2, 0, -1, np.zeros((0, 3), np.int64), 7, 4)  # type: ignore[arg-type]
    assert CODER.encode((first, first)) == CODER.encode((first, second)) == CODER.encode((third, second))


@pytest.mark.parametrize("kind", VALUES)
def test_beam_uses_the_coder(kind: type[Any]) -> None:
    coder = beam.coders.registry.get_coder(kind)
    assert isinstance(coder, ValueCoder)
    assert coder.is_deterministic()


def test_bytes_do_not_depend_on_the_process() -> None:
    """Hashes of texts differ from process to process; bytes must not."""
    program = (
        "import numpy as np; from transforms.coders import ValueCoder;"
        "from patchbeam.shards import Shard, Span;"
        "s = Span('a', 1, 2, 3, 4, np.eye(3, dtype=np.int64), 5, 6);"
        "print(ValueCoder().encode(Shard(0, 1, 2, 3, (s, s))).hex())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[-1]
        for seed in ("1", "2")
    }
    span = Span("a", 1, 2, 3, 4, np.eye(3, dtype=np.int64), 5, 6)
    assert runs == {CODER.encode(Shard(0, 1, 2, 3, (span, span))).hex()}
