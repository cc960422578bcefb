"""Examples: golden bytes, protobuf's view of them, and round trips."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbeam.errors import CorruptRecord, EncodeError
from patchbeam.records.example import ExampleDecoder, ExampleLayout, Feature, feature_kinds, parse_example
from patchbeam.records.layout import field
from patchbeam.records.tfrecord import frame
from patchbeam.records.wire import varint

KEY = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DTYPE = {"float": np.float32, "int64": np.int64, "bytes": np.uint8}


@st.composite
def examples(draw):
    names = draw(st.lists(KEY, max_size=5, unique=True))
    features, values = [], []
    for name in names:
        kind = draw(st.sampled_from(["float", "int64", "bytes"]))
        length = draw(st.sampled_from([0, 1, 2, 31, 32, 33, 127, 128, 5000]))
        seed = draw(st.integers(0, 2**32))
        random = np.random.default_rng(seed)
        bits = draw(st.integers(1, 62))
        features.append(Feature(name, kind, length))
        numbers = random.integers(0 if kind == "bytes" else -1, 256 if kind == "bytes" else 2**bits, length)
        values.append(numbers.astype(DTYPE[kind]))
    return features, values


def protobuf_values(feature):
    kind = feature.WhichOneof("kind")
    return None if kind is None else list(getattr(feature, kind).value)


def plain(values):
    return values if values is None or isinstance(values, list) else values.tolist()


@settings(deadline=None)
@given(examples())
def test_protobuf_and_we_read_what_was_written(example):
    features, values = example
    layout = ExampleLayout(features)
    record = layout.encode(values)
    data = record[12:-4]
    assert record == frame(data)
    assert layout.min_size <= len(record) <= layout.max_size
    message = tf.train.Example.FromString(data)
    parsed = parse_example(data)
    assert list(parsed) == [f.name for f in features]
    for feature, written in zip(features, values, strict=True):
        expected = [written.tobytes()] if feature.kind == "bytes" else written.tolist()
        assert protobuf_values(message.features.feature[feature.name]) == expected
        assert plain(parsed[feature.name]) == expected
    assert feature_kinds(data) == tuple(features)


@settings(deadline=None)
@given(examples(), st.integers(1, 3))
def test_slots_filled_in_place_give_the_same_bytes(example, count):
    features, values = example
    layout = ExampleLayout(features)
    if not layout.fixed:
        with pytest.raises(EncodeError, match="int64"):
            _ = layout.record_size
        return
    buffer = np.full(count * layout.record_size, 0xA5, "u1")
    layout.prepare(buffer)
    for record in range(count):
        for slot, value in zip(layout.slot_views(buffer, record), values, strict=True):
            slot[...] = value
        layout.seal(buffer, record)
    assert buffer.tobytes() == layout.encode(values) * count
    assert layout.min_size == layout.max_size == layout.record_size


# Checked by hand against the wire format: tag, length, ... from the outside in.
GOLDEN = {
    "float": (
        Feature("b", "float", 2),
        [1.0, -2.0],
        "0a 130a 110a 01 6212 0c12 0a0a 0800 00 80 3f 00 00 00 c0",
    ),
    "int64": (
        Feature("b", "int64", 4),
        [1, 300, 16384, -1],
        "0a 1b0a 190a 01 6212 141a 120a 1001ac 0280 80 01ff ff ff ff ff ff ff ff ff 01",
    ),
    "bytes": (Feature("b", "bytes", 3), [0, 127, 255], "0a 0e0a 0c0a 01 6212 070a 050a 0300 7f ff"),
    "no floats": (Feature("b", "float", 0), [], "0a 090a 070a 01 6212 0212 00"),
    "no bytes": (Feature("b", "bytes", 0), [], "0a 0b0a 090a 01 6212 040a 020a 00"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name):
    feature, values, expected = GOLDEN[name]
    record = ExampleLayout([feature]).encode([np.array(values, DTYPE[feature.kind])])
    assert record[12:-4].hex() == expected.replace(" ", "")


def test_golden_frame():
    # The length and both CRCs of a record that TensorFlow's own writer makes of b"abc".
    assert frame(b"abc").hex() == "0300000000000000" + "b099490e" + "616263" + "6e57f121"


def test_band_order_is_the_order_on_the_wire():
    names = ["B10", "B1", "B2", "B11"]
    layout = ExampleLayout([Feature(n, "float", 1) for n in names])
    data = layout.encode([np.ones(1)] * 4)[12:-4]
    at = [data.index(b"\x0a" + bytes([len(n)]) + n.encode()) for n in names]
    assert at == sorted(at)


def test_wrong_arrays_and_layouts_are_refused():
    layout = ExampleLayout([Feature("a", "float", 4), Feature("b", "int64", 1)])
    with pytest.raises(EncodeError, match="1 arrays for 2"):
        layout.encode([np.zeros(4)])
    with pytest.raises(EncodeError, match="'a': 3 values where 4"):
        layout.encode([np.zeros(3), np.zeros(1, int)])
    with pytest.raises(EncodeError, match="'a'"):
        ExampleLayout([Feature("a", "float", 1), Feature("a", "bytes", 1)])
    with pytest.raises(EncodeError, match="double"):
        Feature("a", "double", 1)
    with pytest.raises(EncodeError, match="smaller patches"):
        ExampleLayout([Feature("a", "float", 2**29)])
    fixed = ExampleLayout([Feature("a", "float", 4)])
    with pytest.raises(EncodeError, match="whole number of records"):
        fixed.prepare(np.zeros(fixed.record_size + 1, "u1"))


def unpacked():
    """Wire forms that our writer never makes and protobuf accepts, with what they mean."""
    entry = lambda value: b"\x0a" + bytes([5 + len(value)]) + b"\x0a\x01k\x12" + bytes([len(value)]) + value  # noqa: E731
    example = lambda *entries: b"\x0a" + bytes([sum(map(len, entries))]) + b"".join(entries)  # noqa: E731
    one = b"\x00\x00\x80\x3f"
    two = b"\x00\x00\x00\x40"
    yield "unpacked floats", example(entry(b"\x12\x0a\x0d" + one + b"\x0d" + two))
    yield "mixed floats", example(entry(b"\x12\x0b\x0a\x04" + one + b"\x0d" + two))
    yield "two chunks", example(entry(b"\x12\x0c\x0a\x04" + one + b"\x0a\x04" + two))
    yield (
        "two float lists in a feature",
        example(entry(b"\x12\x06\x0a\x04" + one + b"\x12\x06\x0a\x04" + two)),
    )
    yield "another kind later", example(entry(b"\x12\x06\x0a\x04" + one + b"\x1a\x03\x0a\x01\x07"))
    yield "unpacked ints", example(entry(b"\x1a\x05\x08\x07\x08\xac\x02"))
    yield "split ints", example(entry(b"\x1a\x07\x0a\x01\x07\x0a\x02\xac\x02"))
    yield "padded int", example(entry(b"\x1a\x04\x0a\x02\x87\x00"))
    yield "several bytes", example(entry(b"\x0a\x06\x0a\x01a\x0a\x01b"))
    yield "duplicate key", example(entry(b"\x12\x06\x0a\x04" + one), entry(b"\x1a\x03\x0a\x01\x07"))
    yield "empty feature", example(entry(b""))
    yield "empty list", example(entry(b"\x1a\x00"))
    yield "no value", b"\x0a\x05\x0a\x03\x0a\x01k"
    yield "no key", b"\x0a\x0b\x0a\x09\x12\x07\x12\x05\x0d" + one
    yield (
        "two features fields",
        example(entry(b"\x1a\x03\x0a\x01\x07")) + example(entry(b"\x1a\x03\x0a\x01\x08")),
    )
    yield "value before key", b"\x0a\x0c\x0a\x0a\x12\x05\x1a\x03\x0a\x01\x07\x0a\x01k"
    yield (
        "unknown fields",
        b"\x10\x05\x19" + bytes(8) + b"\x25" + bytes(4) + b"\x32\x01x" + example(entry(b"\x22\x01x")),
    )
    yield "unknown group", b"\x13\x08\x01\x1b\x23\x0a\x01\x00\x14\x24"[:8] + b"\x24" + example(entry(b""))
    yield "nothing", b""


@pytest.mark.parametrize(("name", "data"), list(unpacked()), ids=[name for name, _ in unpacked()])
def test_every_wire_form_means_what_protobuf_says(name, data):
    try:
        message = tf.train.Example.FromString(data)
    except Exception:
        with pytest.raises(CorruptRecord):
            parse_example(data)
        return
    expected = {key: protobuf_values(feature) for key, feature in message.features.feature.items()}
    assert {key: plain(values) for key, values in parse_example(data).items()} == expected
    decoder = ExampleDecoder()
    for _ in range(2):
        assert {key: plain(values) for key, values in decoder.decode(data).items()} == expected


@settings(deadline=None)
@given(st.lists(examples(), min_size=2, max_size=4), st.randoms())
def test_decoder_equals_the_parser_whatever_comes_next(series, random):
    datas = [ExampleLayout(features).encode(values)[12:-4] for features, values in series] * 2
    random.shuffle(datas)
    decoder = ExampleDecoder()
    for data in datas:
        assert {k: plain(v) for k, v in decoder.decode(data).items()} == {
            k: plain(v) for k, v in parse_example(data).items()
        }


def test_decoder_does_not_take_the_places_of_int64_values_written_one_by_one():
    def record(*values):
        numbers = b"".join(b"\x08" + varint(v) for v in values)
        feature = field(3, len(numbers)) + numbers
        entry = b"\x0a\x01k" + field(2, len(feature)) + feature
        features = field(1, len(entry)) + entry
        return field(1, len(features)) + features

    first, second = record(300, 300), record(5, 8, 2)
    assert len(first) == len(second)
    decoder = ExampleDecoder()
    for data, values in ((first, [300, 300]), (second, [5, 8, 2]), (first, [300, 300])):
        assert [found.tolist() for found in decoder.decode(data).values()] == [values]


def test_decoder_of_some_names():
    layout = ExampleLayout([Feature("a", "float", 2), Feature("b", "int64", 2)])
    decoder = ExampleDecoder(["b"])
    for value in (5, 6, 1000):
        found = decoder.decode(layout.encode([np.zeros(2), np.array([value, 7])])[12:-4])
        assert {k: v.tolist() for k, v in found.items()} == {"b": [value, 7]}


def test_floats_are_views_of_the_record():
    data = ExampleLayout([Feature("a", "float", 1000)]).encode([np.arange(1000)])[12:-4]
    values = parse_example(data)["a"]
    assert np.shares_memory(values, np.frombuffer(data, "u1"))
    assert not values.flags.writeable


def test_tf_io_reads_them():
    layout = ExampleLayout([Feature("f", "float", 6), Feature("i", "int64", 3), Feature("b", "bytes", 4)])
    data = layout.encode([np.arange(6.0), np.array([-1, 2, 3000]), np.arange(4, dtype="u1")])[12:-4]
    parsed = tf.io.parse_single_example(
        data,
        {
            "f": tf.io.FixedLenFeature([2, 3], tf.float32),
            "i": tf.io.FixedLenFeature([3], tf.int64),
            "b": tf.io.FixedLenFeature([], tf.string),
        },
    )
    assert parsed["f"].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert parsed["i"].numpy().tolist() == [-1, 2, 3000]
    assert parsed["b"].numpy() == b"\x00\x01\x02\x03"
