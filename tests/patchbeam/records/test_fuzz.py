"""Arbitrary and damaged bytes raise CorruptRecord and nothing else."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patchbeam.errors import CorruptRecord
from patchbeam.records.example import ExampleDecoder, ExampleLayout, Feature, feature_kinds, parse_example
from patchbeam.records.sequence import SequenceLayout, Steps, parse_sequence_example

GOOD = ExampleLayout([Feature("a", "float", 3), Feature("é", "int64", 3), Feature("c", "bytes", 3)]).encode(
    [np.arange(3), np.array([1, 300, -1]), np.arange(3)]
)[12:-4]
SEQUENCE = (
    SequenceLayout([Feature("a", "float", 1)], [Feature("b", "int64", 2)])
    .encode([np.ones(1)], [Steps(np.arange(6).reshape(3, 1, 2) * 100)])
    .data.tobytes()[12:-4]
)
# Bytes that protobuf messages are made of, more often than chance would have it.
TOKENS = st.sampled_from(
    [b"\x0a", b"\x12", b"\x1a", b"\x0d", b"\x08", b"\x0b", b"\x0c", b"\x80", b"\xff", b"\x01", b"\x04"]
)
DATA = st.one_of(st.binary(max_size=200), st.lists(TOKENS, max_size=60).map(b"".join))


def read(parse, data):
    """What a parser finds, or ``None`` where it says that the data is damaged, and how."""
    try:
        return parse(data)
    except CorruptRecord as error:
        assert str(error)
        return None


def agree(data):
    """Whether every parser answers, and those of Examples find the same."""
    read(parse_sequence_example, data)
    found, decoded = read(parse_example, data), read(ExampleDecoder().decode, data)
    kinds = read(feature_kinds, data)
    if found is None:
        return decoded is None
    # a feature without a list has no kind; a list whose numbers are damaged may have one
    return (
        decoded is not None
        and repr(found) == repr(decoded)
        and kinds is not None
        and {kind.name for kind in kinds} == {name for name, values in found.items() if values is not None}
    )


@settings(max_examples=600, deadline=None)
@given(DATA)
@example(b"\x0b" * 5000)
@example(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\xff" * 12)
def test_arbitrary_bytes(data):
    assert agree(data)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([GOOD, SEQUENCE]), st.data())
def test_damaged_messages(good, data):
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    assert agree(bytes(damaged[: data.draw(st.integers(0, len(good)))]))


def test_every_cut():
    for good in (GOOD, SEQUENCE):
        for size in range(len(good)):
            assert agree(good[:size])
