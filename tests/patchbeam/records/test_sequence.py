"""SequenceExamples of many pixels at once, as protobuf and TensorFlow read them."""

from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import EncodeError
from patchbeam.records import sequence
from patchbeam.records.layout import Feature
from patchbeam.records.sequence import SequenceLayout, Steps, parse_sequence_example
from patchbeam.records.tfrecord import frame, record_offsets

KINDS = st.sampled_from(["float", "int64", "bytes"])


def numbers(random, kind, shape, bits):
    if kind == "float":
        return random.random(shape, np.float32)
    if kind == "bytes":
        return random.integers(0, 256, shape, np.uint8)
    return random.integers(-1, 2 ** random.integers(0, bits + 1, shape), shape)


@st.composite
def batches(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    pixels = draw(st.integers(1, 12))
    names = draw(st.lists(st.text("aé_", min_size=0, max_size=140), min_size=1, max_size=5, unique=True))
    split = draw(st.integers(0, len(names)))
    bits = draw(st.sampled_from([0, 6, 7, 14, 62]))
    context, scalars, lists, steps = [], [], [], []
    for number, name in enumerate(names):
        kind = draw(KINDS)
        if number < split:
            context.append(Feature(name, kind, 1))
            scalars.append(numbers(random, kind, pixels, bits))
            continue
        k = draw(st.sampled_from([1, 1, 2, 40]))
        depth = draw(st.integers(0, 6))
        lists.append(Feature(name, kind, k))
        values = numbers(random, kind, (depth, pixels, k), bits)
        lengths = draw(st.sampled_from([None, random.integers(0, depth + 1, pixels)]))
        steps.append(Steps(values[..., 0] if k == 1 else values, lengths))
    return context, scalars, lists, steps


def written(feature, values):
    values = np.atleast_1d(values)
    return [values.tobytes()] if feature.kind == "bytes" else values.tolist()


def by_protobuf(feature):
    return list(getattr(feature, feature.WhichOneof("kind")).value)


def plain(values):
    return values if isinstance(values, list) else values.tolist()


@given(batches(), st.sampled_from([5, 1 << 14]))
def test_protobuf_and_we_read_what_was_written(batch, chunk):
    context, scalars, lists, steps = batch
    layout = SequenceLayout(context, lists)
    usual, sequence._CHUNK = sequence._CHUNK, chunk
    try:
        records = layout.encode(scalars, steps)
    finally:
        sequence._CHUNK = usual
    offsets = record_offsets(records.data)
    assert np.diff(offsets).tolist() == records.sizes.tolist()
    lowest, highest = layout.size_bounds([(0, len(s.values)) for s in steps])
    for pixel, (start, end) in enumerate(pairwise(offsets.tolist())):
        record = records.data[start:end].tobytes()
        assert lowest <= len(record) <= highest
        data = record[12:-4]
        assert record == frame(data)
        message = tf.train.SequenceExample.FromString(data)
        # Nothing padded, nothing unknown: protobuf writes as many bytes for it.
        assert message.ByteSize() == len(data)
        ours, our_lists = parse_sequence_example(data)
        assert list(ours) == [f.name for f in context]
        assert list(our_lists) == [f.name for f in lists]
        for feature, values in zip(context, scalars, strict=True):
            expected = written(feature, values[pixel])
            assert by_protobuf(message.context.feature[feature.name]) == expected
            assert plain(ours[feature.name]) == expected
        for feature, series in zip(lists, steps, strict=True):
            length = len(series.values) if series.lengths is None else series.lengths[pixel]
            expected = [written(feature, series.values[step, pixel]) for step in range(length)]
            found = message.feature_lists.feature_list[feature.name].feature
            assert [by_protobuf(f) for f in found] == expected
            assert [plain(v) for v in our_lists[feature.name]] == expected


def test_golden_bytes():
    layout = SequenceLayout([Feature("b", "float", 1)], [Feature("c", "int64", 1)])
    records = layout.encode([np.array([1.0])], [Steps(np.array([[5], [300]]))])
    # Checked by hand: context, then the list with a Feature a step.
    expected = (
        "0a 0f"
        "0a 0d"
        "0a 01 62"
        "12 08"
        "12 06"
        "0a 04"
        "00 00 80 3f"
        "12 16"
        "0a 14"
        "0a 01 63"
        "12 0f"
        "0a 05"
        "1a 03"
        "0a 01"
        "05"
        "0a 06"
        "1a 04"
        "0a 02"
        "ac 02"
    )
    assert records.data[12:-4].tobytes().hex() == expected.replace(" ", "")


def test_tf_io_reads_them():
    random = np.random.default_rng(0)
    pixels, depth = 50, 8
    layout = SequenceLayout(
        [Feature("a", "float", 1), Feature("n", "int64", 1)],
        [Feature("t", "float", 1), Feature("k", "float", 3)],
    )
    a, n = random.random(pixels, np.float32), random.integers(-5, 100_000, pixels)
    t, k = random.random((depth, pixels), np.float32), random.random((depth, pixels, 3), np.float32)
    lengths = random.integers(0, depth + 1, pixels)
    records = layout.encode([a, n], [Steps(t, lengths), Steps(k)])
    offsets = record_offsets(records.data)
    for pixel in range(pixels):
        data = records.data[offsets[pixel] + 12 : offsets[pixel + 1] - 4].tobytes()
        context, lists = tf.io.parse_single_sequence_example(
            data,
            {"a": tf.io.FixedLenFeature([], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64)},
            {
                "t": tf.io.FixedLenSequenceFeature([], tf.float32),
                "k": tf.io.FixedLenSequenceFeature([3], tf.float32),
            },
        )
        assert context["a"].numpy() == a[pixel]
        assert context["n"].numpy() == n[pixel]
        np.testing.assert_array_equal(lists["t"].numpy(), t[: lengths[pixel], pixel])
        np.testing.assert_array_equal(lists["k"].numpy(), k[:, pixel])


def test_pixels_of_a_patch_are_independent():
    layout = SequenceLayout([Feature("n", "int64", 1)], [Feature("t", "int64", 2)])
    random = np.random.default_rng(3)
    n = random.integers(-300, 300, 40_000)
    t = random.integers(0, 20_000, (3, 40_000, 2))
    lengths = random.integers(0, 4, 40_000)
    together = layout.encode([n], [Steps(t, lengths)]).data.tobytes()
    parts = [slice(0, 1), slice(1, 20_000), slice(20_000, 40_000)]
    apart = [layout.encode([n[p]], [Steps(t[:, p], lengths[p])]).data.tobytes() for p in parts]
    assert b"".join(apart) == together


def test_no_pixels():
    records = SequenceLayout([Feature("n", "int64", 1)], []).encode([np.empty(0)], [])
    assert records.data.size == records.sizes.size == 0


def test_wrong_arrays_and_layouts_are_refused():
    one = Feature("a", "float", 1)
    with pytest.raises(EncodeError, match="share the name 'a'"):
        SequenceLayout([one], [one])
    with pytest.raises(EncodeError, match="at least one"):
        SequenceLayout([], [])
    with pytest.raises(EncodeError, match="without numbers: 'z'"):
        SequenceLayout([Feature("z", "float", 0)], [])
    layout = SequenceLayout([one], [Feature("t", "float", 1)])
    with pytest.raises(EncodeError, match=r"different numbers of pixels: \[3, 4\]"):
        layout.encode([np.zeros(3)], [Steps(np.zeros((2, 4)))])
    with pytest.raises(EncodeError, match="'t': an array of shape"):
        layout.encode([np.zeros(3)], [Steps(np.zeros((2, 3, 2)))])
    with pytest.raises(EncodeError, match="'t': lengths from 0 to 3 for 2 steps"):
        layout.encode([np.zeros(2)], [Steps(np.zeros((2, 2)), np.array([0, 3]))])
    with pytest.raises(EncodeError, match="'t': lengths of shape"):
        layout.encode([np.zeros(2)], [Steps(np.zeros((2, 2)), np.array([1]))])
